"""A graph and answers by a small real model, beside LightRAG and microsoft/graphrag at the same endpoint, in turns.

    python -m bench real_model [--documents 30] [--questions 5] [--systems pg_graphrag lightrag graphrag] [--minutes 30]
                               [--reply 600] [--model FILE]

The model is SmolLM2-135M in llama.cpp's server, with one thread and one request at a time, which tests/runtime/real_model.py
installs; `--model` is another, in GGUF. It loops, invents names and mistakes the form, as the small models do that people run
themselves. Its server starts anew for each system. `--reply` ends each reply there, for systems that set no limit. Defaults of
each system, but for what all are given: one request at a time, vectors of all-MiniLM-L6-v2, a context of 4,000 tokens for an
answer. Ours makes its vectors in the database. Passages are MuSiQue's, with the evidence of the first dev questions.

A system has so many minutes for its index, and three for an answer; what it has by then counts. A name stands in a text if
most of its words do, but for their endings. Citations of an answer hold if it has some, and all lead to what it was given.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import neg
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from bench.peers import graphrag_pypi, lightrag
from bench.peers.beside import DIMENSIONS, minilm, pool
from bench.peers.halves.peer_half import server_cpu
from bench.peers.peers import ROOT, WORK, database, peer_python, peer_step
from tests.endpoint import Endpoint
from tests.runtime.real_model import RealModel, repeats, stands

CONTEXT = 8192
TOKENS = 4000
SECONDS = 180


@dataclass
class Result:
    """What a system made of documents and questions; `names`: (name, documents) of its graph."""

    system: str
    seconds: float = 0.0
    # Of the model's server, in processor time.
    model_seconds: float = 0.0
    note: str = ""
    names: list[tuple[str, list[str]]] = field(default_factory=list)
    # Calls, tokens read, tokens written.
    indexing: tuple[int, ...] = (0, 0, 0)
    asking: tuple[int, ...] = (0, 0, 0)
    answers: list[tuple[float, dict[str, Any]]] = field(default_factory=list)


@dataclass
class Run:
    """What all systems are given."""

    url: str
    embeddings: str
    documents: list[tuple[str, str, str]]
    questions: list[str]
    seconds: float
    file: Path | None
    reply: int


class Ours:
    """This extension, in a database of its own."""

    name = "pg_graphrag"

    def __init__(self, run: Run, model: RealModel, own: str) -> None:
        self._own = own
        with self._connect() as connection:
            connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
            connection.execute(
                "SELECT graphrag.set_provider('bench', 'openai', %s, options => %s)",
                [model.url, Jsonb({"concurrency": 1})],
            )
            options = {"extractor": "llm", "language": "en", "llm": {"provider": "bench", "model": "smollm2"}}
            connection.execute("SELECT graphrag.create_corpus('bench', %s)", [Jsonb(options)])

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._own, autocommit=True)

    def index(self, documents: list[tuple[str, str, str]], seconds: float) -> str:
        """Index until nothing is left; return what ended it."""
        end = time.monotonic() + seconds
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES ('bench', %s, %s, %s)",
                documents,
            )
            while time.monotonic() < end:
                cursor.execute(f"SET statement_timeout = {int((end - time.monotonic()) * 1000) + 1}")
                try:
                    cursor.execute(WORK)
                except psycopg.errors.QueryCanceled:
                    break
                cursor.execute(
                    "SELECT count(*), min(next_attempt_at) <= now() FROM graphrag.jobs WHERE state = 'pending'"
                )
                left = cursor.fetchone()
                if not left or not left[0]:
                    return ""
                time.sleep(1)
        return "stopped"

    def graph(self) -> list[tuple[str, list[str]]]:
        """Return each name, and the documents that it is from."""
        with self._connect() as connection:
            return connection.execute(
                "SELECT e.name, array_agg(DISTINCT d.source_key) FROM graphrag.entities e"
                "  JOIN graphrag.entity_mentions m ON m.entity_id = e.id JOIN graphrag.documents d ON d.id = m.document_id"
                " GROUP BY e.id, e.name"
            ).fetchall()

    def notes(self) -> str:
        """Return how many chunks have the graph of NLP."""
        with self._connect() as connection:
            found = connection.execute(
                "SELECT extraction, count(*) FROM graphrag.chunks GROUP BY 1 ORDER BY 1"
            ).fetchall()
        return ", ".join(f"{count} chunks {kind or 'whole'}" for kind, count in found)

    def ask(self, question: str) -> dict[str, Any]:
        """Return an answer, how many it cites, and how many of these it was not given."""
        with self._connect() as connection:
            said: list[str] = []
            connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
            connection.execute(f"SET statement_timeout = '{SECONDS}s'")
            row = connection.execute(
                "SELECT answer, citations, context -> 'references' FROM graphrag.ask(%s, 'bench', max_tokens => %s)",
                [question, TOKENS],
            ).fetchone()
        assert row is not None
        answer, citations, given = row
        cited = set(map(int, re.findall(r"\[(\d+)\]", answer)))
        known = {reference["number"] for reference in given} & {citation["number"] for citation in citations}
        return {"answer": answer, "cited": len(cited), "wrong": len(cited - known), "said": said}


class Peer:
    """A peer, by its half of the benchmarks."""

    def __init__(self, run: Run, model: RealModel, folder: Path) -> None:
        self._folder = folder
        self._task = {"endpoint": model.url, "embeddings": run.embeddings, "folder": str(folder), "gleaning": 1}
        self._task |= {"dimensions": DIMENSIONS, "concurrency": 1, "tokens": TOKENS, "store": "files"}

    def _step(self, seconds: float, **more: Any) -> Any:
        return peer_step(self._python, self._half, self._task | more, seconds=seconds)

    def index(self, documents: list[tuple[str, str, str]], seconds: float) -> str:
        """Index; return what ended it."""
        try:
            report = self._ingest(documents, seconds)
        except subprocess.TimeoutExpired:
            return "stopped"
        return f"failed: {report['failed']}" if report["failed"] else ""

    def graph(self) -> list[tuple[str, list[str]]]:
        """Return each name, and the documents that it is from."""
        return [(name, keys) for name, keys in self._step(SECONDS, step="graph")]

    def notes(self) -> str:
        return ""

    def ask(self, question: str) -> dict[str, Any]:
        """Return an answer, how many it cites, and how many of these it was not given."""
        (answer,) = self._step(SECONDS, step="ask", questions=[question])
        return dict(answer)


class LightRAG(Peer):
    name = f"LightRAG {lightrag.LIGHTRAG}"

    def __init__(self, run: Run, model: RealModel, folder: Path) -> None:
        super().__init__(run, model, folder)
        self._python, self._half = peer_python("lightrag", lightrag.REQUIREMENTS), "lightrag_peer.py"

    def _ingest(self, documents: list[tuple[str, str, str]], seconds: float) -> Any:
        return self._step(seconds, step="ingest", documents=documents)


class GraphRAG(Peer):
    name = f"graphrag {graphrag_pypi.GRAPHRAG}"

    def __init__(self, run: Run, model: RealModel, folder: Path) -> None:
        super().__init__(run, model, folder)
        self._python, self._half = peer_python("graphrag", graphrag_pypi.REQUIREMENTS), "graphrag_peer.py"

    def _ingest(self, documents: list[tuple[str, str, str]], seconds: float) -> Any:
        graphrag_pypi.put(self._folder, documents)
        return self._step(seconds, step="build")


@contextmanager
def ours(run: Run, model: RealModel) -> Iterator[Ours]:
    with database(run.url, "bench_real_model") as own:
        yield Ours(run, model, own)


def peer(kind: type[Peer]) -> Callable[[Run, RealModel], Any]:
    @contextmanager
    def made(run: Run, model: RealModel) -> Iterator[Peer]:
        with tempfile.TemporaryDirectory() as folder:
            yield kind(run, model, Path(folder))

    return made


SYSTEMS = {"pg_graphrag": ours, "lightrag": peer(LightRAG), "graphrag": peer(GraphRAG)}


def measured(run: Run, name: str) -> Result:
    """Index and ask by one system."""
    with RealModel(CONTEXT, file=run.file, reply=run.reply) as model, SYSTEMS[name](run, model) as system:
        result = Result(system.name)
        start = time.perf_counter()
        result.note = system.index(run.documents, run.seconds)
        result.seconds = time.perf_counter() - start
        result.indexing, result.model_seconds = model.counts(), server_cpu(model.pid) or 0.0
        quiet(model)
        try:
            result.names = system.graph()
        except (RuntimeError, subprocess.TimeoutExpired):
            result.note += ", no graph"
        result.note = ", ".join(filter(None, (result.note, system.notes())))
        for question in run.questions if "failed" not in result.note else ():
            before, start = model.counts(), time.perf_counter()
            try:
                answer = system.ask(question)
            except (psycopg.Error, RuntimeError, subprocess.TimeoutExpired) as error:
                answer = {"answer": "", "cited": 0, "wrong": 0, "error": str(error)[:300]}
            result.answers.append((time.perf_counter() - start, answer))
            print(f"{system.name}: {question}\n  {answer}", file=sys.stderr, flush=True)
            result.asking = tuple(map(sum, zip(result.asking, model.counts(), map(neg, before), strict=True)))
            quiet(model)
    return result


def quiet(model: RealModel) -> None:
    """Start the server anew where it still writes what nobody waits for: to the end of its context, without streams."""
    if model.busy():
        model.stop()
        model.start()


def table(results: list[Result], run: Run) -> Iterator[str]:
    texts = {key: f"{title} {text}" for key, title, text in run.documents}
    yield (
        "| system | documents with a graph | names: not in the text / all | indexing: s | the model's processor, s | calls |"
        " tokens read / written | |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for result in results:
        keys = {key for _, keys in result.names for key in keys} & texts.keys()
        foreign = [name for name, keys in result.names if not any(stands(name, texts.get(key, "")) for key in keys)]
        calls, read, written = result.indexing
        cells = [f"{len(keys)} of {len(texts)}", f"{len(foreign)} / {len(result.names)}", f"{result.seconds:.0f}"]
        cells += [f"{result.model_seconds:.0f}", f"{calls}", f"{read:,} / {written:,}", result.note]
        yield f"| {result.system} | {' | '.join(cells)} |"
        print(f"{result.system}: {foreign[:20]}", file=sys.stderr)
    yield ""
    yield (
        "| system | answers with citations that hold | that repeat themselves | none | s, median / longest | calls |"
        " tokens read / written |"
    )
    yield "|---|---|---|---|---|---|---|"
    for result in results:
        answers = [answer for _, answer in result.answers]
        hold = sum(answer["cited"] > 0 and not answer["wrong"] for answer in answers)
        seconds = [taken for taken, _ in result.answers] or [0.0]
        calls, read, written = result.asking
        cells = [f"{hold} of {len(run.questions)}", f"{sum(repeats(answer['answer']) for answer in answers)}"]
        cells += [f"{len(run.questions) - sum(bool(answer['answer']) for answer in answers)}"]
        cells += [f"{statistics.median(seconds):.0f} / {max(seconds):.0f}", f"{calls}", f"{read:,} / {written:,}"]
        yield f"| {result.system} | {' | '.join(cells)} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True, help="of any database of the server, as superuser")
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    arguments.add_argument("--documents", type=int, default=30)
    arguments.add_argument("--questions", type=int, default=5)
    arguments.add_argument("--minutes", type=float, default=30, help="for each system's index")
    arguments.add_argument("--reply", type=int, default=-1, help="the most tokens of a reply")
    arguments.add_argument("--model", type=Path, help="a model in GGUF, in place of SmolLM2")
    arguments.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS), metavar="NAME")
    given = arguments.parse_args()
    documents, asked = pool(given.data, given.documents, given.questions)
    results = []
    with Endpoint(keep=False, dimensions=DIMENSIONS) as endpoint:
        endpoint.embed(minilm())
        questions, seconds = [item["question"] for item in asked], given.minutes * 60
        run = Run(given.url, endpoint.url, documents, questions, seconds, given.model, given.reply)
        for name in given.systems:
            try:
                results.append(measured(run, name))
                print("\n".join(table(results[-1:], run)), file=sys.stderr, flush=True)
            except (Exception, SystemExit) as error:
                print(f"{name} was left out: {error}", flush=True)
    print(f"{len(documents)} passages, {len(asked)} questions, {given.minutes:g} minutes for an index\n")
    print("\n".join(table(results, run)))


if __name__ == "__main__":
    main()
