"""The first of a worker's three transactions: lease the jobs of one batch (docs/decisions/indexing.md)."""

from dataclasses import dataclass

from pg_graphrag.server import Database, Row

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
