"""Chunks of other systems find their places in the document."""

from decimal import Decimal
from typing import Any

import pytest
from pg_graphrag.beside.exchange.foreign_documents import Unit, document, shares


def spans(content: str, *texts: str) -> list[tuple[Any, ...]]:
    draft = document("k", None, content, {}, [Unit(text) for text in texts])
    for chunk, text in zip(draft["chunks"], texts, strict=True):
        assert chunk.get("head", "") + draft["content"][chunk["start"] : chunk["end"]] == text.replace("\0", "")
    return [(chunk["start"], chunk["own_start"], chunk["end"]) for chunk in draft["chunks"]]


def test_overlapping_chunks_are_found_in_order() -> None:
    assert spans("one two three four", "one two three", "two three four") == [(0, 0, 13), (4, 13, 18)]


def test_a_text_that_occurs_twice_is_that_after_the_one_before() -> None:
    assert spans("ab ab ab", "ab ", "ab ", "ab") == [(0, 0, 3), (3, 3, 6), (6, 6, 8)]


def test_lines_put_before_a_chunk_are_its_head() -> None:
    draft = document("k", None, "one\ntwo", {}, [Unit("title: t.\nby: x.\none\ntwo")])
    assert draft["chunks"][0]["head"] == "title: t.\nby: x.\n"


def test_chunks_that_are_not_in_the_document_become_it() -> None:
    assert spans("something else", "one", "two") == [(0, 0, 3), (5, 5, 8)]


def test_nul_is_left_out() -> None:
    assert spans("a\0b", "a\0b") == [(0, 0, 2)]


@pytest.mark.parametrize(("weight", "count"), [(20.0, 3), (0.1, 7), (1.0, 1), (78.0, 8), (1e-9, 2)])
def test_shares_add_up_to_the_weight(weight: float, count: int) -> None:
    result = shares(weight, count)
    assert len(result) == count and all(share > 0 for share in result)
    if weight > 1e-6:
        assert sum(result) == Decimal(str(weight))


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan")])
def test_a_weight_that_is_none_counts_each_mention(weight: float) -> None:
    assert shares(weight, 2) == [Decimal(1), Decimal(1)]
