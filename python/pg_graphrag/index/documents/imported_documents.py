"""Documents that come with their chunks and mentions: graphrag.import_documents, and their part in indexing."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_checks import as_list, bad_field, check_object, check_text
from pg_graphrag.ground.json_reading import read_exact_json
from pg_graphrag.index.extraction.extracted_mentions import add_mentions
from pg_graphrag.index.extraction.records import Extraction
from pg_graphrag.index.graph.drafts import Claim, DocumentDraft, DueDocument
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import find_corpus
from pg_graphrag.text.chunks import Chunk

_DOCUMENT = {"source_key", "title", "content", "metadata", "chunks"}
_CHUNK = {"start", "own_start", "end", "head", "entities", "relationships", "claims"}
_ENTITY = {"name", "type", "description"}
_RELATIONSHIP = {"source", "target", "keywords", "description", "weight"}
_CLAIM = {"subject", "object", "type", "status", "start", "end", "description", "source_text"}
# Most reasons for dropped entries that are returned.
_MAX_DROPPED = 100

_INSERT = """
WITH given AS (
    SELECT *
      FROM ROWS FROM (pg_catalog.jsonb_to_recordset($2)
                      AS (source_key text, title text, content text, metadata jsonb, chunks jsonb))
           WITH ORDINALITY AS g (source_key, title, content, metadata, chunks, place)
), stored AS (
    INSERT INTO graphrag.documents AS d (corpus, source_key, title, content, metadata)
    SELECT $1, g.source_key, g.title, g.content, coalesce(g.metadata, '{}') FROM given g
     ORDER BY g.source_key COLLATE "C", g.place
        ON CONFLICT (corpus, source_key) DO UPDATE
       SET title = EXCLUDED.title, content = EXCLUDED.content, metadata = EXCLUDED.metadata
    RETURNING d.id, d.corpus_id, d.source_key, d.content_hash
)
INSERT INTO graphrag.imported_extractions AS i (document_id, corpus_id, content_hash, chunks)
SELECT s.id, s.corpus_id, s.content_hash, g.chunks
  FROM stored s JOIN given g ON g.source_key = s.source_key
    ON CONFLICT (document_id) DO UPDATE
   SET content_hash = EXCLUDED.content_hash, chunks = EXCLUDED.chunks
 WHERE (i.content_hash, i.chunks) IS DISTINCT FROM (EXCLUDED.content_hash, EXCLUDED.chunks)
RETURNING i.document_id
"""
# An existing document with the same content is indexed again, because its mentions have changed.
_REINDEX = """
UPDATE graphrag.documents d
   SET indexed_at = NULL
 WHERE d.id = ANY ($1) AND d.indexed_at IS NOT NULL
"""


def import_documents(db: Database, corpus: str | None, documents: str | None) -> str:
    """Serve graphrag.import_documents(); all entries are checked before any is written.

    Raises GraphRAGError: 22023 with the place of the error; 42704 for an unknown corpus.
    """
    target = find_corpus(db, corpus)
    entries = _read_documents(documents)
    reasons: list[str] = []
    keys: set[str] = set()
    for place, document in enumerate(entries):
        place_name = f"documents[{place}]"
        _check_document(document, place_name)
        if document["source_key"] in keys:
            raise GraphRAGError(
                f'{place_name}: source_key "{document["source_key"]}" is there twice', hint="Give each once."
            )
        keys.add(document["source_key"])
        for number, chunk in enumerate(document["chunks"]):
            reasons += [
                f"{document['source_key']}, chunk {number}: {reason}" for reason in _extraction(chunk).drop_reasons
            ]
    changed_rows = db.query(_INSERT, ["text", "jsonb"], [target.name, documents])
    db.query(_REINDEX, ["int8[]"], [[row["document_id"] for row in changed_rows]])
    summary = {
        "documents": len(entries),
        "unchanged": len(entries) - len(changed_rows),
        "dropped": reasons[:_MAX_DROPPED],
    }
    return json.dumps(summary, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ImportedDocument:
    """Imported chunks of a document, valid while its content stays."""

    chunks: list[dict[str, Any]]

    def spans(self, content: str, count: Callable[[str], int]) -> Iterator[Chunk]:
        """Yield the imported chunks of the document's content."""
        previous_end = 0
        for ordinal, entry in enumerate(self.chunks):
            start, end = entry["start"], entry["end"]
            yield Chunk(
                ordinal, start, end, entry.get("own_start", max(start, previous_end)), count(content[start:end])
            )
            previous_end = max(previous_end, end)

    def has_prose(self, draft: DocumentDraft) -> bool:
        """Whether concepts are searched as well: no."""
        return False

    def add_to(self, draft: DocumentDraft, count: Callable[[str], int], read: object) -> None:
        """Add the mentions and claims to a draft with the chunks of `spans`."""
        of_content = [chunk for chunk in draft.chunks if chunk.picture_id is None]
        for chunk, entry in zip(of_content, self.chunks, strict=True):
            add_mentions(chunk, _extraction(entry), count)


