"""Chunks of what pictures say, behind the chunks of their document's content."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pg_graphrag.server import Database
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.chunks import Chunk, chunk
from pg_graphrag.text.outline import PAGE_END
from pg_graphrag.text.tokenizers import Tokenizer

_PICTURES = """
SELECT p.document_id, p.id, p.place, p.page, p.caption, p.alternative_text, p.description, p.recognised_text
  FROM graphrag.pictures p
 WHERE p.document_id = ANY ($1)
 ORDER BY p.document_id, p.page, p.place, p.id
"""


@dataclass(frozen=True, slots=True)
class DuePicture:
    """What is indexed of a picture: `text`, at a character or on a page of its document."""

    id: int
    place: int | None
    page: int | None
    text: str

    @property
    def size(self) -> int:
        """Bytes of the text."""
        return len(self.text.encode())


def due_pictures(db: Database, document_ids: Sequence[int]) -> dict[int, list[DuePicture]]:
    """Return {document: its pictures with words, in their order}."""
    pictures: dict[int, list[DuePicture]] = {}
    for row in db.query(_PICTURES, ["int8[]"], [document_ids]) if document_ids else ():
        words = (row[name] for name in ("caption", "alternative_text", "description", "recognised_text"))
        # A page ends in the content alone. What the alternative text repeats is said once.
        distinct = dict.fromkeys(text.replace(PAGE_END, "\n").strip() for text in words if text)
        if text := "\n\n".join(part for part in distinct if part):
            picture = DuePicture(row["id"], row["place"], row["page"], text)
            pictures.setdefault(row["document_id"], []).append(picture)
    return pictures


def picture_pieces(
    pictures: Sequence[DuePicture], base: int, ordinal: int, options: Options, tokenizer: Tokenizer
) -> Iterator[tuple[DuePicture, int, Chunk]]:
    """Yield (picture, where its text begins, a chunk of it): texts follow each other from `base`, ordinals count from
    `ordinal`.
    """
    for picture in pictures:
        for piece in chunk(picture.text, tokenizer, options.chunk_token_size, options.chunk_overlap):
            moved = {name: base + getattr(piece, name) for name in ("start", "own_start", "end")}
            yield picture, base, replace(piece, ordinal=ordinal, **moved)
            ordinal += 1
        base += len(picture.text)
