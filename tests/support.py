"""What docs/versions.md says is supported, tried: its table of combinations is written by the run of their tests.

    ./test --python -m tests.support                          names them
    ./test --python -m tests.support postgresql-18 beside-16  runs these, and writes when they were tried and what came of it

A Python is tried by itself: that of ./test, which is the first python3 of the path that fits.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs/versions.md"
# The manual's SQL as it stands there, every mode, dumps, and the update from every version.
SERVER = "tests/sql/test_docs_examples.py tests/sql/test_modes.py tests/sql/test_dump_restore.py tests/upgrade/test_upgrade.py"
BESIDE = "tests/sql/test_two_hosts.py tests/sql/test_process_calls.py tests/sql/test_process_database.py"
CLIENT = "tests/unit/test_client_documents.py tests/unit/test_blocking_client.py tests/unit/test_cli_arguments.py"
CLIENT += " tests/unit/test_readers.py tests/unit/test_lists.py"
CLIENT += " tests/sql/test_client.py tests/sql/test_cli.py tests/serve/test_http.py"
TABLE = re.compile(r"(?<=^## What was tried\n)(.*?\n)(\| \|.*?\n)(?=\n)", re.MULTILINE | re.DOTALL)


class Combination(NamedTuple):
    """What is tried: its words in the table, variables of ./test, and pytest's arguments, those of every day alone."""

    what: str
    environment: dict[str, str]
    tests: str


COMBINATIONS = {
    **{
        f"postgresql-{version}": Combination(
            f"PostgreSQL {version} with the extension", {"PG_GRAPHRAG_TEST_PG": version}, SERVER
        )
        for version in ("17", "18")
    },
    **{
        f"beside-{version}": Combination(
            f"PostgreSQL {version}, beside it", {"PG_GRAPHRAG_TEST_BESIDE": version}, BESIDE
        )
        for version in ("16", "17", "18")
    },
    **{
        f"python-{version}": Combination(f"Python {version} of the client", {}, CLIENT)
        for version in ("3.11", "3.12", "3.13")
    },
}


def rows() -> dict[str, list[str]]:
    """Return the rows of the page's table, by what was tried."""
    table = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert table is not None
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in table[2].splitlines()[2:])
    return {row[0]: row for row in cells}


def write(what: str, outcome: str) -> None:
    """Write what came of a combination into the page, with the day."""
    page = PAGE.read_text(encoding="utf-8")
    row = re.compile(rf"^(\| {re.escape(what)} \| [^|]*\|)[^|]*\|$", re.MULTILINE)
    assert row.search(page), f"{PAGE.name} has no row for {what}"
    PAGE.write_text(row.sub(rf"\1 {datetime.now(UTC):%Y-%m-%d}: {outcome} |", page), encoding="utf-8")


def run(name: str) -> bool:
    """Run the tests of a combination; return whether they passed."""
    combination = COMBINATIONS[name]
    this = f"python-{sys.version_info.major}.{sys.version_info.minor}"
    if name.startswith("python-") and name != this:
        sys.exit(f"this is {this}, not {name}: have that one first on the path")
    command = [
        str(PROJECT / "test"),
        *combination.tests.split(),
        "-q",
        "-m",
        "not slow",
        "-n",
        "2",
        "--dist",
        "loadfile",
    ]
    done = subprocess.run(
        command, env=os.environ | combination.environment, stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.stdout)
    summary = re.findall(r"\d+ (?:passed|failed|skipped|errors?)", done.stdout.rstrip().rpartition("\n")[2])
    write(combination.what, ", ".join(summary) or "nothing ran")
    return done.returncode == 0


def main(names: list[str]) -> int:
    """Run the combinations of these names, or say which there are."""
    if unknown := set(names) - COMBINATIONS.keys():
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(COMBINATIONS)}")
    if not names:
        print(*COMBINATIONS, sep="\n")
    failed = [name for name in names if not run(name)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
