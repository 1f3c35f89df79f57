"""The write step: one transaction for a batch of documents, so that readers see a text whole or not at all."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pg_graphrag.ground.numeric import Vectors
from pg_graphrag.index.bm25 import LONG_TAIL, LONGEST_TAIL, tail_length
from pg_graphrag.index.graph.change import Change
from pg_graphrag.index.graph.drafts import DocumentDraft
from pg_graphrag.index.graph.merge import merge
from pg_graphrag.index.indexing.chunk_rows import (
    insert_chunks,
    insert_windows,
    is_stored,
    note_extractions,
    remove_chunks,
    still_stored,
    write_statements,
)
from pg_graphrag.index.indexing.item_vectors import (
    Item,
    MissingVectors,
    VectorsByModel,
    delete_vectors,
    insert_vectors,
    is_in_words,
)
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus, corpus_by_id, revise
from pg_graphrag.server.corpus.options import Embedding, Options
from pg_graphrag.server.corpus.spaces import Space, add_space, indexed_rows, lock_spaces, of_state, spaces
from pg_graphrag.server.queue import queue, queue_refresh

# Imported chunks of documents that are gone or have other content now.
_FORGET_IMPORTED = """
DELETE FROM graphrag.imported_extractions i
 WHERE i.document_id = ANY ($1)
   AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = i.document_id AND d.content_hash = i.content_hash)
"""
_HAS_DUE_PICTURES = (
    "SELECT EXISTS (SELECT FROM graphrag.pictures p"
    " WHERE p.document_id = ANY ($1) AND p.description IS NULL AND p.error IS NULL)"
)


def write_documents(
    db: Database,
    corpus: Corpus,
    drafts: Sequence[DocumentDraft],
    document_ids: Sequence[int],
    vectors: VectorsByModel,
    fitting: Embedding | None,
) -> set[int]:
    """Replace the index of `document_ids` by `drafts` (a document without a draft is removed), or add mentions to it.

    `fitting`: the embedding model for a corpus that chooses one.

    Drafts of outdated content are discarded: newer content has its own job. For a long document the text is written, and
    jobs for its parts are queued; if the index has exactly this text, it stays with everything made of it. Returns the
    documents to try again, which are untouched: those that another session is changing at this moment (waiting could
    deadlock), and those whose chunks differ from the chunks of the mentions.

    Raises MissingVectors if `vectors` lacks texts that the active space needs: another model was swapped in meanwhile, or
      an entity was removed and comes back.
    """
    lock_spaces(db, corpus.id, is_shared=True)
    active = ensure_storage(db, corpus, fitting)
    ready, removable, skipped_ids = _lock_documents(db, drafts, document_ids)
    unchanged_ids = {draft.id for draft in ready if draft.is_long and is_stored(db, draft)}
    new = [draft for draft in ready if draft.chunk_ids is None and draft.id not in unchanged_ids]
    extended = [draft for draft in ready if draft.chunk_ids is not None]
    active_vectors = vectors.get(active.embedding, {})
    check_vectors(active, active_vectors, (text for draft in ready for text in draft.texts()))
    change = Change(corpus.id)
    affected = sorted([draft.id for draft in ready] + removable)
    old = remove_chunks(db, corpus, sorted([draft.id for draft in new] + removable), change)
    new_ids = insert_chunks(db, corpus, new)
    items = {"window": insert_windows(db, corpus, new, new_ids)}
    note_extractions(db, extended)
    drafts = new + extended
    chunk_ids = new_ids + [draft.chunk_ids or [] for draft in extended]
    items |= write_statements(db, corpus.id, drafts, chunk_ids)
    for kind, kind_items in items.items():
        # Windows whose texts could not be embedded have none yet.
        insert_vectors(db, active, kind, kind_items, active_vectors)
    for draft, ids in zip(drafts, chunk_ids, strict=True):
        for piece, chunk_id in zip(draft.chunks, ids, strict=True):
            change.add_chunk(draft.id, chunk_id, piece, is_row=draft.is_row)
    with db.step("lock"):
        db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    # Under the lock, so that reembed() leaves no vectors of removed chunks.
    all_spaces = spaces(db, corpus.id)
    for space in all_spaces:
        if space.state != "retired":
            delete_vectors(db, space, old, [])
    write_change(db, corpus, active, all_spaces, change, items, vectors, affected, [])
    # The text is searchable from now on; the document is indexed when it has its graph too.
    db.query(
        "UPDATE graphrag.documents d SET indexed_hash = d.content_hash, error = NULL,"
        " status = CASE WHEN u.lacks_graph THEN 'pending' ELSE 'indexed' END,"
        " indexed_at = CASE WHEN NOT u.lacks_graph THEN pg_catalog.clock_timestamp() END"
        "  FROM unnest($1, $2) AS u (id, lacks_graph) WHERE d.id = u.id",
        ["int8[]", "bool[]"],
        [[draft.id for draft in ready], [draft.lacks_graph for draft in ready]],
    )
    notify(db, corpus, [draft.id for draft in ready])
    for draft in ready:
        if draft.is_long:
            queue_parts(db, corpus, draft)
    db.query(_FORGET_IMPORTED, ["int8[]"], [affected])
    if corpus.options.llm.has("vision") and db.value(_HAS_DUE_PICTURES, ["int8[]"], [affected]):
        queue(db, "describe", corpus.id)
    # Not where the graph is still to come: communities of half a graph, and their reports, would be paid twice.
    if corpus.options.communities.automatic and not (ready and all(draft.lacks_graph for draft in ready)):
        queue_refresh(db, corpus.id)
    return skipped_ids


def write_change(
    db: Database,
    corpus: Corpus,
    active: Space,
    all_spaces: list[Space],
    change: Change,
    items: dict[str, list[Item]],
    vectors: VectorsByModel,
    document_ids: list[int],
    chunk_ids: list[int],
) -> None:
    """Merge a change into the graph, and store vectors: of new entities, and in a space that is being built also of
    `items`.

    The corpus is locked; `all_spaces` are its, of which `active` is searched. `document_ids`, `chunk_ids`: the items that
    the graph for Cypher gets again.

    Raises MissingVectors: as `write_documents`.
    """
    active_vectors = vectors.get(active.embedding, {})
    with db.step("merge"):
        created, removed_ids = merge(db, change, document_ids, chunk_ids, corpus.options.llm.has("summary"))
    if not active.embedding.local:
        created |= _names_without_vector(db, active, [chunk_id for _, chunk_id, _ in change.chunks])
    check_vectors(active, active_vectors, filter(is_in_words, created))
    items["entity"] = [(entity, 0, 0, name) for name, entity in created.items()]
    insert_vectors(db, active, "entity", items["entity"], active_vectors)
    for space in all_spaces:
        if space.state != "retired":
            delete_vectors(db, space, [], removed_ids)
    if (building := of_state(all_spaces, "building")) is not None:
        # The job of kind reembed fills in the others.
        building_vectors = vectors.get(building.embedding, {})
        for kind, kind_items in items.items():
            insert_vectors(db, building, kind, kind_items, building_vectors, is_late=kind == "entity")
    note_change(db, corpus)


def _names_without_vector(db: Database, space: Space, chunk_ids: list[int]) -> dict[str, int]:
    """Return {key: id} of entities of chunks that the endpoint had no vector of: it is asked again."""
    rows = db.query(
        "SELECT e.key, e.id FROM graphrag.entities e"
        " WHERE e.id IN (SELECT m.entity_id FROM graphrag.entity_mentions m WHERE m.chunk_id = ANY ($1))"
        f" AND NOT EXISTS (SELECT FROM {space.rows('entity')} v WHERE v.entity_id = e.id)",
        ["int8[]"],
        [chunk_ids],
    )
    return {row["key"]: row["id"] for row in rows}


def note_change(db: Database, corpus: Corpus) -> None:
    """Tell sessions that their caches are old, and queue upkeep that is due; the corpus is locked."""
    revise(db, corpus.id)
    length = tail_length(db, corpus.id)
    if length >= LONGEST_TAIL:
        queue(db, "pack", corpus.id)
    if length >= LONG_TAIL or _wants_vector_index(db, corpus):
        queue(db, "optimize", corpus.id)


_PAYLOADS = """
SELECT CASE WHEN pg_catalog.octet_length(n.payload::text) < 8000 THEN n.payload
            ELSE n.payload - 'source_key' - 'corpus' END::text AS payload
  FROM (SELECT pg_catalog.jsonb_build_object('corpus', $2, 'source_key', d.source_key, 'document_id', d.id,
                                             'status', d.status) AS payload
          FROM graphrag.documents d WHERE d.id = ANY ($1)) n
