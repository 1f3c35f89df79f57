"""Long documents are done in parts: the text, then vectors and graph by jobs of any worker (docs/decisions/indexing.md)."""

from collections.abc import Iterable, Iterator

from pg_graphrag.index.graph.drafts import DocumentDraft
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.options import Options

# Bytes of UTF-8 from which a document is long: half of what a worker leases at once.
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


def queue_parts(db: Database, corpus_id: int, draft: DocumentDraft) -> None:
    """Queue what is left to do of a long document whose chunks are written; the document is locked."""
    counts = [chunk.token_count for chunk in draft.chunks]
    for kind, parts in (
        ("embed", part_ranges(counts, VECTOR_TOKENS, len(counts))),
        ("graph", part_ranges(counts, GRAPH_TOKENS, GRAPH_CHUNKS)),
    ):
        db.query(
            "SELECT graphrag._queue_parts($1, $2, $3, $4::int4range[])",
            ["text", "int4", "int8", "text[]"],
            [kind, corpus_id, draft.id, [f"[{first},{end})" for first, end in parts]],
        )


def part_ranges(token_counts: Iterable[int], most_tokens: int, most_chunks: int) -> Iterator[tuple[int, int]]:
    """Yield (first, past the last) of stretches of so many tokens and chunks at most, but at least a chunk each."""
    first = end = tokens = 0
    for count in token_counts:
        if end > first and (tokens + count > most_tokens or end - first == most_chunks):
            yield first, end
            first, tokens = end, 0
        tokens += count
        end += 1
    if end > first:
        yield first, end
