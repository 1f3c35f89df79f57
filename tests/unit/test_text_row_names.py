"""Where a text has names of rows."""

from __future__ import annotations

import pytest
from pg_graphrag.text.concept import Concept, key
from pg_graphrag.text.naming.row_names import RowNames, name_keys, with_rows


def found(language: str, text: str, *names: str) -> list[str]:
    return [concept.name for concept in RowNames({key(name): name for name in names}).found(text, language)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Log Shipper stops.", ["Log Shipper"]),
        ("please restart the log shipper now", ["log shipper"]),
        ("LOG SHIPPER FAILED", ["LOG SHIPPER"]),
        ("The Key\nStore lost keys", ["Key Store"]),
        ("'Log Shipper' is dim", ["Log Shipper"]),
        ("Log Shipper's handle", ["Log Shipper"]),
        ("A Log Shipper-based design", ["Log Shipper"]),
        ("A Log Shipper Mini is smaller.", ["Log Shipper Mini"]),
        ("log shippers ship logs", []),
        ("catalog shipper and my_log shipper", []),
    ],
)
def test_a_name_of_several_words_is_found_in_any_capitals(text: str, expected: list[str]) -> None:
    assert found("en", text, "Log Shipper", "Key Store", "Log Shipper Mini") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Desk does not start.", ["Desk"]),
        ("We bought a new Desk, and a chair.", ["Desk"]),
        ("The desk is free.", []),
        ("Desk space is free. Store it.", []),
        ("How to Choose a Desk", []),
        ("Open Your Store Today", []),
        ("HOW TO STORE A DESK", []),
        ("The Field Service Desk opens at nine.", []),
        ("www.Desk.com", []),
        ("Zephyr is broken, and zephyr is a wind.", ["Zephyr"]),
        ("Set port to the port of the Port.", []),
        ("log_destination is set, other_log_destination is not", ["log_destination"]),
        ("RZ500K and rz500k", ["RZ500K", "rz500k"]),
    ],
)
def test_a_name_of_one_word_is_found_where_it_is_no_ordinary_word(text: str, expected: list[str]) -> None:
    assert found("en", text, "Desk", "Store", "Zephyr", "port", "log_destination", "RZ500K") == expected


@pytest.mark.parametrize(
    ("language", "text", "names", "expected"),
    [
        ("de", "Der Tisch und der Kestrel sind kaputt.", ["Tisch", "Kestrel"], ["Kestrel"]),
        ("de", "Der Schreibtisch Nora ist kaputt.", ["Schreibtisch Nora"], ["Schreibtisch Nora"]),
        ("fr", "Le Bureau est cassé. Bureau fermé.", ["Bureau"], ["Bureau"]),
        ("zh", "蓝色台灯坏了，这张桌子很大，华为也坏了。", ["蓝色台灯", "桌子", "华为"], ["蓝色台灯", "华为"]),
        (
            "ja",
            "青いランプとデスクとケストレルが壊れた。",
            ["青いランプ", "デスク", "ケストレル"],
            ["青いランプ", "ケストレル"],
        ),
        ("ja", "ランプシェード", ["ランプ"], []),
        ("ko", "로그 전송기가 멈췄다. 책상은 크다.", ["로그 전송기", "책상"], ["로그 전송기"]),
        ("ru", "Лампа Север не работает, лампа горит.", ["Лампа Север"], ["Лампа Север"]),
    ],
)
def test_names_are_found_in_any_language(language: str, text: str, names: list[str], expected: list[str]) -> None:
    assert found(language, text, *names) == expected


def test_every_name_that_is_found_is_among_the_keys_that_are_asked_for() -> None:
    text = 'The Log Shipper, 蓝色台灯 and "Key  Store" failed.'
    assert {"log shipper", "蓝色台灯", "key store"} <= name_keys(text)


@pytest.mark.parametrize(
    ("row", "other", "tag", "expected"),
    [
        ("Log Shipper", "Shipper", "", ["Log Shipper"]),
        ("Log Shipper", "Log Shipper talk", "", ["Log Shipper"]),
        ("Log Shipper", "Log Shipper Pro", "PRODUCT", ["Log Shipper"]),
        ("Store", "Apple Store", "ORGANIZATION", ["Apple Store"]),
    ],
)
def test_what_overlaps_a_name_of_a_row_is_a_piece(row: str, other: str, tag: str, expected: list[str]) -> None:
    text = "Apple Store has Log Shipper Pro, Log Shipper talk"
    start, other_start = text.index(row), text.index(other)
    if "talk" in other:
        start = other_start
    merged = with_rows(
        [Concept(other, other_start, other_start + len(other), "NAME", tag=tag)],
        [Concept(row, start, start + len(row), "NAME", is_row=True)],
    )
    assert [concept.name for concept in merged if not concept.is_piece] == expected
