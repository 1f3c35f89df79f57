"""numpy for code inside the server: imported with one BLAS thread and signals blocked (embedding/threads.py)."""

from pg_graphrag.embedding.threads import load_numpy

load_numpy()

import numpy as np  # noqa: E402  (only after load_numpy)

__all__ = ["np"]
