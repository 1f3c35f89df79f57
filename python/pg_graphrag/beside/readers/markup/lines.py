"""Helpers for readers of markup: lines that become Markdown, and header fields before a text."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from pg_graphrag.beside.readers.markdown import fenced
from pg_graphrag.beside.readers.source import Facts, Source, as_time

_HEAD_FIELD = re.compile(r"[ \t]{0,8}(?P<name>[A-Z][\w-]{0,40}):(?:[ \t]+(?P<value>[^\n]*))?")
# 24-Oct-2002, 24 October 2002.
_DAY = re.compile(r"(\d{1,2})[ -]([A-Za-z]{3})[a-z]{0,6}[ -](\d{4})")
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MAX_LEVEL = 6
_MOST_LINES = 200
# Files that a warning names, and characters of a name; files that hold no text: settings of a whole book.
_MOST_NAMED, _LONGEST_NAME = 5, 60
_SETTINGS = re.compile(r"(?i)(?:.*/)?(?:_.*|.*(?:attributes|settings|preamble|macros|header).*)")


class MarkdownLines:
    """Lines of Markdown, gathered one after the other."""

    def __init__(self) -> None:
        self._written: list[str] = []
        # Files that the text includes.
        self.included: list[str] = []
        self.title: str | None = None

    def add(self, *lines: str) -> None:
        """Add lines unchanged."""
        self._written += lines

    def heading(self, level: int, text: str) -> None:
        """Add a heading; the first one is the title."""
        self.title = self.title or text
        self._written += ["", f"{'#' * min(max(level, 1), _MAX_LEVEL)} {text}", ""]

    def code(self, lines: Iterable[str], language: str = "") -> None:
        """Add code between fences, without what its lines share of indentation."""
        code = "\n".join(without_indent(list(lines))).strip("\n")
        if code.strip():
            self._written += ["", *fenced(code, language).split("\n"), ""]

    def text(self) -> str:
        """Return the lines, with empty lines reduced to one outside of code."""
        lines: list[str] = []
        fence = ""
        for line in self._written:
            if fence:
                fence = "" if line == fence else fence
            elif line.startswith("```"):
                fence = line[: len(line) - len(line.lstrip("`"))]
            elif not line.strip() and (not lines or not lines[-1].strip()):
                continue
            lines.append(line.rstrip() if not fence else line)
        return "\n".join(lines).strip("\n") + "\n"


def replaced(line: str, patterns: Iterable[tuple[re.Pattern[str], str]]) -> str:
    """Return a line in which what each pattern finds is replaced, one after the other."""
    for pattern, replacement in patterns:
        line = pattern.sub(replacement, line)
    return line


def without_indent(lines: Sequence[str]) -> list[str]:
    """Return lines without their common indentation."""
    least = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
    return [line[least:] for line in lines]


def head_fields(lines: Sequence[str]) -> tuple[dict[str, str], int]:
    """Return the fields at the beginning of a text ("Title: …", as in e-mails), and their number of lines; none without a
    title.
    """
    fields: dict[str, str] = {}
    name = ""
    for count, line in enumerate([*lines[:_MOST_LINES], ""]):
        if match := _HEAD_FIELD.fullmatch(line):
            name = match["name"].lower()
            fields[name] = (match["value"] or "").strip()
        elif name and line.startswith((" ", "\t")) and line.strip():
            fields[name] = f"{fields[name]} {line.strip()}".strip()
        else:
            return (fields, count) if "title" in fields else ({}, 0)
    return {}, 0


def take_fields(facts: Facts, fields: dict[str, str]) -> str | None:
    """Note what fields before a text say; return the title."""
    title = None
    for name, value in fields.items():
        if not value:
            continue
        if name == "title":
            title = value
        elif name in ("author", "authors"):
            facts.author = value
        elif name in ("date", "created"):
            facts.published = facts.published or _time(value.strip("$"))
        else:
            facts.others[name] = value
    return title


def _time(value: str) -> datetime | None:
    match = _DAY.fullmatch(value.strip())
    if match and match[2].lower() in _MONTHS:
        return as_time(f"{match[3]}-{_MONTHS.index(match[2].lower()) + 1:02}-{int(match[1]):02}")
    return as_time(value)


def note_included(source: Source, names: Iterable[str]) -> None:
    """Note the files that a file includes; their text is not read."""
    names = [name for name in dict.fromkeys(map(str.strip, names)) if name and not _SETTINGS.fullmatch(name)]
    if names:
        more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        named = (
            name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names[:_MOST_NAMED]
        )
        what = f"file that it includes ({', '.join(named)}{more}): ingest it, too"
        source.left_out[what] += len(names)
