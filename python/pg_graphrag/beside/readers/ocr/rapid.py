"""Recognition by rapidocr: PP-OCRv6 on OpenVINO, with the models that its wheel carries."""

import logging
import re
from dataclasses import replace
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any

from pg_graphrag.beside.readers.ocr.lines import TALL, RecognisedLine, confidence_of, share
from pg_graphrag.ground.numeric import np

if TYPE_CHECKING:
    from PIL import Image

# Lines are located in a picture scaled to this size, and read in the original.
_SOUGHT_IN, _SMALL, _FEW = 2000, 960, 6
# Less certain lines may be upside down, and are if they get so much more certain when turned.
_UPRIGHT, _SURER = 0.85, 0.05
_MOSTLY = 0.5
_HAN_OR_KANA = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
# The long vowel of a column is read as the number one.
_LONG_VOWEL = re.compile("(?<=[\u30a1-\u30fa\u30fc])一(?![\u4e00-\u9fff])")

# How likely the recogniser must hold a blank to be where it sees no letter; and where a letter would stand alone beside it:
# bench/RESULTS.md, "Scans".
_LIKELY_BLANK, _LIKELY_AT_LETTER = 0.2, 0.4
# Letters from here on are written without blanks.
_FIRST_WIDE = "\u2e80"
# Engines read their first picture one after the other. For the first array of a process OpenVINO asks numpy for its version,
# behind a lock of C++: a thread that waits there keeps Python's lock, without which the one that asks never ends.
_FIRST_PICTURE = Lock()


class RapidEngine:
    """Recognises Latin letters, Chinese and Japanese. One thread at a time uses it.

    `threads`: of OpenVINO for one picture.
    """

    def __init__(self, threads: int):
        import rapidocr

        logging.getLogger("RapidOCR").setLevel(logging.CRITICAL)
        self._engine: Any = rapidocr.RapidOCR(
            params={
                **{f"{step}.engine_type": rapidocr.EngineType.OPENVINO for step in ("Det", "Cls", "Rec")},
                "EngineConfig.openvino.inference_num_threads": threads,
                "Global.log_level": "critical",
                "Global.max_side_len": _SOUGHT_IN,
            }
        )
        with _FIRST_PICTURE:
            _add_decoder(self._engine)

    def lines(self, image: "Image.Image") -> list[RecognisedLine]:
        """Return the lines of a picture, with places as if it stood upright."""
        lines, is_flipped = self._lines(image)
        if turns := _turns(lines, is_flipped):
            lines, _ = self._lines(image.rotate(90 * turns, expand=True))
        return lines

    def _lines(self, image: "Image.Image") -> tuple[list[RecognisedLine], bool]:
        """Return the lines of a picture as it stands, and whether they are surer when they are turned on their heads."""
        pixels = np.asarray(image.convert("RGB"))[:, :, ::-1].copy()
        boxes = self._boxes(pixels)
        if len(boxes) < _FEW and max(image.size) > _SMALL:
            # On a nearly empty page, lines are located in a smaller picture.
            small = image.convert("RGB")
            small.thumbnail((_SMALL, _SMALL))
            boxes_of_small = self._boxes(np.asarray(small)[:, :, ::-1].copy()) * np.float32(image.width / small.width)
            boxes = max(boxes, boxes_of_small, key=len)
        if not len(boxes):
            return [], False
        crops = self._engine.crop_text_regions(pixels, boxes)
        lines = self._read(boxes, crops)
        confidence = confidence_of(lines)
        if confidence >= _UPRIGHT:
            return lines, False
        # rapidocr's own classifier takes long lines of tilted pages for flipped ones.
        flipped = self._read(boxes, [crop[::-1, ::-1].copy() for crop in crops])
        return (flipped, True) if confidence_of(flipped) > confidence + _SURER else (lines, False)

    def _boxes(self, pixels: Any) -> Any:
        """Return the corners of lines, float32 (lines, 4, 2)."""
        boxes = self._engine(pixels, use_det=True, use_cls=False, use_rec=False).boxes
        return np.zeros((0, 4, 2), np.float32) if boxes is None else np.asarray(boxes, np.float32)

    def _read(self, boxes: Any, crops: list[Any]) -> list[RecognisedLine]:
        read = self._engine.recognize_txt(crops)
        lines: list[RecognisedLine] = []
        for box, text, score in zip(boxes, read.txts, read.scores, strict=True):
            corners: Any = tuple((float(x), float(y)) for x, y in box)
            line = RecognisedLine(corners, " ".join(text.split()), float(score))
            if line.text:
                lines.append(replace(line, text=_LONG_VOWEL.sub("ー", line.text)) if line.is_tall else line)
        return lines


def _turns(lines: list[RecognisedLine], is_flipped: bool) -> int:
    """Return by how many quarter turns to the left a page becomes readable; columns of Han and kana are read as they are."""
    if share(lines, lambda line: line.height > TALL * line.width) <= _MOSTLY:
        return 2 if is_flipped else 0
    if is_flipped:
        return 3
    letters = "".join(line.text for line in lines)
    return 0 if 2 * len(_HAN_OR_KANA.findall(letters)) > len(letters) else 1


def _add_decoder(engine: Any) -> None:
    # Its models are loaded at first use.
    engine.recognize_txt([np.zeros((48, 48, 3), np.uint8)])
    engine.text_rec.postprocess_op = LineDecoder(engine.text_rec.postprocess_op)


class LineDecoder:
    """Turns the recogniser's output for the columns of a line into text, and adds blanks that it nearly recognised."""

    def __init__(self, decoder: Any):
        self._decoder = decoder
        self._space: int = decoder.character.index(" ")

    def __call__(self, odds: Any, return_word_box: bool, *, wh_ratio_list: Any, max_wh_ratio: float) -> Any:
        """Return what rapidocr's decoder returns of odds, float32 (lines, columns, letters)."""
        best, likelihoods = odds.argmax(axis=2), odds.max(axis=2)
        for line, odds_of_space in zip(best, odds[:, :, self._space], strict=True):
            self._add_blanks(line, odds_of_space)
        return self._decoder.decode(
            best, likelihoods, return_word_box, wh_ratio_list, max_wh_ratio, remove_duplicate=True
        )

    def _add_blanks(self, line: Any, odds_of_space: Any) -> None:
        """Write blanks into a line's letter numbers; 0 is no letter."""
        places = np.flatnonzero((line != 0) & (np.diff(line, prepend=0) != 0))
        letters = [self._decoder.character[number] for number in line[places]]
        gaps = list(pairwise(places))
        odds = [
            0.0 if " " in pair or max(pair) >= _FIRST_WIDE else float(odds_of_space[first : second + 1].max())
            for pair, (first, second) in zip(pairwise(letters), gaps, strict=True)
        ]
        ends = [
            True,
            *(" " in pair or gap >= _LIKELY_BLANK for pair, gap in zip(pairwise(letters), odds, strict=True)),
            True,
        ]
        for index, (first, second) in enumerate(gaps):
            is_alone = (ends[index] and letters[index].isalpha()) or (ends[index + 2] and letters[index + 1].isalpha())
            free = np.flatnonzero(line[first:second] == 0)
            if len(free) and odds[index] >= (_LIKELY_AT_LETTER if is_alone else _LIKELY_BLANK):
                line[first + free[0]] = self._space
