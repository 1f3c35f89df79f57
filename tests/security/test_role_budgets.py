"""Attacks on budgets: no role spends more than it may, whatever it does with its transactions and sessions."""

from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers, session_of
from tests.sql.asking import ANSWER, ask, lines, stories, understand, warnings
from tests.sql.ingest import Connection, corpus_id, put, refused, rows, search, value, work

REPLY = lines
QUESTION = "What did Ada Lovelace write on the Analytical Engine?"
# One question costs less than this, two cost more; in a mode that asks for no keywords.
PRICED = {"price_input": 1000, "price_output": 1000}


def limited(db: Database, endpoint: Endpoint, limits: dict[str, Any], **llm: Any) -> str:
    return stories(db, endpoint, llm={"role_limits": limits, **llm}, timeout=60, **PRICED)


def attempt(session: Connection, corpus: str, question: str = QUESTION) -> str | None:
    """Ask without keywords: one request. Return the SQLSTATE of the error, if there is one."""
    try:
        ask(session, question, corpus, mode="bm25")
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.fixture(scope="module")
def price(module_db: Database, module_endpoint: Endpoint) -> float:
    """What a question costs."""
    corpus = stories(module_db, module_endpoint, **PRICED)
    return float(ask(module_db, QUESTION, corpus, mode="bm25")[2]["cost"])


def test_a_role_spends_its_budget_and_no_more_and_others_are_not_concerned(
    module_db: Database, endpoint: Endpoint, price: float
) -> None:
    corpus = limited(module_db, endpoint, {"*": {"monthly_budget": 1.5 * price}})
    with readers(module_db, 2) as (alice, bob):
        with session_of(module_db, alice) as session:
            assert [attempt(session, corpus, f"Ada {n}?") for n in range(4)] == [None, None, "53400", "53400"]
            diag = refused(session, "SELECT graphrag.ask('Ada 5?', %s, mode => 'bm25')", corpus)
            assert alice in str(diag.message_primary) and diag.message_hint
            assert (
                refused(session, "SELECT graphrag.ask_stream('Ada 6?', %s, mode => 'bm25')", corpus).sqlstate == "53400"
            )
        with session_of(module_db, bob) as session:
            assert attempt(session, corpus) is None
    assert attempt(module_db, corpus, "The owner of Ada?") is None
    assert endpoint.count() == 4


@pytest.mark.sample(3)
@pytest.mark.parametrize("budget", ["role", "corpus"])
@pytest.mark.parametrize("how", ["ROLLBACK", "ROLLBACK TO s", "new session", "error", "read only"])
def test_what_was_spent_is_not_taken_back(
    module_db: Database, endpoint: Endpoint, price: float, how: str, budget: str
) -> None:
    limit = {"monthly_budget": 1.5 * price}
    corpus = (
        limited(module_db, endpoint, {"*": limit}) if budget == "role" else limited(module_db, endpoint, {}, **limit)
    )
    ends = []
    with readers(module_db, 1) as (alice,), ExitStack() as sessions:
        for n in range(4):
            if n == 0 or how == "new session":
                session = sessions.enter_context(session_of(module_db, alice))
            session.execute("BEGIN")
            session.execute("SET TRANSACTION READ ONLY" if how == "read only" else "SAVEPOINT s")
            ends.append(attempt(session, corpus, f"Ada {n}?"))
            if how == "error" and ends[-1] is None:
                refused(session, "SELECT 1 / 0")
            session.execute("ROLLBACK TO s; COMMIT" if how == "ROLLBACK TO s" else "ROLLBACK")
            if how == "new session":
                sessions.close()
    assert (ends[:2], ends[-1]) == ([None, None], "53400")
    assert endpoint.count() == 2


def test_what_was_sent_and_cancelled_is_paid_for(module_db: Database, endpoint: Endpoint, price: float) -> None:
    corpus = limited(module_db, endpoint, {"*": {"monthly_budget": 0.5 * price}})
    endpoint.misbehave("timeout", times=None)
    with readers(module_db, 1) as (alice,), session_of(module_db, alice) as session:
        session.execute("SET statement_timeout = '3s'")
        assert attempt(session, corpus, "Ada 1?") == "57014"
        with session_of(module_db, alice) as other:
            assert attempt(other, corpus, "Ada 2?") == "53400"
    assert endpoint.count() == 1


def test_no_time_zone_makes_it_next_month(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, llm={"monthly_budget": 5})
    # The month's first second, whose local month is the one before or the same.
    module_db.execute(
        "INSERT INTO graphrag.llm_calls (at, corpus_id, provider, model, purpose, tokens_in, tokens_out, cost, seconds)"
        " VALUES (date_trunc('month', now(), 'UTC'), %s, 'p', 'm', 'answer', 1, 1, 6, 1)",
        [corpus_id(module_db, corpus)],
    )
    with readers(module_db, 1) as (alice,):
        for zone in ("Pacific/Kiritimati", "Etc/GMT+12", "UTC"):
            with session_of(module_db, alice) as session:
                session.execute(f"SET TimeZone = '{zone}'".encode())
                assert attempt(session, corpus) == "53400"
    assert value(module_db, "SELECT state FROM graphrag.budgets WHERE corpus = %s", corpus) == "reached"


