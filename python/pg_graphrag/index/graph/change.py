"""A change of mentions: what comes and goes in one transaction, counted by entity and relationship."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pg_graphrag.ground.json_reading import json_text
from pg_graphrag.index.graph.drafts import ChunkDraft, Evidence, Statement
from pg_graphrag.server import Database, columns
from pg_graphrag.text.languages import REGCONFIG

# {keys of the ends that chunks state: ids of the entities, in order; None where there is to be no such relationship}.
Pairs = dict[tuple[str, str], tuple[int, int] | None]


@dataclass(slots=True)
class Delta:
    """What a batch changes of one entity or relationship. `row_mentions`: of `mentions`, those of rows of attached tables."""

    mentions: int = 0
    row_mentions: int = 0
    weight: int | Decimal = 0
    direction: int = 0
    best: Evidence | None = None
    removed_ranks: set[int] = field(default_factory=set)

    def count_chunk(self, change: int, is_row: bool) -> None:
        """Count one chunk that mentions it more (1) or less (-1)."""
        self.mentions += change
        self.row_mentions += change * is_row

    def add_evidence(self, evidence: Evidence | None) -> None:
        """Keep the evidence if its rank is the lowest so far."""
        if evidence is None:
            return
        if self.best is None or evidence.rank < self.best.rank:
            self.best = evidence


@dataclass
class Change:
    """Mentions that come and go in one transaction, collected before the corpus is locked.

    `values`: how many more mentions give an entity a (n)ame, (t)ype or (d)escription; `relationship_values`: the same for
    (d)escription and (k)eyword; `tokens` of new descriptions. `removed_mentions`, `new_mentions`: {chunk: the entities that
    it mentioned, or mentions now}; `row_chunks`: the chunks of rows among them.
    """

    corpus_id: int
    entities: dict[int, Delta] = field(default_factory=dict)
    values: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    relationship_values: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    tokens: dict[str, int] = field(default_factory=dict)
    relationships: dict[int, Delta] = field(default_factory=dict)
    chunks: list[tuple[int, int, ChunkDraft]] = field(default_factory=list)
    removed_mentions: dict[int, set[int]] = field(default_factory=dict)
    new_mentions: dict[int, set[int]] = field(default_factory=dict)
    row_chunks: set[int] = field(default_factory=set)

    def add_chunk(self, document_id: int, chunk_id: int, draft: ChunkDraft, *, is_row: bool = False) -> None:
        """Count a new chunk's mentions. `is_row`: it is the chunk of a row of an attached table."""
        self.chunks.append((document_id, chunk_id, draft))
        if is_row:
            self.row_chunks.add(chunk_id)

    def remove_chunks(self, db: Database, chunk_ids: list[int]) -> None:
        """Delete the mentions of chunks and note what that takes away."""
        statement_ids: dict[str, list[int]] = {"entity": [], "relationship": []}
        row_chunks = db.query(
            "SELECT c.id FROM graphrag.chunks c WHERE c.id = ANY ($1) AND c.is_row", ["int8[]"], [chunk_ids]
        )
        self.row_chunks.update(row["id"] for row in row_chunks)
        # Aliases may mention an entity several times in a chunk, which counts as one.
        counted_items: set[tuple[int, int]] = set()
        for row in db.query(
            "DELETE FROM graphrag.relationship_mentions m WHERE m.chunk_id = ANY ($1)"
            " RETURNING m.id, m.chunk_id, m.relationship_id, m.weight, m.forward, m.evidence_rank, m.keywords, m.description",
            ["int8[]"],
            [chunk_ids],
        ):
            if row["description"] is not None:
                statement_ids["relationship"].append(row["id"])
            if row["relationship_id"] is None:
                continue
            delta = self.relationships.setdefault(row["relationship_id"], Delta())
            if (row["relationship_id"], row["chunk_id"]) not in counted_items:
                counted_items.add((row["relationship_id"], row["chunk_id"]))
                delta.count_chunk(-1, row["chunk_id"] in self.row_chunks)
            delta.weight -= row["weight"]
            delta.direction -= 1 if row["forward"] else -1
            delta.removed_ranks.add(row["evidence_rank"])
            self._count_statement(row["relationship_id"], row["description"] or "", row["keywords"], -1)
        for row in db.query(
            "DELETE FROM graphrag.entity_mentions m WHERE m.chunk_id = ANY ($1)"
            " RETURNING m.id, m.chunk_id, m.entity_id, m.name, m.type, m.evidence_rank, m.description",
            ["int8[]"],
            [chunk_ids],
        ):
            if row["description"] is not None:
                statement_ids["entity"].append(row["id"])
            if row["entity_id"] is None:
                continue
            delta = self.entities.setdefault(row["entity_id"], Delta())
            counted_ids = self.removed_mentions.setdefault(row["chunk_id"], set())
            if row["entity_id"] not in counted_ids:
                counted_ids.add(row["entity_id"])
                delta.count_chunk(-1, row["chunk_id"] in self.row_chunks)
            delta.removed_ranks.add(row["evidence_rank"])
            self.values[row["entity_id"], "n", row["name"]] -= 1
            self.values[row["entity_id"], "t", row["type"]] -= 1
            if row["description"]:
                self.values[row["entity_id"], "d", row["description"]] -= 1
        for item_kind, ids in statement_ids.items():
            if ids:
                db.query(
                    "SELECT graphrag._bm25_remove($1, $2, $3)",
                    ["int4", "text", "int8[]"],
                    [self.corpus_id, f"{item_kind}_mention", ids],
                )

    def _count_statement(self, relationship_id: int, description: str, keywords: Iterable[str], sign: int) -> None:
        if description:
            self.relationship_values[relationship_id, "d", description] += sign
        for keyword in keywords:
            self.relationship_values[relationship_id, "k", keyword] += sign


