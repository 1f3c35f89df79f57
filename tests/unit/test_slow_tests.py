"""Which tests `./test` leaves to `./test --all`."""

from itertools import pairwise, product

import pytest

from tests.runtime.slow_tests import FILES, spread


@pytest.mark.parametrize("count", range(1, 13))
def test_a_sample_shows_as_many_values_as_it_can(count: int) -> None:
    parameters = [{"mode": mode, "session": session} for mode, session in product(range(6), range(2))]
    chosen = spread(parameters, count)
    assert len(set(chosen)) == count
    assert len({parameters[place]["mode"] for place in chosen}) == min(count, 6)
    assert len({parameters[place]["session"] for place in chosen}) == min(count, 2)


def test_a_sample_of_one_parameter_is_spread_over_it() -> None:
    chosen = sorted(spread([{"n": place} for place in range(100)], 5))
    assert all(10 <= after - before <= 50 for before, after in pairwise(chosen)), chosen


def test_each_file_has_a_test_for_every_day(request: pytest.FixtureRequest) -> None:
    assert [file.name for file, is_everyday in request.config.stash[FILES].items() if not is_everyday] == []
