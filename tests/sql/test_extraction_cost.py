"""What extraction costs, counted at the endpoint: chunks × (1 + gleaning) at most, and nothing twice."""

import json
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.extracting import NOTHING, chats, entities, extracted_texts, knows, noted, relationships, text_of
from tests.sql.ingest import STORIES, canonical, corpus_id, delete, long_text, put, put_all, rows, statuses, value, work

REPLY = knows


def chunks(db: Database, corpus: str) -> int:
    return int(value(db, "SELECT count(*) FROM graphrag.chunks WHERE corpus_id = %s", corpus_id(db, corpus)))


def always_more(messages: Messages) -> str:
    """A model that finds another entity whenever it is asked."""
    name = f"Entity {len(messages)}"
    return json.dumps({"entities": [{"name": name, "type": "concept", "description": f"{name} is new."}]})


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_chunk_costs_one_call_and_one_for_each_round_at_most(
    module_db: Database, endpoint: Endpoint, rounds: int
) -> None:
    endpoint.reply(always_more)
    corpus = extracted_texts(module_db, endpoint, max_gleaning=rounds, chunk_token_size=200, grounding="off")
    put_all(module_db, corpus, STORIES | {"long": long_text(20)})
    work(module_db)
    count = chunks(module_db, corpus)
    assert count > len(STORIES) + 1
    assert len(chats(endpoint)) == count * (1 + rounds)
    assert len(entities(module_db, corpus)) == 1 + rounds
    # Rounds are one conversation: each brings what was said before, and asks for the rest.
    longest = max((request.messages for request in chats(endpoint)), key=len)
    assert [message["role"] for message in longest] == ["system", "user"] + ["assistant", "user"] * rounds
    assert noted(module_db, corpus)[:2] == (len(chats(endpoint)), 0)


def test_gleaning_ends_with_the_first_round_that_brings_nothing(module_db: Database, endpoint: Endpoint) -> None:
    more = {
        "entities": [
            {"name": "Harvard", "type": "location", "description": "A university, of which more is said here."}
        ],
        "relationships": [
            {"source": "Ada Lovelace", "target": "Harvard", "keywords": ["none"], "description": "None.", "strength": 1}
        ],
    }

    def reply(messages: Messages) -> str:
        if len(messages) == 4 and "Hopper" in text_of(messages):
            return json.dumps(more)
        return "There is nothing more to add." if len(messages) == 4 else knows(messages)

    endpoint.reply(reply)
    corpus = extracted_texts(module_db, endpoint, max_gleaning=3)
    put_all(module_db, corpus, STORIES)
    work(module_db)
    rounds = sorted(len(request.messages) // 2 for request in chats(endpoint))
    assert rounds == [1] * 5 + [2] * 5 + [3]
    assert entities(module_db, corpus)["Harvard"][1].startswith("Grace Hopper wrote the first compiler")
    assert relationships(module_db, corpus)["Ada Lovelace", "Harvard"] == (["none"], "None.", 1.0)


def test_a_round_of_gleaning_that_fails_is_asked_again_and_the_first_is_not(
    module_db: Database, endpoint: Endpoint
) -> None:
    endpoint.misbehave("wrong_types", 1, when=lambda request: request.kind == "chat" and len(request.messages) > 2)
    corpus = extracted_texts(module_db, endpoint, max_gleaning=1)
    put(module_db, corpus, "ada", STORIES["ada"])
    work(module_db)
    assert statuses(module_db, corpus) == {"ada": "indexed"}
    # What the round would have brought is not known to be nothing.
    kept = "SELECT extraction FROM graphrag.chunks WHERE corpus_id = %s"
    assert value(module_db, kept, corpus_id(module_db, corpus)) == "repaired"
    assert [len(request.messages) for request in chats(endpoint)] == [2, 4, 4]


def test_what_did_not_change_is_indexed_again_without_a_call(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint, max_gleaning=1)
    put_all(module_db, corpus, STORIES)
    work(module_db)
    before = canonical(module_db, corpus)
    paid = noted(module_db, corpus)
    endpoint.forget()

    def again(*options: dict[str, Any]) -> None:
        for option in options:
            module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb(option)])
        assert value(module_db, "SELECT pending FROM graphrag.progress WHERE corpus = %s", corpus) == 5
        work(module_db)
        assert canonical(module_db, corpus) == before
        assert chats(endpoint) == []

    module_db.execute("UPDATE graphrag.documents SET content = content WHERE corpus = %s", [corpus])
    work(module_db)
    assert canonical(module_db, corpus) == before
    again({"chunk_token_size": 600}, {"chunk_token_size": 1200})
    again({"extractor": "nlp"}, {"extractor": "llm"})
    again({"max_gleaning": 0}, {"max_gleaning": 1})
    for key in STORIES:
        delete(module_db, corpus, key)
    work(module_db)
    assert entities(module_db, corpus) == {}
    put_all(module_db, corpus, STORIES)
    again()
    # Another kind of question is another prompt; back again it is the known one.
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"entity_types": ["animal"]})])
    work(module_db)
    assert len(chats(endpoint)) == 10
    endpoint.forget()
    again({"entity_types": None})
    assert noted(module_db, corpus)[0] == paid[0] + 10


def test_an_edit_costs_the_chunks_it_touches(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint, chunk_token_size=150, chunk_overlap=0)
    text = long_text(40)
    put(module_db, corpus, "long", text)
    work(module_db)
    count = chunks(module_db, corpus)
    assert len(chats(endpoint)) == count > 5
    endpoint.forget()
    put(module_db, corpus, "long", text + " Grace Hopper left.")
    work(module_db)
    assert 1 <= len(chats(endpoint)) <= 2


