"""What 10 and 100 million chunks take, on paper: a model of cost whose parameters were measured.

    python -m bench scale [--chunks 1000000 10000000 100000000] [--dimensions 384]

MEASURED has the figures of `python -m bench large_corpus` (a million chunks without a graph) and of `python -m bench growth`
(100,000 documents with the graph of NLP), both in docs/scale.md or bench/RESULTS.md. Sizes grow with the chunks. What a vector
index costs to build, to insert into and to ask grows with their logarithm besides; a comparison of all vectors and BM25 grow with
the chunks. It knows nothing of a disk that is waited for: the vector indexes that are searched fit into memory, and so does BM25.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """Of a chunk of some 75 words with one window, or of a search; times are of a processor."""

    at: int = 1_000_000
    # ms a chunk: cut, written, BM25; a local model; the tagger, concepts and the merge.
    text_ms: float = 0.95
    encoder_ms: float = 15.0
    graph_ms: float = 10.0
    # ms a vector of 384 dimensions, of an index of `at`: built from nothing, and inserted.
    build_ms: float = 0.48
    insert_ms: float = 5.0
    # Bytes a chunk: documents; chunks with their words, windows and BM25; a vector's row; the graph, and AGE's copy.
    document_bytes: float = 410
    chunk_bytes: float = 2040
    vector_row_bytes: float = 1690
    graph_bytes: float = 27_000
    age_bytes: float = 20_000
    # Names that have a vector, by chunk: their index is half as dense.
    names: float = 4.4
    # ms of a search at `at`: windows by the index; BM25, and what of it does not grow; all vectors compared, in three
    # processes together. Bytes that a session keeps of a chunk for BM25.
    scan_ms: float = 20.0
    bm25_ms: float = 8.0
    fixed_ms: float = 14.0
    compared_ms: float = 2100.0
    session_bytes: float = 20


MEASURED = Measured()
DAY = 86_400
# Bytes of a vector of so many dimensions in an index by how it is stored there, and of a neighbour's number.
STORED = {"vector": 4.0, "halfvec": 2.0, "bit, re-ranked": 1 / 8}
NEIGHBOUR_BYTES, TUPLE_BYTES = 6.0, 200.0


def index_bytes(dimensions: int, stored: str, m: int) -> float:
    """Return the bytes of a vector in an HNSW index: itself, and 2 m neighbours in the lowest layer, m in each other."""
    return dimensions * STORED[stored] + NEIGHBOUR_BYTES * (2 * m + m / (m - 1)) + TUPLE_BYTES


def deeper(chunks: int) -> float:
    """Return by how much a walk through an index of so many vectors is longer than through one of the measured size."""
    return math.log(chunks) / math.log(MEASURED.at)


def table(sizes: list[int], dimensions: int) -> str:
    """Return the table in Markdown."""
    one = MEASURED
    rows: list[tuple[str, list[str]]] = []

    def add(name: str, values: list[float], form: str = ",.0f") -> None:
        rows.append((name, [format(value, form) for value in values]))

    windows = {kind: index_bytes(dimensions, kind, 16) for kind in STORED}
    names = {kind: one.names * index_bytes(dimensions, kind, 8) for kind in STORED}
    larger = dimensions / 384
    text = one.document_bytes + one.chunk_bytes + one.vector_row_bytes * larger
    add("disk without a graph, GB, with its vector index", [n * (text + windows["vector"]) / 1e9 for n in sizes])
    with_graph = text + one.graph_bytes + one.age_bytes
    add(
        "disk with NLP's graph and Cypher, GB",
        [n * (with_graph + windows["vector"] + names["vector"]) / 1e9 for n in sizes],
    )
    add("of it Cypher's copy, GB", [n * one.age_bytes / 1e9 for n in sizes])
    for kind in STORED:
        add(f"vector index of windows, {kind}, GB", [n * windows[kind] / 1e9 for n in sizes], ",.1f")
    add("vector index of names, halfvec, GB", [n * names["halfvec"] / 1e9 for n in sizes])
    add(
        "indexing without a graph, processor days, vectors from an endpoint",
        [n * one.text_ms / 1000 / DAY for n in sizes],
        ",.1f",
    )
    add("… with the local encoder", [n * (one.text_ms + one.encoder_ms) / 1000 / DAY for n in sizes], ",.1f")
    add("… and NLP's graph", [n * (one.text_ms + one.encoder_ms + one.graph_ms) / 1000 / DAY for n in sizes], ",.1f")
    add(
        "index of windows, built in memory, processor hours",
        [n * one.build_ms * larger * deeper(n) / 3.6e6 for n in sizes],
        ",.1f",
    )
    add("an insert into it, ms a chunk", [one.insert_ms * larger * deeper(n) for n in sizes], ",.1f")
    add("`bm25`, ms of a processor", [one.fixed_ms + one.bm25_ms * n / one.at for n in sizes])
    add("what a session would keep for it, MB", [one.session_bytes * n / 1e6 for n in sizes])
    add("windows by the index, ms", [one.scan_ms * larger * deeper(n) for n in sizes])
    add(
        "all windows compared (a filter that many pass), s",
        [one.compared_ms * larger * n / one.at / 1000 for n in sizes],
    )
    head = f"| | {' | '.join(f'{n:,} chunks' for n in sizes)} |"
    lines = [head, "|---" * (len(sizes) + 1) + "|"]
    return "\n".join(lines + [f"| {name} | {' | '.join(values)} |" for name, values in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="*", default=[1_000_000, 10_000_000, 100_000_000])
    parser.add_argument("--dimensions", type=int, default=384)
    options = parser.parse_args()
    print(table(options.chunks, options.dimensions))


if __name__ == "__main__":
    main()
