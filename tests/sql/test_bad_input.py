"""Any text and any name: a clear error or a defined result, nothing lost, and no other document held up."""

import hashlib
import json
import math
from collections import Counter
from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import corpus_id, delete, keys, new_corpus, put, refused, rows, search, statuses, value, work

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
LATIN = "Ada Lovelace wrote notes. Charles Babbage read them in London. "
TEXTS = {
    "only emoji": "👩‍👩‍👧‍👦 🇯🇵🇫🇷 👍🏽 🤖" * 15,
    "hebrew": "עדה לאבלייס כתבה הערות על המנוע האנליטי. צ'ארלס בבג' קרא אותן בלונדון. " * 6,
    "arabic": "كتبت آدا لوفليس ملاحظات عن المحرك التحليلي. قرأها تشارلز باباج في لندن. " * 6,
    "japanese": "東京タワーは東京都港区にある電波塔です。内藤多仲が設計しました。\n" * 6,
    "chinese": "北京故宫是明清两代的皇家宫殿。明成祖朱棣建造了故宫。" * 6,
    "korean": "서울은 대한민국의 수도이다. 한강이 서울을 가로지른다. " * 6,
    "thai": "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย" * 6,
    "mixed scripts": (LATIN + "東京タワー Москва عدد עברית ไทย 한국어 🤖. ") * 5,
    "combining marks": "e\u0301a\u0308o\u0302 Zalgo h\u0310\u0311\u0312\u0313e\u0314 n\u0303 " * 15,
    "html soup": '<div><p class="x">Ada <b>Lovelace</b></div></p><script>if (a<b && c>d) {}</script>&amp;&nbsp;<br/>'
    * 6,
    "quotes": "it's \"Ada Lovelace\" ''twice'' \\ back\\slash E'\\n' `tick` “curly” «French». " * 5,
    "dollars and braces": '$$ $1 $tag$ {} {"a": 1} {{Ada}} %s %d {0} $$ Ada Lovelace of {London}. ' * 5,
    "sql": "'; DROP TABLE graphrag.documents; -- Ada Lovelace SELECT * FROM \"x\"; ' OR 1=1. " * 5,
    "cypher": "MATCH (n:Entity {name: 'Ada Lovelace'}) DETACH DELETE n RETURN $$ n::vertex $$. " * 5,
    "control characters": "Ada\x01Lovelace\x02 wrote\x0b notes\x0c in\x1f London\x7f\x85\u200b\u202e\ufeff\ufffe. " * 5,
    "line ends": "Ada Lovelace\r\nwrote\r\rnotes\n\n\n\u2028in\u2029London\n" * 6,
    "private and unassigned": "\ue000\U000f0000\U0010ffff\u0378 Ada Lovelace \ufdd0. " * 5,
    "no spaces": "abcdefghij" * 300,
    "numbers": "1,2.5e10;-3 4/5 0x1F 192.168.0.1 2026-11-21T10:00:00Z " * 6,
    "surrogates of a url": "https://example.com/a/b?c=d&e=f#g user@example.com /usr/lib/x.so " * 5,
}


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    """All texts in one corpus of small chunks, so that every text is cut."""
    name = new_corpus(module_db, chunk_token_size=60, chunk_overlap=15)
    for key, text in TEXTS.items():
        put(module_db, name, key, text, title=f"{text[:40]} title")
    work(module_db)
    return name


def reassembled(db: Database, corpus: str, key: str) -> str:
    """The document as the own parts of its chunks give it."""
    return str(
        value(
            db,
            "SELECT coalesce(string_agg(substr(c.content, c.own_offset - c.start_offset + 1), '' ORDER BY c.ordinal), '')"
            "  FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id"
            " WHERE d.corpus = %s AND d.source_key = %s",
            corpus,
            key,
        )
    )