def imported_of(db: Database, documents: Sequence[DueDocument]) -> dict[int, ImportedDocument]:
    """Return {id: imported chunks} of documents that have some."""
    rows = db.query(
        "SELECT i.document_id, i.chunks FROM unnest($1, $2) AS u (id, hash)"
        ' JOIN graphrag.imported_extractions i ON i.document_id = u.id AND i.content_hash = u.hash COLLATE "C"',
        ["int8[]", "text[]"],
        [[document.id for document in documents], [document.content_hash for document in documents]],
    )
    return {row["document_id"]: ImportedDocument(read_exact_json(row["chunks"])) for row in rows}


def _extraction(chunk: dict[str, Any]) -> Extraction:
    """Return a chunk's mentions, cleaned like a model's mentions; weights stay unchanged."""
    extraction = Extraction()
    for entity in chunk.get("entities") or ():
        extraction.add_entity(entity["name"], entity.get("type") or "", entity.get("description") or "")
    for entry in chunk.get("relationships") or ():
        weight = entry.get("weight")
        extraction.add_relationship(
            entry["source"],
            entry["target"],
            entry.get("keywords") or (),
            entry.get("description") or "",
            Decimal(1 if weight is None else weight),
        )
    for entry in chunk.get("claims") or ():
        texts = {name: entry.get(name) for name in _CLAIM}
        texts |= {name: texts[name] or "" for name in ("subject", "type", "status", "description")}
        extraction.add_claim(Claim(**texts))
    return extraction


def _read_documents(documents: str | None) -> list[dict[str, Any]]:
    value = read_exact_json(documents) if documents else None
    if not isinstance(value, list):
        raise GraphRAGError(
            f"documents must be an array, not {str(documents)[:40]!r}",
            hint='For example [{"source_key": "a", "content": "Ada met Bob.", "chunks": [{"start": 0, "end": 12,'
            ' "entities": [{"name": "Ada", "type": "person", "description": "…"}]}]}].',
        )
    return value


def _check_document(document: Any, path: str) -> None:
    check_object(document, path, _DOCUMENT)
    check_text(document, path, "source_key", is_required=True)
    check_text(document, path, "content", is_required=True)
    check_text(document, path, "title")
    if not isinstance(document.get("metadata", {}), dict):
        raise bad_field(path, "metadata", document["metadata"], "an object")
    if not isinstance(document.get("chunks"), list):
        raise bad_field(path, "chunks", document.get("chunks"), "an array; a plain document is inserted into documents")
    previous_end = 0
    for place, chunk in enumerate(document["chunks"]):
        chunk_path = f"{path}.chunks[{place}]"
        check_object(chunk, chunk_path, _CHUNK)
        previous_end = _check_span(chunk, chunk_path, previous_end, len(document["content"]))
        check_text(chunk, chunk_path, "head")
        for name, fields, texts, required_fields in (
            ("entities", _ENTITY, ("type", "description"), ("name",)),
            ("relationships", _RELATIONSHIP, ("description",), ("source", "target")),
            ("claims", _CLAIM, tuple(_CLAIM - {"subject"}), ("subject",)),
        ):
            for number, entry in enumerate(as_list(chunk, chunk_path, name)):
                entry_path = f"{chunk_path}.{name}[{number}]"
                check_object(entry, entry_path, fields)
                for text in texts:
                    check_text(entry, entry_path, text)
                for text in required_fields:
                    check_text(entry, entry_path, text, is_required=True)
                if name == "relationships":
                    _check_relationship(entry, entry_path)


def _check_relationship(entry: dict[str, Any], path: str) -> None:
    keywords = as_list(entry, path, "keywords")
    if not all(isinstance(keyword, str) for keyword in keywords):
        raise bad_field(path, "keywords", keywords, "an array of strings")
    weight = entry.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, (int, Decimal)) or not 0 < weight < 1_000_000_000:
        raise bad_field(path, "weight", weight, "a number above 0")


def _check_span(chunk: dict[str, Any], path: str, previous_end: int, length: int) -> int:
    """Check the offsets of a chunk; return its end. Own parts must not overlap, as windows are cut from them."""
    for name in ("start", "end"):
        if name not in chunk:
            raise bad_field(path, name, None, "the number of a character")
    start: Any = chunk["start"]
    end: Any = chunk["end"]
    own_start = chunk.setdefault("own_start", max(start, previous_end) if isinstance(start, int) else 0)
    if not all(type(value) is int for value in (start, own_start, end)) or not 0 <= start <= own_start <= end <= length:
        raise GraphRAGError(
            f"{path} cannot be start {start}, own_start {own_start}, end {end} in {length} characters",
            hint="Give 0 <= start <= own_start <= end <= length of the content, and chunks in order.",
        )
    if own_start < previous_end:
        raise GraphRAGError(
            f"{path}: own_start {own_start} is before the end of the chunk before, {previous_end}",
            hint="Give chunks in order; leave own_start out to have it computed.",
        )
    return max(previous_end, int(end))
