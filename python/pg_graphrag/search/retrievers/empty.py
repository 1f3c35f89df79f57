"""Why a search or a context found nothing: a WARNING, and the words for `explain`."""

from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.server.corpus.options import MULTILINGUAL_MODEL
from pg_graphrag.text.words.concepts import latin_language

_SUBJECT = "nothing found"


def lacks_means(query: Query, mode: Mode) -> bool:
    """Whether a search found nothing though a text may answer it: its mode starts from entities, or lacks its vectors."""
    return bool(mode.context.evidence) or "dense" in query.notes


def warn_of_nothing(query: Query, mode: Mode) -> str | None:
    """Return why nothing was found, and send it as a WARNING; None for a query without text."""
    if not query.text:
        return None
    if not graph_of(query).chunk_count() and query.caller.is_filtered:
        reason = "no indexed text meets the filter"
        hint = "Leave out conditions of filter and as_of, one by one. Documents count once a worker has indexed them."
    elif not graph_of(query).chunk_count():
        reason = "there is no indexed text to search"
        hint = "Insert documents; a worker indexes them, or CALL graphrag.process_jobs()."
        if query.caller.documents is not None:
            hint += " Row-level security shows a role what grants and policies say, by settings of the session."
    elif mode.context.reports and not mode.context.evidence:
        return "there is no report on communities to read"  # its WARNING was sent, and says why
    elif not lacks_means(query, mode):
        reason = "no text has a word of the query"
        hint = "Mode hybrid searches by vectors, too." if mode.name == "bm25" else "Ask in other words."
    elif mode.context.evidence and (unfinished := _graphs_to_come(query)):
        documents = "one document" if unfinished == 1 else f"{unfinished:,} documents"
        reason = f"the graphs of {documents} are still to come, and what is there knows nothing of the query"
        hint = "Mode hybrid or bm25 searches their texts already; graphrag.progress says what the graphs wait for."
    elif query.dense_works:
        reason = "no entity or relationship was found, by words or by vectors"
        hint = "Mode hybrid or bm25 searches the texts themselves."
    else:
        reason = f"no {'entity or relationship' if mode.context.evidence else 'text'} was found by words"
        reason += f"; vectors are left out, as {query.why_no_vectors}"
        hint = f"graphrag.reembed() changes to a model of more languages, such as {MULTILINGUAL_MODEL}."
    query.warn_once(_SUBJECT, f'mode "{mode.name}" found nothing: {reason}', hint)
    return reason


_GRAPHS_TO_COME = """
SELECT pg_catalog.count(DISTINCT j.document_id) AS documents FROM graphrag.jobs j
 WHERE j.corpus_id = $1 AND ($2 IS NULL OR j.document_id = ANY ($2))
   AND (j.kind = 'graph'
        -- reindex() took the graph away, and left the text.
        OR j.kind = 'index' AND EXISTS (SELECT FROM graphrag.documents d
                                         WHERE d.id = j.document_id AND d.indexed_hash = d.content_hash))
"""


def _graphs_to_come(query: Query) -> int:
    """Return of how many documents that the caller sees the texts can be found, and the graphs are still to come."""
    parameters = [query.corpus.id, query.visible_ids]
    return int(query.db.value(_GRAPHS_TO_COME, ["int4", "int8[]"], parameters))


def language_of_silence(query: Query) -> str | None:
    """Return the query's language if the graph may know nothing for that reason; None for another reason.

    A query without letters (emoji, symbols) has no language.
    """
    if not any(character.isalpha() for character in query.text):
        return "symbols"
    # The nouns of English questions are those of concepts, as a rule. Chinese, Japanese and German ones are often no names, and
    # of texts in other languages the graph has names alone.
    if "en" not in query.languages:
        return ", ".join(query.languages)
    return None if latin_language(query.text) == "en" else "not in English"


def note_instead(query: Query, mode: Mode, language: str) -> None:
    """Say in a note and a WARNING that the chunks are those of hybrid."""
    query.notes["instead"] = f"hybrid: the graph knows nothing of this query ({language})"
    query.warn_once(
        _SUBJECT,
        f'mode "{mode.name}" found nothing by the graph; the chunks are those of mode hybrid',
        "Without a model the graph of texts in many languages has names alone; the corpus option extractor sets one.",
    )
