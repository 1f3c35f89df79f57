"""Merging: a merged value is a function of mentions and curations, and is kept up to date by counting
(docs/decisions/indexing.md).

The cost grows with the change, not with the corpus.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from pg_graphrag.index.graph.change import (
    Change,
    Pairs,
    add_to_bm25,
    entity_mentions,
    insert_entity_mentions,
    insert_relationship_mentions,
    relationship_mentions,
)
from pg_graphrag.index.graph.merged import (
    count_values,
    describe,
    insert_entities,
    insert_relationships,
    renew_evidence,
    update_entities,
    update_relationships,
)
from pg_graphrag.server import Database, reserve, slices
from pg_graphrag.server.queue import queue


@dataclass(frozen=True, slots=True)
class Effects:
    """The entities that keys lead to, and what was deleted. `deleted_pairs`: pairs of entity keys, in order."""

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
    for row in db.query_rows(
        'SELECT a.key, a.entity_key FROM graphrag.aliases a WHERE a.corpus_id = $1 AND a.key = ANY ($2 COLLATE "C")',
        ["int4", "text[]"],
        sorted(keys),
        corpus_id,
    ):
        aliases[row["key"]] = row["entity_key"]
    for row in db.query_rows(
        "SELECT c.entity_key, c.other_entity_key FROM graphrag.curated c"
        " WHERE c.corpus_id = $1 AND c.entity_key = ANY ($2 COLLATE \"C\") AND c.effect = 'delete' AND c.own",
        ["int4", "text[]"],
        sorted({aliases.get(key, key) for key in keys}),
        corpus_id,
    ):
        if row["other_entity_key"] is None:
            deleted_keys.add(row["entity_key"])
        else:
            pairs.add((row["entity_key"], row["other_entity_key"]))
    return Effects(aliases, frozenset(deleted_keys), frozenset(pairs))


def is_curated(db: Database, corpus_id: int) -> bool:
    """Whether any curation of the corpus is in force."""
    is_curated: bool = db.value(
        "SELECT EXISTS (SELECT FROM graphrag.curations c WHERE c.corpus_id = $1 AND c.undone_at IS NULL)",
        ["int4"],
        [corpus_id],
    )
    return is_curated


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
    """Apply people's edits to the merged values of these entities and relationships."""
    if not is_curated(db, corpus_id):
        return
    for sql, ids in ((_EDIT_ENTITIES, entity_ids), (_EDIT_RELATIONSHIPS, relationship_ids)):
        db.query_rows(sql, ["int8[]"], ids)


