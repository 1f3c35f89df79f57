"""Names and identifiers in languages without an extractor of their own, by capital letters and digits."""

import re
from collections import Counter

from pg_graphrag.text.concept import Concept
from pg_graphrag.text.languages import CAPITALS, FOREIGN_WORDS
from pg_graphrag.text.sentences import ends
from pg_graphrag.text.words.stopwords import ENGLISH_GIVEN_NAMES

_IDENTIFIER = r"[^\W\d_]\w*_\w+(?:_\w+)*|[^\W\d_]+\d\w*"
# re has no class for upper case: a word is looked at after it is found.
# "Node.js" is one word, and "LGPL-2.1"; "L. Suite" is not.
_WORD = re.compile(rf"(?:{_IDENTIFIER}|[^\W\d_][\w’'-]*(?:(?<=\w)\.[a-z]\w*)?)(?:(?<=\d)\.\d+)*(?<!-)")
_SMALL = re.compile(r"(?<!\w)[^\W\d_A-Z][^\W\d_A-Z]*(?!\w)")
_SHORTEST_FIRST = 4
# A name in Latin letters with a suffix of another script: "PDF를", "ICC-профилей".
_LATIN_NAME = re.compile(
    r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff0-9][\w.’'-]*?(?=-?[^\W\d_A-Za-z\u00aa-\u024f\u0300-\u036f\u1e00-\u1eff])"
)
# "İzmir'de", "Kennedy'ego": what a language adds to a name in Latin letters; not "Rust's" or "Quelqu'un".
_ENDING = re.compile(r"[^\W\d_]{2,}(?<!qu)(?=['’](?!(?:[dmst]|ll|re|ve)\b)[a-z\u00df-\u024f]{1,6}(?!\w))")
# "d'Ubuntu", "l’Italie", "dell'Umbria": articles and prepositions that lost their vowel.
_ELIDED = re.compile(r"(?:[cdjlmnst]|qu|un|d?all|dell|nell|sull)['’](?=[^\W\d_])")
# "C'est", "S'il": no name follows.
_ELIDED_BEFORE_SMALL = re.compile(r"(?:[CDJLMNST]|Qu|Jusqu|Lorsqu|Puisqu)['’](?=[^\W\d_A-Z\u00c0-\u00de])")
# Where a sentence begins: "L'Europe"; but "D'Annunzio".
_ELIDED_FIRST = re.compile(rf"L['’](?=[^\W\d_])|{_ELIDED.pattern}")
# Signs before the first word of a heading, an item or a footnote; of a cell, a quotation or an aside; of emphasised text.
_LEADS = re.compile(
    r"(?:(?:#{1,6}|[-*+•>]|\d{1,3}[.)])[ \t]+|\[\d{1,3}\][ \t]*)(?:[-*+•>][ \t]+)?[*_]{0,3}[«“\"(\[¿¡]?[ \u00a0]?"
)
_ASIDES = re.compile(r"[|:;«“\"([¿¡—][*_]{0,3}[ \t\u00a0]*[*_]{0,3}")
_EMPHASIS = re.compile(r"[*_]{1,3}[«“\"(\[¿¡]?[ \u00a0]?")
_SMALL_NEXT = re.compile(rf"[ \t\u00a0]+[^\W\d_{CAPITALS}]")
# "O Xfce tem", not "Los Angeles" alone.
_SMALL_AFTER_CAPITALS = re.compile(rf"(?:[ \t\u00a0]+[{CAPITALS}][\w.’'-]*){{0,4}}{_SMALL_NEXT.pattern}")
# With a capital they begin a sentence, and are no name.
_OPENERS = (
    FOREIGN_WORDS
    | frozenset(
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
            "але без був була було були від він вона вони воно всі всього де для же зі із їх їй його її й якщо яка "
            "який яке які коли ми може немає ні один також такий такі там те ти тим тоді тут хто це цей цю ця ці чи "
            "що щоб ви вам ваш наш після під час який тому всіх "  # Ukrainian
            "a aby bez by być będzie co czy dla do gdy gdzie i ich ile ja jaki jakie jako jego jej jeśli jeżeli każdy "
            "kiedy kto która które który lub ma mogą może moje można my nad nasz nasze niektóre o od ona one oni oraz "
            "pod poza przed przez przy są swój swoje ta tak także tam te ten twoja twoje twojego twój ty tylko tym u w "
            "we więc wszystkie z za ze zwłaszcza "  # Polish
            "ani bylo co či do i již její jejich jen jestli jako k kde když každý který která které na nebo o od pod "
            "pokud pro protože proto před při s také tato tento toto u v ve však všechny z za "  # Czech
            "ama ancak bazı ben biz bunlar bunun değil diğer eğer en fakat gibi hem her hangi ise kim ne neden nasıl "
            "o onlar sen siz şu tüm veya ya "  # Turkish
            "και το τα τη της των τον την του τους τις οι ο η ένα ένας μια μία με για από στο στη στην στα στους στις σε "
            "που πως πώς ότι αν δεν θα να είναι όταν όπως αυτό αυτή αυτός αυτές αυτά αλλά ή κάθε όλα όλοι μετά πριν "  # Greek
            "bạn bởi chúng cũng đã để do đây đó được hãy hoặc hầu khi không lại mà mỗi một nếu người nhưng những này "
            "ở sau số tại tất theo thì trên trước từ và vì với "  # Vietnamese
        ).split()
    )
)
_CAPITAL_NEXT = re.compile(rf"[ \t\u00a0]+[{CAPITALS}\u0110\u0130\u1e00-\u1eff]\w+")
_GAP = re.compile(r"[ \t\u00a0]+")
# "John F. Kennedy", "А. С. Пушкин"; but "M. Dupont" and "S. Pedro" are addressed.
_ADDRESSES = frozenset("DMS")
_AFTER_INITIAL = re.compile(r"\.?[ \t\u00a0]+|\.")
# A letter at the end of a sentence is no initial: "le vaccin C. Puis".
_FIRST_INITIAL = re.compile(rf"\.[ \t\u00a0]?[{CAPITALS}](?:\.|[\w’'-]*[ \t\u00a0]+[{CAPITALS}])")
# What a text calls its own parts, before a number: "Capítulo 4", "Sección 6.1".
_PARTS = frozenset(
    (
        "capitolo capítulo chapitre chapter figura figure figuur glava hoofdstuk kapitel kapitola paragraaf paragraf "
        "rozdział rozdzial rysunek seção sección section sectie sezione tabel tabela tabella tabla table tableau tablo "
        "tabulka bölüm şekil глава раздел рисунок таблица розділ таблиця κεφάλαιο πίνακας σχήμα chương hình bảng mục"
    ).split()
)
_NUMBER_NEXT = re.compile(r"[ \t\u00a0]+(?:n[.º°] ?)?(?:\d|[A-Z]\.\d)")
# They begin titles, and asides: "(La Paz)".
_ARTICLES = frozenset("das der die el gli het i il la las le les lo los o os".split())
# "How I", of a title in English.
_ASKS = frozenset("how so what when where which who why".split())


