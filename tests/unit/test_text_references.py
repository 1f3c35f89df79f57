"""What pronouns and definite heads refer to."""

import pytest
from pg_graphrag.text.naming.full_names import references
from pg_graphrag.text.sentences import sentences
from pg_graphrag.text.words.concepts import concepts

pytest.importorskip("HanTa")


def referred(text: str, language: str = "en") -> list[tuple[str, str]]:
    if language in ("ja", "zh"):
        pytest.importorskip({"ja": "sudachipy", "zh": "jieba"}[language])
    matches = references(text, concepts(text, language), sentences(text, language))
    return [(text[match.start : match.end], match.name) for match in matches]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Bob Stone joined Acme Rockets. He designed the Kestrel engine. He left.",
            [("He", "Bob Stone"), ("He", "Bob Stone")],
        ),
        ("Acme Rockets is a company in Osaka. The company builds engines.", [("The company", "Acme Rockets")]),
        ("The Kestrel engine burns methane. The engine flew in 2011.", [("The engine", "Kestrel")]),
        ("Acme Rockets is in Osaka. The company builds engines.", []),
        ("Acme University is old. He left.", []),
        ("In 1999 Bob Stone met Ann Lee. He left.", []),
        ("Paris is old. He left.", []),
        ("It rained. He left.", []),
        ("He left. Bob Stone stayed.", []),
    ],
)
def test_english(text: str, expected: list[tuple[str, str]]) -> None:
    assert referred(text) == expected


def test_japanese() -> None:
    assert referred("株式会社東芝は東京の会社です。同社は電池を作る。", "ja") == [("同社", "株式会社東芝")]
    assert referred("東京は大きい。同社は電池を作る。", "ja") == []


def test_chinese() -> None:
    assert referred("华为技术有限公司位于深圳。该公司生产手机。", "zh") == [("该公司", "华为技术有限公司")]
    assert referred("华为技术有限公司和中兴通讯股份有限公司位于深圳。该公司生产手机。", "zh") == []
