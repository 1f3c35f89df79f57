"""Rows under column heads (CSV, sheets), as one text or as a document each."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.read_errors import ReadError
from pg_graphrag.beside.readers.source import Facts, Source
from pg_graphrag.beside.readers.tables import row_text, table_text
from pg_graphrag.ground.document import Document

# Rows that are looked at to find the heads, and to tell a small table.
_FIRST = 50
_SNIFFED = 1 << 14
# A number in a head is a year or the like; most heads are words.
_DELIMITERS = ",;\t|"
# Cells in single quotes, and how many there must be: apostrophes are not.
_SINGLE_QUOTED, _LEAST_QUOTED = re.compile(r"(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|]|$)", re.MULTILINE), 3
# A line that tells Excel.
_SEPARATOR = re.compile(r'"?sep=([^\w\s]|\t)"?\n', re.IGNORECASE)


def read_csv(source: Source) -> Iterator[Document | ReadError]:
    """Read a CSV file (delimited by comma, semicolon, tab or bar): rows that say their heads; or each a document."""
    # Some programs write the mark of byte order twice.
    text = decode(source.read(), source).removeprefix("\ufeff")
    declared = _SEPARATOR.match(text)
    text = text[declared.end() :] if declared else text
    # Cells may be as long as the file.
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), _dialect(text, source, declared and declared[1])))
    except csv.Error as error:
        raise source.error(f"cannot be read as CSV: {error}; check its quotes") from None
    if source.options.by_row:
        yield from row_documents(source, iter(rows), "text/csv", source.stem, "", Facts())
    else:
        yield source.document(row_lines(iter(rows)), "text/csv")


def _dialect(text: str, source: Source, declared: str | None) -> type[csv.Dialect]:
    is_tabbed = source.name.lower().endswith((".tsv", ".tab"))

    class Delimited(csv.excel):
        delimiter = declared or ("\t" if is_tabbed else _delimiter(text[:_SNIFFED]))
        quotechar = (
            "'" if '"' not in text[:_SNIFFED] and len(_SINGLE_QUOTED.findall(text[:_SNIFFED])) >= _LEAST_QUOTED else '"'
        )

    return Delimited


def _delimiter(sample: str) -> str:
    """Return the delimiter that cuts most lines into the same number of cells, more than one."""
    lines = [line for line in sample.split("\n")[:_FIRST] if line.strip()]

    def agreement(delimiter: str) -> tuple[float, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        usual = max(set(counts), key=counts.count) if counts else 1
        return (counts.count(usual) / len(counts), usual) if usual > 1 else (0.0, 0)

    return max(_DELIMITERS, key=agreement)


def row_lines(rows: Iterator[list[str]]) -> str:
    """Return rows as text: a small table as Markdown, else a line for each, with its heads."""
    heads, titles, body, _ = _heads(rows)
    head_lines = [" ".join(cell for cell in row if cell) for row in titles]
    first = list(islice(body, _FIRST + 1))
    if len(first) <= _FIRST:
        lines = [table_text([heads, *first] if heads else first)]
    else:
        lines = [f"- {line}" for row in chain(first, body) if (line := row_text(heads, map(_one_line, row)))]
    return "\n\n".join(block for block in ("\n".join(head_lines), "\n".join(lines)) if block)


def row_documents(
    source: Source, rows: Iterator[list[str]], mime: str, title: str, part: str, facts: Facts
) -> Iterator[Document]:
    """Yield a document for each row below the heads: lines of head and cell, and the fields in the metadata.

    A column ``title`` or ``name`` gives the title; ``id``, else the number of the row, the key.
    """
    heads, _, body, first_number = _heads(rows)
    for number, row in enumerate(body, first_number):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        named = [(heads[index] if index < len(heads) else "", cell) for index, cell in enumerate(cells) if cell]
        fields = {head: _one_line(cell) for head, cell in named if head}
        by_name = {head.lower(): cell for head, cell in fields.items()}
        content = "\n".join(f"{head}: {cell}" if head else cell for head, cell in named)
        document = source.document(content, mime, by_name.get("title") or by_name.get("name") or title, facts)
        yield replace(
            document,
            source_key=f"{source.key}#{part}{by_name.get('id') or number}",
            metadata={**document.metadata, "row": number, "fields": fields},
        )


def _one_line(cell: str) -> str:
    return " ".join(cell.split())


def _heads(rows: Iterator[list[str]]) -> tuple[list[str], list[list[str]], Iterable[list[str]], int]:
    """Return (heads, the lines above them, the rows below them, the number of the first of these from 1).

    The heads are the first row that is as wide as most of the rows after it; a title, a date and the like may stand above.
    """
    first = list(islice(rows, _FIRST))
    widths = [sum(1 for cell in row if cell.strip()) for row in first]
    usual = sorted(widths)[len(widths) // 2] if widths else 0
    place = next((index for index, width in enumerate(widths) if width > usual / 2 and width > 0), 0)
    if not first:
        return [], [], iter(()), 1
    heads = [_one_line(cell) for cell in first[place]]
    above = [[_one_line(cell) for cell in row] for row in first[:place] if any(cell.strip() for cell in row)]
    return heads, above, chain(first[place + 1 :], rows), place + 2
