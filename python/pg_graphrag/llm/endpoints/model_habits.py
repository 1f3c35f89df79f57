"""How fast a model reads prompts, and what else of it matters before a request, as all sessions of the database have seen it.

A file of 26 bytes for each model, in the host's folder for what need not outlive the server. It tells how much context an answer
can be given in its time, what of a stream is held back, and how a server notices that nobody waits.
"""

import contextlib
import hashlib
import os
import struct
import time

from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.server import Database
from pg_graphrag.server.session_places import installation

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
        """Note that a prompt of so many tokens, without those in the endpoint's cache, was read within so many seconds."""
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
