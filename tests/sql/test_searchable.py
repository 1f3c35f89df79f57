"""A text is searchable before a model has found its graph, and the outcome is the same whatever happens in between."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.extracting import chats, extracted, hurry, knows, traces, undisturbed
from tests.sql.ingest import (
    STORIES,
    canonical,
    corpus_id,
    delete,
    index_all,
    jobs,
    keys,
    put,
    put_all,
    rows,
    search,
    statuses,
    value,
    wait_for,
    work,
    worker,
)

REPLY = knows
LOCAL = {"provider": "local"}
QUESTION = "Who wrote the first compiler?"


@pytest.fixture(scope="module")
def whole(module_db: Database) -> Any:
    """What comes of STORIES when nothing happens in between."""
    return undisturbed(module_db, STORIES)


def texts_only(db: Database, endpoint: Endpoint, documents: dict[str, str] = STORIES, **options: Any) -> str:
    """A corpus whose texts are written, and whose graphs are still to come."""
    corpus = extracted(db, endpoint, **options)
    put_all(db, corpus, documents)
    work(db, len(documents))
    assert set(statuses(db, corpus).values()) == {"pending"}
    return corpus


def checked(db: Database, corpus: str) -> None:
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def counts(db: Database, corpus: str) -> tuple[Any, ...]:
    """(documents, searchable, indexed, pending, failed)"""
    (row,) = rows(
        db, "SELECT documents, searchable, indexed, pending, failed FROM graphrag.progress WHERE corpus = %s", corpus
    )
    return row


def test_texts_are_found_before_any_model_is_asked_and_explain_says_what_is_to_come(
    module_db: Database, endpoint: Endpoint, whole: Any
) -> None:
    corpus = texts_only(module_db, endpoint)
    assert chats(endpoint) == []
    assert jobs(module_db, corpus) == [(key, "graph", "pending", False) for key in sorted(STORIES)]
    assert counts(module_db, corpus) == (5, 5, 0, 5, 0)
    for mode in ("bm25", "naive", "hybrid", "local", "mix", "ppr"):
        results = search(module_db, QUESTION, corpus, mode)
        assert mode in ("local", "mix", "ppr") or "hopper" in keys(results)
        assert all(row["explain"]["graph"] == "pending" for row in results)
    checked(module_db, corpus)
    work(module_db)
    assert counts(module_db, corpus) == (5, 5, 5, 0, 0)
    assert not any("graph" in row["explain"] for row in search(module_db, QUESTION, corpus))
    checked(module_db, corpus)
    assert canonical(module_db, corpus) == whole


def test_a_mode_that_finds_nothing_since_graphs_are_to_come_says_so(module_db: Database, endpoint: Endpoint) -> None:
    corpus = texts_only(module_db, endpoint)
    context = value(module_db, "SELECT graphrag.context(%s, %s, mode => 'local')", QUESTION, corpus)
    assert context["explain"]["empty"].startswith("the graphs of 5 documents are still to come")
    filtered = value(
        module_db,
        "SELECT graphrag.context(%s, %s, mode => 'local', filter => '{\"$source_key\": \"ada\"}')",
        QUESTION,
        corpus,
    )
    assert filtered["explain"]["empty"].startswith("the graphs of one document are still to come")
    work(module_db)
    context = value(module_db, "SELECT graphrag.context(%s, %s, mode => 'local')", QUESTION, corpus)
    assert context["explain"]["empty"].startswith("no entity or relationship was found")


def test_texts_come_before_graphs_of_any_corpus(module_db: Database, endpoint: Endpoint) -> None:
    first = texts_only(module_db, endpoint)
    second = extracted(module_db, endpoint)
    put_all(module_db, second, STORIES)
    work(module_db, len(STORIES))
    assert counts(module_db, first) == counts(module_db, second) == (5, 5, 0, 5, 0)
    work(module_db)
    assert counts(module_db, first) == counts(module_db, second) == (5, 5, 5, 0, 0)


def _update(db: Database, corpus: str) -> None:
    put(db, corpus, "ada", STORIES["turing"])
    put(db, corpus, "ada", STORIES["ada"])


def _update_and_work(db: Database, corpus: str) -> None:
    put(db, corpus, "ada", STORIES["turing"])
    work(db, 1)
    assert keys(search(db, "Who hired at Bletchley Park?", corpus, "bm25"))[:3].count("ada") == 1
    put(db, corpus, "ada", STORIES["ada"])


def _delete(db: Database, corpus: str) -> None:
    delete(db, corpus, "ada")
    work(db, 1)
    checked(db, corpus)
    put(db, corpus, "ada", STORIES["ada"])


def _number_anew(db: Database, corpus: str) -> None:
    db.execute(
        "WITH gone AS (DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'ada' RETURNING id)"
        " SELECT FROM gone",
        [corpus],
    )
    put(db, corpus, "ada", STORIES["ada"])


def _rename(db: Database, corpus: str) -> None:
    db.execute("UPDATE graphrag.documents SET source_key = 'x' WHERE corpus = %s AND source_key = 'ada'", [corpus])
    work(db, 1)
    checked(db, corpus)
    db.execute("UPDATE graphrag.documents SET source_key = 'ada' WHERE corpus = %s AND source_key = 'x'", [corpus])


def _forget(db: Database, corpus: str) -> None:
    db.execute("UPDATE graphrag.documents SET indexed_hash = NULL WHERE corpus = %s", [corpus])


def _repair(db: Database, corpus: str) -> None:
    # As after a restore: there is no queue.
    db.execute("DELETE FROM graphrag.jobs WHERE corpus_id = %s", [corpus_id(db, corpus)])
    db.execute("SELECT graphrag.repair()")
    checked(db, corpus)


def _cut_anew(db: Database, corpus: str) -> None:
    for size in (300, 1200):
        db.execute("SELECT graphrag.alter_corpus(%s, jsonb_build_object('chunk_token_size', %s))", [corpus, size])
    assert {kind for _, kind, _, _ in jobs(db, corpus)} == {"index"}


def _truncate(db: Database, corpus: str) -> None:
    db.execute("TRUNCATE graphrag.documents")
    work(db)
    put_all(db, corpus, STORIES)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "change",
    [_update, _update_and_work, _delete, _number_anew, _rename, _forget, _repair, _cut_anew, _truncate],
    ids=lambda change: change.__name__[1:],
)
def test_a_change_between_the_steps_leaves_what_the_documents_say(
    module_db: Database, endpoint: Endpoint, whole: Any, change: Callable[[Database, str], None]
) -> None:
    corpus = texts_only(module_db, endpoint)
    change(module_db, corpus)
    checked(module_db, corpus)
    work(module_db)
    checked(module_db, corpus)
    assert canonical(module_db, corpus) == whole


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "change", [_update, _number_anew, _rename, _forget, _cut_anew], ids=lambda change: change.__name__[1:]
)
def test_a_change_while_the_model_thinks_leaves_what_the_documents_say(
    module_db: Database, endpoint: Endpoint, whole: Any, change: Callable[[Database, str], None]
) -> None:
    if change is _rename:
        change = _rename_only
    corpus = texts_only(module_db, endpoint, embedding=LOCAL)
    endpoint.pause()
    late = worker(module_db.url)
    wait_for(lambda: endpoint.in_flight == 5, "the worker to ask")
    change(module_db, corpus)
    endpoint.resume()
    assert late.finish() is None
    checked(module_db, corpus)
    hurry(module_db, corpus)
    checked(module_db, corpus)
    assert fingerprint(module_db, corpus) == whole_fingerprint(module_db, endpoint)


def _rename_only(db: Database, corpus: str) -> None:
    for name, key in (("x", "ada"), ("ada", "x")):
        db.execute(
            "UPDATE graphrag.documents SET source_key = %s WHERE corpus = %s AND source_key = %s", [name, corpus, key]
        )


def fingerprint(db: Database, corpus: str) -> str:
    return str(value(db, "SELECT graphrag.fingerprint(%s)", corpus))


def whole_fingerprint(db: Database, endpoint: Endpoint) -> str:
    corpus = index_all(db, extracted(db, endpoint, embedding=LOCAL), STORIES)
    return fingerprint(db, corpus)


def test_the_old_graph_goes_with_the_old_text_and_what_is_unchanged_keeps_its_own(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = index_all(module_db, extracted(module_db, endpoint), STORIES)
    put(module_db, corpus, "hopper", "Alan Turing wrote to Ada Lovelace.")
    # Its text is the same: it keeps its graph until the new one is there.
    module_db.execute(
        "UPDATE graphrag.documents SET source_key = 'ada 2' WHERE corpus = %s AND source_key = 'ada'", [corpus]
    )
    remaining = traces(module_db, corpus, "ada 2")
    work(module_db, 2)
    assert traces(module_db, corpus, "hopper") == 0
    assert traces(module_db, corpus, "ada 2") == remaining > 0
    assert value(module_db, "SELECT count(*) FROM graphrag.entities WHERE name = 'Grace Hopper'") == value(
        module_db,
        "SELECT count(*) FROM graphrag.entities WHERE name = 'Grace Hopper' AND corpus_id <> %s",
        corpus_id(module_db, corpus),
    )
    checked(module_db, corpus)
    work(module_db)
    checked(module_db, corpus)


def test_what_brings_its_graph_is_indexed_in_one_step(module_db: Database, endpoint: Endpoint) -> None:
    corpus = texts_only(module_db, endpoint, {"ada": "Ada met Bob."})
    module_db.execute(
        "SELECT graphrag.import_documents(%s, jsonb_build_array(jsonb_build_object('source_key', k, 'content', 'Ada met Bob.',"
        ' \'chunks\', \'[{"start": 0, "end": 12, "entities": [{"name": "Ada", "type": "person", "description": "Met."}]}]\''
        "::jsonb)))"
        " FROM unnest('{ada,bob}'::text[]) k",
        [corpus],
    )
    work(module_db)
    assert statuses(module_db, corpus) == {"ada": "indexed", "bob": "indexed"}
    assert chats(endpoint) == []
    assert [traces(module_db, corpus, key) for key in ("ada", "bob")] == [1, 1]
    checked(module_db, corpus)


def test_an_empty_document_needs_one_step(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted(module_db, endpoint)
    put(module_db, corpus, "blank", "  \n")
    work(module_db, 1)
    assert statuses(module_db, corpus) == {"blank": "indexed"}


def test_concepts_are_found_in_one_step(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted(module_db, endpoint, extractor="nlp", embedding=LOCAL)
    put_all(module_db, corpus, STORIES)
    work(module_db, len(STORIES))
    assert set(statuses(module_db, corpus).values()) == {"indexed"}


@pytest.mark.parametrize("extractor", ["nlp", "llm"])
def test_without_an_endpoint_for_vectors_words_find_a_text(
    module_db: Database, endpoint: Endpoint, extractor: str
) -> None:
    corpus = extracted(module_db, endpoint, extractor=extractor)
    put_all(module_db, corpus, {key: text for key, text in STORIES.items() if key != "hopper"})
    work(module_db)
    endpoint.misbehave("server_error", None, when=lambda request: request.kind == "embeddings")
    index_all(module_db, corpus, {"hopper": STORIES["hopper"], "ada": STORIES["ada"] + " She liked poetry."})
    assert counts(module_db, corpus) == (5, 5, 3, 2, 0)
    assert keys(search(module_db, QUESTION, corpus, "bm25"))[0] == "hopper"
    assert keys(search(module_db, "poetry", corpus, "bm25")) == ["ada"]
    checked(module_db, corpus)
    endpoint.behave()
    module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(module_db)
    checked(module_db, corpus)
    again = extracted(module_db, endpoint, extractor=extractor)
    put_all(module_db, again, STORIES | {"ada": STORIES["ada"] + " She liked poetry."})
    work(module_db)
    assert canonical(module_db, corpus) == canonical(module_db, again)


def test_communities_wait_for_the_graph(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted(module_db, endpoint, communities=True)
    put_all(module_db, corpus, STORIES)
    work(module_db, len(STORIES))
    assert {kind for _, kind, _, _ in jobs(module_db, corpus)} == {"graph"}
    work(module_db, len(STORIES))
    assert "communities" in {kind for _, kind, _, _ in jobs(module_db, corpus)}
