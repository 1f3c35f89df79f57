"""Attacks on the query log: a reader adds to the log of what he may read, as himself, and not without end."""

from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.security.readers import readers, session_of
from tests.sql.ingest import STORIES, corpus_id, put_all, refused, rows, searched_corpus, value, work

LOG = "SELECT graphrag.log_query('x', %s, 'search', 'bm25', 1)"


def entries(db: Database, corpus: str) -> int:
    return int(value(db, "SELECT count(*) FROM graphrag.query_log WHERE corpus_id = %s", corpus_id(db, corpus)))


def test_the_log_of_a_corpus_that_a_reader_cannot_see_is_closed_to_him(db: Database) -> None:
    seen, hidden = (searched_corpus(db, query_log=True) for _ in range(2))
    for corpus in (seen, hidden):
        put_all(db, corpus, STORIES)
    work(db)
    with readers(db, 1) as (alice,):
        db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
        db.execute(f"CREATE POLICY seen ON graphrag.documents FOR SELECT TO {alice} USING (corpus = '{seen}')".encode())
        with session_of(db, alice) as session:
            assert [value(session, LOG, corpus) for corpus in (seen, hidden)] == [True, False]
    assert (entries(db, seen), entries(db, hidden)) == (1, 0)


def test_a_role_cannot_push_others_out_of_the_log(module_db: Database) -> None:
    corpus = searched_corpus(module_db, query_log=True)
    with readers(module_db, 2) as (alice, bob):
        many = LOG.replace("SELECT graphrag", "SELECT count(*) FILTER (WHERE graphrag").replace("1)", "1))")
        with session_of(module_db, alice) as session:
            noted = value(session, many + " FROM generate_series(1, 2000)", corpus)
            # In two minutes at most, the first of which was nearly over.
            assert 600 <= noted <= 1200
            session.execute("BEGIN")
            assert value(session, LOG, corpus) is False
            session.execute("ROLLBACK")
        with session_of(module_db, bob) as session:
            assert value(session, LOG, corpus) is True
    assert entries(module_db, corpus) == noted + 1


@pytest.mark.parametrize("kind", ["ask", "ask_stream"])
def test_nobody_but_the_owner_claims_to_have_asked(module_db: Database, kind: str) -> None:
    corpus = searched_corpus(module_db, query_log=True)
    with readers(module_db, 1) as (alice,), session_of(module_db, alice) as session:
        diag = refused(session, "SELECT graphrag.log_query('x', %s, %s, 'bm25', 1)", corpus, kind)
    assert (diag.sqlstate, bool(diag.message_hint)) == ("22023", True)
    assert entries(module_db, corpus) == 0


@pytest.mark.parametrize(
    ("milliseconds", "entities"), [("NaN", 1), ("Infinity", 1), ("-Infinity", 1), (-1, 1), (None, 1), (1, -1)]
)
def test_no_entry_spoils_the_statistics(module_db: Database, milliseconds: Any, entities: int) -> None:
    corpus = searched_corpus(module_db, query_log=True)
    sql = "SELECT graphrag.log_query('x', %s, 'search', 'bm25', %s::float8, %s)"
    with readers(module_db, 1) as (alice,), session_of(module_db, alice) as session:
        diag = refused(session, sql, corpus, milliseconds, entities)
    assert (diag.sqlstate, bool(diag.message_hint)) == ("22023", True)


def test_who_logs_is_the_role_that_logged_in_whatever_it_acts_as(module_db: Database) -> None:
    corpus = searched_corpus(module_db, query_log=True)
    with readers(module_db, 1) as (alice,), session_of(module_db, alice) as session:
        assert value(session, LOG, corpus) is True
    assert rows(
        module_db, "SELECT caller FROM graphrag.query_log WHERE corpus_id = %s", corpus_id(module_db, corpus)
    ) == [("postgres",)]
