"""When communities are refreshed: after documents settle, and never for more than a small share of a worker's time."""

from pg_graphrag.server import Database

# A refresh that took less may run again at once; a longer one waits this many times as long: a twentieth of a worker's time.
FREE_SECONDS = 2.0
PAUSE_FACTOR = 20.0


def queue_refresh(db: Database, corpus_id: int) -> None:
    """Queue the refresh of a corpus' communities, once; it is due when no document of the corpus is."""
    db.query(
        "INSERT INTO graphrag.jobs AS j (corpus_id, kind, next_attempt_at)"
        " SELECT $1, 'communities', greatest(pg_catalog.now(), s.refreshed_at"
        "        + greatest(s.seconds - $2, 0) * $3 * interval '1 second')"
        "   FROM (SELECT) one LEFT JOIN graphrag.community_states s ON s.corpus_id = $1"
        " ON CONFLICT (corpus_id, kind)"
        "    WHERE kind IN ('optimize', 'summarize', 'reembed', 'batch', 'communities', 'reports')"
        " DO UPDATE SET next_attempt_at = EXCLUDED.next_attempt_at"
        "  WHERE j.state = 'pending' AND j.next_attempt_at > EXCLUDED.next_attempt_at",
        ["int4", "float8", "float8"],
        [corpus_id, FREE_SECONDS, PAUSE_FACTOR],
    )


def queue_reports(db: Database, corpus_id: int) -> None:
    """Queue the writing of reports that are due, once."""
    db.query(
        "INSERT INTO graphrag.jobs (corpus_id, kind) VALUES ($1, 'reports') ON CONFLICT DO NOTHING",
        ["int4"],
        [corpus_id],
    )
