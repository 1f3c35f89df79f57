"""The graph of chunks and the concepts that NLP finds in them, of a corpus whose graph a model made.

A second walk over it makes up for what the model left out, as the first does for what NLP does not see (docs/decisions.md).
It knows concepts by number alone; numbers hold for one graph. Of a part of the documents it is what these chunks have.
"""

import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from pg_graphrag.numeric import Flags, Ids, int64s, np
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.graph_tables import Edges
from pg_graphrag.retrieval.ids import within
from pg_graphrag.retrieval.query import Query, once, timed
from pg_graphrag.retrieval.session_cache import cache, read_at_revision
from pg_graphrag.server import Row
from pg_graphrag.text.concepts import digest
from pg_graphrag.text.names import title_keys

# Of more chunks it is not read: a session that caches nothing would read some 10 MB for a question.
MAX_CHUNKS = 50_000
_SIZE = 8
# About what an edge costs: concept, chunk and number of mentions.
_EDGE_BYTES = 24


@dataclass(frozen=True)
class ConceptGraph:
    """Edges of concepts, 0 … n - 1, and chunks (ids): `concepts`, `chunks`, `tf`, (m,) each, ordered by chunk.

    `digests` (n,) ascending; `df` (n,): how many chunks have a concept; `analyzed`
    ascending: chunks whose concepts were looked for.
    """

    digests: Ids
    df: Ids
    concepts: Ids
    chunks: Ids
    tf: Ids
    analyzed: Ids

    @classmethod
    def of(cls, row: Row) -> "ConceptGraph":
        """Make the graph of `_CONCEPTS`."""
        chunks, sizes = int64s(row["ids"]), int64s(row["sizes"])
        digests, mentioned = np.unique(int64s(row["concepts"]), return_inverse=True)
        order = np.argsort(chunks, kind="stable")
        place = np.empty(len(chunks), np.int64)
        place[order] = np.arange(len(chunks))
        edges, tf = np.unique(np.repeat(place, sizes // _SIZE) * max(len(digests), 1) + mentioned, return_counts=True)
        concepts = edges % max(len(digests), 1)
        analyzed = chunks[order]
        df = np.bincount(concepts, minlength=len(digests))
        return cls(digests, df, concepts, analyzed[edges // max(len(digests), 1)], tf, analyzed)

    def named(self, keys: Iterable[str]) -> dict[int, int]:
        """Return {concept: how many chunks have it} of keys."""
        return {concept: int(self.df[concept]) for concept in self._of_keys(list(keys)).values()}

    def called(self, titles: Iterable[str]) -> dict[str, list[int]]:
        """Return {title: the concepts that it names}."""
        keys = {title: title_keys(title) for title in titles}
        concepts = self._of_keys(sorted(set().union(*keys.values())))
        return {title: [concepts[key] for key in names if key in concepts] for title, names in keys.items()}

    def edges_of_chunks(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return (concepts, chunks, tf, chunks that have the concept) of chunks, without concepts of more than `hub` chunks."""
        return self._edges(within(self.chunks, np.sort(np.asarray(ids, np.int64))), hub)

    def edges_of_entities(self, ids: Ids | list[int], hub: float) -> Edges:
        """Return the same of concepts."""
        is_asked = np.zeros(len(self.digests), np.bool_)
        is_asked[np.asarray(ids, np.int64)] = True
        return self._edges(is_asked[self.concepts], hub)

    def _edges(self, is_meant: Flags, hub: float) -> Edges:
        edges = np.flatnonzero(is_meant)
        edges = edges[self.df[self.concepts[edges]] <= hub]
        concepts = self.concepts[edges]
        return concepts, self.chunks[edges], self.tf[edges], self.df[concepts]

    def _of_keys(self, keys: list[str]) -> dict[str, int]:
        """Return {key: its concept} of those that are there."""
        digests = int64s(b"".join(map(digest, keys)))
        places = np.searchsorted(self.digests, digests)
        return {
            key: place
            for key, place, is_there in zip(keys, places.tolist(), within(digests, self.digests).tolist(), strict=True)
            if is_there
        }


_CONCEPTS = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(c.id), ''::bytea) AS ids,
       pg_catalog.string_agg(pg_catalog.int8send(pg_catalog.length(c.concepts)), ''::bytea) AS sizes,
       pg_catalog.string_agg(c.concepts, ''::bytea) AS concepts
  FROM graphrag.chunks c
 WHERE c.corpus_id = $1 AND c.concepts IS NOT NULL
"""


@once
@timed("concepts")
def concept_graph(query: Query) -> ConceptGraph | None:
    """Return the graph of what the query may see; None where a model made no graph, or nobody looked for concepts."""
    if not query.is_described:
        return None
    if graph_of(query).chunk_count() > MAX_CHUNKS:
        query.notes["concepts"] = f"left out: more than {MAX_CHUNKS} chunks"
        return None
    graph = _read(query)
    return graph if len(graph.analyzed) else None


def _read(query: Query) -> ConceptGraph:
    """Return the graph of the documents that the query may see; kept in the session for equal ones."""
    corpus = query.corpus
    key: tuple[Hashable, ...] = "concepts", corpus.id
    sql, documents = _CONCEPTS, None
    if query.visible is not None:
        key = *key, hashlib.sha256(query.visible.tobytes()).hexdigest()
        sql, documents = f"{_CONCEPTS} AND c.document_id = ANY ($2)", query.visible_ids
    cached: ConceptGraph | None = cache.get(corpus, key)
    if cached is not None:
        return cached
    # Of another revision than the query's, what is read is right for this query alone.
    rows = read_at_revision(query.db, corpus, sql, documents) if corpus.revision is not None else None
    if rows is None:
        types, values = (["int4"], [corpus.id]) if documents is None else (["int4", "int8[]"], [corpus.id, documents])
        return ConceptGraph.of(query.db.query(sql, types, values)[0])
    graph = ConceptGraph.of(rows[0])
    size = _EDGE_BYTES * len(graph.tf) + _SIZE * (2 * len(graph.digests) + len(graph.analyzed))
    if size <= cache.room(corpus, key):
        cache.put(corpus, key, graph, size)
    return graph
