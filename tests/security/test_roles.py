"""The roles of the cluster, what they may call and read, and who may say that a document is indexed."""

from pathlib import Path

import pytest

from tests.runtime.cluster import PROJECT, Database
from tests.security.acting import acting_as, denied, has_hint, new_role
from tests.sql.ingest import corpus_id, index_all, keys, new_corpus, put, refused, rows, search, statuses, value, work

ROLES = ("graphrag_member", "graphrag_reader", "graphrag_writer")
ENSURE = "SELECT graphrag._ensure_roles()"
HERE = Path(__file__).parent


@pytest.fixture
def db(reused_db: Database) -> Database:
    """A database that others have used: who may do what is asked of the catalogs each time."""
    return reused_db


def entries(file: str) -> dict[str, str]:
    """Names and reasons of a list."""
    lines = (HERE / file).read_text().splitlines()
    return {name: reason.strip() for name, _, reason in (line.partition("  ") for line in lines if line)}


@pytest.mark.sample(8)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("make", "undo"),
    [
        ("ALTER ROLE {role} LOGIN", "ALTER ROLE {role} NOLOGIN"),
        ("ALTER ROLE {role} SUPERUSER", "ALTER ROLE {role} NOSUPERUSER"),
        ("ALTER ROLE {role} CREATEDB", "ALTER ROLE {role} NOCREATEDB"),
        ("ALTER ROLE {role} CREATEROLE", "ALTER ROLE {role} NOCREATEROLE"),
        ("ALTER ROLE {role} REPLICATION", "ALTER ROLE {role} NOREPLICATION"),
        ("ALTER ROLE {role} BYPASSRLS", "ALTER ROLE {role} NOBYPASSRLS"),
        ("GRANT pg_read_all_data TO {role}", "REVOKE pg_read_all_data FROM {role}"),
        ("GRANT {mallory} TO {role}", "REVOKE {mallory} FROM {role}"),
        ("GRANT {role} TO {mallory} WITH ADMIN OPTION", "REVOKE {role} FROM {mallory}"),
        ("GRANT {role} TO {mallory} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE", "REVOKE {role} FROM {mallory}"),
    ],
    ids=lambda text: None if text.startswith(("REVOKE", "ALTER ROLE {role} NO")) else text,
)
def test_a_role_that_somebody_prepared_is_refused(db: Database, role: str, make: str, undo: str) -> None:
    with new_role(db) as mallory, db.transaction(force_rollback=True):
        db.execute(make.format(role=role, mallory=mallory).encode())
        with db.transaction(force_rollback=True):
            assert role in has_hint_in_transaction(db)
        db.execute(undo.format(role=role, mallory=mallory).encode())
        db.execute(ENSURE)


def test_whoever_inherits_the_right_to_grant_from_a_superuser_is_refused(db: Database) -> None:
    with new_role(db) as mallory, new_role(db, "SUPERUSER") as admin, db.transaction(force_rollback=True):
        db.execute(f"GRANT graphrag_reader TO {admin} WITH ADMIN OPTION".encode())
        db.execute(f"GRANT {admin} TO {mallory}".encode())
        db.execute(ENSURE)  # he is a superuser whenever he wants
        db.execute(f"GRANT {admin} TO {mallory} WITH INHERIT TRUE, SET FALSE".encode())
        assert mallory in has_hint_in_transaction(db)


def has_hint_in_transaction(db: Database) -> str:
    with db.transaction(force_rollback=True):
        return has_hint(db, ENSURE, "42501")


def test_a_role_that_a_creator_of_roles_made_is_refused(db: Database) -> None:
    # CREATEROLE has ADMIN OPTION on what it makes, and so decides who reads.
    with new_role(db, "CREATEROLE") as mallory, db.transaction(force_rollback=True):
        db.execute("ALTER ROLE graphrag_writer RENAME TO graphrag_away")
        db.execute(f"SET LOCAL ROLE {mallory}".encode())
        db.execute("CREATE ROLE graphrag_writer NOLOGIN")
        db.execute("RESET ROLE")
        assert mallory in has_hint_in_transaction(db)


