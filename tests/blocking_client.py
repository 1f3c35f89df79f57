"""The blocking client, made of the one on asyncio by unasync. Run it after a change of ``beside/client/asynchronous.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import unasync

CLIENT = Path(__file__).parents[1] / "python/pg_graphrag/beside/client"
BLOCKING = CLIENT / "blocking.py"
COMMAND = "./test --python tests/blocking_client.py"
_NAMES = {
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AsyncConnection": "Connection",
    "AsyncCursor": "Cursor",
    "AsyncGraphRAG": "GraphRAG",
    "AsyncServerCursor": "ServerCursor",
    "is_beside_async": "is_beside",
    "lacking_async": "lacking",
    "rows_beside_async": "rows_beside",
    "stream_beside_async": "stream_beside",
}
_WORDS = {
    "programs on asyncio. `tests/blocking_client.py` makes `blocking.py` of this file.": "programs that wait.",
    "from asyncio import Lock, sleep": "from threading import RLock as Lock\nfrom time import sleep",
    "AsyncConnection": "Connection",
    "tasks of one event loop": "threads",
    "another task": "another thread",
    "other tasks": "other threads",
}


def blocking() -> str:
    """Return what `BLOCKING` has to be."""
    with TemporaryDirectory() as folder:
        unasync.unasync_files([str(CLIENT / "asynchronous.py")], [unasync.Rule(str(CLIENT), folder, _NAMES)])
        text = Path(folder, "asynchronous.py").read_text(encoding="utf-8")
    for words, others in _WORDS.items():
        if words not in text:
            raise ValueError(f"asynchronous.py does not say {words!r} any more")
        text = text.replace(words, others)
    text = f"# Generated from asynchronous.py by `{COMMAND}`; do not edit.\n{text}"
    for command in (["check", "--quiet", "--select", "I", "--fix"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(BLOCKING), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, encoding="utf-8", check=True).stdout
    return text


if __name__ == "__main__":
    BLOCKING.write_text(blocking(), encoding="utf-8")
