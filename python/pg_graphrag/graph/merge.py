"""Merging: a merged value is a function of mentions and curations, kept by counting, at the cost of the change (DESIGN.md 3)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pg_graphrag.curation.effects import Effects, apply_edits, effects
from pg_graphrag.graph.descriptions import describe, is_described
from pg_graphrag.queue.drafts import MAX_DESCRIPTION, ChunkDraft, Evidence, Statement
from pg_graphrag.server import Database, columns, slices
from pg_graphrag.text.languages import REGCONFIG

# Between the keywords of a mention on their way into an array; no keyword holds a control character.
_SEPARATOR = "\x1f"


@dataclass(slots=True)
class _Delta:
    """What a batch changes of one entity or relationship."""

    mentions: int = 0
    weight: int | Decimal = 0
    direction: int = 0
    best: Evidence | None = None
    removed_ranks: set[int] = field(default_factory=set)

    def add_evidence(self, evidence: Evidence | None) -> None:
        if evidence is None:
            return
        if self.best is None or evidence.rank < self.best.rank:
            self.best = evidence


@dataclass
class Change:
    """Mentions that come and go in one transaction, collected before the corpus is locked.

    `values`: how many more mentions give an entity a (n)ame, (t)ype or (d)escription; `relationship_values`: likewise
    (d)escription and (k)eyword; `tokens` of new descriptions.
    """

    corpus_id: int
    entities: dict[int, _Delta] = field(default_factory=dict)
    values: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    relationship_values: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    tokens: dict[str, int] = field(default_factory=dict)
    relationships: dict[int, _Delta] = field(default_factory=dict)
    chunks: list[tuple[int, int, ChunkDraft]] = field(default_factory=list)

    def add_chunk(self, document_id: int, chunk_id: int, draft: ChunkDraft) -> None:
        """Note a new chunk's mentions."""
        self.chunks.append((document_id, chunk_id, draft))

    def remove_chunks(self, db: Database, chunk_ids: list[int]) -> None:
        """Delete the mentions of chunks and note what that takes away."""
        stated: dict[str, list[int]] = {"entity": [], "relationship": []}
        # Aliases may mention an entity several times in a chunk, which counts as one.
        counted: set[tuple[int, int]] = set()
        for row in db.query(
            "DELETE FROM graphrag.relationship_mentions m WHERE m.chunk_id = ANY ($1)"
            " RETURNING m.id, m.chunk_id, m.relationship_id, m.weight, m.forward, m.evidence_rank, m.keywords, m.description",
            ["int8[]"],
            [chunk_ids],
        ):
            if row["description"] is not None:
                stated["relationship"].append(row["id"])
            if row["relationship_id"] is None:
                continue
            delta = self.relationships.setdefault(row["relationship_id"], _Delta())
            if (row["relationship_id"], row["chunk_id"]) not in counted:
                counted.add((row["relationship_id"], row["chunk_id"]))
                delta.mentions -= 1
            delta.weight -= row["weight"]
            delta.direction -= 1 if row["forward"] else -1
            delta.removed_ranks.add(row["evidence_rank"])
            if row["description"] is not None:
                self._count_statement(row["relationship_id"], row["description"], row["keywords"], -1)
        counted.clear()
        for row in db.query(
            "DELETE FROM graphrag.entity_mentions m WHERE m.chunk_id = ANY ($1)"
            " RETURNING m.id, m.chunk_id, m.entity_id, m.name, m.type, m.evidence_rank, m.description",
            ["int8[]"],
            [chunk_ids],
        ):
            if row["description"] is not None:
                stated["entity"].append(row["id"])
            if row["entity_id"] is None:
                continue
            delta = self.entities.setdefault(row["entity_id"], _Delta())
            if (row["entity_id"], row["chunk_id"]) not in counted:
                counted.add((row["entity_id"], row["chunk_id"]))
                delta.mentions -= 1
            delta.removed_ranks.add(row["evidence_rank"])
            self.values[row["entity_id"], "n", row["name"]] -= 1
            self.values[row["entity_id"], "t", row["type"]] -= 1
            if row["description"]:
                self.values[row["entity_id"], "d", row["description"]] -= 1
        for what, ids in stated.items():
            if ids:
                db.query(
                    "SELECT graphrag._bm25_remove($1, $2, $3)",
                    ["int4", "text", "int8[]"],
                    [self.corpus_id, f"{what}_mention", ids],
                )

    def _count_statement(self, relationship_id: int, description: str, keywords: Iterable[str], sign: int) -> None:
        if description:
            self.relationship_values[relationship_id, "d", description] += sign
        for keyword in keywords:
            self.relationship_values[relationship_id, "k", keyword] += sign


