"""What a session caches of a whole corpus, mapped from a file that all sessions share, where there is one or it can be made."""

from collections.abc import Callable, Hashable
from math import inf
from time import monotonic
from typing import Protocol, TypeVar

from pg_graphrag.ground.lists import Arrays
from pg_graphrag.search.query.query import Query
from pg_graphrag.server.caches import shared_arrays
from pg_graphrag.server.caches.session_cache import cache

# Less is read from the tables as fast.
LEAST_BYTES = 2**18


class _Sharable(Protocol):
    """Something that is made of arrays."""

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""

    @property
    def revision(self) -> str | None:
        """The corpus' revision that it is of."""

    def arrays(self) -> Arrays:
        """Return the arrays, by name."""


Value = TypeVar("Value", bound=_Sharable)
# Of a revision and arrays.
Make = Callable[[str, Arrays], Value]


def may_share(query: Query) -> bool:
    """Whether files are for this query: of who sees a part of the corpus everything stays in the session."""
    return query.caller.documents is None and query.corpus.revision is not None


def cached_value(query: Query, key: Hashable, name: str, make: Make[Value]) -> Value | None:
    """Return what is cached of the corpus' revision under `key`, or is in the file of that name; else None."""
    value: Value | None = cache.get(query.corpus, key)
    return mapped(query, key, name, make) if value is None else shared_value(query, key, name, value, make)


def mapped(query: Query, key: Hashable, name: str, make: Make[Value], *, first: bool = False) -> Value | None:
    """Map and cache what is in the file of that name; None without one. `first`: as in `cache.put`."""
    if not may_share(query):
        return None
    arrays = shared_arrays.mapped(query.db, query.corpus, name)
    return None if arrays is None else _cached(query, key, make(str(query.corpus.revision), arrays), first=first)


def shared_value(
    query: Query, key: Hashable, name: str, value: Value, make: Make[Value], *, first: bool = False
) -> Value:
    """Return what is cached under `key`; where it is the session's own, from a file, as soon as that may be."""
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
