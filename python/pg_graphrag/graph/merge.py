"""Merging: every merged value is a function of the mentions, kept by counting, at the cost of the change (DESIGN.md 3)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.queue.drafts import MAX_DESCRIPTION, ChunkDraft, Evidence
from pg_graphrag.server import Database, columns, slices


@dataclass(slots=True)
class _Delta:
    """What a batch changes of one entity or relationship."""

    mentions: int = 0
    weight: int = 0
    direction: int = 0
    best: Evidence | None = None
    removed_ranks: set[int] = field(default_factory=set)

    def add_evidence(self, evidence: Evidence) -> None:
        if self.best is None or evidence.rank < self.best.rank:
            self.best = evidence


@dataclass
class Change:
    """Mentions that come and go in one transaction, collected before the corpus is locked."""

    corpus_id: int
    entities: dict[int, _Delta] = field(default_factory=dict)
    values: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    relationships: dict[int, _Delta] = field(default_factory=dict)
    chunks: list[tuple[int, int, ChunkDraft]] = field(default_factory=list)

    def add_chunk(self, document_id: int, chunk_id: int, draft: ChunkDraft) -> None:
        """Note a new chunk's mentions."""
        self.chunks.append((document_id, chunk_id, draft))

    def remove_chunks(self, db: Database, chunk_ids: list[int]) -> None:
        """Delete the mentions of chunks and note what that takes away."""
        for row in db.query(
            "DELETE FROM graphrag.relationship_mentions m WHERE m.chunk_id = ANY ($1)"
            " RETURNING m.relationship_id, m.weight::int8 AS weight, m.forward, m.evidence_rank",
            ["int8[]"],
            [chunk_ids],
        ):
            delta = self.relationships.setdefault(row["relationship_id"], _Delta())
            delta.mentions -= 1
            delta.weight -= row["weight"]
            delta.direction -= 1 if row["forward"] else -1
            delta.removed_ranks.add(row["evidence_rank"])
        for row in db.query(
            "DELETE FROM graphrag.entity_mentions m WHERE m.chunk_id = ANY ($1)"
            " RETURNING m.entity_id, m.name, m.type, m.evidence_rank",
            ["int8[]"],
            [chunk_ids],
        ):
            delta = self.entities.setdefault(row["entity_id"], _Delta())
            delta.mentions -= 1
            delta.removed_ranks.add(row["evidence_rank"])
            self.values[row["entity_id"], "n", row["name"]] -= 1
            self.values[row["entity_id"], "t", row["type"]] -= 1


def merge(db: Database, change: Change, space: int, document_ids: list[int]) -> dict[str, int]:
    """Apply a change to entities, relationships and the graph projection; the corpus must be locked.

    `space` is the corpus' embedding space, from which the names of entities that are gone are removed.

    Returns the entities created, as {key: id}.
    """
    ids, created = _resolve_entities(db, change)
    related, new_pairs = _resolve_relationships(db, change, ids)
    _insert_entity_mentions(db, change, ids)
    _insert_relationship_mentions(db, change, ids, related)
    _count_values(db, change.values)
    _update_relationships(db, change.relationships)
    degrees: Counter[int] = Counter(entity for pair in new_pairs for entity in pair)
    for row in db.query(
        "DELETE FROM graphrag.relationships r WHERE r.id = ANY ($1) AND r.mention_count = 0 RETURNING r.low_id, r.high_id",
        ["int8[]"],
        [list(change.relationships)],
    ):
        degrees[row["low_id"]] -= 1
        degrees[row["high_id"]] -= 1
    _update_entities(db, change.entities, degrees)
    gone = db.query(
        "DELETE FROM graphrag.entities e WHERE e.id = ANY ($1) AND e.mention_count = 0 RETURNING e.id",
        ["int8[]"],
        [list(change.entities)],
    )
    if gone:
        db.query(
            f"DELETE FROM graphrag.entity_vectors_{space} WHERE entity_id = ANY ($1)",
            ["int8[]"],
            [[row["id"] for row in gone]],
        )
    _project(db, change, document_ids, sorted({*change.entities, *degrees}))
    return created


def _project(db: Database, change: Change, document_ids: list[int], entity_ids: list[int]) -> None:
    # Entities before what refers to them.
    parts: list[tuple[list[int], list[int], list[int]]] = [([], part, []) for part in slices(entity_ids)]
    parts += [([], [], part) for part in slices(sorted(change.relationships))]
    parts.append((document_ids, [], []))
    for part in parts:
        db.query(
            "SELECT graphrag._project($1, $2, $3, $4)",
            ["int4", "int8[]", "int8[]", "int8[]"],
            [change.corpus_id, *part],
        )


