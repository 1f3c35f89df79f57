"""What a concept's traits say of whether readers called it junk: the weights of text/evidence.py, fitted and checked.

    python -m bench evidence --labels bench/concept_labels.tsv --texts faq-zh=/usr/share/doc/debian/FAQ:zh …
    python -m bench evidence … --write python/pg_graphrag/text/evidence_weights.txt

Logistic regression with an L1 penalty on the labelled concepts that all other rules leave, a document's concepts as one example
each, and all of a corpus and a key together as one. The table says for each share of good names that is given up how much junk is
left, by weights of the other texts; corpora whose names begin alike (faq-de, faq-zh) are one text.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import numpy as np
from concepts import extracted, folder, read_labels
from numpy.typing import NDArray
from pg_graphrag.indexing import entity_keys, prepare
from pg_graphrag.text import evidence
from pg_graphrag.text.concepts import Concept

HEAD = """\
# Weights of traits (evidence.py) in tenths of the logarithm of the odds of junk.
# Learned by logistic regression (L1) from labels of readers, checked by leaving out one text at a time (bench/evidence.py).
"""
LEAST_USED, PENALTY, STEPS = 15, 3.3, 400
SHARES = (0.1, 0.2, 0.3, 0.4)
Example = tuple[str, str, set[str]]
Floats = NDArray[np.float64]


def examples(corpus: str, path: Path, language: str, labelled: Set[str]) -> list[Example]:
    """Return (corpus, key, traits) of labelled concepts of the documents below a folder."""
    judged: list[Example] = []

    def note(
        keys: Set[str],
        concepts_by_chunk: Sequence[Sequence[Concept]],
        proses: Sequence[str],
        languages: Sequence[str],
        window_count: int,
    ) -> set[str]:
        usages = entity_keys.usages_in(keys & labelled, concepts_by_chunk, proses, languages)
        judged.extend((corpus, key, evidence.traits(usage, window_count)) for key, usage in usages.items())
        return set()

    judge, prepare.without_evidence = prepare.without_evidence, note
    try:
        extracted(list(folder(path)), language)
    finally:
        prepare.without_evidence = judge
    return judged


def fitted(x: Floats, y: Floats, weights: Floats) -> tuple[Floats, float]:
    """Return the coefficients and the intercept, by accelerated proximal gradients (Beck and Teboulle 2009)."""
    step = 4.0 / (weights @ (1 + (x**2).sum(axis=1)))
    now = ahead = np.zeros(x.shape[1] + 1)
    momentum = 1.0
    for _ in range(STEPS):
        errors = weights * (1 / (1 + np.exp(-(x @ ahead[1:] + ahead[0]))) - y)
        moved = ahead - step * np.concatenate(([errors.sum()], x.T @ errors))
        moved[1:] = np.sign(moved[1:]) * np.maximum(np.abs(moved[1:]) - step * PENALTY, 0)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / following * (moved - now)
        now, momentum = moved, following
    return now[1:], float(now[0])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--labels", type=Path, required=True)
    arguments.add_argument("--texts", nargs="+", required=True, metavar="NAME=FOLDER[:LANGUAGE]")
    arguments.add_argument("--write", type=Path, metavar="FILE", help="write the weights of all texts")
    options = arguments.parse_args()
    labels = read_labels(options.labels)
    judged: list[Example] = []
    for text in options.texts:
        name, _, place = text.partition("=")
        path, _, language = place.partition(":")
        labelled = {key for corpus, key in labels if corpus == name}
        judged += examples(name, Path(path), language or "auto", labelled)
    used = Counter(trait for *_, traits in judged for trait in traits)
    names = sorted(trait for trait, count in used.items() if count >= LEAST_USED)
    x = np.array([[trait in traits for trait in names] for *_, traits in judged], dtype=np.float64)
    y = np.array([labels[corpus, key] != "ok" for corpus, key, _ in judged], dtype=np.float64)
    times = Counter((corpus, key) for corpus, key, _ in judged)
    weights = np.array([1 / times[corpus, key] for corpus, key, _ in judged])
    for line in table(x, y, weights, judged):
        print(line, flush=True)
    if options.write:
        coefficients, _ = fitted(x, y, weights)
        tenths = {name: round(10 * value) for name, value in zip(names, coefficients, strict=True)}
        heavy = sorted((-value, name) for name, value in tenths.items() if abs(value) > 1)
        options.write.write_text(HEAD + "".join(f"{-value:+d} {name}\n" for value, name in heavy), encoding="utf-8")


def table(x: Floats, y: Floats, weights: Floats, judged: Sequence[Example]) -> Iterator[str]:
    """Yield how much junk is left at which price, by scores that a text's own labels had no part in."""
    texts = np.array([corpus.rpartition("-")[0] or corpus for corpus, *_ in judged])
    scores = np.zeros(len(judged))
    for text in sorted(set(texts)):
        own = texts == text
        coefficients, intercept = fitted(x[~own], y[~own], weights[~own])
        scores[own] = x[own] @ coefficients + intercept
    # A corpus has what one of its documents has.
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for (corpus, key, _), score, junk in zip(judged, scores, y, strict=True):
        best[corpus, key] = min(best.get((corpus, key), (np.inf, junk)), (float(score), float(junk)))
    score, junk = (np.array(column) for column in zip(*best.values(), strict=True))
    yield f"{len(best)} names of {len(set(texts))} texts, junk {junk.mean():.3f}"
    for share in SHARES:
        remains = score <= np.quantile(score[junk == 0], 1 - share)
        yield f"of good names {share:.2f} lost: junk {junk[remains].mean():.3f}"


if __name__ == "__main__":
    main()
