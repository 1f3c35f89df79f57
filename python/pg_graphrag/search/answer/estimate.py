"""graphrag.estimate_cost: what the queue would cost, counted before it is spent."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.extraction.descriptions import due_count
from pg_graphrag.llm.endpoints.faults import ItemFault
from pg_graphrag.llm.endpoints.ledger import Ledger, cache_key, cost
from pg_graphrag.llm.endpoints.providers import load_provider
from pg_graphrag.llm.endpoints.requests import BYTES_PER_TOKEN, PICTURE_TOKENS
from pg_graphrag.server import Database, Row
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus
from pg_graphrag.server.corpus.options import EXTRACTORS, Options
from pg_graphrag.text.chunks import chunk
from pg_graphrag.text.tokenizers import tokenizer

# With fewer calls of its own, a corpus has no average. Then an extraction counts as so many tokens, plus so many for
# each token of its text: a little more than the recorded extractions of LiHua-World. Each gleaning round adds a
# quarter.
MIN_CALLS = 20
SAID_TOKENS, SAID_PER_TOKEN = 300, 1.5
GLEANED = 4
# For the description of a picture: the prompt with the text beside it, and the reply.
PICTURE_IN, PICTURE_OUT = PICTURE_TOKENS + 600, 400

_WAITING = """
SELECT d.id, pg_catalog.count(*) OVER () AS n
  FROM graphrag.documents d
 WHERE d.corpus_id = $1 AND d.status = 'pending'
 ORDER BY pg_catalog.hashint8(d.id), d.id
 LIMIT $2
