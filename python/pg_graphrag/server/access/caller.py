"""What the caller may see of a corpus: a query of ``graphrag.documents`` with his own rights."""

from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Ids, int64s, np, packed, within
from pg_graphrag.server import OWNER, Database, Row, cached_property
from pg_graphrag.server.access.filters import EVERY, Condition, compile_filter
from pg_graphrag.server.access.moments import asks_a_moment
from pg_graphrag.server.access.relations import keys_of
from pg_graphrag.server.caches.session_cache import cache, read_at_revision
from pg_graphrag.server.corpus.corpora import Corpus, ElsewhereError, placed, unknown_corpus


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and which documents of one corpus he may see.

    `is_owner`: he has the rights of the extension's owner, and sees details of faults that only the owner may know.
    `documents`: sorted ids of the documents that row-level security shows him and whose current content is indexed; None:
    all of the corpus. `matching`: those that the call's filter keeps; None without a filter. `condition`: the filter, where
    the owner may apply it instead, by an index: to all of a corpus, and without reading relations.
    """

    role: str
    is_owner: bool
    corpus: str
    documents: Ids | None = None
    matching: Ids | None = None
    condition: Condition | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether the call has a filter."""
        return self.matching is not None or self.condition is not None


# The index may hold an earlier version of a document, which the current row no longer lets the caller read.
# By corpus_id, as in the condition of protect() (_enforce), which can only use an index this way.
_DOCUMENTS = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(d.id), ''::bytea) AS ids,
       pg_catalog.string_agg(pg_catalog.boolsend(coalesce({condition}, false)), ''::bytea) AS matches
  FROM graphrag.documents d {joins}
 WHERE d.corpus_id = $1 AND d.indexed_hash = d.content_hash
"""
_MATCHING = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(d.id), ''::bytea) AS ids
  FROM graphrag.documents d {joins}
 WHERE d.corpus_id = $1 AND d.indexed_hash IS NOT NULL AND {condition}
"""
_HISTORY = """
SELECT hc.name
  FROM graphrag._histories h
  JOIN graphrag.corpora c ON c.id = h.corpus_id
  JOIN graphrag.corpora hc ON hc.id = h.history_id
 WHERE c.name = $1
"""
# Attached tables that show him nothing, for a reason that somebody must remove.
_WITHHELD = "SELECT w.attached_table, w.code, w.mend, w.superuser FROM graphrag_attached._withheld($1) w"
# Roles and tables that this session has had a WARNING of.
_warned: set[tuple[str, str]] = set()
_CALLER = f"""
SELECT c.id, current_user::text AS role, pg_catalog.has_table_privilege('graphrag.documents', 'SELECT') AS may_read,
       graphrag._may_use(c.id) AS may_use, pg_catalog.pg_has_role({OWNER}, 'USAGE') AS is_owner,
       graphrag._reads_whole(c.id) AS reads_whole, coalesce(c.move ->> 'state' = 'moved', false) AS has_moved
  FROM graphrag.corpora c
 WHERE c.name = $1
"""


# The corpora, as c, that "*" stands for. Histories repeat their corpora: they must be asked by name, or as of a moment.
READABLE = """((SELECT graphrag._may_use(NULL)) OR c.id IN (SELECT g.corpus_id FROM graphrag.granted_corpora g))
   AND NOT EXISTS (SELECT FROM graphrag._histories h WHERE h.history_id = c.id)
   AND coalesce(c.move ->> 'state', 'moving') = 'moving'"""


