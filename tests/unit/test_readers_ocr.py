"""Text of scans and pictures: recognised, in reading order, marked, and left out where it is not sure."""

import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from time import sleep
from typing import Any, NoReturn, cast

import pytest

pytest.importorskip("pypdfium2")
pytest.importorskip("rapidocr")

import numpy as np
from matplotlib import get_data_path
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import Item, Picture, ReadError, ReadOptions, ReadProgress, ReadWarning, Skipped, read
from pg_graphrag.beside.readers.isolated import IsolatedReader
from pg_graphrag.beside.readers.layout.text import text_of
from pg_graphrag.beside.readers.ocr import pictures_text, tesseract
from pg_graphrag.beside.readers.ocr.lines import RecognisedLine, confidence_of, page_of_lines
from pg_graphrag.beside.readers.ocr.rapid import LineDecoder
from pg_graphrag.beside.readers.ocr.recognise import Engine, Recognised, _engines, unsure_text
from pg_graphrag.beside.readers.picture import picture
from pg_graphrag.beside.readers.source import Source
from PIL import Image

from tests.unit.files import write
from tests.unit.scans import label, page, scan

AUTO = ReadOptions(ocr="auto")
# Two engines are made at once; while OpenVINO asks for numpy's version for the first one, the other comes as far.
TWO_ENGINES = """
from threading import Thread
from time import sleep

import numpy.lib
from pg_graphrag.beside.readers.ocr.rapid import RapidEngine

class SlowVersion(numpy.lib.NumpyVersion):
    def __init__(self, version):
        sleep(2)
        super().__init__(version)
        print("asked")

numpy.lib.NumpyVersion = SlowVersion
threads = [Thread(target=RapidEngine, args=(1,)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
# Of tables that Tesseract writes: heads, and words of Thai with a gap.
HEADS = "level\tblock_num\tpar_num\tline_num\tleft\ttop\twidth\theight\tconf\ttext"
THAI = [(0, 20, "สั"), (22, 20, "ญ"), (44, 20, "ญา"), (80, 20, "นี้"), (106, 30, "42\u200f")]


def document_of(items: list[Item]) -> Document:
    (document,) = (item for item in items if isinstance(item, Document))
    return document


def test_a_scan_is_read_page_by_page_and_says_so(tmp_path: Path) -> None:
    path = scan(tmp_path / "a.pdf", [page(["The Kestrel engine burns methane."]), page(["It flew in 2011."])])
    items = list(read(path, "a.pdf", AUTO))
    assert document_of(items).content == "The Kestrel engine burns methane.\n\n\fIt flew in 2011.\n\n\f"
    recognised = document_of(items).metadata["recognised"]
    assert recognised["engine"] == "rapidocr"
    assert set(recognised["pages"]) == {"1", "2"}
    assert all(0.9 < confidence <= 1 for confidence in recognised["pages"].values())
    assert [(item.done, item.count) for item in items if isinstance(item, ReadProgress)] == [(1, 2), (2, 2)]
    assert not [item for item in items if isinstance(item, ReadWarning | ReadError)]


def test_engines_that_are_made_at_once_do_not_wait_for_each_other_for_ever() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO_ENGINES],
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "asked\n"


def test_a_scan_is_an_error_as_before_where_nothing_is_recognised(tmp_path: Path) -> None:
    path = scan(tmp_path / "a.pdf", [page(["The Kestrel engine burns methane."])])
    (error,) = read(path, "a.pdf")
    assert "holds no text in its 1 pages (a scan?)" in str(error)


def test_a_page_that_cannot_be_read_for_sure_is_left_out_and_reported(tmp_path: Path) -> None:
    blurred = page(["The Kestrel engine burns methane."] * 8).resize((124, 175)).resize((1240, 1754))
    path = scan(tmp_path / "a.pdf", [page(["A clear page."]), blurred])
    items = list(read(path, "a.pdf", AUTO))
    assert document_of(items).content == "A clear page.\n\n\f\f"
    assert list(document_of(items).metadata["recognised"]["pages"]) == ["1"]
    assert any("page 2" in str(item) for item in items if isinstance(item, ReadWarning))


@pytest.mark.sample(1)
@pytest.mark.parametrize("turns", [90, 180, 270, 2.5])
def test_a_page_is_read_however_it_lies(tmp_path: Path, turns: float) -> None:
    lines = ["The Kestrel engine burns methane and oxygen.", "It first flew on the Heron launcher."] * 3
    image = page(lines).rotate(turns, expand=True, fillcolor="white")
    image.save(tmp_path / "a.png")
    text = document_of(list(read(tmp_path / "a.png", "a.png", AUTO))).content
    assert " ".join(text.split()) == " ".join(lines)


def test_text_in_a_picture_is_marked_in_its_document(tmp_path: Path) -> None:
    url = f"data:image/png;base64,{b64encode(label('VALVE 42')).decode()}"
    path = write(tmp_path / "a.html", f"<p>Before.<p><img src='{url}'><p>After.")
    document = document_of(list(read(path, "a.html", AUTO)))
    assert document.content == "Before.\n\nText in a picture: VALVE 42\n\nAfter."
    assert list(document.metadata["recognised"]["pictures"]) == ["1"]


def test_a_picture_whose_text_is_not_sure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unsure, unread = Recognised(page_of_lines([line("Valve", 0, 0)]), 0.5, lines=1), Recognised([], 0.3, lines=9)
    read_already = {1: unsure, 2: unread, 3: Recognised([], 0.3, lines=1)}

    def recognised_pages(*arguments: Any) -> Iterator[ReadProgress]:
        arguments[-1].update(read_already)
        yield from ()

    monkeypatch.setattr(pictures_text, "recognised_pages", recognised_pages)
    urls = [f"data:image/png;base64,{b64encode(label(text)).decode()}" for text in "abc"]
    path = write(tmp_path / "a.html", "".join(f"<p>Before.<p><img src='{url}'>" for url in urls))
    (warning,) = (str(item) for item in read(path, "a.html", AUTO) if isinstance(item, ReadWarning))
    assert "recognised text of pictures 1–2 left out: its confidence is 0.30 to 0.50" in warning


def test_engines_of_one_kind_are_kept() -> None:
    _engines("none", 1).put(cast(Engine, None))
    assert _engines("none", 1).qsize() == 1
    assert _engines("none", 2).qsize() == 0
    assert _engines("none", 1).qsize() == 0


def test_a_picture_without_text_changes_nothing(tmp_path: Path) -> None:
    url = f"data:image/png;base64,{b64encode(label('', 'green')).decode()}"
    path = write(tmp_path / "a.html", f"<p>Before.<p><img src='{url}'><p>After.")
    (document,) = (item for item in read(path, "a.html", AUTO) if isinstance(item, Document))
    (plain,) = read(path, "a.html")
    assert document == plain
    Image.new("RGB", (300, 300), "blue").save(tmp_path / "b.png")
    Image.new("RGB", (64, 64), "blue").save(tmp_path / "logo.png")
    progress, skipped = read(tmp_path / "b.png", "b.png", AUTO)
    assert isinstance(progress, ReadProgress)
    assert skipped == Skipped("b.png", "pictures without text")
    for options in (AUTO, ReadOptions(pictures=True)):
        (skipped,) = read(tmp_path / "logo.png", "logo.png", options)
        assert skipped == Skipped("logo.png", "small pictures")


def test_the_words_of_a_picture_that_is_kept_stand_beside_it_alone(tmp_path: Path) -> None:
    url = f"data:image/png;base64,{b64encode(label('VALVE 42')).decode()}"
    path = write(tmp_path / "a.html", f"<p>Before.<p><img src='{url}'><p>After.")
    items = list(read(path, "a.html", replace(AUTO, pictures=True)))
    assert document_of(items).content == "Before.\n\nAfter."
    assert [item.recognised_text for item in items if isinstance(item, Picture)] == ["VALVE 42"]


@pytest.mark.slow
def test_a_scan_whose_pages_are_kept_is_no_reason_to_run_ocr(tmp_path: Path) -> None:
    path = scan(tmp_path / "a.pdf", [page(["The Kestrel engine burns methane."]), page([])])
    for options in (AUTO, replace(AUTO, pictures=True)):
        said = [str(item) for item in read(path, "a.pdf", options) if isinstance(item, ReadWarning)]
        assert said == [f"{path}: no text on page 2 (pictures?), nor is any recognised"]


def test_readers_take_turns_where_they_share_a_file(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    path, turns = write(tmp_path / "a.png", label("VALVE 42")), write(tmp_path / "turns", "")
    with turns.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        items = read(path, "a.png", replace(AUTO, ocr_turns=turns))
        assert [next(items), next(items)] == [ReadProgress(path, 0, 1)] * 2
    assert document_of(list(items)).content.startswith("VALVE 42")


def fake_tesseract(
    folder: Path, script: str, monkeypatch: pytest.MonkeyPatch, languages: tuple[str, ...] = ("eng",)
) -> None:
    write(folder / "bin" / "tesseract", f"#!/bin/sh\n{script}\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(tesseract, "languages", lambda: list(languages))


def test_tesseract_gets_its_environment_and_its_errors_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", "/models")
    fake_tesseract(tmp_path, 'echo "no eng in $TESSDATA_PREFIX" >&2; exit 1', monkeypatch)
    path = write(tmp_path / "a.png", label("VALVE 42"))
    said = [str(item) for item in read(path, "a.png", ReadOptions(ocr="always", ocr_engine="tesseract"))]
    assert any("page 1 cannot be recognised" in text and "no eng in /models" in text for text in said)


@pytest.mark.parametrize(
    ("readings", "text"),
    [
        # English takes words of another script for its own.
        ({"3 heb+eng": "DATA 90", "3 heb": "המדינה 94"}, "המדינה"),
        ({"3 heb+eng": "Kestrel 95", "3 heb": "אבגדה 60"}, "Kestrel"),
        # Of a page with few lines it sees no columns.
        ({"4 heb+eng": "המדינה 94"}, "המדינה"),
        # The script is guessed wrong.
        ({"3 heb+eng": "אבגדה 40", "3 rus": "Договор 96"}, "Договор"),
        ({"3 heb+eng": "אבגדה 40", "3 rus": "Договор 30"}, None),
    ],
)
def test_tesseract_takes_the_languages_and_the_layout_that_it_is_surest_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readings: dict[str, str], text: str | None
) -> None:
    cases = "".join(
        f"'{options}') word='{reading.split()[0]}'; conf={reading.split()[1]};;\n"
        for options, reading in readings.items()
    )
    table = r"'level\tblock_num\tpar_num\tline_num\tleft\ttop\twidth\theight\tconf\ttext\n'"
    row = r"'5\t1\t1\t1\t10\t10\t90\t30\t%s\t%s\n' $conf $word"
    script = (
        f'test "$6" = 0 && echo "Script: Hebrew" && exit\ncase "$6 $8" in\n{cases}*) printf {table}; exit;;\nesac\n'
    )
    fake_tesseract(tmp_path, f"{script}printf {table}; printf {row}", monkeypatch, ("osd", "eng", "heb", "rus"))
    path = write(tmp_path / "a.png", label("VALVE 42"))
    items = list(read(path, "a.png", ReadOptions(ocr="always", ocr_engine="tesseract")))
    assert [item.content.strip() for item in items if isinstance(item, Document)] == ([text] if text else [])


@pytest.mark.parametrize(
    ("script", "letters", "seconds", "runs"),
    [
        ("Latin", "word" * 20, 120, 2),
        ("Latin", "word", 120, 16),
        # Not one that it reads: Greek out of focus is taken for it.
        ("Fraktur", "word" * 20, 120, 17),
        ("Latin", "word", 2, 3),
    ],
)
def test_an_unsure_page_costs_few_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, letters: str, seconds: int, runs: int
) -> None:
    table = f"{HEADS}\\n5\\t1\\t1\\t1\\t1\\t1\\t9\\t9\\t40\\t{letters}\\n".replace("\t", "\\t")
    program = f"""echo run >> {tmp_path}/runs; test "$6" = 0 && echo "Script: {script}" && exit
    case "$8" in eng) ;; *) test {seconds} = 120 || exec sleep 9;; esac; printf '{table}'"""
    languages = ("osd", "eng", *(names.split()[0] for names in tesseract._OF_SCRIPT.values()))
    fake_tesseract(tmp_path, program, monkeypatch, languages)
    monkeypatch.setattr(tesseract, "_SECONDS", seconds)
    (recognised,) = tesseract.TesseractEngine(1).lines(Image.new("L", (90, 90)))
    assert recognised.text == letters
    assert len((tmp_path / "runs").read_text().split()) == runs


def test_a_page_that_lies_on_its_side_is_turned_for_tesseract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orientation = r"'Rotate: 90\nOrientation confidence: 9.0\nScript: Latin\n'"
    fake_tesseract(
        tmp_path,
        f'test "$6" = 0 && printf {orientation} && exit\ncat > {tmp_path}/turned.png',
        monkeypatch,
        ("osd", "eng"),
    )
    path = write(tmp_path / "a.png", label("VALVE 42"))
    list(read(path, "a.png", ReadOptions(ocr="always", ocr_engine="tesseract")))
    assert Image.open(tmp_path / "turned.png").size == (120, 420)


def test_thai_has_blanks_where_it_has_gaps() -> None:
    words = "".join(f"5\t1\t1\t1\t{x}\t0\t{width}\t30\t95\t{text}\n" for x, width, text in THAI)
    (recognised,) = tesseract.lines_of_table(f"{HEADS}\n{words}")
    assert recognised.text == "สัญญา นี้ 42"


def test_tesseract_ends_with_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tesseract(
        tmp_path, f"echo eng\necho eng\ntest $1 = - || exit 0\necho $$ >> {tmp_path}/pids\nexec sleep 60", monkeypatch
    )
    path = write(tmp_path / "a.png", label("VALVE 42"))
    with IsolatedReader(ReadOptions(ocr="always", ocr_engine="tesseract"), seconds=8) as reader:
        *_, error = reader.read(path, "a.png")
    assert "took longer" in str(error)
    (pid,) = (tmp_path / "pids").read_text().split()
    for _ in range(50):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or ") Z" in state.read_text():
            return
        sleep(0.1)
    raise AssertionError("it runs on")


@pytest.mark.parametrize(("name", "extra"), [("rapidocr", "ocr"), ("pillow_heif", "ocr"), ("PIL", "files")])
def test_what_is_missing_for_pictures_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, extra: str
) -> None:
    def absent(_: object) -> NoReturn:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(picture, "read_picture", absent)
    (error,) = read(write(tmp_path / "a.png", label("x")), "a.png", AUTO)
    assert f"needs the Python package {name}. Install the extra {extra}" in str(error)


def line(text: str, x: float, y: float, width: float = 500.0, height: float = 30.0) -> RecognisedLine:
    return RecognisedLine(((x, y), (x + width, y), (x + width, y + height), (x, y + height)), text, 0.99)


def test_columns_are_read_one_after_the_other() -> None:
    left = [line(f"The left column goes on in line {number}", 100, 100 + 45 * number) for number in range(10)]
    right = [line(f"and the right column has its line {number}", 660, 103 + 45 * number) for number in range(10)]
    mixed = [item for pair in zip(left, right, strict=True) for item in pair]
    text = " ".join(text_of([page_of_lines(mixed)], {}).split())
    assert text == " ".join(item.text for item in left + right)


class Letters:
    """rapidocr's decoder, with few letters: a number other than that of the column before is a letter, 0 none."""

    character = ("", *"§,.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz東京 ")

    def decode(self, best: np.ndarray, *_: object, remove_duplicate: bool) -> list[str]:
        assert remove_duplicate
        return ["".join(self.character[number] for number, _ in groupby(line)) for line in best]


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ("Acme_Rockets", "Acme Rockets"),
        ("Acme Rockets", "Acme Rockets"),
        ("by_the_Seller, 12.", "by the Seller, 12."),
        ("§_14", "§ 14"),
        # One letter seldom stands alone.
        ("to t_he works", "to the works"),
        ("東_京", "東京"),
    ],
)
def test_a_blank_that_is_all_but_seen_is_one(seen: str, text: str) -> None:
    numbers = {letter: number for number, letter in enumerate(Letters.character)}
    odds = np.zeros((1, 3 * len(seen), len(numbers)), np.float32)
    for column, letter in enumerate(seen):
        odds[0, 3 * column : 3 * column + 3, 0] = 0.7
        odds[0, 3 * column, 0 if letter == "_" else numbers[letter]] = 0.9
        if letter == "_":
            odds[0, 3 * column + 1, numbers[" "]] = 0.25
    assert LineDecoder(Letters())(odds, False, wh_ratio_list=(1.0,), max_wh_ratio=1.0) == [text]


