"""The relationships that matter to a query, for `path`: by vector (MiniRAG), or by BM25 (Takami et al.).

Sources: MiniRAG (arXiv 2501.06713), section 3.2; Takami et al., methods 1 (``bm25_edges``) and 2 (``bm25_chunks``). A
relationship scores as its best mention, not as the merged text (docs/decisions/indexing.md).
"""

from dataclasses import dataclass

from pg_graphrag.ground.numeric import Flags, Ids, distinct, np, numbered, within
from pg_graphrag.index.bm25.scoring import K1, B, idf
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.row_names import row_names
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import leveled_sums
from pg_graphrag.search.retrievers import graph_evidence

# Relationships of a hub that are walked: those with most weight.
MAX_FANOUT = 300
# How described relationships are scored under each weighting.
SCORED_BY = {"vector": "vector", "bm25_edges": "bm25", "bm25_chunks": "bm25"}


@dataclass(frozen=True)
class Edges:
    """Relationships in ascending order of `ids`: undirected pairs (`low`, `high`), shown from `source`; (m,) int64 each."""

    ids: Ids
    low: Ids
    high: Ids
    source: Ids

    def touching(self, entities: Ids) -> Flags:
        """Return which relationships have an end among `entities`, (m,) bool."""
        ids = distinct(entities)
        return within(self.low, ids) | within(self.high, ids)


def edges_around(query: Query, entities: Ids, hops: int) -> Edges:
    """Read the visible relationships within `hops` of entities, MAX_FANOUT of each entity: with rows in place of their names."""
    names = row_names(query)
    frontier, known_entities = entities, np.sort(entities)
    columns = [np.empty(0, np.int64)] * 4
    for _ in range(hops):
        if not len(frontier):
            break
        ids, *ends = graph_of(query).strongest(names.members_of(frontier), MAX_FANOUT)
        new = [ids, *(names.own_of(end) for end in ends)]
        columns = [np.concatenate(pair) for pair in zip(columns, new, strict=True)]
        met, _ = numbered(np.append(new[1], new[2]))
        frontier = met[~within(met, known_entities)]
        known_entities = np.sort(np.append(known_entities, frontier))
    order = np.argsort(columns[0], kind="stable")
    first = order[np.diff(columns[0][order], prepend=-1) != 0]
    # Between a row and a name of its own nothing is walked.
    first = first[columns[1][first] != columns[2][first]]
    return Edges(*(column[first] for column in columns))


def important(query: Query, edges: Edges, is_near: Flags, holders: tuple[Ids, Ids], limit: int) -> dict[int, float]:
    """Return {relationship: score} of the important ones, best first: the `limit` best of those near the candidates.

    `is_near` ((m,) bool): which of `edges` touch a candidate or a possible answer.
    `holders` ((chunks, entities), (p,) int64 each): which chunks mention which entities.
    """
    if query.options.path_weighting == "bm25_chunks":
        return _by_chunks(query, edges, is_near, holders, limit)
    scored_by = SCORED_BY[query.options.path_weighting]
    near_ids = set(edges.ids[is_near].tolist())
    # As in the paper: the best of all relationships, of which only near ones count.
    rows = graph_evidence.relationships_near(query, [query.text], limit, scored_by=scored_by)
    return {row["id"]: row["score"] for row in rows if row["id"] in near_ids}


def _by_chunks(query: Query, edges: Edges, is_near: Flags, holders: tuple[Ids, Ids], limit: int) -> dict[int, float]:
    """Score relationships by BM25 of the distinct chunks that mention both ends; near relationships are the collection."""
    place = np.flatnonzero(is_near)
    chunks, entities = holders
    terms = sorted(query.terms)
    if not len(place) or not len(chunks) or not terms:
        return {}
    chunk_ids, inverse = np.unique(chunks, return_inverse=True)
    counts, lengths = query.bm25_index("chunk").term_counts(terms, chunk_ids)
    edge, chunk = _shared_chunks(edges.low[place], edges.high[place], entities, inverse, len(chunk_ids))
    size = len(place)
    length = np.bincount(edge, lengths[chunk], size)
    documents = int((length > 0).sum())
    if not documents:
        return {}
    norm = K1 * (1 - B + B * length / (length.sum() / documents))
    scores = np.zeros(size)
    for term, row in zip(terms, counts, strict=True):
        tf = np.bincount(edge, row[chunk], size)
        df = int((tf > 0).sum())
        if df:
            factor = query.terms[term] * idf(query.options.bm25_idf, documents, df) * (K1 + 1)
            scores += factor * tf / np.where(tf > 0, tf + norm, 1.0)
    scores = leveled_sums(scores)
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > 0]
    if limit < len(order):
        order = order[scores[order] >= scores[order[limit - 1]]]
    return dict(zip(edges.ids[place[order]].tolist(), scores[order].tolist(), strict=True))


def _shared_chunks(low: Ids, high: Ids, entities: Ids, chunks: Ids, count: int) -> tuple[Ids, Ids]:
    """Return (place of the pair, chunk) of all chunks that mention both ends of a pair; chunks are 0 … `count` - 1."""
    ids, owner = np.unique(entities, return_inverse=True)
    order = np.lexsort((chunks, owner))
    owner, chunks = owner[order], chunks[order]
    starts = np.searchsorted(owner, np.arange(len(ids) + 1))
    carried = distinct(owner * count + chunks)
    has_chunks = within(low, ids) & within(high, ids)
    pair = np.flatnonzero(has_chunks)
    low_place, high_place = np.searchsorted(ids, low[pair]), np.searchsorted(ids, high[pair])
    sizes = np.diff(starts)
    smaller = np.where(sizes[low_place] <= sizes[high_place], low_place, high_place)
    larger = low_place + high_place - smaller
    repeats = sizes[smaller]
    offsets = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    mine = chunks[np.repeat(starts[smaller], repeats) + offsets]
    shared_keys = np.repeat(larger, repeats) * count + mine
    is_shared = carried[np.minimum(np.searchsorted(carried, shared_keys), len(carried) - 1)] == shared_keys
    return np.repeat(pair, repeats)[is_shared], mine[is_shared]
