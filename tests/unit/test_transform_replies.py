"""What models say of a query to be transformed, read tolerantly; what cannot be used is a fault."""

import pytest
from pg_graphrag.llm.asking import replies
from pg_graphrag.llm.endpoints.faults import ItemFault


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ('{"queries": ["who wrote it?", "where is it?"]}', ["who wrote it?", "where is it?"]),
        (
            '<think>{"queries": ["no"]}</think>```json\n{"queries": ["a", "a", "b", "c", "d", "e"]}\n```',
            ["a", "b", "c", "d"],
        ),
        ('Sure: {"queries": [" a\\n b ", 7, null]}', ["a b"]),
    ],
)
def test_queries_are_read_without_repetitions_and_at_most_four(text: str, made: list[str]) -> None:
    assert replies.queries(text, False) == made


@pytest.mark.parametrize(
    "text", ["", "none", "{}", '{"queries": []}', '{"queries": "a"}', '{"queries": [7]}', '{"queries": ["a"']
)
def test_no_queries_are_a_fault(text: str) -> None:
    with pytest.raises(ItemFault):
        replies.queries(text, False)


def test_a_query_and_a_passage_are_one_line_without_reasoning() -> None:
    assert replies.query('<think>hm</think>{"query": " a \\n b"}', False) == "a b"
    assert replies.passage("<think>hm</think> The engine\nwas built. ", False) == "The engine was built."
    for text in ('{"query": ""}', '{"query": 1}', "no"):
        with pytest.raises(ItemFault):
            replies.query(text, False)
    for text in ("", "<think>and so on"):
        with pytest.raises(ItemFault):
            replies.passage(text, True)


def test_grades_are_by_number_and_what_is_left_out_is_ambiguous() -> None:
    text = '{"grades": [{"number": 3, "grade": "Incorrect"}, {"number": 1, "grade": "correct"}, {"number": 9, "grade": "x"}, 5]}'
    assert replies.grades(text, False, 4) == ["correct", "ambiguous", "incorrect", "ambiguous"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"grades": 1}',
        '{"grades": [{"number": 9, "grade": "correct"}]}',
        '{"grades": [{"number": "1", "grade": 2}]}',
    ],
)
def test_no_grades_are_a_fault(text: str) -> None:
    with pytest.raises(ItemFault):
        replies.grades(text, False, 2)
