"""Who speaks in a conversation."""

import pytest
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.naming.full_names import speakers

from tests.unit.drafting import drafted

pytest.importorskip("HanTa")

CHAT = "Time: 20260105\nLiHua: Hey! I have arrived, can you meet me?\nAdamSmith: Hi Li Hua! You can come by, says Adam."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CHAT, {"LiHua": "Li Hua", "AdamSmith": "Adam Smith"}),
        ("Ann Lee: I see you.\nBob: You do.", {"Ann Lee": "Ann Lee", "Bob": "Bob"}),
        (
            "RonMcDonald: I see you.\nMcDonald: You do, my friend.",
            {"RonMcDonald": "RonMcDonald", "McDonald": "McDonald"},
        ),
        # A list of terms, and fields.
        ("JavaScript: a language of the web.\nTypeScript: one with types.", {}),
        ("Author: Ann Lee\nTitle: What you see is what I get", {}),
        ("LiHua: I see you.\nThen much is told.\nAnd more.\nAnd more.", {}),
        # Minutes: who is there, and what they said.
        (
            "Present: Erik Arvidsson (EA), Mark S. Miller (MM), Sam Tobin-Hochstadt (STH), Dave Herman (XY)\n\nA topic.\n\n"
            "EA: It is late.\n\n- MM: Agreed.\n\nMM: Really.\n\nEA: Yes.\n\nXY: No.\n\nXY: No.\n\nSTH: Once.\n",
            {"EA": "Erik Arvidsson", "MM": "Mark S. Miller"},
        ),
        ("Portable Network Graphics (PNG) is a format.\n\nPNG: a format.\n\nJPG: a format.\n", {}),
    ],
)
def test_who_speaks(text: str, expected: dict[str, str]) -> None:
    assert speakers(text) == expected


def test_a_speaker_is_one_person_by_label_and_name() -> None:
    options = Options(language="en")
    whole = drafted(None, CHAT, options)
    entities = whole.chunks[0].entities
    assert {name: entities[name].type for name in ("li hua", "adam smith")} == {
        "li hua": "PERSON",
        "adam smith": "PERSON",
    }
    assert {"lihua", "adamsmith"}.isdisjoint(entities)
    assert entities["li hua"].tf == 2


def test_without_full_names_labels_stay() -> None:
    options = Options(language="en", full_names=False)
    whole = drafted(None, CHAT, options)
    assert {"lihua", "li hua", "adamsmith"} <= set(whole.chunks[0].entities)
