"""A request, which never changes, and the documents that it may search."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pg_graphrag.access.caller import Caller
from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.numeric import int64s, np
from pg_graphrag.retrieval.indexed_documents import covers
from pg_graphrag.retrieval.options import SearchOptions
from pg_graphrag.server import Database


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of a search.

    `low`, `high`: keywords that the caller gave; `extra_text`: a text that the search embeds besides; `existing_only`:
    leave out documents that were just deleted.
    """

    corpus: Corpus
    caller: Caller
    text: str
    options: SearchOptions
    filter: str | None = None
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
        if caller.documents is not None:
            ids = caller.documents if request.filter is None else caller.matching
        elif request.filter is not None or request.existing_only:
            rows = self._db.query(
                "SELECT pg_catalog.string_agg(pg_catalog.int8send(d.id), ''::bytea) AS ids FROM graphrag.documents d"
                " WHERE d.corpus_id = $1 AND d.indexed_hash IS NOT NULL AND ($2 IS NULL OR d.metadata @> $2)",
                ["int4", "jsonb"],
                [request.corpus.id, request.filter],
            )
            ids = np.sort(int64s(rows[0]["ids"]))
        else:
            return None
        return ids if request.existing_only or not covers(self._db, request.corpus, ids) else None

    @cached_property
    def id_list(self) -> list[int] | None:
        """The ids as a SQL parameter."""
        return None if self.ids is None else self.ids.tolist()
