"""Chunks, windows and sentences: nothing lost, nothing too large, cut where a reader would, in linear time."""

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.text.chunks import chunk, windows
from pg_graphrag.text.sentences import sentences

from tests.unit.tokenizing import load

ALPHABET = "aZ ., \n\t。！あ漢ア😀\u200d\u0301é1(\"'」-"
ANY_TEXT = st.one_of(
    st.text(st.sampled_from(ALPHABET), max_size=600),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300),
)
LANGUAGES = st.sampled_from(["en", "ja", "zh", "ar", "de"])
PROSE = "The planner chooses a plan. It costs e.g. 1.5 units, says Dr. Smith. " * 4 + "\n\n"
PATHOLOGICAL = {
    "one token": "x" * 1_000_000,
    "base64": "".join(random.Random(1).choices("abcdefABCDEF0123456789+/", k=1_000_000)),
    "dots": "." * 1_000_000,
    "blanks": " " * 1_000_000,
    "lines": "\n" * 1_000_000,
    "quotes": '."' * 500_000,
    "emoji": "😀👨‍👩‍👧" * 150_000,
    "han": "漢" * 500_000,
    "right to left": "שלום עולם مرحبا بالعالم. " * 30_000,
    "html soup": "<div class='a'><p>&nbsp;x</p></div>" * 25_000,
    "20 MB": PROSE * (20_000_000 // len(PROSE)),
}


def partitions(spans: list[tuple[int, int]], start: int, end: int) -> bool:
    edges = [start, *(stop for _, stop in spans)]
    return edges[-1] == end and spans == list(itertools.pairwise(edges)) and all(a < b for a, b in spans)


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "cl100k_base"])
@given(text=ANY_TEXT, size=st.integers(16, 60), share=st.floats(0, 0.5))
@settings(max_examples=150, deadline=None)
def test_chunks_without_their_overlaps_are_the_document(name: str, text: str, size: int, share: float) -> None:
    chunks = list(chunk(text, load(name), size, int(size * share)))
    assert "".join(text[c.own_start : c.end] for c in chunks) == text
    assert [c.ordinal for c in chunks] == list(range(len(chunks)))
    assert all(c.start <= c.own_start < c.end for c in chunks)
    assert all(c.token_count <= size for c in chunks)
    assert all(a.start <= b.start for a, b in itertools.pairwise(chunks))


def test_a_chunk_repeats_the_end_of_the_one_before() -> None:
    tokenizer = load("all-MiniLM-L6-v2")
    chunks = list(chunk(PROSE * 20, tokenizer, 200, 40))
    for before, after in itertools.pairwise(chunks):
        assert before.start < after.start < after.own_start == before.end
        assert 10 <= tokenizer.count((PROSE * 20)[after.start : after.own_start]) <= 40


def test_chunks_end_at_paragraphs_where_they_can() -> None:
    text = PROSE * 20
    assert all(text[: c.end].endswith("\n\n") for c in chunk(text, load("all-MiniLM-L6-v2"), 200, 20))


def test_chunks_end_at_sentences_where_there_is_no_paragraph() -> None:
    text = PROSE.strip() + " " + PROSE.strip()
    ends = [text[: c.end].rstrip()[-1] for c in chunk(text, load("all-MiniLM-L6-v2"), 40, 0)]
    assert set(ends) == {"."}


def test_japanese_chunks_end_at_japanese_sentences() -> None:
    text = "これは文です。次の文もあります。" * 30
    assert all(text[c.end - 1] == "。" for c in chunk(text, load("all-MiniLM-L6-v2"), 50, 10))


def test_chunks_end_at_words_where_there_is_no_sentence() -> None:
    text = "word another " * 200
    assert all(text[c.end - 1] == " " for c in chunk(text, load("all-MiniLM-L6-v2"), 30, 5))


def test_no_chunk_tears_a_character_and_its_marks() -> None:
    text = "e\u0301👨‍👩‍👧" * 300
    for c in chunk(text, load("cl100k_base"), 40, 5):
        assert text[c.end : c.end + 1] not in ("\u0301", "\u200d")
        assert text[c.end - 1] != "\u200d"


def test_the_same_text_gives_the_same_chunks() -> None:
    tokenizer = load("all-MiniLM-L6-v2")
    assert list(chunk(PROSE * 9, tokenizer, 100, 20)) == list(chunk(PROSE * 9, tokenizer, 100, 20))


def test_an_empty_text_has_no_chunks() -> None:
    assert list(chunk("", load("all-MiniLM-L6-v2"))) == []


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (15, 0), (100, 51), (100, -1)])
def test_sizes_that_do_not_fit_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(GraphRAGError) as caught:
        chunk("text", load("all-MiniLM-L6-v2"), size, overlap)
    assert caught.value.sqlstate == "22023"
    assert caught.value.hint


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_bad_input_is_cut_in_bounded_time(name: str) -> None:
    text = PATHOLOGICAL[name]
    begun = time.process_time()
    chunks = list(chunk(text, load("all-MiniLM-L6-v2")))
    assert "".join(text[c.own_start : c.end] for c in chunks) == text
    assert max(c.token_count for c in chunks) <= 1200
    assert max(c.end - c.start for c in chunks) <= 16 * 1200
    # Of 20 MB a part: windows are made chunk by chunk, and the chunks are cut at all its sentences.
    for c in random.Random(1).sample(chunks, min(len(chunks), 200)):
        assert partitions(windows(text, c.own_start, c.end, "en"), c.own_start, c.end)
    part = text[:1_000_000]
    assert partitions(sentences(part, "en"), 0, len(part))
    # Seconds on an idle core: 8 for 20 MB, 1 to 4 for the rest.
    assert time.process_time() - begun < 120


