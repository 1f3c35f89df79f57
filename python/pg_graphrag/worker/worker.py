"""The worker: three short transactions per batch, and the slow part with none open (docs/decisions.md)."""

import json
from collections.abc import Callable, Iterable
from functools import partial

from pg_graphrag.corpus.corpora import Corpus, by_id
from pg_graphrag.corpus.fitting import embedding_of
from pg_graphrag.documents.imports import imported_of
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.graph.drafts import DocumentDraft
from pg_graphrag.indexing.extracting import extract, open_breaker, weight
from pg_graphrag.indexing.outcomes import MAX_ATTEMPTS, MAX_ERRORS, begin_graph, fail, finish, hand_on, release, settle
from pg_graphrag.indexing.prepare import MAX_TITLE, draft
from pg_graphrag.indexing.reembed import building_space
from pg_graphrag.indexing.stored import stored_drafts
from pg_graphrag.indexing.vectors import MissingVectors, VectorsByModel, embed, poll
from pg_graphrag.indexing.write import write_documents
from pg_graphrag.jobs.claim import LOCKED_RETRY_SECONDS, WORKER_LOCK, Batch, claim
from pg_graphrag.server import Database, Row, check_may_commit, function_at
from pg_graphrag.text.tokenizers import tokenizer

# Query cancels that the end of a run survives.
MAX_CANCELS = 1000


def process_jobs(db: Database, max_jobs: int | None) -> None:
    """Do due jobs, batch by batch; return when there are none, or after `max_jobs` jobs.

    It must be the body of a top-level CALL. A cancelled or failed batch releases its leases before the error is raised.
    """
    if max_jobs is not None and max_jobs < 0:
        raise GraphRAGError(
            f"max_jobs cannot be {max_jobs}", hint="Give a positive number, or NULL for all that is due."
        )
    if db.query("SELECT pg_catalog.pg_is_in_recovery() AS standby")[0]["standby"]:
        raise GraphRAGError(
            "process_jobs() cannot work on a standby, which is read only",
            sqlstate="25006",
            hint="Call it on the primary: what it writes arrives here by replication.",
        )
    if db.query("SELECT pg_catalog.row_security_active('graphrag.documents') AS active")[0]["active"]:
        raise GraphRAGError(
            "process_jobs() cannot work under row-level security: it would take hidden documents for deleted ones",
            sqlstate="42501",
            hint="Call it as the owner of the extension, a superuser, or a role with BYPASSRLS.",
        )
    check_may_commit(db, "process_jobs()")
    worker = int(db.query("SELECT pg_catalog.nextval('graphrag.worker_id_seq')::int AS id")[0]["id"])
    try:
        # However the session ends, its leases are void then.
        db.query("SELECT pg_catalog.pg_advisory_lock($1, $2)", ["int4", "int4"], [WORKER_LOCK, worker])
        settings = _pin_settings(db, _SETTINGS)
        try:
            db.commit()
            _process_batches(db, worker, max_jobs)
        except BaseException:
            # Query cancel comes here too.
            _retry_cancelled(partial(_release_leases, db, worker))
            raise
        finally:
            _retry_cancelled(partial(_restore_settings, db, settings))
    finally:
        _retry_cancelled(partial(_release_worker_lock, db, worker))


def _release_leases(db: Database, worker: int) -> None:
    db.rollback()
    leased_jobs = db.query("SELECT j.id FROM graphrag.jobs j WHERE j.lease = $1", ["int4"], [worker])
    release(db, worker, [job["id"] for job in leased_jobs])
    db.commit()


def _restore_settings(db: Database, settings: dict[str, str]) -> None:
    _pin_settings(db, settings)
    # An error raised later would roll the settings back.
    db.commit()


def _release_worker_lock(db: Database, worker: int) -> None:
    db.query(
        # Only if held: unlocking twice would be a WARNING. The user's search_path is in force again.
        "SELECT pg_catalog.pg_advisory_unlock($1, $2) FROM pg_catalog.pg_locks l"
        " WHERE l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND l.locktype OPERATOR(pg_catalog.=) 'advisory'"
        " AND l.classid OPERATOR(pg_catalog.=) $1::oid AND l.objid OPERATOR(pg_catalog.=) $2::oid"
        " AND l.objsubid OPERATOR(pg_catalog.=) 2",
        ["int4", "int4"],
        [WORKER_LOCK, worker],
    )


