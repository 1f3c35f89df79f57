"""Sets of ids as arrays, (n,) int64."""

from typing import Any, TypeVar

from pg_graphrag.ground.numeric import Flags, Ids, NDArray, np

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


def values_of(ids: Ids, ascending: Ids, values: Ids, otherwise: int) -> Ids:
    """Return the values, (n,), of ids, which `ascending` has beside `values`; of those that it has not `otherwise`."""
    if not len(ascending):
        return np.full(len(ids), otherwise)
    places = ascending.searchsorted(ids)
    found = ascending.take(places, mode="clip") == ids
    return np.where(found, values.take(places, mode="clip"), otherwise)


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
