"""Another embedding model for a corpus with data: the old vectors serve until the new are complete, whatever happens."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database
from tests.sql.embedded import DIMENSIONS, QUESTION, SAID, assert_embedded, embedded, vectors
from tests.sql.extracting import hurry
from tests.sql.ingest import (
    STORIES,
    canonical,
    compare_at_most,
    corpus_id,
    delete,
    index_all,
    keys,
    put,
    put_all,
    refused,
    rows,
    search,
    searched_corpus,
    statuses,
    value,
    wait_for,
    work,
    worker,
)
from tests.sql.llm import provider

REPLY = json.dumps(SAID)
LOCAL = {"provider": "local"}
# It reads names for endpoints' corpora, too.
MULTILINGUAL = LOCAL | {"model": "multilingual-e5-small"}


@pytest.fixture(autouse=True)
def nothing_queued(module_db: Database) -> Iterator[None]:
    yield
    module_db.execute("DELETE FROM graphrag.provider_state")
    module_db.execute("DELETE FROM graphrag.jobs")


def reembed(db: psycopg.Connection[Any], corpus: str, embedding: dict[str, Any]) -> None:
    db.execute("SELECT graphrag.reembed(%s, %s)", [corpus, Jsonb(embedding)])


def at(name: str, dimensions: int = DIMENSIONS, model: str = "hash") -> dict[str, Any]:
    """The option `embedding` of a provider's model."""
    return {"provider": name, "model": model, "dimensions": dimensions}


def spaces(db: psycopg.Connection[Any], corpus: str) -> list[tuple[str, str, int]]:
    """State, provider and dimensions of the spaces of a corpus."""
    return rows(
        db,
        "SELECT state, provider, dimensions FROM graphrag.embedding_spaces WHERE corpus_id = %s ORDER BY id",
        corpus_id(db, corpus),
    )


def tables(db: psycopg.Connection[Any]) -> list[str]:
    """Tables of vectors that belong to no space."""
    return [
        name
        for (name,) in rows(
            db,
            "SELECT i.inhrelid::regclass::text FROM pg_inherits i WHERE i.inhparent::regclass::text LIKE '%%_vectors'"
            " AND NOT EXISTS (SELECT FROM graphrag.embedding_spaces s WHERE i.inhrelid::regclass::text LIKE '%%\\_' || s.id)",
        )
    ]


def option(db: psycopg.Connection[Any], corpus: str) -> Any:
    return value(db, "SELECT options -> 'embedding' FROM graphrag.corpora WHERE name = %s", corpus)


def reembedded(db: psycopg.Connection[Any], corpus: str) -> Any:
    return value(db, "SELECT reembedded FROM graphrag.progress WHERE corpus = %s", corpus)


def test_from_local_to_an_endpoint_and_back_as_if_made_there(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint)
    documents = STORIES | {"long": "Ada Lovelace met Grace Hopper. " * 40}
    options = {"extractor": "llm", "llm": {"provider": name, "model": "m"}, "max_gleaning": 0, "chunk_token_size": 60}
    corpus = searched_corpus(module_db, **options, embedding=MULTILINGUAL, chunk_overlap=10)
    put_all(module_db, corpus, documents)
    put(module_db, corpus, "titled", "A machine of brass stood in London.", title="The Engine")
    work(module_db)
    first, results, whole = (
        vectors(module_db, corpus),
        search(module_db, QUESTION, corpus),
        canonical(module_db, corpus),
    )
    reembed(module_db, corpus, at(name))
    work(module_db)
    assert spaces(module_db, corpus) == [("active", name, DIMENSIONS)]
    assert option(module_db, corpus) == at(name)
    assert_embedded(module_db, corpus)
    rebuilt = embedded(module_db, name, **options, chunk_overlap=10)
    put_all(module_db, rebuilt, documents)
    put(module_db, rebuilt, "titled", "A machine of brass stood in London.", title="The Engine")
    work(module_db)
    stated = (
        "SELECT md5(string_agg(v.embedding::text, ';' ORDER BY v.embedding::text)) FROM graphrag.{}_vectors v"
        " JOIN graphrag.embedding_spaces s ON s.id = v.space_id WHERE s.corpus_id = %s"
    )
    for kind in ("window", "entity", "entity_mention", "relationship_mention"):
        left_value, other = (
            value(module_db, stated.format(kind), corpus_id(module_db, each)) for each in (corpus, rebuilt)
        )
        assert left_value is not None, kind
        assert left_value == other, kind
    calls = endpoint.count("chat")
    reembed(module_db, corpus, MULTILINGUAL)
    work(module_db)
    assert endpoint.count("chat") == calls, "nothing is extracted again"
    assert spaces(module_db, corpus) == [("active", "local", 384)]
    again = vectors(module_db, corpus)
    assert again.keys() == first.keys()
    for text, vector in again.items():
        assert vector == pytest.approx(first[text], abs=1e-5), text
    assert keys(search(module_db, QUESTION, corpus)) == keys(results)
    assert canonical(module_db, corpus) == whole
    assert tables(module_db) == []


