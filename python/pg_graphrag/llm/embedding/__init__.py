"""Text to vectors without a network: the models in the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from pg_graphrag.ground.numeric import NDArray, Vectors, np
    from pg_graphrag.llm.embedding.local_model import Encoder
    from pg_graphrag.llm.embedding.name_tagger import Reading


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

    def tag_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.intp], Vectors, list[Reading]]]:
        """Yield as `embed_batches` does, with the names read in each text: one pass of the encoder gives both."""


@cache
def local_embedder(model: str) -> Embedder:
    """Return the process's all-MiniLM-L6-v2 or multilingual-e5-small for questions, by numpy, loaded on first use.

    Raises
    ------
    GraphRAGError
        58P01 when a model file is missing or unreadable, XX001 when it is not the one this package was made for.
    """
    from pg_graphrag.llm.embedding.local_model import numpy_encoder

    return load(model, numpy_encoder)


def load(model: str, encoder: Callable[[Path, dict[str, Any]], Encoder]) -> Embedder:
    """Return a local model with an encoder of its own; errors as `local_embedder`."""
    from pg_graphrag.ground.asset_paths import MODELS

    if model == "all-MiniLM-L6-v2":
        from pg_graphrag.llm.embedding.minilm import MiniLM

        return MiniLM(MODELS / model, encoder)
    from pg_graphrag.llm.embedding.e5 import E5

    return E5(MODELS / model, encoder)
