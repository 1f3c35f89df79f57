"""What a name is: a person, an organization, a place, a date, a product, a work, an event.

By the form of the name and by what stands beside it, in one document. A name of which a document says two things is a NAME.
Types are those of a model's extraction (server/corpus/options.py). What is not sure is left a NAME.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from pg_graphrag.text.concept import Concept, key
from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.letters import modern, simplified
from pg_graphrag.text.naming.full_names import is_person_like
from pg_graphrag.text.words.stopwords import ENGLISH_OCCUPATIONS, ENGLISH_TITLES

PERSON, ORGANIZATION, LOCATION = "PERSON", "ORGANIZATION", "LOCATION"
EVENT, PRODUCT, WORK, TIME = "EVENT", "PRODUCT", "WORK", "TIME"

_CJK = re.compile(f"[{HAN}{KANA}]")
# The last word or the first words of a name that say what it is.
_FORMS = (
    (
        ORGANIZATION,
        re.compile(
            r".+\b(?:Inc|Ltd|LLC|Corp|Corporation|Company|GmbH|mbH|e\.\s?V|plc|PLC|LLP|University|College|Institute|Association"
            r"|Foundation|Committee|Commission|Council|Ministry|Agency|Society|Federation|Airlines|Airways|Records|Orchestra"
            r"|Museum|Academy|Brewery|Bank|Hospital|Library|Party|F\.?C|Universität|Hochschule|Gesellschaft|Verband|Verein|Stiftung"
            r"|Ministerium|Bundesamt)\.?$"
            r"|(?:University|College|Institute|Ministry|Department|Bank|Museum|Academy|Bundesamt|Bundesministerium|Universität"
            r"|Hochschule|Technische Universität) (?:of|für|der|des|zu|[A-ZÄÖÜ]).+"
        ),
    ),
    (
        LOCATION,
        re.compile(
            r"(?!.*\bof the\b).+\b(?:River|Lake|Island|Islands|Mountains?|Peninsula|Ocean|Sea|County|Township|Province|Valley|Bay"
            r"|Street|Avenue|Boulevard|Road|District|Airport|Strait|Desert|Beach|Canal)$"
            r"|(?:Lake|Mount|Cape|Kingdom of|Republic of|Province of|Isle of|Gulf of|Strait of|Bay of) [A-Z].+"
            r"|.{3,}(?:straße|strasse|allee)"
        ),
    ),
    (
        EVENT,
        re.compile(
            r"(?:Battle|Siege|Treaty) of .+|(?!.*\bof the\b).+\b(?:Festival|Championships?|Olympics|Olympic Games|World Cup"
            r"|Civil War|World War(?: I{1,2})?|Revolution)$"
        ),
    ),
    (TIME, re.compile(r"\d{1,2}(?:st|nd|rd|th) [Cc]entury|\d{4}s")),
    (PRODUCT, re.compile(r"[A-Za-z][\w/+-]*(?: [A-Z][\w/+-]*)? \d{1,2}(?:\.\d+)+")),
)
_CJK_FORMS = (
    (
        ORGANIZATION,
        re.compile(
            ".{2,}(?:公司|集团|集團|大学|大學|银行|銀行|委员会|委員會|委員会|协会|協會|協会|学院|學院|研究所|研究院|出版社"
            "|政府|法院|医院|醫院|病院|中学|中學|小学|小學|学校|學校|俱乐部|俱樂部|乐团|樂團|株式会社|株式會社|学会|新聞社|新闻社"
            "|通信社|电视台|電視台|放送|連盟|联盟|聯盟|機構|财团|財団|财团法人|航空|[国國]会|[国國]會|警察局|民主党|共产党|共産党"
            "|共產黨|国民党|國民黨|社会党|自民党|公明党)$|株式会社.+"
        ),
    ),
    (
        LOCATION,
        re.compile(
            ".{1,}(?:[^業学務働通境林備]省|自治区|自治州|[^都城超]市|县|縣|県|半島|半岛|群島|群岛|諸島|海峡|海峽|[^冰]川|空港|机场|機場|盆地|平原|高原)$"
        ),
    ),
    (EVENT, re.compile(".{2,}(?:战争|戰爭|戦争|戰役|战役|起义|起義|革命|奥运会|奧運會|五輪|世界杯|锦标赛|錦標賽)$")),
    (
        TIME,
        re.compile(
            "(?:[\\d一二三四五六七八九十百]+世[纪紀]|[\\d一二三四五六七八九十〇]+年代?|.{2}[一二三四五六七八九十元]+年)$"
        ),
    ),
)
# Occupations and titles after which a name is not always a person's: "model 726", "General Electric".
_UNSURE = frozenset(
    "conservative critic dear fellow former friend father general host minister model mother nominee officer "
    "unionist winner".split()
)
_OCCUPATION = "|".join(sorted(ENGLISH_OCCUPATIONS - _UNSURE))
_TITLE = "|".join(sorted(ENGLISH_TITLES - _UNSURE))
# "Mr. Stone", "guitarist Stone Gossard".
_BEFORE_PERSON = re.compile(
    rf"\b(?:(?:Mr|Mrs|Ms|Dr|Prof)\.?|Herrn?|Frau|Sir|{_OCCUPATION}|{_TITLE})\s$",
    re.IGNORECASE,
)
_DAY = r"(?:[A-Za-zä]+\.? )?(?:\d{1,2}\.? )?(?:[A-Za-zä]+\.? )?(?:\d{1,2}, )?"
# "(1844 – 1929)", "(born 26 October 1956)", "(* 1950", ", an American singer".
_AFTER_PERSON = re.compile(
    rf"\s?[(（](?:[^()（）]{{0,60}}[;,，、] ?)?(?:born|geboren|\*|né|née|{_DAY}1\d{{3}}\s?[–—-]\s?{_DAY}[12]\d{{3}}\))"
    rf"|(?:\s?\([^()]{{1,80}}\))?,? (?:is|was) (?:an?|the) (?:[\w-]+ ){{0,5}}?(?:{_OCCUPATION})\b"
)
_AFTER_PLACE = re.compile(
    r"(?:\s?\([^()]{1,80}\))?,? (?:is|was) (?:an? )(?:[\w-]+ ){0,3}?(?:city|town|village|municipality|hamlet|river|lake|island"
    r"|mountain|commune|settlement|suburb|neighbou?rhood|census-designated place|county|district)\b"
)
_AFTER_ORGANIZATION = re.compile(
    r"(?:\s?\([^()]{1,80}\))?,? (?:is|was) (?:an? )(?:[\w-]+ ){0,4}?(?:company|corporation|university|airline|political party"
    r"|record label|non-profit organi[sz]ation|publisher|bank|football club)\b"
)
_AFTER_WORK = re.compile(
    r"(?:\s?\([^()]{1,80}\))?,? (?:is|was) (?:an? )(?:[\w-]+ ){0,4}?(?:film|movie|novel|album|song|single|sitcom"
    r"|television series|magazine|newspaper|video game|opera|play)\b"
    r"(?! (?:actor|actress|director|festival|producer|studio|company|player|label))"
)
_AFTER = ((PERSON, _AFTER_PERSON), (LOCATION, _AFTER_PLACE), (ORGANIZATION, _AFTER_ORGANIZATION), (WORK, _AFTER_WORK))
# Anna B. Stone, J. R. R. Tolkien.
_WITH_INITIAL = re.compile(
    r"(?!U\. ?[SK]|E\. ?U|D\. ?C)"
    r"(?:[A-Z][\w'’-]+ (?:[A-Z]\. ){1,2}[A-Z][\w'’-]+|(?:[A-Z]\. ?){1,3}[A-Z][a-z][\w'’-]+)"
)
_AFTER_CJK_PERSON = re.compile(
    "(?:氏|さん|先生|監督|選手|首相|大統領|教授|博士|女士|总统|總統|主席|陛下|夫人)"
    "|[（(][^（）()]{0,30}?[12]\\d{3}年[^（）()]{0,20}?[-–—~～－](?!.{0,6}年間)"
)
# 『』 quote words that are spoken of, too.
_WORK_MARKS = "《》"
_FOREIGN_PERSON = re.compile(f"[{HAN}]{{1,6}}(?:·[{HAN}A-Z]{{1,6}}){{1,3}}")
_NO_PERSON_END = re.compile("[省市县州岛山河湖海国语区宫奖赛苑]$")
_LONGEST_PERSON = 20
_BEFORE_PLACE = re.compile(
    "(?:[位在]于|[位在]於|[^存现現正自好所]在|前往|[來来]自|[飞飛]往|抵[达達]|[來来到]到|[赴往于於])$"
)
_BESIDE_PLACE = re.compile(
    "[省市县縣州]|人(?!工)|政府|地区|地區|境[内內]|[举舉]行|出生|首都|[东西南北東]部|[总總][统統]|[国國]家"
)
# The least share of characters that names of other languages are written with.
_LEAST_SOUNDS = 0.7
_JAPANESE_PERSON = re.compile("[\u4e00-\u9fff々〆ヶ]{3,6}")


def entity_types(
    concepts_by_chunk: Sequence[Sequence[Concept]],
    proses: Sequence[str],
    languages: Collection[str],
    persons: Iterable[str] = (),
) -> dict[str, str]:
    """Return {key of a name: its type} for a document, of names about which nothing else is said.

    Parameters
    ----------
    concepts_by_chunk : sequence of sequences of Concept
        As they stand in the prose of each chunk.
    persons : iterable of str
        Names that are persons', by what else is known.
    """
    votes: dict[str, Counter[str]] = {key(name): Counter({PERSON: 1}) for name in persons}
    by_form: dict[str, str] = {}
    for named, prose in zip(concepts_by_chunk, proses, strict=True):
        # 苏黎世大学 begins with a name; 教学医院 says of what kind something is.
        begin_names = {concept.start for concept in named if concept.type == "NAME"}
        for concept in named:
            if concept.start not in begin_names:
                continue
            entity_key = key(concept.name)
            if entity_key not in by_form:
                by_form[entity_key] = _by_form(concept, languages)
            kind = by_form[entity_key] or (_beside(concept, prose, languages) if concept.type == "NAME" else "")
            if kind:
                votes.setdefault(entity_key, Counter())[kind] += 1
    return {entity_key: next(iter(kinds)) for entity_key, kinds in votes.items() if len(kinds) == 1}


def _by_form(concept: Concept, languages: Collection[str]) -> str:
    """Return what a name is by its form alone, in a text of these languages; else ""."""
    name = concept.name
    if not _CJK.search(name):
        if concept.type != "NAME":
            return ""
        kind = next((kind for kind, form in _FORMS if form.fullmatch(name)), "")
        return kind or (PERSON if _WITH_INITIAL.fullmatch(name) and is_person_like(name) else "")
    if kind := next((kind for kind, form in _CJK_FORMS if form.fullmatch(name)), ""):
        # 人事委員会, 平和革命 say of what kind something is.
        is_own = kind not in (ORGANIZATION, EVENT) or "ja" not in languages or _begins_with_japanese(modern(name))
        return kind if is_own else ""
    if concept.type != "NAME":
        return ""
    if "zh" in languages:
        return _chinese(simplified(name))
    return _japanese(modern(name)) if "ja" in languages else ""


# Sessions without such documents save the imports of their languages.
def _begins_with_japanese(name: str) -> bool:
    from pg_graphrag.text.words import japanese

    return japanese.begins_with_name(name)


def _chinese(name: str) -> str:
    from pg_graphrag.text.words import chinese

    if _FOREIGN_PERSON.fullmatch(name) and not _NO_PERSON_END.search(name):
        return PERSON if chinese.share_of_sounds(name) >= _LEAST_SOUNDS else ""
    return ""


def _is_chinese_place(name: str) -> bool:
    from pg_graphrag.text.words import chinese

    return chinese.is_name_of_place(name)


def _japanese(name: str) -> str:
    from pg_graphrag.text.words import japanese

    if _JAPANESE_PERSON.fullmatch(name) and japanese.family_name(name):
        return PERSON
    return LOCATION if japanese.is_name_of_place(name) else ""


def _beside(concept: Concept, prose: str, languages: Collection[str]) -> str:
    """Return what a name is by what stands beside it; else ""."""
    start, end = concept.start, concept.end
    if prose[start - 1 : start] + prose[end : end + 1] == _WORK_MARKS:
        return WORK
    if _CJK.search(concept.name):
        if _AFTER_CJK_PERSON.match(prose, end):
            return PERSON if 1 < len(concept.name) < _LONGEST_PERSON else ""
        # jieba's dictionary has 蓝牙 and 墨水 as places, too.
        is_placed = _BEFORE_PLACE.search(prose, max(0, start - 3), start) or _BESIDE_PLACE.match(prose, end)
        is_place = "zh" in languages and is_placed and _is_chinese_place(simplified(concept.name))
        return LOCATION if is_place else ""
    name = prose[start:end]
    if is_person_like(concept.name) and _BEFORE_PERSON.search(prose, max(0, start - 24), start):
        return PERSON
    if " ".join(name.split()) != concept.name:
        return ""
    for kind, pattern in _AFTER:
        if pattern.match(prose, end) and (kind != PERSON or " " in concept.name):
            return kind
    return ""
