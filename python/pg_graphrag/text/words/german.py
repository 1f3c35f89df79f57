"""German names and compound nouns, by HanTa's German lexicon: every noun has a capital letter, so capitals alone do
not show a name.
"""

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pg_graphrag.text.concept import NEVER, REPEATED, Concept
from pg_graphrag.text.languages import ENGLISH_WORDS, FOREIGN_WORDS
from pg_graphrag.text.sentences import ends
from pg_graphrag.text.words import english, english_names
from pg_graphrag.text.words.english_words import tags_of
from pg_graphrag.text.words.stopwords import MEASURES, is_placeholder
from pg_graphrag.text.words.tagger import read_tagger

_WORD = re.compile(r"[^\W\d_]\w*(?:[-.&/'’]\w+)*")
_IDENTIFIER = re.compile(r"(?=.*[^\W\d_])(?:\w*\w_\w+|[^\W\d_]+\d\w*|\w*[a-zäöü][A-ZÄÖÜ]\w*)[\w.-]*")
# Enough of a line to know its language.
_ENGLISH_LINE = re.compile(r"[^\n]{40,}")
# Not the parts of "out-of-the-box".
_SMALL_WORD = re.compile(r"(?<![\w-])[a-zäöüß]{2,}(?![\w-])")
_OPENING = re.compile(r"[„“\"»›‚(:•*]\s?|^[ \t]{0,20}[-–]\s", re.MULTILINE)
_GAP = re.compile(r"[ \t\u00a0]+")
# P name   A adjective with a capital letter   F word of another language   N compound noun   n any other noun   x anything else
_NAME = re.compile(r"(?:A{0,2}|F{1,2})P[PAF]*|(?:A{1,2}|F{1,2})[Nn]|C")
_LONGEST, _LONGEST_ACRONYM = 40, 6
_VERBS = ("VV(INF)", "VV(FIN)", "VV(IZU)", "VVINF", "VVFIN", "VVIZU", "VV(IMP)", "VA(FIN)", "VM(FIN)", "VAFIN", "VMFIN")
# Before a name, with or without its point.
_TITLES = frozenset("Prof Dr Hr Fr Frl Ing Dipl Mag".split())
_GENITIVES = frozenset("des der eines einer von vom Ihres Ihrer".split())
_ASKS = frozenset("Wie Was Warum Wann Wo Wer Wozu Welche Welcher Welches Woher Wohin".split())
_SHORTEST_COMPOUND = 8
# Nr. 4, Abs. 2, Kap. 3: a word cut short before a number; z. B.
_SHORT_FOR = re.compile(r"\.\s?(?:\d|[IVX]+\b|[A-Z]\.)")
_LONGEST_SHORT_FORM = 5
# 64-Bit-Hardware, 3D-Drucker.
_WITHIN = re.compile(r"\d-?\Z")
_NUMBERED = frozenset(
    "Abschnitt Kapitel Tabelle Abbildung Seite Teil Anhang Bild Listing Beispiel Anlage Artikel".split()
)
_NUMBER_AFTER = re.compile(r"\s?\d|\s[A-Z]\b")
# The natural logarithm of a word's share of all nouns from which everybody uses it: Zeitpunkt, Grundlage; not Grundstück.
_FREQUENT = -11.3


def concepts(text: str) -> list[Concept]:
    """Return the names of `text`, and its compound nouns in the singular; of English lines the English ones."""
    matches: list[Concept] = []
    position = 0
    for line in _ENGLISH_LINE.finditer(text):
        if not _is_english_line(line.group()):
            continue
        matches += _moved(_concepts(text[position : line.start()]), position)
        of_line = [concept for concept in english.concepts(line.group()) if not _is_german_noun(concept.name)]
        matches += _moved(of_line, line.start())
        position = line.end()
    return matches + _moved(_concepts(text[position:]), position)


def _moved(concepts: list[Concept], offset: int) -> list[Concept]:
    if not offset:
        return concepts
    return [replace(concept, start=concept.start + offset, end=concept.end + offset) for concept in concepts]


def _is_english_line(line: str) -> bool:
    words = _SMALL_WORD.findall(line)
    english_count = sum(word in ENGLISH_WORDS for word in words)
    return english_count > 1 and english_count > 2 * sum(word in FOREIGN_WORDS for word in words)


def _is_german_noun(name: str) -> bool:
    """Whether a name of an English line is a German noun: "Code for Czech (in Gründung)"."""
    lower = name.lower()
    return lower in _tagger().cache and part_of_speech(name) == "NN" and tags_of(lower) is None


