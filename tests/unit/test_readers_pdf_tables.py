"""PDF: what stands side by side on a page is a table only where it has cells."""

from collections.abc import Sequence
from pathlib import Path
from time import process_time

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


def ruled(xs: Sequence[float], ys: Sequence[float]) -> str:
    """Return the operators that draw the lines of a table."""
    across = [f"{xs[0]} {y} m {xs[-1]} {y} l S" for y in ys]
    return "\n".join([*across, *(f"{x} {ys[0]} m {x} {ys[-1]} l S" for x in xs)])


def test_what_stands_between_lines_is_a_cell_however_narrow_the_gap(tmp_path: Path) -> None:
    cells = [("Part", "Quantity", "Price"), ("Injector 4", "11", "470.00"), ("Pump", "5", "235.00")]
    runs = [run for n, texts in enumerate(cells) for run in row(600 - 16 * n, *zip((75, 125, 172), texts, strict=True))]
    drawn = ruled((72, 122, 169, 215), (612, 596, 580, 564))
    assert content(tmp_path, runs, drawn=drawn) == (
        "| Part | Quantity | Price |\n| --- | --- | --- |\n| Injector 4 | 11 | 470.00 |\n| Pump | 5 | 235.00 |\n\n\f"
    )


def test_lines_of_a_ruled_cell_are_one(tmp_path: Path) -> None:
    runs = [
        *row(600, (75, "Engine"), (175, "Duty")),
        *row(580, (75, "Valve"), (175, "keeps the pressure of the")),
        *row(566, (175, "line below its limit")),
        *row(546, (75, "Pump of"), (175, "lifts water")),
        *row(532, (75, "hall 7")),
    ]
    text = content(tmp_path, runs, drawn=ruled((72, 170, 400), (614, 594, 560, 526)))
    assert "| Valve | keeps the pressure of the line below its limit |\n| Pump of hall 7 | lifts water |" in text


def test_cells_over_columns_and_rows_are_known_by_the_lines_that_lack(tmp_path: Path) -> None:
    runs = [
        *row(592, (75, "Region")),
        *row(600, (175, "2026")),
        *row(584, (155, "Sold"), (215, "Kept")),
        *row(568, (75, "North"), (155, "11"), (215, "12")),
        *row(552, (155, "13"), (215, "14")),
    ]
    lines_drawn = ruled((72, 150, 270), (612, 580, 548))
    lines_drawn += "\n150 596 m 270 596 l S 150 564 m 270 564 l S 210 596 m 210 548 l S"
    assert content(tmp_path, runs, drawn=lines_drawn).startswith(
        "| Region | 2026 Sold | 2026 Kept |\n| --- | --- | --- |\n| North | 11 | 12 |\n| North | 13 | 14 |"
    )


def test_rows_between_two_lines_are_rows(tmp_path: Path) -> None:
    cells = [
        ("Country", "Fund", "Total"),
        ("Bulgaria", "2.3", "5.5"),
        ("Cyprus", "0.2", "0.2"),
        ("Malta", "0.3", "0.7"),
    ]
    runs = [run for n, texts in enumerate(cells) for run in row(600 - 16 * n, *zip((75, 155, 235), texts, strict=True))]
    text = content(tmp_path, runs, drawn=ruled((72, 150, 230, 290), (612, 596, 548)))
    assert "| Bulgaria | 2.3 | 5.5 |\n| Cyprus | 0.2 | 0.2 |\n| Malta | 0.3 | 0.7 |" in text


def test_columns_of_which_only_the_heads_have_lines_are_columns(tmp_path: Path) -> None:
    cells = [("Country", "Home", "Total"), ("Austria", "86", "3,375"), ("Belgium", "14", "3,973")]
    runs = [run for n, texts in enumerate(cells) for run in row(600 - 16 * n, *zip((75, 155, 235), texts, strict=True))]
    drawn = ruled((72, 290), (612, 596, 580, 564)) + "\n150 612 m 150 596 l S 230 612 m 230 596 l S"
    assert "| Austria | 86 | 3,375 |\n| Belgium | 14 | 3,973 |" in content(tmp_path, runs, drawn=drawn)


def test_lines_of_a_drawing_part_no_words(tmp_path: Path) -> None:
    runs = [*lines(PROSE), *row(480, (100, "A note within the drawing"))]
    drawn = ruled((72, 110, 150, 190, 230), (520, 500, 460, 420))
    text = content(tmp_path, runs, drawn=drawn)
    assert "A note within the drawing" in text
    assert "|" not in text


