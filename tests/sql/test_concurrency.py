"""Workers, users and readers at once: nobody waits for a merge, and a document's graph is seen entirely or not at all."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.property.graphs import CURATIONS, NAMES, VERBS, assert_true, broken, curate, settle, undo_all
from tests.runtime.cluster import Database
from tests.sql.ingest import (
    STORIES,
    corpus_id,
    delete,
    index_all,
    keys,
    new_corpus,
    put,
    rows,
    search,
    value,
    wait_for,
    wait_for_lock,
    work,
    worker,
)
from tests.sql.llm import provider

WORKERS, USERS, TRANSACTIONS = 8, 3, 12


@pytest.fixture(scope="module")
def options(module_db: Database) -> Iterator[dict[str, Any]]:
    with Endpoint(keep=False) as endpoint:
        yield {"embedding": {"provider": provider(module_db, endpoint), "model": "hash", "dimensions": 64}}


def test_readers_wait_for_no_merge_and_see_documents_whole(module_db: Database, options: dict[str, Any]) -> None:
    corpus = index_all(module_db, new_corpus(module_db, **options), {key: STORIES[key] for key in ("ada", "enigma")})
    before = value(module_db, "SELECT graphrag.fingerprint(%s)", corpus)
    with psycopg.connect(module_db.url) as holder, psycopg.connect(module_db.url, autocommit=True) as reader:
        reader.execute("SET lock_timeout = '1ms'")
        holder.execute("SELECT graphrag._lock_corpus(%s)", [corpus_id(module_db, corpus)])
        put(module_db, corpus, "hopper", STORIES["hopper"])
        # It has written the document's chunks, not committed, and waits to merge them.
        busy = worker(module_db.url)
        wait_for_lock(module_db, busy.pid)
        for mode in ("naive", "bm25", "local", "global", "hybrid", "mix"):
            results = keys(search(reader, "Grace Hopper admired Ada Lovelace at Harvard", corpus, mode))
            assert "hopper" not in results
            assert results or mode == "global"
        assert value(reader, "SELECT graphrag.context('Ada Lovelace', %s, 'hybrid') ->> 'prompt'", corpus)
        assert rows(reader, "SELECT name FROM graphrag.neighbors('Ada Lovelace', %s)", corpus)
        assert rows(reader, "SELECT graphrag.cypher(%s, 'MATCH (n:Entity) RETURN n.name AS name')", corpus)
        assert rows(reader, "SELECT * FROM graphrag.graph_edges WHERE corpus = %s", corpus)
        # The queue differs, and with it the section of documents; nothing of the graph does.
        sections = "SELECT section, hash FROM graphrag.fingerprint_sections(%s) WHERE section <> 'documents'"
        half = rows(reader, sections, corpus)
        assert broken(reader, corpus) == []
        holder.rollback()
        assert busy.finish() is None
        assert value(reader, "SELECT graphrag.fingerprint(%s)", corpus) != before
        assert "hopper" in keys(search(reader, "Grace Hopper admired Ada Lovelace at Harvard", corpus, "hybrid"))
        delete(module_db, corpus, "hopper")
        work(module_db)
        assert rows(reader, sections, corpus) == half
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", corpus) == before


def test_workers_users_and_curators_on_the_same_entities_deadlock_nobody_and_lose_nothing(
    module_db: Database, options: dict[str, Any]
) -> None:
    corpus = new_corpus(module_db, **options)
    errors: list[str] = []
    documents: list[dict[str, str]] = [{} for _ in range(USERS)]
    done = threading.Event()

    def user(number: int) -> None:
        chance = random.Random(number)
        with Database.open(module_db.url) as db:
            for _ in range(TRANSACTIONS):
                with db.transaction():
                    for key in (f"{number}-{chance.randrange(6)}" for _ in range(3)):
                        if key in documents[number] and chance.random() < 0.4:
                            delete(db, corpus, key)
                            del documents[number][key]
                        else:
                            text = f"{chance.choice(NAMES)} {chance.choice(VERBS)} {chance.choice(NAMES)}."
                            put(db, corpus, key, text)
                            documents[number][key] = text

    def curator() -> None:
        chance = random.Random(0)
        with Database.open(module_db.url) as db:
            while not done.is_set():
                first, other = chance.sample(NAMES, 2)
                curate(db, corpus, chance.choice(CURATIONS), first, other, f"{first} {other}.")

    def work_on() -> None:
        with Database.open(module_db.url) as db:
            while not done.is_set():
                work(db)

    def safely(what: Any, *given: Any) -> None:
        try:
            what(*given)
        except Exception as error:
            errors.append(f"{what.__name__}: {error!r}")

    users = [threading.Thread(target=safely, args=(user, number)) for number in range(USERS)]
    others = [threading.Thread(target=safely, args=(work_on,)) for _ in range(WORKERS)]
    others.append(threading.Thread(target=safely, args=(curator,)))
    for thread in (*others, *users):
        thread.start()
    for thread in users:
        thread.join()
    done.set()
    wait_for(lambda: not any(thread.is_alive() for thread in others), "the workers")
    assert errors == []
    settle(module_db, corpus)
    assert broken(module_db, corpus) == []
    undo_all(module_db, corpus)
    remaining = {key: text for some in documents for key, text in some.items()}
    assert dict(rows(module_db, "SELECT source_key, content FROM graphrag.documents WHERE corpus = %s", corpus)) == (
        remaining
    )
    assert_true(module_db, corpus, remaining, **options)
