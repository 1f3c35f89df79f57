"""What keeps corpora up: the worker, and an administrator's functions."""
