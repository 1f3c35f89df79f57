"""Names that a tagger reads, and as concepts: what needs no tagger itself (name_tagger.py)."""

import re
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.text.concept import Concept
from pg_graphrag.text.languages import HAN, KANA, letters_of

# SHA-256 of the weights of each model.
DIGESTS = {
    "multilingual-e5-small": "30f2e0c5c139774255fd94b9319b801c53306848ca3797446d35b1f27c5f4186",
    "all-MiniLM-L6-v2": "32bcdd0d0a035c04ff58dc828cce791d9d229841a18446fb8623c405b20bd79a",
}
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
# What slashes join: not places (Frankfurt/Oder) nor what has no type (Input/Output).
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
    """How much of a term each token of a text is, by the encoder's states of it.

    Attributes
    ----------
    starts, ends : arrays, (tokens,)
        The characters that each stands for, ascending.
    scores : array, (tokens,)
        Logarithms of odds.
    """

    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    scores: NDArray[np.float32]

    def within(self, start: int, end: int) -> slice | None:
        """Return the tokens of some characters; None where the encoder has not seen all of them."""
        first, last = int(np.searchsorted(self.ends, start, "right")), int(np.searchsorted(self.starts, end))
        return slice(first, last) if first < last and self.ends[last - 1] >= end else None

    def of(self, start: int, end: int) -> float | None:
        """Return the mean over the tokens of some characters, in hundredths' steps; None where one was not seen."""
        tokens = self.within(start, end)
        return None if tokens is None else round(float(self.scores[tokens].mean()), 2)


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
