"""Requests of the HTTP API, with the bounds of each field."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pg_graphrag.beside.serve import reading
from pg_graphrag.beside.serve.http_errors import Refusal
from pg_graphrag.ground.bounds import LEAST_CORPUS_SECONDS, MAX_CORPORA, MAX_CORPUS_SECONDS, MAX_PROMPT, MAX_QUESTION
from pg_graphrag.ground.mode_names import MODES

Text = Annotated[str, Field(min_length=1, max_length=MAX_QUESTION)]
MAX_TOP_K = 100


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    corpus: str | None = Field(None, max_length=200, description="Corpus; the server's own when left out.")


class Retrieval(_Request):
    """What searches, contexts and answers have in common."""

    mode: str = Field("hybrid", description=f"One of {', '.join(MODES)}.")
    filter: dict[str, Any] | None = Field(None, description="Only documents that this filter keeps.")
    low_level_keywords: list[str] | None = Field(None, max_length=100)
    high_level_keywords: list[str] | None = Field(None, max_length=100)
    options: dict[str, Any] = Field(default_factory=dict, description="Search options of the mode.")

    def arguments(self) -> dict[str, Any]:
        """The client's arguments."""
        fields = self.model_dump(exclude={"corpus", "query", "question", "options"})
        own = {name: value for name, value in fields.items() if value or name not in ("offset", "history")}
        return own | _check_options(self.options)


class SearchRequest(Retrieval):
    """A search."""

    query: Text
    corpora: list[Annotated[str, Field(max_length=200)]] | None = Field(
        None,
        min_length=1,
        max_length=MAX_CORPORA,
        description="Corpora to search in place of one; `*`: all that there are for the caller.",
    )
    corpus_timeout: float | None = Field(
        None, ge=LEAST_CORPUS_SECONDS, le=MAX_CORPUS_SECONDS, description="Seconds that each of them may take."
    )
    top_k: int = Field(10, ge=1, le=MAX_TOP_K)
    offset: int = Field(0, ge=0, le=10_000)


class ContextRequest(Retrieval):
    """A context for a language model."""

    query: Text
    max_tokens: int | None = Field(None, ge=1, le=1_000_000)


class Turn(BaseModel):
    """One turn of the conversation before a question."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["user", "assistant"]
    content: str = Field(max_length=131_072)


class AskRequest(Retrieval):
    """A question."""

    question: str = Field(min_length=1, max_length=MAX_PROMPT)
    max_tokens: int | None = Field(None, ge=1, le=1_000_000)
    history: list[Turn] = Field(default_factory=list, max_length=200)
    response_type: str = Field("multiple paragraphs", min_length=1, max_length=200)


class NewDocument(BaseModel):
    """A document, as an application writes it."""

    model_config = ConfigDict(extra="forbid")

    content: str
    source_key: str | None = Field(None, max_length=1000)
    title: str | None = Field(None, max_length=10_000)
    metadata: dict[str, Any] = Field(default_factory=dict)
    valid_from: datetime | None = None
    valid_to: datetime | None = None


class PlaceRequest(_Request):
    """A text that is sought in a document."""

    text: str = Field(min_length=1, max_length=100_000)


class InsertRequest(_Request):
    """Documents that are new, or replace those of the same key."""

    documents: list[NewDocument] = Field(min_length=1, max_length=1000)


class CorpusRequest(_Request):
    """A corpus."""


class DeleteRequest(_Request):
    """Documents that go."""

    documents: list[Annotated[int, Field(ge=1, lt=2**63)]] = Field(min_length=1, max_length=1000)


class FeedbackRequest(_Request):
    """A verdict on an answer, or on passages."""

    question: Text
    verdict: Literal["good", "bad"]
    evidence: list[Annotated[str, Field(max_length=1000)]] = Field(
        default_factory=list, max_length=100, description="Keys of documents that hold the answer."
    )
    answer: str | None = Field(None, max_length=131_072)
    mode: str | None = Field(None, max_length=50)
    comment: str | None = Field(None, max_length=2000)


class CurationRequest(_Request):
    """A change of the graph by a person."""

    kind: str = Field(description=f"One of {', '.join(reading.CURATIONS)}.")
    arguments: dict[str, Any]


def _check_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return search options; refuse what would take the place of another argument of the client."""
    own = {"corpus", "query", "question", "self", "mode", "top_k", "max_tokens", "filter", "history", "response_type"}
    own |= {"corpora", "corpus_timeout", "node_timeout"}
    if taken := sorted(own & set(options)):
        raise Refusal(400, "22023", f"{taken[0]!r} is no search option", "Give it as a field of its own.")
    return options
