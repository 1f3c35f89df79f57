"""Batches at an endpoint: uploads collected requests, polls, and stores the answers.

`pg_graphrag.llm.endpoints.collector` collects requests and reads answers. Each step is recorded before and after the
call of the endpoint, so that a killed worker leads to no double payment: a batch whose creation was not confirmed is
looked up by its mark before it is created again.
"""

import contextlib
import json
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.indexing.batch_rows import (
    KEPT_DAYS,
    MAX_LOOK,
    Batch,
    batches_of,
    begin,
    conclude,
    give_up,
    record,
    remaining_wait,
)
from pg_graphrag.llm.endpoints import batch_api as api
from pg_graphrag.llm.endpoints import wire
from pg_graphrag.llm.endpoints.collector import lock
from pg_graphrag.llm.endpoints.faults import ProviderFault, Waiting
from pg_graphrag.llm.endpoints.ledger import hold_replies
from pg_graphrag.llm.endpoints.loop import Requests
from pg_graphrag.llm.endpoints.provider_limits import Breaker
from pg_graphrag.llm.endpoints.providers import Provider, load_provider
from pg_graphrag.llm.endpoints.transport import words_of
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.queue import Job
from pg_graphrag.text.letters import clean

POLL_SECONDS = 0.1
# The first poll comes after 10 s; each further interval is half as long again, up to ten minutes.
FIRST_LOOK, LOOK_FACTOR = 10.0, 1.5
# After an unconfirmed creation, a batch that is missing in the endpoint's list this much later does not exist.
UNSURE_SECONDS = 60
# A batch is cancelled when it has not ended this long after its creation (api.WINDOW is a day), and given up as lost later.
OVERDUE_SECONDS, LOST_SECONDS = 1.5 * 86400, 2 * 86400
# Unreadable results are fetched again until the batch is this old; then their readable part is used.
GARBLED_SECONDS = 3 * 86400


class _Endpoint:
    """A provider: one request at a time, no transaction open, interruptible by cancel. `corpus`: None for one that is gone."""

    def __init__(self, db: Database, name: str, corpus: Corpus | None) -> None:
        self._db = db
        self._corpus = corpus
        self.provider = load_provider(db, name)
        self._breaker = Breaker(db, self.provider, True)
        try:
            self._key = self.provider.api_key()
        except GraphRAGError as error:
            raise ProviderFault(error.message, permanent=True, hint=error.hint) from None

    def ask(self, request: Callable[[Provider, str | None], Coroutine[Any, Any, Any]]) -> Any:
        """Return the result of the coroutine `request(provider, key)`. Ends the transaction."""
        self._db.commit()
        if self._breaker.fault is not None:
            raise self._breaker.fault
        start, requests = time.monotonic(), Requests()
        try:
            requests.start(None, partial(request, self.provider, self._key))
            while True:
                with self._db.waiting():
                    outcome = requests.take(POLL_SECONDS)
                if outcome is not None:
                    break
                self._db.poll()
                self._db.rollback()
        finally:
            requests.cancel()
        _, result, error = outcome
        if isinstance(error, ProviderFault) and not isinstance(error, api.Missing):
            self._breaker.failed(error, start)
        else:
            self._breaker.succeeded()
        corpus = self._corpus
        self._breaker.save(keeps_words=corpus is not None and hold_replies(self._db, corpus) == corpus.forgets)
        self._db.commit()
        if error is not None:
            raise error
        return result


def advance_batches(db: Database, corpus: Corpus, job: Job) -> bool:
    """Serve a job of kind batch: do all that can be done now; True when nothing is left. Commits.

    Raises Waiting: there is more to do later.
    Raises ProviderFault: the endpoint does not answer at the moment.
    """
    is_collecting, begun_ids = begin(db, corpus.id)
    faults: list[ProviderFault] = []
    endpoints: dict[str, _Endpoint] = {}
    for batch in batches_of(db, corpus.id, "b.state NOT IN ('done', 'failed')"):
        if not batch.due:
            continue
        try:
            if batch.provider not in endpoints:
                endpoints[batch.provider] = _Endpoint(db, batch.provider, corpus)
            _advance(db, endpoints[batch.provider], batch, batch.id in begun_ids)
        except ProviderFault as fault:
            if fault.permanent:
                _give_up_batch(db, batch, fault)
            else:
                faults.append(fault)
        except GraphRAGError as error:
            if error.sqlstate != "42704":  # the provider was dropped
                raise
            conclude(db, None, batch, {}, "failed", error.message)
    wait = remaining_wait(db, corpus.id, is_collecting)
    if wait is None:
        return True
    db.commit()
    raise faults[0] if faults else wait


