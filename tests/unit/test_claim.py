"""A worker leases what is due, and looks past documents that open transactions hold before it says that nothing is."""

from collections.abc import Sequence
from typing import Any

import pytest
from pg_graphrag.server.queue import BATCH_DOCUMENTS, LOCKED_LOOKS, LOOK_JOBS, claim

LOCKED = [{"id": None, "corpus_id": None, "kind": None}]


class Queue:
    """Stands for the database: what each look at the queue gives; `limits` and `looks` hold what was asked for.

    `locked_looks`: after so many looks that give nothing something is due still.
    """

    def __init__(self, *looks: list[dict[str, Any]], locked_looks: int = 0) -> None:
        self._results = [*looks]
        self.limits: list[int] = []
        self.looks: list[int] = []
        self.commits = 0
        self._locked_looks = locked_looks
        self.sleeps = 0

    def value(self, sql: str) -> bool:
        self._locked_looks -= 1
        return self._locked_looks >= 0

    def query(self, sql: str, _: Sequence[str] = (), values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        if "pg_sleep" in sql:
            self.sleeps += 1
            return []
        _, _, limit, *_, look, _ = values
        self.limits.append(limit)
        self.looks.append(look)
        return self._results.pop(0)

    def commit(self) -> None:
        self.commits += 1


def job(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "corpus_id": 7,
        "kind": "index",
        "document_id": 1,
        "first_chunk": None,
        "last_chunk": None,
        "payload": "{}",
        "attempts": 1,
        "errors": 0,
    }


def test_an_empty_queue_gives_no_batch() -> None:
    queue = Queue([])
    assert claim(queue, 1, None) == []
    assert queue.commits == 1


def test_jobs_that_another_is_about_to_lease_are_looked_at_again() -> None:
    queue = Queue([], [], [job(1)], locked_looks=2)
    batch = claim(queue, 1, None)
    assert [job.id for job in batch] == [1]
    assert queue.sleeps == 2


def test_jobs_that_stay_locked_are_left() -> None:
    queue = Queue(*[[]] * LOCKED_LOOKS, locked_looks=10 * LOCKED_LOOKS)
    assert claim(queue, 1, None) == []


def test_a_batch_has_its_jobs_in_their_order_and_is_committed_before_the_work() -> None:
    queue = Queue([job(3), job(1), job(2)])
    batch = claim(queue, 1, None)
    assert [(job.corpus_id, job.kind, job.id) for job in batch] == [(7, "index", number) for number in (1, 2, 3)]
    assert queue.commits == 1


def test_locked_documents_are_looked_past_until_one_is_free() -> None:
    queue = Queue(LOCKED, LOCKED, [job(1)])
    batch = claim(queue, 1, None)
    assert [job.id for job in batch] == [1]
    assert queue.looks == [BATCH_DOCUMENTS, LOOK_JOBS, LOOK_JOBS]
    # What was put off for later stays so, whatever comes next.
    assert queue.commits == 3


def test_the_free_jobs_of_a_look_are_taken_beside_locked_ones() -> None:
    batch = claim(Queue([*LOCKED, job(5)]), 1, None)
    assert [job.id for job in batch] == [5]


@pytest.mark.parametrize(("most", "limit"), [(None, BATCH_DOCUMENTS), (1, 1), (BATCH_DOCUMENTS + 1, BATCH_DOCUMENTS)])
def test_a_batch_is_no_larger_than_asked_for_and_than_a_batch_may_be(most: int | None, limit: int) -> None:
    queue = Queue(LOCKED, [])
    assert claim(queue, 1, most) == []
    assert queue.limits == [limit, limit]
