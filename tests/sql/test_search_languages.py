"""graphrag.search in other languages than English: words, products, codes and symbols are found as they are written."""

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import index_all, keys, put, put_all, rows, search, searched_corpus, work

ENGLISH = {"model": "all-MiniLM-L6-v2"}
MODES = ("naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr")

JAPANESE = {
    "東京": "東京タワーは東京都港区にある電波塔です。1958年に完成しました。内藤多仲が設計しました。",
    "京都": "金閣寺は京都市北区にある寺院です。足利義満が建てました。庭園には大きな池があります。",
    "富士": "富士山は静岡県と山梨県にまたがる活火山です。標高は3776メートルで日本の最高峰です。",
}
CHINESE = {
    "长城": "万里长城是中国古代的军事防御工程。秦始皇修筑了长城。长城全长两万多公里。",
    "故宫": "北京故宫是明清两代的皇家宫殿。明成祖朱棣建造了故宫。故宫博物院收藏了很多文物。",
    "长江": "长江是中国最长的河流,流经上海和武汉。三峡大坝建在长江上。",
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("texts", "query", "wanted"),
    [(JAPANESE, "東京タワーを設計したのは誰ですか", "東京"), (CHINESE, "谁建造了北京故宫", "故宫")],
    ids=["ja", "zh"],
)
def test_japanese_and_chinese_questions_are_answered(
    module_db: Database, texts: dict[str, str], query: str, wanted: str, mode: str
) -> None:
    name = f"{wanted} corpus"
    if not rows(module_db, "SELECT FROM graphrag.corpora WHERE name = %s", name):
        module_db.execute("SELECT graphrag.create_corpus(%s)", [name])
        index_all(module_db, name, texts)
    results = search(module_db, query, name, mode)
    assert results
    assert results[0]["source_key"] == wanted
    if mode == "hybrid":
        assert "windows" in results[0]["explain"]


# Products, numbers and old forms, as they stand in documents; and how they are asked for.
PRODUCTS = {
    "カメラ": "ソニーのミラーレスカメラα7 IVは、約３，３００万画素のセンサーを搭載している。",
    "冷蔵庫": "渡邊電機の冷蔵庫RZ-500Kは、消費電力が年間250kWhである。",
    "エラー": "エラーコードE-0x80070057が表示された場合は、ドライバーを再インストールしてください。",
    "電話": "㈱ヤマダ商店の電話番号は０３－１２３４－５６７８です。",
    "城": "會津若松の鶴ヶ城は桜の名所である。",
    "ソフト": "コンピュータウイルス対策ソフトのバージョンはv3.11.4、価格は￥２，２００円です。",
    "无人机": "大疆无人机Mavic 3的最大飞行时间为46分钟。",
    "错误": "错误代码０ｘ８００７０４２２表示服务无法启动。",
}
ASKED = {
    "カメラ": ("α7 IV", "3,300万画素", "3300万画素"),
    "冷蔵庫": ("RZ-500K", "ＲＺ－５００Ｋ", "RZ500K", "渡辺電機", "250kWh"),
    "エラー": ("0x80070057", "ドライバ"),
    "電話": ("03-1234-5678", "ﾔﾏﾀﾞ商店"),
    "城": ("会津若松", "鶴ケ城"),
    "ソフト": ("コンピューター", "3.11.4", "v3.11.4", "2200円"),
    "无人机": ("Mavic 3", "無人機", "46分钟"),
    "错误": ("0x80070422", "錯誤代碼"),
}


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "multilingual-e5-small"])
def test_names_products_and_numbers_are_found_in_japanese_and_chinese_however_they_are_written(
    module_db: Database, model: str
) -> None:
    name = index_all(module_db, searched_corpus(module_db, embedding={"model": model}), PRODUCTS)
    for mode in ("bm25", "hybrid"):
        results = {query: search(module_db, query, name, mode) for queries in ASKED.values() for query in queries}
        wanted = {query: key for key, queries in ASKED.items() for query in queries}
        assert {query: created[0]["source_key"] if created else None for query, created in results.items()} == wanted
    if model == "multilingual-e5-small":
        assert "windows" in results["0x80070422"][0]["explain"]
        return
    # A code has no language: that the documents' is not the embedder's is enough.
    assert results["0x80070422"][0]["explain"]["dense"].startswith("left out: no document has words in a language")
    index_all(module_db, name, {"english": "Ada Lovelace wrote notes."})
    assert "windows" in search(module_db, "Who wrote notes?", name, "hybrid")[0]["explain"]


