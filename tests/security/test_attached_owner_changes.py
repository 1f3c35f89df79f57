"""Attached tables that change hands, or names, run nothing with the rights of who had them."""

import threading
import time
from collections.abc import Iterator

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.security.mallory import SUPERUSERS_TABLE, alarmed, as_role, lent, reporters, work
from tests.sql.attach import attach, documents, isolated, unfollowed
from tests.sql.ingest import work as run_worker

LEVELS = ["repeatable read", "serializable"]


@pytest.fixture
def db(reused_db: Database) -> Database:
    """A database that others have used, whose next attachment is number 1: owners are asked of the catalogs each time."""
    reused_db.execute("SELECT setval('graphrag.attached_tables_id_seq', 1, false)")
    return reused_db


def test_a_table_that_changed_hands_is_read_as_its_new_owner(db: Database, mallory: Database) -> None:
    db.execute(SUPERUSERS_TABLE)
    attach(db, table="gift")
    db.execute("INSERT INTO gift VALUES (1, 'one')")
    db.execute("SELECT graphrag._queue_attached()")
    db.execute("ALTER TABLE gift OWNER TO mallory")
    mallory.execute("CREATE INDEX ON public.gift ((mallory.spy(1))) WHERE mallory.spy(1) = 1; TRUNCATE reports")
    mallory.execute("INSERT INTO public.gift VALUES (2, 'two')")
    db.execute("CALL graphrag.process_jobs()")
    work(db)
    assert not alarmed(db)
    # The first statement that sees the new owner hands the function over, the next ones use it.
    mallory.execute("INSERT INTO public.gift VALUES (3, 'three')")
    mallory.execute("INSERT INTO public.gift VALUES (4, 'four')")
    assert documents(db)["4"] == "four"
    mallory.execute("CALL graphrag.backfill_table('public.gift')")
    assert documents(db) == {"1": "one", "2": "two", "3": "three", "4": "four"}
    assert (alarmed(db), lent(db), reporters(db)) == (False, False, {"mallory"})


@pytest.mark.parametrize("owner", ["postgres", "alice"])
@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_lends_the_new_owner_no_rights_of_the_old_one(
    db: Database, mallory: Database, level: str, owner: str
) -> None:
    db.execute(f"{SUPERUSERS_TABLE}; ALTER TABLE gift OWNER TO {owner}; GRANT ALL ON gift TO mallory".encode())
    attach(db, table="gift")
    isolated(mallory, level)
    with as_role(db, "mallory") as other:
        with unfollowed(mallory, "40001", "table public.gift has changed since"), mallory.transaction():
            mallory.execute("SELECT 1")
            db.execute("ALTER TABLE gift OWNER TO mallory")
            other.execute("CREATE INDEX ON public.gift ((mallory.spy(1))) WHERE mallory.spy(1) = 1")
            other.execute("SELECT setval('mallory.lent', 1, false)")
            mallory.execute("INSERT INTO public.gift VALUES (1, 'one')")
        mallory.execute("INSERT INTO public.gift VALUES (2, 'two')")
    mallory.execute("INSERT INTO public.gift VALUES (3, 'three')")
    assert documents(db) == {"3": "three"}
    assert (alarmed(db), lent(db)) == (False, False)


