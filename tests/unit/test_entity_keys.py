"""Which concepts of a document are entities."""

import pytest
from pg_graphrag.index.indexing.entity_keys import is_clause, is_headline
from pg_graphrag.index.indexing.prepare import MAX_TITLE_NAME
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.concept import key
from pg_graphrag.text.words import tagger

from tests.unit.drafting import drafted

FILLER = "Charles Babbage went to London and came back from there on foot. " * 100


def entities(content: str, title: str | None = None, language: str = "en") -> set[str]:
    if language == "zh":
        pytest.importorskip("jieba")
    options = Options(language=language)
    whole = drafted(title, content, options)
    return {name for piece in whole.chunks for name in piece.entities}


@pytest.mark.parametrize(
    ("content", "is_entity"),
    [
        ("The query planner chose well.", True),
        ("The query planner chose well. " + FILLER, False),
        ("The query planner chose well. " + FILLER + "So the query planner was right.", True),
    ],
)
def test_a_phrase_is_said_twice_in_a_document_that_is_not_short(content: str, *, is_entity: bool) -> None:
    assert ("query planner" in entities(content)) is is_entity


def test_a_name_is_said_once_in_any_document_and_a_word_of_the_trade_twice() -> None:
    assert {"ada lovelace"} == entities(f"Ada Lovelace has a tablespace. {FILLER}") & {"ada lovelace", "tablespace"}
    assert "tablespace" in entities(f"Ada Lovelace has a tablespace. {FILLER} It is a tablespace.")


@pytest.mark.parametrize(
    ("title", "content", "language", "key", "is_entity"),
    [
        # The heading of the text is the title; a sentence that says it is more.
        (
            "Das System installieren",
            "# 3. Das System installieren\n\nPostgreSQL läuft.",
            "de",
            "das system installieren",
            False,
        ),
        ("Saving Private Ryan", "Saving Private Ryan is a film of 1998.", "en", "saving private ryan", True),
        ("引导安装程序", "# 第 5 章 引导安装程序\n\nPostgreSQL 是数据库。", "zh", "引导安装程序", False),
        ("ch10-01-syntax", "Generics make code shorter.", "en", "ch10-01-syntax", False),
        ("Overview", "Generics make code shorter.", "en", "overview", False),
        # The page says its own headline in a link.
        (
            "控制思想的第一步，从语言开始",
            "原文：控制思想的第一步，从语言开始。",
            "zh",
            "控制思想的第一步，从语言开始",
            False,
        ),
        ("概要", "これはPostgreSQLの本です。", "ja", "概要", False),
        ("IV: The Cylinder Opens", "The Cylinder Opens is a chapter.", "en", "iv: the cylinder opens", False),
    ],
)
def test_a_title_that_says_what_to_do_or_is_a_heading_is_no_entity(
    title: str, content: str, language: str, key: str, *, is_entity: bool
) -> None:
    assert (key in entities(content, title, language)) is is_entity