def test_the_roles_are_made_again_and_members_of_each_other_as_before(db: Database) -> None:
    membership = (
        "SELECT r.rolname::text, x.rolname::text, m.inherit_option, m.admin_option FROM pg_auth_members m"
        " JOIN pg_roles r ON r.oid = m.member JOIN pg_roles x ON x.oid = m.roleid AND x.rolname = 'graphrag_member'"
        " WHERE r.rolname ^@ 'graphrag_' ORDER BY 1"
    )
    expected = [(role, "graphrag_member", True, False) for role in ROLES[1:]]
    assert rows(db, membership) == expected
    with db.transaction(force_rollback=True):
        db.execute("GRANT graphrag_member TO graphrag_reader WITH INHERIT FALSE")
        db.execute("REVOKE graphrag_member FROM graphrag_writer")
        db.execute(ENSURE)
        assert rows(db, membership) == expected
    for attribute in ("rolcanlogin", "rolsuper", "rolcreatedb", "rolcreaterole", "rolreplication", "rolbypassrls"):
        assert rows(db, f"SELECT rolname FROM pg_roles WHERE rolname = ANY (%s) AND {attribute}", list(ROLES)) == []


def test_nothing_is_executable_by_public(db: Database) -> None:
    public = (
        "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'graphrag'::regnamespace"
        " AND (p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0))"
    )
    assert rows(db, public) == []
    with new_role(db) as mallory, acting_as(db, mallory) as session:
        denied(session, "SELECT graphrag.search('x')")


def test_no_role_but_the_owner_executes_a_private_function_unless_the_list_says_why(db: Database) -> None:
    private = (
        "SELECT DISTINCT 'graphrag.' || p.proname FROM pg_proc p, aclexplode(p.proacl) a"
        " WHERE p.pronamespace = 'graphrag'::regnamespace AND p.proname ^@ '_' AND a.grantee <> p.proowner"
    )
    listed = entries("private_functions.txt")
    assert {name for (name,) in rows(db, private)} == listed.keys()
    assert all(listed.values()), "each has its reason"


def test_whoever_reads_everything_administers_nothing(db: Database) -> None:
    corpus = new_corpus(db)
    put(db, corpus, "a", "Ada Lovelace met Charles Babbage.")
    with (
        new_role(db, "IN ROLE graphrag_reader, graphrag_writer, pg_monitor") as mallory,
        acting_as(db, mallory) as session,
    ):
        for call in (
            "SELECT graphrag.create_corpus('x')",
            f"SELECT graphrag.alter_corpus('{corpus}', '{{}}')",
            f"SELECT graphrag.drop_corpus('{corpus}')",
            f"SELECT graphrag.protect('{corpus}', 'true')",
            f"SELECT graphrag.unprotect('{corpus}')",
            f"SELECT graphrag.grant_corpus('{corpus}', '{mallory}', 'write')",
            f"SELECT graphrag.revoke_corpus('{corpus}', '{mallory}')",
            "SELECT graphrag.set_provider('x', 'openai', 'https://x.example/v1')",
            "SELECT graphrag.repair()",
            "SELECT graphrag.optimize()",
            "SELECT graphrag.retry_failed()",
            "SELECT graphrag.uninstall()",
            "SELECT graphrag.schedule_worker()",
            f"SELECT graphrag.check('{corpus}')",
            f"SELECT graphrag.fingerprint('{corpus}')",
            f"SELECT graphrag.clustered_relationships('{corpus}')",
            f"SELECT graphrag.suggest_merges('{corpus}')",
            "SELECT graphrag.merge_entities('{a,b}', 'c')",
            f"SELECT graphrag.reembed('{corpus}', '{{}}')",
            "SELECT graphrag._lock_corpus(1)",
            "SELECT graphrag._settle_policies()",
            "SELECT graphrag._lock_tables('graphrag.documents')",
            "SELECT graphrag._enforce(1, NULL)",
            "SELECT graphrag._close('graphrag.documents')",
            ENSURE,
            "CALL graphrag.process_jobs()",
        ):
            denied(session, call)


