"""BenchmarkQED: answers of lazy, local, global, drift and hybrid to AutoQ's classes of questions, compared as AutoE does.

    python -m bench benchmark_qed --model NAME --base-url URL (--estimate | --yes) [--set AP_news | podcast | cs] [--official]

Documents and questions are those of microsoft/benchmark-qed, fetched at one commit (`--data` names a clone of it): AP_news has
1,397 articles on health and 50 questions of each of the classes data_local, data_global, activity_local, activity_global; podcast
has 70 transcripts and questions data_local and data_linked. cs is UltraDomain's set of computer science, as OpenSPG/KAG has it:
ten textbooks and 100 questions with answers that LightRAG gave, which are a condition more. `--make N` has the model make N of
each class from the documents instead (pg_graphrag.beside.judging.generate). The index is made without a model.

Every condition answers the same questions (`--questions` of each class); `--answers FILE …` has those of other systems, JSON
Lines with id and answer, as `--output` keeps ours. The two answers of a comparison are cut to the length of the shorter one, at
the end of a sentence: judges prefer what is longer. First the judge compares answers of the baseline with themselves (A/A);
what it prefers there is a place. Then each other condition with the baseline, in both orders, `--trials` times: the judge, win
rates, intervals and tests are those of `pg-graphrag judge`. `--criteria lightrag`, the default of cs, has LightRAG's four:
comprehensiveness, diversity, empowerment and overall. `--official` writes the cut answers in the form of the package
benchmark-qed, and has its own `autoe pairwise-scores` judge them, too, in a venv of its own.

`--estimate` rehearses all of it with a model that answers by form, and says what it would cost at `--prices`; `--yes` asks the
model. The server asks it for answers, so the key must be in its environment, too. Answers are kept in `--output`, and replies of
the judge, so a run that was broken off goes on.
"""

import argparse
import html
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pg_graphrag import GraphRAG
from pg_graphrag.beside.judging.client_model import Model
from pg_graphrag.beside.judging.generate import SAMPLE, Passage, activities, describe, global_questions, local_questions
from pg_graphrag.beside.judging.judge_pairs import CRITERIA, Answered, Verdict, compare, same_answers
from pg_graphrag.beside.judging.verdicts import SIGNIFICANT, comparisons, place_bias
from pg_graphrag.text.tokenizers import Tokenizer, tokenizer

from bench.data.corpora import made_once, spread
from bench.data.fetched import Repository, fetched
from bench.peers.peers import peer_python
from bench.retrieval.graphrag_bench_answers import Judge, judges, use
from bench.retrieval.rehearsal import MODEL, Rehearsal, add_model, check_model, cost_table, rehearsed

URL = "https://github.com/microsoft/benchmark-qed"
COMMIT = "e0ae8a11e6c18e77ce4a24aba9297c2158ad2ccb"
# UltraDomain's set of computer science, which KAG's repository has.
ULTRADOMAIN, FOLDER = "cs", "kag/examples/csqa"
KAG = Repository(
    "https://github.com/OpenSPG/KAG",
    "e1012d39e41900bb9b0d0b01fbd1a2fdd409ee37",
    (f"{FOLDER}/builder/data", f"{FOLDER}/solver/data"),
)
LIGHTRAGS = "LightRAG"
# LightRAG's are of its head-to-head on UltraDomain.
CRITERIA_OF = {"all": tuple(CRITERIA), "lightrag": ("comprehensiveness", "diversity", "empowerment", "overall")}
# Classes, and the folder of the questions, by set.
SETS = {
    "AP_news": (("data_local", "data_global", "activity_local", "activity_global"), "generated_questions_v1"),
    "podcast": (("data_local", "data_linked"), "generated_questions_v2"),
}
REQUIREMENTS = ("benchmark-qed==0.4.0",)
# Condition: mode.
CONDITIONS = {"lazy": "lazy", "local": "graph_local", "global": "graph_global", "drift": "drift", "hybrid": "hybrid"}
TOKENS = "o200k_base"
# An answer that says it has none is not a measure of the other's length.
LEAST = 50
_SENTENCE_END = re.compile(r"[.!?。！？](?:\s*\[\d+\])*(?=\s|$)|\n")
_TAG = re.compile(r"<[^>]+>")


