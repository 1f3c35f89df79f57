"""The Python client: `GraphRAG` and `AsyncGraphRAG`, thin over the SQL interface."""

from pg_graphrag.beside.client.asynchronous import AsyncGraphRAG
from pg_graphrag.beside.client.blocking import GraphRAG
from pg_graphrag.beside.client.display import Results
from pg_graphrag.beside.client.results import (
    Answer,
    Citation,
    Community,
    CorpusComparison,
    Curation,
    EntityResult,
    Evaluation,
    FailedJob,
    HealthIssue,
    InsertSummary,
    MergeSuggestion,
    Metric,
    Neighbor,
    Progress,
    RelationshipResult,
    ReportResult,
    SearchResult,
    WaitResult,
)
from pg_graphrag.ground.document import Document

__all__ = [
    "Answer",
    "AsyncGraphRAG",
    "Citation",
    "Community",
    "CorpusComparison",
    "Curation",
    "Document",
    "EntityResult",
    "Evaluation",
    "FailedJob",
    "GraphRAG",
    "HealthIssue",
    "InsertSummary",
    "MergeSuggestion",
    "Metric",
    "Neighbor",
    "Progress",
    "RelationshipResult",
    "ReportResult",
    "Results",
    "SearchResult",
    "WaitResult",
]
