"""CREATE EXTENSION and ALTER EXTENSION UPDATE where somebody has been before: refused, or nothing of his is run."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Cluster, Database
from tests.security.acting import acting_as, denied, has_hint, new_role
from tests.sql.ingest import new_corpus, put, rows, value
from tests.upgrade.catalog import catalog
from tests.upgrade.released import create_released

CREATE = "CREATE EXTENSION pg_graphrag"
SQUATTER = "CREATE FUNCTION {name} RETURNS {type} LANGUAGE plpgsql AS $$ BEGIN {body} END $$"


@pytest.fixture
def bare_db(empty_db: Database) -> Database:
    """A database with what the extension needs, and not with it."""
    for extension in ("vector", "age", "plpython3u"):
        empty_db.execute(f"CREATE EXTENSION {extension}".encode())
    return empty_db


def test_a_schema_of_another_role_is_refused(bare_db: Database) -> None:
    with new_role(bare_db) as mallory:
        bare_db.execute(f"CREATE SCHEMA graphrag AUTHORIZATION {mallory}".encode())
        assert mallory in has_hint(bare_db, CREATE, "42501")
        assert mallory in has_hint(bare_db, "CREATE EXTENSION pg_graphrag SCHEMA graphrag CASCADE", "42501")


def test_a_schema_of_the_owner_of_the_database_is_refused(bare_db: Database) -> None:
    with new_role(bare_db) as mallory:
        bare_db.execute(f"ALTER DATABASE {bare_db.info.dbname} OWNER TO {mallory}".encode())
        with acting_as(bare_db, mallory) as session:
            session.execute("CREATE SCHEMA graphrag AUTHORIZATION pg_database_owner")
        try:
            assert "pg_database_owner" in has_hint(bare_db, CREATE, "42501")
            bare_db.execute("ALTER SCHEMA graphrag OWNER TO postgres")
            # Nor may vector lie in one of his: see below.
            assert mallory in has_hint(bare_db, CREATE, "42501")
            bare_db.execute("ALTER SCHEMA public OWNER TO postgres")
            bare_db.execute(CREATE)
        finally:
            bare_db.execute(f"ALTER DATABASE {bare_db.info.dbname} OWNER TO postgres".encode())


def test_the_extension_vector_in_a_schema_of_somebody_else_is_refused(bare_db: Database) -> None:
    """He could rename the schema, and put a domain and an operator of his own in the place of vector's."""
    with new_role(bare_db) as mallory:
        bare_db.execute(f"CREATE SCHEMA hers AUTHORIZATION {mallory}; ALTER EXTENSION vector SET SCHEMA hers".encode())
        try:
            assert mallory in has_hint(bare_db, CREATE, "42501")
            bare_db.execute("ALTER SCHEMA hers OWNER TO postgres")
            bare_db.execute(CREATE)
        finally:
            bare_db.execute("ALTER SCHEMA hers OWNER TO postgres")


@pytest.mark.parametrize("grantee", ["PUBLIC", "role"])
def test_a_schema_in_which_others_may_create_is_refused(bare_db: Database, grantee: str) -> None:
    with new_role(bare_db) as mallory:
        name = mallory if grantee == "role" else grantee
        bare_db.execute("CREATE SCHEMA graphrag")
        bare_db.execute(f"GRANT USAGE, CREATE ON SCHEMA graphrag TO {name}".encode())
        assert name in has_hint(bare_db, CREATE, "42501")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "planted",
    [
        "CREATE TABLE graphrag.corpora (id int)",
        "CREATE VIEW graphrag.documents AS SELECT 1 AS id",
        "CREATE SEQUENCE graphrag.s",
        "CREATE TYPE graphrag.evaluation AS (a int)",
        "CREATE DOMAIN graphrag.d AS int CHECK (VALUE > 0)",
        "CREATE FUNCTION graphrag._lock_corpus(corpus_id int) RETURNS void LANGUAGE sql AS 'SELECT'",
        "CREATE FUNCTION graphrag.search(text) RETURNS text LANGUAGE sql AS 'SELECT $1'",
        "CREATE AGGREGATE graphrag.a (int) (SFUNC = int4pl, STYPE = int)",
        "CREATE OPERATOR graphrag.|| (LEFTARG = text, RIGHTARG = int, FUNCTION = pg_catalog.repeat)",
        'CREATE COLLATION graphrag.c FROM "C"',
        "CREATE TEXT SEARCH DICTIONARY graphrag.d (TEMPLATE = simple)",
        "CREATE TEXT SEARCH CONFIGURATION graphrag.c (COPY = simple)",
        "CREATE CONVERSION graphrag.c FOR 'UTF8' TO 'LATIN1' FROM pg_catalog.utf8_to_iso8859_1",
        "CREATE OPERATOR FAMILY graphrag.f USING btree",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA graphrag GRANT ALL ON TABLES TO PUBLIC",
    ],
    ids=lambda planted: " ".join(planted.split()[1:3]),
)
def test_a_schema_that_is_not_empty_is_refused(bare_db: Database, planted: str) -> None:
    bare_db.execute("CREATE SCHEMA graphrag")
    bare_db.execute(planted.encode())
    assert "DROP SCHEMA graphrag CASCADE" in has_hint(bare_db, CREATE, "42710")
    bare_db.execute("DROP SCHEMA graphrag CASCADE")
    bare_db.execute(CREATE)


