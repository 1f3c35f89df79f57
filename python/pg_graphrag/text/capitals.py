"""Names and identifiers in languages without an extractor of their own, by capital letters and digits."""

import re
from collections import Counter

from pg_graphrag.text.concepts import Concept
from pg_graphrag.text.languages import FOREIGN_WORDS
from pg_graphrag.text.sentences import ends

_IDENTIFIER = r"[^\W\d_]\w*_\w+(?:_\w+)*|[^\W\d_]+\d\w*"
# re has no class for upper case: a word is looked at after it is found.
_WORD = re.compile(rf"{_IDENTIFIER}|[^\W\d_][\w’'-]*(?<!-)")
_SMALL = re.compile(r"(?<!\w)[^\W\d_A-Z][^\W\d_A-Z]*(?!\w)")
_SHORTEST_FIRST = 4
# A name in Latin letters, and what another script adds to it: "PDF를", "ICC-профилей".
_LATIN_NAME = re.compile(r"[A-Za-z\u00c0-\u024f0-9][\w.’'-]*?(?=-?[^\W\d_A-Za-z\u00aa-\u024f])")
# "d'Ubuntu", "l’Italie", "dell'Umbria": articles and prepositions that lost their vowel.
_ELIDED = re.compile(r"(?:[cdjlmnst]|qu|un|d?all|dell|nell|sull)['’](?=[^\W\d_])")
# What stands before the first word of a heading, an item, a cell, a quotation or an aside.
_MARKS = re.compile(
    r"(?:#{1,6}|[-*+•>]|\d{1,3}[.)])[ \t]+(?:[-*+•>][ \t]+)?[«“\"(\[¿¡]?[ \u00a0]?|[|:«“\"([¿¡][ \t\u00a0]*"
)
_SMALL_NEXT = re.compile(r"[ \t\u00a0]+[^\W\d_A-Z\u00c0-\u00de\u0410-\u042f]")
# With a capital they begin a sentence, and are no name.
_OPENERS = FOREIGN_WORDS | frozenset(
    (
        "alors ainsi après aucun aucune aussi autre autres avant cela celui ce ces cet cette chaque comme "
        "comment depuis donc elle entre ils jusque lorsque lors même ne nos notre nous on or ou où par plus "
        "plusieurs puis quand quel quelle quelques sans selon seul seuls ses sous soit tous tout toute toutes "
        "très trois deux vers voici voir vos votre vous "  # French
        "además algunos antes aquí así aunque cada cómo cuando cuál cualquier de desde después donde dos "
        "durante ella ellos entonces esta estas esto estos hasta hay mi mientras muchos no nosotros nunca o "
        "otra otro otros pero porque pues qué quien según ser siempre sin sobre sólo sus también tanto tenga "
        "todo todos tras tu uno usted véase y ya yo "  # Spanish
        "anche ancora chi ci come cosa così dalla dopo dove e ha i in io ma mentre nella noi oltre ora poi "
        "prima quando quello questa questi questo senza solo sua suo tra tutti tutto vedi "  # Italian
        "a ainda algumas alguns apenas após até caso depois ela ele eles essa esse eu isso já mas muito nas "
        "nós onde outra outro pela sem sempre seu sob também tudo um veja você "  # Portuguese
        "als deze die dit door er geen hier hoe ik maar naar nog of om over te tot uit voor waar wat wij "
        "wordt ze zo "  # Dutch
        "а без более в вам вас ваш во вот все всё вы где да даже для до его ее её если есть еще ещё же за "
        "здесь и из или им их к как какой когда которые кто ли либо между мне можно мы на над не нет ниже но "
        "ну о об однако он она они оно от перед по под после при про с сам свои себя см со так также такой "
        "там то тогда того только тот ты у уже хотя чем что чтобы эта эти это этого этот я "  # Russian
    ).split()
)
_GAP = re.compile(r"[ \t\u00a0]+")


def concepts(text: str) -> list[Concept]:
    """Return runs of capitalised words inside a sentence, words with an inner capital, and identifiers."""
    begins = {0, len(text) - len(text.lstrip()), *(position for position, _ in ends(text, 0, len(text)))}
    openings = begins | {match.end() for match in _MARKS.finditer(text)}
    small = Counter(_SMALL.findall(text))
    names: list[Concept] = []
    run: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        start, end = (_LATIN_NAME.match(text, match.start(), match.end()) or match).span()
        is_adjacent = bool(run) and _GAP.fullmatch(text, run[-1][1], start) is not None and start not in begins
        if run and not is_adjacent:
            names.extend(_concept(text, run, begins, openings))
            run = []
        # Charles d'Artagnan is one name.
        if not is_adjacent and (elided := _ELIDED.match(text, start, end)):
            start = elided.end()
        word = text[start:end]
        is_common = word.lower() in small or len(word) < _SHORTEST_FIRST or word.lower() in _OPENERS
        if start in begins and word[1:].islower() and is_common:
            # "Die Datei", "Les deux": a word that the text has in small letters too, or an article.
            if run:
                names.extend(_concept(text, run, begins, openings))
            run = []
            continue
        if (word[0].isupper() or any(c.isupper() or c.isdigit() or c == "_" for c in word)) and end - start <= 40:
            if len(run) == 1 and run[0][0] in begins and _is_cyrillic(text[run[0][0]]) and not _is_cyrillic(word[0]):
                # "Настройте ICC": the first word of a sentence beside a name in another script.
                run = []
            run.append((start, end))
        elif run:
            names.extend(_concept(text, run, begins, openings))
            run = []
    if run:
        names.extend(_concept(text, run, begins, openings))
    return names


def _is_cyrillic(letter: str) -> bool:
    return "\u0400" <= letter <= "\u052f"


def _concept(text: str, run: list[tuple[int, int]], begins: set[int], openings: set[int]) -> list[Concept]:
    start, end = run[0][0], run[-1][1]
    name = " ".join(text[start:end].split())
    if not 1 < len(name) <= 80 or (len(run) == 1 and name.lower() in _OPENERS and name[1:].islower()):
        return []
    # A single capitalised word at the beginning of a sentence may be any word; that of an item or a cell, where more follows.
    is_first = start in begins or (start in openings and _SMALL_NEXT.match(text, end) is not None)
    return [] if len(run) == 1 and name[1:].islower() and is_first else [Concept(name, start, end, "NAME")]
