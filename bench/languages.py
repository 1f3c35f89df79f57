"""Japanese and Chinese questions on paragraphs of Wikipedia (JSQuAD, DRCD, CMRC): vectors and hybrid beside BM25.

    python -m bench languages --load [--questions 400]

Recall@k is the share of questions whose paragraph is among the first k. The last lines compare modes with bm25 on the questions
of all sets together, paired, with 95 % intervals of a bootstrap. No option names the embedding model: the corpora choose it.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from corpora import lines
from pg_graphrag import GraphRAG, bootstrap

SETS = ("jsquad", "drcd", "cmrc")
MODES = ("bm25", "naive", "hybrid")
BASELINE = "bm25"
DEPTHS = (1, 10)


def load(rag: GraphRAG, data: Path, name: str) -> str:
    """Make a corpus anew; return what that took, and the model it chose."""
    with rag._connection() as connection:
        if connection.execute("SELECT FROM graphrag.corpora WHERE name = %s", [rag.corpus]).rowcount:
            rag.drop_corpus()
    rag.create_corpus(communities=False)
    documents = lines(data / name / "docs.jsonl")
    rag.insert(
        {"source_key": document["id"], "title": document["title"], "content": document["text"]}
        for document in documents
    )
    start = time.perf_counter()
    rag.process_jobs()
    with rag._connection() as connection:
        connection.execute("SELECT graphrag.optimize(%s)", [rag.corpus])
    return f"{name}: {len(documents)} paragraphs in {time.perf_counter() - start:.0f} s, {rag.progress().embedding}"


def recalls(rag: GraphRAG, questions: list[dict[str, Any]], modes: list[str]) -> dict[tuple[str, int], list[float]]:
    """Return the recall of each question by (mode, k)."""
    rows = rag.evaluate(questions, modes=modes, k=DEPTHS, per_question=True)
    return {(row.mode, row.k): [question["recall"] for question in row.per_question or ()] for row in rows}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--sets", nargs="+", default=list(SETS))
    arguments.add_argument("--questions", type=int, default=800, help="of each set (800)")
    arguments.add_argument("--modes", nargs="+", default=list(MODES), help="bm25 among them")
    arguments.add_argument("--load", action="store_true", help="make the corpora anew first")
    given = arguments.parse_args()
    pooled: dict[tuple[str, int], list[float]] = {}
    print("| set | questions | mode | R@1 | R@10 |\n|---|---|---|---|---|")
    for name in given.sets:
        with GraphRAG(given.url, name) as rag:
            if given.load:
                print(load(rag, given.data, name), flush=True)
            questions = [row for row in lines(given.data / name / "queries_dev.jsonl") if row["question"].strip()]
            questions = questions[: given.questions]
            by_mode = recalls(rag, questions, given.modes)
        for mode in given.modes:
            cells = " | ".join(f"{np.mean(by_mode[mode, k]):.3f}" for k in DEPTHS)
            print(f"| {name} | {len(questions)} | {mode} | {cells} |", flush=True)
        for column, values in by_mode.items():
            pooled.setdefault(column, []).extend(values)
    for mode in given.modes:
        if mode == BASELINE:
            continue
        for k in DEPTHS:
            differences = np.array(pooled[mode, k]) - np.array(pooled[BASELINE, k])
            ((low, high),) = bootstrap.intervals(bootstrap.means(differences[:, None], 0))
            print(f"all sets, R@{k}: {mode} - {BASELINE} = {differences.mean():+.3f} [{low:+.3f}, {high:+.3f}]")


if __name__ == "__main__":
    main()
