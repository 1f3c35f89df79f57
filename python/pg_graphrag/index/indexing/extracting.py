"""A model's part in indexing: requests for all chunks of a batch at once; a fault of the endpoint affects its document
alone.

If the model gives nothing usable for a chunk, the chunk gets the graph that NLP finds; if it gives a part, the chunk
gets both.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.extraction.extract import extraction
from pg_graphrag.index.extraction.extracted_mentions import add_mentions
from pg_graphrag.index.extraction.extraction_replies import NOTHING, UnusableReply
from pg_graphrag.index.extraction.grounding import SourceText
from pg_graphrag.index.graph.drafts import ChunkDraft, DocumentDraft
from pg_graphrag.index.indexing.chunk_concepts import add_concepts_beside
from pg_graphrag.index.indexing.item_vectors import read_names
from pg_graphrag.index.indexing.prepare import window_head
from pg_graphrag.llm.endpoints.faults import ItemFault, ProviderFault, Waiting
from pg_graphrag.llm.endpoints.gateway import Gateway
from pg_graphrag.llm.endpoints.requests import Task
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.text.tokenizers import Tokenizer

# How often a model may be silent for too long about a document before its chunks go without it.
MAX_TIMEOUTS = 3


def open_breaker(db: Database, provider: str) -> ProviderFault | None:
    """Return the fault for which the provider of that name is not asked at the moment; None where it is asked."""
    rows = db.query(
        "SELECT s.last_error, pg_catalog.date_part('epoch', s.open_until - pg_catalog.clock_timestamp()) AS wait"
        "  FROM graphrag.provider_state s WHERE s.provider = $1 AND s.open_until > pg_catalog.clock_timestamp()",
        ["text"],
        [provider],
    )
    if not rows:
        return None
    return ProviderFault(
        f'provider "{provider}" is not asked for {rows[0]["wait"]:.0f} s more: {rows[0]["last_error"]}',
        retry_after=float(rows[0]["wait"]),
        was_sent=False,
        hint="graphrag.retry_failed() asks it again at once.",
    )


def extract(
    db: Database, corpus: Corpus, drafts: Sequence[DocumentDraft], timeouts: Mapping[int, int], ranks: Tokenizer
) -> dict[int, GraphRAGError]:
    """Add the mentions and claims that the model finds to the drafts; where it fails a chunk, those of NLP.

    `timeouts`: {document id: how often the model was silent for too long}; from `MAX_TIMEOUTS` - 1 on its silence is the
      chunk's fault.

    Returns {document id: fault}; the drafts of these documents are incomplete. Commits: calls and answers are recorded as
      they come, so that they are not paid again after a worker is killed or a document is tried again.
    """
    options = corpus.options
    pieces: list[tuple[DocumentDraft, ChunkDraft]] = []
    tasks: list[Task] = []
    for draft in drafts:
        sources = [
            SourceText(draft.title, piece.section, piece.content, language=piece.language) for piece in draft.chunks
        ]
        waits = timeouts.get(draft.id, 0) + 1 < MAX_TIMEOUTS
        for piece, source in zip(draft.chunks, sources, strict=True):
            source.elsewhere = sources
            pieces.append((draft, piece))
            tasks.append(extraction(options, draft.title, piece.content, source, waits_for_tokens=waits))
    failed: dict[int, GraphRAGError] = {}
    if not tasks:
        return failed
    results = Gateway(db, corpus, worker=True, writes=True).run(tasks)
    for (draft, _), result in zip(pieces, results, strict=True):
        if isinstance(result, GraphRAGError):
            earlier = failed.get(draft.id, result)
            failed[draft.id] = min(earlier, result, key=weight)
            if isinstance(earlier, Waiting) and isinstance(result, Waiting):
                failed[draft.id] = earlier.with_keys(result)
    unread: dict[int, dict[int, GraphRAGError]] = defaultdict(dict)
    partial: dict[int, set[int]] = defaultdict(set)
    for (draft, piece), extracted in zip(pieces, results, strict=True):
        if draft.id in failed:
            continue
        if extracted.fault is None:
            add_mentions(piece, extracted, ranks.count)
            if extracted.is_partial:
                partial[draft.id].add(piece.ordinal)
        else:
            unread[draft.id][piece.ordinal] = extracted.fault
    for draft in drafts:
        if not (draft.id in failed or unread[draft.id] or options.entity_types.is_closed or draft.entity_keys()):
            # For a whole document, this says more about the model than about the text.
            fault = UnusableReply("the model found nothing", raw="", why=NOTHING)
            unread[draft.id] = {piece.ordinal: fault for piece in draft.chunks}
    done = [draft for draft in drafts if draft.id not in failed]
    standing_in = [
        window_head(draft.title, piece) + text
        for draft in done
        for piece in draft.chunks
        if piece.ordinal in unread[draft.id] or piece.ordinal in partial[draft.id]
        for text in piece.window_texts()
    ]
    read = read_names(db, corpus, (piece for draft in done for piece in draft.chunks), standing_in)
    for draft in done:
        add_concepts_beside(draft.chunks, draft.title, options, unread[draft.id], partial[draft.id], read)
    return failed


def weight(fault: GraphRAGError) -> int:
    """Order the faults of one document: permanent ones, the item's own, those that pass."""
    if isinstance(fault, ProviderFault):
        return 0 if fault.permanent else 2
    if isinstance(fault, ItemFault):
        return 1
    # Before a spent budget: the answers to earlier requests are still wanted.
    return 3 if isinstance(fault, Waiting) else 4
