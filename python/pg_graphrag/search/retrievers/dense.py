"""Dense retrieval over windows, entity names and described mentions.

If all vectors are compared (`vectors`), this is done in the session's memory if it has them, else in the table, with
equal results. If there are too many, HNSW finds the nearest; if an index does not find enough, the table is compared
exactly.
"""

from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.numeric import Ids, Scores, Vectors, distinct, float64s, int64s, np, packed, within
from pg_graphrag.llm.embedding.vector_text import vector_text
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.visible_chunks import visible_chunks
from pg_graphrag.search.query import cached_vectors
from pg_graphrag.search.query.query import Query, once, timed
from pg_graphrag.search.query.rankings import NOISE, Ranking, leveled, ranking

# hnsw.ef_search: candidates that an index scan examines at a time. For the ten nearest of 60,000 chunks, naive finds
# .975 with 200 windows in view, .985 with 400 and with 600.
EF_SEARCH = 200
EF_SEARCH_WINDOWS = 400
# Their index has half the neighbours: with 300 in view it finds what one of 16 neighbours finds with 200.
EF_SEARCH_NAMES = 300
# So many chunks are ranked by their windows for each that is asked for, with an index and without: how many there are decides how
# the ranking is fused with others.
_CHUNKS_EACH = 2
# Where an index scan has not found enough, it looks further.
_SET_SCAN = """
SELECT pg_catalog.set_config('hnsw.ef_search', $1, true), pg_catalog.set_config('hnsw.iterative_scan', 'strict_order', true)
"""
# Maximum of vectors compared in one scan of a table.
_VECTORS_AT_ONCE = 16
# Windows that are read for each chunk at first.
_WINDOWS_EACH = 4
# If a larger share of the chunks is visible, all windows are compared.
_LARGE_PART = 0.3


@timed("vectors")
def windows(query: Query, limit: int) -> Ranking:
    """Rank chunks, at least `limit` if there are so many, by the cosine of the query to their best window."""
    space = query.corpus.space
    if space is None or limit <= 0:
        return Ranking.empty("windows")
    ranked = _ranked_windows(query)
    if limit <= ranked.depth:
        return ranked.ranking
    count = _CHUNKS_EACH * limit
    if (indexed := _best_windows_indexed(query, count)) is not None:
        chunks, scores, ids = indexed
    elif (cached := cached_vectors.cached(query, "window")) is not None:
        chunks, scores, ids = _best_windows_cached(query, cached, count)
    else:
        chunks, scores, ids = _best_windows_in_table(query, count)
        if cached_vectors.are_few(query, "window"):
            (scores,) = cached_vectors.read_cosines(query, "window", ids, [query.vector])
    # In one order, from wherever they are: equal scores keep it.
    order = np.argsort(chunks)
    chunks, scores, ids = chunks[order], scores[order], ids[order]
    window = dict(zip(chunks.tolist(), ids.tolist(), strict=True))
    ranked.ranking = ranking("windows", chunks, leveled(scores), lambda chunk: {"window_id": window[chunk]})
    ranked.depth = limit
    return ranked.ranking


@dataclass
class _RankedWindows:
    """The windows that were ranked so far, and how many at least."""

    depth: int
    ranking: Ranking


@once
def _ranked_windows(query: Query) -> _RankedWindows:
    return _RankedWindows(0, Ranking.empty("windows"))


@timed("vectors")
def entities(query: Query, nearby: list[Any], limit: int, in_view: int = EF_SEARCH_NAMES) -> list[dict[int, float]]:
    """Return for each vector the `limit` entities (and all that tie) with the nearest names, as {entity id: cosine > 0}.

    `in_view`: how many candidates an index scan examines at a time; fewer are faster, and miss more of the less near ones.
    """
    space = query.corpus.space
    if space is None or limit <= 0 or not nearby:
        return [{} for _ in nearby]
    if (cached := cached_vectors.cached(query, "entity")) is not None:
        are_visible = None if query.visible is None else graph_of(query).has
        return [_as_row(*cached.nearest(vector, limit, are_visible)) for vector in nearby]
    if query.visible is not None or cached_vectors.are_few(query, "entity"):
        return [_as_row(*nearest) for nearest in _nearest_in_table(query, nearby, limit)]
    nearest = [_nearest_by_sql(query, "entity", "entity_id", vector, limit, in_view) for vector in nearby]
    return [_as_row(ids[cosines > 0], cosines[cosines > 0]) for ids, cosines in nearest]


