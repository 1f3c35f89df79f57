"""What changes while a question is answered: documents and permissions, by a worker's commits, and the role of the session."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.security.portrait import Reader
from tests.security.readers import readers
from tests.sql.asking import ANSWER, is_keywords, lines, with_model
from tests.sql.ingest import put, rows, value, wait_for, work
from tests.sql.themes import points, task


def reply(messages: Messages) -> str:
    """What each step of each mode can read."""
    reply = {
        "refine": json.dumps({"queries": ["Ada Lovelace", "Alan Turing"], "expanded": "Ada Lovelace, Alan Turing"}),
        "relevant": json.dumps({"relevant": True}),
        "relevant_passages": json.dumps({"relevant": list(range(1, 51)), "irrelevant": []}),
        "map": points(("Ada wrote [1].", 90)),
    }
    return lines(messages) if is_keywords(messages) else reply.get(task(messages), ANSWER)


REPLY = reply
QUESTION = "What did Ada Lovelace and Alan Turing write?"
OPEN = "Ada Lovelace met Charles Babbage. Ada Lovelace wrote to Alan Turing."
SECRET = "Mata Hari met Alan Turing. Mata Hari paid Project Zephyr and Ada Lovelace."
REDACTED = "Alan Turing met Grace Hopper. Alan Turing praised the Bombe and Ada Lovelace."
OLD, NEW = "Babbage", "Hopper"
NEVER = ("Mata", "Zephyr")
# Modes that ask a model before they read, after they have read a part, and only at the end.
MODES = ("naive", "hybrid", "mix", "path", "ppr", "graph_local", "drift", "lazy")


def scene(db: Database, endpoint: Endpoint) -> str:
    """A corpus with an open document and a secret one."""
    corpus = with_model(db, endpoint, timeout=60)
    put(db, corpus, "open", OPEN, metadata={"open": True})
    put(db, corpus, "secret", SECRET, metadata={"open": False})
    work(db)
    db.execute("SELECT graphrag.protect(%s, '(metadata ->> ''open'')::boolean')", [corpus])
    return corpus


def swap(db: Database, corpus: str) -> None:
    """Close the open document; redact and release the secret one; and let a worker index it."""
    db.execute(
        "UPDATE graphrag.documents SET metadata = jsonb_build_object('open', source_key = 'secret'),"
        " content = CASE source_key WHEN 'secret' THEN %s ELSE content END WHERE corpus = %s",
        [REDACTED, corpus],
    )
    work(db)


def prompts(endpoint: Endpoint) -> str:
    return "\n".join(request.text for request in endpoint.requests)


@pytest.mark.sample(6)
@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", ["ask", "ask_stream"])
def test_an_answer_is_of_one_moment_whatever_commits_meanwhile(
    module_db: Database, endpoint: Endpoint, function: str, mode: str, level: str
) -> None:
    db, corpus = module_db, scene(module_db, endpoint)
    asking = f"SELECT x::text FROM graphrag.{function}(%s, %s, %s) x"
    with readers(db, 1) as (alice,), ThreadPoolExecutor(1) as thread:
        reader = Reader(db.url, alice, f"SET default_transaction_isolation = '{level}'")
        endpoint.forget()
        endpoint.pause()
        with reader.connection.transaction():
            asked = thread.submit(reader.gives, asking, QUESTION, corpus, mode)
            wait_for(lambda: endpoint.in_flight > 0, "a question to a model")
            swap(db, corpus)
            endpoint.resume()
            given = asked.result(60)
            first = prompts(endpoint)
            endpoint.forget()
            # The next question in the same transaction: of the new moment, or still of the old one.
            given += reader.gives(asking, f"{QUESTION} Again.", corpus, mode)
            second = prompts(endpoint)
        endpoint.forget()
        given += reader.gives(asking, f"{QUESTION} At last.", corpus, mode)
        last = prompts(endpoint)
        assert not [word for word in NEVER if word in given + first + second + last]
        moments = (OLD, OLD if level == "repeatable read" else NEW, NEW)
        for prompt, content in zip((first, second, last), moments, strict=True):
            assert (NEW if content == OLD else OLD) not in prompt
            # What models were asked of a text before, they are not asked again.
            assert content in prompt or mode in ("drift", "lazy")
        reader.connection.close()


@pytest.fixture
def two(module_db: Database, endpoint: Endpoint) -> Iterator[tuple[str, str, str]]:
    """A corpus of which alice and bob see a document each."""
    with readers(module_db, 2) as (alice, bob):
        corpus = with_model(module_db, endpoint, timeout=60, price_input=1000, price_output=1000)
        put(module_db, corpus, "alices", OPEN, metadata={"reader": alice})
        put(module_db, corpus, "bobs", REDACTED, metadata={"reader": bob})
        work(module_db)
        module_db.execute("SELECT graphrag.protect(%s, 'metadata ->> ''reader'' = current_user')", [corpus])
        yield corpus, alice, bob


def paid(db: Database, corpus: str) -> set[str]:
    db.execute("RESET ROLE")
    of = "SELECT DISTINCT l.role FROM graphrag.llm_calls l JOIN graphrag.corpora c ON c.id = l.corpus_id WHERE c.name = %s"
    return {role for (role,) in rows(db, of, corpus)}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "become", ["SET ROLE {bob}", "SET LOCAL ROLE {bob}", "RESET ROLE", "SET SESSION AUTHORIZATION {bob}"]
)
@pytest.mark.parametrize("begun", [True, False], ids=["after the first piece", "before it"])
def test_a_stream_is_answered_and_paid_by_who_fetched_its_first_piece(
    module_db: Database, endpoint: Endpoint, two: tuple[str, str, str], become: str, begun: bool
) -> None:
    corpus, alice, bob = two
    db = module_db
    endpoint.forget()
    try:
        db.execute(f"SET ROLE {alice}".encode())
        with db.transaction():
            db.execute(f"DECLARE c CURSOR FOR SELECT graphrag.ask_stream('{QUESTION}', '{corpus}', 'naive')".encode())
            if begun:
                db.execute("FETCH 1 FROM c")
            db.execute(become.format(bob=bob).encode())
            role = value(db, "SELECT current_user")
            assert role != alice
            assert rows(db, "FETCH ALL FROM c")
            seen = prompts(endpoint)
            if begun:
                assert (OLD in seen, NEW in seen) == (True, False)
            else:
                assert (OLD in seen, NEW in seen) == (role != bob, True)
            # What the session asks now is asked by who it is now.
            endpoint.forget()
            rows(db, "SELECT graphrag.ask_stream(%s, %s, 'naive')", f"{QUESTION} Again.", corpus)
            assert (OLD in prompts(endpoint), NEW in prompts(endpoint)) == (role != bob, True)
        db.execute("RESET SESSION AUTHORIZATION")
        db.execute("RESET ROLE")
        assert paid(db, corpus) == {alice if begun else role, role}
    finally:
        db.execute("RESET SESSION AUTHORIZATION")
        db.execute("RESET ROLE")
