"""Which concepts of a document are entities: by how often the document mentions them, and how it writes them.

A function of one document, so that neither the order nor hidden documents change it. Other concepts stay for walks
(index/indexing/chunk_concepts.py).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import log10

from pg_graphrag.text.concept import NEVER, REPEATED, Concept, key
from pg_graphrag.text.languages import HAN, KANA, is_foreign
from pg_graphrag.text.letters import unified_text
from pg_graphrag.text.naming import gate
from pg_graphrag.text.naming.gate import Mention, Usage
from pg_graphrag.text.words import english_names
from pg_graphrag.text.words.names import is_heading

# A document of at most so many windows, about a page, is short: a phrase that occurs in it once may be its theme. In a
# long one it is incidental.
SHORT = 8
_SMALL_WORD = re.compile(r"\b[a-z]{2,}\b")
_WORD = re.compile(rf"[^\W\d_{HAN}]{{3}}|[{HAN}{KANA}]{{3}}")
_LATIN_WORD = re.compile(r"[a-z]{2,}")
# 選択範囲が隠されている
_JAPANESE_CLAUSE = re.compile("[をがは](?=.)")
# Cells of a table, parts of a circuit: A1, A2, C4.
_LETTER_AND_NUMBER = re.compile(r"[a-z]\d{1,3}")
_CODES = 3
_ENDS_IN_HAN = re.compile(f"^[{HAN}]|[{HAN}]$")
# Works end with such signs (君の名は。, けいおん！), and have them within rarely. After a colon stands what somebody says, or a
# book's other title, which is short.
_HEADLINE = re.compile(f"[{HAN}{KANA}][^\n]{{2,}}[，；。？](?=[^\n]*[{HAN}{KANA}])|[{HAN}]：[^\n{KANA}]{{12,}}$")
_QUESTION_MARKS = ("?", "？", "؟")
# A character that can be of a name, and is not mostly a word beside one.
_OF_A_NAME = re.compile(
    "(?![的了是在和与與及或而但被把将將对對从從到于於以为為由向给給让讓使就都也还還又再很更最不没沒有无無这這那其所各每某该該此"
    "上下中内內外里裡时時后後前年月日号號人者等曾任因则則且并並至自即如若只才仅僅可能会會要已未均皆共同说說称稱氏族军軍市县縣省州"
    "区區镇鎮乡鄉村国國语語党黨派系式型级級类類版社团團队隊家们們与与之也])[\u4e00-\u9fff]"
)
_STEM = re.compile(r"(?:(?=\S*[_\d])[\w.]+(?:[_-][\w.]+)+|[a-z]{2,}(?:-[a-z]{2,})+)(?: [-–|] .*)?", re.ASCII)
_WORD_OF_TITLE = re.compile(rf"[^\W\d_{HAN}{KANA}]+|[{HAN}{KANA}]")
_HAN = re.compile(f"[{HAN}]")
# "(1970 film)", after a name.
_IN_BRACKETS = re.compile(r"[(（][^()（）]*[)）]\s*$")
_JOINTS_OF_TITLES = frozenset(
    "a an the of in on at by for from to and or as de la le les el di da der die das dem den des und von vom zu zur zum im"
    " für y et s の と 的 和 与 與 及 之 年 第 次 回 届 屆".split()
)
_LONGEST_CJK_WORD = 5
# Words of code, or of scripts that these analysers do not read.
_OF_OTHER_SIGNS = re.compile(rf"[\\{{}}$<>|=;]|::|[^\W\d_A-Za-z\u00c0-\u024f{HAN}{KANA}]")
# Languages in whose documents English is read, too.
_WITH_ENGLISH = {"de", "en", "ja", "zh"}


def entity_keys(candidates: Mapping[str, Usage], window_count: int) -> set[str]:
    """Return the keys of the candidates that are entities, in a document of so many windows (text/naming/gate.py)."""
    return {entity_key for entity_key, usage in candidates.items() if gate.is_entity(usage, window_count)}


def candidates_of(
    usages: Mapping[str, Usage], concepts_by_chunk: Sequence[Sequence[Concept]], proses: Sequence[str]
) -> dict[str, Usage]:
    """Return candidates for entities: names by the tagger, and concepts that analysers find often enough for their form.

    Concepts must be no piece of a name, and no common word that the document writes in small letters as often.

    `usages`: {key: how the document uses it}
    `concepts_by_chunk`, `proses`: as for `usages_of`.
    """
    found = {entity_key for entity_key, usage in usages.items() if not usage.called and usage.is_enough}
    found -= _pieces(concepts_by_chunk, proses)
    codes = {entity_key for entity_key in found if _LETTER_AND_NUMBER.fullmatch(entity_key)}
    if len(codes) >= _CODES:
        found -= codes
    common = {
        entity_key
        for entity_key in found
        if usages[entity_key].is_name and usages[entity_key].needed > 1 and _LATIN_WORD.fullmatch(entity_key)
    }
    found -= _in_small_letters(common, usages, proses) if common else set()
    return {entity_key: usage for entity_key, usage in usages.items() if usage.called or entity_key in found}


def usages_of(
    concepts_by_chunk: Sequence[Sequence[Concept]],
    proses: Sequence[str],
    languages: Sequence[str],
    full: Mapping[str, Concept] | None,
    window_count: int,
    *,
    is_read: bool,
) -> dict[str, Usage]:
    """Return how the chunks of a document use concepts, by the keys of their full names.

    A phrase needs two mentions in a document that is not short. A weak concept needs one mention more in a document of ten
    chunks and more, two more from a hundred, and so on.
    """
    more = int(log10(len(proses))) if proses else 0
    of_phrase = 1 if window_count <= SHORT else REPEATED
    usages: dict[str, Usage] = {}
    for named, prose, language in zip(concepts_by_chunk, proses, languages, strict=True):
        if not named:
            continue
        judged_as = gate.language_of(prose, language)
        for short, longer in _with_longer(named):
            concept = full_name(short, full)
            entity_key = key(concept.name)
            if not entity_key or short.is_piece or is_heading(entity_key):
                continue
            strong = of_phrase if is_phrase(concept) else 1
            needed = concept.mentions_needed + more if concept.is_weak else strong
            usage = usages.get(entity_key) or Usage([], [], judged_as, is_read=is_read)
            usage.mentions.append(Mention(prose, short.start, short.end))
            if short.term_score is not None:
                usage.term_scores.append(short.term_score)
            usages[entity_key] = usage._replace(
                is_name=usage.is_name or not is_phrase(concept),
                needed=min(usage.needed, needed),
                probability=max(usage.probability, short.probability),
                called=usage.called + bool(short.tag),
                within_longer=usage.within_longer + (longer is not short),
            )
    return usages


def full_name(concept: Concept, full: Mapping[str, Concept] | None) -> Concept:
    """Return a concept by the name that it means."""
    longer = full.get(key(concept.name)) if full else None
    if longer is None:
        return concept
    return replace(concept, name=longer.name, type=longer.type, mentions_needed=longer.mentions_needed)


def _with_longer(named: Sequence[Concept]) -> Iterator[tuple[Concept, Concept]]:
    """Yield the concepts of a text, each with the longer one it stands within, else with itself."""
    longer: Concept | None = None
    for concept in named:
        if longer is None or concept.end > longer.end:
            longer = concept
        yield concept, longer


def _pieces(concepts_by_chunk: Sequence[Sequence[Concept]], proses: Sequence[str]) -> set[str]:
    """Return the keys of names that are pieces of another.

    A name in Han that the document has only beside one and the same character (耶律留 before 哥), and one that it has only
    within the same longer name (Mohs of Mohs surgery).
    """
    neighbours: dict[str, list[tuple[str, str]]] = {}
    within: dict[str, list[str]] = {}
    for named, prose in zip(concepts_by_chunk, proses, strict=True):
        for concept, longer in _with_longer(named):
            entity_key = key(concept.name)
            if concept.type == "NAME":
                within.setdefault(entity_key, []).append(key(longer.name) if longer is not concept else "")
            if concept.type == "NAME" and _ENDS_IN_HAN.search(concept.name) and longer.end - concept.end < 2:
                around = prose[concept.start - 1 : concept.start], prose[concept.end : concept.end + 1]
                neighbours.setdefault(entity_key, []).append(around)
    pieces = {
        entity_key
        for entity_key, places in neighbours.items()
        if len(places) > 1
        and any(len(set(side)) == 1 and _OF_A_NAME.fullmatch(side[0]) for side in zip(*places, strict=True))
    }
    # Frantzi, Ananiadou: a term that occurs only within one longer term is none (C-value).
    return pieces | {name for name, terms in within.items() if len(terms) > 1 and terms[0] and len(set(terms)) == 1}


def _in_small_letters(words: set[str], usages: Mapping[str, Usage], proses: Sequence[str]) -> set[str]:
    """Return those of `words` that the prose has in small letters, as singular or plural, as often as with a capital."""
    small = Counter(word for prose in proses for word in _SMALL_WORD.findall(prose))
    return {word for word in words if sum(small[form] for form in _numbers(word)) >= len(usages[word].mentions)}


def _numbers(word: str) -> set[str]:
    return {word, word + "s", word.removesuffix("s")}


def is_phrase(concept: Concept) -> bool:
    """Whether a concept is no name."""
    return concept.type != "NAME"


def is_headline(title: str) -> bool:
    """Whether a title in Han or kana is a sentence, as in newspapers: 补税、删帖、下九流，契约精神在哪里？"""
    return _HEADLINE.search(title) is not None


def is_clause(title: str, languages: Iterable[str]) -> bool:
    """Whether a title says what happens or asks, and names no thing."""
    if title.rstrip().endswith(_QUESTION_MARKS) or is_headline(title):
        return True
    if "ja" in languages and _JAPANESE_CLAUSE.search(title):
        return True
    # Sessions without such documents save their imports.
    if "zh" in languages and not title.isascii():
        from pg_graphrag.text.words import chinese

        if chinese.says_what_happens(title):
            return True
    if "de" in languages:
        from pg_graphrag.text.words import german

        if german.says_what_happens(title):
            return True
    return not _WITH_ENGLISH.isdisjoint(languages) and english_names.says_what_happens(title)


def is_stem(title: str) -> bool:
    """Whether a title may be the name of a file without its ending, and of its site: ch10-01-syntax, style-guide - The Manual."""
    return _STEM.fullmatch(title) is not None


def is_of_names(title: str, concepts_by_language: Mapping[str, Sequence[Concept]], proses: Sequence[str]) -> bool:
    """Whether a title reads as a name or a term in one of its text's languages; True where no analyser knows any of them.

    "Springfield, Illinois", "To Kill a Mockingbird" and "梅雨", not "Enable automatic brightness" or "我的计算机变得太热".
    """
    analysed = [language for language in concepts_by_language if language in _WITH_ENGLISH]
    if not analysed or _OF_OTHER_SIGNS.search(title) or (analysed == ["en"] and any(map(is_foreign, proses))):
        return True
    return any(_is_of_names(title, language, concepts_by_language[language]) for language in analysed)


def _is_of_names(title: str, language: str, concepts: Sequence[Concept]) -> bool:
    rest = _words_beside(title, [concept for concept in concepts if concept.mentions_needed < NEVER])
    if not rest:
        return True
    words = _words_beside(title, ())
    if language in ("ja", "zh"):
        # A word of a dictionary is no concept alone.
        return not title.isascii() and len(words) <= _LONGEST_CJK_WORD
    if len(words) == 1:
        return True
    return language == "en" and (all(map(_is_capital, words)) or all(map(english_names.is_noun_or_adjective, rest)))


def _is_capital(word: str) -> bool:
    return word[0].isupper()


def _words_beside(title: str, concepts: Iterable[Concept]) -> list[str]:
    """Return the words of a title beside its concepts, without what only joins them."""
    characters = list(_IN_BRACKETS.sub("", title))
    for concept in concepts:
        characters[concept.start : concept.end] = " " * (concept.end - concept.start)
    words = _WORD_OF_TITLE.findall("".join(characters))
    return [word for word in words if word.lower() not in _JOINTS_OF_TITLES]


def is_said(title: str, proses: Sequence[str], *, as_written: bool = False) -> bool:
    """Whether the prose contains a title outside of headings, in any form of its characters.

    The text may leave out the title's parts in brackets. `as_written` requires the title's own capitals: an instruction to
    enable the compose key does not mention "Enable the compose key".
    """
    # Forms of Han need a library that only texts in Japanese and Chinese bring.
    in_one_form = unified_text if _HAN.search(title) else str if as_written else str.casefold
    title = in_one_form(_IN_BRACKETS.sub("", title).rstrip() or title)
    return any(
        _WORD.search(line.replace(title, "")) is not None
        for prose in map(in_one_form, proses)
        if title in prose
        for line in prose.split("\n")
        if title in line and not line.lstrip().startswith("#")
    )
