"""grant_corpus(): a limited role sees and writes the corpora it was given, and nothing else, however it asks."""

import pytest

from tests.runtime.cluster import Cluster, Database
from tests.security.acting import acting_as, denied, has_hint, new_role
from tests.sql.ingest import Connection, corpus_id, keys, put, rows, search, searched_corpus, value, work

KEYS = "SELECT array_agg(source_key ORDER BY source_key) FROM graphrag.documents"
TEXT = "Ada Lovelace met Charles Babbage in London."
SECURED = "SELECT relrowsecurity FROM pg_class WHERE oid = 'graphrag.documents'::regclass"
POLICIES = "SELECT count(*) FROM pg_policy WHERE polrelid = 'graphrag.documents'::regclass"


@pytest.fixture
def db(reused_db: Database) -> Database:
    """A database that others have used: who may do what is asked of the catalogs each time."""
    return reused_db


def two_corpora(db: Connection) -> tuple[str, str]:
    """A corpus with the document "mine", and one with "theirs"."""
    mine, theirs = searched_corpus(db), searched_corpus(db)
    put(db, mine, "mine", TEXT)
    put(db, theirs, "theirs", TEXT)
    return mine, theirs


def grant(db: Connection, corpus: str, role: str, level: str = "read") -> None:
    db.execute("SELECT graphrag.grant_corpus(%s, %s, %s)", [corpus, role, level])


def test_a_role_sees_the_corpora_it_was_given(db: Database) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice, new_role(db) as group:
        grant(db, mine, group)
        db.execute(f"GRANT {group} TO {alice}".encode())
        for role in (alice, group):
            with acting_as(db, role) as session:
                assert value(session, KEYS) == ["mine"]
                assert rows(session, "SELECT corpus, level FROM graphrag.granted_corpora") == [(mine, "read")]


def test_search_and_views_show_the_corpora_that_were_given(db: Database) -> None:
    mine, theirs = two_corpora(db)
    work(db)
    with new_role(db) as alice, acting_as(db, alice) as session:
        grant(db, mine, alice)
        for mode in ("bm25", "hybrid", "local"):
            assert keys(search(session, "Ada Lovelace", mine, mode)) == ["mine"]
            has_hint(session, "SELECT * FROM graphrag.search('Ada Lovelace', %s, %s)", "42501", theirs, mode)
        for view in ("graph_nodes", "graph_edges", "document_coverage"):
            shown = f"SELECT DISTINCT corpus FROM graphrag.{view}"
            assert rows(session, shown) == [(mine,)], view


def test_a_reader_of_everything_sees_everything_still(db: Database) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice, new_role(db, "IN ROLE graphrag_reader") as reader:
        grant(db, mine, alice)
        grant(db, mine, reader)
        with acting_as(db, reader) as session:
            assert value(session, KEYS) == ["mine", "theirs"]


def test_a_member_without_a_grant_sees_no_document_whether_others_have_grants_or_not(db: Database) -> None:
    mine, _ = two_corpora(db)
    with (
        new_role(db) as alice,
        new_role(db, "IN ROLE graphrag_member, graphrag_writer") as mallory,
        acting_as(db, mallory) as session,
    ):
        denied(session, KEYS)
        denied(session, "DELETE FROM graphrag.documents")
        grant(db, mine, alice)
        assert value(session, KEYS) is None
        assert rows(session, "SELECT * FROM graphrag.granted_corpora") == []
        assert session.execute("DELETE FROM graphrag.documents").rowcount == 0
        db.execute("SELECT graphrag.revoke_corpus(%s, %s)", [mine, alice])
        denied(session, KEYS)
        denied(session, "INSERT INTO graphrag.documents (corpus, content) VALUES (%s, 'x')", mine)


def test_set_role_and_shared_memberships_open_nothing(db: Database) -> None:
    mine, theirs = two_corpora(db)
    with new_role(db) as alice, new_role(db) as bob, new_role(db, "NOINHERIT") as carol:
        grant(db, mine, alice)
        grant(db, theirs, bob)
        db.execute(f"GRANT {alice} TO {carol}".encode())
        with acting_as(db, alice) as session:
            for role in ("graphrag_member", "graphrag_reader", "graphrag_writer", bob):
                session.execute("RESET ROLE")
                session.execute(f"SET SESSION AUTHORIZATION {alice}".encode())
                if role == "graphrag_member":
                    session.execute("SET ROLE graphrag_member")
                    assert value(session, KEYS) is None
                else:
                    denied(session, f"SET ROLE {role}")
                session.execute("RESET SESSION AUTHORIZATION")
        # Membership without INHERIT gives nothing before SET ROLE.
        with acting_as(db, carol) as session:
            denied(session, KEYS)


