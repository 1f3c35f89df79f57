"""Curation: what people change of the graph, recorded, undo-able, and applied to whatever documents say (graphrag.curations)."""
