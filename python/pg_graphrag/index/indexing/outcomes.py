"""Leased jobs that could not be done: postponed without an error, or failed with one (docs/decisions/llm.md)."""

from collections.abc import Mapping

from pg_graphrag.ground.errors import GraphRAGError, is_disk_full, is_of_server
from pg_graphrag.index.indexing.item_vectors import SOURCES
from pg_graphrag.llm.endpoints.collector import lock
from pg_graphrag.llm.endpoints.faults import (
    BudgetReached,
    ItemFault,
    ProviderFault,
    TimedOut,
    Unembeddable,
    Waiting,
    kind_of,
)
from pg_graphrag.llm.endpoints.ledger import hold_replies
from pg_graphrag.llm.endpoints.provider_limits import back_off
from pg_graphrag.server import Database, versions
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.queue import Job, note, release

# Errors of the item itself before it is a dead letter; killed workers, rarely the item's fault, count apart.
MAX_ERRORS = 3
MAX_ATTEMPTS = 10
BACK_OFF_SECONDS = 10
# After this many faults of a provider or of the server in a row, a job's back-off stays at five minutes.
MAX_FAULTS = 9
# Jobs that wait for a budget are tried again after this time.
BUDGET_SECONDS = 600
# Characters of a model's unusable answer that a job keeps, and that its error shows.
RAW_KEPT = 100_000
RAW_SHOWN = 1000


def add_dead_letter(db: Database, corpus_id: int, document_id: int, fault: GraphRAGError) -> None:
    """Record for an indexed document, or one that its own jobs will index, why some of its texts have no vector.

    Not if somebody changes it at this moment, or if it has a job, which will find out.
    """
    rows = db.query(
        "SELECT FROM graphrag.documents d WHERE d.id = $1 AND NOT EXISTS"
        " (SELECT FROM graphrag.jobs j WHERE j.document_id = d.id AND j.chunks IS NULL) FOR SHARE SKIP LOCKED",
        ["int8"],
        [document_id],
    )
    if rows:
        db.query(
            "INSERT INTO graphrag.jobs (corpus_id, kind, document_id, state, last_error) VALUES ($1, 'index', $2, 'failed', $3)"
            " ON CONFLICT DO NOTHING",
            ["int4", "int8", "text"],
            [corpus_id, document_id, _error_text(fault)],
        )


def add_dead_letters(db: Database, corpus_id: int, kind: str, faults: Mapping[int, GraphRAGError]) -> None:
    """Do so for items of a kind of `SOURCES` (by id); of an entity one document that mentions it says it."""
    table, number = ("entity_mentions", "entity_id") if kind == "entity" else (SOURCES[kind], "id")
    for row in db.query(
        f"SELECT x.{number} AS id, pg_catalog.min(x.document_id) AS document_id FROM graphrag.{table} x"
        f" WHERE x.{number} = ANY ($1) GROUP BY 1 ORDER BY 2",
        ["int8[]"],
        [list(faults)],
    ):
        add_dead_letter(db, corpus_id, row["document_id"], faults[row["id"]])


def settle(db: Database, job: Job, error: Exception, corpus: Corpus | None = None) -> None:
    """Postpone a job if the item is not at fault; else count an error against it (docs/decisions/llm.md).

    `corpus`, for a job of many documents: if forget() has removed one since, only the error's kind is kept. The caller has
    not locked it.

    Raises GraphRAGError: 55000 if the session cannot go on: no job is at fault, and the run releases its leases.
    """
    versions.check_copy()
    is_outdated = corpus is not None and hold_replies(db, corpus) != corpus.forgets
    if isinstance(error, BudgetReached):
        _postpone(db, job, error, BUDGET_SECONDS)
    elif isinstance(error, Waiting) and error.keys:
        await_answers(db, job, error, _error_text(error))
    elif isinstance(error, Waiting):
        _postpone(db, job, error, error.seconds)
    elif isinstance(error, ProviderFault) and not error.permanent:
        # A text that an endpoint stumbles over each time is tried ever more rarely; the breaker's pauses do not count.
        faults = job.payload.get("faults", 0) + error.was_sent
        wait = back_off(min(max(faults, 1), MAX_FAULTS), error.retry_after)
        if isinstance(error, TimedOut):
            note(db, job, "timeouts", job.timeouts + 1)
        _postpone(db, job, error, wait, faults, is_outdated=is_outdated)
    elif is_of_server(error):
        faults = job.payload.get("faults", 0) + 1
        _postpone(db, job, error, back_off(min(faults, MAX_FAULTS)), faults, is_outdated=is_outdated)
    else:
        fail(db, job, error, is_outdated=is_outdated)