def test_a_prepared_plan_answers_for_the_role_that_runs_it(db: Database) -> None:
    mine, theirs = two_corpora(db)
    with new_role(db) as alice, new_role(db) as bob, new_role(db, "IN ROLE graphrag_reader") as reader:
        grant(db, mine, alice)
        grant(db, theirs, bob)
        with Database.open(db.url) as session:
            session.execute("SET plan_cache_mode = force_generic_plan")
            session.execute(f"PREPARE p AS {KEYS}".encode())
            for role, expected in (
                (alice, ["mine"]),
                (bob, ["theirs"]),
                (reader, ["mine", "theirs"]),
                (alice, ["mine"]),
            ):
                session.execute(f"SET ROLE {role}".encode())
                assert value(session, "EXECUTE p") == expected
                session.execute("RESET ROLE")


def test_a_writer_writes_where_it_was_given_to_write(db: Database) -> None:
    mine, theirs = two_corpora(db)
    with new_role(db) as alice:
        grant(db, mine, alice, "write")
        grant(db, theirs, alice, "read")
        with acting_as(db, alice) as session:
            put(session, mine, "new", TEXT, metadata={"n": 1})
            put(session, mine, "mine", "Changed.", title="Title")
            inserted = "INSERT INTO graphrag.documents (corpus, content) VALUES (%s, 'No key.') RETURNING id > 0"
            assert value(session, inserted, mine) is True
            session.execute("DELETE FROM graphrag.documents WHERE source_key = 'new'")
            denied(
                session, "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES (%s, 'x', 'x')", theirs
            )
            # No unique violation, which would tell that the key is there.
            denied(
                session,
                "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES (%s, 'theirs', 'x')",
                theirs,
            )
            conflict = (
                "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES (%s, 'theirs', 'x')"
                " ON CONFLICT (corpus, source_key) DO UPDATE SET content = EXCLUDED.content"
            )
            denied(session, conflict, theirs)
            for statement in (
                "UPDATE graphrag.documents SET content = 'x' WHERE source_key = 'theirs'",
                "UPDATE graphrag.documents SET content = 'x' FROM graphrag.corpora c WHERE c.name <> %s AND c.id = corpus_id",
                "DELETE FROM graphrag.documents WHERE corpus <> %s",
            ):
                assert session.execute(statement.encode(), [mine] if "%s" in statement else []).rowcount == 0
            denied(session, "TRUNCATE graphrag.documents")
    assert value(db, "SELECT content FROM graphrag.documents WHERE source_key = 'theirs'") == TEXT
    assert value(db, "SELECT content FROM graphrag.documents WHERE source_key = 'mine'") == "Changed."


def test_a_writer_does_not_make_the_default_corpus(db: Database) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice, acting_as(db, alice) as session:
        grant(db, mine, alice, "write")
        denied(session, "INSERT INTO graphrag.documents (content) VALUES ('x')")
    assert value(db, "SELECT count(*) FROM graphrag.corpora WHERE name = 'default'") == 0


def test_names_of_roles_are_names_whatever_they_hold(db: Database) -> None:
    mine, _ = two_corpora(db)
    name = "x\"; ALTER ROLE postgres NOLOGIN; --'"
    quoted = value(db, "SELECT quote_ident(%s)", name)
    db.execute(f"CREATE ROLE {quoted}".encode())
    try:
        grant(db, mine, name, "write")
        with acting_as(db, quoted) as session:
            assert value(session, KEYS) == ["mine"]
        db.execute("SELECT graphrag.repair()")
        db.execute("SELECT graphrag.revoke_corpus(%s, %s)", [mine, name])
    finally:
        db.execute(f"DROP OWNED BY {quoted}; DROP ROLE {quoted}".encode())


def test_a_reader_of_a_corpus_does_not_write_it(db: Database) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice:
        grant(db, mine, alice)
        with acting_as(db, alice) as session:
            denied(session, "INSERT INTO graphrag.documents (corpus, content) VALUES (%s, 'x')", mine)
            denied(session, "UPDATE graphrag.documents SET content = 'x'")
            denied(session, "DELETE FROM graphrag.documents")


