"""What a concept's traits and words say of whether readers called it junk, fitted and checked.

The results are the weights of text/naming/name_evidence.py and the direction of llm/embedding/name_pieces.py.

    python -m bench evidence --labels bench/naming/concept_labels.tsv --texts faq-zh=/usr/share/doc/debian/FAQ:zh …
    python -m bench evidence … --write python/pg_graphrag

Logistic regression with an L2 penalty on the labelled concepts that all other rules leave, a document's concepts as one example
each, and all of a corpus and a key together as one. Of words it takes the mean of e5's input embeddings. The table says for each
share of good names that is given up how much junk is left, by weights of the other texts; corpora whose names begin alike
(faq-de, faq-zh) are one text.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pg_graphrag.index.indexing import entity_keys, prepare
from pg_graphrag.llm.embedding import name_pieces
from pg_graphrag.text.concept import Concept
from pg_graphrag.text.naming import name_evidence
from scipy.optimize import minimize
from scipy.sparse import csr_array, hstack
from scipy.special import expit

from bench.naming.concepts import Text, extracted, folder, read_labels

HEAD = """\
# Weights of traits (name_evidence.py) in hundredths of the logarithm of the odds of junk.
# Learned by logistic regression (L2) from labels of readers, checked by leaving out one text at a time (bench evidence).
"""
LEAST_USED, PENALTY, LEAST_WEIGHT = 5, 10.0, 4
# So much a dimension of embeddings counts beside a trait, which is 0 or 1: less is a heavier penalty.
EMBEDDING_SCALE = 2.5
# Of one text no more documents are read than have so many characters.
MOST_CHARACTERS = 250_000
SHARES = (0.1, 0.2, 0.3, 0.4)
Floats = NDArray[np.float64]


class Example(NamedTuple):
    """A labelled concept of a document."""

    corpus: str
    key: str
    traits: set[str]
    name: str


def examples(corpus: str, texts: Iterator[Text], language: str, labelled: Set[str]) -> list[Example]:
    """Return the labelled concepts of documents."""
    judged: list[Example] = []

    def note(
        keys: Set[str],
        concepts_by_chunk: Sequence[Sequence[Concept]],
        proses: Sequence[str],
        languages: Sequence[str],
        window_count: int,
    ) -> set[str]:
        usages = entity_keys.usages_in(keys & labelled, concepts_by_chunk, proses, languages)
        judged.extend(
            Example(corpus, key, name_evidence.traits(usage, window_count), usage.name) for key, usage in usages.items()
        )
        return set()

    judge, prepare.without_evidence = prepare.without_evidence, note
    try:
        extracted(list(texts), language)
    finally:
        prepare.without_evidence = judge
    return judged


def limited(texts: Iterator[Text]) -> Iterator[Text]:
    """Yield documents until there are enough characters."""
    characters = 0
    for title, content in texts:
        yield title, content
        characters += len(content)
        if characters > MOST_CHARACTERS:
            return


def fitted(x: csr_array, y: Floats, weights: Floats) -> tuple[Floats, float]:
    """Return the coefficients and the intercept."""

    def loss(parameters: Floats) -> tuple[float, Floats]:
        coefficients = parameters[1:]
        odds = x @ coefficients + parameters[0]
        errors = weights * (expit(odds) - y)
        penalty = PENALTY / 2 * float(coefficients @ coefficients)
        slope = np.concatenate(([errors.sum()], x.T @ errors + PENALTY * coefficients))
        return float(weights @ (np.logaddexp(0, odds) - y * odds)) + penalty, slope

    parameters = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return parameters[1:], float(parameters[0])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--labels", type=Path, required=True)
    arguments.add_argument("--texts", nargs="+", required=True, metavar="NAME=FOLDER[:LANGUAGE]")
    arguments.add_argument("--write", type=Path, metavar="FOLDER", help="write what all texts say into the package")
    options = arguments.parse_args()
    labels = read_labels(options.labels)
    judged: list[Example] = []
    for text in options.texts:
        name, _, place = text.partition("=")
        path, _, language = place.partition(":")
        labelled = {key for corpus, key in labels if corpus == name}
        judged += examples(name, limited(folder(Path(path))), language or "auto", labelled)
    x, y, weights, names = problem(judged, labels)
    for line in table(x, y, weights, judged):
        print(line, flush=True)
    if options.write:
        write(options.write, names, *fitted(x, y, weights))


def problem(
    judged: Sequence[Example], labels: Mapping[tuple[str, str], str]
) -> tuple[csr_array, Floats, Floats, list[str]]:
    """Return what is known of each example (rows), whether it is junk, its weight, and the names of the first columns."""
    used = Counter(trait for example in judged for trait in example.traits)
    names = sorted(trait for trait, count in used.items() if count >= LEAST_USED)
    of_words = EMBEDDING_SCALE * np.array([name_pieces.mean_embedding(example.name) for example in judged])
    x = csr_array(hstack([matrix(names, [example.traits for example in judged]), csr_array(of_words)]))
    y = np.array([labels[example.corpus, example.key] != "ok" for example in judged], dtype=np.float64)
    times = Counter((example.corpus, example.key) for example in judged)
    return x, y, np.array([1 / times[example.corpus, example.key] for example in judged]), names


def write(package: Path, names: Sequence[str], coefficients: Floats, intercept: float) -> None:
    """Write the weights and the direction into the package."""
    values = zip([*names, name_evidence.INTERCEPT], [*coefficients[: len(names)], intercept], strict=True)
    heavy = sorted((-round(100 * value), name) for name, value in values if abs(100 * value) >= LEAST_WEIGHT)
    lines = "".join(f"{-value:+d} {name}\n" for value, name in heavy)
    (package / "text/naming/evidence_weights.txt").write_text(HEAD + lines, encoding="utf-8")
    direction = [round(10_000 * EMBEDDING_SCALE * float(value)) for value in coefficients[len(names) :]]
    (package / "llm/embedding/name_direction.json").write_text(json.dumps(direction) + "\n", encoding="ascii")


def matrix(names: Sequence[str], trait_sets: Sequence[Set[str]]) -> csr_array:
    """Return 1 where an example (row) has a trait (column)."""
    columns = {name: column for column, name in enumerate(names)}
    rows = [sorted(columns[trait] for trait in traits if trait in columns) for traits in trait_sets]
    ends = np.cumsum([0, *map(len, rows)])
    indices = np.fromiter((column for row in rows for column in row), dtype=np.int64)
    return csr_array((np.ones(len(indices)), indices, ends), shape=(len(rows), len(names)))


def table(x: csr_array, y: Floats, weights: Floats, judged: Sequence[Example]) -> Iterator[str]:
    """Yield how much junk is left at which price, by scores that a text's own labels had no part in."""
    texts = np.array([example.corpus.rpartition("-")[0] or example.corpus for example in judged])
    scores = np.zeros(len(judged))
    for text in sorted(set(texts)):
        own = texts == text
        coefficients, intercept = fitted(x[~own], y[~own], weights[~own])
        scores[own] = x[own] @ coefficients + intercept
    # A corpus has what one of its documents has.
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for example, score, junk in zip(judged, scores, y, strict=True):
        concept = example.corpus, example.key
        best[concept] = min(best.get(concept, (np.inf, junk)), (float(score), float(junk)))
    score, junk = (np.array(column) for column in zip(*best.values(), strict=True))
    yield f"{len(best)} names of {len(set(texts))} texts, junk {junk.mean():.3f}"
    for share in SHARES:
        remains = score <= np.quantile(score[junk == 0], 1 - share)
        yield f"of good names {share:.2f} lost: junk {junk[remains].mean():.3f}"


if __name__ == "__main__":
    main()
