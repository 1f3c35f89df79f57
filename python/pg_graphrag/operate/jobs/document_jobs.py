"""Jobs of whole documents: prepare, embed and write a batch of them (docs/decisions/indexing.md)."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from pg_graphrag.ground.errors import GraphRAGError, is_disk_full, is_interrupt
from pg_graphrag.index.documents.imported_documents import imported_of
from pg_graphrag.index.graph.drafts import DocumentDraft, DueDocument
from pg_graphrag.index.indexing.attached_rows import KnownDocument, rows_of
from pg_graphrag.index.indexing.chunk_rows import stored_drafts
from pg_graphrag.index.indexing.extracting import extract, open_breaker, weight
from pg_graphrag.index.indexing.item_vectors import (
    NO_NAMES,
    VectorsByModel,
    WindowNames,
    document_names,
    poll,
    read_names,
    resolve_keys,
    write_with_vectors,
)
from pg_graphrag.index.indexing.outcomes import end_where_full, settle
from pg_graphrag.index.indexing.picture_chunks import DuePicture, due_pictures
from pg_graphrag.index.indexing.prepare import MAX_TITLE, add_concepts, draft, own_proses
from pg_graphrag.index.indexing.write import is_long, write_documents
from pg_graphrag.llm.endpoints.faults import Unembeddable
from pg_graphrag.llm.endpoints.providers import load_provider
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus, embedding_of
from pg_graphrag.server.queue import LOCKED_RETRY_SECONDS, Job, begin_graph, finish, hand_on, note, release
from pg_graphrag.text.tokenizers import Tokenizer, tokenizer


def process_documents(db: Database, corpus: Corpus, jobs: list[Job]) -> None:
    """Prepare and write a batch; when it fails, its halves, and so on, so that a bad document does not hold up the others.

    Documents whose graph a model finds are done in small groups, so that each is written soon: a slow model takes minutes
    for each.

    Raises Exception: the server's if its disk is full, with the batch postponed.
    """
    size = _asked_at_once(db, corpus, jobs)
    if len(jobs) > size:
        for first in range(0, len(jobs), size):
            process_documents(db, corpus, jobs[first : first + size])
            db.commit()
        return
    try:
        _index(db, corpus, jobs)
    except Exception as error:
        if is_interrupt(error):
            raise
        db.rollback()
        if len(jobs) == 1 or is_disk_full(error):
            for job in jobs:
                settle(db, job, error)
            end_where_full(db, error)
            return
        middle = len(jobs) // 2
        for half in (jobs[:middle], jobs[middle:]):
            process_documents(db, corpus, half)
            db.commit()


def _asked_at_once(db: Database, corpus: Corpus, jobs: list[Job]) -> int:
    """Return about how many documents a model is asked at a time: twice its requests, all where they go by batch."""
    if jobs[0].kind != "graph" or corpus.options.extractor != "llm":
        return len(jobs)
    try:
        provider = load_provider(db, corpus.options.llm.of("extract")[0])
    except GraphRAGError:
        # Each document's fault, when the model is asked.
        return len(jobs)
    return len(jobs) if provider.batch else 2 * provider.concurrency


# How many chunks of each corpus, by its number, the session has written since it made the files of that.
written_chunks: Counter[int] = Counter()
# A row of a table takes less than asking for a cancel.
POLL_SECONDS = 0.05
_READ = f"""
SELECT d.id, pg_catalog.left(d.title, {MAX_TITLE}) AS title, d.content, d.content_hash, d.attached_id,
       pg_catalog.octet_length(d.content) AS size,
       d.indexed_hash IS NOT DISTINCT FROM d.content_hash AS has_text,
       EXISTS (SELECT FROM graphrag.imported_extractions i
                WHERE i.document_id = d.id AND i.content_hash = d.content_hash) AS is_imported
  FROM graphrag.documents d
 WHERE d.id = ANY ($1)
 ORDER BY d.id
