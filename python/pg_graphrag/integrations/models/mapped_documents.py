"""Corpora, documents, and the chunks they are cut into."""

from datetime import datetime

from sqlalchemy import (
    Computed,
    FetchedValue,
    Identity,
    orm,
)
from sqlalchemy.orm import Mapped, foreign, mapped_column, remote

from pg_graphrag.integrations.models.mapped_base import Base, BigInt, BigIntKey, Json, Lexemes, Name, set_by_server


class Corpus(Base):
    """A collection of documents; make one with ``graphrag.create_corpus()``."""

    __tablename__ = "corpora"

    id: Mapped[int] = mapped_column(Identity(always=False), unique=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    options: Mapped[Json] = set_by_server()
    graph_name: Mapped[str] = mapped_column(Name(), Computed("'graphrag_' || id", persisted=True))
    tokenizer: Mapped[str]
    tokenizer_fingerprint: Mapped[str]
    created_at: Mapped[datetime] = set_by_server()
    protection: Mapped[str | None]


class Document(Base):
    """A document to index. Add, change and delete these; workers do the rest."""

    __tablename__ = "documents"

    id: Mapped[BigIntKey]
    corpus: Mapped[str] = set_by_server()
    corpus_id: Mapped[int] = set_by_server()
    source_key: Mapped[str] = set_by_server()
    title: Mapped[str | None]
    content: Mapped[str]
    # SQLAlchemy reserves the attribute "metadata".
    metadata_: Mapped[Json] = mapped_column("metadata", server_default=FetchedValue())
    valid_from: Mapped[datetime | None]
    valid_to: Mapped[datetime | None]
    status: Mapped[str] = set_by_server()
    error: Mapped[str | None]
    content_hash: Mapped[str] = mapped_column(server_default=FetchedValue(), server_onupdate=FetchedValue())
    indexed_hash: Mapped[str | None]
    created_at: Mapped[datetime] = set_by_server()
    updated_at: Mapped[datetime] = mapped_column(server_default=FetchedValue(), server_onupdate=FetchedValue())
    indexed_at: Mapped[datetime | None]
    attached_id: Mapped[int | None]
    retracted_at: Mapped[datetime | None]
    retraction_reason: Mapped[str | None]
    version_of: Mapped[BigInt | None]

    chunks: Mapped[list["Chunk"]] = orm.relationship(
        primaryjoin=lambda: Document.id == foreign(remote(Chunk.document_id)),
        order_by=lambda: Chunk.ordinal,
        back_populates="document",
        viewonly=True,
    )


class Chunk(Base):
    """A stretch of a document: the unit of retrieval and citation."""

    __tablename__ = "chunks"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    document_id: Mapped[BigInt]
    ordinal: Mapped[int]
    start_offset: Mapped[int]
    own_offset: Mapped[int]
    end_offset: Mapped[int]
    language: Mapped[str]
    content: Mapped[str]
    token_count: Mapped[int]
    tsv: Mapped[Lexemes]
    tf_overflow: Mapped[Json | None]
    extraction: Mapped[str | None]
    section: Mapped[str | None]
    page: Mapped[int | None]
    unfit: Mapped[Json | None]
    concepts: Mapped[bytes | None]
    is_row: Mapped[bool]

    document: Mapped[Document | None] = orm.relationship(
        primaryjoin=lambda: foreign(Chunk.document_id) == remote(Document.id), back_populates="chunks", viewonly=True
    )
    windows: Mapped[list["ChunkWindow"]] = orm.relationship(
        primaryjoin=lambda: Chunk.id == foreign(remote(ChunkWindow.chunk_id)),
        order_by=lambda: ChunkWindow.ordinal,
        viewonly=True,
    )


class ChunkWindow(Base):
    """A stretch of a chunk that fits an embedding model."""

    __tablename__ = "chunk_windows"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    document_id: Mapped[BigInt]
    chunk_id: Mapped[BigInt]
    ordinal: Mapped[int]
    start_offset: Mapped[int]
    end_offset: Mapped[int]
