"""Databases that tests have one after another: what a test made is dropped, and the rest compared with a new one's.

To make, to warm up and to drop a database takes half a second of processor time; to clear one up takes a twentieth.
"""

from collections.abc import Callable

import psycopg
from psycopg import sql

from tests.runtime.cluster import Database

# What the first corpus of a database changes stays.
WARM = (
    "SELECT graphrag._ensure_graph(graphrag.create_corpus('warm'))",
    "SELECT graphrag.drop_corpus('warm')",
    "DELETE FROM graphrag._locks",
)
# What a session keeps of settings, locks and temporary objects. Its plans stay.
RESET = (
    "RESET SESSION AUTHORIZATION",
    "RESET ALL",
    "CLOSE ALL",
    "UNLISTEN *",
    "DISCARD TEMP",
    "DISCARD SEQUENCES",
    "SELECT pg_advisory_unlock_all()",
)
OTHER_SESSIONS = """
SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> ALL (%s) AND backend_type = 'client backend'
"""
# Those that own something here, or may do something with it.
ROLES = """
SELECT DISTINCT r.rolname FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid
 WHERE d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND d.refclassid = 'pg_authid'::regclass AND r.rolname !~ '^graphrag_' AND NOT r.rolsuper
"""
EVENT_TRIGGERS = """
SELECT format('ALTER EVENT TRIGGER %I ENABLE', evtname) FROM pg_event_trigger WHERE evtname ~ '^graphrag' AND evtenabled = 'D'
"""
MADE = """
SELECT format('DROP EXTENSION IF EXISTS %%I CASCADE', extname), 0
  FROM pg_extension WHERE oid >= %(first)s
 UNION ALL
SELECT format('DROP SCHEMA IF EXISTS %%I CASCADE', nspname), 1
  FROM pg_namespace WHERE oid >= %(first)s AND nspname !~ '^pg_'
 UNION ALL
SELECT format('DROP %%s IF EXISTS %%s CASCADE', k.kind, c.oid::regclass), 2
  FROM pg_class c
  JOIN (VALUES ('r', 'TABLE'), ('p', 'TABLE'), ('v', 'VIEW'), ('S', 'SEQUENCE')) k (relkind, kind) ON k.relkind = c.relkind::text
 WHERE c.oid >= %(first)s AND c.relnamespace = 'public'::regnamespace
 UNION ALL
SELECT format('DROP ROUTINE IF EXISTS %%s CASCADE', p.oid::regprocedure), 3
  FROM pg_proc p WHERE p.oid >= %(first)s AND p.pronamespace = 'public'::regnamespace
 UNION ALL
SELECT format('DROP TYPE IF EXISTS %%s CASCADE', t.oid::regtype), 4
  FROM pg_type t WHERE t.oid >= %(first)s AND t.typnamespace = 'public'::regnamespace AND t.typtype IN ('d', 'e')
 UNION ALL
SELECT format('DROP COLLATION IF EXISTS public.%%I', c.collname), 5
  FROM pg_collation c WHERE c.oid >= %(first)s AND c.collnamespace = 'public'::regnamespace
 ORDER BY 2
"""
# Whether who may connect is as in any new database.
OPEN = """
SELECT datacl IS NULL
       OR ARRAY(SELECT a::text FROM unnest(datacl) a ORDER BY 1)
        = ARRAY(SELECT a::text FROM unnest(acldefault('d', datdba)) a ORDER BY 1)
  FROM pg_database WHERE datname = current_database()
"""
FIRST_OID = """
SELECT max(oid::bigint) + 1
  FROM (SELECT oid FROM pg_class UNION ALL SELECT oid FROM pg_proc UNION ALL SELECT oid FROM pg_namespace) o
"""
# What says that an object is another one, or is used otherwise. What vacuum, TRUNCATE and the first trigger write is left out.
OBJECTS = {
    "pg_attribute": "attrelid, attnum, attname, atttypid, attnotnull, attacl, attoptions",
    "pg_class": "oid, relname, relnamespace, relowner, relacl, relkind, relpersistence, relrowsecurity, relforcerowsecurity,"
    " reloptions, relispartition, relreplident",
    "pg_event_trigger": "*",
    "pg_namespace": "*",
    "pg_proc": "*",
    "pg_trigger": "*",
}
COUNTED = (
    *("pg_attrdef", "pg_cast", "pg_collation", "pg_constraint", "pg_db_role_setting", "pg_default_acl", "pg_depend"),
    *("pg_extension", "pg_foreign_server", "pg_index", "pg_language", "pg_largeobject_metadata", "pg_operator"),
    *("pg_policy", "pg_publication", "pg_rewrite", "pg_ts_config", "pg_type"),
)
TABLES = """
SELECT c.oid::regclass::text FROM pg_class c
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
   AND c.relnamespace IN ('graphrag'::regnamespace, 'graphrag_attached'::regnamespace, 'ag_catalog'::regnamespace)
 ORDER BY 1
"""


