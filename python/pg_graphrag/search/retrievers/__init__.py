"""Retrievers: each ranks chunks, entities or relationships for a query."""
