"""The input of a reader: a file or a part of one, with the options of the run."""

import io
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from pg_graphrag.beside.readers.pictures import Gallery, Picture, without_marks
from pg_graphrag.beside.readers.read_errors import ReadError, ReadProgress, ReadWarning, Skipped
from pg_graphrag.ground.document import Document
from pg_graphrag.text import letters

# What readers yield.
Item: TypeAlias = Document | Picture | ReadError | ReadWarning | ReadProgress | Skipped


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read.

    `encoding`: encoding of texts that have no byte order mark. Without it, what a file declares, else UTF-8, else what its
      bytes look like.
    `by_row`: whether each row of a CSV file or sheet is a document of its own.
    `pictures`: whether the pictures of a document are yielded behind it.
    `ocr`: whether text of scans and pictures is recognised: ``never``, ``auto`` (pages of PDF without text, pictures) or
      ``always`` (every page of PDF, whatever text it has).
    `ocr_engine`: ``rapidocr`` or ``tesseract``.
    `ocr_turns`: a file that is locked while text is recognised: processes that share it take turns, each a page at a time.
    """

    encoding: str | None = None
    by_row: bool = False
    pictures: bool = False
    ocr: str = "never"
    ocr_engine: str = "rapidocr"
    ocr_turns: Path | None = None

    @property
    def recognises(self) -> bool:
        """Whether text of scans and pictures is recognised."""
        return self.ocr != "never"

    @property
    def reads_pictures(self) -> bool:
        """Whether files that are pictures are read."""
        return self.pictures or self.recognises


@dataclass(slots=True)
class Damage:
    """What of a file's bytes is no text in its encoding: how many places became U+FFFD, and the byte of the first."""

    places: int = 0
    encoding: str = ""
    first: int | None = None

    def note(self, places: int, encoding: str, first: int | None) -> None:
        """Count places."""
        if not self.places:
            self.encoding, self.first = encoding, first
        self.places += places

    def __str__(self) -> str:
        places = f"{self.places:,} invalid place{'s' if self.places > 1 else ''} of {self.encoding.upper()}"
        first = "" if self.first is None else f"{', the first' if self.places > 1 else ''} at byte {self.first:,}"
        became = "became" if self.places > 1 else "became a"
        return f"{places}{first} {became} U+FFFD; if it is of another encoding, name that by --encoding"


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or a part of one (an attachment).

    `path`: the file, for errors.
    `key`: ``source_key`` of its document, and ``path`` in the metadata.
    `name`: file name: its suffix decides its kind, its stem is the title if there is no other.
    `data`: the bytes, if they are a part of the file.
    `damage`: its invalid bytes; a warning counts them.
    `gallery`: the pictures of its document, if they are wanted.
    `left_out`: {description: number} of its parts without text; a warning counts them.
    """

    path: Path
    key: str
    name: str
    options: ReadOptions = field(default_factory=ReadOptions)
    data: bytes | None = None
    damage: Damage = field(default_factory=Damage)
    gallery: Gallery = field(default_factory=Gallery)
    left_out: Counter[str] = field(default_factory=Counter)

    def read(self) -> bytes:
        """Return all bytes."""
        return self.path.read_bytes() if self.data is None else self.data

    def open(self) -> BinaryIO:
        """Return a file object, which the caller closes."""
        return self.path.open("rb") if self.data is None else io.BytesIO(self.data)

    @property
    def stem(self) -> str:
        """Return the file name without its suffix."""
        return Path(self.name).stem

    def error(self, reason: str) -> ReadError:
        """Return the error that this source cannot be read for a reason."""
        return ReadError(self.path, reason if self.data is None else f"{self.name}: {reason}")

    def warning(self, reason: str) -> ReadWarning:
        """Return the warning that a document lacks something."""
        return ReadWarning(self.path, reason if self.data is None else f"{self.name}: {reason}")

    def is_empty(self) -> bool:
        """Whether it has no bytes."""
        return not self.size()

    def size(self) -> int:
        """Return the number of bytes."""
        return self.path.stat().st_size if self.data is None else len(self.data)

    def document(self, content: str, mime: str, title: str | None = None, facts: "Facts | None" = None) -> Document:
        """Return the document with a text; its title is `title`, else the stem of the file's name."""
        facts = facts or Facts()
        metadata: dict[str, Any] = {"path": self.key, "mime": mime} | facts.metadata()
        if "modified" not in metadata and self.data is None:
            metadata["modified"] = datetime.fromtimestamp(int(self.path.stat().st_mtime), UTC).isoformat()
        title = " ".join(letters.without_stray_invisible(printable(without_marks(title or ""))).split())
        return Document(
            letters.without_stray_invisible(printable(content)),
            self.key,
            title or self.stem,
            clean_json(metadata),
            valid_from=facts.date_of_version,
        )


@dataclass(slots=True)
class Facts:
    """What a file says of itself; `others` joins the metadata. Dates have a time zone: UTC where the file names none."""

    author: str | None = None
    published: datetime | None = None
    created: datetime | None = None
    modified: datetime | None = None
    language: str | None = None
    others: dict[str, Any] = field(default_factory=dict)

    @property
    def date_of_version(self) -> datetime | None:
        """Return the date of the file: of its publication, else of its last change."""
        return self.published or self.modified or self.created

    def metadata(self) -> dict[str, Any]:
        """Return the facts as JSON, those that are known."""
        names = ("author", "published", "created", "modified", "language")
        values = {name: getattr(self, name) for name in names}
        json_values = {
            name: value.isoformat() if isinstance(value, datetime) else value.strip()
            for name, value in values.items()
            if value
        }
        return {name: value for name, value in json_values.items() if value} | self.others


def numbers_text(what: str, numbers: list[int]) -> str:
    """Return numbers in words: "pages 3, 7–9"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in spans)
    return f"{what}{'s' if len(numbers) > 1 else ''} {text}"


def printable(text: str) -> str:
    """Replace what PostgreSQL cannot hold: NUL and halves of surrogate pairs."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_json(value: Any) -> Any:
    """Return JSON that PostgreSQL can hold; other values become text."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(str(name)): clean_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else printable(str(value))


def as_time(value: Any) -> datetime | None:
    """Return a date, a time or ISO 8601 text as a time with a zone; None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        try:
            value = datetime.fromisoformat(f"{text}-01-01" if len(text) == 4 and text.isdecimal() else text)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None
