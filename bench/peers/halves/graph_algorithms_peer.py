"""The half of bench/load/graph_algorithms.py that runs igraph or leidenalg in a venv of its own.

python bench/peers/halves/graph_algorithms_peer.py FOLDER SYSTEM
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import igraph
import numpy as np

DAMPING = 0.5


def pagerank(folder: Path) -> tuple[float, dict[int, float]]:
    """Return the seconds, the making of igraph's graph left out, and the mass by chunk."""
    entity, chunk, weight = np.load(folder / "mentions.npy")
    seeds = json.loads((folder / "seeds.json").read_text())
    entities, left = np.unique(entity.astype(np.int64), return_inverse=True)
    chunks, right = np.unique(chunk.astype(np.int64), return_inverse=True)
    graph = igraph.Graph(n=len(entities) + len(chunks), edges=np.stack([left, right + len(entities)], axis=1))
    reset = np.zeros(len(entities) + len(chunks))
    reset[np.searchsorted(entities, seeds["entities"])] = 1
    reset[len(entities) + np.searchsorted(chunks, seeds["chunks"])] = 1
    began = time.perf_counter()
    mass = graph.personalized_pagerank(damping=DAMPING, reset=reset.tolist(), weights=weight.tolist(), directed=False)
    took = time.perf_counter() - began
    return took, dict(zip(chunks.tolist(), mass[len(entities) :], strict=True))


def leiden(folder: Path, system: str) -> list[Any]:
    """Return [seconds, modularity, communities, levels]; two iterations, leidenalg's default."""
    low, high, weight = np.load(folder / "relationships.npy")
    began = time.perf_counter()
    graph = igraph.Graph(n=int(high.max()) + 1, edges=np.stack([low, high], axis=1).astype(np.int64))
    if system == "igraph":
        partition = graph.community_leiden(objective_function="modularity", weights=weight.tolist(), n_iterations=2)
    else:
        import leidenalg

        partition = leidenalg.find_partition(
            graph, leidenalg.ModularityVertexPartition, weights=weight.tolist(), seed=1
        )
    took = time.perf_counter() - began
    return [took, graph.modularity(partition.membership, weights=weight.tolist()), len(partition), 1]


def main() -> None:
    folder, system = Path(sys.argv[1]), sys.argv[2]
    figures: dict[str, Any] = {}
    if system == "igraph":
        figures["pagerank"], figures["mass"] = pagerank(folder)
    figures["Leiden, flat"] = leiden(folder, system)
    figures["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
