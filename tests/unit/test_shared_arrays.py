"""Files of arrays, without a server."""

from pathlib import Path

import numpy as np
import pytest
from pg_graphrag.server.caches import shared_arrays


@pytest.mark.parametrize("size", [0, 1, 4032, 4033, 4090, 4095, 4096, 4097])
def test_arrays_of_any_size_are_mapped(tmp_path: Path, size: int) -> None:
    arrays = {"first": np.arange(size, dtype=np.uint8), "last": np.full(size, 7, np.uint8)}
    for names in (["last"], ["first", "last"], ["last", "first"]):
        written = shared_arrays._written(tmp_path / "file", ["key"], {name: arrays[name] for name in names})
        assert {name: array.tolist() for name, array in written.items()} == {
            name: arrays[name].tolist() for name in names
        }
