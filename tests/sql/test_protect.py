"""graphrag.protect(): who may not see a document does not see what was made of it."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import Connection, corpus_id, index_all, keys, new_corpus, put, refused, rows, search, value, work

OPEN = "Ada Lovelace met Charles Babbage. Ada Lovelace admired Charles Babbage in London."
SECRET = "Ada Lovelace hid the Enigma machine. The Enigma machine came from Bletchley Park."
CONDITION = "metadata ->> 'team' = pg_catalog.current_setting('app.team', true)"
MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")


@pytest.fixture(scope="module")
def protected(module_db: Database) -> str:
    corpus = fill(module_db)
    module_db.execute("SELECT graphrag.protect(%s, %s)", [corpus, CONDITION])
    return corpus


def fill(db: Connection) -> str:
    corpus = new_corpus(db)
    put(db, corpus, "open", OPEN, metadata={"team": "a"})
    put(db, corpus, "secret", SECRET, metadata={"team": "b"})
    work(db)
    return corpus


@pytest.fixture
def reader(module_db: Database) -> Iterator[Database]:
    """A reader of team a."""
    with Database.connect(module_db.url, autocommit=True) as connection:
        connection.execute("SET ROLE graphrag_reader")
        connection.execute("SET app.team = 'a'")
        yield connection


def test_a_hidden_document_is_not_there(protected: str, reader: Database) -> None:
    assert rows(reader, "SELECT source_key FROM graphrag.documents") == [("open",)]
    assert rows(reader, "SELECT source_key FROM graphrag.documents WHERE content ~ 'Enigma'") == []


def test_a_reader_who_sees_nothing_is_told_what_that_may_come_from(protected: str, reader: Database) -> None:
    hints: list[str] = []
    reader.add_notice_handler(lambda notice: hints.append(notice.message_hint or ""))
    reader.execute("RESET app.team")
    assert search(reader, "Enigma", protected, "hybrid") == []
    assert "settings of the session" in hints[-1]


def test_without_row_level_security_a_reader_is_told_to_set_it_on(protected: str, reader: Database) -> None:
    reader.execute("SET row_security = off")
    error = refused(reader, "SELECT * FROM graphrag.search('Enigma', %s, 'bm25')", protected)
    assert error.sqlstate == "42501"
    assert "SET row_security = on" in str(error.message_hint)


def test_what_people_said_is_seen_with_what_they_said_it_of(module_db: Database, reader: Database) -> None:
    db, corpus = module_db, fill(module_db)
    db.execute("SELECT graphrag.protect(%s, %s)", [corpus, CONDITION])
    names = {"ada lovelace": "Countess", "bletchley park": "Station X"}
    for key, name in names.items():
        db.execute("SELECT graphrag.edit_entity(%s, %s, description => 'Edited.')", [key, corpus])
        db.execute("SELECT graphrag.rename_entity(%s, %s, %s)", [key, name, corpus])
    assert rows(reader, "SELECT * FROM graphrag.neighbors('Countess', %s)", corpus)
    assert not rows(reader, "SELECT * FROM graphrag.neighbors('Station X', %s)", corpus)
    db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])


def test_rows_of_views_that_a_session_caches_are_of_who_asks_and_of_what_is_there(
    module_db: Database, reader: Database
) -> None:
    db, corpus = module_db, fill(module_db)
    db.execute("SELECT graphrag.protect(%s, %s)", [corpus, CONDITION])
    nodes = "SELECT name, description FROM graphrag.graph_nodes WHERE corpus = %s ORDER BY 1"
    edges = "SELECT source, target, description FROM graphrag.graph_edges WHERE corpus = %s ORDER BY 1, 2"

    def seen(team: str) -> str:
        reader.execute("SELECT set_config('app.team', %s, false)", [team])
        return str([rows(reader, sql, corpus) for sql in (nodes, edges)])

    for _ in range(2):
        assert "Babbage" in seen("a") and "Enigma" not in seen("a")
        assert "Enigma" in seen("b") and "Babbage" not in seen("b")
    put(db, corpus, "later", "Grace Hopper met Charles Babbage in Boston.", metadata={"team": "a"})
    work(db)
    assert "Hopper" in seen("a") and "Hopper" not in seen("b")
    db.execute(
        "UPDATE graphrag.documents SET metadata = '{\"team\": \"b\"}' WHERE source_key = 'later' AND corpus = %s",
        [corpus],
    )
    assert "Hopper" not in seen("a") and "Hopper" in seen("b")
    db.execute("DELETE FROM graphrag.documents WHERE source_key = 'later' AND corpus = %s", [corpus])
    work(db)
    assert "Hopper" not in seen("b")
    db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])


def test_documents_and_pictures_alone_carry_policies(protected: str, module_db: Database) -> None:
    new_corpus(module_db)  # its tables came later than the protection
    both = [("graphrag.documents",), ("graphrag.pictures",)]
    assert rows(module_db, "SELECT DISTINCT polrelid::regclass::text FROM pg_policy ORDER BY 1") == both
    assert rows(module_db, "SELECT oid::regclass::text FROM pg_class WHERE relrowsecurity ORDER BY 1") == both


def test_every_mode_finds_visible_documents_only(protected: str, module_db: Database, reader: Database) -> None:
    for mode in MODES:
        assert set(keys(search(module_db, "Who hid the Enigma machine of Ada Lovelace?", protected, mode))) == {
            "open",
            "secret",
        }
        assert keys(search(reader, "Who hid the Enigma machine of Ada Lovelace?", protected, mode)) == ["open"], mode
    shown = [
        value(reader, "SELECT graphrag.context('Ada Lovelace and the Enigma machine', %s)::text", protected),
        *rows(reader, "SELECT e::text FROM graphrag.search_entities('Ada Lovelace Enigma', %s) e", protected),
        *rows(reader, "SELECT n::text FROM graphrag.neighbors('ada lovelace', %s, 3) n", protected),
        *rows(reader, "SELECT n::text FROM graphrag.graph_nodes n"),
        *rows(reader, "SELECT n::text FROM graphrag.graph_edges n"),
    ]
    assert len(shown) > 5
    # The question stands in the context's own words for it.
    assert not [
        text for text in map(str, shown) if "came from" in text or "hid the Enigma" in text.replace("and the", "")
    ]


def test_another_reader_sees_the_other_document(protected: str, reader: Database) -> None:
    reader.execute("SET app.team = 'b'")
    assert keys(search(reader, "Enigma", protected)) == ["secret"]
    reader.execute("SET app.team = ''")
    assert keys(search(reader, "Enigma", protected)) == []


# The last in this database: it deletes.
def test_other_corpora_and_who_writes_are_not_concerned(protected: str, module_db: Database, reader: Database) -> None:
    other = index_all(module_db, new_corpus(module_db), {"plain": SECRET})
    assert keys(search(reader, "Enigma", other)) == ["plain"]
    module_db.execute("CREATE ROLE protect_app IN ROLE graphrag_reader")
    module_db.execute("GRANT INSERT, UPDATE, DELETE ON graphrag.documents TO protect_app")
    with Database.connect(module_db.url, autocommit=True) as app:
        app.execute("SET ROLE protect_app")
        app.execute("SET app.team = 'a'")
        put(app, protected, "more", "Mary Somerville taught Ada Lovelace.", metadata={"team": "a"})
        app.execute("DELETE FROM graphrag.documents")
        assert value(module_db, "SELECT array_agg(source_key) FROM graphrag.documents") == ["secret"]
        # A worker that does not see a document would take it for deleted.
        module_db.execute("GRANT EXECUTE ON PROCEDURE graphrag.process_jobs TO protect_app")
        diag = refused(app, "CALL graphrag.process_jobs()")
    assert diag.sqlstate == "42501" and "row-level security" in str(diag.message_primary)
    module_db.execute("DROP OWNED BY protect_app")
    module_db.execute("DROP ROLE protect_app")


def test_the_last_protection_to_go_turns_row_level_security_off(db: Database) -> None:
    first, second = fill(db), fill(db)
    for corpus in (first, second):
        db.execute("SELECT graphrag.protect(%s, 'false')", [corpus])
    db.execute("SELECT graphrag.protect(%s, %s)", [second, CONDITION])  # replaces
    db.execute("SELECT graphrag.unprotect(%s)", [first])
    with Database.connect(db.url, autocommit=True) as reader:
        reader.execute("SET ROLE graphrag_reader")
        counted = "SELECT count(*) FROM graphrag.documents"
        assert value(reader, counted) == 2
        reader.execute("SET app.team = 'b'")
        assert value(reader, counted) == 3
    db.execute("SELECT graphrag.drop_corpus(%s)", [second])
    # Pictures keep theirs, which asks documents.
    assert rows(db, "SELECT polrelid::regclass::text FROM pg_policy") == [("graphrag.pictures",)]
    assert rows(db, "SELECT oid::regclass::text FROM pg_class WHERE relrowsecurity") == [("graphrag.pictures",)]


def test_a_corpus_that_comes_with_a_protection_is_closed_even_with_triggers_off(db: Database) -> None:
    corpus = fill(db)
    db.execute("SET session_replication_role = replica")
    db.execute(
        "INSERT INTO graphrag.corpora (name, tokenizer, tokenizer_fingerprint, protection)"
        " SELECT 'restored', tokenizer, tokenizer_fingerprint, 'true' FROM graphrag.corpora"
    )
    db.execute(
        "INSERT INTO graphrag.documents (corpus, corpus_id, source_key, content, content_hash)"
        " SELECT 'restored', c.id, 'x', d.content, d.content_hash FROM graphrag.documents d, graphrag.corpora c"
        " WHERE c.name = 'restored' AND d.source_key = 'open'"
    )
    with Database.connect(db.url, autocommit=True) as reader:
        reader.execute("SET ROLE graphrag_reader")
        assert refused(reader, "SELECT * FROM graphrag.documents WHERE corpus = 'restored'").sqlstate == "55000"
        assert value(reader, "SELECT count(*) FROM graphrag.documents WHERE corpus_id = %s", corpus_id(db, corpus)) == 2


def test_repair_brings_back_the_triggers_that_a_restore_without_triggers_weakens(db: Database) -> None:
    always = "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE tgenabled = 'A' ORDER BY 1, 2"
    before = rows(db, always)
    assert before
    for table in {table for table, _ in before}:
        db.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL; ALTER TABLE {table} ENABLE TRIGGER ALL".encode())
    assert rows(db, always) == []
    db.execute("SELECT graphrag.repair()")
    assert rows(db, always) == before


def test_what_cannot_be_protected_is_refused(db: Database) -> None:
    corpus = new_corpus(db)
    assert refused(db, "SELECT graphrag.protect('none', 'true')").sqlstate == "42704"
    assert refused(db, "SELECT graphrag.unprotect('none')").sqlstate == "42704"
    assert refused(db, "SELECT graphrag.protect(%s, ' ')", corpus).sqlstate == "22023"
    assert refused(db, "SELECT graphrag.protect(%s, 'no_such_column = 1')", corpus).sqlstate == "42703"
    db.execute("CREATE ROLE protect_curious")
    db.execute("GRANT EXECUTE ON FUNCTION graphrag.protect TO protect_curious")
    db.execute("GRANT USAGE ON SCHEMA graphrag TO protect_curious")
    with db.transaction():
        db.execute("SET LOCAL ROLE protect_curious")
        assert refused(db, "SELECT graphrag.protect(%s, 'true')", corpus).sqlstate == "42501"
    db.execute("DROP OWNED BY protect_curious")
    db.execute("DROP ROLE protect_curious")
