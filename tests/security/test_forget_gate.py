"""Who holds up forget(), and whom its gate holds up."""

from __future__ import annotations

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.acting import acting_as, new_role
from tests.sql.test_forget import asked_of_a_model

REPLY = "It is not known."
ASK = "SELECT answer FROM graphrag.ask(%s, %s, 'naive')"


def test_whoever_asks_first_and_does_not_commit_keeps_nobody_else_waiting(db: Database, endpoint: Endpoint) -> None:
    corpus = asked_of_a_model(db, endpoint)
    with new_role(db, "IN ROLE graphrag_reader") as role, acting_as(db, role) as idle:
        idle.execute("BEGIN")
        idle.execute(ASK, ["Who was Ada Lovelace?", corpus])
        db.execute("SET statement_timeout = '5s'")
        assert db.execute(ASK, ["Who was Charles Babbage?", corpus]).fetchall() == [(REPLY,)]
        idle.execute("ROLLBACK")
