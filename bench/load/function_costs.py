"""COST of functions beside the time they take: what the planner believes of them, on the quickstart's corpus.

Times are of the backend's processor. A unit of cost is taken from a scan of a table in memory, which the planner knows well.
Functions end up within a factor of ten of what they take; more is not to be had of one number, since time depends on the corpus.
None is above 10,000,000, or one call alone would be worth compiling to the planner (jit_above_cost).
"""

import argparse
import statistics

import psycopg

from bench.load.search import processor_seconds

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
    "to_dot": "graphrag.to_dot('vacuum', %(c)s)",
    "to_mermaid": "graphrag.to_mermaid('vacuum', %(c)s)",
    "graph_nodes_at": "graphrag.graph_nodes_at(%(c)s, now())",
    "graph_edges_at": "graphrag.graph_edges_at(%(c)s, now())",
    "clustered_relationships": "graphrag.clustered_relationships(%(c)s)",
    "suggest_merges": "graphrag.suggest_merges(%(c)s)",
    "cypher": "graphrag.cypher(%(c)s, 'MATCH (n:Entity) RETURN n.name AS name LIMIT 100')",
    "golden_questions": "graphrag.golden_questions(%(c)s)",
    "warm": "graphrag.warm(%(c)s)",
    "embedding_engine": "graphrag.embedding_engine()",
    "health": "graphrag.health()",
    "check": "graphrag.check(%(c)s)",
    "fingerprint": "graphrag.fingerprint(%(c)s)",
    "fingerprint_sections": "graphrag.fingerprint_sections(%(c)s)",
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
    query = "SELECT count(*) FROM scanned WHERE k = 3"
    ((plan,),) = connection.execute(f"EXPLAIN (FORMAT JSON) {query}".encode()).fetchall()
    times = []
    for _ in range(5):
        start = processor_seconds(connection.info.backend_pid)
        connection.execute(query.encode())
        times.append(1000 * (processor_seconds(connection.info.backend_pid) - start))
    return statistics.median(times) / plan[0]["Plan"]["Total Cost"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--corpus", default="manual")
    options = parser.parse_args()
    with psycopg.connect(options.url, autocommit=True) as connection:
        pid = connection.info.backend_pid
        unit = milliseconds_per_unit(connection)
        operator = float(connection.execute("SHOW cpu_operator_cost").fetchone()[0])
        print(f"a unit of cost takes {1000 * unit:.1f} microseconds\n")
        print(f"{'':24}{'ms':>8}{'its COST':>12}{'COST':>12}{'rows':>8}{'ROWS':>8}")
        for name, call in CALLS.items():
            times, rows = [], 0
            for question in QUESTIONS:
                start = processor_seconds(pid)
                rows = len(
                    connection.execute(
                        f"SELECT * FROM {call}".encode(), {"q": question, "c": options.corpus}
                    ).fetchall()
                )
                times.append(1000 * (processor_seconds(pid) - start))
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
