"""Why a search by the graph found nothing: a WARNING, and the words for `explain`."""

from pg_graphrag.corpus.options import MULTILINGUAL_MODEL
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.query import Query


def warn_of_nothing(query: Query, mode: Mode) -> str | None:
    """Return why a mode that starts from entities found nothing, and send it as a WARNING; None for other modes, or no query."""
    if not mode.context.evidence or not query.text:
        return None
    if not graph_of(query).chunk_count():
        reason, hint = "there is no indexed text to search", "Insert documents, then CALL graphrag.process_jobs()."
    elif query.dense_works:
        reason = "no entity or relationship was found, by words or by vectors"
        hint = "Mode hybrid or bm25 searches the texts themselves."
    else:
        reason = "no entity or relationship was found by words"
        reason += (
            f"; vectors are left out, as the embedder was not made for {query.foreign or ', '.join(query.languages)}"
        )
        hint = f"graphrag.reembed() changes to a model of more languages, such as {MULTILINGUAL_MODEL}."
    query.db.warning(f'mode "{mode.name}" found nothing: {reason}', hint=hint)
    return reason
