"""Names that runs of capitals miss: with a rank after a comma, and titles in quotation marks."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from pg_graphrag.text.concepts import Concept, key
from pg_graphrag.text.stopwords import ENGLISH_FUNCTION_WORDS, ENGLISH_RANKS


# ", 1st Baron", ", Grand Duke", ", Queen".
@cache
def _rank() -> re.Pattern[str]:
    """Compiled on first use: that takes a millisecond."""
    return re.compile(
        rf",\s(?:\d+(?:st|nd|rd|th)\s)?(?=(?:(?:Crown|Grand|Hereditary)\s)?(?:{'|'.join(ENGLISH_RANKS)})\b)"
    )


_QUOTED = re.compile(r"[\"“]([^\s\"“”][^\"“”\n]{0,79})[\"”]")
_LONGEST_TITLE = 9


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
        if not is_said and all(not word[0].islower() for word in words if len(word) > 4):
            titles.append(Concept(" ".join(words), match.start(1), match.start(1) + len(title), "NAME"))
    return titles


# What stands where there is no title, and files whose name says nothing of what is in them.
_NO_TITLE = re.compile(
    r"(?:untitled|no title|none|null|unknown|readme|index|default|main|test|draft|scan|image|img|doc|document|page"
    r"|file|chapter"
    r"|new document|microsoft word|powerpoint presentation|slide|presentation|無題|名称未設定|新規ドキュメント"
    r"|无标题|未命名|無標題|文档"
    r"|dokument|ohne titel|sans titre|sin título)(?:[\s_.()-]{0,3}\d{0,8}){0,4}(?:\.\w{1,5})?",
    re.IGNORECASE,
)
_FILE = re.compile(
    r"[\w.+-]+\.(?:md|markdown|txt|text|rst|html?|xhtml|pdf|docx?|pptx?|xlsx?|csv|tsv|epub|eml|ipynb|jsonl?|xml|ya?ml|\d[a-z]{0,4})",
    re.IGNORECASE,
)
# "Page — Site": what the pages of a site have in common.
_SITE = re.compile(r"\s(?:[—|»·]|::)\s")
# "19.1. The PostgreSQL User Account", "B.6. History of Units".
_NUMBERING = re.compile(
    r"(?:(?:chapter|section|part|appendix|kapitel|chapitre)\s)?(?:[A-Z]?\d{1,3}|[A-Z])(?:\.\d{1,3}){0,5}\.?[\s:)–—-]\s{0,3}(?=\S)"
    r"|第\s?\d{1,3}\s?[章節节部編编回][\s:：.．、]{0,3}(?=\S)",
    re.IGNORECASE,
)


def title_name(title: str) -> str:
    """Return the name that a document's title is, without the number of a section; "" for a placeholder or a "
    "file's name."""
    name = " ".join(title.split())
    if _NO_TITLE.fullmatch(name) or _FILE.fullmatch(name):
        return ""
    if site := _SITE.search(name, 1):
        name = name[: site.start()]
    numbering = _NUMBERING.match(name)
    if numbering and ("." in numbering.group() or numbering.group().startswith("第")):
        name = name[numbering.end() :]
    return name


@lru_cache(maxsize=4096)
def title_keys(title: str) -> frozenset[str]:
    """Return the keys under which a document's title may name an entity: in running text its article may be left "
    "out."""
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
