"""What the slow part of indexing makes of a document."""

import pytest
from pg_graphrag.index.graph.drafts import DocumentDraft, EntityDraft, Evidence
from pg_graphrag.index.indexing.prepare import draft, window_texts
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.tokenizers import tokenizer

from tests.unit.drafting import with_concepts

TEXT = (
    "Ada Lovelace wrote notes on the Analytical Engine in London. Charles Babbage read the notes of Ada Lovelace.\n\n"
    "In Paris it rained. Charles Babbage left."
)


def made(content: str, title: str | None = None, options: Options | None = None) -> DocumentDraft:
    options = options or Options()
    (*polls, whole) = draft(7, "hash", title, content, options, tokenizer(options.tokenizer))
    assert whole is not None
    assert set(polls) <= {None}
    assert len(polls) >= len(whole.chunks)
    return with_concepts(whole, options)


def small(content: str, title: str | None = None) -> DocumentDraft:
    return made(content, title, Options(chunk_token_size=50, chunk_overlap=10))


@pytest.mark.parametrize("content", ["", " \n\t", "\u3000"])
def test_white_space_makes_no_chunk(content: str) -> None:
    assert made(content, "A title").chunks == []


def test_own_parts_are_the_text_and_windows_partition_them() -> None:
    text = TEXT * 10
    chunks = small(text).chunks
    assert len(chunks) > 3
    assert "".join(text[piece.own_start : piece.end] for piece in chunks) == text
    for piece in chunks:
        assert piece.content == text[piece.start : piece.end]
        assert piece.windows[0][0] == piece.own_start
        assert piece.windows[-1][1] == piece.end
        assert all(before[1] == after[0] for before, after in zip(piece.windows, piece.windows[1:], strict=False))


def test_concepts_of_an_overlap_count_once() -> None:
    text = " ".join(f"Sentence {n} of Ada Lovelace is here." for n in range(40))
    whole = small(text)
    assert sum(piece.entities["ada lovelace"].tf for piece in whole.chunks) == 40


def test_a_relationship_is_a_sorted_pair_weighted_by_its_sentences() -> None:
    (piece,) = made(TEXT * 3).chunks
    for first, second in piece.relationships:
        assert first < second
        assert {first, second} <= set(piece.entities)
    pair = piece.relationships["ada lovelace", "charles babbage"]
    assert pair.weight == 3
    assert pair.forward == -3  # Babbage is named first
    assert "Ada Lovelace" in pair.evidence.text
    assert "Charles Babbage" in pair.evidence.text


def test_evidence_is_a_whole_sentence_at_its_offsets() -> None:
    (piece,) = made(TEXT).chunks
    for entity in piece.entities.values():
        evidence = entity.evidence
        assert " ".join(TEXT[evidence.start : evidence.end].split()) == evidence.text


def test_evidence_of_readable_length_comes_first_whatever_the_order() -> None:
    short, good = "Ada Lovelace left.", "Ada Lovelace wrote the notes on the engine in a cold winter."
    for text in (f"{short} {good}", f"{good} {short}"):
        (piece,) = made(text).chunks
        assert piece.entities["ada lovelace"].evidence.text == good


def test_the_title_is_an_entity_and_is_indexed_with_every_chunk() -> None:
    whole = small("It rained all day and nobody came. " * 20, "Diary of Ada Lovelace")
    assert len(whole.chunks) > 1
    for piece in whole.chunks:
        assert "diary of ada lovelace" in piece.entities
        assert piece.lexical.startswith("Diary of Ada Lovelace\n")
        assert not piece.content.startswith("Diary")


def test_a_title_that_is_a_sentence_is_no_name() -> None:
    (piece,) = made("It rained.", "word " * 50).chunks
    assert max(map(len, piece.entities), default=0) <= 100


def test_windows_are_embedded_with_the_title() -> None:
    whole = small(TEXT, "Diary")
    texts = window_texts("Diary", whole.chunks)
    assert len(texts) == sum(len(piece.windows) for piece in whole.chunks)
    assert all(text.startswith("Diary\n") for text in texts)
    assert "".join(text.removeprefix("Diary\n") for text in texts) == TEXT
    assert "".join(window_texts(None, whole.chunks)) == TEXT


