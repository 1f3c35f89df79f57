"""sentence-transformers/all-MiniLM-L6-v2: tokenise, encode, mean-pool, normalise, as sentence-transformers does."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer

from pg_graphrag.embedding.bert import BertEncoder, Floats, read_header
from pg_graphrag.embedding.head import TextHead
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import NDArray, Vectors, np

_WEIGHTS, _WEIGHTS_BYTES = "model.safetensors", 90_868_376
_WEIGHTS_HEADER_SHA256 = "a1621c79b67c1aa27f5784108b97e010fa884e26b187ba5c351328d9125e10a7"
_SHA256 = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    _WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
_STEP_TOKENS = 512  # about 0.18 s on one 2.4 GHz AVX2 core; matrix products gain nothing from more rows
_STEP_TEXTS = 256  # tokenised at a time; about 0.07 s
_SORTED_TEXTS = 4096  # sorted by length together: texts of equal length share products


class Encoder(Protocol):
    """What turns token ids into vectors."""

    def encode(self, sequences: Sequence[Sequence[int]]) -> Floats:
        """Return the (n, width) vectors of `sequences`, sorted by length and of `_STEP_TOKENS` tokens together at most."""


def _numpy(weights: Path, config: dict[str, Any]) -> Encoder:
    return BertEncoder(weights, config, _STEP_TOKENS)


class MiniLM:
    """The local `pg_graphrag.embedding.Embedder`; weights are mapped, so sessions share them.

    Parameters
    ----------
    directory : Path
        Where config.json, tokenizer.json and model.safetensors lie.
    encoder
        Makes the encoder of the weights' file and the model's ``config.json``; by default numpy's.
    """

    model = "all-MiniLM-L6-v2"
    dimensions = 384
    max_tokens = 256  # sentence_bert_config.json: max_seq_length
    languages = frozenset({"en"})

    def __init__(self, directory: Path, encoder: Callable[[Path, dict[str, Any]], Encoder] = _numpy) -> None:
        _check_files(directory)
        self._tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_tokens)
        self._head = TextHead(self._tokenizer, self.max_tokens)
        config = json.loads((directory / "config.json").read_bytes())
        self._encoder = encoder(directory / _WEIGHTS, config)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the (n, 384) vectors of `texts`, in their order."""
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for indices, step in self.embed_batches(texts):
            vectors[indices] = step
        return vectors

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.intp], Vectors]]:
        """Yield (indices into `texts`, their vectors), at most 512 tokens or the tokenising of 256 texts (none) in a step."""
        for start in range(0, len(texts), _SORTED_TEXTS):
            ids: dict[int, list[int]] = {}
            for index in range(start, min(start + _SORTED_TEXTS, len(texts))):
                ids[index] = self._tokenizer.encode(self._head(texts[index])).ids
                if len(ids) % _STEP_TEXTS == 0:
                    yield np.empty(0, np.intp), np.empty((0, self.dimensions), np.float32)
            for indices in _steps({index: len(tokens) for index, tokens in ids.items()}):
                yield np.array(indices, np.intp), self._encoder.encode([ids[index] for index in indices])


def _check_files(directory: Path) -> None:
    """Raise unless the model files are those the package was made for.

    The 90 MB of weights are known by size and header; who installs them checks their whole SHA-256.

    Raises
    ------
    GraphRAGError
        58P01 (missing or unreadable) or XX001 (other content).
    """
    try:
        contents = {name: (directory / name).read_bytes() for name in ("config.json", "tokenizer.json")}
        damaged = [name for name, content in contents.items() if hashlib.sha256(content).hexdigest() != _SHA256[name]]
        weights = directory / _WEIGHTS
        if weights.stat().st_size != _WEIGHTS_BYTES or (
            hashlib.sha256(read_header(weights)[0]).hexdigest() != _WEIGHTS_HEADER_SHA256
        ):
            damaged.append(_WEIGHTS)
    except OSError as error:
        raise GraphRAGError(
            f'embedding model "{MiniLM.model}" cannot be read: {error.strerror}',
            sqlstate="58P01",
            detail=f"File: {error.filename}",
            hint=f"Rebuild the server's runtime, which installs {', '.join(_SHA256)} there, readable by the server.",
        ) from error
    if damaged:
        raise GraphRAGError(
            f'embedding model "{MiniLM.model}" is damaged or of another version: {", ".join(damaged)}',
            sqlstate="XX001",
            detail=f"Folder: {directory}",
            hint=f"Rebuild the server's runtime, which installs the files with these SHA-256: {_SHA256}",
        )


def _steps(lengths: dict[int, int]) -> Iterator[list[int]]:
    """Sort indices by length and cut them into runs of at most ``_STEP_TOKENS`` tokens."""
    step: list[int] = []
    tokens = 0
    for index, length in sorted(lengths.items(), key=itemgetter(1)):
        if tokens + length > _STEP_TOKENS:
            yield step
            step, tokens = [], 0
        step.append(index)
        tokens += length
    yield step
