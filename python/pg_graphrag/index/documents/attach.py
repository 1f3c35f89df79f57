"""Turns existing rows of an attached table into documents, a batch at a time.

The SQL is graphrag_attached._step() (sql/04_documents). It runs with its own settings, whatever those of the session
are. It reads a table only in the session of the table's owner, or in a worker if the extension's owner owns the table.
"""

import json
from dataclasses import asdict, dataclass

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import Database, check_may_commit
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.queue import Job

# Rows that a step skipped belong to an open transaction of the application: look again when it may have ended.
LOCKED_RETRY_SECONDS = 5
# In the caller's search_path, where a type of somebody else may be called text.
_INTEGER, _TEXT = "pg_catalog.int4", "pg_catalog.text"


@dataclass
class BackfillPass:
    """Progress of a pass through an attached table: first its rows, then its documents, to find those without a row."""

    attached: int
    after: str | None = None
    sweeps: bool = False
    left_over: bool = False

    def step(self, db: Database, function: str) -> str:
        """Do one step with an SQL function that has the signature of _step(); return done, more, or why it cannot go on.

        Raises plpy.Error: 42703, 42804 or 55000 when the table can no longer be followed: a column is gone, has another type,
          or is no key.
        """
        row = db.query(
            f"SELECT state, reason, last_key, left_over FROM {function}($1, $2, $3)",
            [_INTEGER, _TEXT, "pg_catalog.bool"],
            [self.attached, self.after, self.sweeps],
        )[0]
        if row["state"] == "refused":
            raise GraphRAGError(
                f"the attached table is not read in this session: {row['reason']}",
                sqlstate="42501",
                hint="Call it in a session of the table's owner, not of a superuser; what the table runs must be the owner's.",
            )
        if row["state"] != "done":
            return str(row["state"])
        self.left_over |= row["left_over"]
        self.after = row["last_key"]
        if self.after is None and self.sweeps:
            return "done"
        self.sweeps |= self.after is None
        return "more"


def watch(db: Database) -> None:
    """Look at all attached tables: what became of their columns, and whether what waited for them can go on."""
    db.query("SELECT graphrag._watch_attached()")


def take_replicated(db: Database, corpus: Corpus) -> None:
    """Write all documents of a corpus whose rows replication brought."""
    for row in db.query("SELECT a.id FROM graphrag._attached_tables a WHERE a.corpus_id = $1", ["int4"], [corpus.id]):
        while db.value("SELECT graphrag._take_replicated($1)", ["int4"], [row["id"]]):
            pass


def backfill(db: Database, corpus: Corpus, job: Job) -> bool:
    """Do one step of a job of kind ``attach``: of the `BackfillPass` in its payload, or of rows that replication brought.

    Returns True when the job is done, False when there are more steps. The caller commits. No worker takes the job of a
    table that workers may not read; a locked table gets a job for later.
    """
    payload = job.payload
    if payload.get("replicated"):
        return not db.value("SELECT graphrag._take_replicated($1)", ["int4"], [int(payload["attached"])])
    if payload.keys() == {"attached"}:
        # A pass that begins now also does the work of earlier jobs for the same table.
        db.query(
            "DELETE FROM graphrag.jobs WHERE kind = 'attach' AND id <> $2 AND (state = 'pending' AND payload = $1"
            " OR state = 'failed' AND payload -> 'attached' = $1 -> 'attached')",
            ["jsonb", "int8"],
            [json.dumps(payload), job.id],
        )
    attached = int(payload["attached"])
    waits = db.query(
        "SELECT graphrag._attached_waits(v) IS NOT NULL AS waits FROM graphrag_attached._attachments v WHERE v.id = $1",
        ["int4"],
        [attached],
    )
    if waits and waits[0]["waits"]:
        _queue(db, attached)
        return True
    progress = BackfillPass(
        attached, payload.get("after"), payload.get("sweeps", False), payload.get("left_over", False)
    )
    state = progress.step(db, "graphrag._backfill_attached")
    if state == "gone":
        # Documents of a table that was dropped; of any other there is nothing to do.
        return bool(db.value("SELECT graphrag._remove_dropped($1)", ["int4"], [attached]))
    if state == "more":
        db.query(
            "UPDATE graphrag.jobs SET payload = $2 WHERE id = $1",
            ["int8", "jsonb"],
            [job.id, json.dumps(asdict(progress))],
        )
        return False
    # A worker does not wait for a locked table.
    if state == "locked" or progress.left_over:
        _queue(db, attached)
    return True


def _queue(db: Database, attached: int) -> None:
    db.query(
        "SELECT graphrag._queue_attached($1, $2)", ["int4", "interval"], [attached, f"{LOCKED_RETRY_SECONDS} seconds"]
    )


def backfill_table(db: Database, source: str, corpus: str | None) -> None:
    """Serve graphrag.backfill_table(): a whole pass in the session of the table's owner, each step committed.

    It must be the body of a top-level CALL. It names only objects that any role may use: the owner of a table may have no
    rights on the extension's tables.
    """
    if source is None:
        raise GraphRAGError(
            "backfill_table() needs a table",
            sqlstate="22004",
            hint="For example CALL graphrag.backfill_table('articles');",
        )
    check_may_commit(db, "backfill_table()")
    # The number of the table: SQL's regclass comes as its name, which the search_path decides.
    ids = db.value(
        "SELECT graphrag_attached._attachment_ids($1::pg_catalog.regclass, $2)", [_TEXT, _TEXT], [source, corpus]
    )
    for attached in ids:
        db.commit()
        _hand_over(db, "begin", attached, source)
        progress = BackfillPass(attached)
        try:
            while (state := progress.step(db, "graphrag_attached._step")) == "more":
                db.commit()
        except Exception:
            # The documents are behind until the next pass; "begin" has taken what said so away.
            db.rollback()
            _hand_over(db, "later", attached, source)
            db.commit()
            raise
        if state == "locked" or progress.left_over:
            _hand_over(db, "later", attached, source)
            db.commit()
            db.warning(
                f"rows of {source} are locked by other sessions, and were left out",
                hint="Call it again when these have ended.",
            )


def _hand_over(db: Database, action: str, attached: int, source: str) -> None:
    db.query(
        "INSERT INTO graphrag_attached._handover (action, attached_id, relation) VALUES ($1, $2, $3::pg_catalog.regclass)",
        [_TEXT, _INTEGER, _TEXT],
        [action, attached, source],
    )
