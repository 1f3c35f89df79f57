"""Transforms of a query by a model before retrieval. Each wraps a mode and is a mode itself.

Sources: HyDE (arXiv 2212.10496), RQ-RAG (arXiv 2404.00610), CRAG (arXiv 2401.15884). If a model fails, a WARNING is
raised, the query is used as it is, and `explain` says so.
"""

from typing import Any

from pg_graphrag.ground.numeric import np
from pg_graphrag.llm.asking.length_limits import MAX_GRADED, MAX_GRADED_CHARACTERS
from pg_graphrag.llm.asking.models import ModelFault
from pg_graphrag.search.query.mode import Retriever
from pg_graphrag.search.query.mode_options import RRF_K
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, Ranking, best_places, reciprocal_rank

# The role whose model does each task.
_ROLES = {"hyde": "keywords", "decompose": "keywords", "rewrite": "keywords", "grades": "relevance"}


def transformed(mode: Retriever, query: Query) -> Retriever:
    """Return `mode` with the query's transform; a corrected query is also searched by hybrid.

    Raises GraphRAGError: 55000 if the corpus has no model for it: a transform is never left out silently.
    """
    tasks, transform = _TRANSFORMS[query.options.transform]
    for task in tasks:
        query.corpus.options.llm.of(_ROLES[task])
    return transform(mode)


def _hyde(mode: Retriever) -> Retriever:
    def retrieve(query: Query, depth: int) -> Fused:
        passage = _reply(query, "hyde", {"question": query.text})
        if passage is not None:
            query.notes["transform"] = {"kind": "hyde", "passage": passage}
        return mode(query, depth)

    return retrieve


def _decompose(mode: Retriever) -> Retriever:
    """Fuse the query and each of its parts by RRF."""

    def retrieve(query: Query, depth: int) -> Fused:
        parts = _reply(query, "decompose", {"question": query.text})
        if parts is None:
            return mode(query, depth)
        query.notes["transform"] = {"kind": "decompose", "queries": parts}
        rankings = [mode(query, depth).ranking("query")]
        for number, part in enumerate(parts, 1):
            rankings.append(_ranking(query.with_text(part), mode, depth, f"query {number}"))
        return reciprocal_rank(query.options.rrf_k or RRF_K)(rankings)

    return retrieve


def _corrective(mode: Retriever) -> Retriever:
    """Grade the results: keep correct ones, add those of a rewritten query to ambiguous ones, replace incorrect ones."""
    # Other searches are spared its modules.
    from pg_graphrag.search.retrievers.hybrid_retrieval import hybrid

    def retrieve(query: Query, depth: int) -> Fused:
        fusion = mode(query, depth)
        first = fusion.ids[best_places(query, fusion.ids, fusion.scores, MAX_GRADED)]
        # No results count as incorrect.
        texts = _texts(query, first)
        grades = _reply(query, "grades", {"question": query.text, "texts": texts}) if texts else []
        if grades is None:
            return fusion
        note: dict[str, Any] = {"kind": "corrective", "grades": grades}
        query.notes["transform"] = note
        graded = dict(zip(first.tolist(), grades, strict=True))
        note["verdict"] = "correct" if "correct" in grades else "ambiguous" if "ambiguous" in grades else "incorrect"
        if note["verdict"] == "correct":
            return _refined(fusion, graded)
        rewritten = _reply(query, "rewrite", {"question": query.text})
        if rewritten is None:
            return fusion
        note["query"] = rewritten
        rewritten_query = query.with_text(rewritten)
        rankings = [_ranking(rewritten_query, mode, depth, "rewritten")]
        if mode is not hybrid:
            rankings.append(_ranking(rewritten_query, hybrid, depth, "widened"))
        if note["verdict"] == "ambiguous":
            rankings.insert(0, fusion.ranking("query"))
        return reciprocal_rank(query.options.rrf_k or RRF_K)(rankings)

    return retrieve


# By name: the requests to models, and the function that makes the retriever.
_TRANSFORMS = {
    "hyde": (("hyde",), _hyde),
    "decompose": (("decompose",), _decompose),
    "corrective": (("grades", "rewrite"), _corrective),
}


def _ranking(query: Query, mode: Retriever, depth: int, name: str) -> Ranking:
    return mode(query, depth).ranking(name, text=query.text)


def _refined(fusion: Fused, graded: dict[int, str]) -> Fused:
    """Put incorrect chunks behind all others, in their order."""
    wrong = np.isin(fusion.ids, [chunk for chunk, grade in graded.items() if grade == "incorrect"])
    offset = float(np.ptp(fusion.scores)) + 1.0
    return Fused(fusion.ids, np.where(wrong, fusion.scores - offset, fusion.scores), fusion.rankings)


def _texts(query: Query, chunks: Any) -> list[str]:
    """Return title and beginning of chunks, in their order; "" for a deleted one."""
    rows = query.db.query(
        "SELECT c.id, pg_catalog.left(pg_catalog.concat_ws(E'\\n', d.title, c.content), $2) AS text FROM graphrag.chunks c"
        " JOIN graphrag.documents d ON d.id = c.document_id AND d.indexed_hash IS NOT NULL WHERE c.id = ANY ($1)",
        ["int8[]", "int4"],
        [chunks.tolist(), MAX_GRADED_CHARACTERS],
    )
    texts = {row["id"]: row["text"] for row in rows}
    return [texts.get(chunk, "") for chunk in chunks.tolist()]


def _reply(query: Query, task: str, arguments: dict[str, Any]) -> Any:
    """Return a model's reply on the query; None, with a WARNING and a note, when it fails. Asked once for each search."""
    if task not in query.model_replies:
        outcome = query.models.ask(task, arguments)
        query.usage.append(outcome.usage)
        if outcome.fault is not None:
            _failed(query, task, outcome.fault)
        query.model_replies[task] = outcome.value
    return query.model_replies[task]


def _failed(query: Query, task: str, fault: ModelFault) -> None:
    query.db.warning(f"the query was searched as it is, not transformed ({task}): {fault.message}", **fault.fields)
    query.notes["transform"] = {"kind": query.options.transform, "failed": task, "reason": fault.message}
