"""Corpora: options, creation, change and removal."""
