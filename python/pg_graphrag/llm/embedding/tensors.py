"""Tensors of safetensors files, mapped."""

import json
from pathlib import Path
from typing import Any

from pg_graphrag.ground.numeric import NDArray, np

Floats = NDArray[np.float32]
# Numbers of safetensors files that are read.
_KINDS = {"F32": "<f4", "F16": "<f2", "I32": "<i4"}


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
