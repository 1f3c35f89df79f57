"""check() names so many violations of an invariant, says that there are more, and reads no further."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pg_graphrag.admin import check as checking


@pytest.mark.parametrize(("found", "shown"), [(0, 0), (100, 100), (101, 101), (10_000, 101)])
def test_the_first_hundred_violations_are_named(monkeypatch: pytest.MonkeyPatch, found: int, shown: int) -> None:
    read: list[int] = []

    def violations() -> Iterator[tuple[str, str]]:
        for number in range(found):
            read.append(number)
            yield f"object {number}", "is wrong"

    def invariants(db: Any, corpus: Any) -> Iterator[tuple[str, Any]]:
        yield "first", violations()
        yield "second", [("other", "too")]

    monkeypatch.setattr(checking, "find", lambda db, name: None)
    monkeypatch.setattr(checking, "_CHECKS", (invariants,))
    told = list(checking.check(None, None))  # type: ignore[arg-type]
    assert told.pop() == ("second", "other", "too")
    assert len(told) == shown
    assert [subject for _, subject, _ in told[:100]] == [f"object {n}" for n in range(min(found, 100))]
    assert [subject for _, subject, _ in told[100:]] == ["…"] * (found > 100)
    assert len(read) == min(found, 101)
