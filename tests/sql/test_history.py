"""keep_history(): what a document said at a moment is found again, in every mode, by whom the history is opened to."""

import json
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from pg_graphrag.ground.mode_names import MODES
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.acting import acting_as, denied, new_role
from tests.sql import asking
from tests.sql.ingest import STORIES, Connection, delete, index_all, put, refused, rows, searched_corpus, value, work

REPLY = asking.lines
OLD = "Ada Lovelace leads Acme Rockets in Osaka. Ada Lovelace built the Kestrel engine."
NEW = "Bob Stone leads Acme Rockets in Oslo. Bob Stone built the Kestrel engine."
OTHER = "Acme Rockets makes the Kestrel engine. Osaka has a harbour."
QUERY = "Who leads Acme Rockets and the Kestrel engine?"


def with_history(db: Connection, **documents: str) -> tuple[str, str]:
    """A corpus of these documents, and its history."""
    corpus = searched_corpus(db)
    for key, content in documents.items():
        put(db, corpus, key, content)
    history = f"{corpus} history"
    db.execute("SELECT graphrag.keep_history(%s, %s)", [corpus, history])
    return corpus, history


def now(db: Connection) -> str:
    """This moment; what was written before is before it, what is written later is after it."""
    time.sleep(0.01)
    moment = value(db, "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
    time.sleep(0.01)
    return str(moment)


def found(db: Connection, corpus: str, mode: str = "hybrid", **options: Any) -> list[tuple[str, str]]:
    """Keys without their marks, and texts."""
    sql = "SELECT split_part(source_key, '@', 1), content FROM graphrag.search(%s, %s, %s, options => %s)"
    return rows(db, sql, QUERY, corpus, mode, Jsonb(options))


def versions(db: Connection, corpus: str) -> list[tuple[Any, ...]]:
    columns = "source_key, version, is_latest, content, valid_to IS NULL"
    sql = f"SELECT {columns} FROM graphrag.versions WHERE corpus = %s ORDER BY 1, 2"
    return rows(db, sql, corpus)


def violations(db: Connection, *corpora: str) -> list[Any]:
    return [row for corpus in corpora for row in rows(db, "SELECT * FROM graphrag.check(%s)", corpus)]


@pytest.fixture(scope="module")
def changed(module_db: Database) -> tuple[str, str, str, str]:
    """A corpus, its history, a moment before one of its documents was replaced, and one after."""
    corpus, history = with_history(module_db, leader=OLD, maker=OTHER)
    before = now(module_db)
    put(module_db, corpus, "leader", NEW)
    after = now(module_db)
    work(module_db)
    return corpus, history, before, after


@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("graph_global", "drift")])
def test_every_mode_finds_what_was_said_then(
    module_db: Database, changed: tuple[str, str, str, str], mode: str
) -> None:
    corpus, history, before, after = changed
    then, later = (dict(found(module_db, history, mode, as_of=moment)) for moment in (before, after))
    assert then["leader"] == OLD
    assert later["leader"] == NEW
    assert set(then) == set(later) <= {"leader", "maker"}
    assert dict(found(module_db, corpus, mode))["leader"] == NEW


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("graph_global", "drift")])
def test_as_of_a_moment_a_corpus_answers_as_its_history(
    module_db: Database, changed: tuple[str, str, str, str], mode: str
) -> None:
    corpus, history, before, after = changed
    sql = "SELECT source_key, content, score, document_id, explain - 'history' FROM graphrag.search(%s, %s, %s, options => %s)"
    for moment in (before, after):
        then = rows(module_db, sql, QUERY, corpus, mode, Jsonb({"as_of": moment}))
        assert then and then == rows(module_db, sql, QUERY, history, mode, Jsonb({"as_of": moment}))
    noted = "SELECT DISTINCT explain ->> 'history' FROM graphrag.search(%s, %s, %s, options => %s)"
    assert rows(module_db, noted, QUERY, corpus, mode, Jsonb({"as_of": before})) == [(history,)]


