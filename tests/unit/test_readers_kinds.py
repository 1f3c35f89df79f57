"""Files whose kind is not what one would think, or that few think of: named, or read."""

import io
import json
import re
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import read
from pg_graphrag.beside.readers.web.html import extract

from tests.unit import files
from tests.unit.files import the_document, the_error, write

CALENDAR = """BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VTIMEZONE
TZID:Europe/Berlin
END:VTIMEZONE
BEGIN:VEVENT
SUMMARY:Board meeting
DTSTART;TZID=Europe/Berlin:20240506T090000
DTEND:20240506T103000Z
LOCATION:Room 5\\, London
ORGANIZER;CN="Lovelace, Ada":mailto:ada@example.org
ATTENDEE;ROLE=CHAIR:mailto:grace@example.org
DESCRIPTION:Bring the
  report.\\nAnd tea.
LAST-MODIFIED:20240501T080000Z
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
END:VCALENDAR
"""
READ = """# Board meeting

Begins: 2024-05-06 09:00
Ends: 2024-05-06 10:30 UTC
Where: Room 5, London
Organizer: Lovelace, Ada
Attendees: grace@example.org

Bring the report.
And tea."""


def test_calendars_say_what_when_where_and_who(tmp_path: Path) -> None:
    document = the_document(write(tmp_path / "a.ics", CALENDAR.replace("\n", "\r\n")))
    assert (document.title, document.content) == ("Board meeting", READ)
    assert document.valid_from == datetime(2024, 5, 1, 8, tzinfo=UTC)
    assert "does not begin as a calendar" in the_error(write(tmp_path / "b.ics", "Dear all"))


def test_an_invitation_without_a_text_is_read(tmp_path: Path) -> None:
    mail = f"Subject: Invitation\nMIME-Version: 1.0\nContent-Type: text/calendar; charset=utf-8; method=REQUEST\n\n{CALENDAR}"
    message, event = read(write(tmp_path / "a.eml", mail), "a.eml")
    assert isinstance(message, Document)
    assert isinstance(event, Document)
    assert (event.source_key, event.content) == ("a.eml/attachment.ics", READ)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("letter.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "is of Word, Excel or PowerPoint before 2007"),
        ("report", b"%PDF-1.7\n", "is a PDF; give its name the ending .pdf"),
        ("log.gz", b"\x1f\x8b\x08" + bytes(20), "is compressed; unpack it"),
    ],
)
def test_a_named_file_of_a_kind_that_is_not_read_is_an_error(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    assert reason in the_error(write(tmp_path / name, data))


def test_what_a_page_shows_without_scripts_is_its_text() -> None:
    shadow = '<div><template shadowrootmode="open"><p>Shown</p></template></div><template><p>Not shown</p></template>'
    assert extract(f"<body>{shadow}</body>")[1] == "Shown"
    assert extract("<body><noscript><p>The mill.</p></noscript><script>x()</script></body>")[1] == "The mill."
    assert extract("<body><noscript><p>Switch it on.</p></noscript><p>The mill.</p></body>")[1] == "The mill."


def test_cells_in_single_quotes_and_a_second_mark_of_byte_order(tmp_path: Path) -> None:
    quoted = "'Name';'Note'\n'Ada';'a; b'\n'Bob';'c'\n"
    content = the_document(write(tmp_path / "a.csv", f"\ufeff{quoted}".encode("utf-16"))).content
    assert content == "| Name | Note |\n| --- | --- |\n| Ada | a; b |\n| Bob | c |"
    assert "'tis" in the_document(write(tmp_path / "b.csv", "a,b\n'tis,it's\n'twas,x'\n")).content


def test_heads_in_two_rows_are_one(tmp_path: Path) -> None:
    rows = "<tr><td>2023<td>1<td>2<td>3<td>4"
    upper = "<tr><th rowspan=2>Year<th colspan=2>North<th colspan=2>South"
    _, text = extract(f"<table>{upper}<tr><th>Q1<th>Q2<th>Q1<th>Q2{rows}</table>")
    assert text.split("\n")[::2] == ["| Year | North Q1 | North Q2 | South Q1 | South Q2 |", "| 2023 | 1 | 2 | 3 | 4 |"]


def test_what_is_deleted_in_a_page_is_left_out() -> None:
    assert extract("<p>It <del>grinds</del><ins>weaves</ins>.</p>")[1] == "It weaves."


def test_old_notebooks_have_their_name_and_the_text_of_their_pages(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "html", "source": ["<p>It <b>weaves</b>.</p>"]},
        {"cell_type": "code", "input": "x", "outputs": []},
    ]
    old = {"nbformat": 3, "metadata": {"name": "Engines"}, "worksheets": [{"cells": cells}]}
    document = the_document(write(tmp_path / "a.ipynb", json.dumps(old)))
    assert (document.title, document.content) == ("Engines", "It weaves.\n\n```\nx\n```\n")


def test_a_book_without_an_order_has_that_of_its_files(tmp_path: Path) -> None:
    book = files.epub({"a.xhtml": "<p>first</p>", "b.xhtml": "<p>second</p>"})
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        parts: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    package = parts["OEBPS/book.opf"]
    assert isinstance(package, bytes)
    parts["OEBPS/book.opf"] = re.sub(rb"<spine>.*</spine>", b"<spine/>", package)
    assert the_document(write(tmp_path / "a.epub", files.zipped(parts))).content == "first\n\nsecond\n"


def test_an_output_of_a_notebook_that_is_cut_is_said(tmp_path: Path) -> None:
    outputs = [{"output_type": "stream", "text": "y" * 20_000}, {"output_type": "stream", "text": "short"}]
    data = files.notebook([{"cell_type": "code", "source": "run()", "outputs": outputs}])
    document, warning = read(write(tmp_path / "a.ipynb", data), "a.ipynb")
    assert isinstance(document, Document)
    assert "1 output of more than 10,000 characters: the rest is left out" in str(warning)


@pytest.mark.parametrize("output", [{"data": {"image/png": "iVBOR", "text/plain": "<Figure>"}}, {"png": "iVBOR"}])
def test_a_notebook_says_that_its_plots_are_not_read(tmp_path: Path, output: dict[str, object]) -> None:
    data = files.notebook([{"cell_type": "code", "source": "plot()", "outputs": [output]}])
    document, warning = read(write(tmp_path / "a.ipynb", data), "a.ipynb")
    assert isinstance(document, Document) and "plot()" in document.content
    assert "1 × picture that a cell shows" in str(warning)
