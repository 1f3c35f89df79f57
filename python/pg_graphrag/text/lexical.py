"""The text that PostgreSQL's to_tsvector gets, the same for documents and queries."""

import re
import unicodedata

from pg_graphrag.text.languages import HAN, KANA, script_sizes

# The default parser takes "read/write" for a file name, "end.Next" for a host, "-20" in "10-20" for a negative number
# and "<String>" for a tag, and each time what a searcher types is not found.
# A set of characters first: places without any of them are passed over quickly.
_GLUE = re.compile(r"[/\\<>|.-](?:(?<=[/\\<>|])|(?<=\w-)(?=\d)|(?<=[a-z]{2}\.)(?=[A-Z][a-z]))")
_CJK_RUN = f"[{HAN}{KANA}]+"


def lexical(text: str, language: str) -> str:
    """Return `text` as ``to_tsvector(REGCONFIG[language], …)`` should see it.

    NFKC (full and half width alike); for ``ja`` and ``zh`` each run of
    Han and kana becomes its search terms, separated by spaces, function words left out, while Latin words and numbers stay
    for the English dictionaries. Documents and queries must both go through here.

    Raises
    ------
    GraphRAGError
        58P01 when the library for `language` is not installed.
    """
    plain = _GLUE.sub(" ", unicodedata.normalize("NFKC", text))
    if language == "ja":
        from pg_graphrag.text.japanese import terms
    elif language == "zh":
        from pg_graphrag.text.chinese import terms
    else:
        return plain
    return re.sub(_CJK_RUN, lambda run: f" {' '.join(terms(run.group()))} ", plain)


# Two capitalised words in a row, and a word of two joined by a capital.
_PAIR = re.compile(r"\b(?=([A-Z][a-z]+) ([A-Z][a-z]+)\b)")
_JOINED = re.compile(r"\b[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\b")
_SEAM = re.compile(r"(?<=[a-z])(?=[A-Z])")


def spelled_otherwise(query: str) -> str:
    """Return what a query's names may be in the documents besides: AdamSmith for Adam Smith, and Adam Smith for AdamSmith.

    Chats, accounts and code write names in one word. Only queries are widened: documents are indexed as they are.
    """
    pairs = ["".join(match.groups()) for match in _PAIR.finditer(query)]
    return " ".join([*pairs, *(_SEAM.sub(" ", word) for word in _JOINED.findall(query))])


def query_languages(text: str) -> list[str]:
    """Return the languages under which a query should be tokenised, so that it meets documents of each.

    Han without kana may be Chinese or Japanese: both. Latin words are stemmed as English within Japanese, Chinese,
    Russian and Hindi configurations too, so English is named only where no such language is.
    """
    sizes = {code for code, size in script_sizes(unicodedata.normalize("NFKC", text)).items() if size}
    if "kana" in sizes:
        found = ["ja"]
    elif "han" in sizes:
        found = ["zh", "ja"]
    else:
        found = []
    found.extend(sorted(sizes - {"kana", "han", "en"}))
    if not found or ("en" in sizes and not {"ja", "zh", "ru", "hi"} & set(found)):
        found.append("en")
    return found
