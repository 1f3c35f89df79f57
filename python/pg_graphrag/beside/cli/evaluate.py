"""``pg-graphrag evaluate``: figures as a table or as JSON Lines, and a chart of them."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.cli.terminal import aligned, print_json
from pg_graphrag.beside.client import Evaluation, GraphRAG
from pg_graphrag.beside.judging.files import read_lines
from pg_graphrag.ground.errors import missing_package

_HEADINGS = ("mode", "k", "Recall@k", "nDCG@k", "MRR@k", "any", "all", "p50, ms", "p95, ms")
# The metric whose differences the table shows.
_COMPARED = ("recall", "ndcg")


def evaluate(args: argparse.Namespace) -> int:
    """Measure, print, draw; returns the exit status."""
    chart = None if args.no_chart else args.chart or args.file.with_suffix(".svg")
    if chart is not None:
        # Before there is work to lose.
        try:
            import_module("matplotlib")
        except ModuleNotFoundError as error:
            raise missing_package("without --no-chart this needs", error.name, "evaluation") from error
    questions = read_lines(args.file)
    with connect(args.url, args.corpus) as connection:
        rag = GraphRAG(connection, args.corpus)
        rows = rag.evaluate(questions, modes=args.modes, k=args.k, baseline=args.baseline, **args.options)
    if args.json:
        for row in rows:
            print_json(row)
    else:
        print(table(rows))
    if chart is not None:
        from pg_graphrag.beside.judging.chart import draw

        draw(rows, chart, f"Corpus {args.corpus}, {rows[0].questions} questions")
        print(f"chart: {chart}", file=sys.stderr)
    return 0


def table(evaluations: Sequence[Evaluation]) -> str:
    """Return the figures as aligned text, with headings."""
    base = evaluations[0].baseline
    headings = [*_HEADINGS, *(f"{name} − {base}" for name in ("Recall", "nDCG"))]
    lines = [
        *aligned([headings, *(_cells(row) for row in evaluations)]),
        "",
        f"{evaluations[0].questions} questions; {evaluations[0].without_evidence} more have no evidence and are left out."
        " Recall, nDCG and MRR are of documents;",
        "any, all: share of questions of which any, or all, evidence is in the first k chunks.",
    ]
    if any(row.differences for row in evaluations):
        lines.append("Differences: 95 % interval and p of the paired bootstrap, not corrected for the number of modes.")
    return "\n".join(lines)


def _cells(row: Evaluation) -> list[str]:
    figures = [f"{value:.3f}" for value in (row.recall, row.ndcg, row.mrr, row.any_hit, row.all_hit)]
    times = [f"{value:.1f}" for value in (row.p50_ms, row.p95_ms)]
    differences = ["" if row.differences is None else difference_text(**row.differences[name]) for name in _COMPARED]
    return [row.mode, str(row.k), *figures, *times, *differences]


def difference_text(difference: float, low: float, high: float, p: float) -> str:
    """Return a difference with its interval and p."""
    p_text = "p < .001" if p < 0.001 else f"p = {p:.3f}"
    return f"{difference:+.3f} [{low:+.3f}, {high:+.3f}] {p_text}"