def merge(db: Database, change: Change, document_ids: list[int], summarize: bool) -> tuple[dict[str, int], list[int]]:
    """Apply a change to entities, relationships and the graph projection; the corpus must be locked.

    `summarize`: whether a model is to summarise descriptions of which there are many. Returns the entities created, as
    {key: id}, and those that are gone, whose names have vectors still.
    """
    known = effects(db, change.corpus_id, {key for _, _, draft in change.chunks for key in draft.entities})
    ids, created = _resolve_entities(db, change, known)
    related, new_pairs = _resolve_relationships(db, change, ids, known)
    _insert_entity_mentions(db, change, ids)
    _insert_relationship_mentions(db, change, ids, related, known)
    _add_to_bm25(db, change)
    new_values = _count_values(db, "entity", change.values, change.tokens)
    new_relationship_values = _count_values(db, "relationship", change.relationship_values, change.tokens)
    _update_relationships(db, change.relationships)
    _renew_keywords(db, [item for item, kind in new_relationship_values if kind == "k"])
    degrees: Counter[int] = Counter(entity for pair in new_pairs for entity in pair)
    for row in db.query(
        "DELETE FROM graphrag.relationships r WHERE r.id = ANY ($1) AND r.mention_count = 0 AND NOT r.curated"
        " RETURNING r.low_id, r.high_id",
        ["int8[]"],
        [list(change.relationships)],
    ):
        degrees[row["low_id"]] -= 1
        degrees[row["high_id"]] -= 1
    _update_entities(db, change.entities, degrees)
    described = [
        describe(db, what, {item for item, kind, _ in values if kind == "d"}, changed, summarize)
        for what, values, changed in (
            ("entity", change.values, {item for item, kind in new_values if kind == "d"}),
            (
                "relationship",
                change.relationship_values,
                {item for item, kind in new_relationship_values if kind == "d"},
            ),
        )
    ]
    for what, (_, without) in zip(("entity", "relationship"), described, strict=True):
        renew_evidence(db, what, without)
    if any(due for due, _ in described):
        db.query(
            "INSERT INTO graphrag.jobs (corpus_id, kind) VALUES ($1, 'summarize') ON CONFLICT DO NOTHING",
            ["int4"],
            [change.corpus_id],
        )
    gone = db.query(
        "DELETE FROM graphrag.entities e WHERE e.id = ANY ($1) AND e.mention_count = 0 AND NOT e.curated RETURNING e.id",
        ["int8[]"],
        [list(change.entities)],
    )
    apply_edits(db, change.corpus_id, sorted({*change.entities, *degrees}), sorted(change.relationships))
    _project(db, change, document_ids, sorted({*change.entities, *degrees}))
    return created, [row["id"] for row in gone]


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


def _resolve_entities(db: Database, change: Change, known: Effects) -> tuple[dict[str, int | None], dict[str, int]]:
    """Return ({key that the new chunks mention: id of its entity, None where that was deleted}, {key: id} of the new ones)."""
    first: dict[str, tuple[str, str]] = {}
    led: dict[str, str | None] = {}
    for _, _, draft in change.chunks:
        for raw, entity in draft.entities.items():
            if (key := led.setdefault(raw, known.entity(raw))) is not None:
                first.setdefault(key, (entity.name, entity.type))
    if not led:
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
    ids |= created
    return {raw: None if key is None else ids[key] for raw, key in led.items()}, created


