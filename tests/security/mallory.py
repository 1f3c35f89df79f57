"""Mallory attacks attached tables, or the owners of tables beside hers.

Mallory may do everything short of superuser. What she plants in her tables reports who runs it, and rings an alarm, which no
rollback silences, when that is somebody who may read pg_authid; another one, when it is anybody but Mallory.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.runtime.cluster import Database
from tests.sql.attach import WRITE, session

SUPERUSERS_TABLE = "CREATE TABLE gift (id int PRIMARY KEY, body text); GRANT ALL ON gift TO mallory"
ROLES = ("mallory", "alice", "eve")
SPY = """
CREATE TABLE reports (run_as name, session name); GRANT INSERT ON reports TO PUBLIC;
CREATE SEQUENCE alarm; GRANT ALL ON SEQUENCE alarm TO PUBLIC;
CREATE SEQUENCE lent; GRANT ALL ON SEQUENCE lent TO PUBLIC; GRANT USAGE ON SCHEMA mallory TO PUBLIC;
CREATE FUNCTION report() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> 'mallory' THEN
        PERFORM nextval('mallory.lent');
    END IF;
    BEGIN
        PERFORM set_config('role', 'none', true);
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    IF has_table_privilege('pg_catalog.pg_authid', 'SELECT') THEN
        PERFORM nextval('mallory.alarm');
    END IF;
    INSERT INTO mallory.reports VALUES (current_user, session_user);
END $$;
CREATE FUNCTION spy(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM mallory.report(); RETURN 1; END $$;
CREATE FUNCTION spy_text(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM mallory.report(); RETURN 'x'; END $$;
CREATE FUNCTION spy_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.report(); RETURN NEW; END $$;
CREATE FUNCTION spy_definer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN PERFORM mallory.report(); RETURN NEW; END $$;
"""


@contextmanager
def attacking(db: Database) -> Iterator[Database]:
    """Mallory's session; her schema is her own, and she may attach tables."""
    for role in ROLES:
        db.execute(
            f"DO $$ BEGIN CREATE ROLE {role} LOGIN PASSWORD '{role}';"
            " EXCEPTION WHEN duplicate_object OR unique_violation THEN"
            # Other tests on this server may have made it.
            f" ALTER ROLE {role} LOGIN PASSWORD '{role}'; END $$".encode()
        )
        db.execute(f"CREATE SCHEMA {role} AUTHORIZATION {role}; GRANT CREATE ON SCHEMA public TO {role}".encode())
    db.execute(
        "GRANT USAGE ON SCHEMA graphrag TO mallory, alice;"
        "GRANT EXECUTE ON ROUTINE graphrag.attach_table, graphrag.detach_table, graphrag.backfill_table TO mallory, alice;"
        f"GRANT {WRITE} ON graphrag.documents TO mallory, alice;"
        "SET search_path = public"
    )
    with as_role(db, "mallory") as connection:
        connection.execute(SPY.encode())
        yield connection
    for role in ROLES:
        db.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}".encode())


def as_role(db: Database, role: str) -> Database:
    connection = session(db, role)
    connection.execute(f"SET search_path = {role}".encode())
    return connection


def alarmed(db: Database) -> bool:
    return bool(db.execute("SELECT is_called FROM mallory.alarm").fetchall()[0][0])


def lent(db: Database) -> bool:
    """Whether anybody's rights but Mallory's were lent to her code."""
    return bool(db.execute("SELECT is_called FROM mallory.lent").fetchall()[0][0])


def reporters(db: Database) -> set[str]:
    return {role for (role,) in db.execute("SELECT DISTINCT run_as FROM mallory.reports").fetchall()}


def work(db: Database) -> None:
    """What superusers do: repair, give dead letters another try, and work."""
    db.execute("SELECT graphrag.repair()")
    db.execute("SELECT graphrag.retry_failed()")
    db.execute("CALL graphrag.process_jobs()")
