"""What a document must show of a concept before it is an entity."""

from __future__ import annotations

import pytest
from pg_graphrag.index.indexing.entity_keys import PASSAGE
from pg_graphrag.index.indexing.prepare import draft
from pg_graphrag.llm.embedding import name_pieces
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.naming.name_evidence import Mention, Usage, lacks_evidence, language_of, traits
from pg_graphrag.text.tokenizers import tokenizer

FILLER = {
    "en": "He went to the river and came back from there on foot with his dog. " * 60,
    "de": "Dann ging er wieder an den Fluss und kam zu Fuß mit seinem Hund zurück. " * 60,
    "ja": "それから川へ行って、歩いて帰ってきました。" * 80,
    "zh": "然后他去了河边，又走着回来了。" * 120,
    "es": "Luego fue al río y volvió de allí a pie con su perro, como todos los días. " * 60,
}


def entities(text: str, language: str, title: str | None = None, filler: str | None = None) -> set[str]:
    pytest.importorskip({"ja": "sudachipy", "zh": "jieba"}.get(language, "re"))
    options = Options(language=language)
    content = f"{text}\n\n{FILLER[language] if filler is None else filler}"
    *_, whole = draft(7, "hash", title, content, options, tokenizer(options.tokenizer))
    assert whole is not None
    return {name for piece in whole.chunks for name in piece.entities}


@pytest.mark.parametrize(
    ("text", "language", "junk", "entity"),
    [
        # A verb at the beginning of an item; a name within a sentence.
        ("- Redraws the screen.\n\n彼はKestrelを使う。", "ja", "redraws", "kestrel"),
        # A piece of a word with a sign; initials beside it.
        ("They found it in the Kestrel and in AAA+BBB.", "en", "bbb", "kestrel"),
        # What a document has in small letters before a word, and a term of two nouns within a sentence.
        ("He saw the wounded bull and the Kestrel there.", "en", "wounded bull", "kestrel"),
        # Verb and object beside a name of the dictionary.
        ("在北京重新编译内核。", "zh", "重新编译", "北京"),
        # In a language of which little is known.
        ("Para Ana, el Kestrel. Y la Consulta del Kestrel.", "es", "consulta", "kestrel"),
    ],
)
def test_what_has_little_evidence_is_no_entity(text: str, language: str, junk: str, entity: str) -> None:
    names = entities(text, language)
    assert junk not in names
    assert entity in names


@pytest.mark.parametrize(
    ("text", "language", "name"),
    [
        # At the beginning of a sentence and followed by a small letter, as most words are.
        ("Ada Lovelace wrote it.", "en", "ada lovelace"),
        ("香港很大。", "zh", "香港"),
        ("查理·康羅伊對此表示同意。", "zh", "查理·康羅伊"),
        ("北海道は寒い。", "ja", "北海道"),
    ],
)
def test_a_name_that_a_dictionary_has_needs_no_evidence(text: str, language: str, name: str) -> None:
    assert name in entities(text, language)


def lacks(usage: Usage, windows: int) -> bool:
    """By its traits alone."""
    return lacks_evidence(usage, windows, lambda name: 0)


def test_what_the_title_names_needs_no_evidence() -> None:
    assert "query planner" in entities("The query planner chose well.", "en", "The query planner")


def test_a_name_of_which_the_document_says_what_it_is_needs_no_evidence() -> None:
    assert "zarnow" in entities("Zarnow is a town in Poland.", "en")


def test_a_passage_and_a_conversation_are_not_judged() -> None:
    line = "Redrawn pictures hang there"
    concepts = entities(line, "en", filler="")
    talk = "Ann: I saw Kestrel. Did you?\nBob: I did. You saw it, Ann?\n"
    assert concepts == entities(line, "en", filler="")
    assert {"kestrel", "ann", "bob"} <= entities(talk * 40, "en", filler="")


def test_traits_say_where_a_name_stands_and_what_it_is_made_of() -> None:
    text = "He met Kestrel there. - Kestrel"
    own = traits(Usage([Mention(text, 7, 14)], "en", is_name=True, needed=1), 20)
    assert {"Capitals within", "latin en name within", "latin after small", "latin before blank"} <= own
    assert {"en follows VV", "name precedes there", "ends -trel"} <= own
    twice = traits(Usage([Mention(text, 7, 14), Mention(text, 24, 31)], "en", is_name=True, needed=1), 20)
    assert {"en follows -", "name precedes line", "latin before only blank"} <= twice - own


def test_mentions_in_other_surroundings_add_up() -> None:
    begins = Mention("- Zarnow the tree", 2, 8)
    within = Mention("He saw the Zarnow, and left.", 11, 17)
    assert lacks(Usage([begins], "en", is_name=True, needed=1), 60)
    assert not lacks(Usage([begins, within], "en", is_name=True, needed=1), 60)


def test_what_a_document_repeats_in_other_surroundings_needs_less() -> None:
    def usage(*texts: str) -> Usage:
        mentions = [Mention(text, text.index("Zarnow"), text.index("Zarnow") + 6) for text in texts]
        return Usage(mentions, "en", is_name=True, needed=1)

    def lacks_by(score: int, *texts: str) -> bool:
        return lacks_evidence(usage(*texts), 60, lambda name: score)

    in_two = ("- Zarnow the tree", "- Zarnow, the tree")
    in_three = (*in_two, "- Zarnow the lawn")
    assert any(lacks_by(score, *in_two) and not lacks_by(score, *in_three) for score in range(-100, 200))
    assert all(lacks_by(score, *["- Zarnow the tree"] * 3) for score in range(-100, 200) if lacks_by(score, *in_two))


def test_what_stands_within_longer_names_alone_is_no_name_for_being_in_a_dictionary() -> None:
    text = "古梅園墨談を読む"
    mention = Mention(text, 3, 5)
    alone = Usage([mention], "ja", is_name=True, needed=1)
    within = alone._replace(within_longer=1)
    assert "ja within all" in traits(within, 60) - traits(alone, 60)
    assert not lacks(alone, 60)
    assert lacks(within, 60)


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("The engine of the town is old and it is in the hall.", "en", "en"),
        ("Der Motor der Stadt ist alt und er ist in der Halle.", "en", "de"),
        ("Le moteur de la ville est vieux et il est dans la salle.", "en", "other"),
        ("조선 수군이 이겼다.", "ko", "other"),
        ("今日は寒い。", "ja", "ja"),
    ],
)
def test_only_languages_are_judged_of_which_names_were_read(text: str, language: str, expected: str) -> None:
    assert language_of(text, language) == expected
    assert PASSAGE < 8


@pytest.mark.parametrize(
    ("generic", "names"),
    [
        (("Reihenfolge", "Anwendungsfall"), ("Hamburg", "Fontane", "Debian")),
        (("example", "situation"), ("London", "Dickens", "Kubernetes")),
        (("手順", "場合"), ("京都", "東大寺", "夏目漱石")),
        (("方法", "情况"), ("北京", "鲁迅", "长江")),
    ],
)
def test_a_generic_word_scores_more_than_a_name(generic: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert min(map(name_pieces.score, generic)) > max(map(name_pieces.score, names))


def test_a_score_of_words_is_the_direction_of_their_mean() -> None:
    direction = name_pieces._direction() / 10_000
    for name in ("Kestrel engine", "検索エンジン", "", "\U0001f680"):
        assert name_pieces.score(name) == pytest.approx(
            100 * float(name_pieces.mean_embedding(name) @ direction), abs=1.01
        )
