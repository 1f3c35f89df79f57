"""Pictures change beside documents: without deadlocks, copied once, within bounds, and mended."""

import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.cli import main
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import (
    Connection,
    corpus_id,
    new_corpus,
    put,
    refused,
    rows,
    searched_corpus,
    value,
    wait_for,
    work,
)
from tests.sql.llm import provider
from tests.sql.picture_rows import CAPTION, add_picture, document_id, pictured, png

REPLY = "A pump."
LOCK = "SELECT FROM graphrag.documents WHERE id = %s FOR NO KEY UPDATE"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def violations(db: Connection, corpus: str) -> list[str]:
    return [invariant for (invariant,) in rows(db, "SELECT DISTINCT invariant FROM graphrag.check(%s)", corpus)]


def see(db: Connection, endpoint: Endpoint, corpus: str) -> None:
    """Give a corpus a model that sees."""
    role = {"provider": provider(db, endpoint, timeout=2), "model": "eye-1"}
    db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"llm": {"roles": {"vision": role}}})])


def call(url: str, sql: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(sql.encode())


@pytest.mark.parametrize("change", ["describe", "retry_failed", "set_pictures"])
def test_who_changes_pictures_and_who_writes_new_content_end_nobody(
    db: Database, endpoint: Endpoint, change: str
) -> None:
    corpus = searched_corpus(db)
    picture = pictured(db, corpus)
    work(db)
    changes: dict[str, Callable[[], object]] = {
        "describe": lambda: call(db.url, "CALL graphrag.process_jobs()"),
        "retry_failed": lambda: call(db.url, "SELECT graphrag.retry_failed()"),
        "set_pictures": lambda: GraphRAG(db.url, corpus).set_pictures("manual", []),
    }
    if change == "describe":
        see(db, endpoint, corpus)
    db.execute("UPDATE graphrag.pictures SET error = 'x' WHERE id = %s AND %s", [picture, change == "retry_failed"])
    faults: list[BaseException] = []

    def run() -> None:
        try:
            changes[change]()
        except psycopg.Error as error:
            faults.append(error)

    beside = threading.Thread(target=run, daemon=True)
    with psycopg.connect(db.url) as writer:
        writer.execute(LOCK, [document_id(db, corpus, "manual")])
        beside.start()
        wait_for(lambda: not beside.is_alive() or value(db, WAITING), "the other session")
        writer.execute("UPDATE graphrag.documents SET content = 'Newer.' WHERE corpus = %s", [corpus])
    beside.join(60)
    assert not beside.is_alive() and faults == []
    assert rows(db, "SELECT last_error FROM graphrag.jobs WHERE last_error IS NOT NULL") == []
    work(db)
    assert rows(db, "SELECT FROM graphrag.pictures") == [] and violations(db, corpus) == []


def test_a_picture_whose_document_is_locked_is_described_afterwards(db: Database, endpoint: Endpoint) -> None:
    corpus = searched_corpus(db)
    for key in ("free", "locked"):
        pictured(db, corpus, key, content=png(len(key)))
    work(db)
    see(db, endpoint, corpus)
    sql = "SELECT array_agg(p.description ORDER BY p.id) FROM graphrag.pictures p"
    with psycopg.connect(db.url) as holder:
        holder.execute(LOCK, [document_id(db, corpus, "locked")])
        work(db)
        assert value(db, sql) == [REPLY, None]
    assert rows(db, "SELECT state, last_error, attempts FROM graphrag.jobs WHERE kind = 'describe'") == [
        ("pending", None, 0)
    ]
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = now()")
    work(db)
    assert value(db, sql) == [REPLY, REPLY] and len(endpoint.requests) == 2


def test_a_document_is_indexed_once_for_all_its_descriptions(db: Database, endpoint: Endpoint) -> None:
    corpus = searched_corpus(db)
    put(db, corpus, "deck", "Slides.")
    for color in range(20):
        add_picture(db, corpus, "deck", content=png(color))
    work(db)
    see(db, endpoint, corpus)
    work(db)
    assert rows(db, "SELECT count(*), count(DISTINCT xmin::text), count(description) FROM graphrag.pictures") == [
        (20, 1, 20)
    ]


def test_a_history_keeps_the_bytes_that_it_has(db: Database) -> None:
    corpus, history = searched_corpus(db), "history"
    db.execute("SELECT graphrag.keep_history(%s, %s)", [corpus, history])
    put(db, corpus, "manual", "A manual.")
    first, second = (add_picture(db, corpus, "manual", content=png(color), caption=str(color)) for color in (1, 2))
    sql = "SELECT p.id, p.caption FROM graphrag.pictures p JOIN graphrag.documents d ON d.id = p.document_id"
    sql += " WHERE d.corpus = %s ORDER BY p.id"
    (one, _), (other, _) = rows(db, sql, history)
    add_picture(db, corpus, "manual", content=png(1), caption="again")
    db.execute("UPDATE graphrag.pictures SET caption = 'new' WHERE id = %s", [first])
    db.execute("DELETE FROM graphrag.pictures WHERE id = %s", [second])
    (kept, again) = rows(db, sql, history)
    assert kept == (one, "new") and again[1] == "again" and again[0] > other
    work(db)
    assert violations(db, corpus) == violations(db, history) == []


@pytest.mark.parametrize("column", ["alternative_text", "caption", "recognised_text", "description"])
def test_words_have_a_bound(db: Database, column: str) -> None:
    corpus = searched_corpus(db)
    picture = pictured(db, corpus)
    error = refused(db, f"UPDATE graphrag.pictures SET {column} = repeat('x', 1048577) WHERE id = %s", picture)
    assert error.sqlstate == "54000" and column in (error.message_primary or "") and error.message_hint
    sql = f"INSERT INTO graphrag.pictures (document_id, content, {column}) VALUES (%s, %s, repeat('x', 1048577))"
    assert refused(db, sql, document_id(db, corpus, "manual"), png()).sqlstate == "54000"


def test_a_document_with_much_to_say_in_pictures_is_done_in_parts(db: Database) -> None:
    corpus = searched_corpus(db, chunk_token_size=200)
    put(db, corpus, "scan", "")
    text = "\n\n".join(f"Hall {number} of Osaka has pumps of Acme Rockets." for number in range(5000))
    add_picture(db, corpus, "scan", recognised_text=text)
    work(db, 1)
    assert value(db, "SELECT count(*) FROM graphrag.jobs WHERE chunks IS NOT NULL") > 1


def test_export_and_import_leave_a_pictured_document_as_it_is(db: Database, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    corpus = new_corpus(db, extractor="given")
    pictured(db, corpus, text="The Heron launcher stands in Osaka.")
    work(db)
    before = rows(db, "SELECT content, xmin::text FROM graphrag.documents")
    for command in ("export-graphrag", "import-graphrag"):
        assert main([command, "--url", db.url, "--corpus", corpus, str(tmp_path)]) == 0
    ((content, _),) = rows(db, "SELECT content, xmin::text FROM graphrag.documents")
    assert content == before[0][0]
    assert rows(db, "SELECT caption FROM graphrag.pictures") == [(CAPTION,)]
    work(db)
    assert violations(db, corpus) == []


def test_an_export_without_picture_chunks_names_no_others(db: Database, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    corpus = searched_corpus(db, communities=True)
    pictured(db, corpus, text="The Heron launcher stands in Osaka. The Heron launcher is red.")
    work(db)
    assert main(["export-graphrag", "--url", db.url, "--corpus", corpus, str(tmp_path)]) == 0
    units = {row["id"] for row in parquet.read_table(tmp_path / "text_units.parquet").to_pylist()}
    assert len(units) == 1
    assert main(["import-graphrag", "--url", db.url, "--corpus", "other", str(tmp_path)]) == 0
    assert rows(db, "SELECT content FROM graphrag.documents WHERE corpus = 'other'") == rows(
        db, "SELECT content FROM graphrag.documents WHERE corpus = %s", corpus
    )
    for table in ("documents", "entities", "relationships"):
        listed = [row["text_unit_ids"] for row in parquet.read_table(tmp_path / f"{table}.parquet").to_pylist()]
        assert listed and all(set(ids) <= units for ids in listed), table


def test_forget_finds_what_a_picture_said(db: Database) -> None:
    corpus = searched_corpus(db)
    pictured(db, corpus, caption="The Zanzibar engine of Quaxolotl hums at night in hall nine.")
    db.execute("CREATE TABLE graphrag.notes (corpus_id int, note text)")
    sql = "INSERT INTO graphrag.notes SELECT id, 'Quaxolotl' FROM graphrag.corpora WHERE name = %s"
    db.execute(sql, [corpus])
    work(db)
    sql = "SELECT place FROM graphrag.forget(%s, 'manual') WHERE state = 'remains'"
    assert any("notes" in place for (place,) in rows(db, sql, corpus))


def test_forget_leaves_what_another_picture_says(db: Database) -> None:
    corpus = searched_corpus(db)
    caption = "The Zanzibar engine of Quaxolotl hums at night in hall nine."
    pictured(db, corpus, text=f"Page 1. {caption}")
    pictured(db, corpus, "other", text="Another text.", caption=caption)
    work(db)
    assert rows(db, "SELECT place FROM graphrag.forget(%s, 'manual') WHERE state = 'remains'", corpus) == []


def test_check_and_repair_know_a_document_that_lost_its_pictures(db: Database) -> None:
    corpus = searched_corpus(db)
    pictured(db, corpus)
    work(db)
    db.execute("ALTER TABLE graphrag.pictures DISABLE TRIGGER pictures_deleted")
    db.execute("DELETE FROM graphrag.pictures")
    db.execute("ALTER TABLE graphrag.pictures ENABLE TRIGGER pictures_deleted")
    assert "pictures are of documents, and indexed with them" in violations(db, corpus)
    objects = rows(db, "SELECT object FROM graphrag.check(%s)", corpus)
    assert any(name.startswith("document ") for (name,) in objects)
    db.execute("SELECT graphrag.repair()")
    work(db)
    assert violations(db, corpus) == []


def test_a_picture_alone_that_lost_its_chunks_is_repaired(db: Database) -> None:
    corpus = searched_corpus(db)
    pictured(db, corpus, text="")
    pictured(db, corpus, "mute", text="", caption=" ", content=png(1))
    work(db)
    assert violations(db, corpus) == []
    db.execute("TRUNCATE graphrag.chunks CASCADE")
    assert "a document with text has chunks" in violations(db, corpus)
    db.execute("SELECT graphrag.repair()")
    assert value(db, "SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'") == 1
    work(db)
    assert "a document with text has chunks" not in violations(db, corpus)


def test_the_corpus_of_a_picture_stays(db: Database) -> None:
    corpus = searched_corpus(db)
    picture = pictured(db, corpus)
    db.execute("UPDATE graphrag.pictures SET corpus_id = corpus_id + 1, caption = 'new' WHERE id = %s", [picture])
    assert rows(db, "SELECT corpus_id, caption FROM graphrag.pictures") == [(corpus_id(db, corpus), "new")]
