"""The SQLAlchemy models equal the catalog, and work."""

import re

import pytest
from pg_graphrag.integrations import models
from sqlalchemy import create_engine, make_url, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session, configure_mappers

from tests.runtime.cluster import Database

_CATALOG = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, c.relkind,
       CASE WHEN a.attcollation <> t.typcollation THEN o.collname END
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_collation o ON o.oid = a.attcollation
 WHERE c.relname = %s AND c.relnamespace = 'graphrag'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum
"""


def _type(text: str) -> str:
    """Spell a SQL type as ``format_type`` does."""
    return re.sub(" COLLATE .*", "", text).lower()


@pytest.mark.parametrize("table", models.Base.metadata.sorted_tables, ids=lambda table: table.name)
def test_model_has_the_columns_types_and_nullability_of_the_catalog(module_db: Database, table) -> None:
    catalog = module_db.execute(_CATALOG, [table.name]).fetchall()
    assert catalog, f"there is no graphrag.{table.name}"
    dialect = postgresql.dialect()
    expected = [(name, type_, collation) for name, type_, _, _, collation in catalog]
    mapped = [
        (column.name, _type(column.type.compile(dialect)), getattr(column.type, "collation", None))
        for column in table.columns
    ]
    assert mapped == expected
    if catalog[0][3] != "v":  # a view's columns are all nullable in the catalog
        assert [(column.name, not column.nullable) for column in table.columns] == [(row[0], row[2]) for row in catalog]


def test_a_document_written_through_the_model_is_queued_and_has_the_servers_values(db: Database) -> None:
    configure_mappers()
    engine = create_engine(make_url(db.url).set(drivername="postgresql+psycopg"))
    with Session(engine) as session:
        document = models.Document(title="T", content="Ada wrote notes.", metadata_={"year": 1843})
        session.add(document)
        session.commit()
        assert document.corpus == "default"
        assert document.status == "pending"
        assert len(document.content_hash) == 64
        assert document.source_key == document.content_hash
        first_hash = document.content_hash
        document.content = "Ada wrote programs."
        session.commit()
        assert document.content_hash != first_hash
        assert document.chunks == []
        result = session.scalars(
            select(models.Document).where(models.Document.metadata_.contains({"year": 1843}))
        ).one()
        assert result is document
    engine.dispose()
    assert db.execute("SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'").fetchone() == (1,)


def test_the_graph_of_a_document_is_read_through_the_models(db: Database) -> None:
    db.execute(
        "INSERT INTO graphrag.documents (source_key, content) VALUES ('a', 'Ada Lovelace wrote to Charles Babbage.')"
    )
    db.execute("CALL graphrag.process_jobs()")
    engine = create_engine(make_url(db.url).set(drivername="postgresql+psycopg"))
    with Session(engine) as session:
        document = session.scalars(select(models.Document)).one()
        (chunk,) = document.chunks
        assert chunk.document is document
        assert chunk.content == "Ada Lovelace wrote to Charles Babbage."
        (window,) = chunk.windows
        vector = session.scalars(select(models.WindowVector).where(models.WindowVector.window_id == window.id)).one()
        assert len(vector.embedding) == 384
        entity = session.scalars(select(models.Entity).where(models.Entity.key == "ada lovelace")).one()
        assert [mention.chunk_id for mention in entity.mentions] == [chunk.id]
        edge = session.scalars(select(models.Relationship)).first()
        assert {edge.source.name, edge.target.name} == {"Ada Lovelace", "Charles Babbage"}
        assert [mention.relationship.id for mention in edge.mentions] == [edge.id]
        assert session.scalars(select(models.GraphEdge)).one().source == edge.source.name
    engine.dispose()
