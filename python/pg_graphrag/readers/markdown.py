"""Markdown: kept as it is, since its marks read well and its structure guides the cutting of chunks."""

import re
from collections.abc import Iterator
from pathlib import Path

from pg_graphrag.client.documents import Document
from pg_graphrag.readers.decode import decode

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)??(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_MATTER_TITLE = re.compile(r"""^title:[ \t]*(?P<quote>["']?)(?P<title>.+?)(?P=quote)[ \t]*$""", re.MULTILINE)
_FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?(?:^(?P=fence)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_ATX_HEADING = r"^ {0,3}#[ \t]+(?P<atx>.+?)(?:[ \t]+#+)?[ \t]*$"
_SETEXT_HEADING = r"^ {0,3}(?P<setext>\S.*?)[ \t]*\n {0,3}=+[ \t]*$"
_HEADING = re.compile(f"{_ATX_HEADING}|{_SETEXT_HEADING}", re.MULTILINE)


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
        named = _FRONT_MATTER_TITLE.search(front_matter[0])
        if named:
            return named["title"]
        content = content[front_matter.end() :]
    # A "# comment" in a code block is no heading.
    heading = _HEADING.search(_FENCE.sub("", content))
    return (heading["atx"] or heading["setext"]) if heading else None