# One sentence in each language; a word of one of them stands in no other.
MIXED = {
    "de": "Das Schiff verließ den Hafen von Hamburg im Morgengrauen.",
    "th": "เรือลำใหญ่ออกจากท่าเรือกรุงเทพในตอนเช้า และกลับมาในตอนเย็น",
    "ja": "大型の船は早朝に横浜港を出港した。",
    "zh": "大船清晨离开上海港,驶向外海。",
    "ru": "Большой корабль вышел из порта Одессы на рассвете.",
    "ko": "큰 배가 새벽에 부산항을 떠났다.",
    "en": "The big ship left the port of Liverpool at dawn.",
    "fr": "Le grand navire a quitté le port de Marseille à l'aube.",
}


@pytest.mark.parametrize(
    ("query", "wanted"), [("Schiff", "de"), ("navire", "fr"), ("出港した船", "ja"), ("корабль", "ru")]
)
def test_the_only_document_with_the_words_of_a_query_comes_first_in_a_corpus_of_many_languages(
    module_db: Database, query: str, wanted: str
) -> None:
    if not rows(module_db, "SELECT FROM graphrag.corpora WHERE name = 'mixed languages'"):
        module_db.execute("SELECT graphrag.create_corpus('mixed languages')")
        index_all(module_db, "mixed languages", MIXED)
    results = search(module_db, query, "mixed languages", "hybrid")
    assert results[0]["source_key"] == wanted
    # By what it means, too.
    assert len(results) == len(MIXED)


WRITTEN = {
    "ko": "이순신은 한산도에서 왜군을 크게 이겼다.",
    "th": MIXED["th"],
    "hi": "भारतीय रेल दुनिया के सबसे बड़े रेल नेटवर्कों में से एक है।",
    "rocket": "The release is out 🚀, tell everybody.",
    "price": "The ticket costs 12 € at the door.",
    "en": "The big ship left the port of Liverpool at dawn.",
}


@pytest.mark.parametrize(
    ("query", "wanted"), [("한산도", "ko"), ("กรุงเทพ", "th"), ("भारत", "hi"), ("🚀", "rocket"), ("€", "price")]
)
def test_parts_of_words_without_an_analyser_and_symbols_are_found(module_db: Database, query: str, wanted: str) -> None:
    if not rows(module_db, "SELECT FROM graphrag.corpora WHERE name = 'written'"):
        module_db.execute("SELECT graphrag.create_corpus('written')")
        index_all(module_db, "written", WRITTEN)
    assert keys(search(module_db, query, "written", "bm25")) == [wanted]
    assert keys(search(module_db, query, "written", "hybrid"))[0] == wanted


def test_names_are_entities_whole_wherever_they_stand(module_db: Database) -> None:
    name = index_all(module_db, searched_corpus(module_db), JAPANESE | CHINESE)
    sql = "SELECT e.name FROM graphrag.entities e JOIN graphrag.corpora c ON c.id = e.corpus_id WHERE c.name = %s"
    records = {item for (item,) in rows(module_db, sql, name)}
    assert {"金閣寺", "内藤多仲", "東京タワー", "足利義満", "北京故宫", "秦始皇", "朱棣"} - records == set()
    assert {"藤多", "藤多仲", "金閣"} & records == set()


