"""What NLP finds in chunks that a model reads: `hybrid` and `ppr` walk over these concepts, too (retrieval/chunk_concepts.py).

Without a model a chunk has digests of its weak concepts alone: the others are entities (indexing/prepare.py).
"""

from collections.abc import Sequence

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.graph.drafts import ChunkDraft
from pg_graphrag.indexing.prepare import count_concepts, digests
from pg_graphrag.text.prose import prose


def note_concepts(chunk_drafts: Sequence[ChunkDraft], title: str | None, *, with_full_names: bool) -> None:
    """Note in chunks of one document the digests of their concepts; nothing where no library for a language is installed."""
    proses = (prose(draft.text(draft.own_start, draft.end)) for draft in chunk_drafts)
    try:
        counts = list(count_concepts(chunk_drafts, title, proses, with_full_names=with_full_names))
    except GraphRAGError as error:
        # Models read languages for which nothing else is needed.
        if error.sqlstate != "58P01":
            raise
        return
    for chunk_draft, chunk_counts in zip(chunk_drafts, counts, strict=True):
        chunk_draft.concepts = digests(chunk_counts)
