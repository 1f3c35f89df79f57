"""Views for BI and for upkeep."""

from datetime import date, datetime, timedelta
from decimal import Decimal

from sqlalchemy import BigInteger
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from pg_graphrag.integrations.models.mapped_base import Base, BigInt, Json


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
    community_id: Mapped[BigInt | None]
    community: Mapped[str | None]
    community_ids: Mapped[list[int] | None] = mapped_column(ARRAY(BigInteger))
    origin: Mapped[str]


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
    strength: Mapped[float | None]
    origin: Mapped[str]


class GraphMention(Base):
    """View: a chunk that mentions an entity, with the attributes that it gives, and its document."""

    __tablename__ = "graph_mentions"

    corpus: Mapped[str]
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)
    name: Mapped[str]
    type: Mapped[str]
    document_id: Mapped[BigInt]
    source_key: Mapped[str]
    chunk_id: Mapped[BigInt] = mapped_column(primary_key=True)
    attributes: Mapped[Json | None]
    title: Mapped[str | None]
    day: Mapped[date]
    metadata_: Mapped[Json] = mapped_column("metadata")
    extraction: Mapped[str]


class EntityAttribute(Base):
    """View: a value of an attribute of an entity, and how many chunks give it."""

    __tablename__ = "entity_attributes"

    corpus: Mapped[str]
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)
    name: Mapped[str]
    type: Mapped[str]
    attribute: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[Json] = mapped_column(primary_key=True)
    mention_count: Mapped[int]


class UnfitExtraction(Base):
    """View: what a model extracted and the schema of the corpus has no place for."""

    __tablename__ = "unfit_extractions"

    corpus: Mapped[str]
    document_id: Mapped[BigInt]
    source_key: Mapped[str]
    chunk_id: Mapped[BigInt] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    item: Mapped[Json] = mapped_column(primary_key=True)
    reason: Mapped[str]
    is_kept: Mapped[bool]


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
    retracted_at: Mapped[datetime | None]
    retraction_reason: Mapped[str | None]


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
    """View: how much of the current index a day added."""

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


class CommunityEntity(Base):
    """View: an entity of a community."""

    __tablename__ = "community_entities"

    corpus: Mapped[str]
    community_id: Mapped[BigInt] = mapped_column(primary_key=True)
    level: Mapped[int]
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)


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
    metered: Mapped[Decimal | None]


class RoleUsage(Base):
    """View, for the owner: requests to models by corpus, role and month."""

    __tablename__ = "llm_usage_by_role"

    corpus: Mapped[str] = mapped_column(primary_key=True)
    role: Mapped[str | None] = mapped_column(primary_key=True)
    month: Mapped[datetime] = mapped_column(primary_key=True)
    calls: Mapped[BigInt]
    tokens_in: Mapped[BigInt]
    tokens_out: Mapped[BigInt]
    cost: Mapped[Decimal]
    failures: Mapped[BigInt]
    last_call: Mapped[datetime]
    metered: Mapped[float | None]


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
    searchable: Mapped[BigInt]
    embedding: Mapped[str | None]
    embedding_advice: Mapped[str | None]
    vectors_pending: Mapped[BigInt]
    graphs_pending: Mapped[BigInt]
    retracted: Mapped[BigInt]
    stood_in: Mapped[BigInt]


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


class GrantedCorpus(Base):
    """View: a corpus that was given to the current role, by level."""

    __tablename__ = "granted_corpora"

    corpus_id: Mapped[int] = mapped_column(primary_key=True)
    corpus: Mapped[str]
    level: Mapped[str] = mapped_column(primary_key=True)


class DocumentVersion(Base):
    """View: a version of a document of a corpus that has a history."""

    __tablename__ = "versions"

    corpus: Mapped[str]
    source_key: Mapped[str]
    history: Mapped[str]
    document_id: Mapped[BigInt] = mapped_column(primary_key=True)
    version_key: Mapped[str]
    version: Mapped[int]
    is_latest: Mapped[bool]
    written_at: Mapped[datetime]
    valid_from: Mapped[datetime | None]
    valid_to: Mapped[datetime | None]
    title: Mapped[str | None]
    content: Mapped[str]
    metadata_: Mapped[Json] = mapped_column("metadata")
    status: Mapped[str]
