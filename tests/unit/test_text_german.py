"""German names and nouns; names of languages without an extractor of their own."""

import pytest
from pg_graphrag.text.concepts import concepts

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
