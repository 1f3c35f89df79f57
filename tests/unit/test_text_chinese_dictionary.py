"""jieba's dictionary, read by the first character of words: what it says is what jieba says."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.text.words.chinese_dictionary import ChineseDictionary, chinese_dictionary

jieba = pytest.importorskip("jieba")


@pytest.fixture(scope="module")
def entries() -> list[list[str]]:
    text = Path(jieba.__file__).with_name("dict.txt").read_text(encoding="utf-8")
    return [line.split(" ") for line in text.split("\n")[:-1]]


@pytest.fixture(scope="module")
def sentences(entries: list[list[str]]) -> list[str]:
    """Words of the dictionary side by side, with characters between them that no word may have."""
    draw = random.Random(17)
    words = [entry[0] for entry in entries]
    return ["".join(_words_and_characters(draw, words)) for _ in range(2_000)]


def _words_and_characters(draw: random.Random, words: list[str]) -> Iterator[str]:
    for word in draw.choices(words, k=draw.randint(1, 12)):
        yield word[: draw.randint(1, len(word))] if draw.random() < 0.2 else word
        if draw.random() < 0.3:
            yield chr(draw.randint(0x4E00, 0x9FD5))
        if draw.random() < 0.1:
            yield draw.choice(["，", "A", "3.14", " ", "C#", "か", "😀"])


@pytest.mark.slow
def test_sentences_are_cut_as_jieba_cuts_them_with_its_whole_dictionary(sentences: list[str]) -> None:
    whole = jieba.Tokenizer()
    whole.FREQ, whole.total = whole.gen_pfdict(whole.get_dict_file())
    whole.initialized = True
    by_need = ChineseDictionary()
    differing = []
    for sentence in sentences:
        by_need.read(sentence)
        cut, cut_for_search = by_need.tokenizer.lcut(sentence), by_need.tokenizer.lcut_for_search(sentence)
        if (cut, cut_for_search) != (whole.lcut(sentence), whole.lcut_for_search(sentence)):
            differing.append(sentence)
    assert differing == []
    assert by_need.total == whole.total


def test_all_that_is_read_is_the_whole_dictionary(entries: list[list[str]]) -> None:
    dictionary = ChineseDictionary()
    dictionary.read("".join(entry[0][0] for entry in entries))
    assert dictionary.speeches == {word: speech for word, _, speech in entries}
    assert dictionary.frequencies == jieba.Tokenizer.gen_pfdict(dictionary.tokenizer.get_dict_file())[0]


def test_a_question_reads_few_words(entries: list[list[str]]) -> None:
    dictionary = ChineseDictionary()
    dictionary.read("费用减少了多少")
    assert 0 < len(dictionary.speeches) < len(entries) / 100


def test_a_line_without_its_three_fields_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dict.txt").write_text("数据 12 n\n数据库 9\n", encoding="utf-8")
    monkeypatch.setattr(jieba.Tokenizer, "get_dict_file", lambda _: (tmp_path / "dict.txt").open("rb"))
    with pytest.raises(GraphRAGError, match="WORD FREQUENCY SPEECH") as caught:
        ChineseDictionary()
    assert caught.value.sqlstate == "58P01"
    assert caught.value.hint is not None


def test_one_dictionary_serves_a_session() -> None:
    assert chinese_dictionary() is chinese_dictionary()
