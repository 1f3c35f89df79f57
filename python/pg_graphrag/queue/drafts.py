"""What the slow part of indexing makes of a document, before anything is written."""

from dataclasses import dataclass, field
from typing import Any

# A description is cut here: text without sentence ends would give each of its names and pairs a whole chunk.
MAX_DESCRIPTION = 600


@dataclass(slots=True)
class Evidence:
    """A sentence that could describe an entity or relationship: `rank` orders candidates by their text alone."""

    rank: int
    start: int
    end: int
    text: str


@dataclass(slots=True)
class EntityDraft:
    """One entity in one chunk. `spellings` counts how it is written there; `windows` has a bit for each ordinal."""

    type: str
    evidence: Evidence
    spellings: dict[str, int] = field(default_factory=dict)
    tf: int = 0
    windows: int = 0

    @property
    def name(self) -> str:
        """The chunk's most frequent spelling (ties: smallest)."""
        return min(self.spellings.items(), key=lambda item: (-item[1], item[0]))[0]


@dataclass(slots=True)
class RelationshipDraft:
    """One pair of entities in one chunk, by key, in the order in which the best sentence names them."""

    evidence: Evidence
    forward: int = 0
    weight: int = 0
    windows: int = 0


@dataclass(slots=True)
class ChunkDraft:
    """One chunk; offsets are characters of the document's content. Keys of `relationships` are sorted pairs."""

    ordinal: int
    start: int
    own_start: int
    end: int
    language: str
    content: str
    lexical: str
    token_count: int
    windows: list[tuple[int, int]]
    entities: dict[str, EntityDraft] = field(default_factory=dict)
    relationships: dict[tuple[str, str], RelationshipDraft] = field(default_factory=dict)


@dataclass(slots=True)
class DocumentDraft:
    """One document, of the version with `content_hash`.

    `vectors`: (windows of all chunks in order, dimensions) float32.
    """

    id: int
    content_hash: str
    chunks: list[ChunkDraft]
    vectors: Any = None
