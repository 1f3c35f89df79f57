"""The rows of batches: the state of each batch, the requests of a new one, and the outcome of each request.

An outcome is an answer, another batch, or a dead letter; each has its costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints import batch_api as api
from pg_graphrag.llm.endpoints.collector import lock
from pg_graphrag.llm.endpoints.faults import Waiting
from pg_graphrag.llm.endpoints.ledger import cost
from pg_graphrag.llm.endpoints.meters import Meter
from pg_graphrag.llm.endpoints.providers import Provider, load_provider
from pg_graphrag.server import Database, Row, columns, reserve, slices

# Collected requests wait this long for more, while documents are queued that no worker has begun.
COLLECT_SECONDS = 600
# Largest file of requests: half of OpenAI's limit.
MAX_FILE_BYTES = 100_000_000
# The longest interval between two polls of a batch.
MAX_LOOK = 600.0
KEPT_DAYS = 90


@dataclass(slots=True)
class Batch:
    """A batch as it was last read or recorded: a row of graphrag.llm_batches.

    `input_file_id`, `remote_id`: empty until the endpoint assigns them. `asked`: its creation was requested; `due`: it
    should be polled now; `seconds`, `age`: since it was submitted, and made.
    """

    id: int
    corpus_id: int
    provider: str
    model: str
    mark: str
    state: str
    input_file_id: str
    remote_id: str
    polls: int
    asked: bool
    due: bool
    seconds: float
    age: float


_COLUMNS = (
    "b.id, b.corpus_id, b.provider, b.model, b.mark::text AS mark, b.state, b.polls,"
    " coalesce(b.input_file_id, '') AS input_file_id, coalesce(b.remote_id, '') AS remote_id,"
    " b.asked_at IS NOT NULL AS asked, b.next_poll_at <= pg_catalog.clock_timestamp() AS due,"
    " coalesce(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - b.submitted_at), 0) AS seconds,"
    " pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - b.created_at) AS age"
)
# Requests that a job waits for; WHERE … state <> 'failed' leaves out dead letters.
_WANTED = (
    'SELECT DISTINCT k.key COLLATE "C" AS key FROM graphrag.jobs j,'
    " pg_catalog.jsonb_array_elements_text(j.payload -> 'waiting') AS k (key)"
    " WHERE j.corpus_id = $1 AND j.payload ? 'waiting'"
)


def batches_of(db: Database, corpus_id: int, condition: str = "true") -> list[Batch]:
    """Return the batches of a corpus, oldest first."""
    sql = f"SELECT {_COLUMNS} FROM graphrag.llm_batches b WHERE b.corpus_id = $1 AND {condition} ORDER BY b.id"
    return [Batch(**row) for row in db.query(sql, ["int4"], [corpus_id])]


def begin(db: Database, corpus_id: int) -> tuple[bool, set[int]]:
    """Put collected requests into batches; return (whether some wait for more requests, the ids of the batches)."""
    lock(db, corpus_id)
    groups = db.query(
        "SELECT r.provider, r.model, pg_catalog.count(*) AS n,"
        " pg_catalog.min(r.created_at) < pg_catalog.now() - $2 * interval '1 second' AS old"
        "  FROM graphrag.llm_batch_requests r"
        " WHERE r.corpus_id = $1 AND r.state = 'unsent' AND r.not_before <= pg_catalog.now() GROUP BY 1, 2 ORDER BY 1, 2",
        ["int4", "int4"],
        [corpus_id, COLLECT_SECONDS],
    )
    is_collecting, begun_ids = False, set[int]()
    expecting = bool(groups) and bool(
        db.query(
            "SELECT FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.kind IN ('index', 'graph', 'summarize')"
            " AND j.state = 'pending' AND j.next_attempt_at <= pg_catalog.now() LIMIT 1",
            ["int4"],
            [corpus_id],
        )
    )
    for group in groups:
        try:
            provider = load_provider(db, group["provider"])
        except GraphRAGError:
            continue
        if not provider.batch:  # not any more: waiting jobs ask one by one
            continue
        if expecting and group["n"] < provider.batch_requests and not group["old"]:
            is_collecting = True
            continue
        rows = db.query(
            "SELECT r.id, pg_catalog.octet_length(r.messages::text) + 4000 AS bytes FROM graphrag.llm_batch_requests r"
            f" JOIN ({_WANTED} AND j.state <> 'failed') w ON w.key = r.key WHERE r.corpus_id = $1 AND r.state = 'unsent'"
            " AND r.not_before <= pg_catalog.now() AND r.provider = $2 AND r.model = $3 ORDER BY r.id",
            ["int4", "text", "text"],
            [corpus_id, group["provider"], group["model"]],
        )
        for part in _parts(rows, provider.batch_requests):
            begun_ids.add(_new_batch(db, corpus_id, group["provider"], group["model"], [row["id"] for row in part]))
    db.commit()
    return is_collecting, begun_ids


def _parts(rows: Sequence[Row], limit: int) -> list[list[Row]]:
    parts: list[list[Row]] = []
    size = 0
    for row in rows:
        if not parts or (len(parts[-1]) >= limit or size + row["bytes"] > MAX_FILE_BYTES):
            parts.append([])
            size = 0
        parts[-1].append(row)
        size += row["bytes"]
    return parts


def _new_batch(db: Database, corpus_id: int, provider: str, model: str, requests: list[int]) -> int:
    (new,) = db.query(
        "INSERT INTO graphrag.llm_batches (corpus_id, provider, model, requests) VALUES ($1, $2, $3, $4) RETURNING id",
        ["int4", "text", "text", "int4"],
        [corpus_id, provider, model, len(requests)],
    )
    db.query(
        "UPDATE graphrag.llm_batch_requests SET state = 'sent', batch_id = $1 WHERE id = ANY ($2)",
        ["int8", "int8[]"],
        [new["id"], requests],
    )
    return int(new["id"])


def record(db: Database, batch: Batch, assignments: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> None:
    """Record a batch's state, and commit."""
    rows = db.query(
        f"UPDATE graphrag.llm_batches b SET {assignments} WHERE b.id = $1 RETURNING {_COLUMNS}",
        ["int8", *types],
        [batch.id, *values],
    )
    db.commit()
    if not rows:
        raise GraphRAGError(f"batch {batch.id} is gone: its corpus was dropped", sqlstate="55000")
    for name, value in rows[0].items():
        setattr(batch, name, value)