def caller_of(db: Database, corpus: str | None, filter_: str | None = None) -> Caller:
    """Return the caller, and what he may see of a corpus. It must run with the caller's rights.

    With a moment (as_of), the corpus is replaced by its history if it has one: that knows what was said then.

    Raises GraphRAGError: 22004 for a null, 42704 for an unknown corpus, 42501 without SELECT on graphrag.documents or on a
      relation of the filter, 22023 for a bad filter, 42P01, 42809, 42703 and 42804 for a bad relation, 54000 and 54001 for
      a filter that is too large.
    """
    histories = db.query(_HISTORY, ["text"], [corpus]) if filter_ is not None and asks_a_moment(filter_) else []
    if histories:
        corpus = histories[0]["name"]
    caller = check_corpus(db, corpus)
    identity = caller["role"], caller["is_owner"], str(corpus)
    # An empty filter keeps every document: to read which these are would take longer the more there are.
    condition = (
        None
        if filter_ in (None, "{}")
        else compile_filter(filter_, str(corpus), lambda name: keys_of(db, name), of_versions=bool(histories))
    )
    if not caller["reads_whole"]:
        for row in db.query(_WITHHELD, ["int4"], [caller["id"]]):
            _warn(db, caller["role"], row)
        documents, matching = _visible(db, caller["id"], condition)
        return Caller(*identity, documents=documents, matching=matching)
    if condition is None or not condition.joins:
        return Caller(*identity, condition=condition)
    return Caller(*identity, matching=matching_ids(db, caller["id"], condition))


def check_corpus(db: Database, corpus: str | None) -> Row:
    """Return the caller, and what he may do with a corpus; errors of rights as in `caller_of`."""
    rows = db.query(_CALLER, ["text"], [corpus]) if corpus is not None else []
    if not rows:
        raise unknown_corpus(db, corpus)
    caller = rows[0]
    # One that has moved, and is not dropped yet, is read where it is.
    if caller["has_moved"] and (place := placed(db, str(corpus))) is not None:
        raise ElsewhereError(str(corpus), place)
    if not caller["may_read"]:
        raise GraphRAGError(
            "permission denied for table documents",
            sqlstate="42501",
            hint="Who owns the extension can GRANT graphrag_reader to the role, or a corpus with graphrag.grant_corpus(…).",
        )
    if not caller["may_use"]:
        raise GraphRAGError(
            f'permission denied for corpus "{corpus}"',
            sqlstate="42501",
            hint=f"Who owns the extension can give it: SELECT graphrag.grant_corpus('{corpus}', '{caller['role']}', 'read');",
        )
    return caller


def check_filter(db: Database, filter_: str | None, *, reads_relations: bool) -> None:
    """Refuse a filter that is wrong for every corpus, as `caller_of` does; `reads_relations`: those that it names, too."""
    if filter_ not in (None, "{}"):
        compile_filter(str(filter_), "", lambda name: keys_of(db, name) if reads_relations else "SELECT '' AS key")


def _warn(db: Database, role: str, withheld: Row) -> None:
    """Say that an attached table shows the caller no rows, with every call: a search that lacks them silently misleads.

    The first in a session is a WARNING, those after it are NOTICEs, which servers do not log: they would fill the log.
    """
    hint = withheld["mend"]
    if withheld["superuser"]:
        hint += f' Log in as "{role}": a session of superuser "{withheld["superuser"]}" runs no policies of others.'
    table = withheld["attached_table"]
    send = db.notice if (role, table) in _warned else db.warning
    _warned.add((role, table))
    code = withheld["code"]
    reason = (
        "it has row-level security and no policy for SELECT is for you"
        if code is None
        else f"its policies would run {code}"
    )
    send(f"rows of {table} are not shown to you: {reason}", hint=hint.strip())


def matching_ids(db: Database, corpus_id: int, condition: Condition) -> Ids:
    """Return the sorted ids of the indexed documents that fulfil a condition, among those that the current role may see."""
    sql = _MATCHING.format(condition=condition.sql, joins=condition.joins)
    return np.sort(int64s(_run(db, sql, corpus_id, condition)["ids"]))


def _visible(db: Database, corpus_id: int, condition: Condition | None) -> tuple[Ids, Ids | None]:
    """Return the ids of the documents that the caller sees, and of those that pass the filter."""
    if condition is None:
        rows = db.query(_DOCUMENTS.format(condition="true", joins=""), ["int4"], [corpus_id])
        return np.sort(int64s(rows[0]["ids"])), None
    sql = _DOCUMENTS.format(condition=condition.sql, joins=condition.joins)
    row = _run(db, sql, corpus_id, condition)
    ids = int64s(row["ids"])
    order = np.argsort(ids)
    ids = ids[order]
    return ids, ids[np.frombuffer(row["matches"] or b"", np.bool_)[order]]


