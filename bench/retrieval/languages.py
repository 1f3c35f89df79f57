"""Japanese and Chinese questions on paragraphs of Wikipedia (JSQuAD, DRCD, CMRC): vectors and hybrid beside BM25.

    python -m bench languages [--questions 400]

Recall@k is the share of questions whose paragraph is among the first k. The last lines compare modes with bm25 on the questions
of all sets together, paired, with 95 % intervals of a bootstrap; before them stand the numbers of the questions for which hybrid
is below BM25. No option names the embedding model: the corpora choose it. Indexes are kept as crossvalidate keeps them.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from pg_graphrag import GraphRAG
from pg_graphrag.ground import bootstrap

from bench.data.corpora import PARAGRAPHS, kept, questions, recalls

MODES = ("bm25", "naive", "hybrid")
BASELINE = "bm25"
DEPTHS = (1, 10)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--sets", nargs="+", default=list(PARAGRAPHS))
    arguments.add_argument("--questions", type=int, default=800, help="of each set (800)")
    arguments.add_argument("--modes", nargs="+", default=list(MODES), help="bm25 among them")
    given = arguments.parse_args()
    pooled: dict[str, list[np.ndarray[Any, np.dtype[np.float64]]]] = {mode: [] for mode in given.modes}
    print("| set | questions | mode | R@1 | R@10 |\n|---|---|---|---|---|")
    for name in given.sets:
        with GraphRAG(given.url, kept(given.url, given.data, name, "nlp")) as rag:
            asked = questions(given.data, name)[: given.questions]
            by_mode = recalls(rag, asked, given.modes, DEPTHS)
        for mode in given.modes:
            cells = " | ".join(f"{recall:.3f}" for recall in by_mode[mode].mean(axis=0))
            print(f"| {name} | {len(asked)} | {mode} | {cells} |", flush=True)
            pooled[mode].append(by_mode[mode])
        lost = by_mode.get("hybrid", by_mode[BASELINE])[:, -1] < by_mode[BASELINE][:, -1]
        if lost.any():
            print(f"{name}: of BM25's first {DEPTHS[-1]}, not of hybrid's: questions {np.flatnonzero(lost).tolist()}")
    for mode in given.modes:
        if mode == BASELINE:
            continue
        differences = np.concatenate(pooled[mode]) - np.concatenate(pooled[BASELINE])
        bounds = bootstrap.intervals(bootstrap.means(differences, 0))
        for k, mean, (low, high) in zip(DEPTHS, differences.mean(axis=0), bounds, strict=True):
            print(f"all sets, R@{k}: {mode} - {BASELINE} = {mean:+.3f} [{low:+.3f}, {high:+.3f}]")


if __name__ == "__main__":
    main()
