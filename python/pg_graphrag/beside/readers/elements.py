"""Helpers for readers of XML: an element's text on one line, replacing an element by text, authors, styles."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from lxml import etree

_LONGEST_AUTHORS = 500
_Value = TypeVar("_Value")


def line_of(element: etree._Element | None) -> str:
    """Return the text of an element on one line; nothing for none."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


def replace(element: etree._Element, text: str = "") -> None:
    """Replace a child element by a text; the text behind it stays."""
    parent, before = element.getparent(), element.getprevious()
    text += element.tail or ""
    element.tail = None
    if parent is None:
        return
    if before is None:
        parent.text = (parent.text or "") + text
    else:
        before.tail = (before.tail or "") + text
    parent.remove(element)


def become(element: etree._Element, tag: str, text: str = "") -> None:
    """Turn an element into another kind that holds a text alone; the text behind it stays."""
    tail = element.tail
    element.clear()
    element.tag, element.text, element.tail = tag, text, tail


def authors_of(names: Iterable[str]) -> str | None:
    """Return the names of authors as one fact."""
    return ", ".join(filter(None, names))[:_LONGEST_AUTHORS] or None


def inherited(own: Mapping[str, _Value], parents: Mapping[str, str], default: _Value) -> dict[str, _Value]:
    """Return {style: its own value, else that of the nearest ancestor style with one}."""
    values = dict(own)
    for name in parents:
        way = dict.fromkeys([name])
        while (ancestor := next(reversed(way))) in parents and ancestor not in values and parents[ancestor] not in way:
            way[parents[ancestor]] = None
        # Each style is passed once: a value holds for all on the way to it.
        values |= dict.fromkeys(way, values.get(ancestor, default))
    return values
