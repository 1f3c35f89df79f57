"""Pictures of documents: what they say is found, cited and gone as the text beside them."""

import json
from typing import Any

import pytest
from pg_graphrag.ground.mode_names import MODES

from tests.runtime.cluster import Database
from tests.sql.ingest import Connection, canonical, delete, new_corpus, put, refused, rows, searched_corpus, work
from tests.sql.picture_rows import CAPTION, QUESTION, add_picture, document_id, pictured, png

INSERT = "INSERT INTO graphrag.pictures (document_id, content) VALUES (%s, %s)"
WITHOUT_MODELS = sorted(set(MODES) - {"graph_global", "drift", "lazy", "global"})


def found(db: Connection, corpus: str, mode: str = "hybrid") -> list[tuple[str, Any, Any]]:
    sql = "SELECT content, explain -> 'picture', explain ->> 'pages' FROM graphrag.search(%s, %s, %s)"
    return rows(db, sql, QUESTION, corpus, mode)


def violations(db: Connection, corpus: str) -> list[Any]:
    return rows(db, "SELECT * FROM graphrag.check(%s)", corpus)


@pytest.fixture(scope="module")
def manual(module_db: Database) -> tuple[str, int]:
    corpus = new_corpus(module_db)
    picture = pictured(module_db, corpus, place=12, alternative_text="A rocket", recognised_text="FIG. 7")
    put(module_db, corpus, "other", "Trains run to Tokyo.")
    work(module_db)
    return corpus, picture


@pytest.mark.parametrize("mode", WITHOUT_MODELS)
def test_every_mode_finds_what_a_picture_says(module_db: Database, manual: tuple[str, int], mode: str) -> None:
    corpus, picture = manual
    content = f"{CAPTION}\n\nA rocket\n\nFIG. 7"
    assert (content, picture, "2") in found(module_db, corpus, mode)


def test_its_names_are_entities_of_the_document(module_db: Database, manual: tuple[str, int]) -> None:
    sql = (
        "SELECT DISTINCT d.source_key FROM graphrag.entity_mentions m JOIN graphrag.documents d ON d.id = m.document_id"
    )
    sql += " WHERE m.corpus_id = d.corpus_id AND d.corpus = %s AND m.name = 'Kestrel engine'"
    assert rows(module_db, sql, manual[0]) == [("manual",)]


def test_what_is_stored_holds_together(module_db: Database, manual: tuple[str, int]) -> None:
    assert violations(module_db, manual[0]) == []


def test_a_picture_that_comes_later_is_as_if_it_had_come_first(db: Database) -> None:
    first, later = searched_corpus(db), searched_corpus(db)
    pictured(db, first)
    put(db, later, "manual", "A manual.\f\nMore of it.")
    work(db)
    add_picture(db, later, "manual")
    work(db)
    one, other = (canonical(db, corpus, (QUESTION,)) for corpus in (first, later))
    assert json.dumps(one, default=str).replace(first, "") == json.dumps(other, default=str).replace(later, "")


def test_a_deleted_picture_is_not_found(db: Database) -> None:
    corpus = searched_corpus(db)
    picture = pictured(db, corpus)
    work(db)
    db.execute("DELETE FROM graphrag.pictures WHERE id = %s", [picture])
    work(db)
    assert all(content != CAPTION for content, _, _ in found(db, corpus))
    assert violations(db, corpus) == []


def test_another_caption_takes_the_place_of_the_former(db: Database) -> None:
    corpus = searched_corpus(db)
    picture = pictured(db, corpus)
    work(db)
    db.execute("UPDATE graphrag.pictures SET caption = 'The Heron launcher rusts.' WHERE id = %s", [picture])
    work(db)
    assert ("The Heron launcher rusts.", picture, "1") in found(db, corpus)
    assert violations(db, corpus) == []


@pytest.mark.parametrize("change", ["content", "delete", "truncate", "forget", "drop"])
def test_pictures_go_with_what_they_are_of(db: Database, change: str) -> None:
    corpus = searched_corpus(db)
    pictured(db, corpus)
    work(db)
    if change == "content":
        put(db, corpus, "manual", "Another manual.")
    elif change == "delete":
        delete(db, corpus, "manual")
    elif change == "truncate":
        db.execute("TRUNCATE graphrag.documents")
    elif change == "forget":
        (remaining,) = rows(db, "SELECT count(*) FROM graphrag.forget(%s, 'manual') WHERE state = 'remains'", corpus)[0]
        assert remaining == 0
    else:
        db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    assert rows(db, "SELECT FROM graphrag.pictures") == []
    work(db)
    if change != "drop":
        assert all(content != CAPTION for content, _, _ in found(db, corpus))
        assert violations(db, corpus) == []


def test_metadata_and_title_keep_them(db: Database) -> None:
    corpus = searched_corpus(db)
    picture = pictured(db, corpus)
    put(db, corpus, "manual", "A manual.\f\nMore of it.", title="Manual", metadata={"year": 2024})
    work(db)
    assert (CAPTION, picture, "1") in found(db, corpus)


def test_a_picture_alone_is_found(db: Database) -> None:
    corpus = searched_corpus(db)
    picture = pictured(db, corpus, text="", page=3)
    work(db)
    assert found(db, corpus) == [(CAPTION, picture, "3")]
    assert violations(db, corpus) == []


