"""The language of a text, by its script, and the text search configuration for it.

Scripts tell Japanese, Chinese, Korean, Russian and similar languages apart without a model. Latin script counts as
English unless the corpus says otherwise: a wrong guess between two Latin languages would stem the same word in two
ways.
"""

import re
from functools import cache

# ISO 639-1 code -> configuration in pg_catalog (PostgreSQL 17). Japanese and Chinese text reaches the parser as
# morphemes separated by spaces (search_terms.py); of scripts without a stemmer too, English stemming meets only Latin words.
REGCONFIG: dict[str, str] = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "he": "english", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "ja": "english", "ko": "english", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "sv": "swedish", "ta": "tamil", "th": "english", "tr": "turkish", "yi": "yiddish",
    "zh": "english",
}  # fmt: skip

# Capitals of Latin, Greek and Russian.
CAPITALS = "A-Z\u00c0-\u00de\u0391-\u03a9\u0400-\u042f"
# Ranges of letters per script. One regular expression per script counts faster than a loop over characters; large sets take
# milliseconds to compile, which sessions that read Latin script alone need not wait for.
_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a"
HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
# Letters and marks, without punctuation, of scripts without an analyser: Hebrew to Georgian (with Arabic, Devanagari
# and Thai), Hangul, Ethiopic to Mongolian (with Khmer), and some more of the scripts of Asia.
UNANALYSED = (
    "\u0591-\u05bd\u05bf\u05c1-\u05c2\u05c4-\u05c7\u05d0-\u05f2\u0610-\u061a\u0620-\u0669\u066e-\u06d3\u06d5-\u06ff"
    "\u0710-\u0963\u0966-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u10ff\u1100-\u17d3\u17d7-\u17ff\u1810-\u1cff"
    "\u3131-\u318e\ua840-\uabff\uac00-\ud7a3"
)
# A letter or digit. Vowels of Devanagari, Thai and others are marks, and none of `\w`.
LETTER_OF_A_WORD = rf"(?:[^\W_]|[{UNANALYSED}])"
_SCRIPTS = {
    "en": _LATIN,
    "ko": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "ru": "\u0400-\u052f",
    "ar": "\u0620-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
    "he": "\u05d0-\u05ea\ufb1d-\ufb4f",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "hi": "\u0900-\u097f",
    "th": "\u0e01-\u0e5b",
    "hy": "\u0531-\u058f",
    "ta": "\u0b80-\u0bff",
}
# What `detect` may return.
DETECTED = frozenset({*_SCRIPTS, "ja", "zh"})
# The letters of all other scripts. Quotation marks and dashes do not count: most Latin texts have only such.
_BEYOND_LATIN = "".join(ranges for ranges in _SCRIPTS.values() if ranges != _LATIN) + KANA + HAN

# The most frequent words of languages in Latin script, without those that are English words too.
ENGLISH_WORDS = frozenset("the of and to is that it for was with as be by this are from at or which not".split())
FOREIGN_WORDS = frozenset(
    (
        "der und das ist nicht ein eine zu von mit dem den des sich auf für "  # German
        "le la les des une est et dans que qui pour pas du sur avec au "  # French
        "el los las una es en del por con para se su lo como "  # Spanish
        "il di che non un per della sono con dei nel gli "  # Italian
        "os uma não em da ao mais pelo foi "  # Portuguese
        "de het een van niet dat zijn op ook bij voor naar aan uit wij geen nog deze wordt worden werd heeft hebben "  # Dutch
        "och att det som är på av inte till ett "  # Swedish, Danish, Norwegian
        "og af ikke til på ja ei että oli hän mutta "  # Finnish
        "nie się na jest że jak po "  # Polish
        "je se že si jsem byl ale "  # Czech
        "ve bir bu için da ile olarak çok "  # Turkish
        "az egy és hogy nem van meg "  # Hungarian
        "și este pe cu nu din care sau "  # Romanian
        "yang dan dengan untuk dari ini itu tidak "  # Indonesian
        "của và là các có được trong cho"  # Vietnamese
    ).split()
)
# Frequent German words that are none in English or its neighbours, and their least share in a German text.
_GERMAN = re.compile(
    r"\b(?:der|das|ist|nicht|ein|eine[mnrs]?|und|dem|des|sich|auf|für|wird|wurden?|werden|sind|hat|haben|zum|zur|auch|oder|wenn"
    r"|dass|durch|über|nach|sie|wir|kann|mit|von)\b",
    re.IGNORECASE,
)
_GERMAN_SHARE = 0.1
_WORD = re.compile(r"[^\W\d_]+")
# Letters of other languages than English and German: a word in small letters that contains one belongs to such a language.
_OTHER_LETTER = re.compile("[\u00e0-\u00e3\u00e5-\u00f5\u00f8-\u00fb\u00fd-\u00ff\u0101-\u024f\u1e01-\u1eff]")
# Fewer words of a text than this share, or than two, say nothing.
MIN_FUNCTION_SHARE = 0.05

