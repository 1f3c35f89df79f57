"""Every question set that is at hand, all modes, no model: whether hybrid is the best, and its weights chosen without the set.

    python -m bench crossvalidate [--data FOLDER] [--questions 200] [--sets NAME …]

Sets: MuSiQue's dev questions and our own over its passages, HippoRAG's HotpotQA tuning set, LiHua-World's two halves of the
year, and paragraphs in Japanese and Chinese (JSQuAD, DRCD, CMRC). bench/README.md says where each comes from; one that is not
there is named and left out. Long sets are asked `--questions` questions, evenly spread. Indexes are corpora of the server whose
names end in a hash of what they were made of, and figures are kept in the user's cache by index, questions and package: what is
the same is not made again, and a run that was ended goes on.

First table: recall of documents by set and mode, with 95 % intervals. Second: hybrid less the best other mode at each depth,
paired. Third: hybrid's weights, BM25 and the walk beside windows of 1, for questions that name a document's title and for
others, chosen for each set on all the other sets (the best mean recall at all depths, sets counting alike), and what they give
on the set itself beside the weights that are in use. Fusion is repeated outside the server from the standard scores that
hybrid had there, without what it then brings forward by titles; equal scores are decided by another order, so a figure may
differ from the first table's.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pg_graphrag import GraphRAG
from pg_graphrag.ground import bootstrap

from bench.data.corpora import ALL_SETS, at_hand, judged, kept, recalls, remembered
from bench.retrieval.retrieval import MODES

DEPTHS = (2, 5, 10)
# A mode is as good as the best one where it is worse by no more.
TOLERANCE = 0.01
BM25_WEIGHTS = (0.0, 0.3, 0.5, 0.7, 1.0, 1.5)
WALK_WEIGHTS = (1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 7.0)
Weights = tuple[float, float]
GRID: tuple[Weights, ...] = tuple((bm25, walk) for bm25 in BM25_WEIGHTS for walk in WALK_WEIGHTS)
# Keeps the standard scores of the last fusion of the session's searches.
_KEEP_PARTS = """
DO LANGUAGE plpython3u $$
from pg_graphrag.search.retrievers import hybrid_retrieval as hybrid
from pg_graphrag.search.query.rankings import standard_parts
fused = hybrid.standard_scores
def keeping(weights):
    def fuse(rankings):
        if weights in (hybrid.HYBRID_WEIGHTS, hybrid.TITLED_WEIGHTS):
            ids, parts = standard_parts(rankings)
            parts = {retriever: scores.tolist() for retriever, scores in parts.items()}
            titled = weights == hybrid.TITLED_WEIGHTS
            hybrid.kept_parts = {"titled": titled, "chunks": ids.tolist(), "parts": parts}
        return fused(weights)(rankings)
    return fuse
hybrid.standard_scores = keeping
$$;
CREATE FUNCTION pg_temp.kept_parts() RETURNS text LANGUAGE plpython3u AS $$
import json
from pg_graphrag.search.retrievers import hybrid_retrieval as hybrid
return json.dumps([hybrid.kept_parts, hybrid.HYBRID_WEIGHTS, hybrid.TITLED_WEIGHTS])
$$
"""
_DOCUMENTS = """
SELECT c.id, d.source_key FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id
  JOIN graphrag.corpora k ON k.id = c.corpus_id WHERE k.name = %s
