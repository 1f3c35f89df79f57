"""Files read in a process of their own: what one of them does to it, the next does not feel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from pg_graphrag.client import Document
from pg_graphrag.readers import ReadError, ReadOptions
from pg_graphrag.readers.isolated import IsolatedReader

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