"""


def _index(db: Database, corpus: Corpus, jobs: list[Job]) -> None:
    """Prepare and write documents. The jobs of documents with a model's fault are settled and removed from `jobs`.

    If a model finds the graph, a job of kind index writes the text alone, which is searchable then, and becomes one of kind
    graph; if the endpoint for vectors fails, it does without them. A text that is searchable already keeps everything made
    of it until the new index is complete. For a long document the text is written; its parts are jobs of their own.
    """
    is_second = jobs[0].kind == "graph"
    asks = is_second and corpus.options.extractor == "llm"
    embedding_fault = None
    if not corpus.options.embedding.local:
        embedding_fault = open_breaker(db, corpus.options.embedding.provider)
    fault = open_breaker(db, corpus.options.llm.of("extract")[0]) if asks else None
    if is_second and (first_fault := fault or embedding_fault) is not None:
        _settle_faulty(db, jobs, {job.document_id: first_fault for job in jobs})
        return
    document_ids = [job.document_id for job in jobs if job.kind != "remove"]
    with db.step("read"):
        documents = [DueDocument(**row) for row in db.query(_READ, ["int8[]"], [document_ids])] if document_ids else []
        known_documents = _known_documents(db, corpus, documents)
        pictures = due_pictures(db, [row.id for row in documents])
    long_ids = set[int]()
    if not is_second:
        sizes = {row.id: row.size + sum(p.size for p in pictures.get(row.id, ())) for row in documents}
        long_ids = {number for number, size in sizes.items() if is_long(size, corpus.options)} - set(known_documents)
        if corpus.options.extractor == "llm":
            apart_ids = long_ids | set(known_documents)
            unchanged_ids = {row.id for row in documents if row.has_text} - apart_ids
            _hand_on(db, jobs, unchanged_ids, has_text=False)
            db.commit()
            documents = [row for row in documents if row.id not in unchanged_ids]
    read = NO_NAMES
    with_text_ids = {job.document_id for job in jobs if asks and job.payload.get("text")}
    with_text_ids &= {row.id for row in documents if row.has_text} - set(known_documents)
    with db.step("read"):
        drafts = stored_drafts(
            db, [(row.id, row.content_hash, row.title) for row in documents if row.id in with_text_ids]
        )
        db.rollback()
    if documents:
        ranks = tokenizer(corpus.tokenizer, corpus.tokenizer_fingerprint)
        cut_documents = [row for row in documents if row.id not in with_text_ids]
        with db.step("chunks"):
            cut_drafts = _cut(db, corpus, cut_documents, known_documents, pictures, long_ids, ranks)
        read = _add_mentions(db, corpus, cut_drafts, known_documents, ranks, lacks_graph=not is_second)
        drafts += cut_drafts
        if asks:
            drafts = _extract(db, corpus, jobs, drafts, known_documents, ranks)
    if not jobs:
        return
    new_ids = set[int]() if is_second else {row.id for row in documents if not row.has_text}
    unembeddable: dict[int, GraphRAGError] = {}
    skipped_ids = _embed_and_write(db, corpus, jobs, drafts, new_ids, embedding_fault, unembeddable, read)
    written_chunks[corpus.id] += sum(len(item.chunks) for item in drafts if item.id not in skipped_ids)
    with db.step("queue"):
        _conclude(db, jobs, drafts, skipped_ids, unembeddable)


def _known_documents(db: Database, corpus: Corpus, documents: Sequence[DueDocument]) -> dict[int, KnownDocument]:
    """Return {id: document} of documents that bring their mentions: imported ones, rows of attached tables."""
    known: dict[int, KnownDocument] = {}
    if imported := [row for row in documents if row.is_imported]:
        known |= imported_of(db, imported)
    if rows := [row for row in documents if row.attached_id is not None]:
        known |= rows_of(db, corpus, rows)
    return known


def _cut(
    db: Database,
    corpus: Corpus,
    documents: Sequence[DueDocument],
    known_documents: dict[int, KnownDocument],
    pictures: dict[int, list[DuePicture]],
    long_ids: Collection[int],
    ranks: Tokenizer,
) -> list[DocumentDraft]:
    """Return drafts of documents, without mentions."""
    drafts = []
    poll_sometimes = _poll_sometimes(db)
    for document in documents:
        number, content, known = document.id, document.content, known_documents.get(document.id)
        for document_draft in draft(
            number,
            document.content_hash,
            document.title,
            content,
            corpus.options,
            ranks,
            None if known is None else known.spans(content, ranks.count),
            pictures=pictures.get(number, ()),
            is_long=number in long_ids,
        ):
            poll_sometimes()
            if document_draft is not None:
                drafts.append(document_draft)
    return drafts


def _add_mentions(
    db: Database,
    corpus: Corpus,
    drafts: Sequence[DocumentDraft],
    known_documents: dict[int, KnownDocument],
    ranks: Tokenizer,
    *,
    lacks_graph: bool,
) -> WindowNames:
    """Add concepts or what documents bring to their drafts; return what a local model made of the windows with concepts.

    `lacks_graph`: a model finds the others later.
    """
    is_nlp = corpus.options.extractor == "nlp"
    with_concepts = {
        item.id
        for item in drafts
        if (known.has_prose(item) if (known := known_documents.get(item.id)) else is_nlp and not item.is_long)
    }
    windows = (text for item in drafts if item.id in with_concepts for text in item.window_texts)
    read = read_names(db, corpus, (piece for item in drafts for piece in item.chunks), windows)
    poll_sometimes = _poll_sometimes(db)
    for item in drafts:
        if (known := known_documents.get(item.id)) is not None:
            known.add_to(item, ranks.count, read)
        elif item.id in with_concepts and item.chunks:
            names = document_names(item.title, item.chunks, read)
            proses = own_proses(item.chunks)
            with db.step("concepts"):
                for _ in add_concepts(
                    item.chunks, item.title, proses, names, with_full_names=corpus.options.full_names
                ):
                    poll_sometimes()
        elif lacks_graph and corpus.options.extractor == "llm":
            item.lacks_graph = bool(item.chunks)
        poll_sometimes()
    return read


def _poll_sometimes(db: Database) -> Callable[[], None]:
    """Return what polls where the last poll is long enough ago."""
    last_poll = time.monotonic()

    def poll_sometimes() -> None:
        nonlocal last_poll
        if time.monotonic() - last_poll > POLL_SECONDS:
            poll(db)
            last_poll = time.monotonic()

    return poll_sometimes


def _extract(
    db: Database,
    corpus: Corpus,
    jobs: list[Job],
    drafts: list[DocumentDraft],
    known_documents: Collection[int],
    ranks: Tokenizer,
) -> list[DocumentDraft]:
    """Have the model find the graphs of documents that do not bring them; return the drafts without those with a fault."""
    asked_drafts = [item for item in drafts if item.id not in known_documents]
    with db.step("model"):
        faults = extract(db, corpus, asked_drafts, {job.document_id: job.timeouts for job in jobs}, ranks)
    _settle_faulty(db, jobs, faults)
    return [item for item in drafts if item.id not in faults]


def _embed_and_write(
    db: Database,
    corpus: Corpus,
    jobs: list[Job],
    drafts: list[DocumentDraft],
    new_ids: set[int],
    fault: GraphRAGError | None,
    unembeddable: dict[int, GraphRAGError],
    read: WindowNames,
) -> set[int]:
    """Embed and write drafts; return the skipped documents. Those with texts that have no vector are added to `unembeddable`.

    Where texts cannot be embedded, of documents of `new_ids` the text is written without vectors; the jobs of others leave
    `jobs`. `fault`: why no text is embedded at the moment. `read`: vectors that are known.
    """

    def by_document(faults: dict[str, GraphRAGError]) -> dict[int, GraphRAGError]:
        # Somebody may have merged entities meanwhile.
        aliases = resolve_keys(db, corpus, drafts)[0] if faults else {}
        draft_faults = {}
        for item in drafts if faults else ():
            needed = [*item.texts(), *(aliases.get(key, key) for key in sorted(item.entity_keys()))]
            if own_faults := [faults[text] for text in needed if text in faults]:
                draft_faults[item.id] = min(own_faults, key=weight)
        return draft_faults

    def take_faults(faults: dict[str, GraphRAGError]) -> bool:
        draft_faults = by_document(faults)
        for item in drafts:
            if item.id in new_ids & draft_faults.keys():
                item.keep_text(draft_faults.pop(item.id))
        _settle_faulty(db, jobs, draft_faults)
        drafts[:] = [item for item in drafts if item.id not in draft_faults]
        return bool(jobs)

    without: dict[str, GraphRAGError] = {}

    def write(vectors: VectorsByModel) -> set[int]:
        unembeddable.update(by_document(without))
        return write_documents(db, corpus, drafts, [job.document_id for job in jobs], vectors, fitting)

    texts = [text for item in drafts for text in item.texts()] + resolve_keys(db, corpus, drafts)[1]
    fitting = embedding_of(corpus, (piece.content for item in drafts for piece in item.chunks))
    model = fitting or corpus.options.embedding
    return write_with_vectors(db, corpus, model, texts, take_faults, write, without, read.vectors, fault) or set()


def _conclude(
    db: Database,
    jobs: list[Job],
    drafts: Sequence[DocumentDraft],
    skipped_ids: Collection[int],
    unembeddable: dict[int, GraphRAGError],
) -> None:
    """Finish the jobs of written documents, hand them on to their graphs, or put them off; skipped ones are released.

    The job of a document that is indexed with texts without a vector stays, as a dead letter that says so.
    """
    release(db, [job for job in jobs if job.document_id in skipped_ids], LOCKED_RETRY_SECONDS)
    jobs = [job for job in jobs if job.document_id not in skipped_ids]
    lacking_ids = {item.id for item in drafts if item.lacks_graph and item.fault is None and not item.is_long}
    for job in jobs:
        if job.document_id in lacking_ids and job.document_id in unembeddable:
            note(db, job, "unembeddable", unembeddable[job.document_id].message)
    _hand_on(db, jobs, lacking_ids, has_text=True)
    faults = {item.id: item.fault for item in drafts if item.fault is not None}
    for job in begin_graph(db, [job for job in jobs if job.document_id in faults]):
        settle(db, job, faults[job.document_id])
    done = []
    for job in jobs:
        if job.document_id in faults:
            continue
        noted = job.payload.get("unembeddable")
        if lack := unembeddable.get(job.document_id) or (noted and Unembeddable(noted)):
            settle(db, job, lack)
        else:
            done.append(job)
    finish(db, done)


def _hand_on(db: Database, jobs: list[Job], document_ids: Collection[int], *, has_text: bool) -> None:
    """Make the jobs of these documents jobs of kind graph, and remove them from `jobs`."""
    hand_on(db, [job for job in jobs if job.document_id in document_ids], has_text=has_text)
    jobs[:] = [job for job in jobs if job.document_id not in document_ids]


def _settle_faulty(db: Database, jobs: list[Job], faults: dict[int, GraphRAGError]) -> None:
    """Settle the jobs of documents with a fault, and remove them from `jobs`."""
    if not faults:
        return
    for job in jobs:
        if job.document_id in faults:
            settle(db, job, faults[job.document_id])
    db.commit()
    jobs[:] = [job for job in jobs if job.document_id not in faults]
