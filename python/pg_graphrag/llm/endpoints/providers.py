"""Endpoints of models: settings and their checks, the key (read for each call and stored nowhere), and habits of
models.

Habits are how fast a model reads prompts, and what else matters before a request. They are in a file of 26 bytes for
each model, in the host's folder for files that need not outlive the server. They say how much context an answer can be
given in its time, what a stream holds back, and how a server notices that nobody waits.
"""

import contextlib
import hashlib
import json
import os
import re
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pg_graphrag.ground.errors import GraphRAGError, known_hint
from pg_graphrag.ground.json_reading import read_options
from pg_graphrag.server import OWNER, Database
from pg_graphrag.server.session_places import installation

KINDS = ("openai", "rerank")
# Time-out of a cross-encoder: a search can do without it.
RERANK_SECONDS = 20.0
# Characters of a key file that are read; a longer one is no key.
MAX_KEY = 10_000


@dataclass(frozen=True, slots=True)
class Provider:
    """A row of graphrag.providers with its options (defaults filled in)."""

    id: int
    name: str
    kind: str
    base_url: str
    api_key_env: str | None = None
    api_key_file: str | None = None
    concurrency: int = 8
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    timeout: float = 120.0
    stream_idle: float = 60.0
    stream_seconds: float = 600.0
    streams_per_role: int = 4
    price_input: float = 0.0
    price_output: float = 0.0
    batch: bool = False
    batch_price: float = 0.5
    batch_requests: int = 10_000
    batch_endpoint: str | None = None
    json: str = "schema"
    shape: str = "cohere"
    auth: str = "bearer"
    chat_request: dict[str, Any] = field(default_factory=dict)
    embedding_request: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)

    @property
    def batch_path(self) -> str:
        """The path of a batch's requests; Azure's differs from OpenAI's."""
        return self.batch_endpoint or ("/chat/completions" if self.auth == "api-key" else "/v1/chat/completions")

    def api_key(self) -> str | None:
        """Return the key, or None where the provider has none.

        Raises GraphRAGError: 58P01 naming the variable or the file, never a value, when it is absent or empty.
        """
        if self.api_key_env:
            value = os.environ.get(self.api_key_env, "").strip()
            source = f"environment variable {self.api_key_env}"
        elif self.api_key_file:
            source = f"file {self.api_key_file}"
            value = _read_text(Path(self.api_key_file)).strip()
        else:
            return None
        if not 0 < len(value) < MAX_KEY or not value.isascii() or not value.isprintable() or " " in value:
            raise GraphRAGError(
                f'no usable key for provider "{self.name}" in {source}',
                sqlstate="58P01",
                hint="The server's process reads it when it makes a call: set it there (an environment variable needs a "
                "restart of the server), readable for the server's user, one line.",
            )
        return value


def _read_text(path: Path) -> str:
    """Return the text of a file, at most MAX_KEY characters; empty if it is no regular file."""
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="utf-8-sig") as file:
            return file.read(MAX_KEY)
    except (OSError, UnicodeDecodeError):
        return ""


# option: (type, check, allowed values in words)
_OPTIONS: dict[str, tuple[tuple[type, ...], Any, str]] = {
    "concurrency": ((int,), lambda v: 1 <= v <= 256, "a whole number from 1 to 256"),
    "requests_per_minute": ((int,), lambda v: v >= 1, "a whole number above 0"),
    "tokens_per_minute": ((int,), lambda v: v >= 1, "a whole number above 0"),
    "timeout": ((int, float), lambda v: 0 < v <= 3600, "seconds, above 0 and at most 3600"),
    "stream_idle": ((int, float), lambda v: 0 < v <= 86400, "seconds, above 0 and at most 86400"),
    "stream_seconds": ((int, float), lambda v: 0 < v <= 86400, "seconds, above 0 and at most 86400"),
    "streams_per_role": ((int,), lambda v: 1 <= v <= 256, "a whole number from 1 to 256"),
    "price_input": ((int, float), lambda v: 0 <= v <= 1e6, "a price per million tokens"),
    "price_output": ((int, float), lambda v: 0 <= v <= 1e6, "a price per million tokens"),
    "batch": ((bool,), lambda v: True, "true or false"),
    "batch_price": ((int, float), lambda v: 0 <= v <= 1, "what a batch costs, as part of the price: from 0 to 1"),
    "batch_requests": ((int,), lambda v: 1 <= v <= 50_000, "a whole number from 1 to 50000"),
    "batch_endpoint": ((str,), lambda v: v.startswith("/") and v.isprintable(), "a path, as /v1/chat/completions"),
    "json": ((str,), lambda v: v in ("schema", "object", "none"), "schema, object or none"),
    "shape": ((str,), lambda v: v in ("cohere", "tei"), "cohere (Cohere, Jina, vLLM) or tei"),
    "auth": ((str,), lambda v: v in ("bearer", "api-key"), "bearer, or api-key (Azure)"),
    "chat_request": (
        (dict,),
        lambda v: True,
        "an object of fields to add to (or, as null, remove from) a chat request",
    ),
    "embedding_request": ((dict,), lambda v: True, "an object of fields to add to an embeddings request"),
    "headers": ((dict,), lambda v: all(map(_sendable, v.items())), "an object of printable ASCII strings"),
    "query": ((dict,), lambda v: all(map(_sendable, v.items())), "an object of printable ASCII strings"),
}
# A key in the options would be stored, dumped and shown.
_SECRET = re.compile(r"key|token|auth|secret|cookie|passw|signature|\bsig\b", re.I)
# In bodies, where max_tokens and prompt_cache_key are no secrets.
_SECRET_FIELD = re.compile(r"api.?key|(access|auth|bearer|secret).?(token|key)|authorization|secret|passw", re.I)


