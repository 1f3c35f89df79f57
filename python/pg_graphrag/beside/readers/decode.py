"""Bytes to text that PostgreSQL can hold, or an error that says at which byte they are not."""

import codecs
import re
from collections.abc import Iterable
from itertools import islice

from pg_graphrag.beside.readers.double_bytes import is_suspect, realigned
from pg_graphrag.beside.readers.japanese_codecs import japanese_codec
from pg_graphrag.beside.readers.source import Source
from pg_graphrag.text import letters
from pg_graphrag.text.languages import ENGLISH_WORDS, FOREIGN_WORDS

codecs.register(japanese_codec)
# The marks of UTF-32 begin with those of UTF-16: longest first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What texts were written in, the most used first, which of likely ones counts; others are found where they are clearly likelier.
_USED = (
    "cp1252 cp932 gb18030 cp1251 cp1250 cp949 big5hkscs cp950 big5 euc_jp euc_kr cp1254 cp1256 cp1253 cp1255 cp874 cp1257"
    " koi8-r koi8-u iso8859-2 iso8859-15 iso8859-5 iso8859-7 iso8859-8 iso8859-6 iso8859-9 iso8859-13 cp850 cp852 cp866 cp437"
    " cp857 cp775 cp737 cp862 cp1125 cp858 mac-cyrillic"
).split()
# The factor for rare encodings, the likelihood from which one counts, and the factor for cp1252 amid English.
_RARER, _LEAST_LIKELY, _WESTERN = 0.6, 0.01, 1.75
# Up to this share of letters in positions that no word has, text consists of words; fewer letters say nothing.
_MOST_ODD, _FEW = 0.2, 5
_CASED = [chr(code) for code in range(0xC0, 0x530)]
_CAPITALS, _SMALL = "".join(filter(str.isupper, _CASED)), "".join(filter(str.islower, _CASED))
_LATIN, _NOT_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f", "\u0370-\u04ff\u0590-\u06ff"
# Characters within words: apostrophes, middle dots, hyphens, vowel marks, and the signs of scripts without spaces.
_WITHIN_WORDS = (
    "\u2018\u2019\u00b4\u00b7\u2010-\u2014\u00ad\u0300-\u036f\u0590-\u05c7\u0600-\u06ff\u0e00-\u0e7f"
    "\u200c\u200d\u3000-\u303f\u30fb\uff00-\uffef"
)
# What the wrong encoding of one byte a letter makes of words: letters of two alphabets, capitals behind small letters, signs.
_ODD = re.compile(
    f"[{_LATIN}][{_NOT_LATIN}]|[{_NOT_LATIN}][{_LATIN}]|[a-z][{_CAPITALS}]|[{_SMALL}][A-Z{_CAPITALS}]|[A-Z][{_CAPITALS}][a-z]"
    f"|[a-z][\u3040-\u9fff\uac00-\ud7a3]|[\u3040-\u9fff\uac00-\ud7a3][a-z]|[\x80-\x9f\u2500-\u25a0\ufffd]|\u00bf(?=\\w)(?![^?]{{0,300}}\\?)|(?<=[^\\W\\d_])(?:[^\\w\\s\\x00-\\x7f{_WITHIN_WORDS}]|[\u00aa\u00b2\u00b3\u00b5\u00b9\u00ba\u00bc-\u00be])(?=[^\\W\\d_])"
)
# What writers mean by a name, the likeliest first: mostly an encoding that has more characters (as browsers read them).
_MEANT = {
    "iso8859-1": ("utf-8", "cp1252"),
    "cp1252": ("utf-8",),
    **dict.fromkeys(("gb2312", "gbk"), ("gb18030",)),
    "euc_kr": ("cp949",),
    "shift_jis": ("cp932",),
    "big5": ("big5hkscs", "cp950"),
    "iso8859-9": ("cp1254",),
    **dict.fromkeys(("tis-620", "iso8859-11"), ("cp874",)),
    "euc_jp": ("euc_jp", "cp51932", "euc_jis_2004"),
    "iso2022_jp": ("iso2022_jp", "cp50221"),
    # Rare ones that chardet names for the usual ones.
    "euc_jis_2004": ("euc_jp", "cp51932"),
    "shift_jis_2004": ("cp932",),
}
# Names that Python does not know, and how those of code pages differ from its own: x-windows-1251, ms949, cp-850.
_NAMES = {
    "windows-31j": "cp932",
    **dict.fromkeys(("iso-2022-jp-ms", "cp50220", "cp50222"), "iso2022_jp"),
    **dict.fromkeys(("eucjp-ms", "euc"), "euc_jp"),
    **dict.fromkeys(("gb", "cn-gb"), "gb2312"),
    **dict.fromkeys(("iso-8859-8-i", "iso-8859-8-e"), "iso8859-8"),
    "x-big5": "big5",
    "unicode-1-1-utf-8": "utf-8",
}
_CODE_PAGE = re.compile(r"(?:windows|win|ms|ibm|dos|cp)?[-_]?(?:cp)?[-_]?(\d{3,5})")
_DECLARED_BY_XML = re.compile(rb"""\A[^<]*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)""")
# How encodings all of whose bytes are ASCII go over to another script; these and those with NULs are valid UTF-8.
_ESCAPES = re.compile(rb"\x1b[$(]|~\{")
_OF_ASCII = ("iso2022", "hz", "utf-16", "utf-32")
_WIDE = ("utf-16", "utf-32")
# Whole characters beyond ASCII for each invalid place: in a declared or likely encoding; and in UTF-8, which text of
# another encoding resembles by chance only for a few letters.
_NEARLY, _SURELY = 4, 2
# Up to this likelihood, a text with a single letter beyond ASCII is rather UTF-8 with a lost byte; the word around that
# byte; and lead bytes of UTF-8 letters, each with an encoding that has such letters.
_UNLIKELY = 0.012
_LEADS = ((b"\xc3", "cp1252"), (b"\xc4", "cp1250"), (b"\xc5", "cp1250"))
_WORD = re.compile(rb"([A-Za-z]{0,40})([\x80-\xbf\xc2-\xf4])([A-Za-z\x80-\xff]*)")
# A quotation mark, dash, arrow, currency, trade mark or emoji of UTF-8 that lacks a byte, where a text has nothing else beyond
# ASCII: two or three signs in a row in encodings of one byte a letter (not "20€–30"), and no usual character in others.
_RUN = re.compile(rb"[\x80-\xff]+")
# Words with bytes beyond ASCII, and the least share of English ones among the others.
_WORD_BEYOND_ASCII, _ENGLISH = re.compile(rb"[^\s\x80-\xff]{0,40}[\x80-\xff]\S*"), 0.1
# Encodings of Western languages, and letters that these hardly have there: so words of other languages look in them.
_WESTERN_ENCODINGS = ("cp1252", "cp850", "cp437", "cp858")
_NOT_WESTERN = re.compile(
    "[^\\x00-\\x7fàáâãäåæçèéêëìíîïñòóôõöøùúûüßœšž×“”‘’„–—…«»°]"
    "|[èæòì](?=[aeiouy])|ø(?=[áéíóú])|[æâ]\\b|õ(?!e)|î(?=[bdgkpvaeiou])|[ãçñœ](?![aeiouyãáéíóõúâêô])|[à-ÿ]{3}"
)
_LONE_SIGN = re.compile(
    rb"\x80[\x90-\x95\x98-\xbf]|\x82\xac|\x84[\x96\xa2]|\x86[\x90-\x95]|\xe2[\x80-\x9f]"
    rb"|\x9f[\x8c-\x9b\xa4-\xab][\x80-\xbf]|\xf0[\x80-\xbf]{2}"
)
# The first half of a letter where no word of other encodings has a capital, as behind "20" or at the beginning of one.
_LONE_HALF = re.compile(rb"(?<![A-Z])[\xc2\xc3](?![A-Za-z])|(?<![A-Za-z])\xc3(?=[a-z])")
# Signs of Windows encodings at places where no other encoding has a letter: a price, quotation marks beside a capital
# or the end of a sentence, a dash. In DOS and Mac texts these bytes are letters among many; here they are at least half
# of everything beyond ASCII.
_WINDOWS_SIGN = re.compile(
    rb"\d ?\x80(?![A-Za-z\x80-\xff])|(?:\A|[\s(])[\x84\x93\x8b\x91](?=[A-Z\x8a-\x8f\xa3\xaf\xc0-\xde])"
    rb"|[.,!?][\x93\x94\x9b](?=[\s.,;:)]|\Z)|(?<=\s)[\x96\x97](?=\s)|[a-z]\x99(?=\s)"
)
# Square and cubic metres, and micrometres, where a text has nothing else beyond ASCII: elsewhere these bytes are letters.
_UNITS = re.compile(rb"(?:(?<=\d) ?[kcdm]?m[\xb2\xb3]|(?<![A-Za-z\x80-\xff])\xb5[AFHVWglms])(?![A-Za-z\x80-\xff])")
# Invalid places with which an undeclared encoding is still likely: for a text of any length, and one more for so many
# characters.
_FEW_PLACES, _FOR_EACH = 3, 50
# Bytes before and from the first that is not ASCII, and characters of them, that are looked at; all of the text must be valid.
_BEFORE, _SAMPLE, _LOOKED_AT = 1 << 12, 1 << 17, 1 << 13
_NOT_ASCII, _BEYOND_ASCII = re.compile(rb"[\x80-\xff]"), re.compile(r"[^\x00-\x7f]")
_ASCII_LETTER, _CONTROLS = re.compile("[A-Za-z]"), re.compile("[\x80-\x9f]")
_NO_TEXT = re.compile(rb"[\0-\x06\x0e-\x1a\x1c-\x1f]")
# Short texts in UTF-16 may be ASCII by chance.
_LEAST_ASCII = 8


