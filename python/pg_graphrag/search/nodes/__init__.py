"""Searches of corpora that other nodes have: asked as the caller, by his own user mapping, and answered as he is there."""
