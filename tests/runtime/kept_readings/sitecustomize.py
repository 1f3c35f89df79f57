"""Keeps what the local models make of texts, beside this file: in a run of the tests each text is read once, for all sessions.

Servers of tests start Python with this folder on its path (cluster.py); whoever writes here is one of them. Nothing is kept of
engines other than numpy's, and where the working directory, a server's data, has a file `_REAL_MODEL`.
"""

from __future__ import annotations

import os
import sys

# Every session of the server imports this, also those that embed nothing.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import ModuleType
    from typing import Any

_REAL_MODEL = "reads_by_the_model"
_AT_ONCE = 128
_PACKAGE = "pg_graphrag.llm.embedding"


class _Finder:
    """Has the package's embedders keep what they make, once it is imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name != _PACKAGE:
            return None
        spec: Any = next((spec for finder in sys.meta_path[1:] if (spec := finder.find_spec(name, path, target))), None)
        # Of 0.2.0 it is a module about something else.
        if spec is not None and spec.loader is not None and spec.submodule_search_locations:
            execute = spec.loader.exec_module

            def execute_and_keep(module: ModuleType) -> None:
                execute(module)
                keep(module)

            spec.loader.exec_module = execute_and_keep
        return spec


def keep(package: Any) -> None:
    """Have the embedders that the package, a module, loads from now on keep what they make."""
    load = package.load

    def load_keeping(model: str, encoder: Any) -> Any:
        from pathlib import Path

        from pg_graphrag.llm.embedding.local_model import numpy_encoder

        if encoder is not numpy_encoder or Path(_REAL_MODEL).exists():
            return load(model, encoder)
        return _Keeping(model, load, f"{package.__file__} {model}")

    package.load = load_keeping


class _Keeping:
    """A local model by numpy, loaded for texts that it has not read yet."""

    def __init__(self, model: str, load: Any, name: str) -> None:
        from pg_graphrag.ground.asset_paths import MODELS
        from pg_graphrag.llm.embedding.local_model import check_files

        if model == "all-MiniLM-L6-v2":
            from pg_graphrag.llm.embedding.minilm import MiniLM

            kind: Any = MiniLM
        else:
            from pg_graphrag.llm.embedding.e5 import E5

            kind = E5
        check_files(MODELS / model, kind)
        self.model = model
        self.dimensions, self.max_tokens, self.languages = kind.dimensions, kind.max_tokens, kind.languages
        self._load, self._name, self._loaded = load, name, None

    @property
    def _real(self) -> Any:
        if self._loaded is None:
            from pg_graphrag.llm.embedding.local_model import numpy_encoder

            self._loaded = self._load(self.model, numpy_encoder)
        return self._loaded

    def embed(self, texts: Sequence[str]) -> Any:
        from pg_graphrag.ground.numeric import np

        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for places, step in self.embed_batches(texts):
            vectors[places] = step
        return vectors

    def embed_batches(self, texts: Sequence[str]) -> Iterator[Any]:
        """Yield as the model does. What stands beside a text may change its last bits, so batches are kept whole."""
        path = self._path("embed", *texts)
        steps = _read(path)
        if steps is None:
            steps = []
            for step in self._real.embed_batches(texts):
                steps.append(step)
                yield step
            _write(path, steps)
        else:
            yield from steps

    def tag_batches(self, texts: Sequence[str]) -> Iterator[Any]:
        """Yield as the model does, which reads each text by itself; so many at a time that a cancel is not kept waiting."""
        from pg_graphrag.ground.numeric import np

        for start in range(0, len(texts), _AT_ONCE):
            paths = {
                place: self._path("tag", texts[place]) for place in range(start, min(start + _AT_ONCE, len(texts)))
            }
            read = {place: reading for place, path in paths.items() if (reading := _read(path)) is not None}
            if read:
                vectors, readings = zip(*read.values(), strict=True)
                yield np.array([*read], np.intp), np.stack(vectors), [*readings]
            new = np.array([place for place in paths if place not in read], np.intp)
            for places, step, readings in self._real.tag_batches([texts[place] for place in new]) if len(new) else ():
                for place, vector, reading in zip(new[places], step, readings, strict=True):
                    _write(paths[place], (vector, reading))
                yield new[places], step, readings

    def _path(self, *parts: str) -> Path:
        from hashlib import sha256
        from pathlib import Path

        return Path(__file__).with_name(sha256(ascii([self._name, *parts]).encode()).hexdigest())


def _read(path: Path) -> Any:
    import pickle

    try:
        content = path.read_bytes()
    except OSError:
        return None
    return pickle.loads(content)


def _write(path: Path, readings: Any) -> None:
    import pickle

    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        unfinished.write_bytes(pickle.dumps(readings, 5))
        unfinished.rename(path)
    except OSError:  # the run is over
        return


finders: list[Any] = sys.meta_path
if _Finder not in finders:
    finders.insert(0, _Finder)
