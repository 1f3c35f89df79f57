"""The text that PostgreSQL's to_tsvector gets, the same for documents and queries."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from pg_graphrag.text.languages import CAPITALS, HAN, KANA, REGCONFIG, UNANALYSED, script_sizes
from pg_graphrag.text.letters import without_invisible

# The default parser takes "read/write" for a file name, "end.Next" for a host, "-20" in "10-20" for a negative number
# and "<String>" for a tag, and each time what a searcher types is not found.
# A set of characters first: places without any of them are passed over quickly.
_GLUE = re.compile(r"[/\\<>|.:+-](?:(?<=[/\\<>|])|(?<=[:+-])(?=\d)|(?<=[a-z]{2}\.)(?=[A-Z][a-z]))")
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
# AT&T, Q & A; I/O; C++ and C#; .NET; 0x80070005: one word beside the parts, of which the parser leaves nothing, or too
# little.
_AND = re.compile(
    r"(?<![A-Za-z0-9&])([A-Za-z]{1,2}(?: &(?= [A-Z])|&) ?[A-Za-z]{1,5}|[A-Za-z]{3,5}&[A-Za-z]{1,2})(?![A-Za-z0-9&;])"
)
_LETTERS = re.compile(r"(?<![A-Za-z0-9/])([A-Za-z])/([A-Za-z])(?![A-Za-z0-9/])")
_SIGNED = re.compile(r"(?<![A-Za-z0-9])(?:([A-Za-z]{1,10})\+\+|([A-Za-z])#)(?![A-Za-z+#])")
# U.S.; $PATH and ${PATH}, but no formula; --dry-run; @types/node; #1234: the sign becomes a word with what follows it.
_INITIALS = re.compile(r"(?<![A-Za-z0-9.])(?:[A-Z]\.){2,}(?![A-Za-z0-9])")
_SIGN = re.compile(
    r"(?<![\w$@#&/.-])(?:\$\{?([A-Za-z_]\w{1,60})(?![\w$])|--([A-Za-z][\w-]{0,60})|@([A-Za-z][\w-]{0,60}(?:/[\w-]{1,60})?)|#(\w{1,60}))"
)
# Terms that are made for names end so: for the parser they are codes, which are no stop words and not stemmed. They make no text
# longer (sql/06_text/021_bm25_maintenance.sql).
NAME_END = "0z0"
_SIGN_WORDS = "signdollar", "signdash", "signat", "signhash"
_NO_LETTERS = re.compile(r"[\W_]+")
_DOTTED = re.compile(r"\.(?<![^\s(\[\"'].)([A-Za-z]{2,})")
_HEXADECIMAL = re.compile(r"0[xX](?<![A-Za-z0-9]..)([0-9A-Fa-f]{3,})(?![A-Za-z0-9])")
# 1,299.00 has 1,299; 50mg, HTTP503, 1920x1080: numbers and units apart, but in 21st and 1990s.
_CENTS = re.compile(r",\d{3}\.(?=\d)")
_MIXED = re.compile(
    r"(?<![A-Za-z0-9.@_-])(?:(?!symbol)[A-Za-z]+\d+|\d+(?!(?:st|nd|rd|th)\b)[A-Za-z]+|[1-9]\d+x\d+)(?![A-Za-z0-9@_]|\.[A-Za-z0-9])"
)
_RUN_OF_MIXED = re.compile(r"[A-Z]{2,}(?=v\d)|[A-Za-z]{2,}|\d{2,}")
# A letter of Greek or Russian beside one of another script: a code in a sentence.
_SEAM_OF_SCRIPTS = re.compile("[A-Za-z0-9](?<=[\u0370-\u052f].)|[\u0370-\u052f](?<=[A-Za-z0-9].)")
# node.js, foo.bar.baz, jane@example.com, v3.4.5-beta2: for the parser one word each.
_COMPOUND = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_][A-Za-z0-9_-]*+(?:[.@][A-Za-z0-9_][A-Za-z0-9_-]*+)+")
# python3.11 and TLSv1.3, too, where the word is a part of the version.
_VERSION = re.compile(r"(?<![A-Za-z0-9])(?:([A-Z]{2,30})v|([A-Za-z]{2,30})|[vV])?(\d++(?:\.\d++){1,5})(?!\.?[0-9])")
# What 0.2.0 kept together, and what it split: 8080 in host:8080, -110 in errno=-110, 1,299.00; v3.4.5 was v3.4.5 alone.
_TOGETHER = re.compile(r"[:+](?=\d)|(?<!\w)-(?=\d)|,\d{3}\.\d")
_APART = re.compile(r"[/\\<>|.-](?:(?<=[/\\<>|])|(?<=\w-)(?=\d)|(?<=[a-z]{2}\.)(?=[A-Z][a-z]))")
_WITHOUT_V = re.compile(r"(?<![\w.,])\d++(?:\.\d++){1,3}(?![\w.]*\w)")
# 3.14 and 3.5mm, which the parser keeps.
_NUMBER = re.compile(r"\d+\.\d+[A-Za-z]*")
_PART = re.compile(r"[A-Za-z0-9]{2,}")
# getUserProfile, XMLHttpRequest, but no YouTube: the words, and all but the first joined; e-mail, which is email, too.
_IDENTIFIER_OF_WORDS = re.compile(
    r"(?<![A-Za-z0-9])(?!dot[A-Z])(?:[a-z]{2,}+|[A-Z][a-z]++(?=(?:[A-Z][a-z]++){2})|[A-Z]{2,}(?=[A-Z][a-z]{2}))"
    r"(?:[A-Z][a-z]++|[A-Z]{2,}(?=[A-Z][a-z])|[A-Z]{2,}+(?![a-z]))+(?![A-Za-z0-9])"
)
_WORD_OF_IDENTIFIER = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_E_MAIL = re.compile(r"(?<![A-Za-z0-9-])([A-Za-z])-([a-z]{3,})(?![A-Za-z0-9-])")
# 49,90 and 1.299,00 are 49.90 and 1,299.00 of others.
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(?<!\d\s)(\d{1,3}(?:\.\d{3})+|\d{1,6}),(\d\d)(?![\d.,]?\d)")


def lexical(text: str, language: str) -> str:
    """Return the text of a document as ``to_tsvector(REGCONFIG[language], …)`` should see it.

    As it is seen, NFKC (full and half width alike); for ``ja`` and ``zh`` each run of
    Han and kana becomes its search terms, separated by spaces, function words left out, while Latin words and numbers stay
    for the English dictionaries. Words in scripts without an analyser have their bigrams beside them: Korean joins particles
    to them. A symbol becomes a word. A code has its parts beside it; names of stop words become words.

    Raises GraphRAGError: 58P01 when the library for `language` is not installed.
    """
    spaced = _spaced(text, language)
    return " ".join((_with_parts(spaced), *named_stop_words(spaced, language)))


def asked(query: str, language: str, *, spelled: bool = True) -> str:
    """Return what `lexical` makes of a query, where `spelled` with other spellings of names and 0.2.0's of codes.

    Its stop words are searched where they are a name in capitals, or all that it has.
    """
    spaced = _spaced(query, language)
    others = _spaced(f"{spelled_otherwise(query)}\n{other_han(query, language)}", language) if spelled else ""
    before = _as_before(spaced) if spelled else ()
    return " ".join((_with_parts(f"{spaced}\n{others}"), *before, *named_stop_words(spaced, language, is_query=True)))


def _as_before(text: str) -> list[str]:
    """Return the words that 0.2.0 made of a query's codes, so that texts which it indexed are still found."""
    words = [_APART.sub(" ", word) for word in text.split() if _TOGETHER.search(word)]
    return words + [f"v{version}" for version in _WITHOUT_V.findall(text)]


