"""The worker: three short transactions for each batch; the slow part runs without one (docs/decisions/indexing.md)."""

import gc
import json
from collections.abc import Callable
from functools import partial
from time import perf_counter

from pg_graphrag.ground.errors import GraphRAGError, is_interrupt
from pg_graphrag.index.indexing.item_vectors import forget_part_vectors
from pg_graphrag.index.indexing.outcomes import MAX_ATTEMPTS, end_where_full, fail, settle
from pg_graphrag.operate.jobs.document_jobs import process_documents
from pg_graphrag.operate.jobs.kinds import DOCUMENT_KINDS, SERVICES
from pg_graphrag.operate.jobs.part_jobs import process_part
from pg_graphrag.server import PIN_PATH, Database, check_may_commit, function_at
from pg_graphrag.server.corpus.corpora import corpus_by_id
from pg_graphrag.server.profile import Profile
from pg_graphrag.server.queue import Job, claim, finish, release, release_all

# By how much clocks of one machine may differ without one having been set back.
CLOCK_SECONDS = 60.0
# For longer no job is put off.
LONGEST_WAIT_SECONDS = 2 * 86400.0
# Query cancels that the end of a run survives.
MAX_CANCELS = 1000


def process_jobs(db: Database, max_jobs: int | None) -> None:
    """Do due jobs, batch by batch; return when there are none, or after `max_jobs` jobs.

    With the setting graphrag.profile_time on, a NOTICE at the end says where the time went, if there were jobs. It must be
    the body of a top-level CALL. A cancelled or failed batch releases its leases before the error is raised.
    """
    if max_jobs is not None and max_jobs < 0:
        raise GraphRAGError(
            f"max_jobs cannot be {max_jobs}", hint="Give a positive number, or NULL for all that is due."
        )
    if db.value("SELECT pg_catalog.pg_is_in_recovery()"):
        raise GraphRAGError(
            "process_jobs() cannot work on a standby, which is read only",
            sqlstate="25006",
            hint="Call it on the primary: what it writes arrives here by replication.",
        )
    if not db.value("SELECT graphrag._sees_all()"):
        raise GraphRAGError(
            "process_jobs() cannot work under row-level security: it would take hidden documents for deleted ones",
            sqlstate="42501",
            hint="Call it as the owner of the extension, a superuser, or a role with BYPASSRLS.",
        )
    check_may_commit(db, "process_jobs()")
    try:
        # However the session ends, its leases are void then.
        worker = int(db.value("SELECT graphrag._begin_work()"))
        path = db.query(PIN_PATH)[0]["path"]
        lifted_timeouts = _lift_timeouts(db)
        settings = {"search_path": path} | _pin_settings(db, _SETTINGS)
        # In a server's session all imports are frozen already. Beside a database this process is an application's,
        # which may have frozen something itself: counting that takes milliseconds.
        is_frozen = db.is_server or gc.get_freeze_count() > 0
        try:
            db.commit()
            # Imported objects are no garbage, and need not be searched again and again.
            if not is_frozen:
                gc.freeze()
            _catch_up(db)
            _watch_attached(db)
            _process_profiled(db, worker, max_jobs)
        except BaseException:
            # Query cancel comes here too.
            _retry_cancelled(partial(_release_leases, db, worker))
            raise
        finally:
            if not is_frozen:
                gc.unfreeze()
            forget_part_vectors()
            _retry_cancelled(partial(_restore_settings, db, settings, lifted_timeouts))
    finally:
        _retry_cancelled(partial(_release_worker_lock, db))


def _catch_up(db: Database) -> None:
    """Correct times that were written when the clock was ahead: jobs and providers would wait until it gets there again."""
    for statement, seconds in _FROM_THE_FUTURE:
        db.query(statement, ["float8"] * len(seconds), seconds)
    db.commit()


_FROM_THE_FUTURE = (
    (
        "UPDATE graphrag.jobs j SET next_attempt_at = pg_catalog.now(), created_at = least(j.created_at, pg_catalog.now())"
        " WHERE j.state <> 'failed' AND j.next_attempt_at < 'infinity'"
        "   AND (j.created_at > pg_catalog.now() + $1 * interval '1 second'"
        "     OR j.next_attempt_at > pg_catalog.now() + $2 * interval '1 second')",
        [CLOCK_SECONDS, LONGEST_WAIT_SECONDS],
    ),
    (
        "DELETE FROM graphrag.provider_state s WHERE s.updated_at > pg_catalog.now() + $1 * interval '1 second'",
        [CLOCK_SECONDS],
    ),
)


def _watch_attached(db: Database) -> None:
    # Most databases have none, and nothing is imported for them.
    if db.value("SELECT EXISTS (SELECT FROM graphrag._attached_tables)"):
        watch: Callable[[Database], None] = function_at("index.documents.attach:watch")
        watch(db)
    db.commit()


def _release_leases(db: Database, worker: int) -> None:
    db.rollback()
    release_all(db, worker)
    db.commit()


def _restore_settings(db: Database, settings: dict[str, str], lifted_timeouts: list[str]) -> None:
    # A cancel may have come in between.
    db.query(PIN_PATH)
    db.query(
        "SELECT pg_catalog.set_config(u.name, NULL, false) FROM pg_catalog.unnest($1) u (name)",
        ["text[]"],
        [lifted_timeouts],
    )
    # The search_path with them: after it no operator or type is named.
    _pin_settings(db, settings)
    # An error raised later would roll the settings back.
    db.commit()


