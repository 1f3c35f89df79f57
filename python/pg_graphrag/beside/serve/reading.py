"""SQL that the server reads as the caller: corpora, documents, curations. The views decide what the caller sees."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pg_graphrag.beside.client import GraphRAG, nodes
from pg_graphrag.beside.client.blocking import execute
from pg_graphrag.beside.serve.caller_database import Connection
from pg_graphrag.ground.errors import GraphRAGError

MAX_DOCUMENTS = 200
MAX_CHARACTERS = 200_000
# What pictures are, as the table has them: image/….
PICTURE_KINDS = ("png", "jpeg", "gif", "webp")


def rows(connection: Connection, sql: str, **values: Any) -> list[dict[str, Any]]:
    """Return the rows of a statement as dictionaries."""
    cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
    return cursor.execute(sql.encode(), values).fetchall()


def names(connection: Connection) -> set[str]:
    """Return the names of all corpora of a database, which are not for the caller."""
    return {row["name"] for row in rows(connection, "SELECT c.name FROM graphrag.corpora c")}


def corpora(connection: Connection) -> list[dict[str, Any]]:
    """Return [{name, bypass}] of the corpora in which the caller sees a document; all corpora if he may read the progress.

    `bypass`: whether he may ask its model for answers without documents.
    """
    return rows(
        connection,
        """
        SELECT c.name, coalesce(c.options #>> '{llm,roles,answer,provider}', c.options #>> '{llm,provider}', '') <> ''
                       AND coalesce(c.options #>> '{llm,roles,answer,model}', c.options #>> '{llm,model}', '') <> ''
                       AND (c.options #>> '{llm,bypass}' IS DISTINCT FROM 'false' OR pg_catalog.pg_has_role(o.relowner, 'USAGE'))
                       AS bypass
          FROM graphrag.corpora c
          JOIN pg_catalog.pg_class o ON o.oid = 'graphrag.corpora'::pg_catalog.regclass
         WHERE pg_catalog.has_table_privilege('graphrag.progress', 'SELECT')
            OR EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = c.id)
         ORDER BY c.name
        """,
    )


class UnknownError(GraphRAGError):
    """A caller has no such corpus in a database."""

    def __init__(self, corpus: str) -> None:
        hint = "Name one of those that the server lists."
        super().__init__(f'corpus "{corpus}" does not exist', sqlstate="42704", hint=hint)


class ElsewhereError(UnknownError):
    """A corpus that this database does not hold, but another node with this URL does. The caller is told the same as for an
    unknown corpus.
    """

    def __init__(self, corpus: str, url: str) -> None:
        super().__init__(corpus)
        self.url = url


def check_corpora(connection: Connection, corpora: Sequence[str]) -> None:
    """Refuse corpora that were not granted to the caller as if they did not exist, because names belong to other tenants.

    A caller who may read the progress knows all names (corpora), and may ask for any.

    Raises UnknownError: not for the corpus default, which its first document makes, unless another node holds it.
    """
    sql = """
        SELECT g.name, p.node, p.url,
               c.id IS NOT NULL AS is_here,
               graphrag._may_use(c.id) OR pg_catalog.has_table_privilege('graphrag.progress', 'SELECT') AS may_use
          FROM pg_catalog.unnest(%(corpora)s::text[]) WITH ORDINALITY g (name, place)
         CROSS JOIN LATERAL graphrag._placed(g.name) p
          LEFT JOIN graphrag.corpora c ON c.name = g.name
         ORDER BY g.place
        """
    for row in rows(connection, sql, corpora=list(corpora)):
        if row["node"] is not None:
            raise ElsewhereError(row["name"], nodes.url_at(connection.info, nodes.Place(row["node"], row["url"])))
        if not (row["may_use"] if row["is_here"] else row["name"] == "default"):
            raise UnknownError(row["name"])


def elsewhere(connection: Connection, corpora: Sequence[str]) -> dict[nodes.Place, list[str]]:
    """Return which other nodes have which of some corpora; their urls say how the server gets there."""
    return nodes.from_here(connection.info, execute(connection, nodes.elsewhere(corpora)))


def other_nodes(connection: Connection) -> list[str]:
    """Return how the server connects to the other nodes that the database knows."""
    urls = [nodes.url_at(connection.info, place) for place in execute(connection, nodes.others())]
    return [url for url in urls if not nodes.is_same(connection.info, url)]


def status(rag: GraphRAG, connection: Connection) -> dict[str, Any]:
    """Return how far indexing is: the row of ``graphrag.progress``; a caller who may not read it gets counts of his
    documents.
    """
    (may,) = rows(
        connection,
        "SELECT pg_catalog.has_table_privilege('graphrag.progress', 'SELECT') AS watch,"
        " pg_catalog.has_function_privilege('graphrag.retry_failed(text)', 'EXECUTE') AS retry,"
        " pg_catalog.has_function_privilege('graphrag.reindex(text, text)', 'EXECUTE') AS reindex",
    )
    actions = {"may_retry": may["retry"], "may_reindex": may["reindex"]}
    if may["watch"]:
        return asdict(rag.progress()) | actions
    counts = rows(
        connection,
        "SELECT d.status, pg_catalog.count(*) AS count FROM graphrag.documents d WHERE d.corpus = %(corpus)s GROUP BY d.status",
        corpus=rag.corpus,
    )
    by_status = {row["status"]: row["count"] for row in counts}
    return {
        "corpus": rag.corpus,
        "documents": sum(by_status.values()),
        **{name: by_status.get(name, 0) for name in ("indexed", "pending", "failed", "retracted")},
        **actions,
    }


# What a list of documents is sorted by; octet_length reads no text.
SORTS = {
    "number": "d.id",
    "key": "d.source_key",
    "title": "coalesce(d.title, d.source_key)",
    "status": "d.status",
    "size": "pg_catalog.octet_length(d.content)",
    "changed": "d.updated_at",
}


def documents(
    connection: Connection,
    corpus: str,
    text: str | None = None,
    after: int = 0,
    limit: int = 50,
    *,
    prefix: str = "",
    metadata: Mapping[str, Any] | None = None,
    status: str | None = None,
    sort: str = "number",
    is_descending: bool = False,
    offset: int = 0,
) -> dict[str, Any]:
    """Return {documents, total, next}, documents without their text: those with numbers above `after`, `limit` from
    `offset`.

    `text`: part of key or title; `prefix`: beginning of the key; `metadata`: contained in the document's. `total` counts
    all matching documents. `next` is the last number, while there are more, in the order of numbers; other orders go on by
    `offset`.
    """
    direction = "DESC" if is_descending else "ASC"
    records = rows(
        connection,
        f"""
        WITH found AS MATERIALIZED (
            SELECT d.id, pg_catalog.row_number() OVER (ORDER BY {SORTS[sort]} {direction} NULLS LAST, d.id {direction}) AS place
              FROM graphrag.documents d
             WHERE d.corpus = %(corpus)s AND d.id > %(after)s
               AND (%(status)s::text IS NULL OR d.status = %(status)s::text)
               AND (%(text)s::text IS NULL OR pg_catalog.strpos(pg_catalog.lower(d.source_key || ' ' || coalesce(d.title, '')),
                                                                pg_catalog.lower(%(text)s::text)) > 0)
               AND pg_catalog.starts_with(d.source_key, %(prefix)s) AND d.metadata @> %(metadata)s
        )
        SELECT d.id AS document_id, d.source_key, d.title, d.status, d.error, d.metadata,
               pg_catalog.char_length(d.content) AS characters, d.updated_at, t.total
          FROM (SELECT pg_catalog.count(*) AS total FROM found) t
          LEFT JOIN (found JOIN graphrag.documents d USING (id))
                 ON found.place > %(offset)s AND found.place <= %(offset)s + %(limit)s
         ORDER BY found.place
        """,
        corpus=corpus,
        after=after,
        text=text or None,
        status=status,
        limit=limit,
        prefix=prefix,
        metadata=Jsonb(dict(metadata or {})),
        offset=offset,
    )
    total = records[0]["total"]
    listed = [record for record in records if record["document_id"] is not None]
    for record in listed:
        del record["total"]
    goes_on = sort == "number" and not is_descending and offset + len(listed) < total
    return {"documents": listed, "total": total, "next": listed[-1]["document_id"] if listed and goes_on else None}


def document(connection: Connection, corpus: str, document_id: int, offset: int, limit: int) -> dict[str, Any]:
    """Return a document and `limit` characters of its text from `offset`; next_offset is None at the end.

    `page`: the page of the first character, from 1. `page_pictures`: {page: the picture that shows it whole}, for these
    characters.

    Raises GraphRAGError: 02000 when the caller sees no such document.
    """
    records = rows(
        connection,
        """
        SELECT d.id AS document_id, d.corpus, d.source_key, d.title, d.status, d.error, d.metadata, d.updated_at,
               pg_catalog.char_length(d.content) AS characters,
               part.content, 1 + part.page_ends AS page,
               coalesce((SELECT pg_catalog.jsonb_object_agg(p.page, p.id ORDER BY p.id DESC)
                           FROM graphrag.pictures p
                          WHERE p.document_id = d.id AND p.is_page AND p.page > part.page_ends
                            AND p.page <= 1 + part.page_ends + pg_catalog.regexp_count(part.content, '\\f')), '{}')
                   AS page_pictures
          FROM graphrag.documents d
         CROSS JOIN LATERAL (
               SELECT pg_catalog.substr(d.content, %(offset)s::int + 1, %(limit)s::int) AS content,
                      pg_catalog.regexp_count(pg_catalog.substr(d.content, 1, %(offset)s::int), '\\f') AS page_ends
                OFFSET 0) part
         WHERE d.corpus = %(corpus)s AND d.id = %(document_id)s
        """,
        corpus=corpus,
        document_id=document_id,
        offset=offset,
        limit=limit,
    )
    if not records:
        raise GraphRAGError(f"there is no document {document_id}", sqlstate="02000")
    (row,) = records
    end = offset + len(row["content"])
    return row | {"offset": offset, "next_offset": end if end < row["characters"] else None}


def picture(connection: Connection, corpus: str, number: int) -> tuple[str, bytes]:
    """Return (media type, bytes) of a picture of the corpus. The type is what the bytes begin with.

    Raises GraphRAGError: 02000 when the caller sees no such picture.
    """
    records = rows(
        connection,
        "SELECT p.media_type, p.content FROM graphrag.pictures p JOIN graphrag.documents d ON d.id = p.document_id"
        " WHERE d.corpus = %(corpus)s AND p.id = %(number)s",
        corpus=corpus,
        number=number,
    )
    if not records:
        raise GraphRAGError(f"there is no picture {number}", sqlstate="02000")
    return records[0]["media_type"], bytes(records[0]["content"])


def picture_types(connection: Connection, numbers: Sequence[int | None]) -> dict[int | None, str]:
    """Return {number: one of PICTURE_KINDS} of the pictures that the caller sees."""
    known = [number for number in numbers if number is not None]
    sql = "SELECT p.id, p.media_type FROM graphrag.pictures p WHERE p.id = ANY (%(numbers)s)"
    records = rows(connection, sql, numbers=known) if known else []
    return {row["id"]: row["media_type"].removeprefix("image/") for row in records}


def keys(connection: Connection, corpus: str, numbers: Sequence[int]) -> list[str]:
    """Return the keys of the documents of these numbers that the caller sees."""
    records = rows(
        connection,
        "SELECT d.source_key FROM graphrag.documents d WHERE d.corpus = %(corpus)s AND d.id = ANY (%(numbers)s)",
        corpus=corpus,
        numbers=list(numbers),
    )
    return [record["source_key"] for record in records]


def places(connection: Connection, corpus: str, passages: Sequence[tuple[int | None, str]]) -> list[int | None]:
    """Return where each of (document, text) begins in its document, in characters from 0; None if it is missing there.

    The first place of a text that occurs twice.
    """
    records = rows(
        connection,
        "SELECT pg_catalog.strpos(d.content, u.text) - 1 AS place"
        "  FROM ROWS FROM (pg_catalog.unnest(%(documents)s::bigint[]), pg_catalog.unnest(%(texts)s::text[]))"
        "       WITH ORDINALITY AS u (document_id, text, number)"
        "  LEFT JOIN graphrag.documents d ON d.corpus = %(corpus)s AND d.id = u.document_id AND u.text <> ''"
        " ORDER BY u.number",
        corpus=corpus,
        documents=[document_id for document_id, _ in passages],
        texts=[text for _, text in passages],
    )
    return [None if row["place"] == -1 else row["place"] for row in records]


def curations(connection: Connection, corpus: str, before: int | None, limit: int) -> list[dict[str, Any]]:
    """Return the latest curations of a corpus."""
    return rows(
        connection,
        """
        SELECT u.id, u.kind, u.arguments, u.made_by, u.made_at, u.undone_by, u.undone_at
          FROM graphrag.curations u
          JOIN graphrag.corpora c ON c.id = u.corpus_id
         WHERE c.name = %(corpus)s AND (%(before)s::bigint IS NULL OR u.id < %(before)s)
         ORDER BY u.id DESC
         LIMIT %(limit)s
        """,
        corpus=corpus,
        before=before,
        limit=limit,
    )


def verdicts(connection: Connection, corpus: str, before: int | None, limit: int) -> list[dict[str, Any]]:
    """Return the latest verdicts on answers of a corpus. The database decides who may read them."""
    return rows(
        connection,
        """
        SELECT f.id, f.at, f.role, f.author, f.question, f.verdict, f.evidence, f.mode, f.answer, f.comment
          FROM graphrag.answer_feedback f
          JOIN graphrag.corpora c ON c.id = f.corpus_id
         WHERE c.name = %(corpus)s AND (%(before)s::bigint IS NULL OR f.id < %(before)s)
         ORDER BY f.id DESC
         LIMIT %(limit)s
        """,
        corpus=corpus,
        before=before,
        limit=limit,
    )


CURATIONS = {
    "create_entity": {"name", "type", "description"},
    "edit_entity": {"entity", "type", "description"},
    "rename_entity": {"entity", "new_name"},
    "merge_entities": {"entities", "target"},
    "delete_entity": {"entity"},
    "create_relationship": {"source", "target", "keywords", "description", "weight"},
    "edit_relationship": {"source", "target", "keywords", "description", "weight"},
    "delete_relationship": {"source", "target"},
}


def curate(rag: GraphRAG, kind: str, arguments: Mapping[str, Any]) -> int:
    """Make a curation; return its number, by which it can be undone.

    Raises GraphRAGError: 22023 for a kind or an argument that there is not.
    """
    if kind not in CURATIONS:
        raise GraphRAGError(f"there is no curation {kind!r}", hint=f"There are {', '.join(CURATIONS)}.")
    if unknown := sorted(set(arguments) - CURATIONS[kind]):
        raise GraphRAGError(
            f"{kind} has no argument {unknown[0]!r}", hint=f"It has {', '.join(sorted(CURATIONS[kind]))}."
        )
    return int(rag.call(kind, **arguments))


def undo(rag: GraphRAG, connection: Connection, number: int) -> None:
    """Undo a curation of the client's corpus.

    Raises GraphRAGError: 02000 when the corpus has no such curation.
    """
    records = rows(
        connection,
        "SELECT u.id FROM graphrag.curations u JOIN graphrag.corpora c ON c.id = u.corpus_id"
        " WHERE u.id = %(number)s AND c.name = %(corpus)s",
        number=number,
        corpus=rag.corpus,
    )
    if not records:
        raise GraphRAGError(f"corpus {rag.corpus!r} has no curation {number}", sqlstate="02000")
    rag.call("undo_curation", id=number)
