"""The catalogue: which node has a corpus, who may say so, who is told, and what a node's url may be."""

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.security.acting import acting_as, denied, has_hint, new_role
from tests.sql.ingest import new_corpus, put, refused, rows, value

URL = "postgresql://b.example:5433/app"


@pytest.fixture(scope="module")
def catalogue(module_db: Database) -> Database:
    """A database that knows a node b, which has the corpus there."""
    module_db.execute("SELECT graphrag.add_node('b', %s)", [URL])
    module_db.execute("SELECT graphrag.place_corpus('there', 'b')")
    return module_db


ASKING = {
    "search": "SELECT * FROM graphrag.search('who', 'there')",
    "search of several": "SELECT * FROM graphrag.search('who', corpora => '{there}')",
    "context": "SELECT graphrag.context('who', 'there')",
    "neighbors": "SELECT * FROM graphrag.neighbors('Ada', 'there')",
    "wait_indexed": "SELECT * FROM graphrag.wait_indexed('there')",
    "cypher": "SELECT * FROM graphrag.cypher('there', 'MATCH (n) RETURN n')",
    "a document": "INSERT INTO graphrag.documents (corpus, content) VALUES ('there', 'Ada.')",
    "retract": "SELECT graphrag.retract('there', 'a', 'Wrong.')",
    "alter_corpus": "SELECT graphrag.alter_corpus('there', '{}')",
    "drop_corpus": "SELECT graphrag.drop_corpus('there')",
    "grant_corpus": "SELECT graphrag.grant_corpus('there', 'pg_monitor')",
    "protect": "SELECT graphrag.protect('there', 'true')",
    "retry_failed": "SELECT graphrag.retry_failed('there')",
    "create_entity": "SELECT graphrag.create_entity('Ada', 'there')",
    "rebuild_graph": "SELECT graphrag.rebuild_graph('there')",
    "clustered_relationships": "SELECT * FROM graphrag.clustered_relationships('there')",
    "check": "SELECT * FROM graphrag.check('there')",
}


@pytest.mark.parametrize("call", ASKING)
def test_whoever_asks_for_a_corpus_of_another_node_is_told_which(catalogue: Database, call: str) -> None:
    diag = refused(catalogue, ASKING[call])
    assert (diag.sqlstate, diag.message_detail) == ("42704", URL)
    assert str(diag.message_primary).removeprefix("graphrag: ") == 'corpus "there" is at node "b"'
    assert "Ask that node" in str(diag.message_hint)


def test_a_corpus_that_nobody_has_does_not_exist(catalogue: Database) -> None:
    diag = refused(catalogue, "SELECT * FROM graphrag.search('who', 'nowhere')")
    assert (diag.sqlstate, diag.message_detail) == ("42704", None)
    assert "does not exist" in str(diag.message_primary)


def test_a_corpus_that_is_here_is_here_whatever_the_catalogue_says(catalogue: Database) -> None:
    corpus = new_corpus(catalogue)
    catalogue.execute("SELECT graphrag.place_corpus(%s, 'b')", [corpus])
    put(catalogue, corpus, "a", "Ada Lovelace wrote notes.")
    assert rows(catalogue, "SELECT indexed FROM graphrag.wait_indexed(%s, timeout => '0')", corpus) == [(0,)]
    catalogue.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    assert refused(catalogue, "SELECT * FROM graphrag.search('who', %s)", corpus).message_detail == URL


def test_names_are_unique_over_nodes(catalogue: Database) -> None:
    for call in ("create_corpus('there')", f"clone_corpus('{new_corpus(catalogue)}', 'there')"):
        assert 'exists already, at node "b"' in has_hint(catalogue, f"SELECT graphrag.{call}", "23505")
    # This database is b: it may be made again after a loss.
    with catalogue.transaction(force_rollback=True):
        catalogue.execute("SET LOCAL graphrag.node = 'b'")
        assert "does not exist" in has_hint(catalogue, "SELECT graphrag.drop_corpus('there')", "42704")
    with catalogue.transaction(force_rollback=True):
        catalogue.execute("SET LOCAL graphrag.node = 'b'")
        assert value(catalogue, "SELECT graphrag.create_corpus('there')") > 0


def test_the_default_corpus_is_not_made_where_another_node_has_it(catalogue: Database) -> None:
    with catalogue.transaction(force_rollback=True):
        catalogue.execute("SELECT graphrag.place_corpus('default', 'b')")
        diag = refused(catalogue, "INSERT INTO graphrag.documents (content) VALUES ('Ada.')")
        assert (diag.sqlstate, diag.message_detail) == ("42704", URL)


def test_a_placement_is_changed_and_forgotten(catalogue: Database) -> None:
    with catalogue.transaction(force_rollback=True):
        catalogue.execute("SELECT graphrag.add_node('c', 'postgresql://c.example/app')")
        for node in ("c", "c", "b", None, None):
            catalogue.execute("SELECT graphrag.place_corpus('moved', %s)", [node])
            assert rows(catalogue, "SELECT node FROM graphrag.placements WHERE corpus = 'moved'") == (
                [(node,)] if node else []
            )
        catalogue.execute("SELECT graphrag.add_node('c', 'postgresql://d.example/app')")
        assert value(catalogue, "SELECT url FROM graphrag.nodes WHERE name = 'c'") == "postgresql://d.example/app"
        catalogue.execute("SELECT graphrag.drop_node('c')")
    assert "place_corpus" in has_hint(catalogue, "SELECT graphrag.drop_node('b')", "2BP01")
    has_hint(catalogue, "SELECT graphrag.drop_node('c')", "42704")
    has_hint(catalogue, "SELECT graphrag.place_corpus('x', 'c')", "42704")
    for corpus in ("", None, "x" * 201):
        has_hint(catalogue, "SELECT graphrag.place_corpus(%s, 'b')", "22023", corpus)
    for name in ("", None, "a b", 'a"', "x" * 64):
        has_hint(catalogue, "SELECT graphrag.add_node(%s, 'postgresql://b.example/app')", "22023", name)


