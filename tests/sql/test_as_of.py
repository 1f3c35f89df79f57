"""as_of: the corpus as the documents valid at a moment make it, in every mode and function, and for every reader."""

from collections.abc import Iterator
from typing import Any

import pytest
from pg_graphrag.ground.mode_names import MODES
from psycopg import errors
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.readers import session_of
from tests.sql.ingest import refused, rows, searched_corpus, work

DOCUMENTS = {
    "old": ("Ada Lovelace leads Acme Rockets in Osaka. Ada Lovelace built the Kestrel engine.", None, "2020-01-01"),
    "mid": ("Bob Stone leads Acme Rockets in Oslo. Bob Stone tested the Kestrel engine.", "2020-01-01", "2022-01-01"),
    "new": ("Cy Young leads Acme Rockets in Lima. Cy Young sold the Kestrel engine.", "2022-01-01", None),
    "always": ("Acme Rockets makes the Kestrel engine. Osaka has a harbour.", None, None),
}
VALID = {"2019-05-05": {"old", "always"}, "2020-01-01": {"mid", "always"}, "2022-01-01T00:00:00Z": {"new", "always"}}
QUERY = "Who leads Acme Rockets and the Kestrel engine?"


def put_all(db: Database, keys: set[str]) -> str:
    corpus = searched_corpus(db)
    for key in sorted(keys):
        content, since, until = DOCUMENTS[key]
        db.execute(
            "INSERT INTO graphrag.documents (corpus, source_key, content, valid_from, valid_to) VALUES (%s, %s, %s, %s, %s)",
            [corpus, key, content, since, until],
        )
    return corpus


@pytest.fixture(scope="module")
def corpora(module_db: Database) -> Iterator[dict[str, str]]:
    """The whole corpus under the name "", and for each moment one of the documents that are valid then."""
    module_db.execute("SET timezone = 'UTC'")
    names = {"": put_all(module_db, set(DOCUMENTS))} | {at: put_all(module_db, keys) for at, keys in VALID.items()}
    work(module_db)
    yield names


def found(db: Database, corpus: str, mode: str, **options: Any) -> list[tuple[Any, ...]]:
    return rows(
        db,
        "SELECT source_key, content FROM graphrag.search(%s, corpus => %s, mode => %s, options => %s)",
        *(QUERY, corpus, mode, Jsonb(options)),
    )


def graph(db: Database, corpus: str, at: str | None = None) -> tuple[list[Any], list[Any]]:
    """Nodes and edges by names, without numbers."""
    call = "graphrag.graph_{}_at(%s, %s)" if at else "graphrag.graph_{} WHERE corpus = %s"
    arguments = [corpus, at] if at else [corpus]
    return (
        rows(
            db,
            f'SELECT key, name, type, description, degree, mention_count FROM {call.format("nodes")} ORDER BY key COLLATE "C"',
            *arguments,
        ),
        rows(
            db,
            "SELECT source, source_type, target, target_type, keywords, description, weight, mention_count,"
            f" round(pmi::numeric, 9), round(strength::numeric, 9) FROM {call.format('edges')} ORDER BY 1, 3",
            *arguments,
        ),
    )


@pytest.mark.sample(10)
@pytest.mark.parametrize("at", VALID)
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("graph_global", "drift")])
def test_every_mode_finds_what_was_valid(module_db: Database, corpora: dict[str, str], mode: str, at: str) -> None:
    answer = found(module_db, corpora[""], mode, as_of=at)
    assert answer
    assert {key for key, _ in answer} <= VALID[at]
    by_filter = rows(
        module_db,
        "SELECT source_key, content FROM graphrag.search(%s, corpus => %s, mode => %s, filter => %s)",
        *(QUERY, corpora[""], mode, Jsonb({"$as_of": at})),
    )
    assert answer == by_filter


@pytest.mark.parametrize("at", VALID)
def test_the_graph_is_that_of_a_corpus_of_these_documents_alone(
    module_db: Database, corpora: dict[str, str], at: str
) -> None:
    assert graph(module_db, corpora[""], at) == graph(module_db, corpora[at])
    assert graph(module_db, corpora[at], at) == graph(module_db, corpora[at])


@pytest.mark.parametrize("at", VALID)
def test_neighbors_and_entities_take_it_in_their_filter(module_db: Database, corpora: dict[str, str], at: str) -> None:
    neighbors = (
        "SELECT hop, name, description, degree, relationship"
        "  FROM graphrag.neighbors('Acme Rockets', filter => %s, hops => 2, corpus => %s) ORDER BY 1, 2"
    )
    then = Jsonb({"$as_of": at})
    assert rows(module_db, neighbors, then, corpora[""]) == rows(module_db, neighbors, Jsonb({}), corpora[at])
    entities = (
        "SELECT name, description, degree FROM graphrag.search_entities('Acme Rockets', %s, filter => %s) ORDER BY 1"
    )
    assert rows(module_db, entities, corpora[""], then) == rows(module_db, entities, corpora[at], Jsonb({}))


