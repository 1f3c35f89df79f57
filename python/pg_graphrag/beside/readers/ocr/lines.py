"""Lines that an OCR engine recognised, with their places, arranged as a page in reading order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import atan2, cos, hypot, sin
from statistics import median
from typing import TypeAlias

from pg_graphrag.beside.readers.layout.blocks import page_of
from pg_graphrag.beside.readers.layout.page import Page, Segment

Point: TypeAlias = tuple[float, float]
# A line is upright text, or a column, if its box is by this factor taller than wide.
TALL = 1.5
# Sizes of type that differ less are one: a box is as high as the letters that stand in its line.
_ALIKE = 1.3
# The share of a line's box that its type fills.
_TYPE_OF_BOX = 0.85
_MARGIN = 0.2
# In an unknown script an engine recognises only a few letters. A line longer than so many of its heights for each
# letter was not read whole.
_SPARSEST = 2.5


@dataclass(frozen=True, slots=True)
class RecognisedLine:
    """A line of text in a picture.

    `corners` (sequence of points): top left, top right, bottom right and bottom left, in pixels from the top left of the
      picture.
    `confidence`: from 0 to 1, of its letters in the mean.
    """

    corners: tuple[Point, Point, Point, Point]
    text: str
    confidence: float

    @property
    def width(self) -> float:
        """The length of the upper edge, in pixels."""
        return _distance(self.corners[0], self.corners[1])

    @property
    def height(self) -> float:
        """The length of the left edge, in pixels."""
        return _distance(self.corners[0], self.corners[3])

    @property
    def is_tall(self) -> bool:
        """Whether it is a column of letters, or a line set sideways."""
        return self.height > TALL * self.width and len(self.text) > 1

    @property
    def read_share(self) -> float:
        """From 0 to 1: less if a line has too few letters for its length, so that some of it was not read."""
        long, short = max(self.width, self.height), max(1.0, min(self.width, self.height))
        # One more, since a letter alone may be narrow.
        return min(1.0, _SPARSEST * short * (len(self.text) + 1) / max(1.0, long))

    @property
    def sureness(self) -> float:
        """Confidence that this is the written text, from 0 to 1."""
        return self.confidence * self.read_share


def confidence_of(lines: Sequence[RecognisedLine]) -> float:
    """Return the confidence in the text of a page, from 0 to 1: the mean of its lines, weighted by length; 0 without lines."""
    return _mean(lines, lambda line: line.sureness)


def read_share_of(lines: Sequence[RecognisedLine]) -> float:
    """Return which share of the text on a page was read, from 0 to 1; 0 without lines."""
    return _mean(lines, lambda line: line.read_share)


def _mean(lines: Sequence[RecognisedLine], value: Callable[[RecognisedLine], float]) -> float:
    lengths = [max(line.width, line.height) for line in lines]
    total = sum(lengths)
    return sum(value(line) * length for line, length in zip(lines, lengths, strict=True)) / total if total else 0.0


def page_of_lines(lines: Sequence[RecognisedLine]) -> Page:
    """Return recognised lines as a page: columns and tables as in a PDF, text set in columns from the right."""
    is_vertical = share(lines, lambda line: line.is_tall) > 0.5
    angle = 0.0 if is_vertical else _tilt(lines)
    # As if its type had ten points: what parts lines and columns is in points.
    scale = 10.0 / max(1.0, median([min(line.width, line.height) for line in lines] or [1.0]))
    boxes = [[_turned(point, -angle) for point in line.corners] for line in lines]
    if is_vertical:
        # A column is a line, the first one at the right; below is beside.
        right = max((x for box in boxes for x, _ in box), default=0.0)
        boxes = [[(y, right - x) for x, y in box] for box in boxes]
    segments: list[Segment] = []
    for line, box in zip(lines, boxes, strict=True):
        xs, ys = [x * scale for x, _ in box], [-y * scale for _, y in box]
        size = (line.width if is_vertical else line.height) * scale
        # Boxes are wider than their contents: adjacent words would overlap.
        margin = min(_MARGIN * size, (max(xs) - min(xs)) / 4)
        box_of_type = (min(xs) + margin, min(ys), max(xs) - margin, max(ys))
        segments.append(Segment(*box_of_type, _TYPE_OF_BOX * size, line.text))
    _even_sizes(segments)
    return page_of(segments)[0]


def share(lines: Sequence[RecognisedLine], holds: Callable[[RecognisedLine], bool]) -> float:
    """Return the share of letters that are in lines which fulfil a condition."""
    letters = sum(len(line.text) for line in lines)
    return sum(len(line.text) for line in lines if holds(line)) / letters if letters else 0.0


def _even_sizes(segments: Sequence[Segment]) -> None:
    """Give the type of most text one size, so that larger type is a heading."""
    letters = [segment.size for segment in segments for _ in segment.text]
    body = median(letters) if letters else 0.0
    for segment in segments:
        if body / _ALIKE < segment.size < body * _ALIKE:
            segment.size = body


def _tilt(lines: Sequence[RecognisedLine]) -> float:
    """Return the angle by which lines slope down to the right, in radians, measured on long lines."""
    longest = sorted(lines, key=lambda line: line.width)[-max(1, len(lines) // 2) :]
    angles = [_angle(line) for line in longest if line.width > 4 * line.height]
    return median(angles) if angles else 0.0


def _angle(line: RecognisedLine) -> float:
    (x0, y0), (x1, y1) = line.corners[:2]
    return atan2(y1 - y0, x1 - x0)


def _turned(point: Point, angle: float) -> Point:
    x, y = point
    return x * cos(angle) - y * sin(angle), x * sin(angle) + y * cos(angle)


def _distance(a: Point, b: Point) -> float:
    return hypot(b[0] - a[0], b[1] - a[1])
