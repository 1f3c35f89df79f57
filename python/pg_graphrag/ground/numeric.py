"""Numpy with one BLAS thread, sets of ids, and lists of numbers grouped by key, of which graphs in memory are made.

BLAS reads its number of threads once, when numpy is loaded. Therefore only this module imports numpy.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload
from zlib import crc32

from pg_graphrag.ground import stand_ins
from pg_graphrag.ground.signals import signals_blocked

# Whatever the postmaster's environment says: sessions are the unit of parallelism.
os.environ.update({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})

with signals_blocked(), stand_ins.for_numpy():
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
else:
    NDArray = stand_ins.NDArray


# Imported here for the whole package.
__all__ = ["NDArray", "np"]

# (n,): numbers of entities, chunks or nodes, or places.
Ids: TypeAlias = NDArray[np.int64]
# (n,): places in another array, in fewer bytes where many are cached.
Places: TypeAlias = NDArray[np.integer[Any]]
# (n,): scores, weights and shares.
Scores: TypeAlias = NDArray[np.float64]
# (n,): which items of another array are meant.
Flags: TypeAlias = NDArray[np.bool_]
# (n, dimensions), or (dimensions,) for a single vector.
Vectors: TypeAlias = NDArray[np.float32]

# OpenBLAS multiplies small matrices without packing them first; packing large weights for few rows (the tokens of a question)
# takes as long as reading them. So they are multiplied in slices, as large as it takes for small (rows x columns x depth).
_FEW_TOKENS = 32
_SMALL_PRODUCT = 100**3
_SLICE_ROWS = (128, 96, 64, 48, 32, 24, 16, 8)


def packed(order: str = "", /, **columns: str) -> str:
    """Return SQL of columns of numbers, each packed into a bytea: integers, and values cast to float8.

    `order`: the order of the rows; "": none.
    """
    senders = {"float8": "float8send"}
    ordered = f" ORDER BY {order}" if order else ""
    parts = []
    for name, column in columns.items():
        send = senders.get(column.rpartition("::")[2], "int8send")
        parts.append(f"pg_catalog.string_agg(pg_catalog.{send}({column}), ''::bytea{ordered}) AS {name}")
    return ", ".join(parts)


def sums(places: Places, weights: Scores, length: int = 0) -> Scores:
    """Return the sum of the weights of each place, for at least `length` places."""
    return cast(Scores, np.bincount(places, weights, length))  # numpy's stubs say integers


def multiply(inputs: Vectors, weight: Vectors, product: Vectors) -> None:
    """Write ``inputs @ weight.T`` in `product`, (n, m): `inputs` are (n, k), n > 0, and `weight` is (m, k)."""
    if len(inputs) > _FEW_TOKENS:
        np.matmul(inputs, weight.T, out=product)
        return
    columns = np.ascontiguousarray(inputs.T)
    most = _SMALL_PRODUCT // columns.size
    rows = next((rows for rows in _SLICE_ROWS if rows <= most and len(weight) % rows == 0), len(weight))
    transposed = np.empty((len(weight), len(inputs)), np.float32)
    slices = weight.reshape(-1, rows, weight.shape[1])
    np.matmul(slices, columns, out=transposed.reshape(-1, rows, len(inputs)))
    product[:] = transposed.T


def int64s(data: bytes | None) -> Ids:
    """Return the array of a column of integers that was `packed`."""
    return np.frombuffer(data or b"", ">i8").astype(np.int64)


def float64s(data: bytes | None) -> Scores:
    """Return the array of a column of float8 that was `packed`."""
    return np.frombuffer(data or b"", ">f8").astype(np.float64)


Integer = TypeVar("Integer", bound="np.integer[Any]")


def distinct(ids: NDArray[Integer]) -> NDArray[Integer]:
    """Return distinct integers ascending, as np.unique does; that imports numpy.ma, 12 ms of a session's first search."""
    ordered = ids.copy()
    ordered.sort()
    return ordered[are_new(ordered)]


def are_new(values: NDArray[Integer]) -> Flags:
    """Return which values, (n,), differ from the one before; the first does."""
    is_new = np.empty(len(values), np.bool_)
    if len(values):
        is_new[0] = True
        np.not_equal(values[1:], values[:-1], out=is_new[1:])
    return is_new


def union(first: Ids, second: Ids) -> Ids:
    """Return the distinct ids of both, ascending."""
    return distinct(np.append(first, second))


def difference(ids: Ids, others: Ids) -> Ids:
    """Return the distinct ids that are not among `others`, ascending."""
    ids = distinct(ids)
    return ids[~within(ids, distinct(others))]


def within(values: NDArray[Integer], ascending: NDArray[Integer]) -> Flags:
    """Return which `values` are among `ascending`, (n,) bool."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    is_within: Flags = ascending.take(ascending.searchsorted(values), mode="clip") == values
    return is_within


def places_of(ids: Ids, among: Ids) -> Ids:
    """Return the places of ids, of their shape, in `among`, (n,), which has each of them once, in any order."""
    by_id = np.argsort(among)
    return by_id[np.searchsorted(among, ids, sorter=by_id)]


def values_of(ids: Ids, ascending: Ids, values: Ids, otherwise: int) -> Ids:
    """Return the values, (n,), of ids, found in `ascending` beside `values`; `otherwise` for ids that are missing there."""
    if not len(ascending):
        return np.full(len(ids), otherwise)
    places = ascending.searchsorted(ids)
    is_there = ascending.take(places, mode="clip") == ids
    return np.where(is_there, values.take(places, mode="clip"), otherwise)


def numbered(ids: Ids) -> tuple[Ids, Ids]:
    """Return (distinct ids ascending, the place of each of `ids` among them), as np.unique does; faster where ids lie close."""
    if not len(ids):
        return ids, np.empty(0, np.int64)
    first = ids.min()
    span = int(ids.max() - first) + 1
    if span > 16 * len(ids) + 10_000:
        each, place = np.unique(ids, return_inverse=True)
        return each, place
    offsets = ids - first
    flags = np.zeros(span, np.bool_)
    flags[offsets] = True
    each = flags.nonzero()[0]
    # Only where an id is, its place is written.
    places = np.empty(span, np.int64)
    places[each] = np.arange(len(each))
    return each + first, places[offsets]


Arrays = dict[str, NDArray[Any]]


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays of a part, by their names in the whole."""
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
        """Return its arrays by name."""
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
        """Return its arrays by name."""
        return {"ids": self.ids, "order": self._order, "ascending": self._ascending}

    def places(self, ids: Ids | list[int]) -> Places:
        """Return the places, (n,) int32, of those of `ids` that are present: a volatile function may return newer ones."""
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
    """Texts by place in one run of bytes: a tenth of a list's memory, which all sessions may share."""

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
        """Return its arrays by name."""
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
