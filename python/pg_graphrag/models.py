"""SQLAlchemy models of the public tables and views of schema ``graphrag``, for applications that map their database.

Applications write `Document` only; everything else is derived from documents and read. The extension owns the tables:
keep alembic away from them with `pg_graphrag.alembic`.
"""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from pgvector.sqlalchemy import Vector
from sqlalchemy import (
    BigInteger,
    Computed,
    Date,
    DateTime,
    Double,
    FetchedValue,
    Identity,
    Integer,
    Interval,
    MetaData,
    Numeric,
    Text,
    orm,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSVECTOR
from sqlalchemy.orm import DeclarativeBase, Mapped, foreign, mapped_column, remote
from sqlalchemy.types import UserDefinedType

BigInt = Annotated[int, mapped_column(BigInteger)]
BigIntKey = Annotated[int, mapped_column(BigInteger, Identity(always=False), primary_key=True)]
Json = dict[str, Any]
Key = Annotated[str, mapped_column(Text(collation="C"))]
Lexemes = Annotated[str, mapped_column(TSVECTOR)]


class Name(UserDefinedType[str]):
    """PostgreSQL's ``name``: an identifier of at most 63 bytes."""

    cache_ok = True

    def get_col_spec(self, **kw: Any) -> str:
        """Return the type's name in SQL."""
        return "name"


class Base(DeclarativeBase):
    """Base of the models; its metadata holds schema ``graphrag`` and nothing else."""

    metadata = MetaData(schema="graphrag")
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads it from the class)
        str: Text(),
        int: Integer(),
        float: Double(),
        Decimal: Numeric(),
        date: Date(),
        datetime: DateTime(timezone=True),
        timedelta: Interval(),
        Json: JSONB(),
        list[str]: ARRAY(Text()),
        list[int]: ARRAY(Integer()),
    }


def _set_by_server() -> Any:
    """Return a column that a default or trigger fills when the application gives nothing."""
    return mapped_column(server_default=FetchedValue())


class Corpus(Base):
    """A collection of documents; make one with ``graphrag.create_corpus()``."""

    __tablename__ = "corpora"

    id: Mapped[int] = mapped_column(Identity(always=False), unique=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    options: Mapped[Json] = _set_by_server()
    graph_name: Mapped[str] = mapped_column(Name(), Computed("'graphrag_' || id", persisted=True))
    tokenizer: Mapped[str]
    tokenizer_fingerprint: Mapped[str]
    created_at: Mapped[datetime] = _set_by_server()
    protection: Mapped[str | None]


class Document(Base):
    """A document to index. Add, change and delete these; workers do the rest."""

    __tablename__ = "documents"

    id: Mapped[BigIntKey]
    corpus: Mapped[str] = _set_by_server()
    corpus_id: Mapped[int] = _set_by_server()
    source_key: Mapped[str] = _set_by_server()
    title: Mapped[str | None]
    content: Mapped[str]
    # SQLAlchemy reserves the attribute "metadata".
    metadata_: Mapped[Json] = mapped_column("metadata", server_default=FetchedValue())
    valid_from: Mapped[datetime | None]
    valid_to: Mapped[datetime | None]
    status: Mapped[str] = _set_by_server()
    error: Mapped[str | None]
    content_hash: Mapped[str] = mapped_column(server_default=FetchedValue(), server_onupdate=FetchedValue())
    indexed_hash: Mapped[str | None]
    created_at: Mapped[datetime] = _set_by_server()
    updated_at: Mapped[datetime] = mapped_column(server_default=FetchedValue(), server_onupdate=FetchedValue())
    indexed_at: Mapped[datetime | None]
    attached_id: Mapped[int | None]

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


class ReportVector(Base):
    """The vector of a report's title and summary, L2-normalised."""

    __tablename__ = "report_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    community_id: Mapped[BigInt] = mapped_column(primary_key=True)
    embedding: Mapped[Any] = mapped_column(Vector(), nullable=False)


class GraphNode(Base):
    """View: an entity with the name of its corpus."""

    __tablename__ = "graph_nodes"

    corpus: Mapped[str]
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)
    key: Mapped[str]
    name: Mapped[str]
    type: Mapped[str]
    description: Mapped[str]
    degree: Mapped[int]
    mention_count: Mapped[int]


class GraphEdge(Base):
    """View: a relationship with the names and types of its ends."""

    __tablename__ = "graph_edges"

    corpus: Mapped[str]
    relationship_id: Mapped[BigInt] = mapped_column(primary_key=True)
    source_id: Mapped[BigInt]
    source: Mapped[str]
    source_type: Mapped[str]
    target_id: Mapped[BigInt]
    target: Mapped[str]
    target_type: Mapped[str]
    keywords: Mapped[str]
    keyword_list: Mapped[list[str]]
    description: Mapped[str]
    weight: Mapped[float]
    mention_count: Mapped[int]
    pmi: Mapped[float | None]


