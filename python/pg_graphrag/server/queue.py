"""The queue, graphrag.jobs: jobs are queued, leased by workers, done, handed on or given back
(docs/decisions/indexing.md).

index/indexing/outcomes.py says what happens to a job that failed, operate/jobs/ what each kind does.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pg_graphrag.server import Database, Row

# Processor time: a shorter refresh may run again at once; a longer one waits this many times as long, a twentieth of a
# worker's time.
FREE_SECONDS = 0.5
PAUSE_FACTOR = 20.0


@dataclass(frozen=True, slots=True)
class Job:
    """A job that `worker` has leased.

    `document_id` is 0 for a job of a whole corpus. `chunks`: the first and last ordinal of the job's part of a long
    document. `payload`: further data (graphrag.jobs says what).
    """

    worker: int
    id: int
    corpus_id: int
    kind: str
    document_id: int
    chunks: tuple[int, int] | None
    payload: dict[str, Any]
    attempts: int
    errors: int

    @property
    def timeouts(self) -> int:
        """How often a model was silent for too long about the job's item."""
        return int(self.payload.get("timeouts", 0))


def queue(db: Database, kind: str, corpus_id: int) -> None:
    """Queue a job, unless there is one already."""
    db.query("SELECT graphrag._queue_jobs($2, ARRAY[$1])", ["int4", "text"], [corpus_id, kind])


def requeue(db: Database, kind: str, corpus_id: int) -> None:
    """Queue a job that begins again, whatever the state of an existing one."""
    db.query("SELECT graphrag._requeue_jobs($2, ARRAY[$1])", ["int4", "text"], [corpus_id, kind])


def requeue_documents(db: Database, corpus_id: int) -> None:
    """Let the jobs of all documents of a corpus begin again: waiting, failed, and leased ones, whose leases end."""
    db.query(
        "SELECT graphrag._requeue_jobs('index', pg_catalog.array_agg($1), pg_catalog.array_agg(j.document_id))"
        "  FROM (SELECT DISTINCT x.document_id FROM graphrag.jobs x"
        "         WHERE x.corpus_id = $1 AND x.kind IN ('index', 'embed', 'graph')) j",
        ["int4"],
        [corpus_id],
    )


def requeue_document(db: Database, job: Job) -> None:
    """Let a leased document begin again, with all its parts, unless newer content has taken the job over."""
    db.query(
        "SELECT graphrag._requeue_jobs('index', ARRAY[j.corpus_id], ARRAY[j.document_id]) FROM graphrag.jobs j"
        " WHERE j.id = $1 AND j.lease = $2",
        ["int8", "int4"],
        [job.id, job.worker],
    )


_DUE = """
SELECT greatest(pg_catalog.now(), least(s.refreshed_at, pg_catalog.now())
                + greatest(s.seconds - $2, 0) * $3 * interval '1 second') AS at
  FROM (SELECT) one LEFT JOIN graphrag.community_states s ON s.corpus_id = $1
"""


def queue_refresh(db: Database, corpus_id: int) -> None:
    """Queue the refresh of a corpus' communities: after its documents, within a small share of a worker's time."""
    for statement in (
        f"SELECT graphrag._queue_jobs('communities', ARRAY[$1], next_attempt_at => d.at) FROM ({_DUE}) d",
        f"UPDATE graphrag.jobs j SET next_attempt_at = d.at FROM ({_DUE}) d"
        # By the index of jobs that a corpus has one of: its documents' may be many.
        " WHERE j.corpus_id = $1 AND j.kind = 'communities' AND j.document_id IS NULL"
        "   AND j.state = 'pending' AND j.next_attempt_at > d.at",
    ):
        db.query(statement, ["int4", "float8", "float8"], [corpus_id, FREE_SECONDS, PAUSE_FACTOR])


# A batch is large enough to make the merge set-based and small enough to lose little when a worker dies.
BATCH_DOCUMENTS = 32
BATCH_BYTES = 400_000
# A third of the cost of a short text is the same for any batch. So if many wait, a batch has so many documents with so
# many bytes together.
SHORT_DOCUMENTS, SHORT_BYTES = 128, 64_000
# A row of an attached table without texts costs little; at 32 rows, a third of that is the batch's own cost.
BATCH_ROWS = 1000
# A job is tried alone after this many workers died over it: the others of its batch are not to blame.
ALONE_FROM = 2
# An open transaction has locked the document: look again when it may have ended.
LOCKED_RETRY_SECONDS = 5
# Jobs searched for one whose document is free, where the first ones are locked.
LOOK_JOBS = 2000
# Where all due jobs are locked, most likely by another worker that leases some of them: how often, and after how many seconds,
# they are looked at again. Locked for longer, they belong to an open transaction of somebody else's.
LOCKED_LOOKS = 10
LOCKED_LOOK_SECONDS = 0.02


def claim(db: Database, worker: int, most: int | None, after_corpus: int | None = None) -> list[Job]:
    """Lease the jobs of one batch, of one corpus and one kind of work, at most `most`; committed. Empty if none is due.

    `after_corpus`: the corpus of the last batch: others come first.
    A document that an open transaction has locked comes back later: its result could not be written now.
    """
    for _ in range(LOCKED_LOOKS):
        jobs = _claim_unlocked(db, worker, most, after_corpus)
        if jobs or not db.value(_IS_ANY_DUE):
            break
        db.query("SELECT pg_catalog.pg_sleep($1)", ["float8"], [LOCKED_LOOK_SECONDS])
        db.commit()
    return jobs


