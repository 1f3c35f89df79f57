"""The language of a text and of a query."""

import pytest
from pg_graphrag.text.languages import REGCONFIG, detect, is_english, is_foreign
from pg_graphrag.text.words.search_terms import query_languages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "en"),
        ("😀🎉", "en"),
        ("12345 !?", "en"),
        ("The planner chooses a plan.", "en"),
        ("Ünïcödé élève", "en"),
        ("データベースを作成する", "ja"),
        ("東京大学の歴史", "ja"),
        ("ｶﾀｶﾅ", "ja"),
        ("数据库系统", "zh"),
        ("資料庫系統", "zh"),
        ("데이터베이스", "ko"),
        ("база данных", "ru"),
        ("قاعدة بيانات", "ar"),
        ("מסד נתונים", "he"),
        ("βάση δεδομένων", "el"),
        ("डेटाबेस", "hi"),
        ("ฐานข้อมูล", "th"),
        ("PostgreSQL のインデックスを CREATE INDEX で作成します", "ja"),
        ("PostgreSQL是一个数据库，使用CREATE INDEX", "zh"),
        ("The Japanese word 東京 means eastern capital, and is the name of a city.", "en"),
        ("这篇文章讨论了日本作家的小说《の》以及它的影响和历史背景，内容非常丰富。", "zh"),
    ],
)
def test_the_dominant_script_tells_the_language(text: str, expected: str) -> None:
    assert detect(text) == expected


def test_a_long_text_is_looked_at_over_its_whole_length() -> None:
    assert detect("x" * 10_000 + "データベースを作成する。" * 100_000) == "ja"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("index scan", ["en"]),
        ("", ["en"]),
        ("😀", ["en"]),
        ("データベース", ["ja"]),
        ("PostgreSQL のインデックス", ["ja"]),
        ("東京大学", ["zh", "ja"]),
        ("база index", ["ru"]),
        ("قاعدة index", ["ar", "en"]),
        ("ｐｇ＿ｄｕｍｐ", ["en"]),
    ],
)
def test_a_query_is_tokenised_under_every_language_it_may_be(query: str, expected: list[str]) -> None:
    assert query_languages(query) == expected


def test_every_language_a_text_can_have_has_a_configuration() -> None:
    assert {"en", "ja", "zh", "ko", "ru", "ar", "he", "el", "hi", "th", "hy", "ta"} <= set(REGCONFIG)
    assert all(name.islower() for name in REGCONFIG.values())
    assert REGCONFIG["ja"] == REGCONFIG["zh"] == "english"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bob Stone, chief engineer of Acme Rockets, designed the Kestrel engine.", True),
        ("", True),
        ("def f(x): return y_z * e", True),
        ("SELECT a, b FROM t WHERE z = 1 AND en = 3", True),
        ("Die Gesellschaft betrieb eine Fabrik in der Nähe von Berlin und ist heute nicht mehr tätig.", False),
        ("Le conseil a décidé que la ville serait en fête pour les enfants.", False),
        ("Zwróć uwagę: oznaki wypalenia, społeczność, wkład.", False),
        ("The café served crêpes to Beyoncé and François, and it was full.", True),
        ("東京タワー", False),
        ("한산도", False),
    ],
)
def test_english_is_told_from_other_languages_by_script_and_function_words(text: str, expected: bool) -> None:
    assert is_english(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("De vergadering ging over de nieuwe kantine. Jan de Vries was akkoord.", True),
        ("Aanvragen worden minstens twee weken vooraf bij de afdeling ingediend.", True),
        ("Jan de Vries of Utrecht and Simone de Beauvoir met in Rio de Janeiro.", False),
        ("It was a de facto standard, not a de jure one.", False),
    ],
)
def test_dutch_is_no_english_and_english_with_its_names_is(text: str, expected: bool) -> None:
    assert is_foreign(text) is expected
