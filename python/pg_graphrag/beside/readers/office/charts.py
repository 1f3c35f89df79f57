"""Charts of Office Open XML as tables of their values."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pg_graphrag.beside.readers.office.number_formats import plain

_TITLE = "./{*}chart/{*}title"
_MAX_CATEGORIES = 50
# Literal parts of a format; the day before Excel's day 1, with the day that 1900 did not have.
_LITERAL = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|General')
_FIRST_DAY = datetime(1899, 12, 30)
_AXES = ("catAx", "dateAx", "valAx")


def chart_rows(space: Any) -> tuple[str, list[list[str]]]:
    """Return the title of an Office chart, and its rows: heads, then categories with the values of each series.

    The title of the value axis follows in brackets; the first head is the title of the category axis.
    `space`: the root of the part of the chart.
    """
    title = _title(space.find(_TITLE))
    axes = {name: [_title(axis.find("{*}title")) for axis in space.iter(f"{{*}}{name}")] for name in _AXES}
    of_values = axes["valAx"]
    of_categories = axes["catAx"] + axes["dateAx"] or of_values[:1]
    of_values = of_values if axes["catAx"] + axes["dateAx"] else of_values[1:]
    measures = ", ".join(dict.fromkeys(filter(None, of_values)))
    names: list[str] = []
    categories: dict[int, str] = {}
    columns: list[dict[int, str]] = []
    for series in space.iter("{*}ser"):
        names.append(" ".join(_points(series, "tx").values()))
        categories = _points(series, "cat") or _points(series, "xVal") or categories
        columns.append(_points(series, "val") or _points(series, "yVal"))
    rows = [[next(filter(None, of_categories), ""), *names]] if columns else []
    for index in sorted(set(categories).union(*columns)):
        rows.append([categories.get(index, ""), *(column.get(index, "") for column in columns)])
    return " ".join(filter(None, (title, measures and f"({measures})"))), rows


def chart_summary(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Return what a chart of a workbook shows, without the values, which stand in cells: title, series and categories."""
    heads, categories = rows[0], [row[0] for row in rows[1:] if row and row[0]]
    parts = (("Chart", [title]), ("Series", heads[1:]), (heads[0] if heads and heads[0] else "Categories", categories))
    return "\n".join(f"{name}: {_listed(values)}" for name, values in parts if any(values))


def _listed(values: Sequence[str]) -> str:
    rest = len(values) - _MAX_CATEGORIES
    return ", ".join(filter(None, values[:_MAX_CATEGORIES])) + (f" and {rest:,} more" if rest > 0 else "")


def _title(element: Any) -> str:
    return "" if element is None else " ".join("".join(element.itertext("{*}t", "{*}v")).split())


def _points(series: Any, name: str) -> dict[int, str]:
    """Return {place: value} of a series under a name; categories on several levels become "outer › inner"."""
    points: dict[int, str] = {}
    for holder in series.findall(f"{{*}}{name}"):
        if (levels := list(holder.iter("{*}lvl"))) and levels[1:]:
            return _on_levels(levels)
        for value in holder.iter("{*}v"):
            parent = value.getparent()
            place = parent.get("idx", "0") if parent is not None else "0"
            if value.text and place.isdecimal():
                numbers = next(value.iterancestors("{*}numCache", "{*}numLit"), None)
                text = " ".join(value.text.split()) if numbers is None else _number(value.text, _is_of_dates(numbers))
                points.setdefault(int(place), text)
    return points


def _on_levels(levels: list[Any]) -> dict[int, str]:
    """Return {place: name} of categories: the innermost level comes first, others stand where they begin."""
    names = [
        {int(point.get("idx", "0")): " ".join("".join(point.itertext("{*}v")).split()) for point in level.iter("{*}pt")}
        for level in levels
    ]
    categories: dict[int, str] = {}
    above: list[str] = [""] * len(names)
    for place in sorted(set().union(*names)):
        for level in range(len(names) - 1, 0, -1):
            above[level] = names[level].get(place, above[level])
        path = [*reversed(above[1:]), names[0].get(place, "")]
        categories[place] = " › ".join(filter(None, path))
    return categories


def _is_of_dates(numbers: Any) -> bool:
    """Whether numbers are shown as days, by their format without its literal text."""
    code = _LITERAL.sub("", numbers.findtext("{*}formatCode") or "").lower()
    return "y" in code or "d" in code


def _number(text: str, is_day: bool = False) -> str:
    try:
        number = float(text)
        return (_FIRST_DAY + timedelta(number)).date().isoformat() if is_day else plain(number)
    except (ValueError, OverflowError):
        return text.strip()
