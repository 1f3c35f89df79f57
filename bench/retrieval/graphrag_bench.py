"""GraphRAG-Bench: how much of the gold answers and of the gold evidence the contexts hold, beside LightRAG's.

    python -m bench graphrag_bench [--set Medical | Novel] [--questions 400] [--modes NAME …] [--budgets 2000 4000 8000]
                                   [--no-lightrag]
    python -m bench graphrag_bench --extracts [--set …] [--questions 400]
    python -m bench graphrag_bench --model NAME --base-url URL (--estimate | --yes)

The set (arXiv 2506.05690, MIT) is fetched from its repository at one commit; `--data` names a clone of it. Its texts, one of a
megabyte (Medical) or twenty novels, are cut at their line ends into documents, and indexed without a model, with the
tokenizer o200k_base. Each question of Novel is asked of its novel alone, by a filter. `--questions` are spread evenly over the
four classes, and within each; 0 asks all 2,062 or 2,010.

LightRAG gets the same chunks, the entities and relationships that our index has in each of them, their descriptions being the
sentences that name them, the same vectors, the same keywords and tokenizer: what differs is how a context is made of them. Its
budgets of entities and relationships are the shares that its defaults have, and a context is cut at the budget.

Three shares, means over questions with 95 % intervals; words are content words, without their ends: of the answer's words, those
that the context has; of the evidence's; and of each statement of the evidence, those that two consecutive sentences of the
context have, at the best place (words scattered over a long context support nothing). All are bounds on what an answer could
use, not answers.

`--extracts` asks for answers without a model, which are sentences of the documents: their shares of the answer's words and of the
evidence, and the F1 of tokens and ROUGE-L of the first sentences with the gold answer (without the stems of the benchmark's
own ROUGE-L).

With `--model`, `--answers` questions of each class are answered in `--modes` with `--budget` tokens, and judged by the
benchmark's own code. `--estimate` rehearses the run with a model that answers by form, and says what it would cost at `--prices`;
`--yes` asks the model; `--judge` names another for the metrics. The server asks for answers, so the key must be in its
environment, too. Answers and scores are written to `--output`.
"""

import argparse
import inspect
import json
import re
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pg_graphrag import GraphRAG
from pg_graphrag.ground import bootstrap
from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.text.tokenizers import PATTERNS, Tokenizer, tokenizer

from bench.data.corpora import made_once, remembered, spread
from bench.data.fetched import Repository, fetched
from bench.peers.beside import minilm
from bench.peers.lightrag import CONCURRENCY, DIMENSIONS, LIGHTRAG, REQUIREMENTS
from bench.peers.peers import HALVES, peer_python, peer_step
from bench.retrieval.crossvalidate import said
from bench.retrieval.extracts import FIRST, answered
from bench.retrieval.graphrag_bench_answers import (
    RULES,
    Judge,
    answer_rows,
    judges,
    metrics_table,
    rehearse,
    scored,
    use,
)
from bench.retrieval.graphrag_bench_question import Question
from bench.retrieval.methods import SENTENCE, words
from bench.retrieval.picture import dots
from bench.retrieval.rehearsal import MODEL, add_model, check_model, cost_table, rehearsed
from tests.endpoint import Endpoint
from tests.endpoint.recorded import as_rows

URL = "https://github.com/GraphRAG-Bench/GraphRAG-Benchmark"
COMMIT = "1efe54acef8940b7240bb61e3fa3a67dfcb1a017"
SETS = ("Medical", "Novel")
CLASSES = ("Fact Retrieval", "Complex Reasoning", "Contextual Summarize", "Creative Generation")
TOKENS = "o200k_base"
MODES = (
    "naive",
    "bm25",
    "hybrid",
    "local",
    "global",
    "mix",
    "ppr",
    "path",
    "graph_local",
    "graph_global",
    "lazy",
    "drift",
)
BASELINE = "naive"
LIGHTRAG_MODES = ("naive", "mix", "hybrid")
BUDGETS = (2000, 4000, 8000)
MEASURES = ("answer", "evidence", "evidence in one place")
# Tokens that LightRAG reserves for its own prompt, at most.
RESERVE = 4000
# Seconds that LightRAG waits for vectors: the embedder is this machine's.
PATIENCE = "1800"
# Of a sentence, as LightRAG's descriptions have it.
_LONGEST_SENTENCE = 400
_TOKEN = re.compile(r"\w+")
_STATEMENTS = re.compile(r"\s*;\s+")