def concepts(text: str) -> list[Concept]:
    """Return runs of capitalised words inside a sentence, words with an inner capital, and identifiers."""
    places = _Places(text)
    small = Counter(_SMALL.findall(text))
    names: list[Concept] = []
    run: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        start, end = (_LATIN_NAME.match(text, match.start(), match.end()) or match).span()
        if text[start].isupper() and (ending := _ENDING.match(text, start, end)):
            end = ending.end()
        if elided := _ELIDED_BEFORE_SMALL.match(text, start, end):
            start = elided.end()
        is_adjacent = bool(run) and start not in places.begins and _is_adjacent(text, run, start, end)
        if run and not is_adjacent:
            names.extend(_concept(text, run, places))
            run = []
        # Charles d'Artagnan is one name.
        elisions = _ELIDED_FIRST if start in places.openings else _ELIDED
        if not is_adjacent and (elided := elisions.match(text, start, end)):
            start = elided.end()
        word = text[start:end]
        if places.opens(word, start, end, small):
            if run:
                names.extend(_concept(text, run, places))
            run = []
        elif (word[0].isupper() or any(c.isupper() or c.isdigit() or c == "_" for c in word)) and end - start <= 40:
            if len(run) == 1 and run[0][0] in places.leads and _is_no_part(text[slice(*run[0])], word):
                run = []
            run.append((start, end))
        elif run:
            names.extend(_concept(text, run, places))
            run = []
    if run:
        names.extend(_concept(text, run, places))
    return names