def decode(data: bytes, source: Source, declared: str | None = None, offset: int = 0, around: bytes = b"") -> str:
    """Decode by byte order mark, else by the given encoding, else by the file's declaration, else as UTF-8 or by the look
    of the bytes.

    Line ends become ``\\n``. A few invalid bytes become U+FFFD, which the source counts.

    `data`: the file, or the part of it that begins at byte `offset`.
    `declared`: encoding named in the file (HTML).
    `around`: text around the part, which shows its encoding better.

    Raises ReadError for bytes that are no text, or a NUL, with its place as a byte offset from the start of the file.
    """
    mark, encoding = _mark(data)
    body = data[len(mark) :]
    # What a file says of itself may be wrong; who runs this knows.
    named = "" if encoding else _as_named(source.options.encoding, body)
    encoding = encoding or named or encoding_of(around or body, declared) or ""
    start = offset + len(mark)
    if not encoding or (named and not _is_nearly(body, named)):
        encoding = encoding or "utf-8"
        first = _first_fault(body, encoding)
        raise source.error(
            f"invalid {encoding.upper()} at byte {start + first} (0x{body[first]:02x}); "
            "name its encoding by --encoding, or convert the file to UTF-8"
        )
    text = _as_text(body, encoding, source, start)
    if (nul := text.find("\0")) >= 0:
        place = start + len(text[:nul].encode(encoding))
        raise source.error(
            f"NUL character at byte {place}; PostgreSQL text cannot hold it: is this a binary file? "
            "UTF-16 that does not look like text is read with --encoding utf-16-le or utf-16-be"
        )
    return text


