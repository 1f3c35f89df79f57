"""What the local models share: their files, batches of texts, and encoders. Weights are mapped, so sessions share them."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import NDArray, Vectors, np
from pg_graphrag.llm.embedding.bert import BertEncoder, Floats, read_header
from pg_graphrag.text.letters import without_stray_invisible

WEIGHTS = "model.safetensors"
_STEP_TOKENS = 512  # about 0.18 s on one 2.4 GHz AVX2 core; matrix products gain nothing from more rows
_STEP_TEXTS = 256  # tokenised at a time; about 0.07 s
_SORTED_TEXTS = 4096  # sorted by length together: texts of equal length share products


class Encoder(Protocol):
    """What turns token ids into vectors."""

    def steps(self, lengths: Mapping[int, int]) -> Iterator[list[int]]:
        """Cut the keys of sequences of these lengths into batches that are encoded together, of about 0.1 s."""

    def encode(self, sequences: Sequence[Sequence[int]]) -> Floats:
        """Return the (n, width) vectors of the `sequences` of one of `steps`, in their order."""


def numpy_encoder(weights: Path, config: dict[str, Any]) -> Encoder:
    """Return the encoder that needs no package but numpy."""
    return BertEncoder(weights, config, _STEP_TOKENS)


class LocalModel(ABC):
    """A `pg_graphrag.llm.embedding.Embedder` whose files lie beside the package.

    Parameters
    ----------
    directory : Path
        Where the files of `digests` lie.
    encoder
        Makes the encoder of the weights' file and the model's ``config.json``; by default numpy's.
    """

    model: str
    dimensions: int
    max_tokens: int
    languages: frozenset[str]
    digests: ClassVar[dict[str, str]]
    """SHA-256 of each file."""
    weights_bytes: ClassVar[int]
    header_digest: ClassVar[str]
    """SHA-256 of the JSON header of the weights."""

    def __init__(self, directory: Path, encoder: Callable[[Path, dict[str, Any]], Encoder] = numpy_encoder) -> None:
        check_files(directory, type(self))
        self.config: dict[str, Any] = json.loads((directory / "config.json").read_bytes())
        self._encoder = encoder(directory / WEIGHTS, self.config)

    @abstractmethod
    def tokens(self, text: str) -> list[int]:
        """Return the token ids of a text, special ones included, at most `max_tokens`."""

    def finish(self, vectors: Vectors) -> Vectors:
        """Return (n, dimensions) vectors of the encoder as they are compared."""
        return vectors

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the (n, dimensions) vectors of `texts`, in their order."""
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for indices, step in self.embed_batches(texts):
            vectors[indices] = step
        return vectors

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.intp], Vectors]]:
        """Yield (indices into `texts`, their vectors), at most 512 tokens or the tokenising of 256 texts (none) in a step."""
        for start in range(0, len(texts), _SORTED_TEXTS):
            ids: dict[int, list[int]] = {}
            for index in range(start, min(start + _SORTED_TEXTS, len(texts))):
                ids[index] = self.tokens(without_stray_invisible(texts[index]))
                if len(ids) % _STEP_TEXTS == 0:
                    yield np.empty(0, np.intp), np.empty((0, self.dimensions), np.float32)
            for indices in self._encoder.steps({index: len(tokens) for index, tokens in ids.items()}):
                yield np.array(indices, np.intp), self.finish(self._encoder.encode([ids[index] for index in indices]))


def check_files(directory: Path, model: type["LocalModel"]) -> None:
    """Raise unless the model files are those the package was made for.

    The weights are known by size and header; who installs them checks their whole SHA-256.

    Raises
    ------
    GraphRAGError
        58P01 (missing or unreadable) or XX001 (other content).
    """
    try:
        contents = {name: (directory / name).read_bytes() for name in model.digests if name != WEIGHTS}
        damaged = [
            name for name, content in contents.items() if hashlib.sha256(content).hexdigest() != model.digests[name]
        ]
        weights = directory / WEIGHTS
        if weights.stat().st_size != model.weights_bytes or (
            hashlib.sha256(read_header(weights)[0]).hexdigest() != model.header_digest
        ):
            damaged.append(WEIGHTS)
    except OSError as error:
        raise GraphRAGError(
            f'embedding model "{model.model}" cannot be read: {error.strerror}',
            sqlstate="58P01",
            detail=f"File: {error.filename}",
            hint=f"Rebuild the server's runtime, which installs {', '.join(model.digests)} there, readable by the server.",
        ) from error
    if damaged:
        raise GraphRAGError(
            f'embedding model "{model.model}" is damaged or of another version: {", ".join(damaged)}',
            sqlstate="XX001",
            detail=f"Folder: {directory}",
            hint=f"Rebuild the server's runtime, which installs the files with these SHA-256: {model.digests}",
        )
