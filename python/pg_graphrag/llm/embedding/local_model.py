"""What the local models share: their files, batches of texts, and the encoder, BERT in float32 numpy.

Weights are mapped, so sessions share them through the page cache. Devlin et al., "BERT" (arXiv 1810.04805), post-norm
layers. Sequences are packed one after the other with no padding: matrix products run over real tokens only, and
attention runs per group of sequences of equal length.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import NDArray, Vectors, multiply, np
from pg_graphrag.llm.embedding.tensors import Floats, map_tensors, read_header, word_rows
from pg_graphrag.text.letters import without_stray_invisible

if TYPE_CHECKING:
    from pg_graphrag.llm.embedding.name_tagger import NameTagger, Reading
    from pg_graphrag.text.naming.unit_traits import Span

# x * Phi(x) = x / (1 + exp(-x * q(x^2))), q the weighted least-squares fit (iterated towards minimax on the error of
# the product) of log(Phi / (1 - Phi)) / x for |x| <= 5.5, constant beyond: |error| < 1.3e-5 (float64, |x| <= 8).
_GELU = tuple(np.float32(-c) for c in (1.59538221, 7.34584546e-02, -5.08998661e-04, -1.73326677e-05))
_GELU_LIMIT = np.float32(5.5**2)
_GELU_POWER = np.float32(80)
_GELU_ROWS = 16  # rows at a time: input and scratch stay in the level-2 cache

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

    def encode_with_states(
        self, sequences: Sequence[Sequence[int]], layers: Sequence[int]
    ) -> tuple[Floats, list[Floats]]:
        """Return the vectors as `encode` does, and of each sequence the (tokens, layers * width) states behind some layers.

        Layers are numbered from one, ascending.
        """


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

    @abstractmethod
    def tokens_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the ids as `tokens` does, and the characters of the text that each stands for: ascending, some empty."""

    def finish(self, vectors: Vectors) -> Vectors:
        """Return (n, dimensions) vectors of the encoder in the form in which they are compared."""
        return vectors

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the (n, dimensions) vectors of `texts`, in their order."""
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for indices, step in self.embed_batches(texts):
            vectors[indices] = step
        return vectors

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.intp], Vectors]]:
        """Yield (indices into `texts`, their vectors), at most 512 tokens or the tokenising of 256 texts (none) in a step."""
        for indices, vectors, _ in self._batches(texts, None):
            yield indices, vectors

    def tag_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.intp], Vectors, list[Reading]]]:
        """Yield (indices into `texts`, their vectors, the names read in each), the vectors as `embed_batches` gives them.

        With numpy, the vectors equal those of each text by itself. Places refer to the given texts. Text after `max_tokens`
        is not read.
        """
        from pg_graphrag.llm.embedding.name_tagger import name_tagger

        return self._batches(texts, name_tagger(self.model))

    def _batches(
        self, texts: Sequence[str], tagger: NameTagger | None
    ) -> Iterator[tuple[NDArray[np.intp], Vectors, list[Reading]]]:
        for start in range(0, len(texts), _SORTED_TEXTS):
            ids: dict[int, list[int]] = {}
            spans: dict[int, list[Span]] = {}
            for index in range(start, min(start + _SORTED_TEXTS, len(texts))):
                text = without_stray_invisible(texts[index])
                if tagger is None:
                    ids[index] = self.tokens(text)
                else:
                    ids[index], spans[index] = self.tokens_with_spans(text)
                if len(ids) % _STEP_TEXTS == 0:
                    yield np.empty(0, np.intp), np.empty((0, self.dimensions), np.float32), []
            for indices in self._encoder.steps({index: len(tokens) for index, tokens in ids.items()}):
                sequences = [ids[index] for index in indices]
                readings: list[Reading] = []
                if tagger is None:
                    vectors = self._encoder.encode(sequences)
                else:
                    vectors, states = self._encoder.encode_with_states(sequences, tagger.layers)
                    readings = self._readings(
                        tagger, [texts[index] for index in indices], [spans[index] for index in indices], states
                    )
                yield np.array(indices, np.intp), self.finish(vectors), readings

    def _readings(
        self, tagger: NameTagger, texts: Sequence[str], spans: Sequence[list[Span]], states: Sequence[Floats]
    ) -> list[Reading]:
        from pg_graphrag.llm.embedding.name_tagger import Reading

        cleaned = [without_stray_invisible(text) for text in texts]
        names = tagger.names(cleaned, spans, states)
        readings = []
        for text, clean, of_text, of_tokens, of_states in zip(texts, cleaned, names, spans, states, strict=True):
            place = _place_in(text, clean)
            readings.append(
                Reading(
                    [name._replace(start=place(name.start), end=place(name.end - 1) + 1) for name in of_text],
                    tagger.terms([(place(start), place(end)) for start, end in of_tokens], of_states),
                )
            )
        return readings


def _place_in(text: str, cleaned: str) -> Callable[[int], int]:
    """Return what gives the place in a text of a place in the text without invisible characters."""
    if len(cleaned) == len(text):
        return int
    places: list[int] = []
    for character in cleaned:
        places.append(text.index(character, places[-1] + 1 if places else 0))
    return [*places, len(text)].__getitem__


def check_files(directory: Path, model: type[LocalModel]) -> None:
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


class BertEncoder:
    """Token ids to mean-pooled, L2-normalised sentence vectors.

    Parameters
    ----------
    weights : Path
        The safetensors file, tensors named as transformers' ``BertModel`` names them.
    config : dict
        The model's ``config.json``: sizes and ``layer_norm_eps``.
    max_tokens : int
        Largest number of tokens of one call of `encode`; the working buffers have this many rows.
    """

    def __init__(self, weights: Path, config: dict[str, Any], max_tokens: int) -> None:
        tensors = map_tensors(weights)
        self._heads: int = config["num_attention_heads"]
        self._width: int = config["hidden_size"]
        self._head_width = self._width // self._heads
        self._epsilon = np.float32(config["layer_norm_eps"])
        self._words = word_rows(tensors)
        longest = min(max_tokens, config["max_position_embeddings"])
        self._positions = tensors["embeddings.position_embeddings.weight"][:longest]
        # Every token is in segment 0.
        self._segment = tensors["embeddings.token_type_embeddings.weight"][:1]
        self._norm = tensors["embeddings.LayerNorm.weight"], tensors["embeddings.LayerNorm.bias"]
        self._layers = [_layer(tensors, number) for number in range(config["num_hidden_layers"])]
        self._mean = np.full(self._width, 1 / self._width, np.float32)
        # Buffers are only address space until a call is large enough to touch them.
        self._states, self._query, self._key, self._value, self._context = np.empty(
            (5, max_tokens, self._width), np.float32
        )
        self._inner = np.empty((max_tokens, config["intermediate_size"]), np.float32)
        self._scratch = np.empty((2, _GELU_ROWS, config["intermediate_size"]), np.float32)
        self._limit = np.full_like(self._scratch[0], _GELU_LIMIT)  # minimum() with a scalar is three times slower
        self._summing_column = np.ones((longest, 1), np.float32)
        self._scores = np.empty(self._heads * max_tokens * longest, np.float32)

    def steps(self, lengths: Mapping[int, int]) -> Iterator[list[int]]:
        """Sort keys by the length of their sequences, and cut them into runs of at most ``max_tokens`` tokens."""
        step: list[int] = []
        tokens = 0
        for index, length in sorted(lengths.items(), key=itemgetter(1)):
            if tokens + length > len(self._states):
                yield step
                step, tokens = [], 0
            step.append(index)
            tokens += length
        if step:
            yield step

    def encode(self, sequences: Sequence[Sequence[int]]) -> Floats:
        """Return the (n, width) vectors of `sequences` of token ids, which together have at most ``max_tokens`` tokens.

        Neighbours of equal length share their attention products, so sort by length first.
        """
        return self._encode(sequences, ())[0]

    def encode_with_states(
        self, sequences: Sequence[Sequence[int]], layers: Sequence[int]
    ) -> tuple[Floats, list[Floats]]:
        """Return the vectors as `encode` does, and of each sequence the states behind some layers.

        Each is encoded by itself: what stands beside a row of a product may change its last bits, and so a name.
        """
        encoded = [self._encode([sequence], layers) for sequence in sequences]
        return np.concatenate([vectors for vectors, _ in encoded]), [states for _, states in encoded]

    def _encode(self, sequences: Sequence[Sequence[int]], layers: Sequence[int]) -> tuple[Floats, Floats]:
        groups: list[tuple[int, int, int]] = []  # first row, number of sequences, their length
        row = 0
        for length, members in groupby(map(len, sequences)):
            count = sum(1 for _ in members)
            groups.append((row, count, length))
            row += count * length
        states = self._states[:row]
        states[:] = self._words[np.concatenate([np.asarray(s, np.intp) for s in sequences])]  # may be float16
        for start, count, length in groups:
            view = states[start : start + count * length].reshape(count, length, self._width)
            # Their sum for all positions would be .8 MB of each session's own.
            view += self._positions[:length] + self._segment
        self._normalize(states, *self._norm)
        kept: list[Floats] = []
        for number, layer in enumerate(self._layers, 1):
            self._attend(states, groups, layer)
            self._feed_forward(states, layer)
            if number in layers:
                kept.append(states.copy())
        return self._pool(states, groups), np.concatenate(kept, axis=1) if kept else states[:, :0]

    def _attend(self, states: Floats, groups: list[tuple[int, int, int]], layer: dict[str, Floats]) -> None:
        rows = len(states)
        query, key, value, context = (b[:rows] for b in (self._query, self._key, self._value, self._context))
        for name, target in (("query", query), ("key", key), ("value", value)):
            multiply(states, layer[f"attention.self.{name}.weight"], target)
            target += layer[f"attention.self.{name}.bias"]
        query *= np.float32(1 / math.sqrt(self._head_width))
        for start, count, length in groups:
            shape = (count, length, self._heads, self._head_width)
            q, k, v, c = (
                b[start : start + count * length].reshape(shape).transpose(0, 2, 1, 3)
                for b in (query, key, value, context)
            )
            scores = self._scores[: count * self._heads * length * length].reshape(count, self._heads, length, length)
            np.matmul(q, k.swapaxes(2, 3), out=scores)
            scores -= scores.max(axis=3, keepdims=True)
            np.exp(scores, out=scores)
            np.matmul(scores, v, out=c)
            c /= scores @ self._summing_column[:length]  # row sums; BLAS is four times faster than sum()
        self._add_projection(states, context, layer, "attention.output")

    def _feed_forward(self, states: Floats, layer: dict[str, Floats]) -> None:
        inner = self._inner[: len(states)]
        multiply(states, layer["intermediate.dense.weight"], inner)
        bias = layer["intermediate.dense.bias"]
        for row in range(0, len(inner), _GELU_ROWS):
            self._gelu(inner[row : row + _GELU_ROWS], bias)
        self._add_projection(states, inner, layer, "output")

    def _add_projection(self, states: Floats, inputs: Floats, layer: dict[str, Floats], name: str) -> None:
        """``states = LayerNorm(states + inputs @ weight.T + bias)``, in place."""
        projection = self._query[: len(states)]
        multiply(inputs, layer[f"{name}.dense.weight"], projection)
        states += projection
        states += layer[f"{name}.dense.bias"]
        self._normalize(states, layer[f"{name}.LayerNorm.weight"], layer[f"{name}.LayerNorm.bias"])

    def _normalize(self, states: Floats, weight: Floats, bias: Floats) -> None:
        states -= (states @ self._mean)[:, None]
        variance = np.einsum("ij,ij->i", states, states) / np.float32(self._width)
        states *= (1 / np.sqrt(variance + self._epsilon))[:, None]
        states *= weight
        states += bias

    def _gelu(self, x: Floats, bias: Floats) -> None:
        """``x = GELU(x + bias)`` in place; see ``_GELU`` for the error."""
        square, power = self._scratch[:, : len(x)]
        x += bias
        np.multiply(x, x, out=square)
        np.minimum(square, self._limit[: len(x)], out=square)
        np.multiply(square, _GELU[3], out=power)
        for coefficient in (_GELU[2], _GELU[1]):
            power += coefficient
            power *= square
        power += _GELU[0]
        power *= x
        np.minimum(power, _GELU_POWER, out=power)  # of larger ones GELU is 0 anyway
        np.exp(power, out=power)
        power += np.float32(1)
        x /= power

    def _pool(self, states: Floats, groups: list[tuple[int, int, int]]) -> Floats:
        vectors = np.concatenate(
            [
                states[start : start + count * length].reshape(count, length, self._width).mean(axis=1)
                for start, count, length in groups
            ]
        )
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


def _layer(tensors: dict[str, Floats], number: int) -> dict[str, Floats]:
    prefix = f"encoder.layer.{number}."
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
