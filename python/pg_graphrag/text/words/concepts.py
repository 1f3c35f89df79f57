"""Noun phrases and names that become entities (LazyGraphRAG's concepts): from analysers and the tagger."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, islice

from pg_graphrag.text import letters
from pg_graphrag.text.concept import Concept, key
from pg_graphrag.text.languages import ENGLISH_WORDS, has_german_word, is_foreign, is_german, may_be_foreign

# Characters in which a text may well have no function word of its language.
_SHORT_TEXT = 300
# So many unknown words of a short ASCII text without a known one belong to another language.
_FOREIGN_UNKNOWN = 3
# Not the part behind an apostrophe: "Sivas'tan".
_WORD = re.compile(r"(?<!['’])[^\W\d_]+")
_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")
# A title may end with such a word: "Why I Close PRs".
_PLURAL_CAPITALS = re.compile(r"(?:[^\s]+ )?[A-Z][A-Z\d]+s")
_NO_LINE_END = re.compile(r"[^\n]")


def concepts(text: str, language: str) -> list[Concept]:
    """Return the noun phrases and names of `text` in order of appearance.

    A function of the text alone: no dictionary is downloaded, no statistics of other texts are used.

    Raises GraphRAGError: 58P01 when the library for `language` is not installed.
    """
    if not letters.has_invisible_or_apart(text):
        return [_singular(concept) for concept in _concepts(text, language)]
    plain, places = letters.with_places(text)
    written = []
    for concept in map(_singular, _concepts(plain, language)):
        start, end = places[concept.start], places[concept.end]
        as_written = letters.without_stray_invisible(letters.whole(text[start:end]))
        name = as_written if letters.without_invisible(as_written) == concept.name else concept.name
        written.append(replace(concept, name=name, start=start, end=end))
    return written


def _singular(concept: Concept) -> Concept:
    """Return a concept, its capitals in the singular: APIs and API are one."""
    if concept.name.endswith("s") and _PLURAL_CAPITALS.fullmatch(concept.name):
        return replace(concept, name=concept.name[:-1])
    return concept


def _concepts(text: str, language: str) -> list[Concept]:
    if language == "ja":
        from pg_graphrag.text.words import japanese

        return japanese.concepts(text)
    if language == "zh":
        from pg_graphrag.text.words import chinese

        return chinese.concepts(text)
    # Latin script counts as English where nothing else is said (languages.py). Stems then are English; nouns need not be.
    if language == "en":
        language = latin_language(text)
    if language == "en":
        # Most texts have one paragraph, or no such word.
        if "\n" not in text.strip() or not may_be_foreign(text):
            return _of_english(text)
        own, foreign = _by_language(text)
        if not foreign:
            return _of_english(text)
        of_parts = chain(_of_english(own), *(_of_language(part, language) for language, part in foreign.items()))
        return sorted(of_parts, key=lambda concept: (concept.start, concept.end))
    return _of_language(text, language)


def latin_language(text: str) -> str:
    """Return the language that a text in Latin script is read in: ``de``, ``en``, or ``other``."""
    return "de" if is_german(text) else "other" if is_foreign(text) else _of_few_words(text)


def _of_few_words(text: str) -> str:
    """Return the language of a short text without function words of English, by the words in small letters: ``de``, ``other`` or
    ``en``, which it is where nothing says otherwise.

    "Käthe Größer wohnt in Berlin." has no function word that tells.
    """
    if len(text) > _SHORT_TEXT:
        return "en"
    words = _WORD.findall(text)
    small = {word for word in words if len(word) > 2 and word.islower()}
    # AS and IT are names.
    if not small or not ENGLISH_WORDS.isdisjoint(word.lower() for word in words if not word.isupper()):
        return "en"
    from pg_graphrag.text.words import english_words, german

    unknown = {word for word in small if word not in english_words.tagger().cache}
    if not unknown:
        return "en"
    in_german = {word for word in small if german.is_known(word)}
    if small - unknown - in_german:
        return "en"
    if unknown & in_german or has_german_word(text):
        return "de"
    # Words of a trade are unknown, too.
    return "en" if text.isascii() and len(unknown) < _FOREIGN_UNKNOWN else "other"


def _by_language(text: str) -> tuple[str, dict[str, str]]:
    """Return a text in English without its paragraphs in other languages, and these, each with blanks for the rest."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for match in _PARAGRAPH.finditer(text):
        if is_german(match[0]):
            spans.setdefault("de", []).append(match.span())
        elif is_foreign(match[0]):
            spans.setdefault("other", []).append(match.span())
    own = _blanked(text, sorted(chain(*spans.values())))
    return own, {language: _blanked(text, _between(places, len(text))) for language, places in spans.items()}


