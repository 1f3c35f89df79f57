"""What graph_global reads: reports shuffled, the same way every time, in batches of a bounded size."""

from types import SimpleNamespace
from typing import Any

import pytest
from pg_graphrag.llm.asking.models import Outcome
from pg_graphrag.search.contexts import points, report_passages
from pg_graphrag.search.retrievers.relevant_reports import CommunityReport


def test_reports_are_shuffled_and_always_alike() -> None:
    rows = [CommunityReport(n, 0, None, f"Report {n:02}", "About it.", "", 1.0, []) for n in range(30)]
    asked: Any = SimpleNamespace(db=SimpleNamespace(query=lambda *_: []), visible_ids=None)
    passages = [item.text for item in report_passages.passages_of(asked, rows)[0]]
    assert passages == [item.text for item in report_passages.passages_of(asked, rows)[0]]
    assert passages != sorted(passages) and len(set(passages)) == 30


def test_batches_are_bounded_and_lose_nothing() -> None:
    passages = [points.Passage("x" * size, frozenset({size})) for size in (5000, 5000, 5000, 20_000, 10, 10)]
    batches = points.batches(passages, len)
    assert [sorted(batch.numbers) for batch in batches] == [[5000], [5000], [20_000], [10]]
    assert sum(batch.text.count("x") for batch in batches) == 35_020
    assert [len(batch.text) <= points.BATCH_TOKENS for batch in batches] == [True, True, False, True]


@pytest.mark.parametrize(("readable", "read"), [(None, 30_000), (50_000, 30_000), (9000, 9000), (10, 500)])
def test_what_a_model_reads_in_time_bounds_its_texts_and_nothing_else_does(readable: int | None, read: int) -> None:
    known = None if readable is None else (100.0, readable)
    asked: Any = SimpleNamespace(models=SimpleNamespace(seconds_left=9.0, readable=lambda *_: known))
    assert points.tokens_read(asked, "follow_up", 30_000, context="") == read


def test_batches_that_are_made_late_are_no_more_than_those_that_were_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "counter", lambda query: len)
    sent: list[Any] = []

    def ask_all(task: str, arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        sent.extend(arguments)
        return [Outcome([]) for _ in arguments], {}

    models = SimpleNamespace(
        seconds_left=100.0, readable=lambda _task, _arguments, seconds: (100.0, int(100 * seconds)), ask_all=ask_all
    )
    query: Any = SimpleNamespace(text="?", models=models, usage=[])
    least = points.least_batch(query)
    # What came before took most of the time.
    models.seconds_left = 10.0
    passages = [points.Passage("x" * 998, frozenset({number})) for number in range(10)]
    points.points_of(query, "?", passages, points.Sources(), 1000, least)
    assert len(sent) == 2 <= 2 * 10_000 // least + 1
