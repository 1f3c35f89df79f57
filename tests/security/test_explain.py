"""What a reader learns by trying comparisons on hidden rows.

PostgreSQL runs those that leak nothing by themselves (=, <, ^@ and their like) before row-level security and inside security
barriers. EXPLAIN ANALYZE and the statistics of a transaction tell what came of it.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.runtime.cluster import Database
from tests.security.portrait import VIEWS, Reader
from tests.sql.ingest import put, rows, value, work

OPEN = "Ada Lovelace met Charles Babbage. Ada Lovelace praised the Analytical Engine."
HIDDEN = {
    "part": "Mata Hari met Alan Turing. Mata Hari paid Alan Turing. Mata Hari praised Project Zephyr.",
    "theirs": "Kim Philby met Guy Burgess. Kim Philby paid Guy Burgess. Kim Philby praised Project Yankee.",
}
# Of a text that a hidden row holds, and of one that none does: the same but for the place of a letter.
COMPARISONS = (
    "{column} = '{}'",
    "{column} ^@ '{}'",
    # By the planner's rules it costs nothing.
    "('{{\"{}\": 1}}'::jsonb)[{column}] IS NOT NULL",
)
# Of what a schema asks for: tests/sql/test_extraction_schema.py has rows of them.
SCHEMA_VIEWS = ("graph_mentions", "entity_attributes", "unfit_extractions")
# A plan that was good for five times may be made anew.
CUSTOM_PLANS = "SET plan_cache_mode = force_custom_plan"
# A comparison that tells something does so each time.
LOOKS = 5
COUNTED = """
SELECT relid::regclass::text, seq_scan, seq_tup_read, coalesce(idx_scan, 0), coalesce(idx_tup_fetch, 0)
  FROM pg_stat_xact_all_tables
 WHERE schemaname = 'graphrag'
    OR relid IN (SELECT c.reltoastrelid FROM pg_class c WHERE c.relnamespace = 'graphrag'::regnamespace)
 ORDER BY relid