def repository(name: str) -> Repository:
    """Return what is needed of a set."""
    files = f"Datasets/Corpus/{name.lower()}.json", f"Datasets/Questions/{name.lower()}_questions.json"
    return Repository(URL, COMMIT, (*files, "Evaluation"))


def read_set(folder: Path, name: str) -> tuple[list[dict[str, Any]], list[Question]]:
    """Return the documents, and the questions; evidence is a list, or one text with semicolons, as the version has it."""
    of_texts, of_questions, _ = repository(name).paths
    corpus = json.loads((folder / of_texts).read_text(encoding="utf-8"))
    texts = []
    for whole in corpus if isinstance(corpus, list) else [corpus]:
        # Where there are several texts, each question is about one of them.
        origin = {"metadata": {"source": whole["corpus_name"]}} if name == "Novel" else {}
        key = f"{whole['corpus_name']}/" if origin else ""
        lines = (line.strip() for line in whole["context"].split("\n"))
        texts += [
            {"source_key": f"{key}{number:02}", "content": line, **origin}
            for number, line in enumerate(lines, 1)
            if line
        ]
    rows = json.loads((folder / of_questions).read_text(encoding="utf-8"))
    questions = []
    for row in rows:
        said = row.get("evidence") or []
        statements = _STATEMENTS.split(said) if isinstance(said, str) else said
        evidence = tuple(statement for statement in statements if words(statement))
        source = row["source"] if name == "Novel" else None
        questions.append(Question(row["id"], row["question"], row["answer"], evidence, row["question_type"], source))
    return texts, questions