def decode_part(data: bytes, source: Source, declared: str | None = None) -> str:
    """Return the text of a part of a file, decoded as `decode` does; a part that is no text is read as Latin-1."""
    mark, encoding = _mark(data)
    body = data[len(mark) :]
    named = _as_named(source.options.encoding, body)
    if not encoding and named and _is_nearly(body, named):
        encoding = named
    return _as_text(body, encoding or encoding_of(body, declared) or "latin-1", source)


def _as_text(data: bytes, encoding: str, source: Source, offset: int | None = None) -> str:
    """Return bytes as text, letters whole and lines ended by ``\\n``; invalid ones as U+FFFD, which the source counts."""
    text, faults = _read(data, encoding)
    if faults:
        place = None if offset is None else offset + _first_fault(data, encoding)
        source.damage.note(faults, encoding, place)
    # Tones stand behind letters in windows-1258, too.
    return letters.whole(text).replace("\r\n", "\n").replace("\r", "\n")


def _as_named(name: str | None, data: bytes) -> str:
    """Return the encoding that the user means by a name: the wider one if the text fits it; never UTF-8."""
    if not name or (is_valid(data, name) and not _CONTROLS.search(data.decode(name))):
        return name or ""
    wider = (encoding for encoding in encodings_of_name(name) if encoding != "utf-8")
    return _first_valid(wider, data) or name


def _mark(data: bytes) -> tuple[bytes, str]:
    """Return the byte order mark and its encoding; empty if there is none, or if it is wrong."""
    mark, encoding = next(
        ((mark, encoding) for mark, encoding in _BYTE_ORDER_MARKS if data.startswith(mark)), (b"", "")
    )
    body = data[len(mark) : len(mark) + _SAMPLE]
    is_ascii = len(body) >= _LEAST_ASCII and body.isascii() and not _NO_TEXT.search(body)
    # Some programs put it before whatever there is.
    if encoding and (is_ascii if encoding.startswith(_WIDE) else not _is_nearly(data[len(mark) :], encoding)):
        encoding = ""
    return mark, encoding


