"""Summaries of many descriptions (LightRAG, GraphRAG), in jobs of their own, never within a merge.

Map-reduce: fragments are grouped by their hashes. A new or removed fragment changes one group; the answers for all
other groups are in the cache.
"""

import hashlib
import re
from collections.abc import Generator, Sequence
from functools import reduce
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.reasoning import without_reasoning
from pg_graphrag.index.extraction.records import clean
from pg_graphrag.index.graph.merge import apply_edits
from pg_graphrag.index.graph.merged import TABLES
from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, ProviderFault, Waiting
from pg_graphrag.llm.endpoints.gateway import Gateway
from pg_graphrag.llm.endpoints.providers import load_provider
from pg_graphrag.llm.endpoints.requests import BYTES_PER_TOKEN, ChatRequest, Reply, asked_again, in_turn
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus, revise
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.server.queue import Job
from pg_graphrag.text.prompts import render

# Tokens of statements that one request holds.
GROUP_TOKENS = 12_000
# Words asked for, and the most characters of a usable answer: ten times as many as these words could have.
WORDS = 200
MAX_CHARACTERS = 10_000
# Output tokens of a summary: by so many more than it reads, up to a maximum: scripts without spaces take several for a word.
LEAST_OUTPUT, MOST_OUTPUT = 200, 1200
# Entities and relationships summarised together.
BATCH = 32
# Items of a batch where answers take hours.
BY_BATCH = 2000

Summarizing = Generator[ChatRequest, Reply, str]
_FENCE = re.compile(r"```\w*\n")


