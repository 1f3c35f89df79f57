"""search() of corpora of other nodes: the rows and scores that the node gives, alone and merged; what is said when it fails."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.ground.mode_names import MODES

from tests.runtime import beside
from tests.runtime.cluster import Cluster, Database, Server, free_port
from tests.sql.ingest import ROCKETS, STORIES, put, put_all, refused, rows, search, value, work
from tests.sql.linked_nodes import link, login, map_role, unlink
from tests.sql.test_several_corpora import merged, notices_of, places

pytestmark = pytest.mark.skipif(beside.IS_BESIDE, reason="the other node answers SQL, which a database beside does not")

HERE, THERE = "computers", 'it\'s "there", {*}'
QUERY = "Who admired Ada Lovelace at Harvard?"
ENGINE = "Which engine burns methane?"


@pytest.fixture(scope="module")
def there(shared_cluster: Cluster | Server, module_db: Database) -> Iterator[Database]:
    """A node b that has the corpus THERE, and one named as that of this database, to compare with."""
    with Database.open(shared_cluster.create_database("node_b", "template")) as node:
        for db, name in ((module_db, HERE), (node, HERE), (node, THERE)):
            db.execute('SELECT graphrag.create_corpus(%s, \'{"communities": true, "cypher": false}\')', [name])
        for db in (module_db, node):
            put_all(db, HERE, STORIES)
        for key, (title, content) in ROCKETS.items():
            put(node, THERE, key, content, title, {"number": len(key), "title": title})
        work(module_db)
        work(node)
        node.url = shared_cluster.url("node_b")
        link(module_db, "b", node.url)
        module_db.execute("SELECT graphrag.place_corpus(%s, 'b')", [THERE])
        yield node
    shared_cluster.drop_database("node_b")


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", MODES)
def test_rows_are_those_that_the_node_gives(module_db: Database, there: Database, mode: str) -> None:
    for query in (ENGINE, QUERY, "", None):
        assert search(module_db, query, THERE, mode) == search(there, query, THERE, mode)


@pytest.mark.parametrize(
    "arguments",
    [
        {"top_k": 1},
        {"top_k": 0},
        {"filter": {"title": "Bob Stone"}},
        {"filter": {"$not": {"number": {"$gte": 1}}}},
        {"options": {"offset": 1, "min_relevance": 0.01}},
        {"options": {"near_duplicates": "behind", "graph_top_k": 3}},
        {"low_level_keywords": ['Bob "\\ Stone', "{", None], "high_level_keywords": ["engine, methane"]},
        {"low_level_keywords": [], "top_k": 2},
        {"options": {"as_of": "2100-01-01"}},
    ],
)
def test_all_arguments_go_along(module_db: Database, there: Database, arguments: dict[str, Any]) -> None:
    assert search(module_db, ENGINE, THERE, **arguments) == search(there, ENGINE, THERE, **arguments)


@pytest.mark.parametrize("arguments", [{}, {"top_k": 3, "options": {"offset": 2}}, {"options": {"min_relevance": 0.3}}])
@pytest.mark.parametrize("query", [QUERY, ENGINE])
def test_several_are_merged_as_in_one_database(
    module_db: Database, there: Database, query: str, arguments: dict[str, Any]
) -> None:
    expected = merged(there, [HERE, THERE], query, **arguments)
    for corpora in ([HERE, THERE], ["*"], ["*", THERE]):
        hits = merged(module_db, corpora, query, **arguments)
        own = [{name: row[name] for name in ("rank", "corpus", "source_key", "content")} for row in hits]
        assert own == [{name: row[name] for name in own[0]} for row in expected]
        # Numbers of rows are each database's own.
        assert [row for row in hits if row["corpus"] == THERE] == [row for row in expected if row["corpus"] == THERE]
    assert {row["corpus"] for row in expected} == {HERE, THERE} or arguments


def test_corpora_of_a_node_alone_are_merged_too(module_db: Database, there: Database) -> None:
    assert merged(module_db, [THERE], ENGINE) == merged(there, [THERE], ENGINE)
    assert merged(module_db, [THERE], ENGINE, corpus_timeout=20.0) == merged(there, [THERE], ENGINE)


def test_an_error_of_the_node_names_it(module_db: Database, there: Database) -> None:
    for call, sqlstate in (
        ("search('x', %s, mode => 'none')", "22023"),
        ("search('x', %s, filter => '{\"$relation\": \"no.such\"}')", "42P01"),
        ("search('x', %s, top_k => 3, options => '{\"rrf_k\": \"x\"}')", "22023"),
    ):
        at_node, here = (refused(db, f"SELECT * FROM graphrag.{call}", THERE) for db in (there, module_db))
        message = str(here.message_primary).removeprefix("graphrag: ")
        assert (here.sqlstate, here.message_hint) == (sqlstate, at_node.message_hint)
        assert message == 'node "b": ' + str(at_node.message_primary).removeprefix("graphrag: ")


def test_what_one_node_lacks_is_its_fault_among_several(module_db: Database, there: Database) -> None:
    module_db.execute("SELECT graphrag.place_corpus('gone', 'b')")
    warnings = notices_of(module_db)
    hits = merged(module_db, [HERE, THERE, "gone"])
    assert places(hits) == places(merged(module_db, [HERE, THERE]))
    assert list(hits[0]["explain"]["unanswered"]) == ["gone"]
    assert hits[0]["explain"]["unanswered"]["gone"] == 'node "b": corpus "gone" does not exist'
    assert any('corpus "gone" did not answer: node "b"' in text for text in warnings)
    diag = refused(module_db, "SELECT * FROM graphrag.search('x', 'gone')")
    assert (diag.sqlstate, 'node "b"' in str(diag.message_primary)) == ("42704", True)
    # What follows urls of this database's catalogue gets none of another's.
    assert "postgresql://" not in str(diag.message_detail or "")
    module_db.execute("SELECT graphrag.place_corpus('gone', NULL)")


def test_a_node_that_is_down_is_said(module_db: Database, there: Database) -> None:
    link(module_db, "down", f"postgresql://postgres:x@127.0.0.1:{free_port()}/none")
    module_db.execute("SELECT graphrag.place_corpus('far', 'down')")
    try:
        diag = refused(module_db, "SELECT * FROM graphrag.search('x', 'far')")
        assert (diag.sqlstate, str(diag.message_primary)) == ("08001", 'graphrag: node "down": it cannot be reached')
        assert diag.message_hint and "refused" in str(diag.message_detail)
        for corpora, named in (([HERE, THERE, "far"], "far"), (["*"], '* at node "down"')):
            hits = merged(module_db, corpora)
            assert places(hits) == places(merged(module_db, [HERE, THERE]))
            assert hits[0]["explain"]["unanswered"] == {named: 'node "down": it cannot be reached'}
        alone = refused(module_db, "SELECT * FROM graphrag.search('x', corpora => '{far}')")
        assert (alone.sqlstate, 'corpus "far" did not answer' in str(alone.message_primary)) == ("08001", True)
    finally:
        unlink(module_db, "down")


@pytest.mark.parametrize(
    "call",
    ["SELECT graphrag.context('x', %s)", "SELECT * FROM graphrag.ask('x', %s)", "SELECT graphrag.drop_corpus(%s)"],
)
def test_what_is_no_search_is_for_the_node(module_db: Database, there: Database, call: str) -> None:
    diag = refused(module_db, call, THERE)
    assert (diag.sqlstate, 'is at node "b"' in str(diag.message_primary)) == ("42704", True)


def test_what_lacks_before_a_node_can_be_asked_is_said(module_db: Database, there: Database) -> None:
    module_db.execute("SELECT graphrag.add_node('c', 'postgresql://c.example/app')")
    module_db.execute("SELECT graphrag.place_corpus('at c', 'c')")
    owner = value(module_db, "SELECT current_user")
    with login(module_db, there) as (reader, password), Database.open(module_db.url) as session:
        session.execute(f"SET ROLE {reader}".encode())

        def missing() -> str:
            for call in ("'at c'", "corpora => '{at c}'"):
                diag = refused(session, f"SELECT * FROM graphrag.search('x', {call})")
                assert (diag.sqlstate, diag.message_detail) == ("42704", "postgresql://c.example/app")
            return str(diag.message_hint)

        assert "CREATE SERVER c" in missing()
        module_db.execute("CREATE SERVER c FOREIGN DATA WRAPPER postgres_fdw")
        assert f"GRANT USAGE ON FOREIGN SERVER c TO {reader}" in missing()
        module_db.execute(f"GRANT USAGE ON FOREIGN SERVER c TO {reader}".encode())
        assert "ADD host" in missing()
        module_db.execute("ALTER SERVER c OPTIONS (ADD host '127.0.0.1')")
        assert f"CREATE USER MAPPING FOR {reader}" in missing()
        # One for all is not his own.
        module_db.execute("CREATE USER MAPPING FOR public SERVER c OPTIONS (user 'postgres', password 'x')")
        module_db.execute(f"CREATE USER MAPPING FOR {owner} SERVER c OPTIONS (user 'postgres', password 'x')".encode())
        assert f"CREATE USER MAPPING FOR {reader}" in missing()
        session.execute(
            f"CREATE USER MAPPING FOR {reader} SERVER c OPTIONS (user '{reader}', password '{password}')".encode()
        )
        assert refused(session, "SELECT * FROM graphrag.search('x', 'at c')").sqlstate == "08001"
    unlink(module_db, "c")


def test_a_connection_is_kept_and_made_anew(module_db: Database, there: Database) -> None:
    backends = (
        "SELECT array_agg(pid) FROM pg_stat_activity WHERE application_name = 'pg_graphrag' AND datname = 'node_b'"
    )
    with Database.open(module_db.url) as session:
        before = set(value(there, backends) or [])
        expected = search(session, ENGINE, THERE)
        (own,) = set(value(there, backends)) - before
        assert search(session, ENGINE, THERE) == expected
        assert set(value(there, backends)) - before == {own}
        there.execute("SELECT pg_terminate_backend(%s, 5000)", [own])
        assert search(session, ENGINE, THERE) == expected
        (second,) = set(value(there, backends)) - before
        assert second != own
        # An error leaves it as it is.
        refused(session, "SELECT * FROM graphrag.search('x', %s, mode => 'none')", THERE)
        assert set(value(there, backends)) - before == {second}


def test_a_node_asks_no_third_one(module_db: Database, there: Database) -> None:
    """Two catalogues that each say that the other has a corpus."""
    link(there, "a", module_db.url)
    there.execute("SELECT graphrag.place_corpus('nowhere', 'a')")
    module_db.execute("SELECT graphrag.place_corpus('nowhere', 'b')")
    try:
        diag = refused(module_db, "SELECT * FROM graphrag.search('x', 'nowhere')")
        assert str(diag.message_primary) == 'graphrag: node "b": corpus "nowhere" is at node "a"'
        assert diag.sqlstate == "42704"
        assert places(merged(module_db, ["*"])) == places(merged(module_db, [HERE, THERE]))
    finally:
        unlink(there, "a")
        module_db.execute("SELECT graphrag.place_corpus('nowhere', NULL)")


def test_a_client_that_asks_the_nodes_itself_gets_each_row_once(module_db: Database, there: Database) -> None:
    with GraphRAG(module_db.url) as rag:
        hits = rag.search(ENGINE, corpora=["*"])
        assert [(row.corpus, row.source_key) for row in hits] == places(merged(module_db, ["*"], ENGINE))
        # The node has one of that name, too.
        assert {name for row in hits for name in row.explain.get("unanswered", {})} == {HERE}


def test_a_search_may_stay_here(module_db: Database, there: Database) -> None:
    here = {"options": {"nodes": "here"}}
    assert {row["corpus"] for row in merged(module_db, ["*"], ENGINE, top_k=100, **here)} == {HERE}
    for call in ("%s", "corpora => ARRAY[%s]"):
        diag = refused(
            module_db, f"SELECT * FROM graphrag.search('x', {call}, options => '{{\"nodes\": \"here\"}}')", THERE
        )
        assert (diag.sqlstate, 'is at node "b"' in str(diag.message_primary)) == ("42704", True)
    for call in ("context('x'", "search('x'"):
        options = '{"nodes": "here"}' if call.startswith("context") else '{"nodes": "none"}'
        assert refused(module_db, f"SELECT graphrag.{call}, %s, options => %s)", HERE, options).sqlstate == "22023"
    assert search(module_db, QUERY, HERE, **here) == search(module_db, QUERY, HERE)


def test_warnings_of_the_node_are_passed_on(module_db: Database, there: Database) -> None:
    there.execute("SELECT graphrag.create_corpus('empty', '{\"cypher\": false}')")
    put(there, "empty", "a", "Ada.")
    module_db.execute("SELECT graphrag.place_corpus('empty', 'b')")
    with Database.open(module_db.url) as session:
        notices = notices_of(session)
        assert search(session, "Ada", "empty") == []
        assert any(text.startswith('node "b": no document of corpus "empty" is indexed yet') for text in notices)
    there.execute("SELECT graphrag.drop_corpus('empty')")
    module_db.execute("SELECT graphrag.place_corpus('empty', NULL)")


def test_it_works_where_nothing_may_be_written(module_db: Database, there: Database) -> None:
    with Database.open(module_db.url) as session:
        session.execute("SET default_transaction_read_only = on")
        assert search(session, ENGINE, THERE) == search(there, ENGINE, THERE)
        assert rows(session, "SELECT count(*) FROM graphrag.search(%s, %s)", ENGINE, THERE) == [(3,)]


def test_numbers_keep_their_digits(module_db: Database, there: Database) -> None:
    put(there, THERE, "pi", "The number pi has digits.")
    there.execute(
        "UPDATE graphrag.documents SET metadata = '{\"pi\": 3.14159265358979323846264338327950288}' WHERE source_key = 'pi'"
    )
    work(there)
    try:
        for call in ("graphrag.search('digits of pi', %s)", "graphrag.search('digits of pi', corpora => ARRAY[%s])"):
            sql = f"SELECT score::text, explain::text FROM {call}"
            assert rows(module_db, sql, THERE) == rows(there, sql, THERE)
            assert "3.14159265358979323846264338327950288" in str(rows(module_db, sql, THERE))
    finally:
        there.execute("DELETE FROM graphrag.documents WHERE source_key = 'pi'")
        work(there)


def test_a_mapping_that_changed_is_read_anew(module_db: Database, there: Database) -> None:
    with login(module_db, there) as (reader, password), Database.open(module_db.url) as session:
        map_role(module_db, "b", reader, reader, password)
        session.execute(f"SET ROLE {reader}".encode())
        assert len(search(session, ENGINE, THERE)) == len(ROCKETS)
        module_db.execute(f"REVOKE USAGE ON FOREIGN SERVER b FROM {reader}".encode())
        assert refused(session, "SELECT * FROM graphrag.search('x', %s)", THERE).sqlstate == "42704"
        module_db.execute(f"GRANT USAGE ON FOREIGN SERVER b TO {reader}".encode())
        session.execute(f"ALTER USER MAPPING FOR {reader} SERVER b OPTIONS (SET password 'wrong')".encode())
        diag = refused(session, "SELECT * FROM graphrag.search('x', %s)", THERE)
        assert (diag.sqlstate, "password authentication failed" in str(diag.message_detail)) == ("08001", True)
        assert password not in f"{diag.message_primary} {diag.message_detail} {diag.message_hint}"
        session.execute(f"DROP USER MAPPING FOR {reader} SERVER b".encode())
        with pytest.raises(psycopg.Error, match="is at node"):
            search(session, ENGINE, THERE)