def _release_worker_lock(db: Database) -> None:
    db.query("SELECT graphrag._end_work()")


def _retry_cancelled(step: Callable[[], None]) -> None:
    """Run `step` until no query cancel interrupts it (a stopping worker process sends several); then raise the cancel."""
    cancelled: Exception | None = None
    for _ in range(MAX_CANCELS):
        try:
            step()
            break
        except Exception as error:
            if not is_interrupt(error):
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled


# A SET clause would forbid the commits. Merges must see everything committed
# before they got the corpus lock; caught errors must not end the session; views of the schema are read; triggers count
# and queue; no statement is long enough to be worth a second of compiling.
_SETTINGS = {
    "default_transaction_isolation": "read committed",
    "exit_on_error": "off",
    "restrict_nonsystem_relation_kind": "",
    "session_replication_role": "origin",
    "jit": "off",
}
# They would end the slow part, or postpone a job that waits for another's merge. A caller who wants that sets them in
# his session.
_TIMEOUTS = ("lock_timeout", "transaction_timeout")


def _pin_settings(db: Database, settings: dict[str, str]) -> dict[str, str]:
    """Set settings for the session, from the next transaction on; return what those were that were others.

    A setting that the server does not know is left out.
    """
    rows = db.query(
        "SELECT s.name, s.old, pg_catalog.set_config(s.name, s.value, false)"
        "  FROM (SELECT u.name, u.value, pg_catalog.current_setting(u.name, true) AS old"
        "          FROM unnest($1, $2) AS u (name, value)) s"
        " WHERE s.old <> s.value",
        ["text[]", "text[]"],
        [list(settings), list(settings.values())],
    )
    return {row["name"]: row["old"] for row in rows}


def _lift_timeouts(db: Database) -> list[str]:
    """Turn off timeouts that the server, the database or the role has for every session; return their names."""
    conditions = " OR ".join(f"pg_catalog.current_setting('{name}', true) <> '0'" for name in _TIMEOUTS)
    rows = db.query(
        "SELECT s.name, pg_catalog.set_config(s.name, '0', false) FROM pg_catalog.pg_settings s"
        f" WHERE ({conditions}) AND s.name = ANY ($1) AND s.setting <> '0' AND s.source NOT IN ('client', 'session')",
        ["text[]"],
        [list(_TIMEOUTS)],
    )
    return [row["name"] for row in rows]


def _process_profiled(db: Database, worker: int, max_jobs: int | None) -> None:
    if not _profiles_time(db):
        _process_batches(db, worker, max_jobs)
        return
    db.profile = profile = Profile(perf_counter(), "other")
    try:
        count = _process_batches(db, worker, max_jobs)
    finally:
        db.profile = None
    if count:
        db.notice(f"process_jobs() did {count} jobs", detail=json.dumps(profile.milliseconds()))


def _profiles_time(db: Database) -> bool:
    value = db.value("SELECT nullif(pg_catalog.current_setting('graphrag.profile_time', true), '')") or "off"
    if value not in ("on", "off"):
        raise GraphRAGError(
            f'the setting graphrag.profile_time cannot be "{value}"',
            sqlstate="22023",
            hint="Give on or off: SET graphrag.profile_time = on",
        )
    return bool(value == "on")


def _process_batches(db: Database, worker: int, max_jobs: int | None) -> int:
    """Return the number of jobs."""
    done = 0
    last_corpus = None
    while max_jobs is None or done < max_jobs:
        with db.step("queue"):
            jobs = claim(db, worker, None if max_jobs is None else max_jobs - done, last_corpus)
        if not jobs:
            _renew_files(db)
            break
        done += len(jobs)
        last_corpus = jobs[0].corpus_id
        _process_batch(db, jobs)
        with db.step("commit"):
            db.commit()
    return done


def _renew_files(db: Database) -> None:
    """When nothing else is due: write again the shared files of corpora that sessions ask for."""
    if not db.is_server:
        return
    for corpus_id in function_at("server.caches.shared_arrays:outdated")(db):
        with db.step("files"):
            try:
                function_at("search.graph_view.prepared_files:renew")(db, corpus_id)
                db.commit()
            except Exception as error:
                if is_interrupt(error):
                    raise
                db.rollback()
                db.warning(f"what sessions share of corpus {corpus_id} is not made anew: {error}")
    db.commit()


def _process_batch(db: Database, jobs: list[Job]) -> None:
    job = jobs[0]
    corpus = corpus_by_id(db, job.corpus_id)
    if corpus is None and job.kind != "batch":  # dropped meanwhile
        finish(db, jobs)
        return
    if job.attempts > MAX_ATTEMPTS:
        fail(db, job, RuntimeError(f"the worker's session ended in {MAX_ATTEMPTS} attempts"))
        return
    if corpus is not None and job.kind in DOCUMENT_KINDS and job.chunks is None:
        process_documents(db, corpus, jobs)
        return
    try:
        if corpus is None:
            is_done = function_at("index.indexing.batch:cancel_batches")(db, job.corpus_id)
        elif job.chunks is not None:
            process_part(db, corpus, job)
            return
        else:
            with db.step(job.kind):
                is_done = function_at(SERVICES[job.kind])(db, corpus, job)
    except Exception as error:
        if is_interrupt(error):
            raise
        db.rollback()
        settle(db, job, error, corpus)
        end_where_full(db, error)
        return
    if is_done:
        finish(db, jobs)
    else:
        release(db, jobs)
