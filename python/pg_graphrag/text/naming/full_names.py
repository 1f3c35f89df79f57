"""What means one thing in a document: Stone and Bob Stone, the Kestrel engine and Kestrel, 徳田 and 徳田球一, a plural and its
singular, "he", who speaks.

A function of the concepts and the prose of one document, so that neither order nor other documents, hidden ones among them,
change it. What is likely but not sure is left to suggest_merges.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pg_graphrag.text.concept import PERSON, Concept, key
from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.words import english_words
from pg_graphrag.text.words.concepts import latin_language
from pg_graphrag.text.words.english_words import may_be_name
from pg_graphrag.text.words.stopwords import ENGLISH_NAME_PARTICLES

_PERSON = re.compile(r"(?:He|She)\s(?=\w)")
# "It burns methane", "It was written by …"; not "It was clear that", "It is in Osaka that", "It rained".
_THING = re.compile(
    r"(?P<it>It)\s(?:(?:first|also|later|then|now|still|currently|originally|usually|mainly)\s)?"
    r"(?:(?:was|is)\s(?:(?:also|first|later|originally|then|now|currently)\s)?"
    r"(?:an?\s(?!matter|shame|pity|fact|good|great|common|mistake|long|time)|the\s(?!case|fact|same|time|view|hope"
    r"|duty|job|task|first\stime|responsibility)|(?:named|located|situated|written|directed|produced|released|published|built"
    r"|founded|established|created|designed|developed|owned|operated|bordered|part|recorded|launched|opened|adopted|introduced"
    r"|formed|composed|maintained|included|used|performed|distributed|invented|based)\b(?!\sthat))"
    r"|(?:has|had|lies|stands|contains|includes|borders|flows|flew|burns|serves|served|features|stars|starred|won|covers"
    r"|covered|houses|housed|became|began|ended|consists|belongs|belonged|replaced|replaces|uses|used|provides|supports|runs"
    r"|ran|offers|joins|joined|opened|closed|aired|premiered|peaked|reached|received|sold|makes|made|operates|operated"
    r"|competes|competed|plays|played|produces|produced|publishes|published|holds|held)\s(?!been\s(?:said|argued|shown"
    r"|suggested|known|a\s)|sense|clear))"
)
_OBJECT = re.compile(r"\w (?:it|him|her) |\w (?:it|him|her)[.,;]")
_ARTICLE = re.compile(r"[Tt]he\s")
_HEAD = re.compile(
    r"The\s(?P<head>company|firm|corporation|startup|bank|band|group|film|movie|album|song|book|novel|game|team"
    r"|club|school|university"
    r"|college|museum|river|lake|mountain|island|city|town|village|engine|rocket|ship|aircraft|bridge|station"
    r"|airport|magazine|newspaper"
    r"|project|system|framework|library|tool|algorithm|protocol|language|festival|church|hospital|studio|network"
    r"|airline|railway)\s(?=\w)"
)
_CJK_HEAD = re.compile("同社|同大学|同校|同駅|同行|当社|该公司|該公司|该校|該校|该大学|該大學|该机构|該機構")
# What a name ends with to which such a word may refer.
_CJK_ENDS = {
    "社": "社|会社|公司|集团|集團",
    "校": "校|大学|大學|学校|學校|学院|學院|高校",
    "学": "大学",
    "學": "大學",
    "駅": "駅",
    "行": "銀行|银行",
}
_CJK_COMPANY = "公司|集团|集團|银行|銀行|株式会社|会社"
_CJK = re.compile(f"[{HAN}{KANA}]")
# Not a person: The first word, or the last, of many other names.
_NO_PERSON = re.compile(
    r"(?:The|United|New|North|South|East|West|Saint|St|Mount|Lake|River|University|College|School|House|World"
    r"|National|Royal|American|British)\b"
    r"|.*\b(?:University|College|School|Company|Inc|Corp|Corporation|Ltd|Group|County|City|River|Lake|Street|Road"
    r"|Park|Station|Airport|Party"
    r"|Church|Museum|Band|Records|League|Cup|Award|Awards|War|Battle|Act|Empire|Republic|Kingdom|Union|Club|FC"
    r"|Festival|Museum|Press)$",
    re.IGNORECASE,
)
_FOLLOWED = re.compile(r"(?:\s\([^()]{1,120}\))?,?\s[a-z]")


def references(text: str, concepts: Sequence[Concept], sentences: Sequence[tuple[int, int]]) -> list[Concept]:
    """Return the names that sentences of `text` begin with as a pronoun or a definite head: spans are those of these words.

    Parameters
    ----------
    concepts : sequence of Concept
        Of `text`, in order of appearance.
    sentences : sequence of (start, end)
        Spans that partition the text.
    """
    if not (_PERSON.search(text) or _THING.search(text) or _HEAD.search(text) or _CJK_HEAD.search(text)):
        return []
    matches: list[Concept] = []
    subject: Concept | None = None
    place = 0
    for start, end in sentences:
        first = place
        while place < len(concepts) and concepts[place].start < end:
            place += 1
        here = concepts[first:place]
        reference = _reference(text, start, end, subject)
        if reference is not None:
            matches.append(reference)
            # The chain goes on: "He … He …".
            subject = reference
            continue
        subject = _company(here) if _CJK.search(text, start, end) else _subject(text, start, here)
        if _OBJECT.search(text, start, end):
            # "Columbia Records released it": what it is was said before.
            subject = None
    return matches


def _reference(text: str, start: int, end: int, subject: Concept | None) -> Concept | None:
    if subject is None:
        return None
    if match := _PERSON.match(text, start, end):
        if is_person_like(subject.name):
            return replace(subject, start=start, end=match.end() - 1, type="NAME")
    elif match := _THING.match(text, start, end):
        if not is_person_like(subject.name) or _ARTICLE.match(text, subject.start - 4):
            return replace(subject, start=start, end=match.end("it"))
    elif match := _HEAD.match(text, start, end):
        head = match["head"]
        # "Acme is a company": the sentence before says that it is one; the name may, too: "Kestrel engine".
        if re.search(rf"\b{head}\b", text[subject.start : start], re.IGNORECASE):
            return replace(subject, start=start, end=match.end() - 1, type="NAME")
    elif match := _CJK_HEAD.match(text, start, end):
        last = match.group()[-1]
        ends = _CJK_COMPANY if last in "社司构構" else _CJK_ENDS.get(last, "")
        if ends and re.search(rf"(?:{ends})$|^(?:株式会社)", subject.name):
            return replace(subject, start=start, end=match.end(), type="NAME")
    return None


def is_person_like(name: str) -> bool:
    """Whether a name has the form of a person's: two to four words with capitals, none of them a place's or a company's."""
    words = name.split()
    return 1 < len(words) <= 4 and not _NO_PERSON.match(name) and all(word[0].isupper() for word in words[::2])


