"""Side by side with microsoft/graphrag, in one run: a full build, and an update by one document in a hundred.

    python -m bench graphrag_pypi [--documents 200]

MuSiQue passages; their recorded OpenIE output is served by tests/endpoint to both systems in the form each one's prompt asks
for, a hash embedder too, and reports of one length, so that what is counted is the systems' own calls and timed is
their own work, not a model's. Tokens are a quarter of the bytes. Both: no gleaning, reports written by the model, all
components of the graph clustered, eight requests at a time.

GraphRAG is installed, in a pinned version, into a venv of its own in the cache; nothing else uses it. Its update puts the
communities of the new documents beside the old ones; to have everything clustered again, as ours does, it must be built
again: that is measured too, with its cache of replies from the first build. Both include what their processes load when work
begins, GraphRAG's imports apart: it loads some 20 s of CPU more, whatever the number of documents.
"""

import argparse
import hashlib
import json
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from bench.peers.halves.peer_half import server_cpu
from bench.peers.peers import ROOT, database, passages, peer_python, peer_step, postmaster, work
from tests.endpoint import Endpoint, Recorded

GRAPHRAG = "3.3.0"
REQUIREMENTS = (f"graphrag=={GRAPHRAG}", "litellm==1.100.1", "lancedb==0.38.0", "pandas==3.1.1")
DIMENSIONS = 384
CONCURRENCY = 8
TABLES = ("documents", "entities", "relationships", "communities", "community_reports")


def recorded_options() -> dict[str, Any]:
    """Return the options of a corpus whose models are the recorded ones of the provider "bench"."""
    model = {"provider": "bench", "model": "recorded"}
    return {
        "extractor": "llm",
        "language": "en",
        "max_gleaning": 0,
        "llm": {"roles": dict.fromkeys(("extract", "summary", "report"), model)},
        "embedding": {"provider": "bench", "model": "hash", "dimensions": DIMENSIONS},
    }