_PLACES = {"headers": _SECRET, "query": _SECRET, "chat_request": _SECRET_FIELD, "embedding_request": _SECRET_FIELD}


def _sendable(item: tuple[str, Any]) -> bool:
    return all(isinstance(text, str) and text.isascii() and text.isprintable() for text in item) and bool(item[0])


def check(
    name: str | None,
    kind: str | None,
    base_url: str | None,
    api_key_env: str | None,
    api_key_file: str | None,
    options: dict[str, Any],
) -> None:
    """Raise 22023, naming the error, if the settings of a provider are invalid. Values of headers are not repeated."""
    if not name or name == "local":
        raise GraphRAGError(f"a provider cannot be called {name!r}", hint='Give a name other than "local".')
    if kind not in KINDS:
        raise GraphRAGError(f"kind of provider cannot be {kind!r}", hint=f"Give one of {', '.join(KINDS)}.")
    _check_url(base_url)
    if api_key_env and api_key_file:
        raise GraphRAGError(
            f'provider "{name}" has two references to a key', hint="Give api_key_env or api_key_file, not both."
        )
    if api_key_file and not Path(api_key_file).is_absolute():
        raise GraphRAGError(f"api_key_file cannot be {api_key_file!r}", hint="Give an absolute path on the server.")
    if api_key_env and not api_key_env.replace("_", "a").isalnum():
        raise GraphRAGError("api_key_env is not the name of an environment variable", hint="Give a name, never a key.")
    for option, value in options.items():
        if option not in _OPTIONS:
            raise GraphRAGError(f'unknown provider option "{option}"', hint=known_hint(option, sorted(_OPTIONS)))
        types, good, expectation = _OPTIONS[option]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types) or not good(value):
            value_text = "that value" if option in ("headers", "query") else json.dumps(value)
            raise GraphRAGError(f'provider option "{option}" cannot be {value_text}', hint=f"Give {expectation}.")
    for place, secret in _PLACES.items():
        for field_name in options.get(place, {}):
            if secret.search(field_name):
                raise GraphRAGError(
                    f'"{field_name}" in {place} would store a secret',
                    hint="Refer to the key by api_key_env or api_key_file.",
                )


def _check_url(base_url: str | None) -> None:
    try:
        parts = urlsplit(base_url or "")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        good = good and not parts.query and not parts.fragment and (base_url or "").isprintable()
        good = good and " " not in (base_url or "")
        secret = bool(parts.username or parts.password)
    except ValueError:
        good = secret = False
    if secret:
        raise GraphRAGError(
            "base_url holds a user name or password", hint="Refer to a key by api_key_env or api_key_file."
        )
    if not good:
        # The error must not repeat a key.
        url_text = None if base_url is None else re.sub(r"(//)[^/]*@|[?#].*", r"\1…", base_url, flags=re.S)
        raise GraphRAGError(f"base_url cannot be {url_text!r}", hint="For example https://api.openai.com/v1.")


def set_provider(
    db: Database,
    name: str | None,
    kind: str | None,
    base_url: str | None,
    api_key_env: str | None,
    api_key_file: str | None,
    options: str | None,
) -> None:
    """Create or replace a provider.

    Raises GraphRAGError: 42501 for anyone but the extension's owner and superusers, whatever was granted; 22023 for a bad
      value.
    """
    refuse_others(db, "set a provider")
    values = read_options(options, '{"concurrency": 16}')
    check(name, kind, base_url, api_key_env, api_key_file, values)
    db.query(
        "INSERT INTO graphrag.providers (name, kind, base_url, api_key_env, api_key_file, options)"
        " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO UPDATE SET kind = excluded.kind,"
        " base_url = excluded.base_url, api_key_env = excluded.api_key_env, api_key_file = excluded.api_key_file,"
        " options = excluded.options",
        ["text", "text", "text", "text", "text", "jsonb"],
        [name, kind, base_url, api_key_env, api_key_file, json.dumps(values)],
    )
    # Failures with the old settings say nothing of the new ones.
    db.query("DELETE FROM graphrag.provider_state WHERE provider = $1", ["text"], [name])
    # Jobs that wait for a batch look again: the new settings may have no batches.
    db.query(
        "UPDATE graphrag.jobs SET next_attempt_at = pg_catalog.now() WHERE state = 'pending' AND payload ? 'waiting'"
    )


