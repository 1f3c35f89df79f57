"""Answers without a model: whether the gold answer stands in the sentences that `ask` gives, and which questions it refuses.

    python -m bench extracts [--data FOLDER] [--unseen FOLDER] [--questions 400] [--sets NAME …]
                             [--contexts 500 1000 2000 [--modes NAME …]]

Sets: MuSiQue's dev questions and LiHua-World's, of all chats of its year (`--data`), and the two halves of the questions of
MuSiQue and HotpotQA that `unseen` fetches, by the second of which nothing was chosen (`--unseen` names a clone). A question
counts where all words of its answer, or of another spelling of it, stand in the first three extracts, and in all; `share` is the
mean share of these words in the first three. Words are compared by their first six letters, without articles and prepositions.
Questions answered by yes or no are left out: documents do not say that.

Second table: what is refused ("The documents do not answer this question."). Unanswerable are LiHua's Null questions, and the
questions of a set about other documents. Refused answerable ones are to be 2 % at most.

Third table, with `--contexts`: what contexts of so many tokens hold, by each mode. Of each document of the evidence, the words of
the answers of steps that it has and the context gives of it (all of them where it has none, 0 where it is not there); the share
of evidence documents that are there; the share of questions all of whose answer's words stand in the prompt.
"""

import argparse
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pg_graphrag import GraphRAG
from pg_graphrag.text import prompts

from bench.data.corpora import documents, kept, questions, remembered, spread
from bench.data.fetched import fetched
from bench.retrieval.crossvalidate import said
from bench.retrieval.unseen import SAMPLES, Question, hotpotqa, indexed, keyed, musique, parted

SETS = ("musique", "lihua", "unseen-1", "unseen-2", "hotpot-1", "hotpot-2")
FIRST = 3
# Questions about other documents, of each set.
STRANGERS = 50
_WORD = re.compile(r"[^\W_]+")
_SMALL_WORDS = frozenset("a an the of and or in on at to is was were be by for from with that this it its as".split())
_NOT_FOUND = prompts.sentence("not_found", "en")


class Asked(NamedTuple):
    """A question, spellings of its answer, and its evidence: {document: the words of answers of its steps that it has}."""

    question: str
    answers: list[str]
    evidence: dict[str, set[str]]


def words(text: str) -> set[str]:
    """Return the words of a text that tell something, without their ends."""
    return {word[:6] for word in _WORD.findall(text.casefold()) if word not in _SMALL_WORDS}


def share(answers: Sequence[str], text: str) -> float:
    """Return the share of the words of an answer that a text has, of the spelling of which it has most."""
    has = words(text)
    return max(len(wanted & has) / max(len(wanted), 1) for wanted in map(words, answers))


def answered(rag: GraphRAG, asked: Sequence[str], documents_of: dict[str, str] | None = None) -> list[list[str] | None]:
    """Return the extracts of each question, of documents that a filter passes; None where it is refused."""

    def ask(question: str) -> list[str] | None:
        answer = rag.ask(question, filter=documents_of).answer
        return None if answer == _NOT_FOUND else re.findall(r"(?m)^- (.*) \[\d+\]$", answer)

    what = ["extracts", rag.corpus, list(asked), *([documents_of] if documents_of else [])]
    return remembered(what, lambda: [ask(question) for question in asked])


