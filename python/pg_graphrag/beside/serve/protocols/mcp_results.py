"""Output schemas of the MCP tools."""

from typing import Annotated, Any, NotRequired

from pydantic import Field

# Before Python 3.12 pydantic does not accept the one of typing.
from typing_extensions import TypedDict

Picture = Annotated[
    str | None,
    Field(description="The picture whose words it is of, or of its whole page: read this resource to see it"),
]
NextOffset = Annotated[int | None, Field(description="The offset of the next page; null: this is the last")]
Place = Annotated[
    int | None,
    Field(description="First character of the passage in its document, an offset for `read_document`; null: unknown"),
]


class Corpora(TypedDict):
    """What there is to search."""

    corpora: list[str]
    default: Annotated[str, Field(description="The corpus of calls that name none")]


class Status(TypedDict):
    """How far a corpus is; what is 0 or unknown is left out."""

    corpus: str
    documents: NotRequired[int]
    indexed: NotRequired[int]
    pending: int
    failed: NotRequired[int]
    retracted: NotRequired[int]
    chunks: NotRequired[int]
    entities: NotRequired[int]
    relationships: NotRequired[int]
    waiting_for: NotRequired[str]


class Hit(TypedDict):
    """A passage."""

    rank: int
    corpus: str
    document_id: int
    chunk_id: int
    source_key: str
    title: str | None
    score: float
    excerpt: Annotated[str, Field(description="The passage, cut")]
    offset: Place
    length: Annotated[int, Field(description="Characters of the passage")]
    section: Annotated[str | None, Field(description="Headings above it")]
    pages: Annotated[str | None, Field(description='"12" or "12–13"; null: the document has none')]
    picture: Picture


class Hits(TypedDict):
    """A page of passages, best first."""

    results: list[Hit]
    next_offset: NextOffset
    unanswered: NotRequired[
        Annotated[dict[str, str], Field(description="Corpora that did not answer, and why: their passages are missing")]
    ]


class Cited(TypedDict):
    """What an answer cites."""

    number: Annotated[int, Field(description="What [number] in the answer stands for")]
    document_id: int | None
    source_key: str | None
    title: str | None
    chunk_id: int | None
    section: str | None
    pages: str | None
    picture: Picture
    table: NotRequired[str | None]
    key: NotRequired[str | None]
    offset: Place
    length: int | None


class Answered(TypedDict):
    """An answer."""

    answer: str
    citations: list[Cited]


class Packed(TypedDict):
    """What a model would be given; `references` names its sources."""

    text: str
    references: list[dict[str, Any]]
    tokens: int


class Entity(TypedDict):
    """An entity."""

    entity_id: int
    name: str
    type: str


class FoundEntity(Entity):
    """An entity that a name may mean."""

    description: str
    relationships: Annotated[int, Field(description="How many it has")]
    score: Annotated[float, Field(description="1: the very name")]
    because: Annotated[str, Field(description="Why it is there: named, spelling, transliteration, name near, …")]


class FoundEntities(TypedDict):
    """Entities that a name may mean, likeliest first."""

    entities: list[FoundEntity]


class Near(Entity):
    """An entity near another; `path` has the names on the way to it."""

    hop: int
    relationship: Annotated[str, Field(description="The sentence that relates it to the one before in `path`")]
    weight: float
    path: list[str]


class Nearby(TypedDict):
    """A page of entities near another, of `total`."""

    neighbors: list[Near]
    total: int
    next_offset: NextOffset


class Step(TypedDict):
    """A relationship of a path."""

    source: str
    target: str
    relationship: Annotated[str, Field(description="A sentence that relates the two")]


class Path(TypedDict):
    """A path."""

    entities: Annotated[list[Entity], Field(description="From one to the other; empty: there is no path")]
    steps: list[Step]


class ListedDocument(TypedDict):
    """A document without its text."""

    document_id: int
    source_key: str
    title: str | None
    characters: int
    status: str


class ListedDocuments(TypedDict):
    """A page of documents."""

    documents: list[ListedDocument]
    next: Annotated[int | None, Field(description="`after` of the next page; null: this is the last")]


class Page(TypedDict):
    """A part of the text of a document."""

    document_id: int
    source_key: str
    title: str | None
    characters: Annotated[int, Field(description="Of the whole document")]
    content: str
    page: Annotated[int, Field(description="Of the first character; a form feed ends a page")]
    page_pictures: Annotated[
        dict[str, str], Field(description="Resources that show pages of it whole, as scanned, by page")
    ]
    next_offset: NextOffset


class Inserted(TypedDict):
    """How many documents were new, replaced, or there already."""

    inserted: int
    updated: int
    unchanged: int


class Curated(TypedDict):
    """The number by which a change is undone."""

    curation: int


class Undone(TypedDict):
    """The number of the change that was undone."""

    undone: int


class Rows(TypedDict):
    """A page of rows, of `total`."""

    rows: list[dict[str, Any]]
    total: int
    next_offset: NextOffset