def test_context_neighbors_entities_and_views_of_a_corpus_are_of_its_history(
    module_db: Database, changed: tuple[str, str, str, str]
) -> None:
    corpus, history, before, after = changed
    then = Jsonb({"$as_of": before})
    for sql, values in (
        ("SELECT graphrag.context(%s, %s, options => %s)::text", (QUERY, corpus, Jsonb({"as_of": before}))),
        ("SELECT array_agg(name) FROM graphrag.neighbors('Acme Rockets', corpus => %s, filter => %s)", (corpus, then)),
        ("SELECT array_agg(name) FROM graphrag.search_entities('Ada', %s, filter => %s)", (corpus, then)),
        ("SELECT array_agg(name) FROM graphrag.graph_nodes_at(%s, %s)", (corpus, before)),
        ("SELECT array_agg(source || target) FROM graphrag.graph_edges_at(%s, %s)", (corpus, before)),
    ):
        answer = value(module_db, sql, *values)
        assert "Ada Lovelace" in str(answer) and "Bob Stone" not in str(answer), sql
        assert answer == value(module_db, sql, *(history if item == corpus else item for item in values)), sql
    names = "SELECT array_agg(name) FROM graphrag.graph_nodes_at(%s, %s)"
    assert "Ada Lovelace" not in value(module_db, names, corpus, after)


def test_an_answer_of_a_moment_cites_the_version_of_that_moment(module_db: Database, endpoint: Endpoint) -> None:
    corpus = asking.stories(module_db, endpoint)
    module_db.execute("SELECT graphrag.keep_history(%s, %s)", [corpus, f"{corpus} history"])
    before = now(module_db)
    put(module_db, corpus, "ada", "Ada Lovelace sold the Analytical Engine.")
    delete(module_db, corpus, "turing")
    work(module_db)
    question = "What did Ada Lovelace write?"
    _, citations, _, context = asking.ask(module_db, question, corpus, options={"as_of": before})
    (cited,) = citations
    key = "SELECT content FROM graphrag.versions WHERE corpus = %s AND version_key = %s"
    assert value(module_db, key, corpus, cited["source_key"]) in STORIES.values()
    assert "wrote notes on the Analytical Engine" in json.dumps(context) and "sold" not in json.dumps(context)
    _, _, _, context = asking.ask(module_db, question, corpus)
    assert "sold the Analytical Engine" in json.dumps(context)


def test_a_filter_of_keys_names_documents_as_of_a_moment(
    module_db: Database, changed: tuple[str, str, str, str]
) -> None:
    corpus, history, before, _ = changed
    keys = "SELECT DISTINCT content FROM graphrag.search(%s, %s, filter => %s, options => %s)"
    moment = Jsonb({"as_of": before})
    module_db.execute(
        "CREATE TABLE public.chosen AS SELECT 'leader' AS source_key; GRANT SELECT ON public.chosen TO PUBLIC"
    )
    for chosen in ("leader", {"$in": ["leader", "none"]}, {"$prefix": "lead"}, {"$ne": "maker"}):
        assert rows(module_db, keys, QUERY, corpus, Jsonb({"$source_key": chosen}), moment) == [(OLD,)]
    assert rows(module_db, keys, QUERY, corpus, Jsonb({"$relation": "public.chosen"}), moment) == [(OLD,)]
    # The history itself is asked by the keys of its own documents.
    assert rows(module_db, keys, QUERY, history, Jsonb({"$source_key": "leader"}), moment) == []
    assert rows(module_db, keys, QUERY, history, Jsonb({"$source_key": {"$prefix": "leader@"}}), moment) == [(OLD,)]


def test_as_of_shows_a_reader_of_the_corpus_what_the_history_is_open_for(
    module_db: Database, changed: tuple[str, str, str, str]
) -> None:
    corpus, history, before, _ = changed
    with new_role(module_db) as reader:
        module_db.execute("SELECT graphrag.grant_corpus(%s, %s, 'read')", [corpus, reader])
        with acting_as(module_db, reader) as session:
            assert dict(found(session, corpus))["leader"] == NEW
            denied(session, "SELECT FROM graphrag.search('Acme', %s, options => %s)", corpus, Jsonb({"as_of": before}))
        module_db.execute("SELECT graphrag.grant_corpus(%s, %s, 'read')", [history, reader])
        with acting_as(module_db, reader) as session:
            assert found(session, corpus, as_of=before) == []
        module_db.execute("SELECT graphrag.protect(%s, $$starts_with(source_key, 'leader@')$$)", [history])
        with acting_as(module_db, reader) as session:
            assert found(session, corpus, as_of=before) == [("leader", OLD)]
        module_db.execute("SELECT graphrag.protect(%s, 'false')", [history])


