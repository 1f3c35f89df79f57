"""Many attached rows are indexed together, in few transactions, and the graph is that of rows indexed one by one."""

import pytest

from tests.runtime.cluster import Database
from tests.sql.rows import own_by_owner

TABLES = """
CREATE SCHEMA bulk;
CREATE TABLE bulk.kinds (id int PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE bulk.items (id int PRIMARY KEY, name text, code text, kind int, state text, notes text);
INSERT INTO bulk.kinds SELECT n, 'Kind ' || chr(65 + n) FROM generate_series(0, 6) n;
INSERT INTO bulk.items SELECT n, 'Pump number ' || n, 'PX-' || n, n % 7, CASE n % 3 WHEN 0 THEN 'running' WHEN 1 THEN 'idle' END,
                              CASE n % 50 WHEN 0 THEN 'It was mended by Ann Lee.' END
                         FROM generate_series(1, 80) n;
"""
ATTACH = (
    "attach_entities('bulk.kinds', '{corpus}', '{{id}}', 'name', type => 'kind')",
    "attach_entities('bulk.items', '{corpus}', '{{id}}', 'name', aliases => '{{code}}', type => 'item',"
    " attributes => '{{state}}', text => '{{notes}}')",
    "attach_relationships('bulk.items', '{corpus}', 'is of', '{{kind}}', 'bulk.kinds')",
)


def attach(db: Database, corpus: str) -> None:
    db.execute("SELECT graphrag.create_corpus(%s, '{\"communities\": false}')", [corpus])
    for call in ATTACH:
        db.execute(f"SELECT graphrag.{call.format(corpus=corpus)}".encode())


def backfill(db: Database) -> None:
    """Make the rows' documents, whose jobs wait."""
    while db.execute("SELECT true FROM graphrag.jobs WHERE kind = 'attach'").fetchone():
        db.execute("CALL graphrag.process_jobs(1)")
        db.execute("UPDATE graphrag.jobs SET next_attempt_at = 'infinity' WHERE kind = 'index'")
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() WHERE kind = 'index'")


def prepare(db: Database) -> None:
    db.execute(TABLES.encode())
    own_by_owner(db, "SCHEMA bulk", "TABLE bulk.kinds", "TABLE bulk.items")


def transactions(db: Database, corpus: str) -> int:
    """How many transactions wrote the chunks of a corpus."""
    row = db.execute(
        "SELECT count(DISTINCT c.xmin::text) FROM graphrag.chunks c JOIN graphrag.corpora o ON o.id = c.corpus_id"
        " WHERE o.name = %s",
        [corpus],
    ).fetchone()
    assert row is not None
    return int(row[0])


def fingerprint(db: Database, corpus: str) -> object:
    return db.execute("SELECT * FROM graphrag.fingerprint(%s)", [corpus]).fetchall()


@pytest.mark.slow
def test_many_rows_are_one_graph_with_rows_done_one_by_one(db: Database) -> None:
    prepare(db)
    attach(db, "together")
    db.execute("CALL graphrag.process_jobs()")
    attach(db, "singly")
    while db.execute("SELECT true FROM graphrag.jobs WHERE next_attempt_at <= now()").fetchone():
        db.execute("CALL graphrag.process_jobs(1)")
    assert transactions(db, "together") < 10 < transactions(db, "singly") == 87
    assert fingerprint(db, "together") == fingerprint(db, "singly")
    assert db.execute("SELECT * FROM graphrag.check('together')").fetchall() == []
    assert db.execute("SELECT * FROM graphrag.check('singly')").fetchall() == []


def test_a_batch_of_rows_has_no_more_documents_than_another(db: Database) -> None:
    prepare(db)
    db.execute("SELECT graphrag.create_corpus('mixed', '{\"communities\": false}')")
    attached = ATTACH[0].format(corpus="mixed")
    db.execute(f"SELECT graphrag.{attached}".encode())
    backfill(db)
    db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, content)"
        " SELECT 'mixed', 'text ' || n, 'The pump ' || n || ' leaks.' FROM generate_series(1, 100) n"
    )
    leased = db.execute("SELECT * FROM graphrag._claim_jobs(1, NULL, 32, 1000, 400000, 32, 64000, 2, 32, 5)").fetchall()
    assert len(leased) == 7 + 32


def test_no_more_jobs_of_rows_are_leased_than_asked_for(db: Database) -> None:
    prepare(db)
    attach(db, "few")
    backfill(db)
    pending = "SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'"
    before = db.execute(pending).fetchone()
    db.execute("CALL graphrag.process_jobs(5)")
    after = db.execute(pending).fetchone()
    assert before is not None and after is not None and before[0] - after[0] == 5


def test_a_bad_row_holds_up_no_other(db: Database) -> None:
    prepare(db)
    attach(db, "bad")
    backfill(db)
    db.execute("""
        CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.content LIKE '%Pump number 77' || chr(10) || '%' THEN RAISE 'refused'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON graphrag.chunks FOR EACH ROW EXECUTE FUNCTION public.refuse();
    """)
    db.execute("CALL graphrag.process_jobs()")
    rows = db.execute(
        "SELECT source_key FROM graphrag.documents WHERE corpus = 'bad' AND indexed_at IS NULL"
    ).fetchall()
    assert rows == [("items/77",)]


def test_vectors_of_rows_without_texts_are_their_own(db: Database) -> None:
    prepare(db)
    attach(db, "alike")
    db.execute("CALL graphrag.process_jobs()")
    row = db.execute(
        "SELECT count(*), count(DISTINCT v.embedding::text) FROM graphrag.window_vectors v"
        " JOIN graphrag.documents d ON d.id = v.document_id WHERE d.corpus = 'alike'"
    ).fetchone()
    assert row == (87, 87)


def test_names_that_are_keys_have_no_vectors(db: Database) -> None:
    prepare(db)
    attach(db, "keys")
    db.execute("CALL graphrag.process_jobs()")
    rows = db.execute(
        "SELECT DISTINCT split_part(e.key, '/', 1) FROM graphrag.entities e JOIN graphrag.corpora o ON o.id = e.corpus_id"
        " WHERE o.name = 'keys' AND NOT EXISTS (SELECT FROM graphrag.entity_vectors v WHERE v.entity_id = e.id)"
        " AND e.key LIKE '%/%' AND e.key NOT LIKE '% %'"
    ).fetchall()
    assert rows == [("kinds",)]
