"""A change of mentions: what comes and goes in one transaction, counted by entity and relationship."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from pg_graphrag.index.graph.drafts import ChunkDraft, Evidence
from pg_graphrag.index.graph.effects import Effects
from pg_graphrag.server import Database


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
        if evidence is None:
            return
        if self.best is None or evidence.rank < self.best.rank:
            self.best = evidence


@dataclass
class Change:
    """Mentions that come and go in one transaction, collected before the corpus is locked.

    `values`: how many more mentions give an entity a (n)ame, (t)ype or (d)escription; `relationship_values`: likewise
    (d)escription and (k)eyword; `tokens` of new descriptions. `removed_mentions`, `new_mentions`: {chunk: the entities that
    it mentioned, or mentions now}; `row_chunks`: which of these chunks are of rows.
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
        """Note a new chunk's mentions. `is_row`: it is of a row of an attached table."""
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


def pair_of(ids: dict[str, int | None], keys: tuple[str, str], curations: Effects) -> tuple[int, int] | None:
    """Return the ids of a pair of keys, in order; None where there is to be no such relationship."""
    first, second = ids[keys[0]], ids[keys[1]]
    if first is None or second is None or curations.pair(*keys) is None:
        return None
    return (first, second) if first < second else (second, first)
