"""What each method costs and finds, in one run on one index: calls, tokens, milliseconds and recall.

    python -m bench methods --load

The index: LiHua-World, January–June, by the recorded extraction, with communities and reports put together without a model;
the local embedder. Every dev question with evidence is asked (``--questions`` of them) of graphrag.ask in every method, and
searched for.

The model is the tests' endpoint, which answers at once and counts a token for every four bytes. Its replies follow rules:

- keywords: those recorded of a real model;
- refine: the question, and one sub-query for each of its first two recorded keywords, each with the concepts shown that have
  a word of it;
- relevance: a perfect reader: yes where the text is of a document that is evidence for the question (``--judge words``: where
  one of its sentences has half of the question's words);
- points of reports or texts: a section that has words of the question is a point, scored by the share of them; the best five
  of a request; the rating of a report likewise;
- drift: the best point is the answer of a step, and the first two recorded keywords are what the primer wants followed up;
- answers: the recorded one.

So calls, input tokens and what retrieval reaches are those of the system; how long a real model's replies are, and how well it
reads, is not measured. ``--judge evidence`` bounds what lazy can reach within its budget.
"""

import argparse
import json
import re
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pg_graphrag import GraphRAG

from bench.data.corpora import documents, questions, set_provider
from tests.endpoint import Endpoint, Recorded

SET = "lihua-jan-jun"
CORPUS = "methods"
# Name, mode, search options. A new method is a line here.
METHODS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("naive", "naive", {}),
    ("bm25", "bm25", {}),
    ("local", "local", {}),
    ("global", "global", {}),
    ("hybrid", "hybrid", {}),
    ("hybrid, profile paper", "hybrid", {"profile": "paper"}),
    ("mix", "mix", {}),
    ("path", "path", {}),
    ("ppr", "ppr", {}),
    ("graph_local", "graph_local", {}),
    *((f"graph_global C{level}", "graph_global", {"level": level}) for level in range(4)),
    ("graph_global dynamic", "graph_global", {"dynamic": True}),
    ("drift", "drift", {}),
    *((f"lazy {budget}", "lazy", {"relevance_test_budget": budget}) for budget in (100, 500, 1500)),
)
# What shares are of, and what was published: LazyGraphRAG's cost is money, and its tests are asked of a cheaper model.
BASE = "graph_global C2"
PUBLISHED_LAZY = {"lazy 100": "–", "lazy 500": "4 % (of the cost)", "lazy 1500": "–"}
# Tokens of a level's reports as a share of the source, podcast / news (GraphRAG, arXiv 2404.16130, Table 2).
PUBLISHED_LEVELS = {0: "2.6 / 2.3 %", 1: "22 / 21 %", 2: "56 / 57 %", 3: "74 / 67 %"}
PUBLISHED_KEYWORDS = "< 100, against 610,000 (LightRAG, arXiv 2410.05779, section 4.5)"
SUB_QUERIES = 2
POINTS = 5
_WORD = re.compile(r"\w{3,}")
# Of reports and texts by their headings, of a context by its numbers.
_SECTION = re.compile(r"^(?=## |\[\d+\])", re.M)
_NUMBERED = re.compile(r"^\[(\d+)\] (.*?)(?=\n\n\[\d+\] |\Z)", re.M | re.S)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_STOP = set(
    "the and for are was were did does has have had his her its their who whom what when where which why how will with"
    " from that this these those they them you your about into than then there".split()
)


def words(text: str) -> set[str]:
    """The words of a text that tell something, without their last letters."""
    return {word[:6] for word in _WORD.findall(text.casefold()) if word not in _STOP}


