"""Names that a tagger reads, and as concepts: what needs no tagger itself (name_tagger.py)."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from pg_graphrag.text.concept import Concept

# SHA-256 of the weights of each model.
DIGESTS = {
    "multilingual-e5-small": "b6ab27e03656b6e6da0e469e43281e846882e96bb08a2b5af674d5c6d69f299c",
    "all-MiniLM-L6-v2": "c28ab5f20da4da0d29269511e642ea0806a630295eba78d42985a1fbc1208023",
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
    return Concept(
        name=" ".join(text[start : name.end].split()),
        start=start + moved,
        end=name.end + moved,
        type="NAME",
        tag=_TYPES[name.type],
        probability=round(100 * name.probability),
    )
