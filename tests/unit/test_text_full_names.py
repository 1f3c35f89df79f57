"""Short names of a document that mean one longer name of it."""

import random
from dataclasses import replace

import pytest
from pg_graphrag.text.concept import Concept
from pg_graphrag.text.naming.full_names import full_names
from pg_graphrag.text.words.concepts import concepts

pytest.importorskip("HanTa")
pytest.importorskip("sudachipy")
pytest.importorskip("jieba")


def meant(text: str, language: str = "en") -> dict[str, str]:
    return {short: full.name for short, full in full_names(concepts(text, language), text, {language}).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bob Stone joined Acme Rockets. He met Stone's brother.", {"stone": "Bob Stone"}),
        ("The Kestrel engine burns methane. Kestrel flew in 2011.", {"kestrel": "Kestrel engine"}),
        (
            "LiHua wrote. They asked Li Hua about the file system of a filesystem.",
            {"li hua": "LiHua", "file system": "filesystem"},
        ),
        # Of a name that is spelled in two ways.
        (
            "Jean-Paul Sartre wrote plays. He, Jean Paul Sartre, taught. Sartre died.",
            {"jean-paul sartre": "Jean Paul Sartre", "sartre": "Jean Paul Sartre"},
        ),
        # Who is meant, of two; where it stands as a place; where nobody is spoken of.
        ("Bob Stone met Ann Stone. He asked Stone.", {}),
        ("Whitney Houston sang. She lives in Houston.", {}),
        ("Ernst Kanter is old. Kanter is old.", {}),
        # Not a person, nor of the same kind.
        ("He likes Real Madrid. Madrid won.", {}),
        ("He reads Game of Thrones. Thrones are old.", {}),
        ("A Honda engine burns petrol. The Honda engine is old. Honda grew.", {}),
        ("The Japanese city grew. Japanese is spoken.", {}),
        ("The Merlin engine and the Merlin rocket flew. Merlin flew.", {}),
    ],
)
def test_english(text: str, expected: dict[str, str]) -> None:
    assert meant(text) == expected


@pytest.mark.parametrize(
    ("title", "text", "called", "expected"),
    [
        ("Multicolumn Indexes", "A multicolumn index helps.", "", "multicolumn index"),
        ("Hackerspaces", "Der Hackerspace ist in der Stadt und bleibt dort.", "", "Hackerspace"),
        ("Hauptprozesses", "Der Hauptprozess ist der, mit dem alles beginnt.", "", "Hauptprozess"),
        ("Transacciones", "En la Transaccion se dice que no hay nada de eso.", "", "Transaccion"),
        # What the tagger calls a name, in the plural or in the singular; what is no plural; what the document has not.
        ("Onion Services", "An onion service of the network helps.", "Onion Services", ""),
        ("Cadillacs", "The Cadillac is old.", "Cadillac", ""),
        ("HTTPS", "HTTP is old.", "", ""),
        ("General Motors", "The company is large.", "", ""),
    ],
)
def test_a_plural_means_the_singular_that_its_document_has(title: str, text: str, called: str, expected: str) -> None:
    untagged = [Concept(title, 0, len(title), "NAME"), *concepts(text, "en")]
    read = [replace(concept, tag="NAME" if concept.name == called else "") for concept in untagged]
    meant_by_it = {short: full.name for short, full in full_names(read, text, {"en"}, is_read=True).items()}
    assert meant_by_it == ({title.lower(): expected} if expected else {})
    # Without a tagger nobody knows what is a name.
    assert full_names(read, text, {"en"}) == {}


def test_japanese() -> None:
    assert meant("著者は徳田球一です。徳田は東京で学んだ。東京は大きい。", "ja") == {"徳田": "徳田球一"}
    assert meant("田中角栄と田中清玄が来た。田中は話した。", "ja") == {}
    assert meant("東京大学は東京にある。", "ja") == {}


def test_chinese() -> None:
    assert meant("阿西莫夫很有名。艾萨克·阿西莫夫写小说。", "zh") == {"阿西莫夫": "艾萨克·阿西莫夫"}


def test_a_japanese_given_name_of_which_the_dictionary_has_a_part_is_whole() -> None:
    names = {concept.name for concept in concepts("著者は高見昂季です。", "ja")}
    assert names == {"高見昂季"}


def test_the_order_of_concepts_does_not_matter() -> None:
    text = "Bob Stone built the Kestrel engine. He told Ann Lee. Then Stone and Lee fly the Kestrel. She left."
    listed = concepts(text, "en")
    expected = meant(text)
    assert expected == {"stone": "Bob Stone", "lee": "Ann Lee", "kestrel": "Kestrel engine"}
    for seed in range(20):
        random.Random(seed).shuffle(listed)
        assert {short: full.name for short, full in full_names(listed, text, {"en"}).items()} == expected
