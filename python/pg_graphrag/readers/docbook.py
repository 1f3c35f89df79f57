"""DocBook and Mallard, XML of manuals, read as the HTML that they are set as."""

import html
import re
from collections.abc import Iterator

from lxml import etree

from pg_graphrag.client.documents import Document
from pg_graphrag.readers.archive import parse_xml
from pg_graphrag.readers.errors import ReadWarning
from pg_graphrag.readers.html import main_text
from pg_graphrag.readers.source import Facts, Source, as_time

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_ROOTS = frozenset(
    "appendix article book bibliography chapter colophon glossary part preface refentry reference sect1 sect2 section set topic"
    " page".split()
)
_SECTIONS = _ROOTS | frozenset("refsect1 refsect2 refsect3 refsection sect3 sect4 sect5 simplesect".split())
# What these hold says nothing to a reader, or is of metadata.
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
        "pre": "programlisting screen literallayout synopsis cmdsynopsis funcsynopsis classsynopsis",
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
# What stands between the parts of menus and of keys that are pressed together.
_JOINTS = {"menuchoice": " > ", "guiseq": " > ", "keycombo": "+", "keyseq": "+"}
_UNDECLARED = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z][A-Za-z0-9._-]{0,60};")
_ENTITY = re.compile(r"[^<&]{0,200}")


def read_docbook(source: Source) -> Iterator[Document | ReadWarning]:
    """Read a file of DocBook or Mallard as one document, titled by its first title; other XML is left out with a warning."""
    data = source.read()
    try:
        try:
            root = parse_xml(data)
        except etree.XMLSyntaxError:
            # A part of a book, whose entities the book declares.
            root = parse_xml(_UNDECLARED.sub(_as_text, data))
    except etree.XMLSyntaxError as error:
        raise source.error(f"cannot be read as XML: {error}; is it damaged?") from None
    name = _name(root)
    if name not in _ROOTS:
        yield ReadWarning(
            source.path, f"is XML of a kind that is not read (<{name}>); give it as .txt to have it as it is"
        )
        return
    _resolve_entities(root)
    title, facts = _facts(root)
    _set_as_html(root)
    yield source.document(main_text(root), "application/xml", title, facts)


def _as_text(entity: re.Match[bytes]) -> bytes:
    text = html.unescape(entity[0].decode())
    return b"&amp;" + entity[0][1:] if text.startswith("&") else f"&#{ord(text[0])};".encode()


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname.lower() if isinstance(element.tag, str) else ""


def _resolve_entities(root: etree._Element) -> None:
    """Put text in place of entities: what the file declares, where it is plain text, or the characters of HTML; comments go."""
    dtd = root.getroottree().docinfo.internalDTD
    declared = {entity.name: entity.content for entity in dtd.iterentities()} if dtd is not None else {}
    for node in list(root.iter(etree.Entity, etree.Comment, etree.ProcessingInstruction)):
        text = ""
        if node.tag is etree.Entity:
            value = declared.get(node.name)
            text = value if value and _ENTITY.fullmatch(value) else html.unescape(node.text)
        parent, before = node.getparent(), node.getprevious()
        if parent is None:
            continue
        text += node.tail or ""
        if before is None:
            parent.text = (parent.text or "") + text
        else:
            before.tail = (before.tail or "") + text
        node.tail = None
        parent.remove(node)


def _facts(root: etree._Element) -> tuple[str | None, Facts]:
    facts = Facts(language=root.get(_LANGUAGE) or root.get("lang"))
    title = None
    for element in root.iter(etree.Element):
        name = _name(element)
        if name == "title" and title is None:
            title = _text(element)
        elif name == "author" or (name == "credit" and "author" in element.get("type", "").split()):
            parts = [_text(part) for part in element.iter(etree.Element) if _name(part) in _PERSON]
            person = " ".join(filter(None, parts))
            facts.author = ", ".join(filter(None, (facts.author, person)))[:_LONGEST_AUTHORS] or None
        elif name in ("pubdate", "date"):
            facts.published = facts.published or as_time(_text(element))
        elif name == "revision" and (date := as_time(element.get("date"))):
            facts.modified = max(facts.modified or date, date)
        elif name in ("para", "p"):
            break
    return title, facts


def _text(element: etree._Element) -> str:
    return " ".join("".join(element.itertext()).split())


_PERSON = frozenset(("firstname", "givenname", "surname", "othername", "name"))
_LONGEST_AUTHORS = 500


def _set_as_html(root: etree._Element) -> None:
    """Give each element the name of what it is set as."""
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
            tag = f"h{min(depth, 6)}" if above in _SECTIONS else "p"
        else:
            tag = "div" if name in _SECTIONS else _TAGS.get(name, "span")
        if above in _JOINTS and element.getprevious() is not None:
            element.text = f"{_JOINTS[above]}{(element.text or '').lstrip()}"
        element.set("data-name", name)
        if name == "footnote" or (parent is not None and parent.get("data-inline")):
            element.set("data-inline", "true")
        if name == "footnote":
            element.text = f" ({(element.text or '').lstrip()}"
            element.tail = f"){element.tail or ''}"
        element.tag = tag
