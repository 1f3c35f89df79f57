"""What some documents say of entities and relationships: names, types, keywords and descriptions.

Most items need no merge of their own. If the merged texts are exactly what these documents state, they are read.
Otherwise, if one visible mention states the item, or all mentions say the same, the mention with the best sentence
gives the text. For all other items the visible mentions are merged (sql/08_curation/015_merged.sql).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from sys import getsizeof, intern
from typing import Any, NamedTuple

from pg_graphrag.ground.numeric import Flags, Ids, Lists, Places, distinct, int64s, np, within
from pg_graphrag.index.graph.merged import MAX_TOKENS, as_description
from pg_graphrag.search.graph_view.topology import Topology
from pg_graphrag.search.graph_view.visible_topology import CURATED_ENTITY, UNIFORM_ENTITY
from pg_graphrag.server import Database, Row

# About what the texts of an item take beside its description, in a dictionary.
_TEXTS_BYTES = 350


class Text(NamedTuple):
    """The texts of an item: for an entity its `name` and `type`, for a relationship its `keywords`."""

    description: str
    name: str = ""
    type: str = ""
    keywords: tuple[str, ...] = ()

    def entity(self, number: int, key: str, degree: int, mention_count: int) -> Row:
        """Return the row of the entity with this text."""
        names = {"id": number, "key": key, "name": self.name, "type": self.type, "description": self.description}
        return names | {"degree": degree, "mention_count": mention_count}


_PACKED = "coalesce(pg_catalog.string_agg(pg_catalog.int8send(u.id), ''::bytea), '') AS ids FROM pg_catalog.unnest($1) AS u (id)"
# Items whose mentions all say the same, visible or not: any of them gives the text of the visible ones.
_UNIFORM = {
    "entity": f"SELECT {_PACKED} WHERE {UNIFORM_ENTITY.format(id='u.id')}",
    "relationship": f"""
SELECT {_PACKED}
 WHERE NOT EXISTS (SELECT FROM graphrag.relationship_values v WHERE v.relationship_id = u.id)
""",
}
# Items that people said something about.
_CURATED = {
    "entity": f"""
SELECT {_PACKED}
  JOIN graphrag.entities e ON e.id = u.id
 WHERE {CURATED_ENTITY.format(entity="e")}
""",
    "relationship": f"""
SELECT {_PACKED}
  JOIN graphrag.relationships r ON r.id = u.id
  JOIN graphrag.entities l ON l.id = r.low_id
  JOIN graphrag.entities h ON h.id = r.high_id
 WHERE EXISTS (SELECT FROM graphrag.curated c
                WHERE c.corpus_id = r.corpus_id AND c.entity_key = least(l.key, h.key)
                  AND c.other_entity_key = greatest(l.key, h.key))
""",
}
_MERGED_ROWS = {
    "entity": "SELECT e.id, e.name, e.type, e.description FROM graphrag.entities e WHERE e.id = ANY ($1)",
    "relationship": "SELECT r.id, r.keywords, r.description FROM graphrag.relationships r WHERE r.id = ANY ($1)",
}
# $1: of each item the mention with the best sentence.
_STATED = {
    "entity": """
SELECT m.entity_id AS id, m.name, m.type, nullif(m.description, '') AS description,
       pg_catalog.substr(k.content, m.start_offset - k.start_offset + 1, m.end_offset - m.start_offset) AS sentence
  FROM graphrag.entity_mentions m
  LEFT JOIN graphrag.chunks k ON k.id = m.chunk_id AND m.evidence_rank IS NOT NULL
 WHERE m.id = ANY ($1)
""",
    "relationship": """
SELECT m.relationship_id AS id, nullif(m.description, '') AS description,
       ARRAY(SELECT DISTINCT w COLLATE "C" FROM pg_catalog.unnest(m.keywords) AS w ORDER BY 1)
           AS keywords,
       pg_catalog.substr(k.content, m.start_offset - k.start_offset + 1, m.end_offset - m.start_offset) AS sentence
  FROM graphrag.relationship_mentions m
  LEFT JOIN graphrag.chunks k ON k.id = m.chunk_id AND m.evidence_rank IS NOT NULL
 WHERE m.id = ANY ($1)
