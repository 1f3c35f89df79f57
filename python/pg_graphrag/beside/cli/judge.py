"""``pg-graphrag judge``: the A/A run and the win rates, as tables or as one JSON object."""

import argparse
import dataclasses
import sys
from pathlib import Path

from pg_graphrag.beside.cli.evaluation import model_of
from pg_graphrag.beside.cli.terminal import aligned, print_json
from pg_graphrag.beside.judging.files import read_answers
from pg_graphrag.beside.judging.judge_pairs import Answered, Verdict, compare, same_answers
from pg_graphrag.beside.judging.verdicts import SIGNIFICANT, Comparison, PlaceBias, comparisons, place_bias
from pg_graphrag.ground.errors import GraphRAGError


def judge(args: argparse.Namespace) -> int:
    """Judge and print; returns the exit status: 1 when verdicts are missing."""
    model, trials = model_of(args), args.trials
    baseline, files = args.baseline, args.files
    base = baseline.stem
    names = [base, *(file.stem for file in files)]
    if len(set(names)) < len(names):
        raise GraphRAGError(f"two systems have one name: {', '.join(names)}", hint="Name the files differently.")
    answered = {name: _answers(path) for name, path in zip(names, [baseline, *files], strict=True)}
    bias: list[PlaceBias] = []
    if args.same > 0:
        first = list(answered[base].values())[: args.same]
        bias = place_bias(same_answers(model, first, base, trials))
        if not args.json:
            print(f"The judge on {len(first)} answers of {base} against themselves, {trials} times each:\n")
            headings = ("criterion", "first", "second", "neither", "p (Holm)")
            print("\n".join(aligned([headings, *map(_bias_cells, bias)], "<")), flush=True)
        if preferred := [row.criterion for row in bias if row.p_holm < SIGNIFICANT]:
            print(f"WARNING: this judge prefers a place, not an answer: {', '.join(preferred)}", file=sys.stderr)
    verdicts: list[Verdict] = []
    for name in names[1:]:
        common_keys = [key for key in answered[base] if key in answered[name]]
        if not common_keys:
            raise GraphRAGError(f"{base} and {name} answer no common question", hint="Questions are matched by id.")
        if unmatched := len(answered[base].keys() ^ answered[name].keys()):
            print(f"{unmatched} questions answered by only one of {base} and {name} are left out", file=sys.stderr)
        for key in common_keys:
            if answered[base][key].question != answered[name][key].question:
                raise GraphRAGError(
                    f'"{key}" is another question in {name} than in {base}', hint="Give each its own id."
                )
        mine, theirs = [answered[name][key] for key in common_keys], [answered[base][key] for key in common_keys]
        verdicts += compare(model, mine, theirs, (name, base), trials)
    results = comparisons(verdicts, base)
    if args.json:
        report = {"same": [*map(dataclasses.asdict, bias)], "comparisons": [*map(dataclasses.asdict, results)]}
        print_json(report | {"usage": dataclasses.asdict(model.usage)})
    else:
        print(f"\nAgainst {base}, {trials} trials in both orders:\n")
        columns = (
            "system",
            "criterion",
            "win rate [95 %]",
            "wins",
            "ties",
            "losses",
            "questions",
            "consistent",
            "p (Holm)",
        )
        print("\n".join(aligned([columns, *map(_cells, results)], "<")))
    print(f"judge: {model.name}; {model.usage}", file=sys.stderr)
    if model.usage.unusable:
        print(f"{model.usage.unusable} verdicts are missing: no usable reply", file=sys.stderr)
    return 1 if model.usage.unusable else 0


def _answers(path: Path) -> dict[str, Answered]:
    return {name: Answered(name, row["question"], row["answer"]) for name, row in read_answers(path).items()}


def _bias_cells(row: PlaceBias) -> tuple[str, ...]:
    return row.criterion, str(row.first), str(row.second), str(row.neither), f"{row.p_holm:.3f}"


def _cells(row: Comparison) -> tuple[str, ...]:
    rate = f"{row.win_rate:.3f} [{row.low:.3f}, {row.high:.3f}]"
    counts = (str(count) for count in (row.wins, row.ties, row.losses, row.questions))
    consistent = "" if row.consistent is None else f"{row.consistent:.0%}"
    return row.system, row.criterion, rate, *counts, consistent, f"{row.p_holm:.3f}"