def _advance(db: Database, endpoint: _Endpoint, batch: Batch, is_fresh: bool) -> None:
    """Advance a batch as far as possible. `is_fresh`: no worker has begun it before."""
    if batch.state == "uploading":
        file = None if is_fresh else endpoint.ask(partial(api.find_file, mark=batch.mark))
        if file is None:
            lines = [
                {"custom_id": name, "method": "POST", "url": endpoint.provider.batch_path, "body": body}
                for name, body in _bodies(db, endpoint.provider, batch).items()
            ]
            content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
            del lines
            file = endpoint.ask(partial(api.upload, mark=batch.mark, content=content))
        record(db, batch, "state = 'creating', input_file_id = $2", ["text"], [file])
    if batch.state == "creating":
        _create(db, endpoint, batch)
    elif batch.state == "open":
        _poll(db, endpoint, batch)
    elif batch.state == "read":
        _delete_files(db, endpoint, batch, None)


def _create(db: Database, endpoint: _Endpoint, batch: Batch) -> None:
    mark, file = batch.mark, batch.input_file_id
    remote_batch = None
    if batch.asked:
        remote_batch = endpoint.ask(partial(api.find_batch, mark=mark, file=file))
    if remote_batch is None:
        record(
            db,
            batch,
            "asked_at = pg_catalog.clock_timestamp(),"
            " next_poll_at = pg_catalog.clock_timestamp() + $2 * interval '1 second'",
            ["float8"],
            [float(UNSURE_SECONDS)],
        )
        try:
            remote_batch = endpoint.ask(partial(api.create, mark=mark, file=file))
        except ProviderFault as fault:
            if fault.permanent:
                batch.asked = False  # refused, so the batch does not exist
            raise
    record(
        db,
        batch,
        "state = 'open', remote_id = $2, remote_state = $3, submitted_at = pg_catalog.clock_timestamp(),"
        " next_poll_at = pg_catalog.clock_timestamp() + $4 * interval '1 second'",
        ["text", "text", "float8"],
        [remote_batch["id"], _status(remote_batch), FIRST_LOOK],
    )


def _poll(db: Database, endpoint: _Endpoint, batch: Batch) -> None:
    """Poll the endpoint; when the batch has ended, store its results."""
    try:
        remote_batch = endpoint.ask(partial(api.look, batch=batch.remote_id))
    except api.Missing:
        conclude(db, endpoint.provider, batch, {}, "failed", "the endpoint does not know the batch any more")
        return
    counts = remote_batch.get("request_counts") if isinstance(remote_batch.get("request_counts"), dict) else {}
    completed, failed = (_count(counts.get(name)) for name in ("completed", "failed"))
    record(
        db,
        batch,
        "remote_state = $2, completed = $3, failed = $4, polls = b.polls + 1,"
        " next_poll_at = pg_catalog.clock_timestamp() + $5 * interval '1 second'",
        ["text", "int4", "int4", "float8"],
        [_status(remote_batch), completed, failed, min(FIRST_LOOK * LOOK_FACTOR ** min(batch.polls + 1, 20), MAX_LOOK)],
    )
    has_ended = remote_batch.get("status") in api.ENDED
    if not has_ended and batch.seconds >= OVERDUE_SECONDS:
        record(db, batch, "error = $2", ["text"], [_overdue_text(batch, remote_batch)])
        if remote_batch.get("status") != "cancelling":
            # Requests that are cancelled are not paid twice. The batch is given up even if this fails.
            with contextlib.suppress(ProviderFault):
                endpoint.ask(partial(api.cancel, batch=batch.remote_id))
    if not has_ended and batch.seconds < LOST_SECONDS:
        return
    bodies = _bodies(db, endpoint.provider, batch)
    lines: dict[str, api.Line] = {}
    strict = batch.seconds < GARBLED_SECONDS
    for file in _result_files(remote_batch):
        with contextlib.suppress(api.Missing):
            api.add_lines(lines, endpoint.ask(partial(api.results, file=file, requests=bodies, strict=strict)))
    del bodies
    conclude(
        db,
        endpoint.provider,
        batch,
        lines,
        "read" if has_ended else "failed",
        _error_of(remote_batch) if has_ended else _overdue_text(batch, remote_batch),
        is_lost=not has_ended,
        is_queue_full="token_limit_exceeded" in json.dumps(remote_batch.get("errors")),
    )
    if has_ended:
        _delete_files(db, endpoint, batch, remote_batch)


def _bodies(db: Database, provider: Provider, batch: Batch) -> dict[str, dict[str, Any]]:
    """Return {custom_id: body} of a batch's requests."""
    rows = db.query(
        "SELECT r.id, r.messages, r.schema, r.temperature, r.max_tokens, r.refused FROM graphrag.llm_batch_requests r"
        " WHERE r.batch_id = $1 ORDER BY r.id",
        ["int8"],
        [batch.id],
    )
    bodies = {}
    for row in rows:
        schema = None if row["schema"] is None else json.loads(row["schema"])
        call = wire.Call(batch.model, json.loads(row["messages"]), schema, row["temperature"], row["max_tokens"])
        bodies[str(row["id"])] = wire.chat_body(provider, call, frozenset(row["refused"]))
    return bodies


