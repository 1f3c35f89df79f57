"""Finds names in a text: a small network over the states that a local model's encoder computes for the tokens anyway.

A unit is a word, a sign or a character of Han, kana or Hangul. Its input is the states of the tokens with its first and
its last character, traits of its spelling, and what dictionaries of Chinese and Japanese say of it. A projection,
convolutions over neighbouring units, and a conditional random field (Lafferty et al. 2001) give the most likely names
of a text, and how likely each is. `python -m bench train_names` trains the weights. Directions of the states of a
concept's tokens and of those beside it also say how much of a term it is. The gate of entities (text/naming/gate.py)
uses them, and `python -m bench gate` fits them.
"""

import hashlib
import io
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Ids, NDArray, multiply, np
from pg_graphrag.llm.embedding.tensors import Floats, map_tensors
from pg_graphrag.text.concept import Concept
from pg_graphrag.text.languages import HAN, KANA, letters_of
from pg_graphrag.text.naming.unit_traits import Span, traits, units, word_classes
from pg_graphrag.text.sentences import is_wrap

# SHA-256 of the weights of each model.
DIGESTS = {
    "multilingual-e5-small": "ffb55cc27ad7797e11b2a970cde1feb6ef4dbfdb01e4d4c0d6486fbc45314738",
    "all-MiniLM-L6-v2": "ea94a4616b1758508490c0146592c735456531a7c6429f58b4aadc52fb94a5a8",
}
# Places of a token at a concept: within, first, last, before, after.
PLACES = 5
_LETTER = re.compile(r"[^\W\d_]")
# What the product calls the tagger's types.
_TYPES = {
    "person": "PERSON",
    "org": "ORGANIZATION",
    "place": "LOCATION",
    "product": "PRODUCT",
    "work": "WORK",
    "event": "EVENT",
    "law": "LAW",
    "other": "NAME",
}
# What a name does not begin with: "Mr. Cool" in two, 在上海 of a place in Chinese.
_MARK = re.compile(r"[.,;:!?]\s+(?=\S)")
_AT, _KANA = re.compile(f"在(?=[{HAN}]{{2}})"), letters_of(KANA)
# Types of names that are split at slashes. Places (Frankfurt/Oder) and untyped names (Input/Output) are not.
_PARTED = frozenset({"person", "org", "product"})
# A bracket that does not close.
_OPEN = re.compile(r"[(\[（「『《][^()\[\]（）「」『』《》]*\Z")
_NO_END = "-\u2010\u2011 \t\n"


class TaggedName(NamedTuple):
    """A name at its place in a text.

    Attributes
    ----------
    start, end : int
        Characters of the text.
    type : str
        One of `TYPES`.
    probability : float
        That just these characters are a name of some type.
    """

    start: int
    end: int
    type: str
    probability: float


class TermScores(NamedTuple):
    """How much of a term a concept is, by the encoder's states of each token of a text.

    Attributes
    ----------
    starts, ends : arrays, (tokens,)
        The characters that each stands for, ascending.
    scores : array, (tokens, PLACES)
        What each adds to the logarithm of the odds as one of a concept's tokens (their mean counts), as its first, as its last,
        and where it stands before or after it.
    """

    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    scores: NDArray[np.float32]

    def at(self, start: int, end: int) -> list[Floats] | None:
        """Return the rows of each place of some characters; None where the encoder has not seen all of them."""
        first, behind = int(np.searchsorted(self.ends, start, "right")), int(np.searchsorted(self.starts, end))
        if first >= behind or self.ends[behind - 1] < end:
            return None
        beside = self.scores[[first, behind - 1, max(first - 1, 0), min(behind, len(self.ends) - 1)]]
        return [self.scores[first:behind].mean(axis=0), *beside]

    def of(self, start: int, end: int) -> float | None:
        """Return the logarithm of the odds for some characters, in hundredths' steps; None where one was not seen."""
        rows = self.at(start, end)
        return None if rows is None else round(sum(float(row[place]) for place, row in enumerate(rows)), 2)


