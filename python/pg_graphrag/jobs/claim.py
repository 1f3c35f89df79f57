"""The first of a worker's three transactions: lease the jobs of one batch (DESIGN.md 5)."""

from dataclasses import dataclass

from pg_graphrag.server import Database, Row

# A batch is large enough to make the merge set-based and small enough to lose little when a worker dies.
BATCH_DOCUMENTS = 32
BATCH_BYTES = 400_000
# A job is tried alone after this many workers died over it: the others of its batch are not to blame.
ALONE_FROM = 2
# An open transaction has locked the document: look again when it may have ended.
LOCKED_RETRY_SECONDS = 5
# Jobs searched for one whose document is free, where the first ones are locked.
LOOK_JOBS = 2000
# First half of the advisory lock that every worker holds for as long as its session lives.
WORKER_LOCK = 1735549294


@dataclass
class Batch:
    """Jobs leased together: of one corpus and one kind of work."""

    corpus_id: int
    kind: str
    jobs: list[Row]


# The claim sets next_attempt_at, so that what a worker died over comes back behind the others.
_CLAIM = """
WITH alive AS MATERIALIZED (
    SELECT pg_catalog.array_agg(l.objid::bigint) AS workers
      FROM pg_catalog.pg_locks l
     WHERE l.locktype = 'advisory' AND l.classid = $1::oid AND l.objsubid = 2 AND l.granted
       AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
), due AS (
    SELECT j.id, j.corpus_id, j.kind, j.document_id, j.attempts, j.next_attempt_at
      FROM graphrag.jobs j
     WHERE j.state <> 'failed'
       AND j.next_attempt_at <= pg_catalog.now()
       AND (j.state = 'pending' OR j.lease <> ALL ((SELECT a.workers FROM alive a)::bigint[]))
     ORDER BY (j.kind IN ('optimize', 'communities', 'reports')), j.next_attempt_at, j.id
     LIMIT $6
       FOR UPDATE SKIP LOCKED
), free AS MATERIALIZED (
    SELECT doc.id
      FROM graphrag.documents doc
     WHERE doc.id IN (SELECT d.document_id FROM due d)
       FOR NO KEY UPDATE SKIP LOCKED
), held AS (
    SELECT d.id
      FROM due d
      JOIN graphrag.documents doc ON doc.id = d.document_id
     WHERE d.kind = 'index'
       AND NOT EXISTS (SELECT FROM free f WHERE f.id = d.document_id)
), sized AS (
    SELECT d.id, d.corpus_id, d.kind,
           pg_catalog.row_number() OVER same AS place,
           pg_catalog.max(d.attempts) OVER (same ROWS UNBOUNDED PRECEDING) AS attempts,
           coalesce(pg_catalog.sum(pg_catalog.octet_length(doc.content)) OVER (same ROWS UNBOUNDED PRECEDING), 0)
               AS bytes,
           pg_catalog.first_value(d.corpus_id) OVER turns AS first_corpus,
           pg_catalog.first_value(d.kind) OVER turns AS first_kind
      FROM due d
      LEFT JOIN graphrag.documents doc ON doc.id = d.document_id
     WHERE NOT EXISTS (SELECT FROM held h WHERE h.id = d.id)
    WINDOW same AS (PARTITION BY d.corpus_id, d.kind ORDER BY d.id),
           turns AS (ORDER BY (d.kind IN ('optimize', 'communities', 'reports')), d.next_attempt_at, d.id)
), postponed AS (
    UPDATE graphrag.jobs j
       SET state = 'pending', lease = NULL, next_attempt_at = pg_catalog.now() + $7 * interval '1 second'
      FROM held h
     WHERE j.id = h.id
    RETURNING j.id
), leased AS (
    UPDATE graphrag.jobs j
       SET state = 'leased', lease = $2, attempts = j.attempts + 1, next_attempt_at = pg_catalog.now()
      FROM sized s
     WHERE j.id = s.id
       AND s.corpus_id = s.first_corpus
       AND s.kind = s.first_kind
       AND (s.place = 1
            OR (s.place <= $3 AND s.bytes <= $4 AND s.attempts < $5 AND s.kind IN ('index', 'remove')))
    RETURNING j.id, j.corpus_id, j.kind, j.document_id, j.payload, j.attempts, j.errors
)
SELECT l.* FROM leased l
 UNION ALL
SELECT p.id, NULL, NULL, NULL, NULL, NULL, NULL FROM postponed p
"""


def claim(db: Database, worker: int, most: int | None) -> Batch | None:
    """Lease the jobs of one batch, at most `most`, committed; None when nothing is due.

    A document that an open transaction has locked comes back later: what is prepared now could not be written.
    """
    look = limit = BATCH_DOCUMENTS if most is None else min(most, BATCH_DOCUMENTS)
    while True:
        rows = db.query(
            _CLAIM,
            ["int4", "int4", "int4", "int8", "int4", "int4", "int4"],
            [WORKER_LOCK, worker, limit, BATCH_BYTES, ALONE_FROM, look, LOCKED_RETRY_SECONDS],
        )
        db.commit()
        jobs = sorted((row for row in rows if row["kind"] is not None), key=lambda row: int(row["id"]))
        if jobs:
            return Batch(jobs[0]["corpus_id"], jobs[0]["kind"], jobs)
        if not rows:
            return None
        # They may be many: leave them behind before the first is looked at again.
        look = LOOK_JOBS
