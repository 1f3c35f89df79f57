"""Questions of public dev sets, most of which nothing was chosen by, without a model.

    python -m bench unseen [--data FOLDER] [--sets NAME …] [--modes NAME …]

Each set is one corpus, as in HippoRAG's protocol: the paragraphs of all its questions. Documents are judged; R@2, R@5 and R@10
are the share of a question's supporting paragraphs among the first documents, nDCG@10 is binary; means over questions with 95 %
intervals. The repositories are fetched at one commit each; `--data` names a folder that has clones of them, by their names.

musique   376 questions of the dev set with their paragraphs (HippoRAG: 1,000).
hotpotqa  489 questions of the dev set with theirs, ten each (HippoRAG: 1,000).
2wiki     HippoRAG's corpus of 6,119 passages; of 4,000 dev questions the 354 whose supporting titles it has.
popqa     HippoRAG 2's 1,000 questions. The page of whom they ask is the evidence; the other pages that it counts (such as
          "Politician"), and 2wiki's corpus, stand beside it.
squad     1,000 questions of SQuAD 2.0's dev set that have an answer, over the paragraphs of its 36 articles.

Parts: rules for walks and bridges were made by questions of MIGRES's samples of MuSiQue and HotpotQA: part "seen". All others are
parted by a hash of their text: "dev" may choose, "last" may not, and was not looked at before figures were printed.
"""

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pg_graphrag import GraphRAG

from bench.data.corpora import lines, made_once, remembered, scores
from bench.data.fetched import Repository, fetched, fetched_json
from bench.retrieval.crossvalidate import DEPTHS, said
from bench.retrieval.retrieval import MODES

SAMPLES = Repository(
    "https://github.com/AdelWang/MIGRES",
    "1de6265c9ca1014054d6ba875738e785830908f8",
    ("data/musique.json", "data/hotpot.json"),
)
MORE_SAMPLES = Repository(
    "https://github.com/screemix/Wikontic",
    "8e36d5e58233a1c7c5900f5e02c2d8f254fbbb68",
    ("datasets/musique_200_test.json", "datasets/hotpotqa200.json"),
)
MORE_HOTPOTQA = Repository(
    "https://github.com/nakulbh/Meve-framework",
    "a83b659f7790e00217073720506d453bec192a35",
    ("data/hotpot_dev_distractor_v1.json",),
)
TWO_WIKI = Repository(
    "https://github.com/peterbaile/lag", "eb253119caaef69b91d60ca26c672fd921d960df", ("data/wikihop/dev.json",)
)
TWO_WIKI_CORPUS = Repository(
    "https://github.com/OSU-NLP-Group/HippoRAG",
    "c617143f01477243992a63b2e2151cc003dd3b21",
    ("reproduce/dataset/2wikimultihopqa_corpus.json",),
)
POPQA = Repository(
    "https://github.com/KennyCaty/NeuroPath", "c9ed3ac5428b99a6065074486242ac55711c45ed", ("data/popqa.json",)
)
SQUAD = Repository(
    "https://github.com/chrischute/squad",
    "85623adeb9e6639f145081fea9cae2d8f3a26379",
    ("data/dev-v2.0.json", "data/test-v2.0.json"),
)
SQUAD_QUESTIONS = 1000
Paragraph = tuple[str, str]


class Question(NamedTuple):
    """A question, its class, its paragraphs (title, text), the supporting ones first, and answers, also of its steps."""

    text: str
    kind: str
    supporting: list[Paragraph]
    others: list[Paragraph]
    answers: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


class Set(NamedTuple):
    """Questions, passages beside theirs, and the questions by which rules were made."""

    questions: list[Question]
    others: list[Paragraph] = []  # noqa: RUF012
    seen: frozenset[str] = frozenset()


def musique(folder: Path) -> Iterator[Question]:
    """Yield MIGRES's sample of MuSiQue; a question's class is the number of hops."""
    yield from _musique(lines(folder / "data/musique.json"))