@pytest.mark.parametrize(
    "assignment",
    [
        "id = id",
        "corpus = corpus",
        "corpus_id = 1",
        "status = 'indexed'",
        "error = 'x'",
        "content_hash = 'x'",
        "indexed_hash = content_hash",
        "indexed_at = now()",
        "created_at = now()",
        "updated_at = now()",
        "attached_id = 1",
    ],
)
def test_a_writer_sets_no_column_of_ours(db: Database, assignment: str) -> None:
    mine, _ = two_corpora(db)
    column = assignment.split(" ")[0]
    with new_role(db) as alice:
        grant(db, mine, alice, "write")
        with acting_as(db, alice) as session:
            denied(session, f"UPDATE graphrag.documents SET {assignment}")
            if column != "corpus":
                denied(
                    session,
                    f"INSERT INTO graphrag.documents (corpus, content, {column})"
                    f" SELECT corpus, 'x', {column} FROM graphrag.documents",
                )


def test_a_role_that_may_insert_by_hand_and_reads_all_goes_on(db: Database) -> None:
    mine, theirs = two_corpora(db)
    with new_role(db) as alice, new_role(db, "IN ROLE graphrag_reader") as app:
        db.execute(f"GRANT INSERT, UPDATE, DELETE ON graphrag.documents TO {app}".encode())
        grant(db, mine, alice)
        with acting_as(db, app) as session:
            for corpus in (mine, theirs):
                put(session, corpus, "new", TEXT)
                put(session, corpus, "new", "Changed.")
            assert session.execute("DELETE FROM graphrag.documents WHERE source_key = 'new'").rowcount == 2


def test_row_level_security_is_on_as_long_as_there_is_a_grant_or_a_protection(db: Database) -> None:
    mine, theirs = two_corpora(db)
    assert not value(db, SECURED)
    with new_role(db) as alice:
        grant(db, mine, alice)
        grant(db, mine, alice, "writer")
        db.execute("SELECT graphrag.protect(%s, 'true')", [theirs])
        db.execute("SELECT graphrag.revoke_corpus(%s, %s, 'reader')", [mine, alice])
        assert value(db, SECURED)
        db.execute("SELECT graphrag.unprotect(%s)", [theirs])
        assert value(db, SECURED)
        db.execute("SELECT graphrag.drop_corpus(%s)", [mine])
        assert not value(db, SECURED)
        assert value(db, POLICIES) == 0
        # COPY FROM is refused under row-level security.
        db.execute(f"GRANT INSERT ON graphrag.documents TO {alice}".encode())
        copied = "COPY graphrag.documents (corpus, content) FROM STDIN"
        with acting_as(db, alice) as session, session.cursor().copy(copied) as copy:
            copy.write_row([theirs, "x"])


def test_the_conditions_are_evaluated_once_in_a_statement(db: Database) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice:
        grant(db, mine, alice, "write")
        with acting_as(db, alice) as session:
            plan = "\n".join(line for (line,) in rows(session, "EXPLAIN SELECT id FROM graphrag.documents"))
        assert plan.count("InitPlan") >= 3
        assert "SubPlan" not in plan.replace("InitPlan", "")


def test_a_role_made_again_under_the_same_name_has_nothing(db: Database) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice:
        grant(db, mine, alice)
        db.execute(f"DROP OWNED BY {alice}; DROP ROLE {alice}; CREATE ROLE {alice} IN ROLE graphrag_member".encode())
        with acting_as(db, alice) as session:
            assert value(session, KEYS) is None
        # What is void is not dumped either: it would come back for whoever has the name then.
        assert value(db, f"SELECT count(*) FROM graphrag.corpus_grants {dumped(db)}") == 0
        db.execute("SELECT graphrag.repair()")
        assert value(db, "SELECT count(*) FROM graphrag.corpus_grants") == 0
        grant(db, mine, alice)
        with acting_as(db, alice) as session:
            assert value(session, KEYS) == ["mine"]


def dumped(db: Connection) -> str:
    """The condition by which pg_dump takes rows of corpus_grants."""
    return str(
        value(
            db,
            "SELECT u.condition FROM pg_extension x, unnest(x.extconfig, x.extcondition) u (relation, condition)"
            " WHERE u.relation = 'graphrag.corpus_grants'::regclass",
        )
    )


