"""Fixtures of the security tests: those of the SQL tests."""

from __future__ import annotations

from tests.sql.conftest import endpoint, module_endpoint

__all__ = ["endpoint", "module_endpoint"]