def _spaced(text: str, language: str) -> str:
    """Return a text whose words the parser tells apart."""
    normalized = unicodedata.normalize("NFKC", without_invisible(text))
    normalized = _LONG_RUN.sub(lambda run: " " if len(run.group().encode()) >= _TOO_LONG else run.group(), normalized)
    if normalized.isascii():
        return normalized
    normalized = _SEAM_OF_SCRIPTS.sub(r" \g<0>", normalized)
    normalized = _SYMBOL.sub(lambda symbol: f" symbol{ord(symbol.group()):x} ", normalized)
    normalized = _unanalysed_run().sub(lambda run: _with_bigrams(run.group()), normalized)
    if language == "ja":
        from pg_graphrag.text.letters import modern as usual_form
        from pg_graphrag.text.words.japanese import terms
    elif language == "zh":
        from pg_graphrag.text.letters import simplified as usual_form
        from pg_graphrag.text.words.chinese import terms
    else:
        return normalized

    def separated(run: re.Match[str]) -> str:
        start, end = run.span()
        words = " ".join(terms(run.group()))
        if not words and end - start > 1:
            # Function words alone; perhaps a title: それから, 我们.
            before, after = normalized[max(start - 2, 0) : start].strip(" "), normalized[end : end + 2].strip(" ")
            if _stands_alone(*((around or "\n").replace("\n", "\n\n") for around in (before, after))):
                words = usual_form(run.group())
        return f" {words} "

    return re.sub(_CJK_RUN, separated, normalized)


