"""graphrag.context: the context of a question for a language model."""

from typing import Any

from pg_graphrag.search.contexts.context_packing import assemble
from pg_graphrag.search.search import Call
from pg_graphrag.server import Database, to_json
from pg_graphrag.server.access.entry import as_owner


def context(db: Database, *arguments: Any) -> str:
    """Return {entities, relationships, reports, claims, tables, chunks, references, prompt, tokens} as JSON.

    Arguments as in `Call`.
    """
    call = Call("context", *arguments)
    caller = call.caller(db)
    return as_owner(db, lambda: to_json(assemble(*call.query(db, caller), call.size)))
