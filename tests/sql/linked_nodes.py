"""Databases that are nodes of each other: what an administrator runs so that SQL of one asks another."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from psycopg import sql

from tests.runtime.cluster import Database

_numbers = itertools.count(1)


def add_server(db: Database, node: str, url: str, **options: str) -> None:
    """Make another database known as a node, and the foreign server of its name."""
    parts = urlsplit(url)
    host, port, database = str(parts.hostname), str(parts.port or 5432), parts.path.lstrip("/")
    db.execute("CREATE EXTENSION IF NOT EXISTS postgres_fdw")
    db.execute("SELECT graphrag.add_node(%s, %s)", [node, f"postgresql://{host}:{port}/{database}"])
    address = {"host": host, "port": port, "dbname": database, **options}
    db.execute(
        sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({})").format(
            sql.Identifier(node), _options(address)
        )
    )


def map_role(db: Database, node: str, role: str, user: str, password: str) -> None:
    """Let a role ask a node as a user of it."""
    names = {"role": sql.Identifier(role), "node": sql.Identifier(node)}
    db.execute(sql.SQL("GRANT USAGE ON FOREIGN SERVER {node} TO {role}").format(**names))
    options = _options({"user": user, "password": password})
    db.execute(
        sql.SQL("CREATE USER MAPPING FOR {role} SERVER {node} OPTIONS ({options})").format(**names, options=options)
    )


def _options(values: dict[str, str]) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in values.items()
    )


def link(db: Database, node: str, url: str, **options: str) -> None:
    """Link a database to another, for the role of the test; it has the password of the url."""
    add_server(db, node, url, **options)
    role = db.execute("SELECT current_user").fetchall()[0][0]
    map_role(db, node, role, str(urlsplit(url).username), unquote(str(urlsplit(url).password)))


def unlink(db: Database, node: str) -> None:
    """Take back what `link` did."""
    db.execute("DELETE FROM graphrag.placements WHERE node = %s", [node])
    db.execute(sql.SQL("DROP SERVER {} CASCADE").format(sql.Identifier(node)))
    db.execute("SELECT graphrag.drop_node(%s)", [node])


@contextmanager
def login(*databases: Database, rights: str = "graphrag_reader") -> Iterator[tuple[str, str]]:
    """A role that logs in with a password, with the same rights in databases of one server: (name, password)."""
    name = f"login_{databases[0].info.dbname}_{next(_numbers)}"
    databases[0].execute(f"CREATE ROLE {name} LOGIN PASSWORD 'of {name}' IN ROLE {rights}".encode())
    try:
        yield name, f"of {name}"
    finally:
        for database in databases:
            database.execute("RESET ROLE")
            database.execute(f"DROP OWNED BY {name} CASCADE".encode())
        databases[0].execute(f"DROP ROLE {name}".encode())