def drawn(questions: Sequence[Question], count: int) -> list[Question]:
    """Return so many questions, as many of each class; 0: all."""
    by_kind = [[question for question in questions if question.kind == kind] for kind in CLASSES]
    share = -(-count // len(CLASSES)) if count else len(questions)
    return [question for of_kind in by_kind for question in spread(of_kind, share)]


def shares(context: str, question: Question) -> tuple[float, float, float]:
    """Return the measures of one context, nan for the evidence of a question that has none."""
    present = words(context)
    answer = words(question.answer)
    statements = [words(statement) for statement in question.evidence]
    if not statements:
        return _share(answer, present), float("nan"), float("nan")
    sentences = [words(sentence) for sentence in SENTENCE.split(context)]
    places = [first | second for first, second in zip(sentences, [*sentences[1:], set()], strict=True)]
    best = [max(len(statement & place) for place in places) / len(statement) for statement in statements]
    return _share(answer, present), _share(set().union(*statements), present), statistics.mean(best)


def _share(expected: set[str], present: set[str]) -> float:
    return len(expected & present) / len(expected) if expected else 1.0


def cut(text: str, budget: int, tokens: Tokenizer) -> str:
    """Return the first `budget` tokens of a text."""
    ends = [end for _, end in tokens.offsets(text)]
    return text if len(ends) <= budget else text[: ends[budget - 1]]


# One system's contexts: (questions, measures and tokens) by budget and mode.
Measured = dict[tuple[str, int], NDArray[np.float64]]


def ours(rag: GraphRAG, questions: Sequence[Question], modes: Sequence[str], budgets: Sequence[int]) -> Measured:
    """Return what our contexts hold; figures are kept in the user's cache."""
    tokens = tokenizer(TOKENS)

    def contexts(mode: str, budget: int) -> list[list[float]]:
        rows = []
        for question in questions:
            context = rag.context(question.text, mode=mode, max_tokens=budget, filter=question.filter)["prompt"]
            rows.append([*shares(context, question), tokens.count(context)])
        return rows

    asked = [(question.id, question.text, question.answer, question.evidence) for question in questions]
    code = [SENTENCE.pattern, *map(inspect.getsource, (words, shares))]
    measured: Measured = {}
    for mode in modes:
        for budget in budgets:
            what = ["graphrag_bench", code, rag.corpus, mode, budget, asked]
            measured[mode, budget] = np.array(remembered(what, lambda m=mode, b=budget: contexts(m, b)))
            print(f"{mode}, {budget} tokens", file=sys.stderr, flush=True)
    return measured


class IndexReplies:
    """Answers LightRAG's extraction of a chunk with what our index has in it, as function of the messages."""

    def __init__(self, rows_by_chunk: dict[str, str]) -> None:
        self._rows = rows_by_chunk

    def __call__(self, messages: Sequence[dict[str, Any]]) -> str:
        text = "\n".join(str(message["content"]) for message in messages)
        for chunk, rows in self._rows.items():
            if chunk in text:
                return rows
        # A summary of descriptions: the first of them.
        return " ".join(str(messages[-1]["content"])[-1200:].split())


_MENTIONS = """
SELECT m.chunk_id, e.name, m.type FROM graphrag.entity_mentions m JOIN graphrag.entities e ON e.id = m.entity_id
  JOIN graphrag.corpora k ON k.id = m.corpus_id WHERE k.name = %s ORDER BY m.id"""
_PAIRS = """
SELECT m.chunk_id, s.name, t.name FROM graphrag.relationship_mentions m
  JOIN graphrag.relationships r ON r.id = m.relationship_id
  JOIN graphrag.entities s ON s.id = r.source_id JOIN graphrag.entities t ON t.id = r.target_id
  JOIN graphrag.corpora k ON k.id = m.corpus_id WHERE k.name = %s ORDER BY m.id"""
_CHUNKS = """
SELECT c.id, c.content FROM graphrag.chunks c JOIN graphrag.corpora k ON k.id = c.corpus_id WHERE k.name = %s ORDER BY c.id"""


def indexed(rag: GraphRAG) -> dict[str, str]:
    """Return {chunk: its entities and relationships in the rows that LightRAG asks for}."""
    with rag._connection() as connection:
        texts = {chunk: " ".join(text.split()) for chunk, text in connection.execute(_CHUNKS, [rag.corpus])}
        entities: dict[int, list[dict[str, Any]]] = {chunk: [] for chunk in texts}
        relationships: dict[int, list[dict[str, Any]]] = {chunk: [] for chunk in texts}
        sentences = {
            chunk: [(piece.casefold(), piece) for piece in SENTENCE.split(text)] for chunk, text in texts.items()
        }

        def stated(chunk: int, *names: str) -> str:
            folded = [name.casefold() for name in names]
            found = (piece for lower, piece in sentences[chunk] if all(name in lower for name in folded))
            return next(found, ", ".join(names))[:_LONGEST_SENTENCE]

        for chunk, name, kind in connection.execute(_MENTIONS, [rag.corpus]):
            entities[chunk].append({"name": name, "type": kind, "description": stated(chunk, name)})
        for chunk, source, target in connection.execute(_PAIRS, [rag.corpus]):
            description = stated(chunk, source, target)
            relationships[chunk].append(
                {"source": source, "target": target, "keywords": ["related"], "description": description}
            )
    return {text: as_rows(entities[chunk], relationships[chunk]) for chunk, text in texts.items()}


def lightrag(rag: GraphRAG, questions: Sequence[Question], modes: Sequence[str], budgets: Sequence[int]) -> Measured:
    """Return what LightRAG's contexts on our index hold; figures are kept in the user's cache."""
    chunks = indexed(rag)
    asked = []
    for question in questions:
        keywords = rag.understand(question.text)
        asked.append((question.text, keywords["low_level_keywords"], keywords["high_level_keywords"]))

    tokens = tokenizer(TOKENS)

    def measure() -> dict[str, list[list[list[float]]]]:
        by_mode = {}
        with Endpoint(keep=False) as endpoint, tempfile.TemporaryDirectory() as folder:
            endpoint.reply(IndexReplies(chunks))
            endpoint.embed(minilm())
            task = {
                "store": "files",
                "folder": folder,
                "endpoint": endpoint.url,
                "dimensions": DIMENSIONS,
                "concurrency": CONCURRENCY,
                "gleaning": 0,
                "encoding": {"ranks": str(MODELS / f"tiktoken/{TOKENS}.tiktoken"), "pattern": PATTERNS[TOKENS]},
                "documents": [(f"{number:04}", "", text) for number, text in enumerate(chunks)],
                "questions": asked,
                "budgets": budgets,
                "reserve": RESERVE,
            }
            python = peer_python("lightrag", REQUIREMENTS)
            report = peer_step(python, "lightrag_peer.py", task | {"step": "ingest"}, EMBEDDING_TIMEOUT=PATIENCE)
            if report["failed"]:
                raise SystemExit(f"LightRAG failed to index {report['failed']} of {len(chunks)} chunks")
            print(
                f"LightRAG has indexed {len(chunks)} chunks in {report['seconds']:.0f} s", file=sys.stderr, flush=True
            )
            for mode in modes:
                read = peer_step(python, "lightrag_peer.py", task | {"step": "read", "modes": [mode]})[mode]
                by_mode[mode] = [
                    [
                        measured_one(cut(unescaped(text), budget, tokens), question)
                        for text, question in zip(texts, questions, strict=True)
                    ]
                    for budget, texts in zip(budgets, read, strict=True)
                ]
                print(f"LightRAG {mode}", file=sys.stderr, flush=True)
        return by_mode

    def measured_one(context: str, question: Question) -> list[float]:
        return [*shares(context, question), tokens.count(context)]

    gold = [(question.answer, question.evidence) for question in questions]
    code = [SENTENCE.pattern, *map(inspect.getsource, (words, shares, cut, unescaped, indexed, IndexReplies))]
    code.append((HALVES / "lightrag_peer.py").read_text(encoding="utf-8"))
    what = ["graphrag_bench", code, LIGHTRAG, rag.corpus, modes, budgets, RESERVE, asked, gold]
    by_mode = remembered(what, measure)
    return {
        (f"LightRAG {mode}", budget): np.array(rows)
        for mode, of_mode in by_mode.items()
        for budget, rows in zip(budgets, of_mode, strict=True)
    }


def unescaped(context: str) -> str:
    """Return a context of LightRAG, whose entries are JSON, with line ends where the texts have them."""
    return context.replace("\\n", "\n")


def tables(measured: Measured, questions: Sequence[Question], budgets: Sequence[int]) -> Iterator[str]:
    """Each measure by budget; then by class at the middle budget; then the tokens that contexts have."""
    systems = list(dict.fromkeys(system for system, _ in measured))
    # A version of the set without evidence has the first alone.
    is_measured = ~np.isnan(measured[BASELINE, budgets[0]]).all(axis=0)
    for place, name in [(place, name) for place, name in enumerate(MEASURES) if is_measured[place]]:
        yield f"Share of the {name}, mean [95 %], and less {BASELINE} where that interval leaves out 0\n"
        yield f"| context | {' | '.join(f'{budget:,} tokens' for budget in budgets)} |"
        yield "|---" * (len(budgets) + 1) + "|"
        for system in systems:
            cells = [
                _cell(measured[system, budget][:, place], measured[BASELINE, budget][:, place]) for budget in budgets
            ]
            yield f"| {system} | {' | '.join(cells)} |"
        yield ""
    middle = budgets[len(budgets) // 2]
    kinds = [kind for kind in CLASSES if any(question.kind == kind for question in questions)]
    places = np.flatnonzero(is_measured[: len(MEASURES)])
    yield f"By class, {middle:,} tokens: {' / '.join(MEASURES[place] for place in places)}\n"
    counts = [sum(question.kind == kind for question in questions) for kind in kinds]
    yield f"| context | {' | '.join(f'{kind} ({count})' for kind, count in zip(kinds, counts, strict=True))} |"
    yield "|---" * (len(kinds) + 1) + "|"
    for system in systems:
        cells = []
        for kind in kinds:
            chosen = [place for place, question in enumerate(questions) if question.kind == kind]
            means = np.nanmean(measured[system, middle][chosen][:, places], axis=0)
            cells.append(" / ".join(f"{mean:.3f}" for mean in means))
        yield f"| {system} | {' | '.join(cells)} |"
    yield ""
    yield f"| tokens of a context, mean | {' | '.join(f'{budget:,}' for budget in budgets)} |"
    yield "|---" * (len(budgets) + 1) + "|"
    for system in systems:
        yield f"| {system} | {' | '.join(f'{measured[system, budget][:, -1].mean():,.0f}' for budget in budgets)} |"


def _cell(values: NDArray[np.float64], base: NDArray[np.float64]) -> str:
    chosen = ~np.isnan(values)
    values, base = values[chosen], base[chosen]
    pairs = np.stack([values, values - base], axis=1)
    (low, high), (worse, better) = bootstrap.intervals(bootstrap.means(pairs, 0))
    cell = f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"
    return f"{cell} {(values - base).mean():+.3f}" if worse > 0 or better < 0 else cell


def picture(measured: Measured, budgets: Sequence[int]) -> str:
    """Return a picture of the evidence in one place, by context and budget."""
    place = MEASURES.index("evidence in one place")
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for system in dict.fromkeys(system for system, _ in measured):
        rows[system] = []
        for budget in budgets:
            values = measured[system, budget][:, place]
            values = values[~np.isnan(values)]
            ((low, high),) = bootstrap.intervals(bootstrap.means(values[:, None], 0))
            rows[system].append((float(values.mean()), low, high))
    title = "GraphRAG-Bench Medical: share of each statement of the evidence that stands in one place of the context"
    return dots(title, [f"{budget:,} tokens" for budget in budgets], rows)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, help="a clone of the benchmark's repository (default: fetched)")
    arguments.add_argument("--set", choices=SETS, default=SETS[0])
    arguments.add_argument("--extracts", action="store_true", help="answers without a model, by their words")
    arguments.add_argument("--questions", type=int, default=400, help="0: all (default: 400)")
    arguments.add_argument("--modes", nargs="+", default=MODES, metavar="MODE")
    arguments.add_argument("--budgets", nargs="+", type=int, default=BUDGETS, metavar="TOKENS")
    arguments.add_argument("--no-lightrag", action="store_true")
    arguments.add_argument("--picture", type=Path, metavar="FILE", help="write the evidence in one place as SVG")
    add_model(arguments)
    arguments.add_argument(
        "--embedding-model", default="text-embedding-3-small", help="of the metrics, at the endpoint"
    )
    arguments.add_argument("--answers", type=int, default=25, help="questions of each class that are answered (25)")
    arguments.add_argument("--budget", type=int, default=8000, help="tokens of the context of an answer (8000)")
    given = arguments.parse_args()
    check_model(arguments, given)
    if given.set == "Novel" and not given.no_lightrag and not given.model and not given.extracts:
        arguments.error("LightRAG has no filter, so no index of one novel: say --no-lightrag")
    folder = fetched(repository(given.set), given.data)
    texts, questions = read_set(folder, given.set)
    corpus = made_once(given.url, f"bench-graphrag-bench-{given.set.lower()}-", texts, [], {"tokenizer": TOKENS})
    with GraphRAG(given.url, corpus) as rag:
        print(f"GraphRAG-Bench {given.set}, commit {COMMIT[:12]}, {len(texts)} documents, no model in the index")
        if given.model:
            lines = answers_run(given, rag, folder, questions)
        else:
            # An earlier run may have left it a model.
            rag.alter_corpus(llm=None)
            lines = extracts_run(given, rag, questions) if given.extracts else contexts_run(given, rag, questions)
        print("\n".join(lines))


def contexts_run(given: argparse.Namespace, rag: GraphRAG, questions: Sequence[Question]) -> Iterator[str]:
    """Measure what contexts hold."""
    asked = drawn(questions, given.questions)
    measured = ours(rag, asked, list(dict.fromkeys([BASELINE, *given.modes])), given.budgets)
    if not given.no_lightrag:
        measured |= lightrag(rag, asked, LIGHTRAG_MODES, given.budgets)
    if given.picture:
        given.picture.write_text(picture(measured, given.budgets), encoding="utf-8")
    yield f"{len(asked)} of {len(questions)} questions; LightRAG {LIGHTRAG}\n"
    yield from tables(measured, asked, given.budgets)


def extracts_run(given: argparse.Namespace, rag: GraphRAG, questions: Sequence[Question]) -> Iterator[str]:
    """Measure answers that are sentences of the documents."""
    asked = drawn(questions, given.questions)
    rows = []
    for question, extracts in zip(asked, sentences(rag, asked), strict=True):
        first = " ".join(extracts[:FIRST])
        likeness = (*overlap("".join(extracts[:1]), question.answer), *overlap(first, question.answer))
        whole = shares("\n".join(extracts), question)
        rows.append([shares(first, question)[0], *whole, *likeness, not extracts, len(extracts)])
    values = np.array(rows, dtype=float)
    yield f"{len(asked)} of {len(questions)} questions\n"
    yield (
        f"| class (questions) | answer's words in the first {FIRST} [95 %] | in all | evidence's in all | in one place"
        f" | F1, ROUGE-L of the first | of the first {FIRST} | refused | sentences |"
    )
    yield "|---" * 9 + "|"
    for kind in ("all", *CLASSES):
        chosen = values[[kind in ("all", question.kind) for question in asked]]
        means = np.nanmean(chosen, axis=0)
        cells = [said(chosen[:, 0]), *(f"{mean:.3f}" for mean in means[1:4])]
        cells += [f"{means[4]:.3f}, {means[5]:.3f}", f"{means[6]:.3f}, {means[7]:.3f}"]
        yield f"| {kind} ({len(chosen)}) | {' | '.join(cells)} | {means[8]:.3f} | {means[9]:.1f} |"


def sentences(rag: GraphRAG, questions: Sequence[Question]) -> list[list[str]]:
    """Return the sentences that answer each question, none where it is refused."""
    by_filter: dict[str | None, list[Question]] = {}
    for question in questions:
        by_filter.setdefault(question.source, []).append(question)
    by_id = {}
    for source, of_source in by_filter.items():
        extracts = answered(rag, [question.text for question in of_source], of_source[0].filter)
        print(f"{source or 'all'}: {len(of_source)} questions", file=sys.stderr, flush=True)
        by_id |= {question.id: each or [] for question, each in zip(of_source, extracts, strict=True)}
    return [by_id[question.id] for question in questions]


def overlap(answer: str, gold: str) -> tuple[float, float]:
    """Return the F1 of the tokens that two texts share, and of their longest common subsequence (ROUGE-L, no stems)."""
    said_tokens, wanted = (_TOKEN.findall(text.casefold()) for text in (answer, gold))
    common = sum((Counter(said_tokens) & Counter(wanted)).values())
    longest = [0] * (len(wanted) + 1)
    for token in said_tokens:
        before = longest[:]
        for place, other in enumerate(wanted, 1):
            longest[place] = before[place - 1] + 1 if token == other else max(before[place], longest[place - 1])
    length = len(said_tokens) + len(wanted) or 1
    return 2 * common / length, 2 * longest[-1] / length


def answers_run(given: argparse.Namespace, rag: GraphRAG, folder: Path, questions: Sequence[Question]) -> Iterator[str]:
    """Estimate what answers and their metrics cost, or have them made."""
    asked = drawn(questions, given.answers * len(CLASSES))
    yield f"{len(asked)} questions, contexts of {given.budget} tokens\n"
    if given.estimate:
        with rehearsed(RULES) as (rehearsal, url):
            stand_in = Judge(MODEL, url, "", "none", MODEL)
            counts = rehearse(rag, folder, rehearsal, stand_in, asked, given.modes, given.budget)
        yield from cost_table(counts, given.prices)
        return
    answerer, judge = judges(given, given.embedding_model)
    use(rag, answerer)
    given.output.mkdir(parents=True, exist_ok=True)
    by_mode = {}
    for mode in given.modes:
        rows = answer_rows(rag, asked, mode, given.budget)
        scores = scored(folder, judge, rows)
        by_mode[mode] = rows, scores
        lines = [row | {"metrics": of_row} for row, of_row in zip(rows, scores, strict=True)]
        (given.output / f"{mode}.json").write_text(json.dumps(lines, ensure_ascii=False, indent=1), encoding="utf-8")
        print(f"{mode}: {len(rows)} answers in {given.output}", file=sys.stderr, flush=True)
    yield f"Answered by {answerer.model}, judged by {judge.model}\n"
    yield from metrics_table(by_mode)


if __name__ == "__main__":
    main()
