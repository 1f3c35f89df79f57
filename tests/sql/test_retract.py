"""retract(): a retracted document is a row with a reason, and nothing that anybody finds."""

import json
from typing import Any

import psycopg
import pytest
from pg_graphrag.ground.mode_names import MODES
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.acting import acting_as, new_role
from tests.security.readers import session_of
from tests.sql.ingest import (
    STORIES,
    Connection,
    canonical,
    delete,
    index_all,
    jobs,
    new_corpus,
    put_all,
    refused,
    rows,
    search,
    statuses,
    value,
    work,
)
from tests.sql.llm import provider

QUERY = "Who admired Ada Lovelace at the Analytical Engine?"
REASON = "The notes were forged."


def retract(db: Connection, corpus: str, key: str, *more: Any) -> None:
    places = ", %s" * len(more)
    db.execute(f"SELECT graphrag.retract(%s, %s, %s{places})".encode(), [corpus, key, REASON, *more])


def undo(db: Connection, corpus: str, key: str) -> None:
    db.execute("SELECT graphrag.undo_retraction(%s, %s)", [corpus, key])


def stories(db: Connection, *left_out: str) -> str:
    corpus = new_corpus(db)
    put_all(db, corpus, {key: text for key, text in STORIES.items() if key not in left_out})
    return corpus


def fingerprint(db: Connection, corpus: str) -> str:
    return str(value(db, "SELECT graphrag.fingerprint(%s)", corpus))


def violations(db: Connection, corpus: str) -> list[Any]:
    return rows(db, "SELECT * FROM graphrag.check(%s)", corpus)


def without_documents(portrait: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in portrait.items() if name != "documents"}


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("graph_global", "drift")])
def test_no_mode_finds_it_before_or_after_a_worker_has_run(module_db: Database, mode: str) -> None:
    corpus = stories(module_db)
    work(module_db)
    assert "ada" in {row["source_key"] for row in search(module_db, QUERY, corpus, mode)}
    retract(module_db, corpus, "ada")
    for _ in range(2):
        answer = search(module_db, QUERY, corpus, mode)
        assert answer
        assert "ada" not in {row["source_key"] for row in answer}
        context = value(module_db, "SELECT graphrag.context(%s, %s, %s)", QUERY, corpus, mode)
        assert STORIES["ada"] not in json.dumps(context)
        work(module_db)
    assert violations(module_db, corpus) == []


def test_what_is_left_is_what_the_other_documents_make(module_db: Database) -> None:
    corpus, other = stories(module_db), stories(module_db, "ada")
    work(module_db)
    retract(module_db, corpus, "ada")
    work(module_db)
    assert without_documents(canonical(module_db, corpus)) == without_documents(canonical(module_db, other))
    for mode in ("hybrid", "bm25", "local"):
        left, right = (
            [
                (row["source_key"], row["content"], round(row["score"], 4))
                for row in search(module_db, QUERY, name, mode)
            ]
            for name in (corpus, other)
        )
        assert left == right
    assert violations(module_db, corpus) == []


def test_its_row_and_its_coverage_say_when_and_why(module_db: Database) -> None:
    corpus = stories(module_db)
    work(module_db)
    retract(module_db, corpus, "ada", "2024-05-01 12:00+00")
    columns = "source_key, status, retracted_at AT TIME ZONE 'UTC' = '2024-05-01 12:00', retraction_reason"
    sql = f"SELECT {columns} FROM graphrag.{{}} WHERE corpus = %s AND retracted_at IS NOT NULL"
    expected = [("ada", "retracted", True, REASON)]
    assert rows(module_db, sql.format("documents"), corpus) == expected
    with session_of(module_db, "graphrag_reader") as reader:
        assert rows(reader, sql.format("document_coverage"), corpus) == expected
        counts = (
            "SELECT chunks + tokens + entities FROM graphrag.document_coverage WHERE corpus = %s AND source_key = 'ada'"
        )
        assert value(reader, counts, corpus) == 0
    assert rows(
        module_db, "SELECT documents, indexed, pending, retracted FROM graphrag.progress WHERE corpus = %s", corpus
    ) == [(len(STORIES), len(STORIES) - 1, 0, 1)]


def test_an_undone_retraction_leaves_no_trace(module_db: Database) -> None:
    corpus = stories(module_db)
    work(module_db)
    before = fingerprint(module_db, corpus)
    retract(module_db, corpus, "ada")
    work(module_db)
    assert fingerprint(module_db, corpus) != before
    undo(module_db, corpus, "ada")
    assert jobs(module_db, corpus) == [("ada", "index", "pending", False)]
    work(module_db)
    assert fingerprint(module_db, corpus) == before
    undo(module_db, corpus, "ada")
    assert jobs(module_db, corpus) == []
    # Retracted and taken back before a worker comes.
    retract(module_db, corpus, "ada")
    undo(module_db, corpus, "ada")
    work(module_db)
    assert fingerprint(module_db, corpus) == before
    assert violations(module_db, corpus) == []