def _concepts(text: str) -> list[Concept]:
    begins = {0, len(text) - len(text.lstrip()), *(position for position, _ in ends(text, 0, len(text), "de"))}
    # After a quotation mark or a bullet a capital says as little.
    begins.update(match.end() for match in _OPENING.finditer(text))
    words: list[tuple[int, int]] = []
    letters: list[str] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        # "Debian's".
        end -= 2 if match.group().endswith(("'s", "’s")) else 0
        if words and (start in begins or not _GAP.fullmatch(text, words[-1][1], start)):
            words.append((start, start))
            letters.append(".")
        words.append((start, end))
        # "Hard- oder Software": the beginning of a word.
        is_cut = text[end : end + 1] == "-" or _WITHIN.search(text, max(0, start - 2), start) is not None
        is_short_form = (end - start <= _LONGEST_SHORT_FORM and _SHORT_FOR.match(text, end)) or (
            match.group() in _NUMBERED and _NUMBER_AFTER.match(text, end)
        )
        letters.append("x" if is_cut or is_short_form else _word_class(text[start:end], start in begins))
    classes = "".join(letters)
    matches: list[Concept] = []
    for match in _NAME.finditer(classes):
        start, end = words[match.start()][0], words[match.end() - 1][1]
        # "Europäische Union" is a name; "Neue Dateien" at the beginning of a sentence is not.
        if (
            not (match.group()[0] == "A" and match.group()[-1] in "Nn" and start in begins)
            and 1 < end - start <= 2 * _LONGEST
        ):
            # "Weitere Informationen" beside "Europäische Union".
            needed = REPEATED if match.group()[-1] in "Nn" else 1
            if set(match.group()) == {"P"} or match.group() == "C":
                # "Image" of a menu in English.
                needed = english_names.needed_for_name(text[start:end].split())
                if start in begins and _is_english_verb(text[start:end]):
                    # "Removes focus from the child window."
                    needed = NEVER
            matches.append(Concept(" ".join(text[start:end].split()), start, end, "NAME", needed))
    for place in range(1, len(words)):
        # "die Dichtung S4": which of its kind.
        (start, noun_end), (_, end) = words[place - 1], words[place]
        is_noun = letters[place - 1] in ("N", "n") and text[start:noun_end] not in _NUMBERED
        if is_noun and english.DESIGNATION.fullmatch(text, words[place][0], end):
            matches.append(Concept(" ".join(text[start:end].split()), start, end, "NAME"))
    spans = {(concept.start, concept.end) for concept in matches}
    for (start, end), letter in zip(words, letters, strict=True):
        if letter == "N" and (start, end) not in spans:
            # A compound that the general lexicon has is a common word: Einfluss, Grundidee.
            name = _singular(text[start:end])
            is_common = is_known(name.lower()) or is_known(name.lower().replace("ss", "ß"))
            needed = (NEVER if _is_frequent(name) else REPEATED) if is_common else 1
            matches.append(Concept(name, start, end, "CONCEPT", needed))
    matches.sort(key=lambda concept: (concept.start, -concept.end))
    return matches


def _is_english_verb(word: str) -> bool:
    return word.lower() not in _tagger().cache and english_names.is_form_of_verb(word)


@lru_cache(maxsize=100_000)
def _word_class(word: str, first: bool) -> str:
    """Return the class of `word`; `first`: where every word has a capital letter."""
    if len(word) > _LONGEST or len(word) < 2:
        return "x"
    if is_placeholder(word) or word.lower() in MEASURES or word.lower() in FOREIGN_WORDS or word in _TITLES:
        return "x"
    if _IDENTIFIER.fullmatch(word):
        return "C"
    if not word[0].isupper():
        return "x"
    tagger = _tagger()
    if word.isupper():
        is_noun = len(word) > _LONGEST_ACRONYM and part_of_speech(word.title()) == "NN"
        if word.lower() in tagger.cache or is_noun:
            # "Laden Sie KEIN Paket", "ANMERKUNG": stress.
            return "x"
        return "P" if word.isalpha() else "C"
    if first and word.lower() in tagger.cache and part_of_speech(word.lower())[:2] not in ("NN", "NE"):
        return "x"
    head, hyphen, last = word.rpartition("-")
    if hyphen:
        # Linux-Kernel, Name-Service-Switch: as its last part.
        tag = part_of_speech(last) if last[:1].isupper() else "x"
        return "N" if head and tag in ("NN", "NE") else "x"
    tag = part_of_speech(word)
    if tag == "NE":
        return "P"
    if tag == "NN":
        return "N" if _is_compound(word) else "n"
    # Open Data Day, Free Software: words of other languages.
    return "A" if tag.startswith("ADJ") else "F" if tag == "FM" else "x"