def test_a_renamed_role_has_its_grants_again_after_repair_and_who_took_its_name_has_not(db: Database) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice, new_role(db) as other:
        grant(db, mine, alice)
        db.execute(f"DROP ROLE {other}; ALTER ROLE {alice} RENAME TO {other}".encode())
        db.execute(f"CREATE ROLE {alice} IN ROLE graphrag_member".encode())
        for role in (alice, other):
            with acting_as(db, role) as session:
                assert value(session, KEYS) is None
        db.execute("SELECT graphrag.repair()")
        with acting_as(db, alice) as session:
            assert value(session, KEYS) is None
        with acting_as(db, other) as session:
            assert value(session, KEYS) == ["mine"]


def test_restored_grants_hold_before_the_documents_are_there(db: Database, shared_cluster: Cluster) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice, new_role(db) as gone:
        grant(db, mine, alice, "write")
        grant(db, mine, gone)
        db.execute(f"ALTER ROLE {gone} RENAME TO {gone}_2".encode())
        script = shared_cluster.dump(db.info.dbname)
        db.execute(f"ALTER ROLE {gone}_2 RENAME TO {gone}".encode())
        url = shared_cluster.create_database("grants_restored", "template0")
        shared_cluster.restore("grants_restored", script)
        try:
            with Database.open(url) as restored:
                assert rows(restored, "SELECT role, level FROM graphrag.corpus_grants") == [(alice, "write")]
                with acting_as(restored, alice) as session:
                    assert value(session, KEYS) == ["mine"]
                    put(session, mine, "new", TEXT)
                restored.execute("SELECT graphrag.repair()")
                with acting_as(restored, alice) as session:
                    assert value(session, KEYS) == ["mine", "new"]
                restored.execute("SELECT graphrag.drop_corpus(%s)", [mine])
                assert not value(restored, SECURED)
        finally:
            shared_cluster.drop_database("grants_restored")


def test_a_dump_without_data_opens_nothing(db: Database, shared_cluster: Cluster) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice:
        grant(db, mine, alice, "write")
        script = shared_cluster.dump(db.info.dbname, "--schema-only")
        url = shared_cluster.create_database("grants_schema", "template0")
        shared_cluster.restore("grants_schema", script)
        try:
            with Database.open(url) as restored:
                put(restored, "default", "secret", TEXT)
                with acting_as(restored, alice) as session:
                    denied(session, KEYS)
                    denied(session, "DELETE FROM graphrag.documents")
        finally:
            shared_cluster.drop_database("grants_schema")


def test_a_restored_grant_waits_for_its_role(db: Database) -> None:
    mine, _ = two_corpora(db)
    db.execute(
        "INSERT INTO graphrag.corpus_grants (corpus_id, role, level, role_oid) VALUES (%s, 'nobody_yet', 'read', 10)",
        [corpus_id(db, mine)],
    )
    assert rows(db, "SELECT role_oid FROM graphrag.corpus_grants") == [(0,)]
    assert value(db, SECURED)
    db.execute("CREATE ROLE nobody_yet")
    try:
        with acting_as(db, "nobody_yet") as session:
            denied(session, KEYS)
        db.execute("SELECT graphrag.repair()")
        with acting_as(db, "nobody_yet") as session:
            assert value(session, KEYS) == ["mine"]
    finally:
        db.execute("DROP OWNED BY nobody_yet; DROP ROLE nobody_yet")


def test_errors_say_what_is_wrong_and_what_to_do(db: Database) -> None:
    mine, _ = two_corpora(db)
    with new_role(db) as alice:
        call = "SELECT graphrag.grant_corpus(%s, %s, %s)"
        assert '"none"' in has_hint(db, call, "42704", "none", alice, "read")
        assert '"nobody at all"' in has_hint(db, call, "42704", mine, "nobody at all", "read")
        assert '"admin"' in has_hint(db, call, "22023", mine, alice, "admin")
        has_hint(db, call, "22023", mine, alice, None)
        has_hint(db, call, "42704", mine, None, "read")
        for reserved in ("PUBLIC", "public", "pg_monitor", "graphrag_reader"):
            assert reserved.lower() in has_hint(db, call, "0LP01", mine, reserved, "read").lower()
        assert alice in has_hint(db, "SELECT graphrag.revoke_corpus(%s, %s)", "42704", mine, alice)
        grant(db, mine, alice, "write")
        has_hint(db, "SELECT graphrag.revoke_corpus(%s, %s, 'read')", "42704", mine, alice)
    assert value(db, "SELECT count(*) FROM graphrag.corpus_grants") == 1


