"""Pictures are for who may read their documents, and for nobody else, by any way."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.security.acting import acting_as, denied, new_role
from tests.security.test_explain import COMPARISONS
from tests.sql.ingest import put, rows, searched_corpus, value, work
from tests.sql.picture_rows import QUESTION, document_id, pictured, png

INSERT = "INSERT INTO graphrag.pictures (document_id, content, caption) VALUES (%s, %s, %s)"
CAPTIONS = "SELECT caption FROM graphrag.pictures ORDER BY caption"


@pytest.fixture
def corpus(db: Database) -> str:
    """A corpus where the reader sees the open document alone."""
    corpus = searched_corpus(db)
    put(db, corpus, "open", "An open manual.", metadata={"open": True})
    put(db, corpus, "closed", "A closed manual.", metadata={"open": False})
    for key in ("open", "closed"):
        db.execute(INSERT, [document_id(db, corpus, key), png(), f"The {key} drawing of the Heron launcher."])
    work(db)
    return corpus


@pytest.fixture
def eve(db: Database) -> Iterator[str]:
    with new_role(db) as role:
        yield role


# What the owner, or a trigger, sets alone, with a value for each.
OWNERS_COLUMNS = {"id": "1", "corpus_id": "1", "media_type": "'image/svg+xml'", "error": "'x'"}
PROTECT = "SELECT graphrag.protect(%s, $$metadata @> '{\"open\": true}'$$)"


def test_without_a_grant_there_is_nothing(db: Database, corpus: str, eve: str) -> None:
    with acting_as(db, eve) as session:
        denied(session, CAPTIONS)
        denied(session, INSERT, 1, png(), "")


def test_a_grant_of_another_corpus_shows_nothing(db: Database, corpus: str, eve: str) -> None:
    other = searched_corpus(db)
    pictured(db, other, caption="Other.")
    db.execute("SELECT graphrag.grant_corpus(%s, %s, 'write')", [other, eve])
    with acting_as(db, eve) as session:
        assert rows(session, CAPTIONS) == [("Other.",)]
        closed = document_id(db, corpus, "closed")
        denied(session, INSERT, closed, png(), "Mine.", sqlstate="23503")
        assert (
            session.execute("UPDATE graphrag.pictures SET caption = 'x' WHERE caption LIKE '%drawing%'").rowcount == 0
        )
        assert session.execute("DELETE FROM graphrag.pictures WHERE caption LIKE '%drawing%'").rowcount == 0


@pytest.mark.parametrize("by", ["graphrag_reader", "grant"])
def test_a_protected_corpus_shows_what_it_may(db: Database, corpus: str, eve: str, by: str) -> None:
    if by == "grant":
        db.execute("SELECT graphrag.grant_corpus(%s, %s)", [corpus, eve])
    else:
        db.execute(f"GRANT graphrag_reader TO {eve}".encode())
    db.execute(PROTECT, [corpus])
    with acting_as(db, eve) as session:
        assert rows(session, CAPTIONS) == [("The open drawing of the Heron launcher.",)]
        sql = "SELECT content FROM graphrag.search(%s, %s, %s)"
        for mode in ("hybrid", "bm25", "naive", "local", "mix", "ppr"):
            contents = [content for (content,) in rows(session, sql, QUESTION, corpus, mode)]
            assert not any("closed" in content for content in contents), mode
        denied(session, INSERT, document_id(db, corpus, "open"), png(), "Mine.")
        denied(session, "DELETE FROM graphrag.pictures")


def test_who_writes_a_protected_corpus_changes_what_he_sees(db: Database, corpus: str, eve: str) -> None:
    db.execute("SELECT graphrag.grant_corpus(%s, %s, 'write')", [corpus, eve])
    db.execute(PROTECT, [corpus])
    ids = {key: document_id(db, corpus, key) for key in ("open", "closed")}
    with acting_as(db, eve) as session:
        session.execute(INSERT, [ids["open"], png(), "Mine."])
        denied(session, INSERT, ids["closed"], png(), "Mine.", sqlstate="23503")
        page = "INSERT INTO graphrag.pictures (document_id, content, page, is_page) VALUES (%s, %s, 1, true)"
        denied(session, page, ids["closed"], png(), sqlstate="23503")
        hidden_page = "UPDATE graphrag.pictures SET is_page = true WHERE document_id = %s"
        assert session.execute(hidden_page, [ids["closed"]]).rowcount == 0
        # Nor is there a word of whether it is there.
        denied(session, INSERT, 10**9, png(), "Mine.", sqlstate="23503")
        assert session.execute("UPDATE graphrag.pictures SET caption = 'x'").rowcount == 2
        assert session.execute("DELETE FROM graphrag.pictures").rowcount == 2
        # The first of a document has no row that its document shows.
        denied(session, f"{INSERT} RETURNING id", ids["open"], png(), "Mine.")
        session.execute(INSERT, [ids["open"], png(), "Mine."])
        assert session.execute(f"{INSERT} RETURNING id", [ids["open"], png(), "Mine."]).rowcount == 1
        session.execute("DELETE FROM graphrag.pictures")
    assert rows(db, CAPTIONS) == [("The closed drawing of the Heron launcher.",)]


def test_columns_of_the_owner_are_not_the_writers(db: Database, corpus: str, eve: str) -> None:
    db.execute("SELECT graphrag.grant_corpus(%s, %s, 'write')", [corpus, eve])
    with acting_as(db, eve) as session:
        for change in (
            "error = 'x'",
            "content = ''",
            "document_id = 1",
            "corpus_id = 1",
            "id = 1",
            "media_type = 'image/svg+xml'",
        ):
            denied(session, f"UPDATE graphrag.pictures SET {change}")
        inserted = "INSERT INTO graphrag.pictures (document_id, content, is_page, {}) VALUES (%s, %s, true, {})"
        for column, given in OWNERS_COLUMNS.items():
            denied(session, inserted.format(column, given), document_id(db, corpus, "open"), png())
        denied(session, "UPDATE graphrag.documents SET pictures_hash = 'x'")
        denied(session, "TRUNCATE graphrag.pictures")


def test_a_right_to_the_table_alone_shows_nothing(db: Database, corpus: str, eve: str) -> None:
    db.execute(f"GRANT USAGE ON SCHEMA graphrag TO {eve}; GRANT ALL ON graphrag.pictures TO {eve}".encode())
    with acting_as(db, eve) as session:
        denied(session, CAPTIONS)  # He may not call what the policy asks.
    db.execute(f"GRANT graphrag_member TO {eve}".encode())
    with acting_as(db, eve) as session:
        assert rows(session, CAPTIONS) == []
        denied(session, INSERT, document_id(db, corpus, "open"), png(), "Mine.")
        assert session.execute("DELETE FROM graphrag.pictures").rowcount == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_how_a_read_was_run_tells_no_hidden_caption(db: Database, corpus: str, eve: str, comparison: str) -> None:
    db.execute("SELECT graphrag.grant_corpus(%s, %s)", [corpus, eve])
    db.execute(PROTECT, [corpus])
    condition = comparison.replace("{column}", "caption")
    sql = "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) SELECT id FROM graphrag.pictures WHERE "
    with acting_as(db, eve) as session:
        right, wrong = (
            [line for (line,) in rows(session, sql + condition.format(f"The {word} drawing of the Heron launcher."))]
            for word in ("closed", "clothe")
        )
    assert [line.replace("closed", "clothe") for line in right] == wrong


def test_how_a_read_was_run_tells_how_many_a_hidden_document_has(db: Database, corpus: str, eve: str) -> None:
    """Not hidden, as of documents: SECURITY.md says so."""
    db.execute("SELECT graphrag.grant_corpus(%s, %s)", [corpus, eve])
    db.execute(PROTECT, [corpus])
    closed = document_id(db, corpus, "closed")
    sql = "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) SELECT id FROM graphrag.pictures WHERE "
    with acting_as(db, eve) as session:
        session.execute("SET enable_seqscan = off")
        lines = [line for (line,) in rows(session, f"{sql} document_id = {closed}")]
    assert any("Rows Removed by Filter: 1" in line for line in lines), lines


def test_the_audit_tries_pictures(db: Database, corpus: str, eve: str) -> None:
    db.execute("SELECT graphrag.grant_corpus(%s, %s, 'write')", [corpus, eve])
    sql = "SELECT privilege, verdict FROM graphrag.audit(%s::name) WHERE object = 'graphrag.pictures' ORDER BY 1"
    tried = rows(db, sql, eve)
    assert {verdict for _, verdict in tried} <= {"held", "untried"}
    assert ("SELECT", "held") in tried
    db.execute(f"CREATE POLICY wide ON graphrag.pictures TO {eve} USING (true)".encode())
    assert ("SELECT", "leaks") in rows(db, sql, eve)
    assert value(db, "SELECT count(*) FROM graphrag.pictures") == 2
