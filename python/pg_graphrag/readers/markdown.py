"""Markdown: kept as it is, since its marks read well and its structure guides the cutting of chunks."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from pg_graphrag.client.documents import Document
from pg_graphrag.readers.decode import decode

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)??(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_MATTER_TITLE = re.compile(r"^title:(.+)$", re.MULTILINE)
_FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?(?:^(?P=fence)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_ATX = re.compile(r" {0,3}#[ \t]+(?=[^ \t])")
_TEXT = re.compile(r" {0,3}(?=\S)")
_UNDERLINE = re.compile(r" {0,3}=+[ \t]*")


def read_markdown(path: Path, key: str) -> Iterator[Document]:
    """Read a Markdown file as one document, titled by its front matter, else its first heading, else its name."""
    content = decode(path.read_bytes(), path)
    yield Document(
        content=content,
        source_key=key,
        title=_title(content) or path.stem,
        metadata={"path": key, "mime": "text/markdown"},
    )


def _title(content: str) -> str | None:
    front_matter = _FRONT_MATTER.match(content)
    if front_matter:
        title_match = _FRONT_MATTER_TITLE.search(front_matter[0])
        if title_match and (title := _unquoted(title_match[1].strip(" \t"))):
            return title
        content = content[front_matter.end() :]
    # A "# comment" in a code block is no heading.
    lines = _FENCE.sub("", content).split("\n")
    for line, next_line in zip_longest(lines, lines[1:], fillvalue=""):
        if atx := _ATX.match(line):
            return _without_marks(line[atx.end() :].rstrip(" \t"))
        if (text := _TEXT.match(line)) and _UNDERLINE.fullmatch(next_line):
            return line[text.end() :].rstrip(" \t")
    return None


def _unquoted(title: str) -> str:
    is_quoted = len(title) > 2 and title[0] in "\"'" and title[-1] == title[0]
    return title[1:-1] if is_quoted else title


def _without_marks(heading: str) -> str:
    """Return a heading without the marks at its end: "# Title ##"."""
    stripped = heading.rstrip("#")
    return stripped.rstrip(" \t") if stripped.endswith((" ", "\t")) else heading
