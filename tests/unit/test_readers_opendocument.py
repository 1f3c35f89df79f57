"""OpenDocument files to documents; broken and hostile ones to errors."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadOptions, ReadWarning, read
from pg_graphrag.beside.readers.isolated import IsolatedReader
from pg_graphrag.beside.readers.office import opendocument

from tests.unit import files
from tests.unit.files import the_document, the_error, write

_NAMES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        **{name: name for name in ("office", "text", "table", "style", "presentation", "meta", "manifest", "form")},
        "draw": "drawing",
        "svg": "svg-compatible",
    }.items()
)
META = (
    "<office:meta><dc:title>{title}</dc:title><meta:initial-creator>Ada Lovelace</meta:initial-creator>"
    "<meta:creation-date>2023-01-02T03:04:05</meta:creation-date><dc:date>2024-05-06T07:08:09</dc:date></office:meta>"
)
STYLES = (
    '<style:style style:name="Title"/><style:style style:name="P1" style:parent-style-name="Preformatted_20_Text"/>'
    '<style:style style:name="Preformatted_20_Text"/>'
    '<style:style style:name="Example"><style:text-properties style:font-name="Courier New"/></style:style>'
)


def opened(kind: str, body: str, title: str = "", **parts: str) -> bytes:
    """Return an OpenDocument file of a kind: text, spreadsheet or presentation."""
    content = (
        f"<office:automatic-styles>{STYLES}</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}>"
    )
    return files.zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {_NAMES}>{content}</office:body></office:document-content>",
            "meta.xml": f'<office:document-meta {_NAMES} xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"{META.format(title=title)}</office:document-meta>",
            **{name.replace("__", "/").replace("_xml", ".xml"): part for name, part in parts.items()},
        }
    )


def p(text: str, style: str = "") -> str:
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def table(rows: list[list[str]], name: str = "T") -> str:
    cells = ("".join(f"<table:table-cell>{p(cell) if cell else ''}</table:table-cell>" for cell in row) for row in rows)
    return (
        f'<table:table table:name="{name}">'
        f"{''.join(f'<table:table-row>{row}</table:table-row>' for row in cells)}</table:table>"
    )


def test_a_text_has_headings_lists_tables_code_and_notes(tmp_path: Path) -> None:
    body = (
        p("The", "Title")
        + p("Engine", "Title")
        + "<text:table-of-content>"
        + p("1 Mill … 3")
        + "</text:table-of-content>"
        + '<text:h text:outline-level="2">The mill</text:h>'
        + "<text:p>It<text:s text:c='2'/>grinds<text:note><text:note-citation>1</text:note-citation>"
        + f"<text:note-body>{p('Slowly.')}</text:note-body></text:note> numbers.</text:p>"
        + f"<text:list><text:list-item>{p('one')}<text:list><text:list-item>{p('inner')}</text:list-item></text:list>"
        + f"</text:list-item><text:list-item>{p('two')}</text:list-item></text:list>"
        + table([["Name", "Born"], ["Ada", "1815"]])
        + p("def f():", "P1")
        + p("<text:s text:c='4'/>return 1", "P1")
        + p("g()", "Example")
    )
    document = the_document(write(tmp_path / "a.odt", opened("text", body)))
    assert document.title == "The Engine"
    assert document.content == (
        "# The Engine\n\n## The mill\n\nIt grinds numbers.\n\nNote: Slowly.\n\n- one\n  - inner\n- two\n\n"
        "| Name | Born |\n| --- | --- |\n| Ada | 1815 |\n\n```\ndef f():\n    return 1\ng()\n```\n"
    )
    assert document.metadata["author"] == "Ada Lovelace"
    assert document.valid_from == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_formulas_are_text(tmp_path: Path) -> None:
    frame = '<draw:frame><draw:object xmlns:xlink="http://www.w3.org/1999/xlink" xlink:href="./Object 1"/></draw:frame>'
    formula = (
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mrow><mi>E</mi><mo>=</mo><msup><mi>c</mi><mn>2</mn></msup>'
        '</mrow><annotation encoding="StarMath 5.0">E = c^2</annotation></semantics></math>'
    )
    data = opened("text", p(f"Energy is {frame} here."), **{"Object 1__content_xml": formula})
    assert the_document(write(tmp_path / "a.odt", data)).content.strip() == "Energy is E=c^2 here."


def test_deleted_text_is_left_out_comments_stand_behind_and_pictures_are_their_descriptions(tmp_path: Path) -> None:
    body = (
        f"<text:tracked-changes><text:changed-region><text:deletion>{p('gone')}</text:deletion></text:changed-region>"
        f"</text:tracked-changes><text:p>Here<office:annotation>{p('Really?')}</office:annotation>"
        "<draw:frame><draw:image/><svg:desc>An engine</svg:desc></draw:frame></text:p>"
        f"<text:p><draw:frame><draw:text-box>{p('In a box')}</draw:text-box></draw:frame></text:p>"
    )
    document = the_document(write(tmp_path / "a.odt", opened("text", body, title="Own title")))
    assert (document.title, document.content) == ("Own title", "Here\n\nComment: Really?\n\nAn engine\n\nIn a box\n")


def test_sheets_are_rows_with_their_heads_and_repeated_cells_are_filled(tmp_path: Path) -> None:
    rows = "".join(
        f"<table:table-row>{''.join(f'<table:table-cell>{p(cell)}</table:table-cell>' for cell in row)}"
        '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
        for row in (("Name", "Born"), ("Ada", "1815"))
    )
    repeated = (
        '<table:table-row table:number-rows-repeated="2"><table:table-cell table:number-columns-repeated="2">'
        f'{p("x")}</table:table-cell></table:table-row><table:table-row table:number-rows-repeated="1048000">'
        "<table:table-cell/></table:table-row>"
    )
    body = f'<table:table table:name="People">{rows}{repeated}</table:table><table:table table:name="Empty"/>'
    path = write(tmp_path / "a.ods", opened("spreadsheet", body))
    document, warning = read(path, "a.ods")
    assert isinstance(document, Document)
    assert document.content == ("# People\n\n| Name | Born |\n| --- | --- |\n| Ada | 1815 |\n| x | x |\n| x | x |\n")
    assert document.metadata["sheets"] == ["People", "Empty"]
    assert isinstance(warning, ReadWarning)
    assert "no cells in 'Empty'" in str(warning)
    first, *_ = read(path, "a.ods", ReadOptions(by_row=True))
    assert isinstance(first, Document)
    assert (first.source_key, first.title) == ("a.ods#People!2", "Ada")


def test_a_presentation_is_a_page_for_each_slide(tmp_path: Path) -> None:
    body = (
        '<draw:page><draw:frame presentation:class="title"><draw:text-box>'
        f"{p('Looms')}</draw:text-box></draw:frame><draw:custom-shape>{p('Jacquard')}</draw:custom-shape>"
        f"<presentation:notes><draw:frame><draw:text-box>{p('Say hello.')}</draw:text-box></draw:frame>"
        "</presentation:notes></draw:page><draw:page/>"
    )
    document, warning = read(write(tmp_path / "a.odp", opened("presentation", body)), "a.odp")
    assert isinstance(document, Document)
    assert document.content == "# Looms\n\nJacquard\n\nNotes: Say hello.\n\n\f\n\n\f"
    assert (document.title, document.metadata["pages"]) == ("Looms", 2)
    assert "no text on slide 2" in str(warning)


def test_what_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"
    encrypted = f"<manifest:manifest {_NAMES}>{entry}</manifest:manifest>"
    locked = opened("text", p("x"), **{"META-INF__manifest_xml": encrypted})
    assert the_error(write(tmp_path / "a.odt", locked)) == "is encrypted; save it without a password"
    assert "holds no text" in the_error(write(tmp_path / "b.odt", opened("text", p(""))))
    assert "lacks content.xml" in the_error(write(tmp_path / "c.odt", files.zipped({"mimetype": "x"})))
    assert "is it damaged?" in the_error(write(tmp_path / "d.odt", opened("text", p("x"))[:200]))
    assert "declares entities" in the_error(write(tmp_path / "e.odt", files.zipped({"content.xml": files.BOMB})))
    monkeypatch.setattr(opendocument, "_MAX_CELLS", 100)
    cell = f'<table:table-cell table:number-columns-repeated="9999">{p("x")}</table:table-cell>'
    bomb = f'<table:table><table:table-row table:number-rows-repeated="1048576">{cell}</table:table-row></table:table>'
    assert "more than 100 cells" in the_error(write(tmp_path / "f.ods", opened("spreadsheet", bomb)))


def test_charts_are_tables_of_their_values(tmp_path: Path) -> None:
    title = f"<chart:title>{p('Engines by year')}</chart:title>"
    chart = (
        f'<office:document-content {_NAMES} xmlns:chart="urn:oasis:names:tc:opendocument:xmlns:chart:1.0"><office:body>'
        f"<office:chart><chart:chart>{title}{table([['', 'Looms'], ['1837', '3'], ['1843', '5']])}</chart:chart></office:chart>"
        "</office:body></office:document-content>"
    )
    body = p(
        'Before<draw:frame><draw:object xlink:href="./Object 1" xmlns:xlink="http://www.w3.org/1999/xlink"/></draw:frame>'
    )
    data = opened("text", body + p("After"), **{"Object 1__content_xml": chart})
    assert the_document(write(tmp_path / "a.odt", data)).content == (
        "Before\n\nEngines by year\n\n|  | Looms |\n| --- | --- |\n| 1837 | 3 |\n| 1843 | 5 |\n\nAfter\n"
    )


OBJECT = '<draw:frame><draw:object xlink:href="./Object 1" xmlns:xlink="http://www.w3.org/1999/xlink"/><draw:image/></draw:frame>'
NOTE = '<office:annotation><dc:creator xmlns:dc="http://purl.org/dc/elements/1.1/">Grace</dc:creator>{}</office:annotation>'


def content_of(kind: str, body: str) -> str:
    return (
        f'<office:document-content {_NAMES} xmlns:chart="urn:oasis:names:tc:opendocument:xmlns:chart:1.0"><office:body>'
        f"<office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )


def test_notes_at_cells_charts_and_boxes_of_a_sheet_are_read(tmp_path: Path) -> None:
    chart = (
        f"<chart:chart><chart:title>{p('By year')}</chart:title>{table([['', 'Looms'], ['1837', '3']])}</chart:chart>"
    )
    box = f"<draw:frame><draw:text-box>{p('In the box')}</draw:text-box></draw:frame>"
    noted = f"{NOTE.format(p('Is it so?'))}{p('3')}{OBJECT}"
    sheet = (
        f'<table:table table:name="S"><table:shapes>{box}</table:shapes>'
        f'<table:table-row table:number-rows-repeated="2"><table:table-cell>{p("Year")}</table:table-cell></table:table-row>'
        f'<table:table-row><table:table-cell table:number-columns-repeated="27">{p("x")}</table:table-cell>'
        f"<table:table-cell>{noted}</table:table-cell></table:table-row></table:table>"
    )
    data = opened("spreadsheet", sheet, **{"Object 1__content_xml": content_of("chart", chart)})
    text = the_document(write(tmp_path / "a.ods", data)).content
    assert text.endswith("\n\nNote at AB3: Is it so?\n\nChart: By year Series: Looms Categories: 1837\n\nIn the box\n")


def test_comments_on_slides_and_sheets_within_them_are_read(tmp_path: Path) -> None:
    inner = content_of("spreadsheet", table([["Ship", "Master"], ["Terra Nova", "Evans"]]))
    page = f"<draw:page>{NOTE.format(p('Too long?'))}{OBJECT}</draw:page>"
    data = opened("presentation", page, **{"Object 1__content_xml": inner})
    assert the_document(write(tmp_path / "a.odp", data)).content == (
        "| Ship | Master |\n| --- | --- |\n| Terra Nova | Evans |\n\nComment (Grace): Too long?\n\n\f"
    )


def test_a_file_whose_list_of_parts_is_broken_is_read(tmp_path: Path) -> None:
    """As LibreOffice's own templates have it."""
    broken = '<manifest:manifest><manifest:file-entry manifest:full-path="/"/></manifest:manifest>'
    data = opened("text", p("The loom wove."), **{"META-INF__manifest_xml": broken})
    assert the_document(write(tmp_path / "a.ott", data)).content == "The loom wove.\n"
    locked = broken.replace("/></", "><manifest:encryption-data/></manifest:file-entry></")
    data = opened("text", p("x"), **{"META-INF__manifest_xml": locked})
    assert "is encrypted" in the_error(write(tmp_path / "b.ott", data))


