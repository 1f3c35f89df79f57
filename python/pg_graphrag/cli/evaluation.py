"""The commands of evaluation: measure search, make questions, answer them, judge answers."""

import argparse
from pathlib import Path
from typing import Any

from pg_graphrag.cli.arguments import json_object, positive
from pg_graphrag.errors import GraphRAGError


def add_commands(commands: Any, corpus: argparse.ArgumentParser) -> None:
    """Add the commands to the parser's; `corpus` has the options --url and --corpus."""
    evaluate = commands.add_parser(
        "evaluate",
        parents=[corpus],
        help="measure modes of search on questions with known evidence",
        description="""Print recall, nDCG, MRR and latency of modes on questions with known evidence, their differences to
        a baseline, and draw a chart. FILE is JSON Lines, a question a line: {"question": …, "evidence": [source_key, …]}, and
        optionally id, low_level_keywords, high_level_keywords.""",
    )
    evaluate.add_argument("file", type=Path, metavar="FILE")
    evaluate.add_argument(
        "--modes",
        nargs="+",
        default=["naive", "bm25", "hybrid"],
        metavar="MODE",
        help="modes, or names of variants (default: naive bm25 hybrid)",
    )
    evaluate.add_argument("--k", nargs="+", type=positive, default=[5, 10], metavar="N", help="depths (default: 5 10)")
    evaluate.add_argument("--baseline", metavar="MODE", help="what others are compared to (default: the first mode)")
    evaluate.add_argument(
        "--options",
        type=json_object,
        default={},
        metavar="JSON",
        help="""seed, per_question, and variants, such as '{"variants": {"paper": {"mode": "hybrid", "profile": "paper"}}}'""",
    )
    evaluate.add_argument(
        "--chart", type=Path, metavar="PATH", help="SVG, PNG or PDF to write (default: FILE with the ending .svg)"
    )
    evaluate.add_argument("--no-chart", action="store_true", help="write none; needs no matplotlib")
    evaluate.add_argument("--json", action="store_true", help="one JSON object a line instead of the table")
    evaluate.set_defaults(run=_evaluate)


def _evaluate(given: argparse.Namespace) -> int:
    from pg_graphrag.cli.evaluate import evaluate

    chart = None if given.no_chart else given.chart or given.file.with_suffix(".svg")
    if chart is not None:
        _needs("matplotlib")
    return evaluate(
        given.url, given.corpus, given.file, given.modes, given.k, given.baseline, given.options, chart, given.json
    )


def _needs(*modules: str) -> None:
    """Look for modules before there is work to lose; 58P01 naming the first that is missing."""
    from importlib import import_module

    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise GraphRAGError(
                f"this needs the Python package {error.name}",
                sqlstate="58P01",
                hint='Install it with pip install "pg-graphrag[evaluation]".'
                + (" Or say --no-chart." if module == "matplotlib" else ""),
            ) from error
