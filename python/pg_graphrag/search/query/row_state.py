"""Whether a corpus has rows of attached tables, and what a session caches of them and of their documents.

Documents change without a merge. So what is cached of rows holds for a state of documents and attachments besides the revision.
"""

from collections.abc import Hashable
from typing import Any, NamedTuple

from pg_graphrag.search.query.query import Query, once
from pg_graphrag.server import Row
from pg_graphrag.server.caches.session_cache import cache, is_at_revision

# Changes of documents since the last merge, by which a session tells whether what it caches of them still holds.
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


def has_rows(query: Query) -> bool:
    """Whether rows are attached to the corpus."""
    return _first_state(query)["attachments"] is not None


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
    """Return what was cached under a key at the query's state of rows, or None."""
    entry: _Cached | None = cache.get(query.corpus, key)
    return None if entry is None or entry.state != state_of_rows(query) else entry.value


def cache_of_rows(query: Query, key: Hashable, value: Any, size: int) -> None:
    """Cache something of `size` bytes that was read at the query's state of rows; where it has none, nothing."""
    state = state_of_rows(query)
    if state is not None and _state(query) == _first_state(query) and is_at_revision(query.db, query.corpus):
        cache.put(query.corpus, key, _Cached(state, value), size)