# Codes, and names of words that mean little, each in one document; and what people type of them.
WRITTEN_CODES = {
    "version": "The panel runs release v3.4.5-beta2 since Monday.",
    "errno": "The mount failed with errno=-110 at dawn.",
    "att": "Shares of AT&T rose.",
    "rd": "The R & D of the firm moved to Turin.",
    "qa": "A Q&A about roses follows the concert.",
    "cve": "Patch CVE-2024-1234 closes the hole.",
    "ora": "Oracle says ORA-00942 when a table is missing.",
    "hex": "The updater stops with 0x80070005, access denied.",
    "setting": "Raise max_wal_size before a bulk load.",
    "call": "Calling foo.bar.baz() twice leaks handles.",
    "cpp": "The kernel module is written in C++ by hand.",
    "csharp": "The editor plugin is written in C# by hand.",
    "dotnet": "The billing job needs the .NET runtime.",
    "node": "Install the node.js bindings first.",
    "always": "Support answers 24/7 in Lisbon.",
    "io": "Slow I/O was measured on the old disks.",
    "tcp": "The TCP/IP stack was replaced.",
    "address": "The gateway is 10.0.0.1:5432 in the lab.",
    "network": "Traffic from 192.168.7.0/24 is dropped.",
    "mail": "Write to jane.doe@example.com about refunds.",
    "path": "Edit /etc/postgresql/17/main/pg_hba.conf first.",
    "sku": "The crate holds SKU-123/45-B and nails.",
    "iso": "The plant is certified to ISO 9001:2015 again.",
    "option": "Run the cleaner with --force-rewrite to be sure.",
    "variable": "Caches lie below $XDG_CACHE_HOME of the user.",
    "decorator": "Mark the method with @lru_cache to memoize.",
    "issue": "Duplicate of #48213, closed.",
    "environment": "The shell looks along $LOADPATH for every program that somebody calls by its name alone.",
    "way": "A loadpath is what the crane takes, and this loadpath was new.",
    "types": "The build asks for @types/react, which npm brings along with what else it needs.",
    "react": "React is written with types that the build asks for, and npm brings along what else it has.",
    "trial": "Nobody had called the sync with --dry-run before it was too late for the archive.",
    "dry": "Nobody had called the dry-run of the play a failure before it was too late for the actors.",
    "ticket": "As #5678 says, nothing of this kind ever worked on machines of that series.",
    "crates": "The ship brought 5678 crates and 5678 boxes.",
    "country": "After the vote the US economy grew by a tenth, as the bank had said it would.",
    "we": "He told us of us; tell us.",
    "kingdom": "Rules of the U.K. changed in autumn.",
    "section": "Nach § 12 haftet der Halter.",
    "size": "Use the 3.5mm jack of the amplifier.",
    "date": "Signed in Bern on 15.03.2019 by both.",
    "korean": "로그에 KX-77821가 남았다.",
    "japanese": "画面にエラーFATAL-5521が出たら、ＩＤ７７３１を控える。",
    "band": "The Who played in Leeds.",
    "other band": "Take That split up in Manchester.",
    "book": "Stephen King wrote It in Maine.",
    "health": "A WHO report on malaria came out.",
    "department": "Our IT department fixes printers.",
    "hamlet": "Hamlet wonders whether to be or not to be and sighs.",
    "song": "Title: Who are you",
    "small": "It is what the people who live here said about it, so it was not for the others or for us.",
    "more": "That is how they were, and who knows what it is that they take.",
    "dose": "Patients took 50mg of aspirin at night.",
    "status": "Сервер вернул HTTP503в полдень.",
    "screen": "A 1920x1080 screen with H.264 video.",
    "price": "The desk costs $7,299.00 today.",
    "novel": "『それから』は夏目漱石の小説である。",
    "film": "电影《我们》由张一白执导。",
}
ASKED_CODES = {
    "version": ("v3.4.5", "3.4.5", "beta2", "v3.4.5-beta2", "3.4"),
    "errno": ("110", "-110", "errno=-110", "errno"),
    "att": ("AT&T", "at&t"),
    "rd": ("R&D", "R & D"),
    "qa": ("Q&A", "Ｑ＆Ａ"),
    "cve": ("2024-1234", "CVE-2024-1234", "1234"),
    "ora": ("00942", "ORA-00942"),
    "hex": ("0x80070005", "80070005"),
    "setting": ("wal_size", "max_wal_size"),
    "call": ("bar.baz", "baz", "foo.bar.baz()"),
    "cpp": ("C++",),
    "csharp": ("C#", "c#", "CSharp"),
    "environment": ("$LOADPATH", "What is ${LOADPATH}?"),
    "types": ("@types/react",),
    "trial": ("--dry-run",),
    "ticket": ("#5678", "What is said of #5678?"),
    "country": ("US", "the US"),
    "kingdom": ("UK", "U.K."),
    "dotnet": (".NET", "dotnet"),
    "node": ("node.js", "node"),
    "always": ("24/7",),
    "io": ("I/O", "IO"),
    "tcp": ("TCP/IP", "TCP"),
    "address": ("10.0.0.1", "5432", "10.0.0"),
    "network": ("192.168.7.0/24", "192.168.7.0", "192.168.7"),
    "mail": ("jane.doe@example.com", "example.com", "jane.doe"),
    "path": ("pg_hba.conf", "pg_hba", "/etc/postgresql/17/main/pg_hba.conf"),
    "sku": ("SKU-123/45-B", "45-B", "SKU-123"),
    "iso": ("9001", "ISO 9001", "9001:2015"),
    "option": ("--force-rewrite", "force-rewrite"),
    "variable": ("$XDG_CACHE_HOME", "XDG_CACHE_HOME"),
    "decorator": ("@lru_cache", "lru_cache"),
    "issue": ("#48213", "48213"),
    "section": ("§ 12", "§12"),
    "size": ("3.5mm", "3.5 mm"),
    "date": ("15.03.2019", "2019"),
    "korean": ("KX-77821", "77821"),
    "japanese": ("FATAL-5521", "5521", "ID7731", "ＩＤ７７３１"),
    "band": ("The Who", "the who"),
    "other band": ("Take That", "the band Take That"),
    "book": ("It", "It by Stephen King"),
    "health": ("WHO", "What does the WHO say?"),
    "department": ("IT",),
    "hamlet": ("To be or not to be", "to be or not to be?"),
    "song": ("Who are you", "who are you?"),
    "dose": ("50mg", "50 mg"),
    "status": ("HTTP503", "503"),
    "screen": ("1920x1080", "1080", "H264"),
    "price": ("7299", "$7,299", "7,299.00"),
    "novel": ("それから",),
    "film": ("我们", "《我們》"),
}


