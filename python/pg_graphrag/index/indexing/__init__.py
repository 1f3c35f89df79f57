"""Indexing: a document becomes chunks, mentions, vectors and a graph; prepared without a transaction, then written."""
