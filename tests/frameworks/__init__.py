"""Suites that run in the environment of a framework: `tests/sql/test_frameworks.py` starts them."""