def _as_row(ids: Ids, cosines: Scores) -> dict[int, float]:
    return dict(zip(ids.tolist(), cosines.tolist(), strict=True))


def _nearest_in_table(query: Query, nearby: list[Any], limit: int) -> list[tuple[Ids, Scores]]:
    """Return for each vector what `Vectors.nearest` returns, exactly, from one scan of the table for some vectors."""
    has = graph_of(query).has
    visible_ids = None if query.visible is None else graph_of(query).entity_ids()
    condition, bounds = "", [np.inf] * len(nearby)
    if visible_ids is not None:
        condition = f"WHERE v.entity_id = ANY ({ids_literal(visible_ids)})"
    elif query.visible is not None:
        bounds = [_bound(query, vector, limit) for vector in nearby]
    ids_of: list[Any] = []
    for start in range(0, len(nearby), _VECTORS_AT_ONCE):
        part = nearby[start : start + _VECTORS_AT_ONCE]
        columns = {f"d{place}": distance(query, vector_text(vector)) for place, vector in enumerate(part)}
        aggregates = packed(ids="e.entity_id", **{name: f"e.{name}::float8" for name in columns})
        distances = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        most = " OR ".join(
            f"e.{name} <= {bound!r}" if np.isfinite(bound) else "true"
            for name, bound in zip(columns, bounds[start:], strict=False)
        )
        row = query.db.literal_query(
            f"SELECT {aggregates}"
            f" FROM (SELECT v.entity_id, {distances} FROM {cached_vectors.table(query, 'entity')} v {condition} OFFSET 0) e"
            f" WHERE {most}"
        )[0]
        ids = int64s(row["ids"])
        ids_of += [
            np.sort(ids[cached_vectors.nearest_allowed(ids, 1.0 - float64s(row[name]), limit, has)]) for name in columns
        ]
    all_ids = distinct(np.concatenate(ids_of))
    results = []
    for ids, cosines in zip(ids_of, cached_vectors.read_cosines(query, "entity", all_ids, nearby), strict=True):
        scores = cosines[np.searchsorted(all_ids, ids)]
        results.append((ids[scores > 0], scores[scores > 0]))
    return results


def _bound(query: Query, vector: Any, limit: int) -> float:
    """Return a distance within which the `limit` nearest visible entities are, and all that tie with the last.

    It is taken from visible entities which the index finds: it only saves work, and decides nothing.
    """
    if not _is_indexed(query, "entity"):
        return np.inf
    rows = query.db.literal_query(
        f"SELECT v.entity_id, {distance(query, vector_text(vector))} AS distance"
        f" FROM {cached_vectors.table(query, 'entity')} v ORDER BY distance LIMIT {EF_SEARCH_NAMES}"
    )
    ids = np.array([row["entity_id"] for row in rows], np.int64)
    cosines = 1.0 - np.array([row["distance"] for row in rows], float)
    best = cached_vectors.nearest_allowed(ids, cosines, limit, graph_of(query).has)
    return 1.0 - float(cosines[best].min()) + 2 * NOISE if limit <= len(best) else np.inf


@timed("vectors")
def entity_vectors(query: Query, ids: list[int]) -> dict[int, Any]:
    """Return {entity id: vector of its name, (dimensions,) float32} of those of `ids` that have one, ascending."""
    if not ids:
        return {}
    if (cached := cached_vectors.cached(query, "entity")) is not None:
        return {entity: vector for entity in sorted(ids) if (vector := cached.vector(entity)) is not None}
    vector_of: dict[int, Any] = {}
    for part, vectors in cached_vectors.read_vectors(query, "entity", ids):
        vector_of |= zip(part.tolist(), vectors.astype(np.float32), strict=True)
    return dict(sorted(vector_of.items()))


