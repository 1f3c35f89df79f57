"""The BERT encoder by OpenVINO, for sessions that embed much: faster than numpy, but with more memory for each session.

The graph is built from the mapped weights and the model's ``config.json``; nothing is converted and no file is written.

OpenVINO makes a kernel for each shape of a batch, which takes as long as running it. So there are few shapes: a
sequence is padded to one of a few lengths, and a batch of one length has one of a few sizes. Padding is masked. A text
has the same vector, bit for bit, whatever is embedded with it: its own length decides how far it is padded, and every
row of a matrix product and every sequence of an attention is computed by itself.
"""

import importlib
import os
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import np
from pg_graphrag.ground.signals import signals_blocked
from pg_graphrag.llm.embedding.tensors import Floats, map_tensors, word_rows

# Its converter of models would load a package for telemetry: importing it fails, which openvino takes for not installed.
_CONVERTER = "openvino.tools.ovc"
# Lengths in tokens to which sequences are padded: by less than an eighth.
_LENGTHS: list[int] = [
    *range(1, 16),
    *range(16, 32, 2),
    *range(32, 64, 4),
    *range(64, 128, 8),
    *range(128, 256, 16),
    *range(256, 513, 32),
]
# Rows of a full batch: about 0.03 s in bfloat16 on one 4 GHz core. Matrix products gain nothing from more.
_ROWS = 512
# Rather than split, a batch is padded by up to so many rows: reading the weights takes as long.
_SPARE_ROWS = 32
# Kernels that are kept.
_SHAPES = 1024
# Columns of a token that share a scale where they are rounded to eight bits; a divisor of every width.
_SCALED_COLUMNS = 128
# What openvino computes in; where weights have eight bits, it multiplies them with tokens that it rounds to eight bits.
_HINTS = {"float32": "f32", "bfloat16": "bf16", "int8": "f32"}


def _openvino() -> Any:
    """Return the package, loaded with all signals blocked, since it starts threads.

    Raises
    ------
    GraphRAGError
        58P01 when it cannot be loaded.
    """
    if "openvino" not in sys.modules:
        os.environ.setdefault("HWLOC_HIDE_ERRORS", "2")  # it would write to the log of the server
        sys.modules[_CONVERTER] = None  # type: ignore[assignment]  # None: the import fails, by the import system's rules
        try:
            with signals_blocked():
                importlib.import_module("openvino")
        except (ImportError, OSError) as error:
            raise GraphRAGError(
                f"openvino cannot be loaded: {error}",
                sqlstate="58P01",
                hint="Install what docker/requirements.lock names, or SET graphrag.embedding_engine = 'numpy'.",
            ) from error
        finally:
            del sys.modules[_CONVERTER]
    return sys.modules["openvino"]


class EngineEncoder:
    """Token ids to mean-pooled, L2-normalised sentence vectors, as `bert.BertEncoder` gives them.

    Parameters
    ----------
    weights, config
        As of `bert.BertEncoder`.
    precision : str
        "float32", "bfloat16" or "int8", of the matrix products.
    """

    def __init__(self, weights: Path, config: dict[str, Any], precision: str) -> None:
        self._weights, self._config, self._precision = weights, config, precision
        tensors = map_tensors(weights, writable=True)
        self._words = word_rows(tensors)
        self._positions = (
            tensors["embeddings.position_embeddings.weight"] + tensors["embeddings.token_type_embeddings.weight"][:1]
        )
        self._request = self._compiled(tensors, ())
        self._tagging: tuple[tuple[int, ...], Any] = (), self._request

    def _compiled(self, tensors: dict[str, Floats], layers: tuple[int, ...]) -> Any:
        """Return a request of the model that gives the vectors, and the states behind some layers."""
        openvino = _openvino()
        precision = self._precision
        settings = {
            # Sessions are the unit of parallelism, and PostgreSQL's processes go where the system sends them.
            "INFERENCE_NUM_THREADS": 1,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,
            "INFERENCE_PRECISION_HINT": _HINTS[precision],
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": _SCALED_COLUMNS if precision == "int8" else 0,
            "CPU_RUNTIME_CACHE_CAPACITY": _SHAPES,
        }
        with signals_blocked():
            graph = _graph(openvino, tensors, self._config, layers, is_int8=precision == "int8")
            return openvino.Core().compile_model(graph, "CPU", settings).create_infer_request()

    def steps(self, lengths: Mapping[int, int]) -> Iterator[list[int]]:
        """Sort keys by the length of their sequences, and cut them into what `encode` takes."""
        return steps(lengths)

    def encode(self, sequences: Sequence[Sequence[int]]) -> Floats:
        """Return the (n, width) vectors of the `sequences` of token ids of one of `steps`."""
        self._infer(self._request, sequences)
        return self._vectors(self._request, len(sequences))

    def encode_with_states(
        self, sequences: Sequence[Sequence[int]], layers: Sequence[int]
    ) -> tuple[Floats, list[Floats]]:
        """Return the vectors as `encode` does, and of each sequence the states behind some layers; it compiles on first use."""
        if self._tagging[0] != tuple(layers):
            self._tagging = tuple(layers), self._compiled(map_tensors(self._weights, writable=True), tuple(layers))
        request = self._tagging[1]
        self._infer(request, sequences)
        outputs = [request.get_output_tensor(number).data for number in range(1, len(layers) + 1)]
        states = [
            np.concatenate([output[number, : len(sequence)] for output in outputs], axis=1)
            for number, sequence in enumerate(sequences)
        ]
        return self._vectors(request, len(sequences)), states

    @staticmethod
    def _vectors(request: Any, count: int) -> Floats:
        vectors: Floats = request.get_output_tensor(0).data[:count].copy()
        return vectors

    def _infer(self, request: Any, sequences: Sequence[Sequence[int]]) -> None:
        length = _padded(len(sequences[-1]))
        size = _size(length, len(sequences))
        states = np.zeros((size, length, self._words.shape[1]), np.float32)
        # The mask added to attention scores, and each token's share in the mean. A padding sequence has one token.
        mask = np.full((size, 1, 1, length), -np.inf, np.float32)
        shares = np.zeros((size, length, 1), np.float32)
        mask[..., 0] = 0
        for number, sequence in enumerate(sequences):
            count = len(sequence)
            np.add(self._words[sequence], self._positions[:count], out=states[number, :count])
            mask[number, ..., :count] = 0
            shares[number, :count] = 1 / count
        # The threads of the library must not take the server's signals.
        with signals_blocked():
            request.infer([states, mask, shares], share_inputs=True)


