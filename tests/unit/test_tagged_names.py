"""Names that the tagger reads, among the concepts of analysers and at their places in a document."""

import numpy as np
import pytest
from pg_graphrag.index.graph.drafts import ChunkDraft
from pg_graphrag.index.indexing.item_vectors import WindowNames, document_names
from pg_graphrag.index.indexing.prepare import DocumentNames, add_concepts, own_proses, window_texts
from pg_graphrag.llm.embedding.name_tagger import PLACES, Reading, TaggedName, TermScores, concepts_of
from pg_graphrag.text.concept import Concept
from pg_graphrag.text.words.concepts import with_names
from pg_graphrag.text.words.keywords import keywords


def name(text: str, part: str, tag: str = "PERSON") -> Concept:
    start = text.index(part)
    return Concept(part, start, start + len(part), "NAME", tag=tag, probability=90)


@pytest.mark.parametrize(
    ("text", "concept", "type_", "names", "kept", "expected"),
    [
        ("Bob Stone of Acme flew", "Bob Stone of Acme", "NAME", ["Bob Stone", "Acme"], "", ["Bob Stone", "Acme"]),
        ("Maria Lopez flew", "Lopez", "NAME", ["Maria Lopez"], "", ["Maria Lopez"]),
        ("the Kestrel engine test", "engine test", "CONCEPT", ["Kestrel engine"], "", ["Kestrel engine"]),
        ("the Kestrel test", "Kestrel test", "CONCEPT", ["Kestrel"], "", ["Kestrel test", "Kestrel"]),
        ("War of Oslo began", "War of Oslo", "NAME", ["Oslo"], "war of oslo", ["War of Oslo", "Oslo"]),
        ("a tablespace of Oslo", "tablespace", "CONCEPT", ["Oslo"], "", ["tablespace", "Oslo"]),
        ("many APIs of Oslo", "APIs", "NAME", ["APIs"], "", ["API"]),
        ("the U.S. fleet", "U.S.", "NAME", ["U.S"], "", ["U.S."]),
    ],
)
def test_the_tagger_says_where_a_name_ends(
    text: str, concept: str, type_: str, names: list[str], kept: str, expected: list[str]
) -> None:
    start = text.index(concept)
    shown = "API" if concept == "APIs" else concept
    found = with_names(
        [Concept(shown, start, start + len(concept), type_)], [name(text, part) for part in names], [kept]
    )
    assert [item.name for item in found if not item.is_piece] == expected
    assert {item.name for item in found} == {*expected, shown}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Technology Code of Practice (UK", ["Technology Code of Practice"]),
        ("Code of Practice (UK)", ["Code of Practice (UK)"]),
        ("Foo（中国「北京", ["Foo"]),
        ("Mattermost--", ["Mattermost"]),
        ("Bob \t", ["Bob"]),
        # What is left has no letter.
        ("3 (UK", ["3 (UK"]),
        ("2026", []),
    ],
)
def test_a_name_ends_before_a_bracket_that_does_not_close_and_before_hyphens(text: str, expected: list[str]) -> None:
    concepts = concepts_of(text, [TaggedName(0, len(text), "other", 0.9)], moved=7)
    assert [item.name for item in concepts] == expected
    assert all(" ".join(text[item.start - 7 : item.end - 7].split()) == item.name for item in concepts)


@pytest.mark.parametrize(
    ("text", "tag", "expected"),
    [
        ("Debian/Mint", "product", ["Debian", "Mint"]),
        ("Frankfurt/Oder", "place", ["Frankfurt/Oder"]),
        ("Input/Output", "other", ["Input/Output"]),
        ("TCP/IP", "other", ["TCP/IP"]),
        ("GNU/Linux", "product", ["GNU/Linux"]),
        ("Face/Off", "work", ["Face/Off"]),
        ("El PASO", "place", ["El PASO"]),
        ("El NIÑO", "event", ["El NIÑO"]),
        ("El País", "org", ["El País"]),
        ("在上海", "place", ["上海"]),
        ("在水一方", "work", ["在水一方"]),
    ],
)
def test_slashes_part_names_and_a_preposition_is_none(text: str, tag: str, expected: list[str]) -> None:
    concepts = concepts_of(f"- {text}.", [TaggedName(2, 2 + len(text), tag, 0.9)], moved=-2)
    assert [item.name for item in concepts] == expected
    assert all(text[item.start : item.end] == item.name for item in concepts)


def test_a_place_of_japanese_text_may_begin_as_a_chinese_preposition() -> None:
    text = "在田町に住む。"
    assert [item.name for item in concepts_of(text, [TaggedName(0, 3, "place", 0.9)])] == ["在田町"]


@pytest.mark.slow
def test_the_end_of_a_long_name_is_found_at_once() -> None:
    for sign in (" ", "-", "("):
        text = "a" + sign * 20_000 + "b"
        concepts_of(text, [TaggedName(0, len(text), "other", 0.9)])


def chunk(content: str, windows: list[tuple[int, int]], section: str | None = None) -> ChunkDraft:
    return ChunkDraft(0, 0, 0, len(content), "en", content, "", 1, windows, section=section)


def reading(names: list[TaggedName], words: list[tuple[int, int, float]] | None = None) -> Reading:
    starts, ends, scores = zip(*words, strict=True) if words else ((), (), ())
    places = np.array(starts, np.int32), np.array(ends, np.int32)
    by_place = np.zeros((len(scores), PLACES), np.float32)
    by_place[:, 0] = scores
    return Reading(names, TermScores(*places, by_place))


