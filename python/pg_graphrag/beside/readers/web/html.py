"""HTML: title and main text as Markdown (headings, paragraphs, lists, tables and code), without navigation and
scripts.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias
from urllib.parse import unquote, unquote_to_bytes

from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.markdown import CHECKED, UNCHECKED, fenced
from pg_graphrag.beside.readers.source import Facts, Source, as_time
from pg_graphrag.beside.readers.tables import joined_heads, table_text
from pg_graphrag.beside.readers.web.formulas import formula_text
from pg_graphrag.beside.readers.web.furniture import without_gutenberg
from pg_graphrag.beside.readers.web.navigation import is_beside_text, leads_on, take_out_loose
from pg_graphrag.beside.readers.web.unread import is_formula, unread_of
from pg_graphrag.ground.document import Document

# The name ends before the first character that cannot belong to it: a cut head must not give half a name.
_DECLARED = re.compile(
    rb"""<(?:meta[^>]*?charset|\?xml[^>]*?encoding)\s*=\s*["']?\s*([\w.:-]+)(?=[^\w.:-])""", re.IGNORECASE
)
# What browsers look through for it, and the long descriptions that stand before it on many pages.
_HEAD = 8192
_SPACE = re.compile(r"[ \t\n\r\f\xa0]+")
_HEADING_MARK = re.compile(r"\A#{1,6} ")

# Never text of the page.
_DROPPED = (
    frozenset(("audio", "button", "canvas", "datalist", "del", "dialog", "embed", "head", "iframe", "nav", "noscript"))
    | frozenset(("object", "script", "select", "style", "svg", "template", "textarea", "video"))
    # How a word is read (ruby), which stands within it.
    | frozenset(("rp", "rt", "rtc"))
)  # fmt: skip
_SHADOW_ROOT = frozenset(("shadowrootmode", "shadowroot"))
# These elements belong to the site, unless they are in the page's article.
_SITE = frozenset(("header", "footer", "aside"))
_SITE_ROLES = frozenset(("navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar"))
_OF_TEXT = frozenset(("doc-endnotes", "doc-footnote", "doc-abstract", "note"))
# Navigation by class: DocBook's header, footer and tables of contents; links to the heading they stand in.
_NAVIGATION_CLASSES = frozenset(
    ("navheader", "navfooter", "docnav", "toc", "headerlink", "id_link", "hash-link", "mw-editsection", "mw-jump-link")
)
# Navigation by class or id, where most of its text is links.
_NAVIGATION_NAME = re.compile(
    r"(?:site|page|main|global|top|bottom|side|header|footer|local|sub)?[-_]?(?:nav|navbar|navigation|menu|menubar|sidebar)"
    r"(?:[-_]?(?:bar|menu|panel|table|list|links?|header|footer|top|bottom|left|right|wrapper|container))?"
    r"|nav(?:list|head(?:er)?|foot(?:er)?)|breadcrumbs?|crumbs?|pagination|pager|paging|sphinxsidebar|related|skip[-_]?(?:link|nav)s?"
    r"|lang(?:uage)?s?[-_]?(?:switch(?:er)?|menu|list|links|selector)|social[-_]?(?:links|share|media)?|share[-_]?(?:bar|buttons|links)"
    r"|tag[-_]?(?:cloud|list)|(?:site[-_]?)?(?:footer|header)",
    re.IGNORECASE,
)
# What asks for consent, whatever it holds.
_CONSENT_NAME = re.compile(
    r"(?:cookies?|gdpr|consent|cmp)[-_]?(?:banner|bar|box|consent|container|dialog|info|law|message|modal|notice|notification"
    r"|overlay|popup|prompt|wall|warning|window)[\w-]{0,40}|cookieconsent|onetrust-[\w-]{1,40}|cybotcookiebot\w{1,40}",
    re.IGNORECASE,
)
# "A | B | C", "[A][B]": a bar of links, which stand for themselves.
_BARS = frozenset(("center", "div", "p", "small", "td"))
_SEPARATOR = re.compile(r"[|·•»«›‹<>\[\]→←/]")
_PARAGRAPHS = (
    frozenset(("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dir", "div"))
    | frozenset(("dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6"))
    | frozenset(("header", "hgroup", "hr", "legend", "li", "main", "menu", "ol", "p", "section", "summary", "table"))
    | frozenset(("tbody", "tfoot", "thead", "tr", "ul"))
)  # fmt: skip
_LINES = frozenset(("dd", "dt", "li", "tr"))
_TABLE_PARTS = frozenset(("tbody", "tfoot", "thead"))
_LISTS = frozenset(("dir", "dl", "menu", "ol", "table", "ul")) | _TABLE_PARTS
_VERBATIM = frozenset(("listing", "plaintext", "pre", "xmp"))
_BLOCKS = _PARAGRAPHS | _VERBATIM
_MAX_SPAN = 100
_LETTERS_OF_A_COVER = 200
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
# A table with one of these in it lays out the page.
_LAYOUT = (".//table", ".//pre", ".//h1", ".//h2", ".//h3", ".//h4", ".//form", ".//td/*[4][self::p]")


