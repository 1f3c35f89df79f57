"""The encoder for documents: OpenVINO if it is installed, in the processor's fastest precision, else numpy.

Questions are always embedded by numpy: a session that only searches needs little memory and starts at once.
"""

import importlib.util
import sys
from functools import cache
from pathlib import Path

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.embedding import Embedder, load, local_embedder
from pg_graphrag.server import Database

_CPU = Path("/proc/cpuinfo")
# What a processor needs for a precision, by Linux' names: AVX-512 and AMX; VNNI of AVX-512 and of AVX2.
_FEATURES = {"bfloat16": {"avx512_bf16", "amx_bf16"}, "int8": {"avx512_vnni", "avx_vnni"}}
# Fastest first.
_ENGINES = ("bfloat16", "int8", "float32", "numpy")
SETTINGS = ("auto", *_ENGINES)


def document_embedder(db: Database, model: str) -> Embedder:
    """Return the process's embedder of documents by a local model, loaded on first use (about 0.3 s).

    Raises
    ------
    GraphRAGError
        As `engine`; as `local_embedder`.
    """
    return _embedder(model, engine(db)[0])


def describe(db: Database) -> tuple[str, str, str]:
    """Return (documents' engine, questions' engine, why)."""
    name, reason = engine(db)
    return "numpy float32" if name == "numpy" else f"openvino {name}", "numpy float32", reason


def engine(db: Database) -> tuple[str, str]:
    """Return ("bfloat16", "int8", "float32" or "numpy"; why).

    Raises
    ------
    GraphRAGError
        22023 for a setting that is none, 0A000 for one that this machine cannot do.
    """
    setting = db.value("SELECT nullif(pg_catalog.current_setting('graphrag.embedding_engine', true), '')") or "auto"
    if setting not in SETTINGS:
        raise GraphRAGError(
            f'the setting graphrag.embedding_engine cannot be "{setting}"',
            sqlstate="22023",
            hint=f"Give one of {', '.join(SETTINGS)}: SET graphrag.embedding_engine = 'auto'",
        )
    if setting == "auto":
        return fastest()
    if lacking := lacks(setting):
        raise GraphRAGError(
            f'graphrag.embedding_engine is "{setting}", and this server lacks {lacking}',
            sqlstate="0A000",
            hint="Take 'auto': SET graphrag.embedding_engine = 'auto', in the session, the database or postgresql.conf.",
        )
    return setting, "graphrag.embedding_engine"


@cache
def fastest() -> tuple[str, str]:
    """Return (the engine of this machine, why)."""
    name = next(name for name in _ENGINES if not lacks(name))
    slower_than = _ENGINES[: _ENGINES.index(name)]
    missing = list(dict.fromkeys(map(lacks, slower_than)))
    return name, f"this server lacks {' and '.join(missing)}" if missing else "the processor multiplies bfloat16"


@cache
def lacks(name: str) -> str:
    """Return what this machine lacks for an engine: "openvino", "/proc/cpuinfo", "bfloat16" or "VNNI" (the processor), or ""."""
    if name == "numpy":
        return ""
    if importlib.util.find_spec("openvino") is None:
        return "openvino"
    feature = {"bfloat16": "bfloat16", "int8": "VNNI"}.get(name, "")
    if sys.platform != "linux":
        return feature
    if not _CPU.is_file():  # a bare chroot: openvino would look for the processors for ever
        return str(_CPU)
    with _CPU.open(encoding="ascii", errors="replace") as lines:
        flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return feature if feature and not _FEATURES[name].intersection(flags) else ""


@cache
def _embedder(model: str, name: str) -> Embedder:
    if name == "numpy":
        return local_embedder(model)
    from pg_graphrag.llm.embedding.engine import EngineEncoder

    return load(model, lambda weights, config: EngineEncoder(weights, config, name))