@pytest.mark.parametrize("key", TEXTS)
def test_nothing_of_a_text_is_lost(module_db: Database, corpus: str, key: str) -> None:
    assert statuses(module_db, corpus)[key] == "indexed"
    assert reassembled(module_db, corpus, key) == TEXTS[key]
    number = corpus_id(module_db, corpus)
    ((chunks, most),) = rows(
        module_db,
        "SELECT count(*), max(token_count) FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id"
        " WHERE c.corpus_id = %s AND d.source_key = %s",
        number,
        key,
    )
    assert chunks >= 1
    assert most <= 60
    # Windows partition the own part of each chunk.
    assert (
        rows(
            module_db,
            "SELECT c.id FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id"
            " WHERE c.corpus_id = %s AND d.source_key = %s AND substr(c.content, c.own_offset - c.start_offset + 1) <> ("
            "   SELECT string_agg(substr(d.content, w.start_offset + 1, w.end_offset - w.start_offset), '' ORDER BY w.ordinal)"
            "     FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id)",
            number,
            key,
        )
        == []
    )


@pytest.mark.sample(7)
@pytest.mark.parametrize("key", TEXTS)
def test_a_text_is_a_query_that_finds_rows_in_every_mode_without_error(
    module_db: Database, corpus: str, key: str
) -> None:
    for mode in MODES:
        search(module_db, TEXTS[key][:200], corpus, mode)


def test_the_projection_has_every_entity_exactly(module_db: Database, corpus: str) -> None:
    stored = rows(
        module_db,
        "SELECT key, name, description FROM graphrag.entities WHERE corpus_id = %s",
        corpus_id(module_db, corpus),
    )
    projected = rows(
        module_db,
        "SELECT c->>'key', c->>'name', c->>'d' FROM graphrag.cypher(%s,"
        " 'MATCH (e:Entity) RETURN e.key AS key, e.name AS name, e.description AS d') AS c",
        corpus,
    )
    assert len(stored) > 20
    assert sorted(projected) == sorted(stored)


def test_evidence_is_a_stretch_of_the_document(module_db: Database, corpus: str) -> None:
    wrong = rows(
        module_db,
        "SELECT m.name FROM graphrag.entity_mentions m JOIN graphrag.documents d ON d.id = m.document_id"
        " WHERE m.corpus_id = %s AND NOT (0 <= m.start_offset AND m.start_offset < m.end_offset"
        "   AND m.end_offset <= length(d.content))",
        corpus_id(module_db, corpus),
    )
    assert wrong == []


