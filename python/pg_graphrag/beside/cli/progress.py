"""The progress of indexing: a line that changes on a terminal, else a new line now and then."""

import shutil
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import TextIO

from pg_graphrag.beside.client.results import Progress

# Seconds: what the rate is taken over, and between two lines where nothing can be redrawn.
# A batch of long documents takes a worker the better part of a minute, and counts when it is done.
_RATE_SPAN = 120.0
_LINE_INTERVAL = 10.0
_MAX_BAR = 30
_COUNTS = [field.name for field in fields(Progress) if field.type is int]


def total(rows: Sequence[Progress]) -> Progress:
    """Add up the progress of several corpora."""
    counts = {name: sum(getattr(row, name) for row in rows) for name in _COUNTS}
    first_waiting = min((row for row in rows if row.waiting), key=_until, default=None)
    oldest = [row.oldest_pending for row in rows if row.oldest_pending is not None]
    return Progress(
        corpus="",
        oldest_pending=min(oldest, default=None),
        waiting_until=first_waiting.waiting_until if first_waiting else None,
        waiting_for=first_waiting.waiting_for if first_waiting else None,
        reembedded=sum(part) if (part := [row.reembedded for row in rows if row.reembedded is not None]) else None,
        replication_lag=next((row.replication_lag for row in rows), None),
        embedding=None,
        embedding_advice=None,
        **counts,
    )


def _until(row: Progress) -> datetime:
    return row.waiting_until or datetime.max.replace(tzinfo=UTC)


class Display:
    """Shows each `Progress` that it is given.

    `stream`: where to; standard error by default. A terminal gets two lines that are redrawn, anything else a new line
    every ten seconds.
    """

    def __init__(self, stream: TextIO | None = None):
        self._stream = sys.stderr if stream is None else stream
        self._redraws = self._stream.isatty()
        self._samples: deque[tuple[float, int]] = deque()
        self._last_line = float("-inf")
        self._last_progress: Progress | None = None

    def update(self, progress: Progress) -> None:
        """Show `progress`, with the rate since the earlier ones."""
        now = time.monotonic()
        self._samples.append((now, progress.indexed + progress.failed))
        while len(self._samples) > 2 and now - self._samples[1][0] >= _RATE_SPAN:
            self._samples.popleft()
        self._last_progress = progress
        if self._redraws:
            bar, counts = lines(progress, self._rate(), shutil.get_terminal_size().columns)
            self._stream.write(f"\r{bar}\x1b[K\n{counts}\x1b[K\x1b[A")
            self._stream.flush()
        elif now - self._last_line >= _LINE_INTERVAL:
            self._last_line = now
            print(line(progress, self._rate()), file=self._stream, flush=True)

    def close(self) -> None:
        """Leave the last state standing."""
        if self._redraws:
            self._stream.write("\n\n")
            self._stream.flush()
        elif self._last_progress is not None:
            print(line(self._last_progress, None), file=self._stream, flush=True)

    def _rate(self) -> float | None:
        (start, first_count), (end, last_count) = self._samples[0], self._samples[-1]
        return (last_count - first_count) / (end - start) if end > start and last_count > first_count else None


def line(progress: Progress, rate: float | None) -> str:
    """Return one line of text: done, documents, chunks, entities, relationships, rate and time left.

    `rate`: documents a second; None when unknown.
    """
    return ", ".join(
        [
            f"{int(_share(progress) * 100)}%",
            *_document_counts(progress),
            *_graph_counts(progress),
            *_speed(progress, rate),
        ]
    )


def lines(progress: Progress, rate: float | None, width: int) -> tuple[str, str]:
    """Return two lines that fit a terminal: a bar with documents, rate and time left, and what was made of them.

    `rate`: documents a second; None when unknown.
    `width`: columns of the terminal.
    """
    share = _share(progress)
    text = f"{int(share * 100)}%, " + ", ".join([*_document_counts(progress), *_speed(progress, rate)])
    bar = min(_MAX_BAR, width - len(text) - 4)
    if bar >= 5:
        filled = int(share * bar)
        text = f"[{'#' * filled}{'.' * (bar - filled)}] {text}"
    return text[: width - 1], ", ".join(_graph_counts(progress))[: width - 1]


def _share(progress: Progress) -> float:
    return (progress.documents - progress.pending) / progress.documents if progress.documents else 1.0


def _document_counts(progress: Progress) -> list[str]:
    done = progress.documents - progress.pending
    counts = [f"{done:,}/{progress.documents:,} documents"]
    if progress.searchable > done:
        counts.append(f"{progress.searchable:,} searchable")
    return [*counts, f"{progress.failed:,} failed"] if progress.failed else counts


def _graph_counts(progress: Progress) -> list[str]:
    pending = [
        f"{count:,} {what}"
        for count, what in ((progress.vectors_pending, "without vectors"), (progress.graphs_pending, "without graph"))
        if count
    ]
    return [
        f"{progress.chunks:,} chunks" + (f" ({', '.join(pending)})" if pending else ""),
        f"{progress.entities:,} entities",
        f"{progress.relationships:,} relationships",
    ]


def _speed(progress: Progress, rate: float | None) -> list[str]:
    if not progress.pending:
        return ["finishing"] if progress.jobs else []
    if rate:
        return [f"{rate:.1f} documents/s", f"{_clock(progress.pending / rate)} left"]
    if progress.waiting and not progress.leased:
        return [f"{progress.waiting:,} waiting: {progress.waiting_for}"]
    return [f"{progress.leased:,} at work" if progress.leased else "waiting for a worker"]


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