def summary(options: Options, subject: str, fragments: Sequence[tuple[str, int]]) -> Summarizing:
    """Ask for a description that summarises all `fragments`, (text, tokens).

    Raises ItemFault, ProviderFault, BudgetReached: as in the gateway.
    """
    parts = _groups(list(fragments))
    if len(parts) == 1:
        return (yield from _summarize(options, subject, parts[0]))
    summaries = yield from in_turn(_summarize(options, subject, part) for part in parts)
    return (yield from summary(options, subject, [(text, max(1, len(text) // 4)) for text in summaries]))


def _groups(fragments: list[tuple[str, int]], bit: int = 0) -> list[list[str]]:
    """Split fragments by the bits of their hashes until each group fits; each group sorted."""
    if len(fragments) == 1 or sum(tokens + 1 for _, tokens in fragments) <= GROUP_TOKENS or bit >= 64:
        return [sorted(text for text, _ in fragments)]
    sides: tuple[list[tuple[str, int]], list[tuple[str, int]]] = ([], [])
    for text, tokens in fragments:
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        sides[int.from_bytes(digest, "big") >> bit & 1].append((text, tokens))
    return [group for side in sides if side for group in _groups(side, bit + 1)]


def _summarize(options: Options, subject: str, texts: Sequence[str]) -> Summarizing:
    statements = "\n".join("- " + " ".join(text.split()) for text in texts)
    prompt = render(
        options.prompts, "summarize", subject=" ".join(subject.split()), words=str(WORDS), statements=statements
    )
    message = ({"role": "user", "content": prompt},)
    most = min(LEAST_OUTPUT + len(statements.encode()) // BYTES_PER_TOKEN, MOST_OUTPUT)
    try:
        reply = yield from asked_again(ChatRequest("summary", message, _parse, max_tokens=most))
        return str(reply.value)
    except ContextTooLong:
        if len(texts) < 2:
            raise
    half = len(texts) // 2
    halves = yield from in_turn(_summarize(options, subject, part) for part in (texts[:half], texts[half:]))
    return (yield from _summarize(options, subject, halves))


def _parse(text: str, cut_off: bool) -> str:
    answer = without_reasoning(text, is_prose=True).strip()
    fence = _FENCE.match(answer)
    text_found = clean(answer[fence.end() if fence else 0 :].removesuffix("\n```"))
    if not text_found or cut_off or len(text_found) > MAX_CHARACTERS:
        raise ItemFault("the model's summary is empty, cut off or without end", raw=text)
    return text_found


# A hash of the distinct fragments, the same for the merge and the write of a summary.
SET_HASH = (
    "(SELECT pg_catalog.md5(pg_catalog.string_agg(pg_catalog.md5(v.value), '' ORDER BY v.value))"
    " FROM graphrag.{kind}_values v WHERE v.{kind}_id = t.id AND v.kind = 'd')"
)
_DUE = {
    "entity": "SELECT t.id, pg_catalog.format('“%s” (%s)', t.name, t.type) AS subject, {hash} AS hash"
    "  FROM graphrag.entities t WHERE t.corpus_id = $1 AND t.summary_due ORDER BY t.id LIMIT $2",
    "relationship": "SELECT t.id, pg_catalog.format('how “%s” and “%s” are connected', s.name, o.name) AS subject,"
    "       {hash} AS hash"
    "  FROM graphrag.relationships t JOIN graphrag.entities s ON s.id = t.source_id"
    "  JOIN graphrag.entities o ON o.id = t.target_id"
    " WHERE t.corpus_id = $1 AND t.summary_due ORDER BY t.id LIMIT $2",
}


def summarize(db: Database, corpus: Corpus, job: Job) -> bool:
    """Serve a job of kind summarize: one batch of due items; True when nothing is left.

    Items that the model cannot summarise keep their joined descriptions. Commits.

    Raises ProviderFault, BudgetReached, Waiting after the summaries that came have been written; the rest stays due.
    """
    if not corpus.options.llm.has("summary"):
        for table in TABLES.values():
            db.query(
                f"UPDATE graphrag.{table} SET summary_due = false WHERE corpus_id = $1 AND summary_due",
                ["int4"],
                [corpus.id],
            )
        return True
    limit = BY_BATCH if load_provider(db, corpus.options.llm.of("summary")[0]).batch else BATCH
    due_items = [
        (kind, row)
        for kind, sql in _DUE.items()
        for row in db.query(sql.format(hash=SET_HASH.format(kind=kind)), ["int4", "int4"], [corpus.id, limit])
    ][:limit]
    fragments = [_fragments(db, kind, row["id"]) for kind, row in due_items]
    db.rollback()
    tasks = [
        summary(corpus.options, row["subject"], item_fragments)
        for (_, row), item_fragments in zip(due_items, fragments, strict=True)
    ]
    results = Gateway(db, corpus, worker=True, writes=True).run(tasks)
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    faults = [result for result in results if isinstance(result, GraphRAGError) and not isinstance(result, ItemFault)]
    for kind in TABLES:
        summary_rows = [
            (row["id"], row["hash"], None if isinstance(result, ItemFault) else result)
            for (item_kind, row), result in zip(due_items, results, strict=True)
            if item_kind == kind and (isinstance(result, (ItemFault, str)))
        ]
        _write(db, corpus.id, kind, summary_rows)
    if faults:
        db.commit()
        raise worst_fault(faults)
    # Under the lock: a merge that makes more items due waits, then finds no job and queues one.
    return not any(
        db.query(
            f"SELECT FROM graphrag.{table} t WHERE t.corpus_id = $1 AND t.summary_due LIMIT 1", ["int4"], [corpus.id]
        )
        for table in TABLES.values()
    )


def worst_fault(faults: Sequence[GraphRAGError]) -> GraphRAGError:
    """Return the fault to raise: a provider's, else the answers to wait for (all of them), else a budget."""
    waits = [fault for fault in faults if isinstance(fault, Waiting)]
    for fault in faults:
        if isinstance(fault, ProviderFault):
            return fault
    return reduce(Waiting.with_keys, waits) if waits else faults[0]


def _fragments(db: Database, kind: str, item: int) -> list[tuple[str, int]]:
    rows = db.query(
        f"SELECT v.value, v.tokens FROM graphrag.{kind}_values v WHERE v.{kind}_id = $1 AND v.kind = 'd' ORDER BY v.value",
        ["int8"],
        [item],
    )
    return [(row["value"], row["tokens"]) for row in rows]


def _write(db: Database, corpus_id: int, kind: str, summaries: Sequence[tuple[int, str, Any]]) -> None:
    """Store summaries as descriptions, unless the fragments have changed meanwhile, and project them into the graph."""
    if not summaries:
        return
    rows = db.query(
        f"UPDATE graphrag.{TABLES[kind]} t SET summary_due = false, description = coalesce(u.text, t.description),"
        f" summary_of = CASE WHEN u.text IS NULL THEN t.summary_of ELSE u.hash END"
        f"  FROM unnest($1, $2, $3) AS u (id, hash, text)"
        f" WHERE t.id = u.id AND t.summary_due AND u.hash = {SET_HASH.format(kind=kind)} RETURNING t.id",
        ["int8[]", "text[]", "text[]"],
        [list(column) for column in zip(*summaries, strict=True)],
    )
    ids = [row["id"] for row in rows]
    apply_edits(db, corpus_id, ids if kind == "entity" else [], ids if kind == "relationship" else [])
    if ids:
        revise(db, corpus_id)
    db.query(
        "SELECT graphrag._project($1, '{}', $2, $3)",
        ["int4", "int8[]", "int8[]"],
        [corpus_id, ids if kind == "entity" else [], ids if kind == "relationship" else []],
    )