def test_a_code_is_found_by_each_part_that_people_type_and_a_name_of_stop_words_as_it_is(module_db: Database) -> None:
    name = index_all(module_db, searched_corpus(module_db), WRITTEN_CODES)
    found = {query: keys(search(module_db, query, name, "bm25"))[:1] for each in ASKED_CODES.values() for query in each}
    assert found == {query: [key] for key, queries in ASKED_CODES.items() for query in queries}


def test_names_of_stop_words_make_no_text_longer(module_db: Database) -> None:
    name = searched_corpus(module_db)
    texts = {
        "plain": "The kettle whistles in Leeds.",
        "names": "Who? The kettle whistles in Leeds. What about you? IT!",
    }
    index_all(module_db, name, texts)
    lengths = "SELECT DISTINCT t.length FROM graphrag.bm25_tail t JOIN graphrag.corpora c ON c.id = t.corpus_id"
    assert rows(module_db, f"{lengths} WHERE c.name = %s AND t.kind = 'chunk'", name) == [(3,)]
    assert len({row["score"] for row in search(module_db, "kettle", name, "bm25")}) == 1
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", name) == []


@pytest.mark.parametrize(
    ("language", "text", "asked"),
    [
        ("de", "Im Kino lief Wir von Ralf Husmann.", "Wir"),
        ("de", "Der Film WAS gewann.", "WAS"),
        ("fr", "Sophie lit Elle dans le train.", "Elle"),
        ("es", "La novela Nada ganó el premio.", "Nada"),
        ("ru", "Замятин написал Мы в Петрограде.", "Мы"),
    ],
)
def test_names_of_stop_words_are_found_in_the_language_of_a_corpus(
    module_db: Database, language: str, text: str, asked: str
) -> None:
    name = searched_corpus(module_db, language=language)
    put_all(module_db, name, {"named": text, "other": "Der Zug nach Turin."})
    work(module_db)
    assert keys(search(module_db, asked, name, "bm25")) == ["named"]


