"""The blocking client: ``asynchronous.py`` without the waiting. The builds make it, as they make the plain schema.

Usage: blocking_client.py [FILE]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[1] / "python/pg_graphrag/beside/client"
FILE = CLIENT / "blocking.py"
# In their order: a pattern, what takes its place. Each has to be found.
_CHANGES = (
    (r"^", "# Made of asynchronous.py by extension/blocking_client.py; do not edit.\n"),
    (r"programs on asyncio\. The builds make `blocking\.py` of this file\.", "programs that wait."),
    (r"from asyncio import Lock, sleep", "from threading import RLock as Lock\nfrom time import sleep"),
    (r"tasks of one event loop", "threads"),
    (r"\b(an)?other task(s?)\b", r"\1other thread\2"),
    (r"\basync (?=def|with|for)", ""),
    (r"\bawait ", ""),
    (r"\b(Abstract|)Async(?=[A-Z])", r"\1"),
    (r"\basync(?=contextmanager\b)", ""),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"(?<=\w)_async\b", ""),
)


def blocking(text: str) -> str:
    """Return the source of the blocking client, of the source of the one on asyncio."""
    for pattern, other in _CHANGES:
        text, count = re.subn(pattern, other, text)
        if not count:
            raise ValueError(f"asynchronous.py has no {pattern!r} any more")
    return text


def write(file: Path = FILE) -> None:
    """Write the blocking client."""
    text = blocking((CLIENT / "asynchronous.py").read_text(encoding="utf-8"))
    # A process that imports it has the former one or this one.
    new = file.with_name(f".{file.name}")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
