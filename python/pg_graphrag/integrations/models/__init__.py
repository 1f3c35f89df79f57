# Generated from the catalog by `WRITE_MODELS=1 ./test tests/sql/test_generated_models.py`; do not edit.
"""SQLAlchemy models of the public tables and views of schema ``graphrag``, for applications that map their database.

Applications write `Document` only; everything else is derived from documents and read. The extension owns the tables:
keep alembic away from them with `pg_graphrag.integrations.alembic`.
"""

from datetime import date, datetime, timedelta
from decimal import Decimal

from sqlalchemy import Computed, FetchedValue, Identity
from sqlalchemy.orm import Mapped, foreign, mapped_column, remote

from pg_graphrag.integrations.models.mapped_base import Base as Base
from pg_graphrag.integrations.models.mapped_base import (
    BigInt,
    BigIntKey,
    BigInts,
    Embedding,
    Json,
    Key,
    Lexemes,
    PgName,
    linked,
)


class Alias(Base):
    """Names that stand for another entity, by merge_entities() and rename_entity(): mentions of the key belong to
    entity_key.
    """

    __tablename__ = "aliases"

    corpus_id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[Key] = mapped_column(primary_key=True)
    entity_key: Mapped[Key]
    renamed: Mapped[bool]


class Budget(Base):
    """View. The budget of each corpus for this calendar month (UTC), and its cost so far."""

    __tablename__ = "budgets"

    corpus: Mapped[str] = mapped_column(primary_key=True)
    budget: Mapped[Decimal | None]
    spent: Mapped[Decimal]
    state: Mapped[str]
    metered: Mapped[Decimal | None]


class Chunk(Base):
    """Parts of documents: the unit of retrieval and citation."""

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
    picture_id: Mapped[BigInt | None]

    windows: Mapped[list["ChunkWindow"]] = linked(
        lambda: Chunk.id == foreign(remote(ChunkWindow.chunk_id)), order_by=lambda: ChunkWindow.ordinal
    )
    document: Mapped["Document | None"] = linked(
        lambda: foreign(Chunk.document_id) == remote(Document.id), back_populates="chunks"
    )


class ChunkWindow(Base):
    """Parts of chunks with about 60–120 words that fit an embedding model; a chunk scores as its best window."""

    __tablename__ = "chunk_windows"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    document_id: Mapped[BigInt]
    chunk_id: Mapped[BigInt]
    ordinal: Mapped[int]
    start_offset: Mapped[int]
    end_offset: Mapped[int]


class Claim(Base):
    """Claims that a model found in chunks, where the corpus option claims is true."""

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

    chunk: Mapped["Chunk"] = linked(lambda: foreign(Claim.chunk_id) == remote(Chunk.id))


class Community(Base):
    """Groups of entities that are more connected among themselves than with others, by hierarchical Leiden; made by
    refresh_communities().
    """

    __tablename__ = "communities"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    level: Mapped[int]
    parent_id: Mapped[BigInt | None]
    size: Mapped[int]
    report_due: Mapped[bool]
    created_at: Mapped[datetime]

    members: Mapped[list["CommunityMember"]] = linked(
        lambda: Community.id == foreign(remote(CommunityMember.community_id))
    )
    report: Mapped["CommunityReport | None"] = linked(
        lambda: Community.id == foreign(remote(CommunityReport.community_id))
    )


class CommunityEntity(Base):
    """View. Entities of each community; only of corpora that the caller sees whole."""

    __tablename__ = "community_entities"

    corpus: Mapped[str]
    community_id: Mapped[BigInt] = mapped_column(primary_key=True)
    level: Mapped[int]
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)


class CommunityMember(Base):
    """Which entities a community holds; an entity is in one community of each level that reaches it."""

    __tablename__ = "community_members"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    community_id: Mapped[BigInt]
    entity_id: Mapped[BigInt]

    entity: Mapped["Entity"] = linked(lambda: foreign(CommunityMember.entity_id) == remote(Entity.id))


class CommunityOverview(Base):
    """View. Communities with their reports, one row each; only of corpora that the caller sees whole, because reports
    are about all documents.
    """

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


class CommunityReport(Base):
    """The subject of a community: written by the corpus' model for reports, or put together from the graph without
    one.
    """

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


class Corpus(Base):
    """Collections of documents. Made by create_corpus(); "default" is made on first use."""

    __tablename__ = "corpora"

    id: Mapped[int] = mapped_column(Identity(always=False), unique=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    options: Mapped[Json] = mapped_column(server_default=FetchedValue())
    graph_name: Mapped[PgName] = mapped_column(Computed("('graphrag_'::text || id)", persisted=True))
    tokenizer: Mapped[str]
    tokenizer_fingerprint: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=FetchedValue())
    protection: Mapped[str | None]
    move: Mapped[Json | None]
    needs_reindex: Mapped[bool] = mapped_column(server_default=FetchedValue())


class Curation(Base):
    """People's changes of the knowledge graph, by whom and when. Rows are never removed; undo_curation() marks them."""

    __tablename__ = "curations"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    kind: Mapped[str]
    arguments: Mapped[Json]
    made_by: Mapped[str]
    made_at: Mapped[datetime]
    undone_by: Mapped[str | None]
    undone_at: Mapped[datetime | None]


