"""Provider option batch: what workers ask goes through the endpoint's batch API, at half the price, over days."""

import json
import re
from collections import Counter

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Cluster, Database
from tests.sql.batching import (
    all_indexed,
    batch_line,
    batch_states,
    batched,
    directly,
    found_in,
    hurry,
    lines,
    requests,
    sent,
    settle,
    until,
    waiting,
)
from tests.sql.ingest import STORIES, canonical, corpus_id, delete, put, put_all, rows, statuses, value, worker
from tests.sql.llm import provider

REPLY = found_in


def test_a_batch_gives_what_single_requests_give_at_half_the_price_and_leaves_nothing_at_the_endpoint(
    module_db: Database, endpoint: Endpoint
) -> None:
    whole, spent = directly(module_db, endpoint, max_gleaning=1)
    assert spent > 0
    endpoint.forget()
    corpus = batched(module_db, endpoint, max_gleaning=1)
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert canonical(module_db, corpus) == whole
    counts = requests(endpoint)
    # One batch for the first round, one for the second, which needs the answers of the first.
    assert (counts["POST /files"], counts["POST /batches"], counts["POST /chat/completions"]) == (2, 2, 0)
    assert len(lines(endpoint)) == len({line["custom_id"] for line in lines(endpoint)}) == 10
    assert endpoint.batches.files == {}, "input, output and error files are deleted"
    usage = "SELECT sum(calls), sum(failures), sum(cost) FROM graphrag.llm_usage WHERE corpus = %s"
    assert rows(module_db, usage, corpus) == [(10, 0, spent / 2)]
    assert batch_states(module_db, corpus) == ["done", "done"]


def test_unchanged_documents_are_indexed_again_without_a_request(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint, max_gleaning=1)
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    before = canonical(module_db, corpus)
    endpoint.forget()
    module_db.execute("UPDATE graphrag.documents SET indexed_hash = NULL WHERE corpus = %s", [corpus])
    assert not all_indexed(module_db, corpus)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert canonical(module_db, corpus) == before
    assert requests(endpoint) == Counter()


def test_documents_wait_without_blame_and_progress_says_for_what(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.batches.hold = True
    corpus = batched(module_db, endpoint)
    sent(module_db, corpus)
    for _ in range(3):
        hurry(module_db)
    assert waiting(module_db, corpus) == [("pending", 0, 0, True)]
    progress = "SELECT pending, failed, waiting, waiting_for FROM graphrag.progress WHERE corpus = %s"
    ((pending, failed, on_hold, why),) = rows(module_db, progress, corpus)
    assert (pending, failed) == (5, 0)
    assert on_hold >= 5
    assert why.startswith("Waiting: ")
    assert requests(endpoint)["POST /batches"] == 1
    assert requests(endpoint)["GET /batches/ID"] >= 3
    before = endpoint.count("batches")
    module_db.execute("CALL graphrag.process_jobs()")
    assert endpoint.count("batches") == before, "the endpoint is not asked more often than the back-off says"
    endpoint.batches.hold = False
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)


def test_a_batch_is_cut_to_the_size_the_provider_takes(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint, batch_requests=2)
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    counts = rows(
        module_db,
        "SELECT requests FROM graphrag.llm_batches WHERE corpus_id = %s ORDER BY id",
        corpus_id(module_db, corpus),
    )
    assert [count for (count,) in counts] == [2, 2, 1]


