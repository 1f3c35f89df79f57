"""Values that a session caches of a corpus, and how long each is valid.

Values of a whole corpus are mapped from a file that all sessions share, if there is one or it can be made. Values of
rows of attached tables are valid for a revision and a state of documents and attachments, because documents change
without a merge.
"""

from collections.abc import Callable, Hashable
from math import inf
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeVar

from pg_graphrag.ground.numeric import Arrays
from pg_graphrag.search.query.query import Query, once
from pg_graphrag.server import Row
from pg_graphrag.server.caches import shared_arrays
from pg_graphrag.server.caches.session_cache import cache, is_at_revision

# Less is read from the tables as fast.
LEAST_BYTES = 2**18


class _Sharable(Protocol):
    """Something that is made of arrays."""

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""

    @property
    def revision(self) -> str | None:
        """Its corpus' revision."""

    def arrays(self) -> Arrays:
        """Return the arrays, by name."""


Value = TypeVar("Value", bound=_Sharable)
# From a revision and arrays to a value.
Make = Callable[[str, Arrays], Value]


def may_share(query: Query) -> bool:
    """Whether files are for this query: if its caller sees a part of the corpus, everything stays in the session."""
    return query.caller.documents is None and query.corpus.revision is not None


def cached_value(query: Query, key: Hashable, name: str, make: Make[Value]) -> Value | None:
    """Return the value cached under `key` for the corpus' revision, or the contents of the file of that name; else None."""
    value: Value | None = cache.get(query.corpus, key)
    return mapped(query, key, name, make) if value is None else shared_value(query, key, name, value, make)


def mapped(query: Query, key: Hashable, name: str, make: Make[Value], *, first: bool = False) -> Value | None:
    """Map and cache the contents of the file of that name; None without one. `first`: as in `cache.put`."""
    if not may_share(query):
        return None
    arrays = shared_arrays.mapped(query.db, query.corpus, name)
    return None if arrays is None else _cached(query, key, make(str(query.corpus.revision), arrays), first=first)


def shared_value(
    query: Query, key: Hashable, name: str, value: Value, make: Make[Value], *, first: bool = False
) -> Value:
    """Return the value cached under `key`; a value of the session's own is replaced by a file's as soon as possible."""
    if cache.is_shared(key):
        shared_arrays.note_asked(query.db, query.corpus, name)
        return value
    if not may_share(query):
        return value
    return _shared(query, key, name, value, make, first=first) or value


def cache_shared(
    query: Query, key: Hashable, name: str, value: Value, make: Make[Value], *, first: bool = False
) -> Value:
    """Cache a value: in a file where that can be, else as the session's own; return it from there."""
    of_all = _shared(query, key, name, value, make, first=first) if may_share(query) else None
    if of_all is not None:
        return of_all
    cache.put(query.corpus, key, value, value.nbytes, revision=value.revision, first=first)
    return value


def _shared(query: Query, key: Hashable, name: str, value: Value, make: Make[Value], *, first: bool) -> Value | None:
    """Share a value; None where that does not pay, or cannot be now."""
    next_key = "next file", key
    next_try: float = cache.get(query.corpus, next_key) or 0.0
    if next_try > monotonic() or value.revision is None:
        return None
    arrays = None
    if value.nbytes >= LEAST_BYTES:
        arrays = shared_arrays.share(query.db, query.corpus, name, value.revision, value.arrays())
        next_try = monotonic() + shared_arrays.SECONDS_BETWEEN
    else:
        next_try = inf
    if arrays is None:
        cache.put(query.corpus, next_key, next_try, 0)
        return None
    return _cached(query, key, make(value.revision, arrays), first=first)


def _cached(query: Query, key: Hashable, value: Value, *, first: bool) -> Value:
    cache.put(query.corpus, key, value, 0, revision=value.revision, first=first, shared=value.nbytes)
    return value


# Changes of documents since the last merge, which tell a session whether its cached values still hold.
MAX_CHANGES = 64
# What tells states of attachments of rows apart, null without any; and of documents, null after many changes since the last
# merge. A statement that changes documents adds rows to _document_counts, and who replaces them names a new revision.
_STATES = """
SELECT a.state AS attachments,
       CASE WHEN a.state IS NOT NULL THEN (
           SELECT CASE WHEN pg_catalog.count(*) <= $2 THEN coalesce(pg_catalog.string_agg(x.place, ','), '') END
             FROM (SELECT c.xmin::text || c.ctid::text AS place
                     FROM graphrag._document_counts c WHERE c.corpus_id = $1 LIMIT $2 + 1) x) END AS documents
  FROM (SELECT pg_catalog.string_agg(t.xmin::text || t.ctid::text, ',') AS state
          FROM graphrag._attached_tables t WHERE t.corpus_id = $1 AND t.kind <> 'documents') a
"""


class _Cached(NamedTuple):
    """Something, and the state of rows that it was read at."""

    state: str
    value: Any


def state_of_rows(query: Query) -> str | None:
    """Return what names the state of rows and attachments beside the revision; None where nothing does."""
    state = _first_state(query)
    return None if state["documents"] is None else f"{state['attachments']}/{state['documents']}"


@once
def _first_state(query: Query) -> Row:
    return _state(query)


def _state(query: Query) -> Row:
    return query.db.query(_STATES, ["int4", "int4"], [query.corpus.id, MAX_CHANGES])[0]


def cached_of_rows(query: Query, key: Hashable) -> Any:
    """Return the value cached under a key at the query's state of rows, or None."""
    entry: _Cached | None = cache.get(query.corpus, key)
    return None if entry is None or entry.state != state_of_rows(query) else entry.value


def cache_of_rows(query: Query, key: Hashable, value: Any, size: int) -> None:
    """Cache a value of `size` bytes that was read at the query's state of rows; nothing if it has no such state."""
    state = state_of_rows(query)
    if state is not None and _state(query) == _first_state(query) and is_at_revision(query.db, query.corpus):
        cache.put(query.corpus, key, _Cached(state, value), size)
