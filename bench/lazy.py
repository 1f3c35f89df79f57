"""How near a chunk must be to pass for relevant in mode lazy, where no model tests it: chosen on the dev questions.

    python -m bench lazy

For each threshold (a share of the nearest chunk's nearness), over
the questions with evidence: recall and precision of the documents whose chunks pass, how many chunks pass (what a model
would read), and of how many tests. The threshold also decides which communities are gone into.
"""

import argparse
from pathlib import Path
from typing import Any

import psycopg
from corpora import kept, questions

SETS = ("lihua-jan-jun", "musique")
THRESHOLDS = (0.0, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8)
FUNCTION = """
CREATE FUNCTION pg_temp.passing(question text, corpus text, budget int, threshold float8, OUT tests int, OUT chunks bigint[])
LANGUAGE plpython3u AS $$
from pg_graphrag import modes
from pg_graphrag.access.caller import caller_of
from pg_graphrag.modes import lazy
from pg_graphrag.search.search import prepare
from pg_graphrag.server import database
lazy.NEAR_ENOUGH = threshold
db = database(plpy)
asked = prepare(db, caller_of(db, corpus, None), question, modes.find("lazy"), None, None, None)
found = lazy.match(asked, budget, lazy.near_enough)
return found.tests, list(found.relevant)
$$
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="database with the corpora, as a superuser")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--budget", type=int, default=100)
    given = parser.parse_args()
    print("| set | threshold | recall | precision | chunks that pass | tests |\n|---|---|---|---|---|---|")
    with psycopg.connect(given.url, autocommit=True) as db:
        db.execute(FUNCTION)
        for name in SETS:
            asked = [question for question in questions(given.data, name) if question["evidence"]]
            corpus = kept(given.url, given.data, name, "nlp")
            for threshold in THRESHOLDS:
                figures = [measure(db, question, corpus, given.budget, threshold) for question in asked]
                recall, precision, passed, tests = (sum(column) / len(asked) for column in zip(*figures, strict=True))
                print(
                    f"| {name} | {threshold:.2f} | {recall:.3f} | {precision:.3f} | {passed:.1f} | {tests:.1f} |",
                    flush=True,
                )


def measure(
    db: psycopg.Connection[tuple[Any, ...]], question: dict[str, Any], corpus: str, budget: int, threshold: float
) -> tuple[float, float, int, int]:
    """Return (recall, precision of documents, chunks that pass, tests) of one question."""
    row = db.execute(
        "SELECT p.tests, cardinality(p.chunks), array(SELECT DISTINCT d.source_key FROM graphrag.chunks c"
        " JOIN graphrag.documents d ON d.id = c.document_id WHERE c.id = ANY (p.chunks))"
        " FROM pg_temp.passing(%s, %s, %s, %s) p",
        [question["question"], corpus, budget, threshold],
    ).fetchone()
    assert row is not None
    tests, passed, keys = row
    hits = len(set(keys) & set(question["evidence"]))
    return hits / len(set(question["evidence"])), hits / max(len(keys), 1), passed, tests


if __name__ == "__main__":
    main()
