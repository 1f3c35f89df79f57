"""Who embeds documents: OpenVINO where it is installed, in bfloat16 where the processor multiplies that, else numpy.

Questions are always embedded by numpy: a session that only searches keeps little memory of its own, and starts at once.
"""

import importlib.util
import sys
from functools import cache
from pathlib import Path

from pg_graphrag.embedding import Embedder, load, local_embedder
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.server import Database

SETTINGS = ("auto", "bfloat16", "float32", "numpy")
_CPU = Path("/proc/cpuinfo")
# By Linux' names: of AVX-512 and of AMX.
_BFLOAT16 = {"avx512_bf16", "amx_bf16"}


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
    """Return ("bfloat16", "float32" or "numpy"; why).

    Raises
    ------
    GraphRAGError
        22023 for a setting that is none, 0A000 for one that this machine cannot do.
    """
    rows = db.query("SELECT nullif(pg_catalog.current_setting('graphrag.embedding_engine', true), '') AS value")
    setting = rows[0]["value"] or "auto"
    if setting not in SETTINGS:
        raise GraphRAGError(
            f'the setting graphrag.embedding_engine cannot be "{setting}"',
            sqlstate="22023",
            hint=f"Give one of {', '.join(SETTINGS)}: SET graphrag.embedding_engine = 'auto'",
        )
    if setting == "numpy":
        return setting, "graphrag.embedding_engine"
    lacking = _lacking()
    if setting == "auto":
        name = {"": "bfloat16", "bfloat16": "float32"}.get(lacking, "numpy")
        return name, f"this server lacks {lacking}" if lacking else "the processor multiplies bfloat16"
    if lacking not in ("", "bfloat16") or lacking == setting:
        raise GraphRAGError(
            f'graphrag.embedding_engine is "{setting}", and this server lacks {lacking}',
            sqlstate="0A000",
            hint="Take 'auto': SET graphrag.embedding_engine = 'auto', in the session, the database or postgresql.conf.",
        )
    return setting, "graphrag.embedding_engine"


@cache
def _lacking() -> str:
    """Return what this machine lacks for bfloat16: "openvino", "/proc/cpuinfo", "bfloat16" (the processor) or ""."""
    if importlib.util.find_spec("openvino") is None:
        return "openvino"
    if sys.platform != "linux":
        return "bfloat16"
    if not _CPU.is_file():  # a bare chroot: openvino would look for the processors for ever
        return str(_CPU)
    with _CPU.open(encoding="ascii", errors="replace") as lines:
        flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return "" if _BFLOAT16.intersection(flags) else "bfloat16"


@cache
def _embedder(model: str, name: str) -> Embedder:
    if name == "numpy":
        return local_embedder(model)
    from pg_graphrag.embedding.engine import EngineEncoder

    return load(model, lambda weights, config: EngineEncoder(weights, config, name))
