"""What Office files hold beside their text: charts, comments, tracked changes, text boxes."""

import io
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path

import pytest

pytest.importorskip("lxml")
pytest.importorskip("mammoth")
pytest.importorskip("openpyxl")

import openpyxl
import openpyxl.chart
from lxml import etree
from openpyxl.comments import Comment
from pg_graphrag.beside.readers.office.charts import chart_rows

from tests.unit import files
from tests.unit.files import the_document, write

_CHART = "http://schemas.openxmlformats.org/drawingml/2006/chart"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def chart(title: str, series: dict[str, list[str]], categories: list[str]) -> str:
    def cached(values: list[str], kind: str) -> str:
        points = "".join(f'<c:pt idx="{index}"><c:v>{value}</c:v></c:pt>' for index, value in enumerate(values))
        return f"<c:{kind}Ref><c:{kind}Cache>{points}</c:{kind}Cache></c:{kind}Ref>"

    parts = "".join(
        f"<c:ser><c:tx>{cached([name], 'str')}</c:tx><c:cat>{cached(categories, 'str')}</c:cat>"
        f"<c:val>{cached(values, 'num')}</c:val></c:ser>"
        for name, values in series.items()
    )
    rich = f"<c:tx><c:rich><a:p><a:r><a:t>{title}</a:t></a:r></a:p></c:rich></c:tx>"
    return (
        f'<c:chartSpace xmlns:c="{_CHART}" xmlns:a="{_DRAWING}"><c:chart><c:title>{rich}</c:title><c:plotArea>'
        f"<c:barChart>{parts}</c:barChart></c:plotArea></c:chart></c:chartSpace>"
    )


def test_charts_of_word_are_tables_of_their_values(tmp_path: Path) -> None:
    drawing = (
        f'<w:p><w:r><w:t>Here:</w:t></w:r><w:r><w:drawing><a:graphic xmlns:a="{_DRAWING}"><a:graphicData>'
        f'<c:chart xmlns:c="{_CHART}"'
        f' xmlns:r="{files._OFFICE}" r:id="charts/chart1.xml"/></a:graphicData></a:graphic></w:drawing></w:r></w:p>'
    )
    part = chart("Engines by year", {"Looms": ["3", "5.50"], "Mills": ["1", "2"]}, ["1837", "1843"])
    data = files.docx(drawing + files.paragraph("After"), parts={"charts/chart1.xml": part})
    assert the_document(write(tmp_path / "a.docx", data)).content.strip() == (
        "Here:\n\nEngines by year\n\n|  | Looms | Mills |\n| --- | --- | --- |\n| 1837 | 3 | 1 |\n| 1843 | 5.5 | 2 |\n\nAfter"
    )


# As Excel wrote a check box.
_STREAM = bytes.fromhex(
    "401dd28b42ecce119e0d00aa006002f3000244004601c080010000000d0000800a00008004000000010000800e00008006000080d9100000"
    "0707000031000000437573746f6d2043617074696f6e00005368656574312043000218003500000007000080e1000000ee020000"
)
_ACTIVE_X = "http://schemas.microsoft.com/office/2006/activeX"


def active_x(kind: str, **properties: str) -> str:
    values = "".join(f'<ax:ocxPr ax:name="{name}" ax:value="{value}"/>' for name, value in properties.items())
    how = "persistPropertyBag" if properties else "persistStreamInit"
    head = f'xmlns:ax="{_ACTIVE_X}" xmlns:r="{files._OFFICE}" r:id="rId1" ax:persistence="{how}"'
    return f'<ax:ocx ax:classid="{{{kind}-EC42-11CE-9E0D-00AA006002F3}}" {head}>{values}</ax:ocx>'


def with_controls(folder: str) -> dict[str, str | bytes]:
    """The parts of controls: boxes, a text, one that is chosen, a button, and one that is damaged."""
    controls = (
        *(
            active_x("8BD21D40"),
            active_x("8BD21D50", Caption="By post", Value="0"),
            active_x("8BD21D10", Value="Ada L."),
        ),
        *(active_x("8BD21D30", Value="Osaka"), active_x("D7053240", Caption="Send"), active_x("8BD21D10"), "<ocx"),
    )
    parts: dict[str, str | bytes] = {f"{folder}{n}.xml": part for n, part in enumerate(controls)}
    for number, stream in ((0, _STREAM), (5, _STREAM[:20])):
        relation = f'<Relationship Id="rId1" Type="{files._OFFICE}/b" Target="activeX{number}.bin"/>'
        rels = f'<Relationships xmlns="{files._RELATIONSHIPS}">{relation}</Relationships>'
        place, _, name = folder.rpartition("/")
        parts |= {f"{folder}{number}.bin": stream, f"{place}/_rels/{name}{number}.xml.rels": rels}
    return parts