def merge(
    db: Database, change: Change, document_ids: list[int], chunk_ids: list[int], summarize: bool
) -> tuple[dict[str, int], list[int]]:
    """Apply a change to entities, relationships and the graph projection; the corpus must be locked.

    `document_ids`, `chunk_ids`: items to project again, documents with all their chunks. `summarize`: whether a model
    should summarise long lists of descriptions. Returns the entities created, as {key: id}, and the removed ones, which
    still have vectors of their names.
    """
    curations = effects(db, change.corpus_id, {key for _, _, draft in change.chunks for key in draft.entities})
    ids, new_keys = _resolve_entities(db, change, curations)
    pairs, relationship_ids, new_pairs = _resolve_relationships(db, change, ids, curations)
    new_entity_mentions = list(entity_mentions(change, ids))
    new_relationship_mentions = list(relationship_mentions(change, ids, pairs, relationship_ids))
    new_values = count_values(db, "entity", change.values, change.tokens, new_keys)
    new_relationship_values = count_values(db, "relationship", change.relationship_values, change.tokens, new_pairs)
    degrees: Counter[int] = Counter(entity for pair in new_pairs.values() for entity in pair)
    # New rows are written once, with all their values.
    is_summary_due = insert_entities(
        db, change.corpus_id, new_keys, change.entities, degrees, summarize=summarize
    ) | insert_relationships(db, change.corpus_id, new_pairs, change.relationships, summarize=summarize)
    insert_entity_mentions(db, change.corpus_id, new_entity_mentions)
    insert_relationship_mentions(db, change.corpus_id, new_relationship_mentions)
    add_to_bm25(db, change)
    old_relationships = {item: delta for item, delta in change.relationships.items() if item not in new_pairs}
    old_entities = {item: delta for item, delta in change.entities.items() if item not in new_keys}
    old_degrees = Counter({entity: count for entity, count in degrees.items() if entity not in new_keys})
    update_relationships(db, old_relationships, {item for item, kind in new_relationship_values if kind == "k"})
    removed_pairs = [
        (row["low_id"], row["high_id"])
        for row in db.query(
            "DELETE FROM graphrag.relationships r WHERE r.id = ANY ($1) AND r.mention_count = 0 AND NOT r.curated"
            " RETURNING r.low_id, r.high_id",
            ["int8[]"],
            [list(old_relationships)],
        )
    ]
    old_degrees.subtract(entity for pair in removed_pairs for entity in pair)
    update_entities(db, old_entities, old_degrees, change.values)
    outcomes = [
        describe(
            db,
            item_kind,
            {item for item, kind, _ in values if kind == "d" and item in old_items},
            {item for item, kind in changed_values if kind == "d"},
            summarize,
        )
        for item_kind, values, old_items, changed_values in (
            ("entity", change.values, old_entities, new_values),
            ("relationship", change.relationship_values, old_relationships, new_relationship_values),
        )
    ]
    for item_kind, (_, undescribed_ids) in zip(("entity", "relationship"), outcomes, strict=True):
        renew_evidence(db, item_kind, undescribed_ids)
    if is_summary_due or any(is_due for is_due, _ in outcomes):
        queue(db, "summarize", change.corpus_id)
    count_named_rows(db, change, new_pairs.values(), removed_pairs, renew_row_names(db, change.entities))
    deleted_rows = db.query(
        "DELETE FROM graphrag.entities e WHERE e.id = ANY ($1) AND e.mention_count = 0 AND NOT e.curated RETURNING e.id",
        ["int8[]"],
        [list(old_entities)],
    )
    touched_ids = sorted({*change.entities, *degrees, *old_degrees})
    apply_edits(db, change.corpus_id, touched_ids, sorted(change.relationships))
    with db.step("cypher"):
        _project(db, change, document_ids, chunk_ids, touched_ids)
    return {key: entity for entity, key in new_keys.items()}, [row["id"] for row in deleted_rows]


def _project(
    db: Database, change: Change, document_ids: list[int], chunk_ids: list[int], entity_ids: list[int]
) -> None:
    # Entities before what refers to them; in one step where there are few.
    *entities, last_entities = list(slices(entity_ids)) or [[]]
    first_relationships, *relationships = list(slices(sorted(change.relationships))) or [[]]
    parts = [
        *((part, []) for part in entities),
        (last_entities, first_relationships),
        *(([], part) for part in relationships),
    ]
    for place, part in enumerate(parts, 1):
        db.query(
            "SELECT graphrag._project($1, $2, $3, $4, $5)",
            ["int4", "int8[]", "int8[]", "int8[]", "int8[]"],
            [change.corpus_id, *((document_ids, *part, chunk_ids) if place == len(parts) else ([], *part, []))],
        )


def _resolve_entities(db: Database, change: Change, curations: Effects) -> tuple[dict[str, int | None], dict[int, str]]:
    """Return ({key that the new chunks mention: id of its entity, None if it was deleted}, {id: key} of entities to
    insert).
    """
    resolved_keys = {
        raw: curations.entity(raw) for raw in {raw for _, _, draft in change.chunks for raw in draft.entities}
    }
    keys = sorted({key for key in resolved_keys.values() if key is not None})
    if not keys:
        return dict.fromkeys(resolved_keys), {}
    ids = {
        row["key"]: row["id"]
        for row in db.query(
            'SELECT e.id, e.key FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key = ANY ($2 COLLATE "C")',
            ["int4", "text[]"],
            [change.corpus_id, keys],
        )
    }
    new = [key for key in keys if key not in ids]
    new_keys = dict(zip(reserve(db, "entities_id_seq", len(new)), new, strict=True))
    ids |= {key: entity for entity, key in new_keys.items()}
    return {raw: None if key is None else ids[key] for raw, key in resolved_keys.items()}, new_keys


def _pair_of(ids: dict[str, int | None], keys: tuple[str, str], curations: Effects) -> tuple[int, int] | None:
    """Return the ids of a pair of keys, in order; None where there is to be no such relationship."""
    first, second = ids[keys[0]], ids[keys[1]]
    if first is None or second is None or curations.pair(*keys) is None:
        return None
    return (first, second) if first < second else (second, first)


