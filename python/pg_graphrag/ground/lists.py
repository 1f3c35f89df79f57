"""Lists of numbers by place, and the places of ids: what graphs are made of in memory."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, overload
from zlib import crc32

from pg_graphrag.ground.numeric import Ids, NDArray, Places, np

Arrays = dict[str, NDArray[Any]]


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays of a part of something by the names that they have in the whole."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def part(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays that were `prefixed`."""
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


class Lists:
    """Lists of numbers by place: list p is ``values[starts[p]:starts[p + 1]]`` (and the same of every other column)."""

    def __init__(self, owners: Places, count: int, *columns: NDArray[Any]):
        """Group rows by their owner's place, (n,), keeping their order."""
        order = np.argsort(owners, kind="stable")
        self.starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=count), out=self.starts[1:])
        self.columns = tuple(column[order] for column in columns)

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> "Lists":
        """Make them of their `arrays`."""
        lists = cls.__new__(cls)
        lists.starts = arrays["starts"]
        lists.columns = tuple(arrays[str(number)] for number in range(len(arrays) - 1))
        return lists

    def arrays(self) -> Arrays:
        """Return what they are made of, by name."""
        return {"starts": self.starts, **{str(number): column for number, column in enumerate(self.columns)}}

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

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> "IdIndex":
        """Make it of its `arrays`."""
        index = cls.__new__(cls)
        index.ids, index._order, index._ascending = (arrays[name] for name in ("ids", "order", "ascending"))
        return index

    def arrays(self) -> Arrays:
        """Return what it is made of, by name."""
        return {"ids": self.ids, "order": self._order, "ascending": self._ascending}

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


class Texts(Sequence[str]):
    """Texts by place in one run of bytes: a tenth of what a list takes, and all sessions may share it."""

    def __init__(self, texts: Iterable[str]):
        encoded = [text.encode() for text in texts]
        starts = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=starts[1:])
        numbers = np.fromiter(map(crc32, encoded), np.uint32, len(encoded))
        places = np.argsort(numbers, kind="stable").astype(np.int32)
        data = np.frombuffer(b"".join(encoded), np.uint8)
        self._keep({"bytes": data, "starts": starts, "numbers": numbers[places], "places": places})

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> "Texts":
        """Make them of their `arrays`."""
        texts = cls.__new__(cls)
        texts._keep(arrays)
        return texts

    def _keep(self, arrays: Arrays) -> None:
        self._arrays = arrays
        # For a single number numpy takes five times as long.
        self._data, self._bounds, self._numbers, self._places = (
            arrays[name].data for name in ("bytes", "starts", "numbers", "places")
        )

    def arrays(self) -> Arrays:
        """Return what they are made of, by name."""
        return self._arrays

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return self.at(range(len(self))[place])
        if place < 0:
            raise IndexError(place)
        return str(self._data[self._bounds[place] : self._bounds[place + 1]], "utf-8")

    def at(self, places: Iterable[int] | Places) -> list[str]:
        """Return the texts at places, (n,)."""
        places = places.tolist() if isinstance(places, np.ndarray) else places
        return [self[place] for place in places]

    def place(self, text: str) -> int | None:
        """Return the place of a text, the first one, or None."""
        try:
            key = text.encode()
        except UnicodeEncodeError:  # half of a character, which JSON can bring
            return None
        number = crc32(key)
        for found in range(bisect_left(self._numbers, number), len(self)):
            if self._numbers[found] != number:
                break
            place: int = self._places[found]
            if self._data[self._bounds[place] : self._bounds[place + 1]] == key:
                return place
        return None

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return sum(int(array.nbytes) for array in self._arrays.values())