def test_the_order_of_what_happens_changes_nothing(module_db: Database) -> None:
    moment = "2024-05-01 12:00+00"
    late, early, at_once = stories(module_db), stories(module_db), stories(module_db, "ada")
    retract(module_db, early, "ada", moment)
    module_db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, content, retracted_at, retraction_reason)"
        " VALUES (%s, 'ada', %s, %s, %s)",
        [at_once, STORIES["ada"], moment, REASON],
    )
    work(module_db)
    retract(module_db, late, "ada", moment)
    work(module_db)
    index_all(module_db, late, {"turing": "Something else."})
    index_all(module_db, late, {"turing": STORIES["turing"]})
    assert fingerprint(module_db, late) == fingerprint(module_db, early) == fingerprint(module_db, at_once)
    assert jobs(module_db, at_once) == []


def test_new_content_of_it_is_not_found_and_its_deletion_is_one(module_db: Database) -> None:
    corpus = stories(module_db)
    work(module_db)
    retract(module_db, corpus, "ada")
    index_all(module_db, corpus, {"ada": "Ada Lovelace wrote another thing on the Analytical Engine."})
    assert statuses(module_db, corpus)["ada"] == "retracted"
    assert "ada" not in {row["source_key"] for row in search(module_db, QUERY, corpus)}
    delete(module_db, corpus, "ada")
    work(module_db)
    assert fingerprint(module_db, corpus) == fingerprint(module_db, finished(module_db, "ada"))
    assert violations(module_db, corpus) == []


def finished(module_db: Connection, *left_out: str) -> str:
    corpus = stories(module_db, *left_out)
    work(module_db)
    return corpus


def test_what_a_worker_has_at_hand_is_not_written(module_db: Database) -> None:
    """A model reads the document; meanwhile it is retracted."""
    with Endpoint() as endpoint:
        model = {"provider": provider(module_db, endpoint), "model": "m"}
        corpus = new_corpus(module_db, extractor="llm", max_gleaning=0, llm={"roles": {"extract": model}})

        def reply(messages: Any) -> str:
            with psycopg.connect(module_db.url, autocommit=True) as other:
                retract(other, corpus, "ada")
            return json.dumps({"entities": [{"name": "Ada Lovelace", "type": "person", "description": "A."}]})

        endpoint.reply(reply)
        index_all(module_db, corpus, {"ada": STORIES["ada"]})
        assert endpoint.requests
    assert value(module_db, "SELECT chunks FROM graphrag.progress WHERE corpus = %s", corpus) == 0
    assert statuses(module_db, corpus) == {"ada": "retracted"}
    assert violations(module_db, corpus) == []


@pytest.mark.slow
def test_repair_finds_what_came_past_the_triggers(module_db: Database) -> None:
    corpus = stories(module_db)
    work(module_db)
    module_db.execute("ALTER TABLE graphrag.documents DISABLE TRIGGER USER")
    module_db.execute(
        "UPDATE graphrag.documents SET retracted_at = now() WHERE corpus = %s AND source_key = 'ada'", [corpus]
    )
    module_db.execute(
        "UPDATE graphrag.documents SET status = 'retracted' WHERE corpus = %s AND source_key = 'turing'", [corpus]
    )
    module_db.execute("ALTER TABLE graphrag.documents ENABLE TRIGGER USER")
    assert {
        row[1].split("(")[1] for row in violations(module_db, corpus) if row[0] == "a retracted document is not indexed"
    } == {"ada)", "turing)"}
    module_db.execute("SELECT graphrag.repair()")
    work(module_db)
    assert violations(module_db, corpus) == []
    assert statuses(module_db, corpus) == dict.fromkeys(STORIES, "indexed") | {"ada": "retracted"}
    assert without_documents(canonical(module_db, corpus)) == without_documents(
        canonical(module_db, finished(module_db, "ada"))
    )