@dataclass(frozen=True)
class Question:
    """A question and the class of AutoQ that it is of."""

    id: str
    text: str
    kind: str


def repository(name: str) -> Repository:
    """Return what is needed of a set."""
    if name == ULTRADOMAIN:
        return KAG
    parts = ("raw_data", SETS[name][1])
    return Repository(URL, COMMIT, tuple(f"datasets/{name}/{part}" for part in parts))


def documents(folder: Path) -> list[dict[str, str]]:
    """Return the documents of a set: articles with their headlines, episodes, or books."""
    texts = []
    for file in sorted((folder / "builder/data").glob("*.md")):
        title = file.stem.replace("_", " ").capitalize()
        texts.append({"source_key": file.stem, "title": title, "content": file.read_text(encoding="utf-8")})
    for file in sorted((folder / "raw_data").rglob("*.json")):
        row = json.loads(file.read_text(encoding="utf-8-sig"))
        title, body = row.get("headline") or row.get("episode"), row.get("body_nitf") or row.get("text") or ""
        if body:
            paragraphs = body.replace("</p>", "\n\n")
            content = html.unescape(_TAG.sub("", paragraphs)) if "body_nitf" in row else body
            texts.append({"source_key": file.stem, "title": title, "content": content.strip()})
    return texts


def published(folder: Path, name: str, count: int) -> list[Question]:
    """Return so many questions of each class of a set, evenly spread."""
    if name == ULTRADOMAIN:
        rows = json.loads((folder / "solver/data/questions.json").read_text(encoding="utf-8"))
        return spread([Question(row["_id"], row["input"], name) for row in rows], count)
    kinds, part = SETS[name]
    questions = []
    for kind in kinds:
        (file,) = (folder / part).glob(f"{kind}_questions*.json")
        rows = json.loads(file.read_text(encoding="utf-8-sig"))
        texts = [row if isinstance(row, str) else row["question_text"] for row in rows]
        numbered = [Question(f"{kind}-{number:03}", text, kind) for number, text in enumerate(texts, 1)]
        questions += spread(numbered, count)
    return questions