@given(text=ANY_TEXT, language=LANGUAGES)
@settings(max_examples=300, deadline=None)
def test_sentences_partition_any_text(text: str, language: str) -> None:
    assert sentences(text, language) == [] if not text else partitions(sentences(text, language), 0, len(text))


@given(text=ANY_TEXT, language=LANGUAGES, cut=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@settings(max_examples=300, deadline=None)
def test_windows_partition_any_stretch(text: str, language: str, cut: tuple[float, float]) -> None:
    start, end = sorted(int(share * len(text)) for share in cut)
    result = windows(text, start, end, language)
    assert result == [] if start == end else partitions(result, start, end)


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("One. Two! Three? Four", "en", ["One. ", "Two! ", "Three? ", "Four"]),
        (
            "See e.g. Dr. Smith vs. Jones. It is 1.5 times v2.3.1.",
            "en",
            ["See e.g. Dr. Smith vs. Jones. ", "It is 1.5 times v2.3.1."],
        ),
        ("G. Stanley Hall was born. He died.", "en", ["G. Stanley Hall was born. ", "He died."]),
        (
            "It began in Jan. 1960 in the U.S. Senate. Then no. Stop.",
            "en",
            ["It began in Jan. 1960 in the U.S. Senate. ", "Then no. ", "Stop."],
        ),
        ('He said "Go." She went.', "en", ['He said "Go." ', "She went."]),
        ("A heading\n\nText here", "en", ["A heading\n\n", "Text here"]),
        ("Ann: hi\nBob: hello there\n", "en", ["Ann: hi\n", "Bob: hello there\n"]),
        (
            "This line of prose was wrapped by an editor in the middle\nof a sentence. Next.",
            "en",
            ["This line of prose was wrapped by an editor in the middle\nof a sentence. ", "Next."],
        ),
        ("これは文です。「本当か？」次！", "ja", ["これは文です。", "「本当か？」", "次！"]),
        ("这是第一句。这是第二句！第三句", "zh", ["这是第一句。", "这是第二句！", "第三句"]),
        ("Das ist z.B. gut. Ja.", "de", ["Das ist z.B. gut. ", "Ja."]),
        # German that nobody said is German.
        (
            "Der Vertrag beginnt am 1. Januar 2025 und endet am 31.\nDezember 2027. Bei der Lieferung vom 3. Aug. fehlte viel.",
            "en",
            [
                "Der Vertrag beginnt am 1. Januar 2025 und endet am 31.\nDezember 2027. ",
                "Bei der Lieferung vom 3. Aug. fehlte viel.",
            ],
        ),
        (
            "Er war der 2. Vorsitzende im 19. Jahrhundert. Das kostet bzw. Kosten von 5 Mio. Euro laut § 5 Abs. 2. Ende.",
            "en",
            [
                "Er war der 2. Vorsitzende im 19. Jahrhundert. ",
                "Das kostet bzw. Kosten von 5 Mio. Euro laut § 5 Abs. 2. ",
                "Ende.",
            ],
        ),
        (
            "I am 12. My friend is called Mio. She sings.",
            "en",
            ["I am 12. ", "My friend is called Mio. ", "She sings."],
        ),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, language: str, expected: list[str]) -> None:
    assert [text[a:b] for a, b in sentences(text, language)] == expected


def test_windows_hold_sixty_to_a_hundred_and_twenty_words() -> None:
    text = "The planner chooses a plan by its cost. " * 200
    sizes = [len(text[a:b].split()) for a, b in windows(text, 0, len(text), "en")]
    assert len(sizes) > 10
    assert all(60 <= size <= 120 for size in sizes[:-1])
    assert 30 <= sizes[-1] <= 150


def test_japanese_windows_hold_a_hundred_and_twenty_to_two_hundred_and_fifty_characters() -> None:
    text = "これは索引を使って検索する文です。" * 200
    sizes = [b - a for a, b in windows(text, 0, len(text), "ja")]
    assert len(sizes) > 10
    assert all(120 <= size <= 250 for size in sizes[:-1])
    assert 60 <= sizes[-1] <= 310


def test_a_short_rest_joins_the_window_before() -> None:
    text = "The planner chooses a plan by its cost. " * 14 + "Short rest."
    assert len(windows(text, 0, len(text), "en")) == 1


def test_windows_fit_the_embedding_model() -> None:
    tokenizer = load("all-MiniLM-L6-v2")
    for name in ("html soup", "20 MB"):
        text = PATHOLOGICAL[name][:100_000]
        assert max(tokenizer.count(text[a:b]) for a, b in windows(text, 0, len(text), "en")) <= 254
