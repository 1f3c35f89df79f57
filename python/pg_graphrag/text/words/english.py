"""English noun phrases: word classes from the HanTa lexicon, phrases by rules over a string of classes.

A word's class does not depend on its neighbours, except for a few rules about words that are both noun and verb. So a
phrase gets the same key in a document and in a question, and each distinct word is tagged only once, which is fast.
HanTa: C. Wartena, "A Probabilistic Morphology Model for German Lemmatization", KONVENS 2019.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from pg_graphrag.text.concept import NEVER, Concept
from pg_graphrag.text.sentences import ends
from pg_graphrag.text.words.english_names import OF_RANK, needed_for_name_in, needed_for_phrase
from pg_graphrag.text.words.english_words import POSSIBLY, best, guess, singular, tags_of
from pg_graphrag.text.words.names import names_with_rank, quoted_titles
from pg_graphrag.text.words.stopwords import (
    ENGLISH_ADDRESSES,
    ENGLISH_ADJECTIVE_ENDS,
    ENGLISH_CLOCK,
    ENGLISH_EPITHETS,
    ENGLISH_FUNCTION_WORDS,
    ENGLISH_GIVEN_NAMES,
    ENGLISH_HEADS,
    ENGLISH_MEASURES,
    ENGLISH_MODIFIERS,
    ENGLISH_NAME_HEADS,
    ENGLISH_NAME_PARTICLES,
    ENGLISH_OCCUPATIONS,
    ENGLISH_PLACE_ADJECTIVES,
    ENGLISH_SURE_NAMES,
    ENGLISH_TITLES,
    ENGLISH_UNITS,
    ENGLISH_WEAK_HEADS,
    MEASURES,
    is_placeholder,
)

_TOKEN = re.compile(
    r"(?P<acronym>(?<!\w)(?:[A-Z]\.){2,}|(?<!\w)(?:[A-Z]|St|Mt|Ft|Mrs?|Ms|Dr)\.(?=\s[A-Z])"
    # PL/pgSQL, TCP/IP, I/O; but "read/write" is two words.
    r"|(?<!\w)[A-Z]{1,4}/(?=\w*[A-Z])\w+)"
    r"|(?P<word>de['’](?=\s[A-Z])|\w+(?:[-.&'’]\w+)*)"
    r"|(?P<other>[^\w\s]+)"
)
# One letter for the class of each token, so that a text is a string and a phrase a regular expression:
#   P name   C identifier with _ or a dot in it   N noun   J adjective   B noun or verb   Z the same in -s
#   Y noun in -s, rarely a verb   E participle in -ed   I word in -ing   D number   o of   d determiner
#   t a verb follows ("to", modals, pronouns)   b be, have   p preposition   s possessive 's   & the sign
#   y adverb   q between parts of a name (von)   X word of a title that is no noun   x anything else   . end of a sentence or line
# Bounded, or a long run without a noun would be scanned from each of its words.
_PHRASE = re.compile(r"C?[PNJBEID]{0,20}[NB]")
_NAME = re.compile(r"C|X{0,5}P[PDX]*(?:(?:od?|Xd|&|s|q{1,3})X{0,5}P[PDX]*)*")
# "The engine burns methane": a plural rarely stands before another noun.
_VERB_IN_S = re.compile(r"(?<=[NPCB])(?:Z(?=[NPJCdt])|Y(?=d))|(?<=dN)Y(?=P)|(?<=y)[ZY]")
# "to help ease tension": a verb after another that takes one.
_VERB_BY_CONTEXT = re.compile(r"(?<=t)B|(?<=ty)B|(?<=[NPBC])B(?=[dt])|(?:^|(?<=[.xy]))B(?=[PCdtJ])")
_PARTICIPLE_BY_CONTEXT = re.compile(r"(?<=[NPCBIEbty])E|(?<![dJ])I")
_CLASS = {
    "AT0": "d", "DPS": "d", "DT0": "d", "DTQ": "d", "PRF": "o", "PRP": "p", "TO0": "t", "VM0": "t", "PNP": "t",
    "PNQ": "t", "CRD": "D", "XX0": "t", "POS": "s", "NN0": "N", "NN1": "N", "NN2": "N", "NP0": "N", "AJ0": "J",
    "AJC": "J", "AJS": "J", "VVN": "E", "VVG": "I", "VVB": "v", "VVD": "v", "VVI": "v", "VVZ": "v",
}  # fmt: skip
# The share of a word's uses from which it counts as a noun whatever surrounds it.
_SURELY_NOUN = 0.8

# Not an acronym or an identifier: "Run VACUUM", "Using PostgreSQL".
_TITLE_OR_INITIAL = re.compile(r"(?:[A-Z]\.)+|(?:Ma?c|Fitz|[DL][aei])?(?!.*[a-z][A-Z])[A-Z].*[^\W\d_A-Z].*")
# d'Indy, al-Rahman.
_WITH_PARTICLE = re.compile(r"(?:[dl]['’]|(?:al|an|ar|as|ash|at|az|el)-)[A-Z]\w.*")
_EPITHET = re.compile(rf"\s(?:{'|'.join(sorted(ENGLISH_EPITHETS))})\b")
_FORMS_OF_ADDRESS = ("Mr.", "Mrs.", "Ms.", "Dr.")
# "Charles I of Spain": what follows a number of a ruler, hardly ever the pronoun.
_FIRST = re.compile(r"['’,;:.?)]|\s(?:of|de|de['’]|von|and|the)\s|$")
# "F.W. Murnau": no sentence ends there; but "the U.S. Then".
_INITIALS = re.compile(r"(?<![\w.])(?!U\.?\s?[KNS]\.|E\.U\.|D\.C\.|[AB]\.[CD]\.|[AP]\.M\.)(?:[A-Z]\.\s?){2,4}$")
_OF_NAME = re.compile(r"od?P")
_OF_WITHIN = re.compile(r"od?(?=P)")
_EPITHET_WITHIN = re.compile(r"(?<=PP)q+P$")
_NUMBER_OF_RULER = re.compile("[IVX]+")
_RULERS = frozenset("king queen emperor empress tsar pope prince princess sultan caliph".split())
_TITLE_CASE = re.compile(r" [A-Z][a-z]")
_DATE_WITHIN = re.compile(r"(?<=P)DPD(?=P)")
# What follows a noun in the plural as its verb: "areas sound perfect".
_PREDICATES = frozenset(
    "sound look feel fly hate love help need form make seem work process bear mean cause fail exist lack run tend show "
    "say want start stop contain require provide become come go get take give know think allow let include remain".split()
)
_ADVERB = re.compile(r"(?:al|i|ing|ed|ous|ful|less|ent|ant|ive|ble|ab|ib)ly")
_IDENTIFIER = re.compile(
    r"(?=.*[^\W\d])(?!.*\d{6})(?:\w*\w_\w+|[^\W\d]+\d\w*|\w+(?:\.[^\W\d]\w+)+|\w*[a-z][A-Z]\w*)[\w.-]*"
)
_NUMBER = re.compile(r"\d[\d.,:-]*(?:st|nd|rd|th|s|%)?")
_LETTERS = re.compile(r"[^\W\d_]{2}|[^\W\d_][&./][^\W\d_]")
_SUFFIX = re.compile(r"['’](?:[sS]|t|re|ve|ll|d|m)$")
# "South Korean".
_COMPASS = ("north", "south", "east", "west")
# A.21: the number of a section.
_SECTION = re.compile(r"[A-Z]\.\d{1,3}(?:\.\d{1,3}){0,3}|No\.\d{1,4}")
# "seal ring S4", "vitamin B12": which of its kind.
DESIGNATION = re.compile(r"[A-Z]{1,3}-?\d{1,4}[A-Z]?")
# "figure S1", "cell B12": a place in the text.
_PLACES = frozenset(
    "appendix cell chapter column equation example exercise figure line note page question row section step table".split()
)
# Signs of the phonetic alphabet: how a word is spoken.
_PHONETIC = re.compile("[\u0250-\u02d1]")
# What a noun phrase follows: an article, "of", a preposition.
_LEADS = ("d", "o", "p")
_LONGEST_WORD, _LONGEST_PHRASE, _LONGEST_NAME = 40, 5, 9
_MOST_NOUNS = 3


def concepts(text: str) -> list[Concept]:
    """Return the noun phrases and names of `text` in order of appearance."""
    tokens, classes = _classify(text)
    classes = _VERB_IN_S.sub("v", classes).replace("Z", "B").replace("Y", "N")
    classes = _VERB_BY_CONTEXT.sub("v", classes)
    classes = _PARTICIPLE_BY_CONTEXT.sub("v", classes)
    matches: list[Concept] = []
    for match in _NAME.finditer(classes):
        matches.extend(_name(text, tokens[match.start() : match.end()], match.group()))
    for match in _PHRASE.finditer(classes):
        is_led = classes[max(0, match.start() - 1) : match.start()] in _LEADS
        matches.extend(_phrase(text, tokens[match.start() : match.end()], match.group(), is_led=is_led))
    matches.extend(_designated(text, tokens, classes))
    spans = {(concept.start, concept.end) for concept in matches}
    matches += names_with_rank(text, matches) + [
        title for title in quoted_titles(text) if (title.start, title.end) not in spans
    ]
    matches.sort(key=lambda concept: (concept.start, -concept.end))
    return matches


Token = tuple[int, int]


def _designated(text: str, tokens: list[Token], classes: str) -> Iterator[Concept]:
    """Yield nouns with the code behind them, which says which of their kind is meant."""
    for place, (start, end) in enumerate(tokens):
        if not DESIGNATION.fullmatch(text, start, end):
            continue
        first = place
        while first and place - first < _MOST_NOUNS and classes[first - 1] in "NB":
            word_start, word_end = tokens[first - 1]
            word = text[word_start:word_end]
            if text[word_end : tokens[first][0]] != " " or not (word.islower() or word.istitle()):
                break
            first -= 1
        if first < place and text[slice(*tokens[place - 1])].lower() not in _PLACES:
            yield Concept(text[tokens[first][0] : end], tokens[first][0], end, "NAME")


def _classify(text: str) -> tuple[list[Token], str]:
    """Return the tokens of `text` and a letter for the class of each."""
    tokens: list[Token] = []
    classes: list[str] = []
    openings: list[int] = []
    cuts = iter([position for position, _ in ends(text, 0, len(text))] + [len(text) + 1])
    cut = next(cuts)
    first = True
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if start >= cut:
            while start >= cut:
                cut = next(cuts)
            if not _INITIALS.search(text, max(0, start - 12), start):
                tokens.append((start, start))
                classes.append(".")
                first = True
        if match.lastgroup == "other":
            tokens.append((start, end))
            classes.append("&" if text[start:end] == "&" else "x")
            # A quotation or a list item begins like a sentence.
            first = first or text[start] in '"“‘«([*•-:'
            continue
        if match.lastgroup == "acronym":
            tokens.append((start, end))
            classes.append("P")
            first = False
            continue
        word = match.group()
        suffix = _SUFFIX.search(word)
        if suffix:
            word = word[: suffix.start()]
        if word.islower() and word.endswith("in") and text[end : end + 1] in ("'", "’") and tags_of(word) is None:
            # "bloomin'".
            tokens.append((start, end))
            classes.append("x")
            continue
        # "doesn’t" is not a noun that somebody has.
        letter = "t" if suffix and suffix.group()[1:] == "t" else _word_class(word, first)
        if classes and classes[-1] in "Pq" and not first:
            letter = _within_name(text, word, end, letter, tokens[-1])
        if first and letter != "P" and word.istitle():
            openings.append(len(tokens))
        tokens.append((start, start + len(word)))
        classes.append(letter)
        if suffix:
            tokens.append((start + len(word), end))
            classes.append("s" if suffix.group()[1:] in "sS" else "t")
        # "2.1. Creating a Table": the sentence begins after its number, or after a label: "TIP Executing a command".
        is_label = first and letter == "P" and word.isupper() and len(word) > 2 and _is_label(text, word, end)
        if is_label:
            classes[-1] = "x"
        first = first and (letter == "D" or is_label)
    _open_names(text, tokens, classes, openings)
    return tokens, "".join(classes)


def _within_name(text: str, word: str, end: int, letter: str, previous: Token) -> str:
    """Return the class of a word, `letter` otherwise, after a part of a name: "Max von Sydow", "Charles the Bald"."""
    if word in ENGLISH_NAME_PARTICLES or (word == "the" and _EPITHET.match(text, end)):
        return "q"
    if word == "I" and _FIRST.match(text, end):
        return "P"
    return "P" if text[slice(*previous)] == "the" else letter


def _open_names(text: str, tokens: list[Token], classes: list[str], openings: list[int]) -> None:
    """Make names of the words at the `openings` of sentences that begin one: "Grace Hopper wrote", "Battle of Hastings"."""
    names_within: set[str] | None = None
    for place in openings:
        start, end = tokens[place]
        if text[start:end].lower() in ENGLISH_NAME_HEADS and _OF_NAME.match("".join(classes[place + 1 : place + 4])):
            classes[place] = "P"
            continue
        if classes[place + 1 : place + 2] != ["P"]:
            continue
        follows, follows_end = tokens[place + 1]
        if not _TITLE_OR_INITIAL.fullmatch(text, follows, follows_end):
            continue
        if names_within is None:
            # Names of two words that stand within a sentence of this text, where their capital letters do say something.
            opening_places = set(openings)
            names_within = {
                text[tokens[index][0] : tokens[index + 1][1]]
                for index in range(len(tokens) - 1)
                if classes[index] == classes[index + 1] == "P" and index not in opening_places
            }
        if text[start:follows_end] in names_within or _opens_name(text[start:end]):
            classes[place] = "P"


@lru_cache(maxsize=200_000)
def _word_class(word: str, first: bool) -> str:
    """Return the class of `word`; `first`: where a capital letter says nothing."""
    lower = word.lower()
    if len(word) > _LONGEST_WORD or _PHONETIC.search(word):
        return "x"
    if _NUMBER.fullmatch(word):
        return "D"
    if is_placeholder(word):
        return "x"
    if _IDENTIFIER.fullmatch(word):
        return "C" if "_" in word or "." in word else "P"
    if _WITH_PARTICLE.fullmatch(word):
        return "P"
    listed_class = ENGLISH_FUNCTION_WORDS.get(lower, "x" if len(word) == 1 else "")
    if not listed_class and lower.endswith(("ward", "wards")) and word.islower() and tags_of(lower) is None:
        # "Londonward", "zenithward".
        return "y"
    if listed_class:
        # "Hello Love", "Gone With the Wind"; but "The Beatles" are the Beatles.
        return "X" if len(word) > 1 and word.istitle() and not first and listed_class in "xytpb" else listed_class
    if lower in MEASURES:
        return "x"
    if word[0].isupper() and (not first or _is_name(word)):
        return "P"
    return _lexical_class(lower)


def _is_name(word: str) -> bool:
    """Whether a capitalised word is a name even where every word is capitalised: at the beginning of a sentence."""
    if word.isupper() or word.lower() in ENGLISH_SURE_NAMES:
        return True
    tags = tags_of(word.lower())
    if tags is None:
        # Unknown words are names, except those that look like verbs, adjectives and adverbs.
        return best(guess(word.lower())) not in ("VVG", "VVN", "VVD", "AJ0", "AV0")
    return best(tags) == "NP0"


@lru_cache(maxsize=50_000)
def _opens_name(word: str) -> bool:
    """Whether a capitalised word that begins a sentence is part of the name that follows it.

    So are given names, nouns ("President Lincoln", "Lake Victoria"), adjectives ("New York", "British Airways") and
    unknown words; not verbs ("Ask Alice"), adverbs ("Yesterday Bob"), function words and forms of address.
    """
    lower = word.lower()
    if lower in ENGLISH_GIVEN_NAMES or lower in ENGLISH_PLACE_ADJECTIVES:
        return True
    if any(lower in words for words in (ENGLISH_MODIFIERS, ENGLISH_HEADS, ENGLISH_UNITS, ENGLISH_OCCUPATIONS)):
        return False
    if ENGLISH_FUNCTION_WORDS.get(lower, "N") != "N" or len(word) < 3 or lower.endswith("n't"):
        return False
    tags = tags_of(lower)
    if tags is None:
        guessed = best(guess(lower))
        return not (guessed in ("VVG", "VVN", "VVD") or (guessed == "AV0" and _ADVERB.search(lower)))
    nominal = sum(share for tag, share in tags.items() if tag[:2] in ("NN", "NP", "AJ"))
    return nominal >= _SURELY_NOUN and not any(tag[0] == "V" and share >= 0.05 for tag, share in tags.items())


@lru_cache(maxsize=200_000)
def _lexical_class(word: str) -> str:
    tags = tags_of(word)
    if tags is None:
        tags = guess(word)
    by_class: dict[str, float] = {}
    for tag, share in tags.items():
        letter = _CLASS.get(tag, "b" if tag[:2] in ("VB", "VD", "VH") else "x")
        by_class[letter] = by_class.get(letter, 0.0) + share
    noun, verb = by_class.get("N", 0.0), by_class.get("E", 0.0) + by_class.get("v", 0.0)
    third_person = tags.get("VVZ", 0.0) if word.endswith("s") and noun >= POSSIBLY else 0.0
    if noun >= _SURELY_NOUN:
        return "Y" if third_person >= 0.01 else "N"
    if third_person >= POSSIBLY:
        return "Z"
    letter = best(by_class)
    if letter == "J" and by_class.get("E", 0.0) >= POSSIBLY and verb > by_class["J"]:
        # "hired": more often said of an action than of a quality.
        return "E"
    if letter in "NJEIv" and noun >= POSSIBLY and verb >= noun / 10:
        return "B" if letter in "Nv" else letter
    return "y" if letter == "x" and tags.get("AV0", 0.0) > by_class["x"] / 2 else letter


def _name(text: str, tokens: list[Token], classes: str) -> list[Concept]:
    while classes[-1] == "X" or (classes[-1] == "D" and not _kept_number(text, tokens)):
        tokens, classes = tokens[:-1], classes[:-1]
    while tokens and text[slice(*tokens[0])] in _FORMS_OF_ADDRESS:
        tokens, classes = tokens[1:], classes[1:]
    if not tokens:
        return []
    titles = _titles([text[a:b].lower() for a, b in tokens], classes)
    tokens, classes = tokens[titles:], classes[titles:]
    if dates := _DATE_WITHIN.search(classes):
        # "Suriname 4 July 1995 Trinidad": cells of a table.
        before, after = slice(None, dates.start()), slice(dates.end(), None)
        parts = [(tokens[part], classes[part]) for part in (before, after)]
        return [
            concept
            for part, letters in parts
            if "P" in letters or "C" in letters
            for concept in _name(text, part, letters)
        ]
    while tokens and (
        _SECTION.fullmatch(text, *tokens[0])
        # "Pakistan-based Lashkar-e-Toiba".
        or (len(tokens) > 1 and text[slice(*tokens[0])].lower().endswith(ENGLISH_ADJECTIVE_ENDS))
    ):
        tokens, classes = tokens[1:], classes[1:]
    if "P" not in classes and "C" not in classes:
        return []
    start, end = tokens[0][0], tokens[-1][1]
    name = text[start:end]
    if len(tokens) == 1 and (_is_no_name(name) or name.lower().endswith(ENGLISH_ADJECTIVE_ENDS)):
        return []
    if text[slice(*tokens[0])].lower() in ENGLISH_UNITS and set(classes) <= {"P", "D"} and classes.count("P") == 1:
        # "March 2024", "Section 19.2", "Note".
        return []
    if (len(tokens) == 1 and not _LETTERS.search(name)) or len(tokens) > _LONGEST_NAME or len(name) > 80:
        return []
    return [
        Concept(" ".join(name.split()), start, end, "NAME", needed_for_name_in(text, start, end)),
        *_inner_names(text, tokens, classes),
    ]


def _inner_names(text: str, tokens: list[Token], classes: str) -> Iterator[Concept]:
    """Yield names within a name, for walks alone: they lead from somebody called after a thing to that thing.

    "Bank of America" of "CEO of Bank of America", "King Henry III" and "Henry III" of "King Henry III of England", "Lorenzo
    Costa" of "Lorenzo Costa the Younger".
    """
    of = list(_OF_WITHIN.finditer(classes))
    spans = [(match.end(), len(tokens)) for match in of]
    if epithet := _EPITHET_WITHIN.search(classes):
        spans.append((0, epithet.start()))
    elif of and of[0].start() > 1 and _NUMBER_OF_RULER.fullmatch(text, *tokens[of[0].start() - 1]):
        spans.append((0, of[0].start()))
        if of[0].start() > 2 and text[slice(*tokens[0])].lower() in _RULERS:
            spans.append((1, of[0].start()))
    for first, last in spans:
        start, end = tokens[first][0], tokens[last - 1][1]
        if last - first > 1 or (end - start > 2 and not _is_no_name(text[start:end])):
            yield Concept(" ".join(text[start:end].split()), start, end, "NAME", NEVER)


def _is_label(text: str, word: str, end: int) -> bool:
    """Whether a word in capitals is a common one that a heading in title case follows: "HISTORY WEP", not "NATO Secretary"."""
    follows = _TITLE_CASE.match(text, end)
    return follows is not None and best(tags_of(word.lower()) or {"NP0": 1.0})[:2] in ("NN", "VV", "AJ")


@lru_cache(maxsize=50_000)
def _is_no_name(word: str) -> bool:
    """Whether a capitalised word alone is no name: a participle ("Boiled"), two letters without a vowel ("Th"), an
    exclamation.
    """
    if word.isupper() or not word.isalpha():
        return False
    lower = word.lower()
    if lower in ENGLISH_ADDRESSES:
        return True
    if len(word) == 2:
        return not set(lower) & set("aeiouy")
    return (
        lower.endswith(("ed", "ing")) and len(word) > 4 and best(tags_of(lower) or {"": 1.0}) in ("VVN", "VVD", "VVG")
    )


def _titles(words: list[str], classes: str) -> int:
    """Return how many words before a full name are a person's titles: two of "Prime Minister Atal Vajpayee"."""
    count = 0
    while classes[count : count + 3] == "PPP":
        if words[count] in ENGLISH_TITLES:
            count += 1
        elif words[count] in OF_RANK and words[count + 1] in ENGLISH_TITLES and classes[count + 3 :][:1] == "P":
            count += 2
        else:
            break
    return count