def load_provider(db: Database, name: str, kind: str | None = "openai") -> Provider:
    """Return the provider called `name`; 42704 if there is none of that kind (None: of any)."""
    rows = db.query(
        "SELECT p.id, p.name, p.kind, p.base_url, p.api_key_env, p.api_key_file, p.options"
        "  FROM graphrag.providers p WHERE p.name = $1",
        ["text"],
        [name],
    )
    if not rows:
        raise GraphRAGError(
            f'provider "{name}" does not exist', sqlstate="42704", hint="Create it with graphrag.set_provider(…)."
        )
    row = dict(rows[0])
    if kind is not None and row["kind"] != kind:
        raise GraphRAGError(
            f'provider "{name}" is of kind {row["kind"]}, not {kind}', hint="Name a provider of the right kind."
        )
    options = json.loads(row.pop("options"))
    if kind == "rerank":
        options.setdefault("timeout", RERANK_SECONDS)
    return Provider(**row, **options)


def refuse_others(db: Database, act: str) -> None:
    """Raise 42501 for anyone but the extension's owner and superusers, who alone may do `act`."""
    row = db.query(f"SELECT current_user AS name, pg_catalog.pg_has_role({OWNER}, 'USAGE') AS may")[0]
    if not row["may"]:
        raise GraphRAGError(
            f'role "{row["name"]}" may not {act}',
            sqlstate="42501",
            hint="Call it as the owner of the extension or as a superuser.",
        )


# Tokens of a prompt that tells something; of one that was not read in time, which may be for other reasons.
LEAST_TOKENS, LEAST_MISSED = 300, 1000
# Until the first token of a reply come the way to the endpoint, and a token to write.
LATENCY_SECONDS = 1.0
# A prompt of a quarter of the tokens of another tells less; after so long, more.
LEAST_SHARE, LASTING_SECONDS = 0.25, 3600.0

_FOLDER = "pg_stat_tmp"
# When it was seen, tokens of the prompt, tokens a second.
_RECORD = struct.Struct("<ddd")
# Behind that a byte for each of these: it ended thoughts that no mark had begun; its server is llama.cpp's.
THINKS_UNMARKED, IS_LLAMA_CPP = range(2)
_SEEN = b"\1"


class ModelHabits:
    """What was seen of a provider's model."""

    def __init__(self, db: Database, provider: Provider, model: str) -> None:
        self.provider = provider
        # Behind another address of the provider the model may be another, and so may the server.
        digest = hashlib.sha256(f"{provider.base_url} {model}".encode("utf-8", "replace")).hexdigest()[:16]
        self._path = db.folder(_FOLDER) / f"{installation(db)}_reading_{provider.id}_{digest}"

    def tokens_a_second(self) -> float | None:
        """Return the speed; None where it is not known."""
        return self._record()[2] or None

    def read(self, tokens: int, seconds: float) -> None:
        """Record that a prompt of so many tokens, without those in the endpoint's cache, was read within so many seconds."""
        if tokens >= LEAST_TOKENS:
            self._note(tokens, tokens / max(seconds - LATENCY_SECONDS, 1e-3))

    def missed(self, tokens: int, seconds: float) -> None:
        """Note that a prompt was not read: it takes twice the time, say."""
        if tokens >= LEAST_MISSED:
            self._note(tokens, tokens / max(seconds, 1e-3) / 2)

    def has(self, habit: int) -> bool:
        """Whether it was seen to do so."""
        try:
            return self._path.read_bytes()[_RECORD.size + habit :][:1] == _SEEN
        except OSError:
            return False

    def note(self, habit: int) -> None:
        """Note that it did so."""
        if not self.has(habit):
            self._write(_SEEN, _RECORD.size + habit)

    def _record(self) -> tuple[float, float, float]:
        try:
            data = self._path.read_bytes()
        except OSError:
            return 0.0, 0.0, 0.0
        seen_at, tokens, speed = _RECORD.unpack_from(data) if len(data) >= _RECORD.size else (0.0, 0.0, 0.0)
        return (seen_at, tokens, speed) if seen_at > time.time() - LASTING_SECONDS else (0.0, 0.0, 0.0)

    def _note(self, tokens: int, speed: float) -> None:
        _, known_tokens, known_speed = self._record()
        # A model that was slow once is not slow for an hour.
        if tokens < LEAST_SHARE * known_tokens and speed <= known_speed:
            return
        self._write(_RECORD.pack(time.time(), tokens, speed), 0)

    def _write(self, data: bytes, place: int) -> None:
        # On a full disk it is not known.
        with contextlib.suppress(OSError):
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(file, data, place)
            finally:
                os.close(file)
