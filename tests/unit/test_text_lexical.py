"""The text that to_tsvector gets: what is typed in a query is what a document holds."""

import builtins
import sys
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.text.words.search_terms import NAME_END, asked, lexical, named_stop_words, other_han, spelled_otherwise


def words(text: str, language: str) -> list[str]:
    return lexical(text, language).split()


def test_full_and_half_width_are_alike() -> None:
    for language in ("en", "ja", "zh"):
        assert lexical("ＰｏｓｔｇｒｅＳＱＬ １７", language) == lexical("PostgreSQL 17", language)
    pytest.importorskip("sudachipy")
    assert lexical("ﾃﾞｰﾀﾍﾞｰｽ", "ja") == lexical("データベース", "ja")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("When did Adam Smith meet Li Hua?", "AdamSmith LiHua"),
        ("Mary Ann Lee", "MaryAnn AnnLee"),
        ("the playlist of AdamSmith in myPlaylist", "Adam Smith my Playlist"),
        ("what is a GIN index in PostgreSQL 17, says NASA", ""),
        ("", ""),
        ("Is the RZ500K older than the ＫＸ－２００?", "RZ-500K KX200"),
        ("V6, U.S. 50K, a-200-b, abcdefg123", ""),
        ("12,500 dollars or 8700, 250000", "12500 8,700 250,000"),
        ("in 1912, 2023-06-01, 03-1234-5678, 0123, 20231224", ""),
        ("1200円, 2200元", "1,200 2,200"),
        ("鶴ヶ城と槍ケ岳, スケート", "鶴ケ城 槍ヶ岳"),
        ("node.js or Vuejs", "nodejs Vue.js"),
        ("It runs on node.js.", "nodejs"),
    ],
)
def test_names_in_a_query_are_spelled_otherwise_too(query: str, expected: str) -> None:
    assert spelled_otherwise(query) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("read/write", "read write"),
        ("pages 10-20", "pages 10 20"),
        ("the end.Next one", "the end Next one"),
        ("List<String>", "List String "),
        ("peer-reviewed", "peer-reviewed"),
        ("version 17.2", "version 17.2"),
        ("pg_dump", "pg_dump"),
        ("errno=-110, +49", "errno= 110,  49"),
        ("v3.4.5-beta2", "v3.4.5-beta2 3.4.5 3.4 beta2"),
        ("python3.11 and ubuntu22.04", "python3.11 python 3.11 and ubuntu22.04 ubuntu 22.04"),
        ("IPv6, TLSv1.3, Rev1.2", "IPv6 IP, TLSv1.3 TLS 1.3, Rev1.2 Rev 1.2"),
        ("on 15.03.2024", "on 15.03.2024 15.03 2024"),
        ("U.S. and 3.5mm", "U.S. US and 3.5mm"),
        ("node.js", "node.js node js"),
        ("a@b.example.com", "a@b.example.com example com"),
        ("by R & D, a&b=1&amp;", "by R & D RandD, a&b aandb=1&amp;"),
        ("AT&T rose", "AT&T ATandT rose at0z0 at0up0z0"),
        ("I/O and/or N/A", "I O IO and or N A NA"),
        ("C++17 and C#", "C Cplusplus 17 and C Csharp "),
        ("in c# a page#top", "in c csharp  a page#top"),
        ("$PATH, ${HOME}, $5, $x$ $alpha$", "signdollarPATH0z0 $PATH, signdollarHOME0z0 ${HOME}, $5, $x$ $alpha$"),
        ("git --dry-run -v, a--b -- c", "git signdashdryrun0z0 --dry-run -v, a--b -- c"),
        ("@types/node, a@b, @app.get", "signattypesnode0z0 @types node, a@b, signatapp0z0 @app.get app get"),
        ("fixes #1234 and #go", "fixes signhash12340z0 #1234 and signhashgo0z0 #go"),
        (".NET (.env) a .5", "NET dotNET (env dotenv) a .5"),
        ("0x80070005", "0x80070005 80070005"),
        ("12,500 and 1,299.00, 1,2", "12,500 and 1,299 00, 1,2"),
        ("50mg, HTTP503 1920x1080", "50mg 50 mg, HTTP503 HTTP 503 1920x1080 1920 1080"),
        ("the 21st in 1990s, K8s, 3D, H2SO4", "the 21st in 1990s 1990, K8s, 3D, H2SO4"),
        ("at 5 °C", "at 5  symbolb0 C"),
        ("getUserProfile(x)", "getUserProfile get User Profile UserProfile(x)"),
        ("getHTTPResponse", "getHTTPResponse get HTTP Response HTTPResponse"),
        ("XMLHttpRequest, userName", "XMLHttpRequest XML Http Request HttpRequest, userName user Name"),
        ("YouTube, iPhone, APIs, URLs, macOS 15", "YouTube, iPhone, APIs, URLs, macOS mac OS 15"),
        ("49,90 and 1.299,00, 10,20,30", "49,90 49.90 and 1.299,00 1,299 00, 10,20,30"),
        ("e-mail, x-ray, a-b-cde", "e-mail email, x-ray xray, a-b-cde"),
        ("ошибка E1207в журнале", "ошибка E1207 1207 в журнале"),
    ],
)
def test_the_parser_of_postgresql_finds_what_is_typed(text: str, expected: str) -> None:
    assert lexical(text, "en") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Who were loud. The IT team wrote It and it works.", "who who0cap the0who it it0up the0it it it0cap"),
        ("Lord of The Rings, What Is The Capital", ""),
        ("OF THE US OR AND THE LAW", ""),
        ("CREATE INDEX i ON t, SELECT a FROM b WHERE c OR d", ""),
        ("The WHO and the NASA IT team of US firms tell us", "who who0up the0who it it0up us0up"),
        ("It\nA novel, (it) was so", "it it0cap it"),
        ("ask whether to be or not to be done", "to0be0or0not0to be0or0not0to0be"),
        ("in 1961 to 1990, and, is 17.3 of it", ""),
    ],
)
def test_stop_words_that_say_something_are_words(text: str, expected: str) -> None:
    assert named_stop_words(text, "en") == [name + NAME_END for name in expected.split()]


