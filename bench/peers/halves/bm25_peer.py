"""The half of bench/load/bm25.py that runs bm25s or tantivy in a venv of its own: builds an index of the texts and answers
queries.

    python bench/peers/halves/bm25_peer.py SYSTEM FOLDER

FOLDER holds ranks.npy (a word's rank for each place of all texts, int32), ends.npy (where each text ends) and
queries.json (a list of lists of ranks). Prints JSON: seconds to build, seconds to open the index, milliseconds of each
query, and its first ten texts.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TOP = 10
MOST_MEMORY = 9 << 30
Search = Callable[[list[int]], list[int]]


def with_bm25s(folder: Path, ranks: Any, ends: Any) -> tuple[float, float, Search]:
    """Lucene's idf, k1 and b as ours; the index is saved, and mapped for the queries."""
    import bm25s

    vocabulary = {f"w{rank}": rank for rank in range(int(ranks.max()) + 1)}
    began = time.perf_counter()
    numbers = list(range(len(vocabulary)))  # one object for each word, not for each occurrence
    ids = [[numbers[rank] for rank in part.tolist()] for part in np.split(ranks, ends[:-1])]
    retriever = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    retriever.index((ids, vocabulary), show_progress=False)
    retriever.save(folder / "bm25s")
    built = time.perf_counter() - began
    began = time.perf_counter()
    retriever = bm25s.BM25.load(folder / "bm25s", mmap=True)
    opened = time.perf_counter() - began

    def search(terms: list[int]) -> list[int]:
        words = [[f"w{rank}" for rank in terms]]
        rows, _ = retriever.retrieve(words, k=TOP, show_progress=False, n_threads=0)
        return [int(row) for row in rows[0]]

    return built, opened, search


def with_tantivy(folder: Path, ranks: Any, ends: Any) -> tuple[float, float, Search]:
    """One thread writes; segments are merged into one. k1 is 1.2 there, so that its scores are others."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
    schema = builder.build()
    (folder / "tantivy").mkdir()
    words = [f"w{rank}" for rank in range(int(ranks.max()) + 1)]
    began = time.perf_counter()
    index = tantivy.Index(schema, path=str(folder / "tantivy"))
    writer = index.writer(heap_size=500_000_000, num_threads=1)
    for part in np.split(ranks, ends[:-1]):
        writer.add_document(tantivy.Document(text=" ".join([words[rank] for rank in part.tolist()])))
    writer.commit()
    writer.wait_merging_threads()
    built = time.perf_counter() - began
    began = time.perf_counter()
    index = tantivy.Index.open(str(folder / "tantivy"))
    index.reload()
    searcher = index.searcher()
    opened = time.perf_counter() - began

    def search(terms: list[int]) -> list[int]:
        parts = [
            (tantivy.Occur.Should, tantivy.Query.term_query(schema, "text", words[rank], index_option="freq"))
            for rank in terms
        ]
        searcher.search(tantivy.Query.boolean_query(parts), TOP)
        return []

    return built, opened, search


def main() -> None:
    system, folder = sys.argv[1], Path(sys.argv[2])
    # Better an error than a machine without memory.
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    ranks, ends = np.load(folder / "ranks.npy"), np.load(folder / "ends.npy")
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    built, opened, search = {"bm25s": with_bm25s, "tantivy": with_tantivy}[system](folder, ranks, ends)
    times, processor, rows = [], [], []
    for terms in queries:
        began, cpu = time.perf_counter(), time.process_time()
        rows.append(search(terms))
        times.append(1000 * (time.perf_counter() - began))
        processor.append(1000 * (time.process_time() - cpu))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {"memory": peak, "built": built, "processor": processor, "opened": opened, "times": times, "rows": rows}
        )
    )


if __name__ == "__main__":
    main()
