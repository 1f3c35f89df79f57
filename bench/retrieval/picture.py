"""Pictures of figures with their intervals, as SVG that pages show."""

from collections.abc import Mapping, Sequence
from html import escape

# Okabe and Ito: told apart by colour-blind readers, and in grey.
_COLOURS = ("#56B4E9", "#0072B2", "#E69F00", "#009E73")
_LEFT, _RIGHT, _TOP, _ROW, _FOOT = 170, 70, 46, 24, 26
_WIDTH = 760


def dots(title: str, series: Sequence[str], rows: Mapping[str, Sequence[tuple[float, float, float]]]) -> str:
    """Return a picture of shares between 0 and 1: a row for each name, in it (mean, low, high) of each of the series."""
    values = [bound for row in rows.values() for _, low, high in row for bound in (low, high)]
    first, last = max(0.0, min(values) - 0.02), min(1.0, max(values) + 0.02)
    height = _TOP + _ROW * len(rows) + _FOOT

    def place(value: float) -> float:
        return _LEFT + (value - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="16" font-weight="bold">{escape(title)}</text>',
    ]
    for number, name in enumerate(series):
        x = _LEFT + 150 * number
        parts.append(f'<circle cx="{x}" cy="32" r="4" fill="{_COLOURS[number]}"/>')
        parts.append(f'<text x="{x + 8}" y="36">{escape(name)}</text>')
    for step in range(round(first * 20), round(last * 20) + 1):
        value = step / 20
        if first <= value <= last:
            x = place(value)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - _FOOT}" stroke="#dddddd"/>')
            parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{value:.2f}</text>')
    for row, (name, cells) in enumerate(rows.items()):
        middle = _TOP + _ROW * (row + 0.5)
        parts.append(f'<text x="{_LEFT - 10}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>')
        for number, (mean, low, high) in enumerate(cells):
            y = middle + 5 * (number - (len(cells) - 1) / 2)
            colour = _COLOURS[number]
            parts.append(
                f'<line x1="{place(low):.1f}" x2="{place(high):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
            )
            parts.append(f'<circle cx="{place(mean):.1f}" cy="{y}" r="3.5" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>", ""])