"""
# Bytes of a notification besides its payload.
_NOTIFY_OVERHEAD = 64
# Whether the session was told that notifications are left out.
_is_told = False


def notify(db: Database, corpus: Corpus, document_ids: list[int]) -> None:
    """Notify listeners of documents at commit, if the corpus' option says so.

    A key that is too long for a notification is left out. If the server's queue is filling, nothing is sent: the commit
    would fail.
    """
    global _is_told
    if not corpus.options.notify:
        return
    payloads = [row["payload"] for row in db.query(_PAYLOADS, ["int8[]", "text"], [document_ids, corpus.name])]
    size = sum(len(payload.encode()) + _NOTIFY_OVERHEAD for payload in payloads)
    if db.value("SELECT graphrag._may_notify($1)", ["int8"], [size]):
        db.query(
            "SELECT pg_catalog.pg_notify('graphrag_indexed', p) FROM pg_catalog.unnest($1) p", ["text[]"], [payloads]
        )
        _is_told = False
    elif not _is_told:
        db.warning(
            "notifications of indexed documents are left out: the server's queue of them is filling",
            hint="A session that LISTENs has a transaction open; graphrag.health() names the oldest.",
        )
        _is_told = True


def check_vectors(space: Space, vectors: Mapping[str, Vectors | None], texts: Iterable[str]) -> None:
    """Refuse texts that the space embeds but that have no vector.

    Raises MissingVectors, which has these texts, where there are any.
    """
    missing_texts = [text for text in texts if text not in vectors and space.embedding.embeds(text)]
    if missing_texts:
        raise MissingVectors(space.embedding, missing_texts)


def _wants_vector_index(db: Database, corpus: Corpus) -> bool:
    is_wanted: bool = db.value(
        "SELECT EXISTS (SELECT FROM graphrag._unindexed_vectors($1, $2))",
        ["int4", "int4"],
        [corpus.id, indexed_rows(corpus.options.embedding.dimensions)],
    )
    return is_wanted


def ensure_storage(db: Database, corpus: Corpus, fitting: Embedding | None) -> Space:
    """Return the active space; the first writer makes it and the graph.

    A corpus that chooses its model gets `fitting`; without texts to choose by (None) its space is not stored.
    """
    active = of_state(spaces(db, corpus.id), "active")
    if active is not None:
        return active
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    active = of_state(spaces(db, corpus.id), "active")
    db.query("SELECT graphrag._ensure_graph($1)", ["int4"], [corpus.id])
    # Read under the lock: while there are no vectors, reembed() changes the option and nothing else.
    current = corpus_by_id(db, corpus.id) or corpus
    if active is not None:
        return active
    embedding = fitting if current.chooses_embedding else current.options.embedding
    if embedding is None:
        return Space(0, current.options.embedding, "active", own_tables=False)
    return add_space(db, corpus.id, embedding, "active")


def _lock_documents(
    db: Database, drafts: Sequence[DocumentDraft], document_ids: Sequence[int]
) -> tuple[list[DocumentDraft], list[int], set[int]]:
    """Lock existing documents; return (drafts that are still current, removed documents, documents to try again).

    Retracted documents count as removed.
    """
    ids = sorted(document_ids)
    # Null: retracted. No draft has it.
    locked_hashes = {
        row["id"]: row["content_hash"]
        for row in db.query(
            "SELECT d.id, CASE WHEN d.retracted_at IS NULL THEN d.content_hash END AS content_hash"
            "  FROM graphrag.documents d WHERE d.id = ANY ($1) ORDER BY d.id FOR NO KEY UPDATE SKIP LOCKED",
            ["int8[]"],
            [ids],
        )
    }
    existing = {
        row["id"] for row in db.query("SELECT d.id FROM graphrag.documents d WHERE d.id = ANY ($1)", ["int8[]"], [ids])
    }
    current = [draft for draft in drafts if locked_hashes.get(draft.id) == draft.content_hash]
    stale_ids = {draft.id for draft in current if draft.chunk_ids is not None}
    stale_ids -= still_stored(db, [draft for draft in current if draft.id in stale_ids])
    removed_ids = [
        document
        for document in ids
        if (document not in existing and document not in locked_hashes)
        or (document in locked_hashes and locked_hashes[document] is None)
    ]
    skipped_ids = existing - set(locked_hashes) | stale_ids
    return [draft for draft in current if draft.id not in stale_ids], removed_ids, skipped_ids


# From so many bytes of UTF-8 a document is long: half of a worker's batch.
LONG_BYTES = 200_000
# Bytes that a token stands for, about, in any script.
_BYTES_PER_TOKEN = 4
# Tokens whose windows one job embeds: some seconds of the local model.
VECTOR_TOKENS = 16_000
# Chunks, and tokens, whose graph is written at once: as many requests, where a model finds it.
GRAPH_CHUNKS = 64
GRAPH_TOKENS = 64 * 1200


def is_long(size: int, options: Options) -> bool:
    """Whether a document of `size` bytes is done in parts; where a model is asked, also one of many small chunks."""
    if options.extractor == "llm":
        return size > min(LONG_BYTES, GRAPH_CHUNKS * options.chunk_token_size * _BYTES_PER_TOKEN)
    return size > LONG_BYTES


def embeds_with_graph(options: Options) -> bool:
    """Whether one pass over windows gives vectors and names: then a long document's vectors come with its graph."""
    return options.extractor == "nlp" and options.embedding.local


def queue_parts(db: Database, corpus: Corpus, draft: DocumentDraft) -> None:
    """Queue the remaining parts of a long document whose chunks are written; the document is locked."""
    counts = [chunk.token_count for chunk in draft.chunks]
    graph_parts = part_ranges(counts, GRAPH_TOKENS, GRAPH_CHUNKS)
    vector_parts = () if embeds_with_graph(corpus.options) else part_ranges(counts, VECTOR_TOKENS, len(counts))
    for kind, parts in (("embed", vector_parts), ("graph", graph_parts)):
        db.query(
            "SELECT graphrag._queue_parts($1, $2, $3, $4::int4range[])",
            ["text", "int4", "int8", "text[]"],
            [kind, corpus.id, draft.id, [f"[{first},{end})" for first, end in parts]],
        )


def part_ranges(token_counts: Iterable[int], most_tokens: int, most_chunks: int) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, past the last) with a maximum of tokens and chunks, but at least one chunk each."""
    first = end = tokens = 0
    for count in token_counts:
        if end > first and (tokens + count > most_tokens or end - first == most_chunks):
            yield first, end
            first, tokens = end, 0
        tokens += count
        end += 1
    if end > first:
        yield first, end
