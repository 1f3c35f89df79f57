"""Files that sessions share: who makes, maps and removes them, and that no answer depends on one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import STORIES, Connection, corpus_id, delete, index_all, put, rows, searched_corpus, value, work

QUESTION = "Which notes did Ada Lovelace write on the Analytical Engine?"
MODES = ("bm25", "naive", "local", "global", "hybrid", "mix", "path", "ppr")
# What a corpus of this size would have in no file: it is small, and a graph of its size is cached with its texts.
AS_IF_LARGE = """
DO LANGUAGE plpython3u $$
from pg_graphrag.search.graph_view import cached_graph
from pg_graphrag.server.caches import shared_arrays
from pg_graphrag.search.query import session_values
session_values.LEAST_BYTES = 0
shared_arrays.SECONDS_BETWEEN = 0.0
cached_graph.MAX_ITEMS = 0
$$
"""
MAPPED = """
CREATE OR REPLACE FUNCTION pg_temp.mapped() RETURNS text[] LANGUAGE plpython3u AS $$
from pg_graphrag.server.caches.session_cache import cache
return sorted({str(key[0]) for key, entry in cache._entries.items() if entry.shared})
$$
"""
KINDS = ["concepts", "graph", "statements of windows", "vectors"]


@pytest.fixture
def corpus(fresh_db: Database) -> str:
    name = searched_corpus(fresh_db)
    for key, content in STORIES.items():
        put(fresh_db, name, key, content, metadata={"open": key != "turing"})
    work(fresh_db)
    return name


@contextmanager
def session(db: Database) -> Iterator[Connection]:
    """A session to which the corpus is a large one."""
    with psycopg.connect(db.url, autocommit=True) as connection:
        connection.execute(AS_IF_LARGE)
        connection.execute(MAPPED)
        yield connection


def answers(db: Connection, corpus: str) -> Any:
    """What every mode finds, when the session knows what it may."""
    db.execute("SELECT graphrag.warm(%s)", [corpus])
    statement = "SELECT source_key, score, explain FROM graphrag.search(%s, %s, %s)"
    return [rows(db, statement, QUESTION, corpus, mode) for mode in MODES]


def uncached(db: Database, corpus: str) -> Any:
    with session(db) as own:
        own.execute("SET graphrag.session_memory = '0'")
        found = answers(own, corpus)
        assert value(own, "SELECT pg_temp.mapped()") == []
    return found


def mapped(db: Connection) -> list[str]:
    return list(value(db, "SELECT pg_temp.mapped()"))


def files(db: Connection) -> list[str]:
    """The files of the database, drafts among them."""
    pattern = "^pg_graphrag_' || d.oid || '_[0-9]+_arrays_"
    sql = f"SELECT f FROM pg_database d, pg_ls_dir('pg_stat_tmp') f WHERE d.datname = current_database() AND f ~ ('{pattern}')"
    return sorted(name for (name,) in rows(db, sql))


def names(paths: list[str]) -> list[str]:
    return [path.split("_")[7] for path in paths]


def in_server(db: Connection, body: str) -> None:
    """Run Python as the server's user, with `path` of each file of arrays."""
    loop = "\n".join(f"    {line}" for line in body.splitlines())
    paths = [f"pg_stat_tmp/{name}" for name in files(db)]
    db.execute(f"DO LANGUAGE plpython3u $$\nimport glob, os, shutil\nfor path in {paths!r}:\n{loop}\n$$".encode())


def patch(session: Connection, body: str) -> None:
    """Change the module of a session."""
    head = "import errno, os, types\nfrom pg_graphrag.server.caches import shared_arrays\n"
    session.execute(f"DO LANGUAGE plpython3u $$\n{head}{body}\n$$".encode())


# What a session does that can make no file.
NO_FILE = "shared_arrays.share = lambda *_: None"