# Returns the mark of a picture in the text, by its element: see `pictures.Gallery.add`.
Marks: TypeAlias = Callable[[HtmlElement], str]


def read_html(source: Source, resolve: Callable[[str], bytes | None] = lambda _: None) -> Iterator[Document]:
    """Read an HTML page, well-formed or not, as one document.

    `resolve`: gives the bytes of a picture by its URL; those of ``data:`` URLs are known.

    Raises ReadError when it cannot be decoded, or is nested deeper than the parser goes.
    """
    data = source.read()
    declared = _DECLARED.search(data, 0, _HEAD)
    try:
        page = parse_html(decode(data, source, declared[1].decode() if declared else None))
    except ValueError as error:
        raise source.error(str(error)) from None
    source.left_out.update(unread_of(main_part(page)))
    content, facts = without_gutenberg(main_text(page, marks_of(source, resolve)))
    stated = _facts(page)
    stated.author = stated.author or facts.author
    stated.others |= facts.others
    title = stated.others.pop("title", None)
    yield source.document(content, "text/html", title_of(page) or title, stated)


def parse_html(html: str) -> HtmlElement | None:
    """Return a page as a tree; None when it is empty.

    Raises ValueError when the page is nested so deeply that the parser would lose a part of it.
    """
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        page = document_fromstring(html.encode(), parser=parser)
    except etree.ParserError:  # nothing but white space and comments
        return None
    if any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log):
        raise ValueError("is nested more than 2048 elements deep; unwrap them")
    return page


def title_of(page: HtmlElement | None) -> str | None:
    """Return ``<title>``, else the first ``<h1>``; None when there is neither."""
    if page is None:
        return None
    return next((text for element in page.iter("title", "h1") if (text := _line(element))), None)


def marks_of(source: Source, resolve: Callable[[str], bytes | None]) -> Marks | None:
    """Return what takes a page's pictures into the gallery of a source; None where nobody asks for pictures."""
    if not source.gallery.is_open:
        return None

    def mark(element: HtmlElement) -> str:
        url = element.get("src", "").strip()
        data = data_of(url) if url[:5].lower() == "data:" else resolve(url) if url else None
        figure = next(element.iterancestors("figure"), None)
        caption = None if figure is None else figure.find(".//figcaption")
        return source.gallery.add(
            source.key,
            data,
            alternative_text=element.get("alt"),
            caption=None if caption is None else caption.text_content(),
        )

    return mark


def data_of(url: str) -> bytes | None:
    """Return the bytes of a data: URL; None for one that is damaged, or no picture."""
    head, comma, text = url.partition(",")
    if not comma or not head[5:].lstrip().lower().startswith("image/"):
        return None
    try:
        return b64decode(unquote(text)) if head.rstrip().lower().endswith(";base64") else unquote_to_bytes(text)
    except ValueError:
        return None


def main_text(page: HtmlElement | None, marks: Marks | None = None) -> str:
    """Return the main text of a page as Markdown; if scripts alone fill the page, its text for browsers without scripts.

    `marks`: returns the mark of a picture, which is put behind the block that the picture stands in or follows.
    """
    if page is None:
        return ""
    main = main_part(page)
    if isinstance(main, HtmlElement):  # a page, and no other markup
        take_out_loose(main)
    text = _Text(main, marks).content
    if text or not (unscripted := list(page.iter("noscript"))):
        return text
    for element in unscripted:
        element.tag = "div"
    return _Text(main_part(page), marks).content


