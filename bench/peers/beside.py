"""Other systems beside this one, in one run: ingestion, calls, disk, what questions find; with equal vectors and extraction.

    python -m bench beside [--documents 300] [--systems pg_graphrag lightrag-files …]

Passages of MuSiQue: those that answer the dev questions, then the first others. Their recorded OpenIE output is served by
tests/endpoint to every system in the form that its prompt asks for, and so are vectors of all-MiniLM-L6-v2 (``--vectors hash``:
hashed words, for a try). Each peer is installed, in a pinned version, into a venv of its own in the cache; one that cannot be
installed or fails here is named and left out. Defaults of each system, but for what all are given: no gleaning, no reranker,
eight requests at a time, and 20 passages a question. LightRAG inserts eight documents at a time, by which it is fastest.
HippoRAG's filter of facts, a call a question, keeps them all.

What is counted is each system's own work: processor time of its process and of the server's processes, not of the endpoint;
clock times depend on what else the machine does. The time begins when a system has loaded what it needs and made its stores, and
gets all passages at once. Nothing else should use the server meanwhile. Every system runs twice, and the second run counts: the
endpoint has embedded all texts by then, so it keeps nobody waiting.

Retrieval: every question twice in each mode, the second time counts, so what a system remembers of a question's vector it has.
Keywords are given where a system takes them. Documents are judged, in the order of the first passage of each; graphrag's local
search shows its sources only with an answer, so its times have one call to the endpoint, which answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from pg_graphrag.ground import bootstrap
from psycopg.types.json import Jsonb

from bench.peers import graphrag_pypi, lightrag
from bench.peers.halves.peer_half import Question, server_cpu, timed
from bench.peers.peers import WORK, database, interpreter, peer_python, peer_step, postmaster
from tests.endpoint import Endpoint

PG_RAGGRAPH = "0.9.9"
RAGGRAPH_REQUIREMENTS = (f"pg-raggraph=={PG_RAGGRAPH}",)
RAGGRAPH_PYTHON = (3, 12)
# Its last release lacks its stores; this is the last commit.
MINIRAG = "4fe2fba1bee7e18262bdbe6568644feed94d2f77"
MINIRAG_ALONE = (f"minirag-hku @ git+https://github.com/HKUDS/MiniRAG@{MINIRAG}",)
MINIRAG_REQUIREMENTS = (
    *(
        "networkx==3.6.1",
        "nltk==3.10.4",
        "rouge==1.0.1",
        "json_repair==0.64.6",
        "tiktoken==0.14.0",
        "nano-vectordb==0.0.4.3",
    ),
    *("pipmaster==1.2.2", "python-dotenv==1.2.4", "openai==3.54.0", "numpy==2.4.6", "tqdm==4.70.1", "tenacity==9.2.1"),
)
HIPPORAG = "2.0.0a4"
HIPPORAG_ALONE = (f"hipporag=={HIPPORAG}",)
# What it requires, but for vLLM and GritLM, which are not used here, and openai 1.91.1, which is no more.
HIPPORAG_REQUIREMENTS = (
    *("torch==2.5.1", "transformers==4.45.2", "openai==1.91.0", "litellm==1.73.1", "networkx==3.4.2", "einops==0.8.2"),
    *(
        "python_igraph==0.11.8",
        "tiktoken==0.7.0",
        "pydantic==2.10.4",
        "tenacity==8.5.0",
        "pandas==3.1.1",
        "pyarrow==26.0.1",
    ),
)
COGNEE = "1.6.5"
COGNEE_REQUIREMENTS = (f"cognee=={COGNEE}",)
POST_GRAPH = "1.16.0"
POST_GRAPH_REQUIREMENTS = (
    *(f"post-graph-rag=={POST_GRAPH}", "post-graph==1.10.1", "igraph==1.0.0", "leidenalg==0.12.0", "openai==3.54.0"),
    "asyncpg==0.31.0",
)
DIMENSIONS = 384
CONCURRENCY = 8
DEPTHS = (2, 5, 10)
# Fields of a request whose reply comes whole.
WHOLE = {"stream": None, "stream_options": None}
# Rows that each system is asked for.
TOP_K = 20


@dataclass
class Found:
    """What questions found in a mode: (seconds, documents best first) of each; CPU seconds of all; calls of each."""

    answers: list[tuple[float, list[str]]]
    cpu: float
    chat: float
    embeddings: float


@dataclass
class Result:
    """What a system took; `modes`: what questions found, by mode."""

    system: str
    seconds: float
    cpu: float
    failed: int
    chat: int
    embeddings: int
    disk: int
    modes: dict[str, Found] = field(default_factory=dict)


@dataclass
class Run:
    """What all systems are given."""

    url: str
    endpoint: Endpoint
    documents: list[tuple[str, str, str]]
    questions: list[Question]

    def task(self, **more: Any) -> dict[str, Any]:
        """Return the task of a peer's half."""
        shared = {"endpoint": self.endpoint.url, "dimensions": DIMENSIONS, "concurrency": CONCURRENCY, "gleaning": 0}
        return shared | {"documents": self.documents, "questions": self.questions, "top_k": TOP_K} | more

    def counts(self) -> tuple[int, int]:
        """Return the requests since the last call: (chat, embeddings)."""
        counts = self.endpoint.count("chat"), self.endpoint.count("embeddings")
        self.endpoint.forget()
        return counts

    def found(self, ask: Callable[[], dict[str, Any]]) -> Found:
        """Return what `ask`, which asks every question twice, reports, with the calls of one question."""
        self.counts()
        report = ask()
        chat, embeddings = (count / len(self.questions) / 2 for count in self.counts())
        return Found(report["answers"], report["cpu"], chat, embeddings)