# Between the keywords of a mention on their way into an array; no keyword holds a control character.
_SEPARATOR = "\x1f"

_INSERT_ENTITY_MENTIONS = """
INSERT INTO graphrag.entity_mentions (corpus_id, document_id, chunk_id, entity_id, raw_key, name, type, tf, evidence_rank,
                                      start_offset, end_offset, windows, id, description, tsv, attributes, name_of)
SELECT $1, u.document_id, u.chunk_id, u.entity_id, u.raw_key, u.name, u.type, u.tf, u.evidence_rank,
       u.start_offset, u.end_offset, u.windows::int[],
       coalesce(u.id, pg_catalog.nextval('graphrag.entity_mentions_id_seq')), u.description,
       pg_catalog.to_tsvector(u.config::regconfig, u.lexical), u.attributes::jsonb, u.name_of
  FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
       AS u (document_id, chunk_id, entity_id, raw_key, name, type, tf, evidence_rank, start_offset, end_offset, windows,
             id, description, config, lexical, attributes, name_of)
"""
_ENTITY_MENTION_TYPES = [
    "int4",
    *["int8[]"] * 3,
    *["text[]"] * 3,
    "int4[]",
    "int8[]",
    *["int4[]"] * 2,
    "text[]",
    "int8[]",
]
_ENTITY_MENTION_TYPES += ["text[]"] * 5


def _place(evidence: Evidence | None) -> tuple[int | None, int | None, int | None]:
    """Return a mention's evidence_rank, start_offset and end_offset."""
    return (evidence.rank, evidence.start, evidence.end) if evidence else (None, None, None)


def _statement_columns(
    statement: Statement | None, draft: ChunkDraft
) -> tuple[int | None, str | None, str | None, str | None]:
    """Return a mention's id (None: the next), its description, and configuration and text of its tsv."""
    if statement is None:
        return None, None, None, None
    return statement.mention_id, statement.description, "pg_catalog." + REGCONFIG[draft.language], statement.lexical