def test_a_ruled_table_stands_where_it_is_in_a_column_or_over_both(tmp_path: Path) -> None:
    left = [f"left line {n} of the first column of text here" for n in range(12)]
    right = [f"right line {n} of the second column of text" for n in range(12)]
    cells = [("Name", "Sum"), ("Ada", "990"), ("Kurt", "500")]

    def table(top: float, x: float, width: float) -> tuple[list[Run], str]:
        runs = [
            run
            for n, texts in enumerate(cells)
            for run in row(top - 12 - 16 * n, (x + 3, texts[0]), (x + width + 3, texts[1]))
        ]
        return runs, ruled((x, x + width, x + 2 * width), [top - 16 * n for n in range(4)])

    over, over_lines = table(740, 72, 250)
    within, within_lines = table(480, 72, 60)
    prose = [*lines(left, top=670), *lines(right, x=330, top=670), *lines(right, x=330, top=480)]
    text = content(tmp_path, [*over, *prose, *within, *lines(left, top=400)], drawn=f"{over_lines}\n{within_lines}")
    expected = "| Name | Sum |\n| --- | --- |\n| Ada | 990 |\n| Kurt | 500 |\n\n"
    assert text.startswith(expected)
    assert text.count(expected) == 2
    assert text.index("left line 11") < text.rindex("| Name") < text.index("right line 0")


def test_narrow_gaps_part_cells_where_other_rows_have_wide_ones(tmp_path: Path) -> None:
    cells = [("Ada Lovelace, Countess", "London"), ("Kurt", "Brno"), ("Emmy Noether", "Erlangen")]
    runs = [run for n, texts in enumerate(cells) for run in row(600 - 14 * n, *zip((72, 198), texts, strict=True))]
    assert "| Ada Lovelace, Countess | London |" in content(tmp_path, runs)


def test_gaps_of_justified_text_part_no_cells(tmp_path: Path) -> None:
    right = ("grain of farms that", "grain of shops that", "grain of towns that")
    runs = [
        run
        for n, text in enumerate(right)
        for run in row(600 - 14 * n, (72, "the old mill of the valley grinds all the"), (260, text))
    ]
    assert "|" not in content(tmp_path, runs)


def test_a_row_that_goes_on_over_the_page_says_there_whose_it_is(tmp_path: Path) -> None:
    xs = (72, 130, 400)
    first = [
        *row(732, (75, "Clause"), (135, "Text")),
        *row(716, (75, "1"), (135, "The buyer pays.")),
        *row(700, (75, "2"), (135, "The seller")),
    ]
    second = [
        *row(732, (75, "Clause"), (135, "Text")),
        *row(716, (135, "ships the goods.")),
        *row(700, (75, "3"), (135, "No more.")),
    ]
    text = content(tmp_path, first, second, drawn=ruled(xs, (744, 728, 712, 696)))
    assert text.split("\f")[1] == "| Clause | Text |\n| --- | --- |\n| 2 | ships the goods. |\n| 3 | No more. |\n\n"


def test_a_table_that_goes_on_in_the_next_column_has_its_heads_there(tmp_path: Path) -> None:
    def part(x: float, cells: list[tuple[str, str]], top: float) -> tuple[list[Run], str]:
        runs = [
            run
            for n, texts in enumerate(cells)
            for run in row(top - 12 - 16 * n, *zip((x + 3, x + 63), texts, strict=True))
        ]
        return runs, ruled((x, x + 60, x + 230), [top - 16 * n for n in range(len(cells) + 1)])

    prose = [f"line {n} of the first column of text stands here" for n in range(20)]
    left, left_lines = part(72, [("Part", "Price"), ("Valve", "117"), ("Pump", "235")], 400)
    right, right_lines = part(330, [("Tank", "940"), ("Bolt", "12"), ("Nut", "7")], 712)
    text = content(
        tmp_path, [*lines(prose), *left, *right, *lines(prose, x=330, top=640)], drawn=f"{left_lines}\n{right_lines}"
    )
    assert "| Part | Price |\n| --- | --- |\n| Tank | 940 |\n" in text


def test_heads_at_the_top_of_each_page_are_no_running_head(tmp_path: Path) -> None:
    pages = [
        [*row(740, (72, "Name"), (300, "Sum"), font="F2")]
        + [
            run
            for n in range(6)
            for run in row(724 - 16 * n, (72, f"{'ABCDEF'[n]}{'vwxyz'[page]}"), (300, f"{page}{n}7"))
        ]
        for page in range(4)
    ]
    text = content(tmp_path, *pages)
    assert text.count("| Name | Sum |") == 4


