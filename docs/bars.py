"""Draw bars as SVG, for light and dark: the pictures of docs/results.py."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

# In pixels. LETTER is what one takes of a label, whatever font the reader has.
WIDTH, ROW, TITLE, LETTER, FIGURE = 740, 20, 32, 7.2, 60
STYLE = (
    ":root{--paper:#fff;--ink:#1f2329;--faint:#d0d7de;--own:#0550ae;--other:#8c959f}"
    "@media(prefers-color-scheme:dark)"
    "{:root{--paper:#0d1117;--ink:#e6edf3;--faint:#3d444d;--own:#58a6ff;--other:#7d8590}}"
    "svg{background:var(--paper)}text{font:12px sans-serif;fill:var(--ink)}.title{font-size:13px}"
    ".label{text-anchor:end}path{stroke:var(--faint)}.own{fill:var(--own)}.other{fill:var(--other)}"
)


@dataclass
class Bar:
    """A bar of a picture, or its point where the axis is logarithmic; `figure` is what stands beside it."""

    label: str
    figure: str
    is_own: bool = False


@dataclass
class Panel:
    """Bars under a title."""

    title: str
    bars: list[Bar]
    is_logarithmic: bool = False


def number(figure: str) -> float:
    """Return the number that a figure is: 1290.0 of "1,290"."""
    return float(figure.replace(",", ""))


def drawing(title: str, panels: Sequence[Panel]) -> str:
    """Return panels, one below the other, as SVG: a bar a line, each with its label and its figure."""
    left = round(LETTER * max(len(bar.label) for panel in panels for bar in panel.bars)) + 8
    lines, top = [], 0
    for panel in panels:
        lines.append(_text(left, top + 22, panel.title, "title"))
        lines += _bars(panel, left, top + TITLE)
        top += TITLE + ROW * len(panel.bars)
    size = f'width="{WIDTH}" height="{top + 8}" viewBox="0 0 {WIDTH} {top + 8}"'
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<title>{escape(title)}</title>"]
    return "\n".join([*head, f"<style>{STYLE}</style>", *lines, "</svg>"]) + "\n"


def _bars(panel: Panel, left: int, top: int) -> Iterator[str]:
    """Yield the bars of a panel; a logarithmic axis begins a little below the least."""
    values = [number(bar.figure) for bar in panel.bars]
    if panel.is_logarithmic:
        least = 0.7 * min(values)
        parts = [math.log(value / least) for value in values]
    else:
        parts = values
    for place, (bar, part) in enumerate(zip(panel.bars, parts, strict=True)):
        middle = top + ROW * place + ROW // 2
        length = round((WIDTH - FIGURE - left) * part / max(parts))
        end = left + length
        kind = "own" if bar.is_own else "other"
        if panel.is_logarithmic:
            mark = f'<path d="M{left} {middle}h{length}"/><circle class="{kind}" cx="{end}" cy="{middle}" r="4"/>'
        else:
            mark = f'<rect class="{kind}" x="{left}" y="{middle - 7}" width="{length}" height="14"/>'
        yield _text(left - 8, middle + 4, bar.label, "label") + mark + _text(end + 8, middle + 4, bar.figure)


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    name = kind and f' class="{kind}"'
    return f'<text{name} x="{x}" y="{y}">{escape(text)}</text>'
