"""Replies of the HTTP API, for its description. Replies are not validated against it at run time, which saves time."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from pg_graphrag.beside.client.results import SearchResult


class Problem(BaseModel):
    """Why a request is refused: problem details (RFC 9457). `code` is the SQLSTATE; `hint` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str | None


class Session(BaseModel):
    """Who calls, what he may, and what the server is."""

    name: str
    may: list[str]
    corpus: str
    modes: list[str]
    csrf: str | None
    version: str
    max_upload: int
    max_question: int


class CorpusName(BaseModel):
    """A corpus."""

    name: str


class Status(BaseModel):
    """How far indexing is. Who may watch the database gets more: the columns of `graphrag.progress`."""

    corpus: str
    documents: int
    indexed: int
    pending: int
    failed: int
    retracted: int
    may_retry: bool
    may_reindex: bool


class DocumentRow(BaseModel):
    """A document without its text."""

    document_id: int
    source_key: str
    title: str | None
    status: str
    error: str | None
    metadata: dict[str, Any]
    characters: int
    updated_at: datetime


class Documents(BaseModel):
    """A page of documents; `next` is the `after` of the next one."""

    documents: list[DocumentRow]
    total: int
    next: int | None


class DocumentText(DocumentRow):
    """A document with its text from `offset`."""

    corpus: str
    content: str
    offset: int
    next_offset: int | None
    page: int
    page_pictures: dict[str, int]


class Place(BaseModel):
    """Where a text begins."""

    offset: int | None


class Inserted(BaseModel):
    """How many documents were new, replaced, and left as they were."""

    inserted: int
    updated: int
    unchanged: int


class Uploaded(Inserted):
    """What came of a file."""

    name: str
    errors: list[str]


class Deleted(BaseModel):
    """How many documents were deleted."""

    deleted: int


class Queued(BaseModel):
    """How much was queued for workers."""

    queued: int


class SignIn(BaseModel):
    """How one may sign in: by password, and at a provider of this name. By token always."""

    password: bool
    provider: str | None


class Begun(BaseModel):
    """The CSRF token of a new session."""

    csrf: str


class Theme(BaseModel):
    """A large community: its title, where a report gives one, and its most connected entities."""

    title: str | None
    names: list[str]


class NameAndType(BaseModel):
    """An entity."""

    name: str
    type: str


class Start(BaseModel):
    """What one can ask about first; and whether the corpus has a model for `rerank`."""

    themes: list[Theme]
    entities: list[NameAndType]
    pairs: list[list[str]]
    rerank: bool


class SearchReply(BaseModel):
    """Chunks, best first."""

    results: list[SearchResult]


class Context(BaseModel):
    """What a language model would be given: `prompt`, and its parts. The search options say which there are."""

    prompt: str
    tokens: int
    entities: list[dict[str, Any]]
    relationships: list[dict[str, Any]]
    chunks: list[dict[str, Any]]
    references: list[dict[str, Any]]


class Verdict(BaseModel):
    """A verdict on an answer that was taken."""

    verdict: Literal["good", "bad"]


class NotedVerdict(BaseModel):
    """A verdict on an answer, as it was noted."""

    id: int
    at: datetime
    role: str
    author: str
    question: str
    verdict: Literal["good", "bad"]
    evidence: list[str]
    mode: str | None
    answer: str | None
    comment: str | None


class Node(BaseModel):
    """An entity. Of more than 2,000 there are no descriptions."""

    id: int
    name: str
    type: str
    degree: int
    description: str | None = None
    community: int | None = None
    mention_count: int | None = None
    hop: int | None = None


class Edge(BaseModel):
    """A relationship."""

    id: int
    source: int
    target: int
    weight: float | str
    description: str | None = None
    keywords: list[str] | None = None


class Graph(BaseModel):
    """A part of the graph."""

    nodes: list[Node]
    edges: list[Edge]


class Overview(Graph):
    """The most connected entities. `total`: of a type, how many there are."""

    total: int | None


class EntityGraph(Graph):
    """An entity, and what it has relationships with. `total`: how many entities are as near."""

    entity: Node
    total: int


class PathGraph(Graph):
    """A path: numbers of entities, in order."""

    path: list[int]


class CommunityRow(BaseModel):
    """A community; `names` of its most connected members where it has no title."""

    id: int
    level: int
    parent_id: int | None
    size: int
    title: str | None
    summary: str | None
    names: list[str]


class NamedEntity(BaseModel):
    """An entity by its name."""

    id: int
    name: str
    type: str
    degree: int


class Group(BaseModel):
    """A community, or the entities of a type that are in none; `names` of its most connected members."""

    id: str
    size: int
    names: list[str]
    community: int | None = None
    type: str | None = None
    title: str | None = None
    summary: str | None = None


class Between(BaseModel):
    """How many relationships connect two groups."""

    source: str
    target: str
    count: int


class GraphMap(BaseModel):
    """The graph, or a community, as groups. `smaller` counts the groups that are left out, and the entities in them."""

    entities: int
    relationships: int
    smaller: dict[str, int]
    nodes: list[Group]
    edges: list[Between]


class CurationNumber(BaseModel):
    """The number of a curation."""

    id: int