def test_a_session_maps_what_another_made_and_finds_the_same(fresh_db: Database, corpus: str) -> None:
    expected = uncached(fresh_db, corpus)
    assert files(fresh_db) == []
    with session(fresh_db) as first, session(fresh_db) as second:
        assert answers(first, corpus) == expected
        made = files(fresh_db)
        assert {"topology", "concepts", "statements"} < set(names(made)) and "vectors-1-window" in names(made)
        # Settings of a session say how a time is written.
        second.execute("SET timezone = 'Asia/Tokyo'; SET datestyle = 'German'")
        assert answers(second, corpus) == expected
        assert mapped(first) == mapped(second) == KINDS
        assert files(fresh_db) == made
    in_server(fresh_db, "assert os.stat(path).st_mode & 0o777 == 0o600")


# To the session that indexes, too, the corpus is a large one.
WORKS_AS_IF_LARGE = """
DO LANGUAGE plpython3u $$
from pg_graphrag.search.graph_view import prepared_files; from pg_graphrag.server.caches import shared_arrays
from pg_graphrag.operate.jobs import maintenance
prepared_files.MAX_ITEMS = maintenance.LEAST_WRITTEN = 0
shared_arrays.ASKED_SECONDS = 0.0
$$
"""


def worked(worker: Connection, corpus: str) -> list[str]:
    """Have a session do all that waits, upkeep too, as after many documents; return the files."""
    worker.execute("SELECT graphrag._queue_jobs('optimize', ARRAY[%s])", [corpus_id(worker, corpus)])
    worker.execute("CALL graphrag.process_jobs()")
    return files(worker)


@pytest.mark.slow
def test_a_worker_makes_the_files_of_a_corpus_of_which_much_is_new(fresh_db: Database) -> None:
    name = searched_corpus(fresh_db)
    with session(fresh_db) as worker:
        worker.execute(WORKS_AS_IF_LARGE)
        for key, content in STORIES.items():
            put(worker, name, key, content)
        made = worked(worker, name)
        assert {"topology", "concepts", "statements"} < set(names(made))
        # One of six is little, two of seven are not.
        put(worker, name, "one", STORIES["ada"])
        assert worked(worker, name) == made
        put(worker, name, "two", STORIES["turing"])
        made_anew = worked(worker, name)
        assert names(made_anew) == names(made)
        assert not set(made_anew) & set(made)
    expected = uncached(fresh_db, name)
    with session(fresh_db) as other:
        assert answers(other, name) == expected
        assert set(made_anew) <= set(files(fresh_db))


@pytest.mark.slow
def test_a_worker_makes_files_anew_where_sessions_ask_for_them(fresh_db: Database, corpus: str) -> None:
    with session(fresh_db) as first, session(fresh_db) as worker:
        answers(first, corpus)
        current = files(fresh_db)
        put(fresh_db, corpus, "one", STORIES["ada"])
        patch(worker, "shared_arrays.SECONDS_BETWEEN = 600.0\nshared_arrays.BYTES_A_SECOND = 1e15")
        worker.execute("CALL graphrag.process_jobs()")
        patch(worker, "shared_arrays.SECONDS_BETWEEN = 0.0\nshared_arrays.ASKED_SECONDS = 0.0")
        worker.execute("CALL graphrag.process_jobs()")
        assert files(fresh_db) == current
        patch(worker, "shared_arrays.ASKED_SECONDS = 600.0")
        worker.execute("CALL graphrag.process_jobs()")
        made_anew = files(fresh_db)
        assert names(made_anew) == names(current) and not set(made_anew) & set(current)
        # Nobody has asked for these, but for those before.
        delete(fresh_db, corpus, "one")
        worker.execute("CALL graphrag.process_jobs()")
        current = files(fresh_db)
        assert names(made_anew) == names(current) and not set(made_anew) & set(current)
        worker.execute("CALL graphrag.process_jobs()")
        assert files(fresh_db) == current
    expected = uncached(fresh_db, corpus)
    with session(fresh_db) as second:
        patch(second, NO_FILE)
        assert answers(second, corpus) == expected and mapped(second) == KINDS


def test_who_searches_from_what_is_mapped_asks_for_the_files(fresh_db: Database, corpus: str) -> None:
    def last_access() -> str:
        return str(value(fresh_db, f"SELECT max(access) FROM pg_stat_file('pg_stat_tmp/{made[0]}')"))

    with session(fresh_db) as first:
        answers(first, corpus)
        made = [path for path in files(fresh_db) if "topology" in path]
        in_server(fresh_db, "os.utime(path, (1e9, os.stat(path).st_mtime))")
        long_ago = last_access()
        answers(first, corpus)
        assert last_access() == long_ago
        patch(first, "shared_arrays.NOTED_SECONDS = 0.0")
        answers(first, corpus)
        assert last_access() != long_ago and mapped(first) == KINDS


