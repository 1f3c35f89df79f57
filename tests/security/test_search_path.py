"""The owner of a database, who sets its search_path, plants operators and types before pg_catalog: nothing of ours runs them."""

from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.cli import main
from psycopg import sql

from tests.runtime.cluster import Cluster, Database, Server
from tests.security.graph_traps import plant_names, planting, ran_as_others
from tests.serve.serving import serving
from tests.sql.ingest import STORIES, new_corpus, put_all, rows, statuses
from tests.sql.two_hosts import plain_database, superuser_url

TABLE = "CREATE SCHEMA shop; CREATE TABLE shop.notes (id int PRIMARY KEY, body text)"
ROWS = "INSERT INTO shop.notes VALUES (1, 'Ada Lovelace wrote.'), (2, 'Alan Turing read.')"
# As types are looked up, too.
TYPES = ("text", "int4", "int8", "bool", "oid", "name", "jsonb", "interval", "timestamptz")


@pytest.fixture
def trapped(db: Database) -> Iterator[Database]:
    """A database whose sessions look first into a schema in which names, operators and types are planted."""
    name = sql.Identifier(db.info.dbname).as_string()
    with planting(db) as mallory:
        plant_names(mallory, "public")
        for type_ in TYPES:
            mallory.execute(f"CREATE DOMAIN public.{type_} AS pg_catalog.{type_} CHECK (public.note_pure())".encode())
        db.execute(f"ALTER DATABASE {name} SET search_path = public, pg_catalog".encode())
        yield db


def called(url: str, *calls: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        for call in calls:
            session.execute(call.encode())


WORK: dict[str, Callable[[Database, str], object]] = {
    "CALL": lambda db, corpus: called(
        db.url,
        "CALL graphrag.process_jobs()",
        "CALL graphrag.backfill_table('shop.notes')",
        "CALL graphrag.process_jobs()",
        f"CALL graphrag.wait_until_indexed('{corpus}')",
        "CALL graphrag.repair_corpora()",
        "CALL graphrag.process_jobs()",
    ),
    "worker": lambda db, _: main(["worker", "--once", "--url", db.url]),
    "ingest": lambda db, corpus: [
        main(["ingest", "--url", db.url, "--corpus", corpus, "README.md"]),
        main(["status", "--url", db.url, "--corpus", corpus]),
        main(["search", "--url", db.url, "--corpus", corpus, "Who wrote?"]),
        called(db.url, "CALL graphrag.process_jobs()"),
    ],
}


@pytest.mark.parametrize("how", WORK)
def test_a_worker_runs_nothing_that_the_search_path_offers(trapped: Database, how: str) -> None:
    db = trapped
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    db.execute(TABLE.encode())
    db.execute(ROWS.encode())
    db.execute("SELECT graphrag.attach_table('shop.notes', %s, 'id', '{body}')", [corpus])
    db.execute(f"ALTER DATABASE {sql.Identifier(db.info.dbname).as_string()} SET lock_timeout = '1min'".encode())
    WORK[how](db, corpus)
    assert ran_as_others(db) == []
    assert set(statuses(db, corpus).values()) == {"indexed"}
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


@pytest.mark.parametrize("path", ["/api/corpora", "/api/documents?{}", "/api/graph?{}", "/api/graph/communities?{}"])
def test_nor_does_what_is_served(trapped: Database, path: str) -> None:
    corpus = new_corpus(trapped)
    put_all(trapped, corpus, STORIES)
    with serving(trapped.url, corpus=corpus) as server, server.client() as client:
        reply = client.get(path.format(urlencode({"corpus": corpus})))
        assert reply.status_code == 200, reply.text
    assert ran_as_others(trapped) == []


# Beside a database, where its owner plants for that of the schema.
SHADOWS = """
CREATE TABLE public.ran (by_role name DEFAULT current_user); GRANT ALL ON public.ran TO PUBLIC;
CREATE FUNCTION public.note() RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.ran DEFAULT VALUES; RETURN true; END $$;
CREATE DOMAIN public.oid AS pg_catalog.oid CHECK (public.note());
"""
SHADOW = """
CREATE FUNCTION public.compare(a {type}, b {type}) RETURNS boolean LANGUAGE sql AS 'SELECT public.note()';
CREATE OPERATOR public.= (LEFTARG = {type}, RIGHTARG = {type}, FUNCTION = public.compare);
CREATE OPERATOR public.<> (LEFTARG = {type}, RIGHTARG = {type}, FUNCTION = public.compare);
CREATE OPERATOR public.> (LEFTARG = {type}, RIGHTARG = {type}, FUNCTION = public.compare)
"""


def test_nor_does_a_worker_beside_a_database(shared_cluster: Cluster | Server) -> None:
    with plain_database(shared_cluster) as url, psycopg.connect(superuser_url(url), autocommit=True) as owner:
        with GraphRAG(url, "stories") as rag:
            rag.create_corpus(communities=False)
            rag.insert({"source_key": key, "content": text} for key, text in STORIES.items())
        owner.execute(SHADOWS.encode())
        for type_ in ("pg_catalog.oid", "text", "name", "int", "bigint"):
            owner.execute(SHADOW.format(type=type_).encode())
        owner.execute(
            sql.SQL("ALTER DATABASE {} SET search_path = public, pg_catalog").format(sql.Identifier(owner.info.dbname))
        )
        assert main(["worker", "--once", "--url", url]) == 0
        assert owner.execute("SELECT DISTINCT by_role::pg_catalog.text FROM public.ran").fetchall() == []
