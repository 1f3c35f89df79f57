"""Every function that SQL names is there, in the area of the package that has the name of the area of sql/."""

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
    # sql/ has one area for what a search reads, and two for jobs: their queue, and who does them.
    assert {"graph_views": "search", "worker": "jobs"}.get(area, area) in module.split(".")


def test_entries_are_found() -> None:
    assert len(ENTRIES) > 40


@pytest.mark.parametrize(
    "module", ["search.search", "search.modes.hybrid", "operate.jobs.process_jobs", "index.curation.storage"]
)
def test_what_asks_models_is_not_imported_before_one_is_asked(module: str) -> None:
    heavy = {"asyncio", "httpx2", "pg_graphrag.llm.endpoints.transport", "pg_graphrag.index.community.leiden"}
    code = f"import sys, pg_graphrag.{module}; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_who_reads_files_imports_neither_clients_nor_their_driver() -> None:
    code = "import sys, pg_graphrag.beside.readers; print(*sorted({'psycopg', 'pg_graphrag.beside.client'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", ["models", "alembic"])
def test_paths_of_0_2_0_lead_to_what_applications_import(module: str) -> None:
    former = importlib.import_module(f"pg_graphrag.{module}")
    assert former is importlib.import_module(f"pg_graphrag.integrations.{module}")
