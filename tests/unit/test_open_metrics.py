"""Metrics as OpenMetrics text: families together, labels escaped, an end."""

from pg_graphrag.beside.cli.status import open_metrics
from pg_graphrag.beside.client import Metric


def test_a_family_has_its_type_once_and_its_samples_behind_it() -> None:
    rows = [
        Metric("documents", {"corpus": 'a "b"\\\n', "status": "failed"}, 0.0, "Documents"),
        Metric("documents", {"corpus": "c", "status": "failed"}, 12.0, "Documents"),
        Metric("queue_age_seconds", {}, 1.5, "Age\nof it"),
    ]
    assert list(open_metrics(rows)) == [
        "# TYPE pg_graphrag_documents gauge",
        "# HELP pg_graphrag_documents Documents",
        'pg_graphrag_documents{corpus="a \\"b\\"\\\\\\n",status="failed"} 0.0',
        'pg_graphrag_documents{corpus="c",status="failed"} 12.0',
        "# TYPE pg_graphrag_queue_age_seconds gauge",
        "# UNIT pg_graphrag_queue_age_seconds seconds",
        "# HELP pg_graphrag_queue_age_seconds Age\\nof it",
        "pg_graphrag_queue_age_seconds 1.5",
        "# EOF",
    ]


def test_nothing_is_an_end_alone() -> None:
    assert list(open_metrics([])) == ["# EOF"]
