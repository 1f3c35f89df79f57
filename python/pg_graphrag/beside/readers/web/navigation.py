"""Removes links of an HTML page that only lead elsewhere: to the previous or next page, to edit or to download it."""

import re
from copy import deepcopy
from itertools import groupby

from lxml.html import Element, HtmlElement

# What asks a reader to go on, as written on buttons: to the page before, after or above.
_SIDEWAYS = (
    "prev(?:ious)?|précédente?|zurück|vor(?:herig|ig)e[rs]?|anterior|precedente|indietro|vorige|пред(?:ыдущая|ыдущий|\\.)?|назад|前へ?|戻る"
    "|上一[页章頁步]|이전|السابق|föregående|forrige|edellinen|poprzedni[ae]?|předchozí|előző|попередн(?:я|ій|є)|предишна"
    "|προηγούμεν[οη]|önceki|sebelumnya|(?:trang |chương )?trước|पिछला|קודם|הקודם|قبلی|ก่อนหน้า"
    "|next|suivante?|weiter|nächste[rs]?|siguiente|seguinte|próxim[ao]|successivo|avanti|volgende|след(?:ующая|ующий|\\.)?|далее|впер[её]д"
    "|次へ?|下一[页章頁步]|다음|التالي|nästa|neste|næste|seuraava|następn[yae]|další|následující|következő|următor(?:ul)?|наступн(?:а|ий|е)"
    "|следваща|επόμεν[οη]|sonraki|berikutnya|selanjutnya|(?:trang |chương )?(?:sau|tiếp)|अगला|הבא|بعدی|ถัดไป"
)
_ABOVE = (
    "up|home|top|(?:table of )?contents|toc|index|start|(?:back|return) to (?:the )?(?:top|index|contents|main page|home ?page)"
    "|main page|read (?:this )?(?:book )?(?:online|offline)|niveau supérieur|sommaire|accueil"
    "|nach oben|startseite|zum anfang|inhalt(?:sverzeichnis)?|subir|inicio|início|acima|indice|вверх|выше|начало|содержание"
    "|上に戻る|ホーム|目次|上一[级級層]|起始[页頁]|目[录錄]|首[页頁]|위로|홈|차례"
)
_SIGNS = r"[\s«»‹›<>←→↑⇐⇒⇑◀▶►◄|·:.\[\]()-]*"
# A title, whatever it says: «Up».
_NOT_QUOTED = r"(?!\s*[«‹].*[»›]\s*\Z)"
_PART = "page|chapter|section|topic|kapitel|seite|abschnitt|chapitre|cap[íi]tulo|capitolo|p[áa]gina|hoofdstuk|глава|страница"
_WHAT, _OF_WHAT = f"(?:(?:{_PART}) )?", f"(?: (?:{_PART}))?"
_TURN, _MOVE = (
    re.compile(rf"{_NOT_QUOTED}{_SIGNS}{_WHAT}(?:{words}){_OF_WHAT}{_SIGNS}", re.IGNORECASE)
    for words in (_SIDEWAYS, f"{_SIDEWAYS}|{_ABOVE}")
)
# What begins a link that names the page that it leads to.
_TURN_TO = re.compile(rf"\s*(?:{_SIDEWAYS}){_OF_WHAT}\s*[:–—]", re.IGNORECASE)
# Arrows before a title, and behind one: links to anywhere have them, too. «A title» within both is quoted.
_ARROW_BACK, _ARROW_ON = re.compile(r"[←⇐◀◄]|<+\Z|[«‹](?!.*[»›])"), re.compile(r".*[→⇒▶►]|>+|[^«‹]*[»›]")
# Labels before such a link: "Next: Installing".
_LABEL = re.compile(rf"\W*(?:{_SIDEWAYS}|{_ABOVE})\s*:\s*", re.IGNORECASE)
# Actions on the page.
_BESIDE = re.compile(
    r"skip to .{1,40}|(?:edit|improve) (?:this|the) (?:page|section|article)|edit (?:page|on \w+|source)"
    r"|(?:view|show|page) (?:page )?source|view (?:this )?(?:page|source|history)(?: on \w+)?|suggest (?:an )?(?:edits?|changes)"
    r"|report (?:a bug|an issue|a problem)|(?:open|create) (?:an )?issue|print this page|back to (?:the )?top|return to top"
    r"|(?:give|send|share) feedback|share (?:this(?: page)?|(?:this )?(?:on|via) \w+)|tweet(?: this)?",
    re.IGNORECASE,
)
_FORMAT = "e-?books?|pdf|epub|mobi|kindle|html|zip"
# An API gets and saves pages and books, too: not in a format.
_DOWNLOAD = re.compile(
    rf"(?:download|(?:get|save|export)(?=.* (?:(?:this|the) book|{_FORMAT})\b))(?: (?:the|this|as|a|an|free|whole)){{0,3}}"
    rf"(?: (?:book|manual|guide|chapter|page|{_FORMAT}))"
    rf"(?: (?:file|version|edition))?(?: (?:as|in|for)(?: an?)? (?:{_FORMAT}))?"
    r"|print(?:able|er[- ]friendly)? version",
    re.IGNORECASE,
)
_RELATIONS = frozenset(("prev", "previous", "next", "up", "first", "last", "contents", "toc", "start", "home"))
_TURNS = frozenset(("prev", "previous", "next"))
_NAME = re.compile(r"\w*[a-z][A-Z]")
# Links to the place where they stand, and to source code.
_ANCHORS = frozenset(("¶", "§", "#", "🔗", "⚓"))
_SOURCE = frozenset(("[source]", "[src]", "source", "src"))
_SOURCE_CLASSES = frozenset(("src", "srclink", "viewcode-link"))
_BARS = frozenset(
    ("div", "p", "ul", "ol", "table", "tbody", "tr", "td", "center", "section", "header", "footer", "aside", "form")
)
_HEADINGS = "h1 h2 h3 h4 h5 h6 pre".split()
_LOOSE = frozenset(("a", "b", "br", "em", "font", "i", "img", "small", "span", "strong"))
_MOST_LINKS, _MOST_LETTERS, _MOST_LOOSE = 12, 400, 40
# Stands for a link.
_LINK = "\ufffc"
# Letters beside links: the title of a book between "Prev" and "Next".
_BESIDE_LINKS = 40


