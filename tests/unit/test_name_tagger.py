"""Names on the states of a local model: where tokens stand, names whatever is read beside a text, vectors as without names."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Vectors
from pg_graphrag.llm.embedding import Embedder, load, local_embedder, name_tagger
from pg_graphrag.llm.embedding.document_embedder import lacks
from pg_graphrag.llm.embedding.e5 import E5
from pg_graphrag.llm.embedding.minilm import LibraryPieces, MiniLM, WordPieces, write_packed
from pg_graphrag.llm.embedding.name_tagger import TaggedName
from pg_graphrag.text.naming.unit_traits import units
from pg_graphrag.text.packed_words import PackedWords

CHARACTERS = (
    "aeiou nrst ABC 0123 .,;!?()「」、。 カタカナひらがな漢字東京都市 台灣臺北 한국어 дом ёж ½ﬁ①㍿ ｶﾞ"
    "ｷﾞ é e\u0301\u0323 🎉👩\u200d🚀 \U00020bb7 \u1112\u1161\u11ab \u09c7\u09be كتاب ไทย \n\t\u3000\u200b\u00ad\x01[]"
)
ENGINES = ["numpy", "float32", "bfloat16", "int8"]
TEXTS = [
    "Bob Stone of Acme Rockets designed the Kestrel engine in Oslo.",
    "Maria Lopez wrote a letter.",
    "Support\nTim Cook of Apple met Ann Lee of Sony.",
    "华为和腾讯的张伟在北京。",
    "Der Bericht von Lena Sommer ging an die Siemens AG in München.",
    "",
    "the meeting was moved to next week",
    "東京の田中さんはソニーで働く。" * 8,
]


def loaded(model: str, engine: str) -> Embedder:
    if not (MODELS / model).is_dir():
        pytest.skip(f"no model in {MODELS}: set PG_GRAPHRAG_HOME")
    if lacking := lacks(engine):
        pytest.skip(f"this machine lacks {lacking}")
    if engine == "numpy":
        return local_embedder(model)
    from pg_graphrag.llm.embedding.engine import EngineEncoder

    return load(model, lambda weights, config: EngineEncoder(weights, config, engine))


@pytest.fixture(scope="module", params=ENGINES)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return loaded(E5.model, request.param)


def tagged(embedder: Embedder, texts: list[str]) -> tuple[Vectors, list[list[TaggedName]]]:
    vectors = np.empty((len(texts), embedder.dimensions), np.float32)
    names: list[list[TaggedName]] = [[] for _ in texts]
    for places, of_step, readings in embedder.tag_batches(texts):
        vectors[places] = of_step
        for place, reading in zip(places.tolist(), readings, strict=True):
            names[place] = reading.names
    return vectors, names


def scored(embedder: Embedder, texts: list[str]) -> list[tuple[list[int], list[int], list[float]]]:
    """Return starts, ends and scores of the tokens of each text."""
    by_place: dict[int, tuple[list[int], list[int], list[float]]] = {}
    for places, _, readings in embedder.tag_batches(texts):
        for place, reading in zip(places.tolist(), readings, strict=True):
            starts, ends, scores = (array.tolist() for array in reading.terms)
            by_place[place] = starts, ends, scores
    return [by_place[place] for place in range(len(texts))]


def spelled(text: str, names: list[TaggedName]) -> dict[str, str]:
    return {text[name.start : name.end]: name.type for name in names}


def random_texts(seed: int, count: int) -> Iterator[str]:
    choose = random.Random(seed)
    for _ in range(count):
        yield "".join(choose.choices(CHARACTERS, k=choose.randint(0, 120)))


@pytest.mark.sample(1)
def test_plain_names_are_read_with_their_types(embedder: Embedder) -> None:
    _, names = tagged(embedder, TEXTS)
    assert spelled(TEXTS[0], names[0]).keys() >= {"Bob Stone", "Acme Rockets", "Oslo"}
    assert spelled(TEXTS[1], names[1]) == {"Maria Lopez": "person"}
    assert spelled(TEXTS[2], names[2]) == {"Tim Cook": "person", "Apple": "org", "Ann Lee": "person", "Sony": "org"}
    assert spelled(TEXTS[3], names[3]) == {"华为": "org", "腾讯": "org", "张伟": "person", "北京": "place"}
    assert spelled(TEXTS[4], names[4]) == {"Lena Sommer": "person", "Siemens AG": "org", "München": "place"}
    assert names[5] == names[6] == []
    assert all(0 < name.probability <= 1 for of_text in names for name in of_text)


def test_a_name_goes_on_where_a_line_is_wrapped(embedder: Embedder) -> None:
    text = "The pump of the new plant that our partners in Oslo opened was by Bob\nStone, who lives in Oslo."
    assert "Bob\nStone" in spelled(text, tagged(embedder, [text])[1][0])


LETTERS = {
    E5.model: "Sehr geehrte Frau Lee,\n\nanbei die Rechnung.\n\n{closing}\n\nPeter Schmidt\n{line}\nBremen",
    MiniLM.model: "Hi Tom,\n\nthe pump has arrived.\n\n{closing}\nEmma Clark\n{line}\nDublin",
}


@pytest.mark.parametrize(
    ("model", "closing", "line", "is_name"),
    [
        *(
            (MiniLM.model, closing, line, is_name)
            for closing in ("Best regards,", "Many thanks", "Yours sincerely,")
            for line, is_name in (
                ("Cobalt Pumps", True),
                ("Green Valley Dairy", True),
                ("Service Manager", False),
                ("Junior Accountant", False),
            )
        ),
        *(
            (E5.model, closing, line, is_name)
            for closing in ("Mit freundlichen Grüßen", "Viele Grüße,")
            for line, is_name in (("Tischlerei Brandt", True), ("Elektro Nordwest", True), ("Leiterin Einkauf", False))
        ),
    ],
)
def test_a_firm_in_the_signature_of_a_letter_is_a_name(model: str, closing: str, line: str, is_name: bool) -> None:
    text = LETTERS[model].format(closing=closing, line=line)
    names = spelled(text, tagged(loaded(model, "numpy"), [text])[1][0])
    assert (line in names) is is_name
    assert {"Emma Clark", "Peter Schmidt"} & names.keys()


def test_no_name_goes_on_from_a_title_to_the_text(embedder: Embedder) -> None:
    text = "Ada Lovelace\nAda Lovelace met Alan Turing."
    assert spelled(text, tagged(embedder, [text])[1][0]).keys() == {"Ada Lovelace", "Alan Turing"}


LINES = {
    "items of a list": "Minutes\nBoard members in attendance were:\n\n- Frank Wiles\n- Anna Makarudze\n- James Bennett\n",
    "items with stars": "Minutes\nApproved\n\n* Frank Wiles\n* Anna Makarudze\n* James Bennett\n",
    "fields": "Ticket\nFrom: Frank Wiles\nTo: Anna Makarudze\nCopy: James Bennett\n",
    "items of long lines": "Minutes\nPresent were, as always in these months of the year and of the one before it,\n"
    "- the treasurer of the board, who had come from the north by train, Frank Wiles\n- Anna Makarudze\n- James Bennett",
    "heading and text": "Notes\n# Frank Wiles\n\nAnna Makarudze met him.\n\n# James Bennett\n\nHe wrote.",
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
@pytest.mark.parametrize("model", [E5.model, MiniLM.model])
def test_no_name_goes_on_from_an_item_or_heading_to_the_next(model: str, lines: str) -> None:
    names = spelled(lines, tagged(loaded(model, "numpy"), [lines])[1][0]).keys()
    assert {"Frank Wiles", "James Bennett"} <= names <= {"Frank Wiles", "Anna Makarudze", "James Bennett"}


@pytest.mark.parametrize("model", [E5.model, MiniLM.model])
@pytest.mark.parametrize(
    "text",
    [
        "- The pump of the new plant that our partners opened in Oslo last year was by Bob\n  Stone of Sony.\n- It works.",
        "Monday, in the evening\nThe new museum in Oslo\nwill be led by Bob\nStone of Sony.",
    ],
    ids=["item", "narrow column"],
)
def test_a_name_goes_on_in_the_next_line_of_an_item_or_a_column(model: str, text: str) -> None:
    names = spelled(text, tagged(loaded(model, "numpy"), [text])[1][0])
    assert {" ".join(name.split()) for name in names} == {"Oslo", "Bob Stone", "Sony"}


MARKS = {
    "numbers in brackets": ("(1) Frank Wiles", "(2) James Bennett"),
    "letters": ("a) Frank Wiles", "b) James Bennett"),
    "letters in brackets": ("(A) Frank Wiles", "(B) James Bennett"),
    "sections": ("1.1 Frank Wiles", "1.2 James Bennett"),
    "ticks": ("✓ Frank Wiles", "✓ James Bennett"),
    "arrows": ("→ Frank Wiles", "→ James Bennett"),
    "boxes": ("[x] Frank Wiles", "[ ] James Bennett"),
    "dashes without a blank": ("-Frank Wiles", "-James Bennett"),
    "Japanese dots": ("・山田", "・田中"),
    "dots without a blank": ("•Frank Wiles", "•James Bennett"),
    "Chinese numbers": ("1、张伟", "2、王芳"),
    "wide brackets": ("（1）山田", "（2）田中"),
    "indented fields": ("  From: Frank Wiles", "  To: James Bennett"),
    "indented items": ("  a) Frank Wiles", "  b) James Bennett"),
    "items of long lines": (
        "(1) the treasurer of the board, who had come from the north by train, Frank Wiles",
        "(2) James Bennett",
    ),
}


def beginnings(text: str) -> list[str]:
    """Return the lines behind the first that no name goes on to."""
    places = units(text)
    return [text[places[number][0] :].partition("\n")[0] for number in name_tagger._beginnings(text, places)]


@pytest.mark.parametrize("lines", MARKS.values(), ids=MARKS)
def test_no_name_goes_on_to_the_next_item_whatever_its_mark(lines: tuple[str, str]) -> None:
    first, second = lines
    assert second.strip() in beginnings(f"Minutes\nwere kept\n{first}\n{second}\nof Oslo")


LISTS = (
    "Mit freundlichen Grüßen\nKlaus Weber\nSiemens AG\nTel. 030 123456",
    "Attendees:\nBob Stone\nNadia Rahman\nJürgen Müller",
    "山田太郎\n株式会社日立製作所\n東京都千代田区",
    "李芳\n华为技术有限公司\n深圳市",
)


@pytest.mark.parametrize("text", LISTS)
def test_lines_of_names_alone_are_names_by_themselves(text: str) -> None:
    assert beginnings(text) == text.split("\n")[1:]


@pytest.mark.parametrize(
    "text",
    [
        "as always in the old\ntown, by Ann\nLee of Oslo",
        "as always in these months the plant was opened\nby the engineers of PostgreSQL\n17.2 is new",
        "in the old\n- by the engineers of PostgreSQL\n  17.2 is new",
        "the well\nknown and never\n-ending work of Ann\n(Lee) and Bob\n[sic] Stone",
        "it was by Bob\nA. Stone and\nC. Lee",
        "it was in the\nwork of Bob\nJ) Stone",
        "映画は有名で\nこれはレオナルド\n・ダ・ヴィンチ",
        "in the cold of\n-5 degrees and\n-7 degrees",
        "it began in\n1998 and went on\n2.5 million times",
    ],
)
def test_a_wrapped_sentence_is_not_taken_for_items(text: str) -> None:
    assert beginnings(text)[1:] == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", [E5.model, MiniLM.model])
def test_names_are_the_same_whatever_is_read_beside_a_text(model: str, engine: str) -> None:
    embedder = loaded(model, engine)
    # Of many lengths, some of them equal, and beginning and ending within a name.
    texts = [*TEXTS, *(" ".join(TEXTS[:3])[start : start + 90] for start in range(0, 120, 14))]
    assert tagged(embedder, texts[::-1])[1] == tagged(embedder, texts)[1][::-1]
    # A text's names are made of these alone.
    scores = scored(embedder, texts)
    assert [scored(embedder, [text])[0] for text in texts] == scores
    assert scored(embedder, texts[::-1]) == scores[::-1]


def test_tokens_lie_in_the_text_as_given_where_it_has_invisible_characters(embedder: Embedder) -> None:
    plain, marked = "Bob Stone left Oslo.", "Bo\u200bb Sto\u00adne left\u200b Oslo."
    (starts, ends, scores), (marked_starts, marked_ends, marked_scores) = scored(embedder, [plain, marked])
    assert scores == marked_scores
    spelled_out = [plain[start:end] for start, end in zip(starts, ends, strict=True)]
    in_marked = [marked[start:end] for start, end in zip(marked_starts, marked_ends, strict=True)]
    assert spelled_out == [part.replace("\u200b", "").replace("\u00ad", "") for part in in_marked]


@pytest.mark.sample(1)
def test_vectors_have_the_bits_that_they_have_without_names(embedder: Embedder) -> None:
    for text in TEXTS:
        assert np.array_equal(tagged(embedder, [text])[0], embedder.embed([text])), text
    vectors = tagged(embedder, TEXTS)[0]
    assert np.allclose(vectors, embedder.embed(TEXTS), atol=1e-6)


def test_names_lie_where_they_stand_among_invisible_characters(embedder: Embedder) -> None:
    text = "\u200bBob\u00ad Stone of Acme\u200b Rockets"
    _, [names] = tagged(embedder, [text])
    assert [text[name.start : name.end] for name in names] == ["Bob\u00ad Stone", "Acme\u200b Rockets"]


@pytest.mark.sample(1)
def test_what_is_behind_the_last_token_has_no_name(embedder: Embedder) -> None:
    text = "Bob Stone wrote. " * 400
    _, [names] = tagged(embedder, [text])
    assert 0 < len(names) < 300
    assert text[names[0].start : names[0].end] == "Bob Stone"


def test_tokens_with_spans_are_the_tokens_and_lie_in_order() -> None:
    model = local_embedder(E5.model)
    assert isinstance(model, E5)
    for text in random_texts(1, 500):
        ids, spans = model.tokens_with_spans(text)
        assert ids == model.tokens(text), text
        assert len(spans) == len(ids)
        assert all(start <= end for start, end in spans)
        assert spans == sorted(spans)
        assert spans[-1] == (len(text), len(text))


def test_tokens_lie_where_their_characters_stand() -> None:
    model = local_embedder(E5.model)
    for text, expected in (
        ("Bob  Stone", ["Bob", "Stone"]),
        ("ﬁ ½ ㍿", ["ﬁ", "½", "㍿"]),
        ("ｶﾞ e\u0301 \u1112\u1161\u11ab", ["ｶﾞ", "e\u0301", "\u1112\u1161\u11ab"]),
        ("東京 🎉", ["東京", "🎉"]),
    ):
        assert isinstance(model, E5)
        _, spans = model.tokens_with_spans(text)
        assert [text[start:end] for start, end in spans if end > start] == expected


def test_questions_of_english_have_the_spans_that_documents_have(tmp_path: Path) -> None:
    directory = MODELS / MiniLM.model
    if not directory.is_dir():
        pytest.skip(f"no model in {MODELS}: set PG_GRAPHRAG_HOME")
    write_packed(directory / "tokenizer.json", tmp_path / "pieces")
    own = WordPieces(PackedWords.mapped(tmp_path / "pieces"), 256)
    library = LibraryPieces(directory / "tokenizer.json", 256)
    for text in [*TEXTS, *random_texts(2, 500), "naïve [SEP] Müller's x_y", "tab\tand\x01control"]:
        assert own.encode_with_spans(text) == library.encode_with_spans(text), text
        assert own.encode(text) == own.encode_with_spans(text)[0] == library.encode(text), text


def test_units_cover_all_but_blanks() -> None:
    for text in random_texts(3, 500):
        places = units(text)
        covered = {place for start, end in places for place in range(start, end)}
        assert all(character.isspace() for place, character in enumerate(text) if place not in covered)
    assert [text for text in ("Annas", "O'Neil", "김민수는", "e\u0301té", "x_y") for _ in units(text)].count(
        "김민수는"
    ) == 4
    assert units("e\u0301té 東京") == [(0, 4), (5, 6), (6, 7)]


def test_weights_that_were_changed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Path(name_tagger.__file__)
    weights = bytearray(own.with_name(f"names-{E5.model}.npz").read_bytes())
    weights[1000] ^= 1
    monkeypatch.setattr(name_tagger, "__file__", str(tmp_path / own.name))
    read = name_tagger.name_tagger.__wrapped__
    with pytest.raises(GraphRAGError, match="cannot be read") as missing:
        read(E5.model)
    assert missing.value.sqlstate == "58P01"
    (tmp_path / f"names-{E5.model}.npz").write_bytes(weights)
    with pytest.raises(GraphRAGError, match="damaged") as damaged:
        read(E5.model)
    assert damaged.value.sqlstate == "XX001"


def test_sessions_map_the_weights_that_the_package_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path(name_tagger.__file__)
    read = name_tagger.name_tagger.__wrapped__
    loaded_floats = vars(read(E5.model))["_weights"]
    monkeypatch.setattr(name_tagger, "__file__", str(tmp_path / own.name))
    (tmp_path / f"names-{E5.model}.npz").write_bytes(own.with_name(f"names-{E5.model}.npz").read_bytes())
    name_tagger.write_mapped(E5.model)
    mapped = read(E5.model)
    assert mapped.layers == name_tagger.name_tagger(E5.model).layers != ()
    for name, array in vars(mapped)["_weights"].items():
        assert np.array_equal(array, loaded_floats[name]), name
        # Of the file, and not of the session's own.
        assert not array.flags.writeable
        assert not array.flags.owndata