def test_an_empty_schema_of_a_superuser_is_taken_as_a_restore_makes_it(bare_db: Database) -> None:
    with new_role(bare_db, "SUPERUSER") as admin:
        bare_db.execute(f"CREATE SCHEMA graphrag AUTHORIZATION {admin}".encode())
        bare_db.execute(f"GRANT CREATE ON SCHEMA graphrag TO {admin}".encode())
        bare_db.execute(CREATE)
        bare_db.execute("DROP EXTENSION pg_graphrag; DROP SCHEMA graphrag")


def test_only_a_superuser_installs(bare_db: Database) -> None:
    with new_role(bare_db, "CREATEROLE CREATEDB") as mallory:
        bare_db.execute(f"GRANT ALL ON DATABASE {bare_db.info.dbname} TO {mallory}".encode())
        with acting_as(bare_db, mallory) as session:
            denied(session, CREATE)


def test_what_is_planted_in_the_schema_of_vector_is_not_called(bare_db: Database) -> None:
    # Better matches than pg_catalog's own, for what the script says without types.
    with new_role(bare_db) as mallory:
        bare_db.execute(f"GRANT CREATE ON SCHEMA public TO {mallory}".encode())
        with acting_as(bare_db, mallory) as session:
            for name, type_ in (
                ("public.evil(text, int)", "text"),
                ("public.format(text, int)", "text"),
                ("public.evil_equal(text, name)", "boolean"),
                ("public.to_tsvector(text, text)", "tsvector"),
                ("public.now()", "timestamptz"),
            ):
                body = "RAISE EXCEPTION 'called as %', current_user;"
                session.execute(SQUATTER.format(name=name, type=type_, body=body).encode())
            session.execute("CREATE OPERATOR public.|| (LEFTARG = text, RIGHTARG = int, FUNCTION = public.evil)")
            session.execute("CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = name, FUNCTION = public.evil_equal)")
        bare_db.execute(CREATE)
        corpus = new_corpus(bare_db)
        put(bare_db, corpus, "a", "Ada Lovelace met Charles Babbage.")
        assert value(bare_db, "SELECT graph_name FROM graphrag.corpora") == "graphrag_1"
        assert (
            rows(
                bare_db,
                "SELECT d.classid::regclass, d.objid FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid"
                " AND d.refclassid = 'pg_proc'::regclass AND p.pronamespace = 'public'::regnamespace"
                " AND p.proowner = %s::regrole AND d.classid <> 'pg_operator'::regclass",
                mallory,
            )
            == []
        )
        # With objects of its own in the way the role could not be dropped.
        bare_db.execute("DROP EXTENSION pg_graphrag; DROP SCHEMA graphrag")


