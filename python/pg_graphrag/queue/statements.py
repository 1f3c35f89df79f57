"""What a model said of a document, written beside its chunks: numbers and vectors of mentions, claims."""

from collections.abc import Sequence

from pg_graphrag.embedding.text import vector_text
from pg_graphrag.queue.drafts import DocumentDraft
from pg_graphrag.server import Database, columns, reserve
from pg_graphrag.text.concepts import key

# Rows per statement that carries vectors: about 4 kB of text each.
_SLICE = 1000


def write_statements(
    db: Database, corpus_id: int, space: int, drafts: Sequence[DocumentDraft], chunk_ids: list[list[int]]
) -> None:
    """Number the statements of new chunks and store their vectors; store claims. Nobody waits for these rows.

    `chunk_ids`: those of each draft's chunks, in order.
    """
    vectors: dict[str, list[tuple[int, int, int, str]]] = {"entity": [], "relationship": []}
    claims = []
    for made, ids in zip(drafts, chunk_ids, strict=True):
        embedded = iter(() if made.statement_vectors is None else made.statement_vectors)
        for piece, chunk_id in zip(made.chunks, ids, strict=True):
            for what, mentions in (("entity", piece.entities.values()), ("relationship", piece.relationships.values())):
                stated = [mention.statement for mention in mentions if mention.statement is not None]
                numbers = reserve(db, f"{what}_mentions_id_seq", len(stated))
                for statement, number in zip(stated, numbers, strict=True):
                    statement.mention_id = number
                    vectors[what].append((number, chunk_id, made.id, vector_text(next(embedded))))
            for c in piece.claims:
                texts = (c.subject, c.object, c.type, c.status, c.start, c.end, c.description, c.source_text)
                claims.append((made.id, chunk_id, key(c.subject), c.object and key(c.object), *texts))
    for what, rows in vectors.items():
        for place in range(0, len(rows), _SLICE):
            db.query(
                f"INSERT INTO graphrag.{what}_mention_vectors (space_id, mention_id, chunk_id, document_id, embedding)"
                f" SELECT $1, u.id, u.chunk_id, u.document_id, u.vector::{db.vector_type}"
                "   FROM unnest($2, $3, $4, $5) AS u (id, chunk_id, document_id, vector)",
                ["int4", "int8[]", "int8[]", "int8[]", "text[]"],
                [space, *columns(rows[place : place + _SLICE])],
            )
    if claims:
        db.query(
            "INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, object_key, subject, object,"
            " type, status, start_date, end_date, description, source_text)"
            " SELECT $1, u.* FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) u",
            ["int4", "int8[]", "int8[]", *["text[]"] * 10],
            [corpus_id, *columns(claims)],
        )
