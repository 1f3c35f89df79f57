"""numpy with one BLAS thread. The number is read once, when it is loaded: the package imports numpy here and nowhere else."""

import os
from typing import TypeAlias

from pg_graphrag.signals import signals_blocked

# Whatever the postmaster's environment says: sessions are the unit of parallelism.
os.environ.update({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})

with signals_blocked():
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Flags", "Ids", "NDArray", "Scores", "Vectors", "float64s", "int64s", "np"]

# (n,): numbers of entities, chunks, nodes or places.
Ids: TypeAlias = NDArray[np.int64]
# (n,): scores, weights and shares.
Scores: TypeAlias = NDArray[np.float64]
# (n,): which items of another array are meant.
Flags: TypeAlias = NDArray[np.bool_]
# (n, dimensions), or (dimensions,) for a single vector.
Vectors: TypeAlias = NDArray[np.float32]


def int64s(data: bytes | None) -> Ids:
    """Return the int64 array that ``string_agg(int8send(…))`` packed."""
    return np.frombuffer(data or b"", ">i8").astype(np.int64)


def float64s(data: bytes | None) -> Scores:
    """Return the float64 array that ``string_agg(float8send(…))`` packed."""
    return np.frombuffer(data or b"", ">f8").astype(np.float64)
