"""What the caller may see of a corpus: a query of ``graphrag.documents`` with his own rights."""

from dataclasses import dataclass

from pg_graphrag.corpus.corpora import unknown_corpus
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.json_reading import read_json
from pg_graphrag.numeric import Ids, int64s, np
from pg_graphrag.server import Database


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and which documents of one corpus he may see.

    `is_owner`: he has the rights of the extension's owner, and sees details of faults that only the owner may know.
    `documents`: sorted ids of the documents that row-level security shows him and whose current content is indexed; None:
    all of the corpus. `matching`: those of them that the call's filter keeps; None without a filter, or where `documents` is
    None.
    """

    role: str
    is_owner: bool
    corpus: str
    documents: Ids | None = None
    matching: Ids | None = None


# The index may hold an earlier version of a document, which the current row no longer lets the caller read.
# By corpus_id, as in the condition of protect() (_enforce), which can only use an index this way.
_DOCUMENTS = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(d.id), ''::bytea) AS ids,
       pg_catalog.string_agg(pg_catalog.boolsend(coalesce(d.metadata @> $2, false)), ''::bytea) AS matches
  FROM graphrag.documents d
 WHERE d.corpus_id = $1 AND d.indexed_hash = d.content_hash
"""
_CALLER = """
SELECT c.id, current_user::text AS role, pg_catalog.has_table_privilege('graphrag.documents', 'SELECT') AS may_read,
       graphrag._may_use(c.id) AS may_use, pg_catalog.pg_has_role(e.extowner, 'USAGE') AS is_owner,
       graphrag._reads_whole(c.id) AS reads_whole
  FROM graphrag.corpora c, pg_catalog.pg_extension e
 WHERE c.name = $1 AND e.extname = 'pg_graphrag'
"""


def caller_of(db: Database, corpus: str | None, filter_: str | None = None) -> Caller:
    """Return who calls, and what he may see of a corpus. It must run with the caller's rights.

    Raises
    ------
    GraphRAGError
        22004 for a null, 42704 for an unknown corpus, 42501 without SELECT on graphrag.documents, 22023 for a bad filter.
    """
    if filter_ is not None and not isinstance(read_json(filter_), dict):
        raise GraphRAGError(
            f"filter must be a JSON object, not {filter_[:100]}",
            hint='For example {"lang": "en"}: containment on metadata.',
        )
    rows = db.query(_CALLER, ["text"], [corpus]) if corpus is not None else []
    if not rows:
        raise unknown_corpus(db, corpus)
    caller = rows[0]
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
    identity = caller["role"], caller["is_owner"], str(corpus)
    if caller["reads_whole"]:
        return Caller(*identity)
    row = db.query(_DOCUMENTS, ["int4", "jsonb"], [caller["id"], filter_])[0]
    ids = int64s(row["ids"])
    order = np.argsort(ids)
    ids = ids[order]
    if filter_ is None:
        return Caller(*identity, documents=ids)
    matches = np.frombuffer(row["matches"] or b"", np.bool_)[order]
    return Caller(*identity, documents=ids, matching=ids[matches])