def test_of_a_question_stop_words_are_names_or_all_that_it_has() -> None:
    assert asked("who is it, that is to be the head of IT?", "en").split()[-2:] == ["it0z0", "it0up0z0"]
    assert asked("to be or not to?", "en").split()[-1] == "to0be0or0not0to0z0"
    assert asked("what is a head", "en").split()[-1] == "head"


@pytest.mark.parametrize(
    ("query", "before"),
    [
        ("errno=-110", "errno=-110"),
        ("localhost:8080 +49", "localhost:8080 +49"),
        ("1,299.00 for 3.4.5", "1,299.00 v3.4.5"),
        ("pages 10-20", ""),
    ],
)
def test_a_question_has_the_words_that_an_earlier_version_indexed(query: str, before: str) -> None:
    assert asked(query, "en").endswith(before)
    assert before == "" or before not in asked(query, "en", spelled=False)


def test_japanese_morphemes_are_separated_and_particles_left_out() -> None:
    pytest.importorskip("sudachipy")
    lexemes = words("データベースをバックアップするために使います。", "ja")
    assert {"データベース", "バックアップ", "使う"} <= set(lexemes)
    assert not {"を", "する", "ため", "為", "に", "ます"} & set(lexemes)


def test_japanese_names_are_found_whole_and_by_their_parts() -> None:
    pytest.importorskip("sudachipy")
    assert words("東京スカイツリー", "ja") == ["東京スカイツリー", "東京", "スカイツリー"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("附属", "付属"),
        ("サーバ", "サーバー"),
        ("インタフェース", "インターフェース"),
        ("打込む", "打ち込む"),
        ("國際", "国際"),
        ("龍", "竜"),
    ],
)
def test_old_and_new_japanese_forms_are_alike(old: str, new: str) -> None:
    pytest.importorskip("sudachipy")
    assert set(words(old, "ja")) & set(words(new, "ja"))


def test_latin_words_and_numbers_stay_as_they_are_within_japanese_and_chinese() -> None:
    pytest.importorskip("sudachipy")
    pytest.importorskip("jieba")
    assert {"pg_dump", "2024", "indexes"} <= set(words("2024年にpg_dumpとindexesを使う", "ja"))
    assert {"pg_dump", "2024", "indexes"} <= set(words("2024年使用pg_dump和indexes", "zh"))