def _subject(text: str, start: int, concepts: Sequence[Concept]) -> Concept | None:
    """Return the name at the beginning of a sentence, the whole of it."""
    lead = len(text[start : start + 8]) - len(text[start : start + 8].lstrip(" \t\n\"“'*"))
    for concept in concepts:
        if concept.start > start + lead + 4:
            return None
        article = text[start + lead : concept.start]
        if (
            concept.type == "NAME"
            and article in ("", "The ")
            and (_FOLLOWED.match(text, concept.end) or not text[concept.end :][:1].isascii())
        ):
            return concept
    return None


def _company(concepts: Sequence[Concept]) -> Concept | None:
    """Return the one organisation that a Japanese or Chinese sentence names; None where it names several."""
    names = {
        concept.name: concept
        for concept in concepts
        if re.search(rf"(?:{_CJK_COMPANY}|大学|大學|学校|學校|駅)$|^株式会社", concept.name)
    }
    return next(iter(names.values())) if len(names) == 1 else None


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
# How the plural of a term ends, and in German its other cases; English has rules of its own.
_PLURAL_ENDINGS = {"de": ("s", "es", "e", "n", "en", "nen"), "other": ("s", "es")}
_JOINTS = re.compile("[·・]")
_PART_OF_PERSON = re.compile(r"(?:[A-Z]\.){1,3}|(?:[DdLl]['’])?(?![A-Z]{2,})[A-Z][\w'’-]*\w(?<!['’]s)")
_KANA_OR_HAN = re.compile(f"[{HAN}{KANA}]{{2,}}")
# A family name of Japan has two or three characters, seldom one; a given name one to three.
_FAMILY_NAMES = (2, 3)
_JAPANESE_PERSON = re.compile("[\u4e00-\u9fff々〆ヶ]{3,6}")


def full_names(
    concepts: Sequence[Concept], text: str, languages: Collection[str], *, is_read: bool = False
) -> dict[str, Concept]:
    """Return {key of a short name, of another spelling, or of a plural: the concept that it means}.

    Parameters
    ----------
    concepts : sequence of Concept
        Of one document.
    text : str
        Its prose.
    languages : collection of str
        Of its chunks.
    is_read : bool
        Whether a tagger has read the document: without, nobody knows that Windows are no windows.
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
    # Another spelling of a short name means what that means, and so does a plural.
    meant = {name_key: full_key_of.get(spelling, spelling) for name_key, spelling in spellings.items()} | full_key_of
    plurals = _plurals(concepts, text) if is_read else {}
    meant = {plural: meant.get(singular, singular) for plural, singular in plurals.items()} | meant
    return {name_key: by_key[full_key] for name_key, full_key in meant.items()}


def _plurals(concepts: Iterable[Concept], text: str) -> dict[str, str]:
    """Return {key of a term in the plural: key of its singular}, where the document has both and neither is called a name.

    Analysers leave words with capitals as they are written, for Windows and General Motors.
    """
    names = {key(concept.name): concept.name for concept in concepts}
    terms = names.keys() - {key(concept.name) for concept in concepts if concept.tag}
    language = latin_language(text)
    plurals: dict[str, str] = {}
    for plural in terms:
        singulars = terms.intersection(_singulars(names[plural], language)) - {plural}
        if singulars:
            plurals[plural] = min(singulars, key=len)
    return plurals


def _singulars(name: str, language: str) -> Iterable[str]:
    """Return the keys of what a term may be the plural of."""
    if language == "en":
        *others, last = name.split(" ")
        return (key(" ".join([*others, english_words.singular(last)])),)
    name_key = key(name)
    stems = (name_key.removesuffix(ending) for ending in _PLURAL_ENDINGS[language])
    return (stem for stem in stems if len(stem) >= _SHORTEST_SPELLING)


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
    if _KIND.fullmatch(key(full.name)):
        # "the Kestrel engine" is one; "Honda engines", "a Honda engine" are what Honda makes, "the Japanese city" is a city.
        others = [name for name in names.keys() - {key(full.name)} if name.startswith(key(short.name) + " ")]
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
        and ((short.tag and short.tag == full.tag == PERSON) or _PERSONAL.search(text) is not None)
        and not re.search(_PLACED.format(name=re.escape(short.name)), text)
    )


def _is_part_of_person(word: str) -> bool:
    """Whether a word can be one of a person's name: Sun, Real and FC of Sun King, Real Madrid and FC Barcelona are not."""
    if word in ENGLISH_NAME_PARTICLES:
        return True
    is_spelled = _PART_OF_PERSON.fullmatch(word) is not None
    return is_spelled and (word.endswith(".") or english_words.may_be_name(word.split("-")[0]))


