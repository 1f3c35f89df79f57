"""Lists of numbers by place, and the places of ids: what graphs are made of in memory."""

from copy import copy
from typing import Any

from pg_graphrag.numeric import Ids, NDArray, Places, np


class Lists:
    """Lists of numbers by place: list p is ``values[starts[p]:starts[p + 1]]`` (and the same of every other column)."""

    def __init__(self, owners: Places, count: int, *columns: NDArray[Any]):
        """Group rows by their owner's place, (n,), keeping their order."""
        order = np.argsort(owners, kind="stable")
        self.starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=count), out=self.starts[1:])
        self.columns = tuple(column[order] for column in columns)

    def at(self, places: Places) -> tuple[Any, ...]:
        """Return the lists at `places`, one after the other: the place of each row's owner, and its columns."""
        starts = self.starts[places]
        counts = self.starts[places + 1] - starts
        ends = np.cumsum(counts)
        rows = np.repeat(starts - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)
        return np.repeat(places, counts), *(column[rows] for column in self.columns)

    def counts(self, places: Places) -> Ids:
        """Return how long the lists at `places` are, (n,)."""
        return self.starts[places + 1] - self.starts[places]

    def followed_by(self, others: "Lists") -> "Lists":
        """Return these lists, and behind them others with the same columns."""
        both = copy(self)
        both.starts = np.append(self.starts, others.starts[1:] + self.starts[-1])
        both.columns = tuple(map(np.append, self.columns, others.columns))
        return both

    @property
    def nbytes(self) -> int:
        """How much memory the lists take."""
        return int(self.starts.nbytes) + sum(int(column.nbytes) for column in self.columns)


class IdIndex:
    """Where ids stand: `ids` (n,) int64 by place."""

    def __init__(self, ids: Ids):
        self.ids = ids
        self._order = np.argsort(ids).astype(np.int32)
        self._ascending = ids[self._order]

    def places(self, ids: Ids | list[int]) -> Places:
        """Return the places, (n,) int32, of those of `ids` that are there: a volatile function may know of newer ones."""
        ids = np.asarray(ids, np.int64)
        if not len(self.ids):
            return np.empty(0, np.int32)
        positions = np.minimum(np.searchsorted(self._ascending, ids), len(self.ids) - 1)
        places: Places = self._order[positions[self._ascending[positions] == ids]]
        return places

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return 2 * int(self.ids.nbytes) + int(self._order.nbytes)