def _kept_number(text: str, tokens: list[Token]) -> bool:
    """Whether the number at the end of a name belongs to it: "Overwatch 3", "PostgreSQL 17", not "March 2024"."""
    return len(text[slice(*tokens[-1])]) < 4 or "." in text[slice(*tokens[-1])]


def _phrase(text: str, tokens: list[Token], classes: str, *, is_led: bool) -> list[Concept]:
    if "P" in classes and set(classes) <= {"P", "D"}:
        return []
    words = [text[a:b] for a, b in tokens]
    for place in range(1, len(words)):
        if words[place] in _PREDICATES and classes[place] in "BN" and singular(words[place - 1]) != words[place - 1]:
            words, tokens, classes = words[:place], tokens[:place], classes[:place]
            break
    while len(words) > 1 and (words[-1].lower() in ENGLISH_HEADS or words[-1] in _COMPASS):
        words, tokens, classes = words[:-1], tokens[:-1], classes[:-1]
    while words and _says_little(words, classes):
        words, tokens, classes = words[1:], tokens[1:], classes[1:]
    if len(words) > _LONGEST_PHRASE:
        words, tokens, classes = words[-_LONGEST_PHRASE:], tokens[-_LONGEST_PHRASE:], classes[-_LONGEST_PHRASE:]
    if not words or classes[-1] not in "NB" or len(" ".join(words)) > 80:
        return []
    head = words[-1].lower()
    if head in ENGLISH_WEAK_HEADS and (len(words) == 1 or classes[-2] not in "NPBC"):
        return []
    if head in ENGLISH_HEADS or len(head) < 3 or (len(words) == 1 and not _is_term(words[0])):
        return []
    if len(words) == 2 and classes[0] in "D":
        return []
    name = " ".join([*words[:-1], singular(words[-1])])
    needed = needed_for_phrase(words, classes, is_led=is_led)
    return [Concept(name, tokens[0][0], tokens[-1][1], "CONCEPT", needed)]


def _says_little(words: list[str], classes: str) -> bool:
    """Whether the first word of a phrase is left out: a number, "new", a time; but not "New" of "New York hotels"."""
    first = words[0].lower()
    if first in ENGLISH_MODIFIERS and classes[:2] != "PP" and (len(words) < 3 or words[1] not in ENGLISH_MEASURES):
        return True
    return classes[0] == "D" or (len(words) > 1 and first in ENGLISH_CLOCK)


def _is_term(word: str) -> bool:
    """Whether a single common noun is a concept: hyphenated, or not in the general lexicon, as "tablespace".

    Known nouns ("state", "table") link too many passages; with them multi-hop retrieval gets worse.
    """
    lower = word.lower()
    if "-" in word:
        last = lower.rpartition("-")[2]
        return not lower.endswith(ENGLISH_ADJECTIVE_ENDS) and best(tags_of(last) or guess(last))[:2] == "NN"
    return len(word) > 4 and word.isalpha() and tags_of(lower) is None and tags_of(singular(lower)) is None
