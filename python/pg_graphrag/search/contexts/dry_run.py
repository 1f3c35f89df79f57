"""A dry run of graphrag.ask: runs its own code, and counts the requests instead of sending them.

The number of calls is an upper bound, as if nothing were cached and nothing failed. So are the tokens of the prompts,
counted as four bytes each as in the accounts: known texts (reports, chunks, prompts) are measured, texts by models are
taken at their maximum length.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.asking import replies, tasks
from pg_graphrag.llm.asking.models import Models, Outcome
from pg_graphrag.llm.endpoints.ledger import cost
from pg_graphrag.llm.endpoints.providers import load_provider
from pg_graphrag.llm.endpoints.requests import BYTES_PER_TOKEN, ChatRequest, estimated_tokens
from pg_graphrag.search.contexts.points import least_batch
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import cached_property

# A guess at the tokens of an answer, which nothing bounds.
_OUT = {
    "keywords": 80, "hyde": 160, "decompose": 100, "grades": 100, "rewrite": 30, "refine": 300, "relevant": 10,
    "relevant_passages": 50, "select": 60, "rate": 10, "sql": 100,
    "map": 500, "expand": 200, "primer": 600, "follow_up": 400, "answer": 400, "reduce": 600, "chat": 400,
}  # fmt: skip
# Replies in a dry run that ask's own code goes on with.
_REPLIES: dict[str, Any] = {
    "keywords": {
        "low_level_keywords": [],
        "high_level_keywords": [],
        "entities": [],
        "answer_types": [],
        "question": None,
    },
    "map": [],
    "answer": {"text": "", "cut_off": False},
    "reduce": {"text": "", "cut_off": False},
    "chat": {"text": "", "cut_off": False},
}
# Requests for vectors that a search makes of one text: itself, its keywords, its themes; and tokens of the latter two.
_EMBEDS = 3
_EMBEDDED_TOKENS = 1000
# Chunks that are looked at for how many bytes a token of this corpus has.
_SAMPLE = 10_000
_EMPTY: dict[str, Any] = dict.fromkeys(
    ("question", "context", "response_type", "reports", "report", "text", "whole", "tables", "corpus"), ""
)
_EMPTY |= {"texts": [""], "concepts": [], "history": []}


@dataclass
class Part:
    """The counts of one task."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    exact: bool = True


