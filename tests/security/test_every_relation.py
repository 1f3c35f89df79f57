"""Every view and table that members may read, from the catalog: who was given nothing of a corpus sees nothing of it."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.security.acting import acting_as, denied, new_role
from tests.sql.ingest import new_corpus, put, rows, value, work

CANARY = "canary"
# What each state of the database was made by, in this order; the outsider was given nothing of the corpus in any of them.
STATES = {
    "never granted": [],
    "granted elsewhere": ["SELECT graphrag.grant_corpus({mine}, {eve}, 'write')"],
    "granted and revoked": [
        "SELECT graphrag.grant_corpus({theirs}, {eve}, 'write')",
        "SELECT graphrag.revoke_corpus({theirs}, {eve})",
    ],
    "protected and unprotected": ["SELECT graphrag.protect({theirs}, 'true')", "SELECT graphrag.unprotect({theirs})"],
    "protected": ["SELECT graphrag.protect({theirs}, 'true')"],
    "a policy of the owner's own": [
        "ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON graphrag.documents USING (true)",
    ],
}
RELATIONS = """
SELECT c.oid::regclass::text FROM pg_class c
 WHERE c.relnamespace IN ('graphrag'::regnamespace, 'graphrag_attached'::regnamespace) AND c.relkind IN ('r', 'p', 'v', 'm')
   AND has_any_column_privilege(%s, c.oid, 'SELECT')
 ORDER BY 1
"""


@pytest.fixture(scope="module")
def corpora(module_db: Database) -> tuple[str, str]:
    """A corpus with the canary in everything that is made of a document, and another one."""
    mine = new_corpus(module_db)
    module_db.execute("SELECT graphrag._plant_canaries('theirs', %s)", [CANARY])
    return mine, "theirs"


@pytest.fixture(params=["graphrag_member", "graphrag_writer"])
def eve(module_db: Database, request: pytest.FixtureRequest) -> Iterator[str]:
    """A member by a grant in another database."""
    with new_role(module_db, "IN ROLE", request.param) as role:
        yield role


@pytest.mark.sample(4)
@pytest.mark.parametrize("state", STATES)
def test_an_outsider_sees_nothing_in_any_state(
    module_db: Database, corpora: tuple[str, str], eve: str, state: str
) -> None:
    mine, theirs = corpora
    with module_db.transaction(force_rollback=True):
        for statement in STATES[state]:
            module_db.execute(statement.format(mine=f"'{mine}'", theirs=f"'{theirs}'", eve=f"'{eve}'").encode())
        relations = [name for (name,) in rows(module_db, RELATIONS, eve)]
        assert {"graphrag.graph_nodes", "graphrag.community_overview", "graphrag.unfit_extractions"} <= {*relations}
        module_db.execute(f"SET LOCAL ROLE {eve}".encode())
        # With the caller's rights, which without a grant anywhere are none.
        relations.remove("graphrag.versions")
        # Nor does a view fail.
        assert [name for name in relations if sees(module_db, name)] == [], state


def sees(db: Database, relation: str) -> bool:
    """Whether the canary, or its corpus, is in a relation; the names of corpora are known to all members."""
    columns = value(
        db,
        "SELECT string_agg(format('t.%%I', attname), ', ') FROM pg_attribute WHERE attrelid = %s::regclass"
        " AND attnum > 0 AND NOT attisdropped AND has_column_privilege(attrelid, attnum, 'SELECT')",
        relation,
    )
    return bool(value(db, f"SELECT bool_or(ROW ({columns})::text LIKE '%%{CANARY}%%') FROM {relation} t"))


def test_the_owner_and_readers_of_everything_see_it(module_db: Database, corpora: tuple[str, str]) -> None:
    with new_role(module_db, "IN ROLE graphrag_reader") as reader, module_db.transaction(force_rollback=True):
        for role in (None, reader):
            if role:
                module_db.execute(f"SET LOCAL ROLE {role}".encode())
            views = (
                "graph_nodes",
                "graph_edges",
                "graph_claims",
                "graph_mentions",
                "entity_attributes",
                "document_coverage",
            )
            views += ("unfit_extractions", "entity_timeline", "community_overview")
            assert [view for view in views if not sees(module_db, f"graphrag.{view}")] == []
            assert value(module_db, "SELECT count(*) FROM graphrag.graph_growth") == 1


CLAIM = """
INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, subject, object_key, object, type, status,
                             description)
SELECT d.corpus_id, d.id, c.id, 'ada lovelace', 'Ada Lovelace', 'alan turing', 'Alan Turing', 'debt', 'TRUE', 'Owes.'
  FROM graphrag.documents d JOIN graphrag.chunks c ON c.document_id = d.id WHERE d.corpus = %s AND d.source_key = 'seen'
"""
ENDS = "SELECT subject_id IS NOT NULL, object_id IS NOT NULL FROM graphrag.graph_claims WHERE corpus = %s"


def test_a_claim_does_not_tell_whether_a_hidden_document_has_a_name(module_db: Database) -> None:
    corpus = new_corpus(module_db)
    put(module_db, corpus, "seen", "Ada Lovelace wrote notes.", metadata={"open": True})
    put(module_db, corpus, "hidden", "Alan Turing read notes.", metadata={"open": False})
    work(module_db)
    module_db.execute(CLAIM.encode(), [corpus])
    module_db.execute("SELECT graphrag.protect(%s, %s)", [corpus, "(metadata ->> 'open')::boolean"])
    try:
        with new_role(module_db, "IN ROLE graphrag_reader") as reader, acting_as(module_db, reader) as session:
            assert rows(session, ENDS, corpus) == [(True, False)]
        assert rows(module_db, ENDS, corpus) == [(True, True)]
    finally:
        module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])


@pytest.mark.sample(2)
@pytest.mark.parametrize("secret", [None, "", "none", "ä", "00000000-0000-4000-8000-000000000000"])
def test_nobody_but_the_views_asks_what_is_packed_for_them(module_db: Database, secret: str | None) -> None:
    """A null there would tell whether hidden documents state the same."""
    with new_role(module_db, "IN ROLE graphrag_reader") as reader, acting_as(module_db, reader) as session:
        for function in ("_visible_nodes", "_visible_edges"):
            denied(session, f"SELECT * FROM graphrag.{function}(%s)", secret)
        denied(session, "TABLE graphrag._view_secret")
        known = value(module_db, "SELECT secret FROM graphrag._view_secret")
        for setting in ("client_min_messages = debug5", "debug_print_plan = on", "debug_print_rewritten = on"):
            session.execute(f"SET {setting}".encode())
        notices: list[str] = []
        session.add_notice_handler(lambda diag: notices.append(str(diag.message_primary) + str(diag.message_detail)))
        for read in ("SELECT * FROM", "EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM"):
            for view in ("graph_nodes", "graph_edges", "graph_claims"):
                assert known not in str(session.execute(f"{read} graphrag.{view}".encode()).fetchall())
        assert known not in "".join(notices)
