"""A publication of all tables forbids UPDATE and DELETE of those without a replica identity: no document is blamed for it."""

from tests.runtime.cluster import Database
from tests.sql.extracting import hurry
from tests.sql.ingest import STORIES, canonical, delete, expected, index_all, new_corpus, put, rows, value

FAILED = "SELECT count(*) FROM graphrag.jobs WHERE state = 'failed' OR errors > 0"


def test_a_publication_of_all_tables_fails_no_document_and_work_goes_on_when_it_is_gone(fresh_db: Database) -> None:
    db = fresh_db
    undisturbed = expected(db, {**STORIES, "ada": "Ada Lovelace moved to Vienna.", "zuse": "Konrad Zuse built the Z3."})
    corpus = index_all(db, new_corpus(db), {**STORIES, "gone": "Nobody stayed in Oslo."})
    db.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    put(db, corpus, "ada", "Ada Lovelace moved to Vienna.")
    put(db, corpus, "zuse", "Konrad Zuse built the Z3.")
    delete(db, corpus, "gone")
    for _ in range(5):  # more often than a document may fail
        hurry(db, corpus)
    assert value(db, FAILED) == 0
    assert "replica identity" in value(db, "SELECT last_error FROM graphrag.jobs WHERE document_id IS NOT NULL LIMIT 1")
    db.execute("DROP PUBLICATION everything")
    hurry(db, corpus)
    assert canonical(db, corpus) == undisturbed
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_health_names_a_publication_that_stops_workers(fresh_db: Database) -> None:
    db = fresh_db
    health = "SELECT severity, subject FROM graphrag.health()"
    for harmless in (
        "FOR TABLE graphrag.documents",
        "FOR ALL TABLES WITH (publish = 'insert')",
        "FOR TABLES IN SCHEMA public",
    ):
        db.execute(f"CREATE PUBLICATION shown {harmless}".encode())
        assert rows(db, health) == [], harmless
        db.execute("DROP PUBLICATION shown")
    for harmful in ("FOR ALL TABLES", "FOR TABLES IN SCHEMA graphrag", "FOR TABLE graphrag.entity_values"):
        db.execute(f"CREATE PUBLICATION shown {harmful}".encode())
        assert rows(db, health) == [("error", 'publication "shown"')], harmful
        db.execute("DROP PUBLICATION shown")