"""


@dataclass
class _Count:
    chunks: int = 0
    text_tokens: int = 0
    calls: int = 0
    cached_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    # Prompts counted so far; the same prompt is sent once.
    prompts: set[str] = field(default_factory=set)


def estimate(db: Database, corpus: str | None, extractor: str | None, sample: int | None) -> list[tuple[Any, ...]]:
    """Return one row (documents, chunks, calls, cached_calls, tokens_in, tokens_out, cost, basis).

    An upper bound where possible: all gleaning rounds are counted, although a round without results is the last.
    """
    target = find_corpus(db, corpus)
    options = target.options if extractor is None else replace(target.options, extractor=extractor)
    if options.extractor not in EXTRACTORS:
        raise GraphRAGError(
            f"extractor cannot be {extractor!r}", hint=f"Give {', '.join(EXTRACTORS)}, or null: the corpus' own."
        )
    if sample is None or sample < 1:
        raise GraphRAGError(f"sample cannot be {sample}", hint="Give the number of documents to count, 1 or more.")
    pending = db.query(_WAITING, ["int4", "int4"], [target.id, sample])
    documents = int(pending[0]["n"]) if pending else 0
    totals = _Count()
    for start in range(0, len(pending), 100):
        _count(db, target, options, pending[start : start + 100], totals)
    scale = documents / len(pending) if pending else 1.0
    basis: dict[str, Any] = {"extractor": options.extractor, "documents_counted": len(pending)}
    tokens_out, price = 0, 0.0
    tokens_in = round(scale * totals.tokens_in)
    if options.extractor == "llm":
        provider_name, model = options.llm.of("extract")
        provider = load_provider(db, provider_name)
        tokens_per_call, call_count = _output_per_call(db, target)
        tokens_out = round(scale * (totals.tokens_out if tokens_per_call is None else totals.calls * tokens_per_call))
        price = cost(provider, tokens_in, tokens_out) * (provider.batch_price if provider.batch else 1)
        basis |= {"provider": provider_name, "model": model, "gleaning_rounds": options.max_gleaning}
        basis["tokens"] = f"{BYTES_PER_TOKEN} bytes each"
        assumed = f"{SAID_TOKENS} a chunk, {SAID_PER_TOKEN} for each of its text"
        basis["tokens_out"] = assumed if tokens_per_call is None else f"as {call_count} calls of this corpus had"
        if options.llm.has("summary"):
            basis["summaries"] = _summaries(db, target, options, scale * totals.calls)
            price += basis["summaries"]["cost"] or 0.0
    pictures = due_count(db, target)
    if pictures:
        basis["pictures"] = _pictures(db, options, pictures)
        price += basis["pictures"]["cost"]
    if not options.embedding.local:
        # Windows are as long as the text; the model's descriptions are embedded too.
        basis["embedding"] = _embedding(db, options, round(scale * totals.text_tokens) + tokens_out)
        price += basis["embedding"]["cost"]
    chunks, calls, cached_calls = (
        round(scale * number) for number in (totals.chunks, totals.calls, totals.cached_calls)
    )
    tokens_in, tokens_out = tokens_in + pictures * PICTURE_IN, tokens_out + pictures * PICTURE_OUT
    counts = (documents, chunks, calls + pictures, cached_calls, tokens_in, tokens_out)
    return [(*counts, str(round(price, 6)), json.dumps(basis))]


def _count(db: Database, corpus: Corpus, options: Options, documents: Sequence[Row], into: _Count) -> None:
    ranks = tokenizer(corpus.tokenizer, corpus.tokenizer_fingerprint)
    rows = db.query(
        "SELECT d.title, d.content, EXISTS (SELECT FROM graphrag.imported_extractions i"
        " WHERE i.document_id = d.id AND i.content_hash = d.content_hash) AS imported"
        "  FROM graphrag.documents d WHERE d.id = ANY ($1)",
        ["int8[]"],
        [[row["id"] for row in documents]],
    )
    for row in rows:
        content = row["content"]
        if not content.strip():
            continue
        for piece in chunk(content, ranks, options.chunk_token_size, options.chunk_overlap):
            into.chunks += 1
            into.text_tokens += _tokens(content[piece.start : piece.end])
            if options.extractor == "llm" and not row["imported"]:
                _calls(db, corpus, options, row["title"], content[piece.start : piece.end], into)


def _calls(db: Database, corpus: Corpus, options: Options, title: str | None, text: str, into: _Count) -> None:
    """Walk through the extraction of a chunk: cached answers are free, the first uncached call and all after it are paid."""
    from pg_graphrag.index.extraction.extract import extraction
    from pg_graphrag.index.extraction.grounding import SourceText
    from pg_graphrag.llm.endpoints.requests import Reply

    ledger, (_, model) = Ledger(db, corpus, writes=False), options.llm.of("extract")
    task = extraction(options, title, text, SourceText(title, text))
    rounds = 1 + options.max_gleaning
    try:
        request = next(task)
        for number in range(rounds):
            key = cache_key(model, request.messages)
            cached_text = ledger.cached([key]).get(key)
            value = None if cached_text is None else _parsed(request, cached_text)
            if key in into.prompts:
                into.cached_calls += rounds - number
                return
            if cached_text is None or value is None:
                into.prompts.add(key)
                reply_tokens = SAID_TOKENS + round(SAID_PER_TOKEN * _tokens(text))
                prompt = sum(_tokens(message["content"]) for message in request.messages)
                for offset in range(rounds - number):
                    into.calls += 1
                    # A gleaning round carries the whole conversation.
                    into.tokens_in += prompt + offset * reply_tokens
                    into.tokens_out += reply_tokens if number + offset == 0 else reply_tokens // GLEANED
                return
            into.cached_calls += 1
            request = task.send(Reply(value, cached_text, cached=True))
    except StopIteration:
        pass
    finally:
        task.close()


def _parsed(request: Any, cached_text: str) -> Any:
    """Return the value of a cached answer; None for one of another version that this one cannot read: it is asked again."""
    try:
        return request.parse(cached_text, False)
    except ItemFault:
        return None


def _tokens(text: str) -> int:
    return len(text.encode()) // BYTES_PER_TOKEN + 1


def _embedding(db: Database, options: Options, tokens: int) -> dict[str, Any]:
    model = options.embedding
    price = cost(load_provider(db, model.provider), tokens, 0)
    return {"provider": model.provider, "model": model.model, "tokens": tokens, "cost": round(price, 6)}


def _summaries(db: Database, corpus: Corpus, options: Options, calls: float) -> dict[str, Any]:
    """The cost of summaries for so many extraction calls, by this corpus' own calls so far; null: it had too few."""
    provider_name, model = options.llm.of("summary")
    row = db.query(
        "SELECT pg_catalog.count(*) FILTER (WHERE l.purpose = 'extract') AS extractions,"
        "       coalesce(pg_catalog.sum(l.tokens_in) FILTER (WHERE l.purpose = 'summary'), 0)::float8 AS tokens_in,"
        "       coalesce(pg_catalog.sum(l.tokens_out) FILTER (WHERE l.purpose = 'summary'), 0)::float8 AS tokens_out"
        "  FROM graphrag.llm_calls l WHERE l.corpus_id = $1 AND l.error IS NULL",
        ["int4"],
        [corpus.id],
    )[0]
    price = None
    if row["extractions"] >= MIN_CALLS:
        provider = load_provider(db, provider_name)
        tokens = [round(calls * row[way] / row["extractions"]) for way in ("tokens_in", "tokens_out")]
        price = round(cost(provider, *tokens) * (provider.batch_price if provider.batch else 1), 6)
    return {"provider": provider_name, "model": model, "cost": price}


def _pictures(db: Database, options: Options, count: int) -> dict[str, Any]:
    """The cost of describing so many pictures."""
    provider_name, model = options.llm.of("vision")
    price = round(cost(load_provider(db, provider_name), count * PICTURE_IN, count * PICTURE_OUT), 6)
    tokens = f"{PICTURE_IN} in, {PICTURE_OUT} out for each"
    return {"provider": provider_name, "model": model, "calls": count, "tokens": tokens, "cost": price}


def _output_per_call(db: Database, corpus: Corpus) -> tuple[float | None, int]:
    """Return (the average output tokens of an extraction call of this corpus, None for too few calls; their number)."""
    row = db.query(
        "SELECT pg_catalog.count(*) AS n, pg_catalog.avg(l.tokens_out)::float8 AS tokens_out FROM graphrag.llm_calls l"
        " WHERE l.corpus_id = $1 AND l.purpose = 'extract' AND l.error IS NULL",
        ["int4"],
        [corpus.id],
    )[0]
    return (float(row["tokens_out"]) if row["n"] >= MIN_CALLS else None), int(row["n"])
