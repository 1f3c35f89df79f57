"""What all Office Open XML files share: properties, embedded files, diagrams."""

import zipfile
from collections.abc import Iterator
from typing import Any

from lxml import etree

from pg_graphrag.beside.readers.archive import read_xml
from pg_graphrag.beside.readers.attached import own_names
from pg_graphrag.beside.readers.office.office_embedded import embedded_files
from pg_graphrag.beside.readers.read_errors import ReadError
from pg_graphrag.beside.readers.source import Facts, Source, as_time
from pg_graphrag.beside.readers.web.formulas import formula_text

# Exceptions of the libraries for a damaged file.
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, etree.LxmlError)
MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_CORE = {
    "title": "{http://purl.org/dc/elements/1.1/}title",
    "author": "{http://purl.org/dc/elements/1.1/}creator",
    "subject": "{http://purl.org/dc/elements/1.1/}subject",
    "description": "{http://purl.org/dc/elements/1.1/}description",
    "language": "{http://purl.org/dc/elements/1.1/}language",
    "keywords": "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}keywords",
    "created": "{http://purl.org/dc/terms/}created",
    "modified": "{http://purl.org/dc/terms/}modified",
}
# Titles that writers put when nobody gave one.
_NO_TITLES = frozenset(("powerpoint presentation", "slide 1", "untitled", "document", "word document", "presentation"))


def properties(archive: zipfile.ZipFile) -> tuple[str | None, Facts]:
    """Return title and facts of docProps/core.xml."""
    root = read_xml(archive, "docProps/core.xml")
    texts = {} if root is None else {name: (root.findtext(tag) or "").strip() for name, tag in _CORE.items()}
    values = {name: text for name, text in texts.items() if text}
    title = values.get("title")
    facts = Facts(
        author=values.get("author"),
        created=as_time(values.get("created")),
        modified=as_time(values.get("modified")),
        language=values.get("language"),
        others={name: values[name] for name in ("subject", "description", "keywords") if name in values},
    )
    return None if title is None or title.lower() in _NO_TITLES else title, facts


def files_within(archive: zipfile.ZipFile, facts: Facts) -> list[tuple[str, bytes]]:
    """Return the files within, and note their names."""
    embedded = list(own_names(embedded_files(archive)))
    if embedded:
        facts.others["attachments"] = [name for name, _ in embedded]
    return embedded


def diagram_lines(root: etree._Element) -> Iterator[str]:
    """Yield the texts of a diagram (SmartArt), in their order."""
    for point in root.iter(f"{DIAGRAM}pt"):
        if point.get("type", "node") in ("node", "asst"):
            yield from filter(None, (paragraph_text(paragraph) for paragraph in point.iter(f"{DRAWING}p")))


def paragraph_text(paragraph: Any) -> str:
    """Return the text of a paragraph with its formulas, which python-pptx does not know."""
    parts: list[str] = []
    walk = etree.iterwalk(paragraph, events=("start",))
    for _, element in walk:
        if element.tag == f"{MATH}oMath":
            parts.append(formula_text(element))
        elif element.tag == f"{DRAWING}t":
            parts.append(element.text or "")
        elif element.tag == f"{DRAWING}br":
            parts.append(" ")
        elif not str(element.tag).endswith("}Fallback"):
            continue
        walk.skip_subtree()
    return " ".join("".join(parts).split())


def damaged(source: Source, what: str, error: Exception) -> ReadError:
    """Return the error for a file that a library could not read as `what`."""
    detail = " ".join(str(error).split())[:200] or type(error).__name__
    return source.error(f"cannot be read as {what}: {detail}; is it damaged? Open and save it again")
