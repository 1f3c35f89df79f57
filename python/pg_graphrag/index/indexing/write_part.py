"""Writes a part of a long document: vectors of its windows, or its graph, each in one transaction.

Several workers write parts of one document at once. They share the lock of its row, so that nobody changes it
meanwhile. The worker that writes the last part marks the document as indexed.
"""

from collections.abc import Sequence

from pg_graphrag.index.graph.change import Change
from pg_graphrag.index.graph.drafts import DocumentDraft
from pg_graphrag.index.indexing.chunk_rows import note_extractions, still_stored, write_statements
from pg_graphrag.index.indexing.item_vectors import Item, VectorsByModel, delete_vectors, insert_vectors
from pg_graphrag.index.indexing.write import check_vectors, note_change, notify, write_change
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.corpus.spaces import Space, lock_spaces, of_state, spaces
from pg_graphrag.server.queue import LOCKED_RETRY_SECONDS, Job, finish, queue_refresh, release

_MENTIONS = ("entity_mention", "relationship_mention")
# Indexed is a document without other jobs. Not to wait: another session may look at it, and the corpus is locked.
_INDEXED = """
UPDATE graphrag.documents d SET indexed_at = pg_catalog.clock_timestamp(), status = 'indexed', error = NULL
 WHERE d.id IN (SELECT x.id FROM graphrag.documents x WHERE x.id = $1 FOR NO KEY UPDATE SKIP LOCKED)
RETURNING d.id
"""


class PartNotWritten(Exception):
    """A part cannot be written; nothing has been."""


class DocumentLocked(PartNotWritten):
    """Another session is changing the document at this moment; waiting for it could deadlock."""


class LeaseVoid(PartNotWritten):
    """Newer content, a removal or other options have taken the part's job away."""


class ChunksChanged(PartNotWritten):
    """The chunks are not those that were read: what came past the triggers."""


def unembedded_windows(db: Database, space: Space, draft: DocumentDraft, texts: Sequence[str]) -> list[Item]:
    """Return the windows of the draft's stored chunks that have no vector in a space; `texts`: of all its windows."""
    rows = db.query(
        "SELECT w.id, w.chunk_id, EXISTS (SELECT FROM"
        f" {space.rows('window')} v WHERE v.window_id = w.id AND v.chunk_id = w.chunk_id) AS has_vector"
        "  FROM pg_catalog.unnest($1) WITH ORDINALITY AS u (chunk_id, place)"
        "  JOIN graphrag.chunk_windows w ON w.chunk_id = u.chunk_id ORDER BY u.place, w.ordinal",
        ["int8[]"],
        [draft.chunk_ids],
    )
    return [
        (row["id"], row["chunk_id"], draft.id, text)
        for row, text in zip(rows, texts, strict=True)
        if not row["has_vector"]
    ]


def write_windows(
    db: Database, corpus: Corpus, job: Job, draft: DocumentDraft, items: Sequence[Item], vectors: VectorsByModel
) -> None:
    """Store the vectors of windows, and finish the job.

    Raises MissingVectors: another model was swapped in meanwhile.
    Raises PartNotWritten if document, job or chunks are locked, or have changed since they were read.
    """
    all_spaces, active = _lock_part(db, corpus, job, draft)
    active_vectors = vectors.get(active.embedding, {})
    check_vectors(active, active_vectors, (item[3] for item in items))
    with db.step("lock"):
        db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    for space in all_spaces:
        if space.state != "retired":
            # The job of kind reembed may have been here, and fills in the others.
            insert_vectors(db, space, "window", items, vectors.get(space.embedding, {}), is_late=True)
    note_change(db, corpus)
    _finish_part(db, corpus, job)


def write_graph(
    db: Database, corpus: Corpus, job: Job, draft: DocumentDraft, vectors: VectorsByModel, windows: Sequence[Item]
) -> None:
    """Replace the mentions and claims of the draft's stored chunks by those of the draft, and finish the job.

    `windows`: windows of these chunks that have no vector yet and get theirs.

    Raises MissingVectors: as `write_documents`.
    Raises PartNotWritten if document, job or chunks are locked, or have changed since they were read.
    """
    all_spaces, active = _lock_part(db, corpus, job, draft)
    active_vectors = vectors.get(active.embedding, {})
    check_vectors(active, active_vectors, [*draft.texts(), *(item[3] for item in windows)])
    # Before old mentions go: until then reembed() may give them vectors.
    with db.step("lock"):
        db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    chunk_ids = draft.chunk_ids or []
    change = Change(corpus.id)
    change.remove_chunks(db, chunk_ids)
    db.query("DELETE FROM graphrag.claims WHERE chunk_id = ANY ($1)", ["int8[]"], [chunk_ids])
    for space in all_spaces:
        if space.state != "retired":
            delete_vectors(db, space, chunk_ids, [], _MENTIONS)
    note_extractions(db, [draft])
    items = write_statements(db, corpus.id, [draft], [chunk_ids])
    for kind, kind_items in items.items():
        insert_vectors(db, active, kind, kind_items, active_vectors)
    for chunk, chunk_id in zip(draft.chunks, chunk_ids, strict=True):
        change.add_chunk(draft.id, chunk_id, chunk)
    for space in all_spaces:
        if space.state != "retired":
            insert_vectors(db, space, "window", windows, vectors.get(space.embedding, {}), is_late=True)
    write_change(db, corpus, active, all_spaces, change, items, vectors, [], chunk_ids)
    _finish_part(db, corpus, job)


def _lock_part(db: Database, corpus: Corpus, job: Job, draft: DocumentDraft) -> tuple[list[Space], Space]:
    """Lock spaces, document and job, in this order, and check that they have not changed; return (all spaces, the active
    one).
    """
    lock_spaces(db, corpus.id, is_shared=True)
    all_spaces = spaces(db, corpus.id)
    active = of_state(all_spaces, "active")
    document = "SELECT FROM graphrag.documents d WHERE d.id = $1 FOR SHARE SKIP LOCKED"
    if active is None or not db.query(document, ["int8"], [draft.id]):
        raise DocumentLocked
    lease = "SELECT FROM graphrag.jobs j WHERE j.id = $1 AND j.lease = $2 FOR UPDATE SKIP LOCKED"
    if not db.query(lease, ["int8", "int4"], [job.id, job.worker]):
        raise LeaseVoid
    if not still_stored(db, [draft]):
        raise ChunksChanged
    return all_spaces, active


def _finish_part(db: Database, corpus: Corpus, job: Job) -> None:
    """Finish the job of a part; with the last part, the document too. The corpus is locked, so that one of two workers is
    the last.
    """
    others = db.query(
        # A dead letter for the whole document says what it lacks.
        "SELECT FROM graphrag.jobs j WHERE j.document_id = $1 AND j.id <> $2"
        " AND NOT (j.state = 'failed' AND j.chunks IS NULL) LIMIT 1",
        ["int8", "int8"],
        [job.document_id, job.id],
    )
    if not others:
        if not db.query(_INDEXED, ["int8"], [job.document_id]):
            # The part is written; once more it costs little, and then says so.
            release(db, [job], LOCKED_RETRY_SECONDS)
            return
        notify(db, corpus, [job.document_id])
        if corpus.options.communities.automatic:
            queue_refresh(db, corpus.id)
    finish(db, [job])