def _status(remote_batch: dict[str, Any]) -> str:
    return clean(str(remote_batch.get("status")))[:50]


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def _result_files(remote_batch: dict[str, Any]) -> list[str]:
    return [
        file for name in ("output_file_id", "error_file_id") if isinstance(file := remote_batch.get(name), str) and file
    ]


def _overdue_text(batch: Batch, remote_batch: dict[str, Any]) -> str:
    hours = batch.seconds / 3600
    return f'the endpoint calls batch {batch.remote_id} "{_status(remote_batch)}", {hours:.0f} h after it was made'


def _error_of(remote_batch: dict[str, Any]) -> str | None:
    """Return the endpoint's error for a batch as a whole."""
    if remote_batch.get("status") == "completed":
        return None
    errors = remote_batch.get("errors")
    message = words_of(errors.get("data") if isinstance(errors, dict) else errors, None) if errors else ""
    return f"the endpoint's batch {_status(remote_batch)}" + (f": {message}" if message else "")


def _give_up_batch(db: Database, batch: Batch, fault: ProviderFault) -> None:
    """Handle a permanent fault: jobs that wait for the batch become dead letters with its text.

    Requests that the endpoint may have are kept: retry_failed() asks for them again.
    """
    db.rollback()
    text = f"{type(fault).__name__}: {fault.message}" + (f"\nHINT:  {fault.hint}" if fault.hint else "")
    is_unknown_there = batch.state == "uploading" or (batch.state == "creating" and not batch.asked)
    lock(db, batch.corpus_id)
    keys = db.query("SELECT r.key FROM graphrag.llm_batch_requests r WHERE r.batch_id = $1", ["int8"], [batch.id])
    give_up(db, batch.corpus_id, [row["key"] for row in keys], text, forget=is_unknown_there)
    if is_unknown_there:
        record(
            db,
            batch,
            "state = 'failed', error = $2, finished_at = pg_catalog.clock_timestamp()",
            ["text"],
            [fault.message],
        )
    else:
        record(
            db,
            batch,
            "error = $2, next_poll_at = pg_catalog.clock_timestamp() + $3 * interval '1 second'",
            ["text", "float8"],
            [fault.message, MAX_LOOK],
        )


def _delete_files(db: Database, endpoint: _Endpoint, batch: Batch, remote_batch: dict[str, Any] | None) -> None:
    """Delete a batch's files at the endpoint. Files that cannot be deleted expire there."""
    try:
        if remote_batch is None:
            remote_batch = endpoint.ask(partial(api.look, batch=batch.remote_id))
        for file in (batch.input_file_id, *_result_files(remote_batch or {})):
            endpoint.ask(partial(api.delete_file, file=file))
    except ProviderFault as fault:
        if not fault.permanent and batch.age < KEPT_DAYS * 86400:
            raise
    record(db, batch, "state = 'done'")


def cancel_batches(db: Database, corpus_id: int) -> bool:
    """Serve the job of a dropped corpus: cancel its batches at the endpoints, delete their files. Commits.

    Raises Waiting, ProviderFault: it is not done yet; a day later it counts as done.
    """
    unfinished: GraphRAGError | None = None
    for batch in batches_of(db, corpus_id):
        try:
            _cancel(db, batch)
        except GraphRAGError as fault:
            permanent = not isinstance(fault, Waiting) and getattr(fault, "permanent", True)
            if not permanent and batch.age < 86400:
                unfinished = fault
                continue
        db.query("DELETE FROM graphrag.llm_batches WHERE id = $1", ["int8"], [batch.id])
        db.commit()
    if unfinished is not None:
        raise unfinished
    return True


def _cancel(db: Database, batch: Batch) -> None:
    endpoint = _Endpoint(db, batch.provider, None)
    mark, file, remote = batch.mark, batch.input_file_id, batch.remote_id
    remote_batch: dict[str, Any] | None = None
    if not file:
        file = endpoint.ask(partial(api.find_file, mark=mark)) or ""
    if remote:
        try:
            remote_batch = endpoint.ask(partial(api.look, batch=remote))
        except api.Missing:
            remote_batch = None
    elif batch.asked:
        remote_batch = endpoint.ask(partial(api.find_batch, mark=mark, file=file))
    if remote_batch is not None and remote_batch.get("status") not in api.ENDED:
        if remote_batch.get("status") != "cancelling":
            endpoint.ask(partial(api.cancel, batch=remote_batch["id"]))
        raise Waiting(f"batch {remote_batch['id']} is being cancelled", seconds=FIRST_LOOK)
    for name in (file, *_result_files(remote_batch or {})):
        if name:
            endpoint.ask(partial(api.delete_file, file=name))