class Reading(NamedTuple):
    """What a local model reads in a text: the names in order, and how much of a term each token is."""

    names: list[TaggedName]
    terms: TermScores


def reads_names(model: str) -> bool:
    """Whether names are read on the states of a local model."""
    return model in DIGESTS


def concepts_of(text: str, names: Iterable[TaggedName], moved: int = 0) -> list[Concept]:
    """Return names in a text as concepts; `moved` is added to their places. What has no letter is a number, and none."""
    parts = (part for name in names for part in _parts(text, name))
    return [_concept(text, name, moved) for name in parts if _LETTER.search(text, name.start, name.end)]


def _parts(text: str, name: TaggedName) -> list[TaggedName]:
    """Return the names that slashes join: Debian/Mint, not TCP/IP, nor a place or work: Halle/Saale, Face/Off."""
    words = text[name.start : name.end].split("/")
    if (
        len(words) == 1
        or name.type not in _PARTED
        or not all(len(word) > 2 and word.isalpha() and word.istitle() for word in words)
    ):
        return [name]
    starts = accumulate((len(word) + 1 for word in words[:-1]), initial=name.start)
    return [name._replace(start=start, end=start + len(word)) for start, word in zip(starts, words, strict=True)]


def _concept(text: str, name: TaggedName, moved: int) -> Concept:
    lead = _MARK.match(text, name.start, name.end) or (name.type == "place" and _AT.match(text, name.start, name.end))
    if lead and lead[0] == "在" and _KANA.search(text):
        lead = None  # 在田町 in Japanese
    start, end = lead.end() if lead else name.start, name.end
    # "Code of Practice (UK", "Mattermost-".
    while (cut := _OPEN.search(text, start + 1, end)) and _LETTER.search(text, start, cut.start()):
        end = cut.start()
    while end > start + 1 and text[end - 1] in _NO_END:
        end -= 1
    return Concept(
        name=" ".join(text[start:end].split()),
        start=start + moved,
        end=end + moved,
        type="NAME",
        tag=_TYPES[name.type],
        probability=round(100 * name.probability),
    )


