"""Side by side with LightRAG, in one run: ingestion with recorded extraction, and context in four modes.

    python -m bench lightrag [--documents 100]

MuSiQue passages; their recorded OpenIE output is served by tests/endpoint to every system in the form its prompt asks
for, and so is one hash embedder: what is timed is the systems' own work, not a model's. Systems: pg_graphrag with one
and two workers (also on all passages), LightRAG on PostgreSQL (pgvector and AGE, the same server) and LightRAG on its
default files. The clock starts when the workers are up, as LightRAG's does (its process has loaded its modules and made
its stores): each worker's session has indexed a document of another corpus before. It stops when no job is left, the
communities and their reports that LightRAG does not have among them; when the last document was indexed is said beside
it. LightRAG is installed, in a pinned version, into a venv of its own in the cache; nothing else uses it.
The databases that the run makes on the server are dropped again.

Context: each system is asked everything twice, and the second time counts; keywords are given, so that no system asks
a model for them. The embedding of the query is timed by itself and not part of the rest.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.types.json import Jsonb

from bench.peers.halves.peer_half import server_cpu
from bench.peers.peers import ROOT, WORK, database, passages, peer_python, peer_step, postmaster

LIGHTRAG = "1.5.7"
REQUIREMENTS = (f"lightrag-hku=={LIGHTRAG}", "asyncpg==0.31.0", "pgvector==0.5.1", "openai==3.54.0")
# Questions whose vectors a session keeps for certain.
GROUP = 10
MODES = ("local", "global", "hybrid", "mix")
CONCURRENCY = 8
DIMENSIONS = 384
HASH_EMBEDDER = {"provider": "bench", "model": "hash", "dimensions": DIMENSIONS}


@dataclass
class Result:
    """What one system showed. Seconds; `contexts`: per mode, seconds of each context without its embedding.

    `seconds` go until no work is left, `indexing` until the last document was indexed.
    """

    system: str
    documents: int
    seconds: float
    indexing: float
    cpu: float | None
    failed: int
    requests: dict[str, int]
    contexts: dict[str, list[float]] = field(default_factory=dict)
    embedding: list[float] = field(default_factory=list)


class Endpoint:
    """tests/endpoint as a process of its own."""

    def __init__(self, data: Path) -> None:
        command = [sys.executable, "-m", "tests.endpoint", "--record", str(data), "--dimensions", str(DIMENSIONS)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def requests(self) -> dict[str, int]:
        """Return how many requests of each kind it has had."""
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.url}/stats") as reply:
            counts: dict[str, int] = json.load(reply)["counts"]
        return counts

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def less(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {kind: after.get(kind, 0) - before.get(kind, 0) for kind in ("chat", "embeddings")}


# pg_graphrag


def ours(
    url: str,
    server: int | None,
    endpoint: Endpoint,
    documents: list[tuple[str, str, str]],
    questions: list[Any],
    workers: int,
    given: argparse.Namespace,
) -> Result:
    """Ingest with so many workers; ask where there are questions."""
    with database(url, "bench_lightrag_ours") as own:
        with psycopg.connect(own, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
            connection.execute(
                "SELECT graphrag.set_provider('bench', 'openai', %s, options => %s)",
                [endpoint.url, Jsonb({"concurrency": CONCURRENCY})],
            )
            options = {
                "extractor": "llm",
                "language": "en",
                "max_gleaning": given.gleaning,
                "llm": {"provider": "bench", "model": "recorded"},
                "embedding": HASH_EMBEDDER if given.embedding == "endpoint" else {"provider": "local"},
            }
            for name in ("bench", "begin"):
                connection.execute("SELECT graphrag.create_corpus(%s, %s)", [name, Jsonb(options)])
        sessions = [begin(own, documents[0]) for _ in range(workers)]
        asked, used = endpoint.requests(), server_cpu(server)
        began, start = time.time(), time.perf_counter()
        with psycopg.connect(own, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES ('bench', %s, %s, %s)",
                documents,
            )
        threads = [threading.Thread(target=session.execute, args=[WORK]) for session in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - start
        for session in sessions:
            session.close()
        count, last = indexed(own)
        result = Result(
            f"pg_graphrag, {workers} worker{'s' if workers > 1 else ''}",
            len(documents),
            seconds,
            last - began,
            None if used is None else (server_cpu(server) or 0.0) - used,
            len(documents) - count,
            less(endpoint.requests(), asked),
        )
        if questions:
            with psycopg.connect(own, autocommit=True) as connection:
                connection.execute("SELECT graphrag.optimize('bench')")
            retrieve(own, endpoint, questions, result)
    return result


def begin(url: str, document: tuple[str, str, str]) -> psycopg.Connection[Any]:
    """Return a worker's session that has loaded what it needs."""
    connection = psycopg.connect(url, autocommit=True)
    connection.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES ('begin', %s, %s, %s)"
        " ON CONFLICT (corpus, source_key) DO UPDATE SET content = EXCLUDED.content || ' '",
        document,
    )
    connection.execute(WORK)
    return connection