def test_old_vectors_serve_until_the_new_are_complete(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint)
    corpus = index_all(module_db, embedded(module_db, name), STORIES)
    assert reembedded(module_db, corpus) is None
    reembed(module_db, corpus, at(name, 32, "other"))
    assert reembedded(module_db, corpus) == 0
    before = search(module_db, QUESTION, corpus)
    states = []
    while value(module_db, "SELECT count(*) FROM graphrag.jobs WHERE kind = 'reembed'"):
        result = spaces(module_db, corpus)
        states.append((result[0][0], reembedded(module_db, corpus)))
        if ("building", name, 32) in result:
            assert search(module_db, QUESTION, corpus) == before
            assert option(module_db, corpus) == at(name)
        else:
            assert option(module_db, corpus) == at(name, 32, "other")
        work(module_db, 1)
    assert states == [("active", 0), ("active", 5), ("active", 5), ("retired", None)]
    assert spaces(module_db, corpus) == [("active", name, 32)]
    assert tables(module_db) == []
    assert_embedded(module_db, corpus, 32)
    assert [request.body["model"] for request in endpoint.requests].count("other") == 2


def test_what_is_written_meanwhile_has_its_vectors(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint)
    corpus = index_all(module_db, embedded(module_db, name), STORIES)
    reembed(module_db, corpus, at(name, 32))
    work(module_db, 1)
    put(module_db, corpus, "new", "Lord Byron wrote to Mary Shelley in Geneva.")
    put(module_db, corpus, "ada", "Ada Lovelace was the daughter of Lord Byron.")
    delete(module_db, corpus, "enigma")
    work(module_db)
    assert set(statuses(module_db, corpus)) == {"ada", "babbage", "turing", "hopper", "new"}
    assert spaces(module_db, corpus) == [("active", name, 32)]
    assert_embedded(module_db, corpus, 32)
    (counted,) = rows(
        module_db,
        "SELECT (SELECT count(*) FROM graphrag.window_vectors v JOIN graphrag.embedding_spaces s ON s.id = v.space_id"
        "         WHERE s.corpus_id = c.id), (SELECT count(*) FROM graphrag.chunk_windows w WHERE w.corpus_id = c.id)"
        "  FROM graphrag.corpora c WHERE c.name = %s",
        corpus,
    )
    assert counted == (5, 5)


