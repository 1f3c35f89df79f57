"""Communities, their members, and reports on them."""

from datetime import datetime

from sqlalchemy import (
    orm,
)
from sqlalchemy.orm import Mapped, foreign, mapped_column, remote

from pg_graphrag.integrations.models.mapped_base import Base, BigInt, BigIntKey, Json, Key, Lexemes
from pg_graphrag.integrations.models.mapped_graph import Entity


class Community(Base):
    """A group of entities that are more connected among themselves than with others; level 0 is the coarsest."""

    __tablename__ = "communities"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    level: Mapped[int]
    parent_id: Mapped[BigInt | None]
    size: Mapped[int]
    report_due: Mapped[bool]
    created_at: Mapped[datetime]

    members: Mapped[list["CommunityMember"]] = orm.relationship(
        primaryjoin=lambda: Community.id == foreign(CommunityMember.community_id), viewonly=True
    )
    report: Mapped["CommunityReport | None"] = orm.relationship(
        primaryjoin=lambda: Community.id == foreign(CommunityReport.community_id), viewonly=True
    )


class CommunityMember(Base):
    """An entity in a community."""

    __tablename__ = "community_members"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    community_id: Mapped[BigInt]
    entity_id: Mapped[BigInt]

    entity: Mapped[Entity] = orm.relationship(
        primaryjoin=lambda: foreign(CommunityMember.entity_id) == remote(Entity.id), viewonly=True
    )


class CommunityReport(Base):
    """What a community is about; ``model`` is None where it was put together without one."""

    __tablename__ = "community_reports"

    community_id: Mapped[BigInt] = mapped_column(primary_key=True)
    corpus_id: Mapped[int]
    title: Mapped[str]
    summary: Mapped[str]
    findings: Mapped[Json]
    rating: Mapped[float]
    rating_explanation: Mapped[str]
    content: Mapped[str]
    token_count: Mapped[int]
    model: Mapped[str | None]
    input_hash: Mapped[Key]
    tsv: Mapped[Lexemes]
    written_at: Mapped[datetime]
