"""Texts of a row together with the rows that it refers to, as far as the query's caller sees these.

The text of a row has the names of other rows, but not their texts, because a caller who sees the one may not see the
other. So a search for words of both reads them together, as if the row were written out for its caller.
"""

from functools import cache
from typing import Any

from pg_graphrag.ground.numeric import Ids, are_new, np
from pg_graphrag.index.bm25.scoring import K1, B, Saturation, idf
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.row_references import References, row_references
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.query.rankings import Ranking


@timed("rows")
def with_other_rows(query: Query, ranking: Ranking) -> Ranking:
    """Return a BM25 ranking in which rows score by their own words and by those that only rows have to which they lead.

    A word of another row is as rare as the rows that lead there make it: what all rows of a hub say tells nothing.
    """
    if not len(ranking.ids):
        return ranking
    by_id = ranking.ids.argsort()
    ids = ranking.ids[by_id]
    references = row_references(query).of(ids)
    chunks, rows = references.chunks, references.places
    if not len(chunks):
        return ranking
    terms = sorted(query.terms)
    index = query.bm25_index("chunk")
    counts, lengths = index.term_counts(terms, np.concatenate([chunks, references.targets[rows]]))
    size = len(chunks)
    own_counts, other_counts = counts[:, :size], counts[:, size:]
    numbers, pairs = np.nonzero((own_counts == 0) & (other_counts > 0))
    if not len(pairs):
        return ranking
    count, average = index.statistics()
    of_terms = index.document_frequencies(terms)
    frequencies = np.array([of_terms[term] for term in terms], np.int64)
    df = np.minimum(frequencies[numbers] + _fan_in(query, references, rows[pairs]), count)
    rarity_of = {one: max(idf(query.options.bm25_idf, count, one), 0.0) for one in set(df.tolist())}
    rarities = np.array([rarity_of[one] for one in df.tolist()])
    weights = np.array([query.terms[term] for term in terms], np.float64)
    norms = Saturation(K1, B, average).norms((lengths[:size] + lengths[size:]).astype(np.int32))
    tf = other_counts[numbers, pairs]
    gains = np.zeros((len(terms), size))
    gains[numbers, pairs] = weights[numbers] * rarities * (K1 + 1) * tf / (tf + norms[pairs])
    # Of several rows that say a word the best counts.
    first = are_new(chunks).nonzero()[0]
    scores = ranking.scores.copy()
    scores[by_id[ids.searchsorted(chunks[first])]] += np.maximum.reduceat(gains, first, axis=1).sum(axis=0)
    # Chunks that tie stay in the order in which they were found.
    order = np.argsort(-scores, kind="stable")

    @cache
    def saying() -> dict[int, list[str]]:
        source_keys: dict[int, list[str]] = {}
        pairs = np.flatnonzero(gains.any(axis=0))
        for chunk, row in zip(chunks[pairs].tolist(), rows[pairs].tolist(), strict=True):
            source_keys.setdefault(chunk, []).append(references.source_keys[row])
        return source_keys

    def reason(chunk: int) -> dict[str, Any]:
        source_keys = saying().get(chunk)
        return ranking.reason(chunk) | ({} if source_keys is None else {"with_rows": sorted(source_keys)})

    return Ranking(ranking.retriever, ranking.ids[order], scores[order], reason, ranking.zeros, ranking.coverage)


def _fan_in(query: Query, references: References, rows: Ids) -> Ids:
    """Return how many chunks mention each of the rows, (n,) places in `references`, as the caller sees them."""
    keys = [references.keys[row] for row in rows.tolist()]
    counts = {row["key"]: row["mention_count"] for row in graph_of(query).named(list(dict.fromkeys(keys)))}
    return np.array([counts.get(name, 1) for name in keys], np.int64)
