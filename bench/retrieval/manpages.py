"""Japanese and Chinese: Debian's manual pages ingested, and each looked for by the line that says what it is about.

    python -m bench manpages --load [--pages 300]

Known-item retrieval: that line is taken out of the page before it is ingested; Recall@k is the share of pages found
within the first k, MRR the mean reciprocal rank within ten. "zh_TW -> zh_CN" asks in traditional characters for pages
in simplified ones, "en -> ja" by the line of the English page for the Japanese one. Lines that several pages share are not
asked. The corpora choose their embedding model.
"""

import argparse
import statistics
import subprocess
import time
from collections import Counter
from pathlib import Path

import psycopg

from tests.manpages import Page, pages

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
LANGUAGES = ("ja", "zh_CN", "zh_TW")
# Questions in, pages in.
SETS = (
    *(("ja", "ja"), ("zh_CN", "zh_CN"), ("zh_TW", "zh_TW"), ("zh_TW", "zh_CN")),
    *(("en", "ja"), ("en", "zh_CN"), ("zh_CN", "ja")),
)
SERVER = Path(__file__).resolve().parents[2] / "bin/graphrag-server"


def run(*command: str) -> str:
    """Run a command inside the server's root."""
    return subprocess.run([SERVER, "exec", *command], stdout=subprocess.PIPE, text=True, check=True).stdout


def load(connection: psycopg.Connection, corpus: str, documents: list[Page]) -> float:
    """Make the corpus anew; return the seconds that indexing took."""
    if connection.execute("SELECT 1 FROM graphrag.corpora WHERE name = %s", [corpus]).fetchone():
        connection.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    connection.execute("SELECT graphrag.create_corpus(%s)", [corpus])
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES (%s, %s, %s, %s)",
            [(corpus, page.key, page.title, page.content) for page in documents],
        )
    start = time.perf_counter()
    connection.execute("CALL graphrag.process_jobs()")
    connection.execute("SELECT graphrag.optimize(%s)", [corpus])
    return time.perf_counter() - start


def measure(
    connection: psycopg.Connection, corpus: str, questions: dict[str, str], mode: str
) -> tuple[list[float], float]:
    """Return (R@1, R@5, R@10, MRR@10), and the median milliseconds of a search."""
    places, times = [], []
    for description, key in questions.items():
        start = time.perf_counter()
        rows = connection.execute(
            "SELECT source_key FROM graphrag.search(%s, %s, %s, 40)", [description, corpus, mode]
        ).fetchall()
        times.append((time.perf_counter() - start) * 1e3)
        ranked = list(dict.fromkeys(row[0] for row in rows))[:10]
        places.append(ranked.index(key) + 1 if key in ranked else 0)
    means = [statistics.mean(0 < place <= k for place in places) for k in (1, 5, 10)]
    return [*means, statistics.mean(1 / place if place else 0 for place in places)], statistics.median(times)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--load", action="store_true", help="make the corpora anew first")
    arguments.add_argument("--pages", type=int, default=300, help="of each language, spread over its manual (300)")
    arguments.add_argument("--modes", nargs="+", default=MODES)
    given = arguments.parse_args()
    whole = {language: pages(run, language) for language in (*LANGUAGES, "en")}
    manual = {name: whole[name][:: max(1, len(whole[name]) // given.pages)][: given.pages] for name in LANGUAGES}
    with psycopg.connect(given.url, autocommit=True) as connection:
        for language, documents in manual.items() if given.load else ():
            seconds = load(connection, f"man-{language}", documents)
            size = sum(len(page.content) for page in documents)
            print(
                f"{language}: {len(documents)} pages, {size:,} characters in {seconds:.0f} s: "
                f"{len(documents) / seconds:.1f} documents/s",
                flush=True,
            )
        print(
            "\n| questions → pages | asked | mode | R@1 | R@5 | R@10 | MRR@10 | p50, ms |\n|---|---|---|---|---|---|---|---|"
        )
        for asked, corpus in SETS:
            there = {page.key for page in manual[corpus]}
            count = Counter(page.description for page in whole[asked])
            questions = {
                page.description: page.key
                for page in whole[asked]
                if page.key in there and count[page.description] == 1
            }
            for mode in given.modes:
                means, median = measure(connection, f"man-{corpus}", questions, mode)
                row = " | ".join(f"{mean:.3f}" for mean in means)
                print(f"| {asked} → {corpus} | {len(questions)} | {mode} | {row} | {median:.0f} |", flush=True)


if __name__ == "__main__":
    main()
