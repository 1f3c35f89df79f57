"""Other systems beside this one, in one run: ingestion, calls, disk, what questions find; with equal vectors and extraction.

    python -m bench beside [--documents 300] [--systems pg_graphrag lightrag-files …]

Passages of MuSiQue: those that answer the dev questions, then the first others. Their recorded OpenIE output is served by
tests/endpoint to every system in the form that its prompt asks for, and so are vectors of all-MiniLM-L6-v2 (``--vectors hash``:
hashed words, for a try). What is counted is each system's own work: processor time of its process and of the server, not of the
endpoint. Each peer is installed, in a pinned version, into a venv of its own in the cache; one that cannot be installed here is
named and left out. Defaults of each system, but for what all are given: no gleaning, no reranker, eight requests at a time.

Retrieval: every question twice in each mode, the second time counts, so what a system remembers of a question's vector it has.
Keywords are given where a system takes them. Documents are judged, in the order of the first passage of each; graphrag's local
search shows its sources only with an answer, so its times have one call to the endpoint, which answers at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import graphrag_pypi
import lightrag
import numpy as np
import psycopg
from numpy.typing import NDArray
from peers import database, interpreter, peer_python, peer_step, postmaster, server_cpu
from pg_graphrag import bootstrap
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint

PG_RAGGRAPH = "0.9.9"
RAGGRAPH_REQUIREMENTS = (f"pg-raggraph=={PG_RAGGRAPH}",)
RAGGRAPH_PYTHON = (3, 12)
DIMENSIONS = 384
CONCURRENCY = 8
DEPTHS = (2, 5, 10)
# Rows that each system is asked for.
TOP_K = 20


@dataclass
class Result:
    """What a system took. `modes`: by mode seconds of each question, and its documents, best first."""

    system: str
    seconds: float
    cpu: float | None
    failed: int
    chat: int
    embeddings: int
    disk: int
    modes: dict[str, list[tuple[float, list[str]]]] = field(default_factory=dict)


@dataclass
class Run:
    """What all systems are given."""

    url: str
    endpoint: Endpoint
    documents: list[tuple[str, str, str]]
    questions: list[tuple[str, list[str], list[str]]]

    def task(self, **more: Any) -> dict[str, Any]:
        """Return the task of a peer's half."""
        shared = {"endpoint": self.endpoint.url, "dimensions": DIMENSIONS, "concurrency": CONCURRENCY, "gleaning": 0}
        return shared | {"documents": self.documents, "questions": self.questions, "top_k": TOP_K} | more

    def counts(self) -> tuple[int, int]:
        """Return the requests since the last call: (chat, embeddings)."""
        counts = self.endpoint.count("chat"), self.endpoint.count("embeddings")
        self.endpoint.forget()
        return counts


def ours(run: Run) -> Result:
    """Ingest with one worker, whose session has started before; search in three modes."""
    with database(run.url, "bench_beside_ours") as own, psycopg.connect(own, autocommit=True) as connection:
        server = postmaster(connection)
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        connection.execute(
            "SELECT graphrag.set_provider('bench', 'openai', %s, options => %s)",
            [run.endpoint.url, Jsonb({"concurrency": CONCURRENCY})],
        )
        options = {
            "extractor": "llm",
            "language": "en",
            "max_gleaning": 0,
            "llm": {"roles": {"extract": {"provider": "bench", "model": "recorded"}}},
            "embedding": {"provider": "bench", "model": "minilm", "dimensions": DIMENSIONS},
        }
        connection.execute("SELECT graphrag.create_corpus('bench', %s)", [Jsonb(options)])
        empty = size_of(connection)
        run.counts()
        used, start = server_cpu(server), time.perf_counter()
        with psycopg.connect(own, autocommit=True) as worker, worker.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES ('bench', %s, %s, %s)",
                run.documents,
            )
            worker.execute("CALL graphrag.process_jobs()")
            worker.execute("SELECT graphrag.optimize('bench')")
        seconds = time.perf_counter() - start
        cpu = None if used is None else (server_cpu(server) or 0.0) - used
        (indexed,) = connection.execute(
            "SELECT count(*) FROM graphrag.documents WHERE corpus = 'bench' AND status = 'indexed'"
        ).fetchone() or (0,)
        chat, embeddings = run.counts()
        disk = size_of(connection) - empty
        result = Result("pg_graphrag", seconds, cpu, len(run.documents) - indexed, chat, embeddings, disk)
        for mode in ("hybrid", "mix", "naive"):
            result.modes[mode] = [search(connection, mode, question) for question in twice(run.questions)][
                len(run.questions) :
            ]
    return result


def twice(questions: Sequence[Any]) -> list[Any]:
    return [*questions, *questions]


