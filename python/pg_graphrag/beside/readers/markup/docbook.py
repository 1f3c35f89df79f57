"""DocBook and Mallard (XML of manuals) and JATS (XML of journals), converted to HTML and read as such."""

import codecs
import html
import re
from collections.abc import Iterator

from lxml import etree

from pg_graphrag.beside.readers.archive import parse_xml
from pg_graphrag.beside.readers.decode import declared_by_xml, decode_part
from pg_graphrag.beside.readers.elements import authors_of, become, line_of, replace
from pg_graphrag.beside.readers.markup.jats import NO_REFERENCES, as_docbook
from pg_graphrag.beside.readers.read_errors import ReadWarning
from pg_graphrag.beside.readers.source import Facts, Source, as_time
from pg_graphrag.beside.readers.web.formulas import formula_text
from pg_graphrag.beside.readers.web.html import main_text
from pg_graphrag.ground.document import Document

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_SECTIONS = frozenset(
    "appendix article book bibliography chapter colophon glossary page part preface refentry reference refsect1 refsect2 refsect3"
    " refsection sect1 sect2 sect3 sect4 sect5 section set simplesect topic".split()
)
# Elements with metadata, or with nothing for a reader.
_UNREAD = frozenset(
    "anchor appendixinfo articleinfo bookinfo chapterinfo colspec comment desc imageobject index indexterm info lot media"
    " mediaobject inlinemediaobject prefaceinfo refentryinfo refmeta remark revhistory screenshot sect1info sect2info"
    " sectioninfo setinfo toc videoobject xref".split()
)
_TAGS = {
    tag: html_tag
    for html_tag, tags in {
        "div": "abstract answer blockquote caution epigraph equation example figure formalpara important informalexample"
        " informalfigure legalnotice listing note procedure qandaentry qandaset question refnamediv refsynopsisdiv sidebar"
        " tip warning",
        "p": "para simpara p refname refpurpose attribution bibliomixed biblioentry bridgehead titleabbrev",
        "pre": "programlisting screen literallayout synopsis cmdsynopsis funcsynopsis classsynopsis methodsynopsis"
        " constructorsynopsis destructorsynopsis fieldsynopsis",
        "ul": "itemizedlist list simplelist calloutlist segmentedlist links",
        "ol": "orderedlist steps substeps",
        "li": "listitem item member callout step",
        "dl": "variablelist glosslist terms",
        "dt": "term",
        "dd": "glossdef",
        "table": "table informaltable",
        "thead": "thead",
        "tbody": "tbody",
        "tr": "row tr",
        "td": "entry td",
    }.items()
    for tag in tags.split()
}
# What an element is by the one that it stands in.
_WITHIN = {("varlistentry", "listitem"): "dd", ("glossentry", "glossterm"): "dt", ("item", "title"): "dt"}
# Separators between parts of menus, and of keys pressed together.
_JOINTS = {"menuchoice": " > ", "guiseq": " > ", "keycombo": "+", "keyseq": "+"}
# What these hold has blanks between only where it is set.
_SIGNATURES = frozenset(
    "cmdsynopsis funcprototype paramdef methodparam methodsynopsis constructorsynopsis destructorsynopsis fieldsynopsis".split()
)
_ENTITY = re.compile(r"[^<&]{0,200}")
_NAMESPACE = "http://docbook.org/ns/docbook"
_DECLARATION = re.compile(rb"\s*(?:\xef\xbb\xbf)?(?:<\?xml[^>]{0,500}\?>)?")
_XML = re.compile(r"\A\s*<\?xml[^>]{0,500}\?>")
# Files of a large manual are parts of one that declares their entities. With a document type elsewhere these are no errors.
_ELSEWHERE = b'<!DOCTYPE part SYSTEM "elsewhere">'


def read_docbook(source: Source) -> Iterator[Document | ReadWarning]:
    """Read a file of DocBook, Mallard or JATS as one document, with its title; other XML is left out with a warning."""
    try:
        root = _parsed(source)
    except etree.XMLSyntaxError as error:
        raise source.error(f"cannot be read as XML: {error}; is it damaged?") from None
    name = _name(root)
    if name not in _SECTIONS and root.nsmap.get(None) != _NAMESPACE:
        yield ReadWarning(
            source.path, f"is XML of a kind that is not read (<{name}>); give it as .txt to have it as it is"
        )
        return
    _resolve_entities(root)
    for formula in list(root.iter("{http://www.w3.org/1998/Math/MathML}math")):
        become(formula, formula.tag, formula_text(formula))
    is_of_journal = _is_jats(root)
    title, facts = as_docbook(root) if is_of_journal else _facts(root)
    _set_as_html(root)
    text = main_text(root)
    yield source.document(NO_REFERENCES.sub("", text) if is_of_journal else text, "application/xml", title, facts)


