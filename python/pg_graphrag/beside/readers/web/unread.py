"""Parts of an HTML page that have no text: videos, frames, drawings, formulas that are pictures."""

import re
from collections import Counter

from lxml import etree
from lxml.html import HtmlElement

# Elements that show something other than text.
_UNREAD = {
    "audio": "sound",
    "embed": "embedded file",
    "iframe": "page in a frame",
    "object": "embedded file",
    "video": "video",
}
# Frames of these sizes are there to count visits.
_UNSEEN = frozenset(("0", "1", "0px", "1px"))
_UNSEEN_STYLE = re.compile(r"\b(?:display\s?:\s?none|visibility\s?:\s?hidden)\b", re.IGNORECASE)
# A drawing with fewer letters is an icon.
_LETTERS_OF_A_DRAWING = 10
_FORMULA = "formula that is a picture without a text"
_FORMULA_CLASS = re.compile(
    r"math|tex|latex|formula|equation|mwe-math-fallback-image-\w{1,20}|ql-img-(?:inline|displayed)-equation"
)
_FORMULA_TEXT = re.compile(r"\s*(?:\$|\\[(\[a-zA-Z]|\{\\displaystyle)")


def unread_of(main: HtmlElement | None) -> Counter[str]:
    """Return {description: number} of parts without text in the main part of a page."""
    unread: Counter[str] = Counter()
    if main is None:
        return unread
    walk = etree.iterwalk(main, events=("start",))
    for _, element in walk:
        # Some scripts show all of a page when it is loaded.
        if element is not main and ("hidden" in element.attrib or _UNSEEN_STYLE.search(element.get("style", ""))):
            walk.skip_subtree()
        elif element.tag == "img":
            unread[_FORMULA] += is_formula(element) and not element.get("alt", "").strip()
        elif element.tag == "svg":
            walk.skip_subtree()
            letters = sum(len("".join(text.itertext()).strip()) for text in element.iter("text"))
            unread["drawing with text (svg)"] += letters >= _LETTERS_OF_A_DRAWING
        elif element.tag in _UNREAD and (
            element.get("src") or element.get("data") or element.find("source") is not None
        ):
            # The children are a fallback for browsers that cannot show the element.
            walk.skip_subtree()
            unread[_UNREAD[element.tag]] += not {element.get("width"), element.get("height")} & _UNSEEN
    return unread


def is_formula(image: HtmlElement) -> bool:
    """Whether a picture is one of a formula: as LaTeX2HTML, Wikipedia and blogs name them."""
    return any(map(_FORMULA_CLASS.fullmatch, image.get("class", "").lower().split())) or (
        _FORMULA_TEXT.match(image.get("alt", "")) is not None
    )