# A Han or kana character carries about as much as three Latin letters, so that a Japanese manual page full of command
# names is still Japanese.
_CJK_WEIGHT = 3
# Chinese prose quotes a Japanese name now and then; Japanese prose cannot do without kana.
_KANA_SHARE = 0.05
# Enough of a text to know its script; a 20 MB document is sampled.
_SAMPLE = 100_000


def detect(text: str) -> str:
    """Return the ISO 639-1 code of the dominant script of `text`.

    Kana make Japanese, Han without kana Chinese, Latin script English; a text without letters (only emoji, only digits)
    counts as English. For a long text, samples from its whole length are examined.
    """
    sample = _spread(text)
    if sample.isascii() or not letters_of(_BEYOND_LATIN).search(sample):
        return "en"
    sizes = script_sizes(sample)
    kana, han = sizes.pop("kana"), sizes.pop("han")
    sizes["ja" if kana and kana >= _KANA_SHARE * (kana + han) else "zh"] = _CJK_WEIGHT * (kana + han)
    # Ties go to the first in code order: the same text always has the same language.
    best = max(sorted(sizes), key=sizes.__getitem__)
    return best if sizes[best] else "en"


def is_english(text: str) -> bool:
    """Whether a text is in English, judged by its script, letters and function words; true for a text without words.

    For a text in Latin script, function words of other languages must be fewer than English ones, or few.
    """
    if detect(text) != "en":
        return False
    sample = _spread(text)
    words = [word.lower() for word in letters_of(_LATIN).findall(sample)]
    foreign = sum(word in FOREIGN_WORDS for word in words) + _words_of_other_letters(sample)
    return foreign < max(MIN_FUNCTION_SHARE * len(words), 2) or foreign < sum(word in ENGLISH_WORDS for word in words)


def is_german(text: str) -> bool:
    """Whether a text in Latin script is in German, as far as its function words tell: two and more, more than English ones."""
    sample = _spread(text)
    german = len(_GERMAN.findall(sample))
    if german < 2:
        return False
    words = _WORD.findall(sample.lower())
    return german >= _GERMAN_SHARE * len(words) and german > sum(word in ENGLISH_WORDS for word in words)


def has_german_word(text: str) -> bool:
    """Whether a text has a German function word that no neighbouring language has."""
    return _GERMAN.search(text) is not None


def is_foreign(text: str) -> bool:
    """Whether a text in Latin script is in another language than English by words that belong to no name: not by "de la Cruz"."""
    if is_english(text):
        return False
    sample = _spread(text)
    count = _words_of_other_letters(sample)
    for word in _WORD.finditer(sample):
        if word.group().lower() in FOREIGN_WORDS and sample[word.end() + 1 : word.end() + 2].islower():
            count += 1
    return count > 1


def _words_of_other_letters(text: str) -> int:
    """Return how many different words in small letters have a letter that neither English nor German has: że, année, được."""
    if text.isascii() or not _OTHER_LETTER.search(text):
        return 0
    words = letters_of(_LATIN).findall(text)
    # A letter alone may be a byte that a program printed.
    of_other_letters = {word for word in words if len(word) > 1 and word.islower() and _OTHER_LETTER.search(word)}
    return len(of_other_letters - FOREIGN_WORDS)


def may_be_foreign(text: str) -> bool:
    """Whether a text in Latin script has a word or a letter of another language than English; quick."""
    return _OTHER_LETTER.search(text) is not None or not FOREIGN_WORDS.isdisjoint(text.lower().split())


def script_sizes(text: str) -> dict[str, int]:
    """Return the number of letters of each script in `text`: ``kana``, ``han`` and a code for each other script."""
    scripts = _SCRIPTS | {"kana": KANA, "han": HAN}
    if text.isascii():
        return dict.fromkeys(scripts, 0) | {"en": letter_count(_LATIN, text)}
    return {code: letter_count(ranges, text) for code, ranges in scripts.items()}


def letter_count(ranges: str, text: str) -> int:
    """Return how many letters of some ranges a text has."""
    return sum(map(len, letters_of(ranges).findall(text)))


@cache
def letters_of(ranges: str) -> re.Pattern[str]:
    """Return what matches letters of some ranges, compiled once."""
    return re.compile(f"[{ranges}]+")


def _spread(text: str) -> str:
    if len(text) <= _SAMPLE:
        return text
    pieces = 20
    step, length = len(text) // pieces, _SAMPLE // pieces
    return "".join(text[i * step : i * step + length] for i in range(pieces))


# ISO 639-1 codes, by model.
LANGUAGES = {
    "all-MiniLM-L6-v2": frozenset({"en"}),
    # The languages of XLM-RoBERTa, as listed by the model's card.
    "multilingual-e5-small": frozenset(
        "af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id is it"
        " ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml mn mr ms my ne nl no om or pa pl ps pt ro ru sa sd si sk sl so sq"
        " sr su sv sw ta te th tl tr ug uk ur uz vi xh yi zh".split()
    ),
}


def knows(model: str, text: str) -> bool:
    """Return whether a local model was made for the language of a text, as far as its script tells."""
    return LANGUAGES[model] >= DETECTED or detect(text) in LANGUAGES[model]
