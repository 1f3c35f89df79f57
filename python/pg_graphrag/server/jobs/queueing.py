"""What Python queues: jobs that a corpus has one of at most, of a kind that `graphrag.jobs` lists."""

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
