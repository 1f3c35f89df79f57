"""Recognition by rapidocr: PP-OCRv6 on OpenVINO, with the models that its wheel carries."""

import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pg_graphrag.beside.readers.ocr.lines import TALL, RecognisedLine, confidence_of, share
from pg_graphrag.ground.numeric import np

if TYPE_CHECKING:
    from PIL import Image

# What is sought is sought in a picture of this size; what is found is read in the picture as it is.
_SOUGHT_IN, _SMALL, _FEW = 2000, 960, 6
# Lines that are less sure may stand on their heads, and do where they are so much surer then.
_UPRIGHT, _SURER = 0.85, 0.05
_MOSTLY = 0.5
_HAN_OR_KANA = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
# The long vowel of a column is read as the number one.
_LONG_VOWEL = re.compile("(?<=[\u30a1-\u30fa\u30fc])一(?![\u4e00-\u9fff])")


class RapidEngine:
    """Recognises Latin letters, Chinese and Japanese. One thread at a time uses it.

    Parameters
    ----------
    threads : int
        Of OpenVINO for one picture.
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

    def lines(self, image: "Image.Image") -> list[RecognisedLine]:
        """Return the lines of a picture, as of one that stands upright."""
        lines, is_flipped = self._lines(image)
        if turns := _turns(lines, is_flipped):
            lines, _ = self._lines(image.rotate(90 * turns, expand=True))
        return lines

    def _lines(self, image: "Image.Image") -> tuple[list[RecognisedLine], bool]:
        """Return the lines of a picture as it stands, and whether they are surer when they are turned on their heads."""
        pixels = np.asarray(image.convert("RGB"))[:, :, ::-1].copy()
        boxes = self._boxes(pixels)
        if len(boxes) < _FEW and max(image.size) > _SMALL:
            # Of a page that is nearly empty the lines are found in a smaller picture of it.
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
    """Return by how many quarters a page is to be turned to the left to be read; columns of Han and kana are read as they are."""
    if share(lines, lambda line: line.height > TALL * line.width) <= _MOSTLY:
        return 2 if is_flipped else 0
    if is_flipped:
        return 3
    letters = "".join(line.text for line in lines)
    return 0 if 2 * len(_HAN_OR_KANA.findall(letters)) > len(letters) else 1
