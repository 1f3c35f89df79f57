"""Documents together with their pictures, as the database stores them."""

from collections.abc import Iterable, Iterator
from typing import Any

from pg_graphrag.beside.readers import Item, Picture, ReadError, ReadProgress, ReadWarning, Skipped
from pg_graphrag.ground.document import Document

# Columns of graphrag.pictures that a reader knows, beside the content.
_COLUMNS = ("page", "is_page", "place", "width", "height", "alternative_text", "caption", "recognised_text")


def gathered(
    items: Iterable[Item],
) -> Iterator[tuple[Document, list[dict[str, Any]]] | ReadError | ReadWarning | ReadProgress | Skipped]:
    """Yield each document with its pictures, as `GraphRAG.set_pictures` takes them, and all else as it comes."""
    document: Document | None = None
    pictures: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, Document):
            if document is not None:
                yield document, pictures
            document, pictures = item, []
        elif not isinstance(item, Picture):
            yield item
        elif document is not None and item.source_key == document.source_key:
            pictures.append({"content": item.data} | {name: getattr(item, name) for name in _COLUMNS})
    if document is not None:
        yield document, pictures
