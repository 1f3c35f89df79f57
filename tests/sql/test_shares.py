"""No worker takes so much that another has nothing to do."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pg_graphrag.server import queue

from tests.runtime.cluster import Database
from tests.sql.rows import own_by_owner

TABLES = """
CREATE SCHEMA desk;
CREATE TABLE desk.tickets (id int PRIMARY KEY, name text NOT NULL, note text);
INSERT INTO desk.tickets SELECT n, 'Ticket number ' || n, 'The pump of line ' || n || ' leaks. ' || repeat('It was mended. ', 20)
                           FROM generate_series(1, 900) n;
"""


class Worker:
    """A session that claims batches and does nothing of them."""

    def __init__(self, session: Database) -> None:
        self._session = session
        (self._number,) = session.execute("SELECT graphrag._begin_work()").fetchone() or (0,)

    def claim(self) -> tuple[int, int]:
        """Lease a batch; return how many jobs it has, and bytes of their texts."""
        sizes = self._session.execute(
            "SELECT octet_length(d.content) FROM graphrag._claim_jobs(%s, NULL, %s, %s, %s, %s, %s, %s, %s, 5) j"
            "  JOIN graphrag.documents d ON d.id = j.document_id",
            [
                *(self._number, queue.BATCH_DOCUMENTS, queue.BATCH_ROWS, queue.BATCH_BYTES),
                *(queue.SHORT_DOCUMENTS, queue.SHORT_BYTES, queue.ALONE_FROM, queue.BATCH_DOCUMENTS),
            ],
        ).fetchall()
        return len(sizes), sum(size for (size,) in sizes)


@pytest.fixture
def workers(db: Database) -> Iterator[Iterator[Worker]]:
    with ExitStack() as stack:
        yield (Worker(stack.enter_context(Database.open(db.url))) for _ in iter(int, 1))


def wait_attached(db: Database, *, with_texts: bool) -> None:
    """Attach the tickets and make their documents, whose jobs wait."""
    db.execute(TABLES.encode())
    if not with_texts:
        db.execute("UPDATE desk.tickets SET note = NULL")
    own_by_owner(db, "SCHEMA desk", "TABLE desk.tickets")
    db.execute("SELECT graphrag.create_corpus('desk', '{\"communities\": false}')")
    db.execute("SELECT graphrag.attach_entities('desk.tickets', 'desk', '{id}', 'name', text => '{note}')")
    while db.execute("SELECT true FROM graphrag.jobs WHERE kind = 'attach'").fetchone():
        db.execute("CALL graphrag.process_jobs(1)")
        db.execute("UPDATE graphrag.jobs SET next_attempt_at = 'infinity' WHERE kind = 'index'")
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = '-infinity' WHERE kind = 'index'")


def wait_documents(db: Database, number: int, letters: int) -> None:
    db.execute("SELECT graphrag.create_corpus('desk')")
    db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, content)"
        " SELECT 'desk', 'long ' || n, repeat('Ann mended the pump. ', %s) FROM generate_series(1, %s) n",
        [letters // 21, number],
    )


def shares(workers: Iterator[Worker]) -> list[list[tuple[int, int]]]:
    """Let two workers claim until nothing is due, next the one with fewer bytes; the second begins when the first has claimed."""
    sessions = [next(workers)]
    claimed = [[sessions[0].claim()], []]
    sessions.append(next(workers))
    while True:
        turn = min((0, 1), key=lambda number: sum(size for _, size in claimed[number]))
        batch = sessions[turn].claim()
        if not batch[0]:
            return claimed
        claimed[turn].append(batch)


def test_a_worker_that_begins_when_the_first_has_claimed_has_half_of_the_rows(
    db: Database, workers: Iterator[Worker]
) -> None:
    wait_attached(db, with_texts=False)
    first, second = shares(workers)
    counts = [sum(count for count, _ in batches) for batches in (first, second)]
    assert sum(counts) == 900 and max(counts) - min(counts) <= queue.SHORT_DOCUMENTS
    assert first[0][0] == 450


def test_rows_with_texts_are_batches_of_documents(db: Database, workers: Iterator[Worker]) -> None:
    wait_attached(db, with_texts=True)
    batches = [batch for batches in shares(workers) for batch in batches]
    assert sum(count for count, _ in batches) == 900
    assert max(count for count, _ in batches) == queue.SHORT_DOCUMENTS
    assert max(size for _, size in batches) <= queue.SHORT_BYTES


def test_two_workers_have_the_same_of_long_documents(db: Database, workers: Iterator[Worker]) -> None:
    wait_documents(db, 32, 12_000)
    first, second = (sum(size for _, size in batches) for batches in shares(workers))
    assert first + second > 380_000 and abs(first - second) <= queue.SHORT_BYTES


def test_many_rows_are_large_batches(db: Database, workers: Iterator[Worker]) -> None:
    wait_attached(db, with_texts=False)
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = 'infinity' WHERE kind <> 'index'")
    worker, sizes = next(workers), []
    while count := worker.claim()[0]:
        sizes.append(count)
    assert sizes == [450, 225, 128, 97]
