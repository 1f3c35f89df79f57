"""Jobs for parts of long documents: vectors of windows, or the graph, of a range of chunks
(docs/decisions/indexing.md).
"""

from collections.abc import Callable, Sequence

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.graph.drafts import DocumentDraft
from pg_graphrag.index.indexing.chunk_rows import stored_drafts
from pg_graphrag.index.indexing.extracting import extract, open_breaker, weight
from pg_graphrag.index.indexing.item_vectors import (
    NO_NAMES,
    Item,
    VectorsByModel,
    document_names,
    poll,
    read_names,
    resolve_keys,
    write_with_vectors,
)
from pg_graphrag.index.indexing.outcomes import add_dead_letter
from pg_graphrag.index.indexing.prepare import MAX_TITLE, add_concepts, own_proses, window_texts
from pg_graphrag.index.indexing.write import embeds_with_graph
from pg_graphrag.index.indexing.write_part import (
    ChunksChanged,
    DocumentLocked,
    LeaseVoid,
    unembedded_windows,
    write_graph,
    write_windows,
)
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.corpus.options import Embedding
from pg_graphrag.server.corpus.spaces import of_state, spaces
from pg_graphrag.server.queue import LOCKED_RETRY_SECONDS, Job, release, requeue_document
from pg_graphrag.text.tokenizers import tokenizer

_READ = f"""
SELECT d.id, pg_catalog.left(d.title, {MAX_TITLE}) AS title, d.content_hash
  FROM graphrag.documents d
 WHERE d.id = $1 AND d.indexed_hash = d.content_hash AND d.indexed_at IS NULL
"""


def process_part(db: Database, corpus: Corpus, job: Job) -> None:
    """Do the job of a part. Any fault of a model is raised; then nothing of the part is written."""
    assert job.chunks is not None
    (first, last), options = job.chunks, corpus.options
    providers = [] if options.embedding.local else [options.embedding.provider]
    if job.kind == "graph" and options.extractor == "llm":
        providers.append(options.llm.of("extract")[0])
    for provider in providers:
        if (fault := open_breaker(db, provider)) is not None:
            raise fault
    with db.step("read"):
        documents = db.query(_READ, ["int8"], [job.document_id])
        versions = [(row["id"], row["content_hash"], row["title"]) for row in documents]
        drafts = stored_drafts(db, versions, first, last)
    try:
        if not drafts or len(drafts[0].chunks) != last - first + 1:
            raise ChunksChanged
        (_embed_windows if job.kind == "embed" else _add_graph)(db, corpus, job, drafts[0])
    except DocumentLocked:
        db.rollback()
        release(db, [job], LOCKED_RETRY_SECONDS)
    except LeaseVoid:
        db.rollback()
    except ChunksChanged:
        db.rollback()
        requeue_document(db, job)


def _embed_windows(db: Database, corpus: Corpus, job: Job, document_draft: DocumentDraft) -> None:
    active = of_state(spaces(db, corpus.id), "active")
    if active is None:
        raise ChunksChanged
    texts = window_texts(document_draft.title, document_draft.chunks)
    items = unembedded_windows(db, active, document_draft, texts)

    def write(vectors: VectorsByModel) -> None:
        write_windows(db, corpus, job, document_draft, items, vectors)

    _write(db, corpus, document_draft, active.embedding, [item[3] for item in items], write, {})


def _add_graph(db: Database, corpus: Corpus, job: Job, document_draft: DocumentDraft) -> None:
    windows: Sequence[Item] = ()
    read = NO_NAMES
    if embeds_with_graph(corpus.options) and (active := of_state(spaces(db, corpus.id), "active")) is not None:
        texts = window_texts(document_draft.title, document_draft.chunks)
        windows = unembedded_windows(db, active, document_draft, texts)
    db.rollback()
    if corpus.options.extractor == "llm":
        ranks = tokenizer(corpus.tokenizer, corpus.tokenizer_fingerprint)
        with db.step("model"):
            faults = extract(db, corpus, [document_draft], {job.document_id: job.timeouts}, ranks)
        for fault in faults.values():
            raise fault
    else:
        title, chunks, with_full_names = document_draft.title, document_draft.chunks, corpus.options.full_names
        proses = own_proses(chunks)
        read = read_names(db, corpus, chunks, window_texts(title, chunks))
        names = document_names(title, chunks, read)
        with db.step("concepts"):
            for _ in add_concepts(chunks, title, proses, names, with_full_names=with_full_names):
                poll(db)

    def write(vectors: VectorsByModel) -> None:
        write_graph(db, corpus, job, document_draft, vectors, windows)

    texts = document_draft.texts() + resolve_keys(db, corpus, [document_draft])[1] + [item[3] for item in windows]
    _write(db, corpus, document_draft, corpus.options.embedding, texts, write, read.vectors)


def _write(
    db: Database,
    corpus: Corpus,
    document_draft: DocumentDraft,
    model: Embedding,
    texts: Sequence[str],
    write: Callable[[VectorsByModel], None],
    known: VectorsByModel,
) -> None:
    """Embed texts and write a part; where one has no vector, a dead letter of the document says so."""
    without: dict[str, GraphRAGError] = {}

    def write_and_note(vectors: VectorsByModel) -> None:
        write(vectors)
        if without:
            add_dead_letter(db, corpus.id, document_draft.id, next(iter(without.values())))

    write_with_vectors(db, corpus, model, texts, _raise_first, write_and_note, without, known)


def _raise_first(faults: dict[str, GraphRAGError]) -> bool:
    """Raise the weightiest of the faults, if there are any."""
    if faults:
        raise min(faults.values(), key=weight)
    return True