def test_readers_read_no_table_that_is_made_of_documents(db: Database) -> None:
    index_all(db, new_corpus(db), {"a": "Ada Lovelace met Charles Babbage."})
    readable = (
        "SELECT c.relname::text FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE',"
        " 'REFERENCES', 'TRIGGER', 'MAINTAIN']) p (privilege), unnest(%s::text[]) r (role)"
        " WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind IN ('r', 'p')"
        " AND has_table_privilege(r.role, c.oid, p.privilege) GROUP BY 1 ORDER BY 1"
    )
    assert rows(db, readable, [*ROLES, "pg_monitor"]) == [
        ("_histories",),
        ("corpora",),
        ("documents",),
        ("nodes",),
        ("pictures",),
    ]
    # Names of sequences tell how much there is.
    used = (
        "SELECT c.relname FROM pg_class c, unnest(%s::text[]) r (role) WHERE c.relnamespace = 'graphrag'::regnamespace"
        " AND c.relkind = 'S' AND has_sequence_privilege(r.role, c.oid, 'USAGE, SELECT, UPDATE')"
    )
    assert rows(db, used, [*ROLES, "pg_monitor"]) == []


def test_a_monitor_sees_numbers_and_no_text(db: Database) -> None:
    secret = "Ada Lovelace hid the Enigma machine"
    corpus = new_corpus(db, query_log=True)
    put(db, corpus, "secret/key", secret, title=secret)
    work(db)
    number = corpus_id(db, corpus)
    error = f"ItemFault: it is no JSON\nDETAIL:  The model said: {secret}"
    db.execute("UPDATE graphrag.documents SET status = 'failed', error = %s, indexed_at = NULL", [error])
    db.execute("DELETE FROM graphrag.jobs")
    db.execute(
        "INSERT INTO graphrag.jobs (corpus_id, kind, document_id, state, last_error)"
        " SELECT corpus_id, 'index', id, 'failed', %s FROM graphrag.documents",
        [error],
    )
    db.execute(
        "INSERT INTO graphrag.jobs (corpus_id, kind, last_error, next_attempt_at)"
        " VALUES (%s, 'summarize', %s, now() + interval '1 day')",
        [number, error],
    )
    db.execute("SELECT graphrag.log_query(%s, %s, 'search', 'hybrid', 1)", [secret, corpus])
    db.execute(
        "INSERT INTO graphrag.llm_calls (corpus_id, purpose, provider, model, tokens_in, tokens_out, cost, seconds, error)"
        " VALUES (%s, 'answer', 'p', 'm', 1, 1, 1, 1, %s)",
        [number, secret],
    )
    with new_role(db, "IN ROLE pg_monitor") as monitor, acting_as(db, monitor) as session:
        for view in ("progress", "failed_jobs", "llm_usage", "budgets", "query_stats"):
            shown = rows(session, f"SELECT v::text FROM graphrag.{view} v")
            assert len(shown) == 1, view
            assert "Enigma" not in str(shown) and "secret/key" not in str(shown), view
            assert rows(db, f"SELECT count(*) FROM graphrag.{view}") == [(1,)]
        assert rows(session, "SELECT document_id IS NULL, source_key, last_error FROM graphrag.failed_jobs") == [
            (False, None, "ItemFault")
        ]
        assert value(session, "SELECT waiting_for FROM graphrag.progress") == "ItemFault"
        for closed in ("jobs", "llm_calls", "query_log", "documents", "corpora", "chunks", "graph_nodes"):
            denied(session, f"SELECT * FROM graphrag.{closed}")
    assert secret in value(db, "SELECT last_error FROM graphrag.failed_jobs")


FORGED = {"indexed_hash": "'x'", "indexed_at": "now()", "status": "'indexed'", "error": "'x'", "attached_id": "1"}