def test_a_picture_without_words_changes_nothing(db: Database) -> None:
    corpus = searched_corpus(db)
    pictured(db, corpus, caption=None)
    work(db)
    assert rows(db, "SELECT picture_id FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id") == [
        (None,)
    ]


def test_long_words_are_cut(db: Database) -> None:
    corpus = searched_corpus(db, chunk_token_size=50, chunk_overlap=10)
    text = " ".join(f"Row {number}: the pump of hall {number} has {number * 7} bar." for number in range(60))
    picture = pictured(db, corpus, recognised_text=text)
    work(db)
    sql = "SELECT count(*), min(picture_id), max(picture_id) FROM graphrag.chunks WHERE picture_id IS NOT NULL"
    ((count, *pictures),) = rows(db, sql)
    assert count > 5 and pictures == [picture, picture]
    assert violations(db, corpus) == []


@pytest.mark.slow
def test_a_long_document_has_its_pictures(db: Database) -> None:
    corpus = searched_corpus(db)
    content = "\n\n".join(f"Hall {number} of Osaka has pumps of Acme Rockets." for number in range(5000))
    picture = pictured(db, corpus, text=content, place=len(content))
    work(db)
    assert (CAPTION, picture, None) in found(db, corpus)
    assert violations(db, corpus) == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "22023"),
        (b"", "22023"),
        (b"%PDF-1.7", "22023"),
        (png() + bytes(10 << 20), "54000"),
    ],
)
def test_other_files_are_refused(db: Database, content: bytes, code: str) -> None:
    corpus = searched_corpus(db)
    put(db, corpus, "manual", "A manual.")
    error = refused(db, INSERT, document_id(db, corpus, "manual"), content)
    assert error.sqlstate == code and error.message_hint


def test_types_are_those_of_the_bytes(db: Database) -> None:
    corpus = searched_corpus(db)
    put(db, corpus, "manual", "A manual.")
    kinds = {
        "image/png": png(),
        "image/jpeg": b"\xff\xd8\xff\xe0",
        "image/gif": b"GIF89a",
        "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
    }
    for content in kinds.values():
        add_picture(db, corpus, "manual", content=content, caption=None)
    assert rows(db, "SELECT media_type FROM graphrag.pictures ORDER BY id") == [(kind,) for kind in kinds]


def test_there_must_be_a_document(db: Database) -> None:
    error = refused(db, INSERT, 12345, png())
    assert error.sqlstate == "23503" and error.message_hint


def test_bytes_and_document_stay(db: Database) -> None:
    corpus = searched_corpus(db)
    picture = pictured(db, corpus)
    for change in ("content = '\\x89504e470d0a1a0a'", "document_id = document_id + 1", "media_type = 'image/gif'"):
        assert refused(db, f"UPDATE graphrag.pictures SET {change} WHERE id = %s", picture).sqlstate == "0A000"


def test_a_clone_has_them_too(db: Database) -> None:
    corpus = searched_corpus(db)
    pictured(db, corpus)
    db.execute("SELECT graphrag.clone_corpus(%s, 'twin')", [corpus])
    db.execute("SELECT graphrag.unprotect('twin')")
    work(db)
    assert found(db, "twin")[0][0] == CAPTION


def test_imported_mentions_stay_with_a_picture(db: Database) -> None:
    corpus = searched_corpus(db, extractor="given")
    imported = [
        {
            "source_key": "manual",
            "content": "A manual.",
            "chunks": [{"start": 0, "end": 9, "entities": [{"name": "Manual"}]}],
        }
    ]
    db.execute("SELECT graphrag.import_documents(%s, %s)", [corpus, json.dumps(imported)])
    picture = add_picture(db, corpus, "manual")
    work(db)
    assert rows(db, "SELECT name FROM graphrag.entity_mentions") == [("Manual",)]
    assert (CAPTION, picture, None) in found(db, corpus, "bm25")
    assert violations(db, corpus) == []


def test_versions_have_the_pictures_that_they_had(db: Database) -> None:
    corpus = searched_corpus(db)
    pictured(db, corpus, caption="The red launcher.")
    history = f"{corpus} history"
    db.execute("SELECT graphrag.keep_history(%s, %s)", [corpus, history])
    put(db, corpus, "manual", "A newer manual.")
    add_picture(db, corpus, "manual", caption="The blue launcher.")
    sql = "SELECT d.content, array_agg(p.caption ORDER BY p.id) FROM graphrag.documents d"
    sql += " LEFT JOIN graphrag.pictures p ON p.document_id = d.id WHERE d.corpus = %s GROUP BY d.id ORDER BY d.id"
    assert rows(db, sql, history) == [
        ("A manual.\f\nMore of it.", ["The red launcher."]),
        ("A newer manual.", ["The blue launcher."]),
    ]
    db.execute(
        "UPDATE graphrag.pictures SET caption = 'The green launcher.' WHERE document_id = %s",
        [document_id(db, corpus, "manual")],
    )
    delete(db, corpus, "manual")
    assert [captions for _, captions in rows(db, sql, history)] == [["The red launcher."], ["The green launcher."]]
    work(db)
    assert violations(db, corpus) == violations(db, history) == []
