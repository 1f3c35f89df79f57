"""PDF: what stands side by side on a page is a table only where it has cells."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pypdfium2")

from tests.unit.files import Run, lines
from tests.unit.test_readers_pdf import PROSE, content


def row(y: float, *cells: tuple[float, str], font: str = "F1") -> list[Run]:
    return [(x, y, font, 11, text) for x, text in cells]


def test_lines_of_a_table_of_contents_are_no_rows(tmp_path: Path) -> None:
    entries = [
        ("1 Introduction", "2"),
        ("1.1 The mill . . . . . . . . . . . .", "2"),
        ("1.2 The store . . . . . . . . . .", "13"),
    ]
    runs = [run for n, (title, page) in enumerate(entries) for run in row(600 - 14 * n, (72, title), (400, page))]
    text = content(tmp_path, [*lines(PROSE), *runs])
    assert "1 Introduction 2\n1.1 The mill … 2\n1.2 The store … 13" in text
    assert "|" not in text


def test_labels_beside_prose_part_no_sentence(tmp_path: Path) -> None:
    labels = ("title", "author", "affiliation")
    prose = (
        "The guidelines specify different formatting for an",
        "author's name and for the affiliation; for both it",
        "has an environment for names that are long.",
    )
    runs = [run for n in range(3) for run in row(500 - 14 * n, (72, labels[n]), (180, prose[n]))]
    text = content(tmp_path, runs)
    assert text == f"title author affiliation\n\n{' '.join(prose)}\n\n\f"


def test_labels_of_items_stay_with_them(tmp_path: Path) -> None:
    runs = [
        run
        for n, item in enumerate(("the mill;", "the store;", "the loom."))
        for run in row(500 - 14 * n, (72, f"{'abc'[n]})"), (120, item))
    ]
    assert content(tmp_path, runs) == "a) the mill;\n\nb) the store;\n\nc) the loom.\n\n\f"


def test_texts_side_by_side_are_read_one_after_the_other(tmp_path: Path) -> None:
    left = (
        "Write down the first five laureates of the",
        "competition, in any order, and say for each",
        "of them in which year it was.",
    )
    right = (
        "Geef de eerste vijf laureaten van de",
        "wedstrijd, in eender welke orde, en zeg voor",
        "elk van hen in welk jaar het was.",
    )
    runs = [run for n in range(3) for run in row(500 - 14 * n, (72, left[n]), (330, right[n]))]
    assert content(tmp_path, runs) == f"{' '.join(left)}\n\n{' '.join(right)}\n\n\f"


def test_code_with_numbers_of_its_lines_is_code(tmp_path: Path) -> None:
    code = ("def mill(x):", "    return store(x)", "mill(1)", "mill(2)")
    runs = [
        run
        for n, line in enumerate(code)
        for run in ((72.0, 500.0 - 12 * n, "F1", 7.0, str(n + 9)), (100.0, 500.0 - 12 * n, "F3", 10.0, line))
    ]
    text = content(tmp_path, runs)
    assert text.startswith("```\n")
    assert "|" not in text
    assert all(line.strip() in text for line in code)


def test_a_table_that_goes_on_over_the_page_has_its_heads_there(tmp_path: Path) -> None:
    def table(rows: list[tuple[str, str]], bold_first: bool) -> list[Run]:
        return [
            run
            for n, (name, year) in enumerate(rows)
            for run in row(740 - 16 * n, (72, name), (300, year), font="F2" if bold_first and not n else "F1")
        ]

    first = table([("Name", "City"), ("Ada", "London"), ("Grace", "New York"), ("Alan", "Wilmslow")], True)
    second = table([("Kurt", "Brno"), ("Emmy", "Erlangen"), ("Sofja", "Moscow")], False)
    text = content(tmp_path, first, [*second, *lines(PROSE, top=600)])
    assert text.split("\f")[1].startswith("| Name | City |\n| --- | --- |\n| Kurt | Brno |\n")


def test_a_footer_below_a_table_is_no_row_of_it(tmp_path: Path) -> None:
    pages = [
        [
            run
            for n in range(4)
            for run in row(100 - 14 * n, (72, f"{'ABCD'[n]}{'vwxyz'[page - 1]}"), (300, f"{page}{n}7"))
        ]
        + row(44, (72, "Updated in May"), (300, f"{page}"))
        for page in range(1, 6)
    ]
    text = content(tmp_path, *([*lines(PROSE), *page] for page in pages))
    assert "Updated" not in text
    assert "| Dx | 337 |" in text


def test_a_table_over_both_columns_of_a_page_is_whole(tmp_path: Path) -> None:
    left = [f"left line {n} of the first column of text here" for n in range(12)]
    right = [f"right line {n} of the second column of text" for n in range(12)]
    cells = [
        ("Name", "Energy", "Sum", "Share"),
        ("A", "990", "1168", "7"),
        ("B", "500", "961", "3"),
        ("C", "17", "18", "2"),
    ]
    table = [
        run for n, names in enumerate(cells) for run in row(730 - 14 * n, *zip((80, 220, 380, 500), names, strict=True))
    ]
    columns = [run for pair in zip(lines(left, top=640), lines(right, x=330, top=640), strict=True) for run in pair]
    text = content(tmp_path, [*table, *columns])
    assert "| Name | Energy | Sum | Share |\n| --- | --- | --- | --- |\n| A | 990 | 1168 | 7 |" in text
    assert text.index("left line 11") < text.index("right line 0")


def test_heads_that_each_page_repeats_are_those_of_the_table_there(tmp_path: Path) -> None:
    people = ("Ada", "Grace", "Alan", "Kurt", "Emmy", "Sofja", "Mary", "Hedy", "Joan", "Rosa", "Lise", "Ida")

    def page(names: tuple[str, ...], top: float) -> list[Run]:
        heads = row(top, (72, "Name"), (300, "City of birth"), font="F2")
        return [
            *heads,
            *(run for n, name in enumerate(names, 1) for run in row(top - 16 * n, (72, name), (300, f"{name}burg"))),
        ]

    first = [*lines([*PROSE, "And so on, by name:"]), *page(people[:4], 600)]
    text = content(tmp_path, first, page(people[4:8], 740), page(people[8:], 740))
    assert [part.count("| Name | City of birth |") for part in text.split("\f")[:3]] == [1, 1, 1]
    assert all(f"| {name} | {name}burg |" in text for name in people)
