"""Whatever dies while a corpus moves under readers and writers: the command repeated ends well, and nothing is lost."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside import cli
from pg_graphrag.beside.process.corpus_move import rounds
from pg_graphrag.beside.process.corpus_move.row_changes import RowChanges

from tests.runtime.cluster import Cluster, Database, Server
from tests.sql.ingest import STORIES, new_corpus, put, put_all, work
from tests.sql.two_hosts import plain_database

# As many rounds on a machine that is busy: the one after the copy is the last but one.
FEW_ROUNDS = ["--pause", "60"]
# Run with a point of the move at which it says so and waits for a line: there somebody dies.
COMMAND = """
import sys
from pg_graphrag.beside import cli
from pg_graphrag.beside.process import corpus_move
from pg_graphrag.beside.process.corpus_copy import access
from pg_graphrag.beside.process.corpus_copy.rows import RowCopy
from pg_graphrag.beside.process.corpus_move import rounds, switch
from pg_graphrag.beside.process.corpus_move.row_changes import RowChanges

point, count = sys.argv.pop(1), 0

def reached(name):
    if name == point:
        print("reached", flush=True)
        sys.stdin.readline()

def before(owner, name, point_of, table=None):
    former = getattr(owner, name)
    def later(*arguments, **options):
        if table is None or arguments[1] == table:
            reached(point_of())
        return former(*arguments, **options)
    setattr(owner, name, later)

def counted(*arguments, **options):
    global count
    count += 1
    reached("before the last round" if options.get("is_last") else "")
    done = bring(*arguments, **options)
    reached(f"after round {count}")
    return done