def remaining_wait(db: Database, corpus_id: int, is_collecting: bool) -> Waiting | None:
    """Return the remaining requests to wait for; None: none, and the lock stays until the job is deleted.

    Requests that no job waits for are deleted, unless a job has not begun yet. Failed ones are deleted when there is no job
    at all: a job that waits for their replacement asks for that first.
    """
    if is_collecting:
        return Waiting("requests are being collected", seconds=1.0)
    lock(db, corpus_id)
    db.query(
        "DELETE FROM graphrag.llm_batch_requests r WHERE r.corpus_id = $1 AND r.state <> 'sent'"
        f" AND NOT EXISTS (SELECT FROM ({_WANTED}) w WHERE w.key = r.key)"
        " AND (r.created_at < pg_catalog.now()"
        " - CASE WHEN r.state = 'spoiled' OR r.too_long THEN interval '30 days' ELSE interval '1 day' END"
        " OR NOT EXISTS (SELECT FROM graphrag.jobs o WHERE o.corpus_id = $1 AND o.kind IN ('index', 'graph', 'summarize')"
        " AND o.state <> 'failed' AND (r.state = 'spoiled' OR r.too_long OR NOT o.payload ? 'waiting')))",
        ["int4"],
        [corpus_id],
    )
    db.query(
        "DELETE FROM graphrag.llm_batches b WHERE b.corpus_id = $1 AND b.state IN ('done', 'failed')"
        " AND b.finished_at < pg_catalog.now() - $2 * interval '1 day'",
        ["int4", "int4"],
        [corpus_id, KEPT_DAYS],
    )
    (row,) = db.query(
        "SELECT (SELECT pg_catalog.count(*) FROM graphrag.llm_batch_requests r WHERE r.corpus_id = $1) AS requests,"
        " pg_catalog.count(*) AS batches, pg_catalog.date_part('epoch', least(pg_catalog.min(b.next_poll_at),"
        " (SELECT pg_catalog.min(r.not_before) FROM graphrag.llm_batch_requests r WHERE r.corpus_id = $1"
        "     AND r.state = 'unsent' AND r.not_before > pg_catalog.now())) - pg_catalog.now()) AS seconds"
        "  FROM graphrag.llm_batches b WHERE b.corpus_id = $1 AND b.state NOT IN ('done', 'failed')",
        ["int4"],
        [corpus_id],
    )
    if not row["requests"] and not row["batches"]:
        return None
    seconds = max(1.0, MAX_LOOK if row["seconds"] is None else float(row["seconds"]))
    return Waiting(f"{row['requests']} requests wait for {row['batches']} batches", seconds=seconds)


