"""Names that runs of capitals miss: with a rank after a comma, and titles in quotation marks."""

import re
from collections.abc import Iterable
from functools import lru_cache

from pg_graphrag.text.concepts import Concept, key
from pg_graphrag.text.stopwords import ENGLISH_FUNCTION_WORDS, ENGLISH_RANKS

# ", 1st Baron", ", Grand Duke", ", Queen".
_RANK = re.compile(rf",\s(?:\d+(?:st|nd|rd|th)\s)?(?=(?:(?:Crown|Grand|Hereditary)\s)?(?:{'|'.join(ENGLISH_RANKS)})\b)")
_QUOTED = re.compile(r"[\"“]([^\s\"“”][^\"“”\n]{0,79})[\"”]")
_LONGEST_TITLE = 9


def names_with_rank(text: str, concepts: Iterable[Concept]) -> list[Concept]:
    """Return the names of `concepts` that a rank follows, with it: "Henry Stafford, 1st Baron Stafford"."""
    names = {concept.start: concept for concept in concepts if concept.type == "NAME"}
    longer = []
    for name in names.values():
        rank = _RANK.match(text, name.end)
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
        if all(not word[0].islower() for word in words if len(word) > 4):
            titles.append(Concept(" ".join(words), match.start(1), match.start(1) + len(title), "NAME"))
    return titles


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