class Document(Base):
    """Documents to index. INSERT, UPDATE, DELETE, TRUNCATE and COPY are the ingestion interface; triggers queue the
    work.
    """

    __tablename__ = "documents"

    id: Mapped[BigIntKey]
    corpus: Mapped[str] = mapped_column(server_default=FetchedValue())
    corpus_id: Mapped[int] = mapped_column(server_default=FetchedValue())
    source_key: Mapped[str] = mapped_column(server_default=FetchedValue())
    title: Mapped[str | None]
    content: Mapped[str]
    metadata_: Mapped[Json] = mapped_column("metadata", server_default=FetchedValue())
    valid_from: Mapped[datetime | None]
    valid_to: Mapped[datetime | None]
    status: Mapped[str] = mapped_column(server_default=FetchedValue())
    error: Mapped[str | None]
    content_hash: Mapped[str] = mapped_column(server_default=FetchedValue(), server_onupdate=FetchedValue())
    indexed_hash: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=FetchedValue())
    updated_at: Mapped[datetime] = mapped_column(server_default=FetchedValue(), server_onupdate=FetchedValue())
    indexed_at: Mapped[datetime | None]
    attached_id: Mapped[int | None]
    pictures_hash: Mapped[str | None]
    retracted_at: Mapped[datetime | None]
    retraction_reason: Mapped[str | None]
    version_of: Mapped[BigInt | None]

    chunks: Mapped[list["Chunk"]] = linked(
        lambda: Document.id == foreign(remote(Chunk.document_id)),
        order_by=lambda: Chunk.ordinal,
        back_populates="document",
    )


class DocumentCoverage(Base):
    """View. What was indexed of each document."""

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


class DocumentVersion(Base):
    """View. Versions of the documents of corpora with a history, for callers who see the documents of the history."""

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


class EmbeddingSpace(Base):
    """Models whose vectors a corpus holds."""

    __tablename__ = "embedding_spaces"

    id: Mapped[int] = mapped_column(Identity(always=False), primary_key=True)
    corpus_id: Mapped[int]
    provider: Mapped[str]
    model: Mapped[str]
    dimensions: Mapped[int]
    state: Mapped[str]
    created_at: Mapped[datetime]
    own_tables: Mapped[bool]


class Entity(Base):
    """Nodes of the knowledge graph, merged from entity_mentions by key."""

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

    mentions: Mapped[list["EntityMention"]] = linked(
        lambda: Entity.id == foreign(remote(EntityMention.entity_id)), back_populates="entity"
    )


class EntityAttribute(Base):
    """View. Attributes of entities, which a model extracted by the schema of the corpus: one row for each value that
    chunks give.
    """

    __tablename__ = "entity_attributes"

    corpus: Mapped[str]
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)
    name: Mapped[str]
    type: Mapped[str]
    attribute: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[Json] = mapped_column(primary_key=True)
    mention_count: Mapped[int]


class EntityMention(Base):
    """Mentions of one entity in one chunk. They never change; entities are merged from these rows."""

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

    entity: Mapped["Entity | None"] = linked(
        lambda: foreign(EntityMention.entity_id) == remote(Entity.id), back_populates="mentions"
    )
    chunk: Mapped["Chunk"] = linked(lambda: foreign(EntityMention.chunk_id) == remote(Chunk.id))


class EntityMentionVector(Base):
    """Vectors of entity mentions that a model described (name and description), L2-normalised."""

    __tablename__ = "entity_mention_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    mention_id: Mapped[BigInt] = mapped_column(primary_key=True)
    chunk_id: Mapped[BigInt]
    document_id: Mapped[BigInt]
    embedding: Mapped[Embedding]


class EntityTimeline(Base):
    """View. How often documents of a day mention an entity; a document is of the day of its valid_from, else of its
    created_at (UTC).
    """

    __tablename__ = "entity_timeline"

    corpus: Mapped[str]
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)
    name: Mapped[str]
    type: Mapped[str]
    day: Mapped[date] = mapped_column(primary_key=True)
    month: Mapped[date]
    documents: Mapped[BigInt]
    mentions: Mapped[BigInt]


class EntityVector(Base):
    """Vectors of entity names (the normalised key, which never changes), L2-normalised."""

    __tablename__ = "entity_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    entity_id: Mapped[BigInt] = mapped_column(primary_key=True)
    embedding: Mapped[Embedding]


class FailedJob(Base):
    """View. Dead letters: jobs that will not be tried again before retry_failed()."""

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
    """View. Corpora granted to the current role, or to roles it inherits from."""

    __tablename__ = "granted_corpora"

    corpus_id: Mapped[int] = mapped_column(primary_key=True)
    corpus: Mapped[str]
    level: Mapped[str] = mapped_column(primary_key=True)


class GraphClaim(Base):
    """View. Claims that a model found, where the corpus option claims is true, and the entities they are about."""

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