class DryRun(Models):
    """Models that only count requests: `parts` by task, and their `price`."""

    sends: ClassVar[bool] = False
    # A heading, its citation and the text around them, in bytes.
    HEADING: ClassVar[int] = 600

    def __init__(self, query: Query, total: int) -> None:
        super().__init__(query.db, query.corpus, query.caller)
        self.query, self.question, self.total = query, query.text, total
        self.parts: dict[str, Part] = {}
        self.price = 0.0

    def ask(
        self,
        task: str,
        arguments: dict[str, Any],
        *,
        retry: int = 0,
        check: Callable[[dict[str, Any]], None] | None = None,
    ) -> Outcome:
        """Count a request. The first one is exact; later ones depend on replies."""
        (outcome,), _ = self.ask_all(task, [arguments])
        return outcome

    def ask_all(
        self, task: str, arguments: list[dict[str, Any]], retries: int | None = None
    ) -> tuple[list[Outcome], dict[str, Any]]:
        """Count requests, as `ask`."""
        exact = not self.parts
        for argument in arguments:
            self.add(task, 1, estimated_tokens(self._request(task, argument)), exact=exact)
        return [Outcome(_REPLIES[task]) for _ in arguments], {}

    def embed(self, texts: list[str], without: dict[str, GraphRAGError] | None = None) -> tuple[Any, dict[str, Any]]:
        """Refuse: nearness is unknown without the vectors."""
        raise _unknown("vectors")

    def rerank(self, query: str, texts: list[str]) -> tuple[list[float], dict[str, Any]]:
        """Refuse: what comes first is not known without the scores."""
        raise _unknown("scores")

    def send(self, task: str, *, exact: bool = True, **arguments: Any) -> None:
        """Count a request whose prompt is known; `exact`: it will be made."""
        self.add(task, 1, self.tokens(task, **arguments), exact=exact)

    def add(self, task: str, calls: int, tokens_in: int, *, exact: bool = False) -> None:
        """Count `calls` of a task that have `tokens_in` tokens together."""
        part = self.parts.setdefault(task, Part())
        tokens_out = calls * _OUT.get(task, 0)
        part.calls += calls
        part.tokens_in += tokens_in
        part.tokens_out += tokens_out
        part.exact &= exact
        self.price += cost(load_provider(self.db, *self._provider(task)), tokens_in, tokens_out)

    def embeds(self, texts: int) -> None:
        """Count the embeddings of a search for so many texts, if an endpoint makes them."""
        if not self.corpus.options.embedding.local and self.corpus.space is not None:
            tokens = 2 * self.quarter(len(self.question.encode())) + _EMBEDDED_TOKENS
            self.add("embedding", _EMBEDS * texts, _EMBEDS * texts * tokens)

    def points(self, size: int, tokens: int) -> None:
        """Count the reading of texts of `size` bytes and `tokens` tokens: of two batches in a row, both do not fit one."""
        if tokens:
            number = 2 * tokens // least_batch(self.query) + 1
            expanded = "x" * max(len(self.query.text.encode()), self._width * replies.MAX_QUESTION_CHARACTERS)
            self.add("map", number, number * self.tokens("map", question=expanded) + self.quarter(size))

    def tokens(self, task: str, **arguments: Any) -> int:
        """Return the tokens of the prompt of a task."""
        return estimated_tokens(self._request(task, _EMPTY | arguments))

    def longest_part(self) -> str:
        """Return the longest possible sub-question; without sub-questions the question itself."""
        return "x" * max(len(self.query.text.encode()), self._width * replies.MAX_PART_CHARACTERS)

    def largest_chunk_bytes(self, number: int) -> list[int]:
        """Return the bytes of the largest chunks that the caller may see, the largest first."""
        rows = self.db.query(
            "SELECT pg_catalog.octet_length(c.content) AS size FROM graphrag.chunks c"
            " WHERE c.corpus_id = $1 AND ($2 IS NULL OR c.document_id = ANY ($2)) ORDER BY 1 DESC LIMIT $3",
            ["int4", "int8[]", "int4"],
            [self.corpus.id, self.query.visible_ids, number],
        )
        return [row["size"] for row in rows]

    @staticmethod
    def quarter(size: int) -> int:
        """Return the tokens of so many bytes."""
        return size // BYTES_PER_TOKEN + 1

    @cached_property
    def room(self) -> int:
        """Bytes that a context of the whole budget has at most."""
        return self.bytes_of(self.total)

    def bytes_of(self, tokens: int) -> int:
        """Return how many bytes so many tokens of this corpus have at most."""
        row = self.db.query(
            "SELECT coalesce(pg_catalog.max(pg_catalog.octet_length(s.content) / greatest(s.token_count, 1)::float8), 4)"
            "       AS bytes"
            "  FROM (SELECT c.content, c.token_count FROM graphrag.chunks c"
            "         WHERE c.corpus_id = $1 AND ($3 IS NULL OR c.document_id = ANY ($3)) LIMIT $2) s",
            ["int4", "int4", "int8[]"],
            [self.corpus.id, _SAMPLE, self.query.visible_ids],
        )[0]
        return round(tokens * max(float(row["bytes"]), float(BYTES_PER_TOKEN)))

    @property
    def _width(self) -> int:
        """Bytes of a character: one where the question is all ASCII, else four."""
        return 1 if self.question.isascii() else 4

    def _request(self, task: str, arguments: dict[str, Any]) -> ChatRequest:
        return tasks.request(self.corpus.options, task, arguments)

    def _provider(self, task: str) -> tuple[str, str]:
        options = self.corpus.options
        if task == "embedding":
            return options.embedding.provider, "openai"
        if task == "rerank":
            return options.reranker()[0], "rerank"
        return options.llm.of(self._request(task, _EMPTY).role)[0], "openai"


def _unknown(what: str) -> GraphRAGError:
    return GraphRAGError(
        f"{what} of an endpoint are not known before it is asked",
        sqlstate="0A000",
        hint="The mode must say what it asks at most: estimate.",
    )