def _retry_cancelled(step: Callable[[], None]) -> None:
    """Run `step` until no query cancel interrupts it (a stopping worker process sends several); then raise the cancel."""
    cancelled: Exception | None = None
    for _ in range(MAX_CANCELS):
        try:
            step()
            break
        except Exception as error:
            if not _is_interrupt(error):
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled


# A SET clause would forbid the commits. The path excludes a user's operators; merges must see what was committed before
# they got the corpus lock; no statement runs long enough to be worth a second of compiling.
_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "default_transaction_isolation": "read committed",
    "jit": "off",
}


def _pin_settings(db: Database, settings: dict[str, str]) -> dict[str, str]:
    """Set settings for the session, from the next transaction on; return what they were."""
    rows = db.query(
        "SELECT u.name, pg_catalog.current_setting(u.name) AS old, pg_catalog.set_config(u.name, u.value, false)"
        "  FROM unnest($1, $2) AS u (name, value)",
        ["text[]", "text[]"],
        [list(settings), list(settings.values())],
    )
    return {row["name"]: row["old"] for row in rows}


def _process_batches(db: Database, worker: int, max_jobs: int | None) -> None:
    jobs_left = max_jobs
    while jobs_left is None or jobs_left > 0:
        batch = claim(db, worker, jobs_left)
        if batch is None:
            break
        count = len(batch.jobs)
        _process_batch(db, worker, batch)
        db.commit()
        if jobs_left is not None:
            jobs_left -= count


def _process_batch(db: Database, worker: int, batch: Batch) -> None:
    corpus = by_id(db, batch.corpus_id)
    if corpus is None and batch.kind != "batch":  # dropped meanwhile
        finish(db, worker, [job["id"] for job in batch.jobs])
        return
    if batch.jobs[0]["attempts"] > MAX_ATTEMPTS:
        fail(db, worker, batch.jobs[0], RuntimeError(f"the worker's session ended in {MAX_ATTEMPTS} attempts"))
        return
    if corpus is not None and batch.kind in DOCUMENT_KINDS:
        _process_documents(db, worker, corpus, batch)
        return
    (job,) = batch.jobs
    try:
        if corpus is None:
            is_done = function_at("indexing.batch:cancel_batches")(db, batch.corpus_id)
        else:
            is_done = function_at(SERVICES[batch.kind])(db, corpus, job)
    except Exception as error:
        if _is_interrupt(error):
            raise
        db.rollback()
        settle(db, worker, job, error)
        return
    if is_done:
        finish(db, worker, [job["id"]])
    else:
        release(db, worker, [job["id"]])


# Kinds of jobs of a document; those of a corpus, and which functions (database, corpus, job) do them and return whether the
# job is done. They are imported when there is such a job: most sessions have jobs of documents alone.
DOCUMENT_KINDS = ("index", "graph", "remove")
SERVICES = {
    "attach": "documents.attach:backfill",
    "sweep": "worker.maintenance:sweep",
    "batch": "indexing.batch:advance_batches",
    "communities": "community.refresh:refresh",
    "optimize": "worker.maintenance:optimize",
    "summarize": "extraction.summaries:summarize",
    "reembed": "indexing.reembed:reembed",
    "reports": "community.reports:write_reports",
}


def _process_documents(db: Database, worker: int, corpus: Corpus, batch: Batch) -> None:
    """Prepare and write a batch; when it fails, do each document alone, so that a bad one does not hold up the others."""
    try:
        _index(db, worker, corpus, batch.jobs)
    except Exception as error:
        if _is_interrupt(error):
            raise
        db.rollback()
        if len(batch.jobs) == 1:
            settle(db, worker, batch.jobs[0], error)
            return
        for job in batch.jobs:
            try:
                _index(db, worker, corpus, [job])
            except Exception as single_error:
                if _is_interrupt(single_error):
                    raise
                db.rollback()
                settle(db, worker, job, single_error)
            db.commit()


_READ = f"""
SELECT d.id, pg_catalog.left(d.title, {MAX_TITLE}) AS title, d.content, d.content_hash,
       d.indexed_hash IS NOT DISTINCT FROM d.content_hash AS has_text
  FROM graphrag.documents d
 WHERE d.id = ANY ($1)
 ORDER BY d.id
"""