# Batches without an answer to a request before it is given up.
MAX_TRIES = 3
# Requests of a failed batch wait this long; longer where the endpoint's queue was full.
AGAIN_SECONDS, FULL_SECONDS = 60.0, 900.0

_LOST_HINT = (
    "\nHINT:  See at the endpoint what became of the batch (it may be paid for); graphrag.retry_failed() asks again, in"
    " another one."
)


def conclude(
    db: Database,
    provider: Provider | None,
    batch: Batch,
    lines: dict[str, api.Line],
    state: str,
    reason: str | None,
    is_queue_full: bool = False,
    is_lost: bool = False,
) -> None:
    """Record a batch's outcome and cost, and wake the jobs that wait for it. One transaction.

    `provider` is None if it was dropped: another one must be asked. `is_queue_full`: the endpoint had no room, which is no
    fault of the requests. `is_lost`: unanswered requests may still be done and paid, so they are not sent again.
    """
    corpus_id = batch.corpus_id
    lock(db, corpus_id)
    rows = db.query(
        "SELECT r.id, r.key, r.purpose, r.tries FROM graphrag.llm_batch_requests r WHERE r.batch_id = $1 ORDER BY r.id",
        ["int8"],
        [batch.id],
    )
    outcomes = [(row, lines.get(str(row["id"]), api.Line(answered=False, error=reason or "no answer"))) for row in rows]
    answered = [(row, line) for row, line in outcomes if line.answered]
    if provider is not None:
        _account(db, provider, batch, answered)
    wait = FULL_SECONDS if is_queue_full else AGAIN_SECONDS
    retries = []
    abandoned: list[tuple[Row, str]] = []
    for row, line in outcomes:
        if not line.answered:
            tries = row["tries"] + (line.refused_field is None and not is_queue_full)
            if is_lost or tries >= MAX_TRIES:
                abandoned.append((row, line.error or ""))
            else:
                retries.append((row["id"], tries, 0.0 if line.refused_field else wait, line.refused_field, line.error))
    db.query_rows(
        "UPDATE graphrag.llm_batch_requests r SET state = 'unsent', batch_id = NULL, tries = u.tries, error = u.error,"
        " not_before = pg_catalog.now() + u.wait * interval '1 second',"
        " refused = CASE WHEN u.refused IS NULL THEN r.refused ELSE r.refused || u.refused END"
        "  FROM unnest($1, $2, $3, $4, $5) AS u (id, tries, wait, refused, error) WHERE r.id = u.id",
        ["int8[]", "int4[]", "float8[]", "text[]", "text[]"],
        retries,
    )
    if abandoned:
        error = f'provider "{batch.provider}" gave no answer in {MAX_TRIES} batches: {abandoned[0][1]}'
        if is_lost:
            error = f'provider "{batch.provider}" gave no answer: {reason}{_LOST_HINT}'
        give_up(db, corpus_id, [row["key"] for row, _ in abandoned], error, forget=True)
    db.query(
        "UPDATE graphrag.jobs SET next_attempt_at = pg_catalog.now() WHERE id IN ("
        "SELECT j.id FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.state = 'pending' AND j.payload ? 'waiting' AND EXISTS"
        " (SELECT FROM pg_catalog.jsonb_array_elements_text(j.payload -> 'waiting') AS k (key)"
        '    JOIN graphrag.llm_batch_requests r ON r.corpus_id = $1 AND r.key = k.key COLLATE "C"'
        "   WHERE r.state = 'answered' OR $2) FOR UPDATE SKIP LOCKED)",
        ["int4", "bool"],
        [corpus_id, provider is None],
    )
    record(
        db,
        batch,
        "state = $2, error = $3, finished_at = pg_catalog.clock_timestamp()",
        ["text", "text"],
        [state, reason],
    )


