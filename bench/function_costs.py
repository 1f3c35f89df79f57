"""COST of functions beside the time they take: what the planner believes of them, on the quickstart's corpus.

A unit of cost is taken from a scan of a table in memory, which the planner knows well. Functions end up within a factor of ten of
what they take; more is not to be had of one number, since time depends on the corpus. None is above 10,000,000, or one call alone
would be worth compiling to the planner (jit_above_cost).
"""

import argparse
import json
import statistics
import time

import psycopg

CALLS = {
    "search": "graphrag.search(%(q)s, %(c)s)",
    "context": "graphrag.context(%(q)s, %(c)s)",
    "hybrid_search": "graphrag.hybrid_search(%(q)s, %(c)s)",
    "local_search": "graphrag.local_search(%(q)s, %(c)s)",
    "global_search": "graphrag.global_search(%(q)s, %(c)s)",
    "naive_search": "graphrag.naive_search(%(q)s, %(c)s)",
    "bm25_search": "graphrag.bm25_search(%(q)s, %(c)s)",
    "search_entities": "graphrag.search_entities(%(q)s, %(c)s)",
    "search_relationships": "graphrag.search_relationships(%(q)s, %(c)s)",
    "search_reports": "graphrag.search_reports(%(q)s, %(c)s)",
    "embed": "graphrag.embed(%(q)s)",
    "neighbors": "graphrag.neighbors('vacuum', corpus => %(c)s)",
    "fingerprint": "graphrag.fingerprint(%(c)s)",
}
QUESTIONS = [
    f"How does {what} reclaim storage ({n})?" for n, what in enumerate(("VACUUM", "TOAST", "WAL", "B-tree") * 3)
]


def milliseconds_per_unit(connection: psycopg.Connection) -> float:
    """Return the milliseconds of one unit of the planner's cost, of a scan of rows in memory."""
    connection.execute("CREATE TEMP TABLE scanned AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 1000000) g")
    connection.execute("VACUUM ANALYZE scanned")
    connection.execute("SET max_parallel_workers_per_gather = 0")
    connection.execute("SET jit = off")
    units = []
    for _ in range(5):
        ((plan,),) = connection.execute(
            "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) SELECT count(*) FROM scanned WHERE k = 3"
        ).fetchall()
        top = (plan if isinstance(plan, list) else json.loads(plan))[0]
        units.append(top["Execution Time"] / top["Plan"]["Total Cost"])
    return statistics.median(units)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--corpus", default="manual")
    options = parser.parse_args()
    with psycopg.connect(options.url, autocommit=True) as connection:
        unit = milliseconds_per_unit(connection)
        operator = float(connection.execute("SHOW cpu_operator_cost").fetchone()[0])
        print(f"a unit of cost takes {1000 * unit:.1f} microseconds\n")
        print(f"{'':24}{'ms':>8}{'its COST':>12}{'COST':>12}{'rows':>8}{'ROWS':>8}")
        for name, call in CALLS.items():
            times, rows = [], 0
            for question in QUESTIONS:
                start = time.perf_counter()
                rows = len(
                    connection.execute(
                        f"SELECT * FROM {call}".encode(), {"q": question, "c": options.corpus}
                    ).fetchall()
                )
                times.append(1000 * (time.perf_counter() - start))
            cost, declared = connection.execute(
                "SELECT max(procost), max(prorows) FROM pg_proc WHERE pronamespace = 'graphrag'::regnamespace AND proname = %s",
                [name],
            ).fetchone()
            median = statistics.median(times)
            print(
                f"{name:24}{median:>8.1f}{median / unit / operator:>12.0f}{cost:>12.0f}{rows:>8}{declared:>8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
