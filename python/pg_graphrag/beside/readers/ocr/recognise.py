"""Recognises text in pictures, several at a time, each with the engine's confidence."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from queue import Empty, SimpleQueue
from time import sleep
from typing import TYPE_CHECKING, Any, Protocol

from pg_graphrag.beside.readers.layout.page import Page
from pg_graphrag.beside.readers.ocr.lines import RecognisedLine, confidence_of, page_of_lines, read_share_of
from pg_graphrag.beside.readers.read_errors import ReadProgress
from pg_graphrag.beside.readers.source import Source, numbers_text
from pg_graphrag.ground.errors import GraphRAGError

if TYPE_CHECKING:
    from PIL import Image

# What to do about scripts that an engine does not read.
_OTHER_SCRIPTS = {
    "rapidocr": "for scripts other than Latin, Chinese and Japanese, take --ocr-engine tesseract",
    "tesseract": "where Tesseract lacks the language, install it (tesseract-ocr-rus for Russian)",
}
# Pages of a document.
MAX_PAGES = 2000
# A page or picture with less confidence has no text: see bench/RESULTS.md, "Scans".
LEAST_CONFIDENCE = 0.85
# Fewer letters are a pattern; but so many lines without a readable one are writing.
LEAST_LETTERS, _LEAST_LINES = 3, 3
# On an otherwise certain page, a line with less is a pattern, or a stroke.
_LEAST_OF_LINE = 0.5
# A page with a smaller share read is in another script; pages in a known one have .98 and more.
_MOSTLY_READ = 0.7
# Engines at work at once: each holds some 300 MB.
_MOST_AT_ONCE = 4
# Seconds after which who waits for his turn looks again.
_PAUSE = 0.2


class Engine(Protocol):
    """Recognises one picture at a time."""

    def lines(self, image: "Image.Image") -> list[RecognisedLine]:
        """Return the lines of a picture, with places as if it stood upright."""
        ...


@dataclass(frozen=True, slots=True)
class Recognised:
    """The text that was recognised in a picture.

    `page`: blocks in reading order, without very uncertain lines.
    `confidence`: from 0 to 1, the mean of all lines.
    `error`: why recognition was impossible.
    `lines`: how many lines were found, read or not.
    `is_other_script`: whether most letters are in a script that the engine does not know.
    """

    page: Page
    confidence: float
    error: str | None = None
    lines: int = 0
    is_other_script: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether it may stand in a document."""
        return bool(self.page) and self.confidence >= LEAST_CONFIDENCE

    @property
    def is_named(self) -> bool:
        """Whether a left-out picture is named in a warning: recognition failed, or its writing cannot be read."""
        letters = "".join(line.text for block in self.page for line in block.lines)
        is_text = sum(map(str.isalnum, letters)) >= LEAST_LETTERS or self.lines >= _LEAST_LINES
        return self.error is not None or is_text


def recognised_pages(
    source: Source, images: Iterable[tuple[int, "Image.Image"]], count: int, by_number: dict[int, Recognised]
) -> Iterator[ReadProgress]:
    """Recognise pages or pictures into `by_number`, {number: recognised text}, and yield progress."""
    if not count:
        return
    turns = source.options.ocr_turns
    with turns.open("rb") if turns else nullcontext() as turn:
        while turn and not _is_locked(turn.fileno()):
            yield ReadProgress(source.path, 0, count)
            sleep(_PAUSE)
        most_at_once = 1 if turn else _MOST_AT_ONCE
        for done, (number, recognised) in enumerate(
            recognise(source.options.ocr_engine, images, count, most_at_once), 1
        ):
            by_number[number] = recognised
            yield ReadProgress(source.path, done, count)


