"""HanTa's models as they are installed, beside those that come with it."""

from pathlib import Path

import pytest
from pg_graphrag.text.words import tagger

HanoverTagger = pytest.importorskip("HanTa.HanoverTagger").HanoverTagger


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("morphmodel_en", ("the", "indexes", "vacuumed", "Kestrelize", "pgvector")),
        ("morphmodel_ger", ("Haus", "gelesen", "Systemprozesse", "Käthe", "Kestrelung")),
    ],
)
def test_packed_as_hanta_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, words: tuple[str, ...]
) -> None:
    tagger.write_packed(tmp_path)
    monkeypatch.setattr(tagger, "__file__", str(tmp_path / "tagger.py"))
    monkeypatch.setattr(tagger, "_hanta_model", lambda _: pytest.fail("the packed model was not read"))

    packed, complete = tagger.read_tagger(model), HanoverTagger(f"{model}.pgz")

    assert packed.cache == complete.cache
    assert [packed.tag_word(word) for word in words] == [complete.tag_word(word) for word in words]
    assert (packed.reachability, packed.atomic_class) == (complete.reachability, complete.atomic_class)
    if model != tagger.STEMLESS:
        assert [packed.analyze(word) for word in words] == [complete.analyze(word) for word in words]


@pytest.mark.sample(1)
@pytest.mark.parametrize("files", range(3))
def test_what_was_not_written_to_its_end_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """A disk that is full after so many files."""
    write = Path.write_bytes

    def write_first(path: Path, data: bytes) -> int:
        if len([*tmp_path.iterdir()]) < files:
            return write(path, data)
        write(path, data[:1000])
        raise OSError("no space")

    monkeypatch.setattr(Path, "write_bytes", write_first)
    with pytest.raises(OSError, match="no space"):
        tagger.write_packed(tmp_path)
    monkeypatch.setattr(tagger, "__file__", str(tmp_path / "tagger.py"))

    model = tagger.MODELS[0]
    assert tagger.read_tagger(model).tag_word("indexes") == HanoverTagger(f"{model}.pgz").tag_word("indexes")


@pytest.mark.sample(1)
@pytest.mark.parametrize("model", tagger.MODELS)
def test_unknown_words_are_what_hanta_says(model: str) -> None:
    own = tagger.read_tagger(model)
    lexicon = sorted(own.cache)[:: len(own.cache) // 150]
    endings = ("", "s", "ing", "ly", "ungen", "ier", "-like", "x7")
    words = [f"{word}{ending}" for word in lexicon for ending in endings] + [*"aé", "xx", "", "overlong" * 4]
    words = [word for word in words if word not in own.cache]
    assert len(words) > 500

    found = [own.analyze_forward(word) for word in words]

    # Of the class, which the tagger's own stands before.
    assert found == [type(own).analyze_forward(own, word) for word in words]