def test_a_document_that_a_worker_has_at_the_swap_is_embedded_by_the_new_model(
    module_db: Database, endpoint: Endpoint
) -> None:
    name = provider(module_db, endpoint)
    corpus = index_all(module_db, embedded(module_db, name), STORIES)
    with Endpoint() as other:
        # The worker embeds by the old model; meanwhile the change is decided, done, and over.
        endpoint.pause()
        put(module_db, corpus, "new", "Lord Byron wrote to Mary Shelley in Geneva.")
        late = worker(module_db.url)
        wait_for(lambda: endpoint.in_flight, "the worker to embed")
        reembed(module_db, corpus, at(provider(module_db, other), 32))
        work(module_db)
        assert [space[0] for space in spaces(module_db, corpus)][-1] == "active"
        endpoint.resume()
        assert late.finish() is None
        module_db.execute("SELECT graphrag.retry_failed()")
        work(module_db)
        assert statuses(module_db, corpus)["new"] == "indexed"
        assert_embedded(module_db, corpus, 32)
        assert len(spaces(module_db, corpus)) == 1
        assert tables(module_db) == []


def test_a_worker_writes_new_documents_into_both_spaces(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint)
    corpus = searched_corpus(
        module_db, extractor="llm", llm={"provider": name, "model": "m"}, max_gleaning=0, grounding="off"
    )
    put_all(module_db, corpus, {"hopper": STORIES["hopper"]})
    work(module_db)
    reembed(module_db, corpus, at(name))
    module_db.execute("UPDATE graphrag.jobs SET next_attempt_at = 'infinity' WHERE kind = 'reembed'")
    index_all(module_db, corpus, {"ada": STORIES["ada"]})
    counts = "SELECT count(*) FROM graphrag.{}_vectors v JOIN graphrag.embedding_spaces s ON s.id = v.space_id"
    of_corpus = " WHERE s.corpus_id = %s AND s.state = 'building'"
    for kind, count in {"window": 1, "entity": 0, "entity_mention": 2, "relationship_mention": 1}.items():
        assert value(module_db, counts.format(kind) + of_corpus, corpus_id(module_db, corpus)) == count, kind
    endpoint.reply(json.dumps({"entities": [{"name": "Mary Shelley", "type": "person", "description": "Wrote."}]}))
    index_all(module_db, corpus, {"new": "Mary Shelley wrote in Geneva."})
    assert value(module_db, counts.format("entity") + of_corpus, corpus_id(module_db, corpus)) == 1
    delete(module_db, corpus, "new")
    work(module_db)
    for kind, count in {"window": 1, "entity": 0, "entity_mention": 2, "relationship_mention": 1}.items():
        assert value(module_db, counts.format(kind) + of_corpus, corpus_id(module_db, corpus)) == count, kind


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["wrong_dimension", "nan", "server_error", "unauthorized"])
def test_an_endpoint_that_fails_holds_up_neither_search_nor_documents_and_heals(
    module_db: Database, endpoint: Endpoint, kind: str
) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), STORIES)
    before = search(module_db, QUESTION, corpus)
    name = provider(module_db, endpoint)
    endpoint.misbehave(kind, None, dimensions=32)
    reembed(module_db, corpus, at(name))
    for _ in range(3):
        work(module_db)
        module_db.execute("UPDATE graphrag.jobs SET next_attempt_at = now()")
    assert search(module_db, QUESTION, corpus) == before
    messages = rows(
        module_db,
        "SELECT kind, state, last_error FROM graphrag.jobs WHERE corpus_id = %s",
        corpus_id(module_db, corpus),
    )
    assert [job[:2] for job in messages] == [("reembed", "pending" if kind == "server_error" else "failed")]
    assert name in messages[0][2]
    index_all(module_db, corpus, {"new": "Lord Byron wrote to Mary Shelley in Geneva."})
    assert statuses(module_db, corpus)["new"] == "indexed"
    assert keys(search(module_db, "Mary Shelley in Geneva", corpus))[0] == "new"
    endpoint.behave()
    module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(module_db)
    assert spaces(module_db, corpus) == [("active", name, DIMENSIONS)]
    assert_embedded(module_db, corpus)


