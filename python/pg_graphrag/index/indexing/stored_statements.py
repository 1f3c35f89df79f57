"""What a model states of a document, stored with its chunks: ids of mentions, claims."""

from collections.abc import Sequence

from pg_graphrag.index.graph.drafts import DocumentDraft, Statement
from pg_graphrag.index.indexing.item_vectors import Item
from pg_graphrag.server import Database, columns, reserve
from pg_graphrag.text.concept import key


def write_statements(
    db: Database, corpus_id: int, drafts: Sequence[DocumentDraft], chunk_ids: list[list[int]]
) -> dict[str, list[Item]]:
    """Number the statements of new chunks, and store claims; return by kind the items to embed.

    `chunk_ids`: those of each draft's chunks, in order.
    """
    statements: dict[str, list[tuple[Statement, int, int]]] = {"entity": [], "relationship": []}
    claims = []
    for draft, ids in zip(drafts, chunk_ids, strict=True):
        for piece, chunk_id in zip(draft.chunks, ids, strict=True):
            for kind, mentions in (("entity", piece.entities.values()), ("relationship", piece.relationships.values())):
                statements[kind] += [
                    (mention.statement, chunk_id, draft.id) for mention in mentions if mention.statement is not None
                ]
            for c in piece.claims:
                texts = (c.subject, c.object, c.type, c.status, c.start, c.end, c.description, c.source_text)
                claims.append((draft.id, chunk_id, key(c.subject), c.object and key(c.object), *texts))
    items: dict[str, list[Item]] = {}
    for kind, kind_statements in statements.items():
        numbers = reserve(db, f"{kind}_mentions_id_seq", len(kind_statements))
        items[f"{kind}_mention"] = []
        for number, (statement, chunk_id, document_id) in zip(numbers, kind_statements, strict=True):
            statement.mention_id = number
            items[f"{kind}_mention"].append((number, chunk_id, document_id, statement.text))
    if claims:
        db.query(
            "INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, object_key, subject, object,"
            " type, status, start_date, end_date, description, source_text)"
            " SELECT $1, u.* FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) u",
            ["int4", "int8[]", "int8[]", *["text[]"] * 10],
            [corpus_id, *columns(claims)],
        )
    return items
