"""Removes the licence that Project Gutenberg puts around a book."""

import re

from pg_graphrag.beside.readers.source import Facts

# Project Gutenberg's marks around each of its books.
_START = re.compile(r"^\*\*\* ?START OF (?:THE|THIS) PROJECT GUTENBERG EBOOK[^\n]*\*\*\*[ \t]*\n", re.MULTILINE)
_END = re.compile(r"^\*\*\* ?END OF (?:THE|THIS) PROJECT GUTENBERG EBOOK", re.MULTILINE)
_FIELD = re.compile(r"^(Title|Author|Language|Release date): ([^\n\[]+)", re.MULTILINE)
# The mark stands near the start.
_HEAD = 20_000


def without_gutenberg(text: str) -> tuple[str, Facts]:
    """Return a text without the licence that Project Gutenberg puts around it, and what its head says."""
    facts = Facts()
    start = _START.search(text, 0, _HEAD)
    if start is None:
        return text, facts
    fields = {name: value.strip() for name, value in _FIELD.findall(text[: start.start()])}
    facts.author = fields.get("Author")
    facts.others = {"license": "Project Gutenberg"}
    if "Title" in fields:
        facts.others["title"] = fields["Title"]
    end = _END.search(text, start.end())
    return text[start.end() : end.start() if end else len(text)].strip("\n") + "\n", facts