class Reused:
    """The database that the tests of a worker have one after another.

    Parameters
    ----------
    make, drop : callables
        They make a database of the template, and drop one.
    """

    def __init__(self, make: Callable[[], Database], drop: Callable[[Database], None]) -> None:
        self._make = make
        self._drop = drop
        self._free: Database | None = None
        self._first_oid = 0
        # How many rows tables have, and those of OBJECTS. All databases of one template are equal.
        self._counts: dict[str, list[int]] = {}
        self._objects: dict[str, set[str]] = {}
        self._compare = b""
        self._transaction = ""
        # Sessions of other roles in the free or taken database, which tests have one after another too.
        self._sessions: dict[str, Database] = {}

    def take(self) -> Database:
        """Return a database that is as a new one, whose session may have done something before."""
        database, self._free = self._free, None
        return database or self._new()

    def give_back(self, database: Database) -> None:
        """Have the next test use the database, if it is as a new one when what was made in it is dropped; else drop it."""
        if self._free is None and self._clear(database):
            self._free = database
        else:
            self._end(database)

    def session(self, role: str, new: Callable[[], Database]) -> Database:
        """Return the session of a role in the database that is taken: as a new one, which may have done something before."""
        if role not in self._sessions:
            self._sessions[role] = new()
        return self._sessions[role]

    def close(self) -> None:
        """Drop the database."""
        if self._free is not None:
            self._end(self._free)

    def _end(self, database: Database) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._drop(database)

    def _new(self) -> Database:
        database = self._make()
        for statement in WARM:
            database.execute(statement.encode())
        tables = [*OBJECTS, *COUNTED, *(name for (name,) in database.execute(TABLES).fetchall())]
        ((transaction,),) = database.execute("SELECT pg_current_xact_id()::xid::text").fetchall()
        # Rows, and those that were written from now on.
        self._compare = " UNION ALL ".join(
            f"SELECT '{table}', count(*), count(*) FILTER (WHERE {_since(transaction)}) FROM {table}"
            for table in tables
        ).encode()
        self._transaction = transaction
        if not self._counts:
            ((self._first_oid,),) = database.execute(FIRST_OID).fetchall()
            self._counts = self._counted(database)
            self._objects = {table: self._described(database, table) for table in OBJECTS}
        return database

    def _counted(self, database: Database) -> dict[str, list[int]]:
        return {table: counts for table, *counts in database.execute(self._compare, prepare=True).fetchall()}

    @staticmethod
    def _described(database: Database, table: str, condition: str = "true") -> set[str]:
        statement = f"SELECT o::text FROM (SELECT {OBJECTS[table]} FROM {table} WHERE {condition}) o"
        return {row for (row,) in database.execute(statement.encode()).fetchall()}

    def _clear(self, database: Database) -> bool:
        """Drop what the test made; return whether the database and its session are as they were."""
        if database.closed or database.ran_python:
            return False
        try:
            _reset(database)
            for role, session in [*self._sessions.items()]:
                if not _is_reset(session):
                    session.close()
                    del self._sessions[role]
            kept = [session.info.backend_pid for session in (database, *self._sessions.values())]
            database.execute(OTHER_SESSIONS.encode(), [kept])
            for (role,) in database.execute(ROLES).fetchall():
                database.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(role)))
            for (corpus,) in database.execute("SELECT name FROM graphrag.corpora").fetchall():
                database.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
            # Attached rows have policies, which nobody needs any more.
            database.execute("SELECT graphrag._settle_policies() WHERE EXISTS (SELECT FROM pg_policy)")
            database.execute("DELETE FROM graphrag._locks")
            made = database.execute(MADE, {"first": self._first_oid}).fetchall()
            for statement, *_ in [*made, *database.execute(EVENT_TRIGGERS).fetchall()]:
                database.execute(statement.encode())
            return self._is_as_new(database)
        except psycopg.Error:  # for example, the extension is gone
            return False

    def _is_as_new(self, database: Database) -> bool:
        for table, counts in self._counted(database).items():
            if counts == self._counts[table]:
                continue
            if table in OBJECTS and counts[0] == self._counts[table][0]:
                if self._described(database, table, _since(self._transaction)) - self._objects[table]:
                    return False
            elif table.startswith("graphrag") and self._counts[table][0] == 0:
                database.execute(f"DELETE FROM {table}".encode())
            else:
                return False
        return database.execute(OPEN).fetchall() == [(True,)]


def _reset(session: Database) -> None:
    session.rollback()
    session.autocommit = True
    for statement in RESET:
        session.execute(statement.encode())


def _is_reset(session: Database) -> bool:
    """Reset a session; return whether it is as it was."""
    if session.closed or session.ran_python:
        return False
    try:
        _reset(session)
    except psycopg.Error:  # for example, a test ended it
        return False
    return True


def _since(transaction: str) -> str:
    return f"age(xmin) < age('{transaction}'::xid)"
