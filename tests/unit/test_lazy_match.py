"""LazyGraphRAG's matching: best first, breadth first, deeper only where something is relevant, never above the budget."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from pg_graphrag.search.modes import lazy
from pg_graphrag.search.query.mode_options import SearchOptions
from pg_graphrag.search.retrievers import near_chunks

# Communities 1 and 2 at level 0, 3 and 4 parts of 1; the nearest chunk has the highest number.
HELD = {1: [10, 11, 12, 13], 2: [20, 21], 3: [10, 11], 4: [12, 13], near_chunks.NOWHERE: [30]}
BELOW: dict[int | None, list[int]] = {None: [1, 2, near_chunks.NOWHERE], 1: [3, 4]}
NEAR = {10: 0.9, 11: 0.8, 12: 0.7, 13: 0.6, 20: 0.5, 21: 0.4, 30: 0.3}


@pytest.fixture
def tested(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(lazy, "candidates", lambda query: NEAR)
    monkeypatch.setattr(lazy, "communities_of", lambda query, chunks: (HELD, BELOW))
    return []


def match(tested: list[int], budget: int, relevant: set[int], k: int = 1, z: int = 5, more: int = 0) -> lazy.Match:
    def tester(query: Any, chunks: Sequence[int], spare: int) -> tuple[list[bool], int]:
        tested.extend(chunks)
        again = min(spare, more)
        return [chunk in relevant for chunk in chunks], again

    query: Any = SimpleNamespace(options=SearchOptions(own_values={"k": k, "z": z}))
    return lazy.match(query, budget, tester)


def test_communities_take_turns_and_the_parts_of_the_relevant_follow(tested: list[int]) -> None:
    result = match(tested, 100, {10, 11, 12})
    # The best of each; then, of the relevant one's parts, what is left.
    assert tested == [10, 20, 30, 11, 12, 13]
    assert result.relevant == {10: (1, 1), 11: (3, 4), 12: (4, 5)}
    assert result.tests == len(tested)


@pytest.mark.parametrize("budget", range(1, 7))
def test_the_budget_is_never_exceeded(tested: list[int], budget: int) -> None:
    result = match(tested, budget, set(NEAR), k=3)
    assert result.tests == len(tested) == len(set(tested)) <= budget


def test_after_z_communities_with_nothing_relevant_the_search_ends(tested: list[int]) -> None:
    assert match(tested, 100, set(), z=2).relevant == {}
    assert tested == [10, 20]


@pytest.mark.parametrize(
    ("is_whole", "relevant"),
    [(True, [[True, True], [True, False], [True, False]]), (False, [[True, True], [False] * 2, [False] * 2])],
)
def test_of_a_question_about_the_whole_the_best_of_each_community_is_near_enough(
    monkeypatch: pytest.MonkeyPatch, is_whole: bool, relevant: list[list[bool]]
) -> None:
    nearness = {10: 0.9, 11: 0.5, 20: 0.2, 21: 0.05, 30: -0.2, 31: -0.3}
    monkeypatch.setattr(near_chunks, "candidates", lambda query: nearness)
    monkeypatch.setattr(near_chunks, "is_about_the_whole", lambda query: is_whole)
    query: Any = None
    assert [near_chunks.near_enough(query, chunks) for chunks in ([10, 11], [20, 21], [30, 31])] == relevant


@pytest.mark.parametrize("budget", range(1, 9))
def test_what_is_sent_again_is_paid_from_the_budget(tested: list[int], budget: int) -> None:
    result = match(tested, budget, set(NEAR), more=2)
    assert len(tested) <= result.tests <= budget
    assert result.tests == budget or len(tested) == len(NEAR)
