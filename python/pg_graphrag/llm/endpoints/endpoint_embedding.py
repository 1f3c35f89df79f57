"""Vectors of texts from an endpoint: how many texts a request holds, and which text is at fault when it fails."""

from collections.abc import Generator, Sequence
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, ProviderFault, TimedOut, Unembeddable
from pg_graphrag.llm.endpoints.requests import PROBE, EmbedRequest, Reply
from pg_graphrag.server.corpus.options import Embedding
from pg_graphrag.text.letters import one_line

# Texts and tokens (a quarter of the bytes) of one request: the defaults of the stricter servers. A model that answers
# quickly gets more texts at once, up to a limit, or until it refuses.
BATCH_TEXTS = 32
MOST_TEXTS = 128
BATCH_TOKENS = 8000
# Measured over so many requests together, or fewer.
QUICK_SECONDS, QUICK_REQUESTS = 2.0, 32
# A text that is too long for the model is cut, but not below this.
MIN_CHARACTERS = 200

# How often a text is tried over which an endpoint stumbles.
ATTEMPTS = 2
_HINT = "The document is indexed without the vector of: {}"

Embedded = Generator[EmbedRequest, Reply, list[Any]]

# What this session knows of a (provider, model): how many texts it is asked for at once, and at most.
_texts: dict[tuple[str, str], int] = {}
_limits: dict[tuple[str, str], int] = {}


def texts_at_once(model: Embedding) -> int:
    """Return how many texts a request may hold."""
    return _texts.get((model.provider, model.model), BATCH_TEXTS)


def note_run(model: Embedding, parts: Sequence[Sequence[str]], seconds: float) -> None:
    """Note how long answered requests took together: after full and quick ones the next may hold twice as many texts."""
    limit = texts_at_once(model)
    is_quick = seconds < QUICK_SECONDS * max(1.0, len(parts) / QUICK_REQUESTS)
    if is_quick and any(len(part) >= limit for part in parts):
        key = (model.provider, model.model)
        _texts[key] = min(2 * limit, _limits.get(key, MOST_TEXTS))


def _note_limit(model: Embedding, texts: int) -> None:
    key = (model.provider, model.model)
    _limits[key] = min(texts, _limits.get(key, MOST_TEXTS))
    _texts[key] = min(texts_at_once(model), _limits[key])


def batches(texts: Sequence[str], most: int = BATCH_TEXTS) -> list[list[str]]:
    """Cut texts into lists of at most `most` that fit one request each, in their order."""
    lists: list[list[str]] = []
    room = 0
    for text in texts:
        tokens = len(text.encode("utf-8", "replace")) // 4 + 1
        if not lists or len(lists[-1]) >= most or tokens > room:
            lists.append([])
            room = BATCH_TOKENS
        lists[-1].append(text)
        room -= tokens
    return lists


def embedding(model: Embedding, texts: Sequence[str], *, is_waited_for: bool = False) -> Embedded:
    """Ask for the vectors of texts; return for each its vector, (dimensions,) float32, or its `ItemFault`.

    A refused request is halved until the text at fault is found, so that one text holds up no other. The fault is
    `Unembeddable` if the endpoint has vectors of other texts. The same holds for a text on which the endpoint itself fails
    or hangs. `is_waited_for`: a caller waits for all of them and gets the first time-out.

    Raises ProviderFault, BudgetReached: as in the gateway; no text is at fault.
    """
    vectors = yield from _embedding(model, texts, is_waited_for)
    is_at_fault = [isinstance(vector, ItemFault) for vector in vectors]
    if any(is_at_fault) and (not all(is_at_fault) or (yield from _embeds_others(model))):
        for place, text in enumerate(texts):
            fault = vectors[place]
            if isinstance(fault, ItemFault):
                vectors[place] = Unembeddable(fault.message, raw=fault.raw, hint=_HINT.format(one_line(text)))
    return vectors


def _embedding(model: Embedding, texts: Sequence[str], is_waited_for: bool) -> Embedded:
    fault: ItemFault | None = None
    if len(texts) <= _limits.get((model.provider, model.model), len(texts)):
        for _ in range(ATTEMPTS):
            try:
                reply = yield EmbedRequest(model.provider, model.model, tuple(texts), model.dimensions)
                return list(reply.value)
            except ItemFault as error:
                fault = error
                break
            except ProviderFault as error:
                is_of_text = error.may_be_of_text and (yield from _embeds_others(model))
                if not is_of_text or (is_waited_for and isinstance(error, TimedOut)):
                    raise
                fault = ItemFault(error.message)
                if len(texts) > 1:
                    break
    if len(texts) > 1:
        half = len(texts) // 2
        first = yield from _embedding(model, texts[:half], is_waited_for)
        vectors = first + (yield from _embedding(model, texts[half:], is_waited_for))
        if not any(isinstance(vector, GraphRAGError) for vector in vectors):
            # No text was at fault, only their number.
            _note_limit(model, half)
        return vectors
    if isinstance(fault, ContextTooLong) and len(texts[0]) >= 2 * MIN_CHARACTERS:
        return (yield from _embedding(model, [texts[0][: len(texts[0]) // 2]], is_waited_for))
    return [fault]


def _embeds_others(model: Embedding) -> Generator[EmbedRequest, Reply, bool]:
    """Whether the endpoint has a vector of a text that no model stumbles over."""
    try:
        yield EmbedRequest(model.provider, model.model, (PROBE,), model.dimensions, is_probe=True)
    except (ItemFault, ProviderFault):
        return False
    return True