def main_part(page: HtmlElement | None) -> HtmlElement | None:
    """Return the one ``<main>`` of a page, or the one ``<article>``, or the body; None of an empty page."""
    if page is None:
        return None
    for path in (".//main | .//*[@role='main']", ".//article"):
        elements: list[HtmlElement] = page.xpath(path)
        if len(elements) == 1:
            return elements[0]
    body: HtmlElement | None = page.find("body")
    return page if body is None else body


def is_navigation(page: HtmlElement | None) -> bool:
    """Whether a page, which a book calls its contents or cover, has little text but links."""
    if page is None:
        return True
    size = _sizes(page)[page]
    return size.letters - size.linked < max(_LETTERS_OF_A_COVER, size.linked)


def extract(html: str) -> tuple[str | None, str]:
    """Return title and main text of a page; ValueError as of `parse_html`."""
    page = parse_html(html)
    return title_of(page), main_text(page)


_AUTHORS = ("author", "dc.creator", "dcterms.creator", "article:author")
_DATES = (
    "article:published_time",
    "datepublished",
    "dcterms.issued",
    "dc.date.issued",
    "dcterms.date",
    "dc.date",
    "date",
)
_MODIFIED = ("article:modified_time", "datemodified", "dcterms.modified", "last-modified")


def _facts(page: HtmlElement | None) -> Facts:
    if page is None:
        return Facts()
    values: dict[str, str] = {}
    for element in page.iter("meta"):
        name = element.get("name") or element.get("property") or element.get("itemprop") or ""
        if content := element.get("content", "").strip():
            values.setdefault(name.lower(), content)
    description = values.get("description")
    return Facts(
        author=next((values[name] for name in _AUTHORS if name in values), None),
        published=next((date for name in _DATES if (date := as_time(values.get(name)))), None),
        modified=next((date for name in _MODIFIED if (date := as_time(values.get(name)))), None),
        language=page.get("lang"),
        others={"description": description} if description else {},
    )


def _line(element: HtmlElement) -> str:
    return _HEADING_MARK.sub("", _SPACE.sub(" ", _Text(element).content).strip())


@dataclass(slots=True)
class _Size:
    """How many letters and digits an element has, how many of them in links, and how many links."""

    letters: int = 0
    linked: int = 0
    links: int = 0


def _sizes(root: HtmlElement) -> dict[HtmlElement, _Size]:
    sizes: dict[HtmlElement, _Size] = {}
    links = 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            links += element.tag == "a"
            own = sum(map(str.isalnum, element.text or ""))
            sizes[element] = _Size(own, own if links else 0, int(element.tag == "a"))
            continue
        links -= element.tag == "a"
        parent = sizes.get(element.getparent())
        if parent is not None:
            size, tail = sizes[element], sum(map(str.isalnum, element.tail or ""))
            parent.letters += size.letters + tail
            parent.linked += size.linked + (tail if links else 0)
            parent.links += size.links
    return sizes


def _is_of_links(element: HtmlElement, size: _Size) -> bool:
    """Whether an element is called navigation and is mostly links, or is a bar of links alone."""
    if element.tag == "a" or element.tag in _HEADINGS:
        # Class names here concern the looks: mdBook's headings are links called "header".
        return element.tag == "a" and is_beside_text(element)
    if leads_on(element, size.links, size.letters, size.linked):
        return True
    if size.links and 2 * size.linked >= size.letters:
        names = (*element.get("class", "").split(), element.get("id", ""))
        if any(map(_NAVIGATION_NAME.fullmatch, names)) and element.find(".//h1") is None:
            return True
    if element.tag not in _BARS or size.links < 2 or size.linked < size.letters:
        return False
    between = [element.text or "", *(child.tail or "" for child in element)]
    return any(map(_SEPARATOR.search, between)) and all(child.tag in _OF_A_BAR for child in element)


_OF_A_BAR = frozenset(("a", "b", "br", "em", "i", "span", "strong"))


def _asks_for_consent(element: HtmlElement) -> bool:
    return any(map(_CONSENT_NAME.fullmatch, (*element.get("class", "").split(), element.get("id", ""))))


def _is_shown(element: HtmlElement) -> bool:
    """Whether a template is what its element shows: a shadow root that stands in the page."""
    return element.tag == "template" and not _SHADOW_ROOT.isdisjoint(element.attrib)