@pytest.mark.parametrize("column", FORGED)
def test_whoever_may_write_every_column_does_not_say_what_is_indexed(db: Database, column: str) -> None:
    corpus, forged = new_corpus(db), FORGED[column]
    put(db, corpus, "a", "Ada Lovelace met Charles Babbage.")
    with new_role(db, "IN ROLE graphrag_reader, pg_write_all_data") as mallory:
        db.execute(f"GRANT ALL ON graphrag.documents TO {mallory}".encode())
        db.execute(f"GRANT SET ON PARAMETER session_replication_role TO {mallory}".encode())
        # With what triggers would fill in: a replica's do not.
        insert = (
            f"INSERT INTO graphrag.documents (corpus, source_key, content, corpus_id, content_hash, {column})"
            f" VALUES (%s, %s, 'x', (SELECT max(id) FROM graphrag.corpora), 'x', {forged})"
        )
        with acting_as(db, mallory) as session:
            for replication_role in ("origin", "replica"):
                session.execute(f"SET session_replication_role = {replication_role}".encode())
                has_hint(session, insert, "42501", corpus, "b")
                has_hint(session, f"UPDATE graphrag.documents SET {column} = {forged}", "42501")
                conflict = f" ON CONFLICT (corpus, source_key) DO UPDATE SET {column} = {forged}"
                plain = "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES (%s, 'a', 'y')"
                if replication_role == "origin":
                    has_hint(session, plain + conflict, "42501", corpus)
                    has_hint(
                        session,
                        f"MERGE INTO graphrag.documents d USING (VALUES ('a')) v (k) ON d.source_key = v.k"
                        f" WHEN MATCHED THEN UPDATE SET {column} = {forged}",
                        "42501",
                    )
            session.execute("RESET session_replication_role")
            put(session, corpus, "a", "Changed.")
            denied(session, "ALTER TABLE graphrag.documents DISABLE TRIGGER documents_authorize_update")
            with session.transaction(force_rollback=True):
                copied = f"COPY graphrag.documents (corpus, source_key, content, {column}) FROM STDIN"
                with pytest.raises(Exception, match="may not set"), session.cursor().copy(copied.encode()) as copy:
                    copy.write_row([corpus, "c", "x", {"status": "indexed", "attached_id": "1"}.get(column, "now")])
        db.execute(f"REVOKE SET ON PARAMETER session_replication_role FROM {mallory}".encode())
    assert rows(db, "SELECT source_key, content, status FROM graphrag.documents") == [("a", "Changed.", "pending")]


def test_taking_an_indexed_hash_away_is_forging_too(db: Database) -> None:
    index_all(db, new_corpus(db), {"a": "Ada Lovelace met Charles Babbage."})
    with new_role(db) as mallory:
        db.execute(
            f"GRANT USAGE ON SCHEMA graphrag TO {mallory}; GRANT ALL ON graphrag.documents TO {mallory}".encode()
        )
        with acting_as(db, mallory) as session:
            for column in ("indexed_hash", "indexed_at", "attached_id = 1, indexed_at"):
                denied(session, f"UPDATE graphrag.documents SET {column} = NULL")


def test_a_new_row_with_the_number_of_a_deleted_one_is_of_no_indexed_version(db: Database) -> None:
    corpus = index_all(db, new_corpus(db), {"a": "Ada Lovelace met Charles Babbage."})
    ((number, indexed),) = rows(db, "SELECT id, indexed_hash = content_hash FROM graphrag.documents")
    assert indexed
    with new_role(db) as mallory:
        db.execute(
            f"GRANT USAGE ON SCHEMA graphrag TO {mallory}; GRANT ALL ON graphrag.documents TO {mallory}".encode()
        )
        with acting_as(db, mallory) as session:
            session.execute("DELETE FROM graphrag.documents")
            # The same text, too: it is the index that says what it holds.
            session.execute(
                "INSERT INTO graphrag.documents (id, corpus, source_key, content)"
                " VALUES (%s, %s, 'b', 'Ada Lovelace met Charles Babbage.')",
                [number, corpus],
            )
    assert rows(db, "SELECT id, indexed_hash, indexed_at FROM graphrag.documents") == [(number, None, None)]