def test_another_model_replaces_an_unfinished_change_and_the_current_one_cancels_it(
    module_db: Database, endpoint: Endpoint
) -> None:
    name = provider(module_db, endpoint)
    corpus = index_all(module_db, searched_corpus(module_db), STORIES)
    before = vectors(module_db, corpus)
    reembed(module_db, corpus, at(name, 16))
    work(module_db, 1)
    reembed(module_db, corpus, at(name, 32))
    assert [space[0] for space in spaces(module_db, corpus)] == ["active", "retired", "building"]
    reembed(module_db, corpus, at(name, 32))  # again: it goes on
    assert [space[0] for space in spaces(module_db, corpus)] == ["active", "retired", "building"]
    work(module_db, 1)
    reembed(module_db, corpus, LOCAL)
    assert [space[0] for space in spaces(module_db, corpus)] == ["active", "retired", "retired"]
    work(module_db)
    assert spaces(module_db, corpus) == [("active", "local", 384)]
    assert tables(module_db) == []
    assert all((vector == before[text]).all() for text, vector in vectors(module_db, corpus).items())
    reembed(module_db, corpus, at(name, 16))
    work(module_db, 1)
    reembed(module_db, corpus, at(name, 32))
    work(module_db)
    assert spaces(module_db, corpus) == [("active", name, 32)]
    assert_embedded(module_db, corpus, 32)
    assert tables(module_db) == []


def test_a_search_that_began_before_the_swap_ends_with_the_old_vectors(module_db: Database, endpoint: Endpoint) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), STORIES)
    with psycopg.connect(module_db.url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        before = search(reader, QUESTION, corpus, "naive")
        reembed(module_db, corpus, at(provider(module_db, endpoint)))
        work(module_db)
        assert [space[0] for space in spaces(module_db, corpus)] == ["retired", "active"]
        assert "old vectors" in value(module_db, "SELECT waiting_for FROM graphrag.progress WHERE corpus = %s", corpus)
        assert search(reader, QUESTION, corpus, "naive") == before
    module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(module_db)
    assert [space[0] for space in spaces(module_db, corpus)] == ["active"]
    assert tables(module_db) == []


def test_the_vector_index_is_there_at_the_swap(module_db: Database, endpoint: Endpoint) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), STORIES)
    reembed(module_db, corpus, at(provider(module_db, endpoint)))
    (building,) = rows(module_db, "SELECT max(id) FROM graphrag.embedding_spaces")[0]
    # As many vectors as pay for an index.
    module_db.execute(
        f"INSERT INTO graphrag.window_vectors (space_id, window_id, chunk_id, document_id, embedding)"
        f" SELECT {building}, -n, -n, -n, array_fill(n::real, '{{{DIMENSIONS}}}')::vector"
        "   FROM generate_series(1, 5000) n".encode()
    )
    indexes = f"SELECT indexdef LIKE '%%({DIMENSIONS})%%' FROM pg_indexes WHERE indexname = 'window_vectors_{building}_hnsw_idx'"
    compare_at_most(module_db, 4999)
    while "building" in [space[0] for space in spaces(module_db, corpus)]:
        assert rows(module_db, indexes) == []
        work(module_db, 1)
    compare_at_most(module_db, 20_000)
    assert rows(module_db, indexes) == [(True,)]


@pytest.mark.slow
def test_a_worker_killed_amid_it_is_followed_by_one_that_goes_on(
    cluster: Callable[..., Cluster], endpoint: Endpoint
) -> None:
    own_cluster = cluster()
    url = own_cluster.create_database("app")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        corpus = searched_corpus(db)
        for n in range(40):
            put(db, corpus, f"{n:02}", f"Traveller {n} met Ada Lovelace in London.")
        work(db)
        name = provider(db, endpoint)
        reembed(db, corpus, at(name))
        work(db, 1)
        assert reembedded(db, corpus) == 32
        done = {text for request in endpoint.requests for text in request.body["input"]}
        endpoint.forget()
        endpoint.pause()
        victim = worker(url)
        wait_for(lambda: endpoint.in_flight, "the worker to embed")
        os.kill(victim.pid, signal.SIGKILL)
        assert victim.finish() is not None
        endpoint.resume()
    wait_for(lambda: own_cluster.log.count("ready to accept connections") > 1, "the server's recovery")
    with psycopg.connect(url, autocommit=True) as db:
        endpoint.forget()
        work(db)
        asked = {text for request in endpoint.requests for text in request.body["input"]}
        assert not asked & done, "what was written is not embedded again"
        assert spaces(db, corpus) == [("active", name, DIMENSIONS)]
        assert_embedded(db, corpus)
        assert tables(db) == []


