"""Why a search by the graph, or without the vectors it would use, found nothing: a WARNING, and the words for `explain`."""

from pg_graphrag.corpus.options import MULTILINGUAL_MODEL
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.query import Query


def warn_of_nothing(query: Query, mode: Mode) -> str | None:
    """Return why a mode that starts from entities, or lacks its vectors, found nothing, and send it as a WARNING; else None."""
    if not query.text or not (mode.context.evidence or "dense" in query.notes):
        return None
    if not graph_of(query).chunk_count():
        reason, hint = "there is no indexed text to search", "Insert documents, then CALL graphrag.process_jobs()."
    elif query.dense_works:
        reason = "no entity or relationship was found, by words or by vectors"
        hint = "Mode hybrid or bm25 searches the texts themselves."
    else:
        reason = f"no {'entity or relationship' if mode.context.evidence else 'text'} was found by words"
        reason += f"; vectors are left out, as the embedder was not made for {query.foreign}"
        hint = f"graphrag.reembed() changes to a model of more languages, such as {MULTILINGUAL_MODEL}."
    query.db.warning(f'mode "{mode.name}" found nothing: {reason}', hint=hint)
    return reason