@timed("vectors")
def window_vectors(query: Query, chunk_ids: Ids) -> tuple[Ids, Vectors]:
    """Return (chunks, vectors) of the windows of some chunks, by chunk, then by window: (n,), (n, dimensions) float32.

    `chunk_ids` ascend.
    """
    cached = cached_vectors.cached(query, "window")
    if cached is not None and cached.matrix is not None:
        order, _ = cached.by_chunk
        places = order[within(cached.chunks[order], chunk_ids)]
        return cached.chunks[places], np.ascontiguousarray(cached.matrix[:, places].T)
    owners, ids = _windows_of(query, chunk_ids)
    vectors = np.zeros((len(ids), query.corpus.options.embedding.dimensions), np.float32)
    places = np.lexsort((ids, owners))
    by_id = np.argsort(ids)
    for part, values in cached_vectors.read_vectors(query, "window", ids.tolist()):
        vectors[by_id[np.searchsorted(ids, part, sorter=by_id)]] = values
    return owners[places], vectors[places]


@timed("vectors")
def nearest_mentions(query: Query, kind: str, text: str, limit: int) -> tuple[Ids, Scores]:
    """Return (ids ascending, cosines), (n,) each, of the `limit` described mentions nearest to a text (and all that tie)."""
    ids, cosines = _nearest_by_sql(query, kind, "mention_id", query.embed([text])[0], limit)
    order = np.argsort(ids)
    return ids[order], cosines[order]


def _nearest_by_sql(
    query: Query, kind: str, column: str, vector: Any, limit: int, in_view: int = EF_SEARCH
) -> tuple[Ids, Scores]:
    """Return (ids, cosines), (n,) each, of the `limit` rows nearest to a vector, and of all that tie with the last."""
    literal = vector_text(vector)
    rows = _indexed(query, kind, column, literal, limit, in_view) if limit <= in_view else []
    if len(rows) < limit:
        rows = query.db.literal_query(
            f"WITH b AS MATERIALIZED ({_select(query, kind, column, literal, _of_visible(query))})"
            f" SELECT b.* FROM b WHERE b.distance <= (SELECT pg_catalog.max(l.distance)"
            f" FROM (SELECT b.distance FROM b ORDER BY b.distance LIMIT {limit}) l) + {NOISE}"
        )
    ids = np.array([row[column] for row in rows], np.int64)
    return ids, 1.0 - np.array([row["distance"] for row in rows], float)


def _best_windows_indexed(query: Query, limit: int) -> tuple[Ids, Scores, Ids] | None:
    """Return (chunks, cosines of their best windows, these windows) of the `limit` nearest chunks and all that tie, by
    HNSW.

    None if all are compared, or an index does not find so many.
    """
    if limit > EF_SEARCH_WINDOWS or cached_vectors.are_all_compared(query, "window"):
        return None
    for most in (EF_SEARCH_WINDOWS, _WINDOWS_EACH * EF_SEARCH_WINDOWS):
        rows = _indexed(query, "window", "window_id, v.chunk_id", query.vector_text, most, EF_SEARCH_WINDOWS)
        best: dict[int, tuple[float, int]] = {}
        for row in rows:
            best.setdefault(row["chunk_id"], (1.0 - row["distance"], row["window_id"]))
        if len(best) >= limit:
            scores = np.array([score for score, _ in best.values()])
            places = cached_vectors.nearest(scores, limit)
            windows = np.array([window for _, window in best.values()])
            return np.fromiter(best, np.int64, len(best))[places], scores[places], windows[places]
        if len(rows) < most:
            break
    return None


def _best_windows_cached(query: Query, cached: cached_vectors.VectorRows, limit: int | None) -> tuple[Ids, Scores, Ids]:
    """Return (chunks ascending, the cosines of their best windows, these windows): `limit` nearest and ties, None: all."""
    chunks, scores, windows = _every_best_window(query, cached)
    if limit is None:
        return chunks, scores, windows
    places = cached_vectors.nearest(scores, limit)
    return chunks[places], scores[places], windows[places]


