"""The Python client: `GraphRAG` and `AsyncGraphRAG`, thin over the SQL interface."""

from pg_graphrag.client.asynchronous import AsyncGraphRAG
from pg_graphrag.client.blocking import GraphRAG
from pg_graphrag.client.display import Results
from pg_graphrag.client.documents import Document
from pg_graphrag.client.results import (
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
