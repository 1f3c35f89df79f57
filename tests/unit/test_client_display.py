"""Results as HTML: what a document holds is text and never markup."""

from pg_graphrag.beside.client import Answer, Citation, Results
from pg_graphrag.beside.client.display import MAX_CHARACTERS, MAX_ROWS

HOSTILE = '<script>alert(1)</script> & "x"'


def test_a_table_escapes_and_cuts_what_it_shows() -> None:
    html = Results([Citation(1, 2, HOSTILE, "x" * 1000, 3)])._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert "x" * MAX_CHARACTERS not in html and "…" in html


def test_many_rows_are_counted() -> None:
    html = Results([Citation(n, 2, "k", None, 3) for n in range(MAX_ROWS + 7)])._repr_html_()
    assert html.count("<tr>") == MAX_ROWS + 1 and "7 more rows" in html


def test_an_answer_shows_paragraphs_and_citations() -> None:
    html = Answer(f"One [1].\n\n{HOSTILE}", [Citation(1, 2, "key", "Title", 3)], {}, {})._repr_html_()
    assert html.startswith("<p>One [1].</p><p>&lt;script&gt;") and "<td>Title</td>" in html
