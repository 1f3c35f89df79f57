"""The best rows of a query in a mode: what it retrieves, among documents that exist, re-scored where asked for."""

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import np
from pg_graphrag.retrieval import rerank, transforms
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, leveled
from pg_graphrag.server import Row

MAX_TOP_K = 10_000
# Each retriever looks at least this deep, so that fusion sees what stands lower in one list and high in another.
DEPTH = 100
# Scores that differ by less are equal: sums of the same numbers in another order.
DIGITS = 9


def check_top_k(top_k: int | None) -> int:
    """Return top_k; 22023 outside 0 … 10,000."""
    if top_k is None or not 0 <= top_k <= MAX_TOP_K:
        raise GraphRAGError(
            f"top_k cannot be {'null' if top_k is None else top_k}", hint=f"Give 0 to {MAX_TOP_K:,} rows."
        )
    return top_k


def best_rows(query: Query, mode: Mode, top_k: int) -> tuple[Query, list[Row]]:
    """Return (the query that found them, at most `top_k` rows, each with its chunk, document, score and explanation)."""
    if not query.text or top_k == 0:
        return query, []
    wanted = rerank.depth(query, top_k)
    depth = max(DEPTH, 2 * wanted)
    retrieve = transforms.transformed(mode.retrieve, query)
    fused = retrieve(query, depth)
    rows = _rows(query, fused, wanted)
    if len(rows) < wanted and len(rows) < len(fused.ids) and query.visible is None:
        # Chunks of documents just deleted took places: search again among the documents that exist.
        query = query.existing()
        rows = _rows(query, retrieve(query, depth), wanted)
    return query, rerank.rescored(query, rows)[:top_k]


def _rows(query: Query, fused: Fused, top_k: int) -> list[Row]:
    value = np.round(leveled(fused.scores), DIGITS)
    order = np.argsort(-value, kind="stable")
    # All that tie with the last place, and some more for documents that are gone.
    last = min(len(order), top_k + top_k // 4 + 10)
    if 0 < last < len(order):
        last = int(np.searchsorted(-value[order], -value[order[last - 1]], side="right"))
    wanted = order[:last]
    score = dict(zip(fused.ids[wanted].tolist(), value[wanted].tolist(), strict=True))
    found = graph_of(query).chunks(list(score))
    for row in found:
        row["score"] = score[row["chunk_id"]]
    found.sort(key=lambda row: (-row["score"], row["source_key"].encode(), row["ordinal"]))
    del found[top_k:]
    for row in found:
        row["explain"] = fused.explain(row["chunk_id"])
    return found
