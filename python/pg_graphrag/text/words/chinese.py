"""Chinese words, search terms and noun phrases, by jieba."""

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

from pg_graphrag.text.concept import Concept
from pg_graphrag.text.letters import simplified
from pg_graphrag.text.words import compounds
from pg_graphrag.text.words.chinese_dictionary import chinese_dictionary
from pg_graphrag.text.words.compounds import Morpheme
from pg_graphrag.text.words.stopwords import CHINESE_HEADS, CHINESE_STOP_WORDS, CHINESE_SURNAMES, CJK_GENERIC

# jieba's parts of speech (ICTCLAS) to the classes of compounds.py; those in n are nouns, some of them names.
_LETTERS = {"a": "J", "b": "J", "an": "N", "vn": "V", "g": "N", "j": "N", "l": "N", "h": "a", "k": "s", "m": "D"}
# What a word is in text where jieba's dictionary takes it for a name or a noun; the classes of chinese_words.txt.
_CORRECTED = {"noun": "N", "modifier": "J", "verb": "x", "action": "v", "other": "x"}
# No word that is not in the dictionary has one of these: jieba guessed across two words (阿根廷而屆, 縣治自佳里興).
_GRAMMAR = re.compile(
    "[之而以于为其所者也皆亦则乃且与及至自由从向被将会能仍未不无有是在了著着过把使令让给并就都才又再更最"
    "很此该这那何每各某曾已遭均共任经指称即若]"
)
# Characters that names of other languages are written with, those left out that are words as often.
_SOUNDS = re.compile(
    "[阿埃艾奥巴班鲍贝彼宾波伯勃博布查达戴丹德登蒂迪顿恩尔凡菲费芬弗夫福盖冈戈格哈赫亨胡霍吉加贾杰卡凯坎"
    "柯科克肯库奎拉莱兰朗劳勒雷里莉丽琳卢鲁伦罗洛玛迈曼梅蒙米密缪莫默穆纳娜尼涅诺帕潘庞佩彭皮普奇契恰乔丘"
    "萨塞桑瑟森莎舍施史什士斯司苏索塔泰坦汤唐特托瓦旺威韦维沃乌希谢辛休雅亚扬耶伊尤泽扎詹兹茨娅妮丝莲薇芙"
    "蕾黛翰逊廷西瑞哥摩马]+"
)
# A word of more characters is a saying.
_LONGEST_PHRASE = 7
# Single characters that are words seldom.
_LAST_SOUNDS = "斯尔克茨姆兹"
_LONGEST_FOREIGN = 12
# What clauses begin with; and verbs with which names of things begin as often: 操作系统.
_BEGINS_CLAUSE = frozenset(
    "为什么 如何 怎样 怎么 什么 什么是 谁 在 从 用 使用 给 把 让 对 为 由 当 若 如果 不要 关于".split()
)
_NOUNS_TOO = frozenset(
    "操作 运行 管理 控制 服务 设计 开发 研究 教育 旅行 通信 生产 保护 分析 编辑 支持 投资 交易 存储".split()
)
# A name of so few characters may be a piece of one: 维尔.
_SHORT_FOREIGN = 3
# The share of all words from which one is frequent: one in 160,000.
_FREQUENT = 1 / 160_000
# Words that point at something: 本公司, 该系统.
_DEICTIC, _SHORTEST_DEICTIC = "本该此", 3
_PIECE = 500
_SURE_PLACE = 50
_NAMES = ("nr", "ns", "nt", "nz")


@lru_cache(maxsize=1)
def _corrections() -> dict[str, str]:
    """Return the class of words that jieba's dictionary takes for something else."""
    lines = files("pg_graphrag.text.words").joinpath("chinese_words.txt").read_text(encoding="utf-8").splitlines()
    classes = (line.split() for line in lines if not line.startswith("#"))
    return {word: _CORRECTED[name] for name, *words in classes for word in words}


@lru_cache(maxsize=50_000)
def terms(run: str) -> tuple[str, ...]:
    """Return the search terms of a run of Han, simplified: words, and the words inside long words beside them."""
    simple = simplified(run)
    dictionary = chinese_dictionary()
    dictionary.read(simple)
    return tuple(
        word
        for piece in _pieces(simple)
        for word in dictionary.tokenizer.cut_for_search(piece)
        if word not in CHINESE_STOP_WORDS
    )


def cut(run: str) -> Iterator[str]:
    """Yield the words of a run of simplified Han, one after the other."""
    dictionary = chinese_dictionary()
    dictionary.read(run)
    for piece in _pieces(run):
        yield from dictionary.tokenizer.cut(piece)