def _index(db: Database, worker: int, corpus: Corpus, jobs: list[Row]) -> None:
    """Prepare and write documents. The jobs of documents with a model's fault are settled and removed from `jobs`.

    Where a model finds the graph, a job of kind index writes the text alone, which is searchable then, and hands on to one of
    kind graph; so it does without vectors where the endpoint for them fails. A text that is searchable already keeps what was
    made of it until all is there anew.
    """
    extracts = corpus.options.extractor == "llm"
    is_second = jobs[0]["kind"] == "graph"
    asks = extracts and is_second
    local = corpus.options.embedding.local
    embedding_fault = None if local else open_breaker(db, corpus.options.embedding.provider)
    fault = open_breaker(db, corpus.options.llm.of("extract")[0]) if asks else None
    if is_second and (first_fault := fault or embedding_fault) is not None:
        _settle_faulty(db, worker, jobs, {job["document_id"]: first_fault for job in jobs})
        return
    document_ids = [job["document_id"] for job in jobs if job["kind"] != "remove"]
    documents = db.query(_READ, ["int8[]"], [document_ids]) if document_ids else []
    imported_documents = imported_of(db, documents) if documents else {}
    if extracts and not asks:
        waiting_ids = {row["id"] for row in documents if row["has_text"] and row["id"] not in imported_documents}
        _hand_on(db, worker, jobs, dict.fromkeys(waiting_ids, 0), has_text=False)
        db.commit()
        documents = [row for row in documents if row["id"] not in waiting_ids]
    payloads = {job["document_id"]: json.loads(job["payload"]) for job in jobs} if asks else {}
    firsts = {document: payload.get("next", 0) for document, payload in payloads.items() if payload.get("text")}
    with_text = {row["id"] for row in documents if row["has_text"] and row["id"] in firsts} - set(imported_documents)
    drafts = stored_drafts(db, [row for row in documents if row["id"] in with_text], firsts)
    db.rollback()
    ranks = tokenizer(corpus.tokenizer, corpus.tokenizer_fingerprint) if documents else None
    for document in documents:
        assert ranks is not None
        if document["id"] in with_text:
            continue
        number, content, imported = document["id"], document["content"], imported_documents.get(document["id"])
        spans = None if imported is None else imported.spans(content, ranks.count)
        for document_draft in draft(
            number, document["content_hash"], document["title"], content, corpus.options, ranks, spans
        ):
            poll(db)
            if document_draft is not None:
                drafts.append(document_draft)
                if imported is not None:
                    imported.add_to(document_draft, content, ranks.count)
                else:
                    document_draft.lacks_graph = extracts and not asks and bool(document_draft.chunks)
    if asks and ranks is not None:
        errors = {job["document_id"]: int(job["errors"]) for job in jobs}
        unimported = {document["id"]: document for document in documents if document["id"] not in imported_documents}
        unimported_drafts = [item for item in drafts if item.id in unimported]
        asked = [unimported[item.id] for item in unimported_drafts]
        unextracted = extract(db, corpus, asked, unimported_drafts, errors, MAX_ERRORS, ranks)
        _settle_faulty(db, worker, jobs, unextracted)
        drafts = [item for item in drafts if item.id not in unextracted]
    if not jobs:
        return
    new_ids = set() if is_second else {row["id"] for row in documents if not row["has_text"]}
    skipped_ids = _embed_and_write(db, worker, corpus, jobs, drafts, new_ids, embedding_fault)
    release(db, worker, [job["id"] for job in jobs if job["document_id"] in skipped_ids], LOCKED_RETRY_SECONDS)
    jobs = [job for job in jobs if job["document_id"] not in skipped_ids]
    next_ordinals = {item.id: item.next_ordinal for item in drafts if item.lacks_graph and item.fault is None}
    _hand_on(db, worker, jobs, next_ordinals, has_text=True)
    faults = {item.id: item.fault for item in drafts if item.fault is not None}
    put_off = [job | {"kind": "graph"} for job in jobs if job["document_id"] in faults]
    begin_graph(db, worker, [job["id"] for job in put_off])
    for job in put_off:
        settle(db, worker, job, faults[job["document_id"]])
    finish(db, worker, [job["id"] for job in jobs if job["document_id"] not in faults])


