"""Which names may be one, by the names alone."""

import pytest
from pg_graphrag.index.curation.name_variants import Resembling, latin, variants
from pg_graphrag.text.concept import key

ALIKE = [
    ("write-ahead log", "Write Ahead Logs", "spelling: the same letters"),
    ("The Analytical Engine", "analytical engine", "spelling: the same letters"),
    ("Charles Babbage", "Charles Babage", "spelling: a letter apart"),
    ("Müller", "Mueller", "transliteration: the same letters"),
    ("Renée Noël", "Renee Noel", "transliteration: the same letters"),
    ("Ада Лавлейс", "Ada Lovelace", "transliteration: the same sound"),
    ("Чайковский", "Tchaikovsky", "transliteration: the same sound"),
    ("トヨタ", "Toyota", "transliteration: the same letters"),
    ("Σωκράτης", "Sokratis", "transliteration: the same letters"),
    ("WAL", "write-ahead logging", "abbreviation: initials WAL"),
    ("U.S.A.", "United States of America", "abbreviation: initials USA"),
    ("A. Lovelace", "Ada Lovelace", "abbreviation: part of the longer name"),
    ("Babbage", "Charles Babbage", "abbreviation: part of the longer name"),
    ("Dr. Turing", "Alan Turing", "abbreviation: part of the longer name"),
]
APART = [
    ("PostgreSQL 16", "PostgreSQL 17"),
    ("Charles I", "Charles II"),
    ("London", "Londonderry"),
    ("cat", "car"),
    ("was", "write-ahead system"),
    ("Ada Lovelace", "Alan Turing"),
    ("B. Lovelace", "Ada Lovelace"),
    ("東京", "京都"),
]


def reason(item: str, other: str) -> str | None:
    result = variants({1: (key(item), item), 2: (key(other), other)})
    return result[1, 2][1] if result else None


@pytest.mark.parametrize(("one", "other", "why"), ALIKE)
def test_variants_are_found_with_their_reason(one: str, other: str, why: str) -> None:
    assert reason(one, other) == why
    assert reason(other, one) == why


@pytest.mark.parametrize(("one", "other"), APART)
def test_different_names_are_left_alone(one: str, other: str) -> None:
    assert reason(one, other) is None


def test_kana_is_written_as_it_sounds() -> None:
    assert latin("キャノン") == "kyanon"
    assert latin("ソニー") == "soni"


@pytest.mark.parametrize(
    ("rough", "name"),
    [
        ("größe", "greece"),
        ("köln", "kilian"),
        ("jürgen", "jargon"),
        ("c#", "c++"),
        ("c", "c#"),
        (".net", "net"),
        ("net", ".net"),
    ],
)
def test_marks_are_of_latin_letters_and_signs_part_short_names(rough: str, name: str) -> None:
    assert Resembling(rough).likeness(name) == (0.0, "")


@pytest.mark.parametrize(
    ("rough", "name", "why"),
    [
        ("koln", "köln", "spelling"),
        ("mueller", "müller", "spelling"),
        ("café", "cafe", "spelling"),
        ("u.s.", "us", "spelling"),
        ("att", "at&t", "spelling"),
        ("kirkov", "кирков", "transliteration"),
        ("toyota", "トヨタ", "transliteration"),
    ],
)
def test_a_rough_name_resembles(rough: str, name: str, why: str) -> None:
    likeness, reason = Resembling(rough).likeness(name)
    assert (likeness >= 0.85, reason) == (True, why)
