"""numpy with one BLAS thread. The number is read once, when it is loaded: the package imports numpy here and nowhere else."""

import os
from typing import TYPE_CHECKING, Any, TypeAlias, cast

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


__all__ = ["Flags", "Ids", "NDArray", "Places", "Scores", "Vectors", "float64s", "int64s", "np", "packed", "sums"]

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


def packed(**columns: str) -> str:
    """Return SQL of columns of numbers, each packed into a bytea: integers, and what is cast to float8."""
    senders = {"float8": "float8send"}
    parts = []
    for name, column in columns.items():
        send = senders.get(column.rpartition("::")[2], "int8send")
        parts.append(f"pg_catalog.string_agg(pg_catalog.{send}({column}), ''::bytea) AS {name}")
    return ", ".join(parts)


def sums(places: Places, weights: Scores, length: int = 0) -> Scores:
    """Return the sum of the weights of each place, for at least `length` places."""
    return cast(Scores, np.bincount(places, weights, length))  # numpy's stubs say integers


def int64s(data: bytes | None) -> Ids:
    """Return the array of a column of integers that was `packed`."""
    return np.frombuffer(data or b"", ">i8").astype(np.int64)


def float64s(data: bytes | None) -> Scores:
    """Return the array of a column of float8 that was `packed`."""
    return np.frombuffer(data or b"", ">f8").astype(np.float64)
