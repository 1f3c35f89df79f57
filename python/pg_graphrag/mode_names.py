"""Names of modes that the client has to know, too."""

# For graphrag.ask, models make the context of the answer.
REDUCED = ("graph_global", "drift", "lazy")