def test_two_workers_and_a_queue_that_does_not_end_come_to_a_swap(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint)
    corpus = index_all(module_db, embedded(module_db, name), STORIES)
    reembed(module_db, corpus, at(name, 32))
    number = 0

    def swapped() -> bool:
        nonlocal number
        for _ in range(3):
            number += 1
            put(module_db, corpus, f"more {number}", f"Traveller {number} met Ada Lovelace in London.")
        others = [worker(module_db.url) for _ in range(2)]
        assert [other.finish() for other in others] == [None, None]
        return spaces(module_db, corpus)[-1] == ("active", name, 32)

    wait_for(swapped, "the swap")
    # The other worker's transaction may still read the old vectors when the first looks; then they go a minute later.
    hurry(module_db, corpus)
    assert len(spaces(module_db, corpus)) == 1
    assert_embedded(module_db, corpus, 32)


def test_without_vectors_the_option_changes_at_once(module_db: Database, endpoint: Endpoint) -> None:
    corpus = embedded(module_db, provider(module_db, endpoint), 16)
    put_all(module_db, corpus, STORIES)
    other = at(provider(module_db, endpoint))
    diag = refused(module_db, "SELECT graphrag.alter_corpus(%s, %s)", corpus, Jsonb({"embedding": other}))
    assert diag.sqlstate == "55000"
    assert "graphrag.reembed" in str(diag.message_hint)
    reembed(module_db, corpus, other)
    assert option(module_db, corpus) == other
    work(module_db)
    assert_embedded(module_db, corpus)


def test_other_options_change_while_it_is_under_way(module_db: Database, endpoint: Endpoint) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), STORIES)
    reembed(module_db, corpus, at(provider(module_db, endpoint)))
    work(module_db, 1)
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"query_log": True})])
    work(module_db)
    assert value(
        module_db,
        "SELECT options ? 'query_log' AND options ? 'embedding' FROM graphrag.corpora WHERE name = %s",
        corpus,
    )
    assert_embedded(module_db, corpus)


def test_a_corpus_is_dropped_with_both_spaces(module_db: Database, endpoint: Endpoint) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), STORIES)
    reembed(module_db, corpus, at(provider(module_db, endpoint)))
    work(module_db, 1)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    work(module_db)
    assert tables(module_db) == []


def test_what_cannot_be_is_refused(module_db: Database, endpoint: Endpoint) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), {"ada": STORIES["ada"]})
    call = "SELECT graphrag.reembed(%s, %s)"
    assert refused(module_db, call, "nowhere", Jsonb(LOCAL)).sqlstate == "42704"
    assert refused(module_db, call, corpus, Jsonb(at("nobody"))).sqlstate == "42704"
    assert refused(module_db, call, corpus, Jsonb({"provider": "local", "dimensions": 64})).sqlstate == "22023"
    assert refused(module_db, call, corpus, None).sqlstate == "22023"
    with psycopg.connect(module_db.url, autocommit=True) as session:
        session.execute("SET ROLE graphrag_reader")
        assert refused(session, call, corpus, Jsonb(LOCAL)).sqlstate == "42501"


def test_repair_goes_on_with_what_a_dump_left_unfinished(module_db: Database, endpoint: Endpoint) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), STORIES)
    name = provider(module_db, endpoint)
    reembed(module_db, corpus, at(name))
    module_db.execute("DELETE FROM graphrag.jobs")  # which are not dumped
    module_db.execute("SELECT graphrag.repair()")
    work(module_db)
    assert spaces(module_db, corpus) == [("active", name, DIMENSIONS)]
    assert_embedded(module_db, corpus)
