"""Asks a model at an OpenAI-compatible endpoint many things at once, from the client's side (extra ``evaluation``).

The database's own gateway (`pg_graphrag.llm.endpoints`) is not used: a judge is no part of the database.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.lenient_json import objects
from pg_graphrag.ground.reasoning import without_reasoning

T = TypeVar("T")

# How often a prompt is sent again while its reply is unusable.
ATTEMPTS = 3
# How often the package tries again what fails on the way, 429 and 5xx among it, waiting as the endpoint says.
_RETRIES = 6
# Where OPENAI_API_KEY belongs unless OPENAI_BASE_URL says otherwise.
_OPENAI = "https://api.openai.com"


class Unusable(ValueError):
    """A reply that does not have the requested form."""


@dataclass(slots=True)
class Usage:
    """Calls and tokens of a run, as the endpoint counted them; `remembered` replies cost nothing."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    unusable: int = 0
    remembered: int = 0

    def __str__(self) -> str:
        text = f"{self.calls} calls, {self.tokens_in} tokens in, {self.tokens_out} out"
        return text + (f", {self.remembered} replies remembered" if self.remembered else "")


@dataclass
class Model:
    """A chat model.

    `name`: as the endpoint calls it.
    `base_url`: the endpoint; None: the ``openai`` package's own (``OPENAI_BASE_URL``, or OpenAI).
    `api_key_env`: the environment variable that holds the key; endpoints of one's own often need none. None:
      ``OPENAI_API_KEY`` at the host that ``OPENAI_BASE_URL`` names, or OpenAI's; no key at others.
    `temperature`: None: the model's own.
    `concurrency`: requests at a time.
    `memory`: JSON Lines of usable replies: what is there is not asked again, so that a run broken off goes on where it was.
    """

    name: str
    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | None = None
    concurrency: int = 8
    timeout: float = 300
    memory: Path | None = None
    usage: Usage = field(default_factory=Usage)

    def ask_all(self, prompts: Sequence[tuple[str, str]], parse: Callable[[Any], T]) -> list[T | None]:
        """Return what `parse` makes of the JSON object in the reply to each prompt; None: no usable reply.

        `prompts` (sequence of (str, str)): a name that tells repetitions of one prompt apart, and the prompt.
        `parse`: takes the object; raises `Unusable` when it is not what was asked for, and the model is asked again.

        Raises GraphRAGError: 08006 when the endpoint cannot be reached or refuses; replies until then are in the memory.
        """
        return asyncio.run(self._ask_all(prompts, parse))

    async def _ask_all(self, prompts: Sequence[tuple[str, str]], parse: Callable[[Any], T]) -> list[T | None]:
        import openai

        replies = self._stored_replies()
        free = asyncio.Semaphore(self.concurrency)

        async def ask_one(name: str, prompt: str) -> T | None:
            key = hashlib.sha256(json.dumps([self.name, self.temperature, name, prompt]).encode()).hexdigest()
            if key in replies:
                self.usage.remembered += 1
                return parse(read_object(replies[key]))
            async with free:
                return await self._ask(client, key, prompt, parse)

        async with self._client() as client:
            tasks = [asyncio.ensure_future(ask_one(name, prompt)) for name, prompt in prompts]
            try:
                return await asyncio.gather(*tasks)
            except openai.OpenAIError as error:
                raise GraphRAGError(
                    f"the model {self.name} at {client.base_url} cannot be asked: {_first_line(error)}",
                    sqlstate="08006",
                    hint="Check --base-url, --model and the key; what was answered until now is kept with --memory.",
                ) from error
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, client: Any, key: str, prompt: str, parse: Callable[[Any], T]) -> T | None:
        request: dict[str, Any] = {"model": self.name, "messages": [{"role": "user", "content": prompt}]}
        if self.temperature is not None:
            request["temperature"] = self.temperature
        for _ in range(ATTEMPTS):
            completion = await client.chat.completions.create(**request)
            self.usage.calls += 1
            if completion.usage is not None:
                self.usage.tokens_in += completion.usage.prompt_tokens
                self.usage.tokens_out += completion.usage.completion_tokens
            reply = (completion.choices[0].message.content if completion.choices else None) or ""
            try:
                result = parse(read_object(reply))
            except Unusable:
                continue
            self._remember(key, reply)
            return result
        self.usage.unusable += 1
        return None

    def _client(self) -> Any:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        own = os.environ.get("OPENAI_BASE_URL") or _OPENAI
        is_of_host = self.base_url is None or _origin(self.base_url) == _origin(own)
        name = self.api_key_env or ("OPENAI_API_KEY" if is_of_host else "")
        key = os.environ.get(name)
        if key is None and (self.api_key_env or self.base_url is None):
            raise GraphRAGError(
                f"there is no key in the environment variable {name}",
                sqlstate="28000",
                hint="Set it, name another with --api-key-env, or an endpoint that needs none with --base-url.",
            )
        # Calls to this machine must not go through a proxy.
        host = urlsplit(self.base_url or "").hostname or ""
        local = host == "localhost" or host.startswith("127.") or host == "::1"
        return AsyncOpenAI(
            base_url=self.base_url,
            api_key=key or "none",
            max_retries=_RETRIES,
            timeout=self.timeout,
            http_client=DefaultAsyncHttpxClient(timeout=self.timeout, trust_env=not local),
        )

    def _stored_replies(self) -> dict[str, str]:
        if self.memory is None or not self.memory.exists():
            return {}
        replies = {}
        for line in self.memory.read_text(encoding="utf-8").splitlines():
            # A line that a killed run left half written counts as missing.
            try:
                entry = json.loads(line)
                replies[str(entry["key"])] = str(entry["reply"])
            except (ValueError, KeyError, TypeError):
                continue
        return replies

    def _remember(self, key: str, reply: str) -> None:
        if self.memory is not None:
            with self.memory.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "reply": reply}) + "\n")


def _origin(url: str) -> tuple[str, str]:
    """Return scheme and host, with the port that is given."""
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()


def read_object(text: str) -> Any:
    """Return the first whole JSON object in a reply, be it within prose, thoughts or a code fence.

    Raises Unusable when there is none.
    """
    if (value := next(filter(None, objects(without_reasoning(text))), None)) is None:
        raise Unusable("the reply holds no JSON object")
    return value


def _first_line(error: Exception) -> str:
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    return (str(error).strip().splitlines() or [type(error).__name__])[0] + cause
