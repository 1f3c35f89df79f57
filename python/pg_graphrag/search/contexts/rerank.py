"""Rows re-scored by a cross-encoder, which reads query and text together."""

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.asking.length_limits import MAX_RERANKED
from pg_graphrag.llm.asking.models import ModelFault
from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.query import Query, timed

# First rows that are re-scored, more for a larger top_k (Takami et al. re-score two lists of ten and more).
CANDIDATES = 50


def rows_needed(query: Query, top_k: int) -> int:
    """Return how many rows to retrieve for `top_k`; 22023 for more than one request holds, 55000 without a cross-encoder."""
    query.corpus.options.reranker()
    if top_k > MAX_RERANKED:
        raise GraphRAGError(
            f"{top_k} rows cannot be re-ranked, at most {MAX_RERANKED} can",
            hint=f"Give a smaller top_k (or chunk_top_k), or leave out rerank. Of {CANDIDATES} rows and more all are re-scored.",
        )
    return max(top_k, CANDIDATES)


@timed("rerank")
def rescored(query: Query, rows: list[FoundChunk]) -> list[FoundChunk]:
    """Return the rows by relevance, best first; `explain.rerank` says from which rank each comes.

    Texts are title and content. Rows of equal relevance keep their order. So do all where the cross-encoder is too late, with a
    WARNING and a note.
    """
    if not rows:
        return rows
    texts = [f"{row.title}\n{row.content}" if row.title else row.content for row in rows]
    try:
        relevance, usage = query.models.rerank(query.text, texts)
    except ModelFault as fault:
        if not fault.is_late:
            raise
        query.warn_once("rerank", f"rows were not re-scored: {fault.message}", "They are in the order of the mode.")
        query.notes["rerank"] = {"failed": fault.message}
        return rows
    query.usage.append(usage)
    for rank, (row, score) in enumerate(zip(rows, relevance, strict=True), 1):
        row.explain["rerank"] = {"rank_before": rank, "score_before": row.score, "score": score}
        row.score = score
    return sorted(rows, key=lambda row: -row.score)
