"""Answers without a model: whether the gold answer stands in the sentences that `ask` gives, and which questions it refuses.

    python -m bench extracts [--data FOLDER] [--unseen FOLDER] [--questions 400] [--sets NAME …]

Sets: MuSiQue's dev questions and LiHua-World's, of all chats of its year (`--data`), and the two halves of the MuSiQue questions
that `unseen` fetches, by the second of which nothing was chosen (`--unseen` names a clone). A question counts where all words of
its answer, or of another spelling of it, stand in the first three extracts, and in all; `share` is the mean share of these words
in the first three. Words are compared by their first six letters, without articles and prepositions. Questions answered by yes
or no are left out: documents do not say that.

Second table: what is refused ("The documents do not answer this question."). Unanswerable are LiHua's Null questions, and the
questions of a set about other documents. Refused answerable ones are to be 2 % at most.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from pg_graphrag import GraphRAG
from pg_graphrag.text import prompts

from bench.data.corpora import kept, made_once, questions, remembered, spread
from bench.data.fetched import fetched
from bench.retrieval.crossvalidate import said
from bench.retrieval.unseen import SAMPLES, Question, musique, parted

SETS = ("musique", "lihua", "unseen-1", "unseen-2")
FIRST = 3
# Questions about other documents, of each set.
STRANGERS = 50
_WORD = re.compile(r"[^\W_]+")
_SMALL_WORDS = frozenset("a an the of and or in on at to is was were be by for from with that this it its as".split())
_NOT_FOUND = prompts.sentence("not_found", "en")


def words(text: str) -> set[str]:
    """Return the words of a text that tell something, without their ends."""
    return {word[:6] for word in _WORD.findall(text.casefold()) if word not in _SMALL_WORDS}


def share(answers: Sequence[str], text: str) -> float:
    """Return the share of the words of an answer that a text has, of the spelling of which it has most."""
    has = words(text)
    return max(len(wanted & has) / max(len(wanted), 1) for wanted in map(words, answers))


def answered(rag: GraphRAG, asked: Sequence[str]) -> list[list[str] | None]:
    """Return the extracts of each question; None where it is refused."""

    def ask(question: str) -> list[str] | None:
        answer = rag.ask(question).answer
        return None if answer == _NOT_FOUND else re.findall(r"(?m)^- (.*) \[\d+\]$", answer)

    return remembered(["extracts", rag.corpus, list(asked)], lambda: [ask(question) for question in asked])


def of_unseen(url: str, number: int, part: Sequence[Question]) -> str:
    """Return the corpus of a half of the unseen questions, as `unseen` makes it."""
    paragraphs = dict.fromkeys(paragraph for question in part for paragraph in [*question.supporting, *question.others])
    texts = [
        {"source_key": str(place), "title": title, "content": text} for place, (title, text) in enumerate(paragraphs)
    ]
    return made_once(url, f"bench-unseen-musique-{number}-2-", texts, [], {})


def set_of(given: argparse.Namespace, name: str) -> tuple[str, list[tuple[str, list[str]]], list[str]]:
    """Return the corpus of a set, its (question, answers), and those of its questions that have none."""
    if name.startswith("unseen"):
        number = int(name[-1])
        part = parted(list(musique(fetched(SAMPLES, given.unseen))), 2)[number - 1]
        return of_unseen(given.url, number, part), [(each.text, list(each.answers)) for each in part], []
    if name == "musique":
        asked = questions(given.data, name)
        corpus = kept(given.url, given.data, name, "nlp")
        return corpus, [(each["question"], [each["answer"], *each["answer_aliases"]]) for each in asked], []
    asked = [each for part in ("lihua-jan-jun", "lihua-other") for each in questions(given.data, part)]
    answerable = [
        each for each in asked if each["type"] != "Null" and each["answer"].strip(".").lower() not in ("yes", "no")
    ]
    null = [each["question"] for each in asked if each["type"] == "Null"]
    corpus = kept(given.url, given.data, "lihua-other", "nlp")
    return corpus, [(each["question"], [each["answer"]]) for each in answerable], null


def tables(given: argparse.Namespace) -> Iterator[str]:
    sets = {name: set_of(given, name) for name in given.sets}
    refusals: list[str] = []
    yield f"| set (questions) | in the first {FIRST} | in all | share | extracts |"
    yield "|---|---|---|---|---|"
    for name, (corpus, all_asked, null) in sets.items():
        asked = spread(all_asked, given.questions)
        # Only LiHua's questions are about other documents than MuSiQue's.
        others = [
            question
            for other, (_, strangers, _) in sets.items()
            if (other == "lihua") != (name == "lihua")
            for question, _ in spread(strangers, STRANGERS)
        ]
        with GraphRAG(given.url, corpus) as rag:
            extracts = answered(rag, [question for question, _ in asked])
            refused = {
                kind: np.array([each is None for each in answered(rag, kind_asked)])
                for kind, kind_asked in (("Null", null), ("of other documents", others))
                if kind_asked
            }
        first, whole = (
            np.array(
                [
                    share(answers, " ".join((each or [])[:depth]))
                    for (_, answers), each in zip(asked, extracts, strict=True)
                ]
            )
            for depth in (FIRST, None)
        )
        number = np.mean([len(each or []) for each in extracts])
        cells = f"{said(1.0 * (first == 1))} | {(whole == 1).mean():.3f} | {first.mean():.3f} | {number:.1f}"
        yield f"| {name} ({len(asked)}) | {cells} |"
        wrongly = np.array([each is None for each in extracts])
        for kind, rightly in refused.items():
            precision = rightly.sum() / max(rightly.sum() + wrongly.sum(), 1)
            cells = f"{wrongly.mean():.3f} | {rightly.mean():.3f} | {precision:.3f}"
            refusals.append(f"| {name} ({len(asked)}) | {kind} ({len(rightly)}) | {cells} |")
    yield ""
    yield "| answerable | unanswerable | answerable refused | unanswerable refused (recall) | precision |"
    yield "|---|---|---|---|---|"
    yield from refusals


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--unseen", type=Path, help="a clone of the repository that has the unseen questions")
    arguments.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME", help="some of the sets")
    arguments.add_argument("--questions", type=int, default=400, help="at most so many of each set (400)")
    for line in tables(arguments.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