def hotpotqa(folder: Path) -> Iterator[Question]:
    """Yield MIGRES's sample of HotpotQA; a question's class is bridge or comparison."""
    yield from map(_hotpotqa, lines(folder / "data/hotpot.json"))


def _musique(items: Iterable[dict[str, Any]]) -> Iterator[Question]:
    for item in items:
        by_support: dict[bool, list[Paragraph]] = {True: [], False: []}
        for paragraph in item["paragraphs"]:
            by_support[paragraph["is_supporting"]].append((paragraph["title"], paragraph["paragraph_text"]))
        answers = item["answer"], *item.get("answer_aliases", ())
        steps = tuple(step["answer"] for step in item["question_decomposition"])
        yield Question(item["question"], f"{item['id'][0]} hops", by_support[True], by_support[False], answers, steps)


def _hotpotqa(item: dict[str, Any]) -> Question:
    supporting = {title for title, _ in item["supporting_facts"]}
    paragraphs = [(title, "".join(sentences)) for title, sentences in item["context"]]
    answers = (item["answer"],)
    return Question(
        item["question"],
        item["type"],
        [paragraph for paragraph in paragraphs if paragraph[0] in supporting],
        [paragraph for paragraph in paragraphs if paragraph[0] not in supporting],
        answers,
        answers,
    )


def musique_set(data: Path | None) -> Set:
    seen = list(musique(fetched(SAMPLES, data)))
    more, _ = fetched_json(MORE_SAMPLES, data)
    return Set(_once([*seen, *_musique(more["data"])]), seen=frozenset(each.text for each in seen))


def hotpotqa_set(data: Path | None) -> Set:
    seen = list(hotpotqa(fetched(SAMPLES, data)))
    _, more = fetched_json(MORE_SAMPLES, data)
    (last,) = fetched_json(MORE_HOTPOTQA, data)
    # Here titles stand beside each other, and so do sentences.
    for item in last:
        columns = {name: list(zip(*item[name].values(), strict=True)) for name in ("context", "supporting_facts")}
        more.append(item | columns)
    return Set(_once([*seen, *map(_hotpotqa, more)]), seen=frozenset(each.text for each in seen))


def two_wiki_set(data: Path | None) -> Set:
    corpus = two_wiki_corpus(data)
    texts = dict(corpus)
    (items,) = fetched_json(TWO_WIKI, data)
    asked = ((item, {title for title, _ in item["supporting_facts"]}) for item in items)
    questions = (
        Question(item["question"], item["type"], [(title, texts[title]) for title in sorted(titles)], [])
        for item, titles in asked
        if titles <= texts.keys()
    )
    return Set(_once(questions), corpus)


def two_wiki_corpus(data: Path | None) -> list[Paragraph]:
    """Return the 6,119 passages; no two have one title."""
    (passages,) = fetched_json(TWO_WIKI_CORPUS, data)
    return [(passage["title"], passage["text"]) for passage in passages]


def popqa_set(data: Path | None) -> Set:
    questions = []
    (items,) = fetched_json(POPQA, data)
    for item in items:
        # The first page is that of whom the question asks.
        page, *others = [(each["title"], each["text"]) for each in item["paragraphs"]]
        questions.append(Question(item["question"], item["prop"], [page], others))
    return Set(questions, two_wiki_corpus(data))


def squad_set(data: Path | None) -> Set:
    articles = [article for file in fetched_json(SQUAD, data) for article in file["data"]]
    passages = [
        ((article["title"].replace("_", " "), paragraph["context"]), paragraph["qas"])
        for article in articles
        for paragraph in article["paragraphs"]
    ]
    # The test file has no answers.
    questions = _once(
        Question(item["question"], "answered", [passage], [])
        for passage, items in passages
        for item in items
        if item.get("answers")
    )
    questions.sort(key=lambda question: _hash(question.text))
    return Set(questions[:SQUAD_QUESTIONS], [passage for passage, _ in passages])


