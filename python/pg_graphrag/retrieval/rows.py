"""The best rows of a query in a mode, of existing documents, re-ranked on request."""

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import np
from pg_graphrag.retrieval import rerank, transforms
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.places import place_of
from pg_graphrag.retrieval.query import Query, timed
from pg_graphrag.retrieval.rankings import Fused
from pg_graphrag.server import Row

MAX_TOP_K = 10_000
# Least depth of each retriever, so that fusion sees chunks that are low in one list and high in another.
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
    limit = rerank.depth(query, top_k)
    depth = max(DEPTH, 2 * limit)
    retrieve = transforms.transformed(mode.retrieve, query)
    # What a mode does besides its retrievers is to fuse them.
    with query.step("fuse"):
        fusion = retrieve(query, depth)
    rows = _rows(query, fusion, limit)
    if len(rows) < limit and len(rows) < len(fusion.ids) and query.visible is None:
        # Chunks of documents just deleted took places: search again among the documents that exist.
        query = query.existing()
        with query.step("fuse"):
            fusion = retrieve(query, depth)
        rows = _rows(query, fusion, limit)
    return query, rerank.rescored(query, rows)[:top_k]


@timed("texts")
def _rows(query: Query, fusion: Fused, top_k: int) -> list[Row]:
    value = np.round(fusion.scores, DIGITS)
    order = np.argsort(-value, kind="stable")
    # All that tie with the last place, and some more in place of deleted documents.
    last = min(len(order), top_k + top_k // 4 + 10)
    if 0 < last < len(order):
        last = int(np.searchsorted(-value[order], -value[order[last - 1]], side="right"))
    best = order[:last]
    score = dict(zip(fusion.ids[best].tolist(), value[best].tolist(), strict=True))
    rows = graph_of(query).chunks(list(score))
    for row in rows:
        row["score"] = score[row["chunk_id"]]
    rows.sort(key=lambda row: (-row["score"], row["source_key"].encode(), row["ordinal"]))
    del rows[top_k:]
    for row in rows:
        row["explain"] = fusion.explain(row["chunk_id"]) | place_of(row)
    return rows
