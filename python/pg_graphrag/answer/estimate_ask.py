"""graphrag.estimate_ask: what an answer would cost, counted before anybody is asked.

Calls are an upper bound, as if nothing had been asked before and nothing failed. So are the tokens of the prompts, at four
bytes each as the accounts count where an endpoint does not: what is known is counted (reports, chunks, prompts), and what
models decide is taken for as long as it may get.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.access.caller import caller_of
from pg_graphrag.access.entry import as_owner
from pg_graphrag.answer import global_answers, lazy_answers
from pg_graphrag.answer.ask import in_light_of, response_form, understands
from pg_graphrag.answer.estimate import BYTES_PER_TOKEN
from pg_graphrag.answer.points import BATCH_TOKENS, Passage, batches, counter
from pg_graphrag.json_reading import read_json
from pg_graphrag.llm.ledger import cost
from pg_graphrag.llm.providers import load
from pg_graphrag.llm.requests import estimated_tokens
from pg_graphrag.model_access import replies, tasks
from pg_graphrag.model_access.limits import MAX_GRADED, MAX_GRADED_CHARACTERS, MAX_UNDERSTOOD
from pg_graphrag.retrieval import rerank
from pg_graphrag.retrieval.context import assemble, budget
from pg_graphrag.retrieval.drift import PRIMER_REPORTS
from pg_graphrag.retrieval.lazy import CANDIDATES
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.search import prepare
from pg_graphrag.retrieval.themes import child_communities
from pg_graphrag.server import Database, Row

# A guess at what is answered, in tokens; nothing bounds it.
_OUT = {
    "keywords": 80, "hyde": 160, "decompose": 100, "grades": 100, "rewrite": 30, "refine": 200, "relevant": 10, "rate": 10,
    "map": 500, "expand": 200, "primer": 600, "follow_up": 400, "answer": 400, "reduce": 600,
}  # fmt: skip
# Requests for vectors that a search makes of one text: itself, its keywords, its themes; and tokens of the latter two.
_EMBEDS = 3
_EMBEDDED_TOKENS = 1000
# Chunks that are looked at for how many bytes a token of this corpus has.
_SAMPLE = 10_000
# A heading, its citation and what stands around them, in bytes.
_HEADING = 600


@dataclass
class _Part:
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    exact: bool = True


@dataclass
class _Estimate:
    """What is counted so far, by task."""

    asked: Query
    question: str
    total: int
    turns: list[dict[str, str]]
    form: str
    parts: dict[str, _Part] = field(default_factory=dict)
    # {provider: cost}
    price: float = 0.0
    db: Database = field(init=False)

    def __post_init__(self) -> None:
        self.db = self.asked.db

    def add(self, task: str, calls: int, tokens_in: int, *, exact: bool = False) -> None:
        """Add `calls` of a task that have `tokens_in` tokens together."""
        part = self.parts.setdefault(task, _Part())
        tokens_out = calls * _OUT.get(task, 0)
        part.calls += calls
        part.tokens_in += tokens_in
        part.tokens_out += tokens_out
        part.exact &= exact
        self.price += cost(load(self.db, *self._provider(task)), tokens_in, tokens_out)

    def _provider(self, task: str) -> tuple[str, str]:
        options = self.asked.corpus.options
        if task == "embedding":
            return options.embedding.provider, "openai"
        if task == "rerank":
            return options.reranker()[0], "rerank"
        return options.llm.of(tasks.request(options, task, _EMPTY).role)[0], "openai"

    def tokens(self, task: str, **arguments: Any) -> int:
        """Return the tokens of the prompt of a task."""
        return estimated_tokens(tasks.request(self.asked.corpus.options, task, _EMPTY | arguments))

    def send(self, task: str, **arguments: Any) -> None:
        """Add one call whose prompt is known."""
        self.add(task, 1, self.tokens(task, **arguments), exact=True)

    def answer(self, task: str, context: str | None) -> None:
        """Add the answer from a context; None: from one that is not known, as long as it may be."""
        given = {"question": self.question, "history": self.turns, "response_type": self.form}
        if context is None:
            self.add(task, 1, self.tokens(task, context="", **given) + _quarter(self.room))
        elif context:
            self.send(task, context=context, **given)

    @property
    def room(self) -> int:
        """Bytes that a context of the whole budget has at most."""
        if "room" not in self.asked.memo:
            row = self.db.query(
                "SELECT coalesce(pg_catalog.max(pg_catalog.octet_length(s.content) / greatest(s.token_count, 1)::float8), 4)"
                "       AS bytes"
                "  FROM (SELECT c.content, c.token_count FROM graphrag.chunks c"
                "         WHERE c.corpus_id = $1 AND ($3 IS NULL OR c.document_id = ANY ($3)) LIMIT $2) s",
                ["int4", "int4", "int8[]"],
                [self.asked.corpus.id, _SAMPLE, self.asked.visible_ids],
            )[0]
            self.asked.memo["room"] = round(self.total * max(float(row["bytes"]), float(BYTES_PER_TOKEN)))
        known: int = self.asked.memo["room"]
        return known

    def embeds(self, texts: int) -> None:
        """Add what searching for so many texts embeds, where that is done at an endpoint."""
        if not self.asked.corpus.options.embedding.local and self.asked.corpus.space is not None:
            each = 2 * _quarter(_bytes(self.question)) + _EMBEDDED_TOKENS
            self.add("embedding", _EMBEDS * texts, _EMBEDS * texts * each)


_EMPTY: dict[str, Any] = dict.fromkeys(
    ("question", "context", "response_type", "reports", "report", "text", "whole"), ""
)
_EMPTY |= {"texts": [""], "history": []}


def estimate(
    db: Database,
    question: str | None,
    corpus: str | None,
    mode_name: str | None,
    max_tokens: int | None,
    filter_: str | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
    history: str | None,
    response_type: str | None,
) -> list[tuple[Any, ...]]:
    """Return one row (calls, tokens_in, tokens_out, cost, basis). Arguments as of ask(); no model is asked."""
    caller = caller_of(db, corpus, filter_)

    def run() -> list[tuple[Any, ...]]:
        asked = prepare(db, caller, question, mode_name, filter_, low, high, options, of="ask")
        return _estimated(asked, mode_name, max_tokens, low is not None or high is not None, history, response_type)

    return as_owner(db, run)


def _estimated(
    asked: Query,
    mode_name: str | None,
    max_tokens: int | None,
    given: bool,
    history: str | None,
    response_type: str | None,
) -> list[tuple[Any, ...]]:
    turns = list(tasks.history(read_json(history) if history is not None else None))
    made = _Estimate(asked, asked.text, budget(asked, max_tokens), turns, response_form(response_type))
    asked.corpus.options.llm.of("answer")
    if asked.text:
        if understood := understands(asked, str(mode_name), given):
            made.send("keywords", question=asked.text[:MAX_UNDERSTOOD], history=turns)
        asked.text = in_light_of(turns, asked.text)
        if mode_name in _OF:
            _OF[mode_name](made)
        else:
            _local(made, str(mode_name), understood)
    parts = made.parts
    whole = {name: sum(getattr(part, name) for part in parts.values()) for name in ("calls", "tokens_in", "tokens_out")}
    basis = {
        "parts": {
            name: {"calls": part.calls, "tokens_in": part.tokens_in, "exact": part.exact}
            for name, part in parts.items()
        },
        "calls": "exact" if all(part.exact for part in parts.values()) else "at most",
        "tokens_in": f"{BYTES_PER_TOKEN} bytes each",
        "tokens_out": "a guess",
        "not_included": "what is cached already; requests tried again after a fault",
    }
    return [(*whole.values(), str(round(made.price, 6)), json.dumps(basis))]


def _local(made: _Estimate, mode: str, understood: bool) -> None:
    """One context and one answer; the context is known where no model has a say in it."""
    asked = made.asked
    _transformed(made)
    if asked.options.reranks:
        rows = max(asked.options.chunk_top_k, rerank.CANDIDATES)
        each = _quarter(_bytes(made.question))
        made.add("rerank", 1, rows * each + _quarter(sum(_largest(asked, rows))) + rows * _quarter(_HEADING))
    made.embeds(1)
    open_ = understood or len(made.parts) > 0
    made.answer("answer", None if open_ else assemble(asked, mode, made.total)["prompt"])


def _transformed(made: _Estimate) -> None:
    """The calls of a transform."""
    kind = made.asked.options.transform
    question = made.asked.text[:MAX_UNDERSTOOD]
    if kind in ("hyde", "decompose"):
        made.send(kind, question=question)
        made.embeds(replies.MAX_QUERIES)
    elif kind == "corrective":
        most = sum(min(size, 4 * MAX_GRADED_CHARACTERS) for size in _largest(made.asked, MAX_GRADED))
        around = MAX_GRADED * _quarter(_HEADING)
        made.add("grades", 1, made.tokens("grades", question=question) + _quarter(most) + around)
        made.send("rewrite", question=question)
        made.embeds(2)


def _global(made: _Estimate) -> None:
    """graph_global: the batches are known; with `dynamic` as many reports as could be relevant."""
    asked = made.asked
    if not asked.options.dynamic:
        passages, _ = global_answers.passages_of(asked, global_answers.cut_reports(asked))
        for batch in batches(passages, counter(asked)):
            made.send("map", question=asked.text, reports=batch.text)
    else:
        asked.corpus.options.llm.of("relevance")
        rows: list[Row] = []
        frontier = global_answers.reports_of(asked, child_communities(asked, None))
        for _ in range(asked.options.level + 1):
            rows += frontier
            frontier = frontier and global_answers.reports_of(
                asked, child_communities(asked, [row["community_id"] for row in frontier])
            )
        made.add(
            "rate", len(rows), sum(made.tokens("rate", question=asked.text, report=row["content"]) for row in rows)
        )
        passages, _ = global_answers.passages_of(asked, rows)
        sizes = dict(zip((row["community_id"] for row in global_answers.shuffled(rows)), passages, strict=True))
        _mapped(
            made, _heaviest(rows, sizes, lambda one: _bytes(one.text) + 2), _heaviest(rows, sizes, _tokens_of(asked))
        )
    if "map" in made.parts:
        made.answer("reduce", None)


def _heaviest(rows: Iterable[Row], passages: dict[int, Passage], weigh: Callable[[Passage], int]) -> int:
    """Return what the relevant reports weigh at most: of a community itself, or of its parts instead."""
    below: dict[int | None, int] = {}
    for row in sorted(rows, key=lambda row: -row["level"]):
        own = max(weigh(passages[row["community_id"]]), below.get(row["community_id"], 0))
        below[row["parent_id"]] = below.get(row["parent_id"], 0) + own
    return below.get(None, 0)


def _tokens_of(asked: Query) -> Callable[[Passage], int]:
    count = counter(asked)
    return lambda one: count(one.text) + 2


def _mapped(made: _Estimate, size: int, tokens: int) -> None:
    """Texts of `size` bytes and `tokens` tokens, in batches of which each two in a row hold more than one may."""
    if tokens:
        number = 2 * tokens // BATCH_TOKENS + 1
        made.add("map", number, number * made.tokens("map", question=_longest(made)) + _quarter(size))


def _longest(made: _Estimate) -> str:
    """A question as long as its expansion may be."""
    return "x" * max(_bytes(made.asked.text), _width(made) * replies.MAX_QUESTION_CHARACTERS)


def _part(made: _Estimate) -> str:
    """A question as long as a part of one may be; where it is not taken apart, it is the question itself."""
    return "x" * max(_bytes(made.asked.text), _width(made) * replies.MAX_PART_CHARACTERS)


def _width(made: _Estimate) -> int:
    """Bytes of a character: one where the question is all ASCII, else four."""
    return 1 if made.question.isascii() else 4


def _lazy(made: _Estimate) -> None:
    """lazy: no more tests than the budget, and of the relevant chunks the largest."""
    asked = made.asked
    if not lazy_answers.has_chunks(asked):
        return
    made.send("refine", question=asked.text)
    made.embeds(lazy_answers.MAX_QUERIES)
    spend = asked.options.relevance_test_budget
    sizes = _largest(asked, min(spend, lazy_answers.MAX_QUERIES * CANDIDATES))
    if asked.corpus.options.llm.has("relevance"):
        each = lazy_answers.MAX_QUERIES
        tested = [size for size in sizes for _ in range(each)][:spend]
        made.add(
            "relevant", len(tested), len(tested) * made.tokens("relevant", question=_part(made)) + _quarter(sum(tested))
        )
    row = asked.db.query(
        "SELECT coalesce(pg_catalog.sum(s.token_count), 0) AS tokens, coalesce((SELECT pg_catalog.sum(pg_catalog.octet_length("
        "       pg_catalog.concat(x.subject, x.object, x.type, x.description)) + 100) FROM graphrag.claims x"
        "        WHERE x.corpus_id = $1 AND ($3 IS NULL OR x.document_id = ANY ($3))), 0) AS claims"
        "  FROM (SELECT c.token_count FROM graphrag.chunks c"
        "         WHERE c.corpus_id = $1 AND ($3 IS NULL OR c.document_id = ANY ($3)) ORDER BY 1 DESC LIMIT $2) s",
        ["int4", "int4", "int8[]"],
        [asked.corpus.id, len(sizes), asked.visible_ids],
    )[0]
    around = _HEADING * len(sizes) + int(row["claims"])
    _mapped(made, sum(sizes) + around, int(row["tokens"]) + _quarter(around))
    if sizes:
        made.answer("reduce", None)


def _drift(made: _Estimate) -> None:
    """drift: one expansion, the folds, the rounds, one answer."""
    asked = made.asked
    rows = global_answers.cut_reports(asked)
    passages, _ = global_answers.passages_of(asked, rows)
    number = min(asked.options.primer_folds, PRIMER_REPORTS, len(rows))
    if rows:
        made.embeds(2)
        if asked.dense_works:
            report = max((row["content"][: tasks.MAX_EXAMPLE] for row in rows), key=_bytes)
            made.add("expand", 1, made.tokens("expand", question=asked.text, report=report))
        read = sorted((_bytes(one.text) + 2 for one in passages), reverse=True)[:PRIMER_REPORTS]
        made.add("primer", number, number * made.tokens("primer", question=asked.text) + _quarter(sum(read)))
    followed = asked.options.drift_k_followups * asked.options.n_depth
    if followed:
        made.embeds(followed)
        each = made.tokens("follow_up", question=_part(made), whole=asked.text) + _quarter(made.room)
        made.add("follow_up", followed, followed * each)
    if rows or followed:
        made.answer("reduce", None)


_OF = {"graph_global": _global, "lazy": _lazy, "drift": _drift}


def _largest(asked: Query, number: int) -> list[int]:
    """Return the bytes of the largest chunks that the caller may see, the largest first."""
    rows = asked.db.query(
        "SELECT pg_catalog.octet_length(c.content) AS size FROM graphrag.chunks c"
        " WHERE c.corpus_id = $1 AND ($2 IS NULL OR c.document_id = ANY ($2)) ORDER BY 1 DESC LIMIT $3",
        ["int4", "int8[]", "int4"],
        [asked.corpus.id, asked.visible_ids, number],
    )
    return [row["size"] for row in rows]


def _bytes(text: str) -> int:
    return len(text.encode())


def _quarter(size: int) -> int:
    return size // BYTES_PER_TOKEN + 1