@pytest.mark.parametrize("to_all", [False, True], ids=["a role", "PUBLIC"])
def test_default_privileges_of_the_installing_role_give_nothing_of_ours_away(bare_db: Database, to_all: bool) -> None:
    with new_role(bare_db) as mallory:
        for kind in ("TABLES", "SEQUENCES", "FUNCTIONS", "SCHEMAS"):
            bare_db.execute(
                f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO {'PUBLIC' if to_all else mallory}".encode()
            )
        bare_db.execute(CREATE)
        put(bare_db, new_corpus(bare_db), "a", "Ada Lovelace met Charles Babbage.")
        bare_db.execute("CALL graphrag.process_jobs()")
        given = (
            "SELECT c.oid::regclass::text FROM pg_class c"
            " WHERE c.relnamespace::regnamespace::text ~ '^graphrag' AND c.relkind IN ('r', 'v', 'p', 'S')"
            "   AND has_any_column_privilege(%(role)s, c.oid, 'SELECT, INSERT, UPDATE')"
            " UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p"
            " WHERE p.pronamespace = 'graphrag'::regnamespace AND has_function_privilege(%(role)s, p.oid, 'EXECUTE')"
            " UNION ALL SELECT n.nspname FROM pg_namespace n"
            " WHERE n.nspname ~ '^graphrag' AND has_schema_privilege(%(role)s, n.oid, 'CREATE') ORDER BY 1"
        )
        # What everybody has anyway.
        assert [name for (name,) in bare_db.execute(given, {"role": mallory})] == [
            *("graphrag._attach_requests", "graphrag.attached_tables"),
            *(f"graphrag_attached.{name}" for name in ("_attachments", "_handover", "_replicated", "_row_tables")),
        ]
        # By which a caller would say who he is.
        for relation in ("graphrag._attach_requests", "graphrag_attached._handover", "graphrag_attached._replicated"):
            has = "SELECT has_column_privilege(%s, %s, a, 'INSERT') FROM unnest(ARRAY['action', 'caller']) a"
            assert rows(bare_db, has, mallory, relation) == [(True,), (False,)]


@pytest.mark.parametrize("update", [False, True], ids=["installation", "update"])
def test_a_setting_of_the_owner_of_the_database_puts_no_trigger_on_a_table(bare_db: Database, update: bool) -> None:
    bare_db.execute("CREATE TABLE public.victims (id int PRIMARY KEY)")
    number = value(bare_db, "SELECT 'public.victims'::regclass::oid")
    planted = f"""ALTER DATABASE {bare_db.info.dbname} SET graphrag.attached_relations = '{{"1": "{number}"}}'"""
    bare_db.execute(planted.encode())
    if update:
        with Database.open(bare_db.url) as old:
            old.execute(create_released("0.2.0"))
    with Database.open(bare_db.url) as session:
        assert str(number) in value(session, "SHOW graphrag.attached_relations")
        session.execute(b"ALTER EXTENSION pg_graphrag UPDATE" if update else CREATE.encode())
    assert rows(bare_db, "SELECT tgname FROM pg_trigger WHERE tgrelid = 'public.victims'::regclass") == []


@pytest.fixture
def upgraded_from(bare_db: Database) -> Iterator[Database]:
    """0.2.0 with a protected corpus, vectors, and grants of an application; then updated."""
    with Database.open(bare_db.url) as old:
        old.execute(create_released("0.2.0"))
        old.execute("SELECT graphrag.create_corpus('open'), graphrag.create_corpus('guarded')")
        for corpus in ("open", "guarded"):
            for key in ("a", "b"):
                put(old, corpus, f"{corpus}/{key}", f"Ada Lovelace met Charles Babbage in {key}.")
        # The tables of vectors, which its worker made.
        old.execute(
            "SELECT graphrag._add_space(c.id, 'local', 'all-MiniLM-L6-v2', 384, 'active') FROM graphrag.corpora c ORDER BY c.id"
        )
        old.execute("SELECT graphrag.protect('guarded', $$source_key <> 'guarded/b'$$)")
    with new_role(bare_db) as app:
        for granted in (
            "SELECT, INSERT ON graphrag.documents",
            "SELECT ON graphrag.chunks",
            "SELECT ON graphrag.window_vectors_1",
            "EXECUTE ON FUNCTION graphrag.search",
            "EXECUTE ON FUNCTION graphrag.protect",
            "USAGE ON SCHEMA graphrag",
        ):
            bare_db.execute(f"GRANT {granted} TO {app}".encode())
        bare_db.execute(f"COMMENT ON ROLE {app} IS 'app'".encode())
        bare_db.execute("ALTER EXTENSION pg_graphrag UPDATE")
        yield bare_db


