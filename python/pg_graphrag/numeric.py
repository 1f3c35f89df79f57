"""numpy with one BLAS thread. The number is read once, when it is loaded: the package imports numpy here and nowhere else."""

import os

from pg_graphrag.signals import signals_blocked

# Whatever the postmaster's environment says: sessions are the unit of parallelism.
os.environ.update({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})

with signals_blocked():
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NDArray", "np"]
