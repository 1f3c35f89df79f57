"""Long documents are done in parts by any number of workers, and the outcome is that of one worker who does all at once."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database
from tests.sql.extracting import chats, extracted, hurry, knows, traces
from tests.sql.ingest import (
    STORIES,
    Background,
    canonical,
    corpus_id,
    delete,
    jobs,
    keys,
    put,
    put_all,
    rows,
    search,
    statuses,
    value,
    wait_for,
    wait_for_lock,
    work,
    worker,
)

REPLY = knows
NAMES = ("Ada Lovelace", "Alan Turing", "Grace Hopper", "Charles Babbage", "London", "Enigma", "Harvard")
TEXT = " ".join(f"{NAMES[n % 7]} met {NAMES[n % 4]} at {NAMES[n * n % 7]} on day {n % 50}." for n in range(180))
OPTIONS = {"chunk_token_size": 100, "chunk_overlap": 10, "summaries": False}
# For a session: documents of a few kB are long, and have parts of a few chunks.
SMALL_PARTS = """DO LANGUAGE plpython3u $$
from pg_graphrag.index.indexing import write as parts
parts.LONG_BYTES, parts.VECTOR_TOKENS, parts.GRAPH_CHUNKS, parts.GRAPH_TOKENS = 3000, 800, 8, 10**6
$$"""
# For a session: no document is long.
WHOLE = """DO LANGUAGE plpython3u $$
from pg_graphrag.index.indexing import write as parts
parts.LONG_BYTES = parts.GRAPH_CHUNKS = 10**9
$$"""
EXTRACTORS = pytest.mark.parametrize("extractor", ["nlp", "llm"])


@pytest.fixture(autouse=True, scope="module")
def _small_parts(module_db: Database) -> None:
    module_db.execute(SMALL_PARTS)


@pytest.fixture(autouse=True)
def _empty_queue(module_db: Database) -> None:
    """Tests count jobs: what another left must not be among them."""
    module_db.execute("DELETE FROM graphrag.jobs")


def corpus_with_text(db: Database, endpoint: Endpoint, extractor: str = "nlp", **options: Any) -> str:
    """A corpus with a long document whose text is written, and whose parts are still to come; and others."""
    corpus = extracted(db, endpoint, extractor=extractor, **OPTIONS | options)
    put_all(db, corpus, {"ada": STORIES["ada"], "long": TEXT})
    work(db, 2)
    assert statuses(db, corpus)["long"] == "pending"
    return corpus


def parts(db: Database, corpus: str) -> list[tuple[Any, ...]]:
    """(kind, state) of the jobs of parts."""
    condition = "j.corpus_id = %s AND j.chunks IS NOT NULL"
    return rows(
        db,
        f"SELECT j.kind, j.state FROM graphrag.jobs j WHERE {condition} ORDER BY 1, lower(j.chunks)",
        corpus_id(db, corpus),
    )


def lacking(db: Database, corpus: str) -> tuple[Any, ...]:
    """(chunks, those without vectors, those without graph) of `progress`."""
    (row,) = rows(db, "SELECT chunks, vectors_pending, graphs_pending FROM graphrag.progress WHERE corpus = %s", corpus)
    return row


def checked(db: Database, corpus: str) -> None:
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


# (extractor, other options): outcome. It depends on nothing else.
_wholes: dict[tuple[str, str], Any] = {}


def whole(url: str, endpoint: Endpoint, extractor: str, **options: Any) -> Any:
    """What a session makes of the documents that does each at once: made once."""
    key = extractor, json.dumps(options)
    if key not in _wholes:
        _wholes[key] = made_at_once(url, endpoint, extractor, **options)
    return _wholes[key]


def made_at_once(url: str, endpoint: Endpoint, extractor: str, **options: Any) -> Any:
    with Database.open(url) as db:
        db.execute(WHOLE)
        # Whose endpoint it is, is no part of the outcome.
        corpus = extracted(db, endpoint, extractor=extractor, **OPTIONS | options)
        put_all(db, corpus, {"ada": STORIES["ada"], "long": TEXT})
        work(db, 2 if extractor == "nlp" else 4)
        assert parts(db, corpus) == []
        work(db)
        outcome = canonical(db, corpus), value(db, "SELECT graphrag.fingerprint(%s)", corpus)
        db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    return outcome


def outcome(db: Database, corpus: str) -> Any:
    checked(db, corpus)
    assert set(statuses(db, corpus).values()) == {"indexed"}
    return canonical(db, corpus), value(db, "SELECT graphrag.fingerprint(%s)", corpus)


def part_worker(url: str) -> Background:
    return worker(url, SMALL_PARTS)


def test_a_long_text_is_found_first_then_its_vectors_then_its_graph(module_db: Database, endpoint: Endpoint) -> None:
    corpus = corpus_with_text(module_db, endpoint)
    chunks, *pending = lacking(module_db, corpus)
    assert pending == [chunks - 1, chunks - 1]
    results = search(module_db, "Enigma Harvard", corpus, "bm25")
    assert keys(results)[:1] == ["long"]
    assert results[0]["explain"]["graph"] == "pending"
    assert {row["source_key"] for row in search(module_db, "Enigma", corpus, "naive")} == {"ada"}
    checked(module_db, corpus)
    kinds = [kind for kind, _ in parts(module_db, corpus)]
    assert kinds.count("embed") > 2
    assert kinds.count("graph") > 2
    for _ in range(kinds.count("embed")):
        assert lacking(module_db, corpus)[1] > 0
        work(module_db, 1)
        checked(module_db, corpus)
    assert lacking(module_db, corpus) == (chunks, 0, chunks - 1)
    assert "long" in keys(search(module_db, "Enigma", corpus, "naive"))
    assert traces(module_db, corpus, "long") == 0
    work(module_db, 1)
    assert 0 < lacking(module_db, corpus)[2] < chunks - 1
    checked(module_db, corpus)
    work(module_db)
    assert lacking(module_db, corpus) == (chunks, 0, 0)
    assert not any("graph" in row["explain"] for row in search(module_db, "Enigma Harvard", corpus))


@pytest.mark.sample(1)
@EXTRACTORS
def test_two_workers_and_any_order_make_what_one_makes_at_once(
    module_db: Database, endpoint: Endpoint, extractor: str
) -> None:
    corpus = corpus_with_text(module_db, endpoint, extractor)
    # Half of the vectors come after the graph.
    module_db.execute(
        "UPDATE graphrag.jobs j SET next_attempt_at = CASE WHEN kind = 'embed' AND j.id %% 2 = 0 THEN now() + interval '1 h'"
        " ELSE now() - ('x' || md5(j.id::text))::bit(8)::int * interval '1 s' END WHERE j.corpus_id = %s",
        [corpus_id(module_db, corpus)],
    )
    endpoint.pause()
    workers = [part_worker(module_db.url) for _ in range(2)]
    wait_for(lambda: [state for _, state in parts(module_db, corpus)].count("leased") == 2, "both to have a part")
    endpoint.resume()
    assert [session.finish() for session in workers] == [None, None]
    assert {kind for kind, _ in parts(module_db, corpus)} == {"embed"}
    checked(module_db, corpus)
    hurry(module_db, corpus)
    assert outcome(module_db, corpus) == whole(module_db.url, endpoint, extractor)


def _update(db: Database, corpus: str) -> None:
    put(db, corpus, "long", TEXT + " The end.")
    put(db, corpus, "long", TEXT)


def _shorten_and_work(db: Database, corpus: str) -> None:
    put(db, corpus, "long", STORIES["turing"])
    work(db, 1)
    old = "SELECT content FROM graphrag.chunks WHERE corpus_id = %s AND content ~ 'on day'"
    assert rows(db, old, corpus_id(db, corpus)) == []
    put(db, corpus, "long", TEXT)


def _delete(db: Database, corpus: str) -> None:
    delete(db, corpus, "long")
    put(db, corpus, "long", TEXT)


def _rename(db: Database, corpus: str) -> None:
    for name, key in (("x", "long"), ("long", "x")):
        db.execute(
            "UPDATE graphrag.documents SET source_key = %s WHERE corpus = %s AND source_key = %s", [name, corpus, key]
        )


def _forget(db: Database, corpus: str) -> None:
    db.execute("UPDATE graphrag.documents SET indexed_hash = NULL WHERE corpus = %s", [corpus])


def _repair(db: Database, corpus: str) -> None:
    # As after a restore: there is no queue.
    db.execute("DELETE FROM graphrag.jobs WHERE corpus_id = %s", [corpus_id(db, corpus)])
    db.execute("SELECT graphrag.repair()")


def _cut_anew(db: Database, corpus: str) -> None:
    for size in (300, 100):
        db.execute("SELECT graphrag.alter_corpus(%s, jsonb_build_object('chunk_token_size', %s))", [corpus, size])
    assert {kind for _, kind, _, _ in jobs(db, corpus)} == {"index"}


CHANGES = [_update, _delete, _rename, _forget, _repair, _cut_anew]


@pytest.mark.sample(2)
@pytest.mark.parametrize("change", [*CHANGES, _shorten_and_work], ids=lambda change: change.__name__[1:])
def test_a_change_between_parts_leaves_what_the_documents_say(
    module_db: Database, endpoint: Endpoint, change: Callable[[Database, str], None]
) -> None:
    corpus = corpus_with_text(module_db, endpoint)
    work(module_db, len([kind for kind, _ in parts(module_db, corpus) if kind == "embed"]) + 1)
    change(module_db, corpus)
    checked(module_db, corpus)
    work(module_db)
    assert outcome(module_db, corpus) == whole(module_db.url, endpoint, "nlp")


@pytest.mark.sample(3)
@EXTRACTORS
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__[1:])
def test_a_change_while_a_part_is_at_work_leaves_what_the_documents_say(
    module_db: Database, endpoint: Endpoint, extractor: str, change: Callable[[Database, str], None]
) -> None:
    corpus = corpus_with_text(module_db, endpoint, extractor)
    if extractor == "llm":
        work(module_db, len([kind for kind, _ in parts(module_db, corpus) if kind == "embed"]))
    endpoint.pause()
    late = part_worker(module_db.url)
    wait_for(lambda: endpoint.in_flight > 0, "the worker to ask")
    change(module_db, corpus)
    endpoint.resume()
    assert late.finish() is None
    checked(module_db, corpus)
    hurry(module_db, corpus)
    assert outcome(module_db, corpus) == whole(module_db.url, endpoint, extractor)


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_an_interrupted_part_is_not_written_and_comes_again(module_db: Database, endpoint: Endpoint, how: str) -> None:
    corpus = corpus_with_text(module_db, endpoint)
    before = lacking(module_db, corpus)
    endpoint.pause()
    worker_session = part_worker(module_db.url)
    wait_for(lambda: endpoint.in_flight > 0, "the worker to ask")
    module_db.execute(f"SELECT {how}(%s)".encode(), [worker_session.pid])
    assert worker_session.finish() is not None
    endpoint.resume()
    assert lacking(module_db, corpus) == before
    if how == "pg_cancel_backend":
        assert {state for _, state in parts(module_db, corpus)} == {"pending"}
    wait_for(lambda: work(module_db) or not jobs(module_db, corpus), "an empty queue")
    assert outcome(module_db, corpus) == whole(module_db.url, endpoint, "nlp")


@pytest.mark.slow
def test_a_killed_server_loses_no_part(cluster: Callable[[], Cluster], endpoint: Endpoint) -> None:
    url = cluster().create_database("killed")
    with Database.open(url) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        db.execute(SMALL_PARTS)
        corpus = corpus_with_text(db, endpoint)
        work(db, 2)
        done = lacking(db, corpus)
        endpoint.pause()
        workers = [part_worker(url) for _ in range(2)]
        wait_for(lambda: endpoint.in_flight > 1, "the workers to ask")
        os.kill(workers[0].pid, signal.SIGKILL)
        assert all(isinstance(session.finish(), psycopg.OperationalError) for session in workers)
        endpoint.resume()

    def reconnected() -> Database | None:
        try:
            return Database.open(url)
        except psycopg.OperationalError:
            return None

    with wait_for(reconnected, "the server to recover") as db:
        assert lacking(db, corpus) == done
        db.execute(SMALL_PARTS)
        work(db)
        assert outcome(db, corpus) == whole(url, endpoint, "nlp")


@pytest.mark.slow
def test_what_a_dump_had_in_parts_is_done_after_a_restore(
    shared_cluster: Cluster, db: Database, endpoint: Endpoint
) -> None:
    db.execute(SMALL_PARTS)
    corpus = corpus_with_text(db, endpoint)
    work(db, [kind for kind, _ in parts(db, corpus)].count("embed") + 1)
    script = shared_cluster.dump(db.info.dbname)
    url = shared_cluster.create_database("restored_parts", "template0")
    shared_cluster.restore("restored_parts", script)
    with Database.open(url) as restored:
        restored.execute(SMALL_PARTS)
        restored.execute("SELECT graphrag.repair()")
        checked(restored, corpus)
        chunks = "SELECT array_agg(id ORDER BY id) FROM graphrag.chunks"
        before = value(restored, chunks)
        work(restored)
        # Their vectors were in the dump.
        assert value(restored, chunks) == before
        assert outcome(restored, corpus) == whole(url, endpoint, "nlp")
    shared_cluster.drop_database("restored_parts")


@pytest.mark.sample(1)
@EXTRACTORS
def test_a_failing_endpoint_holds_up_parts_alone_and_dead_letters_come_again(
    module_db: Database, endpoint: Endpoint, extractor: str
) -> None:
    corpus = corpus_with_text(module_db, endpoint, extractor)
    embeds = [kind for kind, _ in parts(module_db, corpus)].count("embed")
    if extractor == "llm":
        work(module_db, embeds)
    work(module_db, 1)
    kind = "chat" if extractor == "llm" else "embeddings"
    endpoint.misbehave("server_error", None, when=lambda request: request.kind == kind)
    work(module_db)
    assert {state for _, state in parts(module_db, corpus)} == {"pending"}
    assert statuses(module_db, corpus)["long"] == "pending"
    endpoint.behave()
    endpoint.misbehave("unauthorized", None, when=lambda request: request.kind == kind)
    module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(module_db)
    failed = rows(module_db, "SELECT source_key, kind FROM graphrag.failed_jobs WHERE corpus = %s", corpus)
    assert failed
    assert {key for key, _ in failed} == {"long"}
    assert statuses(module_db, corpus)["long"] == "failed"
    assert keys(search(module_db, "Enigma Harvard", corpus, "bm25"))[:1] == ["long"]
    checked(module_db, corpus)
    endpoint.behave()
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) >= len(failed)
    checked(module_db, corpus)
    work(module_db)
    assert outcome(module_db, corpus) == whole(module_db.url, endpoint, extractor)


def test_a_dead_letter_of_the_whole_may_be_tried_again_before_its_parts_are_done(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = corpus_with_text(module_db, endpoint)
    endpoint.misbehave(
        "nan", None, when=lambda request: any("on day 0." in text for text in request.body.get("input", ()))
    )
    work(module_db, 1)
    assert rows(module_db, "SELECT source_key FROM graphrag.failed_jobs WHERE corpus = %s", corpus) == [("long",)]
    assert parts(module_db, corpus)
    endpoint.behave()
    module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(module_db)
    assert outcome(module_db, corpus) == whole(module_db.url, endpoint, "nlp")


@pytest.mark.slow
def test_a_text_that_is_the_same_keeps_what_was_made_of_it_until_each_part_is_there_anew(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = corpus_with_text(module_db, endpoint)
    work(module_db)
    created = "SELECT array_agg(c.id ORDER BY c.id), count(*) FROM graphrag.chunks c WHERE c.corpus_id = %s"
    chunks = rows(module_db, created, corpus_id(module_db, corpus))
    mentions = traces(module_db, corpus, "long")
    module_db.execute(
        "UPDATE graphrag.documents SET source_key = 'other' WHERE corpus = %s AND source_key = 'long'", [corpus]
    )
    asked = len(endpoint.requests)
    while jobs(module_db, corpus):
        work(module_db, 1)
        assert rows(module_db, created, corpus_id(module_db, corpus)) == chunks
        assert traces(module_db, corpus, "other") == mentions
        checked(module_db, corpus)
    assert endpoint.requests[asked:] == []
    projected = "SELECT graphrag.cypher(%s, 'MATCH (d:Document) RETURN d.source_key ORDER BY d.source_key')"
    assert [list(row.values()) for (row,) in rows(module_db, projected, corpus)] == [["ada"], ["other"]]
    assert statuses(module_db, corpus) == {"ada": "indexed", "other": "indexed"}


@pytest.mark.parametrize("lock", ["UPDATE", "SHARE"])
def test_a_document_that_somebody_holds_waits(module_db: Database, endpoint: Endpoint, lock: str) -> None:
    corpus = corpus_with_text(module_db, endpoint)
    with psycopg.connect(module_db.url) as user:
        user.execute(f"SELECT FROM graphrag.documents WHERE corpus = %s FOR {lock}".encode(), [corpus])
        work(module_db)
        states = [state for _, state in parts(module_db, corpus)]
        # Who only reads it keeps nobody from the parts before the last.
        assert states == ["pending"] if lock == "SHARE" else set(states) == {"pending"}
        assert statuses(module_db, corpus)["long"] == "pending"
    hurry(module_db, corpus)
    assert outcome(module_db, corpus) == whole(module_db.url, endpoint, "nlp")


def test_who_changes_a_document_waits_for_the_part_that_is_written_alone(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = corpus_with_text(module_db, endpoint)
    with psycopg.connect(module_db.url) as holder:
        holder.execute("SELECT graphrag._lock_corpus(%s)", [corpus_id(module_db, corpus)])
        worker_session = part_worker(module_db.url)
        wait_for_lock(module_db, worker_session.pid)
        user = Background(
            module_db.url, f"UPDATE graphrag.documents SET content = 'Nothing.' WHERE corpus = '{corpus}'"
        )
        wait_for_lock(module_db, user.pid)
    assert [worker_session.finish(), user.finish()] == [None, None]
    hurry(module_db, corpus)
    assert lacking(module_db, corpus) == (2, 0, 0)
    contents = "SELECT DISTINCT content FROM graphrag.chunks WHERE corpus_id = %s"
    assert rows(module_db, contents, corpus_id(module_db, corpus)) == [("Nothing.",)]
    checked(module_db, corpus)


@pytest.mark.slow
def test_another_model_is_swapped_in_between_parts(module_db: Database, endpoint: Endpoint) -> None:
    corpus = corpus_with_text(module_db, endpoint)
    name = value(module_db, "SELECT options #>> '{embedding,provider}' FROM graphrag.corpora WHERE name = %s", corpus)
    work(module_db, 2)
    model = {"provider": name, "model": "hash", "dimensions": 16}
    module_db.execute("SELECT graphrag.reembed(%s, %s)", [corpus, Jsonb(model)])
    work(module_db)
    hurry(module_db, corpus)
    checked(module_db, corpus)
    assert statuses(module_db, corpus)["long"] == "indexed"
    assert (
        value(module_db, "SELECT graphrag.fingerprint(%s)", corpus)
        == whole(module_db.url, endpoint, "nlp", embedding=model)[1]
    )


def test_communities_and_reports_wait_for_the_last_part(module_db: Database, endpoint: Endpoint) -> None:
    corpus = corpus_with_text(module_db, endpoint, communities=True)
    module_db.execute(
        "DELETE FROM graphrag.jobs WHERE corpus_id = %s AND kind = 'communities'", [corpus_id(module_db, corpus)]
    )
    for _ in range(len(parts(module_db, corpus)) - 1):
        work(module_db, 1)
        assert "communities" not in {kind for _, kind, _, _ in jobs(module_db, corpus)}
    work(module_db, 1)
    assert {kind for _, kind, _, _ in jobs(module_db, corpus)} == {"communities"}


def test_a_model_is_asked_for_one_part_at_a_time(module_db: Database, endpoint: Endpoint) -> None:
    corpus = corpus_with_text(module_db, endpoint, "llm")
    asked = "SELECT count(*) FROM graphrag.chunks WHERE corpus_id = %s AND extraction IS NOT NULL"
    # The other document's graph comes before, as it was queued before.
    work(module_db, len([kind for kind, _ in parts(module_db, corpus) if kind == "embed"]) + 1)
    assert len(chats(endpoint)) == 1
    for part in (1, 2):
        work(module_db, 1)
        assert value(module_db, asked, corpus_id(module_db, corpus)) == len(chats(endpoint)) == 1 + part * 8


def test_ordinary_documents_have_one_job(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted(module_db, endpoint, extractor="nlp")
    put(module_db, corpus, "ordinary", TEXT[:2900])
    work(module_db, 1)
    assert jobs(module_db, corpus) == []
    assert statuses(module_db, corpus) == {"ordinary": "indexed"}
