"""What the precision of documents' vectors does to a ranking: dense search alone, on the dev questions.

Needs the models below PG_GRAPHRAG_HOME. Questions are embedded by numpy, as in a server; a document counts by the best of its
stretches of 100 words (160 characters of Chinese and Japanese). The interval of a difference is of 2,000 paired bootstraps.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "python"))
SETS = {
    "musique": "all-MiniLM-L6-v2",
    "lihua-world": "all-MiniLM-L6-v2",
    "jsquad": "multilingual-e5-small",
    "drcd": "multilingual-e5-small",
}
CUTOFF = 10


def rows(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def stretches(document: dict[str, Any], spaced: bool) -> list[str]:
    """Return what is embedded of a document: its title, and a stretch of its text."""
    text, head = document["text"], f"{document['title']}\n" if document.get("title") else ""
    if not spaced:
        return [head + text[start : start + 160] for start in range(0, max(len(text), 1), 160)]
    words = text.split()
    return [head + " ".join(words[start : start + 100]) for start in range(0, max(len(words), 1), 100)]


def rankings(data: Path, name: str, engines: Sequence[str], most: int) -> dict[str, Any]:
    """Return {engine: (questions, [R@1, R@5, R@10, nDCG@10])} of a set; the first `most` documents, 0 for all."""
    from pg_graphrag.embedding.documents import _embedder
    from pg_graphrag.numeric import np

    model = SETS[name]
    documents = rows(data / name / "docs.jsonl")[: most or None]
    place = {document["id"]: number for number, document in enumerate(documents)}
    questions = []
    for question in rows(data / name / "queries_dev.jsonl"):
        evidence = question["evidence"] if isinstance(question["evidence"], list) else [question["evidence"]]
        if evidence and all(document in place for document in evidence):
            questions.append((question["question"], {place[document] for document in evidence}))
    asked = _embedder(model, "numpy").embed([text for text, _ in questions])
    pieces = [
        (number, piece)
        for number, document in enumerate(documents)
        for piece in stretches(document, model == "all-MiniLM-L6-v2")
    ]
    owners = np.array([number for number, _ in pieces])
    discounts = 1 / np.log2(np.arange(CUTOFF) + 2)
    figures = {}
    for engine in engines:
        cosines = asked @ _embedder(model, engine).embed([piece for _, piece in pieces]).T
        measured = []
        for (_, evidence), scores in zip(questions, cosines, strict=True):
            best = np.full(len(documents), -1.0, np.float32)
            np.maximum.at(best, owners, scores)
            hits = np.isin(np.argsort(-best, kind="stable")[:CUTOFF], list(evidence))
            recalls = [hits[:depth].sum() / len(evidence) for depth in (1, 5, CUTOFF)]
            measured.append([*recalls, (hits * discounts).sum() / discounts[: len(evidence)].sum()])
        figures[engine] = np.array(measured)
    return figures


def main() -> None:
    """Print the figures of each set and engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument(
        "--engines", nargs="+", default=["float32", "bfloat16", "int8"], help="the first is compared with"
    )
    parser.add_argument("--documents", type=int, default=0, help="the first so many of each set (0: all)")
    arguments = parser.parse_args()
    from pg_graphrag.numeric import np

    print(f"{'':24}{'questions':>10}{'R@1':>8}{'R@5':>8}{'R@10':>8}{'nDCG@10':>9}  difference")
    for name in arguments.sets:
        figures = rankings(arguments.data, name, arguments.engines, arguments.documents)
        base = figures[arguments.engines[0]]
        for engine, measured in figures.items():
            means = measured.mean(axis=0)
            difference = measured[:, 3] - base[:, 3]
            draws = np.random.default_rng(1).choice(difference, (2000, len(difference))).mean(axis=1)
            low, high = np.percentile(draws, (2.5, 97.5))
            row = f"{name:14}{engine:10}{len(measured):>10}" + "".join(f"{value:>8.3f}" for value in means[:3])
            print(f"{row}{means[3]:>9.4f}  {difference.mean():+.4f} [{low:+.4f}, {high:+.4f}]", flush=True)


if __name__ == "__main__":
    main()
