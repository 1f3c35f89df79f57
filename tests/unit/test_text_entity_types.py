"""What a name is, by its form and by what stands beside it."""

from __future__ import annotations

import pytest
from pg_graphrag.text.naming.entity_types import entity_types
from pg_graphrag.text.words.concepts import concepts

pytest.importorskip("HanTa")
pytest.importorskip("sudachipy")
pytest.importorskip("jieba")


def types(text: str, language: str) -> dict[str, str]:
    return entity_types([concepts(text, language)], [text], {language})


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Then Mr. Bob Stone met guitarist Stone Gossard.", "en", {"bob stone": "PERSON", "stone gossard": "PERSON"}),
        ("Anna B. Carter wrote to Peter Appleyard (26 August 1928 – 17 July 2013).", "en",
         {"anna b. carter": "PERSON", "peter appleyard": "PERSON"}),
        ("Grace Hopper was an American scientist.", "en", {"grace hopper": "PERSON"}),
        ("They work for Acme Rockets Inc. and the University of Leeds.", "en",
         {"acme rockets inc": "ORGANIZATION", "university of leeds": "ORGANIZATION"}),
        ("The Mohawk River flows by; Sims is a small town in Idaho County.", "en",
         {"mohawk river": "LOCATION", "sims": "LOCATION", "idaho county": "LOCATION"}),
        ("Before the American Civil War came the Siege of Cassel.", "en",
         {"american civil war": "EVENT", "siege of cassel": "EVENT"}),
        ("Deadpool is a superhero film. We run React 0.14 here.", "en", {"deadpool": "WORK", "react 0.14": "PRODUCT"}),
        ("The U.S. Navy sailed. A model 726 was sold.", "en", {}),
        ("Das sagt Frau Anna Schmidt.", "de",
         {"anna schmidt": "PERSON"}),
        ("著者は徳田球一です。京都大学は京都府にある。", "ja",
         {"徳田球一": "PERSON", "京都大学": "ORGANIZATION", "京都府": "LOCATION"}),
        ("人事委員会は銀行に行った。", "ja", {}),
        ("埃里克·约翰森在北京大学学习，读《乔布斯传》。他来自河南省。", "zh",
         {"埃里克·约翰森": "PERSON", "北京大学": "ORGANIZATION", "乔布斯传": "WORK", "河南省": "LOCATION"}),
        ("蓝牙和墨水很便宜。她住在旧金山。", "zh", {"旧金山": "LOCATION"}),
    ],
)  # fmt: skip
def test_type(text: str, language: str, expected: dict[str, str]) -> None:
    type_of = types(text, language)
    assert {name: type_of.get(name) for name in expected} == expected
    if not expected:
        assert type_of == {}


def test_a_name_of_which_two_things_are_said_is_a_name() -> None:
    assert "ann lee" not in types("Mr. Ann Lee came. Ann Lee is a small town.", "en")