def test_documents_that_are_only_cut_anew_stay_the_version_that_is_served(db: Database) -> None:
    corpus = index_all(db, new_corpus(db), {"a": "Ada Lovelace met Charles Babbage."})
    put(db, corpus, "b", "Grace Hopper met Alan Turing.")
    db.execute("SELECT graphrag.alter_corpus(%s, '{\"chunk_token_size\": 300}')", [corpus])
    state = (
        "SELECT source_key, indexed_hash = content_hash, indexed_at IS NULL, status FROM graphrag.documents ORDER BY 1"
    )
    assert rows(db, state) == [("a", True, True, "pending"), ("b", None, True, "pending")]
    assert rows(db, "SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'") == [(2,)]
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []
    assert keys(search(db, "Ada Lovelace", corpus, "bm25")) == ["a"]
    # Lost jobs come back, and what is indexed is still known.
    db.execute("DELETE FROM graphrag.jobs")
    assert value(db, "SELECT graphrag.repair() ->> 'jobs_queued'") == "2"
    assert rows(db, state) == [("a", True, True, "pending"), ("b", None, True, "pending")]
    work(db)
    assert statuses(db, corpus) == {"a": "indexed", "b": "indexed"}
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_repair_keeps_the_version_of_what_came_past_the_triggers(db: Database) -> None:
    corpus = new_corpus(db)
    for key in ("hashed", "unhashed", "elsewhere"):
        put(db, corpus, key, f"Ada Lovelace met Charles Babbage {key}.")
    work(db)
    db.execute("SET session_replication_role = replica")
    db.execute(
        "UPDATE graphrag.documents SET content = 'New text.',"
        " content_hash = graphrag._content_hash(title, 'New text.') WHERE source_key = 'hashed'"
    )
    db.execute("UPDATE graphrag.documents SET content = 'Newer text.' WHERE source_key = 'unhashed'")
    db.execute(
        "DELETE FROM graphrag.chunks WHERE document_id = (SELECT id FROM graphrag.documents WHERE source_key = 'elsewhere')"
    )
    db.execute("RESET session_replication_role")
    before = dict(rows(db, "SELECT source_key, indexed_hash FROM graphrag.documents"))
    db.execute("SELECT graphrag.repair()")
    assert value(db, "SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'") == 3
    assert dict(rows(db, "SELECT source_key, indexed_hash FROM graphrag.documents")) == before | {"elsewhere": None}
    assert rows(db, "SELECT DISTINCT status, indexed_at FROM graphrag.documents") == [("pending", None)]
    assert rows(db, "SELECT FROM graphrag.documents WHERE content_hash <> graphrag._content_hash(title, content)") == []
    work(db)
    assert set(statuses(db, corpus).values()) == {"indexed"}


# As docs/roles.md has it: what is refused, in PostgreSQL's words, and the grants that end it.
GRANTS = [
    ("SELECT * FROM graphrag.search('Ada', '{corpus}')", "schema graphrag", ["GRANT graphrag_reader TO {role}"]),
    (
        "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES ('{corpus}', 'b', 'Ada')",
        "table documents",
        [
            "SELECT graphrag.grant_corpus('{corpus}', '{role}')",
            "SELECT graphrag.grant_corpus('{corpus}', '{role}', 'write')",
        ],
    ),
    (
        "SELECT * FROM graphrag.health()",
        "function health",
        ["GRANT graphrag_reader TO {role}", "GRANT pg_monitor TO {role}"],
    ),
    (
        "SELECT count(*) FROM graphrag.metrics",
        "view metrics",
        ["GRANT graphrag_reader TO {role}", "GRANT pg_monitor TO {role}"],
    ),
    (
        "SELECT graphrag.attach_table('{role}', '{corpus}', 'id', '{{body}}')",
        "function attach_table",
        [
            "SELECT graphrag.grant_corpus('{corpus}', '{role}', 'write');"
            " CREATE TABLE {role} (id int PRIMARY KEY, body text); ALTER TABLE {role} OWNER TO {role}",
            "GRANT EXECUTE ON ROUTINE graphrag.attach_table TO {role}",
        ],
    ),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("statement", "what", "grants"), GRANTS, ids=[what for _, what, _ in GRANTS])