def _pieces(run: str) -> Iterator[str]:
    """Yield stretches of a run: jieba takes time quadratic in the length of text that is not in its dictionary."""
    return (run[start : start + _PIECE] for start in range(0, len(run), _PIECE))


def concepts(text: str) -> list[Concept]:
    """Return names and compound nouns of `text` in order of appearance."""
    return compounds.concepts(text, _analyse)


@lru_cache(maxsize=50_000)
def _analyse(run: str) -> tuple[Morpheme, ...]:
    morphemes: list[Morpheme] = []
    simple = simplified(run)
    start = 0
    for word in cut(simple):
        # A word of four characters is a compound of two words.
        letter = _letter(word)
        before = morphemes[-1] if morphemes else None
        if (
            before is not None
            and letter == "U"
            and len(word) <= 2
            and before.end - before.start == 1
            and simple[before.start] in CHINESE_SURNAMES
        ):
            # 任 正非: the family name is a word of its own in the dictionary.
            morphemes[-1] = Morpheme(before.start, start + len(word), "P", 2)
        else:
            units = 2 if len(word) > 3 else 1
            place = start
            for part in _parts(word, letter):
                part_letter, part_units = (
                    (letter, units) if part == word else (_letter(part), 2 if len(part) > 3 else 1)
                )
                trait = "g" if part == word and _has_verb(word, letter) else _trait(part, part_letter)
                morphemes.append(Morpheme(place, place + len(part), part_letter, part_units, trait))
                place += len(part)
        start += len(word)
    return tuple(_whole_names(simple, _foreign_names(simple, morphemes)))


def _speeches(text: str) -> dict[str, str]:
    """Return the part of speech of every word that can stand in a text."""
    chinese_dictionary().read(text)
    return chinese_dictionary().speeches


@lru_cache(maxsize=50_000)
def _parts(word: str, letter: str) -> tuple[str, ...]:
    """Return the words of a clause that jieba's dictionary has as one word: 仔细 阅读, 检查 一下; else the word."""
    if letter == "N" and word[0] in _DEICTIC and len(word) > _SHORTEST_DEICTIC and word[1:] in _speeches(word):
        # 本行政区域.
        return word[:1], word[1:]
    if not _may_be_phrase(word, letter):
        return (word,)
    for parts in _cuts(word):
        # Nouns and verbs alone are a compound.
        is_clause = any(
            part in CHINESE_HEADS or (_letter(part) in "xD" and _speeches(part)[part][0] != "v") for part in parts
        )
        return parts if is_clause else (word,)
    first, middle, last = word[:2], word[2:3], word[3:]
    is_clause = all(part in _speeches(word) for part in (first, middle, last)) and _letter(middle) == "x"
    return (first, middle, last) if is_clause else (word,)


def _may_be_phrase(word: str, letter: str) -> bool:
    # The dictionary has 国家有关 as a place.
    is_name = _speeches(word).get(word, "ns")[:2] in ("ns", "nt", "nr") and word[-2:] not in CHINESE_HEADS
    return letter in "NPJ" and 3 < len(word) < _LONGEST_PHRASE and not is_name


def _cuts(word: str) -> Iterator[tuple[str, str]]:
    """Yield the two words of the dictionary that a word may be made of."""
    for place in dict.fromkeys((2, len(word) - 2)):
        if word[:place] in _speeches(word) and word[place:] in _speeches(word):
            yield word[:place], word[place:]


def _has_verb(word: str, letter: str) -> bool:
    """Whether a word of the dictionary may be a clause: 关闭系统, 学期开始."""
    return _may_be_phrase(word, letter) and any(
        _speeches(part)[part] in ("v", "vn", "vd") for parts in _cuts(word) for part in parts
    )


def _whole_names(run: str, morphemes: Iterator[Morpheme]) -> Iterator[Morpheme]:
    """Yield the morphemes, a name and the sound that ends it as one: 佛罗伦 斯."""
    name: Morpheme | None = None
    for morpheme in morphemes:
        if name is not None:
            is_last = morpheme.end - morpheme.start == 1 and run[morpheme.start] in _LAST_SOUNDS
            if is_last and _SOUNDS.fullmatch(run, name.end - 1, name.end):
                yield name._replace(end=morpheme.end)
                name = None
                continue
            yield name
        name = morpheme if morpheme.letter == "P" and morpheme.end - morpheme.start > 1 else None
        if name is None:
            yield morpheme
    if name is not None:
        yield name


