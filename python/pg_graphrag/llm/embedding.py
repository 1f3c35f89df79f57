"""Texts to vectors at an endpoint: what goes into one request, and whose fault it is when one does not come back."""

from collections.abc import Generator, Sequence
from typing import Any

from pg_graphrag.corpus.options import Embedding
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.llm.faults import ContextTooLong, ItemFault
from pg_graphrag.llm.requests import EmbedRequest, Reply

# Texts and tokens (a quarter of the bytes) of one request: what the stricter servers take as they come out of the box.
BATCH_TEXTS = 32
BATCH_TOKENS = 8000
# Of a text that is too long for the model its beginning is embedded, but not less than this.
MIN_CHARACTERS = 200

Embedded = Generator[EmbedRequest, Reply, list[Any]]


def batches(texts: Sequence[str]) -> list[list[str]]:
    """Cut texts into lists that fit one request each, in their order."""
    made: list[list[str]] = []
    room = 0
    for text in texts:
        tokens = len(text.encode("utf-8", "replace")) // 4 + 1
        if not made or len(made[-1]) == BATCH_TEXTS or tokens > room:
            made.append([])
            room = BATCH_TOKENS
        made[-1].append(text)
        room -= tokens
    return made


def embedding(model: Embedding, texts: Sequence[str]) -> Embedded:
    """Ask for the vectors of texts; return for each its vector, (dimensions,) float32, or the `ItemFault` it has.

    What a request is refused for is found by halving it, so that one text holds up no other.

    Raises
    ------
    ProviderFault, BudgetReached
        As the gateway has it; no text is to blame.
    """
    try:
        reply = yield EmbedRequest(model.provider, model.model, tuple(texts), model.dimensions)
        return list(reply.value)
    except ItemFault as fault:
        if len(texts) > 1:
            half = len(texts) // 2
            first = yield from embedding(model, texts[:half])
            return first + (yield from embedding(model, texts[half:]))
        if isinstance(fault, ContextTooLong) and len(texts[0]) >= 2 * MIN_CHARACTERS:
            return (yield from embedding(model, [texts[0][: len(texts[0]) // 2]]))
        refused: list[GraphRAGError] = [fault]
        return refused