def test_what_postgresql_refuses_by_itself_is_ended_by_the_grant_of_the_manual(
    fresh_db: Database, statement: str, what: str, grants: list[str]
) -> None:
    corpus = index_all(fresh_db, new_corpus(fresh_db), {"a": "Ada Lovelace"})
    with new_role(fresh_db) as role, acting_as(fresh_db, role) as session:
        *before, last = (grant.format(corpus=corpus, role=role) for grant in grants)
        for grant in before:
            fresh_db.execute(grant.encode())
        diag = refused(session, statement.format(corpus=corpus, role=role))
        assert diag.sqlstate == "42501" and diag.message_hint is None
        assert diag.message_primary == f"permission denied for {what}"
        assert f"`{what}" in (PROJECT / "docs/roles.md").read_text()
        fresh_db.execute(last.encode())
        session.execute(statement.format(corpus=corpus, role=role).encode())


# Each decides what runs, who reads, or what is read with the owner's rights.
OWNERS_ALONE = {
    "corpora": "UPDATE graphrag.corpora SET protection = 'true)) WITH CHECK (true); ALTER ROLE mallory SUPERUSER; --'",
    "corpus_grants": "DELETE FROM graphrag.corpus_grants",
    "providers": "UPDATE graphrag.providers SET base_url = 'http://mallory.example/v1'",
    "nodes": "UPDATE graphrag.nodes SET url = 'postgresql://mallory.example/app'",
    "placements": "DELETE FROM graphrag.placements",
    "_graphs": "UPDATE graphrag._graphs SET namespace = 'public'::regnamespace",
    "_attached_tables": "UPDATE graphrag._attached_tables SET relation = 1260",
    "_attached_seen": "DELETE FROM graphrag._attached_seen",
}


@pytest.mark.parametrize("table", OWNERS_ALONE)
def test_whoever_writes_all_tables_does_not_write_what_decides(db: Database, table: str) -> None:
    new_corpus(db)
    with new_role(db, "IN ROLE graphrag_reader, pg_write_all_data") as mallory:
        db.execute(f"GRANT SET ON PARAMETER session_replication_role TO {mallory}".encode())
        with acting_as(db, mallory) as session:
            for replication_role in ("origin", "replica"):
                session.execute(f"SET session_replication_role = {replication_role}".encode())
                has_hint(session, OWNERS_ALONE[table], "42501")
            session.execute("RESET session_replication_role")
        db.execute(f"REVOKE SET ON PARAMETER session_replication_role FROM {mallory}".encode())


def test_whoever_writes_all_tables_attaches_and_hands_over_as_himself(db: Database) -> None:
    """The row says who asks; that must not be somebody else, whose table would be read."""
    corpus = new_corpus(db)
    db.execute("CREATE TABLE salaries (id int PRIMARY KEY, line text)")
    db.execute("INSERT INTO salaries VALUES (1, 'The boss has nine million.')")
    db.execute("CREATE TABLE news (id int PRIMARY KEY, line text)")
    db.execute("SELECT graphrag.attach_table('news', %s, 'id', '{line}')", [corpus])
    request = (
        "INSERT INTO graphrag._attach_requests (caller, action, source, corpus, key_columns, content_columns, metadata_columns,"
        " key_prefix) VALUES ('postgres', 'attach', 'salaries'::regclass, %s, '{id}', '{line}', '{}', '')"
    )
    handover = (
        "INSERT INTO graphrag_attached._handover (caller, action, attached_id, relation, source_keys, titles, contents, metadata,"
        " digests) VALUES ('postgres', 'write', 1, 'news'::regclass, '{9}', '{t}', '{forged}', '{\"{}\"}', '{x}')"
    )
    with new_role(db, "IN ROLE graphrag_reader, pg_write_all_data") as mallory, acting_as(db, mallory) as session:
        has_hint(session, request, "42501", corpus)
        has_hint(session, handover, "42501")
    work(db)
    assert value(db, "SELECT count(*) FROM graphrag.documents") == 0