def _is_navigation(element: HtmlElement, in_article: bool) -> bool:
    if (
        (element.tag in _DROPPED and not _is_shown(element))
        or "hidden" in element.attrib
        or element.get("aria-hidden") == "true"
    ):
        return True
    if not _NAVIGATION_CLASSES.isdisjoint(element.get("class", "").split()):
        return True
    if in_article:
        return False
    role = element.get("role", "")
    return role in _SITE_ROLES or (
        # Notes belong to the text, as does everything beside its title without a link to the site.
        element.tag in _SITE
        and role not in _OF_TEXT
        and not (element.tag == "header" and element.find(".//h1") is not None and element.find(".//a") is None)
    )


class _Text:
    """The text of an element, gathered in one walk without recursion: pages may be nested deeply."""

    def __init__(self, root: HtmlElement, marks: Marks | None = None):
        self._marks = marks
        self._pending = ""  # marks of pictures in a block that is not ended, or before the first
        self._blocks: list[str] = []
        self._pieces: list[str] = []
        self._gap = 0  # line ends due before the next block
        self._prefix = ""
        self._verbatim = 0
        self._cells = 0
        self._counters: list[int | None] = []
        self._walk(root)
        self.content = "".join([*self._blocks, self._pending])

    def _walk(self, root: HtmlElement) -> None:
        articles = int(root.tag in ("main", "article") or root.get("role") == "main")
        walk = etree.iterwalk(root, events=("start", "end"))
        sizes = _sizes(root)
        skipped_element: HtmlElement | None = None
        for event, element in walk:
            if event == "start":
                if element is not root and (
                    _is_navigation(element, articles > 0)
                    or _is_of_links(element, sizes[element])
                    or _asks_for_consent(element)
                ):
                    skipped_element = element
                    walk.skip_subtree()
                    continue
                if element.tag == "table" and element is not root and not self._cells and _is_data(element):
                    self._table(element)
                    skipped_element = element
                    walk.skip_subtree()
                    continue
                if element.tag == "math" and element is not root:
                    self._add(formula_text(element))
                    skipped_element = element
                    walk.skip_subtree()
                    continue
                articles += element.tag in ("main", "article")
                self._start(element)
            else:
                if element is skipped_element:
                    skipped_element = None
                else:
                    articles -= element.tag in ("main", "article")
                    self._end(element)
                if element is not root and element.tail:
                    self._add(element.tail)
        self._flush()

    def _start(self, element: HtmlElement) -> None:
        tag = element.tag
        if tag in _BLOCKS:
            self._boundary(1 if tag in _LINES or tag in _LISTS else 2)
        if tag == "img":
            if is_formula(element) and element.getparent().find("math") is None:
                self._add(element.get("alt", ""))
            self._picture(element)
        elif tag in _VERBATIM:
            self._verbatim += 1
        elif tag in _HEADINGS:
            self._prefix = f"{'#' * int(tag[1])} "
        elif tag == "br":
            self._newline()
        elif tag in ("td", "th"):
            if self._pieces and not self._pieces[-1].endswith("\n"):
                self._pieces.append(" | ")
            self._cells += 1
        elif tag in ("ol", "ul"):
            start = element.get("start", "1")
            self._counters.append((int(start) if start.isdecimal() else 1) if tag == "ol" else None)
        elif tag == "li":
            self._item()
        elif tag == "input" and element.get("type") == "checkbox" and "disabled" in element.attrib:
            # Check boxes of task lists; others belong to forms, or open menus.
            self._add(f"{CHECKED if 'checked' in element.attrib else UNCHECKED} ")
        if element.text:
            self._add(element.text)

    def _end(self, element: HtmlElement) -> None:
        tag = element.tag
        if tag in ("td", "th"):
            self._cells -= 1
            self._trim()
        elif tag in ("ol", "ul"):
            self._counters.pop()
        if tag in _BLOCKS:
            self._boundary(1 if tag in _LINES or tag in _TABLE_PARTS or (tag in _LISTS and self._counters) else 2)
        if tag in _VERBATIM:
            self._verbatim -= 1
        elif tag == "li" or tag in _HEADINGS:
            self._prefix = ""  # of an item without text

    def _table(self, table: HtmlElement) -> None:
        self._boundary(2)
        for caption in table.iterfind("caption"):
            self._add(_line(caption))
            self._boundary(2)
        self._block(table_text(_rows(table)))
        self._gap = 2
        for picture in table.iter("img") if self._marks else ():
            self._picture(picture)

    def _picture(self, element: HtmlElement) -> None:
        """Mark a picture behind the block that it stands in, else behind the last one."""
        if self._marks and (mark := self._marks(element)):
            if self._blocks and not self._pieces:
                self._blocks[-1] += mark
            else:
                self._pending += mark

    def _item(self) -> None:
        counter = self._counters[-1] if self._counters else None
        self._prefix = "- " if counter is None else f"{counter}. "
        if counter is not None:
            self._counters[-1] = counter + 1

    def _add(self, text: str) -> None:
        if not self._verbatim:
            text = _SPACE.sub(" ", text)
            if text.startswith(" ") and (not self._pieces or self._pieces[-1][-1] in " \n"):
                text = text[1:]
        if text:
            self._pieces.append(text)

    def _trim(self) -> None:
        """Drop white space at the end of the gathered text."""
        while self._pieces:
            self._pieces[-1] = self._pieces[-1].rstrip()
            if self._pieces[-1]:
                return
            self._pieces.pop()

    def _newline(self) -> None:
        if not self._verbatim:
            while self._pieces and self._pieces[-1].endswith(" "):
                self._pieces[-1] = self._pieces[-1].rstrip(" ")
                if not self._pieces[-1]:
                    self._pieces.pop()
        if self._pieces:
            self._pieces.append("\n")

    def _boundary(self, gap: int) -> None:
        """End a paragraph; within a table cell, only a line."""
        if not self._cells:
            self._flush()
            self._gap = max(self._gap, gap)
        elif self._pieces and not self._pieces[-1].endswith(("\n", " | ")):
            self._newline()

    def _flush(self) -> None:
        text = "".join(self._pieces)
        self._pieces = []
        if self._verbatim:
            text = text.strip("\n").rstrip()
            if text and not self._cells:
                text, self._prefix = fenced(text), ""
        else:
            text = text.strip()
        self._block(" ".join(text.split()) if self._prefix.startswith("#") else text)

    def _block(self, text: str) -> None:
        if text:
            if self._blocks:
                self._blocks.append("\n" * self._gap)
            self._blocks.append(self._prefix + text + self._pending)
            self._prefix, self._gap, self._pending = "", 0, ""


