"""JATS (XML of journals such as PubMed Central) to DocBook: title, abstract and text, without other front matter and
references.
"""

import re

from lxml import etree

from pg_graphrag.beside.readers.elements import authors_of, line_of, replace
from pg_graphrag.beside.readers.source import Facts, as_time

_NAMES = {
    "sec": "section", "app": "appendix", "ack": "section", "boxed-text": "sidebar", "p": "para", "fig": "figure",
    "table-wrap": "figure", "disp-quote": "blockquote", "disp-formula": "para", "preformat": "programlisting",
    "code": "programlisting", "list-item": "listitem", "def-list": "variablelist", "def-item": "varlistentry",
    "def": "listitem", "th": "td", "fn": "para",
}  # fmt: skip
# References, notes on the article, and drawings.
_LEFT_OUT = frozenset("ref-list fn-group graphic inline-graphic media object-id bio sec-meta permissions notes".split())
# Remains of "(Stone, 2004; Lee, 2006)" and "[1,2]".
NO_REFERENCES = re.compile(r"[ \t]?(?:\([\s;,–-]{0,200}\)|\[[\s;,–-]{0,200}\])")


def as_docbook(root: etree._Element) -> tuple[str | None, Facts]:
    """Rename the elements of an article in place; return its title and the facts of its front matter."""
    meta = root.find("{*}front/{*}article-meta")
    title, facts = line_of(meta.find("{*}title-group/{*}article-title")) or None, _facts(root, meta)
    abstracts = list(meta.iterfind("{*}abstract"))
    for front in root.findall("{*}front"):
        root.remove(front)
    for element in list(root.iter(etree.Element)):
        name = etree.QName(element).localname
        parent = element.getparent()
        is_number = name == "label" and parent is not None and parent.tag in ("section", "appendix")
        if name in _LEFT_OUT or is_number or (name == "xref" and element.get("ref-type") == "bibr"):
            replace(element)
        else:
            _rename(element, name)
    for abstract in reversed(abstracts):
        for element in abstract.iter(etree.Element):
            _rename(element, etree.QName(element).localname)
        abstract.tag, abstract.tail = "section", None
        if abstract.find("title") is None:
            heading = etree.Element("title")
            heading.text = "Abstract"
            abstract.insert(0, heading)
        root.insert(0, abstract)
    if title:
        heading = etree.Element("title")
        heading.text = title
        root.insert(0, heading)
    return title, facts


def _rename(element: etree._Element, name: str) -> None:
    if name == "list":
        element.tag = "orderedlist" if element.get("list-type") == "order" else "itemizedlist"
    elif name in ("xref", "label"):
        element.tag = "phrase"
        element.tail = f" {(element.tail or '').lstrip()}" if name == "label" else element.tail
    else:
        element.tag = _NAMES.get(name, name)


def _facts(root: etree._Element, meta: etree._Element) -> Facts:
    facts = Facts(language=root.get("{http://www.w3.org/XML/1998/namespace}lang"))
    authors = [
        " ".join(filter(None, (line_of(name.find("{*}given-names")), line_of(name.find("{*}surname")))))
        for name in meta.iterfind("{*}contrib-group/{*}contrib/{*}name")
    ]
    facts.author = authors_of(authors)
    dates = list(meta.iterfind("{*}pub-date"))
    # A date counts before the year of a volume.
    dates = [date for date in dates if date.find("{*}day") is not None] or dates
    facts.published = min((date for element in dates if (date := as_time(_date(element)))), default=None)
    journal = line_of(root.find("{*}front/{*}journal-meta/{*}journal-title-group/{*}journal-title"))
    doi = next((line_of(item) for item in meta.iterfind("{*}article-id") if item.get("pub-id-type") == "doi"), None)
    facts.others = {name: value for name, value in (("journal", journal), ("doi", doi)) if value}
    return facts


def _date(date: etree._Element) -> str:
    year, month, day = (line_of(date.find(f"{{*}}{part}")) or "1" for part in ("year", "month", "day"))
    return f"{year:0>4}-{month:0>2}-{day:0>2}"