def ours(workers: int, *, communities: bool = True, streams: bool = True) -> Callable[[Run], Result]:
    """Return the run of this extension: ingestion by so many workers, and with one and communities the search in three modes.

    The sessions of workers have loaded what they need before, as the processes of peers have when their time begins. Without
    communities and their reports it makes what LightRAG and pg-raggraph make, which have none. Without streams replies come
    whole, as other systems ask for them.
    """

    def measured(run: Run) -> Result:
        with database(run.url, "bench_beside_ours") as own, psycopg.connect(own, autocommit=True) as connection:
            server = postmaster(connection)
            connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
            connection.execute(
                "SELECT graphrag.set_provider('bench', 'openai', %s, options => %s)",
                [run.endpoint.url, Jsonb({"concurrency": CONCURRENCY, "chat_request": {} if streams else WHOLE})],
            )
            options = {
                "extractor": "llm",
                "language": "en",
                "max_gleaning": 0,
                "communities": communities,
                "llm": {"roles": {"extract": {"provider": "bench", "model": "recorded"}}},
                "embedding": {"provider": "bench", "model": "minilm", "dimensions": DIMENSIONS},
            }
            for name in ("bench", "begin"):
                connection.execute("SELECT graphrag.create_corpus(%s, %s)", [name, Jsonb(options)])
            sessions = [lightrag.begin(own, run.documents[0]) for _ in range(workers)]
            empty = size_of(connection)
            run.counts()
            used, start = server_cpu(server), time.perf_counter()
            sessions[0].execute(
                "INSERT INTO graphrag.documents (corpus, source_key, title, content)"
                " SELECT 'bench', * FROM unnest(%s::text[], %s::text[], %s::text[])",
                [list(column) for column in zip(*run.documents, strict=True)],
            )
            threads = [threading.Thread(target=session.execute, args=[WORK]) for session in sessions]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            sessions[0].execute("SELECT graphrag.optimize('bench')")
            seconds, cpu = time.perf_counter() - start, since(server, used)
            for session in sessions:
                session.close()
            (indexed,) = connection.execute(
                "SELECT count(*) FROM graphrag.documents WHERE corpus = 'bench' AND status = 'indexed'"
            ).fetchone() or (0,)
            chat, embeddings = run.counts()
            disk = size_of(connection) - empty
            system = (
                f"pg_graphrag, {workers} worker{'s' if workers > 1 else ''}{'' if communities else ', no communities'}"
                f"{'' if streams else ', whole replies'}"
            )
            result = Result(system, seconds, cpu, len(run.documents) - indexed, chat, embeddings, disk)
            task = run.task(server=server)
            for mode in ("hybrid", "mix", "naive") if workers == 1 and communities and streams else ():

                async def find(question: str, low: list[str], high: list[str], mode: str = mode) -> list[str]:
                    return search(connection, mode, question, low, high)

                result.modes[mode] = run.found(lambda find=find: asyncio.run(timed(task, find)))
        return result

    return measured


def since(server: int | None, used: float | None) -> float:
    """Return the CPU seconds of the server since `used`; 0 where it cannot be seen from here."""
    return (server_cpu(server) or 0.0) - (used or 0.0)


def search(
    connection: psycopg.Connection[Any], mode: str, question: str, low: Sequence[str], high: Sequence[str]
) -> list[str]:
    """Return the documents of a search in their order."""
    rows = connection.execute(
        "SELECT source_key FROM graphrag.search(%s, 'bench', %s, %s, low_level_keywords => %s, high_level_keywords => %s)"
        " ORDER BY rank",
        [question, mode, TOP_K, low, high],
    ).fetchall()
    return [key for (key,) in rows]