class Replies:
    """Recorded extraction in each system's form, and reports; counts calls and tokens by what was asked."""

    def __init__(self, data: Path) -> None:
        self._recorded = Recorded(data)
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    def __call__(self, messages: Sequence[dict[str, Any]]) -> str:
        text = "\n".join(str(message["content"]) for message in messages)
        if '"answer_type_keywords"' in text:
            kind, reply = "keywords", self._minirag_keywords(text)
        elif "extract named entities from the given paragraph" in text:
            kind, reply = "extraction", _hipporag(self._last(messages), "entities")
        elif "construct an RDF" in text:
            kind, reply = "extraction", _hipporag(self._last(messages), "relationships")
        elif "fact_after_filter" in text:
            kind, reply = "filter", _unfiltered(str(messages[-1]["content"]))
        elif "a top-tier algorithm designed for extracting information" in text:
            kind, reply = "extraction", _cognee(self._last(messages))
        elif "domain-agnostic Knowledge Graph Extractor" in text:
            kind, reply = "extraction", _post_graph(self._last(messages))
        elif "Summarize the chunk for retrieval." in text:
            # Nobody's summaries were recorded: the text's beginning.
            kind, reply = "summaries", json.dumps({"summary": str(messages[-1]["content"])[:400]})
        elif "Write a comprehensive report of a community" in text:
            kind, reply = "reports", _report(text)
        elif "Write a report on the group" in text:
            kind, reply = "reports", _report(text, entities=["E1"], relationships=["R1"])
        elif '("entity"<|>' in text:
            keywords = "relationship_keywords" in text
            kind, reply = "extraction", _rows(_complete(json.loads(self._recorded(messages))), keywords)
        else:
            kind, reply = "summaries", self._recorded(messages)
            if reply.startswith('{"entities"'):
                kind, reply = "extraction", json.dumps(_complete(json.loads(reply)))
            elif reply.startswith("entity<|#|>"):
                kind = "extraction"
        with self._lock:
            self.calls[kind] += 1
            self.tokens["in"] += len(text.encode()) // 4 + 1
            self.tokens["out"] += len(reply.encode()) // 4 + 1
        return reply

    def _last(self, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the extraction of the text in the last message; examples stand before it."""
        return json.loads(self._recorded(messages[-1:]))

    def _minirag_keywords(self, prompt: str) -> str:
        """Keywords of a question in MiniRAG's form; the recorded extraction has one type, `concept`.

        The prompt has names of documents besides, which would pass for a document.
        """
        question = prompt.rpartition("\nQuery: ")[2].partition("\nAnswer type pool:")[0]
        names = self._recorded.keywords(question)["low_level_keywords"]
        return json.dumps({"answer_type_keywords": ["CONCEPT"], "entities_from_query": names})

    def forget(self) -> None:
        """Count anew."""
        self.calls.clear()
        self.tokens.clear()


def _report(prompt: str, **references: list[str]) -> str:
    """The same report for both, but for its title; GraphRAG's schema refuses what it does not know.

    Reports must differ: GraphRAG 3.3.0 fails when equal texts are embedded at a time (two requests with one cache file; who
    reads it half written deletes it, and who reads it then finds none).
    """
    digest = hashlib.sha256(prompt.encode()).hexdigest()[:12]
    finding = {"summary": "What holds the group together.", "explanation": "As the data says. " * 40}
    report = {"title": f"Group {digest}", "summary": "What the group is about. " * 10, "rating": 5.0}
    return json.dumps(report | {"rating_explanation": "It matters.", "findings": [finding | references] * 5})


def _complete(result: dict[str, Any]) -> dict[str, Any]:
    """Make entities of the names that only relationships have: GraphRAG drops such relationships, ours does as here."""
    known = {entity["name"].upper() for entity in result["entities"]}
    for relationship in result["relationships"]:
        for name in (relationship["source"], relationship["target"]):
            if name.upper() not in known:
                known.add(name.upper())
                result["entities"].append({"name": name, "type": "concept", "description": f"{name} is mentioned."})
    return result


def _hipporag(result: dict[str, Any], part: str) -> str:
    """An extraction as one of the two steps in which HippoRAG asks for it."""
    if part == "entities":
        return json.dumps({"named_entities": [entity["name"] for entity in result["entities"]]})
    edges = result["relationships"]
    return json.dumps({"triples": [[edge["source"], edge["keywords"][0], edge["target"]] for edge in edges]})


def _cognee(result: dict[str, Any]) -> str:
    """An extraction as the graph that cognee asks for."""
    result = _complete(result)
    nodes = [{"id": entity["name"]} | entity for entity in result["entities"]]
    edges = [
        {
            "source_node_id": edge["source"],
            "target_node_id": edge["target"],
            "relationship_name": edge["keywords"][0],
            "description": edge["description"],
        }
        for edge in result["relationships"]
    ]
    return json.dumps({"nodes": nodes, "edges": edges})


def _post_graph(result: dict[str, Any]) -> str:
    """An extraction as the triples that post-graph-rag asks for."""
    result = _complete(result)
    triples = [
        {
            "subject": edge["source"],
            "predicate": edge["keywords"][0],
            "object": edge["target"],
            "description": edge["description"],
        }
        for edge in result["relationships"]
    ]
    return json.dumps({"entities": result["entities"], "triples": triples})


def _unfiltered(prompt: str) -> str:
    """All facts that HippoRAG would have filtered: no model judges passages for the other systems."""
    facts = prompt.partition("[[ ## fact_before_filter ## ]]\n")[2].partition("\n\nRespond with")[0]
    return f"[[ ## fact_after_filter ## ]]\n{facts}\n\n[[ ## completed ## ]]"


def _rows(result: dict[str, Any], keywords: bool) -> str:
    """An extraction in GraphRAG's tuples; MiniRAG's have `keywords` besides."""
    rows = [("entity", entity["name"], entity["type"], entity["description"]) for entity in result["entities"]]
    relationships = [
        ("relationship", edge["source"], edge["target"], edge["description"])
        + (((", ".join(edge["keywords"])),) if keywords else ())
        + (str(edge["strength"]),)
        for edge in result["relationships"]
    ]
    lines = [f'("{kind}"<|>' + "<|>".join(rest) + ")" for kind, *rest in [*rows, *relationships]]
    return "\n##\n".join(lines) + "\n<|COMPLETE|>"


@dataclass
class Result:
    """What a step took and asked for; `failed`: requests that brought nothing; `rows`: what there was afterwards."""

    system: str
    step: str
    seconds: float
    cpu: float | None
    embeddings: int
    failed: int
    calls: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)


class Run:
    """Steps of both systems at one endpoint."""

    def __init__(self, endpoint: Endpoint, replies: Replies) -> None:
        self._endpoint = endpoint
        self._replies = replies
        self.results: list[Result] = []

    def start(self) -> float:
        self._endpoint.forget()
        self._replies.forget()
        return time.perf_counter()

    def end(self, system: str, step: str, seconds: float, cpu: float | None, failed: int, rows: dict[str, int]) -> None:
        result = Result(system, step, seconds, cpu, self._endpoint.count("embeddings"), failed)
        result.calls, result.tokens, result.rows = dict(self._replies.calls), dict(self._replies.tokens), rows
        self.results.append(result)
        print(f"{system}, {step}: {seconds:.1f} s, {result.calls}", file=sys.stderr, flush=True)

    def ours(self, url: str, first: list[Any], rest: list[Any]) -> None:
        """Build with one worker, then insert the rest."""
        with database(url, "bench_graphrag_ours") as own:
            with psycopg.connect(own, autocommit=True) as connection:
                server = postmaster(connection)
                connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
                connection.execute(
                    "SELECT graphrag.set_provider('bench', 'openai', %s, options => %s)",
                    [self._endpoint.url, Jsonb({"concurrency": CONCURRENCY})],
                )
                connection.execute("SELECT graphrag.create_corpus('bench', %s)", [Jsonb(recorded_options())])
            failed = 0
            for step, documents in (("build", first), ("update", rest)):
                used, start = server_cpu(server), self.start()
                with psycopg.connect(own, autocommit=True) as connection, connection.cursor() as cursor:
                    cursor.executemany(
                        "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES ('bench', %s, %s, %s)",
                        documents,
                    )
                work(own)
                with psycopg.connect(own, autocommit=True) as connection:
                    # Workers let communities rest for a while after a long refresh; here they are wanted now.
                    connection.execute("SELECT graphrag.refresh_communities('bench')")
                work(own)
                seconds = time.perf_counter() - start
                cpu = None if used is None else (server_cpu(server) or 0.0) - used
                rows = counted(own)
                self.end("pg_graphrag", step, seconds, cpu, rows["failed"] - failed, rows)
                failed = rows["failed"]

    def graphrag(self, first: list[Any], rest: list[Any]) -> None:
        """Build, update by the rest, and build all of it again with the cache of the first build."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            put(folder, first)
            self._peer(folder, "build", "build")
            put(folder, rest)
            self._peer(folder, "update", "update")
            # As the first build left the cache, but for the replies about the rest.
            self._peer(folder, "build", "build again, cached")

    def _peer(self, folder: Path, step: str, name: str) -> None:
        task = {"folder": str(folder), "endpoint": self._endpoint.url, "step": step}
        task |= {"concurrency": CONCURRENCY, "dimensions": DIMENSIONS}
        self.start()
        printed = peer_step(peer_python("graphrag", REQUIREMENTS), "graphrag_peer.py", task)
        if printed["failed"]:
            raise SystemExit(f"graphrag failed: {printed['failed']}; BENCH_VERBOSE=1 shows what it says")
        # Its counts of requests, which it logs by model when it ends.
        log = folder / "logs/indexing-engine.log"
        failed = [
            int(count) for count in re.findall(r'"failed_response_count": (\d+)', log.read_text(encoding="utf-8"))
        ]
        if not failed:
            raise SystemExit(f"graphrag logged no counts of requests in {log}")
        log.unlink()
        self.end(f"graphrag {GRAPHRAG}", name, printed["seconds"], printed["cpu"], sum(failed), printed["rows"])


def put(folder: Path, documents: list[tuple[str, str, str]]) -> None:
    """Write documents where GraphRAG reads them."""
    (folder / "input").mkdir(exist_ok=True)
    for key, title, text in documents:
        (folder / "input" / f"{key.replace('/', '_')}.txt").write_text(f"{title}\n{text}", encoding="utf-8")


def counted(url: str) -> dict[str, int]:
    """Count what there is; refuse what failed."""
    with psycopg.connect(url) as connection:
        left = connection.execute(
            "SELECT kind, last_error FROM graphrag.jobs WHERE state = 'failed' OR kind <> 'communities'"
        ).fetchall()
        if left:
            raise SystemExit(f"pg_graphrag left work: {left}")
        rows = {}
        for table in TABLES:
            ((rows[table],),) = connection.execute(f"SELECT count(*) FROM graphrag.{table}".encode()).fetchall()
        ((rows["failed"],),) = connection.execute("SELECT count(error) FROM graphrag.llm_calls").fetchall()
    return rows


def table(results: list[Result]) -> str:
    lines = [
        "| | | seconds | CPU, s | calls: extraction / summaries / reports | tokens in / out | embedding requests |"
        " failed | documents / entities / relationships / communities / reports |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        cpu = "–" if result.cpu is None else f"{result.cpu:.1f}"
        calls = " / ".join(str(result.calls.get(kind, 0)) for kind in ("extraction", "summaries", "reports"))
        tokens = f"{result.tokens.get('in', 0):,} / {result.tokens.get('out', 0):,}"
        rows = " / ".join(f"{result.rows[name]:,}" for name in TABLES)
        cells = [result.system, result.step, f"{result.seconds:.1f}", cpu, calls, tokens]
        cells += [str(result.embeddings), str(result.failed), rows]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True, help="of any database of the server, as superuser")
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    arguments.add_argument("--documents", type=int, default=100, help="of the full build (100)")
    given = arguments.parse_args()
    if not (given.data / "musique/openie.jsonl").exists():
        raise SystemExit(f"no recorded extraction in {given.data} (--data)")
    more = max(2, given.documents // 100)  # of a single new document GraphRAG says that it has no relationships
    documents = passages(given.data, given.documents + more)
    first, rest = documents[: given.documents], documents[given.documents :]
    peer_python("graphrag", REQUIREMENTS)
    replies = Replies(given.data)
    with Endpoint(keep=False, dimensions=DIMENSIONS) as endpoint:
        endpoint.reply(replies)
        run = Run(endpoint, replies)
        run.ours(given.url, first, rest)
        run.graphrag(first, rest)
    print(table(run.results))


if __name__ == "__main__":
    main()
