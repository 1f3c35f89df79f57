"""The topology of the graph that some documents state, for a filter or row-level security."""

from dataclasses import replace
from typing import Any

from pg_graphrag.ground.numeric import Flags, IdIndex, Ids, Lists, distinct, int64s, np, packed, places_of
from pg_graphrag.search.graph_view.topology import CURATED, PACKED_RELATIONSHIPS, Topology, built
from pg_graphrag.search.graph_view.visible_chunks import NO_EVIDENCE, RANK
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Database, Row

# SQL conditions. All mentions of the entity, visible or not, give one name, one type and no description.
UNIFORM_ENTITY = (
    "(SELECT pg_catalog.count(*) = 2 AND NOT pg_catalog.bool_or(v.kind = 'd')"
    " FROM graphrag.entity_values v WHERE v.entity_id = {id})"
)
# People said something about the entity, or about a relationship of it.
CURATED_ENTITY = (
    "(EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = {entity}.corpus_id AND c.entity_key = {entity}.key)"
    " OR EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = {entity}.corpus_id AND c.other_entity_key = {entity}.key))"
)

# $1: documents, or their mentions. Degrees and order follow from these rows. merged_counts: -1 if the merged texts are
# not of the mentions alone. uniform_ranks: rank of the merged sentence if every mention has the same name and type;
# else -1.
_VISIBLE_ENTITIES = f"""
SELECT pg_catalog.array_agg(e.key) AS keys, {packed(ids="e.id", merged_counts="e.merged_count", uniform_ranks="e.uniform_rank")}
  FROM (SELECT x.id, x.key,
               CASE WHEN p.is_curated OR x.summary_of IS NOT NULL THEN -1 ELSE x.mention_count END AS merged_count,
               CASE WHEN p.is_curated OR x.evidence_rank IS NULL THEN -1
                    WHEN {UNIFORM_ENTITY.format(id="x.id")} THEN x.evidence_rank
                    ELSE -1 END AS uniform_rank
          FROM graphrag.entities x
         CROSS JOIN LATERAL (SELECT {{people}} AS is_curated) p
         WHERE x.id = ANY ($1)
         ORDER BY x.key) e
"""
_VISIBLE_RELATIONSHIPS = f"""
SELECT {PACKED_RELATIONSHIPS}, {packed(as_merged="r.as_merged::int")}
  FROM (SELECT x.id, x.low_id, x.high_id, m.mention_count, m.weight,
               CASE WHEN m.forward THEN x.low_id ELSE x.high_id END AS source_id,
               m.mention_count = x.mention_count AND x.summary_of IS NULL AND m.fragments = 0 AND NOT m.is_edited AS as_merged
          FROM graphrag._counted_relationships(NULL, NULL, $1) m
          JOIN graphrag.relationships x ON x.id = m.relationship_id) r
"""
_VISIBLE_CHUNKS = f"""
SELECT {packed(ids="c.id", owners="c.document_id")}
  FROM graphrag.chunks c
 WHERE c.document_id = ANY ($1)
"""
_VISIBLY_MENTIONED = f"""
SELECT {packed(ids="m.id", items="m.entity_id", chunks="m.chunk_id", frequencies="m.tf", ranks=RANK)}
  FROM graphrag.chunks c
  JOIN graphrag.entity_mentions m ON m.chunk_id = c.id
 WHERE c.document_id = ANY ($1) AND m.entity_id IS NOT NULL
"""
_VISIBLY_STATED = f"""
SELECT {packed(ids="m.id", items="m.relationship_id", chunks="m.chunk_id", ranks=RANK)}
  FROM graphrag.chunks c
  JOIN graphrag.relationship_mentions m ON m.chunk_id = c.id
 WHERE c.document_id = ANY ($1) AND m.relationship_id IS NOT NULL
"""


def read_entities(db: Database, ids: Ids, *, is_curated: bool) -> Row:
    """Return what the merge knows of entities, in the order of keys: `keys`, and packed `ids`, `merged_counts`, `uniform_ranks`.

    `is_curated`: whether people said anything of the corpus.
    """
    people = CURATED_ENTITY.format(entity="x") if is_curated else "false"
    return db.query(_VISIBLE_ENTITIES.replace("{people}", people), ["int8[]"], [ids.tolist()])[0]


def are_as_merged(entity: Row, counts: Ids, best_ranks: Ids) -> Flags:
    """Return for which entities of `read_entities` the merged texts are exactly what these documents state, (n,) bool.

    `counts`, `best_ranks`: of the mentions in these documents.
    """
    flags: Flags = (int64s(entity["merged_counts"]) == counts) | (int64s(entity["uniform_ranks"]) == best_ranks)
    return flags


def read_visible(query: Query) -> Topology:
    """Read the topology of the graph that the query's visible documents state."""
    db, documents = query.db, query.visible_ids
    (curated,) = db.query(CURATED, ["int4"], [query.corpus.id])
    relationship, chunk, mentioned, stated = (
        db.query(sql, ["int8[]"], [documents])[0]
        for sql in (_VISIBLE_RELATIONSHIPS, _VISIBLE_CHUNKS, _VISIBLY_MENTIONED, _VISIBLY_STATED)
    )
    items = [int64s(mentioned["items"]), int64s(relationship["low"]), int64s(relationship["high"])]
    ids = distinct(np.concatenate(items))
    entity = read_entities(db, ids, is_curated=curated["is_curated"])
    here = int64s(entity["ids"])
    degrees = np.bincount(places_of(np.append(items[1], items[2]), here), minlength=len(here))
    # Aliases may mention an entity several times in a chunk, which counts as one.
    pairs = np.unique(np.column_stack([items[0], int64s(mentioned["chunks"])]), axis=0)
    counts = np.bincount(places_of(pairs[:, 0], here), minlength=len(here))
    entity |= {"degrees": degrees.astype(">i8").tobytes(), "counts": counts.astype(">i8").tobytes()}
    graph = built(query, entity, relationship, chunk, mentioned, stated, curated)
    evidence = {"entity": _evidence(graph.entities, mentioned), "relationship": _evidence(graph.relationships, stated)}
    return replace(graph, evidence=evidence, as_merged=_as_merged(graph, entity, mentioned, relationship))


def _evidence(items: IdIndex, row: Row) -> Lists:
    ids = int64s(row["ids"])
    best_first = np.lexsort((ids, int64s(row["ranks"])))
    return Lists(items.places(int64s(row["items"])[best_first]), len(items.ids), ids[best_first])


def _as_merged(graph: Topology, entity: Row, mentioned: Row, relationship: Row) -> dict[str, Any]:
    best = np.full(len(graph.keys), NO_EVIDENCE)
    np.minimum.at(best, graph.entities.places(int64s(mentioned["items"])), int64s(mentioned["ranks"]))
    relationships = np.zeros(len(graph.relationships.ids), np.bool_)
    relationships[graph.relationships.places(int64s(relationship["ids"]))] = int64s(relationship["as_merged"]) == 1
    return {"entity": are_as_merged(entity, graph.mention_counts, best), "relationship": relationships}
