"""PageRank and Leiden on a graph of 1,000,000 relationships, beside igraph and leidenalg: seconds, memory, and quality.

    python -m bench graph_algorithms [--edges 1000000]

Planted communities of 10 to 1,000 entities, degrees as a power law. PageRank is the walk of mode ppr (`walk`), here over
the whole of a graph of mentions with as many edges, where a search reads the neighbourhood of its seeds; igraph's is
PRPACK; the masses must be equal. Leiden is what a refresh of communities runs (`cluster`: all levels, down to 10
members), and the first level alone; of the peers the flat partition. Each system in a process of its own (peers in a venv
that is made once); no server takes part.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.peers import HALVES, peer_python

REQUIREMENTS = ["igraph==1.0.0", "leidenalg==0.12.0", "numpy"]
DAMPING = 0.5


def relationships(edges: int) -> tuple[Any, Any, Any]:
    """Return (low, high, weight), (m,) each, over m / 5 entities."""
    generator = np.random.default_rng(1)
    nodes = edges // 5
    sizes = np.clip((10 * generator.pareto(1.2, nodes // 10) + 10).astype(int), 10, 1000)
    community = np.repeat(np.arange(len(sizes)), sizes)[:nodes]
    nodes = len(community)
    first = np.searchsorted(community, np.arange(len(sizes) + 1))
    popular = (nodes * generator.random(2 * edges) ** 3).astype(
        np.int64
    )  # low numbers are in many edges, but few near one another
    tails = generator.permutation(nodes)[popular]
    start, stop = first[community[tails]], first[community[tails] + 1]
    near = start + (generator.random(2 * edges) * (stop - start)).astype(np.int64)
    heads = np.where(generator.random(2 * edges) < 0.7, near, generator.integers(0, nodes, 2 * edges))
    low, high = np.minimum(tails, heads), np.maximum(tails, heads)
    pairs, weight = np.unique(low[low < high] * nodes + high[low < high], return_counts=True)
    chosen = np.sort(generator.choice(len(pairs), min(edges, len(pairs)), replace=False))
    return pairs[chosen] // nodes, pairs[chosen] % nodes, weight[chosen].astype(float)


def mentions(edges: int) -> tuple[Any, Any, Any]:
    """Return (entity, chunk, weight), (m,) each: about 20 entities in a chunk, a few of them in very many."""
    generator = np.random.default_rng(2)
    entities = (edges // 4 * generator.random(edges) ** 2).astype(np.int64)
    chunks = generator.integers(0, edges // 20, edges)
    pairs = np.unique(entities * edges + chunks)
    return pairs // edges, pairs % edges, generator.uniform(0.5, 3, len(pairs))


def ours(folder: Path) -> None:
    """Run the package's functions on what lies in the folder; print JSON."""
    from pg_graphrag.index.community.leiden import Settings, cluster, graph_of, modularity
    from pg_graphrag.search.retrievers.pagerank import Graph, walk

    entity, chunk, weight = np.load(folder / "mentions.npy")
    seeds = json.loads((folder / "seeds.json").read_text())
    graph = Graph.of(entity.astype(np.int64), chunk.astype(np.int64), weight)
    began = time.perf_counter()
    chunks, mass, _ = walk(graph, dict.fromkeys(seeds["entities"], 1.0), dict.fromkeys(seeds["chunks"], 1.0), DAMPING)
    pagerank = time.perf_counter() - began
    low, high, weight = np.load(folder / "relationships.npy")
    low, high = low.astype(np.int64), high.astype(np.int64)
    nodes = int(high.max()) + 1
    figures: dict[str, Any] = {"pagerank": pagerank, "mass": dict(zip(chunks.tolist(), mass.tolist(), strict=True))}
    for name, settings in (("all levels", Settings()), ("first level", Settings(max_cluster_size=nodes))):
        began = time.perf_counter()
        graph = graph_of(nodes, low, high, weight)
        clusters = cluster(graph, settings)
        labels = np.full(nodes, -1)
        for number, item in enumerate(clusters):
            if item.level == 0:
                labels[item.members] = number
        levels = 1 + max(item.level for item in clusters)
        took = time.perf_counter() - began
        quality = modularity(graph, labels)
        figures[f"Leiden, {name}"] = [took, quality, len(clusters), levels]
    figures["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours:
        ours(options.ours)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows, pairs = relationships(options.edges), mentions(options.edges)
        np.save(folder / "relationships.npy", np.stack(rows))
        np.save(folder / "mentions.npy", np.stack(pairs))
        chosen = np.random.default_rng(3)
        seeds = {
            "entities": np.unique(chosen.choice(pairs[0], 5)).tolist(),
            "chunks": np.unique(chosen.choice(pairs[1], 10)).tolist(),
        }
        (folder / "seeds.json").write_text(json.dumps(seeds))
        nodes, chunks = int(rows[1].max()) + 1, len(np.unique(pairs[1]))
        print(f"{len(rows[0]):,} relationships of {nodes:,} entities; {len(pairs[0]):,} mentions in {chunks:,} chunks")
        peer = [peer_python("igraph", REQUIREMENTS), HALVES / "graph_algorithms_peer.py", folder]
        results = {
            "pg_graphrag": said_by([sys.executable, __file__, "--ours", folder]),
            "igraph": said_by([*peer, "igraph"]),
            "leidenalg": said_by([*peer, "leidenalg"]),
        }
    for system, figures in results.items():
        if "pagerank" in figures:
            print(f"{system:12} PageRank {figures['pagerank']:.2f} s")
        for key in (key for key in figures if key.startswith("Leiden")):
            took, quality, count, levels = figures[key]
            print(
                f"{system:12} {key}: {took:.1f} s, modularity {quality:.4f}, {count:,} communities in {levels} levels"
            )
        print(f"{system:12} peak memory {figures['memory']:.0f} MB")
    own, other = results["pg_graphrag"]["mass"], results["igraph"]["mass"]
    print(
        f"greatest difference of a chunk's mass, of 1 in all: {max(abs(own[chunk] - other.get(chunk, 0.0)) for chunk in own):.1e}"
    )


def said_by(command: list[Any]) -> dict[str, Any]:
    """Return what a process prints as JSON."""
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return result


if __name__ == "__main__":
    main()
