"""AsciiDoc, Org, LaTeX, wiki pages, DocBook and subtitles to documents."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadError, ReadWarning, read

from tests.unit.files import the_document, write


def document(tmp_path: Path, suffix: str, text: str) -> Document:
    return the_document(write(tmp_path / f"guide.{suffix}", text))


def content(tmp_path: Path, suffix: str, text: str) -> str:
    path = write(tmp_path / f"guide.{suffix}", text)
    return next(item for item in read(path, path.name) if isinstance(item, Document)).content


# Of each format: (suffix, text, title, metadata, the day it was published, content).
HEADS = [
    (
        "adoc",
        "= The Manual\nBob Stone <bob@x.org>\nv1.2, 2026-03-02\n:toc:\n:product: Kestrel\n\nOf {product} and {other}.\n",
        "The Manual",
        {"author": "Bob Stone"},
        "2026-03-02",
        "# The Manual\n\nOf Kestrel and {other}.\n",
    ),
    (
        "org",
        "#+TITLE: My Notes\n#+AUTHOR: Bob Stone\n#+DATE: <2026-03-02 Mon>\n#+OPTIONS: toc:2\n\n"
        "* TODO [#A] Call Ann   :work:phone:\n:PROPERTIES:\n:ID: 7\n:END:\nText.\n",
        "My Notes",
        {"author": "Bob Stone"},
        "2026-03-02",
        "# Call Ann\n\nText.\n",
    ),
    (
        "tex",
        '\\documentclass{article}\n\\usepackage{x}\n\\title{On \\emph{Types}}\n\\author{Per Martin-L\\"of \\and Ann}\n'
        "\\date{2026-03-02}\n\\begin{document}\n\\maketitle\n\\section{Start}\nText.\n\\end{document}\nnever\n",
        "On Types",
        {"author": "Per Martin-Löf, Ann"},
        "2026-03-02",
        "## Start\n\nText.\n",
    ),
    (
        "mediawiki",
        "<pre>\n  BIP: 11\n  Title: Standard Transactions\n  Created: 2011-10-18\n</pre>\n\n==Abstract==\n\nText.\n",
        "Standard Transactions",
        {"bip": "11"},
        "2011-10-18",
        "## Abstract\n\nText.\n",
    ),
]


@pytest.mark.parametrize(("suffix", "text", "title", "metadata", "published", "markdown"), HEADS)
def test_what_stands_before_the_text_is_title_and_metadata(
    tmp_path: Path, suffix: str, text: str, title: str, metadata: dict[str, str], published: str, markdown: str
) -> None:
    read_one = document(tmp_path, suffix, text)
    assert (read_one.title, read_one.content) == (title, markdown)
    assert read_one.metadata.items() >= metadata.items()
    assert str(read_one.metadata["published"]).startswith(published)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("== Use\n\n=== Files\n\nText.\n", "## Use\n\n### Files\n\nText.\n"),
        ("Old Style\n=========\n\nPart\n----\n\nText.\n", "# Old Style\n\n## Part\n\nText.\n"),
        ("Like:\n\n[source,python]\n----\nx = 1 <1>\n----\n<1> One.\n", "Like:\n\n```python\nx = 1\n```\n\n1. One.\n"),
        ("....\n= no heading\n....\n", "```\n= no heading\n```\n"),
        ("Text.\n\n  indented\n  code\n\nMore.\n", "Text.\n\n```\nindented\ncode\n```\n\nMore.\n"),
        ("[NOTE]\n====\nMind this.\n====\n", "Mind this.\n"),
        ("////\nnot said\n////\n// nor this\nText.\n", "Text.\n"),
        ("include::other.adoc[]\nimage::x.png[A picture]\nText.\n", "Text.\n"),
        ("* a\n** b\n. c\n", "- a\n  - b\n1. c\n"),
        ("Kestrel::\n  An engine.\n\nOther:: A thing.\n", "Kestrel:\nAn engine.\n\nOther: A thing.\n"),
        ('[cols="1,1"]\n|===\n|Name |Use\n\n|a |b\n|===\n', "| Name | Use |\n| --- | --- |\n| a | b |\n"),
        ("[[s_undo]]\n== Undoing\n\nSee <<s_undo>>, <<s_x,the next>>.\n", "## Undoing\n\nSee Undoing, the next.\n"),
        ("A commit.(((git commands, commit)))\n", "A commit.\n"),
        (
            "See https://x.org/a[the site], link:b.html[page], linkgit:git-log[1] and https://y.org[].\n",
            "See the site, page, git-log and https://y.org.\n",
        ),
        ('Use `+a{b}+`, press kbd:[Ctrl+C] and “read” "`this`".\n', "Use `a{b}`, press Ctrl+C and “read” “this”.\n"),
        ("++++\n<b>raw</b>\n++++\nText.\n", "Text.\n"),
    ],
)
def test_asciidoc_is_read_as_markdown(tmp_path: Path, text: str, markdown: str) -> None:
    assert content(tmp_path, "adoc", text) == markdown


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("* One\n** Two\nText.\n", "# One\n\n## Two\n\nText.\n"),
        ("#+begin_src sh\n,* x\n#+end_src\n", "```sh\n* x\n```\n"),
        ("#+BEGIN_QUOTE\nSaid.\n#+END_QUOTE\n", "Said.\n"),
        ("#+begin_export html\n<b>\n#+end_export\nText.\n", "Text.\n"),
        ("#+begin_src sh\nnever closed\n", "never closed\n"),
        (": fixed\n:  width\nText.\n", "```\nfixed\n width\n```\n\nText.\n"),
        ("| a | b |\n|---+---|\n| 1 | 2 |\n", "| a | b |\n| --- | --- |\n| 1 | 2 |\n"),
        (
            "See [[https://x.org][the\nsite]], =code=, ~more~ and /this/ a/b/c.\n",
            "See the\nsite, `code`, `more` and this a/b/c.\n",
        ),
        ("# a comment\nText.[fn:1]\n\\columnbreak\n", "Text.\n"),
        ("- term :: what it is\n", "- term: what it is\n"),
    ],
)
def test_org_is_read_as_markdown(tmp_path: Path, text: str, markdown: str) -> None:
    assert content(tmp_path, "org", text) == markdown


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("\\chapter{One}\\label{c:1}\n\\subsection*{Two {\\em parts}}\nText.\n", "# One\n\n### Two parts\n\nText.\n"),
        (
            "A space\n\\index{space!of points}\nis \\emph{open}\\index{open} by \\cite[p.~3]{x} and \\cref{y}.\n",
            "A space\nis open by and .\n",
        ),
        ("Costs 5\\% more. % a comment\n% another\nText.\n", "Costs 5% more. Text.\n"),
        ("``Quoted'' -- \\'etude, \\c{c}, na\\\"{\\i}ve, \\ss{}\\&\\_\n", "“Quoted” – étude, ç, naïve, ß&_\n"),
        ("\\LaTeX\\ and \\Coq are.\n", "LaTeX and Coq are.\n"),
        ("$a\\_b$ \\[x \\% y\\]\n", "$a\\_b$ \\[x \\% y\\]\n"),
        ("\\begin{equation}\\label{e}\na=b\n\\end{equation}\n", "$$\na=b\n$$\n"),
        ("\\begin{verbatim}\n\\x{%}\n\\end{verbatim}\n", "```\n\\x{%}\n```\n"),
        ("Call \\verb|a_b| or \\texttt{c\\_d}.\n", "Call `a_b` or `c_d`.\n"),
        ("\\begin{itemize}\n\\item One\n\\item[Two] two\n\\end{itemize}\n", "- One\n- Two: two\n"),
        ("Text\\footnote{Or \\emph{not}.}.\n", "Text (Or not.).\n"),
        ("\\href{https://x.org}{the site}\n", "the site\n"),
        ("\\section{\\texorpdfstring{$\\Pi$}{Pi}-types}\n", "## Pi-types\n"),
        (
            "\\begin{tabular}{l|r}\n\\hline\nName & Use \\\\\na & b \\\\\n\\end{tabular}\n",
            "| Name | Use |\n| --- | --- |\n| a | b |\n",
        ),
        (
            "\\begin{snip}{haskell}\nf :: Int\n\\end{snip}\n\\src{snippet01}\nText.\n",
            "```haskell\nf :: Int\n```\n\nText.\n",
        ),
        (
            "\\begin{multicols}{2}\nText.\n\\end{multicols}\n\\begin{block}{Arg}\nMore.\n\\end{block}\n",
            "Text.\n\nMore.\n",
        ),
        ("\\begin{tikzpicture}\n\\draw (0,0);\n\\end{tikzpicture}\nText.\n", "Text.\n"),
        ("\\begin{theorem}[Brouwer]\nSo.\n\\end{theorem}\n", "Brouwer.\nSo.\n"),
        ("\\newcommand{\\x}[1]{\\emph{#1}}\n\\def\\y{z}\nText.\n", "Text.\n"),
        ("Unclosed \\emph{text and $5.\n", "Unclosed text and $5.\n"),
    ],
)
def test_latex_is_read_as_markdown(tmp_path: Path, text: str, markdown: str) -> None:
    assert content(tmp_path, "tex", text) == markdown


def test_latex_within_itself_is_written_as_often_as_it_says_something(tmp_path: Path) -> None:
    # Each was joined once for all that it stands in: a megabyte took hours.
    count = 30_000
    assert content(tmp_path, "tex", "\\section{" * count + "Deep" + "}" * count) == "## Deep\n"
    tables = "\\begin{tabular}{l}Deep\\\\" * count + "\\end{tabular}" * count
    assert content(tmp_path, "tex", tables).count("Deep") == count
    cell = "\\begin{tabular}{l}x&\\begin{tabular}{l}a\\\\b\\end{tabular}\\\\1&2\\end{tabular}"
    assert content(tmp_path, "tex", cell) == "| x | a b |\n| --- | --- |\n| 1 | 2 |\n"


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("== Life ==\n=== Youth ===\nText.\n", "## Life\n\n### Youth\n\nText.\n"),
        ("'''Bern''' is ''[[Switzerland|Swiss]]'' by [[law]].\n", "Bern is Swiss by law.\n"),
        ('{{Infobox\n| a = {{b}}\n}}\nText.<ref>Smith 2001, {{p|3}}.</ref> More<ref name="x" />.\n', "Text. More.\n"),
        ("[[File:x.png|thumb|A [[map]] of it]]Text.\n[[Category:Towns]]\n", "Text.\n"),
        ("See [https://x.org the site], [https://y.org].\n", "See the site, https://y.org.\n"),
        ("* a\n** b\n# c\n; term\n: what\n", "- a\n  - b\n1. c\nterm\nwhat\n"),
        (
            '{| class="wikitable"\n|+ Towns\n! Name !! Use\n|-\n| style="x" | a || b\n|}\n',
            "Towns\n\n| Name | Use |\n| --- | --- |\n| a | b |\n",
        ),
        ('<syntaxhighlight lang="python">\nx = [[1]]\n</syntaxhighlight>\n', "```python\nx = [[1]]\n```\n"),
        (
            " code &lt;b&gt;\nText &amp; more.<br />Next <code>x</code>.\n",
            "```\ncode <b>\n```\n\nText & more.\nNext `x`.\n",
        ),
        ("Text <!-- not\nthis -->here. {{never closed\n", "Text here. {{never closed\n"),
    ],
)
def test_a_wiki_page_is_read_as_markdown(tmp_path: Path, text: str, markdown: str) -> None:
    assert content(tmp_path, "wiki", text) == markdown


def test_asciidoc_keeps_what_follows_a_comment_that_never_closes(tmp_path: Path) -> None:
    assert content(tmp_path, "adoc", "One.\n\n////\n\nTwo.\n") == "One.\n\nTwo.\n"


def test_a_wiki_page_keeps_links_that_begin_like_names_of_languages_and_code_behind_code_that_never_closes(
    tmp_path: Path,
) -> None:
    text = "The [[TLS: history|handshake]] is old. [[de:Handschlag]]\n<source>\n<pre>a <b></pre>\n"
    assert content(tmp_path, "wiki", text) == "The handshake is old.\n\n```\na <b>\n```\n"


def test_docbook_keys_that_are_entities_are_joined_with_the_key_beside_them(tmp_path: Path) -> None:
    text = (
        '<!DOCTYPE part PUBLIC "-//KDE//DTD DocBook XML V4.5//EN" "kdedbx45.dtd"><part><title>K</title><chapter>'
        "<title>Keys</title><para>Press <keycombo>&Ctrl;<keycap>F</keycap></keycombo>.</para></chapter></part>"
    )
    assert "Press Ctrl+F." in document(tmp_path, "docbook", text).content


def test_docbook_is_read_with_its_sections_lists_tables_and_menus(tmp_path: Path) -> None:
    read_one = document(
        tmp_path,
        "docbook",
        '<?xml version="1.0"?><!DOCTYPE book [<!ENTITY app "GnuCash">]><book xml:lang="de"><bookinfo><title>Buch</title>'
        "<author><firstname>Ann</firstname><surname>Lee</surname></author></bookinfo><chapter><title>Konten</title>"
        "<indexterm><primary>Konto</primary></indexterm><para>Mit &app;<!-- x -->"
        "<footnote><para>Siehe <emphasis>unten</emphasis>.</para></footnote> im Menü"
        " <menuchoice><guimenu>Datei</guimenu><guimenuitem>Neu</guimenuitem></menuchoice>.</para>"
        "<itemizedlist><listitem><para>eins</para></listitem></itemizedlist>"
        "<sect1><title>Arten</title><screen>ls -l\n  x</screen><informaltable><tgroup><tbody>"
        "<row><entry>a</entry><entry>b</entry>"
        "</row><row><entry>1</entry><entry>2</entry></row></tbody></tgroup></informaltable></sect1></chapter></book>",
    )
    assert read_one.title == "Buch"
    assert read_one.metadata["author"] == "Ann Lee"
    assert read_one.metadata["language"] == "de"
    assert read_one.content == (
        "## Konten\n\nMit GnuCash (Siehe unten.) im Menü Datei > Neu.\n\n- eins\n\n### Arten\n\n```\nls -l\n  x\n```\n\n"
        "| a | b |\n| --- | --- |\n| 1 | 2 |"
    )


def test_latex_has_what_commands_of_the_author_stand_for(tmp_path: Path) -> None:
    text = (
        r"\newcommand{\sys}{\textsc{Kestrel}\xspace} \newcommand\next{\sys-2} \def\lab{Acme Labs}"
        "\n"
        r"\newcommand{\R}{\mathbb{R}} \newcommand{\todo}[1]{\textbf{#1}} \title{\sys: An Engine}"
        "\n"
        r"\begin{document} \section{Why \sys{} flies}"
        "\n"
        r"Of \sys, made by \lab. \next\ is \todo{new} to \sys users of \LaTeX{} in $\R$. \end{document}"
    )
    document = the_document(write(tmp_path / "a.tex", text))
    assert document.title == "Kestrel: An Engine"
    assert document.content.strip() == (
        "## Why Kestrel flies\n\nOf Kestrel, made by Acme Labs. Kestrel-2 is new to Kestrel users of LaTeX in $\\R$."
    )


def test_commands_that_stand_for_each_other_do_not_grow(tmp_path: Path) -> None:
    doubled = "".join(f"\\def\\{chr(98 + n)}{{\\{chr(97 + n)}\\{chr(97 + n)}}}\n" for n in range(25))
    content = the_document(write(tmp_path / "a.tex", f"\\def\\a{{ha}}\n{doubled}Ha \\z!")).content
    assert len(content) < 1000


def test_articles_of_journals_are_read(tmp_path: Path) -> None:
    formula = '<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"><mml:msup><mml:mi>x</mml:mi><mml:mn>2</mml:mn></mml:msup></mml:math>'
    text = f"""<!DOCTYPE article PUBLIC "-//NLM//DTD JATS" "JATS-archivearticle1.dtd">
    <article xml:lang="en"><front><journal-meta><journal-title-group><journal-title>Looms</journal-title></journal-title-group>
    <issn>2050-084X</issn></journal-meta><article-meta><article-id pub-id-type="doi">10.1/x</article-id><title-group>
    <article-title>On <italic>Engines</italic></article-title></title-group><contrib-group><contrib><name><surname>Lovelace
    </surname><given-names>Ada</given-names></name></contrib></contrib-group><pub-date><year>2024</year></pub-date>
    <pub-date><day>6</day><month>5</month><year>2024</year></pub-date><abstract><p>It weaves.</p></abstract></article-meta>
    </front><body><sec><label>1.</label><title>Mills</title><p>Mills turn (<xref ref-type="bibr">Bob, 1840</xref>; <xref
    ref-type="bibr">2</xref>), as in <xref ref-type="fig">Figure 1</xref>, by {formula}.</p><fig><label>Figure 1</label>
    <caption><p>A mill.</p></caption></fig><list list-type="order"><list-item><p>One</p></list-item></list><table-wrap>
    <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></table-wrap></sec></body>
    <back><ref-list><ref>Bob</ref></ref-list></back></article>"""
    document = the_document(write(tmp_path / "a.nxml", text))
    assert document.content.strip() == (
        "# On Engines\n\n## Abstract\n\nIt weaves.\n\n## Mills\n\nMills turn, as in Figure 1, by x^2.\n\n"
        "Figure 1\n\nA mill.\n\n1. One\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"
    )
    assert (document.title, document.valid_from) == ("On Engines", datetime(2024, 5, 6, tzinfo=UTC))
    assert {name: document.metadata[name] for name in ("author", "language", "journal", "doi")} == {
        "author": "Ada Lovelace",
        "language": "en",
        "journal": "Looms",
        "doi": "10.1/x",
    }


def test_docbook_whose_entities_are_declared_elsewhere_is_read(tmp_path: Path) -> None:
    read_one = document(
        tmp_path,
        "xml",
        '<?xml version="1.0" encoding="utf-8"?>\n<!-- A part. --><x:classref xmlns="http://docbook.org/ns/docbook"'
        ' xmlns:x="http://example.org/x"><title>Fiber</title><section>&reftitle.description;<para>Returns &null; and'
        " caf&eacute; in &php.ini;.</para><methodsynopsis><type>mixed</type><methodname>Fiber::get</methodname><methodparam>"
        "<type>int</type><parameter>key</parameter></methodparam></methodsynopsis>"
        "<programlisting><![CDATA[a &amp; &b;]]></programlisting></section></x:classref>",
    )
    assert read_one.title == "Fiber"
    assert read_one.content == (
        "# Fiber\n\nReturns null and café in php.ini.\n\n```\nmixed Fiber::get int key\n```\n\n```\na &amp; &b;\n```"
    )


def test_mallard_is_read_without_its_credits(tmp_path: Path) -> None:
    read_one = document(
        tmp_path,
        "page",
        '<page xmlns="http://projectmallard.org/1.0/" xml:lang="ru"><info><credit type="author"><name>Ann Lee</name></credit>'
        '<revision date="2019-07-21"/><desc>Short.</desc></info><title>Мышь</title><p>Нажмите'
        " <keyseq><key>Alt</key><key>F4</key></keyseq>.</p><steps><item><p>Откройте <gui>Обзор</gui>.</p></item></steps></page>",
    )
    assert read_one.title == "Мышь"
    assert read_one.metadata["author"] == "Ann Lee"
    assert read_one.content == "# Мышь\n\nНажмите Alt+F4.\n\n1. Откройте Обзор."


def test_docbook_expands_no_entity_that_holds_another_or_is_a_file(tmp_path: Path) -> None:
    declared = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">'
    text = f"<!DOCTYPE book [{declared}]><book><title>T</title><para>&a; &b; &f;</para></book>"
    assert content(tmp_path, "docbook", text) == "# T\n\nha b f"
    text = "<chapter><title>T</title><para>&app; &hellip; &lt;</para></chapter>"
    assert content(tmp_path, "docbook", text) == "# T\n\napp … <"


def test_xml_of_another_kind_is_left_out_and_said_so(tmp_path: Path) -> None:
    (warning,) = read(write(tmp_path / "pom.xml", "<project><name>x</name></project>"), "pom.xml")
    assert isinstance(warning, ReadWarning)
    assert "<project>" in str(warning)
    (error,) = read(write(tmp_path / "bad.xml", "<book><title>"), "bad.xml")
    assert isinstance(error, ReadError)


def test_subtitles_are_what_is_said(tmp_path: Path) -> None:
    text = (
        "1\n00:00:01,000 --> 00:00:02,500\n<i>Well, isn't that</i>\na thing?\n\n2\n00:00:02,600 --> 00:00:04,000\n"
        "{\\an8}Yes.\n\n3\n00:00:09,000 --> 00:00:10,000\nLater.\n"
    )
    assert content(tmp_path, "srt", text) == "Well, isn't that\na thing?\nYes.\n\nLater.\n"
    text = (
        "WEBVTT\n\nNOTE not said\n\n00:01.000 --> 00:02.000 align:start\n<v Bob>Hello <00:01.500>there.\n\n"
        "00:02.000 --> 00:03.000\nHello\n"
    )
    assert content(tmp_path, "vtt", text) == "Bob: Hello there.\nHello\n"


def test_titles_behind_a_licence_or_between_comments_are_titles(tmp_path: Path) -> None:
    info = "<info><license><p>Share alike</p></license></info>"
    page = f'<page xmlns="http://projectmallard.org/1.0/">{info}<title>Annotations</title><p>Go on.</p></page>'
    assert document(tmp_path, ".page", page).title == "Annotations"
    head = "\\title{Looms%\n  \\label{a}%\n  \\\\%\n  and Mills}\n\\begin{document}\nText of looms.\n\\end{document}"
    assert document(tmp_path, ".tex", head).title == "Looms and Mills"
    table = (
        "\\begin{tabular}{ll}\nShip & Master \\\\% who led\nNova & Evans \\\\\n\\end{tabular}\nA rise of 5\\% each.\n"
    )
    assert (
        content(tmp_path, ".tex", table) == "| Ship | Master |\n| --- | --- |\n| Nova | Evans |\n\nA rise of 5% each.\n"
    )
