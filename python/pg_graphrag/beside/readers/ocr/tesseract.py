"""Recognition by the program Tesseract, for scripts that rapidocr does not read."""

import csv
import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING

from pg_graphrag.beside.readers.ocr.lines import RecognisedLine, confidence_of
from pg_graphrag.ground.errors import GraphRAGError

if TYPE_CHECKING:
    from PIL import Image

_PROGRAM = "tesseract"
# For all readings of a page: fewer than a page may take in all.
_SECONDS = 120
# Languages of a script; English, or the first of these that is installed, is read beside another script.
_OF_SCRIPT = {
    "Arabic": "ara fas urd", "Cyrillic": "rus ukr bul srp", "Devanagari": "hin mar nep san", "Thai": "tha",
    "Hebrew": "heb", "Greek": "ell", "Korean": "kor", "Japanese": "jpn", "Han": "chi_sim chi_tra", "Bengali": "ben",
    "Tamil": "tam", "Telugu": "tel", "Georgian": "kat", "Armenian": "hye", "Latin": "eng deu fra spa ita por nld pol",
}  # fmt: skip
# Tesseract has two names for one.
_NAMES = {"Hangul": "Korean"}
_LATIN = "Latin"
_LATIN_LETTER = re.compile("[A-Za-z]")
# Below this confidence other scripts are tried, where none was seen on a page, or fewer letters than these were read.
_UNSURE, _FEW_LETTERS = 0.85, 50
# How sure Tesseract must be that a page is turned.
_SURE_OF_TURN = 2.0
# Scripts whose letters Tesseract takes for words, and how wide a gap, in heights of the line, is one all the same.
_BY_LETTER = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_BLANK = 0.3
# What says how to write a line of two directions; text has them in the order in which they are read.
_DIRECTIONS = dict.fromkeys((0x200E, 0x200F, *range(0x202A, 0x202F)))
_WORD_LEVEL = "5"
# Words of a line with a wider gap, in heights of the line, are cells.
_GAP = 1.3


class TesseractEngine:
    """Recognises what Tesseract's installed languages cover; the script of a page decides which.

    Raises GraphRAGError: 58P01 where the program is not installed.
    """

    def __init__(self, threads: int):
        self._threads = threads
        self._installed = languages()
        self._end = 0.0  # of the time for the page at hand

    def lines(self, image: "Image.Image") -> list[RecognisedLine]:
        """Return the lines of a picture, with places as if it stood upright."""
        self._end = monotonic() + _SECONDS
        image = image.convert("L")
        script, turn = self._seen(image)
        if turn:
            image = image.rotate(-turn, expand=True)
        data = _png(image)
        likely = [*self._languages(script), *self._languages(_LATIN)[:1]]
        best = self._read(data, likely or [name for name in self._installed if name != "osd"])
        # When the time is over, the text read so far counts.
        with suppress(subprocess.TimeoutExpired):
            if script != _LATIN and any(map(_LATIN_LETTER.search, (line.text for line in best))):
                # English beside another script may claim words of that script.
                best = max(best, self._read(data, self._languages(script)), key=confidence_of)
            # With few letters, the script is guessed wrong, or not at all.
            is_guess = script not in _OF_SCRIPT or sum(len(line.text) for line in best) < _FEW_LETTERS
            for other in (name for name in _OF_SCRIPT if is_guess and name != script):
                if best and confidence_of(best) < _UNSURE:
                    best = max(best, self._read(data, self._languages(other)), key=confidence_of)
        return best

    def _seen(self, image: "Image.Image") -> tuple[str, int]:
        """Return the script of most letters, and by how many degrees to the right the picture must be turned."""
        if "osd" not in self._installed:
            return "", 0
        # It fails where there are but a few letters.
        osd = self._run(_png(image), "--psm", "0").stdout.decode(errors="replace")
        values = dict(line.split(": ", 1) for line in osd.splitlines() if ": " in line)
        is_turned = float(values.get("Orientation confidence", 0)) >= _SURE_OF_TURN
        return _NAMES.get(script := values.get("Script", "").strip(), script), int(values["Rotate"]) if is_turned else 0

    def _languages(self, script: str) -> list[str]:
        """Return the installed languages of a script."""
        return [name for name in _OF_SCRIPT.get(script, "").split() if name in self._installed]

    def _read(self, data: bytes, chosen: Sequence[str]) -> list[RecognisedLine]:
        """Return the lines of a picture in some languages; none where none of these is installed."""
        installed = [name for name in dict.fromkeys(chosen) if name in self._installed]
        lines: list[RecognisedLine] = []
        # On a page with few lines it finds no columns; then it must assume one.
        for layout in ("3", "4"):
            if installed and not lines:
                done = self._run(data, "--psm", layout, "-l", "+".join(installed), "tsv")
                if done.returncode:
                    reason = done.stderr.decode(errors="replace")
                    raise RuntimeError(f"{_PROGRAM} ended with {done.returncode}: {reason}")
                lines = lines_of_table(done.stdout.decode(errors="replace"))
        return lines

    def _run(self, data: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [_PROGRAM, "-", "-", "--dpi", "300", *options],
            input=data,
            capture_output=True,
            timeout=max(0.0, self._end - monotonic()),
            check=False,
            env={**os.environ, "OMP_THREAD_LIMIT": str(self._threads)},
        )


