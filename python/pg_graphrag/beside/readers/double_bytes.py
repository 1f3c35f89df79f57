"""Decodes two-byte encodings with lost bytes, after which a plain decoder reads every character half a character
off.
"""

import re

# First bytes of frequent characters: punctuation, kana, and the frequent half of Han or Hangul.
_KOREAN, _BIG5 = rb"\xa1\xa3\xb0-\xc8", rb"\xa1-\xc6"
_FREQUENT = {
    "gb18030": rb"\xa1-\xa3\xb0-\xd7",
    **dict.fromkeys(("euc_jp", "cp51932", "euc_jis_2004"), rb"\xa1\xa3-\xa5\xb0-\xcf"),
    **dict.fromkeys(("cp949", "euc_kr"), _KOREAN),
    **dict.fromkeys(("big5hkscs", "cp950", "big5"), _BIG5),
    "cp932": rb"\x81-\x83\x88-\x97",
}
# In these encodings the second byte is no ASCII letter, except in rare characters.
_APART = frozenset(("gb18030", "euc_jp", "cp51932", "euc_jis_2004", "cp949", "euc_kr"))
# Bytes that are no part of a longer character.
_RUN = re.compile(rb"[^\x00-\x2f\x3a-\x3f]+")
# Log odds of a frequent character at its true beginning against half a character too early; of a byte that belongs to none.
_LIKELY, _UNLIKELY, _UNLIKELY_LATIN, _LOST = 0.8, -3.0, -8.0, -6.0
# By so much likelier must another reading be than a valid one.
_SURE = 6.0
_BEFORE_LATIN = re.compile(r"[^\x00-\x7f](?=[A-Za-z]{2})")
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_LONGEST, _LONGEST_RUN = 4, 100_000
# Pieces whose character is kept.
_MOST_KEPT = 200_000


def realigned(data: bytes, encoding: str) -> tuple[str, int] | None:
    """Return text with U+FFFD where bytes are lost, and how many these are; None for an encoding of other kinds."""
    if encoding not in _FREQUENT:
        return None
    second = rb"[\x80-\xff]" if encoding in _APART else rb"[\x40-\xff]"
    frequent = re.compile(b"[" + _FREQUENT[encoding] + b"]" + second)
    characters: dict[bytes, tuple[str, float] | None] = {}
    parts: list[str] = []
    end = faults = 0
    for run in _RUN.finditer(data):
        parts.append(data[end : run.start()].decode("ascii"))
        end = run.end()
        try:
            text, lost = run[0].decode(encoding), 0
        except UnicodeDecodeError:
            text, lost = _replaced(run[0], encoding)
        if (lost or is_suspect(text, encoding)) and len(run[0]) <= _LONGEST_RUN:
            likely_text, score = _likeliest(run[0], encoding, frequent, characters)
            if lost or score > _score(text, encoding, frequent) + _SURE:
                text, lost = likely_text, likely_text.count("\ufffd")
        parts.append(text)
        faults += lost
    parts.append(data[end:].decode("ascii"))
    return "".join(parts), faults


def is_suspect(text: str, encoding: str) -> bool:
    """Whether half a character seems to have taken the first letter of a word in Latin letters, or made a private sign."""
    if encoding not in ("gb18030", "cp949"):
        return False
    return _PRIVATE.search(text) is not None or any(
        character[0].encode(encoding)[1:].isalpha() for character in _BEFORE_LATIN.finditer(text)
    )


def _score(text: str, encoding: str, frequent: re.Pattern[bytes]) -> float:
    """Return the likelihood of a text as it was read, on the scale of `_likeliest`."""
    pieces = (character.encode(encoding) for character in text if not character.isascii())
    return sum(_LIKELY if frequent.match(piece) else _UNLIKELY for piece in pieces)


def _replaced(data: bytes, encoding: str) -> tuple[str, int]:
    text = data.decode(encoding, "replace")
    return text, max(1, text.count("\ufffd"))


def _likeliest(
    data: bytes, encoding: str, frequent: re.Pattern[bytes], characters: dict[bytes, tuple[str, float] | None]
) -> tuple[str, float]:
    """Return the likeliest text of bytes, by the characters that may end at each place, and how likely it is."""
    if len(characters) > _MOST_KEPT:
        characters.clear()
    best: list[tuple[float, int, str]] = [(0.0, 0, "")]
    for end in range(1, len(data) + 1):
        score, _, _ = best[end - 1]
        choice = (score + _LOST, end - 1, "\ufffd")
        for start in range(end - 1, max(-1, end - 1 - _LONGEST), -1):
            piece = data[start:end]
            if piece not in characters:
                characters[piece] = _character(piece, encoding, frequent)
            if (character := characters[piece]) is None:
                continue
            text, likely = character
            # A letter of a word in Latin letters is rather that than the end of a rare character.
            if likely < 0 and data[end - 1 : end].isalnum() and data[end : end + 1].isalnum() and len(piece) == 2:
                likely = _UNLIKELY_LATIN
            if best[start][0] + likely > choice[0]:
                choice = best[start][0] + likely, start, text
        best.append(choice)
    texts: list[str] = []
    place = len(data)
    while place:
        _, before, text = best[place]
        texts.append(text)
        place = before
    return "".join(reversed(texts)), best[-1][0]


def _character(piece: bytes, encoding: str, frequent: re.Pattern[bytes]) -> tuple[str, float] | None:
    """Return the character of some bytes, and its likelihood; None if they are no character, or several."""
    try:
        text = piece.decode(encoding)
    except UnicodeDecodeError:
        return None
    if len(piece) == 1 and piece.isascii():
        return text, 0.0
    # Two letters of ASCII, say, are two characters.
    if len(text) != 1:
        return None
    return text, _LIKELY if frequent.match(piece) else _UNLIKELY
