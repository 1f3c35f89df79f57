"""Single requests to an endpoint other than chat: embeddings, rerank, the list of its models.

Runs in the session's background thread (`pg_graphrag.llm.endpoints.loop`): nothing here may touch the database.
"""

import base64
from collections.abc import Sequence
from typing import Any

from pg_graphrag.ground.numeric import np
from pg_graphrag.llm.endpoints.faults import ItemFault, ProviderFault
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.llm.endpoints.requests import count_tokens
from pg_graphrag.llm.endpoints.transport import MAX_REPLY_BYTES, FieldRefused, note_refusal, post, refused_fields
from pg_graphrag.text.letters import clean, without_stray_invisible

# Bytes of a number in a vector, and bytes and values around vectors. A model's vectors are no longer than the longest known.
_NUMBER_BYTES, _FRAME_BYTES, _FRAME_VALUES = 64, 1_000_000, 100
_LONGEST_VECTOR = 8192


async def embed(
    provider: Provider,
    api_key: str | None,
    model: str,
    texts: Sequence[str],
    dimensions: int | None,
    seconds: float | None = None,
) -> tuple[Any, int]:
    """Return ((len(texts), dimensions) float32, L2-normalised; tokens in). `seconds`: a time-out other than the provider's.

    Raises ProviderFault: as `wire.chat`; also another dimension than `dimensions` (None: any): no item can help it.
    Raises ItemFault: fewer vectors than texts, NaN, or a vector of zeros: models do that to some texts and not to others.
    """
    # Packed vectors are half as long and need no parsing; endpoints that do not know them send numbers.
    fields = {
        "model": model,
        "input": [without_stray_invisible(text) or text for text in texts],
        "encoding_format": "base64",
        "dimensions": dimensions,
    }
    fields |= provider.embedding_request
    # A longer reply is no answer; reading it would take memory and, as nothing can interrupt that, time.
    most_values = _FRAME_VALUES + len(texts) * (_FRAME_VALUES + (dimensions or _LONGEST_VECTOR))
    limit = _FRAME_BYTES + most_values * _NUMBER_BYTES
    while True:
        # Only some models can shorten their vectors; the length is checked in any case.
        refused = refused_fields(provider, model)
        body = {name: value for name, value in fields.items() if value is not None and name not in refused}
        try:
            reply = await post(provider, api_key, "/embeddings", body, limit, most_values=most_values, seconds=seconds)
            break
        except FieldRefused as error:
            note_refusal(provider, model, error.field)
    try:
        items = list(reply["data"])
        vectors = _packed(items, len(texts), dimensions)
        if vectors is None:
            vectors = _any_form(provider, model, items, len(texts), dimensions)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise ProviderFault(f'provider "{provider.name}" answered with something other than embeddings') from None
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise ItemFault(f'model "{model}" of provider "{provider.name}" gave a vector with NaN, infinity or only zeros')
    usage = reply.get("usage")
    token_count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return (vectors / lengths[:, None]).astype(np.float32), count_tokens(token_count, "".join(texts))


def _packed(items: Sequence[Any], count: int, dimensions: int | None) -> Any:
    """Return the vectors of an answer in its usual form: each packed, in order; None where it has another."""
    packed = [item["embedding"] for item in items]
    size = (dimensions or 0) * 4
    # Then a string has no padding, and all can be read as one, in a third of the time.
    if not size or size % 3 or len(items) != count or [item.get("index") for item in items] != list(range(count)):
        return None
    if any(not isinstance(text, str) or len(text) != size // 3 * 4 for text in packed):
        return None
    return np.frombuffer(base64.b64decode("".join(packed), validate=True), "<f4").reshape(count, -1)


def _any_form(provider: Provider, model: str, items: Sequence[Any], text_count: int, dimensions: int | None) -> Any:
    """Return the vectors of an answer in any known form; raises as `embed`, or as its parser if it has none of these forms."""
    rows: list[Any] = [None] * text_count
    for place, item in enumerate(items[:text_count]):
        index = place if item.get("index") is None else int(item["index"])
        if index < 0:
            raise ValueError
        rows[index] = _vector(item["embedding"])
    count = sum(row is not None for row in rows) + max(0, len(items) - text_count)
    if count != text_count:
        raise ItemFault(f'model "{model}" of provider "{provider.name}" gave {count} vectors for {text_count} texts')
    size = dimensions or rows[0].size
    for row in rows:
        if row.size != size:
            raise ProviderFault(
                f'model "{model}" of provider "{provider.name}" gave a vector of {row.size} dimensions, not {size}',
                permanent=True,
                is_of_vector=True,
                hint="Set embedding.dimensions of the corpus to what the model gives, with graphrag.reembed(…).",
            )
    return np.stack(rows)


def _vector(value: Any) -> Any:
    """A vector as numbers or packed; ValueError or TypeError for anything else."""
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value, validate=True), "<f4")
    vector = np.asarray(value, np.float32)
    if vector.ndim != 1:
        raise ValueError
    return vector


async def models(provider: Provider, api_key: str | None) -> tuple[list[str], int]:
    """Return (the names of the endpoint's models, no tokens). Raises as `wire.chat`."""
    body = await post(provider, api_key, "/models", {}, MAX_REPLY_BYTES, method="GET")
    # OpenAI's form; Ollama's, which has both; Together's, which is the list alone.
    items = (body.get("data") or body.get("models")) if isinstance(body, dict) else body
    listed = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    names = [item.get("id") or item.get("name") for item in listed]
    return [" ".join(clean(name).split()) for name in names if isinstance(name, str)], 0


async def rerank(
    provider: Provider, api_key: str | None, model: str, query: str, texts: Sequence[str]
) -> tuple[list[float], int]:
    """Return (relevance of each text, in their order; tokens in, estimated where the endpoint does not say).

    Request shapes: ``cohere`` (Cohere, Jina, vLLM: model, query, documents) and ``tei`` (query, texts).
    """
    if provider.shape == "tei":
        body: dict[str, Any] = {"query": query, "texts": list(texts), "raw_scores": False}
    else:
        body = {"model": model, "query": query, "documents": list(texts), "top_n": len(texts)}
    reply = await post(provider, api_key, "/rerank", body, MAX_REPLY_BYTES)
    results = reply if isinstance(reply, list) else reply.get("results") if isinstance(reply, dict) else None
    scores: list[float | None] = [None] * len(texts)
    try:
        for item in results or ():
            score = float(item["relevance_score"] if "relevance_score" in item else item["score"])
            if not np.isfinite(score) or int(item["index"]) < 0:
                raise ValueError
            scores[int(item["index"])] = score
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        raise ProviderFault(f'provider "{provider.name}" answered with something other than a ranking') from None
    if any(score is None for score in scores):
        raise ProviderFault(f'provider "{provider.name}" did not score all {len(texts)} texts')
    return [float(score or 0.0) for score in scores], count_tokens(None, query * len(texts) + "".join(texts))