def test_a_script_that_is_not_read_is_no_text_and_named(tmp_path: Path) -> None:
    font = Path(get_data_path(), "fonts/ttf/DejaVuSans.ttf")
    russian = page(
        ["Поставщик доставит двигатели на завод в Осаке в течение 30 дней.", "Риск переходит к покупателю."] * 2, font
    )
    items = list(read(scan(tmp_path / "a.pdf", [page(["A clear page."]), russian]), "a.pdf", AUTO))
    assert document_of(items).content == "A clear page.\n\n\f\f"
    (warning,) = (str(item) for item in items if isinstance(item, ReadWarning))
    assert "page 2 is in a script that rapidocr does not read" in warning
    assert "take --ocr-engine tesseract" in warning


def test_a_few_letters_in_long_lines_are_not_all_of_them() -> None:
    lines = [line("VALVE 42", 100, 100, 160), *(line("3", 100, y, 900) for y in (200, 300))]
    assert confidence_of(lines[:1]) == 0.99
    assert confidence_of(lines) < 0.3
    assert confidence_of([line("l", 100, 100, 8)]) == pytest.approx(0.99)
    assert confidence_of([line("C A P U T", 100, 100, 400), line("東京", 100, 200, 90)]) == pytest.approx(0.99)


def test_words_of_tesseract_are_lines_and_cells() -> None:
    words = [(100, 60, "Valve", 96), (170, 30, "42", 90), (400, 60, "3.50", 99), (100, 60, "Pump", 80)]
    rows = [HEADS]
    for number, (left, width, text, confidence) in enumerate(words):
        rows.append(f"5\t1\t1\t{1 + number // 3}\t{left}\t{10 + 40 * (number // 3)}\t{width}\t20\t{confidence}\t{text}")
    lines = tesseract.lines_of_table("\n".join(rows))
    assert [item.text for item in lines] == ["Valve 42", "3.50", "Pump"]
    assert [round(item.confidence, 2) for item in lines] == [0.94, 0.99, 0.8]
    assert lines[0].corners == ((100, 10), (200, 10), (200, 30), (100, 30))


