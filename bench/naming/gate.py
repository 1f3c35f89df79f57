"""What makes a concept an entity, fitted and checked: the weights of text/naming/gate.py, and `terms` of name_tagger.py.

    python -m bench gate --labels bench/naming/concept_labels.tsv --texts faq-zh=/usr/share/doc/debian/FAQ:zh …
    python -m bench gate … --write python/pg_graphrag
    python -m bench gate … --further all-MiniLM-L6-v2 --write python/pg_graphrag

Logistic regression with an L2 penalty, on traits and on the states that the encoders have of a concept's tokens. Examples are the
labelled concepts of texts, one for each document that has it, all of a corpus and a key together as one, and the names in
sentences that the tagger was not trained on (sentences/), where a candidate is good if it is marked. The table says how much junk
is left for each share of good names that is given up, by weights of other texts; faq-de and faq-zh are one text. `--further`
fits what one model's states say beyond the weights in use, by what texts are at hand.
"""

import argparse
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from pg_graphrag.index.indexing import prepare
from pg_graphrag.index.indexing.item_vectors import NO_NAMES, document_names
from pg_graphrag.index.indexing.prepare import add_concepts, own_proses
from pg_graphrag.llm.embedding import name_tagger
from pg_graphrag.llm.embedding.name_tagger import DIGESTS, NameTagger, TermScores
from pg_graphrag.llm.embedding.tensors import Floats as Singles
from pg_graphrag.server.corpus.options import MULTILINGUAL_MODEL, Options
from pg_graphrag.text.concept import key
from pg_graphrag.text.naming import gate
from pg_graphrag.text.naming.gate import Usage
from pg_graphrag.text.naming.unit_traits import Span
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit

from bench.naming.concepts import PUBLIC, Text, drafts, folder, public, read_by, read_labels
from bench.naming.marked import SENTENCES, read

HEAD = """\
# Weights of traits (gate.py) in hundredths of the logarithm of the odds that a concept is an entity (python -m bench gate).
"""
LEAST_USED, PENALTY, LEAST_WEIGHT = 20, 6.0, 10
# So much a deviation of a state counts beside a trait, which is 0 or 1: less is a heavier penalty.
STATE_SCALE = 0.035
# So much more `--further` asks for, as a logarithm of odds: as many good terms are kept as before, and fewer bad ones.
MORE_DEMANDED = 0.3
# Of one text no more documents are read than have so many characters; of a concept no more documents are examples.
MOST_CHARACTERS, MOST_DOCUMENTS = 150_000, 4
# Odds that are asked for in a note, a passage and a longer document, as logarithms, by who calls the concept a name
# (docs/decisions/text.md).
DEMANDED = {
    **dict.fromkeys(("called name", "called phrase", "half name", "half phrase"), (-3.0, -3.0, 0.0)),
    "uncalled name": (-2.0, -1.35, 1.75),
    "uncalled phrase": (-1.1, 0.25, 2.0),
    **dict.fromkeys(("unread name", "unread phrase"), (-1.0, -1.0, -1.0)),
}
FOLDS = 10
SHARES = (0.1, 0.2, 0.3, 0.4)
Floats = NDArray[np.float64]


class Example(NamedTuple):
    """A concept of a document.

    Attributes
    ----------
    model : str
        Who reads the document; "" for nobody.
    states : array, (PLACES * layers * width,), or None
        The mean over its mentions.
    """

    corpus: str
    key: str
    traits: set[str]
    is_good: bool
    model: str
    states: Singles | None


class _Mean(float):
    """A term's score, 0, with the states that it would be made of."""

    states: Singles


class _States(TermScores):
    """The states of tokens, (tokens, layers * width), in place of their scores."""

    def of(self, start: int, end: int) -> float | None:
        rows = self.at(start, end)
        if rows is None:
            return None
        mean = _Mean(0)
        mean.states = np.concatenate(rows, dtype=np.float32)
        return mean


def _states(_: NameTagger, spans: Sequence[Span], states: Any) -> TermScores:
    places = np.array(spans, np.int32).reshape(-1, 2)
    return _States(places[:, 0], places[:, 1], states.astype(np.float16))