def _foreign_names(run: str, morphemes: list[Morpheme]) -> Iterator[Morpheme]:
    """Yield the morphemes, those of a name that is written by its sounds as one: 佛罗伦 斯, 梅塔 萨克斯."""
    place = 0
    while place < len(morphemes):
        end = place
        while end < len(morphemes) and _SOUNDS.fullmatch(run, morphemes[end].start, morphemes[end].end):
            end += 1
        parts = morphemes[place:end]
        length = parts[-1].end - parts[0].start if parts else 0
        # Words of the dictionary keep their classes side by side.
        speeches = chinese_dictionary().speeches
        unknown = any(part.end - part.start == 1 or run[part.start : part.end] not in speeches for part in parts)
        if len(parts) > 1 and 2 < length <= _LONGEST_FOREIGN and unknown:
            yield Morpheme(parts[0].start, parts[-1].end, "P", 2, "g" if length <= _SHORT_FOREIGN else "")
            place = end
        else:
            yield morphemes[place]
            place += 1


@lru_cache(maxsize=1)
def _generic() -> frozenset[str]:
    """Return the words that fit everywhere as this module has them: 開始 is 开始."""
    return CJK_GENERIC | {simplified(word) for word in CJK_GENERIC}


def says_what_happens(title: str) -> bool:
    """Whether a title begins with what to do, or asks: 引导安装程序, 为什么放弃, 在硬盘上安装."""
    start = simplified(title[:_PIECE])
    speeches = _speeches(start)
    first = next(iter(chinese_dictionary().tokenizer.cut(start)), "")
    if first in _BEGINS_CLAUSE or title.endswith(("吗", "呢", "嗎")):
        return True
    return len(title) > len(first) and first not in _NOUNS_TOO and speeches.get(first, "") in ("v", "vd")


def is_word(name: str) -> bool:
    """Whether the dictionary has a name as something else than a person's: as a place's or as a common word."""
    simple = simplified(name)
    dictionary = chinese_dictionary()
    dictionary.read(simple[:1])
    return not dictionary.speeches.get(simple, "nr").startswith("nr")


def _trait(word: str, letter: str) -> str:
    """Return what makes a name or a compound of a word weak (compounds.Morpheme)."""
    dictionary = chinese_dictionary()
    speech = dictionary.speeches.get(word, "")
    if letter == "P":
        # Names of persons have three characters; of two, many are words that the dictionary has as names.
        is_person = len(word) > 2 and word[0] in CHINESE_SURNAMES
        return "" if speech.startswith(("ns", "nt")) or is_person or len(word) > _SHORT_FOREIGN else "g"
    if word in _generic():
        return "e"
    if letter in "Vv":
        return "a"
    # 重要 is a quality (a), 国有 a kind (b); 敲骨吸髓 a saying.
    if speech.startswith("a") or speech in ("l", "i"):
        return "q"
    return "f" if dictionary.frequencies.get(word, 0) >= _FREQUENT * dictionary.total else ""


def _letter(word: str) -> str:
    if word in CHINESE_HEADS or word in CHINESE_STOP_WORDS:
        return "x"
    if corrected := _corrections().get(word):
        return corrected
    speech = chinese_dictionary().speeches.get(word)
    if speech is None:
        # Found by the hidden Markov model: a person's name, or a word too new for the dictionary.
        is_person = len(word) in (2, 3) and word[0] in CHINESE_SURNAMES
        if _GRAMMAR.search(word, 1 if is_person else 0):
            return "x"
        if is_person:
            return "P"
        return "U" if 1 < len(word) < 6 else "x"
    if len(word) > 2 and speech in ("nr", "l") and _GRAMMAR.search(word, 1 if word[0] in CHINESE_SURNAMES else 0):
        # A clause that the dictionary has: 合而为一, and guesses in it: 诸臣皆.
        return "x"
    if speech.startswith(_NAMES) and len(word) > 1:
        return "P"
    return _LETTERS.get(speech, "N" if speech.startswith("n") else "x")


def is_name_of_place(name: str) -> bool:
    """Whether the dictionary has a name as a place's, and texts use it often enough for that to be sure."""
    return (
        name not in _corrections()
        and _speeches(name).get(name, "").startswith("ns")
        and chinese_dictionary().frequencies.get(name, 0) >= _SURE_PLACE
    )


def parts_of_speech(name: str) -> Iterator[str]:
    """Yield the part of speech of each word of a name, "?" for one that is in no dictionary."""
    simple = simplified(name)
    speeches = _speeches(simple)
    return (speeches.get(word, "?")[:2] for word in chinese_dictionary().tokenizer.cut(simple))
