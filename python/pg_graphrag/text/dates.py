"""Dates as questions write them, and how documents may write the same day."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if name != "May" else name for name in _MONTHS)
_YEAR, _DAY = r"(?P<year>(?:19|20)\d\d)", r"(?P<day>0?[1-9]|[12]\d|3[01])"
_FORMS = (
    rf"(?<!\d){_YEAR}(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])(?!\d)",
    rf"(?<!\d){_YEAR}(?P<mark>[-/.])(?P<month>0?[1-9]|1[0-2])(?P=mark){_DAY}(?!\d)",
    rf"(?<!\d)(?:{_YEAR}\s*年\s*)?(?P<month>0?[1-9]|1[0-2])\s*月\s*{_DAY}\s*[日号號]",
    rf"\b(?P<name>{_MONTH})\b\.?\s+{_DAY}(?:st|nd|rd|th)?\b(?!:)(?:,?\s+{_YEAR}\b)?",
    rf"\b{_DAY}(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<name>{_MONTH})\b\.?(?:,?\s+{_YEAR}\b)?",
)
# In the Germanic and Romance languages that are asked most, for whole months, and for days that these write otherwise.
_MONTH_NAMES = (
    "jan(?:uary|uari?|eiro)?|jänner|janv(?:ier)?|ene(?:ro)?|gennaio",
    "feb(?:ruary|ruari?|rero|braio)?|févr?(?:ier)?|fevereiro",
    "mar(?:ch|s|zo|ço)?|märz|maart",
    "apr(?:il|ile)?|avr(?:il)?|abr(?:il)?",
    "may|mai|mayo|mei|maggio|maio",
    "jun[ei]?|juin|junio|junho|giugno",
    "jul[yi]?|juil(?:let)?|julio|julho|luglio",
    "aug(?:ust|ustus)?|août|agosto",
    "sep(?:t(?:ember|embre|iembre)?)?|settembre|setembro",
    "o[ck]t(?:ober|obre|ubre)?|ottobre|outubro",
    "nov(?:ember|embre|embro|iembre)?",
    "dec(?:ember)?|dez(?:ember|embro)?|déc(?:embre)?|dic(?:iembre|embre)?",
)
_ANY_NAME = rf"\b(?P<name>{'|'.join(_MONTH_NAMES)})\b\.?"
_HAN_NUMBERS = "一二三四五六七八九十"
# A number does not go on.
_END = r"(?![\d/-]|\.\d)"
_NUMBER = "(?P<month>0?[1-9]|1[0-2])"
# April and August are persons, too, and may and march are done: without a year, a month is one behind such a word.
_BEFORE_MONTH = (
    r"\b(?:in|during|since|until|till|early|late|mid|last|this|next|every|(?:end|beginning|start|middle|month) of"
    r"|im|seit|ab|bis|anfang|mitte|ende|letzten|vergangenen|diesen|sinds|vanaf|eind|en|depuis|début|fin|desde|hasta|em)[\s-]+"
)
_PERIOD_FORMS = (
    # 8.5.2023. With slashes, the day or the month comes first.
    rf"(?<![\d./-]){_DAY}\.\s?{_NUMBER}\.\s?{_YEAR}{_END}",
    rf"(?<![\d./-])(?P<first>0?[1-9]|[12]\d|3[01])/(?P<second>0?[1-9]|[12]\d|3[01])/{_YEAR}{_END}",
    rf"\b{_DAY}(?:\.|er|º)?\s+(?:de\s+)?{_ANY_NAME}(?:,?\s+(?:del?\s+)?{_YEAR}\b)?",
    rf"{_ANY_NAME},?\s+(?:of\s+|del?\s+)?{_YEAR}\b",
    # 2023-05; 2010-12 may be years.
    rf"(?<![\d./-])(?!20(?:0\d|1[01])){_YEAR}[-/](?P<month>0[1-9]|1[0-2]){_END}",
    rf"(?<![\d./-]){_NUMBER}[./]{_YEAR}{_END}",
    rf"(?<!\d)(?:{_YEAR}\s*年\s*)?{_NUMBER}\s*月份?",
    rf"(?<![{_HAN_NUMBERS}])(?P<han>十[一二]?|[{_HAN_NUMBERS}])月份?",
    rf"{_BEFORE_MONTH}(?=\w{{4}}|ma[iy]|mei){_ANY_NAME}",
)
# "Step 5 may fail" names no day.
_MAY_BE = re.compile(r"(?<=\d) may\b(?!,? (?:19|20)\d\d)")
# Years that a day without a year may be in.
_YEARS = range(1900, 2100)


@dataclass(frozen=True, slots=True)
class Date:
    """A day; `year` None: of any year."""

    year: int | None
    month: int
    day: int

    def in_one_word(self) -> list[str]:
        """Return the day as in stamps, 20260106, for every year that it may be in."""
        years = _YEARS if self.year is None else (self.year,)
        return [f"{year}{self.month:02}{self.day:02}" for year in years]

    def in_words(self) -> list[str]:
        """Return the phrases by which a document may name the day, in words or as ISO 8601."""
        template, year = f"{_MONTHS[self.month - 1]} {{}}", "" if self.year is None else f" {self.year}"
        texts = [template.format(f"{day}{year}") for day in (str(self.day), f"{self.day}{_ordinal(self.day)}")]
        if self.year is not None:
            texts.append(f"{self.year}-{self.month:02}-{self.day:02}")
        return texts


def dates(text: str) -> tuple[list[Date], str]:
    """Return the days that `text` names, in order and each once, and the text without them."""
    text = unicodedata.normalize("NFKC", text)
    matches: list[tuple[int, Date]] = []
    for form in _forms():
        for match in form.finditer(text):
            matches.append((match.start(), _date(match)))
        text = form.sub(lambda match: " " * len(match.group()), text)
    return list(dict.fromkeys(date for _, date in sorted(matches, key=lambda match_date: match_date[0]))), text


def periods(text: str) -> tuple[list[str], str]:
    """Return the days and months that `text` names, each once, and the text without them.

    2023-05-08, 2023-05-*; of any year, where none is named: *-05-08, *-05-*. Which year is meant other words say, or nothing
    does; the latest would be another with each document.
    """
    days, text = dates(_MAY_BE.sub("", text))
    named = [_period(day.year, day.month, day.day) for day in days]
    for form in _period_forms():
        for match in form.finditer(text):
            parts = match.groupdict()
            named += (_period(parts.get("year"), month, day) for month, day in _months_and_days(parts))
        text = form.sub(" ", text)
    return list(dict.fromkeys(named)), text


def _months_and_days(parts: dict[str, str | None]) -> list[tuple[int, str | None]]:
    """Return what months and days (None: the whole month) a match may mean; 8/5/2023 is one of two days."""
    first, second = parts.get("first"), parts.get("second")
    if first and second:
        return [(int(month), day) for month, day in ((second, first), (first, second)) if int(month) <= len(_MONTHS)]
    if name := parts.get("name"):
        month = next(place for place, names in enumerate(_MONTH_NAMES, 1) if re.fullmatch(names, name, re.IGNORECASE))
    elif han := parts.get("han"):
        month = sum(map(_HAN_NUMBERS.index, han)) + len(han)
    else:
        month = int(parts["month"] or 0)
    return [(month, parts.get("day"))]


def _period(year: int | str | None, month: int, day: int | str | None) -> str:
    # Digits of any script.
    return f"{int(year) if year else '*'}-{month:02}-{f'{int(day):02}' if day else '*'}"


@cache
def _forms() -> list[re.Pattern[str]]:
    return [re.compile(form, re.IGNORECASE) for form in _FORMS]


@cache
def _period_forms() -> list[re.Pattern[str]]:
    return [re.compile(form, re.IGNORECASE) for form in _PERIOD_FORMS]


def _date(match: re.Match[str]) -> Date:
    parts = match.groupdict()
    name, year = parts.get("name"), parts["year"]
    month = _number_of(name) if name else int(parts["month"])
    return Date(int(year) if year else None, month, int(parts["day"]))


def _number_of(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, 1) if month[:3].lower() == name[:3].lower())


def _ordinal(day: int) -> str:
    return "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
