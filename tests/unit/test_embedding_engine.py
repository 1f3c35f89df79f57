"""The engine that embeds documents, beside sentence-transformers' vectors and numpy's."""

import json
import os
import random
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.llm.embedding import Embedder, document_embedder, local_embedder
from pg_graphrag.llm.embedding import engine as engine_module

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "data" / "minilm" / "reference.jsonl"
WORDS = ["graph", "index", "vector", "server", "query", "the", "of", "chapel", "Florence", "1512", "über", "東京", "🎉"]


@cache
def texts() -> list[str]:
    choose = random.Random(5)
    return [" ".join(choose.choices(WORDS, k=words)) for words in (1, 2, 3, 5, 40, 90, 300) * 3]


def skip_without_model() -> None:
    if not (MODELS / "all-MiniLM-L6-v2").is_dir():
        pytest.skip(f"no model in {MODELS}: set PG_GRAPHRAG_HOME")


@pytest.fixture(scope="module", params=["float32", "bfloat16", "int8"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def embedder(engine: str) -> Embedder:
    skip_without_model()
    if document_embedder.lacks(engine):
        pytest.skip(f"this machine lacks {document_embedder.lacks(engine)}")
    return document_embedder._embedder("all-MiniLM-L6-v2", engine)


# Lowest cosine to the reference. What eight bits do to a ranking is measured: docs/decisions/llm.md.
NEAR = {"float32": 0.9999, "bfloat16": 0.9999, "int8": 0.985}


@pytest.mark.sample(1)
def test_vectors_are_near_sentence_transformers(embedder: Embedder, engine: str) -> None:
    if not REFERENCE.exists():
        pytest.skip(f"no reference vectors in {REFERENCE}")
    rows = [json.loads(line) for line in REFERENCE.read_text(encoding="utf-8").splitlines()]
    expected = np.array([row["embedding"] for row in rows])
    vectors = embedder.embed([row["text"] for row in rows])
    assert ((vectors * expected).sum(axis=1) / np.linalg.norm(expected, axis=1)).min() >= NEAR[engine]
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.sample(1)
def test_vectors_are_near_those_of_questions(embedder: Embedder, engine: str) -> None:
    cosines = (embedder.embed(texts()) * local_embedder(embedder.model).embed(texts())).sum(axis=1)
    assert cosines.min() >= NEAR[engine]


@pytest.mark.parametrize(
    ("flags", "fastest", "reason"),
    [
        ("avx2 avx512_vnni avx512_bf16", "bfloat16", "the processor multiplies bfloat16"),
        ("avx2 avx512f avx512_vnni", "int8", "this server lacks bfloat16"),
        ("avx2 avx_vnni", "int8", "this server lacks bfloat16"),
        ("avx2 fma", "float32", "this server lacks bfloat16 and VNNI"),
    ],
)
def test_the_processor_decides(
    flags: str, fastest: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : fpu {flags}\n", encoding="ascii")
    monkeypatch.setattr(document_embedder, "_CPU", tmp_path / "cpuinfo")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    document_embedder.lacks.cache_clear()
    try:
        assert document_embedder.fastest.__wrapped__() == (fastest, reason)
    finally:
        document_embedder.lacks.cache_clear()


@pytest.mark.sample(1)
def test_a_vector_is_the_same_bits_in_any_batch(embedder: Embedder) -> None:
    vectors = embedder.embed(texts())
    order = random.Random(1).sample(range(len(texts())), len(texts()))
    assert (embedder.embed([texts()[place] for place in order]) == vectors[order]).all()
    assert (np.concatenate([embedder.embed([text]) for text in texts()]) == vectors).all()
    sevens = [embedder.embed(texts()[place : place + 7]) for place in range(0, len(texts()), 7)]
    assert (np.concatenate(sevens) == vectors).all()


def test_many_lengths_are_few_shapes_with_little_padding() -> None:
    lengths = {number: random.Random(number).randint(2, 256) for number in range(3000)}
    shapes, rows = set(), 0
    for count, length in ((len(step), max(map(lengths.__getitem__, step))) for step in engine_module.steps(lengths)):
        shape = engine_module._size(engine_module._padded(length), count), engine_module._padded(length)
        assert count <= shape[0]
        shapes.add(shape)
        rows += shape[0] * shape[1]
    assert len(shapes) <= 120
    assert rows <= 1.1 * sum(lengths.values())


def test_steps_have_every_text_once_and_one_padded_length() -> None:
    lengths = {number: random.Random(number).randint(2, 512) for number in range(500)}
    steps = list(engine_module.steps(lengths))
    assert sorted(number for step in steps for number in step) == list(range(500))
    for step in steps:
        assert len({engine_module._padded(lengths[number]) for number in step}) == 1


_MASKS = """
from pathlib import Path
from pg_graphrag.llm.embedding import document_embedder as documents
documents._embedder("all-MiniLM-L6-v2", "float32").embed(["one"])
for thread in sorted(Path("/proc/self/task").iterdir(), key=lambda path: int(path.name))[1:]:
    print(next(line.split()[1] for line in (thread / "status").read_text().splitlines() if line.startswith("SigBlk")))
"""


def test_threads_of_the_library_take_no_signal() -> None:
    skip_without_model()
    # In a process of its own: pytest has threads too.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", _MASKS], env=environment, capture_output=True, text=True, check=True)
    wanted = sum(1 << (number - 1) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM))
    assert all(int(mask, 16) & wanted == wanted for mask in done.stdout.split())
