"""What a session caches of small corpora: never seen in a result, except that it comes sooner."""

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from pg_graphrag.server.corpus.corpora import REVISION
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, Connection, corpus_id, delete, put, refused, rows, searched_corpus, value, work
from tests.sql.llm import provider

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
QUESTION = "Whom did Ada Lovelace admire, and who broke Enigma at Bletchley Park?"
LOW, HIGH = ["Ada Lovelace", "engine"], ["admiration", "code breaking"]
NEWS = (
    f"Joan Clarke broke Enigma with Alan Turing at Bletchley Park. Ada Lovelace would have admired Joan Clarke {n} times."
    for n in itertools.count(2)
)
# (mode, filter, low-level keywords, high-level keywords, options)
ASKED = [
    *[(mode, None, LOW, HIGH, {}) for mode in MODES],
    *[(mode, None, None, None, {}) for mode in ("local", "hybrid")],
    *[(mode, None, LOW, HIGH, {"profile": "paper"}) for mode in ("local", "global", "hybrid")],
    *[(mode, {"even": True}, LOW, HIGH, {}) for mode in ("local", "hybrid", "mix")],
    ("bm25", None, None, None, {"bm25_idf": "robertson"}),
]
# Where what is cached is to be told from what is new.
BRIEF = [("mix", None, LOW, HIGH, {}), ("hybrid", None, None, None, {})]


