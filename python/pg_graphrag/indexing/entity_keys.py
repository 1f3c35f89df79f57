"""Which concepts of a document are entities: by how often it mentions them, and by how it writes them.

A function of one document, so that neither order nor hidden documents change it. What is no entity stays for walks
(indexing/chunk_concepts.py).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log10

from pg_graphrag.text.concepts import NEVER, REPEATED, Concept, key
from pg_graphrag.text.english_names import says_what_happens

# A document of so many windows, about a page, is short: a phrase that it has once may be its theme. A long one has it in passing.
SHORT = 8
_SMALL_WORD = re.compile(r"\b[a-z]{2,}\b")
_LATIN_WORD = re.compile(r"[a-z]{2,}")
# 選択範囲が隠されている
_JAPANESE_CLAUSE = re.compile("[をがは](?=.)")
# Languages in whose documents English is read, too.
_WITH_ENGLISH = {"de", "en", "ja", "zh"}


def entity_keys(named: Iterable[Concept], proses: Sequence[str], window_count: int) -> set[str]:
    """Return the keys of the concepts of a document that are entities.

    A phrase needs two mentions in a document that is not short. Of ten chunks and more a weak concept needs one mention more, of
    a hundred two, and so on. A common word with a capital is none where the document has it in small letters as often.

    Parameters
    ----------
    named : iterable of Concept
        By their full names, each as often as it is mentioned.
    proses : sequence of str
        The prose of each chunk.
    window_count : int
        Of all chunks.
    """
    more = int(log10(len(proses))) if proses else 0
    of_phrase = 1 if window_count <= SHORT else REPEATED
    counts: Counter[str] = Counter()
    needed: dict[str, int] = {}
    common: set[str] = set()
    for concept in named:
        entity_key = key(concept.name)
        counts[entity_key] += 1
        if concept.is_weak:
            mentions = concept.mentions_needed + more
            if concept.type == "NAME" and _LATIN_WORD.fullmatch(entity_key):
                common.add(entity_key)
        else:
            mentions = of_phrase if is_phrase(concept) else 1
        needed[entity_key] = min(needed.get(entity_key, NEVER), mentions)
    keys = {entity_key for entity_key, count in counts.items() if count >= needed[entity_key]}
    common = {word for word in common & keys if needed[word] > 1}
    return keys - _in_small_letters(common, counts, proses) if common else keys


def _in_small_letters(words: set[str], counts: Counter[str], proses: Sequence[str]) -> set[str]:
    """Return those of `words` that the prose has in small letters, as singular or plural, as often as `counts` says."""
    small = Counter(word for prose in proses for word in _SMALL_WORD.findall(prose))
    return {word for word in words if sum(small[form] for form in _numbers(word)) >= counts[word]}


def _numbers(word: str) -> set[str]:
    return {word, word + "s", word.removesuffix("s")}


def is_phrase(concept: Concept) -> bool:
    """Whether a concept is no name and of several words, or in a script that does not part them."""
    return concept.type != "NAME" and (" " in concept.name or not concept.name.isascii())


def is_clause(title: str, languages: Iterable[str]) -> bool:
    """Whether a title says what happens, and names no thing."""
    if "ja" in languages and _JAPANESE_CLAUSE.search(title):
        return True
    return not _WITH_ENGLISH.isdisjoint(languages) and says_what_happens(title)