def _resolve_entities(db: Database, change: Change) -> tuple[dict[str, int], dict[str, int]]:
    """Return ({key: id} of all entities that the new chunks mention, those of them that are new)."""
    first: dict[str, tuple[str, str]] = {}
    for _, _, draft in change.chunks:
        for key, entity in draft.entities.items():
            first.setdefault(key, (entity.name, entity.type))
    if not first:
        return {}, {}
    ids = {
        row["key"]: row["id"]
        for row in db.query(
            'SELECT e.id, e.key FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key = ANY ($2 COLLATE "C")',
            ["int4", "text[]"],
            [change.corpus_id, sorted(first)],
        )
    }
    new = sorted(key for key in first if key not in ids)
    created: dict[str, int] = {}
    for part in slices(new):
        for row in db.query(
            "INSERT INTO graphrag.entities (corpus_id, key, name, type)"
            " SELECT $1, u.* FROM unnest($2, $3, $4) u RETURNING id, key",
            ["int4", "text[]", "text[]", "text[]"],
            [change.corpus_id, part, [first[key][0] for key in part], [first[key][1] for key in part]],
        ):
            created[row["key"]] = row["id"]
    return ids | created, created


def _resolve_relationships(
    db: Database, change: Change, ids: dict[str, int]
) -> tuple[dict[tuple[int, int], int], list[tuple[int, int]]]:
    """Return ({(low, high): id} of all pairs that the new chunks state, those of them that are new)."""
    pairs = sorted({_pair(ids, pair) for _, _, draft in change.chunks for pair in draft.relationships})
    known = {
        (row["low_id"], row["high_id"]): row["id"]
        for part in slices(pairs)
        for row in db.query(
            "SELECT r.id, r.low_id, r.high_id FROM unnest($1, $2) AS u (low, high)"
            " JOIN graphrag.relationships r ON r.low_id = u.low AND r.high_id = u.high",
            ["int8[]", "int8[]"],
            columns(part),
        )
    }
    new = [pair for pair in pairs if pair not in known]
    for part in slices(new):
        for row in db.query(
            "INSERT INTO graphrag.relationships (corpus_id, low_id, high_id, source_id, target_id)"
            " SELECT $1, u.low, u.high, u.low, u.high FROM unnest($2, $3) AS u (low, high)"
            " RETURNING id, low_id, high_id",
            ["int4", "int8[]", "int8[]"],
            [change.corpus_id, *columns(part)],
        ):
            known[row["low_id"], row["high_id"]] = row["id"]
    return known, new


def _pair(ids: dict[str, int], keys: tuple[str, str]) -> tuple[int, int]:
    first, second = ids[keys[0]], ids[keys[1]]
    return (first, second) if first < second else (second, first)


_INSERT_ENTITY_MENTIONS = """
INSERT INTO graphrag.entity_mentions (corpus_id, document_id, chunk_id, entity_id, raw_key, name, type, tf, evidence_rank,
                                      start_offset, end_offset, windows)
SELECT $1, u.document_id, u.chunk_id, u.entity_id, u.raw_key, u.name, u.type, u.tf, u.evidence_rank,
       u.start_offset, u.end_offset, u.windows::int[]
  FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
       AS u (document_id, chunk_id, entity_id, raw_key, name, type, tf, evidence_rank, start_offset, end_offset, windows)
"""
_ENTITY_MENTION_TYPES = [
    "int4",
    "int8[]",
    "int8[]",
    "int8[]",
    "text[]",
    "text[]",
    "text[]",
    "int4[]",
    "int8[]",
    "int4[]",
]
_ENTITY_MENTION_TYPES += ["int4[]", "text[]"]


def _insert_entity_mentions(db: Database, change: Change, ids: dict[str, int]) -> None:
    for part in slices(_entity_mentions(change, ids)):
        db.query(_INSERT_ENTITY_MENTIONS, _ENTITY_MENTION_TYPES, [change.corpus_id, *columns(part)])


