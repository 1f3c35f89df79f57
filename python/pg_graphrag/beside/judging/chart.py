"""A chart of an evaluation: bars with their intervals, and latencies. Needs matplotlib (extra ``evaluation``)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pg_graphrag.beside.client.results import Evaluation
from pg_graphrag.ground.errors import GraphRAGError

_PANELS = (("recall", "Recall@k"), ("ndcg", "nDCG@k"), ("mrr", "MRR@k"))
# Okabe and Ito: told apart by colour-blind readers, and in grey.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_SIGNIFICANT = 0.05


def draw(rows: Sequence[Evaluation], path: Path, title: str) -> None:
    """Write the chart of `rows` to `path`; its ending decides the format.

    Raises GraphRAGError: 22023 for a format that matplotlib cannot write, 58P01 for a file that cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    modes = list(dict.fromkeys(row.mode for row in rows))
    depths = sorted({row.k for row in rows})
    by_mode_and_k = {(row.mode, row.k): row for row in rows}
    bar = 0.8 / len(depths)
    figure = Figure(figsize=(14, 1.9 + len(modes) * max(0.5, 0.26 * len(depths))), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(_PANELS) + 1, sharey=True)
    for panel, (metric, label) in zip(panels, _PANELS, strict=False):
        for turn, k in enumerate(depths):
            _bars(panel, [by_mode_and_k[mode, k] for mode in modes], metric, turn, bar, f"k = {k}")
        panel.set_xlim(0, 1.3)
        panel.set_xticks([0, 0.25, 0.5, 0.75, 1])
        panel.set_xlabel(label)
    _latencies(panels[-1], [by_mode_and_k[mode, depths[0]] for mode in modes])
    panels[0].set_yticks(range(len(modes)), modes)
    panels[0].invert_yaxis()
    for panel in panels[1:]:
        panel.tick_params(axis="y", length=0)
    for panel in panels:
        panel.grid(axis="x", alpha=0.3)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=len(depths))
    note = "95 % bootstrap intervals"
    if any(row.differences for row in rows):
        note += f"; *: differs from {rows[0].baseline} (paired, p < {_SIGNIFICANT:g})"
    figure.supxlabel(note, fontsize="small")
    try:
        with rc_context({"svg.fonttype": "none"}):  # letters stay letters: to be searched, and read aloud
            figure.savefig(path, dpi=150)
    except ValueError as error:
        raise GraphRAGError(f"{path}: {error}", hint="Give a path that ends in .svg, .png or .pdf.") from None
    except OSError as error:
        raise GraphRAGError(f"{path}: {error.strerror}", sqlstate="58P01", hint="Give another --chart.") from None


def _bars(panel: Any, rows: Sequence[Evaluation], metric: str, turn: int, bar: float, label: str) -> None:
    values = [getattr(row, metric) for row in rows]
    low, high = zip(*(row.intervals[metric] for row in rows), strict=True)
    # Percentiles of resamples can lie on one side of the mean only; an error bar cannot be negative.
    errors = [
        [max(0.0, value - limit) for value, limit in zip(values, low, strict=True)],
        [max(0.0, limit - value) for value, limit in zip(values, high, strict=True)],
    ]
    places = [place - 0.4 + bar * (turn + 0.5) for place in range(len(rows))]
    style = {"ecolor": "black", "capsize": 2, "elinewidth": 1}
    panel.barh(
        places, values, bar * 0.92, xerr=errors, label=label, color=_COLOURS[turn % len(_COLOURS)], error_kw=style
    )
    for row, place, limit in zip(rows, places, high, strict=True):
        star = "*" if row.differences is not None and row.differences[metric]["p"] < _SIGNIFICANT else ""
        panel.text(limit + 0.02, place, f"{getattr(row, metric):.3f}{star}", va="center", fontsize="small")


def _latencies(panel: Any, rows: Sequence[Evaluation]) -> None:
    longest = max(row.p95_ms for row in rows)
    for place, row in enumerate(rows):
        panel.plot([row.p50_ms, row.p95_ms], [place, place], color="#555555", linewidth=2)
        panel.plot(row.p50_ms, place, "o", color="#555555")
        text = f"{row.p50_ms:.0f} – {row.p95_ms:.0f}" if row.p95_ms >= 10 else f"{row.p50_ms:.1f} – {row.p95_ms:.1f}"
        panel.text(row.p95_ms + 0.03 * longest, place, text, va="center", fontsize="small")
    panel.set_xlim(0, 1.45 * longest)
    panel.set_xlabel("p50 – p95 of a search, ms")