def usages(texts: Sequence[Text], language: str, model: str) -> Iterator[tuple[Mapping[str, Usage], int]]:
    """Yield the candidates of each document and its number of windows; without a `model` as nobody reads them."""
    judged: list[tuple[Mapping[str, Usage], int]] = []

    def note(candidates: Mapping[str, Usage], window_count: int) -> set[str]:
        judged.append((candidates, window_count))
        return set()

    options = Options(language=language)
    documents = drafts(texts, options)
    with patch.object(prepare, "entity_keys", note), patch.object(NameTagger, "terms", _states):
        tagged = read_by(model, documents) if model else NO_NAMES
        for whole in documents:
            names = document_names(whole.title, whole.chunks, tagged)
            proses = own_proses(whole.chunks)
            for _ in add_concepts(whole.chunks, whole.title, proses, names, with_full_names=options.full_names):
                pass
            yield from judged
            judged.clear()


def example(corpus: str, entity_key: str, usage: Usage, windows: int, model: str, *, is_good: bool) -> Example:
    """Return a concept of a document of so many windows as an example."""
    of_places = [score.states for score in usage.term_scores[: gate.MENTIONS] if isinstance(score, _Mean)]
    states = np.mean(of_places, axis=0).astype(np.float16) if of_places else None
    return Example(corpus, entity_key, gate.traits(usage, windows), is_good, model, states)


def of_labels(
    corpus: str, texts: Sequence[Text], language: str, labels: Mapping[tuple[str, str], str], model: str
) -> Iterator[Example]:
    """Yield the labelled concepts of documents."""
    times: Counter[str] = Counter()
    for found, windows in usages(texts, language, model):
        for entity_key, usage in found.items():
            label = labels.get((corpus, entity_key))
            times[entity_key] += 1
            if label is not None and times[entity_key] <= MOST_DOCUMENTS:
                yield example(corpus, entity_key, usage, windows, model, is_good=label == "ok")


def of_sentences(language: str, model: str) -> Iterator[Example]:
    """Yield the candidates of sentences that are written as names."""
    held_out = read(language)[1]
    known_as = {"zh-hant": "zh"}.get(language, language)
    analysed = known_as if known_as in ("de", "en", "ja", "zh") else "en"
    texts: list[Text] = [(None, marked.text) for marked in held_out]
    for marked, (found, windows) in zip(held_out, usages(texts, analysed, model), strict=True):
        names = {key(marked.text[start:end]) for start, end, _ in marked.names}
        for entity_key, usage in found.items():
            if usage.is_name:
                yield example(f"sentences-{language}", entity_key, usage, windows, model, is_good=entity_key in names)


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