def test_a_role_makes_so_many_requests_in_a_minute_in_all_its_sessions(module_db: Database, endpoint: Endpoint) -> None:
    corpus = limited(module_db, endpoint, {"*": {"requests_per_minute": 2}})
    ends: list[str | None] = []
    with readers(module_db, 2) as (alice, bob):
        # The window slides from minute to minute: across one's end a third may pass, on a slow machine more.
        while len(ends) < 10 and ends[-1:] != ["53400"]:
            with session_of(module_db, alice) as session, session.transaction(force_rollback=True):
                ends.append(attempt(session, corpus, f"Ada {len(ends)}?"))
        with session_of(module_db, bob) as session:
            assert attempt(session, corpus) is None
    assert (ends[:2], ends[-1]) == ([None, None], "53400")


def test_at_its_limit_a_role_is_not_told_what_the_cache_knows(module_db: Database, endpoint: Endpoint) -> None:
    corpus = limited(module_db, endpoint, {"*": {"monthly_budget": 0}})
    ask(module_db, QUESTION, corpus, mode="bm25")
    with readers(module_db, 1) as (alice,), session_of(module_db, alice) as session:
        known = refused(session, "SELECT graphrag.ask(%s, %s, mode => 'bm25')", QUESTION, corpus)
        new = refused(session, "SELECT graphrag.ask('And why Ada?', %s, mode => 'bm25')", corpus)
        assert (known.sqlstate, known.message_primary) == (new.sqlstate, new.message_primary)
        assert known.sqlstate == "53400"
        with warnings(session) as messages:
            assert understand(session, QUESTION, corpus)["by"] == "noun phrases"
            assert search(session, QUESTION, corpus)
        assert "budget of role" in messages[0]


def test_a_named_role_has_its_own_limit_and_the_owner_none(module_db: Database, endpoint: Endpoint) -> None:
    with readers(module_db, 2) as (alice, bob):
        corpus = limited(module_db, endpoint, {"*": {"monthly_budget": 0}, alice: {"requests_per_minute": 10}})
        with acting_as(module_db, alice):
            assert attempt(module_db, corpus, "Ada 1?") is None
        with acting_as(module_db, bob):
            assert attempt(module_db, corpus, "Ada 2?") == "53400"
        assert attempt(module_db, corpus, "Ada 3?") is None


def test_workers_have_no_limit_but_the_corpus(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, llm={"role_limits": {"*": {"monthly_budget": 0}}}, corpus={"max_gleaning": 0})
    module_db.execute('SELECT graphrag.alter_corpus(%s, \'{"extractor": "llm"}\')', [corpus])
    endpoint.reply('{"entities": [], "relationships": []}')
    put(module_db, corpus, "new", "Blaise Pascal built the Pascaline.")
    work(module_db)
    sql = "SELECT DISTINCT role, error FROM graphrag.llm_calls WHERE corpus_id = %s"
    assert rows(module_db, sql, corpus_id(module_db, corpus)) == [("postgres", None)]


def test_who_spent_what_has_what_was_rolled_back(module_db: Database, endpoint: Endpoint, price: float) -> None:
    corpus = stories(module_db, endpoint, **PRICED)
    with readers(module_db, 1) as (alice,), session_of(module_db, alice) as session:
        attempt(session, corpus)
        with session.transaction(force_rollback=True):
            attempt(session, corpus, "Ada?")
        assert refused(session, "SELECT * FROM graphrag.llm_usage_by_role").sqlstate == "42501"
        assert refused(session, "SELECT graphrag._metered(1, 'x')").sqlstate == "42501"
        sql = "SELECT role, calls, cost, metered FROM graphrag.llm_usage_by_role WHERE corpus = %s"
        ((role, calls, cost, metered),) = rows(module_db, sql, corpus)
    assert (role, calls, float(cost)) == (alice, 1, pytest.approx(price))
    assert metered > 1.5 * price
    spent, metered = rows(module_db, "SELECT spent, metered FROM graphrag.budgets WHERE corpus = %s", corpus)[0]
    assert float(spent) < float(metered)


@pytest.mark.parametrize(
    "limits",
    [
        7,
        {"alice": 7},
        {"alice": {"budget": 1}},
        {"alice": {"monthly_budget": -1}},
        {"alice": {"monthly_budget": "x"}},
        {"*": {"requests_per_minute": 1.5}},
        {"*": {"requests_per_minute": -1}},
    ],
)
def test_a_bad_limit_is_refused(module_db: Database, limits: Any) -> None:
    diag = refused(module_db, "SELECT graphrag.create_corpus('bad', %s)", Jsonb({"llm": {"role_limits": limits}}))
    assert (
        diag.sqlstate,
        "role_limits" in str(diag.message_primary) or "limit of role" in str(diag.message_primary),
    ) == ("22023", True)
    assert diag.message_hint


def test_an_answer_of_the_owner_is_not_limited_by_what_readers_may_have(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = limited(module_db, endpoint, {"*": {"monthly_budget": 0, "requests_per_minute": 0}})
    assert ask(module_db, QUESTION, corpus)[0] == ANSWER