def test_chinese_words_are_separated_and_function_words_left_out() -> None:
    pytest.importorskip("jieba")
    lexemes = words("北京大学的数据库系统", "zh")
    assert {"北京大学", "北京", "大学", "数据库", "系统"} <= set(lexemes)
    assert "的" not in lexemes


@pytest.mark.parametrize("language", ["en", "ja", "zh", "ar", "de"])
@given(text=st.text(st.sampled_from("aZ1_-/.<> \n漢字かなカナ。的数据😀é"), max_size=80))
@settings(max_examples=50, deadline=None)
def test_any_text_goes_through(language: str, text: str) -> None:
    if language in ("ja", "zh"):
        pytest.importorskip({"ja": "sudachipy", "zh": "jieba"}[language])
    assert "\0" not in lexical(text, language)


@pytest.mark.parametrize(("language", "run"), [("ja", "あ"), ("ja", "漢"), ("zh", "漢")])
def test_a_run_longer_than_the_library_takes_is_no_error(language: str, run: str) -> None:
    pytest.importorskip({"ja": "sudachipy", "zh": "jieba"}[language])
    lexical(run * 60_000, language)


def test_jieba_reads_no_cache_from_the_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    jieba = pytest.importorskip("jieba")
    from pg_graphrag.text.words import chinese
    from pg_graphrag.text.words.chinese_dictionary import chinese_dictionary

    opened: list[str] = []
    original = builtins.open

    def watch(file: object, *rest: object, **named: object) -> object:
        opened.append(str(file))
        return original(file, *rest, **named)

    monkeypatch.setattr(builtins, "open", watch)
    chinese_dictionary.cache_clear()
    lexical("数据库", "zh")
    chinese.concepts("数据库系统")
    assert not [name for name in opened if name.endswith(".cache")]
    assert jieba.dt.initialized is False


@pytest.mark.parametrize(("language", "module", "extra"), [("ja", "sudachipy", "ja"), ("zh", "jieba", "zh")])
def test_a_missing_library_is_an_error_that_says_how_to_install_it(
    language: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pg_graphrag.text.words import chinese, japanese
    from pg_graphrag.text.words.chinese_dictionary import chinese_dictionary

    for cached in (japanese._sudachi, chinese_dictionary, japanese.terms, chinese.terms):
        cached.cache_clear()
    absent: ModuleType | None = None
    monkeypatch.setitem(sys.modules, module, absent)
    with pytest.raises(GraphRAGError) as caught:
        lexical("漢字仮名", language)
    assert caught.value.sqlstate == "58P01"
    assert module in caught.value.message
    assert caught.value.hint is not None
    assert f"[{extra}]" in caught.value.hint


@pytest.mark.parametrize(
    ("query", "document", "language"),
    [
        ("한산도", "이순신은 한산도에서 크게 이겼다.", "ko"),
        ("กรุงเทพ", "เรือลำใหญ่ออกจากท่าเรือกรุงเทพในตอนเช้าและกลับมาในตอนเย็น", "th"),
        ("भारत", "भारतीय रेल", "hi"),
        ("ירושלים", "בירושלים", "he"),
    ],
)
def test_a_word_without_an_analyser_shares_its_bigrams_with_longer_ones(
    query: str, document: str, language: str
) -> None:
    assert len(set(words(query, language)) & set(words(document, language))) >= 2


def test_emoji_and_symbols_are_words() -> None:
    assert words("ship it 🚀!", "en") == ["ship", "it", "symbol1f680", "!"]
    assert words("10 €", "en") == ["10", "symbol20ac"]
    assert words("• one ─── two", "en") == ["•", "one", "───", "two"]


@pytest.mark.parametrize(
    ("query", "language", "expected"),
    [("神户の港", "ja", "神戸"), ("神戸", "zh", "神户"), ("東京", "ja", ""), ("Kobe", "zh", ""), ("神户", "ko", "")],
)
def test_han_of_the_other_language_is_written_as_its_own(query: str, language: str, expected: str) -> None:
    pytest.importorskip("opencc")
    assert other_han(query, language) == expected


def test_what_is_too_long_for_an_index_is_left_out() -> None:
    assert lexical(f"a {'x' * 2047} b_{'y' * 2046} {'é' * 1100}", "en") == f"a   b_{'y' * 2046}  "
