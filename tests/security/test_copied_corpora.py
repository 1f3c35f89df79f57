"""A copy of a corpus runs nothing that others have planted, and is made by the owner alone."""

import psycopg
import pytest
from pg_graphrag.beside import cli
from pg_graphrag.beside.client import hosts
from pg_graphrag.beside.process.routines import dumped
from psycopg import sql

from tests.runtime.cluster import Cluster, Database, Server
from tests.security.acting import acting_as, denied, new_role
from tests.security.graph_traps import MALLORY, plant_names, planting, ran_as_others
from tests.sql.ingest import STORIES, new_corpus, put_all, work
from tests.sql.picture_rows import add_picture
from tests.sql.two_hosts import plain_database

# What runs in the session of whoever writes a table, or reads it.
PLANTS = (
    "CREATE TRIGGER planted BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION public.spring()",
    "CREATE RULE planted AS ON INSERT TO {} DO ALSO SELECT public.note()",
    "CREATE POLICY planted ON {} USING (public.note_pure())",
    "CREATE INDEX ON {} ((public.note_pure()))",
)


@pytest.fixture
def corpus(db: Database) -> str:
    """A corpus with a picture, packed terms and protection."""
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    add_picture(db, corpus, "ada")
    work(db)
    db.execute("SELECT graphrag.optimize(%s)", [corpus])
    db.execute("SELECT graphrag.protect(%s, $$metadata ->> 'key' = 'ada'$$)", [corpus])
    return corpus


def test_operators_and_functions_in_the_search_path_are_not_called(db: Database, corpus: str) -> None:
    """Of the source and of the target, which are one database here."""
    name = sql.Identifier(db.info.dbname).as_string()
    with planting(db) as mallory:
        plant_names(mallory, "public")
        db.execute(f"ALTER DATABASE {name} SET search_path = public, pg_catalog".encode())
        try:
            with psycopg.connect(db.url) as caught:
                # They would be: the planted come first.
                caught.execute("SELECT 'a'::text = 'b'::text")
                assert caught.execute("SELECT pg_catalog.count(*) FROM public.ran").fetchone() == (1,)
                caught.rollback()
            assert cli.main(["copy", "--corpus", corpus, "--as", "twin", "--url", db.url, db.url]) == 0
        finally:
            db.execute(f"ALTER DATABASE {name} RESET search_path".encode())
        assert ran_as_others(db) == []


def test_who_writes_corpora_plants_nothing_in_the_tables_that_a_copy_writes(db: Database) -> None:
    with planting(db), acting_as(db, MALLORY) as session:
        db.execute(f"GRANT graphrag_reader, graphrag_writer TO {MALLORY}".encode())
        tables = [name for name, _ in dumped() if not name.endswith("_seq")]
        assert "graphrag.documents" in tables
        for table in tables:
            for plant in PLANTS:
                denied(session, plant.format(table))


@pytest.mark.parametrize("side", ["source", "target"])
def test_who_is_not_the_owner_copies_nothing(
    db: Database, corpus: str, shared_cluster: Cluster | Server, side: str
) -> None:
    with plain_database(shared_cluster) as beside, new_role(db, "IN ROLE graphrag_reader, graphrag_writer") as role:
        source, target = (db.url, beside) if side == "source" else (beside, db.url)
        copied = corpus if side == "source" else "other"
        with psycopg.connect(source, autocommit=True) as reading, psycopg.connect(target, autocommit=True) as writing:
            (reading if side == "source" else writing).execute(f"SET ROLE {role}".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                hosts.copy_corpus(reading, writing, copied, new_name="twin")
        with psycopg.connect(target) as after:
            assert after.execute("SELECT FROM graphrag.corpora c WHERE c.name = 'twin'").fetchall() == []
