"""The nearest vectors that are allowed."""

from pg_graphrag.ground.numeric import Flags, Ids, np
from pg_graphrag.search.query.cached_vectors import nearest_allowed


def even(ids: Ids) -> Flags:
    flags: Flags = ids % 2 == 0
    return flags


def test_the_nearest_allowed_come_with_all_that_tie_with_the_last() -> None:
    cosines = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.5 - 1e-7])
    assert nearest_allowed(np.arange(7), cosines, 3, even).tolist() == [0, 2, 4, 6]


def test_no_more_is_asked_than_it_takes() -> None:
    asked: list[int] = []

    def every(ids: Ids) -> Flags:
        asked.extend(ids.tolist())
        return np.ones(len(ids), np.bool_)

    assert nearest_allowed(np.arange(1000), np.linspace(1, 0, 1000), 2, every).tolist() == [0, 1]
    assert len(asked) <= 4


def test_fewer_allowed_than_asked_for_are_all() -> None:
    assert nearest_allowed(np.arange(1, 8, 2), np.ones(4), 2, even).tolist() == []
    assert nearest_allowed(np.arange(5), np.linspace(1, 0, 5), 9, even).tolist() == [0, 2, 4]
