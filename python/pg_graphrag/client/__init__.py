"""The Python client: `GraphRAG` and `AsyncGraphRAG`, thin over the SQL interface."""

from pg_graphrag.client.asynchronous import AsyncGraphRAG
from pg_graphrag.client.blocking import GraphRAG
from pg_graphrag.client.documents import Document
from pg_graphrag.client.results import (
    Answer,
    Citation,
    CorpusComparison,
    EntityResult,
    Evaluation,
    FailedJob,
    HealthIssue,
    InsertSummary,
    Metric,
    Neighbor,
    Progress,
    RelationshipResult,
    SearchResult,
    WaitResult,
)

__all__ = [
    "Answer",
    "AsyncGraphRAG",
    "Citation",
    "CorpusComparison",
    "Document",
    "EntityResult",
    "Evaluation",
    "FailedJob",
    "GraphRAG",
    "HealthIssue",
    "InsertSummary",
    "Metric",
    "Neighbor",
    "Progress",
    "RelationshipResult",
    "SearchResult",
    "WaitResult",
]