def contexts(
    rag: GraphRAG, asked: Sequence[Asked], mode: str, tokens: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return of each question the shares of its evidence and of its documents in a context, and whether the answer is there."""

    def measured(each: Asked) -> tuple[float, float, float]:
        context = rag.context(each.question, mode=mode, max_tokens=tokens)
        source = {reference["number"]: reference for reference in context["references"]}
        words_of: dict[str, set[str]] = {}
        for chunk in context["chunks"]:
            reference = source[chunk["reference"]]
            text = f"{reference['title'] or ''} {chunk['content']}"
            words_of.setdefault(reference["source_key"], set()).update(words(text))
        shares = [
            len(evidence & words_of[key]) / len(evidence) if evidence else 1.0
            for key, evidence in each.evidence.items()
            if key in words_of
        ]
        count = len(each.evidence)
        return sum(shares) / count, len(shares) / count, 1.0 * (share(each.answers, context["prompt"]) == 1)

    what = ["contexts", rag.corpus, mode, tokens, [each.question for each in asked]]
    return np.array(remembered(what, lambda: [measured(each) for each in asked]))


def with_evidence(question: str, answers: list[str], steps: Sequence[str], texts: Mapping[str, str]) -> Asked:
    """Return a question with its evidence, of documents with these texts."""
    words_of_steps = [words(step) for step in steps]
    evidence = {
        key: set().union(*(step for step in words_of_steps if step <= has))
        for key, has in ((key, words(text)) for key, text in texts.items())
    }
    return Asked(question, answers, evidence)


def of_unseen(url: str, source: str, number: int, part: Sequence[Question]) -> tuple[str, list[Asked]]:
    """Return the corpus of a half of the unseen questions, as `unseen` makes it, and the questions without yes and no."""
    keys = keyed(part)
    asked = [
        with_evidence(each.text, list(each.answers), each.steps, {keys[at]: " ".join(at) for at in each.supporting})
        for each in part
        if not is_yes_or_no(each.answers[0])
    ]
    return indexed(url, f"bench-unseen-{source}-{number}-2-", keys), asked


def is_yes_or_no(answer: str) -> bool:
    return answer.strip(".").lower() in ("yes", "no")


def set_of(given: argparse.Namespace, name: str) -> tuple[str, list[Asked], list[str]]:
    """Return the corpus of a set, its questions, and those of them that have no answer."""
    if name.startswith(("unseen", "hotpot")):
        number = int(name[-1])
        read, of = (hotpotqa, "hotpotqa") if name.startswith("hotpot") else (musique, "musique")
        part = parted(list(read(fetched(SAMPLES, given.unseen))), 2)[number - 1]
        return *of_unseen(given.url, of, number, part), []
    source = "musique" if name == "musique" else "lihua-other"
    texts = {
        document["source_key"]: f"{document.get('title', '')} {document['content']}"
        for document in documents(given.data, source)
    }

    def asked_of(each: dict[str, Any]) -> Asked:
        answers = [each["answer"], *each.get("answer_aliases", ())]
        steps = [step["answer"] for step in each.get("decomposition", ())] or list(words(each["answer"]))
        return with_evidence(each["question"], answers, steps, {key: texts[key] for key in each["evidence"]})

    corpus = kept(given.url, given.data, source, "nlp")
    if name == "musique":
        return corpus, [asked_of(each) for each in questions(given.data, name)], []
    every = [each for part in ("lihua-jan-jun", "lihua-other") for each in questions(given.data, part)]
    answerable = [each for each in every if each["type"] != "Null" and not is_yes_or_no(each["answer"])]
    null = [each["question"] for each in every if each["type"] == "Null"]
    return corpus, [asked_of(each) for each in answerable], null


def tables(given: argparse.Namespace) -> Iterator[str]:
    sets = {name: set_of(given, name) for name in given.sets}
    refusals: list[str] = []
    rows_of_contexts: list[str] = []
    yield f"| set (questions) | in the first {FIRST} | in all | share | extracts |"
    yield "|---|---|---|---|---|"
    for name, (corpus, all_asked, null) in sets.items():
        asked = spread(all_asked, given.questions)
        # Only LiHua's questions are about other documents than MuSiQue's.
        others = [
            question
            for other, (_, strangers, _) in sets.items()
            if (other == "lihua") != (name == "lihua")
            for question, *_ in spread(strangers, STRANGERS)
        ]
        with GraphRAG(given.url, corpus) as rag:
            extracts = answered(rag, [each.question for each in asked])
            refused = {
                kind: np.array([each is None for each in answered(rag, kind_asked)])
                for kind, kind_asked in (("Null", null), ("of other documents", others))
                if kind_asked
            }
            for mode, tokens in itertools.product(given.modes, given.contexts):
                figures = " | ".join(said(column) for column in contexts(rag, asked, mode, tokens).T)
                rows_of_contexts.append(f"| {name} ({len(asked)}) | {mode} | {tokens:,} | {figures} |")
        first, whole = (
            np.array(
                [
                    share(question.answers, " ".join((each or [])[:depth]))
                    for question, each in zip(asked, extracts, strict=True)
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
    if rows_of_contexts:
        yield ""
        yield "| set (questions) | mode | tokens | evidence | its documents | answer |"
        yield "|---|---|---|---|---|---|"
        yield from rows_of_contexts


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--unseen", type=Path, help="a clone of the repository that has the unseen questions")
    arguments.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME", help="some of the sets")
    arguments.add_argument("--questions", type=int, default=400, help="at most so many of each set (400)")
    arguments.add_argument(
        "--contexts", type=int, nargs="*", default=[], metavar="TOKENS", help="measure such contexts, too"
    )
    arguments.add_argument("--modes", nargs="+", default=["hybrid"], metavar="NAME", help="modes of contexts (hybrid)")
    for line in tables(arguments.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
