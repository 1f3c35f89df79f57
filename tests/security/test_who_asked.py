"""Attacks on who asked what: nothing but time tells a reader what others asked before."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers, session_of
from tests.sql.asking import ANSWER, ask, is_keywords, lines, stories, stream, understand, warnings
from tests.sql.ingest import STORIES, Connection, corpus_id, put_all, rows, search, searched_corpus, work
from tests.sql.llm import provider
from tests.sql.themes import points, task

QUESTION = "What did Ada Lovelace write on the Analytical Engine?"


def reply(messages: Messages) -> str:
    """What each step of each mode can read."""
    if is_keywords(messages):
        return lines(messages)
    reply = {
        "refine": json.dumps({"queries": ["Ada Lovelace notes", "Analytical Engine"], "expanded": QUESTION}),
        "relevant": json.dumps({"relevant": "Ada" in messages[-1]["content"]}),
        "relevant_passages": json.dumps({"relevant": list(range(1, 51)), "irrelevant": []}),
        "map": points(("Ada wrote notes [1].", 90)),
    }
    return reply.get(task(messages), ANSWER)


REPLY = reply


def whole_answer(db: Connection, corpus: str) -> Any:
    answer, citations, usage, context = ask(db, QUESTION, corpus)
    return answer, citations, usage, context["understanding"]


SHOWN: dict[str, Callable[[Connection, str], Any]] = {
    "understand": lambda db, corpus: understand(db, QUESTION, corpus),
    "ask": whole_answer,
    "ask_stream": lambda db, corpus: stream(db, QUESTION, corpus),
    "search": lambda db, corpus: [row["explain"]["understanding"] for row in search(db, QUESTION, corpus)],
    "lazy": lambda db, corpus: ask(db, QUESTION, corpus, mode="lazy")[2:],
}


@contextmanager
def same_session(db: Database, role: str) -> Iterator[Database]:
    with acting_as(db, role):
        yield db


@pytest.mark.sample(7)
@pytest.mark.parametrize("session_of_role", [session_of, same_session])
@pytest.mark.parametrize("what", SHOWN)
def test_a_question_that_another_role_asked_looks_like_a_new_one(
    module_db: Database, endpoint: Endpoint, what: str, session_of_role: Callable[..., Any]
) -> None:
    corpus = stories(module_db, endpoint)
    with readers(module_db, 2) as (alice, bob):
        with session_of_role(module_db, alice) as session:
            fresh = SHOWN[what](session, corpus)
        asked = endpoint.count()
        with session_of_role(module_db, bob) as session:
            known = SHOWN[what](session, corpus)
    # A new session's search writes nothing down.
    if (what, session_of_role) != ("search", session_of):
        assert endpoint.count() == asked, "the cache is not used"
    assert known == fresh


def test_the_owner_is_told_what_the_cache_knew(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint)
    ask(module_db, QUESTION, corpus)
    assert understand(module_db, QUESTION, corpus)["by"] == "cache"
    assert ask(module_db, QUESTION, corpus)[2]["cache_hits"] == 2


@pytest.mark.parametrize(
    "text",
    ["One two\n\nthree  four [1]. ", "日本語の回答 です[1]。And english.", " x [1]", "<think>a b</think>one two [1]"],
)
def test_pieces_of_a_stream_are_the_same_words_however_they_came(
    module_db: Database, endpoint: Endpoint, text: str
) -> None:
    corpus = stories(module_db, endpoint, llm={"roles": {"answer": {"model": "prose"}}})
    endpoint.reply(lambda messages: lines(messages) if lines(messages) != ANSWER else text)
    with readers(module_db, 1) as (alice,), acting_as(module_db, alice):
        fresh = stream(module_db, QUESTION, corpus)
        asked = endpoint.count()
        assert stream(module_db, QUESTION, corpus) == fresh
        assert endpoint.count() == asked
        assert "".join(fresh).strip() == text.removeprefix("<think>a b</think>").strip()
        assert len(fresh) > 1


def test_an_answer_that_was_cut_off_is_not_kept_for_another_role(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint)
    endpoint.misbehave("cut_off", times=None, when=lambda request: "low_level" not in request.text)
    with readers(module_db, 2) as (alice, bob), module_db.transaction():
        shown = []
        for role in (alice, bob):
            asked = endpoint.count()
            with acting_as(module_db, role), warnings(module_db) as messages:
                shown.append((ask(module_db, QUESTION, corpus)[:3], list(messages)))
            assert endpoint.count() > asked
    assert shown[0] == shown[1]


def test_a_fault_is_told_to_the_role_it_happened_to(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint)
    endpoint.misbehave("unauthorized", times=None)
    module_db.execute("SELECT graphrag.search('warm', %s)", [corpus])
    # Of the owner's faults the session's patience is lost at once.
    exhaust = """DO LANGUAGE plpython3u $$
from pg_graphrag.search.query import understanding
for patience in understanding._patience.values():
    patience.until = 1e12
$$"""
    module_db.execute(exhaust.encode())
    owners = search(module_db, QUESTION, corpus)[0]["explain"]["understanding"]["reason"]
    assert "provider" in owners
    with readers(module_db, 1) as (alice,), acting_as(module_db, alice), warnings(module_db) as messages:
        results = search(module_db, QUESTION, corpus)
    assert "provider" not in f"{results} {messages}"
    assert messages, "nothing was asked for the reader"


def test_texts_that_another_role_had_embedded_are_embedded_again(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint, price_input=1)
    corpus = searched_corpus(
        module_db, llm={"provider": name, "model": "m"}, embedding={"provider": name, "model": "e", "dimensions": 8}
    )
    put_all(module_db, corpus, STORIES)
    work(module_db)
    shown = []
    with readers(module_db, 2) as roles:
        for role in roles:
            with acting_as(module_db, role):
                shown.append(ask(module_db, QUESTION, corpus)[2])
    assert shown[0] == shown[1]
    assert shown[0]["cache_hits"] == 0


def test_who_asked_is_written_down_for_the_owner(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint)
    with readers(module_db, 2) as (alice, bob):
        for role, question in ((alice, QUESTION), (bob, QUESTION), (bob, "What broke Enigma?")):
            with acting_as(module_db, role):
                ask(module_db, question, corpus)
        sql = "SELECT role, count(*) FROM graphrag.llm_calls WHERE corpus_id = %s GROUP BY role ORDER BY role"
        assert rows(module_db, sql, corpus_id(module_db, corpus)) == [(alice, 2), (bob, 2)]
