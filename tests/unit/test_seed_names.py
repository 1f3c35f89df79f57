"""Which words of a question may stand for names that begin with them."""

from types import SimpleNamespace

import pytest
from pg_graphrag.search.graph_view.seeds import _is_written_as_name, _runs


@pytest.mark.parametrize(
    ("text", "keyword", "is_name"),
    [
        ("Where does Adam live?", "adam", True),
        ("Who is the sibling of Adam?", "sibling", False),
        ("who is the sibling of adam?", "adam", True),
        ("Who is the sibling of adam?", "adam", True),
        ("Who wrote 1984?", "1984", True),
        ("誰が Adam を見たか", "誰", True),
        ("A sibling, or Sibling?", "sibling", True),
        ("İİ was it İstanbul?", "istanbul", True),
    ],
)
def test_a_name_has_a_capital_where_other_words_than_the_first_have_any(text: str, keyword: str, is_name: bool) -> None:
    query = SimpleNamespace(text=text, low=None)
    assert _is_written_as_name(query, keyword) is is_name


def test_keywords_given_beside_the_question_are_names() -> None:
    query = SimpleNamespace(text="Who is the sibling of Adam?", low=["sibling"])
    assert _is_written_as_name(query, "sibling")


@pytest.mark.parametrize(
    ("text", "is_asked"),
    [("who wrote moon river?", True), ("Who wrote moon river?", True), ("Who wrote moon river for Audrey?", False)],
)
def test_a_title_in_small_letters_is_one_where_capitals_do_not_tell(text: str, is_asked: bool) -> None:
    assert ("moon river" in _runs(text)) is is_asked