def test_columns_run_around_a_picture_and_its_caption() -> None:
    left, right, caption = [], [], []
    for number in range(30):
        y, narrow = 100 + 45 * number, 440 if 6 <= number < 26 else 0
        left.append(line(f"The left column goes on in its line {number}", 100, y, 970 - narrow))
        right.append(line(f"and the right one has its own line {number}", 1130 + narrow, y + 3, 970 - narrow))
        if 14 <= number < 18:
            caption.append(line(f"THE ROOFS {number}", 1020, y + 20, 200))
    lines = [item for parts in zip(left, right, strict=True) for item in parts] + caption
    text = " ".join(text_of([page_of_lines(lines)], {}).split())
    assert text == " ".join(item.text for item in left + right + caption)


def test_a_damaged_picture_of_a_document_leaves_its_text(tmp_path: Path) -> None:
    whole = label("VALVE 42")
    urls = [f"data:image/png;base64,{b64encode(data).decode()}" for data in (whole[: len(whole) // 2], whole)]
    path = write(tmp_path / "a.html", "<p>The pump leaks.</p>" + "".join(f"<p><img src='{url}'></p>" for url in urls))
    items = list(read(path, "a.html", AUTO))
    assert document_of(items).content.split() == "The pump leaks. Text in a picture: VALVE 42".split()
    assert any("not read" in str(item) for item in items if isinstance(item, ReadWarning))


def test_pages_that_failed_and_pages_that_are_unsure_are_both_named() -> None:
    pages = {3: Recognised([], 0.0, "It was torn."), 4: Recognised(page_of_lines([line("Valve", 0, 0)]), 0.5)}
    text = unsure_text(Source(Path("a.pdf"), "a.pdf", "a.pdf"), "page", pages) or ""
    assert "page 3 cannot be recognised: It was torn." in text
    assert "page 4 left out" in text


def test_tables_have_rows() -> None:
    rows = [["Part", "Quantity", "Price"], ["Valve", "2", "3.50"], ["Pump", "4", "8.75"], ["Tank", "1", "99.00"]]
    lines = [
        line(cell, 100 + 300 * column, 100 + 60 * number, 15.0 * len(cell))
        for number, row in enumerate(rows)
        for column, cell in enumerate(row)
    ]
    assert "| Valve | 2 | 3.50 |" in text_of([page_of_lines(lines)], {})


def test_columns_of_japanese_are_read_from_the_right() -> None:
    lines = [
        line(text, 900 - 60 * number, 100, 40, 700)
        for number, text in enumerate(("吾輩は猫である名前は", "まだ無いどこで生れた"))
    ]
    assert text_of([page_of_lines(lines[::-1])], {}).strip("\n\f") == "吾輩は猫である名前はまだ無いどこで生れた"
