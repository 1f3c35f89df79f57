"""Fixtures of the attacks."""

from tests.sql.conftest import endpoint

__all__ = ["endpoint"]
