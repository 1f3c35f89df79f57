"""Names of the modes, for what runs beside the server. Written by docs/modes.py."""

MODES = (
    "naive",
    "bm25",
    "local",
    "global",
    "hybrid",
    "mix",
    "path",
    "ppr",
    "graph_local",
    "graph_global",
    "drift",
    "lazy",
)
# For graphrag.ask, models make the context of the answer.
REDUCED = ("graph_global", "drift", "lazy")
