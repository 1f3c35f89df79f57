"""Marks which lines of the package run in a server's process, in a file that all of them map.

A process of the server ends without finalizing Python, and may be killed: what it has run must be known before.
"""

import json
import mmap
import sys
from pathlib import Path

_FOLDER = Path(__file__).parent
_PACKAGE = "/pg_graphrag/"


def _measure() -> None:
    offsets = json.loads((_FOLDER / "offsets.json").read_text(encoding="utf-8"))
    with (_FOLDER / "lines").open("r+b") as file:
        lines = mmap.mmap(file.fileno(), 0)
    monitoring = sys.monitoring

    def offset_of(code) -> int | None:
        return offsets.get(code.co_filename.rpartition(_PACKAGE)[2])

    def start(code, _) -> object:
        if offset_of(code) is not None:
            monitoring.set_local_events(monitoring.COVERAGE_ID, code, monitoring.events.LINE)
        return monitoring.DISABLE

    def line(code, number: int) -> object:
        lines[offset_of(code) + number - 1] = 1
        return monitoring.DISABLE

    monitoring.use_tool_id(monitoring.COVERAGE_ID, "pg_graphrag")
    monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.PY_START, start)
    monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, line)
    monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.PY_START)


_measure()