def _parsed(source: Source) -> etree._Element:
    content = source.read()
    try:
        return parse_xml(_with_document_type(content))
    except etree.XMLSyntaxError:
        # XML allows no invalid byte, nor what writers mean by an encoding's name.
        text = decode_part(content, source, declared_by_xml(content))
        return parse_xml(_with_document_type(_XML.sub("", text, count=1).encode()))


def _is_jats(root: etree._Element) -> bool:
    """Whether an article is one of a journal: JATS has elements of DocBook's names, too."""
    return root.find("{*}front/{*}article-meta") is not None


def _with_document_type(content: bytes) -> bytes:
    if b"<!DOCTYPE" in content or content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content
    end = match.end() if (match := _DECLARATION.match(content)) else 0
    return content[:end] + _ELSEWHERE + content[end:]


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname.lower() if isinstance(element.tag, str) else ""


def _resolve_entities(root: etree._Element) -> None:
    """Replace entities by text: those that the file declares as plain text, and characters of HTML; drop comments.

    Any other entity within a text becomes its name, which mostly names a product; one between blocks stands for such a
    block.
    """
    dtd = root.getroottree().docinfo.internalDTD
    declared = {entity.name: entity.content for entity in dtd.iterentities()} if dtd is not None else {}
    for node in list(root.iter(etree.Entity, etree.Comment, etree.ProcessingInstruction)):
        parent = node.getparent()
        if parent is None:
            continue
        text = ""
        if node.tag is etree.Entity:
            value = declared.get(node.name)
            text = value if value and _ENTITY.fullmatch(value) else html.unescape(node.text)
            if text == node.text:
                text = "" if _name(parent) in _SECTIONS or _TAGS.get(_name(parent)) == "div" else node.name
        replace(node, text)


def _facts(root: etree._Element) -> tuple[str | None, Facts]:
    facts = Facts(language=root.get(_LANGUAGE) or root.get("lang"))
    title = None
    authors: list[str] = []
    for element in root.iter(etree.Element):
        name = _name(element)
        if name in ("title", "refname") and title is None:
            title = line_of(element)
        elif name == "author" or (name == "credit" and "author" in element.get("type", "").split()):
            parts = [line_of(part) for part in element.iter(etree.Element) if _name(part) in _PERSON]
            authors.append(" ".join(filter(None, parts)))
        elif name in ("pubdate", "date"):
            facts.published = facts.published or as_time(line_of(element))
        elif name == "revision" and (date := as_time(element.get("date"))):
            facts.modified = max(facts.modified or date, date)
        elif name in ("para", "p") and _name(element.getparent()) not in ("license", "legalnotice"):
            break
    facts.author = authors_of(authors)
    return title, facts


_PERSON = frozenset(("firstname", "givenname", "surname", "othername", "name"))


def _set_as_html(root: etree._Element) -> None:
    """Rename each element to the HTML element that it is shown as."""
    depths: dict[etree._Element, int] = {root: 1}
    for element in list(root.iter(etree.Element)):
        parent = element.getparent()
        name = _name(element)
        depth = depths[element] = 1 if parent is None else depths[parent] + (name in _SECTIONS)
        element.set("class", "")
        element.attrib.pop("hidden", None)
        above = "" if parent is None else parent.get("data-name", "")
        if parent is None:
            tag = "body"
        elif name in _UNREAD:
            tag = "template"
        elif parent.get("data-inline"):
            tag = "span"
        elif (above, name) in _WITHIN:
            tag = _WITHIN[above, name]
        elif name == "title":
            tag = f"h{min(depth, 6)}" if above in _SECTIONS or parent is root else "p"
        else:
            tag = "div" if name in _SECTIONS else _TAGS.get(name, "span")
        if above in _SIGNATURES and not (element.tail or "").strip():
            element.tail = " "
        # "&Ctrl;<keycap>C</keycap>": an entity is text.
        if above in _JOINTS and (
            element.getprevious() is not None or (parent is not None and (parent.text or "").strip())
        ):
            element.text = f"{_JOINTS[above]}{(element.text or '').lstrip()}"
        element.set("data-name", name)
        if name == "footnote" or (parent is not None and parent.get("data-inline")):
            element.set("data-inline", "true")
        if name == "footnote":
            element.text = f" ({(element.text or '').lstrip()}"
            element.tail = f"){element.tail or ''}"
        element.tag = tag
