"""Pages that browsers save, cards of people and calendars: what they say is read."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from tests.unit.files import the_document, the_error, write

PAGE = """From: <Saved by Blink>
Snapshot-Content-Location: http://example.org/looms
Subject: Looms
Date: Mon, 6 May 2024 07:08:09 -0000
MIME-Version: 1.0
Content-Type: multipart/related; type="text/html"; boundary="X"

--X
Content-Type: text/css
Content-Location: cid:a@mhtml.blink

p { color: red }
--X
Content-Type: text/html; charset=iso-8859-15
Content-Transfer-Encoding: quoted-printable
Content-Location: http://example.org/looms

<html><head><title>Looms</title></head><body><nav><a href=3D"/">Home</a></nav><h1>Looms</h1>
<p>The loom =A4 wove.</p></body></html>
--X
Content-Type: image/png
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--X--
"""


@pytest.mark.parametrize("name", ["a.mhtml", "a.mht"])
def test_a_page_that_a_browser_saved_is_read_as_the_page(tmp_path: Path, name: str) -> None:
    document = the_document(write(tmp_path / name, PAGE.replace("\n", "\r\n")))
    assert (document.title, document.content.strip()) == ("Looms", "# Looms\n\nThe loom € wove.")
    assert document.metadata["url"] == "http://example.org/looms"
    assert document.valid_from == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert "holds no page of HTML" in the_error(write(tmp_path / "b.mhtml", "Subject: x\n\nText"))


def test_cards_say_who_where_and_how_to_reach(tmp_path: Path) -> None:
    cards = (
        "BEGIN:VCARD\nVERSION:3.0\nN:Lovelace;Ada;;Countess;\nFN:Ada Lovelace\nORG:Analytical Society;Engines\n"
        "item1.EMAIL;TYPE=INTERNET:ada@example.org\nADR;TYPE=HOME:;;12 St James's Square;London;;;UK\n"
        "NOTE:Wrote Note G\\, the\n  first program.\nPHOTO;ENCODING=b:iVBORw0KGgo=\nEND:VCARD\n"
        "BEGIN:VCARD\nVERSION:2.1\nFN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:J=C3=BCrgen =\nM=C3=BCller\nEND:VCARD\n"
    )
    document = the_document(write(tmp_path / "a.vcf", cards.replace("\n", "\r\n")))
    assert document.title == "Ada Lovelace"
    assert document.content == (
        "# Ada Lovelace\n\nOrganization: Analytical Society, Engines\nE-mail: ada@example.org\n"
        "Address: 12 St James's Square, London, UK\nNote: Wrote Note G, the first program.\n\n# Jürgen Müller\n"
    )
    assert "has no card" in the_error(write(tmp_path / "b.vcf", "Dear all"))


def test_a_calendar_has_its_name_and_says_how_often_and_of_what_kind(tmp_path: Path) -> None:
    event = "SUMMARY:Tea\nRRULE:FREQ=WEEKLY;BYDAY=MO\nSTATUS:CANCELLED\nCATEGORIES:HOME,FOOD\nURL:http://example.org"
    calendar = f"BEGIN:VCALENDAR\nX-WR-CALNAME:Family\nBEGIN:VEVENT\n{event}\nEND:VEVENT\nEND:VCALENDAR\n"
    document = the_document(write(tmp_path / "a.ics", calendar))
    assert document.title == "Family"
    assert document.content == (
        "# Tea\n\nRepeats: weekly\nStatus: cancelled\nCategories: HOME,FOOD\nWeb: http://example.org"
    )
