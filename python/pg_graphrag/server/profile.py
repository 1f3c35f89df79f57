"""Where the time of a search or a worker's run goes, by step, with the option `profile_time`."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Profile:
    """Seconds by step. A step within another counts for itself alone, so that the steps add up to the whole."""

    def __init__(self, start: float, rest: str) -> None:
        """Begin at a time of `perf_counter`; time outside of steps counts for `rest`."""
        self._start = self._since = start
        self._steps = [rest]
        self._seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the time inside for a step."""
        self._count()
        self._steps.append(name)
        try:
            yield
        finally:
            self._count()
            self._steps.pop()

    def at(self, moment: float) -> float:
        """Return when a moment of `perf_counter` was, in milliseconds from the begin."""
        return round(1000 * (moment - self._start), 2)

    def milliseconds(self) -> dict[str, float]:
        """Return {total, and each step so far} in milliseconds."""
        self._count()
        seconds = {"total": self._since - self._start, **self._seconds}
        return {name: round(1000 * value, 2) for name, value in seconds.items()}

    def _count(self) -> None:
        now = perf_counter()
        step = self._steps[-1]
        self._seconds[step] = self._seconds.get(step, 0.0) + now - self._since
        self._since = now
