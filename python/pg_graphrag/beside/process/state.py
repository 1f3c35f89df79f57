"""What a process remembers of a database, set aside while the process serves another database.

In a server a session has one database, so the package's modules key what they remember by corpus. A process may serve
several databases, whose corpora have the same numbers.
"""

import sys
from collections.abc import Hashable, MutableMapping
from typing import Any

# The dictionaries of the package that hold what belongs to one database. tests/unit/test_process_state.py finds those missing.
MEMORIES = (
    "index.indexing.item_vectors:_part_vectors",
    "server.caches.session_cache:cache._entries",
    "server.caches.session_cache:cache._visits",
    "server.caches.session_cache:cache._asked",
    "server.caches.shared_arrays:_noted",
    "index.bm25.index:_tails",
    "index.bm25.segments:_caches",
    "search.query.query:_embedded",
    "search.query.understanding:_patience",
    "llm.endpoints.ledger:_written_costs",
    "llm.endpoints.ledger:_remembered_replies",
    "llm.endpoints.ledger:_unwritten",
    "llm.endpoints.ledger:_unsaved",
    "llm.endpoints.ledger:_cut_off",
    "llm.endpoints.ledger:_listed",
    "search.answer.grounded:_given_up",
    "search.answer.grounded:_held_second",
    "llm.endpoints.provider_limits:_recent_requests",
)

_set_aside: dict[Hashable, dict[str, dict[Any, Any]]] = {}
_current: list[Hashable] = []


def remember(database: Hashable) -> None:
    """Make the modules remember what they know of `database`, and nothing of others."""
    if _current == [database]:
        return
    former = {path: dict(memory) for path in MEMORIES if (memory := _memory(path)) is not None}
    if _current:
        _set_aside[_current[0]] = former
    known = _set_aside.pop(database, {})
    for path in former:
        memory = _memory(path)
        assert memory is not None
        memory.clear()
        memory.update(known.get(path, {}))
    _current[:] = [database]


def _memory(path: str) -> MutableMapping[Any, Any] | None:
    """Return a dictionary by its path; None where its module was not imported yet."""
    module, names = path.split(":")
    holder: Any = sys.modules.get(f"pg_graphrag.{module}")
    if holder is None:
        return None
    for name in names.split("."):
        holder = getattr(holder, name)
    memory: MutableMapping[Any, Any] = holder
    return memory
