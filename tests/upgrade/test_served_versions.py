"""This package serves databases whose extension is of the version before, and sessions go over with ALTER EXTENSION UPDATE."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag import __version__ as VERSION

from tests.endpoint import Endpoint
from tests.runtime.cluster import PROJECT, Cluster, Database
from tests.sql.batching import settle
from tests.sql.ingest import (
    ROCKETS,
    delete,
    index_all,
    jobs,
    put,
    put_all,
    rows,
    search,
    statuses,
    value,
    wait_for,
    work,
)
from tests.sql.test_cli import cli
from tests.upgrade.freeze import MODES, reply
from tests.upgrade.released import HERE, QUESTIONS, SERVED, create_released, restore_released

# Names alone in the first: documents that were indexed before keep the phrases that they have.
TEXTS = {
    "wal": "Grace Hopper keeps Kestrel in Leeds.",
    "checkpoint": "Ann Lee starts a checkpoint of the Kestrel database in Osaka.",
    "vacuum": "Bob Stone runs VACUUM, and Ann Lee watches Bob Stone in Osaka.",
}
LOADED = """
DO LANGUAGE plpython3u $$
import pg_graphrag
plpy.execute(plpy.prepare("SELECT set_config('loaded.version', $1, false)", ["text"]), [pg_graphrag.__version__])
$$
"""


def loaded(db: Database) -> str:
    """Return the version of the package that has the name in the session."""
    db.execute(LOADED)
    return str(value(db, "SELECT current_setting('loaded.version')"))


def of_version(db: Database) -> str:
    return str(value(db, "SELECT extversion FROM pg_extension WHERE extname = 'pg_graphrag'"))


@pytest.fixture(params=SERVED)
def old(empty_db: Database, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with the extension of a version before, under this package."""
    empty_db.execute(create_released(request.param))
    with Database.open(empty_db.url) as session:
        yield session


def found(db: Database, corpus: str = "default") -> dict[str, list[tuple[str, float]]]:
    """Return what each mode finds."""
    question = "Who starts a checkpoint in Osaka?"
    return {mode: [(row["source_key"], row["score"]) for row in search(db, question, corpus, mode)] for mode in MODES}


@pytest.mark.parametrize("version", SERVED)
def test_a_database_of_a_version_before_finds_what_it_found(shared_cluster: Cluster, version: str) -> None:
    with Database.open(restore_released(shared_cluster, "served", version)) as db:
        for corpus, modes in json.loads((HERE / f"found-{version}.json").read_text()).items():
            for mode, before in modes.items():
                results = search(db, QUESTIONS[corpus], corpus, mode)
                assert [(row["source_key"], row["score"]) for row in results] == [
                    (key, pytest.approx(score, abs=1e-5)) for key, score in before
                ], (corpus, mode)
        assert of_version(db) == loaded(db) == version
    shared_cluster.drop_database("served")


@pytest.mark.sample(1)
def test_a_database_of_a_version_before_is_written_curated_and_checked(old: Database) -> None:
    version = of_version(old)
    index_all(old, "default", TEXTS)
    put(old, "default", "wal", "The WAL writer sleeps.")
    delete(old, "default", "vacuum")
    old.execute("SELECT graphrag.rename_entity('Osaka', 'Osaka City')")
    work(old)
    assert set(statuses(old, "default").values()) == {"indexed"}
    assert rows(old, "SELECT * FROM graphrag.check('default')") == []
    assert all(found(old).values())
    assert "Osaka City" in {row["name"] for row in neighbors(old, "Ann Lee")}
    assert of_version(old) == loaded(old) == version


def neighbors(db: Database, entity: str) -> list[dict[str, Any]]:
    return [row for (row,) in rows(db, "SELECT to_jsonb(n) FROM graphrag.neighbors(%s) n", entity)]


@pytest.mark.slow
def test_a_model_is_asked_for_a_database_of_the_version_before(old: Database) -> None:
    with Endpoint() as endpoint:
        endpoint.reply(reply)
        old.execute("SELECT graphrag.set_provider('test', 'openai', %s)", [endpoint.url])
        old.execute("""SELECT graphrag.create_corpus('asked', '{"llm": {"provider": "test", "model": "m"}}')""")
        put_all(old, "asked", TEXTS)
        settle(old, "asked")
        answer = value(old, "SELECT answer FROM graphrag.ask('Who starts a checkpoint?', 'asked')")
    assert answer


@pytest.mark.slow
@pytest.mark.parametrize("old", ["0.2.0"], indirect=True)
def test_open_sessions_go_over_with_an_update_and_the_work_that_waits_is_done(old: Database, db: Database) -> None:
    index_all(old, "default", {"wal": TEXTS["wal"], "gone": "Kim Park lives in Seoul."})
    delete(old, "default", "gone")
    put_all(old, "default", {key: TEXTS[key] for key in ("checkpoint", "vacuum")})
    with Database.open(old.url) as reader, Database.open(old.url) as updater:
        assert found(reader)["bm25"] == []
        assert loaded(reader) == loaded(old) == "0.2.0"
        updater.execute("ALTER EXTENSION pg_graphrag UPDATE")
        assert of_version(updater) == VERSION
        assert found(reader)["bm25"] == []
        work(old)
        assert loaded(reader) == loaded(old) == VERSION
        index_all(db, "default", TEXTS)
        assert found(reader) == found(old)
        # The former version's engine made the vectors of the first.
        assert found(old) == {
            mode: [(key, pytest.approx(score, abs=1e-6)) for key, score in results]
            for mode, results in found(db).items()
        }
    assert jobs(old, "default") == []
    assert rows(old, "SELECT * FROM graphrag.check('default')") == []
    # Nothing that is there changes by an update: the former version's names stay until they are read again.
    assert fingerprint(old) != fingerprint(db)
    assert [subject for (subject,) in rows(old, "SELECT subject FROM graphrag.health()")] == ['corpus "default"']
    old.execute("SELECT graphrag.reindex('default')")
    work(old)
    assert fingerprint(old) == fingerprint(db)
    assert rows(old, "SELECT * FROM graphrag.health()") == []


