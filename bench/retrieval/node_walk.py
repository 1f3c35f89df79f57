"""A corpus on several nodes: how much of what one node finds is found when each searches its part, and one walks on from there.

    python -m bench node_walk [--sets musique hotpotqa lihua-other] [--nodes 2 4 8] [--candidates 10 25 50 100]

The documents of a set are dealt to nodes at random. A node answers from the graph that its documents alone make: a filter has
that meaning (docs/architecture.md), so the parts need no servers of their own. "merged": the ten best of each node, ordered by
relevance, as a search of several corpora has them. "walk": each node gives so many candidates; `hybrid` is asked once more over
the union of these documents and the graph that they make. BM25's statistics are those of the whole, which nodes would tell each
other. Recall is the share of the ten chunks that the whole has first (whole), and of the evidence (gold; its documents among the
first ten). "read": documents of the union, as a share of the set.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pg_graphrag import GraphRAG
from psycopg.types.json import Jsonb

from bench.data.corpora import at_hand, documents, judged, kept

TOP = 10
Rows = list[tuple[int, str, float]]


def search(connection: Any, corpus: str, question: str, keys: Sequence[str] | None, limit: int) -> Rows:
    """Return (chunk, document, relevance) of the best chunks of some documents, or of all."""
    rows = connection.execute(
        "SELECT chunk_id, source_key, (explain ->> 'relevance')::float8 FROM graphrag.search(%s, %s, 'hybrid', %s,"
        " filter => %s, options => '{\"min_relevance\": 0}') ORDER BY rank",
        [question, corpus, limit, Jsonb({} if keys is None else {"$source_key": {"$in": list(keys)}})],
    )
    return list(rows.fetchall())


def shares(rows: Rows, whole: Rows, evidence: Sequence[str]) -> tuple[float, float]:
    """Return the share of the whole's chunks, and of the evidence, that the first ten rows have."""
    chunks = {row[0] for row in whole}
    first = rows[:TOP]
    return (
        len(chunks & {row[0] for row in first}) / max(len(chunks), 1),
        len(set(evidence) & {row[1] for row in first}) / len(evidence),
    )


def simulate(rag: GraphRAG, keys: list[str], asked: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    with rag._connection() as connection:
        wholes = [search(connection, rag.corpus, item["question"], None, TOP) for item in asked]
        gold = np.mean([shares(each, each, item["evidence"])[1] for each, item in zip(wholes, asked, strict=True)])
        print(f"{'one node':24} {1.0:7.3f} {gold:7.3f} {1.0:7.3f}", flush=True)
        for nodes in options.nodes:
            dealt = keys[:]
            random.Random(nodes).shuffle(dealt)
            parts = [sorted(dealt[node::nodes]) for node in range(nodes)]
            results: dict[str, list[tuple[float, ...]]] = {}
            for whole, item in zip(wholes, asked, strict=True):
                deepest = max(options.candidates)
                of_nodes = [search(connection, rag.corpus, item["question"], part, deepest) for part in parts]
                merged = sorted((row for rows in of_nodes for row in rows[:TOP]), key=lambda row: -row[2])
                results.setdefault("merged", []).append((*shares(merged, whole, item["evidence"]), 0.0))
                for depth in options.candidates:
                    union = sorted({row[1] for rows in of_nodes for row in rows[:depth]})
                    walked = search(connection, rag.corpus, item["question"], union, TOP)
                    results.setdefault(f"walk, {depth} of each", []).append(
                        (*shares(walked, whole, item["evidence"]), len(union) / len(keys))
                    )
            for name, figures in results.items():
                print(
                    f"{f'{nodes} nodes: {name}':24} {' '.join(f'{each:7.3f}' for each in np.mean(figures, axis=0))}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared/data")
    parser.add_argument("--sets", nargs="*", default=["musique", "hotpotqa", "lihua-other"])
    parser.add_argument("--nodes", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--candidates", type=int, nargs="*", default=[10, 25, 50, 100])
    parser.add_argument("--questions", type=int, default=100)
    options = parser.parse_args()
    there, missing = at_hand(options.data, options.sets)
    if missing:
        print(f"not there: {', '.join(missing)}")
    for name in there:
        asked = judged(options.data, name, options.questions)
        keys = [document["source_key"] for document in documents(options.data, name)]
        with GraphRAG(options.url, kept(options.url, options.data, name, "nlp")) as rag:
            print(f"\n{name}: {len(keys):,} documents, {len(asked)} questions")
            print(f"{'':24} {'whole':>7} {'gold':>7} {'read':>7}")
            simulate(rag, keys, asked, options)


if __name__ == "__main__":
    main()