def test_controls_of_word_say_their_states(tmp_path: Path) -> None:
    parts = with_controls("activeX/activeX")
    body = "".join(
        f'<w:p><w:r><w:t>Field {n}: </w:t></w:r><w:r><w:object><w:control xmlns:r="{files._OFFICE}"'
        f' r:id="activeX/activeX{n}.xml" w:name="C{n}"/></w:object></w:r></w:p>'
        for n in range(8)
    )
    content = the_document(write(tmp_path / "a.docx", files.docx(body, parts=parts))).content
    fields = [" ".join(line.split()) for line in content.split("\n") if line]
    assert fields[:4] == ["Field 0: ☒ Custom Caption", "Field 1: ☐ By post", "Field 2: Ada L.", "Field 3: Osaka"]
    assert fields[4:] == [f"Field {n}:" for n in range(4, 8)]


def test_controls_of_a_sheet_stand_below_it(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Name", "Ada"])
    file = io.BytesIO()
    book.save(file)
    parts = with_controls("xl/activeX/activeX")
    relations = "".join(
        f'<Relationship Id="rId{n}" Type="{files._OFFICE}/control" Target="../activeX/activeX{n}.xml"/>'
        for n in range(7)
    )
    parts["xl/worksheets/_rels/sheet1.xml.rels"] = (
        f'<Relationships xmlns="{files._RELATIONSHIPS}">{relations}</Relationships>'
    )
    with zipfile.ZipFile(file, "a") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    content = the_document(write(tmp_path / "a.xlsx", file.getvalue())).content
    assert content.strip().endswith("☒ Custom Caption\n\n☐ By post\n\nAda L.\n\nOsaka")


def test_comments_of_word_stand_at_the_end(tmp_path: Path) -> None:
    comments = (
        f'<w:comments xmlns:w="{files._W}"><w:comment w:id="0" w:author="Ada">'
        "<w:p><w:r><w:t>Is this </w:t></w:r><w:r><w:t>so?</w:t></w:r></w:p></w:comment></w:comments>"
    )
    body = '<w:p><w:r><w:t>It weaves.</w:t></w:r><w:r><w:commentReference w:id="0"/></w:r></w:p>'
    data = files.docx(body, parts={"comments.xml": comments})
    assert the_document(write(tmp_path / "a.docx", data)).content.strip() == "It weaves.\n\nComment (Ada): Is this so?"


def test_tracked_changes_are_as_if_accepted(tmp_path: Path) -> None:
    run = "<w:r><w:t>{}</w:t></w:r>"
    body = (
        f"<w:p><w:ins>{run.format('added ')}</w:ins><w:del><w:r><w:delText>removed</w:delText></w:r></w:del>"
        f"<w:moveFrom>{run.format('from')}</w:moveFrom><w:moveTo>{run.format('here')}</w:moveTo></w:p>"
    )
    assert the_document(write(tmp_path / "a.docx", files.docx(body))).content.strip() == "added here"


def test_notes_at_cells_stand_below_their_sheet(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (("Name", "Born"), ("Ada", 1815)):
        book.active.append(row)
    book.active["B2"].comment = Comment("In December.", "Grace")
    file = io.BytesIO()
    book.save(file)
    content = the_document(write(tmp_path / "a.xlsx", file.getvalue())).content
    assert content.endswith("| Ada | 1815 |\n\nNote at B2: In December.\n")


def test_heads_in_two_rows_of_a_sheet_are_one_and_durations_are_hours(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ("", "North", None, "South", None),
        ("Year", "Q1", "Q2", "Q1", "Q2"),
        (2023, 1, 2, 3, timedelta(hours=30)),
    ):
        sheet.append(row)
    sheet.merge_cells("B1:C1")
    sheet.merge_cells("D1:E1")
    file = io.BytesIO()
    book.save(file)
    assert the_document(write(tmp_path / "a.xlsx", file.getvalue())).content.splitlines()[2:] == [
        "| Year | North Q1 | North Q2 | South Q1 | South Q2 |",
        "| --- | --- | --- | --- | --- |",
        "| 2023 | 1 | 2 | 3 | 30:00:00 |",
    ]


def test_charts_text_boxes_and_pictures_of_excel_are_read(tmp_path: Path) -> None:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in (("Year", "Looms"), (1837, 3), (1843, 5)):
        book.active.append(row)
    for sheet in (book.active, book.create_chartsheet("Drawn")):
        chart = openpyxl.chart.BarChart()
        chart.title, chart.y_axis.title, chart.x_axis.title = "Looms by year", "pieces", "Year"
        chart.add_data(openpyxl.chart.Reference(book.active, 2, 1, 2, 3), titles_from_data=True)
        chart.set_categories(openpyxl.chart.Reference(book.active, 1, 2, 1, 3))
        sheet.add_chart(chart)
    book.save(file)
    with zipfile.ZipFile(file) as archive:
        parts: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    for name in ("xl/charts/chart1.xml", "xl/charts/chart2.xml"):
        # What Excel writes, and openpyxl does not: what the cells hold.
        text = bytes(parts[name]).decode()
        text = text.replace("</f></strRef>", "</f><strCache><pt idx='0'><v>Looms</v></pt></strCache></strRef>", 1)
        head, mark, rest = text.partition("<cat>")
        cache = "<numCache><pt idx='0'><v>1837</v></pt><pt idx='1'><v>1843</v></pt></numCache>"
        parts[name] = (head + mark + rest.replace("</f>", f"</f>{cache}", 1)).encode()
    box = (
        f'<oneCellAnchor xmlns:a="{_DRAWING}"><sp><txBody><a:p><a:r><a:t>Mind the weft</a:t></a:r></a:p></txBody></sp>'
        '<pic><nvPicPr><cNvPr id="9" name="P" descr="A loom"/></nvPicPr></pic></oneCellAnchor></wsDr>'
    )
    drawing = bytes(parts["xl/drawings/drawing1.xml"]).decode()
    parts["xl/drawings/drawing1.xml"] = drawing.replace("</wsDr>", box).encode()
    chart_text = "Chart: Looms by year (pieces)\nSeries: Looms\nYear: 1837, 1843"
    document = the_document(write(tmp_path / "a.xlsx", files.zipped(parts)))
    assert document.content == (
        "# Sheet\n\n| Year | Looms |\n| --- | --- |\n| 1837 | 3 |\n| 1843 | 5 |\n\n"
        f"{chart_text}\n\nMind the weft\n\nA loom\n\n# Drawn\n\n{chart_text}\n"
    )


def test_categories_on_several_levels_say_all_of_them() -> None:
    levels = "".join(
        "<c:lvl>" + "".join(f'<c:pt idx="{place}"><c:v>{name}</c:v></c:pt>' for place, name in names) + "</c:lvl>"
        for names in ([(0, "Scotland"), (1, "Wales"), (2, "Texas")], [(0, "UK"), (2, "US")])
    )
    values = "".join(f'<c:pt idx="{place}"><c:v>{place}</c:v></c:pt>' for place in range(3))
    series = (
        f"<c:ser><c:cat><c:multiLvlStrRef><c:multiLvlStrCache>{levels}</c:multiLvlStrCache></c:multiLvlStrRef></c:cat>"
        f"<c:val><c:numLit>{values}</c:numLit></c:val></c:ser>"
    )
    _, rows = chart_rows(etree.fromstring(f'<c:chartSpace xmlns:c="{_CHART}">{series}</c:chartSpace>'))
    assert [row[0] for row in rows] == ["", "UK › Scotland", "UK › Wales", "US › Texas"]


def test_diagrams_of_word_are_their_texts(tmp_path: Path) -> None:
    diagram = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
    reference = f'<d:relIds xmlns:d="{diagram}" xmlns:r="{files._OFFICE}" r:dm="diagrams/data1.xml"/>'
    drawing = (
        f'<w:p><w:r><w:drawing><a:graphic xmlns:a="{_DRAWING}"><a:graphicData>{reference}'
        "</a:graphicData></a:graphic></w:drawing></w:r></w:p>"
    )
    points = "".join(
        f"<d:pt{kind}><d:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></d:t></d:pt>"
        for kind, text in (("", "Spin"), ("", "Weave"), (' type="pres"', "Not shown"))
    )
    part = f'<d:dataModel xmlns:d="{diagram}" xmlns:a="{_DRAWING}"><d:ptLst>{points}</d:ptLst></d:dataModel>'
    body = files.paragraph("Before") + drawing + files.paragraph("After")
    document = the_document(write(tmp_path / "a.docx", files.docx(body, parts={"diagrams/data1.xml": part})))
    assert document.content == "Before\n\nSpin\n\nWeave\n\nAfter"


def test_categories_that_are_days_are_written_as_such() -> None:
    numbers = '<c:numCache><c:formatCode>m/d/yyyy</c:formatCode><c:pt idx="0"><c:v>37261</c:v></c:pt></c:numCache>'
    values = '<c:numCache><c:formatCode>General "days"</c:formatCode><c:pt idx="0"><c:v>32</c:v></c:pt></c:numCache>'
    series = f"<c:ser><c:cat>{numbers}</c:cat><c:val>{values}</c:val></c:ser>"
    _, rows = chart_rows(etree.fromstring(f'<c:chartSpace xmlns:c="{_CHART}">{series}</c:chartSpace>'))
    assert rows[1] == ["2002-01-05", "32"]


def test_a_workbook_that_lacks_the_table_of_texts_that_it_names_is_read(tmp_path: Path) -> None:
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["Terra Nova", 3])
    book.save(file)
    with zipfile.ZipFile(file) as archive:
        parts: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    override = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    parts["[Content_Types].xml"] = bytes(parts["[Content_Types].xml"]).replace(b"</Types>", override.encode())
    assert the_document(write(tmp_path / "a.xlsx", files.zipped(parts))).content == "# Sheet\n\nTerra Nova | 3\n"


def control(properties: str, text: str) -> str:
    return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent><w:r><w:t>{text}</w:t></w:r></w:sdtContent></w:sdt>"


def box(value: str, sign: str) -> str:
    word = 'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
    return control(f'<w14:checkbox {word}><w14:checked w14:val="{value}"/></w14:checkbox>', sign)


def field(instruction: str, data: str) -> str:
    """Return a field of a form as Word had them before 2007."""
    marks = {kind: f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("separate", "end")}
    return (
        f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{data}</w:ffData></w:fldChar></w:r>'
        f"<w:r><w:instrText> {instruction} </w:instrText></w:r>{marks['separate']}{marks['end']}"
    )


LISTED = '<w:listItem w:displayText="North" w:value="1"/><w:listItem w:displayText="South" w:value="2"/>'
ENTRIES = '<w:listEntry w:val="Red"/><w:listEntry w:val="Blue"/>'


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (box("1", "☒"), "☒ here"),
        (box("true", "✔"), "☒ here"),
        (box("0", "☐"), "☐ here"),
        (field("FORMCHECKBOX", "<w:checkBox><w:default w:val='0'/><w:checked/></w:checkBox>"), "☒ here"),
        (field("FORMCHECKBOX", "<w:checkBox><w:default w:val='1'/></w:checkBox>"), "☒ here"),
        (field("FORMCHECKBOX", "<w:checkBox><w:default w:val='1'/><w:checked w:val='0'/></w:checkBox>"), "☐ here"),
        (field("FORM</w:instrText><w:instrText>CHECKBOX", "<w:checkBox><w:checked/></w:checkBox>"), "☒ here"),
        ('<w:r><w:sym w:font="Segoe UI Symbol" w:char="2612"/></w:r>', "☒ here"),
        ('<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>', "🗹 here"),
        ('<w:r><w:sym w:font="Wingdings" w:char="00FE"/></w:r>', "🗹 here"),
        ('<w:r><w:sym w:font="Symbol" w:char="00B7"/></w:r>', "• here"),
        (field("FORMDROPDOWN", f"<w:ddList><w:result w:val='1'/>{ENTRIES}</w:ddList>"), "Blue here"),
        (field("FORMDROPDOWN", f"<w:ddList>{ENTRIES}</w:ddList>"), "Red here"),
        (control(f"<w:dropDownList>{LISTED}</w:dropDownList>", "South"), "South here"),
        (control(f'<w:dropDownList w:lastValue="2">{LISTED}</w:dropDownList>', ""), "South here"),
        (control(f'<w:comboBox w:lastValue="East">{LISTED}</w:comboBox>', ""), "East here"),
        (control('<w:date w:fullDate="2024-05-06T00:00:00Z"/>', ""), "2024-05-06 here"),
    ],
)
def test_fields_of_forms_say_their_state(tmp_path: Path, run: str, text: str) -> None:
    body = f'<w:p>{run}<w:r><w:t xml:space="preserve"> here</w:t></w:r></w:p>'
    assert the_document(write(tmp_path / "a.docx", files.docx(body))).content.strip() == text