bring, rounds.bring = rounds.bring, counted
before(RowCopy, "copy_table", lambda: "in the copy", "entity_mentions")
before(RowChanges, "_write", lambda: f"in round {count}", "entity_mentions")
before(rounds, "set_mark", lambda: f"marked in round {count}")
before(switch, "_drain", lambda: "marked as moving")
before(access, "open_again", lambda: "before the target is opened")
before(corpus_move, "leave", lambda: "open")
sys.exit(cli.main(sys.argv[1:]))
"""
POINTS = (
    "in the copy",
    "marked in round 1",
    "after round 1",
    "in round 2",
    "after round 2",
    "marked as moving",
    "before the last round",
    "in round 3",
    "before the target is opened",
    "after round 3",
    "open",
)
KEYS = "SELECT source_key FROM graphrag.documents WHERE corpus = 'stories'"


class Load:
    """Who reads and writes a corpus that two servers have by turns: what was acknowledged, and what nobody knows."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.is_over = False
        self.written: set[str] = set()
        self.deleted: set[str] = set()
        self.unknown: set[str] = set()
        self.reads = 0
        # SQLSTATEs that tell a client something else than to try again, or elsewhere.
        self.surprises: list[str] = []

    @contextmanager
    def run(self) -> Iterator[None]:
        """Read, write and index meanwhile."""
        threads = [threading.Thread(target=work) for work in (self._write, self._read, self._index)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.is_over = True
            for thread in threads:
                thread.join(60)

    def _repeat(self, act: Callable[[psycopg.Connection[Any]], None], pause: float) -> None:
        place = 0
        connection: psycopg.Connection[Any] | None = None
        while not self.is_over:
            try:
                if connection is None:
                    connection = psycopg.connect(self.urls[place], autocommit=True)
                act(connection)
            except psycopg.Error as error:
                if error.sqlstate in ("42704", "55000"):
                    place = 1 - place
                elif error.sqlstate not in (
                    None,
                    "25006",
                    "40001",
                    "57P01",
                    "57P02",
                    "57P03",
                    "08006",
                    "55P03",
                    "40P01",
                ):
                    self.surprises.append(f"{error.sqlstate} {error}")
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()
                connection = None
                time.sleep(0.05)
            time.sleep(pause)

    def _write(self) -> None:
        number = 0

        def write(connection: psycopg.Connection[Any]) -> None:
            nonlocal number
            number += 1
            key = f"written {number}"
            self.unknown.add(key)
            content = f"Ishmael wrote letter {number} to Captain Ahab in Nantucket."
            insert = "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES ('stories', %s, %s)"
            try:
                connection.execute(insert, [key, content])
            except psycopg.Error as error:
                if error.sqlstate is not None and not error.sqlstate.startswith(("08", "57")):
                    self.unknown.discard(key)
                raise
            self.unknown.discard(key)
            self.written.add(key)
            if number % 3 == 0:
                gone = min(self.written)
                self.written.discard(gone)
                self.unknown.add(gone)
                connection.execute(
                    "DELETE FROM graphrag.documents WHERE corpus = 'stories' AND source_key = %s", [gone]
                )
                self.unknown.discard(gone)
                self.deleted.add(gone)

        self._repeat(write, 0.05)

    def _read(self) -> None:
        def read(connection: psycopg.Connection[Any]) -> None:
            connection.execute("SELECT * FROM graphrag.search('Ada Lovelace', 'stories', 'bm25')").fetchall()
            self.reads += 1

        self._repeat(read, 0.02)

    def _index(self) -> None:
        def index(connection: psycopg.Connection[Any]) -> None:
            for url in self.urls:
                with psycopg.connect(url, autocommit=True) as worker:
                    worker.execute("CALL graphrag.process_jobs(50)")

        self._repeat(index, 0.2)


def move(point: str, here: str, there: str) -> subprocess.Popen[str]:
    # Whoever runs the tests may have a long buffer.
    return subprocess.Popen(
        [sys.executable, "-u", "-c", COMMAND, point, "move", "stories", "--url", here, "--to", there],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("round_number", [2, 3])
@pytest.mark.parametrize("killed", ["source", "target"])
def test_a_session_that_ends_in_a_round_leaves_what_was_there_and_the_command_goes_on(
    db: Database, shared_cluster: Cluster | Server, monkeypatch: pytest.MonkeyPatch, killed: str, round_number: int
) -> None:
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    work(db)
    begun: list[str] = []
    write, bring = RowChanges._write, rounds.bring

    def end(changes: Any, table: str, columns: list[str]) -> None:
        if table == "entity_mentions" and len(begun) == round_number:
            ended = (changes._reader if killed == "source" else changes._writer).connection.info.backend_pid
            db.execute("SELECT pg_terminate_backend(%s)", [ended])
        write(changes, table, columns)

    def counted(*arguments: Any, **options: Any) -> Any:
        begun.append("")
        if len(begun) == 2:
            put(db, corpus, "later", "Ishmael met Ada Lovelace in Bergen.")
        return bring(*arguments, **options)

    with plain_database(shared_cluster) as target:
        command = ["move", corpus, "--url", db.url, "--to", target, *FEW_ROUNDS]
        with monkeypatch.context() as patched:
            patched.setattr(RowChanges, "_write", end)
            patched.setattr(rounds, "bring", counted)
            assert cli.main(command) == 1
        (mark,) = db.execute("SELECT move ->> 'state' FROM graphrag.corpora WHERE name = %s", [corpus]).fetchone() or ()
        assert mark == (None if round_number == 2 else "moving")
        with psycopg.connect(target) as connection:
            states = connection.execute("SELECT move ->> 'state' FROM graphrag.corpora").fetchall()
            assert states == [("arriving",)]
        assert cli.main(command) == 0
        with GraphRAG(target, corpus) as rag:
            rag.process_jobs()
            assert rag.call("check") == []
            assert {row.source_key for row in rag.search("Ishmael in Bergen")} >= {"later"}


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["command", "source", "target"])
def test_nothing_is_lost_whoever_dies_at_whatever_point(cluster: Callable[..., Cluster], victim: str) -> None:
    servers = [cluster({"synchronous_commit": "on"}) for _ in range(2)]
    urls = [server.create_database("app") for server in servers]
    for url in urls:
        with Database.open(url) as db:
            db.execute("CREATE EXTENSION pg_graphrag CASCADE")
    with GraphRAG(urls[0], "stories") as rag:
        rag.create_corpus(communities={"max_cluster_size": 5})
        rag.insert({"source_key": key, "content": text} for key, text in STORIES.items())
        rag.process_jobs()
    load = Load(urls)
    place = 0
    with load.run():
        for point in POINTS:
            here, there = urls[place], urls[1 - place]
            before = len(load.written) + len(load.deleted), load.reads
            process = move(point, here, there)
            assert process.stdout is not None
            lines = []
            while (line := process.stdout.readline()) and line != "reached\n":
                lines.append(line)
            assert line == "reached\n", (point, lines, process.wait())
            if victim == "command":
                process.kill()
            else:
                dying = servers[place if victim == "source" else 1 - place]
                dying.kill()
                dying.start()
            rest, _ = process.communicate("\n", timeout=120)
            # Died before it was there, or after: the same command goes on.
            repeated = move("", here, there)
            printed = repeated.communicate(timeout=300)[0]
            assert repeated.returncode == 0, (point, lines, rest, printed)
            with Database.open(there) as db, Database.open(here) as former:
                assert former.execute("SELECT move ->> 'state' FROM graphrag.corpora").fetchall() == [("moved",)]
                assert db.execute("SELECT move FROM graphrag.corpora").fetchall() == [(None,)]
                former.execute("SELECT graphrag.drop_corpus('stories')")
            place = 1 - place
            deadline = time.monotonic() + 60
            while (len(load.written) + len(load.deleted), load.reads) <= before and time.monotonic() < deadline:
                time.sleep(0.1)
            assert len(load.written) + len(load.deleted) > before[0], point
            assert load.reads > before[1], point
    assert load.surprises == []
    with Database.open(urls[place]) as db, GraphRAG(urls[place], "stories") as rag:
        keys = {row[0] for row in db.execute(KEYS).fetchall()}
        assert load.written <= keys, sorted(load.written - keys)
        assert not load.deleted & keys
        assert keys - load.written - load.unknown == set(STORIES)
        for _ in range(3):
            rag.process_jobs()
        assert rag.call("check") == []
        assert rag.progress().pending == 0
    print(
        f"{victim}: {len(load.written)} written, {len(load.deleted)} deleted, {load.reads} reads, {len(load.unknown)} unknown"
    )
