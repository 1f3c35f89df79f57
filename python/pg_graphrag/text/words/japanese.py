"""Japanese morphemes, search terms and noun phrases, by SudachiPy.

Takaoka et al., "Sudachi: a Japanese Tokenizer for Business", LREC 2018: units of three lengths and normalised forms.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pg_graphrag.text.concept import Concept
from pg_graphrag.text.extras import load_library
from pg_graphrag.text.letters import modern
from pg_graphrag.text.words import compounds
from pg_graphrag.text.words.compounds import Morpheme
from pg_graphrag.text.words.stopwords import CJK_GENERIC, JAPANESE_AFTER_PERSON, JAPANESE_HEADS, JAPANESE_NAME_ENDS

# Sudachi takes 49,149 bytes at a time; Han and kana are three or four bytes a character.
_PIECE = 8_000
_STOP_CLASSES = frozenset(("助詞", "助動詞", "補助記号", "記号", "空白", "代名詞", "連体詞", "接続詞", "感動詞"))
_SHORT_KANA = re.compile("[ぁ-ゖー]{1,2}")
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc-\u30fe]+")
# 企業内, 世界中, 日没後: where and when.
_WHERE_OR_WHEN = frozenset("中内外後前時間")
_FAMILY, _GIVEN = ("人名", "姓"), ("人名", "名")
_NUMERALS = re.compile("[一二三四五六七八九十百千万億兆]{2,}")
_ENDS_OF_PERSON = frozenset("兵衛 左衛門 右衛門 衛門 之助 之丞 之進 太夫".split())
_LETTERS = {"接頭辞": "a", "形状詞": "J", "接尾辞": "s"}


@lru_cache(maxsize=1)
def _sudachi() -> tuple[Any, Any]:
    load_library("sudachidict_core", "ja")
    module = load_library("sudachipy", "ja")
    dictionary = module.Dictionary(dict="core")
    make = getattr(dictionary, "tokenizer", None) or dictionary.create
    return make(mode=module.SplitMode.C), module.SplitMode.A


def _morphemes(run: str) -> Iterator[tuple[int, Any]]:
    """Yield (offset of the piece it is in, morpheme in Sudachi's longest units) over a run of Han and kana."""
    tokenizer, _ = _sudachi()
    for start in range(0, len(run), _PIECE):
        for morpheme in tokenizer.tokenize(run[start : start + _PIECE]):
            yield start, morpheme


def cut(run: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield start, end and part of speech of the words of a run of Han and kana; the last is empty for an unknown one."""
    for start, morpheme in _morphemes(modern(run)):
        yield start + morpheme.begin(), start + morpheme.end(), () if morpheme.is_oov() else morpheme.part_of_speech()


@lru_cache(maxsize=50_000)
def terms(run: str) -> tuple[str, ...]:
    """Return the search terms of a run of Han and kana: normalised long units, and their short units beside them.

    The long unit makes a name such as 東京スカイツリー findable exactly, the short ones by its parts; normalised forms
    make old and new spellings alike, as `modern` does old and new characters. Particles, auxiliaries, pronouns and
    formal nouns are left out.
    """
    _, short_mode = _sudachi()
    forms: list[str] = []
    for _, morpheme in _morphemes(modern(run)):
        if _is_content(morpheme):
            forms.append(morpheme.normalized_form())
            parts = morpheme.split(short_mode)
            if len(parts) > 1:
                forms.extend(part.normalized_form() for part in parts if _is_content(part))
    return tuple(modern(term) for term in forms)


def concepts(text: str) -> list[Concept]:
    """Return names and compound nouns of `text` in order of appearance."""
    return compounds.concepts(text, _analyse)


@lru_cache(maxsize=50_000)
def _analyse(run: str) -> tuple[Morpheme, ...]:
    _, short_mode = _sudachi()
    morphemes: list[Morpheme] = []
    speeches: list[tuple[str, ...]] = []
    for piece_start, morpheme in _morphemes(modern(run)):
        start, end = piece_start + morpheme.begin(), piece_start + morpheme.end()
        speech = morpheme.part_of_speech()
        if morpheme.surface() in CJK_GENERIC:
            trait = "e"
        elif speech[1:3] == ("固有名詞", "人名"):
            trait = "p"
        else:
            trait = "q" if speech[0] == "形状詞" else "a" if speech[2] == "サ変可能" else ""
        morphemes.append(Morpheme(start, end, _letter(morpheme), len(morpheme.split(short_mode)) or 1, trait))
        speeches.append(speech)
    return tuple(_whole_words(run, _persons(run, morphemes, speeches)))


def _whole_words(run: str, morphemes: Iterator[Morpheme]) -> Iterator[Morpheme]:
    """Yield the morphemes, those of one word of katakana as one: アムス テル ダム."""
    word: Morpheme | None = None
    for morpheme in morphemes:
        if word is not None and _KATAKANA.fullmatch(run, word.start, morpheme.end):
            # A name of which the dictionary has a part.
            letter = "P" if "P" in (word.letter, morpheme.letter) else "N"
            word = Morpheme(word.start, morpheme.end, letter, word.units + morpheme.units)
            continue
        if word is not None:
            yield word
        word = morpheme
    if word is not None:
        yield word


def _persons(run: str, morphemes: list[Morpheme], speeches: list[tuple[str, ...]]) -> Iterator[Morpheme]:
    """Yield the morphemes, a family name and the given name after it as one."""
    place = 0
    while place < len(morphemes):
        person, end = morphemes[place], place + 1
        if speeches[place][2:4] == _FAMILY and end < len(morphemes) and speeches[end][2:4] == _GIVEN:
            end += 1
            if end < len(morphemes) and _goes_on(run, morphemes[end - 1], morphemes[end], speeches[end]):
                # 木村 摂 津守, 根津 欽 次郎, 矢上 十郎 兵衛.
                end += 1
            # 内藤多仲 is cut 内 藤多 仲: the last part of a name that is not in the dictionary.
            follows = morphemes[end] if end < len(morphemes) else person
            if _is_rest_of_name(run, person, morphemes[end - 1], follows):
                end += 1
            person = Morpheme(person.start, morphemes[end - 1].end, "P", 2)
        yield person
        place = end


def _goes_on(run: str, given: Morpheme, follows: Morpheme, speech: tuple[str, ...]) -> bool:
    """Whether a name of a person goes on after a given name: after one character with another name, else with a usual end."""
    if given.end - given.start == 1:
        return speech[1:3] == ("固有名詞", "人名")
    return run[follows.start : follows.end] in _ENDS_OF_PERSON


def _is_rest_of_name(run: str, family: Morpheme, given: Morpheme, follows: Morpheme) -> bool:
    """Whether one more character belongs to a name: 高見 昂 季; but 氏, 様 and 著 do not."""
    if follows.end - follows.start != 1 or follows is family:
        return False
    if follows.letter == "N":
        return family.end - family.start == 1
    is_short = given.end - given.start == 1 and given is not family
    return is_short and follows.letter == "s" and run[follows.start] not in JAPANESE_AFTER_PERSON


@lru_cache(maxsize=50_000)
def family_name(name: str) -> str:
    """Return the family name of a name that is a person's, family and given name; "" for others."""
    analysed = [morpheme for _, morpheme in _morphemes(modern(name))]
    if (
        1 < len(analysed) < 4
        and analysed[0].part_of_speech()[2:4] == _FAMILY
        and analysed[1].part_of_speech()[2:4] == _GIVEN
    ):
        return name[: analysed[0].end()]
    return ""


@lru_cache(maxsize=50_000)
def is_place(name: str) -> bool:
    """Whether the dictionary has a name as a place's, or as a common word."""
    analysed = [morpheme.part_of_speech() for _, morpheme in _morphemes(modern(name))]
    return all(speech[2] == "地名" or (speech[0] == "名詞" and speech[1] != "固有名詞") for speech in analysed)


@lru_cache(maxsize=50_000)
def is_name_of_place(name: str) -> bool:
    """Whether the dictionary has a name, whole, as a place's."""
    analysed = [morpheme.part_of_speech() for _, morpheme in _morphemes(modern(name))]
    return len(analysed) == 1 and analysed[0][1] == "固有名詞" and analysed[0][2] == "地名"


def _letter(morpheme: Any) -> str:
    speech, surface = morpheme.part_of_speech(), morpheme.surface()
    # Two hiragana alone are a particle or a formal noun, whatever the analysis of a short run says.
    if _SHORT_KANA.fullmatch(surface):
        return "x"
    if surface in JAPANESE_NAME_ENDS and speech[:2] != ("名詞", "固有名詞"):
        return "e"
    if speech[0] == "接尾辞" and speech[2] == "助数詞":
        return "c"
    if speech[0] != "名詞":
        return _LETTERS.get(speech[0], "x")
    if speech[1] == "数詞" or _NUMERALS.fullmatch(surface):
        return "D"
    if speech[2] == "助数詞可能":
        return "c"
    if surface in JAPANESE_HEADS or speech[2] == "副詞可能":
        return "x"
    parts = list(morpheme.split(_sudachi()[1])) if speech[1] == "普通名詞" else []
    if len(parts) > 1 and (speech[2] == "形状詞可能" or _says_where_or_when(parts[-1])):
        # 不安定, 無関係; 企業内.
        return "J"
    return "P" if speech[1] == "固有名詞" else "N"


def _says_where_or_when(last: Any) -> bool:
    """Whether the last short unit of a word only says where or when something is: 中 of 作業中."""
    return last.surface() in _WHERE_OR_WHEN and last.part_of_speech()[0] == "接尾辞"


def _is_content(morpheme: Any) -> bool:
    speech = morpheme.part_of_speech()
    if (
        speech[0] in _STOP_CLASSES
        or _SHORT_KANA.fullmatch(morpheme.surface())
        or (speech[0] == "動詞" and speech[1] == "非自立可能")
    ):
        return False
    return morpheme.normalized_form() not in JAPANESE_HEADS and morpheme.surface() not in JAPANESE_HEADS


def parts_of_speech(name: str) -> Iterator[str]:
    """Yield the part of speech of each morpheme of a name in one word, "unknown" for one that is in no dictionary."""
    for _, morpheme in _morphemes(modern(name)):
        speech = morpheme.part_of_speech()
        if morpheme.is_oov():
            yield "unknown"
        elif speech[2] in ("サ変可能", "形状詞可能"):
            yield speech[2]
        else:
            yield speech[1] if speech[0] == "名詞" else speech[0]