def _is_data(table: HtmlElement) -> bool:
    """Whether a table holds data: it does not lay out a page, and has more than one cell."""
    if any(table.find(path) is not None for path in _LAYOUT[:-1]) or table.xpath(_LAYOUT[-1]):
        return False
    return sum(1 for _ in islice(table.iter("td", "th"), 2)) > 1


def _rows(table: HtmlElement) -> list[list[str]]:
    """Return the cells of a table by row; one that spans rows or columns is repeated down, and empty to the right."""
    rows: list[list[str]] = []
    spans: dict[int, tuple[int, str]] = {}
    upper: list[str] = []
    for row in table.iter("tr"):
        cells: list[str] = []

        def fill(cells: list[str] = cells) -> None:
            while len(cells) in spans:
                left, text = spans.pop(len(cells))
                if left > 1:
                    spans[len(cells)] = left - 1, text
                cells.append(text)

        for cell in row.iterchildren("td", "th"):
            fill()
            text = _line(cell)
            for extra in range(_number(cell, "colspan")):
                if (down := _number(cell, "rowspan")) > 1:
                    spans[len(cells)] = down - 1, "" if extra else text
                cells.append("" if extra else text)
                if not rows:
                    upper.append(text)
        fill()
        rows.append(cells)
    if len(rows) > 1 and upper != rows[0] and all(map(_is_of_heads, islice(table.iter("tr"), 2))):
        rows[:2] = [joined_heads(upper, rows[1])]
    return rows


def _is_of_heads(row: HtmlElement) -> bool:
    parent = row.getparent()
    return (parent is not None and parent.tag == "thead") or row.find("td") is None


def _number(cell: HtmlElement, name: str) -> int:
    value = cell.get(name, "1").strip()
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() and len(value) < 9 else 1
