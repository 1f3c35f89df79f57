"""The best rows of a query in a mode, of existing documents, re-ranked on request."""

from collections.abc import Callable
from functools import cache, partial
from typing import Protocol

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Ids, np, union, within
from pg_graphrag.search.contexts import twins
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.query.rankings import Fused
from pg_graphrag.search.query.request import SearchOptions
from pg_graphrag.search.retrievers.empty import language_of_silence, note_instead
from pg_graphrag.server import Row
from pg_graphrag.text.outline import pages_text

MAX_TOP_K = 10_000
# How deep each retriever looks first, so that fusion sees chunks that are low in one list and high in another.
DEPTH = 100
# How many times deeper it looks next, where more rows are asked for.
STEP = 4
# Scores that differ by less are equal: sums of the same numbers in another order.
DIGITS = 9


def check_top_k(top_k: int | None) -> int:
    """Return top_k; 22023 outside 0 … 10,000."""
    if top_k is None or not 0 <= top_k <= MAX_TOP_K:
        raise GraphRAGError(
            f"top_k cannot be {'null' if top_k is None else top_k}", hint=f"Give 0 to {MAX_TOP_K:,} rows."
        )
    return top_k


class Stage(Protocol):
    """What brings the rows of a search into another order, where the request asks for that: a module of this folder."""

    def depth(self, query: Query, top_k: int) -> int:
        """Return how many rows to retrieve for `top_k`; an error where it cannot be done."""

    def ordered(self, query: Query, rows: list[Row]) -> list[Row]:
        """Return the rows in their new order, with scores and explanations."""


def _stages(options: SearchOptions) -> list[Stage]:
    """Return the stages that a search has, in their order; a session loads those alone that it is asked for."""
    stages: list[Stage] = []
    if options.rerank or options.fuse == "rerank":
        from pg_graphrag.search.contexts import rerank

        stages.append(rerank)
    if options.select:
        from pg_graphrag.search.contexts import selection

        stages.append(selection)
    if options.near_duplicates == "behind":
        stages.append(twins)
    return stages


def best_rows(query: Query, mode: Mode, top_k: int) -> tuple[Query, list[Row]]:
    """Return (the query that found them, at most `top_k` rows, each with its chunk, document, score and explanation)."""
    if not query.text or top_k == 0:
        return query, []
    stages = _stages(query.options)
    limit = max([top_k, *(stage.depth(query, top_k) for stage in stages)])
    retrieve = _retriever(query, mode)
    rows, count = _retrieved(query, retrieve, limit)
    if len(rows) < min(limit, count) and query.visible is None:
        # Chunks of documents that were deleted past the triggers took places: search again among those that exist.
        query = query.existing()
        retrieve = _retriever(query, mode)
        rows, _ = _retrieved(query, retrieve, limit)
    if not rows and mode.reads_keywords and (language := language_of_silence(query)) is not None:
        from pg_graphrag.search.retrievers.hybrid_retrieval import hybrid  # most modes do without its retrievers

        retrieve = cache(partial(hybrid, query))
        rows, _ = _retrieved(query, retrieve, limit)
        if rows:
            note_instead(query, mode, language)
    # Rows that a model reads are no more than it was to read.
    while stages == [twins] and (deeper := twins.deeper(query, rows, limit)) > limit:
        limit = deeper
        rows, _ = _retrieved(query, retrieve, limit)
    for stage in stages:
        rows = stage.ordered(query, rows)
    return query, rows[:top_k]


def _retriever(query: Query, mode: Mode) -> Callable[[int], Fused]:
    """Return what retrieves and fuses at a depth, each once."""
    if query.options.transform == "none":
        return cache(partial(mode.retrieve, query))
    from pg_graphrag.search.contexts.transforms import transformed  # few searches have one

    return cache(partial(transformed(mode.retrieve, query), query))


def _retrieved(query: Query, retrieve: Callable[[int], Fused], limit: int) -> tuple[list[Row], int]:
    """Return (at most `limit` rows, how many chunks were found).

    How deep retrievers look decides how their rankings are fused. So it does not depend on `limit`: deeper searches, where the
    first has too few chunks, add theirs behind. An answer of more rows begins with the answer of fewer.
    """
    rows: list[Row] = []
    earlier = np.empty(0, np.int64)
    depth = DEPTH
    while True:
        # What a mode does besides its retrievers is to fuse them.
        with query.step("fuse"):
            fusion = retrieve(depth)
        rows += _rows(query, fusion, earlier, limit - len(rows), rows[-1]["score"] if rows else np.inf)
        earlier = union(earlier, fusion.ids)
        # Where there are fewer than it looked for, there are no more.
        if len(rows) >= limit or len(fusion.ids) < depth:
            return rows, len(earlier)
        depth *= STEP


@timed("texts")
def _rows(query: Query, fusion: Fused, earlier: Ids, top_k: int, most: float) -> list[Row]:
    """Return the best rows besides the `earlier` chunks (ascending), with scores of at most `most`."""
    value = np.round(fusion.scores, DIGITS)
    order = np.argsort(-value, kind="stable")
    order = order[~within(fusion.ids[order], earlier)]
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
    embedding = query.corpus.options.embedding
    for row in rows:
        row["explain"] = fusion.explain(row["chunk_id"])
        if row["section"]:
            row["explain"]["section"] = row["section"]
        if row["page"] is not None:
            row["explain"]["pages"] = pages_text(row["page"], row["content"])
        if not embedding.embeds(row["content"]):
            row["explain"]["embedding"] = f"by words alone: {embedding.model} was not made for the text's language"
        row["score"] = min(row["score"], most)
    return rows
