"""Sentences of documents as lines of an answer."""

import pytest
from pg_graphrag.search.contexts.sentences_in_order import readable


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("```\nts_headline(document text) returns text\n```", "ts_headline(document text) returns text"),
        ("~~~sql\nSELECT 1", "SELECT 1"),
        ("## 12.3. Parsing\nqueries", "12.3. Parsing queries"),
        ("Write `a` and ```b``` in a line.", "Write `a` and ```b``` in a line."),
        ("```\n---\n```", ""),
    ],
)
def test_a_line_has_no_marks_of_markdown_before_it(text: str, line: str) -> None:
    assert readable(text) == line
