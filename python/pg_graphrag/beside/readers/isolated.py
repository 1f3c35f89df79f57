"""Reads files in a separate process, so that a hostile file can neither crash the caller nor exceed its memory and
time.
"""

import contextlib
import math
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from pg_graphrag.beside.readers import Item, ReadError, ReadOptions, ReadProgress, read

MAX_SECONDS = 300.0
MAX_MEMORY = 4 << 30
# More for text recognition: models, and their data for several pages at once. It limits addresses; a page takes less memory.
_OCR_MEMORY = 6 << 30
# Read here: nothing in them takes more than they are long, and they may be longer than what a process may hold. Not markup that
# stands within itself.
_PLAIN = frozenset(".txt .text .md .markdown .srt .vtt .csv .tsv .jsonl .ndjson".split())


class IsolatedReader:
    """Reads files one after the other, in one process until a file breaks it. A context manager.

    `seconds`, `memory`: bounds for a file: seconds (for each page anew if text is recognised), and bytes of the process (if
    the system can bound them).
    """

    def __init__(self, options: ReadOptions, seconds: float = MAX_SECONDS, memory: int = MAX_MEMORY):
        self._options, self._seconds, self._memory = options, seconds, memory
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def __enter__(self) -> "IsolatedReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def read(self, path: Path, key: str, seconds: float | None = None) -> Iterator[Item]:
        """Yield what `readers.read` does; an error if the file takes too long or too much.

        `seconds`: the bound for this file, if it is lower than the general one.
        """
        if path.suffix.lower() in _PLAIN:
            try:
                yield from read(path, key, self._options)
            except MemoryError:
                yield ReadError(path, "needs more memory than there is; split it")
            return
        pipe = self._start()
        bound = self._seconds if seconds is None else max(0.0, min(seconds, self._seconds))
        until = math.inf if seconds is None else time.monotonic() + seconds
        deadline = min(until, time.monotonic() + self._seconds)
        try:
            pipe.send((path, key))
            while True:
                if not pipe.poll(max(0.0, deadline - time.monotonic())):
                    self._stop()
                    yield ReadError(path, f"took longer than {bound:.0f} s to read; split it, or convert it to text")
                    return
                item = pipe.recv()
                if item is None:
                    return
                if isinstance(item, ReadProgress):
                    # The bound is for a page.
                    deadline = min(until, time.monotonic() + self._seconds)
                yield item
        except (EOFError, ConnectionError):
            self._stop()
            yield ReadError(
                path, "ended the process that read it: is it damaged, or larger than memory? Convert it to text"
            )
        except GeneratorExit:
            self._stop()
            raise

    def _start(self) -> Connection:
        if self._pipe is None or self._process is None or not self._process.is_alive():
            self._stop()
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self._options, self._memory), daemon=True)
            process.start()
            self._process = process
            theirs.close()
        return self._pipe

    def _stop(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            # Together with its child process: Tesseract.
            with contextlib.suppress(AttributeError, OSError):
                if self._process.pid:
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()
        self._pipe = self._process = None


def _serve(pipe: Connection, options: ReadOptions, memory: int) -> None:
    """Read files as they are named, until the pipe is closed."""
    with contextlib.suppress(AttributeError, OSError):
        os.setsid()
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        memory += _OCR_MEMORY if options.recognises else 0
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What libraries say to programmers is nothing to a user.
    warnings.simplefilter("ignore")
    with contextlib.suppress(EOFError, KeyboardInterrupt, ConnectionError):
        while True:
            path, key = pipe.recv()
            try:
                for item in read(path, key, options):
                    pipe.send(item)
            except MemoryError:
                reason = f"needs more than {memory >> 30} GB to read; split it, or convert it to text"
                pipe.send(ReadError(path, reason))
            except (BrokenPipeError, EOFError):
                return
            except Exception as error:
                # Nobody knows all that the libraries raise for a damaged file.
                pipe.send(ReadError(path, f"cannot be read: {type(error).__name__}: {error}; is it damaged?"))
            pipe.send(None)