SETS: dict[str, Callable[[Path | None], Set]] = {
    "musique": musique_set,
    "hotpotqa": hotpotqa_set,
    "2wiki": two_wiki_set,
    "popqa": popqa_set,
    "squad": squad_set,
}


def _once(questions: Iterable[Question]) -> list[Question]:
    return list({question.text: question for question in questions}.values())


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def part(question: Question, seen: frozenset[str]) -> str:
    """Return the part that a question is of: seen, dev or last."""
    return "seen" if question.text in seen else ("dev", "last")[_hash(question.text) % 2]


def parted(questions: Sequence[Question], parts: int) -> list[Sequence[Question]]:
    """Return the questions in so many parts, in their order."""
    size = -(-len(questions) // parts)
    return [questions[start : start + size] for start in range(0, len(questions), size)]


def keyed(questions: Iterable[Question], others: Iterable[Paragraph] = ()) -> dict[Paragraph, str]:
    """Return the source keys of all paragraphs, each once."""
    of_questions = (each for question in questions for each in [*question.supporting, *question.others])
    paragraphs = dict.fromkeys(chain(of_questions, others))
    return {paragraph: str(number) for number, paragraph in enumerate(paragraphs)}


def indexed(url: str, stem: str, keys: dict[Paragraph, str]) -> str:
    """Return the corpus of paragraphs, made where it is not there."""
    texts = [{"source_key": key, "title": title, "content": text} for (title, text), key in keys.items()]
    return made_once(url, stem, texts, [], {})


def measured(url: str, name: str, the_set: Set, modes: Sequence[str]) -> tuple[int, dict[str, NDArray[np.float64]]]:
    """Index the passages of a set; return their number, and by mode recalls and the last nDCG, (questions, depths + 1)."""
    keys = keyed(the_set.questions, the_set.others)
    asked = [
        {"question": question.text, "evidence": sorted({keys[paragraph] for paragraph in question.supporting})}
        for question in the_set.questions
    ]
    with GraphRAG(url, indexed(url, f"bench-whole-{name}-", keys)) as rag:
        print(f"{name}: {len(keys)} passages indexed", file=sys.stderr, flush=True)
        return len(keys), {mode: scored(rag, asked, mode, DEPTHS) for mode in modes}


def scored(rag: GraphRAG, asked: Sequence[dict[str, Any]], mode: str, depths: Sequence[int]) -> NDArray[np.float64]:
    """Return the recalls of each question and its nDCG at the last depth, (questions, depths + 1); remembered."""
    what = ["scores in order", rag.corpus, mode, depths, asked]
    return np.array(remembered(what, lambda: scores(rag, asked, [mode], depths)[mode].tolist()))


def rows(title: str, groups: Sequence[Sequence[str]], by_mode: dict[str, NDArray[np.float64]]) -> Iterator[str]:
    """Yield the rows of a set, each mode over all questions and over each group; `groups`: those of each question."""
    names = sorted({name for each in groups for name in each})
    for name in ("all", *names):
        chosen = np.array([name == "all" or name in each for each in groups])
        for mode, values in by_mode.items():
            cells = " | ".join(said(column) for column in values[chosen].T)
            yield f"| {title} | {mode} | {name} ({chosen.sum()}) | {cells} |"


def tables(options: argparse.Namespace) -> Iterator[str]:
    yield "| set | mode | questions | R@2 | R@5 | R@10 | nDCG@10 |"
    yield "|---|---|---|---|---|---|---|"
    for name in options.sets:
        the_set = SETS[name](options.data)
        count, by_mode = measured(options.url, name, the_set, options.modes)
        groups = [(question.kind, part(question, the_set.seen)) for question in the_set.questions]
        yield from rows(f"{name}, {count:,} passages", groups, by_mode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="a superuser of a database with the extension")
    parser.add_argument("--data", type=Path, help="a folder with clones of the repositories")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--modes", nargs="*", default=list(MODES))
    for line in tables(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