def indexed(url: str) -> tuple[int, float]:
    """Return how many documents are indexed, and when the last one was (seconds since 1970)."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*), coalesce(extract(epoch FROM max(indexed_at)), 0) FROM graphrag.documents"
            " WHERE corpus = 'bench' AND status = 'indexed'"
        ).fetchone()
    assert row is not None
    return int(row[0]), float(row[1])


def retrieve(url: str, endpoint: Endpoint, questions: list[Any], result: Result) -> None:
    """Time contexts in one session per mode. The second time around, the session has the vectors of all texts."""
    for mode in MODES:
        with psycopg.connect(url, autocommit=True) as connection:
            for place in range(0, len(questions), GROUP):
                group = questions[place : place + GROUP]
                for question in group:
                    context(connection, mode, question)
                asked = endpoint.requests()
                result.contexts.setdefault(mode, []).extend(context(connection, mode, question) for question in group)
                if any(less(endpoint.requests(), asked).values()):
                    raise SystemExit("a model was asked while contexts were timed")
    with psycopg.connect(url, autocommit=True) as connection:
        for question, _, _ in [questions[0], *questions]:
            start = time.perf_counter()
            connection.execute("SELECT graphrag.embed(%s, 'bench')", [question]).fetchone()
            result.embedding.append(time.perf_counter() - start)
    # The first loads what a session needs.
    del result.embedding[0]


def context(connection: psycopg.Connection[Any], mode: str, asked: Any) -> float:
    """Return the seconds that a context takes."""
    question, low, high = asked
    start = time.perf_counter()
    row = connection.execute(
        "SELECT graphrag.context(%s, 'bench', %s, low_level_keywords => %s, high_level_keywords => %s)",
        [question, mode, low, high],
    ).fetchone()
    taken = time.perf_counter() - start
    if row is None or not row[0]["prompt"]:
        raise SystemExit(f"pg_graphrag has no context for {question!r} in mode {mode}")
    return taken


# LightRAG


def lightrag(
    store: str,
    url: str,
    server: int | None,
    endpoint: Endpoint,
    documents: list[tuple[str, str, str]],
    questions: list[Any],
    gleaning: int,
) -> Result:
    task: dict[str, Any] = {
        "store": store,
        "endpoint": endpoint.url,
        "documents": documents,
        "questions": questions,
        "modes": MODES,
        "dimensions": DIMENSIONS,
        "concurrency": CONCURRENCY,
        "gleaning": gleaning,
    }
    with database(url, "bench_lightrag_peer") as own, tempfile.TemporaryDirectory() as folder:
        with psycopg.connect(own, autocommit=True) as connection:
            # LightRAG does not load AGE in each of its sessions: without this, documents fail.
            connection.execute("ALTER DATABASE bench_lightrag_peer SET session_preload_libraries = 'age'")
        task["folder"] = folder
        asked, used = endpoint.requests(), server_cpu(server)
        result = peer_half(own, task | {"step": "ingest"})
        used = None if used is None else (server_cpu(server) or 0.0) - used
        asked = less(endpoint.requests(), asked)
        modes = peer_half(own, task | {"step": "retrieve"})
    return Result(
        f"LightRAG {LIGHTRAG} on {'PostgreSQL' if store == 'postgresql' else 'files'}",
        len(documents),
        result["seconds"],
        result["seconds"],
        None if used is None else result["cpu"] + used,
        result["failed"],
        asked,
        {mode: [taken - embedding for taken, embedding in times] for mode, times in modes.items()},
        [embedding for times in modes.values() for _, embedding in times],
    )


def peer_half(url: str, task: dict[str, Any]) -> Any:
    """Run a step of bench/peers/halves/lightrag_peer.py on a database."""
    parts = urlsplit(url)
    return peer_step(
        peer_python("lightrag", REQUIREMENTS),
        "lightrag_peer.py",
        task,
        POSTGRES_HOST=str(parts.hostname),
        POSTGRES_PORT=str(parts.port or 5432),
        POSTGRES_USER=unquote(parts.username or ""),
        POSTGRES_PASSWORD=unquote(parts.password or ""),
        POSTGRES_DATABASE=parts.path[1:],
        # An endpoint on a busy machine is slow; LightRAG gives up documents after 60 s.
        EMBEDDING_TIMEOUT="600",
        LLM_TIMEOUT="600",
    )


# The run


def dev_questions(data: Path, count: int) -> list[tuple[str, list[str], list[str]]]:
    """Return (question, low-level keywords, high-level keywords)."""
    with (data / "musique/queries_dev.jsonl").open(encoding="utf-8") as file:
        loaded = [json.loads(line)["question"] for line in file]
    return [(question, re.findall(r"[A-Z]\w+", question) or [question], [question]) for question in loaded[:count]]


def table(results: list[Result]) -> str:
    lines = [
        "| | documents | ingest, documents/s | until all are indexed | CPU, ms/document | failed | requests: chat / embeddings |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        cpu = "–" if result.cpu is None else f"{1e3 * result.cpu / result.documents:.0f}"
        requests = f"{result.requests['chat']} / {result.requests['embeddings']}"
        rates = f"{result.documents / result.seconds:.1f} | {result.documents / result.indexing:.1f}"
        lines.append(f"| {result.system} | {result.documents} | {rates} | {cpu} | {result.failed} | {requests} |")
    lines += ["", f"| context, ms p50 / p95 | {' | '.join(MODES)} | the query's embedding, apart |"]
    lines.append("|---" * (len(MODES) + 2) + "|")
    for result in results:
        if result.contexts:
            times = " | ".join(quantiles(result.contexts[mode]) for mode in MODES)
            lines.append(f"| {result.system}, {result.documents} documents | {times} | {quantiles(result.embedding)} |")
    return "\n".join(lines)


def quantiles(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{1e3 * statistics.median(ordered):.1f} / {1e3 * ordered[int(0.95 * (len(ordered) - 1))]:.1f}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True, help="of any database of the server, as superuser")
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    arguments.add_argument("--documents", type=int, default=100, help="for every system (100)")
    arguments.add_argument("--questions", type=int, default=20)
    arguments.add_argument("--gleaning", type=int, default=0, help="rounds, for every system (0)")
    arguments.add_argument("--embedding", choices=("endpoint", "local"), default="endpoint", help="pg_graphrag's")
    arguments.add_argument("--ours", action="store_true", help="pg_graphrag alone, and not all passages")
    given = arguments.parse_args()
    if not (given.data / "musique/openie.jsonl").exists():
        raise SystemExit(f"no recorded extraction in {given.data} (--data)")
    documents, questions = passages(given.data, given.documents), dev_questions(given.data, given.questions)
    endpoint = Endpoint(given.data)
    results = []
    try:
        with psycopg.connect(given.url) as connection:
            server = postmaster(connection)
        for workers in (1, 2):
            wanted = questions if workers == 1 else []
            results.append(ours(given.url, server, endpoint, documents, wanted, workers, given))
            print(f"{results[-1].system}: {results[-1].seconds:.1f} s", file=sys.stderr, flush=True)
        if not given.ours:
            everything = passages(given.data, None)
            results.append(ours(given.url, server, endpoint, everything, questions, 2, given))
            print(f"{results[-1].system}: {results[-1].seconds:.1f} s", file=sys.stderr, flush=True)
        for store in () if given.ours else ("postgresql", "files"):
            results.append(lightrag(store, given.url, server, endpoint, documents, questions, given.gleaning))
            print(f"{results[-1].system}: {results[-1].seconds:.1f} s", file=sys.stderr, flush=True)
    finally:
        endpoint.close()
    print(table(results))


if __name__ == "__main__":
    main()
