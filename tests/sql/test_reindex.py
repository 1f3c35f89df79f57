"""graphrag.reindex() makes a torn index anew, and keeps all that is no index."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import warnings
from tests.sql.extracting import knows
from tests.sql.ingest import (
    STORIES,
    Background,
    corpus_id,
    delete,
    keys,
    new_corpus,
    put,
    put_all,
    refused,
    rows,
    search,
    value,
    wait_for_lock,
    work,
    worker,
)
from tests.sql.llm import provider
from tests.sql.rows import attach as attach_rows

# What no index is, of a corpus: by the number, or the name, that :c and :name stand for.
KEPT = {
    "documents": "SELECT id, source_key, title, content, metadata, content_hash, created_at, updated_at FROM graphrag.documents"
    " WHERE corpus_id = :c ORDER BY id",
    "curations": "SELECT * FROM graphrag.curations WHERE corpus_id = :c ORDER BY id",
    "options": "SELECT options FROM graphrag.corpora WHERE id = :c",
    "grants": "SELECT role, level FROM graphrag.corpus_grants WHERE corpus_id = :c ORDER BY 1",
    "feedback": "SELECT * FROM graphrag.answer_feedback WHERE corpus_id = :c ORDER BY id",
    "attached": "SELECT * FROM graphrag._attached_tables WHERE corpus_id = :c ORDER BY id",
    "spent": "SELECT count(*) FROM graphrag.llm_calls WHERE corpus_id = :c",
}
CURATIONS = (
    "SELECT graphrag.create_entity('Nobody', :name, 'ghost', 'Was never there.')",
    'SELECT graphrag.insert_graph(:name, \'{"entities": [{"name": "Ada Lovelace", "description": "Counted."}], "relationships":'
    ' [{"source": "Nobody", "target": "London", "keywords": ["saw"], "weight": 2.5}]}\')',
    "SELECT graphrag.merge_entities(ARRAY['Charles Babbage'], 'Ada Lovelace', :name)",
    "SELECT graphrag.edit_entity('Ada Lovelace', :name, 'countess', 'Edited.')",
    "SELECT graphrag.rename_entity('Ada Lovelace', 'Augusta King', :name)",
    "SELECT graphrag.delete_entity('Alan Turing', :name)",
)
# What takes rows of the index away or spoils them, past our triggers.
TORN = {
    "everything": "TRUNCATE graphrag.chunks, graphrag.chunk_windows, graphrag.entities, graphrag.entity_values,"
    " graphrag.entity_mentions, graphrag.relationships, graphrag.relationship_values, graphrag.relationship_mentions,"
    " graphrag.claims, graphrag.community_members, graphrag.aliases",
    "entities": "TRUNCATE graphrag.entities CASCADE",
    "graph": "DELETE FROM graphrag.relationship_mentions WHERE id % 3 = 0; DELETE FROM graphrag.entity_mentions WHERE id % 2 = 0;"
    " UPDATE graphrag.entities SET mention_count = mention_count + 3, degree = 9, name = 'x';"
    " UPDATE graphrag.relationships SET weight = -1; DELETE FROM graphrag.entity_values WHERE kind = 't';"
    " DELETE FROM graphrag.relationship_values; TRUNCATE graphrag.entity_vectors;"
    " SELECT setval('graphrag.chunks_id_seq', 1, false), setval('graphrag.entities_id_seq', 1, false)",
    "texts": "DELETE FROM graphrag.relationship_mentions; DELETE FROM graphrag.entity_mentions;"
    " DELETE FROM graphrag.chunks WHERE id % 5 = 0; UPDATE graphrag.chunks SET content = 'x' || content WHERE id % 2 = 0;"
    " UPDATE graphrag.chunk_windows SET start_offset = start_offset + 1; UPDATE graphrag.entity_mention_vectors SET chunk_id = 0;"
    " INSERT INTO graphrag.window_vectors SELECT * FROM graphrag.window_vectors; UPDATE graphrag.window_vectors SET chunk_id = 0"
    " WHERE window_id % 2 = 0",
    "places": "UPDATE graphrag.relationship_mentions SET corpus_id = -1; UPDATE graphrag.entity_mentions SET corpus_id = -1;"
    " UPDATE graphrag.embedding_spaces SET own_tables = true",
    "BM25 and queue": "DELETE FROM graphrag.bm25_postings; TRUNCATE graphrag.bm25_tail, graphrag.bm25_tombstones;"
    " TRUNCATE graphrag.jobs, graphrag._index_counts, graphrag._document_counts; INSERT INTO graphrag.jobs"
    " (corpus_id, kind, document_id) SELECT corpus_id, 'remove', min(id) FROM graphrag.documents GROUP BY corpus_id",
}


@pytest.fixture(scope="module")
def endpoint(module_db: Database) -> Iterator[Endpoint]:
    with Endpoint() as server:
        server.reply(knows)
        yield server


@pytest.fixture(scope="module", params=["concepts", pytest.param("model", marks=pytest.mark.slow)])
def corpus(request: pytest.FixtureRequest, module_db: Database, endpoint: Endpoint) -> str:
    """A corpus with everything: curations, packed and unpacked items, a tombstone, a long document, described mentions."""
    options: dict[str, Any] = {"chunk_token_size": 50, "chunk_overlap": 10}
    if request.param == "model":
        model = {"provider": provider(module_db, endpoint), "model": "model-1"}
        options |= {"extractor": "llm", "max_gleaning": 0, "llm": {"roles": {"extract": model}}}
    name = new_corpus(module_db, **options)
    put_all(module_db, name, STORIES)
    # Long for a model, which is asked chunk by chunk.
    repeats = range(30 if request.param == "model" else 3)
    put(
        module_db,
        name,
        "long",
        " ".join(f"{story} It was in {1800 + n}." for n in repeats for story in STORIES.values()),
    )
    put(module_db, name, "blank", " \n")
    work(module_db)
    module_db.execute("SELECT graphrag.optimize(%s)", [name])
    put(module_db, name, "late", "Grace Hopper met Alan Turing in London.")
    delete(module_db, name, "enigma")
    work(module_db)
    for statement in CURATIONS:
        module_db.execute(statement.replace(":name", f"'{name}'").encode())
    module_db.execute(
        "SELECT graphrag.feedback('Who?', 'good', corpus => %s, evidence => '{ada}', author => 'ann')", [name]
    )
    return name


def kept(db: Database, corpus: str) -> dict[str, list[tuple[Any, ...]]]:
    number = str(corpus_id(db, corpus))
    return {name: rows(db, sql.replace(":c", number)) for name, sql in KEPT.items()}


def whole(db: Database, corpus: str) -> tuple[list[tuple[Any, ...]], str, dict[str, list[tuple[Any, ...]]]]:
    """What is wrong, what the index is, and what is no index."""
    wrong = rows(db, "SELECT * FROM graphrag.check(%s)", corpus)
    return wrong, value(db, "SELECT graphrag.fingerprint(%s)", corpus), kept(db, corpus)


@pytest.mark.sample(3)
@pytest.mark.parametrize("torn", TORN)
def test_a_torn_index_is_made_again(module_db: Database, corpus: str, torn: str) -> None:
    before = whole(module_db, corpus)
    assert before[0] == []
    for statement in TORN[torn].split(";"):
        module_db.execute(statement.encode())
    assert whole(module_db, corpus)[0]
    assert value(module_db, "SELECT graphrag.reindex(%s)", corpus) == len(STORIES) + 2
    for mode in ("bm25", "naive", "hybrid", "local", "global", "ppr"):
        search(module_db, "Who hired Alan Turing?", corpus, mode)
    work(module_db)
    assert whole(module_db, corpus) == before
    assert "long" in keys(search(module_db, "Grace Hopper 1802", corpus))


def test_texts_are_found_until_they_are_made_again(module_db: Database, corpus: str) -> None:
    questions = ("Who hired Alan Turing?", "Harvard compiler")
    before = [search(module_db, question, corpus, mode) for question in questions for mode in ("bm25", "naive")]
    module_db.execute("SELECT graphrag.reindex(%s)", [corpus])
    after = [search(module_db, question, corpus, mode) for question in questions for mode in ("bm25", "naive")]
    # That of Nobody, whom people made, is there.
    with warnings(module_db) as texts:
        assert search(module_db, "Grace Hopper", corpus, "graph_local") == []
    work(module_db)
    assert f"the graphs of {len(STORIES) + 1} documents are still to come" in texts[0]
    assert [[(row["source_key"], row["score"]) for row in found] for found in after] == [
        [(row["source_key"], row["score"]) for row in found] for found in before
    ]


def test_a_reindex_that_is_cancelled_changes_nothing(module_db: Database, corpus: str) -> None:
    before = whole(module_db, corpus)
    with module_db.transaction(force_rollback=True):
        put(module_db, corpus, "late", "Something else.")
        call = Background(module_db.url, f"SELECT graphrag.reindex('{corpus}')")
        wait_for_lock(module_db, call.pid)
        call.connection.cancel()
        error = call.finish()
    assert isinstance(error, psycopg.errors.QueryCanceled)
    assert whole(module_db, corpus) == before


def test_a_reindex_takes_the_work_of_a_worker_over(module_db: Database, corpus: str) -> None:
    before = whole(module_db, corpus)
    put(module_db, corpus, "late", "Alan Turing met Grace Hopper in London.")
    put(module_db, corpus, "late", "Grace Hopper met Alan Turing in London.")
    with psycopg.connect(module_db.url) as holder:
        holder.execute("SELECT graphrag._lock_corpus(%s)", [corpus_id(module_db, corpus)])
        writing = worker(module_db.url)
        wait_for_lock(module_db, writing.pid)
        call = Background(module_db.url, f"SELECT graphrag.reindex('{corpus}')")
        wait_for_lock(module_db, call.pid)
    assert (writing.finish(), call.finish()) == (None, None)
    work(module_db)
    after = whole(module_db, corpus)
    assert after[:2] == before[:2]


def test_rows_of_attached_tables_stay_entities(db: Database) -> None:
    attach_rows(db)
    before = whole(db, "default")
    db.execute("TRUNCATE graphrag.entities, graphrag.relationships, graphrag.chunks CASCADE")
    db.execute("SELECT graphrag.reindex()")
    work(db)
    assert whole(db, "default") == before


def test_what_an_earlier_version_indexed_is_said_until_it_is_made_again(db: Database) -> None:
    warnings = "SELECT subject, hint FROM graphrag.health() WHERE detail LIKE '%%an earlier version indexed%%'"
    name = new_corpus(db, extractor="given")
    assert rows(db, warnings) == []
    # What an update does where documents are indexed.
    db.execute("UPDATE graphrag.corpora SET needs_reindex = true WHERE name = %s", [name])
    db.execute("SELECT graphrag.reindex(%s, extraction => 'stood in')", [name])
    ((subject, hint),) = rows(db, warnings)
    assert subject == f'corpus "{name}"' and f"graphrag.reindex('{name}')" in hint
    db.execute("SELECT graphrag.reindex(%s)", [name])
    assert rows(db, warnings) == []


def test_it_is_the_owners_and_says_what_is_wrong(module_db: Database, corpus: str) -> None:
    assert refused(module_db, "SELECT graphrag.reindex('nobody')").sqlstate == "42704"
    with module_db.transaction(force_rollback=True):
        module_db.execute("SET LOCAL ROLE graphrag_writer")
        assert refused(module_db, "SELECT graphrag.reindex(%s)", corpus).sqlstate == "42501"


def test_a_transaction_that_sees_only_the_past_is_refused(module_db: Database, corpus: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        diag = refused(module_db, "SELECT graphrag.reindex(%s)", corpus)
    assert (diag.sqlstate, "READ COMMITTED" in (diag.message_hint or "")) == ("25001", True)
