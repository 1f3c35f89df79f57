"""One long document: how soon its words are found, how long it takes, and what its workers need.

    python -m bench long_document [--megabytes 2] [--workers 0 1 2]

The text is the PostgreSQL manual, page after page, and from the beginning again where it ends. Each number of workers indexes
it in a corpus of its own, in parts; 0 is one worker that does the document at once, as it does short ones. With the last,
`check()` is asked, and all fingerprints must be equal. "found" is the time until bm25 finds the last page. CPU and memory are
of the workers' sessions: VmHWM, and the most that was seen of their own (RssAnon). Without `--quiet` there is a line of
`progress` every ten seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import psycopg
from pg_graphrag.beside.readers.web.html import extract

SERVER = Path(__file__).resolve().parents[2] / "bin/graphrag-server"
MANUAL = "/usr/share/doc/postgresql-doc-17/html"
CORPUS = "bench long"
TICKS = os.sysconf("SC_CLK_TCK")
MARK = "zyzzogeton"
AT_ONCE = "DO LANGUAGE plpython3u 'from pg_graphrag.index.indexing import write as parts; parts.LONG_BYTES = 10**12'"

Connection = psycopg.Connection[Any]


def run(*command: str) -> str:
    """Run a command inside the server's root."""
    return subprocess.run(
        [str(SERVER), "exec", *command], input="", stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def make_corpus(connection: Connection, name: str) -> None:
    connection.execute("SELECT graphrag.drop_corpus(name) FROM graphrag.corpora WHERE name = %s", [name])
    connection.execute("SELECT graphrag.create_corpus(%s, '{\"communities\": false}')", [name])


def manual(size: int) -> str:
    """Return the text of the manual, cut to, or repeated up to, so many characters."""
    between = "<!-- next page -->"
    pages = run("sh", "-c", f"for page in {MANUAL}/*.html; do cat $page; echo '{between}'; done").split(between)
    texts = sorted((extract(page)[1] for page in pages if page.strip()), key=lambda text: zlib.crc32(text.encode()))
    text = manual = "\n\n".join(texts)
    for letters in ("eé", "aá", "oó", "ií"):
        # Words that differ from pass to pass, so that nothing is found or embedded once for all.
        text += "\n\n" + manual.replace(*letters) if len(text) < size else ""
    return text[:size] + f"\n\nThe last word is {MARK}."


def status(pid: int) -> dict[str, float]:
    """Return processor seconds and MB of memory of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    sizes = {line.split(":")[0]: float(line.split()[1]) / 1024 for line in lines if line.endswith(" kB")}
    return {
        "cpu": (int(fields[11]) + int(fields[12])) / TICKS,
        "peak": sizes["VmHWM"],
        "anonymous": sizes["RssAnon"],
        "shared": sizes["RssShmem"],
    }


class Worker(threading.Thread):
    """A worker in a session of its own, and what it needed."""

    def __init__(self, url: str, at_once: bool) -> None:
        super().__init__()
        self.connection = psycopg.connect(url, autocommit=True)
        if at_once:
            self.connection.execute(AT_ONCE)
        self.stopped = threading.Event()
        self.anonymous = 0.0
        self.start()

    def run(self) -> None:
        """Do what is due, again and again: what another has at work may leave more."""
        while not self.stopped.is_set():
            self.connection.execute("CALL graphrag.process_jobs()")
            self.stopped.wait(0.2)

    def status(self) -> dict[str, float]:
        now = status(self.connection.info.backend_pid)
        self.anonymous = max(self.anonymous, now["anonymous"])
        return now | {"anonymous": self.anonymous}


def progress(connection: Connection, corpus: str) -> dict[str, Any]:
    cursor = connection.execute("SELECT * FROM graphrag.progress WHERE corpus = %s", [corpus])
    names = [column.name for column in cursor.description or ()]
    return dict(zip(names, cursor.fetchone() or (), strict=True))


def measure(url: str, connection: Connection, text: str, count: int, quiet: bool) -> str:
    """Index the text with so many workers; print what it took, and return the fingerprint."""
    corpus = f"{CORPUS} {count}"
    make_corpus(connection, corpus)
    connection.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES (%s, 'long', 'The manual', %s)",
        [corpus, text],
    )
    began, shown, searchable = time.monotonic(), 0.0, 0.0
    workers = [Worker(url, at_once=not count) for _ in range(count or 1)]
    while progress(connection, corpus)["jobs"] and all(worker.is_alive() for worker in workers):
        seconds = time.monotonic() - began
        for worker in workers:
            worker.status()
        if (
            not searchable
            and connection.execute("SELECT FROM graphrag.search(%s, %s, 'bm25')", [MARK, corpus]).fetchall()
        ):
            searchable = time.monotonic() - began
        if not quiet and seconds - shown > 10:
            shown = seconds
            now = progress(connection, corpus)
            print(f"  {seconds:6.1f} s", {k: now[k] for k in now if k in SHOWN}, flush=True)
        time.sleep(0.1)
    seconds = time.monotonic() - began
    for worker in workers:
        worker.stopped.set()
        worker.join()
    statuses = [worker.status() for worker in workers]
    now = progress(connection, corpus)
    spent = " + ".join(f"{status['cpu']:.1f}" for status in statuses)
    peaks = ", ".join(f"{status['peak']:.0f} ({status['anonymous']:.0f} anonymous)" for status in statuses)
    print(
        f"{f'{count} worker(s)' if count else 'at once'}: found after {searchable:.1f} s, done after {seconds:.1f} s;"
        f" CPU {spent} s; peak {peaks} MB;"
        f" {now['chunks']} chunks, {now['entities']} entities, {now['relationships']} relationships",
        flush=True,
    )
    ((fingerprint,),) = connection.execute("SELECT graphrag.fingerprint(%s)", [corpus]).fetchall()
    return str(fingerprint)


SHOWN = ("chunks", "vectors_pending", "graphs_pending", "entities", "pending", "jobs", "leased")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--megabytes", type=float, default=2)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    with psycopg.connect(options.url, autocommit=True) as connection:
        text = manual(int(options.megabytes * 1e6))
        print(f"{len(text) / 1e6:.1f} million characters")
        fingerprints = {measure(options.url, connection, text, count, options.quiet) for count in options.workers}
        assert len(fingerprints) == 1, fingerprints
        corpus = f"{CORPUS} {options.workers[-1]}"
        violations = connection.execute("SELECT * FROM graphrag.check(%s)", [corpus]).fetchall()
        assert not violations, violations
        for count in options.workers:
            connection.execute("SELECT graphrag.drop_corpus(%s)", [f"{CORPUS} {count}"])


if __name__ == "__main__":
    main()