class Problem:
    """Examples (rows) as numbers.

    Parameters
    ----------
    examples
        Those to learn from and to be judged.
    further
        Whether only states are fitted, and what they say beyond the weights in use.

    Attributes
    ----------
    names : list of str
        Traits: the first columns.
    """

    def __init__(self, examples: Sequence[Example], *, further: bool = False) -> None:
        used = Counter(trait for each in examples for trait in each.traits if not further)
        self.names = sorted(trait for trait, count in used.items() if count >= LEAST_USED)
        columns = {name: column for column, name in enumerate(self.names)}
        rows = [sorted(columns[trait] for trait in each.traits if trait in columns) for each in examples]
        ends = np.cumsum([0, *map(len, rows)])
        places = np.fromiter((column for row in rows for column in row), dtype=np.int64)
        self._traits = csr_array((np.ones(len(places)), places, ends), shape=(len(rows), len(self.names)))
        self._offsets = np.array([_odds_in_use(each) if further else 0 for each in examples])
        self._states: dict[str, tuple[NDArray[np.intp], Singles]] = {}
        self.scales: dict[str, tuple[Singles, Singles]] = {}
        for model in DIGESTS:
            seen = np.array(
                [row for row, each in enumerate(examples) if each.model == model and each.states is not None]
            )
            if not len(seen):
                continue
            states = np.array([examples[row].states for row in seen], np.float32)
            mean, deviation = states.mean(axis=0), states.std(axis=0) + np.float32(1e-3)
            self.scales[model] = mean, deviation
            self._states[model] = seen, (states - mean) / deviation * np.float32(STATE_SCALE)
        self.good = np.array([each.is_good for each in examples], dtype=np.float64)
        of = [(each.corpus, each.key, each.model) for each in examples]
        times = Counter(of)
        self.weights: Floats = np.array([1 / times[each] for each in of])
        self.size = len(self.names) + sum(states.shape[1] for _, states in self._states.values()) + 1

    def parts(self, parameters: Floats) -> dict[str, Floats]:
        """Return the coefficients of the states of each model."""
        position, parts = len(self.names) + 1, {}
        for model, (_, states) in self._states.items():
            parts[model] = parameters[position : position + states.shape[1]]
            position += states.shape[1]
        return parts

    def odds(self, parameters: Floats) -> Floats:
        """Return the logarithms of the odds of all rows by the intercept, the coefficients of traits, and those of states."""
        odds: Floats = self._traits @ parameters[1 : len(self.names) + 1] + parameters[0] + self._offsets
        for model, part in self.parts(parameters).items():
            rows, states = self._states[model]
            odds[rows] += states @ part.astype(np.float32)
        return odds

    def fitted(self, is_learned: NDArray[np.bool_]) -> Floats:
        """Return the parameters that some rows say."""
        weights = np.where(is_learned, self.weights, 0)

        def loss(parameters: Floats) -> tuple[float, Floats]:
            odds = self.odds(parameters)
            errors = weights * (expit(odds) - self.good)
            # Beyond the weights in use, the intercept stays.
            slopes = [[errors.sum() if self.names else 0.0], self._traits.T @ errors]
            slopes += [states.T @ errors[rows].astype(np.float32) for rows, states in self._states.values()]
            penalised = np.concatenate(([0.0], parameters[1:]))
            value = float(weights @ (np.logaddexp(0, odds) - self.good * odds)) + PENALTY / 2 * float(
                penalised @ penalised
            )
            return value, np.concatenate(slopes) + PENALTY * penalised

        best: Floats = minimize(loss, np.zeros(self.size), jac=True, method="L-BFGS-B").x
        return best


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--labels", type=Path, required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--texts", nargs="+", required=True, metavar="NAME=FOLDER[:LANGUAGE]")
    arguments.add_argument("--write", type=Path, metavar="FOLDER", help="write what all texts say into the package")
    arguments.add_argument("--further", choices=DIGESTS, metavar="MODEL", help="fit a model's directions alone")
    given = arguments.parse_args()
    models = [given.further] if given.further else [*DIGESTS, ""]
    examples = list(all_examples(given.labels, given.data, given.texts, models))
    problem = Problem(examples, further=given.further is not None)
    for line in table(problem, examples):
        print(line, flush=True)
    if given.write:
        write(given.write, problem, problem.fitted(np.ones(len(examples), bool)))


def all_examples(label_file: Path, data: Path, folders: Sequence[str], models: Sequence[str]) -> Iterator[Example]:
    """Yield labelled concepts and names of sentences as each of `models` reads them that knows the language; "" is nobody."""
    labels = read_labels(label_file)
    texts = [(name, limited(public(data, name)), "auto") for name in PUBLIC]
    for text in folders:
        name, _, place = text.partition("=")
        path, _, language = place.partition(":")
        texts.append((name, limited(folder(Path(path))), language or "auto"))
    for model in models:
        is_english = model not in (MULTILINGUAL_MODEL, "")
        for path in sorted(SENTENCES.glob("*.txt")):
            if model and (path.stem == "en" or not is_english):
                yield from of_sentences(path.stem, model)
        for name, documents, language in texts:
            if not is_english or gate.language_of(documents[0][1], "en" if language == "auto" else language) == "en":
                yield from of_labels(name, documents, language, labels, model)


def _demanded_by_trait() -> dict[str, float]:
    """Return {trait that every concept has one of: the odds that are asked for}."""
    return {
        f"{named} {length}": odds[min(place, len(odds) - 1)]
        for named, odds in DEMANDED.items()
        for place, length in enumerate(gate.LENGTHS)
    }


