"""Encodings that no file names: texts of 42 languages as they were written before UTF-8, decoded by their bytes.

    python -m bench encodings [--source messages pages] [--files 12] [--beside chardet cchardet …] [--languages cs tr …]

A file counts as decoded when its text is the one that was encoded, to the last character. Texts are the messages of two programs
of GNOME (Debian's packages evolution-common and gnome-control-center-data) and the pages of GNOME's help (gnome-user-docs), which
are downloaded once; quotation marks and dashes that an encoding lacks are those of ASCII, as they were written then. Libraries to
compare with are those that are installed: chardet, cchardet, charset_normalizer, chardetng_py.
"""

from __future__ import annotations

import argparse
import gettext
import os
import random
import re
import tempfile
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.read_errors import ReadError
from pg_graphrag.beside.readers.source import Source

from bench.data.public_text import download
from bench.retrieval import help_pages

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pg_graphrag/messages"
PACKAGES = ("evolution-common", "gnome-control-center-data")
LENGTHS = (60, 200, 1_000, 10_000)
CENTRAL, WESTERN = "cp1250 iso8859-2 cp852", "cp1252 iso8859-15 cp850"
CYRILLIC = "cp1251 iso8859-5"
# In what each language was written before UTF-8, the most used first.
ENCODINGS = {
    **dict.fromkeys("cs sk pl hu sl hr sr@latin".split(), CENTRAL),
    "ro": f"{CENTRAL} iso8859-16",
    **dict.fromkeys("de fr es pt pt_BR it nl sv da nb fi ca gl is".split(), WESTERN),
    "tr": "cp1254 iso8859-9 cp857",
    "vi": "cp1258",
    **dict.fromkeys("lt lv et".split(), "cp1257 iso8859-13 cp775"),
    "el": "cp1253 iso8859-7 cp737",
    "he": "cp1255 iso8859-8 cp862",
    "ar": "cp1256 iso8859-6",
    "fa": "cp1256",
    "ru": f"{CYRILLIC} koi8-r cp866 mac-cyrillic",
    "uk": f"{CYRILLIC} koi8-u cp1125",
    **dict.fromkeys("be bg sr mk".split(), CYRILLIC),
    "th": "cp874",
    "ja": "cp932 euc-jp iso2022-jp",
    "zh_CN": "gb18030 gb2312 hz",
    "zh_TW": "big5 cp950",
    "ko": "cp949 euc-kr iso2022-kr",
}
_WIDER = {"euc-kr": "cp949", "gb2312": "gb18030", "big5": "cp950"}
# Of Romanian the letters with cedillas, which other encodings than iso8859-16 have instead of those with commas.
_CEDILLAS = str.maketrans("șțȘȚ", "şţŞŢ")
_TYPOGRAPHY = str.maketrans(
    {
        "‘": "'",
        "’": "'",
        "‚": "'",
        "“": '"',
        "”": '"',
        "„": '"',
        "«": '"',
        "»": '"',
        "–": "-",
        "—": "-",
        "…": "...",
        "•": "*",
        "→": "->",
    }
    | {"\u00a0": " ", "\u202f": " ", "\u2011": "-", "\u200e": "", "\u200f": "", "ˮ": "'", "ʼ": "'", "×": "x", "⌘": "*"}
)


def messages(language: str) -> Iterator[str]:
    """Yield the messages in a language that are sentences."""
    if not CACHE.exists():
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
            download(PACKAGES, Path(folder))
            (Path(folder) / "usr/share/locale").rename(CACHE)
    for file in sorted((CACHE / language / "LC_MESSAGES").glob("*.mo")):
        with file.open("rb") as opened:
            catalog: dict[object, str] = vars(gettext.GNUTranslations(opened))["_catalog"]
        for english, message in catalog.items():
            if english and message != english and len(message) >= 25 and " " in str(english):
                yield re.sub(r"_(?=\w)|</?\w+>|%[\w%]", "", message)


def pages(language: str) -> Iterator[str]:
    """Yield the pages of GNOME's help in a language, but those that are half in English."""
    for asked in help_pages.pages(help_pages.fetched(), language, 200):
        yield asked.page.content


SOURCES: dict[str, Callable[[str], Iterator[str]]] = {"messages": messages, "pages": pages}


def files(texts: list[str], encoding: str, length: int, most: int, seed: str) -> Iterator[tuple[bytes, str]]:
    """Yield what is of about so many bytes in an encoding, and its text."""
    chance = random.Random(seed)
    for _ in range(4 * most):
        start, parts, size = chance.randrange(len(texts)), [], 0
        while size < length:
            text = texts[(start + len(parts)) % len(texts)]
            parts.append(text)
            size += len(text.encode("utf-8" if encoding == "cp1258" else encoding, "replace")) + 1
        text = "\n".join(parts)
        data = encoded(text, encoding)
        # A text of ASCII alone is no question.
        while data and (len(data) > 1.1 * length or not (beyond := bool(re.search(rb"[\x80-\xff\x1b~]", data)))):
            if len(data) <= 1.1 * length and not beyond:
                data = None
                break
            text = text[: int(len(text) * max(0.5, length / len(data)))]
            data = encoded(text, encoding)
        if data:
            yield data, text
            most -= 1
            if not most:
                return