def test_a_table_of_long_labels_and_narrow_numbers_is_no_column_of_prose(tmp_path: Path) -> None:
    labels = (
        "Revenue from sales of goods",
        "Revenue from services to others",
        "Cost of materials and supplies",
        "Wages, salaries and pensions",
        "Depreciation of plant and tools",
        "Interest on loans and bonds paid",
        "Taxes on income and on capital",
        "Dividends to all shareholders",
        "Changes of inventories of goods",
        "Gains from sales of old plants",
        "Losses from sales of currency",
        "Net profit of the whole year",
    )
    for xs in ((72, 300, 360, 420, 480), (72, 280, 330, 380, 430, 480)):
        cells = [(label, *(f"{n},{k + 10}5" for n in range(1, len(xs)))) for k, label in enumerate(labels)]
        runs = [run for n, texts in enumerate(cells) for run in row(690 - 14 * n, *zip(xs, texts, strict=True))]
        text = content(tmp_path, runs)
        assert f"| Revenue from services to others | {' | '.join(cells[1][1:])} |" in text


def test_labels_that_no_lines_part_stand_each_in_its_row(tmp_path: Path) -> None:
    cells = [
        ("Cost", "Total", "Direct"),
        ("Salaries", "1,314", "940"),
        ("Travel", "94", "62"),
        ("Rent", "120", "80"),
        ("Supplies", "33", "21"),
    ]
    runs = [run for n, texts in enumerate(cells) for run in row(600 - 16 * n, *zip((75, 175, 255), texts, strict=True))]
    drawn = ruled((72, 170, 250, 330), (612, 596, 532))
    drawn += "".join(f"\n170 {596 - 16 * n} m 330 {596 - 16 * n} l S" for n in range(1, 4))
    text = content(tmp_path, runs, drawn=drawn)
    assert "| Salaries | 1,314 | 940 |\n| Travel | 94 | 62 |\n| Rent | 120 | 80 |\n| Supplies | 33 | 21 |" in text


def test_heads_over_columns_are_joined_with_heads_alone(tmp_path: Path) -> None:
    cells = [
        [(75, "Item"), (175, "Amount")],
        *([(75, n), (175, "USD"), (235, m)] for n, m in (("Rent", "500"), ("Power", "90"))),
    ]
    runs = [run for n, texts in enumerate(cells) for run in row(600 - 16 * n, *texts)]
    drawn = ruled((72, 170, 290), (612, 596, 580, 564)) + "\n230 596 m 230 564 l S"
    text = content(tmp_path, runs, drawn=drawn)
    assert text.startswith("| Item | Amount |  |\n| --- | --- | --- |\n| Rent | USD | 500 |\n| Power | USD | 90 |")


def test_heads_below_a_title_are_joined(tmp_path: Path) -> None:
    runs = [
        *row(616, (75, "Table 1: Sales")),
        *row(600, (75, "Region"), (175, "2026")),
        *row(584, (155, "Sold"), (215, "Kept")),
        *row(568, (75, "North"), (155, "11"), (215, "12")),
        *row(552, (75, "South"), (155, "13"), (215, "14")),
    ]
    drawn = "\n".join(f"72 {y} m 270 {y} l S" for y in (628, 612, 580, 564, 548))
    drawn += "\n150 596 m 270 596 l S 72 628 m 72 548 l S 270 628 m 270 548 l S 150 612 m 150 548 l S"
    drawn += "\n210 596 m 210 548 l S"
    text = content(tmp_path, runs, drawn=drawn)
    assert text.startswith(
        "Table 1: Sales\n\n| Region | 2026 Sold | 2026 Kept |\n| --- | --- | --- |\n| North | 11 | 12 |"
    )


def test_a_row_of_a_title_amid_a_table_parts_it_not(tmp_path: Path) -> None:
    names = [("Name", "Salary"), ("Part A: Sales",), ("Ada", "100"), ("Bob", "200"), ("Part B: Mill",), ("Eve", "500")]
    ys = [612 - 16 * n for n in range(7)]
    runs = [
        run for y, texts in zip(ys, names, strict=False) for run in row(y - 12, *zip((75, 235), texts, strict=False))
    ]
    drawn = ruled((72, 290), ys)
    drawn += "".join(f"\n230 {y} m 230 {y - 16} l S" for y, texts in zip(ys, names, strict=False) if len(texts) > 1)
    text = content(tmp_path, runs, drawn=drawn)
    assert text == (
        "| Name | Salary |\n| --- | --- |\n| Part A: Sales |  |\n| Ada | 100 |\n| Bob | 200 |\n"
        "| Part B: Mill |  |\n| Eve | 500 |\n\n\f"
    )


