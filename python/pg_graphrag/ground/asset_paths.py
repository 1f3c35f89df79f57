"""Where the models and other build-time assets of this package lie."""

import os
from pathlib import Path

# Only who starts the postmaster can set its environment; no database user can.
HOME = Path(os.environ.get("PG_GRAPHRAG_HOME", "/usr/lib/pg_graphrag"))
MODELS = HOME / "models"
