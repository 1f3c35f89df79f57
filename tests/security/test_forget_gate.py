"""Who holds up forget(), and whom its gate, or an open transaction that asked, holds up."""

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.acting import acting_as, new_role
from tests.sql.test_forget import asked_of_a_model

REPLY = "It is not known [1]."
ASK = "SELECT answer FROM graphrag.ask(%s, %s, 'naive')"


def test_whoever_asks_first_and_does_not_commit_keeps_nobody_else_waiting(db: Database, endpoint: Endpoint) -> None:
    corpus = asked_of_a_model(db, endpoint)
    with new_role(db, "IN ROLE graphrag_reader") as role, acting_as(db, role) as idle:
        idle.execute("BEGIN")
        idle.execute(ASK, ["Who was Ada Lovelace?", corpus])
        db.execute("SET statement_timeout = '5s'")
        assert db.execute(ASK, ["Who was Charles Babbage?", corpus]).fetchall() == [(REPLY,)]
        idle.execute("ROLLBACK")


def test_whoever_asks_the_same_waits_for_nobody_who_does_not_commit(db: Database, endpoint: Endpoint) -> None:
    corpus = asked_of_a_model(db, endpoint)
    answer_count = "SELECT count(*) FROM graphrag.llm_cache WHERE purpose = 'answer'"
    with new_role(db, "IN ROLE graphrag_reader") as role, acting_as(db, role) as idle:
        ((before,),) = db.execute(answer_count).fetchall()
        idle.execute("BEGIN")
        idle.execute(ASK, ["Who was Ada Lovelace?", corpus])
        db.execute("SET statement_timeout = '5s'")
        # What is asked beside it is kept.
        with db.transaction():
            for question in ("Who was Charles Babbage?", "Who was Ada Lovelace?"):
                assert db.execute(ASK, [question, corpus]).fetchall() == [(REPLY,)]
        assert db.execute(answer_count).fetchall() == [(before + 1,)]
        idle.execute("COMMIT")
        assert db.execute(answer_count).fetchall() == [(before + 2,)]
        requests = len(endpoint.requests)
        for question in ("Who was Charles Babbage?", "Who was Ada Lovelace?"):
            db.execute(ASK, [question, corpus])
        assert len(endpoint.requests) == requests


def test_of_many_replies_those_are_kept_that_no_open_transaction_has(db: Database) -> None:
    call = "SELECT graphrag._keep_replies(id, %s, %s, %s, %s) FROM graphrag.corpora"

    def keep(session: Database, keys: str) -> None:
        session.execute(call, [list(keys), ["answer"] * len(keys), ["model"] * len(keys), list(keys.upper())])

    db.execute("SELECT graphrag.create_corpus('default')")
    with Database.open(db.url) as idle, idle.transaction():
        keep(idle, "b")
        keep(db, "abc")
        assert db.execute("SELECT key, reply FROM graphrag.llm_cache ORDER BY 1").fetchall() == [("a", "A"), ("c", "C")]