def test_styles_that_rest_on_each_other_are_each_passed_once(tmp_path: Path) -> None:
    """Not once for each of their heirs, which took minutes."""
    count = 60_000
    chain = "".join(f'<style:style style:name="S{n}" style:parent-style-name="S{n + 1}"/>' for n in range(count))
    ends = f'<style:style style:name="S{count}" style:parent-style-name="Example"/>'
    loop = '<style:style style:name="A" style:parent-style-name="B"/><style:style style:name="B" style:parent-style-name="A"/>'
    styles = (
        f"<office:document-styles {_NAMES}><office:styles>{chain}{ends}{loop}</office:styles></office:document-styles>"
    )
    path = write(tmp_path / "a.odt", opened("text", p("run()", "S0") + p("Text.", "A"), styles_xml=styles))
    with IsolatedReader(ReadOptions(), seconds=60) as reader:
        (document,) = reader.read(path, "a.odt")
    assert isinstance(document, Document), document
    assert document.content == "```\nrun()\n```\n\nText.\n"


def test_fields_of_forms_say_their_state(tmp_path: Path) -> None:
    forms = (
        '<form:checkbox xml:id="c1" form:id="c1" form:current-state="checked" form:label="Penicillin"/>'
        '<form:checkbox form:id="c2" form:state="unchecked" form:label="Latex"/>'
        '<form:listbox form:id="c3"><form:option form:label="North"/>'
        '<form:option form:label="South" form:current-selected="true"/></form:listbox>'
        '<form:text form:id="c4" form:current-value="Ada"/>'
    )
    controls = [f'<draw:control draw:control="c{number}"/>' for number in range(1, 5)]
    body = f"<office:forms><form:form>{forms}</form:form></office:forms>{controls[0]}" + p(" and ".join(controls[1:]))
    document = the_document(write(tmp_path / "a.odt", opened("text", body)))
    assert document.content == "☒ Penicillin\n\n☐ Latex and South and Ada\n"