TYPES = ("person", "org", "place", "product", "work", "event", "law", "other")
# What a unit is: outside of names; the first, an inner or the last one of a name; a name by itself.
OUTSIDE, FIRST, INNER, LAST, SINGLE = LABELS = range(5)
FOLLOWING = {
    OUTSIDE: (OUTSIDE, FIRST, SINGLE),
    FIRST: (INNER, LAST),
    INNER: (INNER, LAST),
    LAST: (OUTSIDE, FIRST, SINGLE),
    SINGLE: (OUTSIDE, FIRST, SINGLE),
}
# Units on each side that a convolution sees.
REACH = 2
# Traits of how the units lie in the tokens.
TOKEN_TRAITS = 6
_EPSILON = np.float32(1e-5)
# How lines begin. A mark without a blank, a letter or a number may stand in a wrapped sentence, too ("PostgreSQL / 17.2 is"):
# that is an item where the line before it begins with a mark of the same kind.
_HEADING = re.compile(r"#{1,6}\s")
_ITEM = re.compile(r"(?:[-*+•·–—#>|・◦‣▪■□●○✓✔☐☑☒→⇒►]|\d{1,3}[.)]|\(\d{1,3}\)|\[[ xX✓]\])\s|（\d{1,3}）|\d{1,3}[、）]")
_LIKE_ITEM = re.compile(
    r"[^\S\n]{0,40}(?:(?P<number>\(\d{1,3}\)\s|（\d{1,3}）|\d{1,3}(?:\)\s|[、）]))|(?P<letter>\(?[A-Za-z]\)\s|（?[A-Za-z]）)"
    r"|(?P<section>\d{1,2}(?:\.\d{1,2}){1,3}\.?\s)|(?P<dash>[-–—*+](?=[^\W\d_]))|(?P<dot>[・•](?=\w)))"
)
_WORD_AT, _HIRAGANA = re.compile(r"\S+"), re.compile("[ぁ-ん]")
# Hardly anybody wraps at fewer columns.
_LEAST_WIDTH = 40
_FIELD = re.compile(r"[^\S\n]{0,40}[^\W\d_][\w ]{0,30}[:：]")
# The score of an impossible label.
NEVER = np.float32(-1e4)
# The closing of a letter, a line by itself. Below it stand the writer and the firm, in no sentence.
_CLOSING = re.compile(
    r"^(?:(?:(?:with|best|kind|kindest|warm|warmest|many|yours) ){0,2}"
    r"(?:best|regards|wishes|thanks|cheers|sincerely|faithfully|truly)"
    r"|(?:\w+ ){0,3}gr(?:ü|ue)(?:ß|ss)e?n?|(?:bien )?cordialement|bien à vous|(?:\w+ ){0,2}salutations"
    r"|(?:un )?(?:\w+ )?salud[oi]s?|atentamente|(?:cordiali|distinti) saluti|atenciosamente|cumprimentos"
    r"|(?:met )?\w+ groet(?:en)?)[ ,.!]*\n\n?(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
_SIGNED = re.compile(r"(?:(?:[^\W\d_a-z]|&)[\w&'’.-]*(?:, ?| |$)|(?:and|of|de|di|du|für|und|van|von|y|e) ){1,6}")
# Lines and characters of a signature.
_MOST_LINES, _MOST_CHARACTERS = 6, 400
# Added to the score of a line of a signature as one name: then firms are read, and "Sales Manager" is not.
SIGNED = np.float32(7)


class UnitInputs(NamedTuple):
    """What the network gets of a text.

    Attributes
    ----------
    places : list of (int, int)
        Of the units that the encoder has seen.
    first, last : arrays, (units,)
        The tokens with the first and with the last character of each.
    traits : array, (units, traits)
    """

    places: list[Span]
    first: NDArray[np.intp]
    last: NDArray[np.intp]
    traits: Floats


def unit_inputs(text: str, spans: Sequence[Span]) -> UnitInputs:
    """Return the units of a text, and their features besides the states of their tokens."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    # The last token stands for the end of the text.
    seen = ends[-2] if len(ends) > 1 else 0
    places = [place for place in units(text) if place[1] <= seen]
    first = [bisect_right(ends, start) for start, _ in places]
    last = [max(bisect_left(starts, end) - 1, begin) for begin, (_, end) in zip(first, places, strict=True)]
    by_token = np.zeros((len(places), TOKEN_TRAITS), np.float32)
    for row, (start, end), begin, close in zip(by_token, places, first, last, strict=True):
        row[:] = (
            starts[begin] == start,
            ends[close] == end,
            close > begin,
            min(close - begin, 4) / 4,
            ends[begin] > end,
            min(ends[begin] - start, 8) / 8,
        )
    all_traits = np.concatenate([traits(text, places), by_token, word_classes(text, places)], axis=1)
    return UnitInputs(places, np.array(first, np.intp), np.array(last, np.intp), all_traits)


class NameTagger:
    """Reads names in texts, each by itself.

    Parameters
    ----------
    weights : dict of arrays
        ``layers`` (those of the encoder that are read); ``tokens`` (layers * width, 2 * width of the network: of a first and of a
        last token) and ``deviation`` of the states; ``traits``, ``bias``; ``norm.weight``, ``norm.bias``; of each convolution
        ``conv.N.weight`` (units seen * width, width) and ``conv.N.bias``; ``scores.weight``, ``scores.bias`` (of labels, then of
        types); ``transitions`` (labels, labels), ``begin``, ``end``; ``terms`` (a direction of the states for each place, and
        what is added). As `in_floats` gives them.
    """

    def __init__(self, weights: dict[str, NDArray[Any]]) -> None:
        self.layers = tuple(int(layer) for layer in weights["layers"])
        self._weights: dict[str, Floats] = weights
        self._width = len(self._weights["bias"])
        self._depth = sum(name.startswith("conv.") and name.endswith(".bias") for name in weights)

    def names(
        self, texts: Sequence[str], spans: Sequence[Sequence[Span]], states: Sequence[Floats]
    ) -> list[list[TaggedName]]:
        """Return the names of each text, in order.

        Parameters
        ----------
        spans
            The characters that each token of a text stands for, ascending.
        states
            Of each text the (tokens, layers * width) states.
        """
        inputs = [unit_inputs(text, of_text) for text, of_text in zip(texts, spans, strict=True)]
        scores = [self.scores(of_text, of_tokens) for of_text, of_tokens in zip(inputs, states, strict=True)]
        for text, of_text, of_units in zip(texts, inputs, scores, strict=True):
            # No name spans two items of a list, or a heading and the text below it.
            of_units[np.ix_(_beginnings(text, of_text.places), [INNER, LAST])] = NEVER
            for first, last in _signed(text, of_text.places):
                if first == last:
                    of_units[first, SINGLE] += SIGNED
                else:
                    for unit, label in ((first, FIRST), (slice(first + 1, last), INNER), (last, LAST)):
                        of_units[unit, label] += SIGNED / 2
        return self.decoded([of_text.places for of_text in inputs], scores)

    def terms(self, spans: Sequence[Span], states: Floats) -> TermScores:
        """Return how much of a term each token of one text is; `spans` and `states` as `names` gets them."""
        weights = self._weights["terms"]
        scores = _product(states, weights[:-1].reshape(PLACES, -1))
        scores[:, 0] += weights[-1]
        places = np.array(spans, np.int32).reshape(-1, 2)
        return TermScores(places[:, 0], places[:, 1], scores)

    def scores(self, inputs: UnitInputs, states: Floats) -> Floats:
        """Return (units, labels and types) scores of one text."""
        weights = self._weights
        if not inputs.places:
            return np.empty((0, len(LABELS) + len(TYPES)), np.float32)
        by_token = _product(states, weights["tokens"])
        x = by_token[inputs.first, : self._width] + by_token[inputs.last, self._width :]
        x += _product(inputs.traits, weights["traits"])
        x += weights["bias"]
        x = np.maximum(_normalized(x, weights["norm.weight"], weights["norm.bias"]), 0)
        for number in range(self._depth):
            padded = np.zeros((len(x) + 2 * REACH, self._width), np.float32)
            padded[REACH:-REACH] = x
            around = np.concatenate([padded[start : start + len(x)] for start in range(2 * REACH + 1)], axis=1)
            x += np.maximum(_product(around, weights[f"conv.{number}.weight"]) + weights[f"conv.{number}.bias"], 0)
        product = _product(x, weights["scores.weight"])
        product += weights["scores.bias"]
        return product

    def decoded(self, places: Sequence[list[Span]], scores: Sequence[Floats]) -> list[list[TaggedName]]:
        """Return the names of texts by the scores of their units.

        Every number is made of its own text alone, whatever is beside it.
        """
        lengths = np.array([len(of_text) for of_text in scores])
        padded = np.zeros((max(lengths, default=0), len(scores), len(LABELS)), np.float32)
        for number, of_text in enumerate(scores):
            padded[: len(of_text), number] = of_text[:, : len(LABELS)]
        if not len(padded):
            return [[] for _ in scores]
        labels, marginals = self._best(padded, lengths)
        return [
            _names(of_text, labels[:, number].tolist(), marginals[:, number].tolist(), types[:, len(LABELS) :])
            for number, (of_text, types) in enumerate(zip(places, scores, strict=True))
        ]

    def _best(self, scores: Floats, lengths: Ids) -> tuple[NDArray[np.intp], Floats]:
        """Return the most likely labels, (units, texts), and the probability of each, (units, texts)."""
        transitions, begin, end = (self._weights[name] for name in ("transitions", "begin", "end"))
        is_within = np.arange(len(scores))[:, None] < lengths
        back = np.empty(scores.shape, np.intp)
        forward, backward = np.empty_like(scores), np.empty_like(scores)
        best = forward[0] = begin + scores[0]
        same = np.arange(len(LABELS))
        for place in range(1, len(scores)):
            within = is_within[place, :, None]
            paths = best[:, :, None] + transitions
            back[place] = np.where(within, paths.argmax(axis=1), same)
            best = np.where(within, paths.max(axis=1) + scores[place], best)
            further = _log_sum(forward[place - 1][:, :, None] + transitions) + scores[place]
            forward[place] = np.where(within, further, forward[place - 1])
        backward[-1] = end
        for place in range(len(scores) - 2, -1, -1):
            further = _log_sum((backward[place + 1] + scores[place + 1])[:, :, None] + transitions.T)
            backward[place] = np.where(is_within[place + 1, :, None], further, end)
        labels = np.empty(scores.shape[:2], np.intp)
        texts = np.arange(scores.shape[1])
        labels[-1] = (best + end).argmax(axis=1)
        for place in range(len(scores) - 1, 0, -1):
            labels[place - 1] = back[place, texts, labels[place]]
        total = _log_sum((forward[-1] + end)[:, :, None])
        chosen = np.take_along_axis(forward + backward, labels[:, :, None], axis=2)
        return labels, np.exp(np.minimum(chosen[:, :, 0] - total[:, 0], 0))


def _beginnings(text: str, places: Sequence[Span]) -> list[int]:
    """Return the units with which an item, a paragraph, or what stands below a title or heading begins."""
    numbers = []
    # The paragraph that was looked at last, and its widest line.
    last, widest = -1, 0
    for number, ((_, end), (start, _)) in enumerate(pairwise(places), 1):
        if "\n" not in text[end:start]:
            continue
        line = text.rfind("\n", 0, end) + 1
        is_apart = text.count("\n", end, start) > 1 or _HEADING.match(text, line) or _are_items(text, line, start)
        is_new = line == 0 or _ITEM.match(text, start) or (_FIELD.match(text, line) and _FIELD.match(text, start))
        newline = text.index("\n", end)
        if newline > last:
            first = text.rfind("\n\n", 0, line) + 1
            last = text.find("\n\n", newline) % (len(text) + 1)
            widest = max(map(len, text[first:last].split("\n")))
        is_of_names = _is_of_names(text, line, newline, start, widest)
        if is_apart or is_of_names or (is_new and not is_wrap(text, newline, start)):
            numbers.append(number)
    return numbers


def _signed(text: str, places: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last unit of each line of capitalised words below the closing of a letter."""
    starts, ends = [start for start, _ in places], [end for _, end in places]
    for closing in _CLOSING.finditer(text):
        start = closing.end()
        signature = text[start : start + _MOST_CHARACTERS].partition("\n\n")[0]
        for line in signature.split("\n", _MOST_LINES)[:_MOST_LINES]:
            if _SIGNED.fullmatch(line.rstrip()):
                first, last = bisect_left(starts, start), bisect_right(ends, start + len(line.rstrip())) - 1
                if first <= last < len(places):
                    yield first, last
            start += len(line) + 1


def _is_of_names(text: str, line: int, newline: int, start: int, widest: int) -> bool:
    """Whether a line has names alone and was ended on purpose, since the next word would have fit: of a list, or a signature.

    `widest`: how long lines of its paragraph are.
    """
    if any(word[0].islower() for word in text[line : start + 1].split()) or _HIRAGANA.search(text, line, start):
        return False
    word = _WORD_AT.match(text, start)
    return newline - line + 1 + (len(word[0]) if word else 0) <= max(widest, _LEAST_WIDTH)


def _are_items(text: str, line: int, following: int) -> bool:
    """Whether two adjacent lines begin with the same kind of list mark."""
    marks = _LIKE_ITEM.match(text, line), _LIKE_ITEM.match(text, following)
    return marks[0] is not None and marks[1] is not None and marks[0].lastgroup == marks[1].lastgroup


def in_floats(weights: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return weights as they are computed with, matrices transposed. What has a ``….scale`` is multiplied with that."""
    floats = {
        name: array.astype(np.float32) * weights.get(f"{name}.scale", np.float16(1))
        for name, array in weights.items()
        if name != "layers" and not name.endswith(".scale")
    }
    floats["tokens"] /= floats.pop("deviation")[:, None]
    for name, array in floats.items():
        if name in ("tokens", "traits") or (name.endswith(".weight") and array.ndim == 2):
            floats[name] = np.ascontiguousarray(array.T)
    return floats | {"layers": weights["layers"]}


def _product(inputs: Floats, weight: Floats) -> Floats:
    """Return ``inputs @ weight.T``."""
    product = np.empty((len(inputs), len(weight)), np.float32)
    multiply(inputs, weight, product)
    return product


def _normalized(x: Floats, weight: Floats, bias: Floats) -> Floats:
    x = x - x.mean(axis=1, keepdims=True)
    x /= np.sqrt((x * x).mean(axis=1, keepdims=True) + _EPSILON)
    x *= weight
    x += bias
    return x


def _log_sum(values: Floats) -> Floats:
    """Return the logarithm of the sum of exponentials over axis 1."""
    most = values.max(axis=1, keepdims=True)
    total: Floats = np.log(np.exp(values - most).sum(axis=1)) + most[:, 0]
    return total


def _names(places: list[Span], labels: list[int], probabilities: list[float], types: Floats) -> list[TaggedName]:
    names: list[TaggedName] = []
    for start, label in enumerate(labels[: len(places)]):
        if label in (FIRST, SINGLE):
            end = start + 1 if label == SINGLE else labels.index(LAST, start) + 1
            kind = TYPES[types[start:end].sum(axis=0).argmax()]
            names.append(TaggedName(places[start][0], places[end - 1][1], kind, min(probabilities[start:end])))
    return names


@cache
def name_tagger(model: str) -> NameTagger:
    """Return the process's reader of names on the states of a local model, loaded on first use.

    Sessions share what extension/install-package writes beside this module: 2 MB of floats.

    Raises
    ------
    GraphRAGError
        58P01 when the weights are missing or unreadable, XX001 when they are not those that this package was made with.
    """
    if (mapped := _mapped(model)).exists():
        return NameTagger(map_tensors(mapped))
    return NameTagger(in_floats(_read(model)))


def _mapped(model: str) -> Path:
    """Return the file of a model's floats, which is called by the weights that they were made of."""
    return Path(__file__).with_name(f"names-{model}-{DIGESTS[model][:16]}.safetensors")


def _read(model: str) -> dict[str, NDArray[Any]]:
    """Return the weights as shipped; errors as `name_tagger`."""
    path = Path(__file__).with_name(f"names-{model}.npz")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GraphRAGError(
            f'the weights of names for "{model}" cannot be read: {error.strerror}',
            sqlstate="58P01",
            detail=f"File: {path}",
            hint="Install the package anew.",
        ) from error
    if (digest := hashlib.sha256(content).hexdigest()) != DIGESTS[model]:
        raise GraphRAGError(
            f'the weights of names for "{model}" are damaged or of another version',
            sqlstate="XX001",
            detail=f"File: {path}, SHA-256: {digest}",
            hint="Install the package anew.",
        )
    with np.load(io.BytesIO(content)) as arrays:
        return dict(arrays)


def write_mapped(model: str) -> None:
    """Write the floats of a model's reader of names to the file that sessions map, whole or not at all."""
    floats = in_floats(_read(model))
    header, data = {}, b""
    for name, array in floats.items():
        start, data = len(data), data + array.tobytes()
        kind = "I32" if name == "layers" else "F32"
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [start, len(data)]}
    content = json.dumps(header).encode()
    content += b" " * (-len(content) % 8)
    path = _mapped(model)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(len(content).to_bytes(8, "little") + content + data)
    unfinished.rename(path)


if __name__ == "__main__":
    for each in DIGESTS:
        write_mapped(each)
