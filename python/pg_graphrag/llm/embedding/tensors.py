"""Memory-mapped tensors of safetensors files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pg_graphrag.ground.numeric import Ids, NDArray, np

Floats = NDArray[np.float32]
# Numbers of safetensors files that are read.
_KINDS = {"F32": "<f4", "F16": "<f2", "I32": "<i4", "U8": "u1"}


def read_header(path: Path) -> tuple[bytes, int]:
    """Return the JSON header of a safetensors file and the offset of its data (format: 8-byte length, JSON, data)."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return file.read(size), 8 + size


def map_tensors(path: Path, *, writable: bool = False) -> dict[str, Any]:
    """Memory-map the tensors of a safetensors file: no private memory, pages read on first use.

    `writable` is for a library that asks for it and does not write; the file never changes.
    """
    header, start = read_header(path)
    data = np.memmap(path, dtype=np.uint8, mode="c" if writable else "r").view(np.ndarray)
    entries: dict[str, dict[str, Any]] = json.loads(header)
    tensors = {}
    for name, entry in entries.items():
        if (kind := _KINDS.get(str(entry.get("dtype")))) is not None:
            first, end = entry["data_offsets"]
            tensors[name] = data[start + first : start + end].view(kind).reshape(entry["shape"])
    return tensors


class WordRows(Protocol):
    """The embeddings of a model's words, by their ids."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Words and width."""

    def __getitem__(self, ids: Sequence[int] | Ids, /) -> NDArray[Any]:
        """Return the (n, width) rows of n words, in float32 or float16."""


class PackedRows:
    """Rows of weights of four bits, which are unpacked as they are asked for: of 100 million, 54 MB and not 192.

    Parameters
    ----------
    halves : array of uint8, (rows, blocks, 16)
        Of the 32 weights of a block the first 16 in the low halves, the others in the high ones; 8 stands for zero.
    scales : array of float16, (rows, blocks)
    """

    def __init__(self, halves: NDArray[np.uint8], scales: NDArray[np.float16]) -> None:
        self._halves, self._scales = halves, scales
        self.shape = (len(scales), 32 * scales.shape[1])

    def __getitem__(self, ids: Sequence[int] | Ids, /) -> NDArray[np.float16]:
        halves = self._halves[ids]
        weights = np.empty((*halves.shape[:-1], 32), np.float32)
        weights[..., :16] = halves & 15
        weights[..., 16:] = halves >> 4
        weights -= 8
        weights *= self._scales[ids].astype(np.float32)[..., None]
        return weights.reshape(len(weights), self.shape[1]).astype(np.float16)


def word_rows(tensors: dict[str, Any]) -> WordRows:
    """Return the embeddings of words of a BERT model, as its file has them."""
    name = "embeddings.word_embeddings."
    if (weights := tensors.get(f"{name}weight")) is not None:
        rows: WordRows = weights
        return rows
    return PackedRows(tensors[f"{name}halves"], tensors[f"{name}scales"])
