"""What makes a concept an entity, fitted and checked: the weights of text/naming/gate.py and llm/embedding/name_pieces.py.

    python -m bench gate --labels bench/naming/concept_labels.tsv --texts faq-zh=/usr/share/doc/debian/FAQ:zh …
    python -m bench gate … --write python/pg_graphrag

Logistic regression with an L2 penalty. Examples are the labelled concepts of texts, one for each document that has it, all of a
corpus and a key together as one, and the names in sentences that the tagger was not trained on (sentences/), where a candidate is
good if it is marked.
The table says for each share of good names that is given up how much junk is left, by weights of the other texts; corpora whose
names begin alike (faq-de, faq-zh) are one text.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pg_graphrag.index.indexing import prepare
from pg_graphrag.index.indexing.prepare import add_concepts, own_proses
from pg_graphrag.index.indexing.window_names import NO_NAMES, document_names
from pg_graphrag.llm.embedding import name_pieces
from pg_graphrag.server.corpus.options import MULTILINGUAL_MODEL, Options
from pg_graphrag.text.concept import key
from pg_graphrag.text.naming import gate
from pg_graphrag.text.naming.gate import Usage
from scipy.optimize import minimize
from scipy.sparse import csr_array, hstack
from scipy.special import expit

from bench.naming.concepts import PUBLIC, Text, drafts, folder, names_in, public, read_labels
from bench.naming.marked import SENTENCES, read

HEAD = """\
# Weights of traits (gate.py) in hundredths of the logarithm of the odds that a concept is an entity (python -m bench gate).
"""
LEAST_USED, PENALTY, LEAST_WEIGHT = 20, 6.0, 10
# So much a dimension of embeddings counts beside a trait, which is 0 or 1: less is a heavier penalty.
EMBEDDING_SCALE = 2.5
# Of one text no more documents are read than have so many characters.
MOST_CHARACTERS = 150_000
# What a candidate of a sentence counts beside a label, and a good one beside junk.
OF_SENTENCE, OF_GOOD = 1.0, 1.0
SHARES = (0.1, 0.2, 0.3, 0.4)
Floats = NDArray[np.float64]


class Example(NamedTuple):
    """A concept of a document, whether it is good, and what it counts."""

    corpus: str
    key: str
    name: str
    traits: set[str]
    is_good: bool
    weight: float


def usages(texts: Sequence[Text], language: str, model: str) -> Iterator[tuple[Mapping[str, Usage], int]]:
    """Yield the candidates of each document and its number of windows; without a `model` as no tagger reads them."""
    judged: list[tuple[Mapping[str, Usage], int]] = []

    def note(candidates: Mapping[str, Usage], window_count: int) -> set[str]:
        judged.append((candidates, window_count))
        return set()

    options = Options(language=language)
    documents = drafts(texts, options)
    tagged = names_in((whole for whole, _ in documents), model) if model else NO_NAMES
    decide, prepare.entity_keys = prepare.entity_keys, note
    try:
        for whole, content in documents:
            names = document_names(whole.title, whole.chunks, tagged)
            proses = own_proses(whole.chunks, content)
            for _ in add_concepts(whole.chunks, whole.title, proses, names, with_full_names=options.full_names):
                pass
            yield from judged
            judged.clear()
    finally:
        prepare.entity_keys = decide


def of_labels(
    corpus: str, texts: Sequence[Text], language: str, labels: Mapping[tuple[str, str], str], model: str
) -> list[Example]:
    """Return the labelled concepts of documents."""
    examples = []
    for found, windows in usages(texts, language, model):
        for entity_key, usage in found.items():
            label = labels.get((corpus, entity_key))
            if label is not None:
                examples.append(
                    Example(corpus, entity_key, usage.name, gate.traits(usage, windows), label == "ok", 1.0)
                )
    return examples


def of_sentences(language: str, model: str) -> list[Example]:
    """Return the candidates of sentences that are written as names."""
    examples = []
    held_out = read(language)[1]
    options = {"zh-hant": "zh"}.get(language, language)
    analysed = options if options in ("de", "en", "ja", "zh") else "en"
    texts: list[Text] = [(None, marked.text) for marked in held_out]
    for marked, (found, windows) in zip(held_out, usages(texts, analysed, model), strict=True):
        names = {key(marked.text[start:end]) for start, end, _ in marked.names}
        for entity_key, usage in found.items():
            if usage.is_name:
                good = entity_key in names
                found_traits = gate.traits(usage, windows)
                examples.append(
                    Example(f"sentences-{language}", entity_key, usage.name, found_traits, good, OF_SENTENCE)
                )
    return examples


def limited(texts: Iterator[Text]) -> list[Text]:
    """Return documents until there are enough characters."""
    found: list[Text] = []
    characters = 0
    for title, content in texts:
        found.append((title, content[:MOST_CHARACTERS]))
        characters += len(content)
        if characters > MOST_CHARACTERS:
            break
    return found


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
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--texts", nargs="+", required=True, metavar="NAME=FOLDER[:LANGUAGE]")
    arguments.add_argument("--model", default=MULTILINGUAL_MODEL, help="whose names")
    arguments.add_argument("--write", type=Path, metavar="FOLDER", help="write what all texts say into the package")
    given = arguments.parse_args()
    labels = read_labels(given.labels)
    examples: list[Example] = []
    texts = [(name, limited(public(given.data, name)), "auto") for name in PUBLIC]
    for text in given.texts:
        name, _, place = text.partition("=")
        path, _, language = place.partition(":")
        texts.append((name, limited(folder(Path(path))), language or "auto"))
    for path in sorted(SENTENCES.glob("*.txt")):
        examples += of_sentences(path.stem, given.model)
    # Where no tagger is, what analysers find is all that there is.
    for model in (given.model, ""):
        for name, documents, language in texts:
            examples += of_labels(name, documents, language, labels, model)
    x, y, weights, names = problem(examples)
    for line in table(x, y, weights, examples):
        print(line, flush=True)
    if given.write:
        write(given.write, names, *fitted(x, y, weights))


def problem(examples: Sequence[Example]) -> tuple[csr_array, Floats, Floats, list[str]]:
    """Return what is known of each example (rows), whether it is good, its weight, and the names of the first columns."""
    used = Counter(trait for example in examples for trait in example.traits)
    names = sorted(trait for trait, count in used.items() if count >= LEAST_USED)
    y = np.array([example.is_good for example in examples], dtype=np.float64)
    times = Counter((example.corpus, example.key, _is_read(example)) for example in examples)
    weights = [
        example.weight * (OF_GOOD if example.is_good else 1.0) / times[example.corpus, example.key, _is_read(example)]
        for example in examples
    ]
    of_words = EMBEDDING_SCALE * np.array([name_pieces.mean_embedding(example.name) for example in examples])
    x = csr_array(hstack([matrix(names, [example.traits for example in examples]), csr_array(of_words)]))
    return x, y, np.array(weights), names


def _text_of(corpus: str) -> str:
    return corpus if corpus.startswith("sentences-") else corpus.rpartition("-")[0] or corpus


def _is_read(example: Example) -> bool:
    return not any(trait.startswith("unread ") for trait in example.traits)


def write(package: Path, names: Sequence[str], coefficients: Floats, intercept: float) -> None:
    """Write the weights and the direction into the package."""
    values = zip([*names, gate.INTERCEPT], [*coefficients[: len(names)], intercept], strict=True)
    heavy = sorted((-round(100 * value), name) for name, value in values if abs(100 * value) >= LEAST_WEIGHT)
    lines = "".join(f"{-value:+d} {name}\n" for value, name in heavy)
    (package / "text/naming/gate_weights.txt").write_text(HEAD + lines, encoding="utf-8")
    direction = [round(10_000 * EMBEDDING_SCALE * float(value)) for value in coefficients[len(names) :]]
    (package / "llm/embedding/name_direction.json").write_text(json.dumps(direction) + "\n", encoding="ascii")


def matrix(names: Sequence[str], trait_sets: Sequence[Set[str]]) -> csr_array:
    """Return 1 where an example (row) has a trait (column)."""
    columns = {name: column for column, name in enumerate(names)}
    rows = [sorted(columns[trait] for trait in traits if trait in columns) for traits in trait_sets]
    ends = np.cumsum([0, *map(len, rows)])
    indices = np.fromiter((column for row in rows for column in row), dtype=np.int64)
    return csr_array((np.ones(len(indices)), indices, ends), shape=(len(rows), len(names)))


def table(x: csr_array, y: Floats, weights: Floats, examples: Sequence[Example]) -> Iterator[str]:
    """Yield how much junk is left at which price, by scores that a text's own labels had no part in."""
    texts = np.array([_text_of(example.corpus) for example in examples])
    scores = np.zeros(len(examples))
    for text in sorted(set(texts)):
        own = texts == text
        coefficients, intercept = fitted(x[~own], y[~own], weights[~own])
        scores[own] = x[own] @ coefficients + intercept
    # A corpus has what one of its documents has.
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for example, score, good in zip(examples, scores, y, strict=True):
        if _is_read(example):
            concept = example.corpus, example.key
            best[concept] = max(best.get(concept, (-np.inf, good)), (float(score), float(good)))
    for kind in ("sentences", "labels"):
        chosen = [
            value for (corpus, _), value in best.items() if corpus.startswith("sentences") is (kind == "sentences")
        ]
        score, good = (np.array(column) for column in zip(*chosen, strict=True))
        kept = score > 0
        yield f"{kind}: {len(chosen)} names, junk {1 - good.mean():.3f}; at 0: junk {1 - good[kept].mean():.3f}," + (
            f" of good lost {1 - kept[good == 1].mean():.3f}"
        )
        for share in SHARES:
            remains = score >= np.quantile(score[good == 1], share)
            yield f"of good names {share:.2f} lost: junk {1 - good[remains].mean():.3f}"


if __name__ == "__main__":
    main()