"""


@pytest.fixture(scope="module")
def scene(module_db: Database) -> Iterator[Database]:
    """Alice sees a part of the corpus "part", carol the corpus "mine" alone; what is hidden has claims and communities."""
    db = module_db
    for corpus in ("part", "theirs", "mine"):
        db.execute("SELECT graphrag.create_corpus(%s, '{\"communities\": false}')", [corpus])
        put(db, corpus, "open", OPEN, metadata={"open": True})
    for corpus, text in HIDDEN.items():
        put(db, corpus, f"secret of {corpus}", text, f"Dossier of {text[:10]}", metadata={"open": False})
    work(db)
    db.execute(
        "INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, subject, object_key, object,"
        "                             type, status, description, source_text)"
        " SELECT d.corpus_id, d.id, c.id, lower(left(d.content, 9)), left(d.content, 9), 'x', right(d.content, 9),"
        "        'Bribe' || d.corpus, 'SUSPECTED', right(d.content, 20), left(d.content, 20)"
        "   FROM graphrag.documents d JOIN graphrag.chunks c ON c.document_id = d.id WHERE d.source_key ~ 'secret'"
    )
    # As a model's extraction by a schema leaves it.
    secrets = "FROM graphrag.documents d WHERE d.source_key ~ 'secret' AND x.document_id = d.id"
    db.execute(
        f"UPDATE graphrag.chunks x SET unfit = jsonb_build_array(jsonb_build_object('kind', 'entity' || d.corpus,"
        f" 'item', jsonb_build_object('name', 'x'), 'reason', 'of ' || d.corpus)) {secrets}".encode()
    )
    db.execute(
        f"UPDATE graphrag.entity_mentions x SET attributes = jsonb_build_object('paid by ' || d.corpus, 1) {secrets}".encode()
    )
    db.execute("SELECT graphrag.refresh_communities(name) FROM graphrag.corpora")
    work(db)
    db.execute("ANALYZE")
    db.execute("CREATE ROLE alice_of_explain IN ROLE graphrag_reader; CREATE ROLE carol_of_explain")
    db.execute("SELECT graphrag.grant_corpus('mine', 'carol_of_explain', 'write')")
    db.execute("SELECT graphrag.protect('part', '(metadata ->> ''open'')::boolean')")
    yield db
    db.execute(
        "RESET ROLE; DROP OWNED BY alice_of_explain, carol_of_explain; DROP ROLE alice_of_explain, carol_of_explain"
    )


def trace(reader: Reader, statement: str, text: str) -> str:
    """All that PostgreSQL tells of how a statement with this text for {} was run, but for the text."""
    explain = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, COSTS OFF, SUMMARY OFF) {statement.format(text)}"
    with reader.connection.transaction(force_rollback=True):
        before = rows(reader.connection, COUNTED)
        plan = reader.gives(explain)
        after = rows(reader.connection, COUNTED)
    counted = [
        f"{now[0]} {[a - b for a, b in zip(now[1:], then[1:], strict=True)]}"
        for now, then in zip(after, before, strict=True)
    ]
    return "\n".join([plan.replace(text, "…"), *(line for line in counted if "[0, 0, 0, 0]" not in line)])


def plan(reader: Reader, statement: str, text: str) -> str:
    return reader.gives(statement.format(text)).replace(text, "…")


def assert_tells_nothing(told: Callable[[str], str], *texts: str) -> None:
    """Fail where what is told of one text differs from what is told of another, each time.

    The first look may read catalogs, of which the session keeps what it read; and between two looks autovacuum may bring new
    statistics, which empty caches and make other plans.
    """
    for _ in range(LOOKS):
        answers = {text: told(text) for text in texts}
        if len(set(answers.values())) == 1:
            return
    pytest.fail("\n".join(f"{text}: {answer}" for text, answer in answers.items()))


def hidden_texts(db: Database, relation: str, corpus: str) -> dict[str, str]:
    """A text of each column that no other corpus holds, of rows with what is hidden of this one."""
    columns = rows(
        db,
        "SELECT a.attname FROM pg_attribute a WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND a.atttypid = 'text'::regtype",
        f"graphrag.{relation}",
    )
    texts = {}
    for (column,) in columns:
        of = f"SELECT {column} FROM graphrag.{relation} WHERE corpus"
        text = value(
            db,
            f"SELECT min(x) FROM ({of} = '{corpus}' EXCEPT {of} <> '{corpus}') x (x) WHERE x !~ '[''\n\"]|Ada|Engine|Babbage'",
        )
        if text and column != "corpus":
            texts[column] = text
    # It has an index, which PostgreSQL goes by before row-level security: SECURITY.md.
    if relation == "documents":
        del texts["source_key"]
    return texts


def wrong(text: str) -> str:
    return text[:-1] + chr(ord(text[-1]) ^ 1)


@pytest.mark.sample(6)
@pytest.mark.parametrize(("role", "corpus"), [("alice_of_explain", "part"), ("carol_of_explain", "theirs")])
@pytest.mark.parametrize("relation", [*VIEWS, *SCHEMA_VIEWS, "documents"])
def test_how_a_statement_was_run_tells_no_hidden_text(scene: Database, relation: str, role: str, corpus: str) -> None:
    texts = hidden_texts(scene, relation, corpus)
    assert texts or relation == "graph_growth"
    reader = Reader(scene.url, role, CUSTOM_PLANS)
    # What a session reads first it keeps.
    reader.gives(f"SELECT count(*) FROM graphrag.{relation}")
    for setting in ("SET enable_seqscan = on", "SET enable_hashjoin = off; SET enable_mergejoin = off"):
        reader.connection.execute(setting.encode())
        for column, text in texts.items():
            for comparison in COMPARISONS:
                condition = comparison.replace("{column}", column)
                sql = f"SELECT FROM graphrag.{relation} WHERE {condition}"
                assert_tells_nothing(partial(trace, reader, sql), wrong(text), text)
    reader.connection.close()


@pytest.mark.parametrize("statement", ["UPDATE graphrag.documents SET title = title", "DELETE FROM graphrag.documents"])
def test_how_a_writers_statement_was_run_tells_no_hidden_text(scene: Database, statement: str) -> None:
    reader = Reader(scene.url, "carol_of_explain", CUSTOM_PLANS)
    for column, text in hidden_texts(scene, "documents", "theirs").items():
        assert_tells_nothing(partial(trace, reader, f"{statement} WHERE {column} ^@ '{{}}'"), text, wrong(text))
    reader.connection.close()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "relation", ["documents", "document_coverage", "graph_claims", "community_overview", *SCHEMA_VIEWS]
)
def test_a_plan_tells_no_hidden_text(scene: Database, relation: str) -> None:
    reader = Reader(scene.url, "alice_of_explain", CUSTOM_PLANS)
    for column, text in hidden_texts(scene, relation, "part").items():
        if column in ("source_key", "status"):  # which has no secrets
            continue
        for operator in ("=", "<", ">"):
            sql = f"EXPLAIN SELECT FROM graphrag.{relation} WHERE {column} {operator} '{{}}'"
            assert_tells_nothing(partial(plan, reader, sql), text, wrong(text), "0#", "~#")
    reader.connection.close()


@pytest.mark.parametrize("view", ["graph_edges", "graph_nodes"])
def test_a_plan_counts_alike_what_hidden_documents_state_too(scene: Database, view: str) -> None:
    corpus, hidden = f"probed by {view}", "Mata Hari met Alan Turing."
    said = "Ada Lovelace met Charles Babbage."
    scene.execute("SELECT graphrag.create_corpus(%s, '{\"communities\": false}')", [corpus])
    for key, text in (("open", said), ("hidden", hidden), ("other", said)):
        put(scene, corpus, key, text, metadata={"open": key == "open"})
    scene.execute("SELECT graphrag.protect(%s, '(metadata ->> ''open'')::boolean')", [corpus])
    counts = []
    for text in (said, hidden):
        put(scene, corpus, "other", text, metadata={"open": False})
        work(scene)
        reader = Reader(scene.url, "alice_of_explain", CUSTOM_PLANS)
        shown = rows(reader.connection, f"SELECT x.* FROM graphrag.{view} x WHERE corpus = %s ORDER BY 1, 2", corpus)
        plan = reader.gives(f"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) SELECT FROM graphrag.{view}")
        counts.append((shown, re.findall(r"rows=\d+|Removed by \w+: \d+", plan)))
        reader.connection.close()
    assert counts[0] == counts[1]
    scene.execute("SELECT graphrag.drop_corpus(%s)", [corpus])


def test_a_plan_does_not_count_who_of_a_claim_is_named_in_hidden_documents_alone(scene: Database) -> None:
    corpus = "probed by claims"
    by_index = [f"SET enable_{how} = off" for how in ("hashjoin", "mergejoin", "seqscan")]
    scene.execute("SELECT graphrag.create_corpus(%s, '{\"communities\": false}')", [corpus])
    put(scene, corpus, "open", "Ada Lovelace wrote notes.", metadata={"open": True})
    scene.execute("SELECT graphrag.protect(%s, '(metadata ->> ''open'')::boolean')", [corpus])
    plans: list[list[str]] = []
    for name in ("Mata Hari", "Kim Philby"):
        put(scene, corpus, "hidden", f"{name} wrote notes.", metadata={"open": False})
        work(scene)
        if not plans:
            scene.execute(
                "INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, subject, object_key, object,"
                "                             type, status, description)"
                " SELECT d.corpus_id, d.id, c.id, 'ada lovelace', 'Ada Lovelace', 'mata hari', 'Mata Hari', 'debt', 'TRUE',"
                "        'Owes.'"
                "   FROM graphrag.documents d JOIN graphrag.chunks c ON c.document_id = d.id"
                "  WHERE d.corpus = %s AND d.source_key = 'open'",
                [corpus],
            )
        reader = Reader(scene.url, "alice_of_explain", CUSTOM_PLANS, *by_index)
        plan = reader.gives("EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) SELECT * FROM graphrag.graph_claims")
        plans.append(re.findall(r"rows=\d+|Removed by \w+: \d+", plan))
        reader.connection.close()
    assert plans[0] == plans[1] != []
    scene.execute("SELECT graphrag.drop_corpus(%s)", [corpus])


def test_grants_of_others_are_not_counted(scene: Database) -> None:
    reader = Reader(scene.url, "alice_of_explain", CUSTOM_PLANS)
    sql = "SELECT FROM graphrag.granted_corpora WHERE level = '{}'"
    assert_tells_nothing(partial(trace, reader, sql), "write", "wrote")
    reader.connection.close()


def test_attachments_of_others_are_not_counted(scene: Database) -> None:
    scene.execute("CREATE TABLE public.letters (number int PRIMARY KEY, words text)")
    scene.execute("SELECT graphrag.attach_table('public.letters', 'theirs', 'number', '{words}')")
    scene.execute("CREATE ROLE anybody_of_explain IN ROLE graphrag_member")
    reader = Reader(scene.url, "anybody_of_explain", CUSTOM_PLANS)
    own, states = "graphrag_attached._attachments", "graphrag.attached_tables"
    # Whether there is a table of a name everybody may know, by the catalogs; not whether it is attached.
    scene.execute("CREATE TABLE public.alone ()")
    for view, condition, text, other in (
        (own, "corpus = '{}'", "theirs", "nobody"),
        (own, "key_columns = '{{{}}}'", "number", "nobody"),
        (own, "table_name = '{}'", "letters", "alone"),
        (states, "corpus = '{}'", "theirs", "nobody"),
        (states, "attached_table = '{}'", "public.letters", "public.alone"),
        (states, "state = '{}'", "current", "broken"),
    ):
        assert_tells_nothing(partial(trace, reader, f"SELECT FROM {view} WHERE {condition}"), text, other)
    reader.connection.close()
    scene.execute(
        "SELECT graphrag.detach_table('public.letters'); DROP TABLE public.letters, public.alone; DROP ROLE anybody_of_explain"
    )