def test_names_of_windows_are_those_of_their_chunk_and_of_the_title() -> None:
    content = "Maria wrote to Oslo. Then Ivan came with the mail."
    piece = chunk(content, [(0, 21), (21, 50)], "Mail of Ivan")
    texts = window_texts("Bob Stone", [piece])
    maria, ivan = texts[0].index("Maria"), texts[1].index("Ivan came")
    read = WindowNames(
        {},
        {
            texts[0]: reading([TaggedName(0, 9, "person", 0.9), TaggedName(maria, maria + 5, "person", 0.8)]),
            texts[1]: reading([TaggedName(0, 3, "person", 0.9), TaggedName(ivan, ivan + 4, "other", 0.7)]),
        },
    )
    names = document_names("Bob Stone", [piece], read)
    found = {(item.name, content[item.start : item.end], item.tag, item.probability) for item in names.by_chunk[0]}
    assert found == {("Maria", "Maria", "PERSON", 80), ("Ivan", "Ivan", "NAME", 70)}
    # The second window is the longer one.
    assert [item.name for item in names.of_title] == ["Bob"]


def test_a_concept_has_the_mean_of_its_tokens_in_the_last_window_that_begins_before_it() -> None:
    content = "The base backup ended. Then the base backup began anew."
    piece = chunk(content, [(0, 23), (15, 55)], "Backups")
    texts = window_texts("Log", [piece])
    head = len(texts[0]) - 23
    read = WindowNames(
        {},
        {
            texts[0]: reading([], [(head, head + 3, 9.0), (head + 4, head + 8, 1.0), (head + 9, head + 15, 2.0)]),
            # The encoder has not seen what is behind "base".
            texts[1]: reading([], [(head, head + 17, 9.0), (head + 17, head + 21, 4.0)]),
        },
    )
    first, second = content.index("base"), content.rindex("base")
    spans = [(first, first + 11), (first, first + 4), (second, second + 4), (second, second + 11)]
    concepts = [Concept(content[start:end], start, end, "CONCEPT") for start, end in spans]
    scored = document_names("Log", [piece], read).scored(0, concepts)
    assert [item.term_score for item in scored] == [1.5, 1.0, 4.0, None]
    assert [item.term_score for item in DocumentNames().scored(0, concepts)] == [None] * 4


def test_the_ends_of_a_concept_and_what_stands_beside_it_add_to_its_score() -> None:
    by_place = np.zeros((4, PLACES), np.float32)
    by_place[np.arange(4), [3, 1, 2, 4]] = 1, 2, 4, 8
    terms = TermScores(np.array([0, 4, 9, 16], np.int32), np.array([3, 8, 15, 16], np.int32), by_place)
    assert terms.of(4, 15) == 15


def test_a_name_in_what_is_no_prose_is_none() -> None:
    content = "Ask Maria.\n\n```\nlet Maria = 1\n```\n"
    piece = chunk(content, [(0, len(content))])
    for place, count in ((content.index("Maria"), 1), (content.rindex("Maria"), 0)):
        found = Concept("Maria", place, place + 5, "NAME", tag="PERSON", probability=99)
        piece.entities = {}
        for _ in add_concepts(
            [piece], None, own_proses([piece]), DocumentNames({0: [found]}, is_read=True), with_full_names=True
        ):
            pass
        assert [entity.type for entity in piece.entities.values()].count("PERSON") == count


@pytest.mark.parametrize(
    ("content", "names", "weak", "not_weak"),
    [
        # A piece within a name leads on; what joins names says nothing beside these.
        ("We saw the Battle of Mine Creek.", ["Battle of Mine Creek"], {"mine creek"}, set()),
        ("He asked Bob Stone of Acme Rockets.", ["Bob Stone", "Acme Rockets"], set(), {"bob stone of acme rockets"}),
        # A label within a name is somebody who is there anyway.
        ("Bob Stone: Hi!\nAnn Lee: I call Bob Stone: 3.", ["Bob Stone", "Bob Stone: 3"], set(), {"bob stone"}),
    ],
)
def test_walks_go_over_pieces_within_names_alone(
    content: str, names: list[str], weak: set[str], not_weak: set[str]
) -> None:
    piece = chunk(content, [(0, len(content))])
    found = DocumentNames({0: [name(content, part) for part in names]}, is_read=True)
    for _ in add_concepts([piece], None, own_proses([piece]), found, with_full_names=True):
        pass
    assert weak <= piece.weak.keys()
    assert not not_weak & piece.weak.keys()


def test_a_question_has_the_names_that_documents_have() -> None:
    question = "What did Bob Stone of Acme build?"
    low, _ = keywords(question, "en", [name(question, "Bob Stone"), name(question, "Acme", "ORGANIZATION")])
    assert low == ["Bob Stone", "Acme", "Bob Stone of Acme"]


def test_a_question_has_a_known_name_that_the_tagger_bounds_otherwise() -> None:
    question = "What does Li Hua express about the Grand Model?"
    low, _ = keywords(question, "en", [name(question, "Li Hua express"), name(question, "the Grand Model", "WORK")])
    assert low[:2] == ["Li Hua express", "the Grand Model"]
    assert {"Li Hua", "Grand Model"} <= set(low)


@pytest.mark.parametrize("tagged", ["RZ-500K press", "RZ"])
def test_a_code_stands_as_it_is_written(tagged: str) -> None:
    text = "The RZ-500K press leaks."
    code = Concept("RZ-500K", 4, 11, "NAME")
    name = Concept(tagged, 4, 4 + len(tagged), "NAME", tag="PRODUCT", probability=90)
    assert text[4 : 4 + len(tagged)] == tagged
    merged = with_names([code], [name])
    assert "RZ-500K" in [concept.name for concept in merged if not concept.is_piece]
    assert "RZ" not in [concept.name for concept in merged]
