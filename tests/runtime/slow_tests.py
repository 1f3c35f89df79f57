"""The marks of tests that `./test` leaves to `./test --all`. CONTRIBUTING.md says which tests are slow.

``@pytest.mark.slow`` marks a test, or one of its parameters. ``@pytest.mark.sample(3)`` marks all but three of a test's
parameters, which show as many values as three can.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

# Its multiples, modulo 1, lie far apart, however many there are.
GOLDEN = 0.618034
# Whether each file that is collected has a test for every day.
FILES = pytest.StashKey[dict[Path, bool]]()


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Mark what `sample` leaves out of the parameters of tests as slow."""
    tests: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("sample") and not is_slow(item):
            tests[item.nodeid.partition("[")[0]].append(item)
    for test in tests.values():
        marker = test[0].get_closest_marker("sample")
        assert marker is not None
        (count,) = marker.args
        chosen = spread([item.callspec.indices for item in test], count)
        for place, item in enumerate(test):
            if place not in chosen:
                item.add_marker(pytest.mark.slow)


def is_slow(item: pytest.Item) -> bool:
    """Return whether a test is left to `./test --all`."""
    return item.get_closest_marker("slow") is not None


def spread(parameters: Sequence[Mapping[str, int]], count: int) -> Collection[int]:
    """Return the places of `count` of a test's parameters: with values not seen yet where there are any, and far apart."""
    left = sorted(range(len(parameters)), key=lambda place: place * GOLDEN % 1)
    seen: set[tuple[str, int]] = set()
    chosen = []
    while left and len(chosen) < count:
        chosen.append(max(left, key=lambda place: len(parameters[place].items() - seen)))
        left.remove(chosen[-1])
        seen |= parameters[chosen[-1]].items()
    return chosen


def everyday_files(items: Iterable[pytest.Item], arguments: Iterable[str], folder: Path) -> dict[Path, bool]:
    """Return whether a file has a test for every day, of all that are collected whole: no argument names tests of theirs."""
    in_part = {folder / argument.partition("::")[0] for argument in arguments if "::" in argument}
    files: dict[Path, bool] = {}
    for item in items:
        if item.path not in in_part:
            files[item.path] = files.get(item.path, False) or not is_slow(item)
    return files
