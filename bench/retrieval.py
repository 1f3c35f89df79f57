"""Recall and nDCG of every mode on the dev questions, with no language model or with recorded output of one.

    PYTHONPATH=. python bench/retrieval.py --url "$(bin/graphrag-server url)" --load
    PYTHONPATH=. python bench/retrieval.py --url "$(bin/graphrag-server url)" --load --extractor llm

``--extractor llm`` indexes by models: the recorded extractions of the data, served by the tests' endpoint, through the
worker as any model's would be. Questions have the recorded keywords where there are such (LiHua-World), from the cache of
answers as in use; the others their noun phrases. Embeddings are the local embedder's either way.

Protocol (../shared/data/README.md): a document is judged, chunk rankings collapse to documents (best chunk wins);
Recall@k is the share of evidence documents in the top k, nDCG@10 is binary; macro means; Null questions left out.
"""

import argparse
import contextlib
import json
import math
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.endpoint import Endpoint, Recorded

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
SETS = {"nlp": ("musique", "lihua-jan-jun", "lihua-other"), "llm": ("musique", "lihua-jan-jun")}
# Roles that a model has, by set: what was recorded of it.
ROLES = {"musique": ("extract",), "lihua-jan-jun": ("extract", "keywords")}
DEPTH = 40


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def documents(data: Path, name: str) -> list[tuple[str, str | None, str]]:
    if name == "musique":
        return [(d["id"], d["title"], d["text"]) for d in lines(data / "musique/docs.jsonl")]
    chats = lines(data / "lihua-world/docs.jsonl")
    return [(d["id"], None, d["text"]) for d in chats if name == "lihua-other" or d["id"][:6] <= "202606"]


def questions(data: Path, name: str) -> list[dict[str, Any]]:
    if name == "musique":
        return lines(data / "musique/queries_dev.jsonl")
    asked = [q for q in lines(data / "lihua-world/queries_dev.jsonl") if q["type"] != "Null"]
    return [q for q in asked if q["jan_jun"] == (name == "lihua-jan-jun")]


def corpus_of(name: str, extractor: str) -> str:
    return name if extractor == "nlp" else f"{name}-{extractor}"


@contextlib.contextmanager
def models(connection: psycopg.Connection, data: Path) -> Iterator[None]:
    """Serve what models said, for as long as it lasts."""
    with Endpoint(keep=False) as endpoint:
        endpoint.reply(Recorded(data))
        connection.execute("SELECT graphrag.set_provider('recorded', 'openai', %s)", [endpoint.url])
        yield


def load(connection: psycopg.Connection, data: Path, name: str, extractor: str) -> float:
    """Make the corpus anew; return the seconds that indexing took."""
    corpus = corpus_of(name, extractor)
    if connection.execute("SELECT 1 FROM graphrag.corpora WHERE name = %s", [corpus]).fetchone():
        connection.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    options: dict[str, Any] = {}
    if extractor == "llm":
        model = {"provider": "recorded", "model": "recorded"}
        options = {"extractor": "llm", "llm": {"roles": dict.fromkeys(ROLES[name], model)}}
    connection.execute("SELECT graphrag.create_corpus(%s, %s)", [corpus, json.dumps(options)])
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES (%s, %s, %s, %s)",
            [(corpus, *document) for document in documents(data, name)],
        )
    start = time.perf_counter()
    connection.execute("CALL graphrag.process_jobs()")
    connection.execute("SELECT graphrag.optimize(%s)", [corpus])
    return time.perf_counter() - start


def understand(connection: psycopg.Connection, data: Path, name: str, extractor: str) -> None:
    """Have the questions understood, so that searches find their keywords in the cache."""
    for question in questions(data, name):
        connection.execute("SELECT graphrag.understand(%s, %s)", [question["question"], corpus_of(name, extractor)])


def measure(connection: psycopg.Connection, data: Path, name: str, corpus: str, mode: str) -> tuple[list[float], float]:
    """Return means of (R@2, R@5, R@10, nDCG@10), and the median milliseconds of a search."""
    scores, times = [], []
    for question in questions(data, name):
        start = time.perf_counter()
        rows = connection.execute(
            "SELECT source_key FROM graphrag.search(%s, %s, %s, %s)", [question["question"], corpus, mode, DEPTH]
        ).fetchall()
        times.append((time.perf_counter() - start) * 1e3)
        found = list(dict.fromkeys(key for (key,) in rows))
        evidence = set(question["evidence"])
        gain = sum(1 / math.log2(place + 2) for place, key in enumerate(found[:10]) if key in evidence)
        ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(evidence))))
        scores.append([len(evidence.intersection(found[:k])) / len(evidence) for k in (2, 5, 10)] + [gain / ideal])
    return [statistics.mean(column) for column in zip(*scores, strict=True)], statistics.median(times)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--extractor", choices=tuple(SETS), default="nlp")
    arguments.add_argument("--sets", nargs="+", help="some of the sets (default: all)")
    arguments.add_argument("--modes", nargs="+", default=MODES)
    arguments.add_argument("--load", action="store_true", help="make the corpora anew first")
    given = arguments.parse_args()
    sets = [name for name in SETS[given.extractor] if not given.sets or name in given.sets]
    with psycopg.connect(given.url, autocommit=True) as connection, contextlib.ExitStack() as stack:
        if given.extractor == "llm":
            stack.enter_context(models(connection, given.data))
        for name in sets if given.load else ():
            print(f"{name}: indexed in {load(connection, given.data, name, given.extractor):.0f} s", flush=True)
            if given.extractor == "llm":
                understand(connection, given.data, name, given.extractor)
        print("\n| set | mode | R@2 | R@5 | R@10 | nDCG@10 | p50, ms |\n|---|---|---|---|---|---|---|")
        for name in sets:
            for mode in given.modes:
                means, median = measure(connection, given.data, name, corpus_of(name, given.extractor), mode)
                row = " | ".join(f"{mean:.3f}" for mean in means)
                print(f"| {name} | {mode} | {row} | {median:.0f} |", flush=True)


if __name__ == "__main__":
    main()
