"""Citations of an answer: what is not in the context goes, however the answer comes in pieces."""

from __future__ import annotations

import random

import pytest
from pg_graphrag.answer.citations import Citations, listed

CASES = {
    "All is well [1]. More [2][3].": ("All is well [1]. More [2][3].", [1, 2, 3], 0),
    "Nothing such [9].": ("Nothing such.", [], 1),
    "Two of them [1, 9] here": ("Two of them [1] here", [1], 1),
    "A range [1-3] and [2–9]": ("A range [1-3] and [2]", [1, 2, 3, 2], 1),
    "Footnotes [^2] and [ 3 ; 12 ]": ("Footnotes [^2] and [3]", [2, 3], 1),
    "日本語です【1】。無い【8】。": ("日本語です【1】。無い。", [1], 1),
    "［2］から。": ("［2］から。", [2], 0),
    "Code `a[9]` stays, prose a[9] does not": ("Code `a[9]` stays, prose a does not", [], 1),
    "```sql\nSELECT a[7];\n```\nDone [7]": ("```sql\nSELECT a[7];\n```\nDone", [], 1),
    "An odd ` tick\nand [9] after it": ("An odd ` tick\nand after it", [], 1),
    "[link](x) [] [a1] [1a] [": ("[link](x) [] [a1] [1a] [", [], 0),
    "  padded [1]  \n": ("padded [1]", [1], 0),
    "Big [99999999] and [123456789012] numbers": ("Big and [123456789012] numbers", [], 1),
    "Many [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3] too": (
        "Many [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3] too",
        [],
        0,
    ),
    "Line\n[9]\nline": ("Line\n\nline", [], 1),
    "": ("", [], 0),
}


def filtered(pieces: list[str]) -> tuple[str, list[int], int]:
    citations = Citations([1, 2, 3])
    text = "".join([*map(citations.feed, pieces), citations.finish()])
    return text, [number for number, _ in citations.found], citations.invalid


@pytest.mark.parametrize("text", CASES)
def test_what_exists_stays_and_the_rest_goes(text: str) -> None:
    assert filtered([text]) == CASES[text]


@pytest.mark.parametrize("text", CASES)
def test_pieces_make_the_same_answer_however_they_are_cut(text: str) -> None:
    whole = filtered([text])
    assert filtered(list(text)) == whole
    rng = random.Random(text)
    for _ in range(20):
        cuts = sorted(rng.choices(range(len(text) + 1), k=4))
        assert filtered([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]) == whole


def test_a_piece_without_brackets_goes_out_at_once() -> None:
    citations = Citations([1])
    assert citations.feed("Hello") == "Hello"
    assert citations.feed(" world") == " world"
    assert citations.feed(" [") == ""
    assert citations.feed("1") == ""
    assert citations.feed("]") == " [1]"


def test_the_chunk_that_says_it_is_cited() -> None:
    chunks = [
        {"reference": 1, "chunk_id": 10, "content": "Ada Lovelace was born in London."},
        {"reference": 1, "chunk_id": 11, "content": "She wrote notes on the Analytical Engine."},
        {"reference": 2, "chunk_id": 12, "content": "Notes on the Analytical Engine."},
    ]
    names = {"source_key": "a", "title": None}
    references = [{"number": 1, "document_id": 5, **names}, {"number": 2, "document_id": 6, **names}]
    citations = Citations([1, 2])
    citations.feed("It rained. She wrote notes on the Analytical Engine [1].")
    citations.finish()
    made = listed(citations.found, {"claims": [], "chunks": chunks, "references": references})
    assert made == [{"number": 1, "document_id": 5, "source_key": "a", "title": None, "chunk_id": 11}]
