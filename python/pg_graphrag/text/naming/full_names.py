"""Names of a document that mean one thing: Stone and Bob Stone, Kestrel and the Kestrel engine, 徳田 and 徳田球一.

A function of the concepts and the prose of one document, so that neither order nor other documents, hidden ones among them,
change it. What is likely but not sure is left to suggest_merges.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from pg_graphrag.text.concept import Concept, key
from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.naming.references import is_person_like
from pg_graphrag.text.words import english_words
from pg_graphrag.text.words.stopwords import ENGLISH_NAME_PARTICLES

# What a thing is, after its name. Not what a maker or a place stands before: the Disney film, the Boston library.
_KIND = re.compile(
    r"[\w.+-]+ (?:engine|algorithm|framework|protocol|river|lake|island|city|town|village|rocket|launcher|spacecraft"
    r"|satellite|dataset|benchmark)"
)
# A document that speaks of a person says he or she.
_PERSONAL = re.compile(r"\b(?:[Hh]e|[Ss]he|[Hh]is|[Hh]er|Mrs?|Ms|Dr)\b")
# It stands somewhere: a place.
_PLACED = r"\b(?:in|at|near|into|outside|around|across|throughout|within)\s(?:the\s)?{name}\b|\b{name},\s[A-Z]"
# Between two letters; numbers side by side are two: 1 2, 12.
_JOINED = re.compile(r"(?<=[^\W\d_])[ -](?=[^\W\d_])")
_SHORTEST_SPELLING = 4
_JOINTS = re.compile("[·・]")
_PART_OF_PERSON = re.compile(r"(?:[A-Z]\.){1,3}|(?:[DdLl]['’])?(?![A-Z]{2,})[A-Z][\w'’-]*\w(?<!['’]s)")
_KANA_OR_HAN = re.compile(f"[{HAN}{KANA}]{{2,}}")
# A family name of Japan has two or three characters, seldom one; a given name one to three.
_FAMILY_NAMES = (2, 3)
_JAPANESE_PERSON = re.compile("[\u4e00-\u9fff々〆ヶ]{3,6}")


def full_names(concepts: Iterable[Concept], text: str, languages: Collection[str]) -> dict[str, Concept]:
    """Return {key of a short name, or of another spelling: the concept that it means}.

    Parameters
    ----------
    concepts : iterable of Concept
        Of one document.
    text : str
        Its prose.
    languages : collection of str
        Of its chunks.
    """
    by_key: dict[str, Concept] = {}
    for concept in concepts:
        by_key.setdefault(key(concept.name), concept)
    names = {name_key: concept for name_key, concept in by_key.items() if concept.type == "NAME"}
    spellings = _spellings(by_key)
    # A name that is spelled in two ways is one.
    longer: dict[str, set[str]] = {}
    for name_key, concept in by_key.items():
        for short in _short_forms(name_key, concept):
            if short in names and short != name_key:
                longer.setdefault(short, set()).add(spellings.get(name_key, name_key))
    if "ja" in languages:
        from pg_graphrag.text.words import japanese

        for name_key in names:
            for length in _FAMILY_NAMES:
                short = name_key[:length]
                if short in names and _JAPANESE_PERSON.fullmatch(name_key) and japanese.family_name(name_key) == short:
                    longer.setdefault(short, set()).add(spellings.get(name_key, name_key))
    distinct = {name_key: concept for name_key, concept in names.items() if name_key not in spellings}
    full_key_of = {
        short: next(iter(full_keys))
        for short, full_keys in longer.items()
        if len(full_keys) == 1 and _is_sure(names[short], by_key[next(iter(full_keys))], distinct, text, languages)
    }
    # Another spelling of a short name means what that means.
    spelled = {name_key: full_key_of.get(spelling, spelling) for name_key, spelling in spellings.items()}
    return {name_key: by_key[full_key] for name_key, full_key in (spelled | full_key_of).items()}


def _spellings(by_key: Mapping[str, Concept]) -> dict[str, str]:
    """Return {key: the shortest key with the same letters}: of Li Hua and LiHua, file system and file-system and filesystem."""
    by_letters: dict[str, list[str]] = {}
    for name_key in by_key:
        letters = _JOINED.sub("", name_key)
        if len(letters) >= _SHORTEST_SPELLING:
            by_letters.setdefault(letters, []).append(name_key)
    spellings: dict[str, str] = {}
    for keys in by_letters.values():
        shortest, *others = sorted(keys, key=lambda name_key: (len(name_key), name_key))
        spellings |= dict.fromkeys(others, shortest)
    return spellings


def _short_forms(name_key: str, concept: Concept) -> Iterable[str]:
    words = name_key.split(" ")
    if len(words) == 2 and _KIND.fullmatch(name_key):
        return (words[0],)
    if concept.type != "NAME":
        return ()
    if len(words) > 1:
        return (words[-1],)
    parts = _JOINTS.split(name_key)
    return (parts[-1],) if len(parts) > 1 else ()


def _is_sure(
    short: Concept, full: Concept, names: Mapping[str, Concept], text: str, languages: Collection[str]
) -> bool:
    """Whether a short name means the one longer name that it can mean, by what else the document says."""
    if full.type == "CONCEPT":
        # "the Kestrel engine" is one; "Honda engines", "a Honda engine" are what Honda makes, "the Japanese city" is a city.
        others = [name for name in names if name.startswith(key(short.name) + " ")]
        article = re.search(rf"\b[Tt]he\s{re.escape(short.name)}\s", text)
        is_one = article is not None and not re.search(rf"\b[Aa]n?\s{re.escape(short.name)}\s", text)
        return is_one and not others and not english_words.is_adjective(short.name)
    if _KANA_OR_HAN.fullmatch(short.name):
        # Asia of モンスーン・アジア is a continent all the same. By the dictionary that is loaded for the document.
        # Sessions without such documents save their imports.
        if "ja" in languages:
            from pg_graphrag.text.words import japanese

            return not japanese.is_place(short.name)
        if "zh" not in languages:
            return False
        from pg_graphrag.text.words import chinese

        return not chinese.is_word(short.name)
    short_key = key(short.name)
    holding = [name for name in names if short_key in name]
    # A pattern of its own costs more than all this; few names need one.
    if len(holding) > 2 and sum(re.search(rf"\b{re.escape(short_key)}\b", name) is not None for name in holding) > 2:
        # Ann Stone, Stone Street beside Bob Stone.
        return False
    return (
        is_person_like(full.name)
        and all(_is_part_of_person(word) for word in full.name.split())
        and _PERSONAL.search(text) is not None
        and not re.search(_PLACED.format(name=re.escape(short.name)), text)
    )


def _is_part_of_person(word: str) -> bool:
    """Whether a word can be one of a person's name: Sun, Real and FC of Sun King, Real Madrid and FC Barcelona are not."""
    if word in ENGLISH_NAME_PARTICLES:
        return True
    is_spelled = _PART_OF_PERSON.fullmatch(word) is not None
    return is_spelled and (word.endswith(".") or english_words.may_be_name(word.split("-")[0]))
