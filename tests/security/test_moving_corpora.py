"""A corpus that moves is nobody's but the owner's until it is there, and its marks have nothing run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from pg_graphrag.beside import cli
from pg_graphrag.beside.process.corpus_move import rounds
from pg_graphrag.ground.errors import GraphRAGError
from psycopg import sql

from tests.runtime.cluster import Cluster, Database, Server
from tests.security.acting import acting_as, denied, new_role
from tests.security.graph_traps import plant_names, planting, ran_as_others
from tests.sql.ingest import STORIES, new_corpus, put_all, work
from tests.sql.picture_rows import add_picture

ALL = "IN ROLE graphrag_reader, graphrag_writer, pg_monitor, pg_write_all_data"


@pytest.fixture
def corpus(db: Database) -> str:
    """A corpus with a picture."""
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    add_picture(db, corpus, "ada")
    work(db)
    return corpus


@pytest.fixture
def target(shared_cluster: Cluster | Server) -> Iterator[Database]:
    """A database with the extension, and another corpus."""
    url = shared_cluster.create_database("arrivals", "template")
    with Database.open(url) as db:
        db.execute("SELECT graphrag.create_corpus('other')")
        db.execute(
            "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES ('other', 'sea', 'Ishmael sailed.')"
        )
        work(db)
        yield db
    shared_cluster.drop_database("arrivals")


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[None]:
    """Have a move die before a round."""
    bring, begun = rounds.bring, []

    def brought(*arguments: Any, **options: Any) -> Any:
        begun.append(1)
        if len(begun) > number:
            raise GraphRAGError("died")
        return bring(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(rounds, "bring", brought)
        yield


def move(corpus: str, source: Database, target: Database) -> int:
    return cli.main(["move", corpus, "--url", source.url, "--to", target.url])


def test_nobody_but_the_owner_sees_or_changes_what_arrives(
    db: Database, corpus: str, target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_role(target, ALL) as role:
        target.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA graphrag TO {role}".encode())
        with dying(monkeypatch, 2):
            assert move(corpus, db, target) == 1
        assert target.execute("SELECT count(*) FROM graphrag.documents").fetchone() == (1 + len(STORIES),)
        with acting_as(target, role) as session:
            seen = "SELECT DISTINCT corpus FROM graphrag.{}"
            for view in ("documents", "graph_nodes", "graph_edges", "graph_mentions", "document_coverage"):
                assert session.execute(seen.format(view).encode()).fetchall() in ([("other",)], [])
            assert session.execute("SELECT FROM graphrag.pictures").fetchall() == []
            for call in (
                "graphrag.search('Ada', {})",
                "graphrag.context('Ada', {})",
                "graphrag.neighbors('Ada Lovelace', {})",
                "graphrag.to_dot('Ada Lovelace', {})",
                "graphrag.ask('Who?', {})",
                "graphrag.feedback('Who?', 'good', {})",
                "graphrag.warm({})",
            ):
                name = sql.Literal(corpus).as_string()
                denied(session, f"SELECT {call.format(name)}", sqlstate="55000")
            hits = session.execute("SELECT corpus FROM graphrag.search('Ada sailed', corpora => '{*}')").fetchall()
            assert {row[0] for row in hits} == {"other"}
            insert = "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES (%s, %s, 'x')"
            # Whether a key is there is not told either.
            for key in ("ada", "new"):
                for conflict in ("", " ON CONFLICT DO NOTHING"):
                    denied(session, insert + conflict, corpus, key, sqlstate="55000")
            changed = session.execute("UPDATE graphrag.documents SET title = 'x' WHERE corpus <> 'other'")
            assert changed.rowcount == 0
            assert session.execute("DELETE FROM graphrag.documents WHERE corpus <> 'other'").rowcount == 0
            denied(session, "UPDATE graphrag.corpora SET move = NULL")
            denied(session, "UPDATE graphrag.corpora SET protection = NULL")
        # No worker takes it for its own.
        work(target)
        assert target.execute("SELECT count(*) FROM graphrag.jobs WHERE state = 'leased'").fetchone() == (0,)
        assert move(corpus, db, target) == 0
        with acting_as(target, role) as session:
            assert session.execute("SELECT count(*) FROM graphrag.documents").fetchone() == (1 + len(STORIES),)


def test_marks_have_nothing_run_and_are_the_owners(
    db: Database, corpus: str, target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of one database does not own the other."""
    with dying(monkeypatch, 2):
        assert move(corpus, db, target) == 1
    planted = "chunks_id_seq s; CREATE TABLE public.ran (); SELECT 1 AS last_value --"
    for path in ("shifts", "highest", "maps"):
        target.execute(
            "UPDATE graphrag.corpora SET move = jsonb_set(move, ARRAY[%s, %s], %s) WHERE name = %s",
            [path, planted, '{"1": 1}' if path == "maps" else "1", corpus],
        )
    target.execute(
        "UPDATE graphrag.corpora SET move = jsonb_set(move, '{providers,x}', to_jsonb(%s::text)) WHERE name = %s",
        [planted, corpus],
    )
    assert move(corpus, db, target) == 0
    for database in (db, target):
        assert database.execute("SELECT to_regclass('public.ran')").fetchone() == (None,)
    with new_role(db, ALL) as role:
        db.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA graphrag TO {role}".encode())
        with acting_as(db, role) as session:
            denied(session, "UPDATE graphrag.corpora SET move = NULL")
            denied(session, "SELECT graphrag._refuse_moved(1)")
            # It says what anybody may say.
            denied(session, """SELECT graphrag._say_moved('x', '{"state": "moved", "place": "y"}')""", sqlstate="42704")


def test_who_is_not_the_owner_moves_nothing(db: Database, corpus: str, target: Database) -> None:
    with new_role(db, ALL, "LOGIN PASSWORD 'secret'") as role:
        info = psycopg.conninfo.conninfo_to_dict(db.url) | {"user": role, "password": "secret"}
        urls = [psycopg.conninfo.make_conninfo("", **info | {"dbname": name.info.dbname}) for name in (db, target)]
        for source, to in ((urls[0], target.url), (db.url, urls[1])):
            for undo in ([], ["--undo"], ["--undo", "--force"]):
                assert cli.main(["move", corpus, "--url", source, "--to", to, *undo]) == 1
        assert db.execute("SELECT FROM graphrag.corpora WHERE move IS NOT NULL").fetchall() == []
        assert target.execute("SELECT name FROM graphrag.corpora").fetchall() == [("other",)]


def test_operators_and_functions_in_the_search_path_are_not_called(db: Database, corpus: str, target: Database) -> None:
    for database in (db, target):
        name = sql.Identifier(database.info.dbname).as_string()
        with planting(database) as mallory:
            plant_names(mallory, "public")
            database.execute(f"ALTER DATABASE {name} SET search_path = public, pg_catalog".encode())
            try:
                assert move(corpus, db, target) == 0
                assert cli.main(["move", corpus, "--undo", "--url", db.url, "--to", target.url]) == 0
            finally:
                database.execute(f"ALTER DATABASE {name} RESET search_path".encode())
            assert ran_as_others(database) == []
