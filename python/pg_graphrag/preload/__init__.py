"""What first searches load, loaded once: by a postmaster that preloads PL/Python, whose sessions then begin with it.

docs/operations.md says how. Nothing here reads a database, starts a thread or a process, or writes.
"""

import importlib
import sys

# What a search in any mode imports, and a session that embeds a question.
MODULES = (
    "pg_graphrag.search.search",
    "pg_graphrag.search.context",
    "pg_graphrag.retrieval.cached_graph",
    "pg_graphrag.retrieval.embed",
    "pg_graphrag.retrieval.neighbors",
)


def load() -> None:
    """Load modules, the English model and the English tagger; say on stderr, which is the server's log, what cannot be."""
    try:
        for module in MODULES:
            importlib.import_module(module)
        from pg_graphrag import modes
        from pg_graphrag.embedding import local_embedder
        from pg_graphrag.text import english

        modes.all_modes()
        local_embedder("all-MiniLM-L6-v2").embed(["preload"])
        english.concepts("Which words does a tagger know?")
    except Exception as error:
        # A server that starts without is better than one that does not.
        print(f"pg_graphrag cannot be preloaded: {type(error).__name__}: {error}", file=sys.stderr)
