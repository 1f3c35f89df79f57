"""What a model said of a document, written beside its chunks: numbers of mentions, claims."""

from collections.abc import Sequence

from pg_graphrag.graph.drafts import DocumentDraft, Statement
from pg_graphrag.indexing.vectors import Item
from pg_graphrag.server import Database, columns, reserve
from pg_graphrag.text.concepts import key


def write_statements(
    db: Database, corpus_id: int, drafts: Sequence[DocumentDraft], chunk_ids: list[list[int]]
) -> dict[str, list[Item]]:
    """Number the statements of new chunks, and store claims; return by kind what of them is to be embedded.

    `chunk_ids`: those of each draft's chunks, in order.
    """
    stated: dict[str, list[tuple[Statement, int, int]]] = {"entity": [], "relationship": []}
    claims = []
    for made, ids in zip(drafts, chunk_ids, strict=True):
        for piece, chunk_id in zip(made.chunks, ids, strict=True):
            for what, mentions in (("entity", piece.entities.values()), ("relationship", piece.relationships.values())):
                stated[what] += [(one.statement, chunk_id, made.id) for one in mentions if one.statement is not None]
            for c in piece.claims:
                texts = (c.subject, c.object, c.type, c.status, c.start, c.end, c.description, c.source_text)
                claims.append((made.id, chunk_id, key(c.subject), c.object and key(c.object), *texts))
    items: dict[str, list[Item]] = {}
    for what, found in stated.items():
        numbers = reserve(db, f"{what}_mentions_id_seq", len(found))
        items[f"{what}_mention"] = []
        for number, (statement, chunk_id, document_id) in zip(numbers, found, strict=True):
            statement.mention_id = number
            items[f"{what}_mention"].append((number, chunk_id, document_id, statement.text))
    if claims:
        db.query(
            "INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, object_key, subject, object,"
            " type, status, start_date, end_date, description, source_text)"
            " SELECT $1, u.* FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) u",
            ["int4", "int8[]", "int8[]", *["text[]"] * 10],
            [corpus_id, *columns(claims)],
        )
    return items