class Near(float):
    """A number that equals what differs by less than the vectors' last bits make it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, float)) and abs(float(self) - float(other)) < 1e-4

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = float.__hash__


def extraction(messages: Sequence[dict[str, Any]]) -> str:
    """The names of a text, each with its sentence, and who stands beside whom."""
    text = str(messages[-1]["content"])
    names = [
        name for name in ("Ada Lovelace", "Alan Turing", "Bletchley Park", "Enigma", "Joan Clarke") if name in text
    ]
    sentences = {
        name: next(sentence for sentence in text.split(".") if name in sentence).strip()[-150:] for name in names
    }
    entities = [{"name": name, "type": "thing", "description": sentences[name]} for name in names]
    pairs = [
        {
            "source": a,
            "target": b,
            "keywords": ["meeting"],
            "description": f"{a} and {b}: {sentences[b]}",
            "strength": 5,
        }
        for a, b in pairwise(names)
    ]
    return json.dumps({"entities": entities, "relationships": pairs})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        endpoint.reply(extraction)
        yield endpoint


def fill(db: Connection, corpus: str) -> str:
    for number, (key, text) in enumerate(STORIES.items()):
        put(db, corpus, key, text, title=key.title(), metadata={"even": number % 2 == 0})
    work(db)
    return corpus


def described_corpus(db: Connection, endpoint: Endpoint) -> str:
    model = {"provider": provider(db, endpoint), "model": "model-1"}
    return fill(db, searched_corpus(db, extractor="llm", max_gleaning=0, llm={"roles": {"extract": model}}))


@pytest.fixture(scope="module", params=["nlp", pytest.param("llm", marks=pytest.mark.slow)])
def corpus(request: pytest.FixtureRequest, module_db: Database, endpoint: Endpoint) -> str:
    """A corpus that the tests change, one after the other."""
    return (
        fill(module_db, searched_corpus(module_db)) if request.param == "nlp" else described_corpus(module_db, endpoint)
    )


@contextmanager
def session(db: Database) -> Iterator[Connection]:
    with psycopg.connect(db.info.dsn, password=db.info.password, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def reader(module_db: Database) -> Iterator[Connection]:
    with session(module_db) as connection:
        yield connection


def results(db: Connection, corpus: str, asked: Sequence[Any] = BRIEF) -> Any:
    """Everything that is found, with its explanations."""
    collected: list[Any] = []
    for mode, filter_, low, high, options in asked:
        given = [corpus, mode, Jsonb(filter_) if filter_ else None, low, high, Jsonb(options)]
        collected += rows(db, "SELECT * FROM graphrag.search(%s, %s, %s, 20, %s, %s, %s, %s)", QUESTION, *given)
        if "bm25_idf" not in options:
            call = "graphrag.context(%s, %s, %s, NULL, %s, %s, %s, %s)"
            collected += rows(db, f"SELECT {call}", QUESTION, *given)
    for filter_ in (None, Jsonb({"even": True})):
        collected += rows(
            db, "SELECT * FROM graphrag.search_entities(%s, %s, 20, %s, %s)", QUESTION, corpus, filter_, LOW
        )
        collected += rows(
            db, "SELECT * FROM graphrag.search_relationships(%s, %s, 20, %s, %s)", QUESTION, corpus, filter_, HIGH
        )
    return json.loads(json.dumps(collected, default=float), parse_float=Near)


@contextmanager
def memory(db: Connection, size: str) -> Iterator[None]:
    db.execute(sql.SQL("SET graphrag.session_memory = {}").format(size))
    try:
        yield
    finally:
        db.execute("RESET graphrag.session_memory")


def uncached(db: Connection, corpus: str, asked: Sequence[Any] = BRIEF) -> Any:
    with memory(db, "0"):
        return results(db, corpus, asked)


def cached_bytes(db: Connection) -> dict[str, int]:
    """Bytes of what the session cached, by kind."""
    db.execute(
        "CREATE OR REPLACE FUNCTION pg_temp.cached_bytes() RETURNS jsonb LANGUAGE plpython3u AS $$\n"
        "import json\nfrom pg_graphrag.server.caches.session_cache import cache\nreturn json.dumps(cache.sizes())\n$$"
    )
    result: dict[str, int] = value(db, "SELECT pg_temp.cached_bytes()")
    return result


def objects(db: Connection) -> list[Any]:
    """What the session cached that is large, by key and identity."""
    db.execute(
        "CREATE OR REPLACE FUNCTION pg_temp.objects() RETURNS jsonb LANGUAGE plpython3u AS $$\n"
        "import json\nfrom pg_graphrag.server.caches.session_cache import cache\n"
        "return json.dumps(sorted([*map(str, key), id(entry.value)]\n"
        "                         for key, entry in cache._entries.items()\n"
        "                         if entry.size and key[0] not in ('bm25', 'visible graph')))\n$$"
    )
    collected: list[Any] = value(db, "SELECT pg_temp.objects()")
    return collected


def warm(db: Connection, corpus: str) -> Any:
    """Ask until the session has cached what it may; return what it finds then."""
    results(db, corpus)
    results(db, corpus)
    expected = {"graph", "vectors", "bm25"}
    if not value(db, "SELECT options ? 'extractor' FROM graphrag.corpora WHERE name = %s", corpus):
        # A model's mentions have no windows.
        expected.add("statements of windows")
    assert expected <= set(cached_bytes(db))
    return results(db, corpus)


def test_what_is_cached_changes_no_result(reader: Connection, corpus: str) -> None:
    before = cached_bytes(reader)
    expected = uncached(reader, corpus, ASKED)
    assert cached_bytes(reader) == before
    warm(reader, corpus)
    assert results(reader, corpus, ASKED) == expected


def test_deleted_documents_leave_their_places_to_others_in_a_cached_graph(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    for number in range(9):
        again = " Ada Lovelace wrote programs." if number < 4 else ""
        put(module_db, corpus, f"{number}", f"Ada Lovelace met Alan Turing in year {number}.{again}")
    work(module_db)
    asked = [(mode, None, ["Ada Lovelace"], HIGH, {}) for mode in ("local", "mix")]
    with session(module_db) as reader:
        reader.execute(
            "DO LANGUAGE plpython3u 'from pg_graphrag.search.retrievers import evidence_chunks\n"
            "evidence_chunks.MAX_CHUNKS_EACH, evidence_chunks.NEAR_CHUNKS = 3, 0'"
        )
        warm(reader, corpus)
        assert cached_bytes(reader)["statements of windows"] > 0
        before = results(reader, corpus, asked)
        assert before == uncached(reader, corpus, asked)
        for key in ("1", "2"):
            delete(module_db, corpus, key)
        after = results(reader, corpus, asked)
        assert after == uncached(reader, corpus, asked) != before


def test_a_warm_session_asks_for_no_more_than_the_caller_the_corpus_the_words_and_the_documents(
    reader: Connection, corpus: str
) -> None:
    asked = [("mix", None, LOW, HIGH, {})]
    warm(reader, corpus)
    reader.execute(
        "CREATE OR REPLACE FUNCTION pg_temp.statements(query text, corpus text, low text[], high text[]) RETURNS int"
        " LANGUAGE plpython3u STABLE AS $$\n"
        "from pg_graphrag.search.context import context\nfrom pg_graphrag.server import Database, database\n"
        "class Counted(Database):\n    n = 0\n"
        "    def _rows(self, result):\n        Counted.n += 1\n        return list(result)\n"
        "db = Counted(plpy)\ndb.__dict__.update(database(plpy).__dict__)\n"
        "context(db, query, corpus, 'hybrid', None, None, low, high, '{}')\nreturn Counted.n\n$$"
    )
    results(reader, corpus, asked)
    assert value(reader, "SELECT pg_temp.statements(%s, %s, %s, %s)", QUESTION, corpus, LOW, HIGH) <= 7


def test_a_session_sees_what_another_changes(module_db: Database, reader: Connection, corpus: str) -> None:
    result = [warm(reader, corpus)]
    for change in ("insert", "update", "optimize", "title", "delete", "removal"):
        if change == "insert":
            put(module_db, corpus, "clarke", next(NEWS))
        elif change == "update":
            put(module_db, corpus, "turing", next(NEWS))
        elif change == "title":
            module_db.execute("UPDATE graphrag.documents SET title = 'Bletchley Park' WHERE source_key = 'hopper'")
        elif change == "optimize":
            module_db.execute("SELECT graphrag.optimize(%s)", [corpus])
        elif change == "delete":
            delete(module_db, corpus, "enigma")
        if change not in ("title", "delete"):
            work(module_db)
        expected = uncached(reader, corpus)
        assert [results(reader, corpus) for _ in range(2)] == [expected] * 2, change
        assert (expected == result[-1]) is (change == "optimize")
        result.append(expected)


@pytest.mark.slow
def test_a_session_sees_what_people_change(module_db: Database, reader: Connection, corpus: str) -> None:
    result = [warm(reader, corpus)]
    for change in (
        "merge_entities('{Enigma}', 'Bletchley Park', %s)",
        "edit_entity('Ada Lovelace', %s, description => 'Admired at Bletchley Park for her engine.')",
        "create_entity('Engine room', %s, 'place', 'Where Ada Lovelace admired an engine.')",
        "rename_entity('Alan Turing', 'Prof', %s)",
        "delete_entity('Bletchley Park', %s)",
    ):
        with reader.transaction(force_rollback=True):
            value(reader, f"SELECT graphrag.{change}", corpus)
            within = uncached(reader, corpus)
            assert [results(reader, corpus) for _ in range(2)] == [within] * 2, change
        assert results(reader, corpus) == result[-1]
        number = value(module_db, f"SELECT graphrag.{change}", corpus)
        expected = uncached(reader, corpus)
        assert [results(reader, corpus) for _ in range(2)] == [expected] * 2, change
        assert expected not in result
        result.append(expected)
    module_db.execute("SELECT graphrag.undo_curation(%s)", [number])
    assert results(reader, corpus) == uncached(reader, corpus)


def test_nothing_is_seen_before_its_commit(module_db: Database, reader: Connection, corpus: str) -> None:
    before = warm(reader, corpus)
    with module_db.transaction(force_rollback=True):
        change_within(module_db, corpus, "Uncommitted.")
        assert results(reader, corpus) == before
    assert results(reader, corpus) == before


def change_within(db: Connection, corpus: str, text: str) -> None:
    """Change what is merged as a merge does, but within the transaction block that the session is in."""
    number = corpus_id(db, corpus)
    db.execute("UPDATE graphrag.entities SET description = %s WHERE corpus_id = %s", [text, number])
    db.execute("UPDATE graphrag.relationships SET description = %s WHERE corpus_id = %s", [text, number])
    db.execute(
        "DO LANGUAGE plpython3u $$\nfrom pg_graphrag.server.corpus.corpora import revise\n"
        f"from pg_graphrag.server import database\nrevise(database(plpy), {number})\n$$"
    )


def test_a_transaction_sees_its_own_changes_and_their_undoing(reader: Connection, corpus: str) -> None:
    before = warm(reader, corpus)
    with reader.transaction(force_rollback=True):
        change_within(reader, corpus, "First.")
        for text in ("Second.", "Third."):
            with reader.transaction(force_rollback=text == "Third."):
                change_within(reader, corpus, text)
                seen = [results(reader, corpus) for _ in range(2)]
                assert seen == [uncached(reader, corpus)] * 2
                assert text in json.dumps(seen)
        assert "Second." in json.dumps(results(reader, corpus))
    assert [results(reader, corpus) for _ in range(2)] == [before] * 2


def test_an_older_snapshot_sees_what_was_then(module_db: Database, reader: Connection, corpus: str) -> None:
    before = warm(reader, corpus)
    with session(module_db) as other, other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert results(other, corpus) == before
        put(module_db, corpus, "clarke", next(NEWS))
        work(module_db)
        after = uncached(reader, corpus)
        assert after != before
        assert [results(other, corpus) for _ in range(2)] == [before] * 2
    assert [results(reader, corpus) for _ in range(2)] == [after] * 2


def test_a_cursor_keeps_its_snapshot_while_the_session_cached_newer(
    module_db: Database, reader: Connection, corpus: str
) -> None:
    search = "SELECT * FROM graphrag.search(%s, %s, 'hybrid', 20)"
    warm(reader, corpus)
    before = rows(reader, search, QUESTION, corpus)
    with reader.transaction(), reader.cursor("old") as cursor:
        cursor.execute(search.encode(), [QUESTION, corpus])
        put(module_db, corpus, "clarke", next(NEWS))
        work(module_db)
        for _ in range(3):
            after = rows(reader, search, QUESTION, corpus)
        assert after != before
        assert cursor.fetchall() == before


def test_a_role_that_may_not_see_all_gets_nothing_that_is_cached(
    module_db: Database, reader: Connection, corpus: str
) -> None:
    warm(reader, corpus)
    module_db.execute("SELECT graphrag.protect(%s, $$(metadata ->> 'even')::boolean$$)", [corpus])
    try:
        reader.execute("SET ROLE graphrag_reader")
        seen = [results(reader, corpus) for _ in range(3)]
        assert seen == [uncached(reader, corpus)] * 3
        reader.execute("RESET ROLE")
        everything = results(reader, corpus)
        assert everything != seen[0]
        assert everything == uncached(reader, corpus)
    finally:
        module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])


def test_a_role_without_privileges_is_refused_although_the_session_cached_all(
    module_db: Database, reader: Connection, corpus: str
) -> None:
    warm(reader, corpus)
    module_db.execute("CREATE ROLE cached_nobody")
    module_db.execute("GRANT graphrag_reader TO cached_nobody")
    module_db.execute("REVOKE SELECT ON graphrag.documents FROM graphrag_reader")
    try:
        reader.execute("SET ROLE cached_nobody")
        refusal = refused(reader, "SELECT * FROM graphrag.search(%s, %s, 'local')", QUESTION, corpus)
        assert refusal.sqlstate == "42501"
    finally:
        reader.execute("RESET ROLE")
        module_db.execute("GRANT SELECT ON graphrag.documents TO graphrag_reader")
        module_db.execute("DROP ROLE cached_nobody")


def test_memory_is_bounded_by_its_setting(reader: Connection, corpus: str) -> None:
    expected = uncached(reader, corpus)
    for size in (60, 20):
        with memory(reader, f"{size}kB"):
            assert [results(reader, corpus) for _ in range(2)] == [expected] * 2
            cached = objects(reader)
            assert results(reader, corpus) == expected
            # What fits stays: no query reads anew what another of the same corpus had forgotten for it.
            assert objects(reader) == cached
        assert sum(cached_bytes(reader).values()) <= size * 1024


def test_a_bad_setting_of_memory_is_named(reader: Connection, corpus: str) -> None:
    for size in ("much", "-1MB", "1e30GB"):
        with memory(reader, size):
            refusal = refused(reader, "SELECT * FROM graphrag.search(%s, %s, 'local')", QUESTION, corpus)
        assert refusal.sqlstate == "22023"
        assert f'graphrag.session_memory cannot be "{size}"' in str(refusal.message_primary)
        assert "64MB" in str(refusal.message_hint)


def test_repair_names_a_revision_that_a_restored_corpus_has_not(module_db: Database, reader: Connection) -> None:
    corpus = fill(module_db, searched_corpus(module_db))
    expected = warm(reader, corpus)
    module_db.execute("DELETE FROM graphrag.corpus_revisions WHERE corpus_id = %s", [corpus_id(module_db, corpus)])
    assert results(reader, corpus) == expected
    module_db.execute("SELECT graphrag.repair()")
    assert value(
        module_db, "SELECT count(*) FROM graphrag.corpus_revisions WHERE corpus_id = %s", corpus_id(module_db, corpus)
    )


def test_a_number_that_another_transaction_brings_back_is_another_revision(module_db: Database, corpus: str) -> None:
    # As after a restore: the number is one of another server, or will come here once more.
    revision, number = f"SELECT {REVISION.format(corpus='%s')}", corpus_id(module_db, corpus)
    before = value(module_db, revision, number)
    assert before == value(module_db, revision, number)
    module_db.execute("UPDATE graphrag.corpus_revisions SET revision = revision WHERE corpus_id = %s", [number])
    assert value(module_db, revision, number) not in (None, before)


def test_a_session_that_had_too_little_memory_says_so_and_answers_as_a_new_one(
    module_db: Database, corpus: str
) -> None:
    statement = "SELECT to_jsonb(x) #>> '{}' FROM graphrag.search(%s, %s, 'mix') x"
    expected = rows(module_db, statement, QUESTION, corpus)
    # Once each, where it may run out.
    for module, function in (
        ("query.rankings", "ranking"),
        ("retrievers.dense", "windows"),
        ("retrievers.graph_evidence", "match_entities"),
        ("contexts.best_rows", "_rows"),
    ):
        with psycopg.connect(module_db.url, autocommit=True) as connection:
            connection.execute("SELECT graphrag.search('Ada', %s, 'mix')", [corpus])
            connection.execute(
                f"""DO LANGUAGE plpython3u $$
                    import sys
                    from importlib import import_module
                    module = import_module("pg_graphrag.search.{module}")
                    original = module.{function}
                    def short(*arguments, **options):
                        for other in list(sys.modules.values()):
                            if getattr(other, "{function}", None) is short:
                                other.{function} = original
                        raise MemoryError("no more")
                    for other in list(sys.modules.values()):
                        if getattr(other, "{function}", None) is original:
                            other.{function} = short
                $$""".encode()
            )
            diag = refused(connection, statement, QUESTION, corpus)
            assert (diag.sqlstate, diag.message_detail) == ("53200", "no more"), (module, diag.message_primary)
            assert diag.message_hint
            assert rows(connection, statement, QUESTION, corpus) == expected
