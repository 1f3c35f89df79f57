"""Extraction by a model: entities, relationships and claims of a chunk, and summaries of many descriptions."""
