"""Batches at an endpoint: take there what was collected, look how far it is, bring back what it answered.

The other side, which collects and reads, is `pg_graphrag.llm.collector`. Each step is written down before and after the
endpoint hears of it, so that a worker that is killed anywhere costs nothing twice: a batch whose creation was asked for,
but not confirmed, is looked for by its mark before it is asked for again.
"""

import contextlib
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.llm import batch_api as api
from pg_graphrag.llm import wire
from pg_graphrag.llm.collector import lock
from pg_graphrag.llm.faults import ProviderFault, Waiting
from pg_graphrag.llm.ledger import cost
from pg_graphrag.llm.limits import Breaker
from pg_graphrag.llm.loop import Requests
from pg_graphrag.llm.providers import Provider, load
from pg_graphrag.server import Database, Row, columns, reserve, slices

POLL_SECONDS = 0.1
# The endpoint is asked how far it is after 10 s, then each time after half as long again, up to ten minutes.
FIRST_LOOK, LOOK_FACTOR, MAX_LOOK = 10.0, 1.5, 600.0
# Collected requests wait so long for more of them, while there are documents that nobody has looked at.
COLLECT_SECONDS = 600
# So long after a creation that was not confirmed, the endpoint's list of batches is believed not to have it.
UNSURE_SECONDS = 60
# Batches without an answer to a request before it is given up.
MAX_TRIES = 3
# What a batch that came to nothing is tried again after; where the endpoint's queue was full, rather later.
AGAIN_SECONDS, FULL_SECONDS = 60.0, 900.0
# A file of requests is not made larger: half of what OpenAI takes.
MAX_FILE_BYTES = 100_000_000
# Results that are not the API's are asked for again until the batch is so old; then what can be read of them is used.
GARBLED_SECONDS = 3 * 86400
KEPT_DAYS = 90