@cache
def _unanalysed_run() -> re.Pattern[str]:
    """Compiled on first use: that takes a millisecond."""
    return re.compile(f"[{UNANALYSED}]+")


def _with_bigrams(run: str) -> str:
    if len(run) < 3:
        return f" {run} "
    word = run if len(run) <= _LONGEST_WORD else ""
    return f" {word} {' '.join(run[start : start + 2] for start in range(len(run) - 1))} "


def _with_parts(text: str) -> str:
    """Return a text with the parts that people type of its codes beside these."""
    if "&" in text:
        text = _AND.sub(lambda code: f"{code[0]} {code[0].replace('&', 'and').replace(' ', '')}", text)
    if "++" in text or "#" in text:
        text = _SIGNED.sub(
            lambda code: f"{code[1]} {code[1]}plusplus " if code[1] else f"{code[2]} {code[2]}sharp ", text
        )
    text = _INITIALS.sub(lambda code: f"{code[0]} {code[0].replace('.', '')}", text)
    text = _SIGN.sub(_with_sign, text)
    if "/" in text:
        text = _LETTERS.sub(r"\1 \2 \1\2", text)
    text = _DOTTED.sub(r"\1 dot\1", text)
    text = _HEXADECIMAL.sub(r"\g<0> \1", text)
    if "-" in text:
        text = _E_MAIL.sub(r"\g<0> \1\2", text)
    text = _IDENTIFIER_OF_WORDS.sub(_beside_identifier, text)
    if "," in text:
        text = _DECIMAL_COMMA.sub(_beside_decimal, text)
        text = _CENTS.sub(lambda end: f"{end[0][:-1]} ", text)
    text = _MIXED.sub(lambda code: " ".join((code[0], *_RUN_OF_MIXED.findall(code[0]))), _GLUE.sub(" ", text))
    return _COMPOUND.sub(_beside_compound, text)


def _with_sign(code: re.Match[str]) -> str:
    sign = (code.lastindex or 1) - 1
    word = _NO_LETTERS.sub("", code[sign + 1])
    return f"{_SIGN_WORDS[sign]}{word}{NAME_END} {code[0]}" if word else code[0]


def _beside_identifier(code: re.Match[str]) -> str:
    words = _WORD_OF_IDENTIFIER.findall(code[0])
    return " ".join((code[0], *words, *(["".join(words[1:])] if len(words) > 2 else [])))


def _beside_decimal(number: re.Match[str]) -> str:
    return (
        f"{number[0]} {number[1].replace('.', ',')} {number[2]}"
        if "." in number[1]
        else f"{number[0]} {number[1]}.{number[2]}"
    )


