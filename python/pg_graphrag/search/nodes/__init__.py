"""Searches of corpora on other nodes: asked as the caller, by his own user mapping, with his rights there."""