def _resolve_relationships(
    db: Database, change: Change, ids: dict[str, int | None], known: Effects
) -> tuple[dict[tuple[int, int], int], list[tuple[int, int]]]:
    """Return ({(low, high): id} of all pairs that the new chunks state, those of them that are new)."""
    stated = {_pair(ids, keys, known) for _, _, draft in change.chunks for keys in draft.relationships}
    pairs = sorted(pair for pair in stated if pair is not None)
    found = {
        (row["low_id"], row["high_id"]): row["id"]
        for part in slices(pairs)
        for row in db.query(
            "SELECT r.id, r.low_id, r.high_id FROM unnest($1, $2) AS u (low, high)"
            " JOIN graphrag.relationships r ON r.low_id = u.low AND r.high_id = u.high",
            ["int8[]", "int8[]"],
            columns(part),
        )
    }
    new = [pair for pair in pairs if pair not in found]
    for part in slices(new):
        for row in db.query(
            "INSERT INTO graphrag.relationships (corpus_id, low_id, high_id, source_id, target_id)"
            " SELECT $1, u.low, u.high, u.low, u.high FROM unnest($2, $3) AS u (low, high)"
            " RETURNING id, low_id, high_id",
            ["int4", "int8[]", "int8[]"],
            [change.corpus_id, *columns(part)],
        ):
            found[row["low_id"], row["high_id"]] = row["id"]
    return found, new


def _pair(ids: dict[str, int | None], keys: tuple[str, str], known: Effects) -> tuple[int, int] | None:
    """Return the ids of a pair of keys, in order; None where there is to be no such relationship."""
    first, second = ids[keys[0]], ids[keys[1]]
    if first is None or second is None or known.pair(*keys) is None:
        return None
    return (first, second) if first < second else (second, first)


_INSERT_ENTITY_MENTIONS = """
INSERT INTO graphrag.entity_mentions (corpus_id, document_id, chunk_id, entity_id, raw_key, name, type, tf, evidence_rank,
                                      start_offset, end_offset, windows, id, description, tsv)
SELECT $1, u.document_id, u.chunk_id, u.entity_id, u.raw_key, u.name, u.type, u.tf, u.evidence_rank,
       u.start_offset, u.end_offset, u.windows::int[],
       coalesce(u.id, pg_catalog.nextval('graphrag.entity_mentions_id_seq')), u.description,
       pg_catalog.to_tsvector(u.config::regconfig, u.lexical)
  FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
       AS u (document_id, chunk_id, entity_id, raw_key, name, type, tf, evidence_rank, start_offset, end_offset, windows,
             id, description, config, lexical)
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
_ENTITY_MENTION_TYPES += ["int4[]", "text[]", "int8[]", "text[]", "text[]", "text[]"]


def _place(evidence: Evidence | None) -> tuple[int | None, int | None, int | None]:
    """Return a mention's evidence_rank, start_offset and end_offset."""
    return (evidence.rank, evidence.start, evidence.end) if evidence else (None, None, None)


def _said(statement: Statement | None, draft: ChunkDraft) -> tuple[int | None, str | None, str | None, str | None]:
    """Return a mention's id (None: the next), its description, and configuration and text of its tsv."""
    if statement is None:
        return None, None, None, None
    return statement.mention_id, statement.description, "pg_catalog." + REGCONFIG[draft.language], statement.lexical


def _insert_entity_mentions(db: Database, change: Change, ids: dict[str, int | None]) -> None:
    for part in slices(_entity_mentions(change, ids)):
        db.query(_INSERT_ENTITY_MENTIONS, _ENTITY_MENTION_TYPES, [change.corpus_id, *columns(part)])


