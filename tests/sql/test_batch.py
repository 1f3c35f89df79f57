"""Provider option batch: what workers ask goes through the endpoint's batch API, at half the price, over days."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages, Request
from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import (
    STORIES,
    Connection,
    canonical,
    corpus_id,
    delete,
    new_corpus,
    put,
    put_all,
    rows,
    statuses,
    value,
    wait_for,
    work,
    worker,
)
from tests.sql.llm import provider

NAMES = ("Ada Lovelace", "Charles Babbage", "Alan Turing", "Grace Hopper", "Bletchley Park", "Enigma", "London")
NOTHING = '{"entities": [], "relationships": []}'
LEFT = ("uploading", "creating", "open", "read")


def found_in(messages: Messages) -> str:
    """The names of the text, all related to the first; nothing more when asked again."""
    if any(message["role"] == "assistant" for message in messages):
        return NOTHING
    text = str(messages[-1]["content"])
    names = [name for name in NAMES if name in text]
    entities = [{"name": name, "type": "person", "description": f"{name} is in the text."} for name in names]
    pairs = [
        {"source": names[0], "target": name, "keywords": ["with"], "description": f"With {name}.", "strength": 5}
        for name in names[1:]
    ]
    return json.dumps({"entities": entities, "relationships": pairs})


REPLY = found_in


def batched(db: Connection, endpoint: Endpoint, llm: dict[str, Any] | None = None, **options: Any) -> str:
    """A corpus whose extraction goes through batches, without gleaning unless `max_gleaning` says so."""
    corpus = {name: options.pop(name) for name in ("max_gleaning", "claims") if name in options}
    name = provider(db, endpoint, **{"timeout": 5, "price_input": 2, "price_output": 4, "batch": True, **options})
    models = {"provider": name, "model": "m", **(llm or {})}
    return new_corpus(db, **{"max_gleaning": 0, **corpus}, extractor="llm", llm=models)


def hurry(db: Connection) -> None:
    """Work once, as if what waits had waited long enough."""
    db.execute("UPDATE graphrag.llm_batches SET next_poll_at = now() - interval '1 s'")
    db.execute("UPDATE graphrag.llm_batch_requests SET not_before = now() WHERE not_before > now()")
    db.execute(
        "UPDATE graphrag.jobs SET next_attempt_at = now() WHERE state = 'pending' AND (kind = 'batch' OR errors > 0)"
    )
    db.execute("DELETE FROM graphrag.provider_state")
    work(db)


def until(db: Connection, corpus: str, condition: Callable[[], Any], rounds: int = 40) -> None:
    for _ in range(rounds):
        if condition():
            return
        hurry(db)
    raise AssertionError(
        repr(rows(db, "SELECT kind, state, errors, last_error, payload FROM graphrag.jobs"))
        + repr(rows(db, "SELECT state, remote_state, error FROM graphrag.llm_batches"))
    )


def settle(db: Connection, corpus: str) -> None:
    """Work until nothing of the corpus waits any more, in the queue or at the endpoint."""
    number = corpus_id(db, corpus)
    left = (
        "SELECT (SELECT count(*) FROM graphrag.jobs WHERE corpus_id = %s AND state <> 'failed' AND kind <> 'optimize')"
        " + (SELECT count(*) FROM graphrag.llm_batch_requests WHERE corpus_id = %s)"
        " + (SELECT count(*) FROM graphrag.llm_batches WHERE corpus_id = %s AND state <> ALL ('{done,failed}'))"
    )
    until(db, corpus, lambda: value(db, left, number, number, number) == 0)


def requests(endpoint: Endpoint) -> Counter[str]:
    """How many uploads, creations, chats … arrived."""
    made: Counter[str] = Counter()
    for one in endpoint.requests:
        path = one.path.partition("?")[0].removeprefix("/v1")
        made[f"{one.method} {re.sub('/(file-|batch_)[0-9]+', '/ID', path)}"] += 1
    return made


def lines(endpoint: Endpoint) -> list[dict[str, Any]]:
    """The lines of all uploads, one after another."""
    found = []
    for one in endpoint.requests:
        if one.method == "POST" and one.kind == "files":
            found += [json.loads(text) for text in one.data.decode().splitlines() if text.startswith('{"custom_id"')]
    return found


def batch_line(text: str) -> Callable[[Request], bool]:
    """Picks the lines of batches that ask about `text`."""
    return lambda one: one.kind == "batch_line" and text in one.text


def posted(kind: str) -> Callable[[Request], bool]:
    return lambda one: one.kind == kind and one.method == "POST" and not one.path.endswith("/cancel")


def waiting(db: Connection, corpus: str) -> list[tuple[Any, ...]]:
    """Document jobs of the corpus: state, attempts, errors, whether they say that they wait."""
    return rows(
        db,
        "SELECT DISTINCT j.state, j.attempts, j.errors, j.last_error LIKE 'Waiting:%%' FROM graphrag.jobs j"
        " WHERE j.corpus_id = %s AND j.kind = 'index'",
        corpus_id(db, corpus),
    )


def sent(db: Connection, corpus: str) -> None:
    """Put the stories into the corpus, and work until the endpoint has them."""
    put_all(db, corpus, STORIES)
    until(db, corpus, lambda: batch_states(db, corpus) == ["open"])


def batch_states(db: Connection, corpus: str) -> list[str]:
    found = rows(db, "SELECT state FROM graphrag.llm_batches WHERE corpus_id = %s ORDER BY id", corpus_id(db, corpus))
    return [state for (state,) in found]


def all_indexed(db: Connection, corpus: str) -> bool:
    return statuses(db, corpus) == dict.fromkeys(statuses(db, corpus), "indexed")


def dead(db: Connection, corpus: str) -> dict[str, str]:
    return dict(rows(db, "SELECT source_key, last_error FROM graphrag.failed_jobs WHERE corpus = %s", corpus))


def directly(db: Connection, endpoint: Endpoint, **options: Any) -> Any:
    """What the same documents come to when each request is sent by itself; and what that cost."""
    corpus = batched(db, endpoint, batch=False, **options)
    put_all(db, corpus, STORIES)
    work(db)
    assert all_indexed(db, corpus)
    spent = value(db, "SELECT sum(cost) FROM graphrag.llm_usage WHERE corpus = %s", corpus)
    whole = canonical(db, corpus)
    db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    return whole, spent


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
    made = requests(endpoint)
    # One batch for the first round, one for the second, which needs the answers of the first.
    assert (made["POST /files"], made["POST /batches"], made["POST /chat/completions"]) == (2, 2, 0)
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
    ((pending, failed, held, why),) = rows(module_db, progress, corpus)
    assert (pending, failed) == (5, 0)
    assert held >= 5
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


def test_a_line_that_the_endpoint_failed_at_is_asked_again_and_no_other(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave("server_error", when=batch_line("Grace Hopper wrote"))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    asked = Counter(json.dumps(line["body"]["messages"]) for line in lines(endpoint))
    assert sorted(asked.values()) == [1, 1, 1, 1, 2]
    assert value(module_db, "SELECT count(*) FROM graphrag.jobs WHERE errors > 0") == 0


def test_an_answer_that_cannot_be_used_counts_against_its_document_and_is_asked_again_warmer(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave("prose", when=batch_line("Grace Hopper wrote"))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    temperatures = [line["body"]["temperature"] for line in lines(endpoint) if "Grace Hopper wrote" in json.dumps(line)]
    assert temperatures == [0.0, 0.3]
    usage = "SELECT sum(calls), sum(failures) FROM graphrag.llm_usage WHERE corpus = %s"
    assert rows(module_db, usage, corpus) == [(6, 1)]
    assert (
        value(module_db, "SELECT count(*) FROM graphrag.llm_cache WHERE corpus_id = %s", corpus_id(module_db, corpus))
        == 5
    )


def test_after_three_unusable_answers_the_document_alone_is_a_dead_letter_until_retry_failed(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave("prose", times=None, when=batch_line("Grace Hopper wrote"))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert statuses(module_db, corpus) == dict.fromkeys(STORIES, "indexed") | {"hopper": "failed"}
    assert "I am sorry" in dead(module_db, corpus)["hopper"]
    assert sum("Grace Hopper wrote" in json.dumps(line) for line in lines(endpoint)) == 3
    endpoint.behave()
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) == 1
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)


def test_a_refused_line_counts_against_its_document_too(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave("bad_request", times=None, when=batch_line("Grace Hopper wrote"))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert statuses(module_db, corpus) == dict.fromkeys(STORIES, "indexed") | {"hopper": "failed"}
    assert "refused the request (400)" in dead(module_db, corpus)["hopper"]


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


@pytest.mark.parametrize("outcome", ["expired", "cancelled"])
def test_of_a_batch_that_ended_early_the_answers_are_used_and_the_rest_is_asked_again(
    module_db: Database, endpoint: Endpoint, outcome: str
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    endpoint.batches.hold, endpoint.batches.outcome = False, outcome
    until(module_db, corpus, lambda: len(endpoint.batches.made) == 2)
    indexed = [key for key, status in statuses(module_db, corpus).items() if status == "indexed"]
    assert len(indexed) == 2, "five requests, of which the first half was answered"
    endpoint.batches.outcome = "completed"
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len(lines(endpoint)) == 5 + 3
    usage = "SELECT sum(calls), sum(failures) FROM graphrag.llm_usage WHERE corpus = %s"
    assert rows(module_db, usage, corpus) == [(5, 0)]


def test_a_batch_that_fails_three_times_makes_dead_letters_that_say_why(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.outcome = "failed"
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert len(endpoint.batches.made) == 3
    assert set(statuses(module_db, corpus).values()) == {"failed"}
    assert all("not JSON" in error for error in dead(module_db, corpus).values())
    endpoint.batches.outcome = "completed"
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) == 5
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)


def test_a_full_queue_at_the_endpoint_is_waited_for(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.outcome, endpoint.batches.error = (
        "failed",
        ("token_limit_exceeded", "Enqueued token limit reached"),
    )
    put_all(module_db, corpus, STORIES)
    until(module_db, corpus, lambda: len(endpoint.batches.made) == 5)
    assert waiting(module_db, corpus) == [("pending", 0, 0, True)]
    endpoint.batches.outcome = "completed"
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)


@pytest.mark.parametrize(
    ("kind", "where", "said"),
    [
        ("unauthorized", "files", "does not accept the key"),
        ("model_not_found", "files", "does not take the batch"),
        ("bad_request", "batches", "does not take the batch"),
        ("model_not_found", "batches", "does not take the batch"),
    ],
)
def test_what_the_endpoint_refuses_becomes_dead_letters_that_say_why_and_retry_failed_heals(
    module_db: Database, endpoint: Endpoint, kind: str, where: str, said: str
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave(kind, times=None, when=posted(where), message="batch is not supported")
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert set(statuses(module_db, corpus).values()) == {"failed"}
    assert all(said in error for error in dead(module_db, corpus).values())
    assert len(dead(module_db, corpus)) == 5
    assert batch_states(module_db, corpus) == ["failed"]
    endpoint.behave()
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) == 5
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert batch_states(module_db, corpus) == ["failed", "done"]


def test_a_key_that_is_refused_while_the_endpoint_works_loses_no_batch(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    endpoint.misbehave("unauthorized", times=None, when=lambda one: one.kind == "batches")
    hurry(module_db)
    assert set(statuses(module_db, corpus).values()) == {"failed"}
    assert batch_states(module_db, corpus) == ["open"]
    endpoint.behave()
    endpoint.batches.hold = False
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) >= 5
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len(endpoint.batches.made) == 1


@pytest.mark.parametrize("kind", ["reset", "unavailable", "html", "truncated_json", "hang_mid_body", "not_an_object"])
def test_an_endpoint_that_is_away_while_it_is_asked_how_far_it_is_loses_nothing(
    module_db: Database, endpoint: Endpoint, kind: str
) -> None:
    corpus = batched(module_db, endpoint, timeout=0.5)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    endpoint.misbehave(kind, times=None, when=lambda one: one.kind in ("batches", "files"))
    for _ in range(4):
        hurry(module_db)
    assert waiting(module_db, corpus) == [("pending", 0, 0, True)]
    endpoint.behave()
    endpoint.batches.hold = False
    # And while the answers come.
    endpoint.misbehave(kind, times=2, when=lambda one: one.path.endswith("/content"))
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len(endpoint.batches.made) == 1
    assert (
        value(module_db, "SELECT count(*) FROM graphrag.llm_calls WHERE corpus_id = %s", corpus_id(module_db, corpus))
        == 5
    )


@pytest.mark.parametrize("what", ["files", "batches"])
def test_a_request_whose_answer_is_lost_is_not_made_twice(module_db: Database, endpoint: Endpoint, what: str) -> None:
    corpus = batched(module_db, endpoint)
    # The endpoint has done it, and the connection breaks.
    endpoint.misbehave("reset", when=posted(what))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert (requests(endpoint)["POST /files"], requests(endpoint)["POST /batches"]) == (1, 1)


def test_a_batch_that_the_endpoint_forgot_is_sent_again(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    endpoint.batches.made.clear()
    endpoint.batches.hold = False
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert batch_states(module_db, corpus) == ["failed", "done"]


def test_a_document_deleted_before_the_batch_is_made_is_not_sent(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    put_all(module_db, corpus, STORIES)
    # All documents are looked at in one go; the batch is the next job.
    module_db.execute("CALL graphrag.process_jobs(5)")
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
    assert [one["status"] for one in endpoint.batches.made.values()] == ["cancelled"]
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
    held = (
        "SELECT count(*) FROM graphrag.jobs WHERE corpus_id = %s AND last_error LIKE 'BudgetReached%%' AND errors = 0"
    )
    assert value(module_db, held, number) == 5 - len(estimates)


def test_a_provider_that_is_told_to_batch_no_more_is_asked_at_once(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.batches.hold = True
    corpus = batched(module_db, endpoint)
    put_all(module_db, corpus, STORIES)
    module_db.execute("CALL graphrag.process_jobs(5)")
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


def test_several_workers_ask_everything_once(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint, max_gleaning=1)
    put_all(module_db, corpus, {f"d{n}": f"Ada Lovelace met person {n} in London." for n in range(40)})
    number = corpus_id(module_db, corpus)
    for _ in range(30):
        module_db.execute("UPDATE graphrag.llm_batches SET next_poll_at = now() - interval '1 s'")
        module_db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() WHERE state = 'pending' AND kind = 'batch'")
        assert [one.finish() for one in [worker(module_db.url) for _ in range(3)]] == [None] * 3
        if all_indexed(module_db, corpus):
            break
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len({json.dumps(line["body"]["messages"]) for line in lines(endpoint)}) == len(lines(endpoint)) == 80
    calls = "SELECT count(*), count(error) FROM graphrag.llm_calls WHERE corpus_id = %s"
    assert rows(module_db, calls, number) == [(80, 0)]


def test_summaries_go_through_batches_too(module_db: Database, endpoint: Endpoint) -> None:
    def answer(messages: Messages) -> str:
        text = str(messages[-1]["content"])
        if "met person" not in text:
            return "Ada Lovelace met many people."
        number = re.search(r"met person (\d+)", text)
        assert number is not None
        said = f"Ada Lovelace met person {number[1]}."
        return json.dumps({"entities": [{"name": "Ada", "type": "person", "description": said[:-1]}]})

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


def test_after_sigkill_at_any_moment_nothing_is_sent_or_paid_twice(
    cluster: Callable[..., Cluster], endpoint: Endpoint
) -> None:
    one = cluster()
    url = one.create_database("batches")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        corpus = batched(db, endpoint, timeout=60)
        put_all(db, corpus, STORIES)
    moments: list[tuple[str, Callable[[Request], bool]]] = [
        ("the file is there, and nobody here knows", posted("files")),
        ("the batch is there, and nobody here knows", posted("batches")),
        ("it is asked how far it is", lambda one: one.kind == "batches" and one.method == "GET"),
        ("the answers come", lambda one: one.path.endswith("/content")),
        ("the answers are here, the files still there", lambda one: one.method == "DELETE"),
    ]
    for crashes, (moment, when) in enumerate(moments, 1):
        reached: list[Request] = []

        def hang(request: Request, when: Callable[[Request], bool] = when, reached: list[Request] = reached) -> bool:
            if when(request):
                reached.append(request)
                return True
            return False

        endpoint.misbehave("timeout", when=hang)
        with psycopg.connect(url, autocommit=True) as db:
            for _ in range(20):
                db.execute("UPDATE graphrag.llm_batches SET next_poll_at = now() - interval '1 s'")
                db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() WHERE kind = 'batch'")
                victim = worker(url)
                wait_for(lambda v=victim, r=reached: r or not v.is_alive(), moment)
                if reached:
                    break
                assert victim.finish() is None
            assert reached, moment
            os.kill(victim.pid, signal.SIGKILL)
        assert victim.finish() is not None
        endpoint.behave()
        wait_for(lambda n=crashes: one.log.count("ready to accept connections") > n, "the server's recovery")
    with psycopg.connect(url, autocommit=True) as db:
        settle(db, corpus)
        assert all_indexed(db, corpus)
        made = requests(endpoint)
        assert (made["POST /files"], made["POST /batches"], made["POST /chat/completions"]) == (1, 1, 0)
        assert len(endpoint.batches.made) == 1
        assert endpoint.batches.files == {}
        assert rows(db, "SELECT count(*), count(error) FROM graphrag.llm_calls") == [(5, 0)]
        assert rows(db, "SELECT FROM graphrag.failed_jobs") == []
