"""A model's part in indexing: requests for all chunks of a batch at once; a fault concerns its document alone."""

from collections.abc import Sequence

from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.extraction.extract import extraction
from pg_graphrag.extraction.mentions import add_mentions
from pg_graphrag.graph.drafts import DocumentDraft
from pg_graphrag.indexing.chunk_concepts import note_concepts
from pg_graphrag.llm.faults import ItemFault, ProviderFault, Waiting
from pg_graphrag.llm.gateway import Gateway
from pg_graphrag.llm.requests import Task
from pg_graphrag.server import Database, Row
from pg_graphrag.text.tokenizers import Tokenizer


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
    db: Database,
    corpus: Corpus,
    documents: Sequence[Row],
    drafts: Sequence[DocumentDraft],
    errors: dict[int, int],
    max_errors: int,
    ranks: Tokenizer,
) -> dict[int, GraphRAGError]:
    """Add the mentions and claims that the model finds to the drafts.

    Parameters
    ----------
    errors : dict
        {document id: errors its job has so far}; at `max_errors` - 1 the attempt is the last.

    Returns
    -------
    dict
        {document id: fault}; the drafts of these documents are incomplete. Commits: calls and answers are recorded as they
        come, so that they are not paid again after a worker is killed or a document is tried again.
    """
    pieces = [
        (document, draft, piece) for document, draft in zip(documents, drafts, strict=True) for piece in draft.chunks
    ]
    tasks: list[Task] = [
        extraction(
            corpus.options, document["title"], piece.content, errors[draft.id], errors[draft.id] + 1 >= max_errors
        )
        for document, draft, piece in pieces
    ]
    failed: dict[int, GraphRAGError] = {}
    if not tasks:
        return failed
    results = Gateway(db, corpus, worker=True, writes=True).run(tasks)
    for (_, draft, _), result in zip(pieces, results, strict=True):
        if isinstance(result, GraphRAGError):
            earlier = failed.get(draft.id, result)
            failed[draft.id] = min(earlier, result, key=weight)
            if isinstance(earlier, Waiting) and isinstance(result, Waiting):
                failed[draft.id] = earlier.with_keys(result)
    for (_, draft, piece), extracted in zip(pieces, results, strict=True):
        if draft.id not in failed:
            add_mentions(piece, extracted, ranks.count)
    for document, draft in zip(documents, drafts, strict=True):
        if draft.id not in failed:
            note_concepts(draft.chunks, document["title"], with_full_names=corpus.options.full_names)
    return failed


def weight(fault: GraphRAGError) -> int:
    """Order the faults of one document: permanent ones, the item's own, those that pass."""
    if isinstance(fault, ProviderFault):
        return 0 if fault.permanent else 2
    if isinstance(fault, ItemFault):
        return 1
    # Before a spent budget: the answers to earlier requests are still wanted.
    return 3 if isinstance(fault, Waiting) else 4