def _run(db: Database, sql: str, corpus_id: int, condition: Condition) -> Row:
    # Plans of filters are not kept: there is no end of them.
    plan = db.prepare(sql, ["int4", *condition.types])
    return db.execute(plan, [corpus_id, *condition.values])[0]


# So many documents a statement names, which asks an index for all others.
MAX_REMOVED = 10_000


class Documents:
    """The documents of a corpus that a search of a caller's may read; those visible to him were read with his rights.

    `existing_only`: leave out documents that were deleted.
    """

    def __init__(self, db: Database, corpus: Corpus, caller: Caller, *, existing_only: bool = False) -> None:
        self._db, self._corpus, self._caller, self._existing_only = db, corpus, caller, existing_only

    @cached_property
    def ids(self) -> Any:
        """Sorted int64 ids, or None for the whole corpus. A filter of a whole corpus is applied here."""
        if self._named is None or self._existing_only:
            return self._named
        return None if self._gone is not None and not len(self._gone) else self._named

    @cached_property
    def removed(self) -> Ids | None:
        """Ids of documents that the index still has, where `ids` are all that exist.

        None where `ids` are None or a part of these, and where more than MAX_REMOVED wait.
        """
        gone = None if self.ids is None else self._gone
        return gone if gone is not None and len(gone) <= MAX_REMOVED else None

    @cached_property
    def _named(self) -> Any:
        corpus, caller = self._corpus, self._caller
        if caller.matching is not None:
            return caller.matching
        if caller.documents is not None:
            return caller.documents
        if caller.condition is not None or self._existing_only or corpus.awaits_removals:
            # What the whole index says of entities counts deleted documents until a worker removes them.
            return matching_ids(self._db, corpus.id, caller.condition or EVERY)
        return None

    @cached_property
    def _gone(self) -> Ids | None:
        return _besides(self._db, self._corpus, self._named)

    @cached_property
    def id_list(self) -> list[int] | None:
        """The ids as a SQL parameter."""
        return None if self.ids is None else self.ids.tolist()


_INDEXED = f"""
SELECT {packed(ids="s.id")}
  FROM (SELECT DISTINCT c.document_id AS id FROM graphrag.chunks c WHERE c.corpus_id = $1) s
"""
# Counted by triggers. Documents whose content changed since it was indexed are not among these.
_MORE_SEARCHABLE = """
SELECT coalesce(pg_catalog.sum(x.count), 0) > $2 AS more
  FROM graphrag._document_counts x
 WHERE x.corpus_id = $1 AND x.is_searchable
"""
_MORE = """
SELECT EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.indexed_hash IS NOT NULL OFFSET $2) AS more
"""


def _besides(db: Database, corpus: Corpus, documents: Ids) -> Ids | None:
    """Return ids of indexed documents outside of `documents`, ascending, if these are all that exist; else None."""
    # Sooner known than which.
    for more in (_MORE_SEARCHABLE, _MORE):
        if db.value(more, ["int4", "int8"], [corpus.id, len(documents)]):
            return None
    indexed = _indexed(db, corpus)
    return indexed[~within(indexed, documents)]


def _indexed(db: Database, corpus: Corpus) -> Ids:
    """Return the ids of the documents that have chunks, (n,) int64, also of deleted ones that are not yet removed."""
    key = "indexed documents", corpus.id
    cached: Ids | None = cache.get(corpus, key)
    if cached is not None:
        return cached
    rows = read_at_revision(db, corpus, _INDEXED) if corpus.revision is not None else None
    if rows is None:
        return int64s(db.value(_INDEXED, ["int4"], [corpus.id]))
    ids = int64s(rows[0]["ids"])
    cache.put(corpus, key, ids, ids.nbytes)
    return ids
