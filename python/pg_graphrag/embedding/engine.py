"""The BERT encoder by OpenVINO, for who embeds much: faster than numpy, and with more memory of its own.

The graph is built from the mapped weights and the model's ``config.json``; nothing is converted and no file written.

A batch holds sequences of one length, without padding or mask. So a text's vector is the same bits whatever is embedded
beside it: every row of a matrix product, and every sequence of an attention, is computed by itself.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pg_graphrag.embedding.bert import Floats, map_tensors
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import np
from pg_graphrag.signals import signals_blocked

# Its converter of models would load a package for telemetry: importing it fails, which openvino takes for not installed.
_CONVERTER = "openvino.tools.ovc"
# Kernels that are kept: they depend on the length and the number of sequences, and take memory.
_SHAPES = 512


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
        "float32" or "bfloat16", of the matrix products.
    """

    def __init__(self, weights: Path, config: dict[str, Any], precision: str) -> None:
        tensors = map_tensors(weights, writable=True)
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._positions = (
            tensors["embeddings.position_embeddings.weight"] + tensors["embeddings.token_type_embeddings.weight"][:1]
        )
        openvino = _openvino()
        settings = {
            # Sessions are the unit of parallelism, and PostgreSQL's processes go where the system sends them.
            "INFERENCE_NUM_THREADS": 1,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,
            "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[precision],
            "CPU_RUNTIME_CACHE_CAPACITY": _SHAPES,
        }
        with signals_blocked():
            compiled = openvino.Core().compile_model(_graph(openvino, tensors, config), "CPU", settings)
            self._request = compiled.create_infer_request()

    def encode(self, sequences: Sequence[Sequence[int]]) -> Floats:
        """Return the (n, width) vectors of `sequences` of token ids. Neighbours of equal length are computed together."""
        parts = []
        for length, members in groupby(sequences, key=len):
            states = self._words[np.array(list(members), np.intp)].astype(np.float32)  # may be float16
            states += self._positions[:length]
            # The threads of the library must not take the server's signals.
            with signals_blocked():
                self._request.infer([states], share_inputs=True)
                parts.append(self._request.get_output_tensor(0).data.copy())
        return np.concatenate(parts)


def _graph(openvino: Any, tensors: dict[str, Floats], config: dict[str, Any]) -> Any:
    """Return the model: (sequences, tokens, width) embeddings in, (sequences, width) vectors out."""
    op = openvino.opset13
    heads, width = config["num_attention_heads"], config["hidden_size"]

    def weight(name: str) -> Any:
        return op.constant(tensors[name], shared_memory=True)

    def numbers(*values: int) -> Any:
        return op.constant(np.array(values, np.int64))

    def dense(x: Any, name: str) -> Any:
        return op.add(op.matmul(x, weight(f"{name}.weight"), False, True), weight(f"{name}.bias"))

    def normalize(x: Any, name: str) -> Any:
        normal = op.mvn(x, numbers(-1), True, config["layer_norm_eps"], "inside_sqrt")
        return op.add(op.multiply(normal, weight(f"{name}.weight")), weight(f"{name}.bias"))

    split, joined, order = numbers(0, 0, heads, width // heads), numbers(0, 0, width), numbers(0, 2, 1, 3)

    def attention(x: Any, name: str) -> Any:
        query, key, value = (
            op.transpose(op.reshape(dense(x, f"{name}.{part}"), split, True), order)
            for part in ("query", "key", "value")
        )
        return op.reshape(op.transpose(op.scaled_dot_product_attention(query, key, value), order), joined, True)

    states = op.parameter([-1, -1, width], np.float32)
    x = normalize(states, "embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        projected = dense(attention(x, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
        x = normalize(op.add(x, projected), f"{layer}.attention.output.LayerNorm")
        inner = op.gelu(dense(x, f"{layer}.intermediate.dense"), "erf")
        x = normalize(op.add(x, dense(inner, f"{layer}.output.dense")), f"{layer}.output.LayerNorm")
    vectors = op.normalize_l2(op.reduce_mean(x, numbers(1), False), numbers(1), 1e-12, "max")
    return openvino.Model([vectors], [states], "bert")