class Model:
    """The rules above as function of the messages; counts calls and tokens by task."""

    def __init__(self, data: Path, judge: str, sets: Sequence[str] = (SET,)) -> None:
        self._recorded = Recorded(data)
        self._judge = judge
        self._texts = {
            document["source_key"]: " ".join(document["content"].split())
            for name in sets
            for document in documents(data, name)
        }
        self._evidence = {
            question["question"]: question["evidence"] for name in sets for question in questions(data, name)
        }
        self._asked: dict[str, str] = {question: question for question in self._evidence}
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.tokens_in: Counter[str] = Counter()
        self.tokens_out: Counter[str] = Counter()
        # What a prompt begins with says what it is.
        self._tasks: dict[str, tuple[str, Callable[[Sequence[dict[str, Any]]], str]]] = {
            "You prepare a question for retrieval from": ("keywords", self._recorded),
            "You prepare a question about a collection": ("refine", self._refine),
            "You judge whether a text helps": ("relevance", self._relevant),
            "You judge which of several passages": ("relevance", self._relevant_passages),
            "You read reports on parts of a collection of documents and note": ("map", self._points),
            "You rate how much a report": ("rate", self._rating),
            "You write a short report that could stand": ("expand", self._expanded),
            "You read reports on parts of a collection of documents, answer": (
                "primer",
                partial(self._step, raises=True),
            ),
            "You answer one question from documents, as a step": ("follow_up", partial(self._step, raises=False)),
            "You answer questions from documents": ("answer", self._recorded),
            "You answer questions about a collection of documents from notes": ("answer", self._recorded),
        }

    def __call__(self, messages: Sequence[dict[str, Any]]) -> str:
        system = str(messages[0]["content"])
        tasks = [task for start, task in self._tasks.items() if system.startswith(start)]
        if not tasks:
            return self._recorded(messages)  # extraction
        ((name, answer),) = tasks
        reply = answer(messages)
        size = sum(len(str(message["content"]).encode()) for message in messages) // 4 + 1
        with self._lock:
            self.calls[name] += 1
            self.tokens_in[name] += size
            self.tokens_out[name] += len(reply.encode()) // 4 + 1
        return reply

    def forget(self) -> None:
        """Count anew."""
        for counted in (self.calls, self.tokens_in, self.tokens_out):
            counted.clear()

    def _refine(self, messages: Sequence[dict[str, Any]]) -> str:
        concepts, question = _parts(messages)
        some = self._about(question)
        with self._lock:
            # A sub-query may be that of several questions; one is asked at a time.
            self._asked |= dict.fromkeys([question, *some], question)
        parts = [
            {
                "question": part,
                "concepts": [concept for concept in concepts.splitlines() if words(concept) & words(part)],
            }
            for part in [question, *some]
        ]
        return json.dumps({"queries": parts, "expanded": question})

    def _about(self, question: str) -> list[str]:
        keywords = json.loads(self._recorded([{"role": "user", "content": f"Keywords of: {question}"}]))
        return [f"What is said of {keyword}?" for keyword in keywords["low_level_keywords"][:SUB_QUERIES]]

    def _relevant(self, messages: Sequence[dict[str, Any]]) -> str:
        text, question = _parts(messages)
        return json.dumps({"relevant": self._helps(text, question)})

    def _relevant_passages(self, messages: Sequence[dict[str, Any]]) -> str:
        text, question = _parts(messages)
        verdicts: dict[str, list[int]] = {"relevant": [], "irrelevant": []}
        for number, passage in _NUMBERED.findall(text):
            verdicts["relevant" if self._helps(passage, question) else "irrelevant"].append(int(number))
        return json.dumps(verdicts)

    def _helps(self, text: str, question: str) -> bool:
        whole = self._asked[question]
        if self._judge == "words":
            wanted = words(question)
            return any(2 * len(wanted & words(sentence)) >= len(wanted) for sentence in SENTENCE.split(text))
        # A passage stands under its document's title, where that has one.
        passages = {" ".join(each.split()) for each in (text, text.partition(": ")[2] or text)}
        return any(passage in self._texts[key] for key in self._evidence[whole] for passage in passages)

    def _points(self, messages: Sequence[dict[str, Any]]) -> str:
        points = [
            {"description": description, "score": score} for description, score in self._scored(messages)[:POINTS]
        ]
        return json.dumps({"points": points}, ensure_ascii=False)

    def _rating(self, messages: Sequence[dict[str, Any]]) -> str:
        text, question = _parts(messages)
        wanted = words(question)
        return json.dumps({"rating": round(5 * len(wanted & words(text)) / (len(wanted) or 1))})

    def _expanded(self, messages: Sequence[dict[str, Any]]) -> str:
        return f"Report: {_parts(messages)[1]}"

    def _step(self, messages: Sequence[dict[str, Any]], raises: bool) -> str:
        description, score = next(iter(self._scored(messages)), ("", 0))
        asked = [{"question": question, "score": 60} for question in self._about(_parts(messages)[1])] if raises else []
        return json.dumps({"answer": description, "score": score, "follow_ups": asked}, ensure_ascii=False)

    def _scored(self, messages: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
        """Return (beginning with the numbers of its documents, score), best first, of sections that have such."""
        text, question = _parts(messages)
        wanted = words(question)
        scored = []
        for section in _SECTION.split(text):
            heading, _, body = section.partition("\n")
            numbers = "".join(re.findall(r"\[\d+\]", heading))
            share = len(wanted & words(section)) / (len(wanted) or 1)
            if numbers and share > 0:
                scored.append((f"{' '.join((body or heading).split()[:40])} {numbers}", round(100 * share)))
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))