def test_an_update_closes_what_was_made_of_documents_and_keeps_protection(upgraded_from: Database) -> None:
    db = upgraded_from
    readable = (
        "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind IN ('r', 'p')"
        " AND has_table_privilege('graphrag_reader', c.oid, 'SELECT') ORDER BY 1"
    )
    assert rows(db, readable) == [("_histories",), ("corpora",), ("documents",), ("nodes",), ("pictures",)]
    secured = (
        "SELECT c.relname::text FROM pg_class c WHERE c.relrowsecurity AND c.relnamespace = 'graphrag'::regnamespace"
        " ORDER BY 1"
    )
    assert rows(db, secured) == [("documents",), ("pictures",)]
    policies = "SELECT DISTINCT polrelid::regclass::text FROM pg_policy ORDER BY 1"
    assert rows(db, policies) == [("graphrag.documents",), ("graphrag.pictures",)]
    with acting_as(db, "graphrag_reader") as session:
        keys = "SELECT array_agg(source_key ORDER BY source_key) FROM graphrag.documents"
        assert value(session, keys) == ["guarded/a", "open/a", "open/b"]
        db.execute("SELECT graphrag.unprotect('guarded')")
        assert value(session, keys) == ["guarded/a", "guarded/b", "open/a", "open/b"]
    assert rows(db, policies) == [("graphrag.pictures",)]


def test_an_update_in_a_schema_of_another_role_is_refused(bare_db: Database) -> None:
    with Database.open(bare_db.url) as old:
        old.execute(create_released("0.2.0"))
    update = "ALTER EXTENSION pg_graphrag UPDATE"
    with new_role(bare_db) as mallory:
        bare_db.execute(f"ALTER SCHEMA graphrag OWNER TO {mallory}".encode())
        has_hint(bare_db, update, "42501")
        bare_db.execute(
            f"ALTER SCHEMA graphrag OWNER TO postgres; GRANT CREATE ON SCHEMA graphrag TO {mallory}".encode()
        )
        has_hint(bare_db, update, "42501")
        # What is planted takes no place of ours.
        with acting_as(bare_db, mallory) as session:
            session.execute("CREATE FUNCTION graphrag._settle_policies() RETURNS void LANGUAGE sql AS 'SELECT'")
        bare_db.execute(f"REVOKE CREATE ON SCHEMA graphrag FROM {mallory}".encode())
        denied(bare_db, update, sqlstate="55000")
        bare_db.execute("DROP FUNCTION graphrag._settle_policies")
        bare_db.execute(update.encode())


def test_an_update_leaves_the_application_its_grants_and_pg_dump_dumps_them(
    upgraded_from: Database, shared_cluster: Cluster
) -> None:
    db = upgraded_from
    ((app,),) = rows(db, "SELECT rolname FROM pg_roles r WHERE shobj_description(r.oid, 'pg_authid') = 'app'")
    dump = shared_cluster.dump(db.info.dbname, "--schema-only")
    for line in (
        f"GRANT SELECT,INSERT ON TABLE graphrag.documents TO {app};",
        f"GRANT SELECT ON TABLE graphrag.chunks TO {app};",
        f"GRANT SELECT ON TABLE graphrag.window_vectors_1 TO {app};",
        f"GRANT USAGE ON SCHEMA graphrag TO {app};",
    ):
        assert line in dump
    assert dump.count(f"TO {app};") == 6
    # Dropping it is not stopped by what the update wrote down.
    assert rows(db, "SELECT FROM pg_shdepend WHERE deptype = 'i' AND refobjid = %s::regrole", app) == []


def test_an_update_ends_with_what_a_fresh_installation_has(bare_db: Database, db: Database) -> None:
    with Database.open(bare_db.url) as old:
        old.execute(create_released("0.2.0"))
    bare_db.execute("ALTER EXTENSION pg_graphrag UPDATE")
    left, right = catalog(bare_db), catalog(db)
    assert left.keys() ^ right.keys() == set()
    assert [(name, left[name], right[name]) for name in left if left[name] != right[name]] == []
