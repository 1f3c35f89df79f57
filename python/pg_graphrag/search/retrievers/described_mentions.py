"""Scores mentions that a model described, by BM25 and by vectors.

A mention's text never changes, it leads straight to its chunk, and it is visible if its document is
(docs/decisions/indexing.md).
"""

from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.numeric import float64s, int64s, np, packed, union, within
from pg_graphrag.llm.embedding.vector_text import vector_text
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query import cached_vectors
from pg_graphrag.search.query.query import Query, once, timed
from pg_graphrag.search.query.rankings import Ranking, leveled, ranking
from pg_graphrag.search.retrievers import dense

# Where not all mentions of a corpus are scored: so many of the best by each, cosine and BM25.
CANDIDATES = 200


@dataclass(frozen=True)
class Mentions:
    """Mentions of entities or relationships (`what`), ascending by id: `items` and `chunks` (n,) int64, `scores` in 0 … 1."""

    what: str
    items: Any
    chunks: Any
    scores: Any

    def best_items(self, limit: int) -> dict[int, float]:
        """Return {entity or relationship id: score of its best mention} of the `limit` best and all that tie, best first."""
        first = self._first(self.items, limit)
        return dict(zip(self.items[first].tolist(), self.scores[first].tolist(), strict=True))

    def relevance(self, items: Any, chunks: Any) -> Any:
        """Return for each of `chunks`, (n,), the score of its best mention of one of `items`; 0 without one. Both ascend."""
        scores = np.zeros(len(chunks))
        here = np.flatnonzero(within(self.items, items))
        here = here[within(self.chunks[here], chunks)]
        np.maximum.at(scores, np.searchsorted(chunks, self.chunks[here]), self.scores[here])
        return scores

    def rank(self, retriever: str, limit: int) -> Ranking:
        """Rank the `limit` best chunks, and all that tie, by their best mention."""
        first = self._first(self.chunks, limit)
        chunks, scores = self.chunks[first], self.scores[first]
        items = dict(zip(chunks.tolist(), self.items[first].tolist(), strict=True))

        def why(chunk: int) -> dict[str, Any]:
            return {f"{self.what}_id": items[chunk]}

        return ranking(retriever, chunks, scores, why)

    def _first(self, owners: Any, limit: int) -> Any:
        """Return the places of the best mention of each of the `limit` best of `owners` and all that tie, best first."""
        most = 4 * limit
        while True:
            last = np.partition(self.scores, -most)[-most] if most < len(self.scores) else 0.0
            places = np.flatnonzero((self.scores >= last) & (self.scores > 0))
            places = places[np.argsort(-self.scores[places], kind="stable")]
            first: dict[int, int] = {}
            for owner, place in zip(owners[places].tolist(), places.tolist(), strict=True):
                first.setdefault(owner, place)
            if limit <= len(first) or most >= len(self.scores):
                break
            most *= 4
        places = np.fromiter(first.values(), np.intp, len(first))
        if 0 < limit < len(places):
            places = places[self.scores[places] >= self.scores[places[limit - 1]]]
        return places


def scored(query: Query, what: str, keywords: list[str], *, by: str = "both") -> Mentions:
    """Score the mentions of a corpus' entities or relationships (`what`) by keywords.

    Score: the cosine of the keywords, joined as LightRAG (arXiv 2410.05779) joins them, and BM25 as a share of the best, in
    equal parts; with `profile` paper, or `by` vector, the cosine alone; `by` bm25 BM25 alone.
    """
    return _scored(query, f"{what}_mention", ", ".join(keywords), by)


