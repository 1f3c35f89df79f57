"""Charts of Office Open XML as tables of the values that they show."""

from typing import Any

_TITLE = "./{*}chart/{*}title"


def number_text(value: float) -> str:
    """Return a number as it is written: 130 for 130.0."""
    return f"{value:.15g}"


def chart_rows(space: Any) -> tuple[str, list[list[str]]]:
    """Return the title of a chart of Office, and its rows: heads, then categories with the values of each series.

    `space`: the root of the part of the chart.
    """
    title = " ".join("".join(space.find(_TITLE).itertext("{*}t")).split()) if space.find(_TITLE) is not None else ""
    names: list[str] = []
    categories: dict[int, str] = {}
    columns: list[dict[int, str]] = []
    for series in space.iter("{*}ser"):
        names.append(" ".join(_points(series, "tx").values()))
        categories = _points(series, "cat") or _points(series, "xVal") or categories
        columns.append(_points(series, "val") or _points(series, "yVal"))
    rows = [["", *names]] if columns else []
    for index in sorted(set(categories).union(*columns)):
        rows.append([categories.get(index, ""), *(column.get(index, "") for column in columns)])
    return title, rows


def _points(series: Any, name: str) -> dict[int, str]:
    """Return {place: value} of what a series has under a name; of categories on several levels the innermost."""
    points: dict[int, str] = {}
    for holder in series.findall(f"{{*}}{name}"):
        for value in holder.iter("{*}v"):
            parent = value.getparent()
            place = parent.get("idx", "0") if parent is not None else "0"
            if value.text and place.isdecimal():
                is_number = next(value.iterancestors("{*}numCache", "{*}numLit"), None) is not None
                points.setdefault(int(place), _number(value.text) if is_number else " ".join(value.text.split()))
    return points


def _number(text: str) -> str:
    try:
        return number_text(float(text))
    except ValueError:
        return text.strip()
