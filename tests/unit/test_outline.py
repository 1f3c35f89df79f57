"""Sections and pages of a text, and chunks that part nothing that belongs together."""

from typing import Any

import pytest
from pg_graphrag.search.contexts.citation_places import with_places
from pg_graphrag.text.chunks import chunk
from pg_graphrag.text.outline import Outline, pages_text

from tests.unit.tokenizing import load

GUIDE = """# Guide

Intro.

## Install

### Linux

Unpack it.

```sh
# no heading
```

### macOS

Drag it.

## Use

Call it.
"""
WORDS = "The mill takes numbers from the store and gives them back when it is done. "


def section(text: str, begins: str, ends: str, title: str | None = None) -> str | None:
    return Outline(text, title).section(text.index(begins), text.index(ends) + len(ends))


@pytest.mark.parametrize(
    ("begins", "ends", "path"),
    [
        ("Unpack", "Unpack it.", "Guide › Install › Linux"),
        ("Unpack", "# no heading", "Guide › Install › Linux"),
        ("## Install", "Unpack it.", "Guide › Install › Linux"),
        ("### Linux", "Drag it.", "Guide › Install"),
        ("Unpack", "Call it.", "Guide"),
        ("## Use", "Call it.", "Guide › Use"),
        ("# Guide", "Call it.", "Guide"),
    ],
)
def test_a_section_is_the_path_under_which_all_of_a_stretch_stands(begins: str, ends: str, path: str) -> None:
    assert section(GUIDE, begins, ends) == path


def test_the_title_of_the_document_is_not_repeated() -> None:
    assert section(GUIDE, "Unpack", "Unpack it.", "guide") == "Install › Linux"
    assert section(GUIDE, "Intro", "Intro.", "Guide") is None


def test_a_comment_below_a_line_of_code_is_no_heading() -> None:
    assert section("set -e\n# make it\nmake\n", "make\n", "make\n") is None


def test_sections_are_the_same_in_any_order() -> None:
    outline = Outline(GUIDE)
    spans = [(GUIDE.index(word), GUIDE.index(word) + 3) for word in ("Call", "Unpack", "Drag", "Intro")]
    assert [outline.section(*span) for span in spans] == [Outline(GUIDE).section(*span) for span in spans]


def test_form_feeds_end_pages() -> None:
    outline = Outline("one\ftwo\f\ffour\f")
    assert [outline.page(place) for place in (0, 4, 9, 4)] == [1, 2, 4, 2]
    assert Outline("no pages").page(3) is None
    assert pages_text(3, "\f\nfour\n\ffive\n\f") == "4–5"
    assert pages_text(3, "three\f") == "3"
    assert pages_text(None, "x") is None


def test_chunks_end_before_headings_and_then_repeat_nothing() -> None:
    text = "".join(f"## Part {n}\n\n{WORDS * 6}\n\n" for n in range(12))
    chunks = list(chunk(text, load("all-MiniLM-L6-v2"), 150, 30))
    assert all(text[c.start :].startswith("## Part") for c in chunks)
    assert all(c.start == c.own_start for c in chunks)


def test_no_heading_stands_at_the_end_of_a_chunk() -> None:
    text = "".join(f"{WORDS * (n % 7 + 1)}\n\n## Part {n}\n\n### Detail {n}\n\n" for n in range(30)) + WORDS
    chunks = list(chunk(text, load("all-MiniLM-L6-v2"), 80, 10))
    assert len(chunks) > 5
    assert not any(text[c.own_start : c.end].rstrip().rpartition("\n")[2].startswith("#") for c in chunks)


def test_code_that_fits_is_in_one_chunk_and_longer_code_is_cut_at_lines() -> None:
    code = "```\n" + "".join(f"value_{n} = mill({n})\n\n" for n in range(8)) + "```\n"
    text = "".join(WORDS * (n % 5) + f"\n\n{code}\n" for n in range(20))
    chunks = list(chunk(text, load("all-MiniLM-L6-v2"), 160, 20))
    assert all(text[c.own_start : c.end].count("```") % 2 == 0 for c in chunks)
    long = "```\n" + "".join(f"value_{n} = mill({n})\n" for n in range(300)) + "```\n"
    assert all(long[c.end - 1] == "\n" for c in chunk(long, load("all-MiniLM-L6-v2"), 160, 20))


def test_tables_are_cut_between_rows_and_heads_stay_with_the_first() -> None:
    rows = "".join(f"| {n} | It mills. It stores. It prints number {n}. |\n" for n in range(40))
    text = f"{WORDS * 3}\n\n| n | what |\n| --- | --- |\n{rows}"
    chunks = list(chunk(text, load("all-MiniLM-L6-v2"), 90, 10))
    assert len(chunks) > 3
    assert all(text[c.end - 1] == "\n" for c in chunks)
    assert not any(text[c.own_start :].startswith(("| --- ", "| 0 |")) for c in chunks)


def test_list_items_are_not_parted_where_they_fit() -> None:
    text = "".join(f"- item {n} of the store, which the mill takes\n" for n in range(60))
    assert all(text[c.end :].startswith("- ") for c in list(chunk(text, load("all-MiniLM-L6-v2"), 60, 0))[:-1])


class Chunks:
    """The chunks table."""

    def __init__(self, **row: Any):
        self.row = {"id": 7, "document_id": 1, "picture_id": None} | row

    def query(self, *_: object) -> list[dict[str, Any]]:
        return [self.row]


@pytest.mark.parametrize(
    ("sentence", "path", "pages"),
    [
        ("The Linux kit is unpacked below /opt", "Install › Linux", "4"),
        ("On a Mac it is dragged to the applications", "Install › macOS", "5"),
    ],
)
def test_a_citation_has_page_and_section_of_its_paragraph(sentence: str, path: str, pages: str) -> None:
    content = (
        "end of before.\f\n\n### Linux\n\nThe kit is unpacked below /opt.\n\n\f"
        "### macOS\n\nIt is dragged to the applications.\f"
    )
    db: Any = Chunks(section="Install", page=3, content=content)
    (citation,) = with_places(db, [{"number": 1, "chunk_id": 7, "document_id": 1, "title": "Guide"}], [(1, sentence)])
    assert (citation["section"], citation["pages"]) == (path, pages)
    assert pages_text(3, content) == "3–5"


def test_a_section_has_no_attributes_of_its_heading() -> None:
    assert (
        section("# A\n\nIn.\n\n## Template Syntax {#template-syntax} ##\n\nCall it.\n", "Call", "it.")
        == "A › Template Syntax"
    )