def test_where_a_worker_can_make_no_files_it_does_not_try_again(fresh_db: Database, corpus: str) -> None:
    with session(fresh_db) as first, session(fresh_db) as worker:
        answers(first, corpus)
        put(fresh_db, corpus, "one", STORIES["ada"])
        patch(worker, FULL_DISK)
        worker.execute("CALL graphrag.process_jobs()")
        assert files(fresh_db) == []
        patch(worker, "shared_arrays.os = os")
        worker.execute("CALL graphrag.process_jobs()")
        assert files(fresh_db) == []


def test_a_worker_makes_no_files_of_a_small_corpus(fresh_db: Database, corpus: str) -> None:
    with session(fresh_db) as worker:
        put(worker, corpus, "more", STORIES["ada"])
        assert worked(worker, corpus) == []


def test_a_change_has_files_of_its_own_and_those_before_are_removed(fresh_db: Database, corpus: str) -> None:
    with session(fresh_db) as first:
        answers(first, corpus)
        before = files(fresh_db)
        put(
            fresh_db,
            corpus,
            "hopper",
            "Grace Hopper wrote notes on the Mark I, an engine at Harvard that Ada Lovelace foresaw.",
        )
        work(fresh_db)
        expected = uncached(fresh_db, corpus)
        assert answers(first, corpus) == expected
        assert not set(before) & set(files(fresh_db)) and names(before) == names(files(fresh_db))
        with session(fresh_db) as second:
            assert answers(second, corpus) == expected and mapped(second) == KINDS


