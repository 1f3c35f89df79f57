"""reStructuredText to documents."""

from pathlib import Path

import pytest
from pg_graphrag.beside.client import Document

from tests.unit.files import the_document, write


def read(tmp_path: Path, text: str) -> Document:
    return the_document(write(tmp_path / "guide.rst", text))


def test_headings_are_levels_in_the_order_of_their_adornments(tmp_path: Path) -> None:
    document = read(
        tmp_path,
        "======\nManual\n======\n\nWords.\n\nUse\n===\n\nMore.\n\nFiles\n-----\n\nOf files.\n\nEnd\n===\n\nLast.\n",
    )
    assert document.title == "Manual"
    headings = [line for line in document.content.splitlines() if line.startswith("#")]
    assert headings == ["# Manual", "## Use", "### Files", "## End"]


def test_text_without_a_heading_is_titled_with_the_files_name(tmp_path: Path) -> None:
    assert read(tmp_path, "Only words.\n").title == "guide"


def test_fields_as_of_an_email_before_the_text_are_metadata(tmp_path: Path) -> None:
    head = "PEP: 301\nTitle: Package Index\nAuthor: Bob <b@x.org>,\n        Ann\nCreated: 24-Oct-2002\n"
    document = read(tmp_path, f"{head}\n\nAbstract\n========\n\nText.\n")
    assert document.title == "Package Index"
    assert document.metadata["author"] == "Bob <b@x.org>, Ann"
    assert document.metadata["published"].startswith("2002-10-24")
    assert document.metadata["pep"] == "301"
    assert document.content == "# Abstract\n\nText.\n"
    assert read(tmp_path, "Note: this\n\nText.\n").content == "Note: this\n\nText.\n"


def test_fields_at_the_beginning_are_metadata_and_later_ones_text(tmp_path: Path) -> None:
    document = read(
        tmp_path, "Guide\n=====\n\n:Author: Bob Stone\n:Date: 2026-03-02\n:Status: draft\n\nText.\n\n:x: kept\n"
    )
    assert document.metadata["author"] == "Bob Stone"
    assert document.metadata["status"] == "draft"
    assert document.metadata["published"].startswith("2026-03-02")
    assert document.content == "# Guide\n\nText.\n\n:x: kept\n"


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (
            ".. code-block:: python\n   :linenos:\n\n   x = 1\n\n   y = 2\n\nAfter.\n",
            "```python\nx = 1\n\ny = 2\n```\n\nAfter.\n",
        ),
        ("Like this::\n\n    make\n    # all\n\nAfter.\n", "Like this:\n\n```\nmake\n# all\n```\n\nAfter.\n"),
        (".. note:: Mind this.\n   And that.\n\nAfter.\n", "Mind this.\n\nAnd that.\n\nAfter.\n"),
        (".. contents::\n   :depth: 2\n\nText.\n", "Text.\n"),
        (".. a comment\n   of two lines\n\nText.\n", "Text.\n"),
        (".. _target: https://x.org\n\nText.\n", "Text.\n"),
        (".. [1] A source.\n", "[1] A source.\n"),
        (
            "See :class:`~email.message.Message`, ``make all``, `Guide <https://x.org>`_ and `Notes`_.\n",
            "See email.message.Message, `make all`, Guide and Notes.\n",
        ),
        (
            "See the `issue\n  #4708 <https://x.org/a\n  b>`_, :pep:`the\nproposal <1>` and `Notes\non it`__.\n\n__ https://y.org\n",
            "See the issue #4708, the proposal and Notes on it.\n",
        ),
        ("Like::\n\n    a `b <c>` `d\n\n\n    e`\n", "Like:\n\n```\na `b <c>` `d\n\n\ne`\n```\n"),
        (
            ".. code-block:: rst\n\n   See `Guide <https://x.org>`_ and :pep:`one <1>`.\n",
            "```rst\nSee `Guide <https://x.org>`_ and :pep:`one <1>`.\n```\n",
        ),
        ("  A quotation\n      deeper\n", "A quotation\n  deeper\n"),
        (
            "+---+----+\n| a | b  |\n+===+====+\n| 1 | 2  |\n|   | 3  |\n+---+----+\n",
            "| a | b |\n| --- | --- |\n| 1 | 2 3 |\n",
        ),
        (
            "+-----+----+\n| a   | b  |\n+=====+====+\n| `No | 2  |\n| te`_| 3  |\n+-----+----+\n",
            "| a | b |\n| --- | --- |\n| No te | 2 3 |\n",
        ),
        (
            "+---+---+\n| a     |\n+---+---+\n| 1 | 2 |\n+---+---+\n",
            "+---+---+\n| a     |\n+---+---+\n| 1 | 2 |\n+---+---+\n",
        ),
    ],
    ids=[
        "code",
        "literal",
        "note",
        "contents",
        "comment",
        "target",
        "footnote",
        "inline",
        "links over lines",
        "code with empty lines",
        "code with links",
        "quotation",
        "table",
        "a link in a cell",
        "spans",
    ],
)
def test_markup_becomes_that_of_markdown(tmp_path: Path, text: str, content: str) -> None:
    assert read(tmp_path, text).content == content


def test_labels_of_footnotes_that_are_for_the_processor_alone_are_left_out(tmp_path: Path) -> None:
    content = read(
        tmp_path, "Sync is old. [#resiliosync]_ It is small [*]_.\n\n.. [#resiliosync] See Resilio.\n\nEnd.\n"
    ).content
    assert content.split() == "Sync is old. It is small. See Resilio. End.".split()
    content = read(tmp_path, "As [CIT2002]_ says [1]_.\n\n.. [CIT2002] A book.\n").content
    assert "[CIT2002]" in content and "[CIT2002] A book." in content


def test_references_to_footnotes_stay_where_they_are_what_a_text_explains(tmp_path: Path) -> None:
    content = read(
        tmp_path, "Write ``a [#]_``, ``[#note]_`` or :code:`so [*]_` [#]_ for a footnote [#note]_.\n"
    ).content
    assert content == "Write `a [#]_`, `[#note]_` or so [*]_ for a footnote.\n"


def test_directives_nested_a_thousand_deep_are_read(tmp_path: Path) -> None:
    nested = "".join(f"{' ' * depth}.. note::\n\n" for depth in range(1000))
    assert "```" in read(tmp_path, nested + " " * 1000 + "deepest\n").content


def test_a_reference_without_words_of_its_own_is_code(tmp_path: Path) -> None:
    document = read(tmp_path, "See :ref:`check-0561`, :ref:`the check <check-0561>` and :cite:t:`Knuth.1984`.\n")
    assert document.content == "See `check-0561`, the check and `Knuth.1984`.\n"
