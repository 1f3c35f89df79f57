"""Drafts of documents as indexing makes them, without a server."""

from pg_graphrag.index.graph.drafts import DocumentDraft
from pg_graphrag.index.indexing.prepare import DocumentNames, add_concepts, draft, own_proses
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.tokenizers import tokenizer


def drafted(title: str | None, content: str, options: Options) -> DocumentDraft:
    """Return the draft of a document with the concepts that analysers find, as where no tagger reads names."""
    *_, whole = draft(7, "hash", title, content, options, tokenizer(options.tokenizer))
    assert whole is not None
    return with_concepts(whole, options)


def with_concepts(whole: DocumentDraft, options: Options) -> DocumentDraft:
    """Return a draft with the concepts of its chunks."""
    if whole.chunks:
        proses = own_proses(whole.chunks)
        for _ in add_concepts(whole.chunks, whole.title, proses, DocumentNames(), with_full_names=options.full_names):
            pass
    return whole