FIRST = "FUNCTION public.first(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN {}RETURN 1; END'"
# What the table has, which goes to Mallory, and what she makes of it then.
GIVEN = {
    "partition": (
        "CREATE TABLE public.articles (id int PRIMARY KEY, body text) PARTITION BY RANGE (id);"
        "CREATE TABLE public.low PARTITION OF public.articles FOR VALUES FROM (0) TO (100)",
        "TABLE low",
        "CREATE INDEX ON public.low ((mallory.spy(1)))",
    ),
    "function": (
        f"CREATE {FIRST.format('')}; CREATE TABLE public.articles (id int PRIMARY KEY, body text);"
        "CREATE INDEX ON public.articles ((public.first(1)))",
        "FUNCTION public.first",
        f"CREATE OR REPLACE {FIRST.format('PERFORM mallory.report(); ')}",
    ),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", GIVEN)
def test_an_old_snapshot_lends_the_new_owner_of_a_part_nothing(
    db: Database, mallory: Database, level: str, kind: str
) -> None:
    create, relation, changed = GIVEN[kind]
    with as_role(db, "alice") as alice:
        alice.execute(f"{create}; GRANT ALL ON public.articles TO mallory".encode())
        attach(alice, table="public.articles")
    isolated(mallory, level)
    with as_role(db, "mallory") as other, unfollowed(mallory, "40001", "has changed since"), mallory.transaction():
        mallory.execute("SELECT 1")
        db.execute(f"ALTER {relation} OWNER TO mallory".encode())
        other.execute(changed.encode())
        mallory.execute("INSERT INTO public.articles VALUES (2, 'two')")
    assert (alarmed(db), lent(db)) == (False, False)


@pytest.mark.parametrize("level", LEVELS)
def test_a_superusers_table_follows_at_once_at_every_level(db: Database, mallory: Database, level: str) -> None:
    db.execute(SUPERUSERS_TABLE)
    attach(db, table="gift")
    isolated(mallory, level)
    with mallory.transaction():
        mallory.execute("INSERT INTO public.gift VALUES (1, 'one'), (2, 'two')")
        mallory.execute("UPDATE public.gift SET body = 'ONE' WHERE id = 1; DELETE FROM public.gift WHERE id = 2")
    assert documents(db) == {"1": "ONE"}


def test_function_that_changes_hands_keeps_nothing_its_owner_gave_it(db: Database, mallory: Database) -> None:
    mallory.execute("CREATE TABLE public.articles (id int PRIMARY KEY, body text)")
    attach(mallory, table="public.articles")
    mallory.execute(
        "CREATE FUNCTION same(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS"
        " 'BEGIN PERFORM mallory.report(); RETURN true; END';"
        "CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, FUNCTION = same);"
        "ALTER FUNCTION graphrag_attached._changed_1() SET search_path = mallory, pg_catalog"
    )
    with pytest.raises(errors.InsufficientPrivilege):
        mallory.execute(
            "CREATE OR REPLACE FUNCTION graphrag_attached._changed_1() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'"
        )
    db.execute("ALTER TABLE public.articles OWNER TO postgres")
    db.execute("INSERT INTO articles VALUES (1, 'one')")
    db.execute("INSERT INTO articles VALUES (2, 'two')")
    work(db)
    assert documents(db) == {"1": "one", "2": "two"}
    ((owner, config),) = db.execute(
        "SELECT proowner::regrole::text, proconfig::text FROM pg_proc WHERE proname = '_changed_1'"
    ).fetchall()
    assert (owner, "mallory" in config) == ("postgres", False)
    assert not alarmed(db)


SHOP = (
    "CREATE SCHEMA shop AUTHORIZATION mallory; GRANT ALL ON SCHEMA shop TO alice;"
    "CREATE TABLE shop.articles (id int PRIMARY KEY, body text); GRANT INSERT ON shop.articles TO mallory;"
    "ALTER TABLE shop.articles OWNER TO alice; GRANT CREATE ON DATABASE {database} TO mallory"
)
DECOY = (
    "CREATE SCHEMA decoy; GRANT USAGE ON SCHEMA decoy TO alice; CREATE TABLE decoy.articles (id int PRIMARY KEY, body text);"
    "CREATE INDEX ON decoy.articles ((mallory.spy(1))) WHERE mallory.spy(1) = 1; GRANT ALL ON decoy.articles TO PUBLIC"
)


@pytest.fixture
def shop(db: Database, mallory: Database) -> Iterator[Database]:
    """Alice's session; her table is attached, and stands in a schema of Mallory's, who has another like it."""
    db.execute(SHOP.format(database=db.info.dbname).encode())
    mallory.execute(DECOY.encode())
    with as_role(db, "alice") as alice:
        attach(alice, table="shop.articles")
        yield alice
    db.execute(f"REVOKE CREATE ON DATABASE {db.info.dbname} FROM mallory".encode())


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_takes_no_decoy_for_the_attached_table(
    db: Database, mallory: Database, shop: Database, level: str
) -> None:
    isolated(shop, level)
    with unfollowed(shop, "40001"), shop.transaction():
        shop.execute("SELECT 1")
        mallory.execute("ALTER SCHEMA shop RENAME TO away; ALTER SCHEMA decoy RENAME TO shop")
        shop.execute("INSERT INTO away.articles VALUES (1, 'one')")
    shop.execute("INSERT INTO away.articles VALUES (2, 'two')")
    assert (documents(db), alarmed(db), lent(db)) == ({"2": "two"}, False, False)


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_takes_no_namesake_for_the_attached_table(
    db: Database, mallory: Database, shop: Database, level: str
) -> None:
    """The owner renames the table; the owner of the schema makes another of its name."""
    isolated(shop, level)
    with as_role(db, "alice") as alice, unfollowed(shop, "40001"), shop.transaction():
        shop.execute("SELECT 1")
        alice.execute("ALTER TABLE shop.articles RENAME TO renamed")
        mallory.execute(DECOY.replace("CREATE SCHEMA decoy; ", "").replace("decoy", "shop").encode())
        shop.execute("INSERT INTO shop.renamed VALUES (1, 'one')")
    assert (documents(db), alarmed(db), lent(db)) == ({}, False, False)


def test_schema_of_others_keeps_its_name_while_the_table_is_read(
    db: Database, mallory: Database, shop: Database
) -> None:
    mallory.execute("SET lock_timeout = '100ms'")
    for statement in (
        "INSERT INTO shop.articles VALUES (1, 'one')",
        "UPDATE shop.articles SET body = 'x'",
        "TRUNCATE shop.articles",
    ):
        with shop.transaction():
            shop.execute(statement.encode())
            with pytest.raises(errors.LockNotAvailable):
                mallory.execute("ALTER SCHEMA shop RENAME TO away")
            mallory.execute("GRANT USAGE ON SCHEMA shop TO PUBLIC")
    mallory.execute("ALTER SCHEMA shop RENAME TO away; ALTER SCHEMA decoy RENAME TO shop")
    shop.execute("INSERT INTO away.articles VALUES (2, 'two')")
    assert (documents(db), alarmed(db), lent(db)) == ({"2": "two"}, False, False)


@pytest.mark.sample(1)
@pytest.mark.parametrize("victim", ["triggers", "backfill", "attach"])
def test_swapping_schemas_all_the_time_never_lends_rights(
    db: Database, mallory: Database, shop: Database, victim: str
) -> None:
    """Mallory swaps the attached table for her own as fast as she can, and back, while the table is written or read."""
    ended = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        with as_role(db, "mallory") as swapping:
            while not ended.is_set():
                swapping.execute(
                    "BEGIN; ALTER SCHEMA shop RENAME TO away; ALTER SCHEMA decoy RENAME TO shop; COMMIT;"
                    "BEGIN; ALTER SCHEMA shop RENAME TO decoy; ALTER SCHEMA away RENAME TO shop; COMMIT"
                )
                swaps += 1

    ((relation,),) = db.execute("SELECT relation::int FROM graphrag._attached_tables").fetchall()
    thread = threading.Thread(target=swap)
    thread.start()
    done = 0
    try:
        until = time.monotonic() + 3
        while time.monotonic() < until or not done or swaps <= 20:
            # Alice's table is named by its number; the names are right for a moment only.
            ((name,),) = db.execute("SELECT %s::oid::regclass::text", [relation]).fetchall()
            try:
                if victim == "triggers":
                    # Mallory's own statements; what they cause runs with Alice's rights.
                    mallory.execute(f"INSERT INTO {name} VALUES ({done}, 'x') ON CONFLICT DO NOTHING".encode())
                elif victim == "backfill":
                    shop.execute("CALL graphrag.backfill_table(%s)", [str(relation)])
                else:
                    with shop.transaction():
                        shop.execute("SELECT graphrag.detach_table(%s::oid)", [relation])
                        attach(shop, table=str(relation))
                done += 1
            except (
                errors.InsufficientPrivilege,
                errors.InvalidSchemaName,
                errors.ObjectNotInPrerequisiteState,
                errors.UndefinedObject,
                errors.UndefinedTable,
            ):
                pass
    finally:
        ended.set()
        thread.join()
    assert (alarmed(db), lent(db)) == (False, False)
    assert swaps > 20
    assert db.execute("SELECT relation::int FROM graphrag._attached_tables").fetchall() == [(relation,)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("heir", ["alice", "postgres"])
@pytest.mark.parametrize("config", ["SET search_path = eve, pg_catalog", "SET search_path = eve", "SECURITY INVOKER"])
def test_who_inherits_a_table_runs_no_code_that_its_function_was_given(
    db: Database, mallory: Database, heir: str, config: str
) -> None:
    mallory.execute(
        "CREATE TABLE public.articles (id int PRIMARY KEY, body text); GRANT INSERT, UPDATE ON public.articles TO eve"
    )
    attach(mallory, table="public.articles")
    with as_role(db, "eve") as eve:
        for signature, kind, body in (
            ("array_to_string(text[], text)", "text", "pg_catalog.array_to_string($1, $2)"),
            ("octet_length(text)", "int", "pg_catalog.octet_length($1)"),
        ):
            eve.execute(
                f"CREATE FUNCTION eve.{signature} RETURNS {kind} LANGUAGE plpgsql IMMUTABLE AS"
                f" 'BEGIN PERFORM mallory.report(); RETURN {body}; END'".encode()
            )
        eve.execute("GRANT USAGE ON SCHEMA eve TO PUBLIC")
        mallory.execute(f"ALTER FUNCTION graphrag_attached._changed_1() {config}".encode())
        db.execute(f"REASSIGN OWNED BY mallory TO {heir}; ALTER SCHEMA mallory OWNER TO mallory".encode())
        db.execute("TRUNCATE mallory.reports")
        if config != "SECURITY INVOKER":
            eve.execute("INSERT INTO public.articles VALUES (1, 'one')")
            eve.execute("INSERT INTO public.articles VALUES (2, 'two')")
            assert documents(db)["2"] == "two"
        else:
            with unfollowed(eve, "42501"):
                eve.execute("INSERT INTO public.articles VALUES (1, 'one')")
        db.execute("INSERT INTO public.articles VALUES (3, 'three')")
    work(db)
    assert (alarmed(db), reporters(db)) == (False, set())


def test_the_owner_of_a_table_makes_no_worker_wait(db: Database, mallory: Database) -> None:
    with as_role(db, "alice") as alice, as_role(db, "alice") as other:
        alice.execute("CREATE TABLE public.articles (id int PRIMARY KEY, body text)")
        attach(alice, table="public.articles")
        (number,) = (row[0] for row in db.execute("SELECT id FROM graphrag._attached_tables").fetchall())
        # It is not as we made it any more, and a worker would make it anew.
        other.execute(f"ALTER FUNCTION graphrag_attached._changed_{number}() SET work_mem = '4MB'".encode())
        with alice.transaction():
            alice.execute(f"ALTER FUNCTION graphrag_attached._changed_{number}() SET work_mem = '5MB'".encode())
            db.execute("SET statement_timeout = '20s'")
            run_worker(db)
        run_worker(db)
        db.execute("RESET statement_timeout")
        other.execute("INSERT INTO public.articles VALUES (1, 'one')")
        assert documents(db) == {"1": "one"}
        # Nor does he by the function of a table that he dropped.
        with other.transaction():
            other.execute("DROP TABLE public.articles")
        with alice.transaction():
            alice.execute(f"ALTER FUNCTION graphrag_attached._changed_{number}() RESET ALL".encode())
            db.execute("SET statement_timeout = '20s'")
            run_worker(db)
        db.execute("UPDATE graphrag.jobs SET next_attempt_at = now()")
        run_worker(db)
        db.execute("RESET statement_timeout")
        assert documents(db) == {}


def test_one_attached_table_that_cannot_be_looked_at_stops_no_worker(db: Database, mallory: Database) -> None:
    with as_role(db, "alice") as alice:
        for name in ("first", "second"):
            alice.execute(f"CREATE TABLE public.{name} (id text PRIMARY KEY, body text)".encode())
            attach(alice, table=f"public.{name}")
        db.execute(
            "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " IF NEW.table_name = 'renamed' THEN RAISE 'cannot be looked at'; END IF; RETURN NEW; END$$;"
            "CREATE TRIGGER fail BEFORE UPDATE ON graphrag._attached_tables FOR EACH ROW EXECUTE FUNCTION public.fail();"
            "ALTER EVENT TRIGGER graphrag_attached_altered DISABLE"
        )
        alice.execute("ALTER TABLE public.first RENAME TO renamed")
        alice.execute("ALTER TABLE public.second RENAME TO followed")
        run_worker(db)
        db.execute("DROP TRIGGER fail ON graphrag._attached_tables; DROP FUNCTION public.fail()")
        db.execute("ALTER EVENT TRIGGER graphrag_attached_altered ENABLE")
        names = "SELECT table_name FROM graphrag._attached_tables ORDER BY 1"
        assert [row[0] for row in db.execute(names).fetchall()] == ["first", "followed"]
        faults = db.execute("SELECT message FROM graphrag._attached_faults").fetchall()
        assert faults == [("cannot be looked at",)]
