"""Files to documents."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadError, ReadWarning, Skipped, read, walk
from pg_graphrag.beside.readers.web.html import extract

from tests.unit.files import the_document, the_error, write

# Text


def test_text_is_read_whole_and_titled_with_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.txt", "  Zeile 1\r\nline 2\rline 3\n")
    os.utime(path, (0, 86400))
    assert the_document(path) == Document(
        content="  Zeile 1\nline 2\nline 3\n",
        source_key="notes.txt",
        title="notes",
        metadata={"path": "notes.txt", "mime": "text/plain", "modified": "1970-01-02T00:00:00+00:00"},
    )


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    assert the_error(tmp_path / "gone.txt") == "No such file or directory"


# Markdown


@pytest.mark.parametrize(
    ("text", "title", "content"),
    [
        ("intro\n\n# The *Title* #\n## sub\n", "The *Title*", None),
        ("The Title\n=====\ntext\n\nPart\n---\n\n---\n", "The Title", "# The Title\ntext\n\n## Part\n\n---\n"),
        ("---\nauthor: x\ntitle: 'The Title'\n---\n# Other\n", "The Title", "# Other\n"),
        ("---\nauthor: x\n---\n# The Title\n", "The Title", "# The Title\n"),
        ("+++\ntitle = 'The Title'\n+++\ntext", "The Title", "text"),
        ("---\ntitle: {{ broken\n---\n\ntext", "{{ broken", "text"),
        ("```sh\n# a comment\n<!-- kept -->\n```\n# The Title\n", "The Title", None),
        ("<!-- note\nSPDX-License-Identifier: MIT -->\ntext <!-- kept -->\n", "page", "text <!-- kept -->\n"),
        ("[![build](https://x/y.svg)](https://x/y) [![b](c)](d)\n# T\n", "T", "# T\n"),
        ("#hashtag and text", "page", None),
        ("---\njust a rule\n\ntext", "page", None),
        ("# D&eacute;but\n&iquest;Qu&#233;? a &lt; b &amp; c", "Début", "# Début\n¿Qué? a &lt; b &amp; c"),
        ("`&eacute;` is\n\n```\n&eacute;\n```\n", "page", None),
    ],
)
def test_markdown_title_and_text(tmp_path: Path, text: str, title: str, content: str | None) -> None:
    document = the_document(write(tmp_path / "page.md", text))
    assert (document.title, document.content) == (title, text if content is None else content)


def test_front_matter_goes_to_the_metadata(tmp_path: Path) -> None:
    text = "---\ntitle: T\ndate: 2024-05-06\nauthor: [Ada, Eve]\ntags: [a, b]\n---\n<!-- SPDX-License-Identifier: MIT -->\nx"
    document = the_document(write(tmp_path / "a.md", text))
    assert document.valid_from == datetime(2024, 5, 6, tzinfo=UTC)
    names = ("author", "tags", "license", "published")
    assert [document.metadata[name] for name in names] == ["Ada, Eve", ["a", "b"], "MIT", "2024-05-06T00:00:00+00:00"]


def test_front_matter_that_multiplies_stays_text(tmp_path: Path) -> None:
    bomb = "\n".join(f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]" for last, name in pairwise("abcdefghij"))
    document = the_document(write(tmp_path / "a.md", f"---\na: &a [x]\n{bomb}\n---\ntext"))
    assert len(json.dumps(document.metadata)) < 1000


def test_front_matter_of_a_million_values_stays_text(tmp_path: Path) -> None:
    # A parser takes minutes and gigabytes for a file of some megabytes.
    path = write(tmp_path / "a.md", f"---\ntitle: No\ntags: [{'1,' * 500_000}]\n---\nText.\n")
    read_one = the_document(path)
    assert "tags" not in read_one.metadata
    assert read_one.content.startswith("---\n")


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
        "# Head\n\nOne bold,\ntwo lines.\n\nloose text\n- first\n- second item\n\n3. third\n4. fourth\n\n"
        "```\n  SELECT *\n    FROM t;\n```\n\n| k | v |\n| --- | --- |\n| a | 1 and more |"
    )


@pytest.mark.parametrize(
    "navigation",
    [
        '<div class="nav"><a href="a">Home</a> | <a href="b">Index</a></div>',
        # Publican, mdBook, Docusaurus, Texinfo, LaTeX2HTML, GitBook, and what was written by hand.
        '<div id="banner"><a href="/get"><span>Download the ebook</span></a></div>',
        '<p><a href="x.epub">Get this book as EPUB</a></p>',
        '<p><a href="x.epub">Get the book</a> <a href="p.pdf">Save page as PDF</a></p>',
        '<div><a href="a.pdf">Save as a PDF file</a> | <a href="p">Printable version</a></div>',
        '<ul class="docnav"><li><a accesskey="p" href="a"><b>Prev</b>A.1. One</a></li><li>The Book</li>'
        '<li><a href="b"><b>Next</b>A.2. Two</a></li></ul>',
        '<ul><li><a href="a"><strong>Précédent</strong>Un</a></li><li><a href="b"><strong>Suivant</strong>Deux</a></li></ul>',
        '<p><a href="a">前へ</a> <a href="b">目次</a> <a href="c">次へ</a></p>',
        '<div><a rel="prev" href="a">Installing</a><a rel="next" href="b">Running</a></div>',
        '<p>Next: <a href="a">Two</a>, Previous: <a href="b">One</a>, Up: <a href="c">Top</a></p>',
        '<p><b>Next:</b> <a href="a">Two</a> <b>Up:</b> <a href="b">The Book</a> <b>Previous:</b> <a href="c">One</a></p>',
        '<div><a href="a">« Installing</a><a href="b">Running »</a></div>',
        '<p><a href="a">Home</a> <a href="b">Running →</a></p>',
        '<table><tr><td><a href="a">Prev</a></td><td>Chapter 2. Two</td><td><a href="b">Next</a></td></tr></table>',
        '<a href="#main">Skip to main content</a><a href="/edit">Edit this page</a>',
        '<a href="src.html" class="src">Source</a><a href="#x">¶</a>',
        '<div role="navigation"><ul><li><a href="a">Guide</a></li></ul></div>',
        '<table class="nav_table"><tr><td><a href="a">Back</a></td><td><a href="b">Next page</a></td></tr></table>',
        '<ul id="breadcrumbs"><li><a href="a">Home</a></li><li>Here</li></ul>',
        '<p>[<a href="a">Top</a>][<a href="b">Contents</a>][<a href="c">Index</a>]</p>',
        '<p><a href="a">&lt;&lt;</a> <a href="u">Contents</a> <a href="b">&gt;&gt;</a></p>',
        # In no block of their own.
        '<a href="b"><img alt="next" src="n.png"></a><br><b> Next:</b> <a href="b">Two</a> <b> Up:</b> <a href="u">The Book</a>'
        '<b> Previous:</b> <a href="a">One</a><br>',
        '<a href="a">Prev</a><br><a href="b">Next</a><hr>',
        *(
            f'<p><a href="a">{back}</a> <a href="b">{on}</a></p>'
            for back, on in (
                ("Föregående", "Nästa"),
                ("Poprzedni", "Następny"),
                ("Předchozí", "Další"),
                ("Önceki", "Sonraki"),
                ("Trang trước", "Trang sau"),
                ("Попередня", "Наступна"),
                ("Προηγούμενο", "Επόμενο"),
                ("पिछला", "अगला"),
                ("הקודם", "הבא"),
            )
        ),
        '<div id="cookie-banner"><p>We use cookies. Do you agree to all of them?</p></div>',
        '<div class="sidebar"><h3>More</h3><a href="a">The first of many</a><a href="b">The second</a></div>',
    ],
)
def test_html_that_is_called_navigation_and_is_links_is_left_out(navigation: str) -> None:
    assert extract(f"<body>{navigation}<h1>T</h1><p>Text.</p></body>")[1] == "# T\n\nText."


@pytest.mark.parametrize(
    "links",
    ["Vorheriges Kapitel | Nächstes Kapitel", "Chapitre suivant", "Página anterior | Capítulo siguiente",
     "Return to the main page", "Read this book offline", "Share on Mastodon | Tweet this", "Main page | Previous section"],
)  # fmt: skip
def test_links_that_lead_on_in_more_words_are_left_out(links: str) -> None:
    bar = "".join(f'<a href="x">{link}</a> ' for link in links.split(" | "))
    assert extract(f"<body><p>{bar}</p><h1>T</h1><p>Text.</p><p>{bar}</p></body>")[1] == "# T\n\nText."


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ('<ul class="menu"><li>Soup</li><li>Fish</li></ul>', "- Soup\n- Fish"),
        ('<p><a href="a">Ann</a> and <a href="b">Bob</a></p>', "Ann and Bob"),
        ('<p>See <a href="a">A</a> | <a href="b">B</a></p>', "See A | B"),
        ('<ul><li><a href="a">One</a></li><li><a href="b">Two</a></li></ul>', "- One\n- Two"),
        ('<div class="cookie"><p>Bake it.</p></div>', "Bake it."),
        ('<div class="header"><h1>T</h1><a href="a">Long words of a link</a></div>', "# T\n\nLong words of a link"),
        ('<h2><a class="header" href="#x">Closures</a></h2><p>Text.</p>', "## Closures\n\nText."),
        ('<p>Go to the <a href="a">next</a> section.</p>', "Go to the next section."),
        ('<p>Please <a href="i">report an issue</a>.</p>', "Please report an issue."),
        # Names of functions.
        ('<ul><li><a href="n">next</a></li><li><a href="p">prev</a></li></ul>', "- next\n- prev"),
        ('<p><a href="p">print</a>, <a href="q">println</a></p>', "print, println"),
        (
            '<p>As the <a href="p">previous</a> chapter says, iterators are lazy until they are consumed.</p>',
            "As the previous chapter says, iterators are lazy until they are consumed.",
        ),
        ('<p><a href="a">Chapter 1</a></p>', "Chapter 1"),
        (
            '<ul><li><a href="a">Home</a></li><li><a href="b">Away games</a></li><li><a href="c">Cups</a></li></ul>',
            "- Home\n- Away games\n- Cups",
        ),
        ('Text with <a href="a">Next</a> in it.', "Text with Next in it."),
        ('<a href="a">Kestrel</a> and <a href="b">Heron</a>', "Kestrel and Heron"),
        ('<a href="a">Prev</a> <a href="b">Next</a><br>Ann founded Acme.<br>', "Prev Next\nAnn founded Acme."),
        ('<b>Ann</b> wrote <a href="a">Next</a> and <a href="b">Home</a>.', "Ann wrote Next and Home."),
        # Quotations, arrows that lead to anything, a firm, a shortcut.
        ("<ul><li><a>«Война и мир»</a></li><li><a>«Анна Каренина»</a></li></ul>", "- «Война и мир»\n- «Анна Каренина»"),
        (
            '<p><a href="a">« Le Monde », 1944</a></p><p><a href="b">‹Der Spiegel›</a></p>',
            "« Le Monde », 1944\n\n‹Der Spiegel›",
        ),
        (
            "<ul><li><a>Learn more about the merger →</a></li><li><a>Read the annual report »</a></li></ul>",
            "- Learn more about the merger →\n- Read the annual report »",
        ),
        ('<p><a href="a">← The merger</a></p>', "← The merger"),
        ("<ul><li><a>«Вверх»</a></li><li><a>« Accueil »</a></li></ul>", "- «Вверх»\n- « Accueil »"),
        ('<p><a href="a">NeXT</a></p>', "NeXT"),
        # Operations of an API.
        ("<ul><li><a>Get a page</a></li><li><a>Save a page</a></li></ul>", "- Get a page\n- Save a page"),
        (
            "<ul><li><a>Get the manual</a></li><li><a>Export a chapter</a></li><li><a>Get a book</a></li></ul>",
            "- Get the manual\n- Export a chapter\n- Get a book",
        ),
        ('<p><a href="a" accesskey="h">Our house</a></p>', "Our house"),
        # Pandoc's title and notes.
        ('<header id="title-block-header"><h1>T</h1><p>Ada</p></header><p>Text.</p>', "# T\n\nAda\n\nText."),
        ('<p>Text.</p><aside role="doc-endnotes"><p>A note.</p></aside>', "Text.\n\nA note."),
        (
            '<ul><li><input type="checkbox" disabled checked> Done</li><li><input type="checkbox" disabled> Not yet</li></ul>',
            "- ☒ Done\n- ☐ Not yet",
        ),
    ],
)
def test_html_that_is_text_stays_whatever_it_is_called(kept: str, text: str) -> None:
    assert extract(f"<body>{kept}</body>")[1] == text


def test_html_declares_its_encoding_behind_a_long_description(tmp_path: Path) -> None:
    for length in range(1990, 2060, 3):
        page = f'<meta name="description" content="{"x" * length}"><meta charset=utf-8><p>Größe'
        assert the_document(write(tmp_path / "a.html", page)).content == "Größe"


def test_text_has_words_that_lines_part_joined(tmp_path: Path) -> None:
    text = "Il corri\u2010\n       gera la page.\nA\u2010\n\nnot joined, nor well-\nknown.\n"
    expected = "Il corrigera la page.\nA\u2010\n\nnot joined, nor well-\nknown.\n"
    assert the_document(write(tmp_path / "a.txt", text)).content == expected


def test_html_of_a_page_with_an_article_is_the_article() -> None:
    _, text = extract(
        "<body><div>menu</div><main><header><h1>T</h1></header><p>x</p><aside>note</aside></main><div>ads</div></body>"
    )
    assert text == "# T\n\nx\n\nnote"


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
    for declared, encoding in (("klingon", "utf-8"), ("utf-8", "cp1252"), ("ascii", "utf-8"), ("x-sjis", "cp932")):
        text = "東京の会議①" if encoding == "cp932" else "Käthe wohnt in der Straße."
        page = f'<meta charset="{declared}"><p>{text}'.encode(encoding)
        assert the_document(write(tmp_path / "c.html", page)).content.strip() == text
    assert "invalid UTF-8" in the_error(write(tmp_path / "d.html", b'<meta charset="utf-8"><p>' + bytes(range(1, 256))))


def test_html_states_its_author_and_dates(tmp_path: Path) -> None:
    page = """<html lang="de"><meta name="author" content="Ada"><meta property="article:published_time"
        content="2024-05-06T07:00:00+02:00"><p>x"""
    document = the_document(write(tmp_path / "a.html", page))
    assert (document.metadata["author"], document.metadata["language"]) == ("Ada", "de")
    assert document.valid_from == datetime(2024, 5, 6, 5, tzinfo=UTC)


def test_html_cells_that_span_rows_are_repeated_and_layout_tables_are_text() -> None:
    _, text = extract("<table><tr><th>a<th colspan=2>b<tr><td rowspan=2>1<td>2<td>3<tr><td>4<td>5</table>")
    assert text == "| a | b |  |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n| 1 | 4 | 5 |"
    _, text = extract("<table><tr><td><h2>Head</h2><p>one</p><p>two</p></td></tr></table>")
    assert text.split() == ["Head", "one", "two"]


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
    assert document.content == "## 11.2. Index Types\n\nPostgreSQL has B-tree.\n\n```\nCREATE INDEX name\n  ON t;\n```"


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
        (b'{"text": "\xff\x01\x02"}', "invalid UTF-8 at byte 31"),
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


# Folders


def found(root: Path, *exclude: str) -> list[str]:
    items = [item for item in walk.files(root, exclude) if not isinstance(item, Skipped)]
    return [item[1] if isinstance(item, tuple) else f"error: {item}" for item in items]


def test_what_is_skipped_is_named(tmp_path: Path) -> None:
    for name in ("b.md", "a/x.BIN", ".hidden.md", ".git/e.md", "README", "skip.bin"):
        write(tmp_path / name, "x")
    skipped = [item for item in walk.files(tmp_path, ["skip.*"]) if isinstance(item, Skipped)]
    assert {(item.key, item.kind) for item in skipped} == {
        (".git/", "hidden"),
        (".hidden.md", "hidden"),
        ("README", "without an ending"),
        ("a/x.BIN", ".bin"),
    }


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
    assert [entry for entry in walk.files(tmp_path / "docs") if isinstance(entry, Skipped)] == [
        Skipped("loop/", "links to folders")
    ]
    assert found(tmp_path / "docs") == ["a.md", "link.md", "self.md"]
    assert "symbolic links" in the_error(tmp_path / "docs/self.md")


def test_a_link_to_a_file_outside_the_folder_is_named_and_not_read(tmp_path: Path) -> None:
    write(tmp_path / "private/key.md", "secret")
    write(tmp_path / "drop/a.md", "x")
    (tmp_path / "drop/b.md").symlink_to(tmp_path / "private/key.md")
    (tmp_path / "drop/c.md").symlink_to("../drop/../private/key.md")
    (tmp_path / "drop/d.md").symlink_to("b.md")
    assert [item for item in walk.files(tmp_path / "drop") if isinstance(item, Skipped)] == [
        Skipped(name, "links to files outside the folder") for name in ("b.md", "c.md", "d.md")
    ]
    assert found(tmp_path / "drop") == ["a.md"]
    # Who names the link itself, or a folder by a link, means it.
    assert the_document(tmp_path / "drop/b.md").content == "secret"
    (tmp_path / "linked").symlink_to(tmp_path / "drop")
    assert found(tmp_path / "linked") == ["a.md"]


def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert list(walk.files(tmp_path)) == [Skipped("pipe.txt", "pipes, sockets and devices")]
    (error,) = walk.files(tmp_path / "pipe.txt")
    assert isinstance(error, ReadError)
    assert error.reason == "is a pipe, socket or device"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.csv"])
@pytest.mark.parametrize("text", ["", " \n\n", "\ufeff"])
def test_a_document_without_text_is_one_and_said(tmp_path: Path, name: str, text: str) -> None:
    document, warning = read(write(tmp_path / name, text), name)
    assert isinstance(document, Document)
    assert document.content.strip() == ""
    assert isinstance(warning, ReadWarning)
    assert warning.reason == "holds no text"


def test_words_are_whole_without_readings_and_marks_that_mean_nothing(tmp_path: Path) -> None:
    page = "<p>昨日<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</rt></ruby>に行った。</p>"
    page += "<p>Donau&shy;dampf&#8203;schiff می&zwnj;شود</p>"
    assert (
        the_document(write(tmp_path / "a.html", page)).content == "昨日東京に行った。\n\nDonaudampfschiff می\u200cشود"
    )


def test_formulas_are_text(tmp_path: Path) -> None:
    square = "<msup><mi>x</mi><mn>2</mn></msup>"
    page = (
        f"<p>Here <math><mfrac><mrow><mi>a</mi><mo>+</mo>{square}</mrow><mn>2</mn></mfrac></math> is half,</p>"
        f'<p>and <math><semantics>{square}<annotation encoding="application/x-tex">x^{{2}}</annotation></semantics></math>'
        " is TeX.</p>"
    )
    assert the_document(write(tmp_path / "a.html", page)).content.strip() == (
        "Here (a+x^2)/2 is half,\n\nand x^{2} is TeX."
    )


def test_a_formula_that_is_nested_deeply_is_text(tmp_path: Path) -> None:
    page = f"<p><math>{'<mrow>' * 1000}<mi>x</mi>{'</mrow>' * 1000}</math></p>"
    assert the_document(write(tmp_path / "a.html", page)).content.strip() == "x"


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


def test_a_kind_whose_library_is_not_there_says_what_to_install(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pdf", "x")
    blocked = (
        "import sys, pathlib; sys.modules['pypdfium2'] = None; from pg_graphrag.beside.readers import read;"
        f"print(*read(pathlib.Path({str(path)!r}), 'a.pdf'))"
    )
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True)
    assert (
        "needs the Python package pypdfium2. Install the extra files: pip install '.[files]' in a checkout"
        in done.stdout
    )
