"""Debian's Japanese, Chinese and English manual pages as documents, for tests and for the benchmark."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import read

# Converts every nth page below a language's folder; a control character, which no page has, separates them.
_CONVERT = """
cd "/usr/share/man/$1"
find man1 man5 man8 -type f -name '*.gz' | LC_ALL=C sort | awk -v n="$2" 'NR % n == 0' | while read -r page; do
    printf '\\036%s\\n' "$page"
    mandoc -T html -K utf-8 "$page"
done
"""
_NAME_LINE = re.compile(r"^\\?[^\n]{1,60} [-–—] ([^\n]{4,200})$", re.MULTILINE)


class Page(NamedTuple):
    """A manual page without its header line and without the line that says what it is about."""

    key: str
    title: str
    content: str
    description: str


def pages(run: Callable[..., str], language: str, longest: int = 20_000, every: int = 1) -> list[Page]:
    """Return the pages of sections 1, 5 and 8 in order of their keys.

    Parameters
    ----------
    run : callable
        Runs a command inside the server's root, where the packages of docker/packages.txt are; returns what it prints.
    language : str
        Folder below /usr/share/man: ``ja``, ``zh_CN`` or ``zh_TW``; ``en``: that folder itself.
    every : int
        Of so many pages one is read.
    longest : int
        Characters; longer pages are left out, and so are those that do not say in one line what they are about.
    """
    collected: list[Page] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        for part in run("sh", "-c", _CONVERT, "sh", "." if language == "en" else language, str(every)).split("\x1e")[
            1:
        ]:
            key, _, html = part.partition("\n")
            file.write_text(html, encoding="utf-8")
            for document in read(file, key):
                if isinstance(document, Document) and len(document.content) <= longest:
                    collected.extend(_page(key.removesuffix(".gz"), document))
    return collected


def _page(key: str, document: Document) -> list[Page]:
    body = document.content.partition("\n")[2].strip()
    line = _NAME_LINE.search(body, 0, 400)
    if line is None:
        return []
    content = (body[: line.start()] + body[line.end() :]).strip()
    return [Page(key, document.title or key, content, line[1].strip())]