def _resolve_relationships(
    db: Database, change: Change, ids: dict[str, int | None], curations: Effects
) -> tuple[Pairs, dict[tuple[int, int], int], dict[int, tuple[int, int]]]:
    """Return (the pairs that the new chunks state, their {(low, high): id}, {id: (low, high)} of relationships to insert)."""
    stated = {keys for _, _, draft in change.chunks for keys in draft.relationships}
    pairs_of_keys = {keys: _pair_of(ids, keys, curations) for keys in stated}
    pairs = sorted({pair for pair in pairs_of_keys.values() if pair is not None})
    relationship_ids = {
        (row["low_id"], row["high_id"]): row["id"]
        for row in db.query_rows(
            "SELECT r.id, r.low_id, r.high_id FROM unnest($1, $2) AS u (low, high)"
            " JOIN graphrag.relationships r ON r.low_id = u.low AND r.high_id = u.high",
            ["int8[]", "int8[]"],
            pairs,
        )
    }
    new = [pair for pair in pairs if pair not in relationship_ids]
    new_pairs = dict(zip(reserve(db, "relationships_id_seq", len(new)), new, strict=True))
    relationship_ids |= {pair: relationship for relationship, pair in new_pairs.items()}
    return pairs_of_keys, relationship_ids, new_pairs


Pair = tuple[int, int]

_ROWS = """
SELECT r.name_id, r.entity_id FROM graphrag._row_names r WHERE r.name_id = ANY ($1)
 UNION
SELECT r.entity_id, r.entity_id FROM graphrag._row_names r WHERE r.entity_id = ANY ($1)
"""
_COUNT = """
UPDATE graphrag._named_rows n
   SET degree = n.degree + u.degree, mention_count = n.mention_count + u.mentions,
       row_mention_count = n.row_mention_count + u.row_mentions
  FROM unnest($1, $2, $3, $4) AS u (id, degree, mentions, row_mentions)
 WHERE n.entity_id = u.id
"""


def renew_row_names(db: Database, entity_ids: Collection[int]) -> set[int]:
    """Bring the names up to date after mentions of these entities came, went or moved; return the rows with other names."""
    return {
        row["id"] for row in db.query_rows("SELECT graphrag._renew_row_names($1) AS id", ["int8[]"], sorted(entity_ids))
    }


def count_named_rows(
    db: Database, change: Change, new_pairs: Iterable[Pair], removed_pairs: Iterable[Pair], renamed_ids: set[int]
) -> None:
    """Update the numbers of rows with names by a change; those of `renamed_ids` are counted again.

    `new_pairs`, `removed_pairs`: ends of relationships.
    """
    degrees = Counter(new_pairs)
    degrees.subtract(removed_pairs)
    rows = _rows_of(db, {*change.entities, *(end for pair in degrees for end in pair)})
    counts: dict[int, list[int]] = {row: [0, 0, 0] for row in set(rows.values()) - renamed_ids}
    for pair, count in degrees.items():
        low, high = (rows.get(end) for end in pair)
        # Relationships between names of one row do not count.
        for row in (low, high) if low != high else ():
            if row in counts:
                counts[row][0] += count
    for sign, mentions in ((-1, change.removed_mentions), (1, change.new_mentions)):
        for chunk, entities in mentions.items():
            for row in {rows[entity] for entity in entities if entity in rows}:
                if row in counts:
                    counts[row][1] += sign
                    counts[row][2] += sign * (chunk in change.row_chunks)
    changed = [(row, *numbers) for row, numbers in sorted(counts.items()) if any(numbers)]
    db.query_rows(_COUNT, ["int8[]", "int4[]", "int4[]", "int4[]"], changed)
    recount_named_rows(db, renamed_ids)


def recount_named_rows(db: Database, entity_ids: Collection[int]) -> None:
    """Count the numbers of rows again, given by their own entities, with the names that they have now."""
    db.query_rows("SELECT graphrag._recount_named_rows($1)", ["int8[]"], sorted(entity_ids))


def rows_of(db: Database, entity_ids: Collection[int]) -> set[int]:
    """Return the own entities of the rows with names that these entities are, or are names of."""
    return set(_rows_of(db, entity_ids).values())


def _rows_of(db: Database, entity_ids: Collection[int]) -> dict[int, int]:
    """Return {entity: the row's own} of those that are a row with names, or a name of one."""
    return {row["name_id"]: row["entity_id"] for row in db.query_rows(_ROWS, ["int8[]"], sorted(entity_ids))}