_IS_ANY_DUE = (
    "SELECT EXISTS (SELECT FROM graphrag.jobs j"
    " WHERE j.state = 'pending' AND j.next_attempt_at <= pg_catalog.now()"
    "   AND j.corpus_id NOT IN (SELECT c.id FROM graphrag.corpora c WHERE c.move IS NOT NULL)) AS due"
)


def _claim_unlocked(db: Database, worker: int, most: int | None, after_corpus: int | None) -> list[Job]:
    """Lease the jobs of one batch; none where nothing is due, or all that is due is locked."""
    look, rows_limit, short_limit = (
        size if most is None else min(most, size) for size in (BATCH_DOCUMENTS, BATCH_ROWS, SHORT_DOCUMENTS)
    )
    limit = look
    while True:
        rows = db.query(
            "SELECT * FROM graphrag._claim_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            ["int4", "int4", "int4", "int4", "int8", "int4", "int8", "int4", "int4", "int4"],
            [
                *(worker, after_corpus, limit, rows_limit, BATCH_BYTES, short_limit, SHORT_BYTES),
                *(ALONE_FROM, look, LOCKED_RETRY_SECONDS),
            ],
        )
        db.commit()
        jobs = [_job(worker, row) for row in rows if row["kind"] is not None]
        if jobs or not rows:
            return sorted(jobs, key=lambda job: job.id)
        # They may be many: leave them behind before the first is looked at again.
        look = LOOK_JOBS


def _job(worker: int, row: Row) -> Job:
    return Job(
        worker=worker,
        id=row["id"],
        corpus_id=row["corpus_id"],
        kind=row["kind"],
        document_id=row["document_id"] or 0,
        chunks=None if row["first_chunk"] is None else (row["first_chunk"], row["last_chunk"]),
        payload=json.loads(row["payload"]),
        attempts=row["attempts"],
        errors=row["errors"],
    )


_RELEASE = """
UPDATE graphrag.jobs
   SET state = 'pending', lease = NULL, attempts = attempts - 1, next_attempt_at = pg_catalog.now() + $2 * interval '1 second'
 WHERE id IN (SELECT j.id FROM graphrag.jobs j WHERE {which} j.lease = $1 ORDER BY j.id FOR UPDATE SKIP LOCKED)
"""


def release(db: Database, jobs: Sequence[Job], delay_seconds: float = 0) -> None:
    """Release jobs; the attempt does not count.

    A job that a user's open transaction has locked is being superseded; if that rolls back, the lease ends with this run.
    """
    if jobs:
        sql, ids = _RELEASE.format(which="j.id = ANY ($3) AND"), [job.id for job in jobs]
        db.query(sql, ["int4", "float8", "int8[]"], [jobs[0].worker, delay_seconds, ids])


def release_all(db: Database, worker: int) -> None:
    """Release all jobs of a worker."""
    db.query(_RELEASE.format(which=""), ["int4", "float8"], [worker, 0.0])


def finish(db: Database, jobs: Sequence[Job]) -> None:
    """Delete jobs that are done, unless newer content has taken them over."""
    if jobs:
        sql = "DELETE FROM graphrag.jobs WHERE id = ANY ($1) AND lease = $2"
        db.query(sql, ["int8[]", "int4"], [[job.id for job in jobs], jobs[0].worker])


def hand_on(db: Database, jobs: Sequence[Job], *, has_text: bool) -> None:
    """Make jobs of documents jobs for their graphs, unless newer content has taken them over.

    `has_text`: the text was written; else the graph job writes it too.
    """
    if jobs:
        db.query(
            "UPDATE graphrag.jobs SET kind = 'graph', state = 'pending', lease = NULL, attempts = 0, errors = 0,"
            " last_error = NULL, next_attempt_at = pg_catalog.now(),"
            " payload = CASE WHEN $3 THEN pg_catalog.jsonb_build_object('text', true)"
            "                WHEN payload ? 'removes' THEN '{\"removes\": true}' ELSE '{}' END"
            " || pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object('unembeddable', payload -> 'unembeddable'))"
            " WHERE id = ANY ($1) AND lease = $2",
            ["int8[]", "int4", "bool"],
            [[job.id for job in jobs], jobs[0].worker, has_text],
        )


def begin_graph(db: Database, jobs: Sequence[Job]) -> list[Job]:
    """Make leased jobs of documents jobs of kind graph that write the text too; the lease and its errors stay."""
    if jobs:
        db.query(
            "UPDATE graphrag.jobs SET kind = 'graph', payload = payload - 'text' WHERE id = ANY ($1) AND lease = $2",
            ["int8[]", "int4"],
            [[job.id for job in jobs], jobs[0].worker],
        )
    return [replace(job, kind="graph") for job in jobs]


def note(db: Database, job: Job, name: str, value: object) -> None:
    """Keep a value in the payload of a leased job."""
    db.query(
        "UPDATE graphrag.jobs SET payload = payload || pg_catalog.jsonb_build_object($3, $4) WHERE id = $1 AND lease = $2",
        ["int8", "int4", "text", "jsonb"],
        [job.id, job.worker, name, json.dumps(value)],
    )
