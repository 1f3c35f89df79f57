"""Files to documents."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("lxml")
pytest.importorskip("pypdf")

from pg_graphrag.client import Document
from pg_graphrag.readers import ReadError, read, walk
from pg_graphrag.readers.html import extract
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def the_document(path: Path) -> Document:
    (document,) = read(path, path.name)
    assert isinstance(document, Document), document
    return document


def the_error(path: Path) -> str:
    (error,) = read(path, path.name)
    assert isinstance(error, ReadError), error
    assert str(path) in str(error)
    return error.reason


# Text and its encodings


def test_text_is_read_whole_and_titled_with_its_name(tmp_path: Path) -> None:
    document = the_document(write(tmp_path / "notes.txt", "  Zeile 1\r\nline 2\rline 3\n"))
    assert document == Document(
        content="  Zeile 1\nline 2\nline 3\n",
        source_key="notes.txt",
        title="notes",
        metadata={"path": "notes.txt", "mime": "text/plain"},
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_byte_order_marks_decide_the_encoding(tmp_path: Path, encoding: str) -> None:
    mark = {"utf-16-be": "\ufeff", "utf-32-be": "\ufeff"}.get(encoding, "")
    assert the_document(write(tmp_path / "a.txt", f"{mark}héllo 知識 😀".encode(encoding))).content == "héllo 知識 😀"


def test_invalid_utf8_is_an_error_with_its_byte(tmp_path: Path) -> None:
    reason = the_error(write(tmp_path / "a.txt", b"good \xe4\xb8\xad then \xff bad"))
    assert "invalid UTF-8 at byte 14 (0xff)" in reason


def test_truncated_utf16_is_an_error_with_its_byte(tmp_path: Path) -> None:
    assert "invalid UTF-16-LE at byte 4" in the_error(write(tmp_path / "a.txt", b"\xff\xfea\x00b"))


@pytest.mark.parametrize(("data", "byte"), [(b"ab\xc3\xa9\x00c", 4), (b"\xff\xfea\x00\x00\x00", 4)])
def test_a_nul_is_an_error_with_its_byte(tmp_path: Path, data: bytes, byte: int) -> None:
    assert f"NUL character at byte {byte}" in the_error(write(tmp_path / "a.txt", data))


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    assert the_error(tmp_path / "gone.txt") == "No such file or directory"


# Markdown


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n# The *Title* #\n## sub\n", "The *Title*"),
        ("The Title\n=====\ntext", "The Title"),
        ("---\nauthor: x\ntitle: 'The Title'\n---\n# Other\n", "The Title"),
        ("---\nauthor: x\n---\n# The Title\n", "The Title"),
        ("```sh\n# a comment\n```\n# The Title\n", "The Title"),
        ("#hashtag and text", "page"),
        ("", "page"),
    ],
)
def test_markdown_title(tmp_path: Path, text: str, title: str) -> None:
    document = the_document(write(tmp_path / "page.md", text))
    assert (document.title, document.content) == (title, text)


# HTML


def test_html_keeps_the_structure_of_the_text_and_leaves_navigation_out() -> None:
    title, text = extract(
        """<!DOCTYPE html><html><head><title>A&nbsp;page
           of text</title><style>p{}</style></head><body>
        <header>Site</header><nav><a href="/">Home</a></nav><script>var x = "<p>no</p>"</script>
        <h1>Head <a class="headerlink" href="#h">¶</a></h1>
        <p>One <b>bold</b>,<br>two   <!-- not this -->lines.</p>loose text
        <ul><li>first</li><li>second <i>item</i></li></ul>
        <ol start="3"><li>third</li><li>fourth</li></ol>
        <pre>
  SELECT *
    FROM t;