def _parts(messages: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return the data and the question of a request that has both."""
    text, _, rest = str(messages[-1]["content"]).partition("\n</")
    return text.partition(">\n")[2], rest.partition("Question: ")[2].strip()


def index(rag: GraphRAG, data: Path) -> None:
    """Make the corpus anew."""
    with rag._connection() as connection:
        if connection.execute("SELECT FROM graphrag.corpora WHERE name = %s", [CORPUS]).rowcount:
            rag.drop_corpus()
    model = {"provider": "scripted", "model": "scripted"}
    rag.create_corpus(
        extractor="llm", llm={"roles": dict.fromkeys(("extract", "keywords", "relevance", "answer"), model)}
    )
    rag.insert(documents(data, SET))
    rag.process_jobs()
    with rag._connection() as connection:
        connection.execute("SELECT graphrag.optimize(%s)", [CORPUS])


def size_of(connection: Any, corpus: str) -> tuple[int, int, str]:
    """Return how many chunks a corpus has, how many tokens, and its reports by level, in words."""
    levels = connection.execute(
        "SELECT c.level, count(*), sum(r.token_count) FROM graphrag.communities c"
        "  JOIN graphrag.community_reports r ON r.community_id = c.id JOIN graphrag.corpora k ON k.id = c.corpus_id"
        " WHERE k.name = %s GROUP BY c.level ORDER BY c.level",
        [corpus],
    ).fetchall()
    chunks, tokens = connection.execute(
        "SELECT sum(chunks), sum(tokens) FROM graphrag.document_coverage WHERE corpus = %s", [corpus]
    ).fetchone() or (0, 0)
    return chunks, tokens, "; ".join(f"C{level}: {count:,} of {size:,} tokens" for level, count, size in levels)


def about(rag: GraphRAG) -> tuple[str, int]:
    """Say what the index is, and what making it cost; return that, and the tokens of its chunks."""
    with rag._connection() as connection:
        chunks, tokens, reports = size_of(connection, CORPUS)
        spent = connection.execute(
            "SELECT count(*), sum(l.tokens_in), sum(l.tokens_out) FROM graphrag.llm_calls l"
            "  JOIN graphrag.corpora k ON k.id = l.corpus_id WHERE k.name = %s AND l.purpose = 'extract'",
            [CORPUS],
        ).fetchone() or (0, 0, 0)
    claims = (
        f"The index: {chunks} chunks of {tokens:,} tokens, made with {spent[0]} calls ({spent[1]:,} tokens in, {spent[2]:,} out);"
        f" reports at each level: {reports}."
    )
    return claims, int(tokens)


def measure(rag: GraphRAG, asked: Sequence[dict[str, Any]], model: Model) -> Iterator[dict[str, Any]]:
    """Ask and search by every method; yield a row for each: means over the questions."""
    rag.ask(asked[0]["question"])  # what a session loads at first
    for name, mode, options in METHODS:
        with rag._connection() as connection:
            # Each method pays for what it asks.
            connection.execute("DELETE FROM graphrag.llm_cache")
        model.forget()
        spent: list[tuple[float, float, float, float, float]] = []
        for question in asked:
            start = time.perf_counter()
            answer = rag.ask(question["question"], mode=mode, **options)
            seconds = time.perf_counter() - start
            given = {reference["source_key"] for reference in answer.context["references"]}
            usage = answer.usage
            reached = len(given.intersection(question["evidence"])) / len(question["evidence"])
            spent.append((usage["calls"], usage["tokens_in"], usage["tokens_out"], 1e3 * seconds, reached))
        calls, tokens_in, tokens_out, milliseconds, reached = map(statistics.mean, zip(*spent, strict=True))
        if sum(model.calls.values()) != round(calls * len(asked)):
            raise SystemExit(f"{name}: usage says {calls * len(asked):.0f} calls, the endpoint had {model.calls}")
        before = {task: (model.tokens_in[task], model.tokens_out[task]) for task in model.calls if task != "answer"}
        (row,) = rag.evaluate(asked, modes=[name], k=[10], variants={name: {"mode": mode, **options}})
        yield {
            "method": name,
            "calls": calls,
            "tokens_in": tokens_in,
            "tokens_out": tokens_out,
            "before_in": sum(tokens_in for tokens_in, _ in before.values()) / len(asked),
            "before_out": sum(tokens_out for _, tokens_out in before.values()) / len(asked),
            "ms": milliseconds,
            "reached": reached,
            "recall": row.recall,
        }
        print(f"{name}: {milliseconds:.0f} ms", file=sys.stderr, flush=True)


def table(rows: Sequence[dict[str, Any]], source: int) -> Iterator[str]:
    """The rows, and the published ratios beside ours; `source`: tokens of the chunks."""
    by = {row["method"]: row for row in rows}
    total = by[BASE]["tokens_in"] + by[BASE]["tokens_out"]
    yield (
        "| method | calls | tokens in | tokens out | of these before the answer: in / out |"
        f" of {BASE}'s tokens | ms | evidence in the context | R@10 of search |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        share = (row["tokens_in"] + row["tokens_out"]) / total
        cells = [row["method"], f"{row['calls']:.1f}", f"{row['tokens_in']:,.0f}", f"{row['tokens_out']:,.0f}"]
        cells += [f"{row['before_in']:,.0f} / {row['before_out']:,.0f}", f"{share:.0%}", f"{row['ms']:,.0f}"]
        cells += [f"{row['reached']:.3f}", f"{row['recall']:.3f}"]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "| | ours | published |"
    yield "|---|---|---|"
    for name, published in PUBLISHED_LAZY.items():
        ours = (by[name]["tokens_in"] + by[name]["tokens_out"]) / total
        yield f"| tokens of {name}, of {BASE}'s | {ours:.0%} | {published} |"
    for level, published in PUBLISHED_LEVELS.items():
        ours = by[f"graph_global C{level}"]["before_in"] / source
        yield f"| tokens read by the map at C{level}, of the source's {source:,} | {ours:.0%} | {published} |"
    hybrid, reports = by["hybrid"], by["graph_global C1"]
    ours = f"{hybrid['before_out']:.0f} written, {hybrid['before_in']:.0f} read; {reports['before_in']:,.0f}"
    yield f"| tokens of hybrid's one call before the answer; of graph_global C1's map | {ours} | {PUBLISHED_KEYWORDS} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--questions", type=int, default=76, help="how many, evenly spread over the 76 (default: all)")
    parser.add_argument("--judge", choices=("evidence", "words"), default="evidence")
    parser.add_argument("--load", action="store_true", help="make the index anew first")
    given = parser.parse_args()
    model = Model(given.data, given.judge)
    asked = [question for question in questions(given.data, SET) if question["evidence"]]
    asked = [asked[at * len(asked) // given.questions] for at in range(min(given.questions, len(asked)))]
    with GraphRAG(given.url, CORPUS) as rag, Endpoint(keep=False) as endpoint:
        endpoint.reply(model)
        set_provider(rag, "scripted", "openai", endpoint.url)
        if given.load:
            index(rag, given.data)
        claims, source = about(rag)
        lines = [f"{len(asked)} questions; relevance by {given.judge}. {claims}", ""]
        lines += table(list(measure(rag, asked, model)), source)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