def _read(data: bytes, encoding: str) -> tuple[str, int]:
    """Return bytes as text, and how many invalid places became U+FFFD."""
    try:
        text = data.decode(encoding)
        return (is_suspect(text, encoding) and realigned(data, encoding)) or (text, 0)
    except UnicodeDecodeError:
        if encoding.startswith("utf-16") and len(data) % 2:
            data = _with_half_a_pair(data, encoding)
        if (realigned_text := realigned(data, encoding)) is not None:
            return realigned_text
        text = data.decode(encoding, "replace")
        return text, text.count("\ufffd") - data.decode(encoding, "ignore").count("\ufffd")


def _with_half_a_pair(data: bytes, encoding: str) -> bytes:
    """Return UTF-16 that lacks a byte with half a surrogate pair there: where zeros change from odd places to even ones."""
    right = 0 if encoding.endswith("be") else 1
    best = balance = 0
    place = len(data)
    for match in re.finditer(b"\0", data):
        balance += 1 if match.start() % 2 == right else -1
        if balance > best:
            best, place = balance, match.end()
    if balance > best - 2:
        # No more zeros that stand wrong than a text has.
        return data
    place -= place % 2
    return data[:place] + (b"\xd8\0" if right == 0 else b"\0\xd8") + data[place + 1 :]


def _first_fault(data: bytes, encoding: str) -> int:
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _soundness(data: bytes, encoding: str) -> tuple[int, int]:
    """Return how many characters are whole (beyond ASCII, which says nothing of an encoding), and how many places invalid."""
    text, faults = _read(data, encoding)
    whole = len(text) if encoding.startswith(_WIDE) else len(text) - len(text.encode("ascii", "ignore"))
    return whole - faults, faults


def _is_nearly(data: bytes, encoding: str, least: float = _NEARLY) -> bool:
    """Whether bytes are text in an encoding except for a few that are lost or belong to another encoding."""
    if is_valid(data, encoding):
        return True
    whole, faults = _soundness(data, encoding)
    if not encoding.startswith(_WIDE):
        faults += len(_NO_TEXT.findall(data))
    return whole > 0 and whole >= least * faults


def encoding_of(data: bytes, declared: str | None = None) -> str | None:
    """Return the encoding of text: as declared if it nearly is, else UTF-8, else what it looks like; None if it is no text."""
    if meant := meant_encoding(declared, data):
        return meant
    # Bytes that are valid UTF-8 may be text of another encoding.
    is_escaped = _ESCAPES.search(data) or b"\0" in data[:_SAMPLE]
    if is_escaped and (likely := likely_encoding(data)) and likely.startswith(_OF_ASCII):
        return likely
    if _is_nearly(data, "utf-8", _SURELY):
        return "utf-8"
    runs = [run[0] for run in islice(_RUN.finditer(data), 2)]
    if len(runs) == 1 and (_LONE_SIGN.fullmatch(runs[0]) or (len(runs[0]) == 1 and _LONE_HALF.search(data))):
        return "utf-8"
    if (units := len(_UNITS.findall(data))) and units == len(_NOT_ASCII.findall(data)):
        return "cp1252"
    likely, likelihood = _likeliest(data)
    if _NO_TEXT.search(data):
        return likely
    whole, faults = _soundness(data, "utf-8")
    is_declared = faults <= _FEW_PLACES and encodings_of_name(declared) == ("utf-8",)
    if not whole and (is_declared or (faults == 1 and _lacks_a_byte(data, likely, likelihood))):
        # Each letter beyond ASCII lacks a byte, unless these are words of Windows.
        is_utf8 = _looks_odd(data, "cp1252") or likely is None
    elif likely is None:
        is_utf8 = faults * _NEARLY <= len(data)
    else:
        # Short text with several bytes a character is UTF-8 by chance.
        is_dense = len(data.decode(likely, "replace")) < len(data)
        is_utf8 = not is_dense and whole * (_SURELY if _looks_odd(data, likely) else 1) >= faults
    return "utf-8" if is_utf8 else likely


