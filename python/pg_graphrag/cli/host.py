"""``pg-graphrag install`` and ``pg-graphrag call``: what databases without the extension need, and every function by its name."""

import json
from collections.abc import Mapping
from typing import Any

import psycopg

from pg_graphrag.cli.database import connect
from pg_graphrag.client import GraphRAG, hosts
from pg_graphrag.client.settings import SETTINGS


def install(url: str) -> int:
    """Make the plain schema in a database; returns the exit status (0 also where it is there already)."""
    with psycopg.connect(url, **SETTINGS) as connection:
        is_new = hosts.install(connection)
        where = f'database "{connection.info.dbname}"'
    print(
        f"{where} now has the schema graphrag" if is_new else f"{where} has this version of the schema graphrag already"
    )
    return 0


def call(url: str, corpus: str, function: str, arguments: Mapping[str, Any]) -> int:
    """Call a function of the schema and print what it returns, as JSON; returns the exit status."""
    with connect(url) as connection:
        returned = GraphRAG(connection, corpus).call(function, **arguments)
    if returned is not None:
        print(json.dumps(returned, ensure_ascii=False, default=str, indent=2))
    return 0