class GraphClaim(Base):
    """View: a claim with the entities it is about, aliases resolved."""

    __tablename__ = "graph_claims"

    corpus: Mapped[str]
    claim_id: Mapped[BigInt] = mapped_column(primary_key=True)
    document_id: Mapped[BigInt]
    chunk_id: Mapped[BigInt]
    subject_id: Mapped[BigInt | None]
    subject: Mapped[str]
    object_id: Mapped[BigInt | None]
    object: Mapped[str | None]
    type: Mapped[str]
    status: Mapped[str]
    start_date: Mapped[str | None]
    end_date: Mapped[str | None]
    description: Mapped[str]
    source_text: Mapped[str | None]


class DocumentCoverage(Base):
    """View: what has been made of a document."""

    __tablename__ = "document_coverage"

    corpus: Mapped[str]
    document_id: Mapped[BigInt] = mapped_column(primary_key=True)
    source_key: Mapped[str]
    title: Mapped[str | None]
    status: Mapped[str]
    error: Mapped[str | None]
    characters: Mapped[int]
    chunks: Mapped[BigInt]
    windows: Mapped[BigInt]
    tokens: Mapped[BigInt]
    entities: Mapped[BigInt]
    relationships: Mapped[BigInt]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    indexed_at: Mapped[datetime | None]


class EntityTimeline(Base):
    """View: how often documents of a day mention an entity."""

    __tablename__ = "entity_timeline"

    corpus: Mapped[str]
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)
    name: Mapped[str]
    type: Mapped[str]
    day: Mapped[date] = mapped_column(primary_key=True)
    month: Mapped[date]
    documents: Mapped[BigInt]
    mentions: Mapped[BigInt]


class GraphGrowth(Base):
    """View: what a day added of what is there now."""

    __tablename__ = "graph_growth"

    corpus: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    documents: Mapped[BigInt]
    chunks: Mapped[BigInt]
    entities: Mapped[BigInt]
    relationships: Mapped[BigInt]


class CommunityOverview(Base):
    """View: a community with its report."""

    __tablename__ = "community_overview"

    corpus: Mapped[str]
    community_id: Mapped[BigInt] = mapped_column(primary_key=True)
    level: Mapped[int]
    parent_id: Mapped[BigInt | None]
    size: Mapped[int]
    relationships: Mapped[BigInt]
    documents: Mapped[BigInt]
    title: Mapped[str | None]
    summary: Mapped[str | None]
    rating: Mapped[float | None]
    model: Mapped[str | None]
    written_at: Mapped[datetime | None]


class ModelUsage(Base):
    """View, for the owner: requests to models by corpus, purpose, model and day."""

    __tablename__ = "llm_usage"

    corpus: Mapped[str] = mapped_column(primary_key=True)
    purpose: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    calls: Mapped[BigInt]
    tokens_in: Mapped[BigInt]
    tokens_out: Mapped[BigInt]
    cost: Mapped[Decimal]
    failures: Mapped[BigInt]
    p50_ms: Mapped[float]
    p95_ms: Mapped[float]


class Budget(Base):
    """View, for the owner: what a corpus may spend in this month, and has spent."""

    __tablename__ = "budgets"

    corpus: Mapped[str] = mapped_column(primary_key=True)
    budget: Mapped[Decimal | None]
    spent: Mapped[Decimal]
    state: Mapped[str]


class QueryStats(Base):
    """View, for the owner: questions in the query log, by corpus and mode."""

    __tablename__ = "query_stats"

    corpus: Mapped[str] = mapped_column(primary_key=True)
    mode: Mapped[str] = mapped_column(primary_key=True)
    queries: Mapped[BigInt]
    mean_ms: Mapped[float]
    p95_ms: Mapped[float]
    mean_entities: Mapped[float | None]
    mean_relationships: Mapped[float | None]


class IndexingProgress(Base):
    """View: how far the indexing of a corpus is."""

    __tablename__ = "progress"

    corpus: Mapped[str] = mapped_column(primary_key=True)
    documents: Mapped[BigInt]
    indexed: Mapped[BigInt]
    pending: Mapped[BigInt]
    failed: Mapped[BigInt]
    chunks: Mapped[BigInt]
    entities: Mapped[BigInt]
    relationships: Mapped[BigInt]
    jobs: Mapped[BigInt]
    leased: Mapped[BigInt]
    oldest_pending: Mapped[datetime | None]
    waiting: Mapped[BigInt]
    waiting_until: Mapped[datetime | None]
    waiting_for: Mapped[str | None]
    reembedded: Mapped[BigInt | None]
    replication_lag: Mapped[timedelta | None]


class FailedJob(Base):
    """View: a dead letter."""

    __tablename__ = "failed_jobs"

    job_id: Mapped[BigInt] = mapped_column(primary_key=True)
    corpus: Mapped[str]
    kind: Mapped[str]
    document_id: Mapped[BigInt | None]
    source_key: Mapped[str | None]
    attempts: Mapped[int]
    last_error: Mapped[str | None]
    created_at: Mapped[datetime]
