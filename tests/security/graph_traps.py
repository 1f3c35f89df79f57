"""What Mallory plants in AGE's schemas and under the names of graphs, and the calls that must not run it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from tests.runtime.cluster import Database
from tests.sql.ingest import rows

MALLORY = "mallory"

# What reads or writes the graph of corpus number :c, called :n, with the owner's rights.
CALLS = (
    "SELECT graphrag._ensure_graph(:c)",
    "SELECT graphrag._project(:c, '{1}', '{1}', '{1}')",
    "SELECT graphrag._project_mentions(:c, '{1}')",
    "SELECT graphrag._project_communities(:c, '{1}')",
    "SELECT graphrag.cypher(:n, 'MATCH (e:Entity) RETURN e.name AS name')",
    "SELECT graphrag.cypher(:n, 'MATCH (e)-[r]->(f) WHERE e.degree = 1 RETURN e, r, f')",
    "SELECT * FROM graphrag.check(:n)",
    "SELECT * FROM graphrag.fingerprint_sections(:n)",
    "SELECT graphrag.refresh_communities(:n)",
    "SELECT graphrag.create_entity('Somebody', :n)",
    "SELECT graphrag.rebuild_graph(:n)",
    "SELECT graphrag.repair()",
    "CALL graphrag.process_jobs()",
    "SELECT graphrag.drop_corpus(:n)",
    "SELECT graphrag.uninstall()",
)


@contextmanager
def planting(db: Database) -> Iterator[Database]:
    """Yield the session of a role with every right short of superuser, and a function that notes with whose rights it runs."""
    db.execute(
        f"DO $$ BEGIN CREATE ROLE {MALLORY}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
        f"GRANT ALL ON DATABASE {db.info.dbname} TO {MALLORY};"
        f"GRANT ALL ON SCHEMA public TO {MALLORY};"
        f"GRANT USAGE ON SCHEMA ag_catalog TO {MALLORY};"
        "CREATE TABLE public.ran (what text, by_role name DEFAULT current_user);"
        "GRANT ALL ON public.ran TO public".encode()
    )
    # What is hers goes with the database.
    with Database.open(db.url) as connection:
        connection.execute(f"SET ROLE {MALLORY}".encode())
        connection.execute(
            """
            CREATE FUNCTION public.spring() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO public.ran (what) VALUES (TG_TABLE_NAME); RETURN coalesce(NEW, OLD); END $$;
            CREATE FUNCTION public.note() RETURNS int LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO public.ran (what) VALUES ('note'); RETURN 1; END $$;
            CREATE FUNCTION public.note_pure() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
            $$ BEGIN PERFORM public.note(); RETURN true; END $$;
            """
        )
        connection.execute("SELECT '1'::ag_catalog.agtype")
        # AGE 1.8 makes graphs for those alone who have its schema in their path.
        connection.execute("SET search_path = public, ag_catalog")
        yield connection


def ran_as_others(db: Database) -> list[tuple[Any, ...]]:
    return rows(db, "SELECT DISTINCT what, by_role FROM public.ran WHERE by_role <> %s", MALLORY)


def call_everything(db: Database, name: str, number: int) -> dict[str, psycopg.errors.Diagnostic | None]:
    """Make every call of CALLS, in a transaction that is undone; return the errors, None where there was none."""
    outcomes: dict[str, psycopg.errors.Diagnostic | None] = {}
    for call in CALLS:
        outcomes[call] = None
        try:
            sql = call.replace(":c", str(number)).replace(":n", f"'{name}'")
            if call.startswith("CALL"):
                db.execute(sql.encode())
                continue
            with db.transaction():
                db.execute(sql.encode())
                assert ran_as_others(db) == [], call
                raise psycopg.Rollback
        except psycopg.Error as error:
            outcomes[call] = error.diag
    return outcomes


def spring_traps(owner: Database, schema: str, tables: tuple[str, ...]) -> None:
    """Plant in a schema whatever can run code when its tables are used, or when it is in a search_path."""
    for table in tables:
        target = f'{schema}."{table}"'
        for statement in (
            f"CREATE TRIGGER spring BEFORE INSERT OR UPDATE OR DELETE ON {target} FOR EACH ROW EXECUTE FUNCTION public.spring()",
            f"CREATE TRIGGER after AFTER INSERT OR UPDATE OR DELETE ON {target} EXECUTE FUNCTION public.spring()",
            f"ALTER TABLE {target} ADD COLUMN extra int DEFAULT public.note()",
            f"ALTER TABLE {target} ADD CHECK (public.note() = 1) NOT VALID",
            f"CREATE INDEX ON {target} ((public.note_pure()))",
            f"CREATE INDEX ON {target} (id) WHERE public.note_pure()",
            f"CREATE RULE spring AS ON INSERT TO {target} DO ALSO SELECT public.note()",
        ):
            with suppress(psycopg.errors.WrongObjectType, psycopg.errors.FeatureNotSupported):
                owner.execute(statement.encode())
    plant_names(owner, schema)


def plant_names(owner: Database, schema: str) -> None:
    """Plant operators and functions that a statement would take if the schema came before pg_catalog, or fitted better."""
    types = ("ag_catalog.graphid", "bigint", "int", "text", "name", "oid", "ag_catalog.agtype", '"char"', "bigint[]")
    for number, type_ in enumerate(types):
        owner.execute(
            f"CREATE FUNCTION {schema}.compare{number} (a {type_}, b {type_}) RETURNS boolean LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM public.note(); RETURN true; END $$".encode()
        )
        for operator in ("=", "<>", "<", "||"):
            owner.execute(
                f"CREATE OPERATOR {schema}.{operator} (LEFTARG = {type_}, RIGHTARG = {type_},"
                f" FUNCTION = {schema}.compare{number})".encode()
            )
    body = "LANGUAGE plpgsql AS $$ BEGIN PERFORM public.note(); RETURN NULL; END $$"
    for signature in (
        "unnest(bigint[]) RETURNS bigint",
        "array_agg(bigint) RETURNS bigint[]",
        "record_image_ne(record, record) RETURNS boolean",
        "format(text, int) RETURNS text",
        "format(text, name) RETURNS text",
        "set_config(text, text, boolean) RETURNS text",
        "nextval(regclass) RETURNS bigint",
        "_graphid(int, bigint) RETURNS ag_catalog.graphid",
        "agtype_build_map() RETURNS ag_catalog.agtype",
        "agtype_build_map(text, bigint, text, int) RETURNS ag_catalog.agtype",
        "coalesce(text, text) RETURNS text",
        "count() RETURNS bigint",
    ):
        with suppress(psycopg.errors.SyntaxError, psycopg.errors.InvalidFunctionDefinition):
            owner.execute(f"CREATE FUNCTION {schema}.{signature} {body}".encode())