_LINE = re.compile(
    r"^[ \t]{0,8}(?P<label>[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*){0,2}):[ \t]+(?P<said>\S[^\n]*)$", re.MULTILINE
)
_ANY_LINE = re.compile(r"\S[^\n]*")
# Who speaks says I and you.
_SPOKEN = re.compile(r"\b(?:I|I['’]m|I['’]ve|I['’]ll|[Yy]ou|[Yy]our|[Mm]y|[Mm]e|[Ww]e|[Ll]et['’]s|us)\b")
_LEAST_LINES = 2
# "Erik Arvidsson (EA)", in a list of who is there; and "EA: …", what he says.
_PRESENT = re.compile(
    r"(?P<name>[^\W\d_][\w'’.-]{0,40}(?: [^\W\d_][\w'’.-]{0,40}){1,3}) \((?P<initials>[A-Z]{2,4})\)(?=[\s,.;]|$)",
    re.MULTILINE,
)
_LABEL = re.compile(r"^[ \t>*•-]{0,8}(?P<initials>[A-Z]{2,4}):[ \t]", re.MULTILINE)
# LiHua; not McDonald.
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_PREFIXES = ("Mc", "Mac", "De", "La", "Le", "Di", "Du", "Van", "Fitz")


def speakers(text: str) -> dict[str, str]:
    """Return {label: name with blanks} of who speaks; empty where a text is no conversation and has no minutes."""
    if ":" not in text:
        return {}
    return _present(text) | _speakers(text)


def _present(text: str) -> dict[str, str]:
    """Return {initials: name} of persons of whom minutes say both, and what they said."""
    labels = Counter(match["initials"] for match in _LABEL.finditer(text))
    if not any(count >= _LEAST_LINES for count in labels.values()):
        return {}
    names: dict[str, set[str]] = {}
    for match in _PRESENT.finditer(text):
        initials = match["initials"]
        if labels[initials] >= _LEAST_LINES and _are_initials(initials, re.split("[ -]", match["name"])):
            names.setdefault(initials, set()).add(match["name"])
    return {initials: min(of) for initials, of in names.items() if len(of) == 1}


def _are_initials(initials: str, names: list[str]) -> bool:
    """Whether letters are those that names begin with: all, or the first and the last (Mark S. Miller: MSM, MM)."""
    letters = "".join(name[:1] for name in names)
    return initials in (letters, letters[0] + letters[-1])


def _speakers(text: str) -> dict[str, str]:
    lines = list(_LINE.finditer(text))
    if len(lines) < _LEAST_LINES or 2 * len(lines) < sum(1 for _ in _ANY_LINE.finditer(text)):
        return {}
    if 2 * sum(_SPOKEN.search(line["said"]) is not None for line in lines) < len(lines):
        return {}
    counts = Counter(line["label"] for line in lines)
    return {
        label: _parted(label)
        for label, count in counts.items()
        if count > 1 or _JOINT.search(label) or all(may_be_name(word) for word in label.split())
    }


def _parted(label: str) -> str:
    words = _JOINT.sub(" ", label).split(" ")
    return label if any(word in _PREFIXES for word in words) else " ".join(words)


def with_speakers(full: Mapping[str, Concept], speakers: Mapping[str, str]) -> dict[str, Concept]:
    """Return {key of a short name or another spelling: the name it means}, labels of speakers added."""
    by_key = {key(label): Concept(name, 0, 0, "NAME") for label, name in speakers.items()}
    names = {key(concept.name) for concept in by_key.values()}
    others = {short: by_key.get(key(concept.name), concept) for short, concept in full.items() if short not in names}
    return others | {label: concept for label, concept in by_key.items() if label not in names}