def _odds_in_use(given: Example) -> float:
    """Return the logarithm of the odds that the weights in use make of an example, without what is asked for."""
    weights, demanded = gate.weights(), _demanded_by_trait()
    of_traits = sum(weights.get(each, 0) / 100 + demanded.get(each, 0) for each in given.traits)
    terms = _terms_in_use(given.model)
    of_states = 0.0 if given.states is None else float(given.states @ terms[:-1] + terms[-1])
    return weights[gate.INTERCEPT] / 100 + of_traits + of_states


@cache
def _terms_in_use(model: str) -> Singles:
    with np.load(Path(name_tagger.__file__).with_name(f"names-{model}.npz")) as arrays:
        terms: Singles = arrays["terms"]
        return terms


def _text_of(corpus: str) -> str:
    return corpus if corpus.startswith("sentences-") else corpus.rpartition("-")[0] or corpus


def write(package: Path, problem: Problem, parameters: Floats) -> None:
    """Write the weights and the directions into the package; where no trait was fitted, directions alone."""
    if problem.names:
        _write_traits(package, problem, parameters)
    for model, part in problem.parts(parameters).items():
        mean, deviation = problem.scales[model]
        direction = part * STATE_SCALE / deviation
        terms = np.array([*direction, -(direction @ mean)], np.float32)
        if not problem.names:
            terms += _terms_in_use(model)
            terms[-1] -= MORE_DEMANDED
        path = package / f"llm/embedding/names-{model}.npz"
        with np.load(path) as arrays:
            weights = dict(arrays) | {"terms": terms}
        np.savez(path, **weights)
        print(f"{path.name}: SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}")


def _write_traits(package: Path, problem: Problem, parameters: Floats) -> None:
    values = {gate.INTERCEPT: parameters[0], **{trait: -odds for trait, odds in _demanded_by_trait().items()}}
    for name, value in zip(problem.names, parameters[1:], strict=False):
        values[name] = values.get(name, 0.0) + value
    weights_of_traits = {
        name: value for name, value in values.items() if abs(100 * value) >= LEAST_WEIGHT or name == gate.INTERCEPT
    }
    heavy = sorted((-round(100 * value), name) for name, value in weights_of_traits.items())
    lines = "".join(f"{-value:+d} {name}\n" for value, name in heavy)
    (package / "text/naming/gate_weights.txt").write_text(HEAD + lines, encoding="utf-8")


def table(problem: Problem, examples: Sequence[Example]) -> Iterator[str]:
    """Yield how much junk is left at which price, by scores that a text's own labels had no part in."""
    folds = np.array([zlib.crc32(_text_of(each.corpus).encode()) % FOLDS for each in examples])
    scores = np.zeros(len(examples))
    for fold in range(FOLDS):
        scores[folds == fold] = problem.odds(problem.fitted(folds != fold))[folds == fold]
    demanded = _demanded_by_trait()
    scores -= [next(demanded[trait] for trait in each.traits if trait in demanded) for each in examples]
    # A corpus has what one of its documents has.
    best: dict[tuple[str, str, str], tuple[float, bool]] = {}
    for each, score in zip(examples, scores, strict=True):
        concept = each.model, each.corpus, each.key
        best[concept] = max(best.get(concept, (-np.inf, each.is_good)), (float(score), each.is_good))
    for model in (*DIGESTS, ""):
        for kind in ("sentences", "labels"):
            chosen = [
                value
                for (reader, corpus, _), value in best.items()
                if reader == model and corpus.startswith("sentences") is (kind == "sentences")
            ]
            if not chosen:
                continue
            score, good = (np.array(column) for column in zip(*chosen, strict=True))
            is_entity = score > 0
            yield f"{model or 'nobody'}, {kind}: {len(chosen)} names, junk {1 - good.mean():.3f}; kept: junk " + (
                f"{1 - good[is_entity].mean():.3f}, of good lost {1 - is_entity[good == 1].mean():.3f}"
            )
            for share in SHARES:
                remains = score >= np.quantile(score[good == 1], share)
                yield f"    of good names {share:.2f} lost: junk {1 - good[remains].mean():.3f}"


if __name__ == "__main__":
    main()