@cache
def languages() -> list[str]:
    """Return the languages that Tesseract has here."""
    try:
        done = subprocess.run([_PROGRAM, "--list-langs"], capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        raise GraphRAGError(
            "Tesseract is not installed",
            sqlstate="58P01",
            hint="Debian and Ubuntu: apt-get install tesseract-ocr, and tesseract-ocr-ara and the like for languages.",
        ) from None
    return done.stdout.splitlines()[1:]


def _png(image: "Image.Image") -> bytes:
    image.save(buffer := BytesIO(), "PNG", compress_level=1)
    return buffer.getvalue()


def lines_of_table(table: str) -> list[RecognisedLine]:
    """Return the words of Tesseract's table as lines; cells of a table are lines of their own."""
    lines: list[list[RecognisedLine]] = []
    line: tuple[str, ...] = ()
    for row in csv.DictReader(table.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
        text = (row.get("text") or "").translate(_DIRECTIONS).strip()
        if row.get("level") != _WORD_LEVEL or not text:
            continue
        x0, y0 = float(row["left"]), float(row["top"])
        word = _line_of(text, float(row["conf"]) / 100, x0, y0, x0 + float(row["width"]), y0 + float(row["height"]))
        line_of_word = (row["block_num"], row["par_num"], row["line_num"])
        if line_of_word != line or _gap(lines[-1][-1], word) > _GAP * word.height:
            lines.append([])
        line = line_of_word
        lines[-1].append(word)
    return [_joined(words) for words in lines]


def _line_of(text: str, confidence: float, x0: float, y0: float, x1: float, y1: float) -> RecognisedLine:
    return RecognisedLine(((x0, y0), (x1, y0), (x1, y1), (x0, y1)), text, confidence)


def _gap(first: RecognisedLine, second: RecognisedLine) -> float:
    """Return how far two words are apart, in pixels, whichever is at the left."""
    return max(second.corners[0][0] - first.corners[1][0], first.corners[0][0] - second.corners[1][0])


def _joined(words: Sequence[RecognisedLine]) -> RecognisedLine:
    xs, ys = zip(*(point for word in words for point in word.corners), strict=True)
    text = words[0].text
    height = max(ys) - min(ys)
    for first, second in pairwise(words):
        is_one = _BY_LETTER.match(first.text[-1]) and _BY_LETTER.match(second.text[0])
        text += f"{'' if is_one and _gap(first, second) < _BLANK * height else ' '}{second.text}"
    return _line_of(text, confidence_of(words), min(xs), min(ys), max(xs), max(ys))
