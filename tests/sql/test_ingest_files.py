"""Files of twelve kinds through the command: each is found by what it says, and cited with its page and section."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import openpyxl
import pptx
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import ask, is_keywords
from tests.sql.ingest import rows, searched_corpus, work
from tests.sql.llm import provider
from tests.unit import files

FILLER = [f"Nothing of note happened in week {n} of the long survey of looms." for n in range(1, 30)]


def reply(messages: list[dict[str, Any]]) -> str:
    names = {"low_level_keywords": ["Peterhof"], "high_level_keywords": [], "entities": [], "answer_types": []}
    return json.dumps(names) if is_keywords(messages) else "The Peterhof fountain is fed by the Ropsha springs [1]."


REPLY = reply


def workbook() -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in (("Ship", "Master"), ("Terra Nova", "Edward Evans")):
        book.active.append(row)
    book.save(file)
    return file.getvalue()


def presentation() -> bytes:
    deck, file = pptx.Presentation(), io.BytesIO()
    for title, text in (("Agenda", "Opening words"), ("Bridges", "The Quebec bridge fell twice.")):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
    deck.save(file)
    return file.getvalue()


def report() -> bytes:
    water = ["The Peterhof fountain is fed by the Ropsha springs."]
    pages = [files.lines(FILLER), files.lines([*FILLER[:3], *water]), files.lines(FILLER)]
    return files.pdf(
        [[(72, 740, "F2", 20, f"Part {n}"), *page] for n, page in enumerate(pages, 1)], "/Title (Waterworks)"
    )


GUIDE = "# Guide\n\n## Install\n\n### Linux\n\nUnpack the zymurgy kit below /opt.\n"
TWELVE: dict[str, tuple[bytes | str, str]] = {
    "notes.txt": ("Le café de Königsberg était fermé à cause de l'été.".encode("latin-1"), "Königsberg"),
    "guide.md": (GUIDE, "zymurgy"),
    "page.html": ("<title>Looms</title><nav>Home</nav><p>The Jacquard loom wove.", "Jacquard"),
    "report.pdf": (report(), "Peterhof"),
    "letter.docx": (files.docx(files.paragraph("Dear Babbage, the store is full.")), "Babbage"),
    "talk.pptx": (presentation(), "Quebec"),
    "ships.xlsx": (workbook(), "Nova"),
    "stars.csv": ("star,colour\nAldebaran,orange\n", "Aldebaran"),
    "book.epub": (files.epub({"a.xhtml": "<h1>One</h1><p>Frankenstein woke.</p>"}), "Frankenstein"),
    "mail.eml": (files.message("See you in Llanfair.", "Trip", {"route.md": b"Turn left at Aberystwyth."}), "Llanfair"),
    "sums.ipynb": (files.notebook([{"cell_type": "markdown", "source": "The Riemann sum."}]), "Riemann"),
    "rows.jsonl": ('{"id": "r1", "text": "The Antikythera wheel."}\n', "Antikythera"),
}


@pytest.fixture(scope="module")
def corpus(module_db: Database, module_endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("files")
    for name, (content, _) in TWELVE.items():
        files.write(folder / name, content)
    files.write(folder / "drawing.svg", b"<svg/>")
    name = searched_corpus(
        module_db, llm={"provider": provider(module_db, module_endpoint, timeout=1), "model": "model-1"}
    )
    command = [
        sys.executable,
        "-m",
        "pg_graphrag.beside.cli",
        "ingest",
        "--url",
        module_db.url,
        "--corpus",
        name,
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "12 files: 13 new, 0 changed, 0 unchanged, 0 errors, 1 skipped\n"
    assert "skipped 1 .svg: drawing.svg" in done.stderr
    work(module_db)
    return name


def found(db: Database, corpus: str, query: str) -> tuple[str, dict[str, Any]]:
    """Return key and explanation of the best chunk."""
    ((key, explain),) = rows(db, "SELECT source_key, explain FROM graphrag.search(%s, %s, 'bm25', 1)", query, corpus)
    return key, explain


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", TWELVE)
def test_each_kind_is_found_by_what_it_says(module_db: Database, corpus: str, name: str) -> None:
    assert found(module_db, corpus, TWELVE[name][1])[0] in (name, "r1")


def test_an_attachment_is_found_as_a_document_of_its_own(module_db: Database, corpus: str) -> None:
    assert found(module_db, corpus, "Aberystwyth")[0] == "mail.eml/route.md"


def test_explain_says_section_and_pages(module_db: Database, corpus: str) -> None:
    assert found(module_db, corpus, "zymurgy")[1]["section"] == "Install › Linux"
    assert found(module_db, corpus, "Quebec")[1]["pages"] == "1–2"


def test_a_citation_says_page_and_section(module_db: Database, corpus: str) -> None:
    answer, (citation,), _, _ = ask(module_db, "What feeds the Peterhof fountain?", corpus, mode="naive")
    assert answer.endswith("[1].")
    assert (citation["source_key"], citation["section"], citation["pages"]) == ("report.pdf", "Part 2", "2")


def test_pages_and_sections_follow_an_edit_through_sql(module_db: Database, corpus: str, tmp_path: Path) -> None:
    module_db.execute(
        "UPDATE graphrag.documents SET content = 'A new first page.' || chr(12) || content WHERE corpus = %s"
        " AND source_key = 'report.pdf'",
        [corpus],
    )
    work(module_db)
    _, (citation,), _, _ = ask(module_db, "What feeds the Peterhof fountain?", corpus, mode="naive")
    assert citation["pages"] == "3"
