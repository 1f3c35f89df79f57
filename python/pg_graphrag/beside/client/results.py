"""What the client returns: a dataclass for each result of the SQL interface, with the columns as fields."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from html import escape
from typing import Any

from pg_graphrag.beside.client.display import table


@dataclass(frozen=True, slots=True)
class InsertSummary:
    """Counts of an insert: new documents, documents with changed content, title or metadata, and unchanged ones."""

    inserted: int
    updated: int
    unchanged: int

    def __add__(self, summary: "InsertSummary") -> "InsertSummary":
        return InsertSummary(
            self.inserted + summary.inserted, self.updated + summary.updated, self.unchanged + summary.unchanged
        )


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A chunk found by ``graphrag.search``; `rank` from 1, higher `score` is better, `explain` says why it is there."""

    rank: int
    chunk_id: int
    document_id: int
    source_key: str
    title: str | None
    content: str
    score: float
    explain: dict[str, Any]
    corpus: str

    @property
    def relevance(self) -> float | None:
        """How likely it has something of the answer, 0 to 1.

        None in a search of one corpus without the option `min_relevance`.
        """
        relevance: float | None = self.explain.get("relevance")
        return relevance


@dataclass(frozen=True, slots=True)
class EntityResult:
    """An entity found by ``graphrag.search_entities``; `degree` is its number of relationships."""

    rank: int
    entity_id: int
    name: str
    type: str
    description: str
    degree: int
    score: float
    explain: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RelationshipResult:
    """A relationship found by ``graphrag.search_relationships``, in the direction most of its mentions have."""

    rank: int
    relationship_id: int
    source: str
    target: str
    keywords: list[str]
    description: str
    weight: Decimal
    score: float
    explain: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Citation:
    """A document that an answer cites as ``[number]``, and its chunk that is nearest to the citing sentence.

    With the option "sql" it may be rows of a statement: then `title` is the statement, and document, key and chunk are
    None. `section` is the path of headings and `pages` ("12", "12–13") the pages of the cited text; None if there are none.
    `picture` is the number of the picture whose text is cited, or that shows its page. For a row of an attached table,
    `table` is its name with the schema, and `key` the row's key.
    """

    number: int
    document_id: int | None
    source_key: str | None
    title: str | None
    chunk_id: int | None
    section: str | None = None
    pages: str | None = None
    picture: int | None = None
    table: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What ``graphrag.ask`` returns: `usage` is what it cost, `context` what the model was given."""

    answer: str
    citations: list[Citation]
    usage: dict[str, Any]
    context: dict[str, Any]

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{escape(part)}</p>" for part in self.answer.split("\n") if part.strip())
        return paragraphs + (table(self.citations) if self.citations else "")


@dataclass(frozen=True, slots=True)
class ReportResult:
    """A community's report found by ``graphrag.search_reports``; level 0 is the coarsest, `rating` its importance, 0 to 10."""

    rank: int
    community_id: int
    level: int
    title: str
    summary: str
    rating: float
    score: float
    explain: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Community:
    """One row of ``graphrag.community_overview``; title, summary and rating are None until a report is written."""

    community_id: int
    level: int
    parent_id: int | None
    size: int
    relationships: int
    documents: int
    title: str | None
    summary: str | None
    rating: float | None
    model: str | None
    written_at: datetime | None


@dataclass(frozen=True, slots=True)
class Curation:
    """One row of ``graphrag.curations``: a change of the graph, who made it and when, and who undid it."""

    id: int
    kind: str
    arguments: dict[str, Any]
    made_by: str
    made_at: datetime
    undone_by: str | None
    undone_at: datetime | None


@dataclass(frozen=True, slots=True)
class MergeSuggestion:
    """Two entities that may be one, from ``graphrag.suggest_merges``; higher `score` is likelier, 0 to 1."""

    entity: str
    target: str
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Neighbor:
    """An entity near another, from ``graphrag.neighbors``: `hop` is its distance, `path` the names on the way to it."""

    hop: int
    entity_id: int
    name: str
    type: str
    description: str
    degree: int
    relationship_id: int
    relationship: str
    keywords: list[str]
    weight: Decimal
    path: list[str]


@dataclass(frozen=True, slots=True)
class HealthIssue:
    """One row of ``graphrag.health``: what needs somebody. `severity`: error or warning."""

    severity: str
    subject: str
    detail: str
    hint: str


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of ``graphrag.metrics``: a current number with its labels."""

    name: str
    labels: dict[str, str]
    value: float
    help: str


@dataclass(frozen=True, slots=True)
class WaitResult:
    """What ``graphrag.wait_indexed`` waited for: how many documents are indexed, failed for good, and still pending."""

    indexed: int
    failed: int
    pending: int


@dataclass(frozen=True, slots=True)
class Progress:
    """One row of ``graphrag.progress``: how far the indexing of a corpus is.

    `searchable` documents have their texts in the index, `indexed` ones their graphs too. `vectors_pending` and
    `graphs_pending` count the chunks of long documents that lack these still. `retracted` documents are rows without an index.
    """

    corpus: str
    documents: int
    indexed: int
    pending: int
    failed: int
    chunks: int
    entities: int
    relationships: int
    jobs: int
    leased: int
    oldest_pending: datetime | None
    waiting: int
    waiting_until: datetime | None
    waiting_for: str | None
    reembedded: int | None
    replication_lag: timedelta | None
    searchable: int
    embedding: str | None
    embedding_advice: str | None
    vectors_pending: int
    graphs_pending: int
    retracted: int = 0
    stood_in: int = 0

    def _repr_html_(self) -> str:
        return table([self])


@dataclass(frozen=True, slots=True)
class FailedJob:
    """One row of ``graphrag.failed_jobs``: a dead letter."""

    job_id: int
    corpus: str
    kind: str
    document_id: int | None
    source_key: str | None
    attempts: int
    last_error: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One row of ``graphrag.evaluate``: a mode at one depth `k`.

    `intervals` are {metric: [low, high]} at 95 %; `differences` to the baseline {metric: {difference, low, high, p}}, None
    for the baseline itself; `per_question` is None unless asked for.
    """

    mode: str
    k: int
    questions: int
    without_evidence: int
    recall: float
    ndcg: float
    mrr: float
    any_hit: float
    all_hit: float
    p50_ms: float
    p95_ms: float
    baseline: str
    intervals: dict[str, list[float]]
    differences: dict[str, dict[str, float]] | None
    per_question: list[dict[str, Any]] | None


@dataclass(frozen=True, slots=True)
class CorpusComparison:
    """One row of ``graphrag.compare_corpora``: a metric of a mode at depth `k`, for two corpora.

    `low`, `high`: the 95 % interval of `difference` (other − value). `changed`: the questions with another score, the
    greatest change first. `costs`: {"corpus", "other"}: sizes of the index, and requests to models.
    """

    mode: str
    k: int
    metric: str
    questions: int
    value: float
    other: float
    difference: float
    low: float
    high: float
    p: float
    better: int
    worse: int
    changed: list[dict[str, Any]]
    costs: dict[str, dict[str, float]]
