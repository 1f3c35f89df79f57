"""Names that runs of capitals miss: names with a rank after a comma, and titles in quotation marks."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from pg_graphrag.text.concept import REPEATED, Concept, key
from pg_graphrag.text.outline import HEADING_ATTRIBUTES
from pg_graphrag.text.words.stopwords import ENGLISH_FUNCTION_WORDS, ENGLISH_RANKS


# ", 1st Baron", ", Grand Duke", ", Queen".
@cache
def _rank() -> re.Pattern[str]:
    """Compiled on first use: that takes a millisecond."""
    return re.compile(
        rf",\s(?:\d+(?:st|nd|rd|th)\s)?(?=(?:(?:Crown|Grand|Hereditary)\s)?(?:{'|'.join(ENGLISH_RANKS)})\b)"
    )


_QUOTED = re.compile(r"[\"“]([^\s\"“”][^\"“”\n]{0,79})[\"”]")
_LONGEST_TITLE = 9
_SMALL_IN_TITLES = frozenset(
    "a an the of in on at by for from with to into and or but nor as vs via de la le les del der die das und von van y "
    "et".split()
)


def names_with_rank(text: str, concepts: Iterable[Concept]) -> list[Concept]:
    """Return the names of `concepts` that a rank follows, with it: "Henry Stafford, 1st Baron Stafford"."""
    names = {concept.start: concept for concept in concepts if concept.type == "NAME"}
    longer = []
    for name in names.values():
        rank = _rank().match(text, name.end)
        if rank and (title := names.get(rank.end())):
            longer.append(Concept(" ".join(text[name.start : title.end].split()), name.start, title.end, "NAME"))
    return longer


def quoted_titles(text: str) -> list[Concept]:
    """Return quotations that are written like titles: "Love Forecast", not "Yes!" or "to be or not"."""
    titles = []
    for match in _QUOTED.finditer(text):
        title = match.group(1).rstrip(" ,.")
        words = title.split()
        if not words or len(words) > _LONGEST_TITLE or not (words[0][0].isupper() or words[0][0].isdigit()):
            continue
        if len(words) == 1 and (not title.isalpha() or len(title) < 3 or title.lower() in ENGLISH_FUNCTION_WORDS):
            continue
        # "How are you?" is said.
        is_said = any(ENGLISH_FUNCTION_WORDS.get(word) in ("t", "b") and word != "to" for word in words)
        # A title begins and ends with a capital, and has small words small: "They say" is said.
        is_written = not words[-1][0].islower() and all(word in _SMALL_IN_TITLES for word in words if word[0].islower())
        if not is_said and is_written:
            # "My God!", "Hist", "Well, Watson," are titles where a text has them again.
            is_call = title[-1] in "!?" or words[0].endswith(",")
            needed = REPEATED if is_call or len(words) == 1 else 1
            titles.append(Concept(" ".join(words), match.start(1), match.start(1) + len(title), "NAME", needed))
    return titles


# Placeholders for a missing title, and files whose names say nothing about their contents.
_NO_TITLE = re.compile(
    r"(?:untitled|no title|none|null|unknown|readme|index|default|main|test|draft|scan|image|img|doc|document|page"
    r"|file|chapter"
    r"|new document|microsoft word|powerpoint presentation|slide|presentation|無題|名称未設定|新規ドキュメント"
    r"|无标题|未命名|無標題|文档"
    r"|dokument|ohne titel|sans titre|sin título)(?:[\s_.()-]{0,3}\d{0,8}){0,4}(?:\.\w{1,5})?",
    re.IGNORECASE,
)


# What many documents have as a part, and none is about.
@cache
def _heading() -> re.Pattern[str]:
    """Compiled on first use: that takes a millisecond."""
    return re.compile(
        r"(?:about(?: the authors?| this (?:book|document|guide|manual))?|abstract|acknowledge?ments?|addendum"
        r"|afterword|appendix|background|bibliography|change ?log|colophon|conclusions?|contents|contributors|copyright"
        r"|credits|dedication|endnotes|epigraph|epilogue|footnotes|frontispiece|imprint|preamble|prologue"
        r"|disclaimer|errata|faq|foreword|further reading|getting started|glossary|history|how-?to|id"
        r"|introduction|legal notice|licen[cs]es?|links|next steps|notes?|notice|other|overview|preface"
        r"|questions|references|release notes|resources|see also|summary|table of contents|the end|thanks|tips"
        r"|title page|what'?s new|abbildungen|anhang|anmerkungen?|danksagung|einführung|einleitung|fazit"
        r"|glossar|hinweise?|impressum|inhalt(?:sverzeichnis)?|literatur(?:verzeichnis)?|nachwort"
        r"|rechtliche hinweise|referenzen|schlu(?:ss|ß)formel|sonstiges|stichwortverzeichnis|übersicht"
        r"|über dieses (?:buch|dokument|handbuch)|vorwort|weblinks|zusammenfassung|はじめに|おわりに|まとめ|概要|概念|概説|詳細"
        r"|序文|序章|序論|前書き|まえがき|あとがき|後書き|目次|索引|付録|用語集|参考文献|参考資料|参照|謝辞|備考|注意|注意事項|補足|結論|背景|紹介|その他|事始め|よくある質問|更新履歴"
        r"|前言|序言|引言|绪论|緒論|导言|導言|简介|簡介|介绍|介紹|概述|概览|概覽|总结|總結|小结|结论|結論|结语|附录|附錄|目录|目錄|索引|术语表|術語表|参考文献|參考文獻|参考资料"
        r"|參考資料|致谢|致謝|后记|後記|说明|說明|注释|備註|备注|其他|其它|常见问题|相关链接|更新日志|背景)[.。:：]?",
        re.IGNORECASE,
    )


_FILE = re.compile(
    r"[\w.+-]+\.(?:md|markdown|txt|text|rst|html?|xhtml|pdf|docx?|pptx?|xlsx?|csv|tsv|epub|eml|ipynb|jsonl?|xml|ya?ml|\d[a-z]{0,4})",
    re.IGNORECASE,
)
# "Page — Site": what the pages of a site have in common.
_SITE = re.compile(r"\s(?:[—|»·]|::)\s")
# "EqualsBuilder (Apache Commons Lang 3.12.0 API)": pages of javadoc.
_OF_API = re.compile(r"\s\([^()]{1,80}\sAPI\)$")
# "Notation Reference: 1.2.4 Beams".
_SECTION_OF_BOOK = re.compile(r":\s(?=(?:\d{1,3}|[A-Z])(?:\.\d{1,3}){1,4}\.?\s[^\Wa-z])")
# "Ver. 202303.0 (2023年3月6日)", "v1.2.3 - 2024-05-01": of a list of changes.
_RELEASE = re.compile(
    r"(?:v|ver(?:sion)?\.?|release|リリース|バージョン|版本)?\s?\d{1,8}(?:\.\w{1,12}){1,4}"
    r"(?:\s?(?:[(（][^()（）]{4,40}[)）]|[-–—:/]\s?\d[\d./年月日 -]{3,20}))?",
    re.IGNORECASE,
)
# "19.1. The PostgreSQL User Account", "B.6. History of Units"; not the path "C:\\Users".
_NUMBERING = re.compile(
    r"(?:(?:chapter|section|part|book|volume|appendix|kapitel|anhang|teil|chapitre|partie)\s)?"
    r"(?:[A-Z]?\d{1,3}|[A-Z]|[IVXL]{1,6}(?=[.:]))(?:\.\d{1,3}){0,5}[.:]?[\s:)–—-]\s{0,3}(?=[^\s\\])"
    r"|(?:附录|附錄|付録)\s?[A-Z\d]{1,2}[\s:：.．、]{0,3}(?=\S)"
    r"|第\s?\d{1,3}\s?[章節节部編编回][\s:：.．、]{0,3}(?=\S)",
    re.IGNORECASE,
)

_ROMAN = "(?=[IVXL])(?:X[LC]|L?X{0,3})(?:I[XV]|V?I{0,3})"
# "Chapter IV", "Titre Ier": a part of a book and its number. Section 230, Article 50 and Title IX are names of laws.
_PART = re.compile(
    r"(?:chapter|part|book|volume|appendix|kapitel|teil|abschnitt|anhang|band|buch|chapitre|partie|titre|livre|annexe"
    r"|capítulo|parte|título|libro|anexo|capitolo|titolo|allegato|hoofdstuk|deel|rozdział|глава|часть)"
    rf"\s(?:\d{{1,3}}|(?-i:{_ROMAN}|[A-Z]))(?:er|re)?(?: (?:bis|ter|quater))?[.:]?"
    r"|第\s?[\d一二三四五六七八九十百]{1,4}\s?[章節节部编編卷回]",
    re.IGNORECASE,
)
# A part of a book, or a law: the title alone does not tell. Chapters of bankruptcy, Parts 11 and 15 of American rules
# and the titles of constitutions are better kept: as parts of a book, they name what is mentioned elsewhere hardly
# ever.
_LAW = re.compile(
    rf"chapter (?:7|9|11|12|13)|part [1-9]\d{{1,2}}|(?:título|titre|titolo) (?-i:{_ROMAN})", re.IGNORECASE
)
# Pictures around a title: "🚀 Launch".
_PICTURES = "\u2600-\u27bf\U0001f000-\U0001faff\ufe0f\u200d "
_DECORATION = re.compile(f"^[{_PICTURES}]+(?=[^{_PICTURES}])|(?<=[^{_PICTURES}])[{_PICTURES}]+$")
# The number of a chapter.
ROMAN_NUMBER = re.compile(rf"{_ROMAN}\.?")
_SURELY_NUMBERING = re.compile("[.:]|^[第附付]")


def title_name(title: str) -> str:
    """Return the name that a document's title is, without the number of a section; "" for a placeholder or a name of a file."""
    name = " ".join(HEADING_ATTRIBUTES.sub("", title).split())
    name = _DECORATION.sub("", name)
    if _LAW.fullmatch(name):
        return name
    if any(pattern.fullmatch(name) for pattern in (_NO_TITLE, _FILE, _RELEASE, _PART)):
        return ""
    if site := _SITE.search(name, 1):
        name = name[: site.start()]
    name = _OF_API.sub("", name)
    if book := _SECTION_OF_BOOK.search(name, 1):
        name = name[book.end() :]
    numbering = _NUMBERING.match(name)
    if numbering and _SURELY_NUMBERING.search(numbering.group()):
        name = name[numbering.end() :]
    return "" if is_heading(name) or ROMAN_NUMBER.fullmatch(name) else name


def is_heading(name: str) -> bool:
    """Whether a name is what parts of many documents are called: Overview, 概要."""
    return _heading().fullmatch(name) is not None


@lru_cache(maxsize=4096)
def title_keys(title: str) -> frozenset[str]:
    """Return the keys under which a document's title may name an entity: in running text its article may be left out."""
    names = {key(title)}
    if title.rstrip().endswith((")", "）")):
        names.add(key(_without_brackets(title.rstrip())))
    names |= {name.removeprefix("the ") for name in names} | {name.rstrip(".") for name in names}
    return frozenset(names - {""})


def _without_brackets(title: str) -> str:
    """Return a title that ends with a bracket without it: the text before the first bracket of the last line."""
    line = title.rfind("\n") + 1
    opening = min((position for mark in "(（" if (position := title.find(mark, line)) >= 0), default=len(title))
    return title[:opening].rstrip()
