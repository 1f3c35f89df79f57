"""The catalogue's entry for a corpus that moves, written in the transaction that marks the move."""

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pg_graphrag.beside.process.copying import Cursor, value

_NODES = "SELECT n.name, n.url FROM graphrag.nodes n ORDER BY n.name"


def note_placement(cursor: Cursor, names: list[str], connection: psycopg.Connection[Any]) -> None:
    """Note in a catalogue that the database of a connection has these corpora, where it is a node."""
    nodes = cursor.execute(_NODES).fetchall()
    if not nodes:
        return
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as own_cursor:
        own = value(own_cursor, "SELECT pg_catalog.current_setting('graphrag.node', true)")
    node = next((name for name, url in nodes if name == own or (not own and _is_at(connection, url))), None)
    if node is not None:
        for name in names:
            cursor.execute("SELECT graphrag.place_corpus(%s, %s)", [name, node])


def _is_at(connection: psycopg.Connection[Any], url: str) -> bool:
    parameters = conninfo_to_dict(url)
    address = parameters.get("host"), str(parameters.get("port", 5432)), parameters.get("dbname")
    return address == (connection.info.host, str(connection.info.port), connection.info.dbname)
