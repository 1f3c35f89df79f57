"""Names that a tagger reads, and as concepts: what needs no tagger itself (name_tagger.py)."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from pg_graphrag.llm.embedding.term_scores import TermScores
from pg_graphrag.text.concept import Concept

# SHA-256 of the weights of each model.
DIGESTS = {
    "multilingual-e5-small": "6c4ad809e860abc925a0ed32e929d552a1e6398df9f235eed0f8f17757b74935",
    "all-MiniLM-L6-v2": "1667d22cef4ac002b61ca2eac74321427a8c4cfa601b6873a4da149d52b8a5e7",
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
_MARK = re.compile(r"[.,;:!?]\s+(?=\S)")
# A hyphen at the end, a bracket that does not close.
_UNFINISHED = re.compile(r"[-\u2010\u2011]$|\s*[(\[（「『《][^()\[\]（）「」『』《》]*$")


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


class Reading(NamedTuple):
    """What a local model reads in a text: the names in order, and how much of a term each token is."""

    names: list[TaggedName]
    terms: TermScores


def reads_names(model: str) -> bool:
    """Whether names are read on the states of a local model."""
    return model in DIGESTS


def concepts_of(text: str, names: Iterable[TaggedName], moved: int = 0) -> list[Concept]:
    """Return names in a text as concepts; `moved` is added to their places. What has no letter is a number, and none."""
    return [_concept(text, name, moved) for name in names if _LETTER.search(text, name.start, name.end)]


def _concept(text: str, name: TaggedName, moved: int) -> Concept:
    # "Mr. Cool" in two.
    mark = _MARK.match(text, name.start, name.end)
    start = mark.end() if mark else name.start
    # "Mattermost-related", "(Code of Practice (UK))".
    cut = _UNFINISHED.search(text, start, name.end)
    end = cut.start() if cut and cut.start() > start else name.end
    return Concept(
        name=" ".join(text[start:end].split()),
        start=start + moved,
        end=end + moved,
        type="NAME",
        tag=_TYPES[name.type],
        probability=round(100 * name.probability),
    )
