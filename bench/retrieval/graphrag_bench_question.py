"""A question of GraphRAG-Bench, for what asks it and what judges the answers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question of the set: its gold answer, the statements that the answer rests on, its class, and the text it is about."""

    id: str
    text: str
    answer: str
    evidence: tuple[str, ...]
    kind: str
    source: str | None = None

    @property
    def filter(self) -> dict[str, str] | None:
        """Of the documents that it is asked of; None: all."""
        return {"source": self.source} if self.source else None
