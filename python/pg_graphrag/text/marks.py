"""Marks by which a context numbers its documents: finds citations in answers, and removes marks from texts of
documents.

Both use one rule, so that no text of a document can count as a citation.
"""

import re
from functools import cache

from pg_graphrag.text.letters import folded

# Square brackets and what looks like them. None can be doubled beyond `[[1]]`.
OPEN, CLOSE = "[［【〔〖〘〚﹝⁅❲⦋⦍⦏", "]］】〕〗〙〛﹞⁆❳⦌⦎⦐"
# What a mark of a text is put in instead: models do not cite so.
TEXT_OPEN, TEXT_CLOSE = "⟦", "⟧"
# The longest mark; and the greatest reference: greater numbers are years and the like.
MAX_MARK = 100
MAX_CITED = 1000
# What models put before a number; "_" is a space. These mean documents, in round brackets, too;
_DOCUMENTS = """
source reference ref document doc citation
quelle quellen dokument dokumente dok referenz referenzen référence réf fuente documento referencia
fonte fonti documenti riferimento riferimenti referência
bron bronnen documenten referentie źródło źródła dokumenty dokumentu odniesienie zdroj zdroje
источник источники документ документы док джерело джерела документи
källa källor kilde kilder dokumentet dokumenter referens lähde lähteet asiakirja dokumentti forrás dokumentum sursa sursă
kaynak kaynaklar belge belgeler doküman nguồn tài_liệu trích_dẫn sumber dokumen πηγή έγγραφο
מקור מסמך المصدر مصدر المصادر الوثيقة وثيقة المستند مستند المرجع مرجع منبع سند स्रोत दस्तावेज़ แหล่งที่มา เอกสาร
文書番号 文書 文献 参考文献 参考資料 出典 引用元 引用 参照元 情報源 典拠 ソース ドキュメント
文档 文檔 文獻 参考资料 參考資料 參考文獻 来源 來源 出处 出處 文件
문서 출처 참고문헌 인용 문헌 소스
"""
# and these may point to whatever has numbers: texts, evidence, see, from.
_POINTERS = """
row zeile ligne fila riga linha rij wiersz rad строка 行
cite id footnote passage chunk text excerpt snippet evidence see from cf no nr num number n°
file record web datei fichier archivo ficheiro arquivo bestand plik soubor fil файл ファイル 파일 according_to laut selon según
beleg belege fundstelle textstelle siehe vgl extrait texte voir pasaje cita texto véase passaggio brano testo vedi trecho
tekst zie zob ссылка ссылки текст фрагмент отрывок см metin văn_bản النص نص 資料 参照 参考 根拠 资料 參考 段落 文本 자료 참고
"""


# Words between two numbers, and before a page or section of a citation.
_AND = r"and|und|sowie|u\.|et|y|e|en|i|и|та|و|ve|và|och|og|ja|or|oder|ou|o|と|及び|および|和|与|與|及|및|와|과"
_PAGES = (
    "pp?|pages?|pg|s|seiten?|ff?|sections?|sec|sect|abs|abschnitt|ch|chap|chapter|kap|kapitel|para|paragraph|lines?|l|z"
    "|zeilen?|págs?|páginas?|pagina|str|стр|с|頁|ページ|页|쪽"
)


# [1 2] and [1/2], but no [1 1] or [0 1].
LOOSELY_PARTED = re.compile(r"[#^]?[1-9]\d{0,2}(?:(?:\s+|\s*/\s*)[#^]?[1-9]\d{0,2})+")


def _any_of(labels: str) -> str:
    """Return a pattern of labels, the longest first."""
    words = folded(labels).split()
    return "|".join(sorted((word.replace("_", " ") for word in words), key=len, reverse=True))