@pytest.mark.parametrize("old", ["0.2.0"], indirect=True)
def test_a_graph_of_a_version_before_is_what_a_new_one_is_after_a_reindex(old: Database) -> None:
    old.execute("SELECT graphrag.create_corpus('default')")
    for key, (title, content) in ROCKETS.items():
        put(old, "default", key, content, title)
    work(old)
    old.execute("ALTER EXTENSION pg_graphrag UPDATE")
    reached = "SELECT count(*) FROM graphrag.neighbors('Kestrel engine', hops => 3)"
    assert value(old, reached) < 7
    ((subject, hint),) = rows(old, "SELECT subject, hint FROM graphrag.health()")
    assert subject == 'corpus "default"'
    old.execute(hint.partition(";")[0].encode())
    work(old)
    assert value(old, reached) == 7 and rows(old, "SELECT * FROM graphrag.health()") == []


def fingerprint(db: Database) -> Any:
    return value(db, "SELECT graphrag.fingerprint('default')")


@pytest.mark.slow
def test_a_session_goes_back_with_an_update_that_is_rolled_back(old: Database) -> None:
    index_all(old, "default", TEXTS)
    version, before = of_version(old), found(old)
    old.execute("BEGIN")
    old.execute("ALTER EXTENSION pg_graphrag UPDATE")
    assert found(old)["bm25"] and loaded(old) == VERSION
    old.execute("ROLLBACK")
    assert found(old) == before and loaded(old) == version


@pytest.mark.slow
def test_what_fails_of_a_worker_under_way_in_an_update_is_done_when_it_is_tried_again(old: Database) -> None:
    version = of_version(old)
    put_all(old, "default", {f"n{number}": f"Ann Lee wrote note {number} in Osaka." for number in range(120)})
    errors: list[psycopg.Error] = []

    def run() -> None:
        with Database.open(old.url) as worker:
            try:
                work(worker)
            except psycopg.Error as error:
                errors.append(error)

    thread = Thread(target=run)
    thread.start()
    indexed = "SELECT count(*) FROM graphrag.documents WHERE status = 'indexed'"
    wait_for(lambda: value(old, indexed) or not thread.is_alive(), "the first documents")
    assert thread.is_alive()
    old.execute("ALTER EXTENSION pg_graphrag UPDATE")
    thread.join()
    old.execute("SELECT graphrag.retry_failed()")
    work(old)
    # Of 0.2.0 a worker goes on with statements of before.
    assert len(errors) <= (version == "0.2.0")
    assert set(statuses(old, "default").values()) == {"indexed"} and jobs(old, "default") == []
    assert rows(old, "SELECT * FROM graphrag.check('default')") == []


def test_health_says_where_a_database_is_behind(db: Database) -> None:
    assert rows(db, "SELECT * FROM graphrag.health()") == []
    db.execute("UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'pg_graphrag'")
    (issue,) = rows(db, "SELECT subject, detail, hint FROM graphrag.health()")
    assert issue[0] == "extension" and f"is version 0.0.9; {VERSION} is installed" in issue[1]
    assert "ALTER EXTENSION pg_graphrag UPDATE" in issue[2]


@pytest.mark.slow
def test_the_command_works_with_a_database_of_a_version_before(old: Database, tmp_path: Path) -> None:
    version = of_version(old)
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.txt").write_text(text)
    cli(old.url, "ingest", tmp_path)
    cli(old.url, "worker", "--once")
    assert "Osaka" in cli(old.url, "search", "Who starts a checkpoint?").stdout
    assert json.loads(cli(old.url, "status", "--json").stdout)["indexed"] == len(TEXTS)
    with GraphRAG(old.url) as client:
        assert client.neighbors("Ann Lee") and client.progress().searchable == len(TEXTS)
        if version == "0.2.0":
            with pytest.raises(psycopg.errors.UndefinedFunction, match="Run ALTER EXTENSION pg_graphrag UPDATE"):
                client.health()
            with pytest.raises(psycopg.errors.UndefinedFunction, match="Run ALTER EXTENSION pg_graphrag UPDATE"):
                client.neighbors("Ann Lee", filter={"lang": "en"})
    assert of_version(old) == version


def test_every_released_package_is_one_that_is_served_and_named_in_the_manual() -> None:
    released = {
        path.name.removeprefix("pg_graphrag-").removesuffix(".tar.xz")
        for path in PROJECT.glob("extension/released/*.tar.xz")
    }
    match = re.search(r"serves extensions of versions? ([\d., and]+)", (PROJECT / "docs/install.md").read_text())
    assert match is not None
    assert set(re.findall(r"\d+\.\d+\.\d+", match[1])) == released | {VERSION}
