"""Jupyter notebooks: text cells as they are, code cells in fences, with the text of their outputs."""

import json
import re
from collections.abc import Iterator
from typing import Any

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.markdown import fenced, heading_of
from pg_graphrag.beside.readers.read_errors import ReadWarning
from pg_graphrag.beside.readers.source import Facts, Source
from pg_graphrag.beside.readers.web.html import extract
from pg_graphrag.ground.document import Document

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Characters of one output: a log may have megabytes.
_MAX_OUTPUT = 10_000
_MORE = " …"
_CUT = f"{_MORE}\n```"


def read_notebook(source: Source) -> Iterator[Document | ReadWarning]:
    """Read a notebook (nbformat 3 and 4) as one document, titled by its metadata, else its first heading."""
    try:
        notebook = json.loads(decode(source.read(), source))
        cells = (
            notebook["cells"]
            if "cells" in notebook
            else [c for sheet in notebook["worksheets"] for c in sheet["cells"]]
        )
        metadata = notebook.get("metadata", {})
        language = metadata.get("kernelspec", {}).get("language") or metadata.get("language_info", {}).get("name") or ""
        blocks = [block for cell in cells for block in _cell(cell, str(language))]
        pictures = sum(map(_is_picture, (output for cell in cells for output in cell.get("outputs", []))))
        facts = _facts(metadata, str(language))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise source.error(f"cannot be read as a notebook: {error}; is it damaged?") from None
    content = "\n\n".join(blocks)
    # Notebooks of before 2014 have a name.
    title = metadata.get("title") or metadata.get("name")
    yield source.document(
        content + "\n" if content else "",
        "application/x-ipynb+json",
        title if isinstance(title, str) and title else heading_of(content),
        facts,
    )
    source.left_out["picture that a cell shows"] += pictures
    if cut := sum(block.endswith(_CUT) for block in blocks):
        yield source.warning(
            f"{cut:,} output{'s' if cut > 1 else ''} of more than {_MAX_OUTPUT:,} characters: the rest is left out"
        )


def _facts(metadata: dict[str, Any], language: str) -> Facts:
    authors = [
        author["name"] for author in metadata.get("authors", []) if isinstance(author, dict) and "name" in author
    ]
    return Facts(
        author=", ".join(map(str, authors)) or None, others={"programming_language": language} if language else {}
    )


def _cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    text = _joined(cell.get("source", cell.get("input", ""))).strip("\n").rstrip()
    kind = cell["cell_type"]
    if kind == "heading":
        text = f"{'#' * int(cell.get('level', 1))} {text}"
    if kind == "html":
        text = extract(text)[1]
    if text:
        yield fenced(text, language) if kind == "code" else text
    for output in cell.get("outputs", []) if kind == "code" else ():
        result = _ESCAPES.sub("", _output(output)).strip("\n").rstrip()
        if result:
            yield fenced(f"{result[:_MAX_OUTPUT]}{_MORE if len(result) > _MAX_OUTPUT else ''}", "output")


def _output(output: dict[str, Any]) -> str:
    """Return the text of an output; for a picture its mark."""
    if output.get("output_type") in ("error", "pyerr"):
        return f"{output.get('ename', '')}: {output.get('evalue', '')}"
    data = output.get("data", output)
    for name in ("text/markdown", "text/plain", "text"):
        if text := _joined(data.get(name, "")):
            return text
    return extract(html)[1] if (html := _joined(data.get("text/html", data.get("html", "")))) else ""


def _is_picture(output: dict[str, Any]) -> bool:
    # Notebooks of before 2014 name no media types.
    return any(kind.startswith("image/") or kind in ("png", "jpeg", "svg") for kind in output.get("data", output))


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