def test_the_same_text_makes_the_same_draft() -> None:
    assert made(TEXT, "Diary") == made(TEXT, "Diary")


def test_the_language_option_goes_over_the_script() -> None:
    assert [piece.language for piece in made("東京タワーです。").chunks] == ["ja"]
    assert [piece.language for piece in made("Der Turm steht.", options=Options(language="de")).chunks] == ["de"]


def test_the_name_of_an_entity_is_its_most_frequent_spelling_then_the_smallest() -> None:
    evidence = Evidence(1, 0, 1, "x")
    assert EntityDraft("NAME", evidence, {"b": 2, "a": 1}).name == "b"
    assert EntityDraft("NAME", evidence, {"b": 1, "B": 1, "a": 1}).name == "B"


def test_a_pronoun_states_a_relationship_of_the_name_before_it() -> None:
    (piece,) = made("Bob Stone joined Acme Rockets. He designed the Kestrel engine.").chunks
    assert ("bob stone", "kestrel engine") in piece.relationships
    assert piece.entities["bob stone"].spellings == {"Bob Stone": 2}


WEAK = "A packed segment of Ada Lovelace stood in a letter. "


def test_a_weak_concept_is_an_entity_where_its_document_has_it_twice() -> None:
    (once,) = made(WEAK).chunks
    (twice,) = made(WEAK + "The packed segments were kept.").chunks
    assert "packed segment" not in once.entities
    assert once.entities.keys() >= {"ada lovelace"}
    assert twice.entities["packed segment"].tf == 2


def test_a_weak_concept_is_an_entity_where_the_title_has_it_too() -> None:
    (piece,) = made(WEAK, "Packed segments").chunks
    assert "packed segment" in piece.entities


def test_of_ten_chunks_and_more_a_weak_concept_is_said_once_more() -> None:
    filler = "Charles Babbage read the notes of Ada Lovelace in Paris and in London. " * 60
    few, many = small(WEAK * 2), small(WEAK + filler + WEAK)
    assert len(many.chunks) > 10
    assert any("packed segment" in piece.entities for piece in few.chunks)
    assert not any("packed segment" in piece.entities for piece in many.chunks)
    third = "They left for the packed segment, which was old. "
    assert any("packed segment" in piece.entities for piece in small(WEAK + filler + WEAK + third).chunks)


def test_relationships_have_entities_at_both_ends() -> None:
    for piece in made(WEAK + TEXT).chunks:
        assert {name for pair in piece.relationships for name in pair} <= set(piece.entities)


def test_code_and_placeholders_make_no_entities() -> None:
    (piece,) = made("This is by Ada Lovelace.\n```\nx = WrongName()\n```\n", "README").chunks
    assert set(piece.entities) == {"ada lovelace"}


@pytest.mark.parametrize("mark", ["\u00ad", "\u200b", "\u2060", "\ufe0f"])
def test_marks_that_nobody_sees_change_no_mention_and_stay_in_what_is_quoted(mark: str) -> None:
    marked = TEXT.replace("Lovelace", f"Love{mark}lace").replace("Babbage", f"Bab{mark}bage{mark}") * 3
    (plain_piece,), (piece,) = made(TEXT * 3, "Ada Lovelace").chunks, made(marked, f"Ada{mark} Lovelace").chunks
    assert {key: (entity.tf, entity.type, entity.spellings) for key, entity in piece.entities.items()} == {
        key: (entity.tf, entity.type, entity.spellings) for key, entity in plain_piece.entities.items()
    }
    assert {pair: stated.weight for pair, stated in piece.relationships.items()} == {
        pair: stated.weight for pair, stated in plain_piece.relationships.items()
    }
    assert piece.weak == plain_piece.weak
    assert piece.content == marked
    for stated in (*piece.entities.values(), *piece.relationships.values()):
        assert stated.evidence is not None
        assert " ".join(marked[stated.evidence.start : stated.evidence.end].split()) == stated.evidence.text
