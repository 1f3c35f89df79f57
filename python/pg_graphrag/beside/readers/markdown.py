"""Markdown is kept as it is: it reads well, and its structure guides the cutting of chunks.

Front matter goes to the metadata; comments and badges are left out; underlined headings become ``#`` ones.
"""

import html
import re
import tomllib
from collections.abc import Iterable, Iterator
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import Any

import yaml

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.source import Facts, Source, as_time
from pg_graphrag.ground.document import Document
from pg_graphrag.text.outline import HEADING_ATTRIBUTES

_YAML = re.compile(r"\A---[ \t]*\n(?P<text>(?:[^\n]*\n){0,500}?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(?P<text>(?:[^\n]*\n){0,500}?)\+\+\+[ \t]*(?:\n|\Z)")
# The boxes of lists and forms.
CHECKED, UNCHECKED = "☒", "☐"
# A parser takes some hundred times the length of a value.
_LONGEST_FRONT_MATTER = 100_000
_TITLE_LINE = re.compile(r"^title:(.+)$", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})[^`\n]*")
_ATX = re.compile(r" {0,3}(?P<marks>#{1,6})[ \t]+(?P<text>[^ \t\n][^\n]*)")
_UNDERLINE = re.compile(r" {0,3}(?P<marks>=+|-{2,})[ \t]*")
# A line that can be a heading when the next one underlines it: no list, quote, table or code.
_PLAIN = re.compile(r" {0,3}(?![>|+*#-])\S[^\n]*")
_SPDX = re.compile(r"SPDX-License-Identifier:[ \t]*([\w.+() -]{1,100})")
# Lines of nothing but linked pictures.
_BADGES = re.compile(r"[ \t]*(?:\[!\[[^\]\n]*\]\([^()\n]*\)\]\([^()\n]*\)[ \t]*)+")
# "contribuci&oacute;n"; text between backticks is code.
_CODE_OR_REFERENCE = re.compile(r"`[^`\n]*`|&(?:[A-Za-z][A-Za-z0-9]{1,15}|#\d{1,6}|#[xX][0-9A-Fa-f]{1,6});")
_MARKS_OF_TEXT = "\u00a0¿¡«»‹›“”„‘’‚–—…·"
_TICKS = re.compile(r"^`{3,}", re.MULTILINE)
_FONT_OF_CODE = re.compile("(?i)mono|courier|consolas|menlo|monaco|fixed|typewriter")


def read_markdown(source: Source) -> Iterator[Document]:
    """Read a Markdown file as one document, titled by its front matter, else its first heading, else its name."""
    content, facts = _front_matter(decode(source.read(), source))
    content, heading = _cleaned(content, facts)
    title = facts.others.pop("title", None)
    yield source.document(content, "text/markdown", title if isinstance(title, str) else heading, facts)


def fenced(code: str, language: str = "") -> str:
    """Return code between fences that are longer than those in it."""
    ticks = "`" * max([3, *(len(match[0]) + 1 for match in _TICKS.finditer(code))])
    return f"{ticks}{language}\n{code}\n{ticks}"


def joined_blocks(blocks: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the texts of blocks (kind, text): those of a title or list that follow each other as one, code between fences."""
    for kind, group in groupby(blocks, key=itemgetter(0)):
        texts = [text for _, text in group]
        if kind == "code":
            if any(texts):
                yield fenced("\n".join(texts).strip("\n"))
        elif kind == "title":
            yield f"# {' '.join(texts)}"
        elif kind == "list":
            yield "\n".join(texts)
        else:
            yield from filter(None, texts)


def is_for_code(font: str) -> bool:
    """Whether a font, by its name, is one for code."""
    return _FONT_OF_CODE.search(font) is not None


class _NoAliases(yaml.SafeLoader):  # type: ignore[misc]
    """Aliases can make a value of gigabytes out of a few lines."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def _front_matter(content: str) -> tuple[str, Facts]:
    """Return the text behind front matter, and the front matter's fields; other text stays where it is."""
    facts = Facts()
    match = _YAML.match(content) or _TOML.match(content)
    if match is None or len(match["text"]) > _LONGEST_FRONT_MATTER:
        return content, facts
    try:
        values = yaml.load(match["text"], _NoAliases) if content[0] == "-" else tomllib.loads(match["text"])
    except (yaml.YAMLError, tomllib.TOMLDecodeError, ValueError, RecursionError):
        # Broken: templates stand in it, as a rule. Its title can be read all the same.
        title = _TITLE_LINE.search(match["text"])
        values = {"title": title[1].strip().strip("\"'")} if title else None
    if not isinstance(values, dict):
        return content, facts
    fields = {str(name).lower(): value for name, value in values.items()}
    author = fields.pop("author", fields.pop("authors", None))
    facts.author = ", ".join(map(str, author)) if isinstance(author, list) else str(author) if author else None
    facts.published = as_time(fields.pop("date", None))
    facts.modified = as_time(fields.pop("lastmod", fields.pop("updated", None)))
    language = fields.pop("lang", fields.pop("language", None))
    facts.language = str(language) if language else None
    title = fields.get("title")
    facts.others = fields | ({"title": str(title)} if isinstance(title, str | int | float | date) else {})
    return content[match.end() :].lstrip("\n"), facts


def _cleaned(content: str, facts: Facts) -> tuple[str, str | None]:
    """Return the text without comments and badges, with ``#`` headings, and the first heading of the first level."""
    lines: list[str] = []
    title: str | None = None
    fence = ""
    is_comment = False
    for line in content.split("\n"):
        if not fence and (is_comment or line.lstrip().startswith("<!--")):
            if licence := _SPDX.search(line):
                facts.others.setdefault("license", licence[1].removesuffix("--").strip())
            _, mark, rest = line.partition("-->")
            is_comment = not mark
            if rest.strip():
                lines.append(rest)
            continue
        if match := _FENCE.match(line):
            if not fence:
                fence = match["fence"]
            elif match["fence"].startswith(fence) and not line[match.end("fence") :].strip():
                fence = ""
        elif not fence:
            if _BADGES.fullmatch(line):
                continue
            line = _CODE_OR_REFERENCE.sub(_letter, line)
            underline = _UNDERLINE.fullmatch(line)
            is_paragraph = len(lines) > 0 and (len(lines) == 1 or not lines[-2].strip() or _ATX.match(lines[-2]))
            if underline and is_paragraph and _PLAIN.fullmatch(lines[-1]):
                marks = "#" if underline["marks"][0] == "=" else "##"
                lines[-1] = f"{marks} {lines[-1].strip()}"
                line = lines.pop()
            if title is None and (heading := _ATX.match(line)) and heading["marks"] == "#":
                title = _without_marks(heading["text"].rstrip(" \t"))
        lines.append(line)
    return "\n".join(lines), title


def _letter(reference: re.Match[str]) -> str:
    """Return the letter or mark of a character reference; code and other signs (&lt;) stay as they are."""
    text = html.unescape(reference[0])
    return text if len(text) == 1 and (text.isalpha() or text in _MARKS_OF_TEXT) else reference[0]


def _without_marks(heading: str) -> str:
    """Return a heading without marks and attributes at its end: "# Title ##", "# Title {#anchor}"."""
    heading = HEADING_ATTRIBUTES.sub("", heading)
    stripped = heading.rstrip("#")
    return stripped.rstrip(" \t") if stripped.endswith((" ", "\t")) else heading


def heading_of(content: str) -> str | None:
    """Return the first heading of the first level."""
    return _cleaned(content, Facts())[1]
