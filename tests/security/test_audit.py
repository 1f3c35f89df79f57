"""graphrag.audit(role): what a role could learn or change, tried against planted canaries; nobody's code is run for it."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.security.acting import acting_as, new_role
from tests.sql.ingest import STORIES, index_all, new_corpus, refused, rows, value


@pytest.fixture(scope="module")
def stories(module_db: Database) -> str:
    return index_all(module_db, new_corpus(module_db), STORIES)


@pytest.fixture
def reader(module_db: Database, stories: str) -> Iterator[str]:
    with new_role(module_db) as role:
        module_db.execute(f"GRANT graphrag_reader TO {role}".encode())
        yield role


SHOWING = (
    *(
        "search",
        "naive_search",
        "bm25_search",
        "search_entities",
        "search_relationships",
        "search_reports",
        "neighbors",
    ),
    *("graph_nodes_at", "graph_edges_at", "context", "to_dot", "to_mermaid"),
)


def audit(db: Database, role: str) -> dict[tuple[str, str], tuple[str, str]]:
    """{(object, privilege): (verdict, detail)}."""
    sql = "SELECT object, privilege, verdict, detail FROM graphrag._audited(%s)"
    return {(name, privilege): (verdict, detail) for name, privilege, verdict, detail in rows(db, sql, role)}


def leaks(db: Database, role: str) -> set[str]:
    return {name for (name, _), (verdict, _) in audit(db, role).items() if verdict == "leaks"}


def test_a_reader_gets_nothing_of_a_closed_corpus(module_db: Database, reader: str) -> None:
    lines = audit(module_db, reader)
    assert lines["graphrag.documents", "SELECT"] == ("held", "had nothing of a closed corpus")
    tried = {name for (name, privilege), (verdict, _) in lines.items() if verdict == "held" and privilege == "SELECT"}
    assert {"graphrag.graph_nodes", "graphrag.graph_edges", "graphrag.community_overview"} <= tried
    assert leaks(module_db, reader) == set()
    assert any(name.startswith("graphrag.search(") for name, _ in lines)


def test_nothing_of_the_canaries_stays(module_db: Database, reader: str, stories: str) -> None:
    before = value(module_db, "SELECT graphrag.fingerprint(%s)", stories)
    counts = (
        "SELECT (SELECT count(*) FROM graphrag.corpora), (SELECT count(*) FROM graphrag.documents),"
        " (SELECT count(*) FROM pg_policy)"
    )
    stored = rows(module_db, counts)
    audit(module_db, reader)
    assert rows(module_db, counts) == stored
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", stories) == before
    assert value(module_db, "SELECT current_user = session_user")


def test_a_table_that_was_opened_leaks(module_db: Database, reader: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute(f"GRANT SELECT ON graphrag.chunks TO {reader}".encode())
        module_db.execute(f"GRANT SELECT (question) ON graphrag.query_log TO {reader}".encode())
        assert leaks(module_db, reader) == {"graphrag.chunks", "graphrag.query_log (question)"}


@pytest.mark.parametrize("grantee", ["PUBLIC", "{reader}"])
def test_a_column_that_was_opened_leaks(module_db: Database, reader: str, grantee: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute(f"GRANT SELECT (content) ON graphrag.chunks TO {grantee.format(reader=reader)}".encode())
        module_db.execute("GRANT INSERT (question) ON graphrag.query_log TO PUBLIC")
        lines = audit(module_db, reader)
        assert lines["graphrag.chunks (content)", "SELECT"] == ("leaks", "had what a closed corpus holds (protected)")
        # Not the extension's own.
        assert lines["graphrag.query_log (question)", "INSERT"] == ("untried", "of single columns")


def test_every_function_that_shows_texts_is_tried(module_db: Database, stories: str) -> None:
    with new_role(module_db) as member:
        module_db.execute("SELECT graphrag.grant_corpus(%s, %s)", [stories, member])
        lines = audit(module_db, member)
        module_db.execute("SELECT graphrag.revoke_corpus(%s, %s)", [stories, member])
    functions = {name: line for (name, privilege), line in lines.items() if privilege == "EXECUTE"}
    assert {verdict for verdict, _ in functions.values()} == {"held"}
    untried = {
        name.partition("(")[0].removeprefix("graphrag.")
        for name, (_, detail) in functions.items()
        if "not tried" in detail
    }
    assert {name for name in untried if not name.startswith(("_", "graphrag_attached."))} == {
        *("ask", "ask_stream", "embed", "embedding_engine", "evaluate", "feedback", "log_query"),
        *("understand", "visible_documents", "wait_indexed", "wait_until_indexed", "warm"),
    }


def test_a_policy_that_lets_everybody_in_leaks(module_db: Database, reader: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute("ALTER TABLE graphrag.documents DISABLE ROW LEVEL SECURITY")
        module_db.execute("CREATE VIEW graphrag.everything AS SELECT * FROM graphrag.documents")
        module_db.execute(f"GRANT SELECT ON graphrag.everything TO {reader}".encode())
        assert "graphrag.everything" in leaks(module_db, reader)


def test_what_passes_by_everything_leaks(module_db: Database, reader: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute(f"ALTER ROLE {reader} BYPASSRLS".encode())
        module_db.execute(f"GRANT pg_read_all_data TO {reader}".encode())
        assert {reader, "pg_read_all_data", "graphrag.documents", "graphrag.chunks"} <= leaks(module_db, reader)


def test_copies_and_views_of_others_are_judged_by_the_catalogs(module_db: Database, reader: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute(
            "CREATE SCHEMA app; CREATE VIEW app.all AS SELECT * FROM graphrag.documents;"
            "CREATE VIEW app.own WITH (security_invoker) AS SELECT * FROM graphrag.documents;"
            "CREATE MATERIALIZED VIEW app.copy AS SELECT * FROM graphrag.graph_nodes;"
            "CREATE FUNCTION app.count() RETURNS bigint LANGUAGE sql SECURITY DEFINER"
            " AS 'SELECT count(*) FROM graphrag.documents';"
            f"GRANT USAGE ON SCHEMA app TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA app TO {reader}".encode()
        )
        assert leaks(module_db, reader) == {'app."all"', "app.copy", "app.count()"}
        assert audit(module_db, reader)["app.own", "SELECT"][0] == "held"


@pytest.mark.parametrize("trap", ["policy", "trigger"])
def test_code_of_others_is_named_and_never_run(module_db: Database, reader: str, trap: str) -> None:
    with new_role(module_db) as mallory, module_db.transaction(force_rollback=True):
        module_db.execute(
            f"CREATE SCHEMA trap AUTHORIZATION {mallory}; GRANT USAGE ON SCHEMA trap TO PUBLIC; SET LOCAL ROLE {mallory};"
            "CREATE SEQUENCE trap.alarm; GRANT ALL ON SEQUENCE trap.alarm TO PUBLIC;"
            "CREATE FUNCTION trap.spy(text) RETURNS boolean LANGUAGE sql AS"
            " $$ SELECT set_config('role', 'none', true) IS NOT NULL AND nextval('trap.alarm') > 0 $$;"
            "CREATE FUNCTION trap.spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM trap.spy(''); RETURN NEW; END $$;"
            "RESET ROLE".encode()
        )
        if trap == "policy":
            module_db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
            module_db.execute("CREATE POLICY spy ON graphrag.documents FOR SELECT USING (trap.spy(source_key))")
        else:
            module_db.execute(
                "CREATE TRIGGER spy BEFORE INSERT ON graphrag.documents FOR EACH ROW EXECUTE FUNCTION trap.spy()"
            )
        verdict, detail = audit(module_db, reader)["graphrag.documents", "SELECT"]
        assert verdict == "untried"
        assert mallory in detail
        assert value(module_db, "SELECT is_called FROM trap.alarm") is False


def test_a_function_that_shows_what_is_closed_leaks(module_db: Database, reader: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute(
            "CREATE OR REPLACE FUNCTION graphrag._reads_whole(corpus_id int) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        )
        shown = {name.partition("(")[0] for name in leaks(module_db, reader)}
        assert {"graphrag.graph_nodes"} | {f"graphrag.{name}" for name in SHOWING} <= shown


def test_what_is_judged_alike_is_one_row(module_db: Database, stories: str) -> None:
    with new_role(module_db) as member:
        module_db.execute("SELECT graphrag.grant_corpus(%s, %s, 'write')", [stories, member])
        lines = rows(module_db, "SELECT kind, object, privilege, verdict FROM graphrag.audit(%s)", member)
        assert len(lines) <= 14
        assert {(kind, privilege) for kind, _, privilege, verdict in lines if verdict != "held"} == {
            ("column", "INSERT")
        }
        # What was granted besides is for people to judge, by its name.
        module_db.execute(f"GRANT EXECUTE ON FUNCTION graphrag.fingerprint(text) TO {member}".encode())
        assert ("function", "graphrag.fingerprint(text)", "EXECUTE", "untried") in rows(
            module_db, "SELECT kind, object, privilege, verdict FROM graphrag.audit(%s)", member
        )
        module_db.execute("SELECT graphrag.revoke_corpus(%s, %s)", [stories, member])


def test_a_writer_changes_nothing_of_a_closed_corpus(module_db: Database, stories: str) -> None:
    with new_role(module_db) as role:
        module_db.execute("SELECT graphrag.grant_corpus(%s, %s, 'write')", [stories, role])
        lines = audit(module_db, role)
        assert lines["graphrag.documents", "DELETE"][0] == "held"
        assert leaks(module_db, role) == set()
        module_db.execute("SELECT graphrag.revoke_corpus(%s, %s)", [stories, role])


@pytest.mark.parametrize("given", [True, False], ids=["a grant elsewhere", "no grant at all"])
def test_a_members_canaries_are_tried_as_things_are_and_without_any_grant(
    module_db: Database, stories: str, given: bool
) -> None:
    with new_role(module_db, "IN ROLE graphrag_member") as role, module_db.transaction(force_rollback=True):
        if given:
            module_db.execute("SELECT graphrag.grant_corpus(%s, %s)", [stories, role])
        assert (
            "as things are, protected, without any grant" in audit(module_db, role)["graphrag.graph_nodes", "SELECT"][1]
        )
        assert leaks(module_db, role) == set()
        # Row-level security that is off shows nothing by itself.
        module_db.execute(
            "CREATE VIEW graphrag.hasty AS SELECT corpus, content FROM graphrag.documents"
            " WHERE NOT row_security_active('graphrag.documents')"
        )
        module_db.execute(f"GRANT SELECT ON graphrag.hasty TO {role}".encode())
        state = "without any grant" if given else "as things are"
        assert audit(module_db, role)["graphrag.hasty", "SELECT"] == (
            "leaks",
            f"had what a closed corpus holds ({state})",
        )
        assert value(module_db, "SELECT count(*) FROM graphrag.corpus_grants") == given


def test_only_who_may_see_all_may_ask(module_db: Database, reader: str) -> None:
    with acting_as(module_db, reader) as session:
        assert refused(session, "SELECT graphrag.audit(%s)", reader).sqlstate == "42501"
        assert refused(session, "SELECT graphrag._try_reads(%s)", reader).sqlstate == "42501"
        assert refused(session, "SELECT graphrag._plant_canaries('a', 'b')").sqlstate == "42501"
    owner = value(module_db, "SELECT extowner::regrole::text FROM pg_extension WHERE extname = 'pg_graphrag'")
    assert leaks(module_db, owner)
    assert refused(module_db, "SELECT graphrag.audit('nobody_at_all')").sqlstate == "42704"
    assert refused(module_db, "SELECT graphrag.audit(NULL)").sqlstate == "42704"