@cache
def _grammar() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return patterns of (an item of a mark, the end of the words after a number, the same after a page)."""
    sign, number = r"[\s#^*]*", r"\d{1,9}"
    documents = _any_of(_DOCUMENTS)
    label = rf"(?:第\s*)?(?:(?:{documents}|{_any_of(_POINTERS)})(?:s|en|e)?[\s._:#=-]*){{1,3}}|第"
    own_label = label.replace(documents, f"(?P<document>{documents})")
    through = r"\s*(?:[-–—‐‑~〜]|(?:to|through|bis)\b|至|到|から)\s*"
    item = (
        rf"{sign}(?:{own_label})?{sign}(?P<first>{number})(?:{through}[\^#]?(?P<last>{number}))?(?![\d.]*\d)"
        r"[\^*]*(?:号|號|番|호|번)?"
    )
    following, labelled = rf"{sign}(?:{label})?{sign}{number}(?!\d)", rf"{sign}(?:{label}){sign}{number}(?!\d)"
    part = rf"\s*(?:[,;、&|]|(?:[,;、]\s*)?(?:{_AND})(?![a-zà-ÿа-я]))\s*(?={following})"
    page = rf"\s*[,;:.]?\s*(?:(?:{_PAGES})\b|第|§+)\.?\s*(?=\d)"
    beside = r"(?::\d+)?†|\s*[:|]\s*(?=[^\s\d])|\s*[.,;]\s*(?=[^\W\d_]{2})|\s+[-–—]\s*(?=[^\W\d_])|\s*\("
    return (
        re.compile(rf"{item}(?:{part}|(?P<page>{page})|(?P<beside>{beside})|\s*[,;.]?\s*\Z)"),
        re.compile(rf"\s*[,;、]\s*(?={following})|\Z"),
        re.compile(rf"\s*;\s*(?={following})|\s*[,、]\s*(?={labelled})|\Z"),
    )


def cited(inner: str) -> tuple[list[tuple[int, int]], bool] | None:
    """Return (ranges of numbers that the text between two brackets cites, whether it calls them documents); None: it is no
    mark.

    `1`, `1, 3`, `1-3`, `1 and 2`, `^1`, `#1`, `Document 1`, `文書1`, `Source: 1`, `1: Estate`, `1, p. 3`, `1†source` are
    marks. So are `1 2` and `1/2`, if each number is greater than the one before. Places in arrays, intervals from 0, dates
    and times are none.
    """
    if len(inner) > MAX_MARK or not any(map(str.isnumeric, inner)):
        return None
    text = folded(inner).strip()
    item_of, end_beside, end_page = _grammar()
    ranges: list[tuple[int, int]] = []
    if LOOSELY_PARTED.fullmatch(text):
        numbers = list(map(int, re.findall(r"\d+", text)))
        return ([(number, number) for number in numbers], False) if numbers == sorted({*numbers}) else None
    is_labelled, position = False, 0
    while position < len(text):
        item = item_of.match(text, position)
        if item is None or item["first"].startswith("0") or (item["last"] or "").startswith("0"):
            return None
        first, last = int(item["first"]), int(item["last"] or item["first"])
        ranges.append((first, last))
        is_labelled = is_labelled or item["document"] is not None
        position = item.end()
        if item["page"] is not None or item["beside"] is not None:
            end = (end_beside if item["page"] is None else end_page).search(text, position)
            assert end is not None
            position = end.end()
    return (ranges, is_labelled) if ranges else None


_BRACKETS = re.compile(
    rf"\\{{0,2}}[{re.escape(OPEN)}]{{1,2}}([^{re.escape(OPEN + CLOSE)}]{{1,{MAX_MARK}}})[{re.escape(CLOSE)}]{{1,2}}"
)
# Longer than a mark may be. Blanks and what nobody sees may make it so.
_LONG_BRACKETS = re.compile(
    rf"[{re.escape(OPEN)}]([^{re.escape(OPEN + CLOSE)}]{{{MAX_MARK + 1},}})[{re.escape(CLOSE)}]"
)
_OWN_CITATION = re.compile(rf"[A-Za-z_](?:{_BRACKETS.pattern.replace('(', '(?:', 1)})+| ?{_BRACKETS.pattern}")
_ROUND = re.compile(rf"[(（]([^()（）\n]{{1,{MAX_MARK}}})[)）]")
_NUMBER_ALONE, _HTML = re.compile(r"[\W_]*0*(\d{1,3})[\W_]*"), re.compile(r"<[^<>]{0,40}>")
# Lines that head a part of a prompt, as letters and digits; headings of Markdown; and tags around data.
_HEADINGS = frozenset(
    "reports reportsonpartsofthegroup entities relationships claims rows rowsofastatementovertables text references question"
    " conversation".split()
)
_MAX_HEADING = 48
_LINE_END = re.compile(r"([\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
_MARKDOWN_HEADING = re.compile(r"^[ \t]*[#＃]{1,6}[ \t\u3000]+", re.MULTILINE)
_TAG = re.compile(r"<(/?\s*(?:documents|reports?|texts?|passages|concepts|tables)\s*-[^<>\n]{0,40})>", re.IGNORECASE)


def neutral(text: str) -> str:
    """Return a text of a document in which nothing can be read as a mark, a heading or a tag of the prompt that it is put in."""
    if any(bracket in text for bracket in OPEN):
        text = _LONG_BRACKETS.sub(_neutral_long_mark, _BRACKETS.sub(_neutral_mark, text))
    if "(" in text or "（" in text:
        text = _ROUND.sub(_neutral_label, text)
    if "<" in text:
        text = _TAG.sub(rf"{TEXT_OPEN}\1{TEXT_CLOSE}", text)
    return "".join(f"{TEXT_OPEN}{line}{TEXT_CLOSE}" if _is_heading(line) else line for line in _LINE_END.split(text))


def neutral_line(text: str) -> str:
    """Return a text as `neutral` does, in one line."""
    return neutral(" ".join(text.split()))


def without_headings(text: str) -> str:
    """Return a text with headings of Markdown as lines like others, for prompts that have such themselves."""
    return _MARKDOWN_HEADING.sub("", text)


def _is_heading(line: str) -> bool:
    # Blanks and what nobody sees make no line a longer one.
    if not 0 < sum(map(str.isalnum, line)) <= _MAX_HEADING or (
        line.lstrip().startswith("#") and not line.rstrip(" \t*_").endswith((":", "："))
    ):
        return False
    return "".join(filter(str.isalnum, folded(line))) in _HEADINGS


def _neutral_mark(match: re.Match[str]) -> str:
    inner = match[1].rstrip("\\")
    return f"{TEXT_OPEN}{inner}{TEXT_CLOSE}" if _cites(inner) or _reads_as_number(inner) else match[0]


def _neutral_long_mark(match: re.Match[str]) -> str:
    inner = " ".join(folded(match[1]).split())
    return f"{TEXT_OPEN}{match[1]}{TEXT_CLOSE}" if _cites(inner) or _reads_as_number(inner) else match[0]


def _cites(inner: str) -> bool:
    """Whether an answer could cite by the text between two brackets."""
    mark = cited(inner)
    return mark is not None and any(min(numbers) < MAX_CITED for numbers in mark[0])


def _reads_as_number(inner: str) -> bool:
    """Whether what cites nothing reads as a number: [02], [+2], [<b>2</b>]."""
    alone = _NUMBER_ALONE.fullmatch(folded(_HTML.sub("", inner)))
    return alone is not None and int(alone[1]) > 0


def _neutral_label(match: re.Match[str]) -> str:
    mark = cited(match[1])
    return f"{TEXT_OPEN}{match[1]}{TEXT_CLOSE}" if mark is not None and mark[1] else match[0]


def given_back(inner: str) -> str:
    """Return the original text of the brackets that `neutral` replaced; "" for text that would cite, except for [1/2], as
    in logs.
    """
    if _cites(inner):
        return f"[{inner}]" if "/" in inner else ""
    if _is_heading(inner):
        return inner
    if _TAG.fullmatch(tag := f"<{inner}>"):
        return tag
    return f"[{inner}]" if _reads_as_number(inner) else f"{TEXT_OPEN}{inner}{TEXT_CLOSE}"


def without_citations(line: str) -> str:
    """Return a line of a document without what cites there; right behind a word it may be a subscript, and stays."""
    return _OWN_CITATION.sub(lambda match: "" if match[1] and _cites(match[1].rstrip("\\")) else match[0], line)