NAMES = {
    "single quote": "O'Brien's \"Inn\"",
    "backslash": "C:\\Ada\\n \\u0041",
    "dollar quotes": "$$ $cypher$ Ada $$",
    "braces": "{} {name: 'x'} [1]",
    "cypher": "x'}) DETACH DELETE n //",
    "sql": "'); DROP TABLE graphrag.entities; --",
    "cast": "Ada::vertex ::numeric",
    "emoji": "👩‍💻 Ada",
    "rtl": "עדה \u202e Ada",
    "control": "Ada\x01\x1f\tLovelace",
    "percent": "100% %s %(x)s {0}",
    "wide": "Ａｄａ　Ｌｏｖｅｌａｃｅ",
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("title", NAMES.values(), ids=NAMES)
def test_any_title_and_source_key_are_kept_and_projected(module_db: Database, title: str) -> None:
    name = new_corpus(module_db)
    put(module_db, name, title, LATIN, title=title, metadata={title: [title]})
    work(module_db)
    assert statuses(module_db, name) == {title: "indexed"}
    for mode in MODES:
        (results,) = search(module_db, "Ada Lovelace notes", name, mode, filter={title: [title]})
        assert (results["source_key"], results["title"]) == (title, title)
    ((document,),) = rows(
        module_db, "SELECT graphrag.cypher(%s, 'MATCH (d:Document) RETURN d.source_key AS k, d.title AS t')", name
    )
    assert document == {"k": title, "t": title}
    # An emoji at the beginning of a title is none of its name.
    entity = value(module_db, "SELECT graphrag._key(%s)", title.removeprefix("👩‍💻 "))
    if entity:
        mentioned = "SELECT count(*) FROM graphrag.entities WHERE corpus_id = %s AND key = %s"
        assert value(module_db, mentioned, corpus_id(module_db, name), entity) == 1
    parts = value(module_db, "SELECT graphrag.context('Ada Lovelace', %s)", name)
    assert parts["references"][0]["title"] == title
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_any_corpus_name_works(module_db: Database, name: str) -> None:
    module_db.execute("SELECT graphrag.create_corpus(%s)", [name])
    put(module_db, name, "a", LATIN)
    work(module_db)
    assert keys(search(module_db, "Ada Lovelace", name)) == ["a"]
    assert value(module_db, "SELECT documents FROM graphrag.progress WHERE corpus = %s", name) == 1
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


@pytest.mark.parametrize(
    "content", ["", " ", "\n\t \r\n", "\u3000\u2003", "\u200b"], ids=["empty", "space", "lines", "wide", "zero"]
)
def test_a_document_of_nothing_is_indexed_and_never_found(module_db: Database, content: str) -> None:
    name = new_corpus(module_db)
    put(module_db, name, "blank", content)
    put(module_db, name, "ada", LATIN)
    work(module_db)
    assert statuses(module_db, name) == {"blank": "indexed", "ada": "indexed"}
    if not content.strip():
        assert reassembled(module_db, name, "blank") == ""
    for mode in MODES:
        assert set(keys(search(module_db, "Ada Lovelace notes", name, mode))) <= {"ada", "blank"}
    put(module_db, name, "blank", LATIN)
    work(module_db)
    assert reassembled(module_db, name, "blank") == LATIN
    put(module_db, name, "blank", content)
    work(module_db)
    assert keys(search(module_db, "Ada Lovelace notes", name, "bm25")) == ["ada"]


# Letters and digits of one endless word are one token to embed, marks and Han characters one each: less of those.
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("letter", "size"),
    [
        ("x", 1_000_000),
        ("A", 300_000),
        ("ا", 500_000),
        ("漢", 2_000),
        ("あ", 2_000),
        ("👍", 2_000),
        ("-", 2_000),
        (".", 2_000),
    ],
)
def test_one_token_of_a_megabyte_is_indexed_whole(module_db: Database, letter: str, size: int) -> None:
    name = new_corpus(module_db)
    text = f"Ada Lovelace wrote {letter * size} and notes."
    put(module_db, name, "long", text)
    put(module_db, name, "other", LATIN)
    work(module_db)
    assert statuses(module_db, name) == {"long": "indexed", "other": "indexed"}
    assert reassembled(module_db, name, "long") == text
    assert "long" in keys(search(module_db, "Ada Lovelace", name, "bm25"))
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def test_a_title_too_long_for_anything_is_a_clear_error_or_indexed(module_db: Database) -> None:
    name = new_corpus(module_db)
    for size in (200, 3_000, 50_000):
        put(module_db, name, f"{size}", LATIN, title="Ada " * (size // 4))
        put(module_db, name, f"{size} solid", LATIN, title="Ａ" * size)
    work(module_db)
    assert set(statuses(module_db, name).values()) == {"indexed"}


@pytest.mark.slow
def test_a_document_of_3_mb_is_indexed_whole(module_db: Database) -> None:
    name = new_corpus(module_db)
    # Mostly white space, as pages laid out by programs are: little to embed, much to cut.
    text = LATIN + "".join(f"word{n % 97}{' ' * 2000}\n" for n in range(1_600)) + LATIN
    assert len(text) > 3_000_000
    put(module_db, name, "large", text)
    work(module_db)
    assert statuses(module_db, name) == {"large": "indexed"}
    assert reassembled(module_db, name, "large") == text


def okapi(texts: dict[str, Counter[str]], terms: list[str]) -> dict[str, float]:
    """BM25 by the textbook: k1 1.5, b .75, idf ln(1 + (N - df + .5) / (df + .5))."""
    mean = sum(map(Counter.total, texts.values())) / len(texts)
    scores = {}
    for key, words in texts.items():
        score = 0.0
        for term in terms:
            df = sum(term in other for other in texts.values())
            idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
            tf = words[term]
            score += idf * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * words.total() / mean))
        if score:
            scores[key] = score
    return scores


