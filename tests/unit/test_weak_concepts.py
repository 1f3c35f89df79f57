"""Walks over entities and weak concepts: what is both is one node."""

from collections.abc import Iterable
from struct import pack
from typing import Any

import numpy as np
import pytest
from pg_graphrag.search.graph_view.chunk_concept_graph import ConceptGraph, WeakConcepts
from pg_graphrag.search.graph_view.seeds import weight
from pg_graphrag.text.concept import digest

LI_HUA = 5


class Entities:
    """Li Hua is an entity of the first chunks."""

    def __init__(self, count: int) -> None:
        self.count = count

    def keys(self, ids: Iterable[int]) -> dict[int, str]:
        return {LI_HUA: "li hua"} if LI_HUA in ids else {}

    def named(self, keys: list[str]) -> list[dict[str, Any]]:
        return [{"id": LI_HUA, "key": "li hua"}] if self.count and "li hua" in keys else []

    def mention_counts(self, entities: list[int]) -> dict[int, int]:
        return dict.fromkeys(entities, self.count)

    def edges_of_entities(self, ids: Any, hub: float) -> tuple[Any, ...]:
        chunks = np.arange(self.count if LI_HUA in ids and self.count <= hub else 0)
        return np.full(len(chunks), LI_HUA), chunks, np.ones(len(chunks), np.int64), np.full(len(chunks), self.count)


def graph(count: int, more: int) -> WeakConcepts:
    """Li Hua as an entity of `count` chunks, and as a weak concept of `more` others."""
    chunks = range(count, count + more)
    row = {
        "ids": pack(f">{more}q", *chunks),
        "sizes": pack(f">{more}q", *[8] * more),
        "concepts": digest("li hua") * more,
    }
    entities: Any = Entities(count)
    return WeakConcepts(entities, ConceptGraph(row))


@pytest.mark.parametrize(("count", "more", "is_there"), [(3, 2, True), (30, 2, False), (0, 2, True), (0, 30, False)])
def test_a_seed_is_in_the_chunks_of_both_and_a_hub_is_none(count: int, more: int, *, is_there: bool) -> None:
    walked, hub = graph(count, more), 20
    of_entities = {LI_HUA: weight(count)} if 0 < count <= hub else {}
    assert walked.seeds(of_entities, ["li hua"], hub) == ({~0: weight(count + more)} if is_there else {})
