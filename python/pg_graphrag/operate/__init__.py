"""Upkeep of corpora: the worker, and an administrator's functions."""