def test_a_prompt_that_is_too_long_is_split(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    text = " ".join(f"Ada Lovelace met friend number {n} of Charles Babbage in London." for n in range(20))
    endpoint.misbehave("context_too_long", when=batch_line("friend number 19"))
    put(module_db, corpus, "long", text)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert [line["body"]["messages"][-1]["content"].count("met friend") for line in lines(endpoint)] == [20, 10, 10]


def test_a_field_that_the_model_does_not_know_is_left_out(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave("no_response_format", times=None)
    put_all(module_db, corpus, {"ada": STORIES["ada"]})
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert ["response_format" in line["body"] for line in lines(endpoint)] == [True, False]


def test_a_document_deleted_before_the_batch_is_made_is_not_sent(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    put_all(module_db, corpus, STORIES)
    # All texts are written in one go, and all graphs asked for in the next; the batch is the job after.
    module_db.execute("CALL graphrag.process_jobs(10)")
    number = corpus_id(module_db, corpus)
    assert value(module_db, "SELECT count(*) FROM graphrag.llm_batch_requests WHERE corpus_id = %s", number) == 5
    delete(module_db, corpus, "hopper")
    settle(module_db, corpus)
    assert len(lines(endpoint)) == 4
    assert not any("Grace Hopper wrote" in json.dumps(line) for line in lines(endpoint))
    assert all_indexed(module_db, corpus)


def test_a_document_deleted_or_changed_while_the_endpoint_works_leaves_nothing(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    delete(module_db, corpus, "hopper")
    put(module_db, corpus, "ada", "Ada Lovelace met Alan Turing in London.")
    endpoint.batches.hold = False
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert "hopper" not in statuses(module_db, corpus)
    # What came back for nobody was paid, but is not kept.
    number = corpus_id(module_db, corpus)
    assert value(module_db, "SELECT count(*) FROM graphrag.llm_cache WHERE corpus_id = %s", number) == 4
    assert value(module_db, "SELECT count(*) FROM graphrag.llm_calls WHERE corpus_id = %s", number) == 6
    assert value(module_db, "SELECT count(*) FROM graphrag.llm_batch_requests WHERE corpus_id = %s", number) == 0


def test_the_batch_of_a_dropped_corpus_is_cancelled_and_its_files_deleted(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    number = corpus_id(module_db, corpus)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    assert value(module_db, "SELECT count(*) FROM graphrag.llm_batch_requests WHERE corpus_id = %s", number) == 0
    endpoint.batches.hold = False
    left = "SELECT count(*) FROM graphrag.llm_batches WHERE corpus_id = %s"
    until(module_db, corpus, lambda: value(module_db, left, number) == 0)
    assert [batch["status"] for batch in endpoint.batches.made.values()] == ["cancelled"]
    assert endpoint.batches.files == {}
    assert value(module_db, "SELECT count(*) FROM graphrag.jobs WHERE corpus_id = %s", number) == 0


def test_what_is_on_its_way_counts_against_the_budget(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.batches.hold = True
    # Each request is estimated at about 0.018: some 370 tokens at 50 the million.
    corpus = batched(module_db, endpoint, {"monthly_budget": 0.05}, price_input=100, price_output=0)
    put_all(module_db, corpus, STORIES)
    until(module_db, corpus, lambda: batch_states(module_db, corpus) == ["open"])
    number = corpus_id(module_db, corpus)
    estimates = rows(
        module_db, "SELECT estimate FROM graphrag.llm_batch_requests WHERE corpus_id = %s ORDER BY id", number
    )
    assert 1 <= len(estimates) < 5
    assert sum(estimate for (estimate,) in estimates) >= 0.05
    assert sum(estimate for (estimate,) in estimates[:-1]) < 0.05
    reserved = (
        "SELECT count(*) FROM graphrag.jobs WHERE corpus_id = %s AND last_error LIKE 'BudgetReached%%' AND errors = 0"
    )
    assert value(module_db, reserved, number) == 5 - len(estimates)


def test_a_provider_that_is_told_to_batch_no_more_is_asked_at_once(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.batches.hold = True
    corpus = batched(module_db, endpoint)
    put_all(module_db, corpus, STORIES)
    module_db.execute("CALL graphrag.process_jobs(10)")
    name = value(module_db, "SELECT options #>> '{llm,provider}' FROM graphrag.corpora WHERE name = %s", corpus)
    module_db.execute("SELECT graphrag.set_provider(%s, 'openai', %s)", [name, endpoint.url])
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert requests(endpoint) == Counter({"POST /chat/completions": 5})


def test_what_a_dropped_provider_had_is_asked_of_the_next_one(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.batches.hold = True
    corpus = batched(module_db, endpoint)
    sent(module_db, corpus)
    name = value(module_db, "SELECT options #>> '{llm,provider}' FROM graphrag.corpora WHERE name = %s", corpus)
    other = provider(module_db, endpoint, batch=True)
    models = json.dumps({"llm": {"provider": other, "model": "m"}})
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, models])
    module_db.execute("SELECT graphrag.drop_provider(%s)", [name])
    endpoint.batches.hold = False
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    states = "SELECT provider, state FROM graphrag.llm_batches WHERE corpus_id = %s ORDER BY id"
    assert rows(module_db, states, corpus_id(module_db, corpus)) == [(name, "failed"), (other, "done")]


@pytest.mark.slow
def test_several_workers_ask_everything_once(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint, max_gleaning=1)
    put_all(module_db, corpus, {f"d{n}": f"Ada Lovelace met person {n} in London." for n in range(12)})
    number = corpus_id(module_db, corpus)
    for _ in range(30):
        module_db.execute("UPDATE graphrag.llm_batches SET next_poll_at = now() - interval '1 s'")
        module_db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() WHERE state = 'pending' AND kind = 'batch'")
        assert [worker_session.finish() for worker_session in [worker(module_db.url) for _ in range(3)]] == [None] * 3
        if all_indexed(module_db, corpus):
            break
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len({json.dumps(line["body"]["messages"]) for line in lines(endpoint)}) == len(lines(endpoint)) == 24
    calls = "SELECT count(*), count(error) FROM graphrag.llm_calls WHERE corpus_id = %s"
    assert rows(module_db, calls, number) == [(24, 0)]


def test_summaries_go_through_batches_too(module_db: Database, endpoint: Endpoint) -> None:
    def answer(messages: Messages) -> str:
        text = str(messages[-1]["content"])
        if "met person" not in text:
            return "Ada Lovelace met many people."
        number = re.search(r"met person (\d+)", text)
        assert number is not None
        description = f"Ada Lovelace met person {number[1]}."
        return json.dumps({"entities": [{"name": "Ada", "type": "person", "description": description[:-1]}]})

    endpoint.reply(lambda messages: answer(messages) if len(messages) > 1 else "Ada Lovelace met many people.")
    corpus = batched(module_db, endpoint)
    put_all(module_db, corpus, {f"d{n}": f"Ada Lovelace met person {n} in London." for n in range(9)})
    settle(module_db, corpus)
    assert requests(endpoint)["POST /chat/completions"] == 0
    description = "SELECT e.description FROM graphrag.entities e WHERE e.corpus_id = %s AND e.key = 'ada'"
    assert value(module_db, description, corpus_id(module_db, corpus)) == "Ada Lovelace met many people."
    assert batch_states(module_db, corpus) == ["done", "done"]


def test_readers_see_nothing_of_batches(module_db: Database) -> None:
    for table in ("llm_batches", "llm_batch_requests"):
        assert (
            value(module_db, "SELECT has_table_privilege('graphrag_reader', %s, 'SELECT')", f"graphrag.{table}")
            is False
        )


@pytest.mark.slow
def test_a_restored_database_goes_on_with_its_batch(shared_cluster: Cluster, db: Database, endpoint: Endpoint) -> None:
    endpoint.batches.hold = True
    corpus = batched(db, endpoint)
    sent(db, corpus)
    script = shared_cluster.dump(db.info.dbname)
    shared_cluster.create_database("restored_batch", "template0")
    shared_cluster.restore("restored_batch", script)
    with psycopg.connect(shared_cluster.url("restored_batch"), autocommit=True) as restored:
        endpoint.batches.hold = False
        settle(restored, corpus)
        assert all_indexed(restored, corpus)
    assert len(endpoint.batches.made) == 1
