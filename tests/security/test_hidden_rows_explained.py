"""What a reader learns of rows that he may not SELECT by trying comparisons on views that join names of rows."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.runtime.cluster import Database
from tests.security.portrait import Reader
from tests.security.test_explain import COMPARISONS, CUSTOM_PLANS, assert_tells_nothing, trace, wrong
from tests.security.test_hidden_rows_in_contexts import SECURED
from tests.sql.rows import attach, index

NO_LOOPS = "RESET enable_hashjoin; RESET enable_mergejoin; SET enable_nestloop = off; SET enable_indexscan = off"
LOG = "Big Bertha stood still at Lyon Works. Carl Kent repaired Big Bertha."
# Of hidden rows, and of a hidden document that calls a visible row by its alias.
HIDDEN = {
    "graph_mentions": {"title": ("LH 455", "A dossier"), "name": ("LH 455", "Zeno Vale")},
    "graph_nodes": {"name": ("LH 455", "Zeno Vale"), "description": ("plant: Lyon Works",)},
    "graph_edges": {"target": ("LH 455", "Zeno Vale"), "description": ("Zeno Vale hid behind Big Bertha.",)},
    "entity_timeline": {"name": ("LH 455", "Zeno Vale")},
}


@pytest.fixture(scope="module")
def scene(module_db: Database) -> Iterator[Database]:
    db = module_db
    attach(db)
    db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('log', %s)", [LOG])
    db.execute(
        "INSERT INTO graphrag.documents (source_key, title, content, metadata) VALUES ('dossier', 'A dossier',"
        " 'Zeno Vale hid behind Big Bertha.', '{\"secret\": true}')"
    )
    index(db)
    db.execute("SELECT graphrag.protect('default', 'NOT metadata ? ''secret''')")
    db.execute("ANALYZE")
    db.execute("CREATE ROLE rows_of_explain IN ROLE graphrag_reader")
    for statement in SECURED:
        db.execute(statement.replace("rows_reader", "rows_of_explain").encode())
    yield db
    db.execute("DROP OWNED BY rows_of_explain; DROP ROLE rows_of_explain")


@pytest.mark.sample(2)
@pytest.mark.parametrize("relation", HIDDEN)
def test_how_a_statement_was_run_tells_no_text_of_a_hidden_row(scene: Database, relation: str) -> None:
    reader = Reader(scene.url, "rows_of_explain", CUSTOM_PLANS)
    # What a session reads first it keeps.
    reader.gives(f"SELECT count(*) FROM graphrag.{relation}")
    for setting in ("SET enable_seqscan = on", "SET enable_hashjoin = off; SET enable_mergejoin = off", NO_LOOPS):
        reader.connection.execute(setting.encode())
        for column, texts in HIDDEN[relation].items():
            for text in texts:
                for comparison in COMPARISONS:
                    condition = comparison.replace("{column}", column)
                    sql = f"SELECT FROM graphrag.{relation} WHERE {condition}"
                    assert_tells_nothing(partial(trace, reader, sql), wrong(text), text)
    reader.connection.close()


@pytest.mark.parametrize("relation", ["graph_mentions"])
def test_a_plan_tells_no_text_of_a_hidden_row(scene: Database, relation: str) -> None:
    reader = Reader(scene.url, "rows_of_explain")
    for column, texts in HIDDEN[relation].items():
        for text in texts:
            for operator in ("=", "<", ">"):
                sql = f"EXPLAIN SELECT FROM graphrag.{relation} WHERE {column} {operator} '{{}}'"
                plans = {
                    reader.gives(sql.format(guess)).replace(guess, "…") for guess in (text, wrong(text), "0#", "~#")
                }
                assert len(plans) == 1, (column, operator, *plans)
    reader.connection.close()