# Soft hyphen, joiners, spaces of no width, directions, a filler, a selector, a tag.
UNSEEN = "\u00ad\u034f\u061c\u115f\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202e\u2060\u2066\u2069\u3164\ufe0f\ufeff\U000e0061"


def test_marks_that_nobody_sees_hide_no_name_and_make_no_other_entity(module_db: Database) -> None:
    plain = "Kestrelworks hired Dora Vance in Lisbon. Dora Vance runs the Kestrelworks foundry."
    texts = {f"{ord(mark):x}": plain.replace("Kes", f"Kes{mark}").replace("Vance", f"Van{mark}ce") for mark in UNSEEN}
    found = []
    for order in ([*texts], [*reversed(texts)]):
        name = searched_corpus(module_db, embedding=ENGLISH)
        put(module_db, name, "plain", plain)
        for key in order:
            put(module_db, name, key, texts[key], title=f"Kes{chr(int(key, 16))}trelworks")
        work(module_db)
        results = search(module_db, "Kestrelworks", name, "bm25", top_k=50)
        assert sorted(keys(results)) == sorted(["plain", *texts])
        assert {row["source_key"]: row["content"] for row in results} == texts | {"plain": plain}
        assert sum("twin_of" in row["explain"] for row in results) == len(texts)
        assert keys(search(module_db, "Kes\u200btrel\u00adworks", name, "bm25", top_k=50)) == keys(results)
        nodes = rows(
            module_db, "SELECT name, mention_count FROM graphrag.graph_nodes WHERE corpus = %s ORDER BY 1", name
        )
        names = {node[0] for node in nodes}
        assert names == {node.translate(dict.fromkeys(map(ord, UNSEEN))) for node in names}
        assert {"Dora Vance", "Kestrelworks"} <= names
        assert rows(module_db, "SELECT name FROM graphrag.neighbors('Do\u2060ra Vance', corpus => %s)", name)
        assert not rows(module_db, "SELECT * FROM graphrag.check(%s)", name)
        found.append(nodes)
    assert found[0] == found[1]
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key <> 'plain'", [name])
    work(module_db)
    alone = index_all(module_db, searched_corpus(module_db, embedding=ENGLISH), {"plain": plain})
    of_corpus = "SELECT name, type, mention_count FROM graphrag.graph_nodes WHERE corpus = %s ORDER BY 1"
    assert rows(module_db, of_corpus, name) == rows(module_db, of_corpus, alone)


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("کتاب‌های فارسی در تهران چاپ می‌شوند.", ("کتاب‌های", "کتابهای", "می‌شوند", "میشوند")),
        ("क्‍षमा माँगना कठिन है।", ("क्‍षमा", "क्षमा")),
        ("The 👩‍💻 and the ❤️ are in the logo.", ("👩‍💻", "❤️", "❤")),
        ("葛\U000e0100城市は奈良県にある。", ("葛城市", "葛\U000e0100城市", "奈良県")),
        ("ภาษา\u200bไทย\u200bง่าย", ("ภาษาไทย", "ไทย", "ภาษา")),
    ],
    ids=["fa", "hi", "emoji", "ivs", "th"],
)
def test_what_joins_or_selects_letters_is_shown_and_found_with_and_without(
    module_db: Database, text: str, forms: tuple[str, ...]
) -> None:
    name = searched_corpus(module_db)
    put_all(module_db, name, {"marked": text, "other": "The big ship left the port of Liverpool at dawn."})
    work(module_db)
    results = {form: search(module_db, form, name, "bm25") for form in forms}
    assert {form: [(row["source_key"], row["content"]) for row in found] for form, found in results.items()} == {
        form: [("marked", text)] for form in forms
    }