@once
def _every_best_window(query: Query, cached: cached_vectors.VectorRows) -> tuple[Ids, Scores, Ids]:
    order, starts = cached.by_chunk
    scores = cached.cosines(query.vector)[order]
    if not len(order):
        return cached.chunks, scores, cached.ids
    # If windows of a chunk are equal, the first counts.
    best = np.maximum.reduceat(scores, starts)
    counts = np.diff(starts, append=len(order))
    best_places = np.flatnonzero(scores == np.repeat(best, counts))
    places = order[best_places[np.searchsorted(best_places, starts)]]
    if query.visible is not None:
        # All windows of a chunk belong to one document.
        is_visible = within(cached.documents[places], query.visible)
        places, best = places[is_visible], best[is_visible]
    return cached.chunks[places], best, cached.ids[places]


def _select(query: Query, kind: str, columns: str, vector: str, condition: str) -> str:
    """Distances of rows. The literal, not a parameter, lets the planner see the index."""
    return f"SELECT v.{columns}, {distance(query, vector)} AS distance FROM {cached_vectors.table(query, kind)} v {condition}"


def _of_visible(query: Query) -> str:
    if query.visible is None:
        return ""
    # The planner knows how many rows an array picks, but not a sub-select.
    return f"WHERE v.chunk_id = ANY ({ids_literal(visible_chunks(query).ids)})"


def ids_literal(ids: Ids) -> str:
    """SQL of an array of ids."""
    return f"'{{{','.join(map(str, ids.tolist()))}}}'::int8[]"


def distance(query: Query, vector: str) -> str:
    """SQL of the distance of a row of a vector table, `v`, to a vector in pgvector's form."""
    kind = f"{query.db.vector_type}({query.corpus.options.embedding.dimensions})"
    return f"(v.embedding::{kind} {query.db.cosine_distance} '{vector}'::{kind})"


def _indexed(query: Query, kind: str, columns: str, vector: str, limit: int, in_view: int) -> list[dict[str, Any]]:
    """Return the nearest rows by HNSW, nearest first; none if all are compared, or an index is not there yet.

    The result of an index depends on all its rows, also on those that must not be searched. The scan leaves out documents
    that wait to be removed only as it will after their removal: so it goes as far, and finds the same.
    """
    visible, removed = query.visible, query.removed
    if visible is not None and removed is None:
        return []
    if cached_vectors.are_all_compared(query, kind) or not _is_indexed(query, kind):
        return []
    condition = ""
    if removed is not None:
        columns += ", v.document_id"
        condition = cached_vectors.OF_OTHERS.format(documents=ids_literal(removed))
    # The SQL function that searches has a value of its own, so nothing is left of this one when it returns.
    query.db.query(_SET_SCAN, ["text"], [str(in_view)])
    rows = query.db.literal_query(f"{_select(query, kind, columns, vector, condition)} ORDER BY distance LIMIT {limit}")
    if visible is None:
        return rows
    # What came since the documents were read is not for this caller.
    may_see = within(np.array([row["document_id"] for row in rows], np.int64), visible)
    return [row for row, is_visible in zip(rows, may_see.tolist(), strict=True) if is_visible]


