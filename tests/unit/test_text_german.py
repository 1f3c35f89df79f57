"""German names and nouns; names of languages without an extractor of their own."""

import unicodedata

import pytest
from pg_graphrag.text.languages import is_german
from pg_graphrag.text.words import german
from pg_graphrag.text.words.concepts import concepts, latin_language

pytest.importorskip("HanTa")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Die Gesellschaft betrieb eine Fabrik in Hamburg.", ["Hamburg/N"]),
        ("Käthe Größer wohnt in Bad Homburg.", ["Käthe Größer/N", "Bad Homburg/N"]),
        ("Wenn Sie Dateien lesen, hilft die Europäische Union.", ["Europäische Union/N"]),
        ("Das Paket enthält Konfigurationsdateien und pg_dump.", ["Konfigurationsdatei/C", "pg_dump/N"]),
        ("Der Linux-Kernel und seine Systemprozesse.", ["Linux-Kernel/C", "Systemprozess/C"]),
        ("Laden Sie KEIN Paket nach FILE.", []),
        ("Der Touch-Screen und der Domain-Switcher sind gut.", ["Touch-Screen/C", "Domain-Switcher/C"]),
        ("Wir fragten den Prof. von vorhin und Dr. Müller.", ["Müller/N"]),
        ("Wir gehen zum Open Data Day der Stadt.", ["Open Data Day/N"]),
        ("Beim Jugend-Hackathon lief ein 3D-Drucker.", ["Jugend-Hackathon/C"]),
        ("Es gilt Version 12\nPaketverwaltungssysteme helfen.", ["Paketverwaltungssystem/C"]),
        ("Für mein Theil ist das Gemüth ruhig.", []),
    ],
)
def test_german(text: str, expected: list[str]) -> None:
    assert [f"{concept.name}/{concept.type[0]}" for concept in concepts(text, "de")] == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("fr", "Les deux amis habitent à Paris. Le général de Gaulle parle.", ["Paris", "Gaulle"]),
        ("es", "El presidente de México visitó a Juan García. Los niños.", ["México", "Juan García"]),
    ],
)
def test_a_word_is_no_name_for_beginning_a_sentence(language: str, text: str, expected: list[str]) -> None:
    assert [concept.name for concept in concepts(text, language)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Die Gesellschaft betrieb das Werk bis 1931. Käthe Größer wohnt in der Stadt und hat ein Haus.", True),
        ("Het schip was van de oude man en is nu op zee, met een nieuwe kapitein.", False),
        ("Fartyget och det som är på havet, den der er ikke til", False),
        ("The ferry left Der Spiegel und Die Zeit in the harbour of the city.", False),
        ("Brotpreis", False),
    ],
)
def test_german_is_known_by_its_function_words(text: str, expected: bool) -> None:
    assert is_german(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Der Akkuschrauber AS 18V macht laute Geräusche beim Einschalten. Herr Fischer bittet um Rückruf.", "de"),
        ("IT meldet: Drucker seit gestern kaputt.", "de"),
        ("The Akkuschrauber AS 18V stopped as it started.", "en"),
    ],
)
def test_a_short_text_is_not_english_by_names_in_capitals(text: str, expected: str) -> None:
    assert latin_language(text) == expected


def test_german_that_nobody_said_is_german_has_german_names() -> None:
    text = "Die Gesellschaft betrieb das Werk bis 1931. Käthe Größer wohnt in der Stadt und hat ein Haus."
    assert [concept.name for concept in concepts(text, "en")] == ["Käthe Größer"]


def test_a_german_noun_in_an_english_line_is_no_name() -> None:
    text = "Die Mitglieder zeigten Interesse und das ist gut.\nCode for Romania, Code for Czech (in Gründung), Code for Croatia\n"
    assert {"Romania", "Croatia"} <= {concept.name for concept in concepts(text, "de")}
    assert "Gründung" not in {concept.name for concept in concepts(text, "de")}


def test_a_compound_of_english_words_makes_no_line_of_english() -> None:
    text = "Die Feeds sind neu, die den Haupttext\neines Artikels ausliefern können. Damit können nun RSS-Feeds out-of-the-box\n"
    own = concepts(text + "zur Verteilung dienen, und das ist gut.", "en")
    assert {"eine", "können"}.isdisjoint(concept.name for concept in own)


def test_letters_that_stand_apart_from_their_marks_are_whole() -> None:
    text = unicodedata.normalize(
        "NFD", "Die Behörde öffnet in Köln. Der Bürgermeister Käthe Größer ist in der Behörde von Köln."
    )
    matches = concepts(text, "en")
    assert {"Köln", "Käthe Größer"} <= {concept.name for concept in matches}
    assert all(unicodedata.normalize("NFC", text[concept.start : concept.end]) == concept.name for concept in matches)


def test_a_lexicon_is_asked_and_not_read_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has 400,000 words, and a text a compound in each sentence."""
    lexicon = type(german._tagger().cache)
    monkeypatch.setattr(lexicon, "__iter__", lambda _: pytest.fail("read through"))
    german.concepts("Die Paketverwaltung und die Konfigurationsdatei.")
