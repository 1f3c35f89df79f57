"""Measures each Python process of the tests and the commands that they start."""

import coverage

coverage.process_startup()
