"""Documents of another system, with its chunks and graph, in the form that ``graphrag.import_documents`` takes."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import psycopg

from pg_graphrag.beside.client import GraphRAG
from pg_graphrag.ground.errors import GraphRAGError

# One statement's worth. An argument of the extension's holds 8,388,608 characters.
_MAX_ENTRIES = 200
_MAX_CHARACTERS = 2_000_000
# Of short texts of numbers.
_MAX_NUMBERS = 100_000
# Lines that a system may have put before a chunk: title and metadata.
_MAX_HEAD = 20
_MILLIONTH = Decimal("0.000001")


@dataclass(slots=True)
class Unit:
    """A chunk of another system, and what that found in it."""

    text: str
    entities: list[dict[str, Any]] = field(default_factory=list)
    relationships: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)


def document(
    source_key: str, title: str | None, content: str, metadata: Mapping[str, Any], units: Sequence[Unit]
) -> dict[str, Any]:
    """Return an entry for import_documents().

    A chunk is looked for in the content, without the lines before it that the other system added (its `head`). Where one
    cannot be found, the content is put together from the chunks.
    """
    content = content.replace("\0", "")
    places = _places(content, [unit.text.replace("\0", "") for unit in units])
    if places is None:
        content, places = _content_of_chunks([unit.text.replace("\0", "") for unit in units])
    chunks: list[dict[str, Any]] = []
    own_start = 0
    for unit, (start, end, head) in zip(units, places, strict=True):
        own_start = max(start, min(own_start, end))
        chunk = {"start": start, "own_start": own_start, "end": end, "entities": unit.entities}
        chunk |= {"relationships": unit.relationships, "claims": unit.claims}
        chunks.append(chunk | ({"head": head} if head else {}))
        own_start = end
    return {"source_key": source_key, "title": title, "content": content, "metadata": metadata, "chunks": chunks}


def _places(content: str, texts: Iterable[str]) -> list[tuple[int, int, str]] | None:
    """Return (start, end, head) of each chunk, in order; None where one is not in the content."""
    places = []
    search_start = last_end = 0
    for text in texts:
        for body in _bodies(text):
            start = content.find(body, search_start) if body else -1
            # Own parts follow each other.
            if start >= 0 and start + len(body) >= last_end:
                break
        else:
            return None
        last_end = start + len(body)
        places.append((start, last_end, text[: len(text) - len(body)]))
        search_start = start + 1
    return places


def _bodies(text: str) -> Iterator[str]:
    """Yield a chunk's text, then the text without its first lines."""
    yield text
    for _ in range(_MAX_HEAD):
        _, line_end, text = text.partition("\n")
        if not line_end:
            return
        yield text


def _content_of_chunks(texts: Iterable[str]) -> tuple[str, list[tuple[int, int, str]]]:
    places = []
    content = ""
    for text in texts:
        content += "\n\n" if content else ""
        places.append((len(content), len(content) + len(text), ""))
        content += text
    return content, places


def shares(weight: float, count: int) -> list[Decimal]:
    """Return what each of `count` mentions weighs so that together they weigh `weight`."""
    if not 0 < weight < math.inf or not count:
        return [Decimal(1)] * count
    total = Decimal(str(weight))
    share = max((total / count).quantize(_MILLIONTH), _MILLIONTH) if count > 1 else total
    first = total - share * (count - 1)
    return [first if first > 0 else share, *[share] * (count - 1)]


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: `dropped` says what could not be used."""

    documents: int = 0
    unchanged: int = 0
    left_out: tuple[str, ...] = ()

    def __add__(self, more: "Imported") -> "Imported":
        return Imported(
            self.documents + more.documents, self.unchanged + more.unchanged, (*self.left_out, *more.left_out)
        )


def send(connection: psycopg.Connection[Any], corpus: str, documents: Iterable[Mapping[str, Any]]) -> Imported:
    """Import documents. A missing corpus is made, without an extractor of its own.

    It makes several calls: make them one transaction (`client.hosts.transaction`).

    Raises GraphRAGError: 55000 if searches of the corpus would ignore the import.
    """
    rag = GraphRAG(connection, corpus)
    total = Imported()
    row = connection.execute(
        "SELECT coalesce(options ->> 'extractor', 'nlp') FROM graphrag.corpora WHERE name = %s", [corpus]
    ).fetchone()
    if row is None:
        rag.create_corpus(extractor="given")
    elif row[0] == "nlp":
        raise GraphRAGError(
            f'corpus "{corpus}" finds concepts by itself and would not search the descriptions that are imported',
            sqlstate="55000",
            hint="Name a new corpus with --corpus, or change the option extractor of this one to given or llm.",
        )
    for part in parts(documents):
        counts = rag.call("import_documents", documents=part)
        total += Imported(counts["documents"], counts["unchanged"], tuple(counts["dropped"]))
    return total


def send_communities(
    connection: psycopg.Connection[Any],
    corpus: str,
    communities: Iterable[Mapping[str, Any]],
    cited: Mapping[str, Mapping[str, Any]],
) -> None:
    """Import communities, and what the numbers in their texts stand for: in one transaction, as `send`."""
    rag = GraphRAG(connection, corpus)
    of_communities = ((part, None) for part in parts(communities))
    of_numbers = (
        ("[]", _dumps({kind: dict(json.loads(part))}))
        for kind, stands_for in cited.items()
        for part in parts(stands_for.items(), _MAX_NUMBERS)
    )
    for number, (part, numbers) in enumerate((*of_communities, *of_numbers)):
        rag.call("import_communities", communities=part, cited=numbers, more=number > 0)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_number)


def _number(value: Any) -> Any:
    # Exact where it matters: jsonb keeps all digits of the shortest form of a float.
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def parts(entries: Iterable[Any], most: int = _MAX_ENTRIES) -> Iterator[str]:
    """Yield JSON arrays of entries, each small enough for one statement."""
    batch: list[str] = []
    size = 0
    for entry in map(_dumps, entries):
        if batch and (len(batch) >= most or size + len(entry) > _MAX_CHARACTERS):
            yield f"[{','.join(batch)}]"
            batch, size = [], 0
        batch.append(entry)
        size += len(entry)
    if batch:
        yield f"[{','.join(batch)}]"
