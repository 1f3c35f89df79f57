"""Every function that SQL names is there, in the area of the package that has the name of the area of sql/."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

SQL = Path(__file__).resolve().parents[2] / "sql"
ENTRIES = sorted(
    {
        (file.parent.name.partition("_")[2], entry)
        for file in SQL.rglob("*.sql")
        for entry in re.findall(r'call\(plpy, "@extversion@", "([a-z_.]+:[a-z_]+)"', file.read_text())
    }
)


@pytest.mark.parametrize(("area", "entry"), ENTRIES)
def test_what_a_function_of_sql_calls_is_there(area: str, entry: str) -> None:
    module, _, name = entry.partition(":")
    assert callable(getattr(importlib.import_module(f"pg_graphrag.{module}"), name))
    # sql/ has one area for what a search reads.
    assert {"retrieval": "search"}.get(area, area) in module.split(".")


def test_entries_are_found() -> None:
    assert len(ENTRIES) > 40


@pytest.mark.parametrize("module", ["search.search", "modes.hybrid", "worker.worker", "curation.storage"])
def test_what_asks_models_is_not_imported_before_one_is_asked(module: str) -> None:
    heavy = {"asyncio", "httpx2", "pg_graphrag.llm.endpoints.transport", "pg_graphrag.index.community.leiden"}
    code = f"import sys, pg_graphrag.{module}; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
