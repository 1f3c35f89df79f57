"""The local embedding model against sentence-transformers' vectors, and its edges."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.signals import signals_blocked
from pg_graphrag.llm.embedding import Embedder, local_embedder
from pg_graphrag.llm.embedding.local_model import BertEncoder
from pg_graphrag.llm.embedding.minilm import MiniLM, TextHead, WordPieces, write_packed
from pg_graphrag.text.packed_words import PackedWords
from tokenizers import Tokenizer

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "data" / "minilm" / "reference.jsonl"
MODEL = MODELS / "all-MiniLM-L6-v2"
WORDS = ["graph", "index", "vector", "server", "query", "the", "of", "chapel", "Florence", "1512", "über", "東京", "🎉"]
needs_model = pytest.mark.skipif(not MODEL.is_dir(), reason=f"no model in {MODEL}: set PG_GRAPHRAG_HOME")


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    if not MODEL.is_dir():
        pytest.skip(f"no model in {MODEL}: set PG_GRAPHRAG_HOME")
    return local_embedder(MiniLM.model)


def some_texts(count: int) -> list[str]:
    choose = random.Random(count)
    return [" ".join(choose.choices(WORDS, k=choose.randint(0, 300))) for _ in range(count)]


def test_vectors_equal_sentence_transformers(embedder: Embedder) -> None:
    if not REFERENCE.exists():
        pytest.skip(f"no reference vectors in {REFERENCE}")
    rows = [json.loads(line) for line in REFERENCE.read_text(encoding="utf-8").splitlines()]
    expected = np.array([row["embedding"] for row in rows])
    vectors = embedder.embed([row["text"] for row in rows])
    cosines = (vectors * expected).sum(axis=1) / np.linalg.norm(expected, axis=1)
    assert len(rows) == 40
    assert cosines.min() >= 0.9999
    assert np.abs(vectors - expected).max() < 1e-4


def test_vectors_are_unit_float32_in_the_order_of_the_texts(embedder: Embedder) -> None:
    texts = some_texts(12)
    vectors = embedder.embed(texts)
    assert vectors.shape == (12, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    order = random.Random(1).sample(range(12), 12)
    assert np.allclose(embedder.embed([texts[i] for i in order]), vectors[order], atol=1e-5)


def test_batch_equals_one_by_one(embedder: Embedder) -> None:
    texts = some_texts(9)
    one_by_one = np.concatenate([embedder.embed([text]) for text in texts])
    assert np.allclose(embedder.embed(texts), one_by_one, atol=1e-5)


def test_batches_cover_every_text_once_in_short_steps(embedder: Embedder) -> None:
    texts = [f"entity {number}" for number in range(600)] + ["long " * 300] * 10
    steps = [indices.tolist() for indices, _ in embedder.embed_batches(texts)]
    assert sorted(index for step in steps for index in step) == list(range(610))
    assert max(sum(index >= 600 for index in step) for step in steps) == 2  # 512 tokens a step


def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, 384)


def test_empty_white_and_control_texts_share_a_unit_vector(embedder: Embedder) -> None:
    empty, white, control = embedder.embed(["", " \n\t ", "\x01"])
    assert np.linalg.norm(empty) == pytest.approx(1, abs=1e-6)
    assert np.allclose(empty, white, atol=1e-6)
    assert np.allclose(empty, control, atol=1e-6)


def test_emoji_are_embedded_without_nan(embedder: Embedder) -> None:
    assert np.isfinite(embedder.embed(["🎉", "👩‍👩‍👧" * 500, "🎉 party"])).all()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("repeated", "end"),
    [
        pytest.param("hello world, ", "", id="prose"),
        pytest.param("🎉", "", id="emoji"),
        pytest.param(" ", "end", id="white space"),
        pytest.param("é", "", id="one word"),
        pytest.param("東", "", id="one run of Chinese"),
    ],
)
def test_twenty_million_characters_are_not_all_tokenised(embedder: Embedder, repeated: str, end: str) -> None:
    text = repeated * (20_000_000 // len(repeated)) + end
    start = time.process_time()
    assert np.isfinite(embedder.embed([text])).all()
    # A bound on work, far above what the cut text costs (well under a second).
    assert time.process_time() - start < 30


def test_only_the_first_256_tokens_count(embedder: Embedder) -> None:
    head = "word " * 254
    long, short = embedder.embed([head + "apple " * 5000, head + "pear"])
    assert np.allclose(long, short, atol=1e-6)
    apple, pear = embedder.embed(["word " * 253 + "apple", "word " * 253 + "pear"])
    assert not np.allclose(apple, pear, atol=1e-4)


@needs_model
def test_the_cut_of_long_texts_keeps_every_token() -> None:
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    class ShortSlices(TextHead):
        _SLICE = 23

    head = ShortSlices(tokenizer, 256)
    atoms = [
        *(
            "hello",
            "Wörld",
            "[SEP]",
            "[MASK]",
            "[cls]",
            "[",
            "[SE",
            "P]",
            " ",
            "  ",
            "\n",
            "東京",
            "の",
            "한국어",
            "🎉",
        ),
        *("é", "e\u0301", "\u0301" * 5, "\x00", "\x85", "\u200b", ".", "—", "don't", "a" * 30, "x" * 120, "ΑΣ", "İ"),
        *("\x1f", "\u00a0", "\u3000", "\u302e", "ß", "ﬁ", "é" * 200, "🎉" * 150, "\u2028", "_", "\u1fef", "가" * 150),
    ]
    choose = random.Random(7)
    for _ in range(400):
        text = "".join(choose.choices(atoms, k=choose.choice((5, 30, 150, 600))))
        assert tokenizer.encode(head(text)).ids == tokenizer.encode(text).ids, text


def test_a_missing_model_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(GraphRAGError, match="all-MiniLM-L6-v2") as caught:
        MiniLM(tmp_path)
    assert caught.value.sqlstate == "58P01"
    assert str(tmp_path) in str(caught.value.detail)
    assert caught.value.hint


@needs_model
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_truncated_file_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    for file in MODEL.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / name).unlink()
    (tmp_path / name).write_bytes((MODEL / name).read_bytes()[:-1])
    with pytest.raises(GraphRAGError, match=name) as caught:
        MiniLM(tmp_path)
    assert caught.value.sqlstate == "XX001"


@needs_model
def test_a_session_has_one_thread() -> None:
    code = (
        "from pg_graphrag.llm.embedding import local_embedder; import os;"
        "local_embedder('all-MiniLM-L6-v2').embed(['one', 'two words ' * 200] * 8); print(len(os.listdir('/proc/self/task')))"
    )
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "4", "TOKENIZERS_PARALLELISM": "true"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_signals_are_blocked_inside_and_restored_after() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with signals_blocked():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> WordPieces:
    if not MODEL.is_dir():
        pytest.skip(f"no model in {MODEL}: set PG_GRAPHRAG_HOME")
    path = tmp_path_factory.mktemp("pieces") / "word_pieces.packed"
    write_packed(MODEL / "tokenizer.json", path)
    return WordPieces(PackedWords.mapped(path), MiniLM.max_tokens)


@needs_model
@given(st.text(st.one_of(st.characters(), st.sampled_from("aeiou nrst-'.[]CLSEPMASK#é中ｱ́\u200d🎉")), max_size=60))
@settings(max_examples=400, deadline=None)
def test_mapped_word_pieces_are_the_librarys(pieces: WordPieces, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert pieces.encode(text) == _library()(text)


@needs_model
@given(st.text(st.characters(max_codepoint=127), max_size=40))
@settings(max_examples=600, deadline=None)
def test_mapped_word_pieces_of_ascii_are_the_librarys(pieces: WordPieces, text: str) -> None:
    assert pieces.encode(text) == _library()(text)


@needs_model
@pytest.mark.parametrize(
    "text",
    [
        "",
        "".join(map(chr, range(128))),
        "".join(map(chr, range(128))).replace("[", ""),
        " \n\t",
        "How does VACUUM reclaim storage occupied by dead tuples?",
        "[CLS] [SEP]x[MASK] [UNK] [PAD][PAD] [cls]",
        "unaffable Antidisestablishmentarianism zyzzogeton ##ing",
        "x" * 100 + " " + "y" * 101,
        "word " * 300,
        "graph index " * 3000,
        "東京タワー 中文分词 über ÀÉÎ ﬁ ½",
    ],
)
def test_mapped_word_pieces_are_the_librarys_at_the_edges(pieces: WordPieces, text: str) -> None:
    assert pieces.encode(text) == _library()(text)


@cache
def _library() -> Callable[[str], list[int]]:
    return MiniLM(MODEL, lambda weights, config: BertEncoder(weights, config, 512)).tokens