def test_who_writes_as_replication_does_says_neither_whose_number_nor_what_hash(db: Database) -> None:
    hers, closed = new_corpus(db), new_corpus(db)
    db.execute("DELETE FROM graphrag.documents")
    with new_role(db, "") as mallory:
        db.execute(f"GRANT USAGE ON SCHEMA graphrag TO {mallory}".encode())
        db.execute(f"GRANT INSERT, SELECT ON graphrag.documents TO {mallory}".encode())
        db.execute(f"GRANT SET ON PARAMETER session_replication_role TO {mallory}".encode())
        with acting_as(db, mallory) as session:
            session.execute("SET session_replication_role = replica")
            session.execute(
                "INSERT INTO graphrag.documents (corpus, source_key, content, corpus_id, content_hash)"
                " VALUES (%s, 'a', 'x', %s, 'forged')",
                [hers, value(db, "SELECT id FROM graphrag.corpora WHERE name = %s", closed)],
            )
            session.execute("RESET session_replication_role")
        db.execute(f"REVOKE SET ON PARAMETER session_replication_role FROM {mallory}".encode())
    settled = (
        "SELECT c.name, d.content_hash = graphrag._content_hash(d.title, d.content), d.indexed_hash"
        " FROM graphrag.documents d JOIN graphrag.corpora c ON c.id = d.corpus_id"
    )
    assert rows(db, settled) == [(hers, True, None)]


def test_who_writes_as_replication_does_queues_its_own_documents_alone(db: Database) -> None:
    """_documents_applied() writes the queue with the owner's rights, for roles that may not write it."""
    own, protected = new_corpus(db), new_corpus(db)
    db.execute("DELETE FROM graphrag.documents")
    put(db, protected, "secret", "Ada Lovelace met Charles Babbage.")
    db.execute("SELECT graphrag.protect(%s, 'false')", [protected])
    work(db)
    queued = (
        "SELECT source_key, kind FROM graphrag.jobs j JOIN graphrag.documents d ON d.id = j.document_id ORDER BY 1, 2"
    )
    with new_role(db, "") as mallory:
        db.execute("SELECT graphrag.grant_corpus(%s, %s, 'write')", [own, mallory])
        db.execute(f"GRANT SET ON PARAMETER session_replication_role TO {mallory}".encode())
        with acting_as(db, mallory) as session:
            session.execute("CREATE TEMP TABLE jobs (id int); CREATE TEMP TABLE bait (LIKE graphrag.documents)")
            session.execute("SET session_replication_role = replica; SET search_path = pg_temp, graphrag")
            insert = "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES (%s, %s, 'x')"
            denied(session, insert, protected, "b")
            for statement in ("UPDATE graphrag.documents SET content = 'x'", "DELETE FROM graphrag.documents"):
                assert session.execute(statement.encode()).rowcount == 0
            session.execute(insert.encode(), [own, "a"])
            session.execute("RESET session_replication_role; RESET search_path")
            for trigger in ("_documents_applied", "_documents_replicated"):
                denied(
                    session, f"CREATE TRIGGER t AFTER INSERT ON bait FOR EACH ROW EXECUTE FUNCTION graphrag.{trigger}()"
                )
            for statement in ("INSERT INTO graphrag.jobs (kind) VALUES ('index')", "DELETE FROM graphrag.jobs"):
                denied(session, statement)
            assert rows(session, "SELECT FROM pg_temp.jobs") == []
        db.execute(f"REVOKE SET ON PARAMETER session_replication_role FROM {mallory}".encode())
    assert rows(db, queued) == [("a", "index")]
    work(db)
    assert statuses(db, own) == {"a": "indexed"}
    assert statuses(db, protected) == {"secret": "indexed"}
