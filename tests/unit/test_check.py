"""check() names so many violations of an invariant, says that there are more, and reads no further."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from pg_graphrag.operate.admin import check as checking


class _Server:
    """What check() asks of a server."""

    statement_error = RuntimeError

    def subtransaction(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize(("violation_count", "named_count"), [(0, 0), (100, 100), (101, 101), (10_000, 101)])
def test_the_first_hundred_violations_are_named(
    monkeypatch: pytest.MonkeyPatch, violation_count: int, named_count: int
) -> None:
    read: list[int] = []

    def violations() -> Iterator[tuple[str, str]]:
        for number in range(violation_count):
            read.append(number)
            yield f"object {number}", "is wrong"

    def invariants(db: Any, corpus: Any) -> Iterator[tuple[str, Any]]:
        yield "first", violations()
        yield "second", [("other", "too")]

    monkeypatch.setattr(checking, "find_for_check", lambda db, name: (None, None))
    monkeypatch.setattr(checking, "_CHECKS", (invariants,))
    rows = list(checking.check(_Server(), None))
    assert rows.pop() == ("second", "other", "too")
    assert len(rows) == named_count
    assert [subject for _, subject, _ in rows[:100]] == [f"object {n}" for n in range(min(violation_count, 100))]
    assert [subject for _, subject, _ in rows[100:]] == ["…"] * (violation_count > 100)
    assert len(read) == min(violation_count, 101)