def test_styles_based_on_headings_are_headings(tmp_path: Path) -> None:
    def style(name: str, called: str, based_on: str = "", outline: str = "") -> str:
        level = f'<w:pPr><w:outlineLvl w:val="{outline}"/></w:pPr>' if outline else ""
        return (
            f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{called}"/><w:basedOn w:val="{based_on}"/>{level}'
            "</w:style>"
        )

    names = ("Chapter", "Part", "Lower", "Own", "German", "Japanese", "Text", "Loop", "Plain")
    levels = dict(zip(names, (1, 1, 2, 4, 2, 3, 0, 0, 0), strict=True))
    styles = [
        style("Chapter", "Chapter", "Heading1"),
        style("Part", "Part", "Chapter"),
        style("Lower", "Lower", "Heading1", "1"),
        style("Own", "Own", "Plain", "3"),
        style("German", "Überschrift 2"),
        style("Japanese", "見出し 3"),
        style("Text", "Text", "Heading1", "9"),
        style("Loop", "Loop", "Round"),
        style("Round", "Round", "Loop"),
        style("Plain", "Plain"),
    ]
    direct = '<w:p><w:pPr><w:outlineLvl w:val="1"/></w:pPr><w:r><w:t>Direct</w:t></w:r></w:p>'
    styled = direct.replace("<w:pPr>", '<w:pPr><w:pStyle w:val="Plain"/>').replace("Direct", "Styled")
    body = "".join(files.paragraph(name, name) for name in levels) + direct + styled
    document = the_document(write(tmp_path / "a.docx", files.docx(body, more_styles="".join(styles))))
    expected = [f"{'#' * level} {name}".strip() for name, level in levels.items()]
    assert document.content.split("\n\n") == [*expected, "## Direct", "## Styled"]


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (0.15, "0%", "15%"),
        (0.1534, "0.00%", "15.34%"),
        (-0.15, "0%", "-15%"),
        (0.00005, "General", "0.00005"),
        (0.00005, "0.00E+00", "5.00E-05"),
        (12345, "##0.0E+0", "12.3E+3"),
        (0.00012, "##0.0E+0", "120.0E-6"),
        (-1234567, "##0.00E+00", "-1.23E+06"),
        (999999, "##0.0E+0", "1.0E+6"),
        (0, "##0.0E+0", "0.0E+0"),
        (12345, "00.0E+0", "01.2E+4"),
        (99.99, "0.0E+0", "1.0E+2"),
        (1.5e-7, "##0.###E-0", "150E-9"),
        (1e20, "General", "1E+20"),
        (0.1 + 0.2, "General", "0.3"),
        (1234.5, "#,##0.00", "1,234.50"),
        (-5, "#,##0_);[Red](#,##0)", "(5)"),
        (1234567, '0.0,,"M"', "1.2M"),
        (-5, '"$"#,##0.00', "-$5.00"),
        (5, "_-* #,##0.00 €_-;-* #,##0.00 €_-", "5.00 €"),
        (5, "[$€-407] #,##0.00", "€ 5.00"),
        (2.75, "# ?/?", "2 3/4"),
        (7, "0000", "0007"),
        (0, '_($* #,##0.00_);_($* (#,##0.00);_($* "-"??_);_(@_)', "0"),
        (0, "#,##0.00", "0.00"),
        (5551234, "000-0000", "555-1234"),
        (12, '0 "kg"', "12 kg"),
        (1.005, "0.00", "1.01"),
        (75, '[>=50]"pass" 0;"fail" 0', "pass 75"),
        (5, ";;;", "5"),
        (True, "General", "TRUE"),
        (date(2024, 5, 6), "mmm-yy", "2024-05"),
        (date(2024, 5, 6), "d. mmmm yyyy", "2024-05-06"),
        (datetime(2024, 5, 6, 7, 8), "m/d/yy h:mm", "2024-05-06 07:08"),
        (datetime(2024, 5, 6, 7, 8), "ddd h:mm", "2024-05-06 07:08"),
        (time(7, 8), "h:mm AM/PM", "07:08"),
        (timedelta(hours=30), "[h]:mm:ss", "30:00:00"),
        ("#N/A", "General", "#N/A"),
        ("007", "@", "007"),
    ],
)
def test_cells_are_as_they_are_shown(tmp_path: Path, value: object, number_format: str, text: str) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(("Name", "Value"))
    sheet.append(("a", value))
    sheet["B2"].number_format = number_format
    file = io.BytesIO()
    book.save(file)
    assert the_document(write(tmp_path / "a.xlsx", file.getvalue())).content.splitlines()[-1] == f"| a | {text} |"