def _beside_compound(code: re.Match[str]) -> str:
    parts: list[str] = []
    if _NUMBER.fullmatch(code[0]):
        return code[0]
    for version in _VERSION.finditer(code[0]):
        parts += filter(None, version.groups()[:2])
        numbers = version[3].split(".")
        # For 3.4.5 also 3.4, for 15.03.2024 also 2024.
        parts += (".".join(numbers[:size]) for size in range(len(numbers), 1, -1))
        parts += (number for number in numbers if len(number) > 2)
    parts += _PART.findall(_VERSION.sub(" ", code[0]))
    return " ".join((code[0], *(part for part in dict.fromkeys(parts) if part != code[0])))


_LETTER_RUN = re.compile(r"(?<!\w)([^\W\d_]++)(?![\d_])")
# What may stand between two words of one phrase. A line that begins with a capital begins another one.
_BLANKS = frozenset((" ", "  ", "\n"))
_LINE = re.compile(f"\n(?=[{CAPITALS}])")
# Before and after a word: the end of a paragraph, or a sign. Numbers, commas and hyphens stand within a sentence.
_INNER = "\\w\\s'\u2019,;/&\u3001\\-"
_BEFORE = re.compile(rf"(?:\n\n|[^{_INNER})\]\u201d\u00bb\u300d\u300f\u300b])\s*\Z")
_AFTER = re.compile(rf"[ \t]*(?:\n\n|[^{_INNER}(\[\u201c\u201e\u00ab\u300c\u300e\u300a])")
# A phrase of stop words is indexed by so many words each; phrases of four are frequent in chats.
_PHRASE = 5
# Names that are stop words in small letters. Others in capitals are mostly keywords (FROM, ON), where one stands so near.
_ACRONYMS = frozenset("ALL AM CAN HE IT ME US WHO WILL".split())
_STATEMENT = 4
# Words behind a capital among which one in small letters is looked for.
_LOOK = 20


def is_named_stop_word(term: str) -> bool:
    """Whether a term is made for a name: of stop words, or of a word and its sign."""
    return term.endswith(NAME_END)


def named_stop_words(text: str, language: str, *, is_query: bool = False) -> list[str]:
    """Return words for stop words that say something where they stand, since the parser drops them.

    Those in capitals among other words (IT, WHO); those with a capital within a sentence, unless a capital follows (The Who, not
    Lord of The Rings), and all capitals in a row about one; those alone between two pauses; and phrases (to be or not to be).
    The last two of a query only where it has nothing else.
    """
    stop_words = _stop_words(REGCONFIG[language])
    if not stop_words:
        return []
    pieces = _LETTER_RUN.split(_LINE.sub("\n\n", f"\n\n{text}\n\n"))
    gaps, words = pieces[::2], pieces[1::2]
    small = [word.lower() for word in words]
    are_stop_words = [word in stop_words for word in small]
    with_phrases = not is_query or all(are_stop_words)
    names: list[str] = []
    start = 0
    while start < len(words):
        if not are_stop_words[start]:
            if words[start] == "US" and _is_name(words, gaps, start, start + 1):
                # For PostgreSQL "us" is no stop word.
                names.append("us0up")
            start += 1
            continue
        end = start + 1
        while end < len(words) and are_stop_words[end] and gaps[end] in _BLANKS:
            end += 1
        is_long = end - start >= _PHRASE
        is_alone = with_phrases and not is_long and _stands_alone(gaps[start][-4:], gaps[end][:4])
        if with_phrases and is_long:
            names += ("0".join(small[place : place + _PHRASE]) for place in range(start, end - _PHRASE + 1))
        elif is_alone and end - start > 1:
            names.append("0".join(small[start:end]))
        capitals = start
        for place in range(start, end):
            word = words[place]
            if not word[0].isupper():
                capitals = place + 1
            if len(word) > 1 and word[0].isupper() and (is_alone or _is_name(words, gaps, place, end)):
                # It, the book, before the IT department.
                names += small[place], small[place] + ("0up" if word.isupper() else "0cap")
                if capitals < place and not is_alone:
                    names.append("0".join(small[max(capitals, place + 1 - _PHRASE) : place + 1]))
            elif len(word) > 1 and is_alone:
                names.append(small[place])
        start = end
    return [name + NAME_END for name in names]


