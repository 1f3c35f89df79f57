"""Rows of a small graph, written straight into the tables, for tests of what is built on them."""

from collections.abc import Sequence
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]


def corpus(db: Connection, name: str = "c") -> int:
    return _id(
        db,
        "INSERT INTO graphrag.corpora (name, tokenizer, tokenizer_fingerprint) VALUES (%s, '-', '-') RETURNING id",
        name,
    )


def document(db: Connection, corpus_name: str, source_key: str, title: str | None = None) -> int:
    number = _id(
        db,
        "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES (%s, %s, %s, 'text') RETURNING id",
        corpus_name, source_key, title,
    )  # fmt: skip
    db.execute(
        "UPDATE graphrag.documents SET indexed_hash = content_hash, indexed_at = pg_catalog.now() WHERE id = %s",
        [number],
    )
    return number


def chunk(db: Connection, corpus_id: int, document_id: int, ordinal: int = 0) -> int:
    return _id(
        db,
        """INSERT INTO graphrag.chunks
               (corpus_id, document_id, ordinal, start_offset, own_offset, end_offset, language, content,
                token_count, tsv)
           VALUES (%s, %s, %s, 0, 0, 4, 'en', 'text', 1, '') RETURNING id""",
        corpus_id, document_id, ordinal,
    )  # fmt: skip


def entity(
    db: Connection, corpus_id: int, name: str, type: str = "NAME", description: str = "", mentions: int = 1
) -> int:
    return _id(
        db,
        """INSERT INTO graphrag.entities (corpus_id, key, name, type, description, mention_count)
           VALUES (%s, graphrag._key(%s), %s, %s, %s, %s) RETURNING id""",
        corpus_id, name, name, type, description, mentions,
    )  # fmt: skip


def mention(db: Connection, corpus_id: int, document_id: int, chunk_id: int, entity_id: int, tf: int = 1) -> int:
    return _id(
        db,
        """INSERT INTO graphrag.entity_mentions
               (corpus_id, document_id, chunk_id, entity_id, raw_key, name, type, description, tf)
           VALUES (%s, %s, %s, %s, %s, 'n', 't', 'd', %s) RETURNING id""",
        corpus_id, document_id, chunk_id, entity_id, f"key {entity_id}", tf,
    )  # fmt: skip


def relationship(
    db: Connection,
    corpus_id: int,
    source: int,
    target: int,
    weight: str = "1",
    keywords: list[str] | None = None,
    mentions: int = 1,
) -> int:
    return _id(
        db,
        """INSERT INTO graphrag.relationships
               (corpus_id, low_id, high_id, source_id, target_id, weight, keywords, description, mention_count)
           VALUES (%s, least(%s, %s::bigint), greatest(%s, %s::bigint), %s, %s, %s::numeric, %s, 'they meet', %s)
           RETURNING id""",
        corpus_id, source, target, source, target, source, target, weight, keywords or [], mentions,
    )  # fmt: skip


def project(
    db: Connection,
    corpus_id: int,
    documents: Sequence[int] = (),
    entities: Sequence[int] = (),
    relationships: Sequence[int] = (),
) -> None:
    db.execute(
        "SELECT graphrag._project(%s, %s::bigint[], %s::bigint[], %s::bigint[])",
        [corpus_id, list(documents), list(entities), list(relationships)],
    )


def project_all(db: Connection, corpus_id: int) -> None:
    db.execute(
        """SELECT graphrag._project(%(c)s, ARRAY(SELECT id FROM graphrag.documents WHERE corpus_id = %(c)s),
                                    ARRAY(SELECT id FROM graphrag.entities WHERE corpus_id = %(c)s),
                                    ARRAY(SELECT id FROM graphrag.relationships WHERE corpus_id = %(c)s))""",
        {"c": corpus_id},
    )


def cypher(db: Connection, query: str, params: str = "{}", corpus_name: str = "c") -> list[Any]:
    return [row[0] for row in db.execute("SELECT graphrag.cypher(%s, %s, %s)", [corpus_name, query, params])]


def _id(db: Connection, statement: str, *values: object) -> int:
    row = db.execute(statement, values).fetchone()
    assert row is not None
    return int(row[0])