def test_context_and_filter_go_together(module_db: Database, corpora: dict[str, str]) -> None:
    ((context,),) = rows(
        module_db,
        "SELECT graphrag.context(%s, %s, filter => %s, options => %s)",
        *(QUERY, corpora[""], Jsonb({"$source_key": {"$ne": "always"}}), Jsonb({"as_of": "2021-01-01"})),
    )
    assert "Bob Stone" in str(context)
    assert not any(name in str(context) for name in ("Ada Lovelace", "Cy Young", "harbour"))


def test_the_sessions_time_zone_changes_nothing(module_db: Database, corpora: dict[str, str]) -> None:
    answers = []
    for zone in ("UTC", "Asia/Tokyo", "America/Lima"):
        module_db.execute(f"SET timezone = '{zone}'; SET datestyle = 'German'".encode())
        answers.append(found(module_db, corpora[""], "hybrid", as_of="2020-01-01"))
        answers.append(
            rows(
                module_db,
                "SELECT key FROM graphrag.graph_nodes_at(%s, timestamptz '01.01.2020 00:00+00') ORDER BY 1",
                corpora[""],
            )
        )
    module_db.execute("SET timezone = 'UTC'; RESET datestyle")
    assert answers[::2] == [answers[0]] * 3
    assert answers[1::2] == [answers[1]] * 3


@pytest.mark.parametrize("function", ["graph_nodes_at", "graph_edges_at"])
def test_a_limit_reads_no_more_than_it_shows(module_db: Database, corpora: dict[str, str], function: str) -> None:
    query = f"EXPLAIN SELECT * FROM graphrag.{function}(%s, now()) LIMIT 1"
    plan = "\n".join(line for (line,) in rows(module_db, query, corpora[""]))
    # Its body is a part of the plan, not a function that returns all rows first.
    assert f"Function Scan on {function} " not in plan
    assert "Append" in plan


def test_readers_of_a_part_get_what_is_both_visible_and_valid(db: Database) -> None:
    corpus = put_all(db, set(DOCUMENTS))
    hidden = put_all(db, {"mid"})
    work(db)
    db.execute("SELECT graphrag.protect(%s, $$source_key <> 'always'$$)", [corpus])
    with session_of(db, "graphrag_reader") as reader:
        for mode in ("hybrid", "bm25", "naive", "local", "ppr"):
            assert {key for key, _ in found(reader, corpus, mode, as_of="2021-01-01")} == {"mid"}
        assert graph(reader, corpus, "2021-01-01") == graph(db, hidden)
    db.execute(
        "DO $$ BEGIN CREATE ROLE as_of_nobody LOGIN PASSWORD 'as_of_nobody'; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    db.execute(
        "GRANT USAGE ON SCHEMA graphrag TO as_of_nobody; GRANT EXECUTE ON FUNCTION graphrag.graph_nodes_at TO as_of_nobody"
    )
    db.execute("SET ROLE as_of_nobody")
    with pytest.raises(errors.InsufficientPrivilege):
        db.execute("SELECT * FROM graphrag.graph_nodes_at(%s, now())", [corpus])
    db.execute("RESET ROLE; DROP OWNED BY as_of_nobody; DROP ROLE as_of_nobody")


@pytest.mark.parametrize(
    "moment", ["yesterday", "2024-02-30", 5, "", "infinity", {"$gt": 1}, ["2020-01-01"], "2020-01-01' OR true"]
)
def test_what_is_no_date_is_refused(module_db: Database, corpora: dict[str, str], moment: Any) -> None:
    for statement, argument in (
        ("SELECT * FROM graphrag.search('x', %s, options => %s)", {"as_of": moment}),
        ("SELECT * FROM graphrag.search('x', %s, filter => %s)", {"$as_of": moment}),
        ("SELECT graphrag.context('x', %s, options => %s)", {"as_of": moment}),
    ):
        error = refused(module_db, statement, corpora[""], Jsonb(argument))
        assert error.sqlstate == "22023"


def test_evaluation_does_not_pretend(module_db: Database, corpora: dict[str, str]) -> None:
    questions = [{"question": QUERY, "evidence": ["old"]}]
    options = {"variants": {"then": {"mode": "bm25", "as_of": "2019-01-01"}}}
    error = refused(
        module_db,
        "SELECT * FROM graphrag.evaluate(%s, %s::jsonb, ARRAY['then'], options => %s)",
        *(corpora[""], Jsonb(questions), Jsonb(options)),
    )
    assert error.sqlstate == "22023"
