"""numpy with one BLAS thread. The number is read once, when it is loaded: the package imports numpy here and nowhere else."""

import os
from typing import Any

from pg_graphrag.signals import signals_blocked

# Whatever the postmaster's environment says: sessions are the unit of parallelism.
os.environ.update({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})

with signals_blocked():
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NDArray", "float64s", "int64s", "np"]


def int64s(packed: bytes | None) -> Any:
    """Return the int64 array that ``string_agg(int8send(…))`` packed."""
    return np.frombuffer(packed or b"", ">i8").astype(np.int64)


def float64s(packed: bytes | None) -> Any:
    """Return the float64 array that ``string_agg(float8send(…))`` packed."""
    return np.frombuffer(packed or b"", ">f8").astype(np.float64)
