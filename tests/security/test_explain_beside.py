"""What a reader learns from how the views of a database without the extension are run: they read derived tables themselves.

In the server a function stands before these tables, and EXPLAIN shows the function alone.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from pg_graphrag import GraphRAG

from tests.runtime.cluster import Cluster, Database, Server
from tests.sql.two_hosts import OWNER, plain_database, superuser_url

OPEN = "Ada Lovelace met Charles Babbage. Ada Lovelace praised the Analytical Engine."
# As many words, names and sentences in both; other letters.
HIDDEN = (
    "Mata Hari met Alan Turing. Ada Lovelace paid Alan Turing. Mata Hari praised Project Zephyr.",
    "Kim Burge met Alec Tarvin. Ada Lovelace paid Alec Tarvin. Kim Burge praised Project Yankee.",
)
READER = "reader_of_plans"
VIEWS = ("_stated_nodes", "_stated_edges", "graph_nodes", "graph_edges")
# It brings new statistics, and so other plans, to one database before the other.
NO_AUTOVACUUM = """
DO $$
DECLARE stored regclass;
BEGIN
    FOR stored IN SELECT oid FROM pg_class WHERE relnamespace = 'graphrag'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', stored);
    END LOOP;
END $$
"""
SETTINGS = (
    "SET enable_seqscan = on",
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off",
)


@pytest.fixture(scope="module")
def sessions(shared_cluster: Cluster | Server) -> Iterator[list[Database]]:
    """The reader's sessions in two databases, whose hidden documents are of other words."""
    with ExitStack() as stack:
        readers = []
        for text in HIDDEN:
            url = stack.enter_context(plain_database(shared_cluster))
            with GraphRAG(url) as rag:
                rag.create_corpus(communities=False)
                rag.insert({"source_key": "open", "content": OPEN, "metadata": {"open": True}})
                rag.insert({"source_key": "hidden", "title": text[:9], "content": text, "metadata": {"open": False}})
                rag.process_jobs()
            with Database.open(superuser_url(url)) as superuser:
                if not readers:
                    superuser.execute(
                        f"CREATE ROLE {READER} IN ROLE graphrag_reader; GRANT {READER} TO {OWNER}".encode()
                    )
                    stack.callback(_drop_reader, superuser_url(url))
                superuser.execute("SELECT graphrag.protect('default', '(metadata ->> ''open'')::boolean')")
                superuser.execute(NO_AUTOVACUUM)
                superuser.execute("ANALYZE")
            readers.append(stack.enter_context(Database.open(url)))
            readers[-1].execute(f"SET ROLE {READER}".encode())
        yield readers


def _drop_reader(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute(f"DROP OWNED BY {READER}; DROP ROLE {READER}".encode())


def plan(session: Database, statement: str) -> str:
    lines = session.execute(
        f"EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) {statement}".encode()
    )
    return "\n".join(row[0] for row in lines.fetchall())


@pytest.mark.sample(1)
@pytest.mark.parametrize("view", VIEWS)
def test_a_plan_is_the_same_whatever_the_hidden_texts_are(sessions: list[Database], view: str) -> None:
    for setting in SETTINGS:
        plans = []
        for session in sessions:
            session.execute(setting.encode())
            plans.append(plan(session, f"SELECT * FROM graphrag.{view}"))
        # It says how many rows there are, which SECURITY.md states.
        assert plans[0].splitlines() == plans[1].splitlines()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("view", "column"),
    [("_stated_nodes", column) for column in ("names", "types", "entity_descriptions")]
    + [("_stated_edges", column) for column in ("keywords", "relationship_descriptions")],
)
def test_guesses_are_run_alike_whether_they_are_true_of_hidden_rows(
    sessions: list[Database], view: str, column: str
) -> None:
    guesses = [word for text in HIDDEN for word in (text, text[:9], text[14:25])]
    for setting in SETTINGS:
        sessions[0].execute(setting.encode())
        for comparison in (
            f"{column} @> ARRAY['{{}}']",
            f"{column}[1] ^@ '{{}}'",
            f"('{{{{\"{{}}\": 1}}}}'::jsonb)[{column}[1]] IS NOT NULL",
        ):
            statements = [f"SELECT FROM graphrag.{view} WHERE {comparison.format(guess)}" for guess in guesses]
            traces = {
                plan(sessions[0], statement).replace(guess, "…")
                for guess, statement in zip(guesses, statements, strict=True)
            }
            assert len(traces) == 1, (comparison, *traces)


@pytest.mark.parametrize("view", VIEWS)
def test_a_function_of_the_readers_is_given_no_hidden_row(sessions: list[Database], view: str) -> None:
    session = sessions[0]
    session.execute(
        "CREATE OR REPLACE FUNCTION pg_temp.spy(shown anyelement) RETURNS boolean LANGUAGE plpgsql COST 0.0000001"
        " AS $$ BEGIN RAISE NOTICE '%', shown; RETURN true; END $$"
    )
    notices: list[str] = []
    session.add_notice_handler(lambda diag: notices.append(diag.message_primary or ""))
    for setting in SETTINGS:
        session.execute(setting.encode())
        session.execute(f"SELECT count(*) FROM graphrag.{view} v WHERE pg_temp.spy(v::text)".encode())
    assert "Lovelace" in " ".join(notices) or view == "_stated_edges"
    assert not any(word in notice for notice in notices for word in ("Mata", "Turing", "Zephyr"))
