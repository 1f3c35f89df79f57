"""Evaluation of retrieval against known evidence."""