def test_only_the_owner_gives_and_takes_corpora_whatever_was_granted(db: Database) -> None:
    mine, theirs = two_corpora(db)
    with new_role(db, "CREATEROLE IN ROLE pg_write_all_data, pg_read_all_data") as mallory:
        db.execute(f"GRANT ALL ON SCHEMA graphrag TO {mallory}".encode())
        db.execute(f"GRANT ALL ON ALL ROUTINES IN SCHEMA graphrag TO {mallory}".encode())
        db.execute(f"GRANT ALL ON graphrag.corpus_grants, graphrag.corpora, graphrag.providers TO {mallory}".encode())
        grant(db, mine, mallory)
        with acting_as(db, mallory) as session:
            denied(session, "SELECT graphrag.grant_corpus(%s, %s)", theirs, mallory)
            denied(session, "SELECT graphrag.revoke_corpus(%s, %s)", mine, mallory)
            denied(session, "UPDATE graphrag.corpus_grants SET corpus_id = %s", corpus_id(db, theirs))
            denied(session, "INSERT INTO graphrag.corpus_grants SELECT * FROM graphrag.corpus_grants")
            denied(session, "DELETE FROM graphrag.corpus_grants")
            denied(session, "TRUNCATE graphrag.corpus_grants")
            # A condition that repair() would put in force, with the owner's rights.
            denied(session, "UPDATE graphrag.corpora SET protection = 'true); DROP TABLE graphrag.documents; --'")
            denied(session, "UPDATE graphrag.providers SET base_url = 'https://mallory.example'")
            denied(session, "UPDATE graphrag._attached_tables SET title_column = 'x'")


OWN = "CREATE POLICY own ON graphrag.documents USING (source_key <> 'hidden')"


@pytest.mark.sample(2)
@pytest.mark.parametrize("policy_first", [True, False])
@pytest.mark.parametrize("kind", ["protect", "grant"])
def test_policies_of_the_owner_restrict_beside_ours_in_either_order(
    db: Database, policy_first: bool, kind: str
) -> None:
    mine, _ = two_corpora(db)
    put(db, mine, "hidden", TEXT)
    with new_role(db, "IN ROLE graphrag_reader") as reader, new_role(db) as alice:
        if policy_first:
            db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
            db.execute(OWN.encode())
        if kind == "protect":
            db.execute("SELECT graphrag.protect(%s, $$source_key <> 'mine'$$)", [mine])
        else:
            grant(db, mine, alice, "write")
        if not policy_first:
            db.execute(OWN.encode())
        with acting_as(db, reader) as session:
            assert value(session, KEYS) == (["theirs"] if kind == "protect" else ["mine", "theirs"])
        if kind == "grant":
            with acting_as(db, alice) as session:
                assert value(session, KEYS) == ["mine"]
                assert session.execute("DELETE FROM graphrag.documents WHERE source_key = 'hidden'").rowcount == 0
            db.execute("SELECT graphrag.revoke_corpus(%s, %s)", [mine, alice])
        else:
            db.execute("SELECT graphrag.unprotect(%s)", [mine])
        # Ours are gone; theirs are in force as before.
        assert rows(db, "SELECT polname::text FROM pg_policy WHERE polrelid = 'graphrag.documents'::regclass") == [
            ("own",)
        ]
        with acting_as(db, reader) as session:
            assert value(session, KEYS) == ["mine", "theirs"]


def test_what_the_owner_closed_to_all_stays_closed(db: Database) -> None:
    mine, _ = two_corpora(db)
    db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    with new_role(db, "IN ROLE graphrag_reader") as reader, acting_as(db, reader) as session:
        db.execute("SELECT graphrag.protect(%s, 'true')", [mine])
        assert value(session, KEYS) is None
        db.execute("SELECT graphrag.protect(%s, 'id > 0')", [mine])
        db.execute("SELECT graphrag.repair()")
        assert value(session, KEYS) is None
    # A policy for one command is all that is allowed then, as without ours.
    db.execute("CREATE POLICY own ON graphrag.documents FOR SELECT TO graphrag_reader USING (true)")
    with new_role(db, "IN ROLE graphrag_reader") as app:
        db.execute(f"GRANT INSERT ON graphrag.documents TO {app}".encode())
        with acting_as(db, app) as session:
            assert value(session, KEYS) == ["mine", "theirs"]
            denied(session, "INSERT INTO graphrag.documents (corpus, content) VALUES (%s, 'x')", mine)