def _lacks_a_byte(data: bytes, likely: str | None, likelihood: float) -> bool:
    """Whether the only letter beyond ASCII is likelier one of UTF-8 that lacks a byte than one of the likely encoding."""
    if likely not in _USED or likelihood < _UNLIKELY or _looks_odd(data, likely):
        return True
    word = _WORD.search(data)
    if word is None:
        return False
    before, byte, after = word.groups()
    _, likelihood = _likeliest(word[0])
    for lead, encoding in _LEADS:
        letter = (lead + byte).decode("utf-8", "ignore").encode(encoding, "ignore")
        whole = before + letter + after
        if letter and _likelihoods(whole, whole).get(encoding, 0.0) > likelihood:
            return True
    return False


def declared_by_xml(data: bytes) -> str | None:
    """Return the encoding that the declaration of XML names."""
    return match[1].decode() if (match := _DECLARED_BY_XML.match(data)) else None


def header_text(data: bytes, declared: str | None) -> str:
    """Return what a part of a header says, as bodies are decoded; `declared`: of the part, or of the message."""
    encoding = encoding_of(data, declared) or "latin-1"
    return letters.whole(_read(data, encoding)[0])


def meant_encoding(declared: str | None, data: bytes) -> str | None:
    """Return the encoding that a file means by its declaration; None if it cannot be that one.

    Texts in UTF-8 and other encodings are often declared as Western, and would be unlikely as Western text.
    """
    meant = _as_declared(declared, data)
    # Old programs declare Latin-1 whatever they write.
    if meant in ("cp1252", "iso8859-1") and not _may_be_western(data[:_SAMPLE].decode(meant, "replace")):
        return likely_encoding(data) or meant
    return meant


def _may_be_western(text: str) -> bool:
    """Whether text makes words, whose letters are mostly ASCII."""
    if _CONTROLS.search(text):
        return False
    beyond = len(_BEYOND_ASCII.findall(text))
    return beyond < _FEW or (beyond <= len(_ASCII_LETTER.findall(text)) and _oddness(text) <= _MOST_ODD)


def encodings_of_name(name: str | None) -> tuple[str, ...]:
    """Return what writers mean by the name of an encoding, the likeliest first; nothing for a name that nobody knows."""
    label = name.strip().lower() if name else ""
    short = label.removeprefix("x-")
    page = _CODE_PAGE.fullmatch(short)
    for candidate in (label, _NAMES.get(short, short), f"cp{page[1]}" if page else ""):
        try:
            encoding = codecs.lookup(candidate).name
        except (LookupError, ValueError):
            continue
        return tuple(dict.fromkeys((*_MEANT.get(encoding, ()), encoding)))
    return ()


def _as_declared(declared: str | None, data: bytes) -> str | None:
    """Return the encoding that a name stands for; None if the bytes cannot be in it, even if some were damaged."""
    encodings = encodings_of_name(declared)
    if valid := _first_valid(encodings, data):
        # In encodings of one byte a letter most bytes are valid; letters of UTF-8 make no words in them.
        is_utf8 = (
            len(data.decode(valid)) == len(data) and _is_nearly(data, "utf-8", _SURELY) and _looks_odd(data, valid)
        )
        return "utf-8" if is_utf8 else valid
    if not encodings or is_valid(data, "utf-8"):
        return None
    is_utf8 = encodings == ("utf-8",)
    if _is_nearly(data, "utf-8", 1 / _SURELY if is_utf8 else _SURELY):
        return "utf-8"
    return next((encoding for encoding in encodings if not is_utf8 and _is_nearly(data, encoding)), None)


def _first_valid(encodings: Iterable[str], data: bytes) -> str | None:
    return next((encoding for encoding in encodings if is_valid(data, encoding)), None)


def likely_encoding(data: bytes) -> str | None:
    """Return the likely encoding of text that is not UTF-8; None if none is likely, as for bytes that are no text."""
    return _likeliest(data)[0]


def _likeliest(data: bytes) -> tuple[str | None, float]:
    """Return the likely encoding, and how likely it is."""
    # What tells encodings apart begins with the first byte beyond ASCII, where no character is cut.
    first = match.start() if (match := _NOT_ASCII.search(data)) else 0
    sample = data[max(0, first - _BEFORE) :][:_SAMPLE]
    likelihoods = _likelihoods(sample, data)
    for encoding in _USED:
        if encoding in likelihoods or is_valid(sample, encoding):
            continue
        whole, faults = _soundness(sample, encoding)
        if faults <= max(_FEW_PLACES, whole / _FOR_EACH) and whole >= _NEARLY * faults and _is_nearly(data, encoding):
            # Text without the invalid bytes is judged like any other.
            sound = sample[: 2 * _LOOKED_AT].decode(encoding, "ignore").encode(encoding, "ignore")
            share = 1 - _NEARLY * faults / (whole + 1)
            likelihoods[encoding] = share * _likelihoods(sound, sound).get(encoding, 0.0)
    if not (any(map(likelihoods.get, _USED)) or data.isascii() or _NO_TEXT.search(data)) and is_valid(data, "cp1252"):
        western = data.decode("cp1252")
        if not _oddness(western) and _may_be_western(western):
            # A word or two without anything odd.
            return "cp1252", 0.0
    candidates = (encoding for encoding in (*_USED, *likelihoods) if likelihoods.get(encoding, 0.0) > 0.0)
    likely = max(candidates, key=likelihoods.__getitem__, default=None)
    return likely, likelihoods.get(likely or "", 0.0)


