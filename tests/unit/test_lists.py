"""Lists, places of ids and texts, and that each is the same of its arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pg_graphrag.ground.numeric import IdIndex, Lists, Texts, part, prefixed

TEXTS = st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), max_size=30)


@given(TEXTS)
def test_texts_are_as_given_and_so_are_those_of_their_arrays(given_texts: list[str]) -> None:
    for texts in (made := Texts(given_texts), Texts.of_arrays(made.arrays())):
        assert list(texts) == given_texts
        places = list(range(len(given_texts)))[::-1]
        assert texts.at(places) == given_texts[::-1]


@given(TEXTS, st.text(max_size=8))
def test_a_text_is_found_at_its_first_place_and_no_other(given_texts: list[str], other: str) -> None:
    texts = Texts(given_texts)
    assert [texts.place(text) for text in given_texts] == [given_texts.index(text) for text in given_texts]
    assert texts.place(other) == (given_texts.index(other) if other in given_texts else None)
    assert texts.place(other + "\ud800") is None


def test_lists_and_indexes_of_their_arrays_are_the_same() -> None:
    owners, values = np.array([2, 0, 2, 1]), np.array([5, 6, 7, 8])
    lists, index = Lists(owners, 4, values, values + 1), IdIndex(np.array([30, 10, 20]))
    arrays = prefixed("a", lists.arrays()) | prefixed("b", index.arrays())
    again, index_again = Lists.of_arrays(part(arrays, "a")), IdIndex.of_arrays(part(arrays, "b"))
    for column, column_again in zip(lists.at(np.arange(4)), again.at(np.arange(4)), strict=True):
        assert column.tolist() == column_again.tolist()
    assert index_again.places([10, 15, 30]).tolist() == index.places([10, 15, 30]).tolist() == [1, 0]