@lru_cache(maxsize=100_000)
def part_of_speech(word: str) -> str:
    """Return the part of speech of a word, as in STTS."""
    tags = _tagger().tag_word(word)
    tag = str(tags[0][0]) if tags else "x"
    if tag == "NE" and "th" in word.lower() and word.lower() not in _tagger().cache:
        # Theil, Gemüth: spelling before 1901.
        new = word.replace("th", "t").replace("Th", "T")
        return part_of_speech(new) if new.lower() in _tagger().cache else tag
    if tag == "NE" and "ss" in word and word not in _tagger().cache:
        # The lexicon has "Einfluß".
        old = word.replace("ss", "ß")
        return part_of_speech(old) if old in _tagger().cache or old.lower() in _tagger().cache else tag
    return tag


@lru_cache(maxsize=100_000)
def _analysis(word: str) -> tuple[str, int]:
    """Return the basic form of a noun, in small letters, and how many nouns it is made of."""
    lemma, parts, _ = _tagger().analyze(word, taglevel=3)
    return str(lemma), sum(tag.startswith(("NN", "NE")) for _, tag in parts)


def _is_compound(word: str) -> bool:
    """Whether a noun is made of several: Paketverwaltung; Datei and Größe link too much."""
    return len(word) >= _SHORTEST_COMPOUND and _analysis(word)[1] > 1


@lru_cache(maxsize=50_000)
def _is_frequent(noun: str) -> bool:
    spellings = (noun, noun.replace("ss", "ß"))
    return any(
        tag == "NN" and float(logarithm) >= _FREQUENT
        for spelling in spellings
        if spelling.lower() in _tagger().cache
        for tag, logarithm in _tagger().tag_word(spelling)
    )


def _singular(word: str) -> str:
    """Return a noun in its basic form: Konfigurationsdateien and Konfigurationsdatei are one concept."""
    head, hyphen, last = word.rpartition("-")
    lemma, noun_count = _analysis(last)
    lemma = lemma.replace("ß", "ss")
    # A lemma of another spelling (Systemprozeß) is one only where it begins like the word.
    plain = last.replace("ß", "ss")
    if lemma[:4] != plain[:4].lower() or plain.endswith("daten"):
        return word
    if (
        plain.lower() in (lemma + "en", lemma + "er")
        and noun_count < 2
        and not is_known(lemma)
        and not is_known(lemma + "e")
    ):
        # Touch-Screen, Domain-Switcher: no lexicon has "Scre" and "Switch".
        return word
    if plain.lower() == lemma + "n" and not lemma.endswith(("e", "l", "r")):
        # No plural: Hackathon.
        return word
    if lemma.endswith("i") and not lemma.endswith("ei") and plain.endswith("ien"):
        # The lexicon cuts Medien too short.
        return word
    if plain.lower() == lemma + "en" and _lacks_e(lemma):
        lemma += "e"
    return head + hyphen + lemma[:1].upper() + lemma[1:]


def _lacks_e(lemma: str) -> bool:
    """Whether a lemma is cut too short: Druckerwarteschlang, whose last noun is Schlange."""
    ends = [lemma[-length:] for length in range(4, min(len(lemma), 9) + 1)]
    words = _tagger().cache
    return any(end + "e" in words for end in ends) and not any(end in words for end in ends)


def says_what_happens(title: str) -> bool:
    """Whether a title is a clause: "Dateien vorbereiten für das Booten", "Wie man Pakete baut", "Aktualisieren des Pakets"."""
    words = title.split()
    if len(words) < 2:
        return False
    if words[0] in _ASKS or title.endswith("?"):
        return True
    if words[-1].islower() and part_of_speech(words[-1]).startswith("VV"):
        return True
    if words[1] in _GENITIVES and part_of_speech(words[0].lower()) in _VERBS:
        return True
    return any(word.islower() and word.isalpha() and part_of_speech(word) in _VERBS for word in words[1:])


def is_known(word: str) -> bool:
    """Return whether HanTa's lexicon has a word."""
    return word in _tagger().cache


@lru_cache(maxsize=1)
def _tagger() -> Any:
    return read_tagger("morphmodel_ger")
