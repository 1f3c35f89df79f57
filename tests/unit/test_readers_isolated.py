"""Files read in a process of their own: what one of them does to it, the next does not feel."""

import os
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadError, ReadOptions
from pg_graphrag.beside.readers.isolated import IsolatedReader

from tests.unit.files import write


def page(tmp_path: Path, text: str = "fine") -> Path:
    return write(tmp_path / "b.html", f"<p>{text}")


def test_a_file_that_takes_too_long_is_an_error_and_the_next_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.html")  # nobody writes to it
    with IsolatedReader(ReadOptions(), seconds=3) as reader:
        (error,) = reader.read(tmp_path / "a.html", "a.html")
        assert isinstance(error, ReadError)
        assert "took longer than 3 s" in str(error)
    with IsolatedReader(ReadOptions()) as reader:
        (document,) = reader.read(page(tmp_path), "b.html")
        assert isinstance(document, Document)
        assert document.content == "fine"


def test_a_file_that_takes_too_much_memory_is_an_error_and_the_next_is_read(tmp_path: Path) -> None:
    large = write(tmp_path / "a.html", "<p>" + "<b>x</b>" * 12_000_000)
    with IsolatedReader(ReadOptions(), memory=1 << 30) as reader:
        (error,) = reader.read(large, "a.html")
        assert isinstance(error, ReadError)
        assert str(large) in str(error)
        (document,) = reader.read(page(tmp_path), "b.html")
        assert isinstance(document, Document)


def test_options_reach_the_process(tmp_path: Path) -> None:
    path = write(tmp_path / "a.html", "<p>日本語".encode("euc_jp"))
    with IsolatedReader(ReadOptions(encoding="euc_jp")) as reader:
        (document,) = reader.read(path, "a.html")
        assert isinstance(document, Document)
        assert document.content == "日本語"


@pytest.mark.parametrize("suffix", ["rst", "adoc", "org", "tex", "wiki"])
def test_markup_that_stands_within_itself_is_read_there(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"a.{suffix}")  # nobody writes to it
    with IsolatedReader(ReadOptions()) as reader:
        (error,) = reader.read(tmp_path / f"a.{suffix}", "a", seconds=0.2)
        assert isinstance(error, ReadError)


# Of each the reader once took time by the square of its length: minutes to hours.
LONG = {
    "blanks.adoc": " " * 400_000 + "x",
    "heading.wiki": "= " + " " * 400_000 + "x",
    "tags.org": "* a :" + " " * 400_000 + "x",
    "styles.rtf": r"{\rtf1{\stylesheet"
    + "".join(rf"{{\s{n}\sbasedon{n + 1} a;}}" for n in range(20_000))
    + "}"
    + "".join(rf"\s{n} a\par " for n in range(20_000))
    + "}",
    "words.eml": "Subject: " + "=?utf-8?q?a?= " * 60_000 + "\n\nb",
    "parameters.eml": "Content-Type: text/plain; " + "a=b; " * 60_000 + "\n\nb",
    "breaks.vcf": "BEGIN:VCARD\nFN;ENCODING=QUOTED-PRINTABLE:a" + "=\n" * 200_000 + "\nEND:VCARD\n",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", LONG)
def test_a_long_file_is_read_in_time_by_its_length(tmp_path: Path, name: str) -> None:
    with IsolatedReader(ReadOptions(), seconds=60) as reader:
        (document,) = reader.read(write(tmp_path / name, LONG[name]), name)
    assert isinstance(document, Document), document


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.pdf", "a.mbox"])
def test_a_file_that_is_longer_than_any_text_is_an_error_before_it_is_read(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 40)
    with IsolatedReader(ReadOptions()) as reader:
        (error,) = reader.read(tmp_path / name, name)
    assert "has 1,099,511,627,776 bytes; at most 1,073,741,824 are read: split it" in str(error)


def test_a_line_of_json_that_is_longer_than_any_text_ends_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pg_graphrag.beside.readers.plain.jsonl._MAX_LINE", 30)
    with IsolatedReader(ReadOptions()) as reader:
        text = '{"id": "a", "text": "x"}\n{"id": "b", "text": "' + "x" * 100 + '"}\n'
        document, error = reader.read(write(tmp_path / "a.jsonl", text), "a.jsonl")
    assert isinstance(document, Document)
    assert "line 2 has more than 30 bytes; it and what follows are not read" in str(error)


def test_a_text_for_which_there_is_no_memory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("pg_graphrag.beside.readers.isolated.read", fail)
    with IsolatedReader(ReadOptions()) as reader:
        (error,) = reader.read(write(tmp_path / "a.txt", "x"), "a.txt")
    assert "needs more memory than there is" in str(error)
