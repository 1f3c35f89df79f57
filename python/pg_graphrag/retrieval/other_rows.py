"""What a row says together with the rows to which it leads, as the query's caller sees these.

A row has the names of other rows, and not their texts: who may see the one may not see the other. So a search for words of both
reads them together, as if the row were written out for its caller.
"""

from dataclasses import replace
from typing import Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import ties
from pg_graphrag.retrieval.bm25.formula import Saturation, idf
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.ids import numbered
from pg_graphrag.retrieval.query import Query, timed
from pg_graphrag.retrieval.rankings import Ranking
from pg_graphrag.retrieval.row_tables import has_rows
from pg_graphrag.server import Row
from pg_graphrag.text.concepts import key

K1, B = 1.5, 0.75
# First chunks of the rows to which rows among the chunks $1 lead. OFFSET 0: each is looked up by its key, and not by attached_id,
# of which statistics from before the rows came say that nothing has one.
_TARGETS = """
WITH led AS MATERIALIZED (
    SELECT c.id AS chunk_id, d.metadata ->> r.field AS source_key,
           CASE WHEN r.by_name THEN pg_catalog.substr(d.metadata ->> r.field, pg_catalog.length(r.prefix) + 1)
                ELSE d.metadata ->> r.field END AS name
      FROM graphrag.chunks c
     CROSS JOIN LATERAL (
            SELECT d.metadata, d.attached_id FROM graphrag.documents d WHERE d.id = c.document_id OFFSET 0) d
      JOIN graphrag._attached_tables a ON a.id = d.attached_id AND a.kind <> 'documents'
     CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(a.reference_types), pg_catalog.unnest(a.reference_prefixes),
                                   pg_catalog.unnest(a.reference_by_name)) AS r (field, prefix, by_name)
     WHERE c.id = ANY ($1)
), targets AS MATERIALIZED (
    SELECT k.source_key, t.id
      FROM (SELECT DISTINCT l.source_key FROM led l WHERE l.source_key IS NOT NULL) k
     CROSS JOIN LATERAL (
            SELECT o.id, o.attached_id, o.indexed_hash FROM graphrag.documents o
             WHERE o.corpus = $2 AND o.source_key = k.source_key
            OFFSET 0) o
     CROSS JOIN LATERAL (SELECT t.id FROM graphrag.chunks t WHERE t.document_id = o.id AND t.ordinal = 0 OFFSET 0) t
     WHERE o.attached_id IS NOT NULL AND o.indexed_hash IS NOT NULL AND ($3 IS NULL OR o.id = ANY ($3))
)
SELECT l.chunk_id, t.id AS target_id, l.source_key, l.name FROM led l JOIN targets t ON t.source_key = l.source_key
"""


@timed("rows")
def with_other_rows(query: Query, ranking: Ranking) -> Ranking:
    """Return a BM25 ranking in which rows score by their own words and by those that only rows have to which they lead.

    A word of another row is as rare as the rows that lead there make it: what all rows of a hub say tells nothing.
    """
    if not len(ranking.ids) or not has_rows(query):
        return ranking
    rows = query.db.query(
        _TARGETS, ["int8[]", "text", "int8[]"], [ranking.ids.tolist(), query.corpus.name, query.visible_ids]
    )
    if not rows:
        return ranking
    terms = sorted(query.terms)
    index = query.bm25_index("chunk")
    chunks = np.array([row["chunk_id"] for row in rows], np.int64)
    targets = np.array([row["target_id"] for row in rows], np.int64)
    items, place = numbered(np.append(chunks, targets))
    counts, lengths = index.term_counts(terms, items)
    own, other = place[: len(rows)], place[len(rows) :]
    is_new = (counts[:, own] == 0) & (counts[:, other] > 0)
    if not is_new.any():
        return ranking
    fan_in = _fan_in(query, rows)
    count, average = index.statistics()
    frequencies = index.document_frequencies(terms)
    norms = Saturation(K1, B, average).norms((lengths[own] + lengths[other]).astype(np.int32))
    gains = np.zeros((len(terms), len(rows)))
    for number, term in enumerate(terms):
        for pair in np.flatnonzero(is_new[number]).tolist():
            tf = counts[number, other[pair]]
            df = min(frequencies[term] + fan_in[pair], count)
            weight = query.terms[term] * max(idf(query.options.bm25_idf, count, df), 0.0) * (K1 + 1)
            gains[number, pair] = weight * tf / (tf + norms[pair])
    # Of several rows that say a word the best counts.
    added: dict[int, float] = {}
    sources: dict[int, list[str]] = {}
    for chunk in np.unique(chunks).tolist():
        pairs = np.flatnonzero(chunks == chunk)
        added[chunk] = float(gains[:, pairs].max(axis=1).sum())
        sources[chunk] = sorted(rows[pair]["source_key"] for pair in pairs.tolist() if gains[:, pair].any())
    scores = ranking.scores + np.array([added.get(chunk, 0.0) for chunk in ranking.ids.tolist()])
    order = ties.best(query, ranking.ids, scores, len(scores))

    def reason(chunk: int) -> dict[str, Any]:
        return ranking.reason(chunk) | ({"with_rows": sources[chunk]} if sources.get(chunk) else {})

    return replace(ranking, ids=ranking.ids[order], scores=scores[order], reason=reason)


def _fan_in(query: Query, rows: list[Row]) -> list[int]:
    """Return of the row to which each of `rows` leads how many chunks mention it, as the caller sees them."""
    names = {row["name"]: key(row["name"]) for row in rows}
    counts = {row["key"]: row["mention_count"] for row in graph_of(query).named(list(names.values()))}
    return [counts.get(names[row["name"]], 1) for row in rows]
