"""Recognition by Tesseract, a program of the machine: scripts that rapidocr does not read."""

import csv
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING

from pg_graphrag.beside.readers.ocr.lines import RecognisedLine, confidence_of
from pg_graphrag.ground.errors import GraphRAGError

if TYPE_CHECKING:
    from PIL import Image

_PROGRAM = "tesseract"
_SECONDS = 120
# Languages of a script, those that are installed; English beside them, as in most documents.
_OF_SCRIPT = {
    "Arabic": "ara fas urd",
    "Cyrillic": "rus ukr bul srp",
    "Devanagari": "hin mar nep san",
    "Thai": "tha",
    "Hebrew": "heb",
    "Greek": "ell",
    "Hangul": "kor",
    "Korean": "kor",
    "Japanese": "jpn",
    "Han": "chi_sim chi_tra",
    "Bengali": "ben",
    "Tamil": "tam",
    "Telugu": "tel",
    "Georgian": "kat",
    "Armenian": "hye",
    "Latin": "eng deu fra spa ita por nld pol",
}
_WORD_LEVEL = "5"
# Words of a line with a wider gap, in heights of the line, are cells.
_GAP = 1.3


class TesseractEngine:
    """Recognises what Tesseract's installed languages cover; the script of a page decides which.

    Raises
    ------
    GraphRAGError
        58P01 where the program is not installed.
    """

    def __init__(self, threads: int):
        self._threads = threads
        self._installed = languages()

    def lines(self, image: "Image.Image") -> list[RecognisedLine]:
        """Return the lines of a picture."""
        buffer = BytesIO()
        image.convert("L").save(buffer, "PNG", compress_level=1)
        osd = self._run(buffer.getvalue(), "--psm", "0") if "osd" in self._installed else None
        # It fails where there are but a few letters.
        script = _script(osd.stdout.decode(errors="replace")) if osd else ""
        chosen = [name for name in _OF_SCRIPT.get(script, "").split() if name in self._installed]
        chosen += [name for name in ("eng",) if name in self._installed and name not in chosen]
        done = self._run(buffer.getvalue(), "-l", "+".join(chosen or self._installed[:1]), "tsv")
        if done.returncode:
            raise RuntimeError(f"{_PROGRAM} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
        return lines_of_table(done.stdout.decode(errors="replace"))

    def _run(self, data: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [_PROGRAM, "-", "-", "--dpi", "300", *options],
            input=data,
            capture_output=True,
            timeout=_SECONDS,
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


def _script(osd_output: str) -> str:
    return next((line.partition(": ")[2].strip() for line in osd_output.splitlines() if line.startswith("Script:")), "")


def lines_of_table(table: str) -> list[RecognisedLine]:
    """Return the words of Tesseract's table as lines; cells of a table are lines of their own."""
    lines: list[list[RecognisedLine]] = []
    line: tuple[str, ...] = ()
    for row in csv.DictReader(table.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
        text = (row.get("text") or "").strip()
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
    text = " ".join(word.text for word in words)
    return _line_of(text, confidence_of(words), min(xs), min(ys), max(xs), max(ys))