def test_an_answer_and_its_context_are_those_of_the_moment(
    module_db: Database, changed: tuple[str, str, str, str]
) -> None:
    _, history, before, after = changed
    sql = "SELECT graphrag.context(%s, %s, options => %s)::text"
    for moment, town, other in ((before, "Osaka", "Oslo"), (after, "Oslo", "Bob Stone leads Acme Rockets in Osaka")):
        context = value(module_db, sql, QUERY, history, Jsonb({"as_of": moment}))
        assert town in context
        assert other not in context
    nodes = "SELECT array_agg(name) FROM graphrag.graph_nodes_at(%s, %s)"
    assert "Ada Lovelace" in value(module_db, nodes, history, before)
    assert "Ada Lovelace" not in value(module_db, nodes, history, after)
    assert violations(module_db, *changed[:2]) == []


def test_the_corpus_is_as_without_a_history(module_db: Database, changed: tuple[str, str, str, str]) -> None:
    plain = index_all(module_db, searched_corpus(module_db), {"leader": NEW, "maker": OTHER})
    fingerprint = "SELECT graphrag.fingerprint(%s)"
    assert value(module_db, fingerprint, changed[0]) == value(module_db, fingerprint, plain)


def test_versions_are_numbered_and_say_until_when(module_db: Database, changed: tuple[str, str, str, str]) -> None:
    assert versions(module_db, changed[0]) == [
        ("leader", 1, False, OLD, False),
        ("leader", 2, True, NEW, True),
        ("maker", 1, True, OTHER, True),
    ]
    ends = (
        "SELECT o.valid_to = n.valid_from FROM graphrag.versions o JOIN graphrag.versions n USING (corpus, source_key)"
    )
    assert rows(module_db, f"{ends} WHERE corpus = %s AND (o.version, n.version) = (1, 2)", changed[0]) == [(True,)]


def change_key(db: Connection, corpus: str) -> None:
    db.execute("UPDATE graphrag.documents SET source_key = 'b' WHERE corpus = %s", [corpus])


def change_metadata(db: Connection, corpus: str) -> None:
    db.execute("UPDATE graphrag.documents SET metadata = '{\"a\": 1}' WHERE corpus = %s", [corpus])


def change_title(db: Connection, corpus: str) -> None:
    db.execute("UPDATE graphrag.documents SET title = 'T' WHERE corpus = %s", [corpus])


def change_nothing(db: Connection, corpus: str) -> None:
    put(db, corpus, "a", OLD)


def change_and_change_back(db: Connection, corpus: str) -> None:
    put(db, corpus, "a", NEW)
    put(db, corpus, "a", OLD)


def delete_and_insert(db: Connection, corpus: str) -> None:
    delete(db, corpus, "a")
    put(db, corpus, "a", NEW)


def retract(db: Connection, corpus: str) -> None:
    db.execute("SELECT graphrag.retract(%s, 'a', 'Wrong.')", [corpus])