def database_size(url: str) -> int:
    with psycopg.connect(url) as connection:
        return size_of(connection)


def size_of(connection: psycopg.Connection[Any]) -> int:
    """Return the bytes of the session's database."""
    (size,) = connection.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
    return int(size)


def folder_size(folder: Path, *names: str) -> int:
    """Return the bytes of the files of a folder, or of these folders in it."""
    return sum(file.stat().st_size for name in names or ("",) for file in (folder / name).rglob("*") if file.is_file())


def peer(
    run: Run,
    system: str,
    half: Callable[[dict[str, Any]], Any],
    task: dict[str, Any],
    modes: Sequence[str],
    disk: Callable[[], int],
) -> Result:
    """Run a peer's half, a step and a mode at a time."""
    server = task.get("server")
    run.counts()
    used = server_cpu(server)
    report = half(task | {"step": "ingest"})
    cpu = report["cpu"] + since(server, used)
    result = Result(system, report["seconds"], cpu, report["failed"], *run.counts(), disk())
    for mode in modes:
        step = task | {"step": "find", "modes": [mode]}
        result.modes[mode] = run.found(lambda mode=mode, step=step: half(step)[mode])
    return result


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
        system, modes = f"LightRAG {lightrag.LIGHTRAG} on {label}", ("hybrid", "mix", "naive")
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if store == "files":
                # Not the server's URL: it is not used.
                task = run.task(store=store, folder=str(folder), parallel_inserts=CONCURRENCY)
                return peer(run, system, partial(lightrag.peer_half, run.url), task, modes, lambda: folder_size(folder))
            own, server, empty = stack.enter_context(empty_database(run, "bench_beside_peer"))
            task = run.task(store=store, folder=str(folder), server=server, parallel_inserts=CONCURRENCY)
            half = partial(lightrag.peer_half, own)
            return peer(run, system, half, task, modes, lambda: database_size(own) - empty + folder_size(folder))

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
        half = partial(peer_step, own_python, "raggraph_peer.py", TIKTOKEN_CACHE_DIR=str(tokenizers))
        task, modes = run.task(url=own, server=server), ("smart", "hybrid", "naive")
        return peer(run, f"pg-raggraph {PG_RAGGRAPH}", half, task, modes, lambda: database_size(own) - empty)


def graphrag(run: Run) -> Result:
    python = peer_python("graphrag", graphrag_pypi.REQUIREMENTS)

    def half(task: dict[str, Any]) -> Any:
        if task["step"] == "find":
            return peer_step(python, "graphrag_peer.py", task)
        report = peer_step(python, "graphrag_peer.py", task | {"step": "build"})
        if report["failed"]:
            raise SystemExit(f"graphrag failed: {report['failed']}")
        return report | {"failed": len(run.documents) - report["rows"]["documents"]}

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graphrag_pypi.put(folder, run.documents)
        system, task = f"graphrag {graphrag_pypi.GRAPHRAG}", run.task(folder=name)
        return peer(run, system, half, task, ["local"], lambda: folder_size(folder, "output", "lancedb"))


def minirag(run: Run) -> Result:
    half = partial(peer_step, peer_python("minirag", MINIRAG_REQUIREMENTS, alone=MINIRAG_ALONE), "minirag_peer.py")
    with tempfile.TemporaryDirectory() as folder:
        task, modes = run.task(folder=folder), ("mini",)
        return peer(run, f"MiniRAG {MINIRAG[:7]}", half, task, modes, lambda: folder_size(Path(folder)))


def hipporag(run: Run) -> Result:
    half = partial(peer_step, peer_python("hipporag", HIPPORAG_REQUIREMENTS, alone=HIPPORAG_ALONE), "hipporag_peer.py")
    with tempfile.TemporaryDirectory() as folder:
        task, modes = run.task(folder=folder), ("graph", "dpr")
        return peer(run, f"HippoRAG {HIPPORAG}", half, task, modes, lambda: folder_size(Path(folder)))


def cognee(run: Run) -> Result:
    python = peer_python("cognee", COGNEE_REQUIREMENTS)
    # It asks the network for its tokenizer; litellm, which it needs, has the same file.
    tokenizers = next(python.parents[1].glob("lib/*/site-packages/litellm/litellm_core_utils/tokenizers"))
    half = partial(peer_step, python, "cognee_peer.py", TIKTOKEN_CACHE_DIR=str(tokenizers))
    with tempfile.TemporaryDirectory() as folder:
        task, modes = run.task(folder=folder), ("hybrid", "graph", "chunks")
        return peer(run, f"cognee {COGNEE}", half, task, modes, lambda: folder_size(Path(folder)))