def _stands_alone(before: str, after: str) -> bool:
    """Whether what stands between is a sentence, a line or a quotation."""
    return before != " " != after and _BEFORE.search(before) is not None and _AFTER.match(after) is not None


def _is_name(words: Sequence[str], gaps: Sequence[str], place: int, end: int) -> bool:
    """Whether a capital says that a stop word is a name; `end`: of the stop words in a row."""
    if words[place].isupper():
        is_acronym = words[place] in _ACRONYMS
        reach = 1 if is_acronym else _STATEMENT
        around = *words[max(place - reach, 0) : place], *words[place + 1 : place + 1 + reach]
        capitals = sum(len(word) > 1 and word.isupper() for word in around)
        return capitals < 2 if is_acronym else not capitals
    if _BEFORE.search(gaps[place][-4:]):
        return False
    after = next((other for other in range(place + 1, min(end, place + _LOOK)) if not words[other][0].isupper()), end)
    return after < end or gaps[end] not in _BLANKS or not words[end][0].isupper()


@cache
def _stop_words(configuration: str) -> frozenset[str]:
    """Return the words that a configuration leaves out, in a copy: they are known where no server can be asked.

    Those of English are beside Russian and Hindi, whose Latin words are taken for English.
    """
    names = {configuration, "english"} if configuration in ("russian", "hindi") else {configuration}
    lines = Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(chain(*(words for name, *words in map(str.split, lines) if name in names)))


# What Chinese and Japanese ask by, of which their analysers leave words.
_ASKED_BY = {
    "zh": re.compile("多少[钱錢]?|哪[里裡儿兒]|什[么麼][时時]候|[几幾][个個]|[何几幾][时時]|何[处處]"),
    "ja": re.compile("いくら|いくつ|なぜ|どうして|何[人名個件回本枚台時日月年歳]"),
}


def telling(query: str, language: str) -> str:
    """Return a query in a language without the words that any question is made of."""
    if language in _ASKED_BY:
        return _ASKED_BY[language].sub(" ", query)
    stop_words = _stop_words(REGCONFIG[language]) if language in REGCONFIG else frozenset[str]()
    return _LETTER_RUN.sub(lambda word: " " if word[0].lower() in stop_words else word[0], query)


# Two capitalised words in a row, and a word of two joined by a capital.
_PAIR = re.compile(r"\b(?=([A-Z][a-z]+) ([A-Z][A-Za-z]+)\b)")
_JOINED = re.compile(r"\b[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\b")
_SEAM = re.compile(r"(?<=[a-z])(?=[A-Z])")


# node.js and nodejs; RZ-500K and RZ500K; 12,500 and 12500 (but 1912 is a year, where it is no price); 鶴ヶ城 and 鶴ケ城.
_SCRIPT = re.compile(r"(?<![\w.])([A-Za-z]{2,20})(\.?)[jJ][sS](?!\w|\.\w)")
_IDENTIFIER = re.compile(r"(?<![\w-])([A-Za-z]{2,5})(-?)(\d{3,}[A-Za-z]{0,3})(?![\w-])")
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

    Chats, accounts and code write names in one word, products are written with a hyphen or without, numbers with
    commas, places with a small ke or a large one. Only queries are widened.
    """
    query = without_invisible(query)
    normalized = unicodedata.normalize("NFKC", query)
    spellings = ["".join(match.groups()) for match in _PAIR.finditer(query)]
    spellings += [_SEAM.sub(" ", word) for word in _JOINED.findall(query)]
    spellings += [
        f"{letters}{'' if hyphen else '-'}{rest}" for letters, hyphen, rest in _IDENTIFIER.findall(normalized)
    ]
    spellings += [f"{name}{'' if dot else '.'}js" for name, dot in _SCRIPT.findall(normalized)]
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
    from pg_graphrag.text.letters import modern, simplified, traditional

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