def made(model: Model, texts: Sequence[dict[str, str]], count: int) -> list[Question]:
    """Return so many questions of each class, made by a model from the documents."""
    passages = [
        Passage(text["source_key"], text["title"], text["content"]) for text in spread(texts, max(count, 4 * SAMPLE))
    ]
    samples = [passages[start : start + SAMPLE] for start in range(0, len(passages), SAMPLE)]
    description = describe(model, samples[0])
    # As many users, tasks and questions as it takes.
    side = max(1, round(count ** (1 / 3)))
    by_kind = {
        "data_local": local_questions(model, description, passages[:count]),
        "data_global": global_questions(model, description, samples, count),
        "activity_global": activities(model, description, side, side, -(-count // side**2))[:count],
    }
    return [
        Question(f"{kind}-{number:03}", row["question"], kind)
        for kind, rows in by_kind.items()
        for number, row in enumerate(rows, 1)
    ]


def others(given: argparse.Namespace, folder: Path) -> dict[str, dict[str, str]]:
    """Return {system: {id: answer}} of other systems: those that a set brings, and those of files."""
    result = {}
    if given.set == ULTRADOMAIN and not given.make:
        rows = json.loads((folder / "solver/data/csqa_lightrag_answers.json").read_text(encoding="utf-8"))
        result[LIGHTRAGS] = {row["_id"]: row["lightrag_answer"] for row in rows}
    for file in given.answers:
        lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        result[file.stem] = {row["id"]: row["answer"] for row in lines}
    return result


def answers(rag: GraphRAG, questions: Sequence[Question], condition: str, file: Path | None = None) -> dict[str, str]:
    """Return {id: answer} of a condition; those in the file are not asked for again, and the others are added to it."""
    by_id: dict[str, str] = {}
    if file is not None and file.exists():
        rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        by_id = {row["id"]: row["answer"] for row in rows if any(row["question"] == q.text for q in questions)}
    for question in questions:
        if question.id not in by_id:
            by_id[question.id] = rag.ask(question.text, mode=CONDITIONS[condition]).answer
            if file is not None:
                row = {"id": question.id, "question": question.text, "answer": by_id[question.id]}
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    return by_id


def cut_to_equal(first: str, second: str, tokens: Tokenizer) -> tuple[str, str]:
    """Return two answers cut to the length of the shorter one, or to LEAST tokens, each at the end of a sentence."""
    length = max(LEAST, min(tokens.count(first), tokens.count(second)))
    return _cut(first, length, tokens), _cut(second, length, tokens)


def _cut(text: str, length: int, tokens: Tokenizer) -> str:
    ends = [end for _, end in tokens.offsets(text)]
    if len(ends) <= length:
        return text
    within = text[: ends[length - 1]]
    sentences = [match.end() for match in _SENTENCE_END.finditer(within)]
    return within[: sentences[-1]] if sentences else within


@dataclass(frozen=True)
class Pair:
    """The answers of the baseline and of another condition to the same questions, cut to equal lengths."""

    other: str
    baseline_answers: list[Answered]
    other_answers: list[Answered]


def pairs(
    questions: Sequence[Question], by_condition: dict[str, dict[str, str]], baseline: str, tokens: Tokenizer
) -> list[Pair]:
    """Return each other condition beside the baseline, on the questions that it answered."""
    result = []
    for other, answered in by_condition.items():
        if other != baseline:
            asked = [question for question in questions if question.id in answered]
            if not asked:
                raise SystemExit(f"{other} answers none of the questions; they are known by their ids")
            cut = [
                cut_to_equal(by_condition[baseline][question.id], answered[question.id], tokens) for question in asked
            ]
            sides = [
                [Answered(question.id, question.text, both[side]) for question, both in zip(asked, cut, strict=True)]
                for side in (0, 1)
            ]
            result.append(Pair(other, *sides))
    return result


def judged(
    model: Model, compared: Sequence[Pair], given: argparse.Namespace
) -> tuple[list[Verdict], dict[str, list[Verdict]]]:
    """Return the verdicts of the A/A run, and those of each comparison."""
    criteria = CRITERIA_OF[given.criteria]
    same = spread(compared[0].baseline_answers, given.same)
    alike = same_answers(model, same, given.baseline, given.trials, criteria)
    verdicts = {
        pair.other: compare(
            model, pair.other_answers, pair.baseline_answers, (pair.other, given.baseline), given.trials, criteria
        )
        for pair in compared
    }
    return alike, verdicts


def verdict_tables(
    alike: Sequence[Verdict], verdicts: dict[str, list[Verdict]], questions: Sequence[Question], baseline: str
) -> Iterator[str]:
    """The A/A run, then win rates over all questions and by class."""
    yield f"A/A, answers of {baseline} beside themselves: verdicts for the first, the second, neither; p (Holm)\n"
    for row in place_bias(alike):
        preferred = " **prefers a place**" if row.p_holm < SIGNIFICANT else ""
        yield f"- {row.criterion}: {row.first} / {row.second} / {row.neither}; {row.p_holm:.3f}{preferred}"
    kinds = {question.id: question.kind for question in questions}
    for kind in ("all", *dict.fromkeys(kinds.values())):
        chosen = [
            verdict
            for of_other in verdicts.values()
            for verdict in of_other
            if kind in ("all", kinds[verdict.question])
        ]
        yield f"\n{kind}, against {baseline}\n"
        yield "| condition | criterion | win rate [95 %] | wins / ties / losses | questions | consistent | p (Holm) |"
        yield "|---|---|---|---|---|---|---|"
        for result in comparisons(chosen, baseline):
            consistent = "–" if result.consistent is None else f"{result.consistent:.0%}"
            counts = f"{result.wins} / {result.ties} / {result.losses} | {result.questions}"
            rate = f"{result.win_rate:.3f} [{result.low:.3f}, {result.high:.3f}]"
            yield f"| {result.system} | {result.criterion} | {rate} | {counts} | {consistent} | {result.p_holm:.3f} |"


def official(
    judge: Judge, compared: Sequence[Pair], questions: Sequence[Question], baseline: str, trials: int, folder: Path
) -> str:
    """Write the answers as benchmark-qed reads them, have its AutoE judge them, and return its table of significance tests.

    Each comparison has a folder of its own, since the baseline's answers are cut to the other's.
    """
    python = peer_python("benchmark-qed", REQUIREMENTS)
    kinds = {question.id: question.kind for question in questions}
    lines: list[str] = []
    for pair in compared:
        place = folder / f"{baseline}--{pair.other}"
        for name, rows in ((baseline, pair.baseline_answers), (pair.other, pair.other_answers)):
            (place / name).mkdir(parents=True, exist_ok=True)
            for kind in dict.fromkeys(kinds.values()):
                own = [
                    {"question_id": row.id, "question_text": row.question, "answer": row.answer}
                    for row in rows
                    if kinds[row.id] == kind
                ]
                (place / name / f"{kind}.json").write_text(json.dumps(own, ensure_ascii=False), encoding="utf-8")
        settings = {
            "base": {"name": baseline, "answer_base_path": str(place / baseline)},
            "others": [{"name": pair.other, "answer_base_path": str(place / pair.other)}],
            "question_sets": list(dict.fromkeys(kinds.values())),
            # Its trials take turns in the order.
            "trials": 2 * trials,
            "llm_config": {
                "model": judge.model,
                "auth_type": "api_key",
                "api_key": "${BENCH_API_KEY}",
                "llm_provider": "openai.chat",
                "concurrent_requests": judge.concurrency,
                "init_args": {"api_base": judge.base_url},
            },
        }
        # JSON is YAML.
        (place / "settings.yaml").write_text(json.dumps(settings, indent=1), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"BENCH_API_KEY": judge.api_key, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        subprocess.run(
            [python, "-m", "benchmark_qed", "autoe", "pairwise-scores", place / "settings.yaml", place / "scores"],
            check=True,
            stdout=sys.stderr,
            env=environment,
        )
        text = (place / "scores/winrates_sig_tests.csv").read_text(encoding="utf-8").splitlines()
        lines += text if not lines else text[1:]
    return "\n".join(lines)


def rehearse(
    given: argparse.Namespace,
    rag: GraphRAG,
    rehearsal: Rehearsal,
    url: str,
    asked: Callable[[Model], list[Question]],
    of_others: Mapping[str, dict[str, str]],
    folder: Path,
) -> dict[str, Counter[str]]:
    """Return calls and tokens of each step."""
    counts: dict[str, Counter[str]] = {}
    judge, model = Judge(MODEL, url, "", "none", MODEL), Model(MODEL, url)
    questions = asked(model)
    counts["questions"] = rehearsal.take()
    use(rag, judge)
    by_condition = {}
    for condition in given.conditions:
        by_condition[condition] = answers(rag, questions, condition)
        counts[f"answers: {condition}"] = rehearsal.take()
    compared = pairs(questions, by_condition | of_others, given.baseline, tokenizer(TOKENS))
    judged(model, compared, given)
    counts["judge"] = rehearsal.take()
    if given.official:
        official(judge, compared, questions, given.baseline, given.trials, folder)
        counts["judge, official"] = rehearsal.take()
    return counts


def estimated(
    given: argparse.Namespace,
    rag: GraphRAG,
    asked: Callable[[Model], list[Question]],
    of_others: Mapping[str, dict[str, str]],
) -> Iterator[str]:
    """Rehearse the run, and say what it would cost."""
    with rehearsed() as (rehearsal, url), tempfile.TemporaryDirectory() as folder:
        yield from cost_table(rehearse(given, rag, rehearsal, url, asked, of_others, Path(folder)), given.prices)


def run(
    given: argparse.Namespace,
    rag: GraphRAG,
    asked: Callable[[Model], list[Question]],
    of_others: Mapping[str, dict[str, str]],
) -> Iterator[str]:
    """Ask the model, and say what its verdicts come to."""
    given.output.mkdir(parents=True, exist_ok=True)
    answerer, judge = judges(given)
    model = Model(judge.model, judge.base_url, judge.api_key_env, memory=given.output / "replies.jsonl")
    questions = asked(model)
    use(rag, answerer)
    by_condition = {
        condition: answers(rag, questions, condition, given.output / f"{condition}.jsonl")
        for condition in given.conditions
    } | dict(of_others)
    tokens = tokenizer(TOKENS)
    yield "Tokens of an answer, mean, before the cut\n"
    for condition, texts in by_condition.items():
        yield f"- {condition}: {statistics.mean(map(tokens.count, texts.values())):.0f}"
    compared = pairs(questions, by_condition, given.baseline, tokens)
    alike, verdicts = judged(model, compared, given)
    yield f"\nAnswers: {answerer.model}; judge: {judge.model}; {model.usage}; {model.usage.unusable} verdicts are missing\n"
    yield from verdict_tables(alike, verdicts, questions, given.baseline)
    if given.official:
        yield f"\n{REQUIREMENTS[0]}, autoe pairwise-scores\n"
        yield official(judge, compared, questions, given.baseline, given.trials, given.output / "official")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, help="a clone of the benchmark's repository (default: fetched)")
    arguments.add_argument("--set", choices=(*SETS, ULTRADOMAIN), default="AP_news")
    arguments.add_argument("--documents", type=int, default=0, help="index so many, evenly spread; 0: all (0)")
    arguments.add_argument("--questions", type=int, default=25, help="of each published class (25)")
    arguments.add_argument("--make", type=int, metavar="N", help="have N questions of each class made instead")
    arguments.add_argument("--conditions", nargs="+", choices=tuple(CONDITIONS), default=list(CONDITIONS))
    arguments.add_argument("--baseline", choices=tuple(CONDITIONS), default="lazy")
    arguments.add_argument("--answers", type=Path, nargs="+", default=[], metavar="FILE", help="of other systems")
    arguments.add_argument("--criteria", choices=tuple(CRITERIA_OF), help="of the judge (lightrag for cs, else all)")
    arguments.add_argument("--trials", type=int, default=2, help="of each pair in each order (2)")
    arguments.add_argument("--same", type=int, default=25, help="answers that the judge sees beside themselves (25)")
    arguments.add_argument("--official", action="store_true", help="benchmark-qed's own AutoE as well")
    add_model(arguments)
    given = arguments.parse_args()
    check_model(arguments, given)
    if not given.model:
        arguments.error("it needs a model: --model NAME --base-url URL, and --estimate or --yes")
    if given.baseline not in given.conditions:
        given.conditions.insert(0, given.baseline)
    given.criteria = given.criteria or ("lightrag" if given.set == ULTRADOMAIN else "all")
    source = repository(given.set)
    folder = fetched(source, given.data) / (FOLDER if given.set == ULTRADOMAIN else f"datasets/{given.set}")
    texts = documents(folder)
    texts = spread(texts, given.documents) if given.documents else texts

    def asked(model: Model) -> list[Question]:
        return made(model, texts, given.make) if given.make else published(folder, given.set, given.questions)

    stem = f"bench-qed-{given.set.lower().replace('_', '-')}-"
    with GraphRAG(given.url, made_once(given.url, stem, texts, [], {"tokenizer": TOKENS})) as rag:
        name = source.url.rpartition("/")[2]
        print(f"{name}, commit {source.commit[:12]}, {given.set}: {len(texts)} documents, no model in the index\n")
        of_others = others(given, folder)
        for line in (estimated if given.estimate else run)(given, rag, asked, of_others):
            print(line, flush=True)


if __name__ == "__main__":
    main()
