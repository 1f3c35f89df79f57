"""Marks by which a context numbers its documents: what cites one in an answer, and texts in which nothing can be taken for one.

Both go by one rule, so that nothing which a text of a document says can count as a citation.
"""

import re
import unicodedata
from functools import cache

# Square brackets and what looks like them. None can be doubled beyond `[[1]]`.
OPEN, CLOSE = "[［【〔〖〘〚﹝⁅❲⦋⦍⦏", "]］】〕〗〙〛﹞⁆❳⦌⦎⦐"
# What a mark of a text is put in instead: models do not cite so.
TEXT_OPEN, TEXT_CLOSE = "⟦", "⟧"
# Longest mark; and no context has so many documents: greater numbers are years and the like.
MAX_MARK = 100
MAX_CITED = 1000
# Characters that nobody sees.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)

# What models put before a number: source, document, reference, passage, text, see; "_" is a space.
_LABELS = """
source reference ref document doc citation cite passage chunk text excerpt snippet evidence see from cf no nr num number n°
quelle quellen dokument dokumente dok beleg belege fundstelle textstelle referenz referenzen siehe vgl
référence extrait texte voir fuente documento referencia pasaje cita texto véase
fonte fonti documenti riferimento riferimenti passaggio brano testo vedi referência trecho
bron bronnen documenten referentie tekst zie źródło źródła dokumenty dokumentu odniesienie zob zdroj zdroje
источник источники документ документы док ссылка ссылки текст фрагмент отрывок см джерело джерела документи
källa källor kilde kilder dokumentet dokumenter referens lähde lähteet asiakirja dokumentti forrás dokumentum sursa sursă
kaynak kaynaklar belge belgeler doküman metin nguồn tài_liệu văn_bản trích_dẫn sumber dokumen πηγή έγγραφο
מקור מסמך المصدر مصدر المصادر الوثيقة وثيقة المستند مستند المرجع مرجع النص نص منبع سند स्रोत दस्तावेज़ แหล่งที่มา เอกสาร
文書番号 文書 文献 参考文献 参考資料 資料 出典 引用元 引用 参照元 参照 参考 情報源 典拠 ソース ドキュメント
文档 文檔 文獻 参考资料 參考資料 參考文獻 資料 资料 来源 來源 參考 出处 出處 文件 段落 文本
문서 자료 출처 참고문헌 참고 인용 문헌 소스
"""


# Between two numbers, and before a page or section of what is cited.
_AND = "and|und|et|y|e|en|i|и|та|و|ve|và|och|og|ja|or|oder|ou|o|と|及び|および|和|与|與|及|및|와|과"
_PAGES = (
    "pp?|pages?|pg|s|seiten?|ff?|sections?|sec|sect|abs|abschnitt|ch|chap|chapter|kap|kapitel|para|paragraph|lines?|l|z"
    "|zeilen?|págs?|páginas?|pagina|str|стр|с|頁|ページ|页|쪽"
)


@cache
def _grammar() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return patterns of (an item of a mark, the end of what is said beside a number, the same beside a page)."""
    labels = unicodedata.normalize("NFKC", _LABELS).casefold().split()
    words = sorted((word.replace("_", " ") for word in labels), key=len, reverse=True)
    sign, number = r"[\s#^*]*", r"\d{1,9}"
    label = rf"(?:第\s*)?(?:(?:{'|'.join(words)})(?:s|en|e)?[\s._:#=-]*){{1,3}}|第"
    through = r"\s*(?:[-–—‐‑~〜]|(?:to|through|bis)\b|至|到|から)\s*"
    item = (
        rf"{sign}(?P<label>{label})?{sign}(?P<first>{number})(?:{through}[\^#]?(?P<last>{number}))?(?![\d.]*\d)"
        r"[\^*]*(?:号|號|番|호|번)?"
    )
    following, labelled = rf"{sign}(?:{label})?{sign}{number}(?!\d)", rf"{sign}(?:{label}){sign}{number}(?!\d)"
    part = rf"\s*(?:[,;、&|]|(?:[,;、]\s*)?(?:{_AND})(?![a-zà-ÿа-я]))\s*(?={following})"
    page = rf"\s*[,;:.]?\s*(?:(?:{_PAGES})\b|第|§+)\.?\s*(?=\d)"
    beside = r"(?::\d+)?†|\s*[:|]\s*(?=[^\s\d])|\s*[.,;]\s*(?=[^\W\d_]{2})|\s+[-–—]\s*(?=[^\W\d_])|\s*\("
    return (
        re.compile(rf"{item}(?:{part}|(?P<page>{page})|(?P<beside>{beside})|\s*[,;]?\s*\Z)"),
        re.compile(rf"\s*[,;、]\s*(?={following})|\Z"),
        re.compile(rf"\s*;\s*(?={following})|\s*[,、]\s*(?={labelled})|\Z"),
    )


def cited(inner: str) -> tuple[list[tuple[int, int]], bool] | None:
    """Return (ranges of numbers that the text between two brackets cites, whether it calls them documents); None: it is no mark.

    `1`, `1, 3`, `1-3`, `1 and 2`, `^1`, `#1`, `Document 1`, `文書1`, `Source: 1`, `1: Estate`, `1, p. 3`, `1†source` are marks.
    Places in arrays, intervals from 0, dates and times are none.
    """
    if len(inner) > MAX_MARK or not any(map(str.isnumeric, inner)):
        return None
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", inner)).casefold().strip()
    item_of, end_beside, end_page = _grammar()
    ranges: list[tuple[int, int]] = []
    is_labelled, position = False, 0
    while position < len(text):
        item = item_of.match(text, position)
        if item is None or item["first"].startswith("0") or (item["last"] or "").startswith("0"):
            return None
        first, last = int(item["first"]), int(item["last"] or item["first"])
        ranges.append((first, last))
        is_labelled = is_labelled or item["label"] is not None
        position = item.end()
        if item["page"] is not None or item["beside"] is not None:
            end = (end_beside if item["page"] is None else end_page).search(text, position)
            assert end is not None
            position = end.end()
    return (ranges, is_labelled) if ranges else None


_BRACKETS = re.compile(
    rf"\\{{0,2}}[{re.escape(OPEN)}]{{1,2}}([^{re.escape(OPEN + CLOSE)}]{{1,{MAX_MARK}}})[{re.escape(CLOSE)}]{{1,2}}"
)
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
        text = _BRACKETS.sub(_neutral_mark, text)
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
    if not 0 < len(line) <= _MAX_HEADING or (
        line.lstrip().startswith("#") and not line.rstrip(" \t*_").endswith((":", "："))
    ):
        return False
    letters = "".join(filter(str.isalnum, unicodedata.normalize("NFKC", line).casefold()))
    return letters in _HEADINGS


def _neutral_mark(match: re.Match[str]) -> str:
    inner = match[1].rstrip("\\")
    mark = cited(inner)
    if mark is not None:
        reads_so = any(min(numbers) < MAX_CITED for numbers in mark[0])
    else:
        # What no answer cites by, and yet reads as a number: [02], [+2], [<b>2</b>].
        alone = _NUMBER_ALONE.fullmatch(unicodedata.normalize("NFKC", _UNSEEN.sub("", _HTML.sub("", inner))))
        reads_so = alone is not None and int(alone[1]) > 0
    return f"{TEXT_OPEN}{inner}{TEXT_CLOSE}" if reads_so else match[0]


def _neutral_label(match: re.Match[str]) -> str:
    mark = cited(match[1])
    return f"{TEXT_OPEN}{match[1]}{TEXT_CLOSE}" if mark is not None and mark[1] else match[0]
