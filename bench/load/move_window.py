"""How long a corpus that moves to another database is not written, and how long the move takes, by the size of the corpus.

    python -m bench move_window [--chunks 1500 5000 10000]

The documents of `large_corpus`: chunks with one window each, no graph. Both databases are of one server, so that source, target
and command share its processors. Each corpus is moved quietly, taken back, and moved while one session writes documents as fast
as it can (new, changed and deleted ones in turn) and a worker indexes them. "window": seconds without writes, as the command
says. "gap": the longest time that the writer waited or was refused. What it had acknowledged must be in the target.
"""

from __future__ import annotations

import argparse
import os
import threading
import time

import psycopg
from pg_graphrag.beside.process.corpus_move import move_corpus, undo_move
from psycopg import conninfo

from bench.data.mixed_text import PARAGRAPHS, MixedText
from bench.load.growth import Worker, scalar
from bench.load.large_corpus import CORPUS, Connection, counted, insert, prepare
from tests.endpoint import Endpoint

SOURCE, TARGET = "bench_move_source", "bench_move_target"


class Writer(threading.Thread):
    """A session that inserts, changes and deletes documents, until the corpus is somewhere else."""

    def __init__(self, url: str, text: MixedText, first: int) -> None:
        super().__init__(daemon=True)
        self.connection = psycopg.connect(url, autocommit=True)
        self.text, self.first = text, first
        self.keys: set[str] = set()
        self.gap = 0.0
        self.writes = 0

    def run(self) -> None:
        last = time.perf_counter()
        while True:
            try:
                self._write()
                self.writes += 1
                self.gap = max(self.gap, time.perf_counter() - last)
                last = time.perf_counter()
            except psycopg.errors.ReadOnlySqlTransaction:
                time.sleep(0.01)
            except psycopg.errors.UndefinedObject:  # it is gone from here
                self.gap = max(self.gap, time.perf_counter() - last)
                return

    def _write(self) -> None:
        """Do the next of five steps: insert a document, change it, insert another, change it, delete that."""
        pair, step = divmod(self.writes, 5)
        number = self.first + 2 * pair + (step >= 2)
        key = f"{number:07}"
        if step in (0, 2):
            insert(self.connection, self.text, number, 1)
            self.keys.add(key)
        elif step in (1, 3):
            changed = "UPDATE graphrag.documents SET title = title || '.' WHERE corpus = %s AND source_key = %s"
            self.connection.execute(changed, [CORPUS, key])
        else:
            deleted = "DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = %s"
            self.connection.execute(deleted, [CORPUS, key])
            self.keys.discard(key)


def index(url: str) -> None:
    """Have all documents indexed."""
    worker = Worker(url, 0)
    with psycopg.connect(url, autocommit=True) as connection:
        while counted(connection, "jobs"):
            time.sleep(0.2)
    worker.end()


def move(source: Connection, target: Connection) -> tuple[float, float, int]:
    """Return seconds of the move, those without writes, and its rounds."""
    began = time.perf_counter()
    moved = move_corpus(source, target, CORPUS)
    assert moved.frozen_seconds is not None
    assert moved.rounds is not None
    return time.perf_counter() - began, moved.frozen_seconds, moved.rounds


def measure(server: str, text: MixedText, chunks: int, endpoint: Endpoint) -> None:
    """Move a corpus of so many chunks quietly, and under a writer."""
    urls = [conninfo.make_conninfo(server, dbname=name) for name in (SOURCE, TARGET)]
    for name in (SOURCE, TARGET):
        prepare(server, endpoint, name)
    with psycopg.connect(urls[0], autocommit=True) as source, psycopg.connect(urls[1], autocommit=True) as target:
        target.execute("SELECT graphrag.drop_corpus(%s)", [CORPUS])
        documents = chunks // PARAGRAPHS
        insert(source, text, 0, documents)
        index(urls[0])
        source.execute("SELECT graphrag.optimize(%s)", [CORPUS])
        index(urls[0])
        source.execute("VACUUM (ANALYZE)")
        seconds, window, rounds = move(source, target)
        print(f"{chunks:9,} {'quiet':9} {seconds:7.1f} {window:7.2f} {rounds:7}", flush=True)
        undo_move(source, target, CORPUS)
        writer, worker = Writer(urls[0], text, documents), Worker(urls[0], 0)
        writer.start()
        seconds, window, rounds = move(source, target)
        writer.join()
        worker.end()
        there = target.execute("SELECT source_key FROM graphrag.documents WHERE corpus = %s", [CORPUS]).fetchall()
        arrived = {key for (key,) in there if int(key) >= documents}
        lost, too_many = sorted(writer.keys - arrived), sorted(arrived - writer.keys)
        assert not lost and not too_many, f"lost {lost}, too many {too_many}"
        print(
            f"{chunks:9,} {'written':9} {seconds:7.1f} {window:7.2f} {rounds:7} {writer.writes:7} {writer.gap:7.2f}"
            f"  load {os.getloadavg()[0]:.1f}, {scalar(target, 'SELECT chunks FROM graphrag.progress'):,} chunks there",
            flush=True,
        )


def drop_databases(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        for name in (SOURCE, TARGET):
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--chunks", type=int, nargs="*", default=[1500, 5000, 10_000])
    options = parser.parse_args()
    text = MixedText()
    print(f"{'chunks':>9} {'':9} {'move s':>7} {'window':>7} {'rounds':>7} {'writes':>7} {'gap s':>7}")
    with Endpoint(keep=False) as endpoint:
        endpoint.embed(lambda texts, _: [text.vector(each) for each in texts])
        for chunks in options.chunks:
            drop_databases(options.url)
            measure(options.url, text, chunks, endpoint)
    drop_databases(options.url)


if __name__ == "__main__":
    main()