"""


@dataclass
class Fusion:
    """What hybrid fused for one question: standard scores of `chunks` (n,) by retriever, and their documents.

    `documents` (n,): numbers; `evidence`: those of the documents that answer, −1 for one that no retriever had.
    """

    is_titled: bool
    documents: NDArray[np.int64]
    evidence: list[int]
    windows: NDArray[np.float64]
    bm25: NDArray[np.float64]
    walk: NDArray[np.float64]

    def recalls(self, weights: Weights) -> list[float]:
        """Return the recall at each depth with these weights of BM25 and the walk."""
        scores = self.windows + weights[0] * self.bm25 + weights[1] * self.walk
        order = np.argsort(-scores, kind="stable")
        ranked = list(dict.fromkeys(self.documents[order].tolist()))
        return [len(set(ranked[:depth]).intersection(self.evidence)) / len(self.evidence) for depth in DEPTHS]


def measured(rag: GraphRAG, asked: Sequence[dict[str, Any]], mode: str) -> NDArray[np.float64]:
    """Return the recall of each question at each depth, (questions, depths)."""
    what = ["recalls", rag.corpus, mode, DEPTHS, asked]
    return np.array(remembered(what, lambda: recalls(rag, asked, [mode], DEPTHS)[mode].tolist()))


def fusions(rag: GraphRAG, asked: Sequence[dict[str, Any]]) -> tuple[list[Fusion], dict[bool, Weights]]:
    """Return what hybrid fused for each question, and the weights in use by whether a title is named."""
    kept_rows = remembered(["fusions", rag.corpus, asked], lambda: _fused(rag, asked))
    rows = [
        _fusion(last, documents, question["evidence"])
        for (last, documents, *_), question in zip(kept_rows, asked, strict=True)
    ]
    *_, usual, titled = kept_rows[0]
    return rows, {is_titled: (each["bm25"], each["pagerank"]) for is_titled, each in ((False, usual), (True, titled))}


def _fused(rag: GraphRAG, asked: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Return for each question what was fused, the documents of these chunks, and the weights in use."""
    rows = []
    with rag._connection() as connection:
        documents = dict(connection.execute(_DOCUMENTS, [rag.corpus]).fetchall())
        connection.execute(_KEEP_PARTS)
        for question in asked:
            search = "SELECT count(*) FROM graphrag.search(%s, mode => 'hybrid', top_k => 10, corpus => %s)"
            connection.execute(search, [question["question"], rag.corpus])
            (text,) = connection.execute("SELECT pg_temp.kept_parts()").fetchone() or ("",)
            last, *in_use = json.loads(text)
            rows.append([last, [documents[chunk] for chunk in last["chunks"]], *in_use])
    return rows


def _fusion(last: dict[str, Any], documents: Sequence[str], evidence: Sequence[str]) -> Fusion:
    absent = np.zeros(len(documents))
    windows, bm25, walk = (np.array(last["parts"].get(name, absent)) for name in ("windows", "bm25", "pagerank"))
    number: dict[str, int] = {}
    numbers = [number.setdefault(document, len(number)) for document in documents]
    keys = [number.get(key, -1) for key in evidence]
    return Fusion(last["titled"], np.array(numbers, np.int64), keys, windows, bm25, walk)


def recalls_by_set(by_set: dict[str, list[Fusion]], is_titled: bool) -> dict[str, NDArray[np.float64]]:
    """Return by set (GRID, depths): the sum over its questions of that kind of their recalls with each weights."""
    return {
        name: np.array(
            [
                np.sum(
                    [fusion.recalls(weights) for fusion in rows if fusion.is_titled == is_titled] or [[0.0] * 3], axis=0
                )
                for weights in GRID
            ]
        )
        for name, rows in by_set.items()
    }


def chosen(by_set: dict[str, list[Fusion]], sums: dict[str, NDArray[np.float64]], others: Sequence[str]) -> Weights:
    """Return the weights with the best mean recall on these sets."""
    means = [sums[name].mean(axis=1) / len(by_set[name]) for name in others]
    return GRID[int(np.mean(means, axis=0).argmax())]


