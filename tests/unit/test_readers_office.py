"""Office files, books, notebooks and rows to documents; hostile ones to errors."""

import io
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("lxml")
pytest.importorskip("openpyxl")
pytest.importorskip("pptx")
pytest.importorskip("mammoth")

import openpyxl
import pptx
from lxml import etree
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadOptions, ReadWarning, archive, read
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI

from tests.unit import files
from tests.unit.files import the_document, the_error, write

TABLE = (
    "<w:tbl>"
    + "".join(
        f"<w:tr>{''.join(f'<w:tc>{files.paragraph(cell)}</w:tc>' for cell in row)}</w:tr>"
        for row in (("Name", "Born"), ("Ada", "1815"))
    )
    + "</w:tbl>"
)


def workbook(**sheets: list[tuple[object, ...]]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.properties.creator = "Ada Lovelace"
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def presentation() -> bytes:
    deck = pptx.Presentation()
    for title, text, notes in (("Engines", "The mill\nThe store", "Say hello."), ("Looms", "Jacquard", "")):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    table = deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_table(2, 2, 0, 0, 100, 100).table
    for row, cells in enumerate((("Name", "Born"), ("Ada", "1815"))):
        for column, cell in enumerate(cells):
            table.cell(row, column).text = cell
    deck.slides.add_slide(deck.slide_layouts[6])
    file = io.BytesIO()
    deck.save(file)
    return file.getvalue()


# Office


def test_headings_lists_and_tables_of_word_become_markdown(tmp_path: Path) -> None:
    body = (
        files.paragraph("Guide", "Heading1")
        + files.paragraph("Linux", "Heading2")
        + files.paragraph("Install it.")
        + TABLE
    )
    document = the_document(write(tmp_path / "a.docx", files.docx(body)))
    assert document.content == "# Guide\n\n## Linux\n\nInstall it.\n\n| Name | Born |\n| --- | --- |\n| Ada | 1815 |"
    assert document.title == "Guide"
    assert document.metadata["author"] == "Ada Lovelace"
    assert document.valid_from == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert the_document(write(tmp_path / "b.docx", files.docx(body, title="Manual"))).title == "Manual"


def test_slides_are_pages_with_their_notes_and_tables(tmp_path: Path) -> None:
    document, warning = read(write(tmp_path / "a.pptx", presentation()), "a.pptx")
    assert isinstance(document, Document)
    first, second, third, fourth, _ = document.content.split("\f")
    assert first == "# Engines\n\n- The mill\n- The store\n\nNotes: Say hello.\n\n"
    assert second == "# Looms\n\nJacquard\n\n"
    assert third.startswith("| Name | Born |")
    assert fourth == "\n\n"
    assert document.metadata["pages"] == 4
    assert isinstance(warning, ReadWarning)
    assert "no text on slide 4" in str(warning)


def test_rows_of_sheets_say_their_heads(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [
        ("Name", "Born", "Alive"),
        ("Ada", datetime(1815, 12, 10), False),
        ("Eve", 2.5, None),
    ]
    long = [("n", "square"), *((n, n * n) for n in range(100))]
    document = the_document(write(tmp_path / "a.xlsx", workbook(People=rows, Squares=long)))
    assert document.content.startswith(
        "# People\n\n| Name | Born | Alive |\n| --- | --- | --- |\n| Ada | 1815-12-10 | FALSE |"
    )
    assert "# Squares\n\n- n: 0; square: 0\n" in document.content
    assert "- n: 99; square: 9801\n" in document.content
    assert document.metadata["sheets"] == ["People", "Squares"]
    assert document.metadata["author"] == "Ada Lovelace"


def test_each_row_can_be_a_document(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", workbook(People=[("name", "born"), ("Ada", 1815), (None, None), ("Alan", 1912)]))
    first, second = read(path, "a.xlsx", ReadOptions(by_row=True))
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert (first.source_key, first.title, first.content) == ("a.xlsx#People!2", "Ada", "name: Ada\nborn: 1815")
    assert (second.source_key, second.metadata["fields"]) == ("a.xlsx#People!4", {"name": "Alan", "born": "1912"})


# Rows


@pytest.mark.parametrize(("delimiter", "name"), [(",", "a.csv"), (";", "a.csv"), ("\t", "a.tsv"), ("|", "a.csv")])
def test_csv_with_any_delimiter_becomes_a_table(tmp_path: Path, delimiter: str, name: str) -> None:
    text = f'Name{delimiter}Note\nAda{delimiter}"says ""{delimiter}"", twice\nover lines"\n'
    document = the_document(write(tmp_path / name, text))
    cell = f'says "{delimiter}", twice over lines'.replace("|", "¦").replace("\t", " ")
    assert document.content == f"| Name | Note |\n| --- | --- |\n| Ada | {cell} |"


def test_csv_by_row_takes_keys_and_titles_from_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,title,text\n7,Engine,It mills.\n")
    document = the_document(path, ReadOptions(by_row=True))
    assert (document.source_key, document.title, document.content) == (
        "a.csv#7",
        "Engine",
        "id: 7\ntitle: Engine\ntext: It mills.",
    )


# Books, e-mail, notebooks


def test_a_book_is_its_chapters_in_order(tmp_path: Path) -> None:
    chapters = {"z.xhtml": "<h1>One</h1><p>It was night.</p>", "a.xhtml": "<h1>Two</h1><p>It was day.</p>"}
    document = the_document(write(tmp_path / "a.epub", files.epub(chapters)))
    assert document.content == "# One\n\nIt was night.\n\n# Two\n\nIt was day.\n"
    assert (document.title, document.metadata["author"], document.metadata["language"]) == (
        "A Book",
        "Mary Shelley",
        "en",
    )
    assert document.valid_from == datetime(1818, 1, 1, tzinfo=UTC)


def test_a_book_has_the_chapter_in_whose_file_its_contents_or_cover_stand(tmp_path: Path) -> None:
    links = "".join(f'<li><a href="#{n}">Chapter {n} of the book</a></li>' for n in range(40))
    chapters = {
        "cover.html": "<p>A Book</p>",
        "contents.html": f"<h1>Contents</h1><ul>{links}</ul>",
        "1.html": f"<h1>Contents</h1><ul>{links[:100]}</ul><h1>One</h1><p>{'It was night. ' * 40}</p>",
        "2.html": f"<h1>Two</h1><p>{'It was day. ' * 40}</p>",
    }
    for guide in ({"toc": "1.html#contents", "cover": "2.html"}, {"toc": "contents.html", "cover": "cover.html#a"}):
        content = the_document(write(tmp_path / "a.epub", files.epub(chapters, guide=guide))).content
        assert content.count("It was night.") == content.count("It was day.") == 40
    assert not content.startswith("A Book")
    assert "Chapter 39" not in content


def test_a_book_whose_date_nobody_knows_has_none(tmp_path: Path) -> None:
    book = files.epub({"1.html": "<p>It weaves.</p>"})
    with zipfile.ZipFile(io.BytesIO(book)) as parts:
        contents = {
            name: parts.read(name).replace(b"1818-01-01", b"0101-01-01T00:00:00+00:00") for name in parts.namelist()
        }
    assert the_document(write(tmp_path / "a.epub", files.zipped(contents))).valid_from is None


OMML = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def omml(text: str) -> str:
    return f"<m:oMath {OMML}>{text}</m:oMath>"


def test_formulas_of_a_document_are_text(tmp_path: Path) -> None:
    run = "<m:r><m:t>{}</m:t></m:r>".format
    square = f"<m:sSup><m:e>{run('c')}</m:e><m:sup>{run('2')}</m:sup></m:sSup>"
    half = f"<m:f><m:num>{run('a')}{run('+b')}</m:num><m:den>{run('2')}</m:den></m:f>"
    body = (
        f"<w:p><w:r><w:t>Energy is </w:t></w:r>{omml(run('E=m') + square)}<w:r><w:t> here.</w:t></w:r></w:p>"
        f"<w:p><m:oMathPara {OMML}>{omml(half)}{omml(run('x'))}</m:oMathPara></w:p>"
    )
    content = the_document(write(tmp_path / "a.docx", files.docx(body))).content
    assert content == "Energy is E=mc^2 here.\n\n(a+b)/2 x"


def test_the_licence_around_a_book_goes_to_the_metadata(tmp_path: Path) -> None:
    text = (
        "The Project Gutenberg eBook of X\n\nTitle: The Loom\n\nAuthor: Ada\n\n"
        "*** START OF THE PROJECT GUTENBERG EBOOK THE LOOM ***\n\nIt weaves.\n\n"
        "*** END OF THE PROJECT GUTENBERG EBOOK THE LOOM ***\nSection 1. General Terms\n"
    )
    document = the_document(write(tmp_path / "a.txt", text))
    assert (document.title, document.content, document.metadata["license"]) == (
        "The Loom",
        "It weaves.\n",
        "Project Gutenberg",
    )


def test_a_book_that_was_zipped_with_its_folder_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(files.epub({"1.html": "<p>It weaves.</p>"}))) as book:
        parts = {f"epub/{name}": book.read(name) for name in book.namelist()}
    assert the_document(write(tmp_path / "a.epub", files.zipped(parts))).content == "It weaves.\n"


def test_no_cell_is_too_far_out(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(("Name", "Born"))
    book.active["ZZ30000"] = "far"
    file = io.BytesIO()
    book.save(file)
    assert "far" in the_document(write(tmp_path / "a.xlsx", file.getvalue())).content


def test_cells_of_a_notebook_keep_code_and_outputs_apart(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Sums\n", "\n", "We add."]},
        {
            "cell_type": "code",
            "source": "1 + 1",
            "outputs": [{"output_type": "execute_result", "data": {"text/plain": ["2"], "text/html": "<b>2</b>"}}],
        },
    ]
    document = the_document(write(tmp_path / "a.ipynb", files.notebook(cells)))
    assert document.title == "Sums"
    assert document.content == "# Sums\n\nWe add.\n\n```python\n1 + 1\n```\n\n```output\n2\n```\n"


# Hostile and broken files


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.epub", "a.ipynb", "a.eml"])
def test_what_is_no_file_of_its_kind_is_an_error_with_advice(tmp_path: Path, name: str) -> None:
    for content in (b"", b"\x00\x01garbage", files.zipped({"x.xml": "<x>"})):
        reason = the_error(write(tmp_path / name, content))
        assert any(words in reason for words in ("damaged", "no headers", "NUL", "invalid")) or (
            not content and reason == "is empty: 0 bytes"
        )


def test_diagrams_and_formulas_of_slides_are_text(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    box = slide.shapes.add_textbox(0, 0, 100, 100)
    box.text_frame.text = "Energy is "
    drawing, diagram = ("http://schemas.openxmlformats.org/drawingml/2006/" + name for name in ("main", "diagram"))
    choice = (
        '<mc:Choice xmlns:a14="x" Requires="a14"><a14:m>' + omml("<m:r><m:t>E=m</m:t></m:r>") + "</a14:m></mc:Choice>"
    )
    fallback = f'<mc:Fallback><a:r xmlns:a="{drawing}"><a:t>a picture</a:t></a:r></mc:Fallback>'
    compatibility = "http://schemas.openxmlformats.org/markup-compatibility/2006"
    formula = f'<mc:AlternateContent xmlns:mc="{compatibility}">{choice}{fallback}</mc:AlternateContent>'
    box.text_frame.paragraphs[0]._p.append(etree.fromstring(formula))
    points = "".join(
        f'<d:pt modelId="{n}"{kind}><d:t><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></d:t></d:pt>'
        for n, (text, kind) in enumerate((("Cards", ""), ("Mill", ""), ("drawn again", ' type="pres"')))
    )
    data = f'<d:dataModel xmlns:d="{diagram}" xmlns:a="{drawing}"><d:ptLst>{points}</d:ptLst></d:dataModel>'
    part = Part(PackURI("/ppt/diagrams/data1.xml"), "application/xml", deck.part.package, data.encode())
    relationship = slide.part.relate_to(part, f"{files._OFFICE}/diagramData")
    frame = slide.shapes.add_table(1, 1, 0, 0, 100, 100)._element
    graphic = frame.find(f".//{{{drawing}}}graphicData")
    graphic.clear()
    graphic.set("uri", diagram)
    graphic.append(etree.fromstring(f'<d:relIds xmlns:d="{diagram}" xmlns:r="{files._OFFICE}" r:dm="{relationship}"/>'))
    file = io.BytesIO()
    deck.save(file)
    content = the_document(write(tmp_path / "a.pptx", file.getvalue())).content
    assert content.strip() == "Energy is E=m\n\n- Cards\n- Mill"


@pytest.mark.parametrize("kind", ["barChart", "bar3DChart"])
def test_charts_are_tables_whatever_their_kind(tmp_path: Path, kind: str) -> None:
    deck = pptx.Presentation()
    data = CategoryChartData()
    data.categories = ["007", "008"]
    data.add_series("Looms", (1.5, 30.0))
    data.add_series("Mills", (None, 4.0))
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 100, 100, data)
    file = io.BytesIO()
    deck.save(file)
    with zipfile.ZipFile(file) as parts:
        contents = {name: parts.read(name) for name in parts.namelist()}
    (name,) = (name for name in contents if name.startswith("ppt/charts/chart"))
    contents[name] = contents[name].replace(b"c:barChart", f"c:{kind}".encode())
    content = the_document(write(tmp_path / "a.pptx", files.zipped(dict(contents)))).content
    assert content.strip() == "|  | Looms | Mills |\n| --- | --- | --- |\n| 007 | 1.5 |  |\n| 008 | 30 | 4 |"


def test_a_cell_over_several_rows_is_in_each_of_them(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (
        ("Region", "Month", "Sum"),
        ("North", "May", 1),
        (None, "June", 2),
        (None, None, 3),
        ("South", "May", 4),
    ):
        book.active.append(row)
    for cells in ("A2:A4", "B3:B4", "A6:B9"):
        book.active.merge_cells(cells)
    file = io.BytesIO()
    book.save(file)
    assert the_document(write(tmp_path / "a.xlsx", file.getvalue())).content.splitlines()[4:] == [
        "| North | May | 1 |",
        "| North | June | 2 |",
        "| North | June | 3 |",
        "| South | May | 4 |",
    ]


def test_formulas_without_values_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", workbook(Sums=[("a", "b"), (1, "=A2+1")], Plain=[("a", "b"), (1, 2)]))
    warning, document = read(path, "a.xlsx")
    assert isinstance(document, Document)
    assert isinstance(warning, ReadWarning)
    assert warning.reason.startswith("formulas without their values in 'Sums':")
    with zipfile.ZipFile(path) as parts:
        contents = {name: parts.read(name) for name in parts.namelist()}
    sheet = contents["xl/worksheets/sheet1.xml"]
    for value in (b'<c r="B2" t="str"><f>A2+1</f><v></v></c>', b'<c r="B2"><f>A2+1</f><v>2</v></c>'):
        start = sheet.index(b'<c r="B2"')
        contents["xl/worksheets/sheet1.xml"] = sheet[:start] + value + sheet[sheet.index(b"</c>", start) + 4 :]
        the_document(write(path, files.zipped(dict(contents))))


def test_simple_fields_of_a_document_are_text(tmp_path: Path) -> None:
    field = '<w:fldSimple w:instr=" SEQ Figure "><w:r><w:t>7</w:t></w:r></w:fldSimple>'
    body = f"<w:p><w:r><w:t>Figure </w:t></w:r>{field}<w:r><w:t>: A loom</w:t></w:r></w:p>"
    assert the_document(write(tmp_path / "a.docx", files.docx(body))).content == "Figure 7: A loom"


def test_a_title_above_the_heads_of_rows_is_no_head(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "Stanley Cups\n\nteam,place\nBlues,STL\n")
    document = the_document(path, ReadOptions(by_row=True))
    assert (document.source_key, document.content) == ("a.csv#4", "team: Blues\nplace: STL")


def test_words_with_readings_or_directions_and_other_breaks_are_text(tmp_path: Path) -> None:
    run = "<w:r><w:t>{}</w:t></w:r>".format
    ruby = (
        f"<w:r><w:ruby><w:rubyPr/><w:rt>{run('とうきょう')}</w:rt><w:rubyBase>{run('東京')}</w:rubyBase></w:ruby></w:r>"
    )
    body = (
        f"<w:p>{run('昨日')}{ruby}{run('に行った。')}</w:p>"
        f'<w:p><w:dir w:val="rtl">{run("القاهرة")}</w:dir><w:bdo w:val="rtl">{run(" מצרים")}</w:bdo></w:p>'
        "<w:p><w:r><w:t>one</w:t><w:ptab/><w:t>two</w:t><w:cr/><w:t>three</w:t></w:r></w:p>"
    )
    content = the_document(write(tmp_path / "a.docx", files.docx(body))).content
    assert content == "昨日東京に行った。\n\nالقاهرة מצרים\n\none two\nthree"


def test_the_line_that_tells_excel_the_separator_is_no_row(tmp_path: Path) -> None:
    document = the_document(write(tmp_path / "a.csv", "sep=;\nname;born\nAda, Countess;1815\n"))
    assert document.content == "| name | born |\n| --- | --- |\n| Ada, Countess | 1815 |"


def test_what_needs_a_password_or_the_old_format_is_said(tmp_path: Path) -> None:
    for name in ("a.docx", "a.pptx", "a.xlsx"):
        reason = the_error(write(tmp_path / name, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 500))
        assert "with a password or in the format of before 2007" in reason


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.epub"])
def test_half_a_file_is_an_error(tmp_path: Path, name: str) -> None:
    whole = {
        "a.docx": files.docx(files.paragraph("x" * 500)),
        "a.pptx": presentation(),
        "a.xlsx": workbook(A=[("x", "y")]),
        "a.epub": files.epub({"a.xhtml": "<p>x</p>"}),
    }[name]
    assert "is it damaged?" in the_error(write(tmp_path / name, whole[: len(whole) // 2]))


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.epub"])
def test_a_part_that_does_not_unpack_is_an_error(tmp_path: Path, name: str) -> None:
    words = " ".join(str(number) for number in range(5000))
    whole = {
        "a.docx": files.docx(files.paragraph(words)),
        "a.xlsx": workbook(A=[(number, words) for number in range(9)]),
        "a.epub": files.epub({"a.xhtml": f"<p>{words}</p>"}),
    }[name]
    with zipfile.ZipFile(io.BytesIO(whole)) as packed:
        member = max(packed.infolist(), key=lambda part: part.compress_size)
    middle = member.header_offset + 60 + member.compress_size // 2
    broken = whole[:middle] + bytes(byte ^ 0x5A for byte in whole[middle : middle + 40]) + whole[middle + 40 :]
    assert "is it damaged?" in the_error(write(tmp_path / name, broken))


def test_entities_that_multiply_are_refused_in_each_kind(tmp_path: Path) -> None:
    assert "declares entities" in the_error(write(tmp_path / "a.docx", files.docx("", document=files.BOMB)))
    for name, part in (("a.xlsx", "xl/workbook.xml"), ("a.pptx", "ppt/presentation.xml"), ("a.epub", "OEBPS/book.opf")):
        assert "declares entities" in the_error(write(tmp_path / name, files.zipped({part: files.BOMB})))


def test_what_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bomb, bomb.open("word/document.xml", "w") as part:
        for _ in range(archive.MAX_XML_BYTES // (1 << 20) + 1):
            part.write(b" " * (1 << 20))
    path = write(tmp_path / "a.docx", file.getvalue())
    assert path.stat().st_size < 1 << 20
    assert "unpacks to more than 128 MB at 'word/document.xml'" in the_error(path)


def test_a_sheet_that_says_it_has_a_million_rows_ends_with_its_last_one(tmp_path: Path) -> None:
    data = workbook(A=[("x", "y"), (1, 2)])
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"].decode().replace("A1:B2", "A1:XFD1048576")
    path = write(tmp_path / "a.xlsx", files.zipped(parts | {"xl/worksheets/sheet1.xml": sheet}))
    assert "| 1 | 2 |" in the_document(path).content