def retract_and_undo(db: Connection, corpus: str) -> None:
    retract(db, corpus)
    put(db, corpus, "a", NEW)
    db.execute("SELECT graphrag.undo_retraction(%s, 'a')", [corpus])


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (change_key, [("a", False, OLD, False), ("b", True, OLD, True)]),
        (change_metadata, [("a", False, OLD, False), ("a", True, OLD, True)]),
        (change_title, [("a", False, OLD, False), ("a", True, OLD, True)]),
        (change_nothing, [("a", True, OLD, True)]),
        (change_and_change_back, [("a", False, OLD, False), ("a", False, NEW, False), ("a", True, OLD, True)]),
        (delete_and_insert, [("a", False, OLD, False), ("a", True, NEW, True)]),
        (retract, [("a", True, OLD, False)]),
        (retract_and_undo, [("a", False, OLD, False), ("a", True, NEW, True)]),
        (lambda db, corpus: delete(db, corpus, "a"), [("a", False, OLD, False)]),
    ],
)
def test_each_change_ends_a_version_and_begins_the_next(
    module_db: Database, change: Callable[[Connection, str], None], expected: list[tuple[Any, ...]]
) -> None:
    corpus, history = with_history(module_db, a=OLD)
    before = now(module_db)
    change(module_db, corpus)
    after = now(module_db)
    assert [row[:1] + row[2:] for row in versions(module_db, corpus)] == expected
    work(module_db)
    assert found(module_db, history, as_of=before) == [("a", OLD)]
    assert found(module_db, history, as_of=after) == [(row[0], row[2]) for row in expected if row[3]]
    assert violations(module_db, corpus, history) == []


def test_a_transaction_writes_one_version(module_db: Database) -> None:
    corpus, history = with_history(module_db, a=OLD)
    with module_db.transaction():
        put(module_db, corpus, "b", OLD)
        put(module_db, corpus, "b", OTHER)
        put(module_db, corpus, "c", OLD)
        delete(module_db, corpus, "c")
        put(module_db, corpus, "c", NEW)
        put(module_db, corpus, "a", OTHER)
        put(module_db, corpus, "a", NEW)
    assert [row[:4] for row in versions(module_db, corpus)] == [
        ("a", 1, False, OLD),
        ("a", 2, True, NEW),
        ("b", 1, True, OTHER),
        ("c", 1, True, NEW),
    ]
    work(module_db)
    assert violations(module_db, corpus, history) == []


def test_documents_that_say_when_they_are_valid_are_valid_then(module_db: Database) -> None:
    corpus, history = with_history(module_db)
    insert = (
        "INSERT INTO graphrag.documents (corpus, source_key, content, valid_from, valid_to) VALUES (%s, %s, %s, %s, %s)"
    )
    module_db.execute(insert.encode(), [corpus, "a", OLD, None, "2022-01-01"])
    module_db.execute(insert.encode(), [corpus, "b", OTHER, "2019-01-01", None])
    module_db.execute(
        "UPDATE graphrag.documents SET content = %s, valid_from = '2023-01-01' WHERE source_key = 'b' AND corpus = %s",
        [NEW, corpus],
    )
    work(module_db)
    for moment, expected in (
        ("2018-01-01", {("a", OLD)}),
        ("2020-01-01", {("a", OLD), ("b", OTHER)}),
        ("2022-06-01", {("b", OTHER)}),
        ("2024-01-01", {("b", NEW)}),
    ):
        assert set(found(module_db, history, as_of=moment)) == expected
    module_db.execute(
        "UPDATE graphrag.documents SET valid_to = '2025-01-01' WHERE source_key = 'b' AND corpus = %s", [corpus]
    )
    assert found(module_db, history, as_of="2026-01-01") == []
    assert [row[1:3] for row in versions(module_db, corpus)] == [(1, True), (1, False), (2, True)]


@pytest.mark.parametrize("kept_before", [True, False])
def test_what_came_retracted_is_found_as_of_moments_when_it_was_valid(module_db: Database, kept_before: bool) -> None:
    """The first example of pg-raggraph's cookbook on evolution: a paper of 1992, ingested with its retraction of 2002."""
    corpus = searched_corpus(module_db)
    history = f"{corpus} history"
    keep = "SELECT graphrag.keep_history(%s, %s)"
    if kept_before:
        module_db.execute(keep.encode(), [corpus, history])
    insert = (
        "INSERT INTO graphrag.documents (corpus, source_key, content, valid_from, retracted_at, retraction_reason)"
        " VALUES (%s, %s, %s, %s, %s, %s)"
    )
    reason = "WHI 2002 RCT invalidated findings"
    module_db.execute(insert.encode(), [corpus, "1992", OLD, "1992-06-01", "2002-07-17", reason])
    module_db.execute(insert.encode(), [corpus, "undated", OLD, None, "2002-07-17", reason])
    module_db.execute(insert.encode(), [corpus, "2002", NEW, "2002-07-17", None, None])
    if not kept_before:
        module_db.execute(keep.encode(), [corpus, history])
    work(module_db)
    assert found(module_db, corpus) == [("2002", NEW)]
    for moment, expected in (("1990-01-01", []), ("2001-12-31", [("1992", OLD)]), ("2010-01-01", [("2002", NEW)])):
        assert found(module_db, corpus, as_of=moment) == expected
    assert violations(module_db, corpus, history) == []
    module_db.execute("SELECT graphrag.repair()")
    work(module_db)
    assert len(versions(module_db, corpus)) == 2
    assert violations(module_db, corpus, history) == []


