"""Latency of every mode on the quickstart's corpus: a session each, warm, with the query's embedding and without.

./quickstart && python -m bench search                  the chapters that everybody knows
./quickstart --all && python -m bench search            the whole manual
python -m bench search --context --modes local global hybrid mix
"""

import argparse
import statistics
import time
from pathlib import Path

import psycopg
from pg_graphrag.ground.mode_names import MODES

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


def processor_seconds(pid: int) -> float:
    """Return what a backend has used of a processor; 0 where the server runs elsewhere."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


def private_megabytes(pid: int) -> float:
    """Return the memory of a backend that no other process can share; nan where the server runs elsewhere."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return float("nan")
    # Not what smaps calls private: pages of the shared buffers and of the weights' file are that while nobody else reads them.
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def measured(connection: psycopg.Connection, statement: str, *parameters: object) -> tuple[float, float]:
    """Return the milliseconds of a statement: by the clock, and of the backend's processor time."""
    pid = connection.info.backend_pid
    cpu, start = processor_seconds(pid), time.perf_counter()
    connection.execute(statement.encode(), parameters).fetchall()
    return (time.perf_counter() - start) * 1e3, (processor_seconds(pid) - cpu) * 1e3


def row(
    what: str,
    first: tuple[float, float],
    new: list[tuple[float, float]],
    known: list[tuple[float, float]],
    memory: tuple[float, float],
) -> str:
    """Return a row of the table: texts that are new to the session, and such as it has embedded."""
    clock, cpu = zip(*new, strict=True)
    figures = [f"{statistics.median(clock):.1f}", f"{_p95(list(clock)):.1f}", f"{statistics.median(cpu):.1f}"]
    for column in zip(*known, strict=True):
        figures.append(f"{statistics.median(column):.1f}")
    if not known:
        figures += ["", ""]
    return f"| {what} | {first[0]:.0f} | {first[1]:.0f} | {' | '.join(figures)} | {memory[0]:.0f} | {memory[1]:.0f} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--corpus", default="manual")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--modes", nargs="+", default=MODES)
    arguments.add_argument("--context", action="store_true", help="contexts instead of searches")
    arguments.add_argument("--warm", action="store_true", help="each session begins with graphrag.warm()")
    given = arguments.parse_args()
    search = "SELECT graphrag.context(%s, %s, %s)" if given.context else "SELECT * FROM graphrag.search(%s, %s, %s)"
    with psycopg.connect(given.url, autocommit=True) as connection:
        size = connection.execute(
            "SELECT documents, chunks, entities, relationships FROM graphrag.progress WHERE corpus = %s", [given.corpus]
        ).fetchone()
        print(f"{given.corpus}: documents, chunks, entities, relationships = {size}\n")
        print(
            "| mode | first of a session, ms | its CPU | p50 | p95 | CPU p50 | known text: p50 | CPU p50 | private MB after the"
            " first | in the end |\n|---|---|---|---|---|---|---|---|---|---|"
        )
        embed = [measured(connection, "SELECT graphrag.embed(%s)", text) for text in QUESTIONS * given.rounds]
        memory = private_megabytes(connection.info.backend_pid)
        print(row("the query's embedding", embed[0], embed, [], (memory, memory)))
    for mode in given.modes:
        with psycopg.connect(given.url, autocommit=True) as connection:
            if given.warm:
                connection.execute("SELECT graphrag.warm(%s)", [given.corpus])
            first = measured(connection, search, QUESTIONS[0], given.corpus, mode)
            memory = private_megabytes(connection.info.backend_pid)
            # Twice: after about 20 questions a session keeps the graph of a large corpus.
            for question in QUESTIONS * 2:
                measured(connection, search, question, given.corpus, mode)
            # The session keeps the vectors of texts that it has embedded.
            new, known = [], []
            for number in range(given.rounds):
                for question in QUESTIONS:
                    new.append(measured(connection, search, f"{question} ({number})", given.corpus, mode))
                    known.append(measured(connection, search, question, given.corpus, mode))
            in_the_end = private_megabytes(connection.info.backend_pid)
        print(row(mode, first, new, known, (memory, in_the_end)), flush=True)


def _p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


if __name__ == "__main__":
    main()
