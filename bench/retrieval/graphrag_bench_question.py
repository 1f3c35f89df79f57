"""A question of GraphRAG-Bench, for what asks it and what judges the answers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question of the set: its gold answer, the statements that the answer rests on, and its class."""

    id: str
    text: str
    answer: str
    evidence: tuple[str, ...]
    kind: str