def _between(spans: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    edges = [0, *chain(*spans), length]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += text[position:start], _NO_LINE_END.sub(" ", text[start:end])
        position = end
    return "".join(parts) + text[position:]


def _of_english(text: str) -> list[Concept]:
    from pg_graphrag.text.words import english

    return english.concepts(text)


def _of_language(text: str, language: str) -> list[Concept]:
    if language == "de":
        from pg_graphrag.text.words import german

        return german.concepts(text)
    from pg_graphrag.text.words import capitals

    return capitals.concepts(text)


# A concept is paired with this many concepts after it: all of them in most sentences. A list of contributors says
# little about who belongs to whom: no sentence has more than about so many pairs, and in a list of a hundred only
# neighbours are paired.
_REACH, _PAIRS = 6, 84


def pairs(concepts_in_sentence: Sequence[Concept]) -> list[tuple[int, int]]:
    """Return which concepts of one sentence co-occur: pairs of positions in the list, the smaller first.

    Each key counts once, where it first appears; a concept is paired with the six distinct ones that follow (in a list of more
    than fourteen with fewer, with at least one), except those nested in it ("PostgreSQL" in "PostgreSQL server"), which it
    says nothing about.
    """
    firsts: dict[str, int] = {}
    for position, concept in enumerate(concepts_in_sentence):
        firsts.setdefault(key(concept.name), position)
    positions = list(firsts.values())
    reach = max(1, min(_REACH, _PAIRS // max(1, len(positions))))
    index_pairs: list[tuple[int, int]] = []
    for index, a in enumerate(positions):
        followers = (b for b in positions[index + 1 :] if not _nested(concepts_in_sentence[a], concepts_in_sentence[b]))
        index_pairs.extend((a, b) for b in islice(followers, reach))
    return index_pairs


def _nested(a: Concept, b: Concept) -> bool:
    return a.start < b.end and b.start < a.end


_AROUND = re.compile(r"^[\W_]+|[\W_]+$")
# RZ-500K, with a digit and a capital.
_CODE = re.compile(r"(?=\S*[A-Z])(?=\S*\d)\S+")


def with_names(concepts: Sequence[Concept], names: Sequence[Concept], kept: Iterable[str] = ()) -> list[Concept]:
    """Return `concepts` and `names` of one text in order of appearance.

    A phrase that contains whole names stays unchanged. A name by analysers is a piece if it joins names, or lies within one
    or across its bounds; if only punctuation is between their bounds, the analysers' bounds count (U.S. for U.S). `kept`:
    keys of names that stay as written, whatever the tagger says. So do codes: RZ-500K, where the tagger reads RZ-500K press
    or RZ.
    """
    if not names:
        return list(concepts)
    kept = frozenset(kept)
    starts, ends = [name.start for name in names], [name.end for name in names]
    own = {(name.start, name.end): name for name in names}
    merged: list[Concept] = []
    for concept in concepts:
        span = concept.start, concept.end
        if span in own:
            name = own[span]
            # An analyser's form of a name stays: APIs is API.
            own[span] = replace(name, name=concept.name) if concept.type == "NAME" else name
            continue
        overlapping = names[bisect_right(ends, concept.start) : bisect_left(starts, concept.end)]
        holds = all(concept.start <= name.start and name.end <= concept.end for name in overlapping)
        is_code = _CODE.fullmatch(concept.name) is not None
        if concept.type == "NAME" and (
            [*map(_letters, overlapping)] == [_letters(concept)] or (is_code and holds and overlapping)
        ):
            first = overlapping[0]
            for name in overlapping:
                own.pop((name.start, name.end), None)
            own[first.start, first.end] = replace(first, name=concept.name, start=concept.start, end=concept.end)
        elif not overlapping or (holds and concept.type != "NAME") or key(concept.name) in kept or is_code:
            merged.append(concept)
        else:
            merged.append(replace(concept, is_piece=True))
    return sorted([*merged, *own.values()], key=lambda concept: (concept.start, -concept.end))


def _letters(concept: Concept) -> str:
    return _AROUND.sub("", concept.name)
