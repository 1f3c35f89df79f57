"""Text to vectors, without a network: the model that lies beside the package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pg_graphrag.numeric import NDArray, Vectors, np


class Embedder(Protocol):
    """A model that turns texts into L2-normalised float32 vectors."""

    model: str
    dimensions: int
    max_tokens: int
    """Tokens of a text that count, special ones included; the rest of the text is not seen."""
    languages: frozenset[str]
    """ISO 639-1 codes of the languages the model was made for."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the (n, dimensions) vectors of `texts`, in their order."""

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.intp], Vectors]]:
        """Yield (indices into `texts`, their vectors) in steps of about 0.2 s, so that a caller can poll for cancel."""


@cache
def local_embedder() -> Embedder:
    """Return the process's all-MiniLM-L6-v2 for questions, by numpy, loaded on first use.

    Raises
    ------
    GraphRAGError
        58P01 when a model file is missing or unreadable, XX001 when it is not the one this package was made for.
    """
    from pg_graphrag.embedding.minilm import MiniLM
    from pg_graphrag.paths import MODELS

    return MiniLM(MODELS / MiniLM.model)
