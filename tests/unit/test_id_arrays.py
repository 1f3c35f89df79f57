"""Arrays of ids: values by id, and lists behind lists."""

import numpy as np
import pytest
from pg_graphrag.ground.numeric import Lists, numbered, values_of


def test_values_are_those_of_the_ids() -> None:
    ascending, values = np.array([-7, 2, 5, 90]), np.array([1, 0, 4, 3])
    ids = np.array([5, -8, 90, 2, 91, 5, 3, -7])
    by_id = dict(zip(ascending.tolist(), values.tolist(), strict=True))
    assert values_of(ids, ascending, values, -1).tolist() == [by_id.get(one, -1) for one in ids.tolist()]
    nothing = np.empty(0, np.int64)
    assert values_of(ids, nothing, nothing, -1).tolist() == [-1] * len(ids)
    assert values_of(nothing, ascending, values, -1).tolist() == []


def test_lists_behind_others_are_as_made_at_once() -> None:
    owners, first, second = np.array([2, 0, 2, 4, 4, 5]), np.arange(6), np.arange(6) * 10
    at_once = Lists(owners, 7, first, second)
    is_early = owners < 3
    early = Lists(owners[is_early], 3, first[is_early], second[is_early])
    both = early.followed_by(Lists(owners[~is_early] - 3, 4, first[~is_early], second[~is_early]))
    every = np.arange(7)
    assert [part.tolist() for part in both.at(every)] == [part.tolist() for part in at_once.at(every)]
    assert both.counts(every).tolist() == [1, 0, 2, 0, 2, 1, 0]
    assert early.counts(np.arange(3)).tolist() == [1, 0, 2]
    nothing = Lists(np.empty(0, np.int64), 0, np.empty(0, np.int64), np.empty(0, np.int64))
    assert [part.tolist() for part in nothing.followed_by(at_once).at(every)] == [
        part.tolist() for part in at_once.at(every)
    ]


@pytest.mark.parametrize("ids", [[], [4], [7, -3, 7, 0, 12], [5, 2**60, 5, -1], list(range(900, 0, -3))])
def test_ids_are_numbered_as_numpy_does(ids: list[int]) -> None:
    each, places = np.unique(np.array(ids, np.int64), return_inverse=True)
    numbered_ids, numbered_places = numbered(np.array(ids, np.int64))
    assert numbered_ids.tolist() == each.tolist()
    assert numbered_places.tolist() == places.tolist()
