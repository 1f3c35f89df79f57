"""A deterministic embedder without a model: words hashed to signed places, as the peer's measurement has it."""

import hashlib
import re
from functools import lru_cache
from typing import Any

import numpy as np

_WORD = re.compile(r"\w+")


@lru_cache(maxsize=200_000)
def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def embed_one(text: str, dimensions: int = 384) -> Any:
    """Return the text's vector, (dimensions,) float32, L2-normalised."""
    vector = np.zeros(dimensions, np.float32)
    for word in _WORD.findall(text.lower()):
        number = _hash(word)
        vector[number % dimensions] += 1.0 if (number >> 32) & 1 else -1.0
    length = np.linalg.norm(vector)
    return vector / length if length else vector + 1 / np.sqrt(dimensions, dtype=np.float32)


def as_json(vector: Any) -> str:
    """The vector as a JSON array that reads back as the same float32 values."""
    return "[" + ",".join("0.0" if value == 0 else f"{value:.9g}" for value in vector.tolist()) + "]"
