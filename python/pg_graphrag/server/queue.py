"""What Python queues: jobs that a corpus has one of at most, of a kind that `graphrag.jobs` lists."""

from dataclasses import dataclass

from pg_graphrag.server import Database, Row

# Of processor time: a refresh that took less may run again at once; a longer one waits this many times as long, a twentieth of a
# worker's time.
FREE_SECONDS = 0.5
PAUSE_FACTOR = 20.0


def queue(db: Database, kind: str, corpus_id: int) -> None:
    """Queue a job, unless there is one already."""
    db.query("SELECT graphrag._queue_jobs($2, ARRAY[$1])", ["int4", "text"], [corpus_id, kind])


def requeue(db: Database, kind: str, corpus_id: int) -> None:
    """Queue a job that begins anew, whatever became of the one there is."""
    db.query("SELECT graphrag._requeue_jobs($2, ARRAY[$1])", ["int4", "text"], [corpus_id, kind])


def requeue_documents(db: Database, corpus_id: int) -> None:
    """Let every document's job of a corpus begin anew: what waits, failed, or is at work, whose lease is gone."""
    db.query(
        "SELECT graphrag._requeue_jobs('index', pg_catalog.array_agg($1), pg_catalog.array_agg(j.document_id))"
        "  FROM (SELECT DISTINCT x.document_id FROM graphrag.jobs x"
        "         WHERE x.corpus_id = $1 AND x.kind IN ('index', 'embed', 'graph')) j",
        ["int4"],
        [corpus_id],
    )


def requeue_document(db: Database, worker: int, job: Row) -> None:
    """Let a leased document begin anew, with all its parts, unless newer content has taken the job over."""
    db.query(
        "SELECT graphrag._requeue_jobs('index', ARRAY[j.corpus_id], ARRAY[j.document_id]) FROM graphrag.jobs j"
        " WHERE j.id = $1 AND j.lease = $2",
        ["int8", "int4"],
        [job["id"], worker],
    )


_DUE = """
SELECT greatest(pg_catalog.now(), least(s.refreshed_at, pg_catalog.now())
                + greatest(s.seconds - $2, 0) * $3 * interval '1 second') AS at
  FROM (SELECT) one LEFT JOIN graphrag.community_states s ON s.corpus_id = $1
"""


def queue_refresh(db: Database, corpus_id: int) -> None:
    """Queue the refresh of a corpus' communities: after its documents, and for no more than a small share of a worker's time."""
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
# A third of what a short text costs is the same for any batch: where many wait, so many that have so many bytes together.
SHORT_DOCUMENTS, SHORT_BYTES = 128, 64_000
# A row of an attached table without texts takes little, and what a batch costs besides is a third of that at 32.
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


@dataclass
class Batch:
    """Jobs leased together: of one corpus and one kind of work."""

    corpus_id: int
    kind: str
    jobs: list[Row]


def claim(db: Database, worker: int, most: int | None, after_corpus: int | None = None) -> Batch | None:
    """Lease the jobs of one batch, at most `most`, committed; None when nothing is due.

    `after_corpus`: the number of the corpus that had the last batch: others come first.
    A document that an open transaction has locked comes back later: what is prepared now could not be written.
    """
    for _ in range(LOCKED_LOOKS):
        batch = _claim_unlocked(db, worker, most, after_corpus)
        if batch is not None or not db.query(_IS_ANY_DUE)[0]["due"]:
            break
        db.query("SELECT pg_catalog.pg_sleep($1)", ["float8"], [LOCKED_LOOK_SECONDS])
        db.commit()
    return batch


_IS_ANY_DUE = (
    "SELECT EXISTS (SELECT FROM graphrag.jobs j"
    " WHERE j.state = 'pending' AND j.next_attempt_at <= pg_catalog.now()) AS due"
)


def _claim_unlocked(db: Database, worker: int, most: int | None, after_corpus: int | None) -> Batch | None:
    """Lease the jobs of one batch; None when nothing is due, or all that is due is locked."""
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
        jobs = sorted((row for row in rows if row["kind"] is not None), key=lambda row: int(row["id"]))
        if jobs:
            return Batch(jobs[0]["corpus_id"], jobs[0]["kind"], jobs)
        if not rows:
            return None
        # They may be many: leave them behind before the first is looked at again.
        look = LOOK_JOBS
