"""Mode ppr on a graph of tens of thousands of mentions: warm, and in fresh sessions. All MuSiQue passages, recorded extraction.

    PYTHONPATH=python:. python bench/pagerank.py --url "$(bin/graphrag-server url postgres)"

Cold: the first search of a session, the start of Python in the backend included (by itself: the first bm25 search of a
session); and the first ppr search of one that has searched by bm25 before. The query's embedding is timed by itself.
The database that it makes on the server is dropped again.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from lightrag import CONCURRENCY, HASH_EMBEDDER, ROOT, Endpoint, database, dev_questions, passages
from peers import work
from psycopg.types.json import Jsonb

CORPUS = "bench"
SEARCH = "SELECT * FROM graphrag.search(%s, %s, %s, low_level_keywords => %s, options => %s)"
# A question, and its low-level keywords: no model is asked for them.
Question = tuple[str, list[str]]


def load(url: str, endpoint: Endpoint, documents: list[tuple[str, str, str]]) -> None:
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION pg_graphrag CASCADE")
        cursor.execute(
            "SELECT graphrag.set_provider('bench', 'openai', %s, options => %s)",
            [endpoint.url, Jsonb({"concurrency": CONCURRENCY})],
        )
        options = {
            "extractor": "llm",
            "language": "en",
            "max_gleaning": 0,
            "communities": False,
            "llm": {"provider": "bench", "model": "recorded"},
            "embedding": HASH_EMBEDDER,
        }
        cursor.execute("SELECT graphrag.create_corpus(%s, %s)", [CORPUS, Jsonb(options)])
        cursor.executemany(
            f"INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES ('{CORPUS}', %s, %s, %s)",
            documents,
        )
    threads = [threading.Thread(target=work, args=[url]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT graphrag.optimize(%s)", [CORPUS])
        connection.execute("VACUUM ANALYZE")


def sizes(url: str, corpus: str) -> tuple[Any, ...]:
    with psycopg.connect(url) as connection:
        counts = connection.execute(
            "SELECT p.chunks, p.entities, (SELECT count(*) FROM graphrag.entity_mentions m WHERE m.corpus_id = c.id),"
            "       p.relationships"
            "  FROM graphrag.progress p JOIN graphrag.corpora c ON c.name = p.corpus WHERE p.corpus = %s",
            [corpus],
        ).fetchone()
    if counts is None:
        raise SystemExit(f"there is no corpus {corpus!r}")
    return counts


def milliseconds(
    connection: psycopg.Connection[Any], question: Question, corpus: str, mode: str, profile: str
) -> float:
    start = time.perf_counter()
    options = {"profile": profile} if mode == "ppr" else {}
    text, keywords = question
    connection.execute(SEARCH, [text, corpus, mode, keywords if mode == "ppr" else None, Jsonb(options)]).fetchall()
    return (time.perf_counter() - start) * 1e3


def warm(url: str, corpus: str, questions: list[Question], profile: str) -> list[float]:
    """Each question is asked twice, and the second time counts: its embedding is known then."""
    times = []
    with psycopg.connect(url, autocommit=True) as connection:
        for question in questions[:5] * 2:
            milliseconds(connection, question, corpus, "ppr", profile)
        for question in questions:
            milliseconds(connection, question, corpus, "ppr", profile)
            times.append(milliseconds(connection, question, corpus, "ppr", profile))
    return times


def cold(
    url: str, corpus: str, questions: list[Question], timed: Callable[[psycopg.Connection[Any], Question], float]
) -> list[float]:
    times = []
    for question in questions:
        with psycopg.connect(url, autocommit=True) as connection:
            times.append(timed(connection, question))
    return times


def after_bm25(corpus: str, profile: str) -> Callable[[psycopg.Connection[Any], Question], float]:
    def timed(connection: psycopg.Connection[Any], question: Question) -> float:
        milliseconds(connection, question, corpus, "bm25", "best")
        connection.execute("SELECT graphrag.embed(%s, %s)", [question[0], corpus]).fetchone()
        return milliseconds(connection, question, corpus, "ppr", profile)

    return timed


def measure(url: str, corpus: str, questions: list[Question]) -> None:
    chunks, entities, mentions, relationships = sizes(url, corpus)
    print(f"{chunks:,} chunks, {entities:,} entities, {mentions:,} mentions, {relationships:,} relationships\n")
    print("| ms p50 / p95 | profile best | profile paper |\n|---|---|---|")
    rows: list[tuple[str, Callable[[str], list[float]]]] = [
        ("warm, the query's embedding apart", lambda profile: warm(url, corpus, questions, profile)),
        (
            "first ppr search of a session that has searched by bm25",
            lambda profile: cold(url, corpus, questions[:10], after_bm25(corpus, profile)),
        ),
        (
            "first search of a session",
            lambda profile: cold(
                url, corpus, questions[:10], lambda c, question: milliseconds(c, question, corpus, "ppr", profile)
            ),
        ),
    ]
    for name, times in rows:
        print(f"| {name} | {quantiles(times('best'))} | {quantiles(times('paper'))} |", flush=True)
    start = cold(url, corpus, questions[:10], lambda c, question: milliseconds(c, question, corpus, "bm25", "best"))
    print(f"| by itself: first bm25 search of a session | {quantiles(start)} | |")


def quantiles(times: list[float]) -> str:
    ordered = sorted(times)
    return f"{statistics.median(ordered):.0f} / {ordered[int(0.95 * (len(ordered) - 1))]:.0f}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True, help="of any database of the server, as superuser")
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    arguments.add_argument("--documents", type=int, default=None, help="the first so many passages (all)")
    arguments.add_argument("--corpus", help="one that the database has, instead of the passages")
    given = arguments.parse_args()
    questions = [(question, low) for question, low, _ in dev_questions(given.data, 40)]
    if given.corpus is not None:
        measure(given.url, given.corpus, questions)
        return
    endpoint = Endpoint(given.data)
    try:
        with database(given.url, "bench_pagerank") as own:
            load(own, endpoint, passages(given.data, given.documents))
            measure(own, CORPUS, questions)
    finally:
        endpoint.close()


if __name__ == "__main__":
    main()