def test_the_same_text_is_asked_about_once(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint, max_gleaning=1)
    for key in ("one", "two", "three"):
        put(module_db, corpus, key, STORIES["ada"])
    work(module_db)
    assert len(chats(endpoint)) == 2
    put(module_db, corpus, "four", STORIES["ada"])
    work(module_db)
    assert len(chats(endpoint)) == 2
    assert set(statuses(module_db, corpus).values()) == {"indexed"}
    assert relationships(module_db, corpus)["Ada Lovelace", "Analytical Engine"][2] == 16


def test_another_corpus_pays_for_itself(module_db: Database, endpoint: Endpoint) -> None:
    for _ in range(2):
        corpus = extracted_texts(module_db, endpoint)
        put(module_db, corpus, "ada", STORIES["ada"])
        work(module_db)
    assert len(chats(endpoint)) == 2


def test_the_nlp_extractor_asks_nobody(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint, extractor="nlp")
    put_all(module_db, corpus, STORIES | {f"more {n}": f"{text} {n}" for n in range(3) for text in STORIES.values()})
    work(module_db)
    assert chats(endpoint) == []
    assert noted(module_db, corpus) == (0, 0, 0, 0)
    assert value(module_db, "SELECT count(*) FROM graphrag.jobs WHERE kind = 'summarize'") == 0


def test_the_books_agree_with_the_endpoint(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint, max_gleaning=1)
    put_all(module_db, corpus, STORIES)
    work(module_db)
    tokens_in = sum(
        sum(len(message["content"].encode()) for message in request.messages) // 4 + 1 for request in chats(endpoint)
    )
    answers = [knows(request.messages) for request in chats(endpoint)]
    tokens_out = sum(len(answer.encode()) // 4 + 1 for answer in answers)
    assert answers.count(NOTHING) == 5
    assert noted(module_db, corpus) == (10, 0, tokens_in, tokens_out)
    (usage,) = rows(
        module_db,
        "SELECT purpose, model, day = current_date, cost FROM graphrag.llm_usage WHERE corpus = %s"
        " AND purpose <> 'embedding'",
        corpus,
    )
    assert usage[:3] == ("extract", "m", True)
    assert float(usage[3]) == pytest.approx((tokens_in + 2 * tokens_out) / 1e6)


def test_a_spent_budget_stops_indexing_until_there_is_more(module_db: Database, endpoint: Endpoint) -> None:
    # One call costs about what the budget is; the prices are per million tokens.
    corpus = extracted_texts(
        module_db,
        endpoint,
        llm={"monthly_budget": 1},
        provider={"concurrency": 1, "price_input": 5000, "price_output": 5000},
        embedding={"provider": "local"},  # which costs nothing
    )
    put_all(module_db, corpus, STORIES)
    work(module_db)
    # Also what was claimed together with it.
    assert len(chats(endpoint)) == 1
    progress = "SELECT indexed, pending, failed, waiting, waiting_for FROM graphrag.progress WHERE corpus = %s"
    ((indexed, pending, failed, waiting, why),) = rows(module_db, progress, corpus)
    assert (indexed, pending, failed, waiting) == (1, 4, 0, 4)
    assert f'the monthly budget of corpus "{corpus}" is reached' in why
    assert "HINT:" in why
    budget = "SELECT state, spent >= budget FROM graphrag.budgets WHERE corpus = %s"
    assert rows(module_db, budget, corpus) == [("reached", True)]
    blame = "SELECT DISTINCT attempts, errors FROM graphrag.jobs WHERE corpus_id = %s AND document_id IS NOT NULL"
    assert rows(module_db, blame, corpus_id(module_db, corpus)) == [(0, 0)]
    work(module_db)
    module_db.execute("SELECT graphrag.retry_failed()")
    work(module_db)
    assert len(chats(endpoint)) == 1, "neither time nor retry_failed() makes money"
    llm = value(module_db, "SELECT options -> 'llm' FROM graphrag.corpora WHERE name = %s", corpus)
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"llm": llm | {"monthly_budget": 1000}})])
    module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(module_db)
    assert set(statuses(module_db, corpus).values()) == {"indexed"}
    assert len(chats(endpoint)) == 5
    assert rows(module_db, budget, corpus) == [("open", False)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("rounds", [0, 1])
def test_the_estimate_is_a_little_more_than_it_then_costs(module_db: Database, endpoint: Endpoint, rounds: int) -> None:
    corpus = extracted_texts(module_db, endpoint, max_gleaning=rounds, chunk_token_size=300)
    other = long_text(60).replace("Ada Lovelace", "a stranger").replace("London", "Rome")
    put_all(module_db, corpus, STORIES | {"long": long_text(60), "other": other, "twin": STORIES["ada"]})
    estimate = "SELECT documents, calls, cached_calls, tokens_in, tokens_out, cost FROM graphrag.estimate_cost(%s)"
    ((documents, calls, cached, tokens_in, tokens_out, cost),) = rows(module_db, estimate, corpus)
    assert chats(endpoint) == [], "an estimate asks nobody"
    work(module_db)
    assert (documents, cached) == (8, 1 + rounds), "the twins are asked about once"
    paid = noted(module_db, corpus)
    assert calls == paid[0] > 7
    assert tokens_in / 2 <= paid[2] <= tokens_in
    assert paid[3] <= tokens_out
    spent = value(module_db, "SELECT cost FROM graphrag.llm_usage WHERE corpus = %s AND purpose = 'extract'", corpus)
    assert cost / 2 <= spent <= cost
    ((left, *nothing),) = rows(module_db, estimate, corpus)
    assert (left, *map(float, nothing)) == (0, 0, 0, 0, 0, 0)