@pytest.mark.parametrize("language", ["de", "en", "ja", "zh"])
def test_a_title_that_is_too_long_for_a_name_is_not_read_as_one(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    """The time to analyse a word grows with the cube of its length: a thousand letters took seconds."""
    analysed: list[int] = []
    extend = tagger._UnknownWords._extend
    monkeypatch.setattr(
        tagger._UnknownWords,
        "_extend",
        lambda self, word, *rest: analysed.append(len(word)) or extend(self, word, *rest),
    )
    title = f"Xyz {'abcdefghij' * 99}"
    assert entities("Das ist Ada Lovelace. Sie lebte in London.", title, language).isdisjoint({key(title), "xyz"})
    assert max(analysed, default=0) <= MAX_TITLE_NAME


def test_a_name_that_stands_beside_one_character_alone_is_a_piece() -> None:
    text = "1216年，东辽王耶律留哥的弟弟来了。后来耶律留哥与金国作战。耶律留哥死了。"
    assert "耶律留" not in entities(text, None, "zh")


def test_what_somebody_is_is_nobody() -> None:
    assert "south korean actress" not in entities("She is a South Korean actress. The South Korean actress sang.")


def test_a_phrase_of_the_title_is_said_once_in_the_text() -> None:
    assert "query planner" in entities(f"The query planner chose well. {FILLER}", "The query planner")


def test_what_is_no_entity_is_noted_for_walks() -> None:
    options = Options(language="en")
    once, twice = (
        drafted(None, text, options).chunks[0].weak
        for text in (f"The query planner chose. {FILLER}", f"The query planner chose a query planner. {FILLER}")
    )
    assert once["query planner"] == 1
    assert twice["query planner"] == 2


@pytest.mark.parametrize(
    ("content", "is_entity"),
    [
        ("We pay at the Bridge. The Bridge is a bank.", True),
        ("We pay at the Bridge. The Bridge is a bank beside two bridges and a bridge.", False),
    ],
)
def test_a_common_word_with_a_capital_is_no_entity_where_it_is_as_often_a_word(
    content: str, *, is_entity: bool
) -> None:
    assert ("bridge" in entities(content)) is is_entity


@pytest.mark.parametrize(
    ("text", "language", "junk", "entity"),
    [
        # A piece of a run of capitals; the same words in a sentence.
        ("Menu: Linear Motion Blur", "en", "linear motion", ""),
        ("They moved to the White House in May.", "en", "", "white house"),
        ("SECURITY Postfix may read it.", "en", "security", "postfix"),
        ("A.21 Cage Transform", "en", "a.21", ""),
        ("Siehe B.4.13 über PostgreSQL.", "de", "b.4.13", "postgresql"),
        ("参见 B.4.13 中的 PostgreSQL 服务器。", "zh", "b.4.13", "postgresql"),
        ("从菜单选择 Image 命令，再选择 PostgreSQL 服务器。", "zh", "image", "postgresql"),
        ("Wählen Sie Random und dann PostgreSQL.", "de", "random", "postgresql"),
    ],
)
def test_what_stands_in_menus_and_headings_is_no_entity(text: str, language: str, junk: str, entity: str) -> None:
    names = entities(text, language=language)
    assert junk not in names
    assert not entity or entity in names


@pytest.mark.parametrize(
    ("title", "language", "expected"),
    [
        ("Changing brush size", "en", True),
        ("No visible effect when a brush is used", "en", True),
        ("Would it be stable?", "en", True),
        ("How My Sea Adventure Began", "en", True),
        ("選択範囲が隠されている", "ja", True),
        ("選択範囲", "ja", False),
        ("Kestrel engine", "en", False),
        ("Gone with the Wind", "en", False),
        ("补税、删帖、下九流，契约精神在哪里", "zh", True),
        ("La bibliothèque", "fr", False),
        ("Enable the compose key", "en", True),
        ("Change the lock screen shield", "en", True),
        ("Mark the Evangelist", "en", False),
        ("Into the Wild", "en", False),
        ("Aktualisieren des Pakets", "de", True),
        ("Geschichte des Pakets", "de", False),
    ],
)
def test_a_title_that_says_what_happens_is_a_clause(title: str, language: str, *, expected: bool) -> None:
    if language == "ja":
        pytest.importorskip("sudachipy")
    assert is_clause(title, [language]) is expected


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("补税、删帖、下九流，契约精神在哪里？", True),
        ("华中农大陈焕春：新型冠状病毒属于SARS冠状病毒是口误", True),
        ("人类简史：从动物到上帝", False),
        ("君の名は。", False),
        ("けいおん！", False),
        ("ラブライブ！サンシャイン！！", False),
        ("スター・ウォーズ：スカイウォーカーの夜明け", False),
    ],
)
def test_a_headline_is_told_from_a_work_that_ends_with_a_sign(title: str, *, expected: bool) -> None:
    assert is_headline(title) is expected


