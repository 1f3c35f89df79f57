"""A request, which never changes, and the documents that it may search."""

from dataclasses import dataclass
from typing import Any

from pg_graphrag.search.query.indexed_documents import covers
from pg_graphrag.search.query.mode_options import SearchOptions
from pg_graphrag.server import Database, cached_property
from pg_graphrag.server.access.caller import Caller, matching_ids
from pg_graphrag.server.access.filters import EVERY
from pg_graphrag.server.corpus.corpora import Corpus


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of a search.

    `low`, `high`: keywords that the caller gave; `extra_text`: a text that the search embeds besides; `existing_only`:
    leave out documents that were deleted.
    """

    corpus: Corpus
    caller: Caller
    text: str
    options: SearchOptions
    low: list[str] | None = None
    high: list[str] | None = None
    extra_text: str | None = None
    existing_only: bool = False


class Documents:
    """The documents that a request may search, read once; the caller's visible documents were read with his rights."""

    def __init__(self, db: Database, request: Request) -> None:
        self._db, self._request = db, request

    @cached_property
    def ids(self) -> Any:
        """Sorted int64 ids, or None for the whole corpus. A filter of a whole corpus is applied here."""
        request, caller = self._request, self._request.caller
        if caller.matching is not None:
            ids = caller.matching
        elif caller.documents is not None:
            ids = caller.documents
        elif caller.condition is not None or request.existing_only or request.corpus.awaits_removals:
            # What the whole index says of entities counts deleted documents until a worker removes them.
            ids = matching_ids(self._db, request.corpus.id, caller.condition or EVERY)
        else:
            return None
        return ids if request.existing_only or not covers(self._db, request.corpus, ids) else None

    @cached_property
    def id_list(self) -> list[int] | None:
        """The ids as a SQL parameter."""
        return None if self.ids is None else self.ids.tolist()