def post_graph(run: Run) -> Result:
    with empty_database(run, "bench_beside_peer") as (own, server, empty):
        half = partial(peer_step, peer_python("post_graph", POST_GRAPH_REQUIREMENTS), "post_graph_peer.py")
        task, modes = run.task(url=own, server=server), ("mix", "naive")
        return peer(run, f"post-graph-rag {POST_GRAPH}", half, task, modes, lambda: database_size(own) - empty)


SYSTEMS: dict[str, Callable[[Run], Result]] = {
    "pg_graphrag": ours(1),
    "pg_graphrag-two-workers": ours(2),
    "pg_graphrag-no-communities": ours(1, communities=False),
    "pg_graphrag-two-workers-no-communities": ours(2, communities=False),
    "pg_graphrag-whole-replies": ours(1, streams=False),
    "lightrag-tables": light_rag("tables", "PostgreSQL, PGTableGraphStorage"),
    "lightrag-age": light_rag("postgresql", "PostgreSQL, AGE"),
    "lightrag-files": light_rag("files", "files"),
    "pg-raggraph": raggraph,
    "minirag": minirag,
    "hipporag": hipporag,
    "post-graph-rag": post_graph,
    "cognee": cognee,
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
    yield "| system | indexing: processor, ms a document | s by the clock | failed | calls: chat / embeddings | kB a document |"
    yield "|---|---|---|---|---|---|"
    for result in results:
        cells = [f"{1e3 * result.cpu / count:.1f}", f"{result.seconds:.1f}", str(result.failed)]
        cells += [f"{result.chat} / {result.embeddings}", f"{result.disk / count / 1e3:.0f}"]
        yield f"| {result.system} | {' | '.join(cells)} |"
    yield ""
    yield (
        "| system | mode | R@2 | R@5 [95 %] | R@10 | processor, ms a question | ms by the clock, p50 / p95 |"
        " calls a question: chat / embeddings |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for result in results:
        for mode, found in result.modes.items():
            pairs = zip(found.answers, asked, strict=True)
            values = np.array([recall(documents, item["evidence"]) for (_, documents), item in pairs])
            taken = sorted(1e3 * seconds for seconds, _ in found.answers)
            cells = [*recall_cells(values), f"{1e3 * found.cpu / len(asked):.0f}"]
            cells += [f"{statistics.median(taken):.0f} / {taken[int(0.95 * (len(taken) - 1))]:.0f}"]
            cells += [f"{found.chat:.1f} / {found.embeddings:.1f}"]
            yield f"| {result.system} | {mode} | {' | '.join(cells)} |"


def recall_cells(values: NDArray[np.float64]) -> list[str]:
    """Return the means of recalls, (questions, depths), R@5 with its interval."""
    means = [f"{mean:.3f}" for mean in values.mean(axis=0)]
    ((low, high),) = bootstrap.intervals(bootstrap.means(values[:, 1:2], 0))
    return [means[0], f"{means[1]} [{low:.3f}, {high:.3f}]", means[2]]


def minilm() -> Callable[[Sequence[str], int], list[Any]]:
    """Return the embedder of all-MiniLM-L6-v2, which remembers texts; it needs the model below PG_GRAPHRAG_HOME."""
    from pg_graphrag.llm.embedding import local_embedder

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
    arguments.add_argument(
        "--once", action="store_true", help="run each system once: then its clock waits for embeddings, too"
    )
    given = arguments.parse_args()
    documents, asked = pool(given.data, given.documents, given.questions)
    by_text = {question: keywords for question, *keywords in lightrag.dev_questions(given.data, given.questions)}
    questions: list[Question] = [(item["question"], *by_text[item["question"]]) for item in asked]
    replies = graphrag_pypi.Replies(given.data)
    results: list[Result] = []
    with Endpoint(keep=False, dimensions=DIMENSIONS) as endpoint:
        endpoint.reply(replies)
        if given.vectors == "minilm":
            endpoint.embed(minilm())
        run = Run(given.url, endpoint, documents, questions)
        for name in given.systems:
            try:
                if given.vectors == "minilm" and not given.once:
                    SYSTEMS[name](run)
                results.append(SYSTEMS[name](run))
                # What is measured is not lost with a run that ends early.
                print("\n".join(table(results[-1:], run, asked)), file=sys.stderr, flush=True)
            except (Exception, SystemExit) as error:
                print(f"{name} was left out: {error}", flush=True)
    print(f"{len(documents)} passages, {len(questions)} questions, vectors: {given.vectors}\n")
    print("\n".join(table(results, run, asked)))


if __name__ == "__main__":
    main()
