"""Questions of MuSiQue's, HotpotQA's and 2WikiMultiHopQA's dev sets, most of which nothing was chosen by, without a model.

    python -m bench unseen [--data FOLDER] [--sets NAME …] [--modes NAME …] [--parts 1 2]

The samples are those of AdelWang/MIGRES (200 questions of each dev set, of 2WikiMultiHopQA the 164 that have paragraphs), fetched
from its repository at one commit; `--data` names a clone of it. Rules for walks were made by the first half of MuSiQue's and
HotpotQA's (docs/decisions/search.md). Nothing may be tuned on their second half, nor on 2WikiMultiHopQA.

The protocol is HippoRAG's: the paragraphs of all questions are one corpus, documents are judged, R@2, R@5 and R@10 are the share
of a question's supporting paragraphs among the first documents, means over questions with 95 % intervals. With `--parts 2` the
questions make two corpora of 100 questions each, and figures are over both: MuSiQue's tuning set, which `crossvalidate` asks,
has as many questions and 1,890 paragraphs. Figures are given by the number of hops, too, since samples differ in it most (the
tuning set's dev half: 34 questions of two hops, 13 of three, 3 of four).
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pg_graphrag import GraphRAG

from bench.data.corpora import made_once, recalls, remembered
from bench.data.fetched import Repository, fetched
from bench.retrieval.crossvalidate import DEPTHS, said
from bench.retrieval.retrieval import MODES

SAMPLES = Repository(
    "https://github.com/AdelWang/MIGRES",
    "1de6265c9ca1014054d6ba875738e785830908f8",
    ("data/musique.json", "data/hotpot.json", "data/wikihop.json"),
)


class Question(NamedTuple):
    """A question, its class, its paragraphs (title, text), the supporting ones first, and answers, also of its steps."""

    text: str
    kind: str
    supporting: list[tuple[str, str]]
    others: list[tuple[str, str]]
    answers: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def musique(folder: Path) -> Iterator[Question]:
    """Yield MuSiQue's questions; their class is the number of hops."""
    for item in _lines(folder / "data/musique.json"):
        by_support: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
        for paragraph in item["paragraphs"]:
            by_support[paragraph["is_supporting"]].append((paragraph["title"], paragraph["paragraph_text"]))
        answers = item["answer"], *item.get("answer_aliases", ())
        steps = tuple(step["answer"] for step in item["question_decomposition"])
        yield Question(item["question"], f"{item['id'][0]} hops", by_support[True], by_support[False], answers, steps)


def hotpotqa(folder: Path) -> Iterator[Question]:
    """Yield HotpotQA's questions; their class is bridge or comparison."""
    yield from _with_sentences(folder / "data/hotpot.json", between="")


def two_wiki(folder: Path) -> Iterator[Question]:
    """Yield 2WikiMultiHopQA's questions; their class is comparison, compositional, bridge_comparison or inference."""
    yield from _with_sentences(folder / "data/wikihop.json", between=" ")


def _with_sentences(path: Path, *, between: str) -> Iterator[Question]:
    # Of some of 2WikiMultiHopQA's questions the sample has no paragraphs.
    for item in (line for line in _lines(path) if "context" in line):
        supporting = {title for title, _ in item["supporting_facts"]}
        paragraphs = [(title, between.join(sentences)) for title, sentences in item["context"]]
        yield Question(
            item["question"],
            item["type"],
            [paragraph for paragraph in paragraphs if paragraph[0] in supporting],
            [paragraph for paragraph in paragraphs if paragraph[0] not in supporting],
            (item["answer"],),
            (item["answer"],),
        )


SETS = {"musique": musique, "hotpotqa": hotpotqa, "2wiki": two_wiki}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def parted(questions: Sequence[Question], parts: int) -> list[Sequence[Question]]:
    """Return the questions in so many parts, in their order."""
    size = -(-len(questions) // parts)
    return [questions[start : start + size] for start in range(0, len(questions), size)]


def measured(url: str, stem: str, questions: Sequence[Question], modes: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Index the paragraphs of the questions; return their number, and by mode the recalls, (questions, depths)."""
    paragraphs = dict.fromkeys(
        paragraph for question in questions for paragraph in [*question.supporting, *question.others]
    )
    keys = {paragraph: str(number) for number, paragraph in enumerate(paragraphs)}
    texts = [{"source_key": key, "title": title, "content": text} for (title, text), key in keys.items()]
    asked = [
        {"question": question.text, "evidence": sorted({keys[paragraph] for paragraph in question.supporting})}
        for question in questions
    ]
    with GraphRAG(url, made_once(url, stem, texts, [], {})) as rag:
        print(f"{stem}: {len(texts)} paragraphs indexed", file=sys.stderr, flush=True)
        return len(texts), {
            mode: np.array(
                remembered(
                    ["recalls", rag.corpus, mode, DEPTHS, asked],
                    lambda mode=mode: recalls(rag, asked, [mode], DEPTHS)[mode].tolist(),
                )
            )
            for mode in modes
        }


def rows(title: str, kinds: Sequence[str], by_mode: dict[str, NDArray[np.float64]]) -> Iterator[str]:
    """Yield the rows of a set: each mode over all questions, and by class."""
    for mode, values in by_mode.items():
        yield f"| {title} | {mode} | all ({len(kinds)}) | {' | '.join(said(column) for column in values.T)} |"
    for kind, count in sorted(Counter(kinds).items()):
        chosen = np.array([each == kind for each in kinds])
        for mode, values in by_mode.items():
            means = " | ".join(f"{mean:.3f}" for mean in values[chosen].mean(axis=0))
            yield f"| {title} | {mode} | {kind} ({count}) | {means} |"


def tables(given: argparse.Namespace) -> Iterator[str]:
    folder = fetched(SAMPLES, given.data)
    yield "| set | mode | questions | R@2 | R@5 | R@10 |"
    yield "|---|---|---|---|---|---|"
    for name in given.sets:
        read = SETS[name]
        questions = list(read(folder))
        for parts in given.parts:
            pieces = parted(questions, parts)
            figures = [
                measured(given.url, f"bench-unseen-{name}-{number}-{parts}-", piece, given.modes)
                for number, piece in enumerate(pieces, 1)
            ]
            by_mode = {mode: np.concatenate([values[mode] for _, values in figures]) for mode in given.modes}
            sizes = " + ".join(f"{count:,}" for count, _ in figures)
            yield from rows(f"{name}, {sizes} paragraphs", [question.kind for question in questions], by_mode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="a superuser of a database with the extension")
    parser.add_argument("--data", type=Path, help="a clone of the repository that has the samples")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--modes", nargs="*", default=list(MODES))
    parser.add_argument("--parts", type=int, nargs="*", default=[1, 2], help="corpora of a set")
    for line in tables(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
