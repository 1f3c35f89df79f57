"""What a change costs: no model call but for a summary whose input is new, and rows as the document has, not the corpus."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.ingest import delete, index_all, new_corpus, put, value, work
from tests.sql.llm import provider

PEOPLE = ("Ada", "Bob", "Cid", "Dan", "Eve", "Fay", "Gil", "Hal", "Ida", "Jon")


def reply(messages: Messages) -> str:
    """A summary of one message; else: the text describes Ada and whoever else it names."""
    if len(messages) == 1:
        return f"Summary of {len(str(messages[0]['content']))} characters."
    text = str(messages[-1]["content"])
    named = [name for name in PEOPLE if f"{name} " in text or f"{name}." in text]
    entities = [{"name": name, "type": "person", "description": text[-40:]} for name in named]
    return json.dumps({"entities": entities, "relationships": []})


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        server.reply(reply)
        yield server


def test_update_and_delete_ask_a_model_for_new_text_and_new_summaries_only(
    module_db: Database, endpoint: Endpoint
) -> None:
    name = provider(module_db, endpoint)
    corpus = new_corpus(
        module_db,
        extractor="llm",
        max_gleaning=0,
        llm={"provider": name, "model": "model-1"},
        embedding={"provider": name, "model": "hash", "dimensions": 16},
    )
    texts = {other: f"Ada met {other}." for other in PEOPLE[1:]} | {"alone": "Bob met Cid and Dan."}
    for key, text in texts.items():
        put(module_db, corpus, key, text)
    work(module_db)

    def calls() -> tuple[int, int]:
        counted = endpoint.count(), endpoint.count("embeddings")
        endpoint.forget()
        return counted

    endpoint.forget()
    # Nine say what Ada is; one of ten people has gone, none needs a summary: nothing to ask.
    delete(module_db, corpus, "alone")
    work(module_db)
    assert calls() == (0, 0)
    # Eight say so: one new summary, of Ada.
    delete(module_db, corpus, "Jon")
    work(module_db)
    assert calls() == (1, 0)
    # Seven: too few to be summarised.
    delete(module_db, corpus, "Ida")
    work(module_db)
    assert calls() == (0, 0)
    # What was asked before is known: only vectors are made again.
    index_all(module_db, corpus, {"Ida": texts["Ida"]})
    assert calls()[0] == 0
    # The same document with other metadata or the same text is no work.
    put(module_db, corpus, "Ida", texts["Ida"], metadata={"seen": 1})
    work(module_db)
    assert calls() == (0, 0)
    assert value(module_db, "SELECT count(*) FROM graphrag.check(%s)", corpus) == 0


def written(db: psycopg.Connection[Any]) -> int:
    """Rows written in this database so far."""
    db.execute("SELECT pg_stat_force_next_flush()")
    return int(value(db, "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"))


@pytest.mark.slow
def test_rows_written_do_not_grow_with_the_corpus(module_db: Database, endpoint: Endpoint) -> None:
    model = {"provider": provider(module_db, endpoint), "model": "hash", "dimensions": 16}
    corpus = new_corpus(module_db, embedding=model)
    costs: list[dict[str, int]] = []
    have = 0
    for size in (8, 160):
        with module_db.transaction():
            for number in range(have, size):
                put(module_db, corpus, str(number), f"In {1000 + number} Ada Lovelace met Charles Babbage in London.")
        have = size
        work(module_db)
        module_db.execute("SELECT graphrag.optimize(%s)", [corpus])
        work(module_db)
        cost = {}
        for what in ("update", "delete"):
            if what == "update":
                put(module_db, corpus, "3", f"Ada Lovelace met Charles Babbage in Turin, {size} times.")
            else:
                delete(module_db, corpus, "5" if size == 8 else "50")
            # What this session did before counts now, not later.
            module_db.execute("SELECT pg_stat_force_next_flush()")
            with psycopg.connect(module_db.url, autocommit=True) as worker:
                before = written(worker)
                worker.execute("CALL graphrag.process_jobs()")
                cost[what] = written(worker) - before
        costs.append(cost)
    small, large = costs
    assert all(0 < large[what] <= 1.5 * small[what] + 5 for what in small), costs


def test_a_rewrite_leaves_rows_alone_that_stay_as_they_are(module_db: Database) -> None:
    """The same sentences in other chunks: counts, names and best sentences are what they were."""
    corpus = new_corpus(module_db)
    text = "Ada Lovelace met Charles Babbage in London. Charles Babbage designed the Analytical Engine."
    index_all(module_db, corpus, {"one": text})

    def versions() -> dict[tuple[str, int], str]:
        rows = module_db.execute(
            "SELECT 'entity', e.id, e.xmin::text FROM graphrag.entities e WHERE e.corpus_id = c.id"
            " UNION ALL SELECT 'relationship', r.id, r.xmin::text FROM graphrag.relationships r WHERE r.corpus_id = c.id".replace(
                "c.id", "(SELECT id FROM graphrag.corpora WHERE name = %(corpus)s)"
            ),
            {"corpus": corpus},
        ).fetchall()
        return {(kind, number): version for kind, number, version in rows}

    before = versions()
    assert len(before) > 3
    index_all(module_db, corpus, {"one": text + " It was raining."})
    after = versions()
    assert before.items() <= after.items()
    assert value(module_db, "SELECT count(*) FROM graphrag.check(%s)", corpus) == 0
    index_all(module_db, corpus, {"one": text.replace("met Charles Babbage in London", "met Charles Babbage in Paris")})
    assert versions() != after
    assert value(module_db, "SELECT count(*) FROM graphrag.check(%s)", corpus) == 0