class _Places:
    """Where a capital says nothing, since any word has one there.

    `begins`, `leads`, `openings`: positions of the first words of sentences; of headings and items, too; of cells, quotations
      and asides, too.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.begins = {0, len(text) - len(text.lstrip()), *(position for position, _ in ends(text, 0, len(text)))}
        emphasised = {match.end() for begin in self.begins if (match := _EMPHASIS.match(text, begin))}
        self.leads = self.begins | emphasised | {match.end() for match in _LEADS.finditer(text)}
        self.openings = self.leads | {match.end() for match in _ASIDES.finditer(text)}

    def opens(self, word: str, start: int, end: int, small: Counter[str]) -> bool:
        """Whether a word only begins a sentence: an article, a preposition, or one that the text has in small letters, too."""
        if (
            start not in self.openings
            or not _is_capitalised(word)
            or (len(word) == 1 and self._text[end : end + 1] == ".")
        ):
            return False
        is_opener = len(word) == 1 or word.lower() in _OPENERS
        if start in self.begins:
            is_short = len(word) < _SHORTEST_FIRST and not self._begins_name(word, start, end)
            return is_opener or is_short or word.lower() in small
        if word.lower() in _ARTICLES:
            return start in self.leads and _SMALL_AFTER_CAPITALS.match(self._text, end) is not None
        return is_opener

    def _begins_name(self, word: str, start: int, end: int) -> bool:
        """Whether a short word belongs to the name after it: it is a given name, or the text has both together again."""
        pair = _CAPITAL_NEXT.match(self._text, end)
        if pair is None:
            return False
        return word.lower() in ENGLISH_GIVEN_NAMES or self._text.count(self._text[start : pair.end()]) > 1


def _is_adjacent(text: str, run: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether a word stands beside the last of a run with only blanks between, or with the dot of an initial."""
    before, word = text[slice(*run[-1])], text[start:end]
    is_initial = len(before) == 1 and before.isupper()
    if is_initial and len(run) == 1:
        is_initial = before not in _ADDRESSES and _FIRST_INITIAL.match(text, run[-1][1]) is not None
    if is_initial and word[0].isupper() and (len(word) == 1 or word.lower() not in _OPENERS):
        return _AFTER_INITIAL.fullmatch(text, run[-1][1], start) is not None
    return _GAP.fullmatch(text, run[-1][1], start) is not None


def _is_capitalised(word: str) -> bool:
    return word[0].isupper() and (len(word) == 1 or word[1:].islower())


def _is_no_part(first: str, word: str) -> bool:
    """Whether the first word of a sentence is none of the name after it: "Настройте ICC", "Utiliza w3m"."""
    return _is_capitalised(first) and (word[0].islower() or (_is_cyrillic(first[0]) and not _is_cyrillic(word[0])))


def _is_cyrillic(letter: str) -> bool:
    return "\u0400" <= letter <= "\u052f"


def _concept(text: str, run: list[tuple[int, int]], places: _Places) -> list[Concept]:
    start, end = run[0][0], run[-1][1]
    if text[slice(*run[-1])].lower() in _PARTS and _NUMBER_NEXT.match(text, end):
        return _concept(text, run[:-1], places) if run[:-1] else []
    name = " ".join(text[start:end].split())
    if not 1 < len(name) <= 80 or (len(run) == 1 and name.lower() in _OPENERS and name[1:].islower()):
        return []
    is_before_small = _SMALL_NEXT.match(text, end) is not None
    if len(run) > 1:
        is_asked = start in places.openings and text[slice(*run[0])].lower() in _ASKS and is_before_small
        return [] if is_asked else [Concept(name, start, end, "NAME")]
    # A single capitalised word at the beginning of a sentence may be any word; so may that of an item or a cell, if
    # more follows.
    is_first = start in places.begins or (start in places.openings and is_before_small)
    return [] if name[1:].islower() and is_first else [Concept(name, start, end, "NAME")]