def _entity_mentions(change: Change, ids: dict[str, int | None]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of new mentions, and note in `change` what they add."""
    for document_id, chunk_id, draft in change.chunks:
        counted: set[int] = set()
        for key, entity in draft.entities.items():
            entity_id, name, statement = ids[key], entity.name, entity.statement
            place = (*_place(entity.evidence), _array(entity.windows), *_said(statement, draft))
            yield document_id, chunk_id, entity_id, key, name, entity.type, entity.tf, *place
            if entity_id is None:
                continue
            delta = change.entities.setdefault(entity_id, _Delta())
            delta.mentions += entity_id not in counted
            counted.add(entity_id)
            delta.add_evidence(entity.evidence)
            change.values[entity_id, "n", name] += 1
            change.values[entity_id, "t", entity.type] += 1
            if statement is not None and statement.description:
                change.values[entity_id, "d", statement.description] += 1
                change.tokens[statement.description] = statement.tokens


_INSERT_RELATIONSHIP_MENTIONS = """
INSERT INTO graphrag.relationship_mentions (corpus_id, document_id, chunk_id, relationship_id, source_key, target_key, weight,
                                            forward, evidence_rank, start_offset, end_offset, windows, id, description,
                                            tsv, keywords)
SELECT $1, u.document_id, u.chunk_id, u.relationship_id, u.source_key, u.target_key, u.weight,
       u.forward, u.evidence_rank, u.start_offset, u.end_offset, u.windows::int[],
       coalesce(u.id, pg_catalog.nextval('graphrag.relationship_mentions_id_seq')), u.description,
       pg_catalog.to_tsvector(u.config::regconfig, u.lexical), pg_catalog.string_to_array(u.keywords, pg_catalog.chr(31))
  FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
       AS u (document_id, chunk_id, relationship_id, source_key, target_key, weight, forward, evidence_rank,
             start_offset, end_offset, windows, id, description, config, lexical, keywords)
"""
_RELATIONSHIP_MENTION_TYPES = [
    "int4",
    "int8[]",
    "int8[]",
    "int8[]",
    "text[]",
    "text[]",
    "numeric[]",
    "bool[]",
    "int8[]",
]
_RELATIONSHIP_MENTION_TYPES += ["int4[]", "int4[]", "text[]", "int8[]", "text[]", "text[]", "text[]", "text[]"]


def _insert_relationship_mentions(
    db: Database, change: Change, ids: dict[str, int | None], related: dict[tuple[int, int], int], known: Effects
) -> None:
    for part in slices(_relationship_mentions(change, ids, related, known)):
        db.query(_INSERT_RELATIONSHIP_MENTIONS, _RELATIONSHIP_MENTION_TYPES, [change.corpus_id, *columns(part)])


def _relationship_mentions(
    change: Change, ids: dict[str, int | None], related: dict[tuple[int, int], int], known: Effects
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of new mentions, and note in `change` what they add."""
    for document_id, chunk_id, draft in change.chunks:
        counted: set[int] = set()
        for keys, relationship in draft.relationships.items():
            # Keys are in order, so a tie goes to the smaller source; the flag is relative to the ids.
            source, target = keys if relationship.forward >= 0 else (keys[1], keys[0])
            pair, statement = _pair(ids, keys, known), relationship.statement
            relationship_id, forward = (related[pair], ids[source] == pair[0]) if pair else (None, True)
            keywords = statement.keywords if statement else ()
            place = (*_place(relationship.evidence), _array(relationship.windows), *_said(statement, draft))
            what = (relationship_id, source, target, relationship.weight, forward)
            yield document_id, chunk_id, *what, *place, _SEPARATOR.join(keywords)
            if relationship_id is None:
                continue
            delta = change.relationships.setdefault(relationship_id, _Delta())
            delta.mentions += relationship_id not in counted
            counted.add(relationship_id)
            delta.weight += relationship.weight
            delta.direction += 1 if forward else -1
            delta.add_evidence(relationship.evidence)
            if statement is not None:
                change._count_statement(relationship_id, statement.description, keywords, 1)
                change.tokens[statement.description] = statement.tokens


def _array(windows: int) -> str:
    """Return the numbers of the bits set, as an SQL array."""
    return "{" + ",".join(str(number) for number in range(windows.bit_length()) if windows >> number & 1) + "}"


def _add_to_bm25(db: Database, change: Change) -> None:
    """Make the new mentions that have a text of their own searchable."""
    items: dict[str, list[tuple[int, int]]] = {"entity": [], "relationship": []}
    for document_id, _, draft in change.chunks:
        for what, mentions in (("entity", draft.entities.values()), ("relationship", draft.relationships.values())):
            items[what] += [(mention.statement.mention_id, document_id) for mention in mentions if mention.statement]
    for what, found in items.items():
        if found:
            db.query(
                "SELECT graphrag._bm25_add($1, $2, $3, $4)",
                ["int4", "text", "int8[]", "int8[]"],
                [change.corpus_id, f"{what}_mention", *columns(found)],
            )


_COUNT_VALUES = """
WITH counted AS (
    MERGE INTO graphrag.{what}_values v
    USING (SELECT * FROM unnest($1, $2, $3, $4, $5)) AS d (id, kind, value, delta, tokens)
       ON v.{what}_id = d.id AND v.kind = d.kind::"char" AND pg_catalog.md5(v.value) = pg_catalog.md5(d.value)
     WHEN MATCHED AND v.count + d.delta = 0 THEN DELETE
     WHEN MATCHED THEN UPDATE SET count = v.count + d.delta
     WHEN NOT MATCHED THEN INSERT ({what}_id, kind, value, count, tokens)
          VALUES (d.id, d.kind::"char", d.value, d.delta, d.tokens)
    RETURNING merge_action() AS action, d.id, d.kind
)
SELECT DISTINCT c.id, c.kind FROM counted c WHERE c.action <> 'UPDATE' AND c.kind IN ('d', 'k')
"""


def _count_values(
    db: Database, what: str, values: Counter[tuple[int, str, str]], tokens: dict[str, int]
) -> set[tuple[int, str]]:
    """Count; return whose descriptions (d) and keywords (k) are other ones than before, not only more or less frequent."""
    rows = [
        (item, kind, value, delta, tokens.get(value, 0) if kind == "d" else None)
        for (item, kind, value), delta in sorted(values.items())
        if delta
    ]
    types = ["int8[]", "text[]", "text[]", "int4[]", "int4[]"]
    other: set[tuple[int, str]] = set()
    for part in slices(rows):
        other |= {(row["id"], row["kind"]) for row in db.query(_COUNT_VALUES.format(what=what), types, columns(part))}
    return other


def _renew_keywords(db: Database, ids: list[int]) -> None:
    """Make keywords the sorted union of the mentions'."""
    if ids:
        db.query(
            "UPDATE graphrag.relationships r SET keywords = ARRAY(SELECT v.value FROM graphrag.relationship_values v"
            " WHERE v.relationship_id = r.id AND v.kind = 'k' ORDER BY v.value) WHERE r.id = ANY ($1)",
            ["int8[]"],
            [ids],
        )


_UPDATE_RELATIONSHIPS = """
WITH updated AS (
    UPDATE graphrag.relationships r
       SET mention_count = r.mention_count + u.mentions,
           weight        = pg_catalog.trim_scale(r.weight + u.weight),
           direction     = r.direction + u.direction,
           evidence_rank = least(r.evidence_rank, u.rank),
           description   = CASE WHEN u.text IS NOT NULL AND (u.rank < r.evidence_rank OR r.evidence_rank IS NULL)
                                     AND NOT {described} THEN u.text
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
""".replace("{described}", is_described("relationship", "r.id"))


def _update_relationships(db: Database, deltas: dict[int, _Delta]) -> None:
    types = ["int8[]", "int4[]", "numeric[]", "int4[]", "int8[]", "text[]", "int8[]", "int8[]"]
    for part in slices(sorted(deltas)):
        rows = [
            (key, d.mentions, d.weight, d.direction, d.best.rank if d.best else None, d.best.text if d.best else None)
            for key, d in ((key, deltas[key]) for key in part)
        ]
        stale = db.query(_UPDATE_RELATIONSHIPS, types, [*columns(rows), *_removed(deltas, part)])
        renew_evidence(db, "relationship", [row["id"] for row in stale])


_UPDATE_ENTITIES = """
WITH updated AS (
    UPDATE graphrag.entities e
       SET mention_count = e.mention_count + u.mentions,
           degree        = e.degree + u.degree,
           evidence_rank = least(e.evidence_rank, u.rank),
           description   = CASE WHEN u.text IS NOT NULL AND (u.rank < e.evidence_rank OR e.evidence_rank IS NULL)
                                     AND NOT {described} THEN u.text
                                ELSE e.description END,
           name          = coalesce((SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 'n'
                                      ORDER BY v.count DESC, v.value LIMIT 1), e.name),
           type          = coalesce((SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 't'
                                      ORDER BY v.value = 'UNKNOWN', v.count DESC, v.value LIMIT 1), e.type)
      FROM unnest($1, $2, $3, $4, $5) AS u (id, mentions, degree, rank, text)
     WHERE e.id = u.id
    RETURNING e.id, e.evidence_rank
)
SELECT t.id FROM updated t JOIN unnest($6, $7) AS gone (id, rank) ON gone.id = t.id AND gone.rank = t.evidence_rank
""".replace("{described}", is_described("entity", "e.id"))


def _update_entities(db: Database, deltas: dict[int, _Delta], degrees: Counter[int]) -> None:
    types = ["int8[]", "int4[]", "int4[]", "int8[]", "text[]", "int8[]", "int8[]"]
    for part in slices(sorted({*deltas, *degrees})):
        rows = []
        for key in part:
            delta = deltas.get(key, _Delta())
            best = delta.best
            rows.append((key, delta.mentions, degrees[key], best.rank if best else None, best.text if best else None))
        stale = db.query(_UPDATE_ENTITIES, types, [*columns(rows), *_removed(deltas, part)])
        renew_evidence(db, "entity", [row["id"] for row in stale])


def _removed(deltas: dict[int, _Delta], ids: list[int]) -> tuple[list[int], list[int]]:
    """Return removed evidence as columns (id, rank): where it was the best, the next best takes its place."""
    pairs = [(key, rank) for key in ids if key in deltas for rank in deltas[key].removed_ranks if rank is not None]
    return [key for key, _ in pairs], [rank for _, rank in pairs]


def renew_evidence(db: Database, what: str, ids: list[int]) -> None:
    """Describe what lost its best sentence, or its last description, by the best sentence of the remaining mentions."""
    if not ids:
        return
    table = {"entity": "entities", "relationship": "relationships"}[what]
    rows = db.query(
        f"SELECT u.id, m.evidence_rank, pg_catalog.substr(c.content, m.start_offset - c.start_offset + 1,"
        f"       m.end_offset - m.start_offset) AS text"
        f"  FROM pg_catalog.unnest($1) AS u (id)"
        f"  LEFT JOIN LATERAL (SELECT * FROM graphrag.{what}_mentions m WHERE m.{what}_id = u.id"
        f"                      AND m.evidence_rank IS NOT NULL ORDER BY m.evidence_rank LIMIT 1) m ON true"
        f"  LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id",
        ["int8[]"],
        [ids],
    )
    db.query(
        f"UPDATE graphrag.{table} t SET evidence_rank = u.rank, description ="
        f" CASE WHEN {is_described(what, 't.id')} THEN t.description ELSE u.text END"
        f"  FROM unnest($1, $2, $3) AS u (id, rank, text) WHERE t.id = u.id",
        ["int8[]", "int8[]", "text[]"],
        [
            [row["id"] for row in rows],
            [row["evidence_rank"] for row in rows],
            [" ".join((row["text"] or "").split())[:MAX_DESCRIPTION] for row in rows],
        ],
    )
