"""A chunk that a search found, from retrieval through the stages of a request to its answer."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class FoundChunk:
    """A row of an answer. `page`: where its text begins; `picture_id`: whose words it is.

    `excerpt`: whether `content` is a part of the chunk's text; `explain`: why it was found, by retriever and stage;
    `token_count`: of the whole text.
    """

    chunk_id: int
    document_id: int
    source_key: str
    title: str | None
    ordinal: int
    content: str
    token_count: int
    section: str | None
    page: int | None
    picture_id: int | None
    score: float
    explain: dict[str, Any] = field(default_factory=dict)
    excerpt: bool = False
