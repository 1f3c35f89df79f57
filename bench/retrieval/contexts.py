"""How much of the answers contexts of small budgets hold, with excerpts of the chunks that have no room and without.

    python -m bench contexts [--sets NAME …] [--modes NAME …] [--budgets 1000 2000 4000 8000] [--questions 76]

The sets with answers: MuSiQue, LiHua-World. Indexes are made without a model, and kept as crossvalidate keeps them. By mode and
budget: the share of the answer's words (content words, without their ends) that stand in the context, mean with 95 % interval;
the same with `{"excerpts": false}`; the difference, paired; and the tokens that both have. `graphrag_bench` has the same for the
field's benchmark, whose chunks are longer.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pg_graphrag import GraphRAG

from bench.data.corpora import at_hand, judged, kept
from bench.retrieval.crossvalidate import said
from bench.retrieval.methods import words

SETS = ("musique", "lihua-jan-jun", "lihua-other")
MODES = ("naive", "hybrid", "local", "graph_local")
BUDGETS = (1000, 2000, 4000, 8000)


def contexts(
    rag: GraphRAG, asked: Sequence[dict[str, Any]], mode: str, budget: int, *, excerpts: bool
) -> NDArray[np.float64]:
    """Return (questions, 2): the share of the answer's words in each context, and its tokens."""
    rows = []
    for question in asked:
        context = rag.context(question["question"], mode=mode, max_tokens=budget, excerpts=excerpts)
        answer = words(question["answer"])
        share = len(answer & words(context["prompt"])) / len(answer) if answer else 1.0
        rows.append((share, context["tokens"]))
    return np.array(rows)


def rows_of(rag: GraphRAG, name: str, asked: Sequence[dict[str, Any]], mode: str, budget: int) -> Iterator[str]:
    """A line of the table."""
    whole, filled = (contexts(rag, asked, mode, budget, excerpts=excerpts) for excerpts in (False, True))
    cells = [f"{name} ({len(asked)})", mode, f"{budget:,}", said(whole[:, 0]), said(filled[:, 0])]
    cells += [said(filled[:, 0] - whole[:, 0], "+"), f"{whole[:, 1].mean():,.0f} / {filled[:, 1].mean():,.0f}"]
    yield f"| {' | '.join(cells)} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME")
    arguments.add_argument("--modes", nargs="+", default=MODES, metavar="MODE")
    arguments.add_argument("--budgets", nargs="+", type=int, default=BUDGETS, metavar="TOKENS")
    arguments.add_argument("--questions", type=int, default=76, help="at most so many of each set (76)")
    options = arguments.parse_args()
    names, absent = at_hand(options.data, options.sets)
    if absent:
        print(f"Left out, since their data are not there: {', '.join(absent)}.\n")
    print("| set | mode | tokens | whole chunks alone | with excerpts | difference [95 %] | tokens of a context |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        asked = [question for question in judged(options.data, name, options.questions) if words(question["answer"])]
        with GraphRAG(options.url, kept(options.url, options.data, name, "nlp")) as rag:
            for mode in options.modes:
                for budget in options.budgets:
                    print("\n".join(rows_of(rag, name, asked, mode, budget)), flush=True)


if __name__ == "__main__":
    main()
