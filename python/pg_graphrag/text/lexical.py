"""The text that PostgreSQL's to_tsvector gets, the same for documents and queries."""

import re
import unicodedata
from functools import cache

from pg_graphrag.text.languages import HAN, KANA, UNANALYSED, script_sizes
from pg_graphrag.text.letters import seen

# The default parser takes "read/write" for a file name, "end.Next" for a host, "-20" in "10-20" for a negative number
# and "<String>" for a tag, and each time what a searcher types is not found.
# A set of characters first: places without any of them are passed over quickly.
_GLUE = re.compile(r"[/\\<>|.-](?:(?<=[/\\<>|])|(?<=\w-)(?=\d)|(?<=[a-z]{2}\.)(?=[A-Z][a-z]))")
_CJK_RUN = f"[{HAN}{KANA}]+"
# A run without spaces that is longer is no word (Thai): its bigrams alone are terms.
_LONGEST_WORD = 20
# What to_tsvector leaves out, in bytes, with a NOTICE for each; encoded data has many. Its parser ends words at an underscore.
_TOO_LONG = 2047
_LONG_RUN = re.compile(rf"[^\W_]{{{_TOO_LONG // 4},}}")
# Emoji, arrows, mathematical and currency signs, which the parser drops. Not bullets and lines, which lay a text out.
_SYMBOL = re.compile(
    "[\u00a2-\u00a5\u00a7\u00b0-\u00b1\u20a0-\u20c0\u2190-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
)


def lexical(text: str, language: str) -> str:
    """Return `text` as ``to_tsvector(REGCONFIG[language], …)`` should see it.

    NFKC (full and half width alike); for ``ja`` and ``zh`` each run of
    Han and kana becomes its search terms, separated by spaces, function words left out, while Latin words and numbers stay
    for the English dictionaries. Words in scripts without an analyser have their bigrams beside them: Korean joins particles
    to them. A symbol becomes a word. Documents and queries must both go through here.

    Raises
    ------
    GraphRAGError
        58P01 when the library for `language` is not installed.
    """
    normalized = _GLUE.sub(" ", unicodedata.normalize("NFKC", seen(text)))
    normalized = _LONG_RUN.sub(lambda run: " " if len(run.group().encode()) >= _TOO_LONG else run.group(), normalized)
    if normalized.isascii():
        return normalized
    normalized = _SYMBOL.sub(lambda symbol: f" symbol{ord(symbol.group()):x} ", normalized)
    normalized = _unanalysed_run().sub(lambda run: _with_bigrams(run.group()), normalized)
    if language == "ja":
        from pg_graphrag.text.japanese import terms
    elif language == "zh":
        from pg_graphrag.text.chinese import terms
    else:
        return normalized
    return re.sub(_CJK_RUN, lambda run: f" {' '.join(terms(run.group()))} ", normalized)


@cache
def _unanalysed_run() -> re.Pattern[str]:
    """Compiled on first use: that takes a millisecond."""
    return re.compile(f"[{UNANALYSED}]{{3,}}")


def _with_bigrams(run: str) -> str:
    word = run if len(run) <= _LONGEST_WORD else ""
    return f" {word} {' '.join(run[start : start + 2] for start in range(len(run) - 1))} "


# Two capitalised words in a row, and a word of two joined by a capital.
_PAIR = re.compile(r"\b(?=([A-Z][a-z]+) ([A-Z][A-Za-z]+)\b)")
_JOINED = re.compile(r"\b[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\b")
_SEAM = re.compile(r"(?<=[a-z])(?=[A-Z])")


# RZ-500K and RZ500K; 3.11.4 and v3.11.4; 12,500 and 12500 (but 1912 is a year, where it is no price); 鶴ヶ城 and 鶴ケ城.
_IDENTIFIER = re.compile(r"(?<![\w-])([A-Za-z]{2,5})(-?)(\d{3,}[A-Za-z]{0,3})(?![\w-])")
_VERSION = re.compile(r"(?<![\w.])(v?)(\d++(?:\.\d++){1,3}+)(?![\w.]*\w)", re.I)
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!,?\d)")
_UNGROUPED = re.compile(r"(?<![A-Za-z0-9_.,/:-])([1-9]\d{3,5})(?![A-Za-z0-9_]|[.,/:-]\d)(\s?[円元])?")
_YEARS = range(1000, 2101)


@cache
def _ke() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of a ke within Han, and of a run of Han with one; compiled on first use, which takes 3 ms."""
    # Tried at the first character of a run only.
    return re.compile(rf"(?<=[{HAN}])[ヶケ](?=[{HAN}])"), re.compile(rf"(?<![{HAN}])[{HAN}]++[ヶケ][{HAN}]++")


def spelled_otherwise(query: str) -> str:
    """Return other spellings that documents may have for a query's names: AdamSmith for Adam Smith, and the reverse.

    Chats, accounts and code write names in one word, products are written with a hyphen or without, versions with a v, numbers
    with commas, places with a small ke or a large one. Only queries are widened: documents are indexed as they are.
    """
    query = seen(query)
    normalized = unicodedata.normalize("NFKC", query)
    spellings = ["".join(match.groups()) for match in _PAIR.finditer(query)]
    spellings += [_SEAM.sub(" ", word) for word in _JOINED.findall(query)]
    spellings += [
        f"{letters}{'' if hyphen else '-'}{rest}" for letters, hyphen, rest in _IDENTIFIER.findall(normalized)
    ]
    spellings += [number if v else f"v{number}" for v, number in _VERSION.findall(normalized)]
    spellings += [number.replace(",", "") for number in _GROUPED.findall(normalized)]
    for number, money in _UNGROUPED.findall(normalized):
        if money or int(number) not in _YEARS:
            spellings.append(f"{int(number):,}")
    if not normalized.isascii():
        small_ke, run_with_ke = _ke()
        for name in run_with_ke.findall(normalized):
            spellings.append(small_ke.sub(lambda ke: "ケ" if ke.group() == "ヶ" else "ヶ", name))
    return " ".join(spellings)


def other_han(query: str, language: str) -> str:
    """Return the runs of Han in a query that Japanese and Chinese write with other characters, as `language` writes them.

    What `lexical` makes of documents starts from their own script: 神戸 in a Chinese question would not become 神户.
    """
    if language not in ("ja", "zh") or query.isascii():
        return ""
    from pg_graphrag.text.variants import modern, simplified, traditional

    convert = modern if language == "ja" else simplified
    runs = re.findall(f"[{HAN}]+", query)
    return " ".join(form for run in runs if (form := convert(traditional(run))) != convert(run))


def query_languages(text: str) -> list[str]:
    """Return the languages under which a query should be tokenised, so that it meets documents of each.

    Han without kana may be Chinese or Japanese: both. Latin words are stemmed as English within Japanese, Chinese,
    Russian and Hindi configurations too, so English is named only where no such language is.
    """
    sizes = {code for code, size in script_sizes(unicodedata.normalize("NFKC", text)).items() if size}
    if "kana" in sizes:
        languages = ["ja"]
    elif "han" in sizes:
        languages = ["zh", "ja"]
    else:
        languages = []
    languages.extend(sorted(sizes - {"kana", "han", "en"}))
    if not languages or ("en" in sizes and not {"ja", "zh", "ru", "hi"} & set(languages)):
        languages.append("en")
    return languages
