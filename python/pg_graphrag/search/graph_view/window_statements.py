"""Which relationships windows state, as NLP found them: from memory where a session asks often, else from the tables."""

from dataclasses import dataclass

from pg_graphrag.ground.numeric import (
    Arrays,
    IdIndex,
    Ids,
    Lists,
    Scores,
    distinct,
    float64s,
    int64s,
    np,
    numbered,
    packed,
    part,
    prefixed,
    within,
)
from pg_graphrag.search.graph_view.cached_graph import ROWS_PER_QUERY, graph_of
from pg_graphrag.search.graph_view.topology_graph import TopologyGraph
from pg_graphrag.search.query.query import Query, once
from pg_graphrag.search.query.session_values import cache_shared, cached_value
from pg_graphrag.server.caches.session_cache import cache, read_at_revision

# About what a statement takes.
_BYTES = 24
_OF_WINDOWS = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(s.id), ''::bytea) AS ids,
       pg_catalog.string_agg(pg_catalog.float8send(s.score), ''::bytea) AS scores
  FROM (SELECT m.relationship_id AS id, pg_catalog.max(u.score) AS score
          FROM unnest($1, $2) AS u (window_id, score)
          JOIN graphrag.chunk_windows w ON w.id = u.window_id
          JOIN graphrag.relationship_mentions m ON m.chunk_id = w.chunk_id AND w.ordinal = ANY (m.windows)
         WHERE m.relationship_id IS NOT NULL
         GROUP BY m.relationship_id) s
"""
_ALL = f"""
SELECT {packed(windows="w.id", relationships="m.relationship_id")}
  FROM graphrag.relationships r
  JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id
 CROSS JOIN LATERAL pg_catalog.unnest(m.windows) AS u (ordinal)
  JOIN graphrag.chunk_windows w ON w.chunk_id = m.chunk_id AND w.ordinal = u.ordinal
 WHERE r.corpus_id = $1
"""


def stated_by_windows(query: Query, windows: list[int], scores: Scores) -> tuple[Ids, Scores]:
    """Return (ids, scores), (n,) each, of the relationships that windows state; each scores as the best of these."""
    statements = cached_statements(query)
    if statements is not None:
        return statements.best(windows, scores)
    row = query.db.query(_OF_WINDOWS, ["int8[]", "float8[]"], [windows, scores.tolist()])[0]
    return int64s(row["ids"]), float64s(row["scores"])


@dataclass(frozen=True)
class WindowStatements:
    """The windows of a corpus that state relationships, ascending, and by window the ids of these."""

    revision: str | None
    windows: IdIndex
    relationships: Lists

    @classmethod
    def of(cls, revision: str | None, windows: Ids, relationships: Ids) -> "WindowStatements":
        """Make them of pairs, (n,) each."""
        index = IdIndex(distinct(windows))
        return cls(revision, index, Lists(index.places(windows), len(index.ids), relationships))

    @classmethod
    def of_arrays(cls, revision: str, arrays: Arrays) -> "WindowStatements":
        """Make those of a revision of their `arrays`."""
        windows, relationships = (part(arrays, name) for name in ("windows", "relationships"))
        return cls(revision, IdIndex.of_arrays(windows), Lists.of_arrays(relationships))

    def arrays(self) -> Arrays:
        """Return what they are made of, by name."""
        return prefixed("windows", self.windows.arrays()) | prefixed("relationships", self.relationships.arrays())

    def best(self, windows: list[int], scores: Scores) -> tuple[Ids, Scores]:
        """Return what `stated_by_windows` does."""
        ids = np.asarray(windows, np.int64)
        places = self.windows.places(ids)
        _, stated = self.relationships.at(places)
        stating = np.repeat(scores[within(ids, self.windows.ids)], self.relationships.counts(places))
        relationships, place = numbered(stated)
        best = np.full(len(relationships), -np.inf)
        np.maximum.at(best, place, stating)
        return relationships, best

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return self.windows.nbytes + self.relationships.nbytes


@once
def cached_statements(query: Query) -> WindowStatements | None:
    """Return the statements of the whole corpus; None where they are not cached, and reading them would not pay yet."""
    corpus, key = query.corpus, ("statements of windows", query.corpus.id)
    if query.visible is not None:
        return None
    statements = cached_value(query, key, "statements", WindowStatements.of_arrays)
    graph = graph_of(query)
    if statements is not None or not isinstance(graph, TopologyGraph):
        return statements
    count = len(graph.topology.stated_in.columns[0])
    has_room = _BYTES * count <= min(cache.room(corpus, key), cache.spare(corpus, key))
    if not has_room or cache.earlier_queries(corpus) * ROWS_PER_QUERY < count:
        return None
    rows = read_at_revision(query.db, corpus, _ALL)
    if rows is None:
        return None
    pairs = int64s(rows[0]["windows"]), int64s(rows[0]["relationships"])
    return cache_shared(
        query, key, "statements", WindowStatements.of(corpus.revision, *pairs), WindowStatements.of_arrays
    )
