"""Sets of ids as arrays, (n,) int64."""

from pg_graphrag.numeric import Flags, Ids, np


def within(values: Ids, ascending: Ids) -> Flags:
    """Return which `values` are among `ascending`, (n,) bool."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    is_within: Flags = ascending[np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)] == values
    return is_within


def numbered(ids: Ids) -> tuple[Ids, Ids]:
    """Return (distinct ids ascending, the place of each of `ids` among them), as np.unique does; faster where ids lie close."""
    if not len(ids):
        return ids, np.empty(0, np.int64)
    first = ids.min()
    span = int(ids.max() - first) + 1
    if span > 16 * len(ids) + 10_000:
        distinct, place = np.unique(ids, return_inverse=True)
        return distinct, place
    offsets = ids - first
    flags = np.zeros(span, np.int64)
    flags[offsets] = 1
    distinct = np.flatnonzero(flags)
    np.cumsum(flags, out=flags)
    return distinct + first, flags[offsets] - 1
