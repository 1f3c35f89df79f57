"""PDF to text: what belongs together is together, what repeats on every page is not there."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

pytest.importorskip("pypdfium2")

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadWarning, read
from pg_graphrag.beside.readers.pdf.pdf import _unspread

from tests.unit.files import Run, lines, pdf, the_error, write

PROSE = (
    "The engine weaves algebraical patterns just as the loom weaves flowers and",
    "leaves. It might act upon other things besides number, were objects found",
    "whose mutual fundamental relations could be expressed by those of the science.",
)


WORDS = ("", "mill", "store", "barrel", "card", "loom")


def content(tmp_path: Path, *pages: list[Run], **options: object) -> str:
    (document,) = read(write(tmp_path / "a.pdf", pdf(pages, **options)), "a.pdf")  # type: ignore[arg-type]
    assert isinstance(document, Document), document
    return document.content


def test_a_form_feed_ends_each_page_and_metadata_has_author_and_dates(tmp_path: Path) -> None:
    info = "/Title (Letters) /Author (Ada Lovelace) /CreationDate (D:20240506070809+02'00')"
    data = pdf([lines(["Ada"]), lines(["Charles"])], info)
    (document,) = read(write(tmp_path / "a.pdf", data), "a.pdf")
    assert isinstance(document, Document)
    assert (document.title, document.content) == ("Letters", "Ada\n\n\fCharles\n\n\f")
    assert document.valid_from == datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone(timedelta(hours=2)))
    assert {name: document.metadata[name] for name in ("path", "mime", "pages", "author")} == {
        "path": "a.pdf",
        "mime": "application/pdf",
        "pages": 2,
        "author": "Ada Lovelace",
    }


def test_without_a_title_of_its_own_it_has_that_of_its_name(tmp_path: Path) -> None:
    for info in ("", "/Title (Microsoft Word - draft.doc)", "/Title (untitled)", r"/Title (\(anonymous\))"):
        (document,) = read(write(tmp_path / "engine.pdf", pdf([lines(["x"])], info)), "k")
        assert isinstance(document, Document)
        assert document.title == "engine"


def test_lines_are_joined_and_paragraphs_kept(tmp_path: Path) -> None:
    text = content(tmp_path, [*lines(PROSE), *lines(PROSE, top=640)])
    assert text == f"{' '.join(PROSE)}\n\n{' '.join(PROSE)}\n\n\f"


def test_hyphens_at_line_ends_are_undone_but_those_of_words_stay(tmp_path: Path) -> None:
    text = content(
        tmp_path,
        lines(["The analytical en-", "gine has a well-", "known mill. It is well-known to the mathemati-", "cians."]),
    )
    assert text == "The analytical engine has a well-known mill. It is well-known to the mathematicians.\n\n\f"


def test_a_sentence_goes_on_over_the_page(tmp_path: Path) -> None:
    first = lines([*PROSE[:2], "whose relations could be ex-"])
    text = content(tmp_path, first, lines(["pressed by others. And so on."]))
    assert "could be expressed \fby others. And so on." in text
    assert text.count("\f") == 2


def test_running_heads_and_page_numbers_are_left_out(tmp_path: Path) -> None:
    pages = [
        [
            (72, 760, "F1", 9, f"Chapter 1: Notes {n}"),
            *lines(PROSE),
            (72, 600, "F1", 11, f"The {WORDS[n]}."),
            (300, 40, "F1", 9, f"{n}"),
        ]
        for n in range(1, 6)
    ]
    text = content(tmp_path, *pages)
    assert "Chapter" not in text
    assert [page.split()[-2:] for page in text.split("\f")[:-1]] == [["The", f"{WORDS[n]}."] for n in range(1, 6)]


def test_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    left = [f"left line {n} of the first column of text here" for n in range(10)]
    right = [f"right line {n} of the second column of text" for n in range(10)]
    title: Run = (72, 740, "F1", 11, "A title that runs across both of the columns of this page, as titles do")
    # As some programs write them: line by line across the page.
    runs = [run for pair in zip(lines(left), lines(right, x=330), strict=True) for run in pair]
    text = content(tmp_path, [title, *runs])
    places = [text.index(part) for part in ("A title", "left line 0", "left line 9", "right line 0", "right line 9")]
    assert places == sorted(places)


def test_tables_are_rows_with_their_heads(tmp_path: Path) -> None:
    rows = [
        ("Name", "Year", "City"),
        ("Ada", "1815", "London"),
        ("Grace", "1906", "New York"),
        ("Alan", "1912", "London"),
    ]
    runs: list[Run] = [
        (x, 600 - 16 * index, "F2" if index == 0 else "F1", 11, cell)
        for index, row in enumerate(rows)
        for x, cell in zip((72, 200, 300), row, strict=True)
    ]
    text = content(tmp_path, [*lines(PROSE), *runs])
    assert "| Name | Year | City |\n| --- | --- | --- |\n| Ada | 1815 | London |\n| Grace | 1906 | New York |" in text


def test_long_tables_say_their_heads_in_each_row(tmp_path: Path) -> None:
    rows = [("Name", "Year"), *((f"Engineer number {n}", str(1800 + n)) for n in range(30))]
    runs: list[Run] = [
        (x, 740 - 14 * index, "F1", 11, cell)
        for index, row in enumerate(rows)
        for x, cell in zip((72, 300), row, strict=True)
    ]
    assert "- Name: Engineer number 29; Year: 1829\n" in content(tmp_path, runs)


def test_larger_type_is_a_heading_and_the_outline_says_its_level(tmp_path: Path) -> None:
    page: list[Run] = [(72, 740, "F2", 20, "Engines"), (72, 715, "F2", 14, "The mill"), *lines(PROSE)]
    assert content(tmp_path, page).startswith("# Engines\n\n## The mill\n\nThe engine")
    page = [(72, 740, "F1", 11, "1.2 The mill"), *lines(PROSE)]
    assert content(tmp_path, page, outline=[("The mill", 0)]).startswith("# 1.2 The mill\n\nThe engine")


def test_code_stands_between_fences_with_its_indents(tmp_path: Path) -> None:
    code: list[Run] = [(72, 600, "F3", 10, "def mill(x):"), (96, 588, "F3", 10, "return x + 1")]
    assert content(tmp_path, [*lines(PROSE), *code]).endswith("```\ndef mill(x):\n    return x + 1\n```\n\n\f")


def test_a_stamp_in_the_margin_stands_in_no_line(tmp_path: Path) -> None:
    # As arXiv's: three words upwards, each beside another line of the text.
    words = ("arXiv:2004.04906v3", "[cs.CL]", "30 Sep 2020")
    stamp = " ".join(f"BT /F1 20 Tf 0 1 -1 0 30 {560 + 90 * n} Tm ({word}) Tj ET" for n, word in enumerate(words))
    text = content(tmp_path, lines([*PROSE, *PROSE, *PROSE]), drawn=stamp)
    assert text == f"{' '.join(PROSE * 3)}\n\narXiv:2004.04906v3 [cs.CL] 30 Sep 2020\n\n\f"


# Drawn from left to right, as fonts have it; "l" is one sign for two letters.
SIGNS = {"s": "س", "m": "م", "k": "ك", "t": "ت", "b": "ب", "r": "ر", "l": "لا", "d": "د", " ": " "}


def leftward(text: str) -> str:
    return text[::-1]


def test_lines_are_read_from_the_right_where_their_letters_are(tmp_path: Path) -> None:
    words = "slm ktb mktbt drs slm ktb mktbt drs"
    runs = [(72.0, 700.0, "F4", 11.0, leftward(words)), (72.0, 680.0, "F4", 11.0, leftward("ktb bkr slm"))]
    text = content(tmp_path, runs, signs=SIGNS)
    assert text.split() == ["".join(SIGNS[sign] for sign in word) for word in (*words.split(), "ktb", "bkr", "slm")]


def test_words_of_other_scripts_stand_where_they_are_read_from_the_right(tmp_path: Path) -> None:
    width = 7.0
    # "ktb Python mktbt", spread as it is drawn: the first word at the right.
    runs = [
        (300.0, 700.0, "F4", 11.0, leftward("ktb drs mktbt")),
        (300.0 - 8 * width, 700.0, "F1", 11.0, "Python"),
        (300.0 - 18 * width, 700.0, "F4", 11.0, leftward("drs mktbt")),
    ]
    words = "".join(SIGNS.get(sign, sign) for sign in "ktb drs mktbt P drs mktbt").split()
    words[3] = "Python"
    assert content(tmp_path, runs, signs=SIGNS).split() == words


def test_pages_without_text_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pdf", pdf([[], lines(["text"]), [], []]))
    document, warning = read(path, "a.pdf")
    assert isinstance(document, Document)
    assert document.content == "\ftext\n\n\f\f\f"
    assert isinstance(warning, ReadWarning)
    assert "no text on pages 1, 3–4" in str(warning)


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    assert "cannot be read as PDF" in the_error(write(tmp_path / "a.pdf", b"no pdf at all"))
    assert the_error(write(tmp_path / "empty.pdf", b"")) == "is empty: 0 bytes"
    assert "no text in its 1 pages" in the_error(write(tmp_path / "scan.pdf", pdf([[]])))
    encrypt = f"/Encrypt << /Filter /Standard /V 1 /R 2 /O <{'00' * 32}> /U <{'00' * 32}> /P -4 >> /ID [<00> <00>]"
    assert "is encrypted" in the_error(write(tmp_path / "secret.pdf", pdf([lines(["x"])], trailer=encrypt)))


def test_dates_without_a_zone_are_of_utc(tmp_path: Path) -> None:
    (document,) = read(write(tmp_path / "a.pdf", pdf([lines(["x"])], "/ModDate (D:2024)")), "a.pdf")
    assert isinstance(document, Document)
    assert document.valid_from == datetime(2024, 1, 1, tzinfo=UTC)


def test_running_heads_that_name_sections_go_by_their_page_numbers(tmp_path: Path) -> None:
    names = ["Mill", "Store", "Barrel", "Loom", "Card", "Gear", "Shaft", "Frame"]
    heads = [f"{number} Part {name}" if number % 2 else f"{name} {number}" for number, name in enumerate(names, 7)]
    pages = [
        [*lines([head], top=780), *lines([*PROSE, f"Page of the {WORDS[index % 5 + 1]}."])]
        for index, head in enumerate(heads)
    ]
    text = content(tmp_path, *pages)
    assert [name for name in names if name in text] == []
    assert "Page of the loom." in text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("通 常 postfix パ ッ ケ ー ジ は root か ら", "通常 postfix パッケージは root から"),
        ("著者は山田 一郎，山田 次郎，佐藤 三郎である", "著者は山田 一郎，山田 次郎，佐藤 三郎である"),
        ("行 が", "行 が"),
    ],
)
def test_type_that_is_spread_to_fill_a_line_has_no_spaces(line: str, expected: str) -> None:
    assert _unspread(line) == expected


def test_ligatures_that_a_font_has_no_letters_for_are_letters(tmp_path: Path) -> None:
    # Fonts of TeX without a map have them where control characters are, in either of two orders.
    signs = {sign: sign for sign in "\x0c\x1caders nugi"}
    text = content(tmp_path, [(72, 700, "F4", 11, "a \x1cgure reads and de\x0cnes")], signs=signs)
    assert text == "a figure reads and defines\n\n\f"


def test_a_title_that_is_set_larger_is_the_title_where_the_outline_lacks_it(tmp_path: Path) -> None:
    page: list[Run] = [
        (72, 740, "F1", 18, "The Analytical Engine"),
        (72, 690, "F1", 14, "1 Mill"),
        *lines(PROSE, top=660),
    ]
    (document,) = read(write(tmp_path / "a.pdf", pdf([page], outline=[("1 Mill", 0)])), "a.pdf")
    assert isinstance(document, Document)
    assert document.title == "The Analytical Engine"
    contents: list[Run] = [(72, 740, "F1", 18, "Contents"), *page[1:]]
    (other,) = read(write(tmp_path / "b.pdf", pdf([contents], outline=[("1 Mill", 0)])), "b.pdf")
    assert isinstance(other, Document)
    assert other.title == "1 Mill"
    assert "# 1 Mill" in document.content


def test_short_lines_are_not_one_sentence(tmp_path: Path) -> None:
    short = ["grant-aro : Army Research", "grant-doe : Department of Energy", "grant-nih : Institutes of Health"]
    text = content(tmp_path, [*lines(PROSE), *lines(short, top=600)])
    assert text.endswith("\n\n".join(short) + "\n\n\f")


def test_signs_of_items_are_those_of_lists(tmp_path: Path) -> None:
    text = content(
        tmp_path,
        [
            (72, 700, "F4", 11, "x"),
            (90, 700, "F1", 11, "The mill"),
            (72, 680, "F4", 11, "x"),
            (90, 680, "F1", 11, "The store"),
        ],
        signs={"x": "\uf0b7"},
    )
    assert text == "- The mill\n\n- The store\n\n\f"


def test_a_footer_of_an_empty_page_is_left_out(tmp_path: Path) -> None:
    pages = [
        [
            *lines([f"Of the {word}.", *PROSE, f"And so on: the {word}."]),
            (72.0, 40.0, "F1", 9.0, f"Student nr. 29 – {n}/5"),
        ]
        for n, word in enumerate(WORDS[1:4], 1)
    ]
    empty = [[(72.0, 40.0, "F1", 9.0, f"Student nr. 29 – {n}/5")] for n in (4, 5)]
    text = content(tmp_path, *pages, *empty)
    assert "Student" not in text
    assert text.endswith("the barrel.\n\n\f\f\f")


def test_fields_of_a_form_and_notes_are_read(tmp_path: Path) -> None:
    text = content(tmp_path, lines(["Name:"]), fields={"Full name": "Ada Lovelace"}, notes=["Ask her for the letter."])
    assert text == "Name:\n\nFull name: Ada Lovelace\n\nNote: Ask her for the letter.\n\n\f"


def test_a_column_of_code_beside_one_of_prose_is_a_column(tmp_path: Path) -> None:
    left = [f"left line {n} of the first column of text here" for n in range(30)]
    code = [f"if n < {n} then" for n in range(29)] + ["call the mill with all of the barrels, cards and gears"]
    runs = [run for pair in zip(lines(left), lines(code, x=330), strict=True) for run in pair]
    text = content(tmp_path, runs)
    places = [text.index(part) for part in ("left line 0", "left line 29", "n < 0", "n < 28", "call the mill")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("matrix", "places"),
    [
        ("0 1 -1 0", [(100 + 14 * n, 100) for n in range(3)]),
        ("0 -1 1 0", [(500 - 14 * n, 600) for n in range(3)]),
        ("-1 0 0 -1", [(500, 100 + 14 * n) for n in range(3)]),
    ],
)
def test_a_page_that_is_set_sideways_is_read_as_it_is_turned(
    tmp_path: Path, matrix: str, places: list[tuple[int, int]]
) -> None:
    drawn = " ".join(
        f"BT /F1 11 Tf {matrix} {x} {y} Tm ({line}) Tj ET" for (x, y), line in zip(places, PROSE, strict=True)
    )
    assert content(tmp_path, [], drawn=drawn) == f"{' '.join(PROSE)}\n\n\f"