class GraphEdge(Base):
    """View. Relationships of the knowledge graph, one row each, in the direction most mentions have. Statements about
    a name of a row count for the row's entity.
    """

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


class GraphGrowth(Base):
    """View. Additions of each day to the current graph: an edited document counts on the day of its last indexing."""

    __tablename__ = "graph_growth"

    corpus: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    documents: Mapped[BigInt]
    chunks: Mapped[BigInt]
    entities: Mapped[BigInt]
    relationships: Mapped[BigInt]


class GraphMention(Base):
    """View. Which chunks of which documents mention which entities, one row for each name in a chunk."""

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


class GraphNode(Base):
    """View. Entities of the knowledge graph, one row each. Names of a row of an attached table belong to the row's
    entity.
    """

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
    community_ids: Mapped[BigInts | None]
    origin: Mapped[str]


class IndexingProgress(Base):
    """View. One row per corpus: how far indexing is."""

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


class ModelUsage(Base):
    """View. Requests to models by corpus, purpose, model and day, failed ones included. Requests of search() are
    recorded by the session's next ask() or understand() of that corpus.
    """

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


class Picture(Base):
    """Pictures of documents. INSERT, UPDATE and DELETE are the interface; their texts are found like the document's
    text. They are deleted with the document and with its content.
    """

    __tablename__ = "pictures"

    id: Mapped[BigIntKey]
    corpus_id: Mapped[int]
    document_id: Mapped[BigInt]
    place: Mapped[int | None]
    page: Mapped[int | None]
    is_page: Mapped[bool]
    media_type: Mapped[str]
    content: Mapped[bytes]
    width: Mapped[int | None]
    height: Mapped[int | None]
    alternative_text: Mapped[str | None]
    caption: Mapped[str | None]
    recognised_text: Mapped[str | None]
    description: Mapped[str | None]
    error: Mapped[str | None]
    document_key: Mapped[str] = mapped_column(Computed("(document_id)::text", persisted=True))


class QueryStats(Base):
    """View. Questions in the query log, by corpus and mode."""

    __tablename__ = "query_stats"

    corpus: Mapped[str] = mapped_column(primary_key=True)
    mode: Mapped[str] = mapped_column(primary_key=True)
    queries: Mapped[BigInt]
    mean_ms: Mapped[float]
    p95_ms: Mapped[float]
    mean_entities: Mapped[float | None]
    mean_relationships: Mapped[float | None]


class Relationship(Base):
    """Edges of the knowledge graph, merged from relationship_mentions by unordered pair."""

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

    source: Mapped["Entity"] = linked(lambda: foreign(Relationship.source_id) == remote(Entity.id))
    target: Mapped["Entity"] = linked(lambda: foreign(Relationship.target_id) == remote(Entity.id))
    mentions: Mapped[list["RelationshipMention"]] = linked(
        lambda: Relationship.id == foreign(remote(RelationshipMention.relationship_id)), back_populates="relationship"
    )


class RelationshipMention(Base):
    """Statements of one chunk about one pair of entities. They never change; relationships are merged from these rows."""

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

    relationship: Mapped["Relationship | None"] = linked(
        lambda: foreign(RelationshipMention.relationship_id) == remote(Relationship.id), back_populates="mentions"
    )
    chunk: Mapped["Chunk"] = linked(lambda: foreign(RelationshipMention.chunk_id) == remote(Chunk.id))


class RelationshipMentionVector(Base):
    """Vectors of relationship mentions that a model described (keywords, endpoints and description), L2-normalised."""

    __tablename__ = "relationship_mention_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    mention_id: Mapped[BigInt] = mapped_column(primary_key=True)
    chunk_id: Mapped[BigInt]
    document_id: Mapped[BigInt]
    embedding: Mapped[Embedding]


class ReportVector(Base):
    """Vectors of title and summary of reports, L2-normalised."""

    __tablename__ = "report_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    community_id: Mapped[BigInt] = mapped_column(primary_key=True)
    embedding: Mapped[Embedding]


class RoleUsage(Base):
    """View. Who spent what: requests to models by corpus, role and month."""

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


class UnfitExtraction(Base):
    """View. Items that models extracted and that do not fit the text or the schema of the corpus. They are stored
    apart, and no search, view or graph shows them; or they are kept and marked (is_kept).
    """

    __tablename__ = "unfit_extractions"

    corpus: Mapped[str]
    document_id: Mapped[BigInt]
    source_key: Mapped[str]
    chunk_id: Mapped[BigInt] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    item: Mapped[Json] = mapped_column(primary_key=True)
    reason: Mapped[str]
    is_kept: Mapped[bool]


class WindowVector(Base):
    """Vectors of title and window text, L2-normalised."""

    __tablename__ = "window_vectors"

    space_id: Mapped[int] = mapped_column(primary_key=True)
    window_id: Mapped[BigInt] = mapped_column(primary_key=True)
    chunk_id: Mapped[BigInt]
    document_id: Mapped[BigInt]
    embedding: Mapped[Embedding]


__all__ = sorted(["Base", *(mapper.class_.__name__ for mapper in Base.registry.mappers)])
