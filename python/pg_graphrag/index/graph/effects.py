"""What the curations in force mean for keys: read by the merge, which is the one place where they meet the mentions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pg_graphrag.server import Database, slices


@dataclass(frozen=True, slots=True)
class Effects:
    """Where keys lead, and what was deleted. `deleted_pairs`: of entity keys, in order."""

    aliases: dict[str, str] = field(default_factory=dict)
    deleted_keys: frozenset[str] = frozenset()
    deleted_pairs: frozenset[tuple[str, str]] = frozenset()

    def entity(self, key: str) -> str | None:
        """Return the key of the entity that `key` leads to; None where it was deleted."""
        entity_key = self.aliases.get(key, key)
        return None if entity_key in self.deleted_keys else entity_key

    def pair(self, source: str, target: str) -> tuple[str, str] | None:
        """Return the entity keys of a relationship, in order; None where there is to be none."""
        ends = self.entity(source), self.entity(target)
        if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
            return None
        pair = (ends[0], ends[1]) if ends[0] < ends[1] else (ends[1], ends[0])
        return None if pair in self.deleted_pairs else pair


NONE = Effects()


def effects(db: Database, corpus_id: int, keys: Collection[str]) -> Effects:
    """Return what the curations in force mean for `keys` and for relationships among them."""
    if not keys or not is_curated(db, corpus_id):
        return NONE
    aliases: dict[str, str] = {}
    deleted_keys: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for part in slices(sorted(keys)):
        for row in db.query(
            "SELECT a.key, a.entity_key FROM graphrag.aliases a"
            ' WHERE a.corpus_id = $1 AND a.key = ANY ($2 COLLATE "C")',
            ["int4", "text[]"],
            [corpus_id, part],
        ):
            aliases[row["key"]] = row["entity_key"]
    for part in slices(sorted({aliases.get(key, key) for key in keys})):
        for row in db.query(
            "SELECT c.entity_key, c.other_entity_key FROM graphrag.curated c"
            " WHERE c.corpus_id = $1 AND c.entity_key = ANY ($2 COLLATE \"C\") AND c.effect = 'delete' AND c.own",
            ["int4", "text[]"],
            [corpus_id, part],
        ):
            if row["other_entity_key"] is None:
                deleted_keys.add(row["entity_key"])
            else:
                pairs.add((row["entity_key"], row["other_entity_key"]))
    return Effects(aliases, frozenset(deleted_keys), frozenset(pairs))


def is_curated(db: Database, corpus_id: int) -> bool:
    """Whether any curation of the corpus is in force."""
    rows = db.query(
        "SELECT EXISTS (SELECT FROM graphrag.curations c WHERE c.corpus_id = $1 AND c.undone_at IS NULL) AS yes",
        ["int4"],
        [corpus_id],
    )
    return bool(rows[0]["yes"])


_EDIT_ENTITIES = """
WITH edits AS MATERIALIZED (
    SELECT e.id, graphrag._edits(e.corpus_id, e.key) AS value
      FROM graphrag.entities e
     WHERE e.id = ANY ($1)
       AND EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = e.corpus_id AND c.entity_key = e.key AND c.effect = 'edit')
)
UPDATE graphrag.entities e
   SET name        = coalesce(o.value ->> 'name', e.name),
       type        = coalesce(o.value ->> 'type', e.type),
       description = coalesce(o.value ->> 'description', e.description)
  FROM edits o
 WHERE e.id = o.id AND o.value IS NOT NULL
"""
_EDIT_RELATIONSHIPS = """
WITH edits AS MATERIALIZED (
    SELECT r.id, graphrag._edits(r.corpus_id, l.key, h.key) AS value
      FROM graphrag.relationships r
      JOIN graphrag.entities l ON l.id = r.low_id
      JOIN graphrag.entities h ON h.id = r.high_id
     WHERE r.id = ANY ($1)
       AND EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = r.corpus_id AND c.entity_key = least(l.key, h.key)
                      AND c.other_entity_key = greatest(l.key, h.key) AND c.effect = 'edit')
)
UPDATE graphrag.relationships r
   SET keywords    = CASE WHEN o.value ->> 'keywords' IS NULL THEN r.keywords
                          ELSE ARRAY(SELECT pg_catalog.jsonb_array_elements_text(o.value -> 'keywords')) END,
       description = coalesce(o.value ->> 'description', r.description),
       weight      = coalesce(pg_catalog.trim_scale((o.value ->> 'weight')::numeric), r.weight)
  FROM edits o
 WHERE r.id = o.id AND o.value IS NOT NULL
"""


def apply_edits(db: Database, corpus_id: int, entity_ids: Sequence[int], relationship_ids: Sequence[int]) -> None:
    """Let what people wrote win over what was merged, for these entities and relationships."""
    if not is_curated(db, corpus_id):
        return
    for sql, ids in ((_EDIT_ENTITIES, entity_ids), (_EDIT_RELATIONSHIPS, relationship_ids)):
        for part in slices(ids):
            db.query(sql, ["int8[]"], [part])