@pytest.mark.parametrize(
    ("title", "content", "language", "is_entity"),
    [
        ("Enable automatic brightness", "# Enable automatic brightness\n\nPostgreSQL runs.", "en", False),
        ("Enable automatic brightness", "See Enable automatic brightness for PostgreSQL.", "en", True),
        ("Resolving package dependencies", "PostgreSQLは速い。", "ja", False),
        ("Ändern Ihrer Zeitzone", "PostgreSQL läuft.", "de", False),
        # Who enables it is told nothing of the page that is called so; a heading is no sentence.
        ("Enable the compose key", "To enable the compose key, ask PostgreSQL.", "en", False),
        ("Enable the compose key", "See Enable the compose key for PostgreSQL.", "en", True),
        ("Das Paket hochladen", "# Kapitel 9. Das Paket hochladen\n\nPostgreSQL läuft.", "de", False),
        ("style-guide - The Manual", "The database is PostgreSQL.", "en", False),
        ("live-build", "It is made by live-build and by PostgreSQL.", "en", True),
        ("我的计算机变得太热", "PostgreSQL 是数据库。", "zh", False),
        # Made of names and terms, whatever the text says.
        ("Springfield, Illinois", "It has a river.", "en", True),
        ("Diary of Ada Lovelace", "It rained all day.", "en", True),
        ("Move (1970 film)", "Move is a film of 1970.", "en", True),
        ("Histoire de la ville", "La ville est sur la Loire, et les rues sont belles dans le centre.", "en", True),
        ("한산도 대첩", "조선 수군이 이겼다.", "auto", True),
        ("프로파일은 어디서 가져오나요?", "조선 수군이 이겼다.", "auto", False),
        ("Что такое драйвер?", "PostgreSQL — это база данных.", "auto", False),
    ],
)
def test_a_title_that_no_sentence_says_is_an_entity_where_it_is_made_of_names(
    title: str, content: str, language: str, *, is_entity: bool
) -> None:
    pytest.importorskip({"ja": "sudachipy", "zh": "jieba"}.get(language, "re"))
    assert (key(title) in entities(content, title, language)) is is_entity


@pytest.mark.parametrize(
    ("text", "language", "junk", "entity"),
    [
        # Latin words amid text in another script.
        ("这里 Resize 窗口，数据库是 PostgreSQL 的。", "zh", "resize", "postgresql"),
        ("値をactionableにする。値はKestrelに入る。値をactionableにする。", "ja", "actionable", "kestrel"),
        ("「Resolving hard cases」を参照。彼はKestrelを参照。", "ja", "resolving hard cases", "kestrel"),
        # Pieces of code, numbers of sections, files that stand for any.
        ("use `x` and e-71 with what_ or n_s1 of PostgreSQL.", "en", "n_s1", "postgresql"),
        ("打开 Part.1.E.5.Strings 和 PostgreSQL 服务器。", "zh", "part.1.e.5.strings", "postgresql"),
        ("They saved mycode.py, and text2 for PostgreSQL.", "en", "mycode.py", "postgresql"),
        ("They saved pattern1 for PostgreSQL.", "en", "pattern1", "postgresql"),
        # What somebody is called.
        ("He told it to the Majesty and to Ada Lovelace.", "en", "majesty", "ada lovelace"),
        ("“Well, Watson,” said Ada Lovelace.", "en", "well, watson", "ada lovelace"),
    ],
)
def test_what_stands_for_something_else_or_is_said_is_no_entity(
    text: str, language: str, junk: str, entity: str
) -> None:
    pytest.importorskip({"ja": "sudachipy", "zh": "jieba"}.get(language, "re"))
    found = entities(f"{text} " + FILLER, language=language)
    assert junk not in found
    assert entity in found


def test_a_product_that_is_a_common_word_is_an_entity_where_it_is_said_twice() -> None:
    pytest.importorskip("sudachipy")
    assert "excel" in entities("表はExcelで作る。次もExcelで作る。", language="ja")


def test_a_clause_is_an_entity_where_the_text_has_it_too() -> None:
    assert "saving private ryan" in entities("Saving Private Ryan is a film of 1998.", "Saving Private Ryan")
    assert "changing brush size" not in entities("Use the wheel of the mouse.", "Changing brush size")


@pytest.mark.parametrize(
    ("title", "content", "junk"),
    [
        ("Disable printing", "# Disable printing\n\nThe printer is PostgreSQL's.", "disable printing"),
        ("Configure automatic logout", "The user is logged out of PostgreSQL.", "configure automatic logout"),
        ("style-guide - The Manual", "The database is PostgreSQL.", "style-guide"),
    ],
)
def test_of_a_title_that_is_no_name_no_phrase_is_one(title: str, content: str, junk: str) -> None:
    entity_names = entities(content, title)
    assert junk not in entity_names
    assert "postgresql" in entity_names
