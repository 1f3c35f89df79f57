"""`pg-graphrag subscribe` runs nothing that others have planted at either end, and its hints give nothing to others."""

import re
from collections.abc import Callable

import pytest
from pg_graphrag.beside import cli
from pg_graphrag.beside.cli.terminal import printable
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import Cluster
from tests.security.graph_traps import plant_names, planting, ran_as_others
from tests.sql.ingest import rows
from tests.sql.test_subscribe import QUOTES_ANOTHER_STATEMENT, Ends, ends

__all__ = ["ends"]


def test_operators_and_functions_in_the_search_path_are_not_called(ends: Ends) -> None:
    # Mallory plants operators of its types, too.
    ends.publisher.execute("CREATE EXTENSION age")
    with planting(ends.publisher) as at_publisher, planting(ends.node) as at_node:
        for mallory in (at_publisher, at_node):
            plant_names(mallory, "public")
            mallory.execute("RESET ROLE")
            mallory.execute(f"ALTER DATABASE {mallory.info.dbname} SET search_path = public, pg_catalog".encode())
        ends.subscribe("--tables", "shop.articles", "--corpus", "shop", "--attach", "--dry-run")
        # Again, with another table: then it compares what is there.
        for tables in ("shop.articles", 'shop.articles,shop."Odd"'):
            ends.subscribe("--tables", tables, "--corpus", "shop", "--attach")
        ends.subscribe("--undo")
        for end in (ends.publisher, ends.node):
            assert ran_as_others(end) == [], end.info.dbname


def test_the_hint_to_drop_a_slot_calls_nothing_that_others_planted(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of a text, which PostgreSQL prefers to its own.
    ends.publisher.execute(
        "CREATE FUNCTION public.pg_drop_replication_slot(text) RETURNS void LANGUAGE sql AS 'SELECT'"
    )
    ends.publisher.execute("SELECT pg_create_logical_replication_slot('graphrag_node', 'pgoutput')")
    ends.subscribe("--tables", "shop.articles", status=1)
    error = capsys.readouterr().err
    statement = re.search(r"SELECT \S+\(.+?\);", error)
    assert statement is not None, error
    ends.publisher.execute(statement[0].encode())
    assert rows(ends.publisher, "SELECT slot_name FROM pg_replication_slots") == []


# Who replicates, is a member of what, and may do what in which database.
RIGHTS = """
SELECT 'REPLICATION', r.rolname::text, '' FROM pg_roles r WHERE r.rolreplication
 UNION ALL
SELECT g.rolname::text, r.rolname::text, ''
  FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
 UNION ALL
SELECT a.privilege_type, coalesce(r.rolname::text, 'PUBLIC'), d.datname::text
  FROM pg_database d CROSS JOIN LATERAL aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
  LEFT JOIN pg_roles r ON r.oid = a.grantee
"""
HOSTILE_NAMES = (
    'o"wner"; DROP ROLE owner; --',
    "Owner",
    "user",
    "owner TO owner",
    "100%s",
    "own.er",
    "own\ner",
    "\\! x",
)


def test_hints_give_the_rights_that_they_say_whatever_roles_and_databases_are_called(
    cluster: Callable[..., Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    server = cluster({"wal_level": "logical"})
    # Role and databases of the plain names are somebody else's.
    for database in ("owner at publisher", "owner at node", "publisher", "node"):
        server.create_database(database)
    with server.connect("publisher") as publisher, server.connect("node") as node:
        publisher.execute(QUOTES_ANOTHER_STATEMENT)
        node.execute("CREATE EXTENSION pg_graphrag CASCADE; CREATE ROLE owner")
    databases = ["publisher", "node"]
    with server.connect() as superuser:
        for name in HOSTILE_NAMES:
            for number, end in enumerate(("publisher", "node")):
                rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
                new_name = f"{name} at {end}"
                superuser.execute(rename.format(sql.Identifier(databases[number]), sql.Identifier(new_name)))
                databases[number] = new_name
            superuser.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'sesame'").format(sql.Identifier(name)))
            from_url, url = (
                make_conninfo(server.url(), user=name, password="sesame", dbname=database) for database in databases
            )
            command = ["subscribe", "--url", url, "--from", from_url, "--tables", "public.none"]
            for hint, rights in (
                ("ALTER ROLE .+? REPLICATION;(?= on Amazon)", {("REPLICATION", name, "")}),
                ("GRANT CREATE ON DATABASE .+;(?= or have)", {("CREATE", name, databases[0])}),
                ("GRANT .+;", {("pg_create_subscription", name, ""), ("CREATE", name, databases[1])}),
            ):
                assert cli.main(command) == 1
                error = capsys.readouterr().err
                statements = re.search(hint, error, re.DOTALL)
                assert statements is not None, error
                before = set(rows(superuser, RIGHTS))
                superuser.execute(statements[0].encode())
                assert set(rows(superuser, RIGHTS)) - before == rights, statements[0]
            assert cli.main(command) == 1
            assert 'no table "public.none"' in capsys.readouterr().err


def test_a_carriage_return_in_a_name_does_not_make_it_another() -> None:
    assert printable('TO "own\rer"') != 'TO "owner"'
    assert printable("one\r\ntwo\rthree") == "one\ntwo\nthree"