def test_a_transaction_that_began_before_leaves_no_gap_and_no_overlap(module_db: Database) -> None:
    corpus, _ = with_history(module_db, a=OLD)
    with psycopg.connect(module_db.url) as slow:
        slow.execute("SELECT now()")
        put(module_db, corpus, "a", OTHER)
        put(slow, corpus, "a", NEW)
    spans = (
        "SELECT array_agg(valid_to ORDER BY version), array_agg(valid_from ORDER BY valid_from, valid_to)"
        "  FROM graphrag.versions WHERE corpus = %s"
    )
    ((ends, beginnings),) = rows(module_db, spans, corpus)
    assert sorted(end for end in ends if end)[-1] == beginnings[-1]
    latest = "SELECT content FROM graphrag.versions WHERE corpus = %s AND is_latest AND valid_to IS NULL"
    assert rows(module_db, latest, corpus) == [(NEW,)]


def test_any_key_has_a_version(module_db: Database) -> None:
    keys = ["a", "a@2026-01-01T00:00:00.000000Z", "x" * 2000, "日本@"]
    corpus, history = with_history(module_db)
    with module_db.transaction():
        for key in keys:
            put(module_db, corpus, key, f"Ada Lovelace wrote {key[:5]}.")
    assert len(versions(module_db, corpus)) == len(keys)
    work(module_db)
    assert violations(module_db, corpus, history) == []


def test_a_history_is_closed_until_its_owner_opens_it(module_db: Database, changed: tuple[str, str, str, str]) -> None:
    corpus, history, before, _ = changed
    with new_role(module_db) as writer:
        for name in (corpus, history):
            module_db.execute("SELECT graphrag.grant_corpus(%s, %s, 'read')", [name, writer])
        module_db.execute("SELECT graphrag.grant_corpus(%s, %s, 'write')", [corpus, writer])
        with acting_as(module_db, writer) as session:
            assert found(session, history, as_of=before) == []
            assert versions(session, corpus) == []
            assert rows(session, "SELECT FROM graphrag.documents WHERE corpus = %s", history) == []
            # He writes the corpus, and so the history, but not the history itself.
            put(session, corpus, "mine", "Ada Lovelace again.", metadata={"secret": False})
            denied(
                session, "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES (%s, 'x', 'x')", history
            )
            assert session.execute("DELETE FROM graphrag.documents WHERE corpus = %s", [history]).rowcount == 0
            denied(session, "UPDATE graphrag.documents SET version_of = 1")
            denied(session, "SELECT graphrag.keep_history(%s, 'x')", corpus)
            denied(session, "SELECT graphrag.end_history(%s)", corpus)
            denied(session, "SELECT graphrag._begin_versions(ARRAY[1], ARRAY[now()])")
        # Opened, a version goes by what it says itself: not by what its document says now.
        module_db.execute("SELECT graphrag.protect(%s, $$metadata @> '{\"secret\": false}'$$)", [history])
        put(module_db, corpus, "mine", "Ada Lovelace in secret.", metadata={"secret": True})
        with acting_as(module_db, writer) as session:
            assert [row[3] for row in versions(session, corpus)] == ["Ada Lovelace again."]
        delete(module_db, corpus, "mine")
        module_db.execute("SELECT graphrag.protect(%s, 'false')", [history])


