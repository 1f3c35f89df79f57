"""What is prepared of a document before anything is written."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError

# A description is cut here: text without sentence ends would give each of its names and pairs a whole chunk.
MAX_DESCRIPTION = 600


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a chunk (GraphRAG's covariates, arXiv 2404.16130)."""

    subject: str
    object: str | None
    type: str
    status: str
    start: str | None
    end: str | None
    description: str
    source_text: str | None


@dataclass(slots=True)
class Evidence:
    """A sentence that could describe an entity or relationship: `rank` orders candidates by their text alone."""

    rank: int
    start: int
    end: int
    text: str


@dataclass(slots=True)
class Statement:
    """A model's statement about an entity or relationship in one chunk.

    `tokens` of the description; `text` is scored by retrieval, `lexical` is its form for to_tsvector. `mention_id` is
    reserved when the document is written.
    """

    description: str
    tokens: int
    text: str
    lexical: str
    keywords: tuple[str, ...] = ()
    mention_id: int = 0


@dataclass(slots=True)
class EntityDraft:
    """One entity in one chunk: with a sentence (evidence) where the NLP extractor found it, with a statement where a model did.

    `spellings` counts how it is written there; `windows` has a bit for each ordinal. `name_of`: key of the row's own entity that
    this is a name of, in a chunk of a row.
    """

    type: str
    evidence: Evidence | None
    spellings: dict[str, int] = field(default_factory=dict)
    tf: int = 0
    windows: int = 0
    statement: Statement | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    name_of: str | None = None

    @property
    def name(self) -> str:
        """The chunk's most frequent spelling (ties: smallest)."""
        if len(self.spellings) == 1:
            return next(iter(self.spellings))
        return min(self.spellings.items(), key=lambda item: (-item[1], item[0]))[0]


@dataclass(slots=True)
class RelationshipDraft:
    """One pair of entities in one chunk, by key, in the order in which the best sentence names them.

    `keywords`: those without a statement: the type of a row's relationship.
    """

    evidence: Evidence | None
    forward: int = 0
    weight: int | Decimal = 0
    windows: int = 0
    statement: Statement | None = None
    keywords: tuple[str, ...] = ()


@dataclass(slots=True)
class ChunkDraft:
    """One chunk; offsets are characters of the document's content. Keys of `relationships` are sorted pairs.

    `weak`: {key of a concept that misses being an entity by one mention: its mentions here}. `concepts`: digests of keys,
    for walks. `section`: path of the headings above it; `page`: page of its first character, from 1. `picture_id`: the
    picture whose text it is; such chunks follow the content.
    """

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
    claims: list[Claim] = field(default_factory=list)
    extraction: str | None = None
    unfit: list[dict[str, Any]] = field(default_factory=list)
    weak: dict[str, int] = field(default_factory=dict)
    concepts: bytes | None = None
    section: str | None = None
    page: int | None = None
    picture_id: int | None = None

    def text(self, start: int, end: int) -> str:
        """Return a stretch of the chunk, by characters of the document's content."""
        return self.content[start - self.start : end - self.start]

    def window_texts(self) -> list[str]:
        """Return the text of each window."""
        return [self.text(start, end) for start, end in self.windows]


@dataclass(frozen=True, slots=True)
class DueDocument:
    """A version of a document that must be indexed.

    `title` is cut to the indexed length; `size`: bytes of the content. `has_text`: the index has this version's text
    already. `is_imported`: its chunks and mentions were imported with it.
    """

    id: int
    title: str | None
    content: str
    content_hash: str
    attached_id: int | None
    size: int
    has_text: bool
    is_imported: bool


@dataclass(slots=True)
class DocumentDraft:
    """One document, or some chunks of one, in the version with `content_hash`.

    `window_texts`: the texts to embed for the windows of all chunks, "" for none. `chunk_ids`: set if the chunks are stored
    already, and only their mentions are new. `lacks_graph`: mentions come by jobs of their own. `is_long`: vectors too,
    both in parts. `is_row`: it is a row of an attached table. `fault`: why it has no vectors yet.
    """

    id: int
    content_hash: str
    title: str | None
    chunks: list[ChunkDraft]
    window_texts: list[str]
    chunk_ids: list[int] | None = None
    lacks_graph: bool = False
    is_long: bool = False
    is_row: bool = False
    fault: GraphRAGError | None = None

    def keep_text(self, fault: GraphRAGError) -> None:
        """Keep what no model is needed for."""
        self.lacks_graph, self.fault = True, fault
        for chunk in self.chunks:
            chunk.entities, chunk.relationships, chunk.claims, chunk.extraction = {}, {}, [], None
            chunk.unfit, chunk.concepts = [], None

    def statements(self) -> list[Statement]:
        """What a model says of this document's entities and relationships, chunk by chunk, entities first."""
        statements: list[Statement | None] = []
        for chunk in self.chunks:
            statements += [entity.statement for entity in chunk.entities.values()]
            statements += [relationship.statement for relationship in chunk.relationships.values()]
        return [statement for statement in statements if statement is not None]

    def texts(self) -> list[str]:
        """What is embedded for this document's windows and statements."""
        windows = self.window_texts if self.fault is None and not self.is_long else []
        return [text for text in windows if text] + [statement.text for statement in self.statements()]

    def entity_keys(self) -> set[str]:
        """Keys of the entities that it mentions."""
        return {entity for chunk in self.chunks for entity in chunk.entities}
