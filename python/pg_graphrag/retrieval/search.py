"""graphrag.search: one argument chooses the mode, one shape holds every result."""

import json
from collections.abc import Iterator
from typing import Any

from pg_graphrag import bounds
from pg_graphrag.access.caller import Caller, caller_of
from pg_graphrag.access.entry import as_owner
from pg_graphrag.corpus.corpora import find
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import np
from pg_graphrag.retrieval import options as search_options
from pg_graphrag.retrieval import rerank, transforms
from pg_graphrag.retrieval.held_graph import graph_of
from pg_graphrag.retrieval.modes import MODES, mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused
from pg_graphrag.server import Database, Row

MAX_TOP_K = 10_000
# Each retriever looks at least this deep, so that fusion sees what stands lower in one list and high in another.
DEPTH = 100
# Modes that make nothing of keywords.
WITHOUT_KEYWORDS = ("naive", "bm25")
# Scores that differ by less are equal: sums of the same numbers in another order.
DIGITS = 9


def search(
    db: Database,
    query: str | None,
    corpus: str | None,
    mode_name: str | None,
    top_k: int | None,
    filter_: str | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
) -> list[tuple[Any, ...]]:
    """Return (rank, chunk_id, document_id, source_key, title, content, score, explain) best first.

    Ties: source key, then chunk ordinal. An empty query and top_k 0 have no rows.
    """
    limit = check_top_k(top_k)
    caller = caller_of(db, corpus, filter_)

    def run_search() -> list[tuple[Any, ...]]:
        asked = prepare(db, caller, query, mode_name, filter_, low, high, options)
        return list(_shown(asked, mode_name, limit))

    return as_owner(db, run_search)


def _shown(asked: Query, mode_name: str | None, top_k: int) -> Iterator[tuple[Any, ...]]:
    for rank, row in enumerate(run(asked, mode_name, top_k), 1):
        explain = json.dumps({"mode": mode_name, **asked.notes, **row["explain"]}, ensure_ascii=False)
        fields = (row["chunk_id"], row["document_id"], row["source_key"], row["title"], row["content"])
        yield (rank, *fields, row["score"], explain)


def prepare(
    db: Database,
    caller: Caller,
    query: str | None,
    mode_name: str | None,
    filter_: str | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
    of: str = "search",
) -> Query:
    """Check the arguments of a search (`of`: of which function) and return its query. With the owner's rights, as all that
    follows."""
    mode(mode_name)
    parsed = search_options.parse(options, str(mode_name), of)
    corpus = find(db, caller.corpus)
    low, high = bounds.keywords(low, "low_level_keywords"), bounds.keywords(high, "high_level_keywords")
    asked = Query(db, corpus, caller, bounds.question(query), parsed, filter_, low, high)
    if (low is not None or high is not None) and mode_name not in WITHOUT_KEYWORDS:
        asked.notes["understanding"] = {"by": "caller"}
    return asked


def check_top_k(top_k: int | None) -> int:
    """Return top_k; 22023 outside 0 … 10,000."""
    if top_k is None or not 0 <= top_k <= MAX_TOP_K:
        raise GraphRAGError(
            f"top_k cannot be {'null' if top_k is None else top_k}", hint=f"Give 0 to {MAX_TOP_K:,} rows."
        )
    return top_k


def run(query: Query, mode_name: str | None, top_k: int) -> list[Row]:
    """Return at most `top_k` rows, each with its chunk, document, score and explanation."""
    if not query.text or top_k == 0:
        return []
    wanted = rerank.depth(query, top_k)
    depth = max(DEPTH, 2 * wanted)
    retrieve = transforms.transformed(MODES[str(mode_name)], MODES["hybrid"], query)
    fused = retrieve(query, depth)
    rows = _rows(query, fused, wanted)
    if len(rows) < wanted and len(rows) < len(fused.ids) and query.visible is None:
        # Chunks of documents just deleted took places: search again among the documents that exist.
        query.existing_only = True
        del query.visible
        query.__dict__.pop("visible_ids", None)
        query.memo.clear()
        rows = _rows(query, retrieve(query, depth), wanted)
    return rerank.rescored(query, rows)[:top_k]


def _rows(query: Query, fused: Fused, top_k: int) -> list[Row]:
    value = np.round(fused.scores, DIGITS)
    order = np.argsort(-value, kind="stable")
    # All that tie with the last place, and some more for documents that are gone.
    last = min(len(order), top_k + top_k // 4 + 10)
    if 0 < last < len(order):
        last = int(np.searchsorted(-value[order], -value[order[last - 1]], side="right"))
    wanted = order[:last]
    score = dict(zip(fused.ids[wanted].tolist(), fused.scores[wanted].tolist(), strict=True))
    found = graph_of(query).chunks(list(score))
    for row in found:
        row["score"] = round(score[row["chunk_id"]], DIGITS)
    found.sort(key=lambda row: (-row["score"], row["source_key"].encode(), row["ordinal"]))
    del found[top_k:]
    for row in found:
        row["explain"] = fused.explain(row["chunk_id"])
    return found
