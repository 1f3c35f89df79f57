"""The Python client: `GraphRAG` and `AsyncGraphRAG`, a thin layer over the SQL interface."""

from pathlib import Path

from pg_graphrag.beside.client.asynchronous import AsyncGraphRAG
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
from pg_graphrag.ground.errors import not_built

try:
    from pg_graphrag.beside.client.blocking import GraphRAG
except ModuleNotFoundError as error:
    file = Path(__file__).with_name("blocking.py")
    if file.exists():
        raise  # a package that it needs is not there
    raise not_built(file, "blocking_client") from error

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
