"""Calls of curation: recorded, refused with the next step, ordered among each other, and the owner's."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.sql.curating import MORE, curate, entity, relationship, undo
from tests.sql.ingest import (
    STORIES,
    Background,
    index_all,
    new_corpus,
    put,
    put_all,
    refused,
    rows,
    value,
    wait_for_lock,
    worker,
)


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = new_corpus(module_db)
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def test_a_curation_is_recorded_with_who_and_when(module_db: Database, corpus: str) -> None:
    index_all(module_db, corpus, STORIES)
    number = curate(module_db, corpus, "edit_entity", "London", type="city")
    who = (
        "SELECT kind, arguments, made_by = session_user, made_at <= now(), undone_by, undone_at"
        " FROM graphrag.curations WHERE id = %s"
    )
    assert rows(module_db, who, number) == [
        ("edit_entity", {"entity": "london", "type": "city"}, True, True, None, None)
    ]
    undo(module_db, number)
    assert value(
        module_db,
        "SELECT undone_by = session_user AND undone_at <= now() FROM graphrag.curations WHERE id = %s",
        number,
    )
    assert refused(module_db, "SELECT graphrag.undo_curation(%s)", number).sqlstate == "55000"


BAD: dict[str, tuple[str, str, str]] = {
    "unknown": ("edit_entity('Atlantis', {c}, type => 'island')", "42704", "search_entities"),
    "unknown target": ("merge_entities('{{London}}', 'Atlantis', {c})", "42704", "search_entities"),
    "itself": ("merge_entities('{{london}}', 'London', {c})", "22023", "Leave the target"),
    "none": ("merge_entities('{{}}', 'London', {c})", "22023", "one or more"),
    "name of another": ("rename_entity('London', 'charles babbage', {c})", "23505", "merge_entities"),
    "empty name": ("rename_entity('London', ' “” ', {c})", "22023", "not empty"),
    "null name": ("create_entity(NULL, {c})", "22023", "not empty"),
    "created twice": ("create_entity('LONDON', {c})", "23505", "edit_entity"),
    "nothing": ("edit_entity('London', {c})", "22023", "type, description"),
    "self-loop": ("create_relationship('London', 'LONDON', {c})", "22023", "two entities"),
    "unrelated": ("edit_relationship('London', 'Enigma', {c}, weight => 1)", "42704", "create_relationship"),
    "related already": ("create_relationship('Ada Lovelace', 'Charles Babbage', {c})", "23505", "edit_relationship"),
    "weight": ("edit_relationship('Ada Lovelace', 'Charles Babbage', {c}, weight => 'NaN')", "22023", "0 or more"),
    "no graph": ("insert_graph({c}, '[]')", "22023", "For example"),
    "unknown field": ('insert_graph({c}, \'{{"entities": [{{"title": "A"}}]}}\')', "22023", "Known: "),
    "nameless": ('insert_graph({c}, \'{{"entities": [{{"type": "A"}}]}}\')', "22023", "name"),
    "no such curation": ("undo_curation(0)", "42704", "lists them"),
    "no such corpus": ("delete_entity('London', 'nowhere')", "42704", "Corpora"),
}


@pytest.mark.sample(9)
@pytest.mark.parametrize(("call", "sqlstate", "hint"), BAD.values(), ids=BAD)
def test_a_bad_call_is_refused_with_the_next_step(
    module_db: Database, corpus: str, call: str, sqlstate: str, hint: str
) -> None:
    index_all(module_db, corpus, STORIES)
    diag = refused(module_db, f"SELECT graphrag.{call.format(c=repr(corpus))}")
    assert diag.sqlstate == sqlstate, diag.message_primary
    assert hint in (diag.message_hint or ""), diag.message_hint


def test_what_a_graph_cannot_be_is_named_as_it_was_written(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, STORIES)
    pair = '"source": "A", "target": "B"'
    for graph, message in (
        ("null", "a graph cannot be null"),
        (f'{{"relationships": [{{{pair}, "weight": -1.5}}]}}', "relationships[0].weight cannot be -1.5"),
        (f'{{"relationships": [{{{pair}, "weight": true}}]}}', "relationships[0].weight cannot be true"),
        ('{"entities": [{"name": "A", "type": ["x", 0.5]}]}', 'entities[0].type cannot be ["x", "0.5"]'),
    ):
        diag = refused(module_db, "SELECT graphrag.insert_graph(%s, %s)", corpus, graph)
        assert (diag.sqlstate, message in diag.message_primary) == ("22023", True), diag.message_primary


def test_what_was_deleted_is_named_with_the_curation_that_did_it(module_db: Database, corpus: str) -> None:
    index_all(module_db, corpus, STORIES)
    number = curate(module_db, corpus, "delete_entity", "London")
    for call, sqlstate in (
        ("edit_entity('London', %s, type => 'city')", "42704"),
        ("create_entity('London', %s)", "55000"),
        ("rename_entity('Enigma', 'London', %s)", "55000"),
    ):
        diag = refused(module_db, f"SELECT graphrag.{call}", corpus)
        assert (diag.sqlstate, f"undo_curation({number})" in (diag.message_hint or "")) == (sqlstate, True)


def test_curations_of_one_entity_wait_for_each_other(module_db: Database, corpus: str) -> None:
    index_all(module_db, corpus, MORE)
    with psycopg.connect(module_db.url) as first:
        first.execute("SELECT graphrag.merge_entities('{Augusta King}', 'Ada Lovelace', %s)", [corpus])
        second = Background(module_db.url, f"SELECT graphrag.rename_entity('Augusta King', 'Enigma 2', {corpus!r})")
        wait_for_lock(module_db, second.pid)
        first.commit()
        assert second.finish() is None
    # Augusta King was an alias by then: the merged entity was renamed.
    assert entity(module_db, corpus, "ada lovelace") is None
    node = entity(module_db, corpus, "enigma 2")
    assert node is not None and node["name"] == "Enigma 2"


def test_a_curation_waits_for_documents_that_are_being_written_without_deadlock(
    module_db: Database, corpus: str
) -> None:
    index_all(module_db, corpus, MORE)
    with psycopg.connect(module_db.url) as holder:
        holder.execute("LOCK TABLE graphrag.chunk_windows IN SHARE MODE")
        put(module_db, corpus, "lady", "Augusta King left Turin.")
        # It has taken away the mentions of what the document was, and not yet come to the merge.
        busy = worker(module_db.url)
        wait_for_lock(module_db, busy.pid)
        call = f"SELECT graphrag.merge_entities('{{Augusta King}}', 'Ada Lovelace', {corpus!r})"
        curator = Background(module_db.url, call)
        wait_for_lock(module_db, curator.pid)
        holder.rollback()
        assert (busy.finish(), curator.finish()) == (None, None)
    node = entity(module_db, corpus, "ada lovelace")
    assert node is not None and relationship(module_db, corpus, "ada lovelace", "turin")
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_only_the_owner_curates(module_db: Database, corpus: str) -> None:
    module_db.execute("CREATE ROLE curious LOGIN IN ROLE graphrag_reader")
    try:
        module_db.execute("SET ROLE curious")
        for call in ("delete_entity('London')", "undo_curation(1)", "insert_graph('default', '{}')"):
            assert refused(module_db, f"SELECT graphrag.{call}").sqlstate == "42501"
        assert refused(module_db, "SELECT FROM graphrag.curations").sqlstate == "42501"
        assert refused(module_db, "SELECT key FROM graphrag.aliases").sqlstate == "42501"
    finally:
        module_db.execute("RESET ROLE")
        module_db.execute("DROP ROLE curious")
