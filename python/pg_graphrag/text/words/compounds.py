"""Compound nouns and names in text without spaces: what Japanese and Chinese share.

A morpheme's class is one letter, a text a string of classes, a compound a regular expression:
  P name   N noun   J modifier   a prefix   s suffix   e end of a name (寺, 駅)   D number   c what counts (年, 人, 段階)
  V noun of an action (检索)   v the same, more often a verb (利用)   L capitalised Latin word or identifier   l Latin word
  U not in the dictionary: a noun where the text has it twice   x anything else
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from pg_graphrag.text.concept import REPEATED, Concept
from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.letters import narrow
from pg_graphrag.text.words import english, english_names
from pg_graphrag.text.words.stopwords import (
    CHINESE_AFTER_AGENT,
    CJK_ADVERBIAL,
    CJK_GENERIC,
    CJK_KIN,
    CJK_MODIFIERS,
    CJK_NUMBERINGS,
    CJK_TAILS,
    ENGLISH_FUNCTION_WORDS,
    ENGLISH_UNITS,
    MEASURES,
    is_placeholder,
)


class Morpheme(NamedTuple):
    """A morpheme's span, its class, how many shortest units it has, and its trait, which makes a compound or a name weak.

    `trait` is ``q`` for a quality (安全), ``a`` for an action (開始), ``e`` for a word that fits everywhere (関係), ``f`` for a
    frequent one, ``p`` for a person's name, ``g`` for a guessed name, ``u`` for a word in no dictionary, ``l`` for a Latin
    word in small letters, else empty.
    """

    start: int
    end: int
    letter: str
    units: int
    trait: str = ""


# A number stays with its counter: 4段階パイプライン, 51年綱領.
_COMPOUND = re.compile(r"(?:a?Dc|aD|D(?=N[NPLV])|[aJ])*[NPLlVv](?:[aJNPLlVvDcse]*[NPLlVvse])?")
# A number with its counter at the end is an amount: 党員約9万人, 人口10万人.
_AMOUNT = re.compile(r"a?D[sc]*N?$")
_NUMBERING = re.compile(r"a?D(?=.)")
# A product and its version: "プレイステーション5", "PostgreSQL 17".
_NUMBERED = re.compile(r"[PL]D")
# Titles of works. 「」 quote speech too: such a quotation is a name only where all its words are nouns.
_TITLE = re.compile(r"『([^『』\n。]{2,40})』|《([^《》\n。]{2,40})》")
_QUOTED = re.compile(r"「[^「」\n。、]{2,20}」")
_CJK = f"{HAN}{KANA}"
_STRETCH = re.compile(
    rf"(?P<cjk>[{_CJK}]+)|(?P<latin>[^\W_{_CJK}][^\n{_CJK}、。「」『』（）！？，：；]*)|(?P<other>\S|\n)"
)
# GNU/Linux is one name.
_CAPITALISED = r"[A-Z](?:[\w.+#-]*[\w+#])?(?:/[A-Z][\w+#-]*[\w+#])?"
# "Master of Constructions" is one name.
_LATIN_WORD = re.compile(
    # 2019-nCoV.
    rf"\d+-[a-z]*[A-Z]\w*|{_CAPITALISED}(?: (?:(?:of|for|the|de|du|von) )?{_CAPITALISED})*"
    r"|[A-Za-z](?:[\w.+#-]*[\w+#])?|\d+(?:[.,]\d+)*|\S"
)
_IDENTIFIER = re.compile(r"[_\d]|[a-z][A-Z]")
_ACT = re.compile(
    "[\u4e00-\u9fff]{2}化|再[\u4e00-\u9fff]{2}|[\u4e00-\u9fff]{2}(?:上|限|的|通り)|各[\u4e00-\u9fff]{1,2}"
)
_PLAIN_LATIN = re.compile(r"[A-Z][a-z]+(?: (?:[A-Z]?[a-z]+))*")
# guess.trim, formula_11, x86_64.
_PIECE_OF_CODE = re.compile(r"[a-z]\w*\.[a-z]\w*|[a-z]+\d|[a-z]\d\S*|[^A-Z\s]*_[^A-Z\s]*")
# 十人, 幾つ, 两棵树: how many, as the dictionaries' places and persons.
_HOW_MANY = re.compile(
    "[一二三四五六七八九十百千万億何幾数数數两兩几幾]{1,4}"
    "(?:つ|[人名個箇个回度本枚冊列行匹頭台軒歩位次遍坪石両銭尺寸貫斤畳]|[棵株][树樹]|种|種|[条條張张]|ヶ月|か月|個月|个月|週間|種類)"
    "|[一二三四五六七八九十百千万億萬亿]{1,3}[十百千万億萬亿]"
)
# v5.3.0, of whatever the text speaks of.
_VERSION = re.compile(r"v?\d+(?:\.\d+)+")
_LETTER_WORD = re.compile(r"[A-Za-z]\w*")
_COUNTED = re.compile(rf"[A-Za-z0-9_%{HAN}-]")
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_JOINTS = ("·", "•", "‧", "・")
_KATAKANA_OR_INITIAL = re.compile("[\u30a1-\u30fa\u30fc-\u30fe]{2,}|[A-Z]")
_LONGEST_PART = 8
_KATAKANA_PAIR = re.compile("[\u30a1-\u30fa\u30fc-\u30fe]{2}")
_LONGEST_PHRASE, _LONGEST_NAME = 7, 40
# A compound of more words whose first one is mostly a verb has that as its verb.
_LONGEST_WITH_VERB = 3
# Characters of a quality: 複雑性, 网络延迟性 is longer.
_LONGEST_QUALITY = 4
# A Latin stretch of more words than this is an English sentence inside the page, not a term in a Japanese one.
_LATIN_TERM = 4
# A verb with an amount: 处五万元罚款.
_VERB_AND_NUMBER = re.compile(f"[{HAN}](?:\\d|[一二三四五六七八九十两]{{0,3}}[百千万])")
# Before the recipient and the agent, in Chinese.
_BEFORE_AGENT = ("向", "由")
# A name that a line end cuts: "David Heinemeier⏎Hanssonさん".
_CUT_NAME = re.compile(rf"(?<=[{_CJK}])([A-Z][a-z]+(?: [A-Z][a-z]+)*)\n(?=[A-Z][a-z]+[{_CJK}])")


def concepts(text: str, analyse: Callable[[str], tuple[Morpheme, ...]]) -> list[Concept]:
    """Return names and compound nouns in order of appearance; a name inside a compound is given beside it.

    `analyse`: cuts a run of Han and kana into morphemes; spans are within the run.
    """
    narrowed, origins = narrow(_CUT_NAME.sub(r"\1 ", text))
    matches = _concepts(narrowed, analyse)
    if origins is not None:
        matches = [replace(concept, start=origins[concept.start], end=origins[concept.end]) for concept in matches]
    return matches


def _concepts(text: str, analyse: Callable[[str], tuple[Morpheme, ...]]) -> list[Concept]:
    matches: list[Concept] = []
    items: list[Morpheme] = []
    line_begins = True
    for match in _STRETCH.finditer(text):
        start, end = match.span()
        embedded = not line_begins or text[end : end + 1] not in ("", "\n")
        line_begins = match.group() == "\n"
        if match.lastgroup == "cjk":
            if items and items[-1].end < start and _is_cjk(text[items[-1].end - 1]):
                # A blank between two characters is there to part them: 滝口哲也 有木康雄.
                items.append(Morpheme(start, start, "x", 1))
            items.extend(
                item._replace(start=start + item.start, end=start + item.end) for item in analyse(match.group())
            )
        elif match.lastgroup == "other":
            items.append(Morpheme(start, end, "x", 1))
        elif len(_LETTER_WORD.findall(match.group())) <= _LATIN_TERM:
            if items and items[-1].end < start:
                # 作者 David MacKenzie, 文件 tel: what a name is, and the name.
                items.append(Morpheme(start, start, "x", 1))
            items.extend(_latin(text, start, end, embedded))
        else:
            items.append(Morpheme(start, end, "x", 1))
            matches.extend(
                replace(inner, start=start + inner.start, end=start + inner.end)
                for inner in english.concepts(match.group())
            )
    items = _decided(text, _joined_names(text, items))
    letters = "".join(item.letter for item in items)
    for match in _COMPOUND.finditer(letters):
        start, end = match.span()
        # Beside a word that no dictionary has nobody knows where a compound begins and ends.
        is_cut = any(item.trait == "u" for item in items[max(0, start - 1) : end + 1])
        matches.extend(_compound(text, items[start:end], is_cut))
    for match in _NUMBERED.finditer(letters):
        matches.extend(_numbered_name(text, *items[match.start() : match.end()]))
    matches.extend(_titles(text, items))
    # One concept per span: a name rather than a phrase.
    spans = {(concept.start, concept.end): concept for concept in sorted(matches, key=lambda concept: concept.type)}
    return sorted(spans.values(), key=lambda concept: (concept.start, -concept.end))


def _decided(text: str, items: list[Morpheme]) -> list[Morpheme]:
    """Return the morphemes, those that no dictionary has as nouns where they come twice, else as no noun: guesses of a cut."""
    counts = Counter(text[item.start : item.end] for item in items if item.letter == "U")
    if not counts:
        return items
    return [
        item
        if item.letter != "U"
        else item._replace(letter="N" if counts[text[item.start : item.end]] > 1 else "x", trait="u")
        for item in items
    ]


def _joined_names(text: str, items: list[Morpheme]) -> list[Morpheme]:
    """Return the morphemes, the parts of a foreign name as one: 乔治·华盛顿, ヨシフ・スターリン."""
    joined: list[Morpheme] = []
    place = 0
    while place < len(items):
        parts = [items[place]]
        after = place + 1
        while after + 1 < len(items) and _joins(text, parts[-1], items[after], items[after + 1]):
            parts.append(items[after + 1])
            after += 2
        letters = {part.letter for part in parts}
        # カナダ・アメリカ are two; a name has a part that the dictionary does not have, or an initial, or begins like a person's.
        is_name = text[parts[0].end : parts[0].end + 1] != "・" or (
            "P" in letters and (letters != {"P"} or parts[0].trait == "p")
        )
        if len(parts) > 1 and is_name and not _is_beginning_of_title(text, parts[0].start, parts[-1].end):
            joined.append(Morpheme(parts[0].start, parts[-1].end, "P", 2))
            place = after
        else:
            joined.append(items[place])
            place += 1
    return joined


def _is_beginning_of_title(text: str, start: int, end: int) -> bool:
    """Whether a title in brackets goes on: 《淮南子·人间训》."""
    return text[start - 1 : start] in ("《", "〈") and text[end : end + 1] not in ("》", "〉")


def _joins(text: str, before: Morpheme, mark: Morpheme, after: Morpheme) -> bool:
    if before.end != mark.start or mark.end != after.start or text[mark.start : mark.end] not in _JOINTS:
        return False
    if text[mark.start] == "・":
        return all(_KATAKANA_OR_INITIAL.fullmatch(text, part.start, part.end) for part in (before, after))
    return all(
        part.letter in "PNULx" and part.end - part.start <= _LONGEST_PART and text[part.start].isalpha()
        for part in (before, after)
    )


def _latin(text: str, start: int, end: int, embedded: bool) -> Iterator[Morpheme]:
    """Yield the words of a Latin stretch; a plain word is a term only where `embedded`, not in a line of its own."""
    for word in _LATIN_WORD.finditer(text, start, end):
        name = word.group()
        first, blank, rest = name.partition(" ")
        begin = word.start()
        if blank and ENGLISH_FUNCTION_WORDS.get(first.lower(), "N") != "N":
            # "In KiCad".
            name, begin = rest, begin + len(first) + 1
        lower = name.lower()
        if name[0].isdecimal():
            letter = "L" if "-" in name else "D"
        elif text[begin - 1 : begin].isdecimal() or (
            "-" in name and english_names.is_adjective(name.rpartition("-")[2])
        ):
            # 10ml 食用油, OpenAI-Compatible 的请求.
            letter = "x"
        elif not name[0].isalpha() or not 1 < len(name) <= _LONGEST_NAME or lower in ENGLISH_FUNCTION_WORDS:
            letter = "x"
        elif name[0].isupper() or _IDENTIFIER.search(name):
            letter = "x" if _is_unit_or_version(lower) or is_placeholder(name) else "L"
        else:
            letter = "l" if embedded and not is_placeholder(name) else "x"
        yield Morpheme(begin, word.end(), letter, 1, "l" if letter == "l" and name.isalpha() else "")


def _is_unit_or_version(word: str) -> bool:
    return word in ENGLISH_UNITS or word in MEASURES or _VERSION.fullmatch(word) is not None


def _numbered_name(text: str, name: Morpheme, number: Morpheme) -> Iterator[Concept]:
    is_short = number.end - number.start < 4 or "." in text[number.start : number.end]
    # Not "東京2020年", where the number counts something.
    # "Version 4.4.1" is a heading.
    is_common = _PLAIN_LATIN.fullmatch(text, name.start, name.end) and english_names.is_common(
        text[name.start : name.end]
    )
    if (
        is_short
        and not is_common
        and text[name.end : number.start] in ("", " ", "\u3000")
        and not _COUNTED.match(text, number.end)
    ):
        yield _concept(text, name, number, "NAME")


def _titles(text: str, items: list[Morpheme]) -> Iterator[Concept]:
    for match in _TITLE.finditer(text):
        start, end = match.span(match.lastindex or 0)
        if text[start:end].strip():
            yield Concept(" ".join(text[start:end].split()), start, end, "NAME")
    starts = {item.start: place for place, item in enumerate(items)}
    for match in _QUOTED.finditer(text):
        start, end = match.start() + 1, match.end() - 1
        place = starts.get(start, len(items))
        stop = next((index for index in range(place, len(items)) if items[index].end > end), len(items))
        inner = items[place:stop]
        # 「増加」 is a word that is spoken of.
        is_word = len(inner) == 1 and inner[0].letter in "JVv" and inner[0].units == 1
        if english_names.says_what_to_do(text[start:end].split()):
            continue
        if inner and inner[-1].end == end and not is_word and all(item.letter in "aJNPLVvcse" for item in inner):
            yield _concept(text, inner[0], inner[-1], "NAME")


def _compound(text: str, part: list[Morpheme], is_cut: bool) -> Iterator[Concept]:
    if len(part) > _LONGEST_PHRASE:
        # Not a phrase but a clause without particles, as in tables and heads.
        return
    while part and part[0].letter in "se":
        part = part[1:]
    letters = "".join(item.letter for item in part)
    if amount := _AMOUNT.search(letters):
        part, letters = part[: amount.start()], letters[: amount.start()]
    if letters.startswith("v") and (letters[1:2] in ("P", "L", "a", "D") or len(part) > _LONGEST_WITH_VERB):
        # "利用实体间的关系": a verb and its object; 检索策略 is a noun.
        part, letters = part[1:], letters[1:]
    elif letters.startswith(("VP", "VL")):
        part, letters = part[1:], letters[1:]
    if letters in ("Pv", "PV", "Lv", "LV", "lv", "lV") and (
        _is_cjk(text[part[0].start]) or part[0].end < part[1].start
    ):
        # 黄品源主演: what somebody does.
        part, letters = part[:1], letters[0]
    while len(part) > 1 and text[part[0].start : part[0].end] in (CJK_KIN if part[1].letter == "P" else CJK_MODIFIERS):
        part, letters = part[1:], letters[1:]
    number = _NUMBERING.match(letters)
    if number and text[part[number.end()].start : part[number.end()].end] in CJK_NUMBERINGS:
        # 6章ネットワークアプリケーション, 第3節概要設計.
        part, letters = part[number.end() + 1 :], letters[number.end() + 1 :]
    while part and (part[-1].letter == "D" or (len(part) > 1 and text[part[-1].start : part[-1].end] in CJK_TAILS)):
        part = part[:-1]
    if len(part) > 1 and part[-1].letter == "N" and _VERB_AND_NUMBER.match(text, part[-1].start):
        # 责任人员处五万元罚款.
        part = part[:-1]
    is_led = len(part) > 1 and text[part[0].start - 1 : part[0].start] in _BEFORE_AGENT
    if is_led and text[part[-1].start : part[-1].end] in CHINESE_AFTER_AGENT:
        # 向海事管理机构报告.
        part = part[:-1]
    if not part or _says_nothing(text, part):
        return
    last = part[-1]
    if len(part) > 1 and last.letter == "s" and text[last.start : last.end] in CJK_ADVERBIAL:
        # 事実上, 多層的: how something is.
        return
    # 金閣寺 and 東京大学附属病院 are names; 附属病院 is not.
    is_name = last.letter == "e" and (last.end - last.start == 1 or part[0].letter == "P")
    if len(part) > 1 and not (is_name and len(part) == 2):
        for item in part:
            is_name_within = item.letter in "PL" and item.end - item.start > 1 and not _is_within_word(text, item)
            if is_name_within and not _HOW_MANY.fullmatch(text, item.start, item.end):
                yield _concept(text, item, item, "NAME", is_weak=item.trait == "g")
    if not 1 < part[-1].end - part[0].start <= _LONGEST_NAME:
        return
    if _is_within_word(text, Morpheme(part[0].start, last.end, "N", 1)):
        return
    if _is_act_alone(text, part):
        return
    units = sum(item.units for item in part if item.letter not in "asDc")
    if units > 1 or len(part) > 2 or (len(part) == 1 and part[0].letter in "PLl"):
        kind = "NAME" if is_name or last.letter in "PLl" else "CONCEPT"
        # "systemctl reload exim4": a command.
        is_latin = len(part) > 1 and part[0].letter in "lL" and not _CJK_CHARACTER.search(text, part[0].start, last.end)
        if is_latin and english_names.says_what_to_do(text[part[0].start : last.end].split()):
            return
        is_weak = (
            (is_latin and text[part[0].start].islower())
            or _is_weak(part, kind)
            or (is_cut and len(part) > 1)
            or _DATE.search(text, part[0].start, part[-1].end)
        )
        yield _concept(text, part[0], part[-1], kind, is_weak=bool(is_weak))


# 設置黑水府: a clause; 宿敵烏拉圭隊: what something is, and its name. A number counts what follows: 6世紀商人.
_CLAUSE = re.compile(r"v|V[aJNs]*[PL]|NP|D")
_DATE = re.compile("[一二三四五六七八九十百〇元\\d](?:年代?|世[紀纪]|[月日])$")
_LONGEST_TERM = 3


def _is_weak(part: list[Morpheme], kind: str) -> bool:
    """Whether a compound describes (重要人物), is a clause (本放送開始) or of guesses, rather than names a thing."""
    if len(part) == 1:
        return part[0].trait in ("g", "l")
    words = [item for item in part if item.letter not in "asce"]
    letters = "".join(item.letter for item in part)
    if kind == "NAME" and letters[-1] == "e":
        return False
    first, last = part[0], part[-1]
    return (
        len(words) > _LONGEST_TERM
        or _CLAUSE.search(letters) is not None
        or any(item.trait == "g" for item in part)
        or first.trait in ("q", "e")
        or last.trait in ("q", "e")
        or (last.trait == "a" and (first.letter in "Ll" or sum(item.units for item in words) > 2))
        or (last.letter == "v" and first is not last)
        # 选择网络镜像; 加密算法 is a thing.
        or (first.letter == "V" and len(words) > 2)
        # 仔细阅读.
        or (first.letter == "J" and last.letter in "Vv" and len(words) == 2)
        or all(item.trait in ("f", "a") or item.letter in "asce" for item in part)
        or (first.letter == "N" and first.end - first.start == 1)
    )


def _is_act_alone(text: str, part: list[Morpheme]) -> bool:
    """Whether a compound is an action without its object (再評価, 無効化), or a manner (事実上)."""
    words = [item for item in part if item.letter not in "as"]
    if len(words) != 1 or words[0].letter not in "NJVv":
        return False
    name = text[part[0].start : part[-1].end]
    return _ACT.fullmatch(name) is not None or (len(part) > 1 and words[0].trait == "a" and words[0].units == 1)


def _is_cjk(character: str) -> bool:
    return _CJK_CHARACTER.match(character) is not None


def _is_within_word(text: str, item: Morpheme) -> bool:
    """Whether an edge of a morpheme cuts a word of katakana: アムス of アムステルダム."""
    return any(
        _KATAKANA_PAIR.fullmatch(text, edge - 1, edge + 1) is not None for edge in (item.start, item.end) if edge > 0
    )


def _says_nothing(text: str, part: list[Morpheme]) -> bool:
    """Whether a compound only says how many (十人) or how (具体的), is a bare quality (複雑性), or consists of words that fit
    everywhere.
    """
    if _HOW_MANY.fullmatch(text, part[0].start, part[-1].end):
        return True
    end = text[part[-1].end - 1 : part[-1].end]
    if end == "的" and _is_cjk(text[part[-1].start]):
        return True
    if (
        end in "性度"
        and len(part) <= 2
        and part[-1].end - part[0].start <= _LONGEST_QUALITY
        and part[0].letter in "NPVvJs"
    ):
        return True
    whole = text[part[0].start : part[-1].end]
    return whole in CJK_GENERIC or all(text[item.start : item.end] in CJK_GENERIC for item in part)


def _concept(text: str, first: Morpheme, last: Morpheme, kind: str, *, is_weak: bool = False) -> Concept:
    name = " ".join(text[first.start : last.end].split())
    needed = REPEATED if is_weak else 1
    if first is last and first.letter == "L" and (_PLAIN_LATIN.fullmatch(name) or _PIECE_OF_CODE.fullmatch(name)):
        # "Image" of a menu in English.
        needed = english_names.needed_for_name(name.split())
    if first is last and first.letter in "Ll":
        needed = max(needed, english_names.needed_for_word_amid_other_script(name))
    return Concept(name, first.start, last.end, kind, needed)
