"""What pronouns and definite heads at the beginning of a sentence refer to, where that is safe.

"Bob Stone joined Acme Rockets. He designed the Kestrel engine." states a relationship of Bob Stone. Read is the sentence before
in the same text alone: its subject is a name that stands at its beginning.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from pg_graphrag.text.concept import Concept
from pg_graphrag.text.languages import HAN, KANA

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