def is_beside_text(link: HtmlElement) -> bool:
    """Whether a link leads to its own place, to source code, past the navigation, or to actions on the page."""
    text = _text(link)
    if text in _ANCHORS and link.get("href", "#").startswith("#"):
        return True
    if text.lower() in _SOURCE and not _SOURCE_CLASSES.isdisjoint(link.get("class", "").split()):
        return True
    # Not within a sentence.
    return _BESIDE.fullmatch(text) is not None and not any(map(str.isalnum, _text_before(link) + (link.tail or "")))


def leads_on(block: HtmlElement, links: int, letters: int, linked: int) -> bool:
    """Whether a block is links to the page before, after or above, or to download the book, with hardly a word beside them."""
    if (
        block.tag not in _BARS
        or not 0 < links <= _MOST_LINKS
        or letters > _MOST_LETTERS
        or letters - linked > _BESIDE_LINKS
    ):
        return False
    visible = [link for link in block.iter("a") if _text(link)]
    moves = [link for link in visible if _is_move(link)]
    arrows = {link: way for link in visible if link not in moves and (way := _arrow(link))}
    # Arrows turn only beside another move, or where they lead both ways.
    if moves or len(set(arrows.values())) > 1:
        moves += arrows
    if not moves or not any(map(_is_button, moves)) or next(block.iter(*_HEADINGS), None) is not None:
        return False
    if letters == linked and len(moves) == len(visible):
        return True
    return len(moves) > 1 and 2 * len(moves) >= len(visible) and any(_turns(link) or link in arrows for link in moves)


def take_out_loose(main: HtmlElement) -> None:
    """Take out links that lead on from a page where they stand in no block of their own, as LaTeX2HTML writes them."""
    before = main.text or ""
    for is_loose, group in groupby(list(main), lambda child: child.tag in _LOOSE):
        run = list(group)
        size = sum(len(child.text_content()) + len(child.tail or "") for child in run)
        if is_loose and not any(map(str.isalnum, before)) and len(run) <= _MOST_LOOSE and size <= _MOST_LETTERS:
            block = Element("div")
            block.extend(map(deepcopy, run))
            letters = sum(map(str.isalnum, block.text_content()))
            linked = sum(map(str.isalnum, "".join(link.text_content() for link in block.iter("a"))))
            if leads_on(block, sum(1 for _ in block.iter("a")), letters, linked) and _has_labels_alone(block):
                for child in run:
                    main.remove(child)
        before = run[-1].tail or ""


def _has_labels_alone(block: HtmlElement) -> bool:
    """Whether all words beside the links of a block are labels of links, such as "Next:". The links are removed from it."""
    for link in list(block.iter("a")):
        for child in list(link):
            link.remove(child)
        link.text = _LINK
    *labels, rest = block.text_content().split(_LINK)
    return not any(map(str.isalnum, rest)) and all(
        _LABEL.fullmatch(label) for label in labels if any(map(str.isalnum, label))
    )


def _text(element: HtmlElement) -> str:
    return " ".join(element.text_content().split())


def _labels(link: HtmlElement) -> list[str]:
    """Return the text of a link, and of the first element in it: "Prev" before the title of the page."""
    return [_text(link), *(_text(child) for child in link[:1])]


def _is_marked(link: HtmlElement, relations: frozenset[str]) -> bool:
    return not relations.isdisjoint(link.get("rel", "").lower().split())


def _is_move(link: HtmlElement) -> bool:
    return (
        _turns(link)
        or _is_marked(link, _RELATIONS)
        or any(_MOVE.fullmatch(label) or _DOWNLOAD.fullmatch(label) for label in _labels(link))
    )


def _arrow(link: HtmlElement) -> str:
    """Return which way an arrow beside the text of a link leads: "back", "on" or ""."""
    text = _text(link)
    return "back" if _ARROW_BACK.match(text) else "on" if _ARROW_ON.fullmatch(text) else ""


def _text_before(link: HtmlElement) -> str:
    """Return the text between a link and what stands before it."""
    before, parent = link.getprevious(), link.getparent()
    return str((before.tail if before is not None else parent.text if parent is not None else "") or "")


def _turns(link: HtmlElement) -> bool:
    labels = _labels(link)
    before = _text_before(link)
    if not before.strip() and (element := link.getprevious()) is not None:
        before = _text(element)
    return (
        _is_marked(link, _TURNS)
        or _LABEL.fullmatch(before) is not None
        or _TURN_TO.match(labels[0]) is not None
        or any(map(_TURN.fullmatch, labels))
    )


def _is_button(link: HtmlElement) -> bool:
    """Whether a link is written as one that leads on; names of functions (next) and of firms (NeXT) are not written so."""
    text = _text(link)
    if _NAME.match(_labels(link)[-1]):
        return False
    return bool(link.get("rel") or link.get("accesskey")) or not text[:1].islower() or text[0] > "\u024f"