def test_a_long_cell_over_rows_stands_in_the_first_alone(tmp_path: Path) -> None:
    remark = (
        "Delivery of all parts is by road",
        "unless the buyer says otherwise",
        "in writing before the first of May",
    )
    runs = [run for n in range(6) for run in row(600 - 16 * n, (75, f"Part {n}"), (175, f"{n}7"))]
    runs += [run for n, text in enumerate(remark) for run in row(580 - 13 * n, (275, text))]
    drawn = "".join(f"72 {612 - 16 * n} m 270 {612 - 16 * n} l S\n" for n in range(7))
    drawn += "72 612 m 480 612 l S 72 516 m 480 516 l S\n"
    drawn += "\n".join(f"{x} 612 m {x} 516 l S" for x in (72, 170, 270, 480))
    text = content(tmp_path, runs, drawn=drawn)
    assert text.count("Delivery") == 1
    assert f"| Part 0 | 07 | {' '.join(remark)} |" in text
    assert "| Part 5 | 57 |  |" in text


def test_a_chart_of_boxes_and_what_joins_them_is_no_table(tmp_path: Path) -> None:
    boxes = [(200, 600), (80, 500), (320, 500), (80, 400), (320, 400)]
    drawn = "\n".join(f"{x} {y} 150 40 re S" for x, y in boxes)
    drawn += "\n275 600 m 275 570 l S 155 570 m 395 570 l S 155 570 m 155 540 l S 395 570 m 395 540 l S"
    drawn += "\n155 500 m 155 440 l S 395 500 m 395 440 l S"
    runs = [
        *row(616, (230, "Managing Director")),
        *row(516, (100, "Sales"), (340, "Works")),
        *row(416, (100, "Export"), (340, "Foundry")),
    ]
    text = content(tmp_path, runs, drawn=drawn)
    assert text.count("Managing Director") == 1
    assert "|" not in text


def test_lines_through_words_of_a_plot_part_none(tmp_path: Path) -> None:
    drawn = ruled([100 + 60 * n for n in range(6)], [600 - 40 * n for n in range(6)])
    runs = [
        *row(560, (130, "Acme"), (200, "Globex")),
        *row(510, (325, "Umbrella")),
        *row(470, (210, "Initech")),
        *row(430, (140, "Hooli")),
    ]
    text = content(tmp_path, runs, drawn=drawn)
    assert all(name in text for name in ("Acme", "Globex", "Umbrella", "Initech", "Hooli"))


def test_texts_side_by_side_in_a_ruled_table_are_cells(tmp_path: Path) -> None:
    left = (
        "The seller ships the goods to",
        "the buyer within thirty days",
        "of the order and bears the",
        "risk until then.",
    )
    right = (
        "The buyer pays the price in",
        "full upon receipt of the",
        "invoice, without deduction,",
        "to the account named.",
    )
    runs = [*row(600, (75, "Seller"), (305, "Buyer"))]
    runs += [run for n in range(4) for run in row(582 - 13 * n, (75, left[n]), (305, right[n]))]
    text = content(tmp_path, runs, drawn=ruled((72, 300, 530), (614, 595, 538)))
    assert f"| {' '.join(left)} | {' '.join(right)} |" in text


def test_a_map_of_many_strokes_costs_little(tmp_path: Path) -> None:
    stroke = " ".join(f"{100 + n % 7} {100 + n % 5} l" for n in range(200))
    drawn = "\n".join(f"{50 + n % 400} 50 m {stroke} S" for n in range(2_000))
    started = process_time()
    assert PROSE[0] in content(tmp_path, lines(PROSE), drawn=drawn)
    assert process_time() - started < 1.0


def test_a_running_head_above_two_columns_of_labels_is_none_of_a_table(tmp_path: Path) -> None:
    def page(n: int) -> list[Run]:
        rows = [("CHAPTER 8.", "EXAMPLES"), (f"{n}1", f"{n}200"), (f"{n}2", f"{n}300")]
        return [run for k, texts in enumerate(rows) for run in row(740 - 14 * k, *zip((72, 300), texts, strict=True))]

    text = content(tmp_path, *([*page(n), *lines(PROSE, top=600)] for n in range(1, 6)))
    assert "CHAPTER" not in text


def test_bars_that_have_a_number_each_are_no_table(tmp_path: Path) -> None:
    runs = [run for n in range(6) for run in row(588 - 16 * n, (75 + 60 * (n % 4), f"{n}.5"))]
    drawn = ruled((72, 132, 192, 252, 312), [600 - 16 * n for n in range(7)])
    assert "|" not in content(tmp_path, runs, drawn=drawn)
