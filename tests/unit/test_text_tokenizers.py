"""Token boundaries: against the reference libraries, on any text, pinned by hash."""

import hashlib
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.text.tokenizers import names, tokenizer

from tests.unit.tokenizing import load

NAMES = ["all-MiniLM-L6-v2", "cl100k_base", "o200k_base"]
SAMPLES = [
    "",
    "The quick brown fox, naïve café: 12,345.67!",
    "日本語のトークン化 と 中文分词 混在 text",
    "😀👨‍👩‍👧 🇯🇵 e\u0301 \u200bzero width",
    "שלום עולם مرحبا بالعالم",
    "<div class='a'>&nbsp;<p>soup</div>\r\n\tpg_dump --format=c",
]
# No lone surrogates: PostgreSQL text cannot hold them.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", SAMPLES)
def test_the_tokens_cover_every_character_that_is_not_white_space(name: str, text: str) -> None:
    covered: set[int] = set()
    for start, end in load(name).offsets(text):
        covered.update(range(start, end))
    missing = {text[i] for i in range(len(text)) if i not in covered}
    assert all(c.isspace() or c in "\u200b\u200d\u0301" for c in missing)


@pytest.mark.parametrize("name", NAMES)
@given(text=ANY_TEXT)
@settings(max_examples=100, deadline=None)
def test_offsets_ascend_within_any_text(name: str, text: str) -> None:
    offsets = load(name).offsets(text)
    assert all(0 <= start < end <= len(text) for start, end in offsets)
    assert offsets == sorted(offsets)
    assert len(offsets) == load(name).count(text)


@pytest.fixture(scope="module")
def reference() -> Any:
    """The tokenizer as Hugging Face's library reads it, without limits."""
    load("all-MiniLM-L6-v2")
    whole = pytest.importorskip("tokenizers").Tokenizer.from_file(str(MODELS / "all-MiniLM-L6-v2" / "tokenizer.json"))
    whole.no_truncation()
    whole.no_padding()
    return whole


@given(text=ANY_TEXT)
@settings(max_examples=200, deadline=None)
def test_word_pieces_are_those_of_the_reference_library(reference: Any, text: str) -> None:
    ours = load("all-MiniLM-L6-v2")
    expected = reference.encode(text, add_special_tokens=False).offsets
    if all(end - start <= 100 for start, end in expected):
        assert ours.offsets(text) == expected


@pytest.mark.parametrize(
    ("text", "cl100k", "o200k"),
    [
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 9, 8),
        ("tiktoken is great!", 6, 6),
    ],
)
def test_byte_pairs_count_as_openai_publishes(text: str, cl100k: int, o200k: int) -> None:
    assert load("cl100k_base").count(text) == cl100k
    assert load("o200k_base").count(text) == o200k


def test_tokens_of_one_character_share_its_span() -> None:
    offsets = load("cl100k_base").offsets("a😀b")
    assert offsets[0] == (0, 1)
    assert offsets[-1] == (2, 3)
    assert set(offsets[1:-1]) == {(1, 2)}


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("unit", ["x", "X", "0f9A", ".", " ", "\n", "漢", "😀", "<b>"])
def test_a_megabyte_without_a_break_takes_linear_time(name: str, unit: str) -> None:
    tokenizer = load(name)
    text = unit * (1_000_000 // len(unit))
    begun = time.process_time()
    starts, ends = tokenizer.spans(text)
    assert time.process_time() - begun < 10
    assert len(starts) == len(ends)


def test_a_word_too_long_for_the_model_counts_by_its_length() -> None:
    assert load("all-MiniLM-L6-v2").count("x" * 1_000_000) == 250_000


def test_an_unknown_tokenizer_is_an_error_that_names_the_installed_ones() -> None:
    with pytest.raises(GraphRAGError) as caught:
        tokenizer("gpt-99")
    assert caught.value.sqlstate == "58P01"
    assert "gpt-99" in caught.value.message
    assert caught.value.hint is not None
    assert all(name in caught.value.hint for name in names())


@pytest.mark.parametrize("name", ["../secrets", "", "a/b", "/etc/passwd", "x" * 200])
def test_a_name_cannot_leave_the_models_directory(name: str) -> None:
    with pytest.raises(GraphRAGError) as caught:
        tokenizer(name)
    assert caught.value.sqlstate == "22023"


def test_other_ranks_than_the_pinned_ones_are_an_error() -> None:
    item = load("cl100k_base")
    assert tokenizer("cl100k_base", item.fingerprint) is item
    with pytest.raises(GraphRAGError) as caught:
        tokenizer("cl100k_base", "0" * 64)
    assert caught.value.sqlstate == "55000"
    assert caught.value.detail is not None
    assert item.fingerprint in caught.value.detail
    assert caught.value.hint is not None


def test_the_fingerprint_is_the_hash_of_the_file() -> None:
    result = load("cl100k_base")
    data = (MODELS / "tiktoken" / "cl100k_base.tiktoken").read_bytes()
    assert result.fingerprint == hashlib.sha256(data).hexdigest()
