"""Subtitles as text: what is spoken, without numbers, times and formatting."""

import re
from collections.abc import Iterator

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.source import Source
from pg_graphrag.ground.document import Document

_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMES = re.compile(rf"[ \t]*{_TIME}[ \t]+-->[ \t]+{_TIME}[^\n]*")
_SPEAKER = re.compile(r"<v(?:\.[\w.-]{1,60})?[ \t]+([^<>\n]{1,100})>")
_MARKS = re.compile(r"</?[A-Za-z][^<>\n]{0,100}>|<\d[\d:.]{0,20}>|\{\\[^{}\n]{0,100}\}")
# Blocks of WebVTT that nobody says.
_UNSAID = re.compile(r"(?:NOTE|STYLE|REGION|WEBVTT|X-TIMESTAMP-MAP)\b")
# A pause of so many seconds ends a paragraph.
_PAUSE = 3.0


def read_subtitles(source: Source) -> Iterator[Document]:
    """Read subtitles (SubRip, WebVTT) as one document: a line for each, and an empty line for a pause."""
    paragraphs: list[list[str]] = [[]]
    last_end = 0.0
    for block in re.split(r"\n[ \t]*\n", decode(source.read(), source)):
        lines = block.strip("\n").split("\n")
        place = next((place for place, line in enumerate(lines[:2]) if _TIMES.fullmatch(line)), None)
        times = _TIMES.fullmatch(lines[place]) if place is not None else None
        if times is None or place is None:
            if not _UNSAID.match(lines[0]) and paragraphs[-1]:
                # An empty line within a subtitle.
                paragraphs[-1] += _said(lines)
            continue
        if _seconds(times.groups()[:4]) - last_end >= _PAUSE and paragraphs[-1]:
            paragraphs.append([])
        last_end = _seconds(times.groups()[4:])
        # Rolling captions say the line before again.
        paragraphs[-1] += [line for line in _said(lines[place + 1 :]) if line not in paragraphs[-1][-2:]]
    yield source.document("\n\n".join("\n".join(lines) for lines in paragraphs) + "\n", "text/vtt")


def _seconds(time: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, thousandths = (int(part or 0) for part in time)
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


def _said(lines: list[str]) -> list[str]:
    texts = (_MARKS.sub("", _SPEAKER.sub(r"\1: ", line)).strip() for line in lines)
    return [text for text in texts if text]