def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return mean, low and high of the values of questions, (n,)."""
    ((low, high),) = bootstrap.intervals(bootstrap.means(values[:, None], 0))
    return float(values.mean()), low, high


def said(values: NDArray[np.float64], sign: str = "") -> str:
    """Return the mean of values with its interval, in words."""
    return "{:{sign}.3f} [{:{sign}.3f}, {:{sign}.3f}]".format(*interval(values), sign=sign)


def tables(given: argparse.Namespace) -> Iterator[str]:
    names, absent = at_hand(given.data, given.sets)
    if absent:
        yield f"Left out, since their data are not there: {', '.join(absent)}."
        yield ""
    by_set: dict[str, dict[str, NDArray[np.float64]]] = {}
    fused: dict[str, list[Fusion]] = {}
    in_use: dict[bool, Weights] = {}
    yield "| set (questions) | mode | R@2 | R@5 | R@10 |"
    yield "|---|---|---|---|---|"
    for name in names:
        asked = judged(given.data, name, given.questions)
        with GraphRAG(given.url, kept(given.url, given.data, name, "nlp")) as rag:
            print(f"{name}: indexed", file=sys.stderr, flush=True)
            by_set[name] = {mode: measured(rag, asked, mode) for mode in given.modes}
            fused[name], in_use = fusions(rag, asked)
        for mode, values in by_set[name].items():
            yield f"| {name} ({len(asked)}) | {mode} | {' | '.join(said(column) for column in values.T)} |"
    yield ""
    yield "| set | k | hybrid | best other mode | hybrid − it [95 %] | |"
    yield "|---|---|---|---|---|---|"
    for name, by_mode in by_set.items():
        for place, depth in enumerate(DEPTHS):
            means = {mode: values[:, place].mean() for mode, values in by_mode.items() if mode != "hybrid"}
            best = max(means, key=lambda mode: means[mode])
            difference = by_mode["hybrid"][:, place] - by_mode[best][:, place]
            verdict = "holds" if difference.mean() >= -TOLERANCE else "does not hold"
            cells = [name, str(depth), f"{by_mode['hybrid'][:, place].mean():.3f}", f"{best} {means[best]:.3f}"]
            yield f"| {' | '.join(cells)} | {said(difference, '+')} | {verdict} |"
    if len(fused) > 1:
        yield ""
        yield from weights_table(fused, in_use)


def in_words(weights: dict[bool, Weights]) -> str:
    """Say weights by whether a title is named."""
    return ", ".join(
        f"{label} 1 : {weights[titled][0]:g} : {weights[titled][1]:g}"
        for label, titled in (("title named", True), ("other", False))
    )


def weights_table(fused: dict[str, list[Fusion]], in_use: dict[bool, Weights]) -> Iterator[str]:
    """The weights chosen on the other sets, what they give on each, and those in use."""
    sums = {is_titled: recalls_by_set(fused, is_titled) for is_titled in (False, True)}
    yield f"Weights windows : bm25 : walk in use: {in_words(in_use)}."
    yield ""
    yield (
        "| set | titles named | chosen on the others: title named | other | R@2 / R@5 / R@10 chosen | in use |"
        " R@5 chosen − in use [95 %] |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, rows in fused.items():
        others = [other for other in fused if other != name]
        choice = {titled: chosen(fused, sums[titled], others) for titled in (True, False)}
        values = {
            label: np.array([fusion.recalls(weights[fusion.is_titled]) for fusion in rows])
            for label, weights in (("chosen", choice), ("in use", in_use))
        }
        cells = [name, str(sum(fusion.is_titled for fusion in rows))]
        cells += [f"{choice[titled][0]:g} : {choice[titled][1]:g}" for titled in (True, False)]
        cells += [" / ".join(f"{value:.3f}" for value in part.mean(axis=0)) for part in values.values()]
        yield f"| {' | '.join(cells)} | {said((values['chosen'] - values['in use'])[:, 1], '+')} |"
    choice = {titled: chosen(fused, sums[titled], list(fused)) for titled in (True, False)}
    yield ""
    yield f"Chosen on all sets: {in_words(choice)}."


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument(
        "--sets", nargs="+", choices=ALL_SETS, default=ALL_SETS, metavar="NAME", help="some of the sets"
    )
    arguments.add_argument("--modes", nargs="+", default=MODES, metavar="MODE", help="hybrid among them")
    arguments.add_argument("--questions", type=int, default=200, help="at most so many of each set (200)")
    for line in tables(arguments.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
