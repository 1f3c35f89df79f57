"""Many languages: GNOME's help, and each page looked for by the sentence that describes it, in its own language and in English.

    python -m bench help_pages [--languages de fr ko …] [--pages 80] [--modes naive bm25 hybrid]

Known-item retrieval: that sentence is taken out of the page before it is ingested; Recall@k is the share of pages found within
the first k, MRR the mean reciprocal rank within ten. Debian's package gnome-user-docs has the pages, in Mallard, and is
downloaded once. Of a page of which a seventh or more is English no question is asked, and it is not ingested; of a language with
few other pages the rows say little. The corpora choose their embedding model.
"""

import argparse
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
from pg_graphrag.beside.readers import Document, read

from bench.data.public_text import download
from bench.retrieval.manpages import load, measure
from tests.manpages import Page

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pg_graphrag/help_pages"
LANGUAGES = ("ca", "de", "es", "fr", "hu", "id", "pl", "sv", "el", "ru", "uk", "ko", "ja", "ta", "fa")
MODES = ("naive", "bm25", "hybrid")
# Characters of a page, and of the sentence that describes it, at least.
SHORTEST, SHORTEST_DESCRIPTION = 200, 15
# Share of a page's paragraphs that may be as in English.
MOST_ENGLISH = 0.15
_DESCRIPTION = re.compile(r"<desc>(.*?)</desc>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_PARAGRAPH = re.compile(r"<(?:p|title)>[^<]{15,}")


class Asked(NamedTuple):
    """A page without its description, which it has as `description`, and the English one."""

    page: Page
    english: str


def pages(folder: Path, language: str, most: int) -> list[Asked]:
    """Return pages in a language, at most so many, evenly spread."""
    every = list(_pages(folder, language))
    return every[:: max(1, len(every) // most)][:most]


def _pages(folder: Path, language: str) -> Iterator[Asked]:
    for file in sorted((folder / "C/gnome-help").glob("*.page")):
        own_file = folder / language / "gnome-help" / file.name
        english = file.read_text(encoding="utf-8")
        own = own_file.read_text(encoding="utf-8") if own_file.exists() else english
        paragraphs = set(_PARAGRAPH.findall(english))
        described, described_in_english = _DESCRIPTION.search(own), _DESCRIPTION.search(english)
        if (
            described is None
            or described_in_english is None
            or len(paragraphs.intersection(_PARAGRAPH.findall(own))) > MOST_ENGLISH * len(paragraphs)
        ):
            continue
        description, english_description = _plain(described[1]), _plain(described_in_english[1])
        with tempfile.TemporaryDirectory() as place:
            page = Path(place) / file.name
            page.write_text(own.replace(described[0], "", 1), encoding="utf-8")
            document = next((item for item in read(page, file.name) if isinstance(item, Document)), None)
        if document is None or len(document.content) < SHORTEST or len(description) < SHORTEST_DESCRIPTION:
            continue
        if description != english_description:
            yield Asked(
                Page(file.name, document.title or file.name, document.content, description), english_description
            )


def _plain(xml: str) -> str:
    return " ".join(_TAG.sub("", xml).split())


def fetched() -> Path:
    """Return the folder with the languages' folders; download it where it is not there."""
    if not CACHE.exists():
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
            download(["gnome-user-docs"], Path(folder))
            (Path(folder) / "usr/share/help").rename(CACHE)
    return CACHE


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--languages", nargs="+", default=LANGUAGES, help="folders below /usr/share/help")
    arguments.add_argument("--pages", type=int, default=80, help="of each language, spread over the help (80)")
    arguments.add_argument("--modes", nargs="+", default=MODES)
    given = arguments.parse_args()
    folder = fetched()
    print(
        "| questions → pages | asked | mode | R@1 | R@5 | R@10 | MRR@10 | p50, ms |\n|---|---|---|---|---|---|---|---|"
    )
    pooled: dict[tuple[str, str], list[tuple[int, list[float]]]] = {}
    with psycopg.connect(given.url, autocommit=True) as connection:
        for language in given.languages:
            asked = pages(folder, language, given.pages)
            if not asked:
                print(f"{language}: all pages are in English, or nearly", flush=True)
                continue
            load(connection, f"help-{language}", [item.page for item in asked])
            by_language = {
                "own": [(item.page.description, item.page.key) for item in asked],
                "English": [(item.english, item.page.key) for item in asked],
            }
            for questions_in, rows in by_language.items():
                count = Counter(question for question, _ in rows)
                questions = {question: key for question, key in rows if count[question] == 1}
                for mode in given.modes:
                    means, median = measure(connection, f"help-{language}", questions, mode)
                    pooled.setdefault((questions_in, mode), []).append((len(questions), means))
                    what = f"{language if questions_in == 'own' else 'en'} → {language}"
                    print(f"| {what} | {len(questions)} | {mode} | {_said(means)} | {median:.0f} |", flush=True)
    for (questions_in, mode), parts in pooled.items():
        total = sum(count for count, _ in parts)
        means = [sum(count * values[place] for count, values in parts) / total for place in range(4)]
        what = "its own language" if questions_in == "own" else "English"
        print(f"| all, in {what} | {total} | {mode} | {_said(means)} | |")


def _said(means: list[float]) -> str:
    return " | ".join(f"{mean:.3f}" for mean in means)


if __name__ == "__main__":
    main()
