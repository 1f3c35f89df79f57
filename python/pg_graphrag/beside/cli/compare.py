"""``pg-graphrag compare``: the same questions on two corpora, as a table or as JSON Lines."""

import argparse
from collections.abc import Sequence

from pg_graphrag.beside.cli.evaluate import difference_text
from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.cli.terminal import aligned, print_json
from pg_graphrag.beside.client import CorpusComparison, GraphRAG
from pg_graphrag.beside.judging.files import read_lines

# So many of the questions that changed are printed for each mode.
_MOST_QUESTIONS = 10
_COSTS = ("documents", "chunks", "entities", "relationships", "calls", "tokens_in", "tokens_out", "cost", "p50_ms")


def compare(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit status."""
    questions = None if args.file is None else read_lines(args.file)
    with connect(args.url, args.corpus) as connection:
        rag = GraphRAG(connection, args.corpus)
        rows = rag.compare_corpora(args.other, questions, modes=args.modes, k=args.k, **args.options)
    if args.json:
        for row in rows:
            print_json(row)
    else:
        print(table(rows, args.corpus, args.other))
    return 0


def table(rows: Sequence[CorpusComparison], corpus: str, other: str) -> str:
    """Return the figures, the questions that changed by recall at the greatest depth, and the costs."""
    headings = ["mode", "k", "metric", corpus, other, "difference", "better", "worse"]
    lines = aligned([headings, *(_cells(row) for row in rows)])
    lines += [
        "",
        f"{rows[0].questions} questions. Differences: 95 % interval and p of the paired bootstrap, for one comparison.",
    ]
    for mode in dict.fromkeys(row.mode for row in rows):
        row = max((row for row in rows if row.mode == mode and row.metric == "recall"), key=lambda row: row.k)
        lines += ["", f"{mode}: Recall@{row.k} changed for {len(row.changed)} questions."]
        for item in row.changed[:_MOST_QUESTIONS]:
            lines.append(f"  {item['value']:.2f} -> {item['other']:.2f}  {item['question'][:80]}  [{item['id']}]")
        if len(row.changed) > _MOST_QUESTIONS:
            lines.append(f"  and {len(row.changed) - _MOST_QUESTIONS} more: --json")
    costs = rows[0].costs
    lines += [
        "",
        *aligned([["", corpus, other], *([name, *(f"{costs[side][name]:,g}" for side in costs)] for name in _COSTS)]),
    ]
    return "\n".join(lines)


def _cells(row: CorpusComparison) -> list[str]:
    difference = difference_text(row.difference, row.low, row.high, row.p)
    figures = [f"{row.value:.3f}", f"{row.other:.3f}", difference, str(row.better), str(row.worse)]
    return [row.mode, str(row.k), row.metric, *figures]
