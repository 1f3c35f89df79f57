"""A scanned contract of ten pages: ingested by the command line, found by search, cited by its page."""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("rapidocr")

from tests.runtime.cluster import Database
from tests.sql.test_cli import cli
from tests.unit.scans import page, scan

_FONT = find_spec("matplotlib_fontja")
JAPANESE = Path(str(_FONT.origin)).parent / "fonts" / "ipaexg.ttf" if _FONT else None
CLAUSES = (
    "Delivery: the supplier delivers the Kestrel engines to Osaka.",
    "Price: the buyer pays 48,250 dollars for each engine.",
    "Warranty: defects are mended within ninety days.",
    "Force majeure: strikes and earthquakes suspend the duties.",
    "Confidentiality: drawings are returned to Acme Rockets.",
    "Insurance: the carrier insures the goods against fire.",
    "Inspection: Bob Stone inspects the nozzles in Nagoya.",
    "Termination: either party may end this with six months notice.",
    "Arbitration: disputes are settled in Geneva by three arbitrators.",
)
LAW = "準拠法は日本法とし、大阪地方裁判所を管轄裁判所とする。"


def test_a_scanned_contract_is_found_and_cited_by_page(db: Database, tmp_path: Path) -> None:
    pages = [page([f"Article {number}", "", clause]) for number, clause in enumerate(CLAUSES, 1)]
    last = [LAW] if JAPANESE else ["Law: Japanese law governs."]
    scan(tmp_path / "contract.pdf", [*pages, page(last, JAPANESE)])
    done = cli(db.url, "ingest", "--ocr", "always", tmp_path)
    assert "1 files: 1 new" in done.stdout
    assert "0 errors" in done.stdout
    assert "1 unchanged" in cli(db.url, "ingest", "--ocr", "auto", tmp_path).stdout
    ((metadata, content),) = db.execute("SELECT metadata, content FROM graphrag.documents")
    assert not JAPANESE or LAW in content.split("\f")[9]
    assert set(metadata["recognised"]["pages"]) == {str(number) for number in range(1, 11)}
    db.execute("CALL graphrag.process_jobs()")
    questions = {"Where are disputes settled?": "9", "Who inspects the nozzles?": "7"}
    for question, number in questions.items():
        ((citations,),) = db.execute("SELECT citations FROM graphrag.ask(%s, mode => 'bm25')", [question])
        assert any(str(citation["pages"]) == number for citation in citations), (question, citations)


@pytest.mark.slow
@pytest.mark.skipif(JAPANESE is None, reason="needs a font of Japanese: matplotlib-fontja")
def test_a_scan_of_japanese_is_found(db: Database, tmp_path: Path) -> None:
    scan(tmp_path / "law.pdf", [page([LAW], JAPANESE)])
    cli(db.url, "ingest", tmp_path)
    db.execute("CALL graphrag.process_jobs()")
    found = db.execute("SELECT content FROM graphrag.search('管轄裁判所', mode => 'bm25')").fetchall()
    assert any(LAW in content for (content,) in found)


def test_scans_are_errors_where_nobody_recognises_them(db: Database, tmp_path: Path) -> None:
    scan(tmp_path / "contract.pdf", [page(["One"])])
    page(["Two"]).save(tmp_path / "photo.png")
    done = cli(db.url, "ingest", "--ocr", "never", tmp_path, status=1)
    assert "holds no text in its 1 pages (a scan?)" in done.stderr
    assert "skipped 1 .png: photo.png" in done.stderr
