"""iCalendar (RFC 5545): each event or task is a heading with what, when, where and who."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.source import Facts, Source
from pg_graphrag.ground.document import Document

_FOLD = re.compile(r"\n[ \t]")
_LINE = re.compile(r'([A-Za-z-]{1,60})((?:;[^:;="]{1,60}=(?:"[^"]*"|[^";:]*))*):(.*)', re.DOTALL)
_NAMED = re.compile(r'(?i);CN=("[^"]*"|[^";:]*)')
_FREQUENCY = re.compile(r"FREQ=([A-Z]+)")
_ESCAPED = re.compile(r"\\([nN\\;,])")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
# The components with a text of their own; others are time zones and alarms.
_ITEMS = frozenset(("VEVENT", "VTODO", "VJOURNAL"))
_LABELS = {
    "DTSTART": "Begins",
    "DTEND": "Ends",
    "DUE": "Due",
    "LOCATION": "Where",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendees",
    "CONTACT": "Contact",
    "RRULE": "Repeats",
    "STATUS": "Status",
    "CATEGORIES": "Categories",
    "URL": "Web",
    "COMMENT": "Comment",
}


def read_icalendar(source: Source) -> Iterator[Document]:
    """Read a calendar as one document, titled by its name, else its first event.

    Raises ReadError where it is no calendar.
    """
    lines = _FOLD.sub("", decode(source.read(), source)).split("\n")
    if not lines[0].upper().startswith("BEGIN:VCALENDAR"):
        raise source.error("does not begin as a calendar does (BEGIN:VCALENDAR)")
    blocks: list[str] = []
    names: list[str] = []
    titles: list[str] = []
    facts = Facts()
    within: list[str] = []
    fields: dict[str, list[str]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        name, parameters, value = match[1].upper(), match[2], match[3]
        if name == "BEGIN":
            within.append(value.strip().upper())
            fields = {} if within[-1] in _ITEMS else fields
        elif name == "END" and within:
            if within.pop() in _ITEMS:
                titles += fields.get("SUMMARY", [])[:1]
                blocks.append(_item(fields))
        elif within == ["VCALENDAR"] and name in ("NAME", "X-WR-CALNAME"):
            names.append(_plain(value))
        elif within and within[-1] in _ITEMS:
            named = _NAMED.search(parameters)
            text = named[1].strip('"') if named and named[1] else _plain(value)
            if name == "RRULE":
                text = " ".join(_FREQUENCY.findall(value)).lower()
            elif name == "STATUS":
                text = text.lower()
            fields.setdefault(name, []).append(text)
            if name == "LAST-MODIFIED" and (moment := _moment(value)):
                facts.modified = max(facts.modified or moment, moment)
    yield source.document("\n\n".join(filter(None, blocks)), "text/calendar", next(iter(names + titles), None), facts)


def _item(fields: dict[str, list[str]]) -> str:
    lines = []
    for name, label in _LABELS.items():
        if values := fields.get(name):
            texts = [re.sub(r"(?i)\Amailto:", "", value) for value in values]
            lines.append(f"{label}: {', '.join(_said(text) if name in _TIMES else text for text in texts)}")
    heading = "".join(f"# {' '.join(title.split())}" for title in fields.get("SUMMARY", [])[:1])
    return "\n\n".join(filter(None, (heading, "\n".join(lines), *fields.get("DESCRIPTION", []))))


_TIMES = frozenset(("DTSTART", "DTEND", "DUE"))


def _plain(value: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] in "nN" else match[1], value).strip()


def _said(value: str) -> str:
    """Return a date as people write it: 2024-05-06 09:00."""
    match = _DATE.fullmatch(value)
    if match is None:
        return value
    day = f"{match[1]}-{match[2]}-{match[3]}"
    return f"{day} {match[4]}:{match[5]}{' UTC' if match[6] else ''}" if match[4] else day


def _moment(value: str) -> datetime | None:
    match = _DATE.fullmatch(value.strip())
    if match is None:
        return None
    try:
        year, month, day, hour, minute = (int(part or 0) for part in match.groups()[:5])
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None
