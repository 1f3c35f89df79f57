"""The order of rows of several corpora: by the best of each, its own order kept, the same for any order of the corpora."""

from hypothesis import given
from hypothesis import strategies as st
from pg_graphrag.ground.merged_order import FIRST, merged_order

ANSWERS = st.dictionaries(st.text(max_size=3), st.lists(st.floats(0, 1), max_size=30), max_size=5)


@given(ANSWERS)
def test_each_corpus_keeps_its_order_and_every_row_comes_once(answers: dict[str, list[float]]) -> None:
    order = merged_order(answers)
    for corpus, relevances in answers.items():
        assert [place for name, place in order if name == corpus] == list(range(len(relevances)))
    assert len(order) == sum(map(len, answers.values()))
    assert merged_order(dict(reversed(answers.items()))) == order


@given(ANSWERS, st.integers(0, 40))
def test_longer_answers_begin_as_shorter_ones(answers: dict[str, list[float]], count: int) -> None:
    depth = max(count, FIRST)
    shorter = {corpus: relevances[:depth] for corpus, relevances in answers.items()}
    assert merged_order(shorter)[:count] == merged_order(answers)[:count]


def test_the_corpus_with_the_most_relevant_row_has_more_places() -> None:
    order = merged_order({"near": [0.2, 0.8, 0.1, 0.1], "far": [0.3, 0.3], "none": []})
    assert order == [("near", 0), ("near", 1), ("far", 0), ("near", 2), ("near", 3), ("far", 1)]


def test_ties_go_by_rank_and_by_name() -> None:
    assert merged_order({"b": [0.5, 0.1], "a": [0.500001, 0.5]}) == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