def insert_entity_mentions(db: Database, corpus_id: int, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert the rows of `entity_mentions`."""
    db.query_rows(_INSERT_ENTITY_MENTIONS, _ENTITY_MENTION_TYPES, rows, corpus_id)


def entity_mentions(change: Change, ids: dict[str, int | None]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of new mentions, and count in `change` what they add."""
    for document_id, chunk_id, draft in change.chunks:
        counted_ids = change.new_mentions.setdefault(chunk_id, set())
        for key, entity in draft.entities.items():
            entity_id, name, statement = ids[key], entity.name, entity.statement
            place = (*_place(entity.evidence), _array(entity.windows), *_statement_columns(statement, draft))
            attributes = json_text(entity.attributes) if entity.attributes else None
            yield (
                document_id,
                chunk_id,
                entity_id,
                key,
                name,
                entity.type,
                entity.tf,
                *place,
                attributes,
                entity.name_of,
            )
            if entity_id is None:
                continue
            delta = change.entities.setdefault(entity_id, Delta())
            if entity_id not in counted_ids:
                counted_ids.add(entity_id)
                delta.count_chunk(1, chunk_id in change.row_chunks)
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
    *["int8[]"] * 3,
    *["text[]"] * 2,
    "numeric[]",
    "bool[]",
    "int8[]",
    *["int4[]"] * 2,
]
_RELATIONSHIP_MENTION_TYPES += ["text[]", "int8[]", *["text[]"] * 4]


def insert_relationship_mentions(db: Database, corpus_id: int, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert the rows of `relationship_mentions`."""
    db.query_rows(_INSERT_RELATIONSHIP_MENTIONS, _RELATIONSHIP_MENTION_TYPES, rows, corpus_id)


def relationship_mentions(
    change: Change, ids: dict[str, int | None], pairs: Pairs, relationship_ids: dict[tuple[int, int], int]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of new mentions, and count in `change` what they add."""
    for document_id, chunk_id, draft in change.chunks:
        counted_ids: set[int] = set()
        for keys, relationship in draft.relationships.items():
            # Keys are in order, so a tie goes to the smaller source; the flag is relative to the ids.
            source, target = keys if relationship.forward >= 0 else (keys[1], keys[0])
            pair, statement = pairs[keys], relationship.statement
            relationship_id, forward = (relationship_ids[pair], ids[source] == pair[0]) if pair else (None, True)
            keywords = statement.keywords if statement else relationship.keywords
            place = (
                *_place(relationship.evidence),
                _array(relationship.windows),
                *_statement_columns(statement, draft),
            )
            item_columns = (relationship_id, source, target, relationship.weight, forward)
            yield document_id, chunk_id, *item_columns, *place, _SEPARATOR.join(keywords)
            if relationship_id is None:
                continue
            delta = change.relationships.setdefault(relationship_id, Delta())
            if relationship_id not in counted_ids:
                counted_ids.add(relationship_id)
                delta.count_chunk(1, chunk_id in change.row_chunks)
            delta.weight += relationship.weight
            delta.direction += 1 if forward else -1
            delta.add_evidence(relationship.evidence)
            if statement is not None:
                change._count_statement(relationship_id, statement.description, keywords, 1)
                change.tokens[statement.description] = statement.tokens
            elif keywords:
                change._count_statement(relationship_id, "", keywords, 1)


def _array(windows: int) -> str:
    """Return the numbers of the bits set, as an SQL array."""
    if windows == 1:
        return "{0}"
    return "{" + ",".join(str(number) for number in range(windows.bit_length()) if windows >> number & 1) + "}"


def add_to_bm25(db: Database, change: Change) -> None:
    """Make the new mentions that have a text of their own searchable."""
    items: dict[str, list[tuple[int, int]]] = {"entity": [], "relationship": []}
    for document_id, _, draft in change.chunks:
        for item_kind, mentions in (
            ("entity", draft.entities.values()),
            ("relationship", draft.relationships.values()),
        ):
            items[item_kind] += [
                (mention.statement.mention_id, document_id) for mention in mentions if mention.statement
            ]
    for item_kind, rows in items.items():
        if rows:
            db.query(
                "SELECT graphrag._bm25_add($1, $2, $3, $4)",
                ["int4", "text", "int8[]", "int8[]"],
                [change.corpus_id, f"{item_kind}_mention", *columns(rows)],
            )
