"""Latency of every mode on the quickstart's corpus: one session, warm, the query's embedding included and by itself.

./quickstart && python bench/search.py --url "$(bin/graphrag-server url)" --corpus manual
"""

import argparse
import statistics
import time

import psycopg

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
QUESTIONS = (
    "Which kind of index helps to search for words in documents?",
    "How does VACUUM reclaim storage occupied by dead tuples?",
    "What is the difference between READ COMMITTED and REPEATABLE READ?",
    "How can a deadlock be avoided when two sessions lock rows?",
    "Why does the planner choose a sequential scan although there is an index?",
    "How is a standby server kept up to date?",
    "What does EXPLAIN ANALYZE show about buffers?",
    "How do I restore a single table from a dump?",
    "What happens to WAL files during continuous archiving?",
    "When is a partial index useful?",
    "How does a multicolumn GiST index differ from a B-tree?",
    "Which statistics does the planner keep about correlated columns?",
    "How are prepared transactions recovered after a crash?",
    "How do window functions differ from aggregates?",
    "What is predicate locking in serializable isolation?",
    "How can bulk loading of data be made faster?",
    "What are advisory locks for?",
    "How do views and foreign keys work in the tutorial?",
    "Can an index answer a query without visiting the table?",
    "How does point-in-time recovery use timelines?",
)


def milliseconds(connection: psycopg.Connection, statement: str, *parameters: object) -> float:
    start = time.perf_counter()
    connection.execute(statement, parameters).fetchall()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--corpus", default="manual")
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    search = "SELECT * FROM graphrag.search(%s, %s, %s)"
    with psycopg.connect(given.url, autocommit=True) as connection:
        size = connection.execute(
            "SELECT documents, chunks, entities, relationships FROM graphrag.progress WHERE corpus = %s", [given.corpus]
        ).fetchone()
        print(f"{given.corpus}: documents, chunks, entities, relationships = {size}\n")
        print("| mode | first of a session, ms | p50, ms | p95, ms |\n|---|---|---|---|")
        embed = [
            milliseconds(connection, "SELECT graphrag.embed(%s)", question) for question in QUESTIONS * given.rounds
        ]
        print(f"| the query's embedding | {embed[0]:.0f} | {statistics.median(embed):.1f} | {_p95(embed):.1f} |")
    for mode in MODES:
        with psycopg.connect(given.url, autocommit=True) as connection:
            first = milliseconds(connection, search, QUESTIONS[0], given.corpus, mode)
            for question in QUESTIONS:
                milliseconds(connection, search, question, given.corpus, mode)
            # Each text is new to the session, which keeps the vectors of those it has embedded.
            warm = [
                milliseconds(connection, search, f"{question} ({number})", given.corpus, mode)
                for number in range(given.rounds)
                for question in QUESTIONS
            ]
        print(f"| {mode} | {first:.0f} | {statistics.median(warm):.1f} | {_p95(warm):.1f} |")


def _p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


if __name__ == "__main__":
    main()
