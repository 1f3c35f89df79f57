"""Outcomes of a batch's requests: answers, another batch, or dead letters; and their costs."""

from collections.abc import Sequence

from pg_graphrag.index.indexing.batch_rows import Batch, record
from pg_graphrag.llm.endpoints import batch_api as api
from pg_graphrag.llm.endpoints.collector import lock
from pg_graphrag.llm.endpoints.ledger import cost
from pg_graphrag.llm.endpoints.meters import Meter
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.server import Database, Row, columns, reserve, slices

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

    `provider` is None where it was dropped: another one has to be asked. `is_queue_full`: the endpoint had no room, which is
    no fault of the requests. `is_lost`: unanswered requests may still be done and paid, so they are not asked again.
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