def encoded(text: str, encoding: str) -> bytes | None:
    """Return a text in an encoding; None where it lacks one of its letters."""
    try:
        if encoding == "cp1258":
            # Its letters carry hat, breve and horn; tones stand behind them.
            return b"".join(map(_vietnamese, text))
        return text.encode(encoding)
    except UnicodeEncodeError:
        return None


def _vietnamese(letter: str) -> bytes:
    try:
        return letter.encode("cp1258")
    except UnicodeEncodeError:
        parts = unicodedata.normalize("NFD", letter)
        tone = next((mark for mark in parts if mark in "\u0300\u0301\u0303\u0309\u0323"), "")
        return (
            (unicodedata.normalize("NFC", parts.replace(tone, "")) + tone).encode("cp1258")
            if tone
            else letter.encode("cp1258")
        )


def prepared(language: str, text: str, encoding: str) -> str:
    """Return a text as it was written in an encoding; lines that it cannot hold are left out."""
    text = text.translate(_CEDILLAS) if language == "ro" and encoding != "iso8859-16" else text
    if encoding == "iso8859-16":
        text = text.translate(str.maketrans("şţŞŢ", "șțȘȚ"))
    lines = []
    for line in unicodedata.normalize("NFC", text).split("\n"):
        if encoded(line, encoding) is None or encoding == "cp1258":
            line = line.translate(_TYPOGRAPHY)
        data = encoded(line, encoding)
        # What an encoding makes another character of: waves for dashes in Japanese, letters by their parts in Korean.
        if data is not None and unicodedata.normalize("NFC", data.decode(_WIDER.get(encoding, encoding))) == line:
            lines.append(line)
    return "\n".join(lines)


def ours(data: bytes) -> str | None:
    """Decode as a file is read."""
    try:
        return decode(data, Source(Path("a.txt"), "a.txt", "a.txt"))
    except ReadError:
        return None


def beside(name: str) -> Callable[[bytes], str | None]:
    """Return how a library decodes."""
    library = import_module(name)

    def named(data: bytes) -> str | None:
        if name == "charset_normalizer":
            match = library.from_bytes(data).best()
            return match.encoding if match else None
        if name == "chardetng_py":
            detector = library.EncodingDetector()
            detector.feed(data, last=True)
            return str(detector.guess(tld=None, allow_utf8=True))
        encoding = library.detect(data)["encoding"]
        return str(encoding) if encoding else None

    def decoded(data: bytes) -> str | None:
        try:
            return data.decode(named(data) or "utf-8")
        except (UnicodeDecodeError, LookupError):
            return None

    return decoded


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--source", nargs="+", choices=SOURCES, default=list(SOURCES))
    arguments.add_argument("--files", type=int, default=12, help="of each language, encoding and length (12)")
    arguments.add_argument("--languages", nargs="+", default=list(ENCODINGS))
    arguments.add_argument("--beside", nargs="+", default=[], help="libraries to compare with")
    options = arguments.parse_args()
    ways = {"pg_graphrag": ours} | {name: beside(name) for name in options.beside}
    for source in options.source:
        right: dict[tuple[str, str, str, int], int] = defaultdict(int)
        asked: dict[tuple[str, str, int], int] = defaultdict(int)
        spent: dict[str, float] = defaultdict(float)
        for language in options.languages:
            every = list(SOURCES[source](language))
            for encoding in ENCODINGS[language].split():
                texts = [text for text in (prepared(language, text, encoding) for text in every) if len(text) >= 25]
                if sum(map(len, texts)) < 20_000:
                    continue
                for length in LENGTHS:
                    for data, text in files(texts, encoding, length, options.files, f"{language} {encoding} {length}"):
                        asked[language, encoding, length] += 1
                        for way, decoded in ways.items():
                            start = time.process_time()
                            decoded_text = decoded(data)
                            spent[way] += time.process_time() - start
                            same = decoded_text is not None and unicodedata.normalize("NFC", decoded_text) == text
                            right[way, language, encoding, length] += same
        _print(source, list(ways), right, asked, spent)


def _print(
    source: str,
    ways: list[str],
    right: dict[tuple[str, str, str, int], int],
    asked: dict[tuple[str, str, int], int],
    spent: dict[str, float],
) -> None:
    heads = [f"{way} {length:,}" for way in ways for length in LENGTHS]
    print(
        f"\nshare of files decoded, {source}\n\n| language | encoding | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 2)}"
    )
    for language, encoding in dict.fromkeys(key[:2] for key in asked):
        shares = [
            f"{right[way, language, encoding, length] / max(1, asked[language, encoding, length]):.2f}"
            for way in ways
            for length in LENGTHS
        ]
        print(f"| {language} | {encoding} | {' | '.join(shares)} |")
    totals = []
    for way in ways:
        for length in LENGTHS:
            keys = [key for key in asked if key[2] == length]
            totals.append(f"{sum(right[way, *key] for key in keys) / max(1, sum(asked[key] for key in keys)):.3f}")
    print(f"| all {sum(asked.values())} | | {' | '.join(totals)} |")
    print("processor seconds: " + ", ".join(f"{way} {spent[way]:.1f}" for way in ways), flush=True)


if __name__ == "__main__":
    main()
