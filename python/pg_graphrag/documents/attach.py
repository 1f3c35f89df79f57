"""Existing rows of an attached table become documents, a batch at a time.

The SQL is graphrag._backfill_attached() and its neighbours (sql/02_documents): it runs with the table owner's data and
settings of its own, whatever those of the worker are.
"""

import json

from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.server import Database, Row

# Source rows are locked (FOR SHARE) for as long as a step takes: a few ten milliseconds for this many.
STEP_ROWS = 500
# Rows that a step found locked belong to an open transaction of the application: look again when it may have ended.
LOCKED_RETRY_SECONDS = 5


def backfill(db: Database, corpus: Corpus, job: Row) -> bool:
    """Do one step of a job of kind ``attach``: give up to `STEP_ROWS` rows of the table their documents.

    ``job["payload"]`` is ``{"attached": id of the attachment, "after": last key done, as text, or null, "compare": whether
    rows whose document says something else are taken too}``. At the end
    of the table the documents whose row is gone are deleted, and rows that were locked get a later job.

    Returns
    -------
    bool
        True when the job is done, False when it wants to be called again. The caller commits.

    Raises
    ------
    plpy.Error
        23505 when a key names a document of another attached table, 42703 when a column is gone.
    """
    payload = json.loads(job["payload"])
    attached, compare = int(payload["attached"]), bool(payload.get("compare"))
    if payload.get("after") is None:
        # A pass that begins now does what jobs queued earlier for the same table were to do.
        db.query(
            "DELETE FROM graphrag.jobs WHERE kind = 'attach' AND state = 'pending' AND payload = $1 AND id <> $2",
            ["jsonb", "int8"],
            [job["payload"], job["id"]],
        )
    step = db.query(
        "SELECT taken, last_key FROM graphrag._backfill_attached($1, $2, $3, $4)",
        ["int4", "text", "int4", "bool"],
        [attached, payload.get("after"), STEP_ROWS, compare],
    )
    if not step:  # detached, or its table dropped
        return True
    taken = step[0]["taken"]
    if taken == STEP_ROWS:
        db.query(
            "UPDATE graphrag.jobs SET payload = $2 WHERE id = $1",
            ["int8", "jsonb"],
            [job["id"], json.dumps(payload | {"after": step[0]["last_key"]})],
        )
        return False
    # A null says that somebody holds the whole table: a worker has other things to do than to wait.
    swept = "SELECT graphrag._sweep_attached($1, $2) AS rest"
    if taken is None or db.query(swept, ["int4", "bool"], [attached, compare])[0]["rest"]:
        db.query(
            "SELECT graphrag._queue_attached($1, $2, $3)",
            ["int4", "interval", "bool"],
            [attached, f"{LOCKED_RETRY_SECONDS} seconds", compare],
        )
    return True