def test_a_clone_and_new_options_leave_it_retracted(module_db: Database) -> None:
    corpus = stories(module_db)
    retract(module_db, corpus, "ada")
    work(module_db)
    copy = f"{corpus} copy"
    module_db.execute("SELECT graphrag.clone_corpus(%s, %s)", [corpus, copy])
    module_db.execute(
        "SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"chunk_token_size": 60, "chunk_overlap": 0})]
    )
    work(module_db)
    assert (
        statuses(module_db, corpus)
        == statuses(module_db, copy)
        == dict.fromkeys(STORIES, "indexed") | {"ada": "retracted"}
    )
    assert rows(module_db, "SELECT failed, pending FROM graphrag.wait_indexed(%s)", corpus) == [(0, 0)]
    assert violations(module_db, corpus) == violations(module_db, copy) == []


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        (["ada", ""], "22023"),
        (["ada", "  "], "22023"),
        (["ada", None], "22023"),
        (["ada", REASON, "2999-01-01"], "22023"),
        (["ada", REASON, None], "22023"),
        (["nobody", REASON], "P0002"),
        ([None, REASON], "P0002"),
    ],
)
def test_bad_arguments_are_refused_with_a_hint(module_db: Database, arguments: list[Any], sqlstate: str) -> None:
    corpus = stories(module_db)
    places = ", ".join(["%s"] + ["%s"] * len(arguments))
    error = refused(module_db, f"SELECT graphrag.retract({places})", corpus, *arguments)
    assert (error.sqlstate, bool(error.message_hint)) == (sqlstate, True)
    assert refused(module_db, "SELECT graphrag.undo_retraction('no corpus', 'x')").sqlstate == "42704"
    reason = "UPDATE graphrag.documents SET retraction_reason = 'x' WHERE corpus = %s"
    assert refused(module_db, reason, corpus).sqlstate == "23514"


def test_who_may_not_write_a_document_does_not_retract_it(module_db: Database) -> None:
    mine, theirs = finished(module_db), finished(module_db)
    module_db.execute("SELECT graphrag.protect(%s, $$source_key <> 'turing'$$)", [mine])
    with new_role(module_db) as writer, new_role(module_db) as reader:
        module_db.execute("SELECT graphrag.grant_corpus(%s, %s, 'write')", [mine, writer])
        module_db.execute("SELECT graphrag.grant_corpus(%s, %s, 'read')", [theirs, writer])
        module_db.execute("SELECT graphrag.grant_corpus(%s, %s, 'read')", [mine, reader])
        call = "SELECT graphrag.retract(%s, %s, 'x')"
        with acting_as(module_db, reader) as session:
            assert refused(session, call, mine, "ada").sqlstate == "42501"
        with acting_as(module_db, writer) as session:
            # A document that is hidden is as one that is not there.
            hidden, missing = (refused(session, call, mine, key) for key in ("turing", "nobody"))
            assert hidden.sqlstate == missing.sqlstate == "P0002"
            assert str(hidden.message_primary).replace("turing", "nobody") == missing.message_primary
            assert refused(session, call, theirs, "ada").sqlstate == "P0002"
            session.execute(call.encode(), [mine, "ada"])
            undo(session, mine, "ada")
            session.execute(call.encode(), [mine, "ada"])
    work(module_db)
    assert statuses(module_db, mine) == dict.fromkeys(STORIES, "indexed") | {"ada": "retracted"}
    assert statuses(module_db, theirs) == dict.fromkeys(STORIES, "indexed")


def protected(module_db: Database, *left_out: str) -> str:
    """The stories, of which readers do not see "hopper"."""
    corpus = finished(module_db, *left_out)
    module_db.execute("SELECT graphrag.protect(%s, $$source_key <> 'hopper'$$)", [corpus])
    return corpus


def test_a_reader_of_a_part_finds_nothing_of_a_retracted_document(module_db: Database) -> None:
    corpus, other = protected(module_db), protected(module_db, "ada")
    retract(module_db, corpus, "ada")
    work(module_db)
    with session_of(module_db, "graphrag_reader") as reader:
        for mode in ("hybrid", "bm25", "naive", "local", "ppr"):
            left, right = (
                [(row["source_key"], round(row["score"], 4)) for row in search(reader, QUERY, name, mode)]
                for name in (corpus, other)
            )
            assert left == right


def test_the_graph_of_a_reader_of_a_part_says_nothing_of_a_retracted_document(module_db: Database) -> None:
    corpus, other = protected(module_db), protected(module_db, "ada")
    retract(module_db, corpus, "ada")
    work(module_db)
    nodes = 'SELECT key, name, description, degree FROM graphrag.graph_nodes WHERE corpus = %s ORDER BY key COLLATE "C"'
    with session_of(module_db, "graphrag_reader") as reader:
        assert rows(reader, nodes, corpus) == rows(reader, nodes, other)


def test_views_are_of_the_other_documents_before_a_worker_came(db: Database) -> None:
    corpus = index_all(db, new_corpus(db), STORIES)
    views = (
        "SELECT entity_id, key, name, type, description, degree, mention_count, origin FROM graphrag.graph_nodes",
        "SELECT * FROM graphrag.graph_edges",
    )

    def shown() -> list[Any]:
        return [sorted(map(repr, rows(db, f"{view} WHERE corpus = %s", corpus))) for view in views]

    whole = shown()
    retract(db, corpus, "ada")
    with new_role(db, "IN ROLE graphrag_reader") as reader:
        before = shown()
        with acting_as(db, reader):
            assert shown() == before
    work(db)
    assert before == shown()
    assert all(before) and before != whole