def _entity_mentions(change: Change, ids: dict[str, int]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of new mentions, and note in `change` what they add."""
    for document_id, chunk_id, draft in change.chunks:
        for key, entity in draft.entities.items():
            entity_id, name, evidence = ids[key], entity.name, entity.evidence
            place = (evidence.rank, evidence.start, evidence.end, _array(entity.windows))
            yield document_id, chunk_id, entity_id, key, name, entity.type, entity.tf, *place
            delta = change.entities.setdefault(entity_id, _Delta())
            delta.mentions += 1
            delta.add_evidence(evidence)
            change.values[entity_id, "n", name] += 1
            change.values[entity_id, "t", entity.type] += 1


_INSERT_RELATIONSHIP_MENTIONS = """
INSERT INTO graphrag.relationship_mentions (corpus_id, document_id, chunk_id, relationship_id, source_key, target_key, weight,
                                            forward, evidence_rank, start_offset, end_offset, windows)
SELECT $1, u.document_id, u.chunk_id, u.relationship_id, u.source_key, u.target_key, u.weight,
       u.forward, u.evidence_rank, u.start_offset, u.end_offset, u.windows::int[]
  FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
       AS u (document_id, chunk_id, relationship_id, source_key, target_key, weight, forward, evidence_rank,
             start_offset, end_offset, windows)
"""
_RELATIONSHIP_MENTION_TYPES = ["int4", "int8[]", "int8[]", "int8[]", "text[]", "text[]", "int4[]", "bool[]", "int8[]"]
_RELATIONSHIP_MENTION_TYPES += ["int4[]", "int4[]", "text[]"]


def _insert_relationship_mentions(
    db: Database, change: Change, ids: dict[str, int], related: dict[tuple[int, int], int]
) -> None:
    for part in slices(_relationship_mentions(change, ids, related)):
        db.query(_INSERT_RELATIONSHIP_MENTIONS, _RELATIONSHIP_MENTION_TYPES, [change.corpus_id, *columns(part)])


def _relationship_mentions(
    change: Change, ids: dict[str, int], related: dict[tuple[int, int], int]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of new mentions, and note in `change` what they add."""
    for document_id, chunk_id, draft in change.chunks:
        for keys, relationship in draft.relationships.items():
            # Keys are in order, so a tie goes to the smaller source; the flag is relative to the ids.
            source, target = keys if relationship.forward >= 0 else (keys[1], keys[0])
            pair = _pair(ids, keys)
            relationship_id, forward, evidence = related[pair], ids[source] == pair[0], relationship.evidence
            place = (evidence.rank, evidence.start, evidence.end, _array(relationship.windows))
            yield document_id, chunk_id, relationship_id, source, target, relationship.weight, forward, *place
            delta = change.relationships.setdefault(relationship_id, _Delta())
            delta.mentions += 1
            delta.weight += relationship.weight
            delta.direction += 1 if forward else -1
            delta.add_evidence(evidence)


def _array(windows: int) -> str:
    """Return the numbers of the bits set, as an SQL array."""
    return "{" + ",".join(str(number) for number in range(windows.bit_length()) if windows >> number & 1) + "}"


_COUNT_VALUES = """
MERGE INTO graphrag.entity_values v
USING (SELECT * FROM unnest($1, $2, $3, $4)) AS d (entity_id, kind, value, delta)
   ON v.entity_id = d.entity_id AND v.kind = d.kind::"char" AND pg_catalog.md5(v.value) = pg_catalog.md5(d.value)
 WHEN MATCHED AND v.count + d.delta = 0 THEN DELETE
 WHEN MATCHED THEN UPDATE SET count = v.count + d.delta
 WHEN NOT MATCHED THEN INSERT (entity_id, kind, value, count) VALUES (d.entity_id, d.kind::"char", d.value, d.delta)
"""


def _count_values(db: Database, values: Counter[tuple[int, str, str]]) -> None:
    rows = sorted((*key, delta) for key, delta in values.items() if delta)
    for part in slices(rows):
        db.query(_COUNT_VALUES, ["int8[]", "text[]", "text[]", "int4[]"], columns(part))


_UPDATE_RELATIONSHIPS = """
WITH updated AS (
    UPDATE graphrag.relationships r
       SET mention_count = r.mention_count + u.mentions,
           weight        = r.weight + u.weight,
           direction     = r.direction + u.direction,
           evidence_rank = least(r.evidence_rank, u.rank),
           description   = CASE WHEN u.rank < r.evidence_rank OR r.evidence_rank IS NULL THEN coalesce(u.text, r.description)
                                ELSE r.description END,
           (source_id, target_id) = (
               SELECT CASE WHEN forward THEN r.low_id ELSE r.high_id END, CASE WHEN forward THEN r.high_id ELSE r.low_id END
                 FROM (SELECT CASE r.direction + u.direction
                              WHEN 0 THEN (SELECT l.key < h.key FROM graphrag.entities l, graphrag.entities h
                                            WHERE l.id = r.low_id AND h.id = r.high_id)
                              ELSE r.direction + u.direction > 0 END) AS d (forward))
      FROM unnest($1, $2, $3, $4, $5, $6) AS u (id, mentions, weight, direction, rank, text)
     WHERE r.id = u.id
    RETURNING r.id, r.evidence_rank
)
SELECT t.id FROM updated t JOIN unnest($7, $8) AS gone (id, rank) ON gone.id = t.id AND gone.rank = t.evidence_rank
"""


def _update_relationships(db: Database, deltas: dict[int, _Delta]) -> None:
    types = ["int8[]", "int4[]", "int8[]", "int4[]", "int8[]", "text[]", "int8[]", "int8[]"]
    for part in slices(sorted(deltas)):
        rows = [
            (key, d.mentions, d.weight, d.direction, d.best.rank if d.best else None, d.best.text if d.best else None)
            for key, d in ((key, deltas[key]) for key in part)
        ]
        stale = db.query(_UPDATE_RELATIONSHIPS, types, [*columns(rows), *_removed(deltas, part)])
        _renew_evidence(db, "relationship", [row["id"] for row in stale])


_UPDATE_ENTITIES = """
WITH updated AS (
    UPDATE graphrag.entities e
       SET mention_count = e.mention_count + u.mentions,
           degree        = e.degree + u.degree,
           evidence_rank = least(e.evidence_rank, u.rank),
           description   = CASE WHEN u.rank < e.evidence_rank OR e.evidence_rank IS NULL THEN coalesce(u.text, e.description)
                                ELSE e.description END,
           name          = coalesce((SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 'n'
                                      ORDER BY v.count DESC, v.value LIMIT 1), e.name),
           type          = coalesce((SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 't'
                                      ORDER BY v.count DESC, v.value LIMIT 1), e.type)
      FROM unnest($1, $2, $3, $4, $5) AS u (id, mentions, degree, rank, text)
     WHERE e.id = u.id
    RETURNING e.id, e.evidence_rank
)
SELECT t.id FROM updated t JOIN unnest($6, $7) AS gone (id, rank) ON gone.id = t.id AND gone.rank = t.evidence_rank
"""


def _update_entities(db: Database, deltas: dict[int, _Delta], degrees: Counter[int]) -> None:
    types = ["int8[]", "int4[]", "int4[]", "int8[]", "text[]", "int8[]", "int8[]"]
    for part in slices(sorted({*deltas, *degrees})):
        rows = []
        for key in part:
            delta = deltas.get(key, _Delta())
            best = delta.best
            rows.append((key, delta.mentions, degrees[key], best.rank if best else None, best.text if best else None))
        stale = db.query(_UPDATE_ENTITIES, types, [*columns(rows), *_removed(deltas, part)])
        _renew_evidence(db, "entity", [row["id"] for row in stale])


def _removed(deltas: dict[int, _Delta], ids: list[int]) -> tuple[list[int], list[int]]:
    """Return removed evidence as columns (id, rank): where it was the best, the next best takes its place."""
    pairs = [(key, rank) for key in ids if key in deltas for rank in deltas[key].removed_ranks if rank is not None]
    return [key for key, _ in pairs], [rank for _, rank in pairs]


def _renew_evidence(db: Database, what: str, ids: list[int]) -> None:
    """Describe what lost its best sentence by the best of the remaining mentions."""
    if not ids:
        return
    table = {"entity": "entities", "relationship": "relationships"}[what]
    rows = db.query(
        f"SELECT u.id, m.evidence_rank, pg_catalog.substr(c.content, m.start_offset - c.start_offset + 1,"
        f"       m.end_offset - m.start_offset) AS text"
        f"  FROM pg_catalog.unnest($1) AS u (id)"
        f" CROSS JOIN LATERAL (SELECT * FROM graphrag.{what}_mentions m WHERE m.{what}_id = u.id"
        f"                      ORDER BY m.evidence_rank LIMIT 1) m"
        f"  JOIN graphrag.chunks c ON c.id = m.chunk_id",
        ["int8[]"],
        [ids],
    )
    db.query(
        f"UPDATE graphrag.{table} t SET evidence_rank = u.rank, description = u.text"
        f"  FROM unnest($1, $2, $3) AS u (id, rank, text) WHERE t.id = u.id",
        ["int8[]", "int8[]", "text[]"],
        [
            [row["id"] for row in rows],
            [row["evidence_rank"] for row in rows],
            [" ".join(row["text"].split())[:MAX_DESCRIPTION] for row in rows],
        ],
    )
