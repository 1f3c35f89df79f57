"""The strength of a relationship: its weight times its pointwise mutual information; and which relationships are too
weak.
"""

from pg_graphrag.ground.numeric import Flags, Ids, Scores, np, numbered
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.graph_tables import Among
from pg_graphrag.search.query.query import Query

# The weakest share of relationships, and standard deviations above the mean degree from which an entity is a hub, as in the
# clustered graph (sql/12_community/020_clustered_relationships.sql).
WEAK_SHARE = 0.4
HUB_DEVIATIONS = 3
# As in SQL (sql/07_graph/045_strength.sql), so that equal ones are equal in both.
DIGITS = 6
Numbers = Ids | Scores | int


def strengths(query: Query, edges: Among) -> Scores:
    """Return w · log2(n_xy · N / (n_x · n_y)) of relationships, (n,) float64.

    w is the weight, n in how many of the N chunks both ends are, and either. With counts as weights that is N times
    p(x,y) · log2(p(x,y) / (p(x) · p(y))), LazyGraphRAG's weight of a pair. A pair that occurs together more rarely than by
    chance has less than 0, however great its weight.
    """
    ends, place = numbered(np.append(edges.low, edges.high))
    by_id = graph_of(query).mention_counts(ends.tolist())
    counts = np.array([by_id[end] for end in ends.tolist()], float)[place]
    low, high = counts[: len(edges.ids)], counts[len(edges.ids) :]
    return strengths_of(edges.weights, edges.counts, low, high, graph_of(query).chunk_count())


def strengths_of(weights: Scores | float, both: Numbers, source: Numbers, target: Numbers, chunks: int) -> Scores:
    """Return `strengths` of weights and numbers of chunks: with both ends, with either, and all. As graphrag._strength."""
    ends = np.maximum(source, 1.0) * np.maximum(target, 1.0)
    strength: Scores = np.round(weights * np.log2(np.maximum(both, 1) * max(chunks, 1) / ends), DIGITS)
    return strength


def are_strong(low: Ids, high: Ids, strength: Scores) -> Flags:
    """Return which relationships the statistics of their own graph leave, (n,) bool.

    Those of hubs (degree above mean + 3 sigma) and the weakest 40 % of the others go; equal ones stay or go together.
    """
    if not len(low):
        return np.empty(0, np.bool_)
    _, place = numbered(np.append(low, high))
    degrees = np.bincount(place)
    is_hub = degrees > degrees.mean() + HUB_DEVIATIONS * degrees.std()
    is_apart = ~(is_hub[place[: len(low)]] | is_hub[place[len(low) :]])
    if not is_apart.any():
        return np.ones(len(low), np.bool_)
    weakest = np.quantile(strength[is_apart], WEAK_SHARE, method="lower")
    strong: Flags = is_apart & (strength >= weakest)
    return strong
