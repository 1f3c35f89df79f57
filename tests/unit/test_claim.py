"""A worker's claim: it looks further where documents are locked, and a batch is in the order of its jobs."""

from __future__ import annotations

from typing import Any

import pytest
from pg_graphrag.jobs.claim import BATCH_DOCUMENTS, LOOK_JOBS, claim


class Queue:
    """Answers claims one after another; records how many jobs each asks for and looks at, and the commits."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []
        self.commits = 0

    def query(self, sql: str, types: list[str], values: list[Any]) -> list[dict[str, Any]]:
        assert "_claim_jobs" in sql
        assert len(types) == len(values)
        self.asked.append((values[2], values[5]))
        return self.answers.pop(0)

    def commit(self) -> None:
        self.commits += 1


LOCKED = {"id": None, "kind": None, "corpus_id": None}


def job(number: int) -> dict[str, Any]:
    return {"id": number, "kind": "index", "corpus_id": 7}


def test_a_batch_has_its_jobs_in_their_order_and_none_that_is_locked() -> None:
    batch = claim(Queue([job(3), LOCKED, job(1)]), 1, None)  # type: ignore[arg-type]
    assert batch is not None
    assert (batch.corpus_id, batch.kind, [row["id"] for row in batch.jobs]) == (7, "index", [1, 3])


def test_where_all_are_locked_many_more_are_looked_at_until_none_is_due() -> None:
    queue = Queue([LOCKED], [LOCKED], [])
    assert claim(queue, 1, None) is None  # type: ignore[arg-type]
    assert queue.asked == [(BATCH_DOCUMENTS, look) for look in (BATCH_DOCUMENTS, LOOK_JOBS, LOOK_JOBS)]
    assert queue.commits == 3


@pytest.mark.parametrize(("most", "wanted"), [(1, 1), (BATCH_DOCUMENTS + 1, BATCH_DOCUMENTS)])
def test_no_more_are_leased_than_the_caller_or_a_batch_takes(most: int, wanted: int) -> None:
    queue = Queue([job(1)])
    claim(queue, 1, most)  # type: ignore[arg-type]
    assert queue.asked == [(wanted, wanted)]
