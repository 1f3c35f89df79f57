"""Entities and relationships, what is said of them and where, and what people changed."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    orm,
)
from sqlalchemy.orm import Mapped, foreign, mapped_column, remote

from pg_graphrag.integrations.models.mapped_base import Base, BigInt, BigIntKey, Json, Key, Lexemes
from pg_graphrag.integrations.models.mapped_documents import Chunk


class Entity(Base):
    """A node of the knowledge graph."""

    __tablename__ = "entities"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    key: Mapped[Key]
    name: Mapped[str]
    type: Mapped[str]
    description: Mapped[str]
    degree: Mapped[int]
    mention_count: Mapped[int]
    evidence_rank: Mapped[BigInt | None]
    summary_of: Mapped[Key | None]
    summary_due: Mapped[bool]
    curated: Mapped[bool]
    row_mention_count: Mapped[int]

    mentions: Mapped[list["EntityMention"]] = orm.relationship(
        primaryjoin=lambda: Entity.id == foreign(remote(EntityMention.entity_id)),
        back_populates="entity",
        viewonly=True,
    )


class EntityMention(Base):
    """What one chunk says of one entity."""

    __tablename__ = "entity_mentions"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    document_id: Mapped[BigInt]
    chunk_id: Mapped[BigInt]
    entity_id: Mapped[BigInt | None]
    raw_key: Mapped[Key]
    name: Mapped[str]
    type: Mapped[str]
    description: Mapped[str | None]
    tf: Mapped[int]
    evidence_rank: Mapped[BigInt | None]
    start_offset: Mapped[int | None]
    end_offset: Mapped[int | None]
    windows: Mapped[list[int]]
    tsv: Mapped[Lexemes | None]
    attributes: Mapped[Json | None]
    name_of: Mapped[Key | None]

    entity: Mapped[Entity | None] = orm.relationship(
        primaryjoin=lambda: foreign(EntityMention.entity_id) == remote(Entity.id),
        back_populates="mentions",
        viewonly=True,
    )
    chunk: Mapped[Chunk] = orm.relationship(
        primaryjoin=lambda: foreign(EntityMention.chunk_id) == remote(Chunk.id), viewonly=True
    )


class Relationship(Base):
    """An edge of the knowledge graph: a pair of entities, shown in the direction most mentions have."""

    __tablename__ = "relationships"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    low_id: Mapped[BigInt]
    high_id: Mapped[BigInt]
    source_id: Mapped[BigInt]
    target_id: Mapped[BigInt]
    keywords: Mapped[list[str]]
    description: Mapped[str]
    weight: Mapped[Decimal]
    mention_count: Mapped[int]
    direction: Mapped[int]
    evidence_rank: Mapped[BigInt | None]
    summary_of: Mapped[Key | None]
    summary_due: Mapped[bool]
    curated: Mapped[bool]
    row_mention_count: Mapped[int]

    source: Mapped[Entity] = orm.relationship(
        primaryjoin=lambda: foreign(Relationship.source_id) == remote(Entity.id), viewonly=True
    )
    target: Mapped[Entity] = orm.relationship(
        primaryjoin=lambda: foreign(Relationship.target_id) == remote(Entity.id), viewonly=True
    )
    mentions: Mapped[list["RelationshipMention"]] = orm.relationship(
        primaryjoin=lambda: Relationship.id == foreign(remote(RelationshipMention.relationship_id)),
        back_populates="relationship",
        viewonly=True,
    )


class RelationshipMention(Base):
    """What one chunk says of one pair of entities."""

    __tablename__ = "relationship_mentions"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    document_id: Mapped[BigInt]
    chunk_id: Mapped[BigInt]
    relationship_id: Mapped[BigInt | None]
    source_key: Mapped[Key]
    target_key: Mapped[Key]
    keywords: Mapped[list[str]]
    description: Mapped[str | None]
    weight: Mapped[Decimal]
    forward: Mapped[bool]
    evidence_rank: Mapped[BigInt | None]
    start_offset: Mapped[int | None]
    end_offset: Mapped[int | None]
    windows: Mapped[list[int]]
    tsv: Mapped[Lexemes | None]

    relationship: Mapped[Relationship | None] = orm.relationship(
        primaryjoin=lambda: foreign(RelationshipMention.relationship_id) == remote(Relationship.id),
        back_populates="mentions",
        viewonly=True,
    )
    chunk: Mapped[Chunk] = orm.relationship(
        primaryjoin=lambda: foreign(RelationshipMention.chunk_id) == remote(Chunk.id), viewonly=True
    )


class Alias(Base):
    """A name that stands for another entity, since entities were merged or renamed."""

    __tablename__ = "aliases"

    corpus_id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[Key] = mapped_column(primary_key=True)
    entity_key: Mapped[Key]
    renamed: Mapped[bool]


class Curation(Base):
    """What somebody changed of the knowledge graph; for its owner."""

    __tablename__ = "curations"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    kind: Mapped[str]
    arguments: Mapped[dict[str, Any]]
    made_by: Mapped[str]
    made_at: Mapped[datetime]
    undone_by: Mapped[str | None]
    undone_at: Mapped[datetime | None]


class Claim(Base):
    """What a chunk says that someone did, announced or is accused of, where the corpus option ``claims`` is true."""

    __tablename__ = "claims"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    document_id: Mapped[BigInt]
    chunk_id: Mapped[BigInt]
    subject_key: Mapped[Key]
    object_key: Mapped[Key | None]
    subject: Mapped[str]
    object: Mapped[str | None]
    type: Mapped[str]
    status: Mapped[str]
    start_date: Mapped[str | None]
    end_date: Mapped[str | None]
    description: Mapped[str]
    source_text: Mapped[str | None]

    chunk: Mapped[Chunk] = orm.relationship(
        primaryjoin=lambda: foreign(Claim.chunk_id) == remote(Chunk.id), viewonly=True
    )
