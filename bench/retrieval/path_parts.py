"""What each part of mode path is worth: the same questions with the part left out, on the dev questions of all sets.

    python -m bench path_parts [--extractor llm] [--sets NAME …]

`--extractor llm` takes the recorded extraction, and LiHua-World's recorded keywords, which have entities and types of the answer;
else questions have their noun phrases, and no types. Indexes are kept as crossvalidate keeps them. What is no option is left out
in the session that is measured. Differences are of the whole less the part, paired: above 0 the part helps.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client import Evaluation

from bench.data.corpora import SETS, at_hand, judged, kept, recorded_models
from bench.retrieval.crossvalidate import said

DEPTHS = (2, 5, 10)
WHOLE = "whole"
# Search options, and what is assigned in the session's modules `paths` and `edges`.
PARTS: dict[str, tuple[dict[str, Any], str]] = {
    WHOLE: ({}, ""),
    "edges by vectors, as MiniRAG has it, not by BM25": ({"path_weighting": "vector"}, ""),
    "edges by BM25 of the chunks that state them": ({"path_weighting": "bm25_chunks"}, ""),
    "no important edges": ({}, "edges.important = lambda *_: {}"),
    "no types of the answer": ({"answer_types": []}, ""),
    "chunks count whatever is asked": (
        {},
        "paths.PathGraph._nearness = property(lambda self: np.ones(len(self.chunks)))",
    ),
    "no descriptions of relationships in chunks": ({}, "paths.MENTION_WEIGHT = 0.0"),
    "the first candidate counts as the others": ({}, "paths.FIRST = 1.0"),
    "what is near besides counts as the rest": ({}, "paths.DIRECT = 1.0"),
    "not fused with BM25": ({"fuse": "none"}, ""),
}
_ASSIGN = """
DO LANGUAGE plpython3u $$
from pg_graphrag.ground.numeric import np
from pg_graphrag.search.retrievers import edges, paths
GD.setdefault("former", (edges.important, paths.PathGraph._nearness, paths.MENTION_WEIGHT, paths.FIRST, paths.DIRECT))
edges.important, paths.PathGraph._nearness, paths.MENTION_WEIGHT, paths.FIRST, paths.DIRECT = GD["former"]
{assignment}
$$
"""


def measured(rag: GraphRAG, asked: list[dict[str, Any]], part: str) -> dict[int, Evaluation]:
    """Return the figures of path without a part, by depth, with those of each question."""
    search, assignment = PARTS[part]
    with rag._connection() as connection:
        connection.execute("SELECT FROM graphrag.search('a', %s, 'path')", [rag.corpus])
        connection.execute(_ASSIGN.format(assignment=assignment))
    variants = {"path": {"mode": "path", **search}}
    rows = rag.evaluate(asked, modes=["path"], k=DEPTHS, variants=variants, per_question=True)
    return {row.k: row for row in rows}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True, help="database with the corpora, as a superuser")
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--extractor", choices=tuple(SETS), default="nlp")
    arguments.add_argument("--sets", nargs="+", metavar="NAME", help="some of the sets (default: all)")
    given = arguments.parse_args()
    if unknown := set(given.sets or ()) - set(SETS[given.extractor]):
        arguments.error(f"no set {', '.join(sorted(unknown))}; there are {', '.join(SETS[given.extractor])}")
    names, absent = at_hand(given.data, given.sets or SETS[given.extractor])
    if absent:
        print(f"Left out, since their data are not there: {', '.join(absent)}.\n")
    print("| set (questions) | path | R@2 | R@5 | R@10 | nDCG@10 | whole − it, R@5 [95 %] | nDCG@10 [95 %] |")
    print("|---|---|---|---|---|---|---|---|")
    with GraphRAG(given.url) as any_corpus, recorded_models(any_corpus, given.data):
        for name in names:
            asked = judged(given.data, name, sys.maxsize)
            with GraphRAG(given.url, kept(given.url, given.data, name, given.extractor)) as rag:
                whole = measured(rag, asked, WHOLE)
                for part in PARTS:
                    rows = whole if part == WHOLE else measured(rag, asked, part)
                    cells = [f"{rows[k].recall:.3f}" for k in DEPTHS] + [f"{rows[10].ndcg:.3f}"]
                    cells += (
                        ["", ""] if part == WHOLE else [less(whole, rows, 5, "recall"), less(whole, rows, 10, "ndcg")]
                    )
                    print(f"| {name} ({len(asked)}) | {part} | {' | '.join(cells)} |", flush=True)


def less(whole: dict[int, Evaluation], rows: dict[int, Evaluation], k: int, metric: str) -> str:
    """Return the mean of the differences of questions with its interval, in words."""
    values = [np.array([question[metric] for question in each[k].per_question or ()]) for each in (whole, rows)]
    return said(values[0] - values[1], "+")


if __name__ == "__main__":
    main()