_COLUMNS = (
    "b.id, b.corpus_id, b.provider, b.model, b.mark::text AS mark, b.state, b.input_file_id, b.remote_id, b.polls,"
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


class _Endpoint:
    """A provider, asked one thing at a time with no transaction open, while cancel gets through."""

    def __init__(self, db: Database, name: str) -> None:
        self._db = db
        self.provider = load(db, name)
        self._breaker = Breaker(db, self.provider, True)
        try:
            self._key = self.provider.api_key()
        except GraphRAGError as error:
            raise ProviderFault(error.message, permanent=True, hint=error.hint) from None

    def ask(self, what: Callable[[Provider, str | None], Coroutine[Any, Any, Any]]) -> Any:
        """Return what the coroutine made by `what` (provider, key) returns. Ends the transaction."""
        self._db.commit()
        if self._breaker.fault is not None:
            raise self._breaker.fault
        started, requests = time.monotonic(), Requests()
        try:
            requests.start(None, partial(what, self.provider, self._key))
            while (ended := requests.take(POLL_SECONDS)) is None:
                self._db.literal_query("SELECT 1")
                self._db.rollback()
        finally:
            requests.cancel()
        _, result, error = ended
        if isinstance(error, ProviderFault) and not isinstance(error, api.Missing):
            self._breaker.failed(error, started)
        else:
            self._breaker.succeeded()
        self._breaker.save()
        self._db.commit()
        if error is not None:
            raise error
        return result


def carry(db: Database, corpus: Corpus, job: Row) -> bool:
    """Serve a job of kind batch: everything that can be done now; True when nothing is left. Commits.

    Raises
    ------
    Waiting
        There is more to do later.
    ProviderFault
        The endpoint does not answer at the moment.
    """
    more, begun = _begin(db, corpus.id)
    faults: list[ProviderFault] = []
    endpoints: dict[str, _Endpoint] = {}
    unfinished = db.query(
        f"SELECT {_COLUMNS} FROM graphrag.llm_batches b WHERE b.corpus_id = $1 AND b.state NOT IN ('done', 'failed')"
        " ORDER BY b.id",
        ["int4"],
        [corpus.id],
    )
    for batch in map(dict, unfinished):
        if not batch["due"]:
            continue
        try:
            if batch["provider"] not in endpoints:
                endpoints[batch["provider"]] = _Endpoint(db, batch["provider"])
            _advance(db, endpoints[batch["provider"]], batch, batch["id"] in begun)
        except ProviderFault as fault:
            if fault.permanent:
                _refused(db, batch, fault)
            else:
                faults.append(fault)
        except GraphRAGError as error:
            if error.sqlstate != "42704":  # the provider was dropped
                raise
            _written(db, None, batch, {}, "failed", error.message)
    waiting = _left(db, corpus.id, more)
    if waiting is None:
        return True
    db.commit()
    raise faults[0] if faults else waiting


def _begin(db: Database, corpus_id: int) -> tuple[bool, set[int]]:
    """Put what was collected together into batches; return (whether it waits for more to come, their ids)."""
    lock(db, corpus_id)
    groups = db.query(
        "SELECT r.provider, r.model, pg_catalog.count(*) AS n,"
        " pg_catalog.min(r.created_at) < pg_catalog.now() - $2 * interval '1 second' AS old"
        "  FROM graphrag.llm_batch_requests r"
        " WHERE r.corpus_id = $1 AND r.state = 'unsent' AND r.not_before <= pg_catalog.now() GROUP BY 1, 2 ORDER BY 1, 2",
        ["int4", "int4"],
        [corpus_id, COLLECT_SECONDS],
    )
    more, begun = False, set[int]()
    expecting = bool(groups) and bool(
        db.query(
            "SELECT FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.kind IN ('index', 'summarize')"
            " AND j.state = 'pending' AND j.next_attempt_at <= pg_catalog.now() LIMIT 1",
            ["int4"],
            [corpus_id],
        )
    )
    for group in groups:
        try:
            provider = load(db, group["provider"])
        except GraphRAGError:
            continue
        if not provider.batch:  # not any more: who waits asks by itself
            continue
        if expecting and group["n"] < provider.batch_requests and not group["old"]:
            more = True
            continue
        rows = db.query(
            "SELECT r.id, pg_catalog.octet_length(r.messages::text) + 4000 AS bytes FROM graphrag.llm_batch_requests r"
            f" JOIN ({_WANTED} AND j.state <> 'failed') w ON w.key = r.key WHERE r.corpus_id = $1 AND r.state = 'unsent'"
            " AND r.not_before <= pg_catalog.now() AND r.provider = $2 AND r.model = $3 ORDER BY r.id",
            ["int4", "text", "text"],
            [corpus_id, group["provider"], group["model"]],
        )
        for part in _parts(rows, provider.batch_requests):
            begun.add(_new(db, corpus_id, group["provider"], group["model"], [row["id"] for row in part]))
    db.commit()
    return more, begun


def _parts(rows: Sequence[Row], most: int) -> list[list[Row]]:
    parts: list[list[Row]] = []
    size = 0
    for row in rows:
        if not parts or (len(parts[-1]) >= most or size + row["bytes"] > MAX_FILE_BYTES):
            parts.append([])
            size = 0
        parts[-1].append(row)
        size += row["bytes"]
    return parts


def _new(db: Database, corpus_id: int, provider: str, model: str, requests: list[int]) -> int:
    (batch,) = db.query(
        "INSERT INTO graphrag.llm_batches (corpus_id, provider, model, requests) VALUES ($1, $2, $3, $4) RETURNING id",
        ["int4", "text", "text", "int4"],
        [corpus_id, provider, model, len(requests)],
    )
    db.query(
        "UPDATE graphrag.llm_batch_requests SET state = 'sent', batch_id = $1 WHERE id = ANY ($2)",
        ["int8", "int8[]"],
        [batch["id"], requests],
    )
    return int(batch["id"])


def _set(db: Database, batch: Row, assignments: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> None:
    """Write down how far a batch is, committed."""
    rows = db.query(
        f"UPDATE graphrag.llm_batches b SET {assignments} WHERE b.id = $1 RETURNING {_COLUMNS}",
        ["int8", *types],
        [batch["id"], *values],
    )
    db.commit()
    if not rows:
        raise GraphRAGError(f"batch {batch['id']} is gone: its corpus was dropped", sqlstate="55000")
    batch.update(rows[0])


def _advance(db: Database, endpoint: _Endpoint, batch: Row, fresh: bool) -> None:
    """Take a batch as far as it goes now. `fresh`: no worker has begun with it before."""
    if batch["state"] == "uploading":
        file = None if fresh else endpoint.ask(partial(api.find_file, mark=batch["mark"]))
        if file is None:
            lines = [
                {"custom_id": name, "method": "POST", "url": api.ENDPOINT, "body": body}
                for name, body in _bodies(db, endpoint.provider, batch).items()
            ]
            content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
            del lines
            file = endpoint.ask(partial(api.upload, mark=batch["mark"], content=content))
        _set(db, batch, "state = 'creating', input_file_id = $2", ["text"], [file])
    if batch["state"] == "creating":
        _create(db, endpoint, batch)
    elif batch["state"] == "open":
        _look(db, endpoint, batch)
    elif batch["state"] == "read":
        _clear(db, endpoint, batch, None)


def _create(db: Database, endpoint: _Endpoint, batch: Row) -> None:
    mark, file = batch["mark"], batch["input_file_id"]
    made = None
    if batch["asked"]:
        made = endpoint.ask(partial(api.find_batch, mark=mark, file=file))
    if made is None:
        _set(
            db,
            batch,
            "asked_at = pg_catalog.clock_timestamp(),"
            " next_poll_at = pg_catalog.clock_timestamp() + $2 * interval '1 second'",
            ["float8"],
            [float(UNSURE_SECONDS)],
        )
        try:
            made = endpoint.ask(partial(api.create, mark=mark, file=file))
        except ProviderFault as fault:
            if fault.permanent:
                batch["asked"] = False  # and refused, so there is none
            raise
    _set(
        db,
        batch,
        "state = 'open', remote_id = $2, remote_state = $3, submitted_at = pg_catalog.clock_timestamp(),"
        " next_poll_at = pg_catalog.clock_timestamp() + $4 * interval '1 second'",
        ["text", "text", "float8"],
        [made["id"], _status(made), FIRST_LOOK],
    )


def _status(made: dict[str, Any]) -> str:
    return str(made.get("status"))[:50]


def _look(db: Database, endpoint: _Endpoint, batch: Row) -> None:
    """Ask how far the endpoint is; when it is at the end, bring back what there is."""
    try:
        made = endpoint.ask(partial(api.look, batch=batch["remote_id"]))
    except api.Missing:
        _written(db, endpoint, batch, {}, "failed", "the endpoint does not know the batch any more")
        return
    counts = made.get("request_counts") if isinstance(made.get("request_counts"), dict) else {}
    completed, failed = (_count(counts.get(name)) for name in ("completed", "failed"))
    _set(
        db,
        batch,
        "remote_state = $2, completed = $3, failed = $4, polls = b.polls + 1,"
        " next_poll_at = pg_catalog.clock_timestamp() + $5 * interval '1 second'",
        ["text", "int4", "int4", "float8"],
        [_status(made), completed, failed, min(FIRST_LOOK * LOOK_FACTOR ** min(batch["polls"] + 1, 20), MAX_LOOK)],
    )
    if made.get("status") not in api.ENDED:
        return
    asked = _bodies(db, endpoint.provider, batch)
    lines: dict[str, api.Line] = {}
    strict = batch["seconds"] < GARBLED_SECONDS
    for file in _result_files(made):
        with contextlib.suppress(api.Missing):
            lines |= endpoint.ask(partial(api.results, file=file, asked=asked, strict=strict))
    del asked
    _written(
        db, endpoint, batch, lines, "read", _why(made), full="token_limit_exceeded" in json.dumps(made.get("errors"))
    )
    _clear(db, endpoint, batch, made)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def _result_files(made: dict[str, Any]) -> list[str]:
    return [file for name in ("output_file_id", "error_file_id") if isinstance(file := made.get(name), str) and file]


def _why(made: dict[str, Any]) -> str | None:
    """What the endpoint says went wrong with a batch as a whole."""
    if made.get("status") == "completed":
        return None
    errors = made.get("errors")
    data = errors.get("data") if isinstance(errors, dict) else None
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
    said = first.get("message") or first.get("code")
    return f"the endpoint's batch {_status(made)}" + (f": {said}"[:500] if said else "")


def _bodies(db: Database, provider: Provider, batch: Row) -> dict[str, dict[str, Any]]:
    """Return {custom_id: body} of a batch's requests."""
    rows = db.query(
        "SELECT r.id, r.messages, r.schema, r.temperature, r.refused FROM graphrag.llm_batch_requests r"
        " WHERE r.batch_id = $1 ORDER BY r.id",
        ["int8"],
        [batch["id"]],
    )
    bodies = {}
    for row in rows:
        schema = None if row["schema"] is None else json.loads(row["schema"])
        call = wire.Call(batch["model"], json.loads(row["messages"]), schema, row["temperature"])
        bodies[str(row["id"])] = wire.chat_body(provider, call, frozenset(row["refused"]))
    return bodies


def _written(
    db: Database,
    endpoint: _Endpoint | None,
    batch: Row,
    lines: dict[str, api.Line],
    state: str,
    why: str | None,
    full: bool = False,
) -> None:
    """Write down what became of a batch, and what it cost; wake who waits for it. One transaction.

    `endpoint` is None where the provider is gone: another one has to be asked. `full`: the endpoint had no room for it,
    which is no fault of its requests.
    """
    corpus_id = batch["corpus_id"]
    lock(db, corpus_id)
    rows = db.query(
        "SELECT r.id, r.key, r.purpose, r.tries FROM graphrag.llm_batch_requests r WHERE r.batch_id = $1 ORDER BY r.id",
        ["int8"],
        [batch["id"]],
    )
    found = [(row, lines.get(str(row["id"]), api.Line(answered=False, error=why or "no answer"))) for row in rows]
    answered = [(row, line) for row, line in found if line.answered]
    if endpoint is not None:
        _account(db, endpoint.provider, batch, answered)
    wait = FULL_SECONDS if full else AGAIN_SECONDS
    again = []
    given_up: list[tuple[Row, str]] = []
    for row, line in found:
        if not line.answered:
            tries = row["tries"] + (line.refused is None and not full)
            if tries >= MAX_TRIES:
                given_up.append((row, line.error or ""))
            else:
                again.append((row["id"], tries, 0.0 if line.refused else wait, line.refused, line.error))
    for part in slices(again):
        db.query(
            "UPDATE graphrag.llm_batch_requests r SET state = 'unsent', batch_id = NULL, tries = u.tries, error = u.error,"
            " not_before = pg_catalog.now() + u.wait * interval '1 second',"
            " refused = CASE WHEN u.refused IS NULL THEN r.refused ELSE r.refused || u.refused END"
            "  FROM unnest($1, $2, $3, $4, $5) AS u (id, tries, wait, refused, error) WHERE r.id = u.id",
            ["int8[]", "int4[]", "float8[]", "text[]", "text[]"],
            columns(part),
        )
    if given_up:
        error = f'provider "{batch["provider"]}" gave no answer in {MAX_TRIES} batches: {given_up[0][1]}'
        _give_up(db, corpus_id, [row["key"] for row, _ in given_up], error, forget=True)
    db.query(
        "UPDATE graphrag.jobs SET next_attempt_at = pg_catalog.now() WHERE id IN ("
        "SELECT j.id FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.state = 'pending' AND j.payload ? 'waiting' AND EXISTS"
        " (SELECT FROM pg_catalog.jsonb_array_elements_text(j.payload -> 'waiting') AS k (key)"
        '    JOIN graphrag.llm_batch_requests r ON r.corpus_id = $1 AND r.key = k.key COLLATE "C"'
        "   WHERE r.state = 'answered' OR $2) FOR UPDATE SKIP LOCKED)",
        ["int4", "bool"],
        [corpus_id, endpoint is None],
    )
    _set(
        db,
        batch,
        "state = $2, error = $3, finished_at = pg_catalog.clock_timestamp()",
        ["text", "text"],
        [state, why],
    )


def _account(db: Database, provider: Provider, batch: Row, answered: Sequence[tuple[Row, api.Line]]) -> None:
    """Keep the answers until they are read, and note the calls at the price of a batch."""
    calls = reserve(db, "llm_calls_id_seq", len(answered))
    for part in slices(zip(answered, calls, strict=True)):
        noted, kept = [], []
        for (row, line), call in part:
            tokens = line.tokens or (0, 0)
            price = cost(provider, *tokens) * provider.batch_price
            noted.append((call, row["purpose"], *tokens, price, line.error and line.error[:500]))
            kept.append((row["id"], line.reply, line.cut_off, line.error, line.too_long, call))
        db.query(
            "INSERT INTO graphrag.llm_calls"
            " (id, corpus_id, provider, model, purpose, tokens_in, tokens_out, cost, seconds, error)"
            " SELECT u.id, $1, $2, $3, u.purpose, u.tokens_in, u.tokens_out, u.cost, $4, u.error"
            "   FROM unnest($5, $6, $7, $8, $9, $10) AS u (id, purpose, tokens_in, tokens_out, cost, error)",
            ["int4", "text", "text", "float8", "int8[]", "text[]", "int4[]", "int4[]", "numeric[]", "text[]"],
            [batch["corpus_id"], provider.name, batch["model"], batch["seconds"], *columns(noted)],
        )
        db.query(
            "UPDATE graphrag.llm_batch_requests r SET state = 'answered', batch_id = NULL, reply = u.reply,"
            " cut_off = u.cut_off, error = u.error, too_long = u.too_long, call_id = u.call_id"
            "  FROM unnest($1, $2, $3, $4, $5, $6) AS u (id, reply, cut_off, error, too_long, call_id) WHERE r.id = u.id",
            ["int8[]", "text[]", "bool[]", "text[]", "bool[]", "int8[]"],
            columns(kept),
        )


def _give_up(db: Database, corpus_id: int, keys: list[str], error: str, forget: bool) -> None:
    """Make dead letters of the jobs that wait for requests; `forget` these, too."""
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


def _refused(db: Database, batch: Row, fault: ProviderFault) -> None:
    """Deal with a fault that will not pass: what waits for the batch becomes dead letters that say why.

    What the endpoint may have is kept: retry_failed() asks for it again.
    """
    db.rollback()
    text = f"{type(fault).__name__}: {fault.message}" + (f"\nHINT:  {fault.hint}" if fault.hint else "")
    gone = batch["state"] == "uploading" or (batch["state"] == "creating" and not batch["asked"])
    lock(db, batch["corpus_id"])
    keys = db.query("SELECT r.key FROM graphrag.llm_batch_requests r WHERE r.batch_id = $1", ["int8"], [batch["id"]])
    _give_up(db, batch["corpus_id"], [row["key"] for row in keys], text, forget=gone)
    if gone:
        _set(
            db,
            batch,
            "state = 'failed', error = $2, finished_at = pg_catalog.clock_timestamp()",
            ["text"],
            [fault.message],
        )
    else:
        _set(
            db,
            batch,
            "error = $2, next_poll_at = pg_catalog.clock_timestamp() + $3 * interval '1 second'",
            ["text", "float8"],
            [fault.message, MAX_LOOK],
        )


def _clear(db: Database, endpoint: _Endpoint, batch: Row, made: dict[str, Any] | None) -> None:
    """Delete a batch's files at the endpoint. What cannot be deleted is left to expire there."""
    try:
        if made is None:
            made = endpoint.ask(partial(api.look, batch=batch["remote_id"]))
        for file in (batch["input_file_id"], *_result_files(made or {})):
            endpoint.ask(partial(api.delete_file, file=file))
    except ProviderFault as fault:
        if not fault.permanent and batch["age"] < KEPT_DAYS * 86400:
            raise
    _set(db, batch, "state = 'done'")


def _left(db: Database, corpus_id: int, more: bool) -> Waiting | None:
    """Return what there is to wait for; None: nothing, and the lock is held until the job is gone.

    Requests that no job wants any more are forgotten, unless there is one that has not looked yet; prompts that were too
    long, when there is none at all: who waits for the parts will ask for the whole first.
    """
    if more:
        return Waiting("requests are being collected", seconds=1.0)
    lock(db, corpus_id)
    db.query(
        "DELETE FROM graphrag.llm_batch_requests r WHERE r.corpus_id = $1 AND r.state <> 'sent'"
        f" AND NOT EXISTS (SELECT FROM ({_WANTED}) w WHERE w.key = r.key)"
        " AND (r.created_at < pg_catalog.now() - CASE WHEN r.too_long THEN interval '30 days' ELSE interval '1 day' END"
        " OR NOT EXISTS (SELECT FROM graphrag.jobs o WHERE o.corpus_id = $1 AND o.kind IN ('index', 'summarize')"
        " AND o.state <> 'failed' AND (r.too_long OR NOT o.payload ? 'waiting')))",
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


def await_answers(db: Database, worker: int, job: Row, fault: Waiting, text: str) -> None:
    """Let a leased job wait for the answers to `fault.keys`, its attempt given back; not if one is there already."""
    keys = sorted(fault.keys)
    lock(db, job["corpus_id"])
    db.query(
        "UPDATE graphrag.jobs SET state = 'pending', lease = NULL, attempts = attempts - 1, last_error = $3,"
        " payload = payload || pg_catalog.jsonb_build_object('waiting', pg_catalog.to_jsonb($4)),"
        " next_attempt_at = pg_catalog.now() + CASE WHEN pg_catalog.cardinality($4) ="
        " (SELECT pg_catalog.count(*) FROM graphrag.llm_batch_requests r WHERE r.corpus_id = jobs.corpus_id"
        " AND r.key = ANY ($4) AND r.state IN ('unsent', 'sent')) THEN $5 ELSE 0 END * interval '1 second'"
        " WHERE id IN (SELECT j.id FROM graphrag.jobs j WHERE j.id = $1 AND j.lease = $2 FOR UPDATE SKIP LOCKED)",
        ["int8", "int4", "text", "text[]", "float8"],
        [job["id"], worker, text, keys, fault.seconds],
    )


def abandon(db: Database, corpus_id: int) -> bool:
    """Serve the job that a dropped corpus leaves: cancel its batches at the endpoints, delete their files. Commits.

    Raises
    ------
    Waiting, ProviderFault
        It is not done yet; a day later it counts as done.
    """
    rows = db.query(
        f"SELECT {_COLUMNS} FROM graphrag.llm_batches b WHERE b.corpus_id = $1 ORDER BY b.id", ["int4"], [corpus_id]
    )
    left: GraphRAGError | None = None
    for batch in map(dict, rows):
        try:
            _cancel(db, batch)
        except GraphRAGError as fault:
            permanent = not isinstance(fault, Waiting) and getattr(fault, "permanent", True)
            if not permanent and batch["age"] < 86400:
                left = fault
                continue
        db.query("DELETE FROM graphrag.llm_batches WHERE id = $1", ["int8"], [batch["id"]])
        db.commit()
    if left is not None:
        raise left
    return True


def _cancel(db: Database, batch: Row) -> None:
    endpoint = _Endpoint(db, batch["provider"])
    mark, file, remote = batch["mark"], batch["input_file_id"], batch["remote_id"]
    made: dict[str, Any] | None = None
    if file is None:
        file = endpoint.ask(partial(api.find_file, mark=mark))
    if remote is not None:
        try:
            made = endpoint.ask(partial(api.look, batch=remote))
        except api.Missing:
            made = None
    elif batch["asked"]:
        made = endpoint.ask(partial(api.find_batch, mark=mark, file=file))
    if made is not None and made.get("status") not in api.ENDED:
        if made.get("status") != "cancelling":
            endpoint.ask(partial(api.cancel, batch=made["id"]))
        raise Waiting(f"batch {made['id']} is being cancelled", seconds=FIRST_LOOK)
    for name in (file, *_result_files(made or {})):
        if name is not None:
            endpoint.ask(partial(api.delete_file, file=name))
