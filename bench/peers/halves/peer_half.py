"""What the peers' halves of benchmarks share. They run in venvs of their own, where this folder alone is on the path."""

import asyncio
import base64
import json
import os
import re
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

Question = tuple[str, list[str], list[str]]
TICKS = os.sysconf("SC_CLK_TCK")


def run(main: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
    """Read a task from standard input, and write what `main` returns to standard output; both are JSON.

    What the peer prints goes to standard error.
    """
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    result = asyncio.run(main(json.load(sys.stdin)))
    output.write(json.dumps(result))
    output.flush()


def cpu() -> float:
    """Return the CPU seconds of this process and of its children, those that have ended among them."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    living = sum(sum(_ticks(child)[:2]) for child in _children(os.getpid())) / TICKS
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + living


def server_cpu(server: int | None) -> float | None:
    """Return the CPU seconds of a PostgreSQL server's processes so far, those that have ended among them.

    `server`: its first process; None where that cannot be seen from here. Whoever else uses the server is counted, too.
    """
    if server is None:
        return None
    while True:
        children = _children(server)
        ticks = sum(_ticks(server)) + sum(sum(_ticks(child)[:2]) for child in children)
        # One that ended in between was counted twice, or not at all.
        if children == _children(server):
            return ticks / TICKS


def _children(process: int) -> list[str]:
    """Return the children of a process, of whichever thread."""
    lists = [file.read_text() for file in Path(f"/proc/{process}/task").glob("*/children")]
    return " ".join(lists).split()


def _ticks(process: int | str) -> list[int]:
    """Return a process' ticks: user, system, and those of children that have ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return [0, 0, 0, 0]
    return [int(field) for field in stat.rpartition(")")[2].split()[11:15]]


async def timed(
    task: dict[str, Any], find: Callable[[str, list[str], list[str]], Awaitable[Sequence[str]]]
) -> dict[str, Any]:
    """Ask every question twice; the second time counts.

    Returns
    -------
    dict
        `answers`: (seconds, documents best first, each once) of each question; `cpu`: CPU seconds of this process, and of the
        server that the task names, for all of them.
    """
    answers: list[tuple[float, list[str]]] = []
    for is_second in (False, True):
        used = cpu() + (server_cpu(task.get("server")) or 0.0)
        for question, low, high in task["questions"]:
            start = time.perf_counter()
            keys = await find(question, low, high)
            seconds = time.perf_counter() - start
            if is_second:
                answers.append((seconds, list(dict.fromkeys(keys))))
    return {"answers": answers, "cpu": cpu() + (server_cpu(task.get("server")) or 0.0) - used}


def leave_out(*names: str) -> None:
    """Put empty modules in the place of libraries that a peer imports and does not use here: a GPU's, or downloads."""

    def attribute(name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})

    for name in names:
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__getattr__ = attribute  # type: ignore[method-assign]


class Words:
    """A tokenizer that needs no download: its tokens are words with the white space after them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []

    def __deepcopy__(self, _: Any) -> "Words":
        # LightRAG copies its settings for every chunk, with all that is in them; nobody's tokenizer should be.
        return self

    def encode(self, text: str) -> list[int]:
        tokens = []
        for word in re.findall(r"\S+\s*|\s+", text):
            if word not in self._numbers:
                self._numbers[word] = len(self._words)
                self._words.append(word)
            tokens.append(self._numbers[word])
        return tokens

    def decode(self, tokens: list[int]) -> str:
        return "".join(self._words[token] for token in tokens)


class Models:
    """The endpoint as the two functions of LightRAG and MiniRAG; `waited`: seconds spent in embeddings.

    `embeddings`: where these come from, if from elsewhere.

    One shared client: their own bindings make a new one for every call, which costs some 30 ms that are not the system's.
    """

    def __init__(self, url: str, embeddings: str | None = None) -> None:
        from openai import AsyncOpenAI

        self._client = AsyncOpenAI(base_url=url, api_key="none")
        self._embedder = AsyncOpenAI(base_url=embeddings or url, api_key="none")
        self.waited = 0.0

    def __deepcopy__(self, _: Any) -> "Models":
        # Likewise.
        return self

    async def chat(
        self,
        prompt: str,
        system_prompt: str | None = None,
        history_messages: list[dict[str, str]] | None = None,
        **_: Any,
    ) -> str:
        messages: Any = [{"role": "system", "content": system_prompt}] if system_prompt else []
        messages += [*(history_messages or []), {"role": "user", "content": prompt}]
        completion = await self._client.chat.completions.create(model="recorded", messages=messages)
        return completion.choices[0].message.content or ""

    async def embed(self, texts: list[str]) -> Any:
        import numpy as np

        start = time.perf_counter()
        response = await self._embedder.embeddings.create(model="hash", input=texts, encoding_format="base64")
        vectors = np.array([np.frombuffer(base64.b64decode(item.embedding), "<f4") for item in response.data])
        self.waited += time.perf_counter() - start
        return vectors
