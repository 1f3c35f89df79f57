"""Packed postings, their merge, and the merging policy."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.bm25.optimize import to_merge
from pg_graphrag.index.bm25.packing import Entry, _stored_form, merge_runs
from pg_graphrag.index.bm25.scoring import Saturation, idf
from pg_graphrag.index.bm25.segments import Postings

frequencies = st.dictionaries(st.integers(0, 199), st.sampled_from([1, 2, 254, 255, 256, 70_000]), min_size=1)


@given(frequencies)
def test_postings_come_back_as_they_were_packed(items: dict[int, int]) -> None:
    ordinals = np.array(sorted(items), np.int32)
    packed = _stored_form(200, ordinals, np.array([items[o] for o in sorted(items)], np.int32))
    assert (packed[0] is None) == (len(items) > 40)
    postings = Postings.unpack(len(items), *packed)
    assert postings.at(np.arange(200)).tolist() == [items.get(ordinal, 0) for ordinal in range(200)]
    some = np.array([7, 3, 199], np.int64)
    assert postings.at(some).tolist() == [items.get(ordinal, 0) for ordinal in (7, 3, 199)]


@given(st.lists(st.dictionaries(st.sampled_from("abcdeé日"), frequencies), min_size=1, max_size=4))
def test_merged_runs_hold_every_posting_once_in_order(runs: list[dict[str, dict[int, int]]]) -> None:
    step = len(runs)

    def entries(number: int) -> Iterator[Entry]:
        for term in sorted(runs[number]):
            ordinals = np.array(sorted(runs[number][term]), np.int32)
            counts: NDArray[np.int32] = np.array([runs[number][term][int(o)] for o in ordinals], np.int32)
            yield term, ordinals * np.int32(step) + np.int32(number), counts

    got = {
        term: dict(zip(o.tolist(), f.tolist(), strict=True))
        for term, o, f in merge_runs([entries(n) for n in range(step)])
    }
    expected: dict[str, dict[int, int]] = {}
    for number, run in enumerate(runs):
        for term, items in run.items():
            expected.setdefault(term, {}).update({ordinal * step + number: tf for ordinal, tf in items.items()})
    assert got == expected
    assert list(got) == sorted(got)
    assert all(list(items) == sorted(items) for items in got.values())


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=400))
def test_the_policy_keeps_few_parts_and_rewrites_little(sizes: list[int]) -> None:
    parts: list[dict[str, int]] = []  # of one item each: rewrites suffered by the worst-off item of the part
    for size in sizes:
        parts.append({"size": size, "rewrites": 0})
        parts.sort(key=lambda part: part["size"])
        together = to_merge([part["size"] for part in parts])
        if together > 1:
            merged_part = {
                "size": sum(part["size"] for part in parts[:together]),
                "rewrites": 1 + max(part["rewrites"] for part in parts[:together]),
            }
            parts = [merged_part, *parts[together:]]
            parts.sort(key=lambda part: part["size"])
        assert to_merge([part["size"] for part in parts]) in (0, 1)
    total = sum(sizes)
    assert len(parts) <= 2 + np.log(total) / np.log(3)
    assert max(part["rewrites"] for part in parts) <= 1 + np.log(total) / np.log(1.5)


def test_what_does_not_fit_together_is_not_merged() -> None:
    assert to_merge([5, 5, 5], limit=10) == 2
    assert to_merge([9, 9], limit=10) == 0
    assert to_merge([], limit=10) == 0


def test_idf_has_the_values_of_its_definitions() -> None:
    assert idf("lucene", 10, 3) == pytest.approx(np.log(1 + 7.5 / 3.5))
    assert idf("robertson", 10, 8) == pytest.approx(np.log(2.5 / 8.5))
    assert idf("robertson_clipped", 10, 8) == 0.0
    with pytest.raises(GraphRAGError, match="bm25"):
        idf("bm25", 10, 8)


@pytest.mark.parametrize(("k1", "b"), [(-0.1, 0.5), (float("nan"), 0.5), (float("inf"), 0.5), (1.5, -0.1), (1.5, 1.1)])
def test_k1_and_b_out_of_range_are_errors(k1: float, b: float) -> None:
    with pytest.raises(GraphRAGError):
        Saturation(k1, b, 10.0)