DAMAGES = {
    "cut": "os.truncate(path, os.path.getsize(path) - 4096)",
    "empty": "os.truncate(path, 0)",
    "longer": "open(path, 'ab').write(bytes(4096))",
    "a page of zeros": "f = open(path, 'r+b'); f.seek(4096); f.write(bytes(4096)); f.close()",
    "a bit": "f = open(path, 'r+b'); f.seek(4100); b = f.read(1)[0] ^ 1; f.seek(4100); f.write(bytes([b])); f.close()",
    "its head": "f = open(path, 'r+b'); f.seek(40); f.write(b'x'); f.close()",
    "another's": "shutil.copyfile(max(glob.glob('pg_stat_tmp/*_arrays_*')), path + 'c'); os.rename(path + 'c', path)",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_torn_file_is_made_anew(fresh_db: Database, corpus: str, damage: str) -> None:
    expected = uncached(fresh_db, corpus)
    with session(fresh_db) as first:
        answers(first, corpus)
    in_server(fresh_db, DAMAGES[damage])
    with session(fresh_db) as second:
        assert answers(second, corpus) == expected
        assert mapped(second) == KINDS
    with session(fresh_db) as third:
        patch(third, "shared_arrays.share = None")
        assert answers(third, corpus) == expected and mapped(third) == KINDS


# What stands in a file's place, and is not trusted.
FOREIGN = {
    "a link": "os.rename(path, path + '.c'); os.symlink(os.path.abspath(path + '.c'), path)",
    "a second name": "os.link(path, path + '.c')",
    "others may write": "os.chmod(path, 0o620)",
    "others may read": "os.chmod(path, 0o644)",
    "a pipe": "os.unlink(path); os.mkfifo(path, 0o600)",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_what_is_not_the_servers_alone_is_not_mapped_but_replaced(
    fresh_db: Database, corpus: str, foreign: str
) -> None:
    with session(fresh_db) as first:
        expected = answers(first, corpus)
    in_server(fresh_db, FOREIGN[foreign])
    with session(fresh_db) as reading:
        patch(reading, NO_FILE)
        assert answers(reading, corpus) == expected and mapped(reading) == []
    with session(fresh_db) as second:
        assert answers(second, corpus) == expected and mapped(second) == KINDS
    in_server(
        fresh_db, "assert path.endswith('.c') or (os.stat(path).st_mode & 0o777 == 0o600 and not os.path.islink(path))"
    )


def test_the_file_of_another_user_is_not_mapped(fresh_db: Database, corpus: str) -> None:
    with session(fresh_db) as first:
        expected = answers(first, corpus)
    with session(fresh_db) as second:
        patch(
            second,
            f"other = types.SimpleNamespace(**vars(os) | {{'geteuid': lambda: -1}})\nshared_arrays.os = other\n{NO_FILE}",
        )
        assert answers(second, corpus) == expected and mapped(second) == []


def test_who_sees_a_part_maps_nothing_and_makes_nothing(fresh_db: Database, corpus: str) -> None:
    fresh_db.execute("SELECT graphrag.protect(%s, '(metadata ->> ''open'')::boolean')", [corpus])
    with readers(fresh_db, 1) as (reader,):
        with session(fresh_db) as alone, acting_as(alone, reader):
            expected = answers(alone, corpus)
            assert files(fresh_db) == []
        with session(fresh_db) as owner:
            answers(owner, corpus)
            assert mapped(owner) == KINDS
        made = files(fresh_db)
        with session(fresh_db) as beside:
            beside.execute(f"SET ROLE {reader}".encode())
            assert answers(beside, corpus) == expected
            beside.execute("RESET ROLE")
            assert mapped(beside) == []
        assert files(fresh_db) == made


def test_a_transaction_sees_its_own_changes_and_no_file(fresh_db: Database, corpus: str) -> None:
    with session(fresh_db) as first:
        answers(first, corpus)
    made = files(fresh_db)
    with session(fresh_db) as own:
        with own.transaction():
            own.execute("SELECT graphrag.rename_entity('Ada Lovelace', 'Lady Lovelace', %s)", [corpus])
            found = rows(own, "SELECT name FROM graphrag.search_entities('Lady Lovelace', %s)", corpus)
            answers(own, corpus)
            assert mapped(own) == []
            assert ("Lady Lovelace",) in found
        assert files(fresh_db) == made


@pytest.mark.slow
def test_an_older_snapshot_takes_no_newer_file_and_replaces_none(fresh_db: Database, corpus: str) -> None:
    expected = uncached(fresh_db, corpus)
    with session(fresh_db) as older, session(fresh_db) as newer:
        older.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        older.execute("SELECT count(*) FROM graphrag.documents")
        delete(fresh_db, corpus, "turing")
        work(fresh_db)
        found = answers(newer, corpus)
        made = files(fresh_db)
        assert answers(older, corpus) == expected != found
        assert mapped(older) == [] and files(fresh_db) == made
        older.execute("COMMIT")
        assert answers(older, corpus) == found and mapped(older) == KINDS


FULL_DISK = """
def pwrite(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
full = types.SimpleNamespace(**vars(os))
full.pwrite = pwrite
shared_arrays.os = full
"""


def test_a_disk_that_is_full_fails_no_search_and_leaves_nothing(fresh_db: Database, corpus: str) -> None:
    expected = uncached(fresh_db, corpus)
    with session(fresh_db) as first:
        patch(first, FULL_DISK)
        assert answers(first, corpus) == expected
        assert mapped(first) == [] and files(fresh_db) == []
        # When there is room again, what the session has becomes the files of all.
        patch(first, "shared_arrays.os = os")
        assert answers(first, corpus) == expected and mapped(first) == KINDS


@pytest.mark.slow
def test_a_file_is_not_written_again_within_seconds(fresh_db: Database, corpus: str) -> None:
    with session(fresh_db) as first:
        answers(first, corpus)
        made = files(fresh_db)
        index_all(fresh_db, corpus, {"hopper": "Grace Hopper wrote notes on the Mark I."})
        patch(first, "shared_arrays.SECONDS_BETWEEN = 600.0")
        assert answers(first, corpus) == uncached(fresh_db, corpus)
        assert mapped(first) == [] and files(fresh_db) == made


@pytest.mark.slow
def test_two_sessions_that_write_at_once_have_one_file_each_kind(fresh_db: Database, corpus: str) -> None:
    expected = uncached(fresh_db, corpus)
    found: list[Any] = []
    barrier = threading.Barrier(4)

    def ask() -> None:
        with session(fresh_db) as own:
            barrier.wait(60)
            found.append((answers(own, corpus), mapped(own)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer for answer, _ in found] == 4 * [expected]
    made = files(fresh_db)
    assert len(names(made)) == len(set(names(made))) and not any("." in name for name in made)
    with session(fresh_db) as later:
        assert answers(later, corpus) == expected and mapped(later) == KINDS


def test_files_go_with_their_corpus_the_forgotten_document_and_the_extension(fresh_db: Database, corpus: str) -> None:
    other = searched_corpus(fresh_db)
    put(fresh_db, other, "ann", "Ann Lee founded Acme Rockets in Osaka. Acme Rockets builds small launchers.")
    work(fresh_db)

    def made(name: str) -> int:
        number = corpus_id(fresh_db, name)
        return sum(path.split("_")[6] == str(number) for path in files(fresh_db))

    with session(fresh_db) as first:
        answers(first, corpus)
        answers(first, other)
        assert made(corpus) and made(other)
        fresh_db.execute("SELECT graphrag.forget(%s, 'turing')", [corpus])
        assert made(corpus) == 0 < made(other)
        fresh_db.execute("SELECT graphrag.drop_corpus(%s)", [other])
        assert files(fresh_db) == []
        answers(first, corpus)
        assert made(corpus)
        fresh_db.execute("SELECT graphrag.uninstall()")
        assert files(fresh_db) == []


def test_the_next_writer_removes_files_of_dropped_databases(fresh_db: Database, corpus: str) -> None:
    gone = "pg_stat_tmp/pg_graphrag_1_2_arrays_0123456789abcdef_3_topology_4"
    fresh_db.execute(f"DO LANGUAGE plpython3u $$\nopen('{gone}', 'w').close()\n$$".encode())
    with session(fresh_db) as first:
        answers(first, corpus)
    assert not value(fresh_db, "SELECT count(*) FROM pg_ls_dir('pg_stat_tmp') f WHERE f ~ '^pg_graphrag_1_2_'")


@pytest.mark.slow
def test_a_server_that_crashed_uses_no_file_of_before(cluster: Callable[..., Cluster]) -> None:
    server = cluster({"synchronous_commit": "off"})
    url = server.create_database("docs")
    with Database.open(url) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        for key, content in STORIES.items():
            put(db, "default", key, content)
        work(db)
        with session(db) as first:
            expected = answers(first, "default")
        before = files(db)
        assert before
    server.kill()
    server.start()
    with Database.open(url) as db, session(db) as first:
        patch(first, f"shared_arrays.keep = shared_arrays.share\n{NO_FILE}")
        assert answers(first, "default") == expected and mapped(first) == []
        patch(first, "shared_arrays.share = shared_arrays.keep")
        assert answers(first, "default") == expected and mapped(first) == KINDS
        assert not set(before) & set(files(db))


@pytest.mark.slow
def test_a_standby_has_files_of_its_own(cluster: Callable[..., Cluster]) -> None:
    primary = cluster({"max_wal_senders": "4", "wal_level": "replica"})
    url = primary.create_database("docs")
    with Database.open(url) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        for key, content in STORIES.items():
            put(db, "default", key, content)
        work(db)
        with session(db) as first:
            expected = answers(first, "default")
        assert files(db)
    standby = cluster({"hot_standby": "on"}, primary=primary)
    with Database.open(standby.url("docs")) as db:
        # A base backup has none.
        assert files(db) == []
        with psycopg.connect(db.url, autocommit=True) as own:
            own.execute(AS_IF_LARGE)
            assert answers(own, "default") == expected
        assert files(db)
        standby.runtime.run("pg_ctl", "promote", "-w", "-s", "-D", f"{standby._inside}/data")
    with Database.open(standby.url("docs")) as db:
        index_all(db, "default", {"hopper": "Grace Hopper wrote notes on the Mark I, an engine at Harvard."})
        with session(db) as own:
            assert answers(own, "default") == uncached(db, "default")
            assert mapped(own) == KINDS
