"""Models of embedding in use, and vectors: tables of all spaces."""

from datetime import datetime
from typing import Any

from pgvector.sqlalchemy import Vector
from sqlalchemy import (
    Identity,
)
from sqlalchemy.orm import Mapped, mapped_column

from pg_graphrag.integrations.models.mapped_base import Base, BigInt


class EmbeddingSpace(Base):
    """A model whose vectors a corpus holds."""

    __tablename__ = "embedding_spaces"

    id: Mapped[int] = mapped_column(Identity(always=False), primary_key=True)
    corpus_id: Mapped[int]
    provider: Mapped[str]
    model: Mapped[str]
    dimensions: Mapped[int]
    state: Mapped[str]
    created_at: Mapped[datetime]
    own_tables: Mapped[bool]


class WindowVector(Base):
    """The vector of a window, L2-normalised."""

    __tablename__ = "window_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    window_id: Mapped[BigInt] = mapped_column(primary_key=True)
    chunk_id: Mapped[BigInt]
    document_id: Mapped[BigInt]
    embedding: Mapped[Any] = mapped_column(Vector(), nullable=False)


class EntityVector(Base):
    """The vector of an entity's name, L2-normalised."""

    __tablename__ = "entity_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)
    embedding: Mapped[Any] = mapped_column(Vector(), nullable=False)


class EntityMentionVector(Base):
    """The vector of what a model said of an entity in one chunk, L2-normalised."""

    __tablename__ = "entity_mention_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    mention_id: Mapped[BigInt] = mapped_column(primary_key=True)
    chunk_id: Mapped[BigInt]
    document_id: Mapped[BigInt]
    embedding: Mapped[Any] = mapped_column(Vector(), nullable=False)


class RelationshipMentionVector(Base):
    """The vector of what a model said of a relationship in one chunk, L2-normalised."""

    __tablename__ = "relationship_mention_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    mention_id: Mapped[BigInt] = mapped_column(primary_key=True)
    chunk_id: Mapped[BigInt]
    document_id: Mapped[BigInt]
    embedding: Mapped[Any] = mapped_column(Vector(), nullable=False)


class ReportVector(Base):
    """The vector of a report's title and summary, L2-normalised."""

    __tablename__ = "report_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    community_id: Mapped[BigInt] = mapped_column(primary_key=True)
    embedding: Mapped[Any] = mapped_column(Vector(), nullable=False)