def _account(db: Database, provider: Provider, batch: Batch, answered: Sequence[tuple[Row, api.Line]]) -> None:
    """Keep the answers until they are read, and record the calls at the price of a batch."""
    calls = reserve(db, "llm_calls_id_seq", len(answered))
    for part in slices(zip(answered, calls, strict=True)):
        call_rows, answer_rows = [], []
        for (row, line), call in part:
            tokens = line.tokens or (0, 0)
            price = cost(provider, *tokens) * provider.batch_price
            call_rows.append((call, row["purpose"], *tokens, price, line.error and line.error[:500]))
            Meter(db, batch.corpus_id).add(price)
            answer_rows.append((row["id"], line.reply, line.cut_off, line.error, line.too_long, call))
        db.query(
            "INSERT INTO graphrag.llm_calls"
            " (id, corpus_id, provider, model, purpose, tokens_in, tokens_out, cost, seconds, error)"
            " SELECT u.id, $1, $2, $3, u.purpose, u.tokens_in, u.tokens_out, u.cost, $4, u.error"
            "   FROM unnest($5, $6, $7, $8, $9, $10) AS u (id, purpose, tokens_in, tokens_out, cost, error)",
            ["int4", "text", "text", "float8", "int8[]", "text[]", "int4[]", "int4[]", "numeric[]", "text[]"],
            [batch.corpus_id, provider.name, batch.model, batch.seconds, *columns(call_rows)],
        )
        db.query(
            "UPDATE graphrag.llm_batch_requests r SET state = 'answered', batch_id = NULL, reply = u.reply,"
            " cut_off = u.cut_off, error = u.error, too_long = u.too_long, call_id = u.call_id"
            "  FROM unnest($1, $2, $3, $4, $5, $6) AS u (id, reply, cut_off, error, too_long, call_id) WHERE r.id = u.id",
            ["int8[]", "text[]", "bool[]", "text[]", "bool[]", "int8[]"],
            columns(answer_rows),
        )


def give_up(db: Database, corpus_id: int, keys: list[str], error: str, forget: bool) -> None:
    """Make dead letters of the jobs that wait for requests; with `forget`, delete the requests too."""
    if forget:
        db.query(
            "DELETE FROM graphrag.llm_batch_requests WHERE corpus_id = $1 AND key = ANY ($2)",
            ["int4", "text[]"],
            [corpus_id, keys],
        )
    db.query(
        "WITH dead AS (UPDATE graphrag.jobs SET state = 'failed', errors = errors + 1, last_error = $3,"
        " payload = CASE WHEN $4 THEN payload - 'waiting' ELSE payload END WHERE id IN ("
        "SELECT j.id FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.state = 'pending' AND j.payload ? 'waiting' AND EXISTS"
        " (SELECT FROM pg_catalog.jsonb_array_elements_text(j.payload -> 'waiting') AS k (key)"
        '   WHERE k.key COLLATE "C" IN (SELECT u FROM pg_catalog.unnest($2) u)) FOR UPDATE SKIP LOCKED)'
        " RETURNING document_id)"
        " UPDATE graphrag.documents d SET status = 'failed', error = $3 FROM dead"
        " WHERE d.id = dead.document_id AND d.indexed_at IS NULL",
        ["int4", "text[]", "text", "bool"],
        [corpus_id, keys, error, forget],
    )