def test_a_writer_of_the_table_cannot_forge_a_version(module_db: Database, changed: tuple[str, str, str, str]) -> None:
    with new_role(module_db) as writer:
        module_db.execute(
            f"GRANT USAGE ON SCHEMA graphrag TO {writer}; GRANT INSERT, UPDATE, SELECT ON graphrag.documents TO {writer}".encode()
        )
        with acting_as(module_db, writer) as session:
            insert = "INSERT INTO graphrag.documents (corpus, source_key, content, version_of) VALUES (%s, 'x', 'x', 1)"
            denied(session, insert, changed[0])


def test_repair_writes_what_came_past_the_triggers(module_db: Database) -> None:
    corpus, history = with_history(module_db, a=OLD, b=OTHER)
    module_db.execute("SET session_replication_role = replica")
    module_db.execute(
        "UPDATE graphrag.documents SET content = %s WHERE corpus = %s AND source_key = 'a'", [NEW, corpus]
    )
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'b'", [corpus])
    module_db.execute("RESET session_replication_role")
    assert "a history has what documents say" in {row[0] for row in violations(module_db, corpus)}
    module_db.execute("SELECT graphrag.repair()")
    work(module_db)
    assert [row[:4] for row in versions(module_db, corpus)] == [
        ("a", 1, False, OLD),
        ("a", 2, True, NEW),
        ("b", 1, False, OTHER),
    ]
    assert violations(module_db, corpus, history) == []


def test_forget_names_the_versions_until_they_are_forgotten_too(module_db: Database) -> None:
    corpus, history = with_history(module_db, a=OLD, b=OTHER)
    index_all(module_db, corpus, {"a": NEW})
    forget = "SELECT place, remaining FROM graphrag.forget(%s, %s) WHERE detail = 'has versions of the document'"
    assert rows(module_db, forget, corpus, "a") == [(f'corpus "{history}"', 2)]
    of_a = "SELECT version_key FROM graphrag.versions WHERE corpus = %s AND source_key = 'a'"
    for (key,) in rows(module_db, of_a, corpus):
        rows(module_db, forget, history, key)
    assert rows(module_db, of_a, corpus) == []
    assert rows(module_db, forget, corpus, "a") == []


def test_its_end_keeps_what_there_is_and_no_more(module_db: Database) -> None:
    corpus, history = with_history(module_db, a=OLD)
    work(module_db)
    module_db.execute("SELECT graphrag.end_history(%s)", [corpus])
    put(module_db, corpus, "a", NEW)
    assert rows(module_db, "SELECT content FROM graphrag.documents WHERE corpus = %s", history) == [(OLD,)]
    work(module_db)
    assert found(module_db, corpus, as_of="2020-01-01") == [("a", NEW)]
    assert versions(module_db, corpus) == []
    module_db.execute("SELECT graphrag.keep_history(%s, %s)", [corpus, f"{history} 2"])
    # Either may be dropped first.
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [f"{history} 2"])
    put(module_db, corpus, "a", OTHER)
    module_db.execute("SELECT graphrag.keep_history(%s, %s)", [corpus, f"{history} 3"])
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    assert rows(
        module_db, "SELECT content, valid_to IS NULL FROM graphrag.documents WHERE corpus = %s", f"{history} 3"
    ) == [(OTHER, False)]


def test_bad_arguments_are_refused_with_a_hint(module_db: Database, changed: tuple[str, str, str, str]) -> None:
    corpus, history = changed[:2]
    plain = searched_corpus(module_db)
    for statement, sqlstate, *arguments in (
        ("SELECT graphrag.keep_history(%s, 'x')", "55000", corpus),
        ("SELECT graphrag.keep_history(%s, 'x')", "55000", history),
        ("SELECT graphrag.keep_history(%s, %s)", "23505", plain, history),
        ("SELECT graphrag.keep_history(%s, 'x', '{\"nothing\": 1}')", "22023", plain),
        ("SELECT graphrag.keep_history('no corpus', 'x')", "42704"),
        ("SELECT graphrag.keep_history(%s, '')", "22023", plain),
        ("SELECT graphrag.end_history(%s)", "42704", plain),
    ):
        error = refused(module_db, statement, *arguments)
        assert (error.sqlstate, bool(error.message_hint)) == (sqlstate, True), statement
