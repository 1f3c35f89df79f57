"""SQLAlchemy models of the public tables and views of schema ``graphrag``, for applications that map their database.

Applications write `Document` only; everything else is derived from documents and read. The extension owns the tables:
keep alembic away from them with `pg_graphrag.integrations.alembic`.
"""

from pg_graphrag.integrations.models.mapped_base import Base
from pg_graphrag.integrations.models.mapped_communities import Community, CommunityMember, CommunityReport
from pg_graphrag.integrations.models.mapped_documents import Chunk, ChunkWindow, Corpus, Document
from pg_graphrag.integrations.models.mapped_graph import (
    Alias,
    Claim,
    Curation,
    Entity,
    EntityMention,
    Relationship,
    RelationshipMention,
)
from pg_graphrag.integrations.models.mapped_vectors import (
    EmbeddingSpace,
    EntityMentionVector,
    EntityVector,
    RelationshipMentionVector,
    ReportVector,
    WindowVector,
)
from pg_graphrag.integrations.models.mapped_views import (
    Budget,
    CommunityEntity,
    CommunityOverview,
    DocumentCoverage,
    DocumentVersion,
    EntityAttribute,
    EntityTimeline,
    FailedJob,
    GrantedCorpus,
    GraphClaim,
    GraphEdge,
    GraphGrowth,
    GraphMention,
    GraphNode,
    IndexingProgress,
    ModelUsage,
    QueryStats,
    RoleUsage,
    UnfitExtraction,
)

__all__ = [
    "Alias",
    "Base",
    "Budget",
    "Chunk",
    "ChunkWindow",
    "Claim",
    "Community",
    "CommunityEntity",
    "CommunityMember",
    "CommunityOverview",
    "CommunityReport",
    "Corpus",
    "Curation",
    "Document",
    "DocumentCoverage",
    "DocumentVersion",
    "EmbeddingSpace",
    "Entity",
    "EntityAttribute",
    "EntityMention",
    "EntityMentionVector",
    "EntityTimeline",
    "EntityVector",
    "FailedJob",
    "GrantedCorpus",
    "GraphClaim",
    "GraphEdge",
    "GraphGrowth",
    "GraphMention",
    "GraphNode",
    "IndexingProgress",
    "ModelUsage",
    "QueryStats",
    "Relationship",
    "RelationshipMention",
    "RelationshipMentionVector",
    "ReportVector",
    "RoleUsage",
    "UnfitExtraction",
    "WindowVector",
]