</pre>
        <table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>1<p>and</p><p>more</p></td></tr></table>
        <p hidden>hidden</p><footer>Site footer</footer></body></html>"""
    )
    assert title == "A page of text"
    assert text == (
        "Head\n\nOne bold,\ntwo lines.\n\nloose text\n- first\n- second item\n\n3. third\n4. fourth\n\n"
        "  SELECT *\n    FROM t;\n\nk | v\na | 1\nand\nmore"
    )


def test_html_of_a_page_with_an_article_is_the_article() -> None:
    _, text = extract(
        "<body><div>menu</div><main><header><h1>T</h1></header><p>x</p><aside>note</aside></main><div>ads</div></body>"
    )
    assert text == "T\n\nx\n\nnote"


@pytest.mark.parametrize(
    ("soup", "text"),
    [
        ("", ""),
        ("   \n", ""),
        ("<!-- only -->", ""),
        ("just text", "just text"),
        ("<p>one<p>two</b></div> <i>three", "one\n\ntwo three"),
        ("<td>cell</td> after", "cell after"),
        ("a &lt;b&gt; &amp; &bogus; &#x1F600;", "a <b> & &bogus; 😀"),
        ("<p>x</p><unknown>y</unknown>", "x\n\ny"),
        ("<ul><li></li><li> </li></ul><p>z", "z"),
        ("<p>日本語の<br/>文章</p>", "日本語の\n文章"),
    ],
)
def test_html_soup_has_a_defined_text(soup: str, text: str) -> None:
    assert extract(soup)[1].split() == text.split()


def test_html_nested_two_thousand_deep_is_read_and_deeper_is_an_error(tmp_path: Path) -> None:
    assert extract("<div>" * 2_000 + "x" + "</div>" * 2_000)[1] == "x"
    deeper = write(tmp_path / "a.html", "<p>lost?</p>" + "<div>" * 100_000 + "x")
    assert "nested more than 2048 elements deep" in the_error(deeper)


def test_html_with_a_text_of_twelve_megabytes_is_read_whole() -> None:
    assert len(extract("<p>" + "word " * 2_400_000)[1]) == 12_000_000 - 1


def test_html_is_decoded_as_it_declares(tmp_path: Path) -> None:
    page = '<html><head><meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS"></head><p>日本語</p>'
    assert the_document(write(tmp_path / "a.html", page.encode("shift_jis"))).content == "日本語"
    page = '<?xml version="1.0" encoding="ISO-8859-1"?><html><head><title>é</title></head><body>ü</body></html>'
    document = the_document(write(tmp_path / "b.xhtml", page.encode("latin-1")))
    assert (document.title, document.content) == ("é", "ü")
    assert "unknown encoding" in the_error(write(tmp_path / "c.html", '<meta charset="klingon"><p>x'))
    assert "invalid UTF-8 at byte 3" in the_error(write(tmp_path / "d.html", b"<p>\xff"))


def test_html_without_a_title_takes_its_first_heading_then_its_name(tmp_path: Path) -> None:
    assert the_document(write(tmp_path / "a.html", "<h1>Head <i>line</i></h1>x")).title == "Head line"
    assert the_document(write(tmp_path / "b.html", "<p>x")).title == "b"


def test_docbook_pages_of_the_postgresql_manual_lose_header_footer_and_anchors(tmp_path: Path) -> None:
    page = """<html><head><title>11.2.&nbsp;Index Types</title></head><body id="docContent">
      <div class="navheader"><table><tr><td>Prev</td><td>Up</td></tr></table></div>
      <div class="sect1"><h2 class="title">11.2.&nbsp;Index Types <a href="#I" class="id_link">#</a></h2>
      <div class="toc"><dl><dt>11.2.1. B-Tree</dt></dl></div>
      <p><span class="productname">PostgreSQL</span> has <a class="xref" href="x.html">B-tree</a>.</p>
      <pre class="synopsis">CREATE INDEX <em>name</em>
  ON t;</pre></div><div class="navfooter">Next</div></body></html>"""
    document = the_document(write(tmp_path / "indexes-types.html", page))
    assert document.title == "11.2. Index Types"
    assert document.content == "11.2. Index Types\n\nPostgreSQL has B-tree.\n\nCREATE INDEX name\n  ON t;"


# JSON Lines


def test_jsonl_is_one_document_a_line(tmp_path: Path) -> None:
    lines = [
        {"id": 7, "title": "T", "text": "x", "year": 1843},
        {"source_key": "k", "id": "other", "content": "y", "metadata": {"a": [1]}},
        {"text": ""},
    ]
    path = write(tmp_path / "d.jsonl", "\ufeff" + "\n\n".join(json.dumps(line) for line in lines) + "\r\n")
    base = {"path": "d.jsonl", "mime": "application/jsonl"}
    assert list(read(path, "d.jsonl")) == [
        Document("x", "7", "T", base | {"year": 1843}),
        Document("y", "k", None, base | {"a": [1], "id": "other"}),
        Document("", "d.jsonl#5", None, base),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{not json}", "line 2 is not JSON"),
        (b'{"text": "\xff"}', "invalid UTF-8 at byte 31"),
        (b"[1]", "line 2 is not a JSON object"),
        (b'{"title": "no text"}', 'line 2 has no text: it needs a string "content" or "text"'),
        (b'{"text": 5}', "line 2 has no text"),
        (b'{"text": "a\\u0000b"}', "line 2 has a NUL character"),
        (b'{"text": "x", "meta": {"k": ["\\u0000"]}}', "line 2 has a NUL character"),
        (b'{"text": "\\ud800"}', "line 2 is not JSON in UTF-8"),
        (b'{"text": "x", "title": 1}', '"title" is not a string'),
        (b'{"text": "x", "id": [1]}', "is neither a string nor a whole number"),
        (b'{"text": "x", "metadata": "m"}', '"metadata" is not an object'),
        (b'{"text": ' + b"[" * 100_000, "line 2"),
    ],
)
def test_a_bad_line_is_an_error_and_the_others_are_read(tmp_path: Path, line: bytes, reason: str) -> None:
    path = write(tmp_path / "d.jsonl", b'{"text": "one"}\n' + b"     " + line + b'\n{"text": "three"}\n')
    first, error, last = read(path, "d.jsonl")
    assert isinstance(error, ReadError)
    assert reason in error.reason
    assert isinstance(first, Document)
    assert isinstance(last, Document)
    assert (first.content, last.content) == ("one", "three")


# PDF


def make_pdf(path: Path, *pages: str, title: str | None = None, password: str | None = None) -> Path:
    writer = PdfWriter()
    font = DictionaryObject(
        {NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1")}
        | {NameObject("/BaseFont"): NameObject("/Helvetica")}
    )
    for text in pages:
        page = writer.add_blank_page(200, 200)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode("latin-1") if text else b"")
        page[NameObject("/Contents")] = writer._add_object(stream)
        resources = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): resources})
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    with path.open("wb") as file:
        writer.write(file)
    return path


def test_pdf_is_one_document_of_all_pages(tmp_path: Path) -> None:
    document = the_document(make_pdf(tmp_path / "a.pdf", "Ada Lovelace", "Charles Babbage", title="Letters"))
    assert document.title == "Letters"
    assert document.content == "Ada Lovelace\n\nCharles Babbage"
    assert document.metadata == {"path": "a.pdf", "mime": "application/pdf", "pages": 2}
    assert the_document(make_pdf(tmp_path / "b.pdf", "x")).title == "b"


def test_pdf_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    assert "cannot be read as PDF" in the_error(write(tmp_path / "a.pdf", b"no pdf at all"))
    assert "cannot be read as PDF" in the_error(write(tmp_path / "empty.pdf", b""))
    whole = make_pdf(tmp_path / "b.pdf", "x" * 50).read_bytes()
    assert "cannot be read as PDF" in the_error(write(tmp_path / "cut.pdf", whole[:40]))
    assert "no text in its 1 pages" in the_error(make_pdf(tmp_path / "scan.pdf", ""))
    assert "is encrypted" in the_error(make_pdf(tmp_path / "secret.pdf", "x", password="secret"))


# Folders


def found(root: Path, *exclude: str) -> list[str]:
    return [item[1] if isinstance(item, tuple) else f"error: {item}" for item in walk.files(root, exclude)]


def test_a_folder_is_searched_for_known_suffixes_in_order(tmp_path: Path) -> None:
    for name in ("b.md", "a/c.TXT", "a/z/d.html", "x.bin", ".hidden.md", ".git/e.md", "a/f.jsonl", "g.pdf", "README"):
        write(tmp_path / name, "x")
    assert found(tmp_path) == ["b.md", "g.pdf", "a/c.TXT", "a/f.jsonl", "a/z/d.html"]
    assert found(tmp_path, "a/*", "g.pdf") == ["b.md"]
    assert found(tmp_path, "*.md", "d.html") == ["g.pdf", "a/c.TXT", "a/f.jsonl"]


def test_a_named_file_is_read_whatever_its_suffix(tmp_path: Path) -> None:
    path = write(tmp_path / "README", "text")
    assert list(walk.files(path)) == [(path, "README")]
    assert the_document(path).content == "text"


def test_links_that_loop_are_safe_and_links_to_files_are_read(tmp_path: Path) -> None:
    write(tmp_path / "docs/a.md", "x")
    (tmp_path / "docs/loop").symlink_to(tmp_path / "docs")
    (tmp_path / "docs/self.md").symlink_to(tmp_path / "docs/self.md")
    (tmp_path / "docs/link.md").symlink_to(tmp_path / "docs/a.md")
    assert found(tmp_path / "docs") == ["a.md", "link.md", "self.md"]
    assert "symbolic links" in the_error(tmp_path / "docs/self.md")


def test_what_is_not_there_or_not_named_in_utf8_is_an_error(tmp_path: Path) -> None:
    (error,) = walk.files(tmp_path / "none")
    assert isinstance(error, ReadError)
    assert error.reason == "no such file or directory"
    try:
        (tmp_path / os.fsdecode(b"caf\xe9.md")).write_text("x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (error,) = walk.files(tmp_path)
    assert isinstance(error, ReadError)
    assert "caf\\xe9.md: its name is not UTF-8" in str(error)
