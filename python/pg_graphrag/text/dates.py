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
# In English, German, French and Spanish, for whole months, and for days that these write otherwise.
_MONTH_NAMES = (
    "jan(?:uary|uar)?|jänner|janv(?:ier)?|ene(?:ro)?",
    "feb(?:ruary|ruar|rero)?|févr?(?:ier)?",
    "mar(?:ch|s|zo)?|märz",
    "apr(?:il)?|avr(?:il)?|abr(?:il)?",
    "may|mai|mayo",
    "jun[ei]?|juin|junio",
    "jul[yi]?|juil(?:let)?|julio",
    "aug(?:ust)?|août|agosto",
    "sep(?:t(?:ember|embre|iembre)?)?",
    "o[ck]t(?:ober|obre|ubre)?",
    "nov(?:ember|embre|iembre)?",
    "dec(?:ember)?|dez(?:ember)?|déc(?:embre)?|dic(?:iembre)?",
)
_ANY_NAME = rf"\b(?P<name>{'|'.join(_MONTH_NAMES)})\b\.?"
_PERIOD_FORMS = (
    rf"\b{_DAY}(?:\.|er|º)?\s+(?:de\s+)?{_ANY_NAME}(?:,?\s+(?:del?\s+)?{_YEAR}\b)?",
    rf"{_ANY_NAME},?\s+(?:of\s+|del?\s+)?{_YEAR}\b",
    rf"(?<!\d){_YEAR}\s*年\s*(?P<month>0?[1-9]|1[0-2])\s*月",
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


def periods(text: str) -> list[str]:
    """Return the days, and the months of a year, that `text` names, each once: 2023-05-08, 2023-05-*, *-05-08 (of any year)."""
    if not any(map(str.isdigit, text)):
        return []
    days, text = dates(_MAY_BE.sub("", text))
    named = [_period(day.year, day.month, day.day) for day in days]
    for form in _period_forms():
        for match in form.finditer(text):
            parts = match.groupdict()
            name = parts.get("name")
            named.append(_period(parts["year"], _month_of(name) if name else parts["month"], parts.get("day")))
        text = form.sub(" ", text)
    return list(dict.fromkeys(named))


def _period(year: int | str | None, month: int | str, day: int | str | None) -> str:
    # Digits of any script.
    return f"{int(year) if year else '*'}-{int(month):02}-{f'{int(day):02}' if day else '*'}"


@cache
def _forms() -> list[re.Pattern[str]]:
    return [re.compile(form, re.IGNORECASE) for form in _FORMS]


@cache
def _period_forms() -> list[re.Pattern[str]]:
    return [re.compile(form, re.IGNORECASE) for form in _PERIOD_FORMS]


def _month_of(name: str) -> int:
    return next(number for number, names in enumerate(_MONTH_NAMES, 1) if re.fullmatch(names, name, re.IGNORECASE))


def _date(match: re.Match[str]) -> Date:
    parts = match.groupdict()
    name, year = parts.get("name"), parts["year"]
    month = _number_of(name) if name else int(parts["month"])
    return Date(int(year) if year else None, month, int(parts["day"]))


def _number_of(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, 1) if month[:3].lower() == name[:3].lower())


def _ordinal(day: int) -> str:
    return "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
