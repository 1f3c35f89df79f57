"""Rows and pictures of the graph, for people who explore it."""
