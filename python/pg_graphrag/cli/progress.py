"""The progress of indexing on a terminal, or as a line now and then where there is none."""

import shutil
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import TextIO

from pg_graphrag.client.results import Progress

# Seconds: what the rate is taken over, and between two lines where nothing can be redrawn.
_RATE_SPAN = 20.0
_LINE_INTERVAL = 10.0
_MAX_BAR = 30


def total(rows: Sequence[Progress]) -> Progress:
    """Add up the progress of several corpora."""
    oldest = [row.oldest_pending for row in rows if row.oldest_pending is not None]
    return Progress(
        corpus="",
        documents=sum(row.documents for row in rows),
        indexed=sum(row.indexed for row in rows),
        pending=sum(row.pending for row in rows),
        failed=sum(row.failed for row in rows),
        chunks=sum(row.chunks for row in rows),
        entities=sum(row.entities for row in rows),
        relationships=sum(row.relationships for row in rows),
        jobs=sum(row.jobs for row in rows),
        leased=sum(row.leased for row in rows),
        oldest_pending=min(oldest, default=None),
        replication_lag=next((row.replication_lag for row in rows), None),
    )


class Display:
    """Shows a `Progress` as often as it is given one.

    Parameters
    ----------
    stream : TextIO, optional
        Where to; standard error by default. A terminal gets one line that is redrawn, anything else a new line every
        ten seconds.
    """

    def __init__(self, stream: TextIO | None = None):
        self._stream = sys.stderr if stream is None else stream
        self._redraws = self._stream.isatty()
        self._seen: deque[tuple[float, int]] = deque()
        self._last_line = float("-inf")
        self._shown: Progress | None = None

    def update(self, progress: Progress) -> None:
        """Show `progress`, with the rate since the earlier ones."""
        now = time.monotonic()
        self._seen.append((now, progress.indexed + progress.failed))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _RATE_SPAN:
            self._seen.popleft()
        self._shown = progress
        if self._redraws:
            width = shutil.get_terminal_size().columns
            self._stream.write(f"\r{line(progress, self._rate(), width)}\x1b[K")
            self._stream.flush()
        elif now - self._last_line >= _LINE_INTERVAL:
            self._last_line = now
            print(line(progress, self._rate()), file=self._stream, flush=True)

    def close(self) -> None:
        """Leave the last state standing."""
        if self._redraws:
            self._stream.write("\n")
            self._stream.flush()
        elif self._shown is not None:
            print(line(self._shown, None), file=self._stream, flush=True)

    def _rate(self) -> float | None:
        (start, before), (now, done) = self._seen[0], self._seen[-1]
        return (done - before) / (now - start) if now > start and done > before else None


def line(progress: Progress, rate: float | None, width: int | None = None) -> str:
    """Return one line of text: done, documents, chunks, entities, relationships, rate and time left.

    Parameters
    ----------
    rate : float or None
        Documents a second; None when unknown.
    width : int, optional
        Columns of the terminal: the line has a bar and fits; no bar when absent.
    """
    done = progress.documents - progress.pending
    share = done / progress.documents if progress.documents else 1.0
    parts = [f"{int(share * 100)}%", f"{done:,}/{progress.documents:,} documents"]
    parts += [f"{progress.failed:,} failed"] if progress.failed else []
    parts += [f"{progress.chunks:,} chunks", f"{progress.entities:,} entities"]
    parts += [f"{progress.relationships:,} relationships"]
    if progress.pending:
        if rate:
            parts += [f"{rate:.1f} documents/s", f"{_clock(progress.pending / rate)} left"]
        else:
            parts += [f"{progress.leased:,} at work" if progress.leased else "waiting for a worker"]
    elif progress.jobs:
        parts += ["finishing"]
    text = ", ".join(parts)
    if width is None:
        return text
    bar = min(_MAX_BAR, width - len(text) - 4)
    if bar >= 5:
        filled = int(share * bar)
        text = f"[{'#' * filled}{'.' * (bar - filled)}] {text}"
    return text[: width - 1]


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