def search(
    connection: psycopg.Connection[Any], mode: str, question: tuple[str, list[str], list[str]]
) -> tuple[float, list[str]]:
    """Return the seconds of a search, and the documents in their order."""
    text, low, high = question
    start = time.perf_counter()
    rows = connection.execute(
        "SELECT source_key FROM graphrag.search(%s, 'bench', %s, %s, low_level_keywords => %s, high_level_keywords => %s)"
        " ORDER BY rank",
        [text, mode, TOP_K, low, high],
    ).fetchall()
    return time.perf_counter() - start, list(dict.fromkeys(key for (key,) in rows))


def size_of(connection: psycopg.Connection[Any]) -> int:
    """Return the bytes of the session's database."""
    (size,) = connection.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
    return int(size)


def folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextmanager
def empty_database(run: Run, name: str) -> Iterator[tuple[str, int | None, int]]:
    """Yield (its URL, the server's process, its bytes) of a peer's database with pgvector and pg_trgm."""
    with database(run.url, name) as own, psycopg.connect(own, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute("CREATE EXTENSION pg_trgm")
        yield own, postmaster(connection), size_of(connection)


def light_rag(store: str, label: str) -> Callable[[Run], Result]:
    """Return the run of LightRAG on a store."""

    def measured(run: Run) -> Result:
        with empty_database(run, "bench_beside_peer") as (own, server, empty), tempfile.TemporaryDirectory() as folder:
            task = run.task(store=store, folder=folder, modes=["hybrid", "mix", "naive"])
            run.counts()
            used = server_cpu(server)
            report = lightrag.peer_half(own, task | {"step": "ingest"})
            used = None if used is None else (server_cpu(server) or 0.0) - used
            chat, embeddings = run.counts()
            with psycopg.connect(own) as connection:
                disk = size_of(connection) - empty + folder_size(Path(folder))
            modes = lightrag.peer_half(own, task | {"step": "find"})
        cpu = None if used is None else report["cpu"] + used
        name = f"LightRAG {lightrag.LIGHTRAG} on {label}"
        return Result(name, report["seconds"], cpu, report["failed"], chat, embeddings, disk, modes)

    return measured


def raggraph(run: Run) -> Result:
    python = interpreter(RAGGRAPH_PYTHON)
    if python is None:
        raise SystemExit(f"it needs Python {RAGGRAPH_PYTHON[0]}.{RAGGRAPH_PYTHON[1]}")
    own_python = peer_python("raggraph", RAGGRAPH_REQUIREMENTS, python)
    # It asks the network for its tokenizer; litellm, which graphrag needs, has the same file.
    packages = peer_python("graphrag", graphrag_pypi.REQUIREMENTS).parents[1]
    tokenizers = next(packages.glob("lib/*/site-packages/litellm/litellm_core_utils/tokenizers"))
    with empty_database(run, "bench_beside_peer") as (own, server, empty):
        task = run.task(url=own, modes=["smart", "hybrid", "naive"])
        run.counts()
        used = server_cpu(server)
        report = peer_step(
            own_python, "raggraph_peer.py", task | {"step": "ingest"}, TIKTOKEN_CACHE_DIR=str(tokenizers)
        )
        used = None if used is None else (server_cpu(server) or 0.0) - used
        chat, embeddings = run.counts()
        with psycopg.connect(own) as connection:
            disk = size_of(connection) - empty
        modes = peer_step(own_python, "raggraph_peer.py", task | {"step": "find"}, TIKTOKEN_CACHE_DIR=str(tokenizers))
    cpu = None if used is None else report["cpu"] + used
    name = f"pg-raggraph {PG_RAGGRAPH}"
    return Result(name, report["seconds"], cpu, report["failed"], chat, embeddings, disk, modes)


def graphrag(run: Run) -> Result:
    python = peer_python("graphrag", graphrag_pypi.REQUIREMENTS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graphrag_pypi.put(folder, run.documents)
        task = run.task(folder=name, modes=["local"])
        run.counts()
        report = peer_step(python, "graphrag_peer.py", task | {"step": "build"})
        if report["failed"]:
            raise SystemExit(f"graphrag failed: {report['failed']}")
        chat, embeddings = run.counts()
        disk = folder_size(folder / "output") + folder_size(folder / "lancedb")
        modes = peer_step(python, "graphrag_peer.py", task | {"step": "find"})
    failed = len(run.documents) - report["rows"]["documents"]
    system = f"graphrag {graphrag_pypi.GRAPHRAG}"
    return Result(system, report["seconds"], report["cpu"], failed, chat, embeddings, disk, modes)


SYSTEMS: dict[str, Callable[[Run], Result]] = {
    "pg_graphrag": ours,
    "lightrag-tables": light_rag("tables", "PostgreSQL, PGTableGraphStorage"),
    "lightrag-age": light_rag("postgresql", "PostgreSQL, AGE"),
    "lightrag-files": light_rag("files", "files"),
    "pg-raggraph": raggraph,
    "graphrag": graphrag,
}


def pool(data: Path, count: int, asked: int) -> tuple[list[tuple[str, str, str]], list[dict[str, Any]]]:
    """Return so many passages with the evidence of the first `asked` dev questions among them, and these questions."""

    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (data / "musique" / name).read_text(encoding="utf-8").splitlines()]

    questions = lines("queries_dev.jsonl")[:asked]
    evidence = {key for question in questions for key in question["evidence"]}
    loaded = lines("docs.jsonl")
    others = [row for row in loaded if row["id"] not in evidence][: max(count - len(evidence), 0)]
    chosen = evidence | {row["id"] for row in others}
    return [(row["id"], row["title"], row["text"]) for row in loaded if row["id"] in chosen], questions


def recall(found: Sequence[str], evidence: Sequence[str]) -> list[float]:
    return [len(set(found[:depth]).intersection(evidence)) / len(evidence) for depth in DEPTHS]


def table(results: Sequence[Result], run: Run, asked: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What indexing took, then what questions find; R@5 with its interval."""
    count = len(run.documents)
    yield "| system | indexing, s | processor, ms a document | failed | calls: chat / embeddings | kB a document |"
    yield "|---|---|---|---|---|---|"
    for result in results:
        cpu = "–" if result.cpu is None else f"{1e3 * result.cpu / count:.0f}"
        cells = [f"{result.seconds:.1f}", cpu, str(result.failed), f"{result.chat} / {result.embeddings}"]
        yield f"| {result.system} | {' | '.join(cells)} | {result.disk / count / 1e3:.0f} |"
    yield ""
    yield "| system | mode | R@2 | R@5 [95 %] | R@10 | ms, p50 / p95 |"
    yield "|---|---|---|---|---|---|"
    for result in results:
        for mode, found in result.modes.items():
            pairs = zip(found, asked, strict=True)
            values = np.array([recall(documents, item["evidence"]) for (_, documents), item in pairs])
            taken = sorted(1e3 * seconds for seconds, _ in found)
            times = f"{statistics.median(taken):.0f} / {taken[int(0.95 * (len(taken) - 1))]:.0f}"
            yield f"| {result.system} | {mode} | {' | '.join(recall_cells(values))} | {times} |"


def recall_cells(values: NDArray[np.float64]) -> list[str]:
    """Return the means of recalls, (questions, depths), R@5 with its interval."""
    means = [f"{mean:.3f}" for mean in values.mean(axis=0)]
    ((low, high),) = bootstrap.intervals(bootstrap.means(values[:, 1:2], 0))
    return [means[0], f"{means[1]} [{low:.3f}, {high:.3f}]", means[2]]


def minilm() -> Callable[[Sequence[str], int], list[Any]]:
    """Return the embedder of all-MiniLM-L6-v2, which remembers texts; it needs the model below PG_GRAPHRAG_HOME."""
    from pg_graphrag.embedding import local_embedder

    model = local_embedder("all-MiniLM-L6-v2")
    known_vectors: dict[str, Any] = {}

    def embed(texts: Sequence[str], _: int) -> list[Any]:
        new = list(dict.fromkeys(text for text in texts if text not in known_vectors))
        if new:
            known_vectors.update(zip(new, model.embed(new), strict=True))
        return [known_vectors[text] for text in texts]

    return embed


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True, help="of any database of the server, as superuser")
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--documents", type=int, default=300)
    arguments.add_argument("--questions", type=int, default=50)
    arguments.add_argument("--vectors", choices=("minilm", "hash"), default="minilm")
    arguments.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS), metavar="NAME")
    given = arguments.parse_args()
    documents, asked = pool(given.data, given.documents, given.questions)
    by_text = {question: keywords for question, *keywords in lightrag.dev_questions(given.data, given.questions)}
    questions = [(item["question"], *by_text[item["question"]]) for item in asked]
    replies = graphrag_pypi.Replies(given.data)
    results: list[Result] = []
    with Endpoint(keep=False, dimensions=DIMENSIONS) as endpoint:
        endpoint.reply(replies)
        if given.vectors == "minilm":
            endpoint.embed(minilm())
        run = Run(given.url, endpoint, documents, questions)
        for name in given.systems:
            try:
                results.append(SYSTEMS[name](run))
                print(f"{name}: {results[-1].seconds:.1f} s", file=sys.stderr, flush=True)
            except (Exception, SystemExit) as error:
                print(f"{name} was left out: {error}", flush=True)
    print(f"{len(documents)} passages, {len(questions)} questions, vectors: {given.vectors}\n")
    print("\n".join(table(results, run, asked)))


if __name__ == "__main__":
    main()