@once
@timed("mentions")
def _scored(query: Query, kind: str, text: str, by: str) -> Mentions:
    is_dense = query.dense_works and bool(text) and by != "bm25"
    is_lexical = not is_dense or (by == "both" and query.options.profile != "paper")
    terms = query.lexemes(text) if is_lexical else {}
    index, idf = query.bm25_index(kind), query.options.bm25_idf
    shares = None
    if cached_vectors.are_all_compared(query, kind):
        ids, items, chunks, cosines = _all(query, kind, text if is_dense else None)
        # More match than have a vector: what people deleted stays in the index.
        matches, lexical = index.matching(terms, documents=query.visible, idf=idf)
        if len(matches):
            shares = np.zeros(len(ids))
            here = within(matches, ids)
            shares[np.searchsorted(ids, matches[here])] = lexical[here]
    else:
        matches, lexical = index.search(terms, CANDIDATES, documents=query.visible, idf=idf)
        near = (
            dense.nearest_mentions(query, kind, text, CANDIDATES) if is_dense else (np.empty(0, np.int64), np.empty(0))
        )
        ids, items, chunks = graph_of(query).mentioned(kind.removesuffix("_mention"), union(matches, near[0]))
        cosines = _cosines(query, kind, text, ids, near) if is_dense else None
        if len(matches):
            shares = np.nan_to_num(index.score_items(terms, ids, idf=idf))
    scores = np.zeros(len(ids))
    if cosines is not None:
        scores += leveled(cosines)
    if shares is not None:
        # With Robertson's idf all may be negative: then none matches.
        scores += shares / (lexical.max(initial=0.0) or 1.0)
    scores /= int(is_dense) + int(is_lexical)
    return Mentions(kind.removesuffix("_mention"), items, chunks, scores)


def _all(query: Query, kind: str, text: str | None) -> tuple[Any, Any, Any, Any]:
    """Return (ids ascending, items, chunks, cosines to `text` or None) of all visible mentions."""
    rows = cached_vectors.all_rows(query, kind)
    if rows is None:
        return _all_in_table(query, kind, text)
    cosines = rows.cosines(query.embed([text])[0]) if text is not None else None
    if query.visible is None:
        return rows.ids, rows.items, rows.chunks, cosines
    is_visible = within(rows.documents, query.visible)
    if cosines is not None:
        cosines = cosines[is_visible]
    return rows.ids[is_visible], rows.items[is_visible], rows.chunks[is_visible], cosines


def _all_in_table(query: Query, kind: str, text: str | None) -> tuple[Any, Any, Any, Any]:
    """Return the same as `_all` for a large table of which little is visible."""
    item = kind.removesuffix("_mention")
    row = query.db.query(
        f"SELECT {packed(ids='v.mention_id', items=f'm.{item}_id', chunks='v.chunk_id')}"
        f"  FROM {cached_vectors.table(query, kind)} v"
        f"  JOIN graphrag.{kind}s m ON m.id = v.mention_id AND m.{item}_id IS NOT NULL"
        f" {cached_vectors.OF_DOCUMENTS.format(documents='$1')}",
        ["int8[]"],
        [query.visible_ids],
    )[0]
    ids, items, chunks = (int64s(row[name]) for name in ("ids", "items", "chunks"))
    order = np.argsort(ids)
    ids = ids[order]
    cosines = None if text is None else cached_vectors.read_cosines(query, kind, ids, [query.embed([text])[0]])[0]
    return ids, items[order], chunks[order], cosines


def _cosines(query: Query, kind: str, text: str, ids: Any, near: tuple[Any, Any]) -> Any:
    """Return the cosines to `text` of mentions, ids ascending, (n,) float64, 0 without a vector; `near`: (ids, cosines) known."""
    cosines = np.zeros(len(ids))
    known = within(ids, near[0])
    cosines[known] = near[1][np.searchsorted(near[0], ids[known])]
    distance = dense.distance(query, vector_text(query.embed([text])[0]))
    row = query.db.literal_query(
        f"SELECT {packed(ids='v.mention_id', distances=f'({distance})::float8')}"
        f"  FROM {cached_vectors.table(query, kind)} v"
        f" WHERE v.mention_id = ANY ('{{{','.join(map(str, ids[~known].tolist()))}}}'::int8[])"
    )[0]
    cosines[np.searchsorted(ids, int64s(row["ids"]))] = 1.0 - float64s(row["distances"])
    return cosines
