"""Mentions of rows of attached tables (sql/04_documents/031_attached_rows.sql says what these are).

Every mention is a function of its row alone. So the order of rows and documents does not change the graph, and no
hidden row changes what a reader gets.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pg_graphrag.ground.json_reading import read_shown_json
from pg_graphrag.index.extraction.records import MAX_NAME, UNKNOWN, clean_name
from pg_graphrag.index.graph.drafts import (
    ChunkDraft,
    DocumentDraft,
    DueDocument,
    EntityDraft,
    Evidence,
    RelationshipDraft,
)
from pg_graphrag.index.indexing.item_vectors import LINES_END, WindowNames, document_names, window_text
from pg_graphrag.index.indexing.prepare import MAX_TITLE, add_concepts, evidence_of
from pg_graphrag.server import Database, Row
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.text.chunks import Chunk, chunk
from pg_graphrag.text.concept import key
from pg_graphrag.text.prose import prose
from pg_graphrag.text.tokenizers import tokenizer

# Relationships that a row has with its own names.
NAME, ALIAS, KEY = "name", "alias", "key"
# A code: capitals and digits, some of them apart. "RZ-500K", "LH 455", "A320-200"; not "Room 12".
_CODE = re.compile(r"(?=.*\d)(?=.*[^\W\d_])[^\W_]+(?:[ -][^\W_]+){0,3}")
_MAX_CODE = 24

_ROWS = f"""
SELECT d.id, d.source_key, d.title, pg_catalog.left(d.title, {MAX_TITLE}) AS indexed_title, d.metadata,
       a.kind, a.entity_type, a.name_is_unique, a.is_referenced,
       a.key_columns = ARRAY[a.title_column] AS is_named_by_key, a.metadata_keys::text[] AS attributes, a.reference_types,
       a.reference_prefixes, a.reference_by_name,
       pg_catalog.cardinality(a.content_columns) > 0 AS has_text
  FROM graphrag.documents d
  JOIN graphrag._attached_tables a ON a.id = d.attached_id AND a.kind <> 'documents'
 WHERE d.id = ANY ($1)