GOOD = (
    "postgresql://b.example/app",
    "postgres://10.0.0.7:6432/app",
    "postgresql://[fe80::1]:5433/app",
    "postgresql://b1.example:5432,b2.example:5433/app?target_session_attrs=read-write",
    "postgresql:///app?host=/run/postgresql&port=5433",
    "postgresql://%2Frun%2Fpostgresql/my%20app",
)
SECRET = "hunter2"
BAD = (
    f"postgresql://app:{SECRET}@b.example/app",
    f"postgresql://:{SECRET}@b.example/app",
    "postgresql://app@b.example/app",
    f"postgresql://b.example/app?password={SECRET}",
    f"postgresql://b.example/app?%70assword={SECRET}",
    f"postgresql://b.example/app?port=5432&password={SECRET}",
    f"postgresql://b.example/app?user=app&options=-c{SECRET}",
    "postgresql://b.example/app?passfile=/tmp/pgpass",
    "postgresql://b.example/app?service=b",
    "postgresql://b.example/app?servicefile=/tmp/services",
    "postgresql://b.example/app?sslkey=/tmp/key",
    f"postgresql://b.example/app?sslpassword={SECRET}",
    "postgresql://b.example/app?sslmode=disable",
    "postgresql://b.example/app?gssdelegation=1",
    "postgresql://b.example/app?hostaddr=10.0.0.7",
    f"postgresql://b.example/app?host=a%20password={SECRET}",
    f"host=b.example dbname=app password={SECRET}",
    "host=b.example dbname=app",
    "service=b",
    "postgresql://b.example",
    "postgresql:///app",
    "https://b.example/app",
    "postgresql://b.example/app?port=5432&",
    f"postgresql://b.example/app {SECRET}",
    "",
    None,
)


@pytest.mark.parametrize("url", GOOD)
def test_a_url_says_where_a_node_is(catalogue: Database, url: str) -> None:
    with catalogue.transaction(force_rollback=True):
        catalogue.execute("SELECT graphrag.add_node('good', %s)", [url])
        assert psycopg.conninfo.conninfo_to_dict(url)["dbname"]


@pytest.mark.parametrize("url", BAD)
def test_a_url_with_more_is_refused_and_not_repeated(catalogue: Database, url: str | None) -> None:
    assert SECRET not in has_hint(catalogue, "SELECT graphrag.add_node('bad', %s)", "22023", url)
    # Nor does it come by another way, such as replication.
    assert refused(catalogue, "INSERT INTO graphrag.nodes VALUES ('bad', %s)", url).sqlstate in ("23514", "23502")


def test_members_are_told_where_a_corpus_is_that_they_name_and_no_other_names(catalogue: Database) -> None:
    with new_role(catalogue, "IN ROLE graphrag_member") as member, acting_as(catalogue, member) as session:
        assert refused(session, ASKING["search"]).message_detail == URL
        assert rows(session, "SELECT name, url FROM graphrag.nodes") == [("b", URL)]
        denied(session, "SELECT corpus FROM graphrag.placements")
        for guess in ("ther", "%", "ther_", "THERE", "there' OR 'a' = 'a", "", None):
            assert rows(session, "SELECT * FROM graphrag._placed(%s)", guess) == [(None, None)]
            diag = refused(session, "SELECT * FROM graphrag.search('who', %s)", guess)
            message = f"{diag.message_primary} {diag.message_detail} {diag.message_hint}"
            assert "there" not in message.replace(f'"{guess}"', "")
        # What a session says of itself hides a corpus from that session alone.
        session.execute("SET graphrag.node = 'b'")
        assert rows(session, "SELECT * FROM graphrag._placed('there')") == [(None, None)]
        for call in ("add_node('c', 'postgresql://c/d')", "drop_node('b')", "place_corpus('there', NULL)"):
            denied(session, f"SELECT graphrag.{call}")
    with new_role(catalogue) as outsider, acting_as(catalogue, outsider) as session:
        denied(session, "SELECT * FROM graphrag._placed('there')")
        denied(session, "SELECT * FROM graphrag.nodes")


def test_a_grant_of_the_functions_makes_nobody_the_owner(catalogue: Database) -> None:
    with new_role(catalogue, "IN ROLE graphrag_member") as mallory, catalogue.transaction(force_rollback=True):
        for signature in ("add_node(text, text)", "drop_node(text)", "place_corpus(text, text)"):
            catalogue.execute(f"GRANT EXECUTE ON FUNCTION graphrag.{signature} TO {mallory}".encode())
        for tables in ("", f"GRANT ALL ON graphrag.nodes, graphrag.placements TO {mallory}"):
            if tables:
                catalogue.execute(tables.encode())
            catalogue.execute(f"SET LOCAL ROLE {mallory}".encode())
            for call in (
                "add_node('b', 'postgresql://mallory.example/app')",
                "drop_node('b')",
                "drop_node('none')",
                "place_corpus('there', 'b')",
                "place_corpus('there', NULL)",
            ):
                with catalogue.transaction(force_rollback=True):
                    denied(catalogue, f"SELECT graphrag.{call}")
            catalogue.execute("RESET ROLE")
