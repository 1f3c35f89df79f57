"""graphrag.context: what a language model is given."""

from time import perf_counter

from pg_graphrag.search import modes
from pg_graphrag.search.contexts.context_packing import assemble
from pg_graphrag.search.search import prepare
from pg_graphrag.server import Database, to_json
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.access.moments import with_as_of


def context(
    db: Database,
    query: str | None,
    corpus: str | None,
    mode_name: str | None,
    max_tokens: int | None,
    filter_: str | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
) -> str:
    """Return {entities, relationships, reports, claims, tables, chunks, references, prompt, tokens} as JSON."""
    start = perf_counter()
    caller = caller_of(db, corpus, with_as_of(filter_, options))

    def run_context() -> str:
        mode = modes.find(mode_name)
        search_query = prepare(db, caller, query, mode, low, high, options, function="context", start=start)
        return to_json(assemble(search_query, mode, max_tokens))

    return as_owner(db, run_context)
