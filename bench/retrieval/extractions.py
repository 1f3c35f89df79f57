"""Whether a model's extraction retrieves worse than none: the same questions on the graph of NLP and on that of a model.

    python -m bench extractions [--data FOLDER] [--modes NAME …] [--sets NAME …]

The model's graph is made by the worker from recorded replies, which the tests' endpoint serves; indexes are kept as
crossvalidate keeps them. Differences are recorded − none, paired, with 95 % intervals; the last lines take the questions of all
sets together, each set counting by its questions.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pg_graphrag import GraphRAG

from bench.data.corpora import SETS, at_hand, judged, kept, recorded_models
from bench.retrieval.crossvalidate import DEPTHS, interval, measured, said

MODES = ("hybrid", "ppr", "mix", "path", "local", "global")


def verdict(difference: NDArray[np.float64]) -> str:
    """Say what the differences of questions, (n,), decide."""
    mean, _, high = interval(difference)
    if high < 0:
        return "worse"
    return "not worse" if round(mean, 6) >= 0 else "below, within the interval"


def rows_of(name: str, mode: str, none: NDArray[np.float64], recorded: NDArray[np.float64]) -> Iterator[str]:
    """A line for each depth."""
    for place, depth in enumerate(DEPTHS):
        values = none[:, place], recorded[:, place]
        difference = values[1] - values[0]
        cells = [name, mode, str(depth), *(f"{each.mean():.3f}" for each in values), said(difference, "+")]
        cells += [f"{(difference > 0).sum()} / {(difference < 0).sum()}", verdict(difference)]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--sets", nargs="+", choices=SETS["llm"], default=SETS["llm"], metavar="NAME")
    arguments.add_argument("--modes", nargs="+", default=MODES, metavar="MODE")
    given = arguments.parse_args()
    names, absent = at_hand(given.data, given.sets)
    if absent:
        print(f"Left out, since their data are not there: {', '.join(absent)}.\n")
    print("| set | mode | k | none | recorded | recorded − none [95 %] | questions better / worse | |")
    print("|---|---|---|---|---|---|---|---|")
    by_mode: dict[str, list[list[NDArray[np.float64]]]] = {mode: [] for mode in given.modes}
    with GraphRAG(given.url) as any_corpus, recorded_models(any_corpus, given.data):
        for name in names:
            asked = judged(given.data, name, sys.maxsize)
            sides = []
            for extractor in ("nlp", "llm"):
                with GraphRAG(given.url, kept(given.url, given.data, name, extractor)) as rag:
                    sides.append({mode: measured(rag, asked, mode) for mode in given.modes})
            for mode in given.modes:
                by_mode[mode].append([side[mode] for side in sides])
                print("\n".join(rows_of(name, mode, *by_mode[mode][-1])), flush=True)
    for mode, pairs in by_mode.items():
        none, recorded = (np.concatenate(side) for side in zip(*pairs, strict=True))
        print("\n".join(rows_of("all", mode, none, recorded)))


if __name__ == "__main__":
    main()