def _hand_on(db: Database, worker: int, jobs: list[Row], next_ordinals: dict[int, int], *, has_text: bool) -> None:
    """Make the jobs of these documents jobs of kind graph, from these chunks on, and remove them from `jobs`."""
    handed_on = [job for job in jobs if job["document_id"] in next_ordinals]
    if handed_on:
        ordinals = [next_ordinals[job["document_id"]] for job in handed_on]
        hand_on(db, worker, [job["id"] for job in handed_on], ordinals, has_text=has_text)
        jobs[:] = [job for job in jobs if job["document_id"] not in next_ordinals]


def _embed_and_write(
    db: Database,
    worker: int,
    corpus: Corpus,
    jobs: list[Row],
    drafts: list[DocumentDraft],
    new_ids: set[int],
    fault: GraphRAGError | None,
) -> set[int]:
    """Embed and write drafts; return the skipped documents.

    Where texts cannot be embedded, of documents of `new_ids` the text is written without vectors; the jobs of others leave
    `jobs`. `fault`: why no text is embedded at the moment.
    """
    aliases, new_keys = _resolve_keys(db, corpus, drafts)
    texts = [text for item in drafts for text in item.texts()] + new_keys
    vectors: VectorsByModel = {}
    fitting = embedding_of(corpus, (piece.content for item in drafts for piece in item.chunks))
    model = fitting or corpus.options.embedding
    building = building_space(db, corpus.id)
    db.rollback()
    while True:
        new_vectors, faults = embed(db, corpus, model, texts) if fault is None else ({}, dict.fromkeys(texts, fault))
        vectors.setdefault(model, {}).update(new_vectors)
        kept_back = {}
        for item in drafts:
            needed = {*item.texts(), *(aliases.get(key, key) for key in item.entity_keys())}
            draft_faults = [faults[text] for text in needed if text in faults]
            if draft_faults and item.id in new_ids:
                item.keep_text(min(draft_faults, key=weight))
            elif draft_faults:
                kept_back[item.id] = min(draft_faults, key=weight)
        _settle_faulty(db, worker, jobs, kept_back)
        drafts = [item for item in drafts if item.id not in kept_back]
        if not jobs:
            return set()
        if building is not None:
            # Then the swap need not wait for a queue that never ends. Where this fails, the job of kind reembed fills them.
            vectors[building.embedding] = embed(db, corpus, building.embedding, texts)[0]
            building = None
        try:
            return write_documents(db, corpus, drafts, [job["document_id"] for job in jobs], vectors, fitting)
        except MissingVectors as missing_vectors:
            db.rollback()
            model, texts = missing_vectors.model, list(missing_vectors.texts)
            # Somebody may have merged entities meanwhile.
            aliases, _ = _resolve_keys(db, corpus, drafts)


def _resolve_keys(db: Database, corpus: Corpus, drafts: Iterable[DocumentDraft]) -> tuple[dict[str, str], list[str]]:
    """Return {entity key of a draft: resolved key} where an alias differs, and the keys of new entities, to embed."""
    keys = sorted({key for item in drafts for key in item.entity_keys()})
    if not keys:
        return {}, []
    rows = db.query(
        "SELECT k.key, k.entity_key, NOT EXISTS (SELECT FROM graphrag.entities e"
        "                                         WHERE e.corpus_id = $1 AND e.key = k.entity_key) AS new"
        '  FROM (SELECT u.key, coalesce(a.entity_key, u.key COLLATE "C") AS entity_key FROM pg_catalog.unnest($2) AS u (key)'
        '          LEFT JOIN graphrag.aliases a ON a.corpus_id = $1 AND a.key = u.key COLLATE "C") k',
        ["int4", "text[]"],
        [corpus.id, keys],
    )
    db.rollback()
    aliases = {row["key"]: row["entity_key"] for row in rows if row["key"] != row["entity_key"]}
    return aliases, sorted({row["entity_key"] for row in rows if row["new"]})


def _settle_faulty(db: Database, worker: int, jobs: list[Row], faults: dict[int, GraphRAGError]) -> None:
    """Settle the jobs of documents with a fault, and remove them from `jobs`."""
    if not faults:
        return
    for job in jobs:
        if job["document_id"] in faults:
            settle(db, worker, job, faults[job["document_id"]])
    db.commit()
    jobs[:] = [job for job in jobs if job["document_id"] not in faults]


def _is_interrupt(error: Exception) -> bool:
    """57xxx of the server: query cancelled, session terminated, server shutting down: never an item's fault."""
    return not isinstance(error, GraphRAGError) and str(getattr(error, "sqlstate", "") or "").startswith("57")
