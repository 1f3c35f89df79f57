"""Documents together with their pictures, as they are stored."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pg_graphrag.beside.readers import Item, Picture, ReadError, ReadProgress, ReadWarning, Skipped
from pg_graphrag.beside.readers.pictures import MAX_STORED
from pg_graphrag.ground.document import Document

# Columns of graphrag.pictures that a reader knows, beside the content.
_COLUMNS = ("page", "place", "width", "height", "alternative_text", "caption", "recognised_text")


def gathered(
    items: Iterable[Item],
) -> Iterator[tuple[Document, list[dict[str, Any]]] | ReadError | ReadWarning | ReadProgress | Skipped]:
    """Yield each document with its pictures, as `GraphRAG.set_pictures` takes them; errors, warnings and progress as they come.

    Of a picture that is larger than what is kept, a warning.
    """
    document: Document | None = None
    pictures: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, Document):
            if document is not None:
                yield document, pictures
            document, pictures = item, []
        elif not isinstance(item, Picture):
            yield item
        elif len(item.data) > MAX_STORED:
            reason = f"picture {item.index} has {len(item.data):,} bytes; at most {MAX_STORED:,} are kept"
            yield ReadWarning(Path(item.source_key), reason)
        elif document is not None and item.source_key == document.source_key:
            pictures.append({"content": item.data} | {name: getattr(item, name) for name in _COLUMNS})
    if document is not None:
        yield document, pictures