def _is_locked(file: int) -> bool:
    """Lock a file until it is closed, or its process ends; False if another process has the lock."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def metadata_of(source: Source, what: str, by_number: Mapping[int, Recognised]) -> dict[str, Any]:
    """Return the metadata of recognised text: ``{"engine": …, "pages": {"3": 0.93}}``; nothing if nothing was recognised."""
    sure = {str(number): round(item.confidence, 2) for number, item in sorted(by_number.items()) if item.is_sure}
    return {"recognised": {"engine": source.options.ocr_engine, what: sure}} if sure else {}


def unsure_text(source: Source, what: str, by_number: Mapping[int, Recognised]) -> str | None:
    """Return the warning about pages that cannot be read, or are too uncertain; None if there are none."""
    reasons: list[str] = []
    named = {number: item for number, item in sorted(by_number.items()) if item.is_named and not item.is_sure}
    if failed := {number: item.error for number, item in named.items() if item.error}:
        reasons.append(f"{numbers_text(what, list(failed))} cannot be recognised: {next(iter(failed.values()))}")
    if unread := [number for number, item in named.items() if item.is_other_script]:
        reasons.append(
            f"{numbers_text(what, unread)} {'are' if len(unread) > 1 else 'is'} in a script that rapidocr does not read: "
            f"{_OTHER_SCRIPTS['rapidocr']}"
        )
    if unsure := {
        number: item.confidence for number, item in named.items() if not item.error and not item.is_other_script
    }:
        reasons.append(
            f"recognised text of {numbers_text(what, list(unsure))} left out: its confidence is {min(unsure.values()):.2f}"
            f"{'' if len(unsure) == 1 else f' to {max(unsure.values()):.2f}'}, below {LEAST_CONFIDENCE}; scan it anew, or, "
            f"{_OTHER_SCRIPTS[source.options.ocr_engine]}"
        )
    return "; ".join(reasons) or None


def recognise(
    engine: str, images: Iterable[tuple[int, "Image.Image"]], count: int, most_at_once: int
) -> Iterator[tuple[int, Recognised]]:
    """Yield (number, recognised text) of pictures, in their order.

    `engine`: one of ``rapidocr`` and ``tesseract``.
    `images` (iterable of (int, image)): numbers and pictures; each is taken in this thread when its turn is near.
    `count`: how many there are.
    `most_at_once`: engines that work at the same time.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    at_once = max(1, min(cores, count, most_at_once))
    threads = max(1, cores // at_once)
    idle = _engines(engine, threads)
    pool = ThreadPoolExecutor(at_once)
    try:
        waiting: deque[tuple[int, Future[Recognised]]] = deque()
        for number, image in images:
            waiting.append((number, pool.submit(_recognised, engine, idle, threads, image)))
            if len(waiting) > at_once:
                first, result = waiting.popleft()
                yield first, result.result()
        for number, result in waiting:
            yield number, result.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@lru_cache(maxsize=1)
def _engines(engine: str, threads: int) -> "SimpleQueue[Engine]":
    """Return the engines of this process that nobody uses; kept, since models take a second to load, but of one kind."""
    return SimpleQueue()


def _recognised(engine: str, idle: "SimpleQueue[Engine]", threads: int, image: "Image.Image") -> Recognised:
    try:
        recogniser = idle.get_nowait()
    except Empty:
        recogniser = _new_engine(engine, threads)
    try:
        lines = recogniser.lines(image)
    except GraphRAGError:
        raise
    except Exception as error:
        # If a page breaks the engine, a new engine reads the others.
        last_line = (str(error).strip().splitlines() or [""])[-1][:200]
        return Recognised([], 0.0, f"{type(error).__name__}: {last_line}")
    idle.put(recogniser)
    return Recognised(
        page_of_lines([line for line in lines if line.sureness >= _LEAST_OF_LINE]),
        confidence_of(lines),
        lines=len(lines),
        is_other_script=engine == "rapidocr" and read_share_of(lines) < _MOSTLY_READ,
    )


def _new_engine(engine: str, threads: int) -> Engine:
    if engine == "tesseract":
        from pg_graphrag.beside.readers.ocr.tesseract import TesseractEngine

        return TesseractEngine(threads)
    from pg_graphrag.beside.readers.ocr.rapid import RapidEngine

    return RapidEngine(threads)