def steps(lengths: Mapping[int, int]) -> Iterator[list[int]]:
    """Sort keys by the length of their sequences, and cut them into batches of one padded length."""
    ordered = sorted(lengths, key=lengths.__getitem__)
    for padded, members in groupby(ordered, key=lambda key: _padded(lengths[key])):
        rest = list(members)
        while rest:
            count = min(_size(padded, len(rest)), len(rest))
            yield rest[:count]
            rest = rest[count:]


def _padded(length: int) -> int:
    """Return the length to which a sequence of `length` tokens is padded."""
    return _LENGTHS[bisect_left(_LENGTHS, length)]


def _size(length: int, count: int) -> int:
    """Return the number of sequences of the next batch, where `count` of a padded `length` are left.

    A full batch, its half, and so on: the largest that they fill, or the next larger one where they nearly do.
    """
    size = max(1, _ROWS // length)
    while size > 1 and (size // 2 >= count or (size - count) * length > _SPARE_ROWS):
        size //= 2
    return size


def _graph(
    openvino: Any, tensors: dict[str, Floats], config: dict[str, Any], layers: Sequence[int], *, is_int8: bool
) -> Any:
    """Return the model: (sequences, tokens, width) embeddings, their mask and shares in, (sequences, width) vectors out.

    Further outputs are the (sequences, tokens, width) states behind the `layers`.
    """
    op = openvino.opset13
    heads, width = config["num_attention_heads"], config["hidden_size"]

    def weight(name: str) -> Any:
        return op.constant(tensors[name], shared_memory=True)

    def numbers(*values: int) -> Any:
        return op.constant(np.array(values, np.int64))

    def factor(name: str) -> Any:
        if not is_int8:
            return weight(name)
        values = tensors[name]
        scales = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
        return op.multiply(
            op.convert(op.constant(np.rint(values / scales).astype(np.int8)), "f32"), op.constant(scales)
        )

    def dense(x: Any, name: str) -> Any:
        return op.add(op.matmul(x, factor(f"{name}.weight"), False, True), weight(f"{name}.bias"))

    def normalize(x: Any, name: str) -> Any:
        normal = op.mvn(x, numbers(-1), True, config["layer_norm_eps"], "inside_sqrt")
        return op.add(op.multiply(normal, weight(f"{name}.weight")), weight(f"{name}.bias"))

    split, joined, order = numbers(0, 0, heads, width // heads), numbers(0, 0, width), numbers(0, 2, 1, 3)

    def attention(x: Any, name: str) -> Any:
        query, key, value = (
            op.transpose(op.reshape(dense(x, f"{name}.{part}"), split, True), order)
            for part in ("query", "key", "value")
        )
        return op.reshape(op.transpose(op.scaled_dot_product_attention(query, key, value, mask), order), joined, True)

    states = op.parameter([-1, -1, width], np.float32)
    mask = op.parameter([-1, 1, 1, -1], np.float32)
    shares = op.parameter([-1, -1, 1], np.float32)
    x = normalize(states, "embeddings.LayerNorm")
    kept = []
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        projected = dense(attention(x, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
        x = normalize(op.add(x, projected), f"{layer}.attention.output.LayerNorm")
        inner = op.gelu(dense(x, f"{layer}.intermediate.dense"), "erf")
        x = normalize(op.add(x, dense(inner, f"{layer}.output.dense")), f"{layer}.output.LayerNorm")
        if number + 1 in layers:
            kept.append(op.result(x))
    means = op.reduce_sum(op.multiply(x, shares), numbers(1), False)  # a product of matrices would round to bfloat16
    vectors = op.result(op.normalize_l2(means, numbers(1), 1e-12, "max"))
    return openvino.Model([vectors, *kept], [states, mask, shares], "bert")