def _likelihoods(sample: bytes, data: bytes) -> dict[str, float]:
    """Return {encoding: likelihood} of encodings in which all of the bytes are valid and the sample is likely."""
    likelihoods = _judged(sample, data)
    likely = max(_USED, key=lambda encoding: likelihoods.get(encoding, 0.0))
    western = [encoding for encoding in _WESTERN_ENCODINGS if _is_western(sample.decode(encoding, "ignore"))]
    # What both Windows and DOS may have written is mostly of Windows.
    if likely in (western[:1] if "cp1252" in western else western) or not _is_amid_english(sample):
        return likelihoods
    # English words say nothing about the encoding of a name in another language.
    return _judged(b" ".join(_WORD_BEYOND_ASCII.findall(sample)), data, _WESTERN)


def _judged(sample: bytes, data: bytes, western: float = 1.0) -> dict[str, float]:
    """Return the likelihoods by a sample alone; that of cp1252 is multiplied."""
    # It takes a tenth of a second, and most files are UTF-8.
    import chardet

    likelihoods: dict[str, float] = {}
    signs = len(_WINDOWS_SIGN.findall(sample))
    has_windows_signs = 0 < sum(map(len, _RUN.findall(sample))) <= 2 * signs
    for item in chardet.detect_all(
        sample,
        ignore_threshold=True,
        encoding_era=chardet.EncodingEra.ALL & ~chardet.EncodingEra.MAINFRAME,
        compat_names=False,
    ):
        if item["confidence"] * western < max(likelihoods.values(), default=0.0):
            # Likelier encodings come first, and later ones cannot get likelier.
            break
        if encoding := _first_valid(encodings_of_name(item["encoding"]), data):
            text = sample.decode(encoding, "ignore")[:_LOOKED_AT]
            odd = max(_oddness(text), _share_of_rare(text) if encoding == "cp949" else 0.0)
            weight = western if encoding == "cp1252" else 1 if encoding in _USED else _RARER
            likelihood = item["confidence"] * max(0.0, 1 - odd) * weight
            # For single-byte encodings.
            if has_windows_signs and len(text) == len(sample[:_LOOKED_AT]) and not encoding.startswith("cp125"):
                continue
            if encoding in _USED or likelihood > _LEAST_LIKELY:
                likelihoods[encoding] = max(likelihood, likelihoods.get(encoding, 0.0))
    return likelihoods


def _is_western(text: str) -> bool:
    """Whether the letters beyond ASCII stand as in words of Western languages."""
    return not _oddness(text) and not _NOT_WESTERN.search(text.lower())


def _is_amid_english(data: bytes) -> bool:
    """Whether the words of a text that are all ASCII are English."""
    words = _WORD_BEYOND_ASCII.sub(b" ", data).decode("ascii").lower().split()
    english = sum(word in ENGLISH_WORDS for word in words)
    return english > sum(word in FOREIGN_WORDS for word in words) and english >= _ENGLISH * len(words)


def _oddness(text: str) -> float:
    """Return the share of letters beyond ASCII that stand as in no word."""
    return len(_ODD.findall(text)) / max(1, len(_BEYOND_ASCII.findall(text)))


def _share_of_rare(text: str) -> float:
    """Return the share of Korean syllables that the older standard lacks: text of another encoding has many of them by
    chance.
    """
    syllables = "".join(_BEYOND_ASCII.findall(text))
    return 1 - len(syllables.encode("euc_kr", "ignore").decode("euc_kr")) / max(1, len(syllables))


def _looks_odd(data: bytes, encoding: str) -> bool:
    return _oddness(data[:_SAMPLE].decode(encoding, "replace")) > _MOST_ODD


def is_valid(data: bytes, encoding: str) -> bool:
    """Whether all bytes are text in an encoding."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
