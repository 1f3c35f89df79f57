"""Names and identifiers in languages without an extractor of their own, by capital letters and digits."""

import re

from pg_graphrag.text.concepts import Concept
from pg_graphrag.text.sentences import ends

_IDENTIFIER = r"[^\W\d_]\w*_\w+(?:_\w+)*|[^\W\d_]+\d\w*"
# re has no class for upper case: a word is looked at after it is found.
_WORD = re.compile(rf"{_IDENTIFIER}|[^\W\d_][\w’'-]*(?<!-)")
_SMALL = re.compile(r"(?<!\w)[^\W\d_A-Z][^\W\d_A-Z]*(?!\w)")
_SHORTEST_FIRST = 4
_GAP = re.compile(r"[ \t\u00a0]+")


def concepts(text: str) -> list[Concept]:
    """Return runs of capitalised words inside a sentence, words with an inner capital, and identifiers."""
    begins = {0, len(text) - len(text.lstrip()), *(position for position, _ in ends(text, 0, len(text)))}
    small = set(_SMALL.findall(text))
    names: list[Concept] = []
    run: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        is_adjacent = bool(run) and _GAP.fullmatch(text, run[-1][1], start) is not None and start not in begins
        if run and not is_adjacent:
            names.extend(_concept(text, run, begins))
            run = []
        word = match.group()
        if start in begins and word[1:].islower() and (word.lower() in small or len(word) < _SHORTEST_FIRST):
            # "Die Datei", "Les deux": a word that the text has in small letters too, or an article.
            if run:
                names.extend(_concept(text, run, begins))
            run = []
            continue
        if (word[0].isupper() or any(c.isupper() or c.isdigit() or c == "_" for c in word)) and end - start <= 40:
            run.append((start, end))
        elif run:
            names.extend(_concept(text, run, begins))
            run = []
    if run:
        names.extend(_concept(text, run, begins))
    return names


def _concept(text: str, run: list[tuple[int, int]], begins: set[int]) -> list[Concept]:
    start, end = run[0][0], run[-1][1]
    name = " ".join(text[start:end].split())
    # A single capitalised word at the beginning of a sentence may be any word.
    is_ambiguous = len(run) == 1 and name[1:].islower() and start in begins
    return [] if is_ambiguous or not 1 < len(name) <= 80 else [Concept(name, start, end, "NAME")]