@pytest.mark.sample(2)
@pytest.mark.parametrize("separator", [" ", ",", ", ", "\n", ";", " | ", "/ "])
def test_a_lexeme_2000_times_in_a_chunk_counts_exactly(module_db: Database, separator: str) -> None:
    name = new_corpus(module_db, chunk_token_size=8192, chunk_overlap=0)
    texts = {"many": ["zebra"] * 2000 + ["giraffe"] * 3, "few": ["zebra"] * 2 + ["lion"] * 9, "none": ["lion"] * 300}
    for key, words in texts.items():
        put(module_db, name, key, separator.join(words))
    work(module_db)
    number = corpus_id(module_db, name)
    assert value(module_db, "SELECT count(*) FROM graphrag.chunks WHERE corpus_id = %s", number) == 3
    counted = {
        key: Counter({"giraff" if word == "giraffe" else word: n for word, n in Counter(words).items()})
        for key, words in texts.items()
    }
    for _ in range(2):
        for query, terms in (("zebra", ["zebra"]), ("zebra lion giraffe", ["zebra", "lion", "giraff"])):
            results = {row["source_key"]: row["score"] for row in search(module_db, query, name, "bm25")}
            assert results == pytest.approx(okapi(counted, terms), abs=1e-8)
        module_db.execute("SELECT graphrag.optimize(%s)", [name])


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("INSERT INTO graphrag.documents (content) VALUES (NULL)", "23502"),
        ("INSERT INTO graphrag.documents (source_key, content) VALUES ('', 'x')", "23514"),
        ("INSERT INTO graphrag.documents (source_key, content) VALUES (repeat('k', 2001), 'x')", "23514"),
        ("INSERT INTO graphrag.documents (content, metadata) VALUES ('x', '[]')", "23514"),
        ("INSERT INTO graphrag.documents (corpus, content) VALUES (NULL, 'x')", "42704"),
        (
            "INSERT INTO graphrag.documents (content, valid_from, valid_to) VALUES ('x', '2020-01-02', '2020-01-01')",
            "23514",
        ),
        ("INSERT INTO graphrag.documents (content) VALUES (E'a\\000b')", "22021"),
        ("INSERT INTO graphrag.documents (content) VALUES (convert_from('\\xff', 'UTF8'))", "22021"),
    ],
)
def test_a_row_that_cannot_be_is_refused(module_db: Database, sql: str, sqlstate: str) -> None:
    assert refused(module_db, sql).sqlstate == sqlstate


def test_the_longest_source_key_is_indexed(module_db: Database) -> None:
    name = new_corpus(module_db)
    key = hashlib.sha256(b"").hexdigest() * 31
    put(module_db, name, key, LATIN)
    work(module_db)
    assert keys(search(module_db, "Ada Lovelace", name)) == [key]
    delete(module_db, name, key)
    work(module_db)
    assert search(module_db, "Ada Lovelace", name) == []


def test_metadata_of_any_depth_is_a_filter(module_db: Database) -> None:
    name = new_corpus(module_db)
    deep: dict[str, Any] = {"x": 1}
    for _ in range(50):
        deep = {"deeper": [deep]}
    put(module_db, name, "a", LATIN, metadata=json.loads(json.dumps(deep)))
    work(module_db)
    assert keys(search(module_db, "Ada", name, "bm25", filter=deep)) == ["a"]
