"""Delimited rows: how LightRAG's and GraphRAG's prompts ask for entities and relationships."""

import re

from pg_graphrag.index.extraction.records import STATUSES, Extraction
from pg_graphrag.index.graph.drafts import Claim

# <|> of GraphRAG and of LightRAG before 1.4, <|#|> since, and what models make of the latter.
_DELIMITER = re.compile(r"<\|#\|>|<\|>|<#>|<\|#>|<#\|>")
_OPENING = re.compile(r"\(\s*[\"']?\w")
_COMPLETE = re.compile(r"<\|COMPLETE\|>", re.I)
_STRENGTH = re.compile(r'^["\']?\d+(?:\.\d+)?(?:\s*/\s*10)?["\']?$')


def has_rows(text: str) -> bool:
    """Whether `text` looks like delimited rows."""
    return bool(_DELIMITER.search(text) or _COMPLETE.search(text))


def read_rows(text: str) -> tuple[Extraction, str | None]:
    """Return the extraction of the rows, and what is wrong with them, None if nothing is.

    Entities: ``entity, name, type, description``. Relationships: ``relation, source, target`` and ``keywords,
    description`` (LightRAG), ``description, keywords, strength`` (LightRAG before 1.4) or ``description, strength``
    (GraphRAG). Claims, without a first word: ``subject, object, type, status, start, end, description, source``.
    Only the end marker shows that the answer is complete.
    """
    extraction = Extraction()
    marker = _COMPLETE.search(text)
    wrong = None if marker else "the rows have no end marker"
    body = text[: marker.start()] if marker else text
    rows = _rows(body)
    # Without it, the last row may be torn.
    for row in rows if marker else rows[:-1]:
        if not _DELIMITER.search(row):
            continue
        cells = [_cell(cell) for cell in _DELIMITER.split(row)]
        if not _add(extraction, cells):
            wrong = f"a row has {len(cells)} cells, or none that says what it is: {row[:80]!r}"
    return extraction, wrong


def _rows(text: str) -> list[str]:
    if _bracketed(text):
        rows = re.split(r"##|\)[^\S\n]*+\n\s*+(?=\()", text)
        return [row.strip().removeprefix("(").removesuffix(")") for row in rows]
    return text.splitlines()


def _bracketed(text: str) -> bool:
    """Whether a row begins with a bracket: "(", a word, and a delimiter on the line of the word."""
    delimiter = line_end = -1
    for opening in _OPENING.finditer(text):
        position = opening.end()
        # Search again only when the last match lies behind: the text is read once.
        if delimiter < position and (delimiter := text.find("<|", position)) < 0:
            return False
        if line_end < position and (line_end := text.find("\n", position)) < 0:
            line_end = len(text)
        if delimiter < line_end:
            return True
    return False


def _cell(cell: str) -> str:
    return cell.strip().strip("\"'").strip()


def _add(extraction: Extraction, cells: list[str]) -> bool:
    kind = cells[0].lower().lstrip("(-* ").strip("\"'")
    if kind == "entity" and len(cells) == 4:
        extraction.add_entity(*cells[1:])
    elif kind in ("relation", "relationship") and len(cells) == 5 and _STRENGTH.match(cells[4]):
        extraction.add_relationship(cells[1], cells[2], (), cells[3], cells[4])
    elif kind in ("relation", "relationship") and len(cells) == 5:
        extraction.add_relationship(cells[1], cells[2], split_keywords(cells[3]), cells[4])
    elif kind in ("relation", "relationship") and len(cells) == 6:
        extraction.add_relationship(cells[1], cells[2], split_keywords(cells[4]), cells[3], cells[5])
    elif len(cells) == 8 and cells[3].upper() in STATUSES:
        subject, object_, type_, status, start, end, description, source = cells
        extraction.add_claim(Claim(subject, object_, type_, status, start, end, description, source))
    else:
        return kind == "content_keywords"
    return True


def split_keywords(text: str) -> list[str]:
    """Return the keywords of a list in one string."""
    return [word for word in re.split(r"[,;，；、\n]", text) if word.strip()]
