"""What makes a concept of a document an entity."""

import pytest
from pg_graphrag.text.naming.gate import Mention, Usage, counted_windows, is_entity, language_of, traits


def usage(text: str, name: str, *, is_name: bool = True, scores: list[float] | None = None, **given: int) -> Usage:
    start = text.index(name)
    return Usage([Mention(text, start, start + len(name))], scores or [], "en", is_name=is_name, needed=1, **given)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Maria wrote a letter.", "Maria"),
        ("They bought it at Target in May.", "Target"),
        ("华为签订了合作协议。", "华为"),
        ("Gestern kam Wolf aus dem Urlaub.", "Wolf"),
    ],
)
def test_what_the_tagger_surely_calls_a_name_is_an_entity_though_it_is_said_once(text: str, name: str) -> None:
    for windows in (1, 8, 60):
        assert is_entity(usage(text, name, called=1, probability=97), windows)


def test_what_the_tagger_does_not_call_a_name_needs_more_than_a_capital() -> None:
    # What the encoder makes of these places.
    assert not is_entity(usage("- Redraws the screen.", "Redraws", scores=[-2.4]), 1)
    assert is_entity(usage("LazyGraphRAG is a method.", "LazyGraphRAG", scores=[-0.1]), 0)
    assert not is_entity(usage("Yesterday it rained.", "Yesterday"), 0)


def test_a_term_is_asked_for_more_where_a_document_says_more_than_two_sentences() -> None:
    text = "The Kestrel engine burns methane."
    methane = usage(text, "methane", is_name=False, scores=[-0.5])
    assert [
        is_entity(methane, windows) for windows in (counted_windows([text], 1), counted_windows([9 * text], 1), 5, 60)
    ] == [True, False, False, False]


def test_a_document_of_one_or_two_sentences_in_any_script_is_a_note() -> None:
    assert [counted_windows([text], 1) for text in ("Bob Stone left.", "東京へ行く。", 20 * "東京へ行く。")] == [
        0,
        0,
        1,
    ]
    assert counted_windows(["Bob Stone left."], 2) == 2


@pytest.mark.parametrize(
    ("name", "expected"), [("あちら", False), ("やがて", False), ("はるか", True), ("さくら", True)]
)
def test_a_pronoun_or_an_adverb_is_no_name_whoever_calls_it_so(name: str, expected: bool) -> None:
    text = f"{name}は町に来ました。"
    assert is_entity(usage(text, name, called=1, probability=90)._replace(language="ja"), 1) is expected


def test_traits_say_who_calls_it_a_name_where_it_stands_and_what_it_is_made_of() -> None:
    text = "He met Kestrel there. - Kestrel"
    called = traits(usage(text, "Kestrel", called=1, probability=85), 20)
    assert {"called name", "called quite", "called name within", "called after small", "called Capitals 1"} <= called
    uncalled = traits(usage(text, "Kestrel"), 20)
    assert {"uncalled name", "uncalled name article"} <= uncalled
    assert not any(trait.startswith("called ") for trait in uncalled)
    unread = traits(usage(text, "Kestrel")._replace(is_read=False), 20)
    assert "unread name" in unread


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


def test_what_the_encoder_makes_of_a_place_counts_beside_traits() -> None:
    text = "The server writes a base backup to the disk."
    for is_entity_there, score in ((True, 6.0), (False, -6.0)):
        scored = usage(text, "base backup", is_name=False, scores=[score, score])
        assert is_entity(scored, 4) is is_entity_there