"""


class KnownDocument(Protocol):
    """A document that brings its mentions."""

    def spans(self, content: str, count: Callable[[str], int]) -> Iterable[Chunk]:
        """Return its chunks; `count`: tokens of a text."""

    def has_prose(self, draft: DocumentDraft) -> bool:
        """Whether concepts are found in a draft with the chunks of `spans`."""

    def add_to(self, draft: DocumentDraft, count: Callable[[str], int], read: WindowNames) -> None:
        """Add its mentions to such a draft; `read`: names in its windows, where it has prose."""


def rows_of(db: Database, corpus: Corpus, documents: Sequence[DueDocument]) -> dict[int, KnownDocument]:
    """Return {id: row} of the documents that are rows of attached tables."""
    rows = db.query(_ROWS, ["int8[]"], [[document.id for document in documents]])
    return {row["id"]: RowDocument(corpus, row, read_shown_json(row["metadata"])) for row in rows}


@dataclass(frozen=True, slots=True)
class RowDocument:
    """A row of an attached table: a row of `_ROWS`, and its metadata."""

    corpus: Corpus
    row: Row
    metadata: dict[str, Any]

    def spans(self, content: str, count: Callable[[str], int]) -> Iterator[Chunk]:
        """Cut the document as any other."""
        options, ranks = self.corpus.options, tokenizer(self.corpus.tokenizer, self.corpus.tokenizer_fingerprint)
        return iter(chunk(content, ranks, options.chunk_token_size, options.chunk_overlap))

    def has_prose(self, draft: DocumentDraft) -> bool:
        """Whether it has texts whose graph no model finds."""
        is_read = self.row["has_text"] and self.corpus.options.extractor == "nlp"
        # Without texts it is one chunk of lines, unless these are long.
        return is_read and any(LINES_END in piece.content for piece in draft.chunks)

    def add_to(self, draft: DocumentDraft, count: Callable[[str], int], read: WindowNames) -> None:
        """Add what the row says to its first chunk, and, without a model, the concepts of its texts."""
        draft.is_row = True
        if not draft.chunks:
            return
        first = draft.chunks[0]
        lines_end = first.content.find(LINES_END)
        if lines_end < 0:
            windows = (text for piece in draft.chunks for text in piece.window_texts())
            draft.window_texts = [window_text(self.row["indexed_title"], text) for text in windows]
            lines_end = len(first.content)
        if self.has_prose(draft):
            own_proses = []
            for piece in draft.chunks:
                own = prose(piece.text(piece.own_start, piece.end))
                if piece is first:
                    own = " " * lines_end + own[lines_end:]
                own_proses.append(own)
            names = document_names(draft.title, draft.chunks, read)
            with_full_names = self.corpus.options.full_names
            for _ in add_concepts(draft.chunks, None, own_proses, names, with_full_names=with_full_names):
                pass
        writing = _Mentions(first, lines_end)
        if self.row["kind"] == "entities":
            self._add_entity(writing)
        else:
            self._add_relationship(writing)

    def _add_entity(self, writing: "_Mentions") -> None:
        row, metadata = self.row, self.metadata
        name = clean_name(row["title"])
        plain = name if 0 < len(name) <= MAX_NAME and key(name) else row["source_key"]
        own = plain if row["name_is_unique"] or plain == row["source_key"] else f"{plain} ({row['source_key']})"
        attributes = {
            attribute: metadata[attribute] for attribute in row["attributes"] if metadata.get(attribute) is not None
        }
        own_key = writing.mention(own, row["entity_type"], attributes)
        names = {} if own == plain else {plain: NAME}
        for alias in metadata.get("aliases") or ():
            alias = clean_name(alias)
            if len(alias) <= MAX_NAME:
                names.setdefault(alias, ALIAS)
        for other in [plain, *names]:
            for spelling in [*code_spellings(other), *without_article(other)]:
                names.setdefault(spelling, ALIAS)
        if row["is_referenced"] and not row["is_named_by_key"] and own != row["source_key"]:
            names.setdefault(row["source_key"], KEY)
        writing.name(own_key, own_key)
        for other, relation in names.items():
            other_key = writing.mention(other, KEY if relation == KEY else UNKNOWN)
            writing.name(other_key, own_key)
            writing.relate(own_key, other_key, relation, writing.whole)
        for reference, target in self._targets():
            evidence = writing.line(f"{reference}: ")
            writing.relate(own_key, writing.mention(target, UNKNOWN), reference, evidence)

    def _add_relationship(self, writing: "_Mentions") -> None:
        targets = self._targets()
        if len(targets) == 2:
            (_, from_name), (relation, to_name) = targets
            source, target = (writing.mention(name, UNKNOWN) for name in (from_name, to_name))
            writing.relate(source, target, relation, writing.whole)

    def _targets(self) -> list[tuple[str, str]]:
        """Return (type, name or source key of the other row) of the relationships that it has."""
        row, metadata = self.row, self.metadata
        references = zip(row["reference_types"], row["reference_prefixes"], row["reference_by_name"], strict=True)
        return [
            (field, str(metadata[field]).removeprefix(prefix if by_name else ""))
            for field, prefix, by_name in references
            if metadata.get(field) is not None
        ]


class _Mentions:
    """Mentions in the lines of a row's first chunk."""

    def __init__(self, piece: ChunkDraft, lines_end: int) -> None:
        self._piece, self._lines_end = piece, lines_end
        self.whole = evidence_of(piece, 0, lines_end)

    def line(self, beginning: str) -> Evidence:
        """Return the line with this beginning; if there is none, the first line, which begins with the row's type."""
        content = self._piece.content
        start = content.find(f"\n{beginning}", 0, self._lines_end) + 1
        end = content.find("\n", start, self._lines_end)
        return evidence_of(self._piece, start, self._lines_end if end < 0 else end)

    def mention(self, name: str, type_: str, attributes: dict[str, Any] | None = None) -> str:
        """Mention an entity in the first window; return its key, "" for a name without letters."""
        entity_key = key(name)
        if not any(map(str.isalnum, entity_key)):
            return ""
        entity = self._piece.entities.get(entity_key)
        if entity is None:
            entity = self._piece.entities[entity_key] = EntityDraft(type_, self.whole, {name: 1}, 1)
        elif type_ != UNKNOWN:
            entity.type, entity.spellings = type_, {name: entity.tf + 1}
        entity.windows |= 1
        if attributes:
            entity.attributes = attributes
        return entity_key

    def name(self, entity_key: str, own_key: str) -> None:
        """Note that an entity which was mentioned is a name of the row's own."""
        if entity_key and own_key:
            self._piece.entities[entity_key].name_of = own_key

    def relate(self, source: str, target: str, relation: str, evidence: Evidence) -> None:
        """State a relationship; of several between two entities the types add up."""
        if not source or not target or source == target:
            return
        pair = (source, target) if source < target else (target, source)
        previous = self._piece.relationships.get(pair)
        relationship = previous or RelationshipDraft(evidence)
        relationship.keywords = tuple(sorted({*relationship.keywords, relation}))
        relationship.weight += 1
        relationship.forward += 1 if source < target else -1
        relationship.windows |= 1
        if relationship.evidence is None or evidence.rank < relationship.evidence.rank:
            relationship.evidence = evidence
        self._piece.relationships[pair] = relationship


def without_article(name: str) -> list[str]:
    """Return the key of a name without its article, as texts mention it; nothing for a name without an article."""
    name_key = key(name)
    shorter = name_key.removeprefix("the ")
    return [shorter] if shorter != name_key and shorter else []


def code_spellings(name: str) -> list[str]:
    """Return other spellings of a code: RZ-500K also as RZ500K and RZ 500K. Nothing for a name that is no code."""
    if len(name) > _MAX_CODE or name != name.upper() or not _CODE.fullmatch(name):
        return []
    parts = re.split(r"[ -]", name)
    if len(parts) == 1:
        # Between letters and digits, once: RZ500K is RZ-500K.
        match = re.fullmatch(r"([^\W\d_]+)(\d[^\W_]*)", name)
        parts = list(match.groups()) if match else parts
    spellings = {key(joint.join(parts)) for joint in ("", "-", " ")} if len(parts) > 1 else set()
    return sorted(spellings - {key(name)})
