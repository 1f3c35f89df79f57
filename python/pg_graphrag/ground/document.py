"""Documents as applications give them, and batches of them that fit one statement."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeAlias, cast

from pg_graphrag.ground.errors import GraphRAGError

MAX_BATCH_DOCUMENTS = 500
MAX_BATCH_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True)
class Document:
    """One row of ``graphrag.documents``, as an application writes it.

    `content`: the text.
    `source_key`: the application's own key, unique in the corpus; the server takes a hash of title and content when absent.
    `title`: indexed with every chunk.
    `metadata`: anything JSON can hold; ``search(filter=…)`` reads it.
    `valid_from`, `valid_to` (datetime): time the document holds for.
    """

    content: str
    source_key: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    valid_from: datetime | None = None
    valid_to: datetime | None = None


DocumentLike: TypeAlias = Document | Mapping[str, Any] | str

_FIELDS = frozenset(item.name for item in fields(Document))


def as_document(document: DocumentLike) -> Document:
    """Return `document` (a `Document`, a mapping with its fields, or only the text) as a `Document`.

    Raises GraphRAGError: 22023 when a mapping has an unknown field or no ``content``, and for anything else.
    """
    if isinstance(document, Document):
        return document
    if isinstance(document, str):
        return Document(document)
    if not isinstance(document, Mapping):
        raise GraphRAGError(
            f"a document cannot be of type {type(document).__name__}",
            hint='Give a text, a mapping with the fields of Document, or several; of a data frame its to_dict("records").',
        )
    unknown = sorted(set(document) - _FIELDS)
    if unknown:
        raise GraphRAGError(
            f"a document has no field {unknown[0]!r}",
            hint=f"Its fields are {', '.join(sorted(_FIELDS))}; put anything else into metadata.",
        )
    if document.get("content") is None:
        raise GraphRAGError(
            f"a document without content: {dict(document)!r:.200}", hint='Give its text as "content"; it may be empty.'
        )
    return Document(**document)


def as_documents(document: DocumentLike | Iterable[DocumentLike]) -> Iterator[Document]:
    """Iterate over one document or many."""
    # A data frame would give the names of its columns, and bytes numbers.
    is_many = isinstance(document, Iterable) and not isinstance(document, bytes) and not hasattr(document, "columns")
    if isinstance(document, Document | Mapping | str) or not is_many:
        yield as_document(cast(DocumentLike, document))
    else:
        yield from map(as_document, document)


def batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Cut `documents` into lists of at most `MAX_BATCH_DOCUMENTS` documents or about `MAX_BATCH_CHARACTERS` characters.

    A later document with the same key replaces an earlier one of its batch, as it would if they were inserted one by
    one: one statement cannot touch a row twice.
    """
    batch: dict[str | tuple[str | None, str], Document] = {}
    characters = 0
    for document in documents:
        batch[document.source_key or (document.title, document.content)] = document
        characters += len(document.content)
        if len(batch) >= MAX_BATCH_DOCUMENTS or characters >= MAX_BATCH_CHARACTERS:
            yield list(batch.values())
            batch, characters = {}, 0
    if batch:
        yield list(batch.values())