def _best_windows_in_table(query: Query, limit: int) -> tuple[Ids, Scores, Ids]:
    """Return (chunks, cosines of their best windows, these windows) of the `limit` nearest chunks and all that tie,
    exactly.

    The nearest windows are read, as many as needed: grouping all by chunk takes longer than comparing them. If most of a
    corpus is visible, hidden windows are read too, and left out: looking up a chunk in a long list takes as long as
    comparing its windows.
    """
    visible_ids: Ids | None = None
    share, condition = 1.0, ""
    if query.visible is not None:
        visible_ids = visible_chunks(query).ids
        share = len(visible_ids) / max(query.bm25_index("chunk").statistics()[0], 1)
        if share < _LARGE_PART:
            share, condition = 1.0, _of_visible(query)
    most = int(_WINDOWS_EACH * limit / min(share, 1.0))
    while True:
        # OFFSET 0 hides the index.
        row = query.db.literal_query(
            f"SELECT {packed(chunks='n.chunk_id', windows='n.window_id', distances='n.distance::float8')}"
            f"  FROM (SELECT w.* FROM (SELECT v.window_id, v.chunk_id, {distance(query, query.vector_text)} AS distance"
            f"                           FROM {cached_vectors.table(query, 'window')} v {condition} OFFSET 0) w"
            f"         ORDER BY w.distance LIMIT {most}) n"
        )[0]
        chunks, windows, distances = int64s(row["chunks"]), int64s(row["windows"]), float64s(row["distances"])
        is_all, read_to = len(chunks) < most, distances.max(initial=0.0)
        if visible_ids is not None:
            is_visible = within(chunks, visible_ids)
            chunks, windows, distances = chunks[is_visible], windows[is_visible], distances[is_visible]
        order = np.lexsort((windows, distances, chunks))
        first = order[np.diff(chunks[order], prepend=-1) != 0]
        last = np.inf
        if limit < len(first):
            last = float(np.partition(distances[first], limit - 1)[limit - 1]) + NOISE
        if is_all or last < read_to:
            first = first[distances[first] <= last]
            return chunks[first], 1.0 - distances[first], windows[first]
        most *= 4


@once
def _is_indexed(query: Query, kind: str) -> bool:
    sql = "SELECT pg_catalog.to_regclass($1) IS NOT NULL AS is_indexed"
    index = f"graphrag.{kind}_vectors_{query.corpus.space}_hnsw_idx"
    return bool(query.db.value(sql, ["text"], [index]))


@timed("vectors")
def score_chunks(query: Query, chunk_ids: Ids) -> Scores:
    """Return the cosine of the query to the best window of each chunk, (n,) float64; 0.0 without one. Ids ascend."""
    scores = np.zeros(len(chunk_ids))
    if (cached := cached_vectors.cached(query, "window")) is not None:
        chunks, cosines, _ = _best_windows_cached(query, cached, None)
        has_window = within(chunk_ids, chunks)
        scores[has_window] = cosines[np.searchsorted(chunks, chunk_ids[has_window])]
        return leveled(scores)
    if cached_vectors.are_few(query, "window"):
        owners, windows = _windows_of(query, chunk_ids)
        (cosines,) = cached_vectors.read_cosines(query, "window", windows, [query.vector])
        scores[:] = -np.inf
        np.maximum.at(scores, np.searchsorted(chunk_ids, owners), cosines)
        return leveled(np.where(np.isfinite(scores), scores, 0.0))
    db = query.db
    kind = f"{db.vector_type}({query.corpus.options.embedding.dimensions})"
    row = db.literal_query(
        f"SELECT {packed(ids='s.chunk_id', cosines='s.cosine::float8')}"
        f"  FROM (SELECT v.chunk_id, 1 - pg_catalog.min(v.embedding::{kind} {db.cosine_distance}"
        f"               '{query.vector_text}'::{kind}) AS cosine FROM {cached_vectors.table(query, 'window')} v"
        f"         WHERE v.chunk_id = ANY ({ids_literal(chunk_ids)}) GROUP BY v.chunk_id) s"
    )[0]
    scores[np.searchsorted(chunk_ids, int64s(row["ids"]))] = float64s(row["cosines"])
    return leveled(scores)


def _windows_of(query: Query, chunk_ids: Ids) -> tuple[Ids, Ids]:
    """Return (chunks, windows), (n,) int64 each, of the windows of chunks."""
    row = query.db.query(
        f"SELECT {packed(chunks='v.chunk_id', windows='v.window_id')}"
        f"  FROM {cached_vectors.table(query, 'window')} v WHERE v.chunk_id = ANY ($1)",
        ["int8[]"],
        [chunk_ids.tolist()],
    )[0]
    return int64s(row["chunks"]), int64s(row["windows"])