def end_where_full(db: Database, error: Exception) -> None:
    """Raise an error that the disk is full, after committing what was settled: otherwise the run would do all work in vain."""
    if is_disk_full(error):
        db.commit()
        raise error


def _postpone(
    db: Database, job: Job, error: Exception, seconds: float, faults: int = 0, *, is_outdated: bool = False
) -> None:
    """Let a job wait with the reason, without counting the attempt; `faults`: how often a fault postponed it."""
    db.query(
        "UPDATE graphrag.jobs SET last_error = $3,"
        " payload = payload || CASE WHEN $4 > 0 THEN pg_catalog.jsonb_build_object('faults', $4) ELSE '{}' END"
        " WHERE id = $1 AND lease = $2",
        ["int8", "int4", "text", "int4"],
        [job.id, job.worker, _error_text(error, is_outdated=is_outdated), faults],
    )
    release(db, [job], seconds)


def _error_text(error: Exception, *, is_outdated: bool = False) -> str:
    """Return an error as last_error shows it; of a model's unusable answer, its beginning; of an outdated one, its kind."""
    # By this name health() knows it.
    kind = "DiskFull" if is_disk_full(error) else type(error).__name__
    text = f"{kind}: {error}"[:2000]
    if is_outdated:
        return kind_of(text)
    if isinstance(error, ItemFault) and error.raw:
        text += f"\nDETAIL:  The model said: {error.raw[:RAW_SHOWN]}"
    hint = getattr(error, "hint", None)
    return (text + (f"\nHINT:  {hint}" if hint else "")).replace("\0", "")


def fail(db: Database, job: Job, error: Exception, *, is_outdated: bool = False) -> None:
    """Count an error against the job: back off, or make it a dead letter; a document's error is shown there too."""
    permanent = isinstance(error, ProviderFault) and error.permanent
    dead = permanent or isinstance(error, Unembeddable) or job.errors + 1 >= MAX_ERRORS or job.attempts >= MAX_ATTEMPTS
    text = _error_text(error, is_outdated=is_outdated)
    raw = (
        error.raw[:RAW_KEPT].replace("\0", "")
        if isinstance(error, ItemFault) and error.raw and not is_outdated
        else None
    )
    rows = db.query(
        # A document that was written is written again when it is retried.
        "UPDATE graphrag.jobs SET state = CASE WHEN $3 THEN 'failed' ELSE 'pending' END, lease = NULL,"
        " kind = CASE WHEN $7 AND document_id IS NOT NULL AND chunks IS NULL THEN 'index' ELSE kind END,"
        " errors = errors + 1, last_error = $4, next_attempt_at = pg_catalog.now() + $5 * interval '1 second',"
        " payload = (payload - CASE WHEN $7 THEN '{waiting,text}' ELSE '{waiting}' END::text[])"
        " || CASE WHEN $6 IS NULL THEN '{}' ELSE pg_catalog.jsonb_build_object('raw', $6) END"
        " WHERE id = $1 AND lease = $2 RETURNING document_id",
        ["int8", "int4", "bool", "text", "float8", "text", "bool"],
        [job.id, job.worker, dead, text, float(BACK_OFF_SECONDS * 2**job.errors), raw, isinstance(error, Unembeddable)],
    )
    if dead and rows and job.kind in ("index", "embed", "graph"):
        db.query(
            "UPDATE graphrag.documents SET status = 'failed', error = $2 WHERE id = $1 AND indexed_at IS NULL",
            ["int8", "text"],
            [job.document_id, text],
        )


def await_answers(db: Database, job: Job, fault: Waiting, text: str) -> None:
    """Let a leased job wait for the answers to `fault.keys`, without counting the attempt; not if one is there already."""
    keys = sorted(fault.keys)
    lock(db, job.corpus_id)
    db.query(
        "UPDATE graphrag.jobs SET state = 'pending', lease = NULL, attempts = attempts - 1, last_error = $3,"
        " payload = payload || pg_catalog.jsonb_build_object('waiting', pg_catalog.to_jsonb($4)),"
        " next_attempt_at = pg_catalog.now() + CASE WHEN pg_catalog.cardinality($4) ="
        " (SELECT pg_catalog.count(*) FROM graphrag.llm_batch_requests r WHERE r.corpus_id = jobs.corpus_id"
        " AND r.key = ANY ($4) AND r.state IN ('unsent', 'sent')) THEN $5 ELSE 0 END * interval '1 second'"
        " WHERE id IN (SELECT j.id FROM graphrag.jobs j WHERE j.id = $1 AND j.lease = $2 FOR UPDATE SKIP LOCKED)",
        ["int8", "int4", "text", "text[]", "float8"],
        [job.id, job.worker, text, keys, fault.seconds],
    )