""",
}
_MERGE_ENTITIES = """
SELECT e.entity_id AS id, e.name, e.type, e.description, e.sentence FROM graphrag._merged_entities($1, $2, $3, $4) e
"""
_MERGE_RELATIONSHIPS = """
SELECT r.relationship_id AS id, r.keywords, r.description, r.sentence FROM graphrag._merged_relationships($1, $2, $3) r
"""


@dataclass(frozen=True)
class Stated:
    """Items, `ids` (n,), as some documents state them.

    `as_merged` (n,) bool: items whose merged texts are exactly that; `mentions`: for the others, by place, best sentence
    first.
    """

    ids: Ids
    as_merged: Flags
    mentions: Lists


# Relationships, (m,), of entities, (n,), that some documents state.
Incident = Callable[[Ids], Ids]


def read_texts(db: Database, kind: str, stated: Stated, incident: Incident | None) -> dict[int, Text]:
    """Return the texts of items; `incident`: None if people said nothing."""
    texts = {}
    for row in _read(db, kind, stated, incident):
        description = row["description"]
        if description is None:
            description = as_description(row["sentence"])
        text_type = intern(row.get("type", ""))
        texts[row["id"]] = Text(description, row.get("name", ""), text_type, tuple(row.get("keywords", ())))
    return texts


class VisibleTexts:
    """The topology of some documents, and the texts of its items that were asked for: by kind, by id."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self._topology_bytes = topology.nbytes
        self._ids = {"entity": topology.entities, "relationship": topology.relationships}
        self.forget()

    def forget(self) -> None:
        """Forget the texts."""
        self._texts: dict[str, dict[int, Text]] = {"entity": {}, "relationship": {}}
        self.nbytes = self._topology_bytes

    def of(self, db: Database, kind: str, ids: Iterable[int]) -> dict[int, Text]:
        """Return the texts of existing items, also of those asked for before."""
        texts = self._texts[kind]
        if missing := [item for item in ids if item not in texts]:
            places = self._ids[kind].places(list(dict.fromkeys(missing)))
            new = read_texts(db, kind, self._stated(kind, places), self._incident if self.topology.is_curated else None)
            texts |= new
            self.nbytes += sum(_TEXTS_BYTES + getsizeof(text.description) for text in new.values())
        return texts

    def _stated(self, kind: str, places: Places) -> Stated:
        evidence = self.topology.evidence[kind]
        owners = np.repeat(np.arange(len(places)), evidence.counts(places))
        mentions = Lists(owners, len(places), evidence.at(places)[1])
        return Stated(self._ids[kind].ids[places], self.topology.as_merged[kind][places], mentions)

    def _incident(self, entities: Ids) -> Ids:
        topology = self.topology
        places = distinct(topology.incident.at(topology.entities.places(entities))[1])
        ids: Ids = topology.relationships.ids[places]
        return ids


def _read(db: Database, kind: str, stated: Stated, incident: Incident | None) -> list[Row]:
    """Return rows (id, name and type or keywords, description, sentence) of items; description null: the sentence."""
    ids, is_as_merged = stated.ids, stated.as_merged
    counts = np.diff(stated.mentions.starts)
    to_merge = ~is_as_merged & (counts != 1)
    if to_merge.any():
        to_merge &= (counts == 0) | ~within(ids, _ids(db, _UNIFORM[kind], ids[to_merge]))
    if incident is not None and not is_as_merged.all():
        to_merge |= ~is_as_merged & within(ids, _ids(db, _CURATED[kind], ids))
    is_stated = ~is_as_merged & ~to_merge
    best = stated.mentions.columns[0][stated.mentions.starts[:-1][is_stated]]
    rows = db.query(_MERGED_ROWS[kind], ["int8[]"], [ids[is_as_merged].tolist()]) if is_as_merged.any() else []
    rows += db.query(_STATED[kind], ["int8[]"], [best.tolist()]) if is_stated.any() else []
    return rows + (_merge(db, kind, stated, to_merge, incident) if to_merge.any() else [])


def _merge(db: Database, kind: str, stated: Stated, to_merge: Flags, incident: Incident | None) -> list[Row]:
    ids, (_, mentions) = stated.ids[to_merge], stated.mentions.at(np.flatnonzero(to_merge))
    if kind == "relationship":
        parameters = [ids.tolist(), mentions.tolist(), MAX_TOKENS]
        return db.query(_MERGE_RELATIONSHIPS, ["int8[]", "int8[]", "int8"], parameters)
    # Relationships name their ends where people said something of them.
    edges: list[int] = [] if incident is None else incident(ids).tolist()
    parameters = [ids.tolist(), mentions.tolist(), edges, MAX_TOKENS]
    return db.query(_MERGE_ENTITIES, ["int8[]", "int8[]", "int8[]", "int8"], parameters)


def _ids(db: Database, sql: str, ids: Any) -> Any:
    """Return the ids that a statement picks of `ids`, ascending int64."""
    return np.sort(int64s(db.value(sql, ["int8[]"], [ids.tolist()])))
