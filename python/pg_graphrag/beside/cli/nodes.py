"""``pg-graphrag nodes`` shows the databases of the catalogue; ``rebalance`` proposes moves of corpora between them."""

import argparse
import shlex
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.cli.terminal import aligned, print_json, printable
from pg_graphrag.beside.client import nodes as client_nodes
from pg_graphrag.beside.client.blocking import execute, staying
from pg_graphrag.beside.client.connection_settings import settings_of
from pg_graphrag.beside.client.nodes import Place, Request, side_by_side
from pg_graphrag.beside.client.sql_statements import Statement

# Numbers alone, for pg_monitor. What a corpus takes on disk is its share of the tables, by documents and chunks.
_STATE = """
WITH size AS (
    SELECT coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid)), 0) AS bytes
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname ~ '^graphrag(_[0-9]+)?$' AND c.relkind IN ('r', 'm')
), corpus AS (
    SELECT p.corpus, p.documents, p.pending, p.jobs, p.leased, p.documents + p.chunks AS rows FROM graphrag.progress p
)
SELECT graphrag._package_version(),
       (SELECT pg_catalog.count(*)
          FROM pg_catalog.pg_stat_get_activity(NULL) a
          JOIN pg_catalog.pg_database d ON d.oid = a.datid
         WHERE d.datname = pg_catalog.current_database() AND a.backend_type = 'client backend'),
       CASE WHEN pg_catalog.pg_is_in_recovery()
            THEN extract(epoch FROM pg_catalog.now() - pg_catalog.pg_last_xact_replay_timestamp())
            ELSE (SELECT extract(epoch FROM pg_catalog.now() - pg_catalog.min(s.last_msg_receipt_time))
                    FROM pg_catalog.pg_stat_subscription s
                    JOIN pg_catalog.pg_subscription u ON u.oid = s.subid
                    JOIN pg_catalog.pg_database d ON d.oid = u.subdbid
                   WHERE d.datname = pg_catalog.current_database() AND s.relid IS NULL) END::double precision,
       coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
                            'corpus', c.corpus, 'documents', c.documents, 'pending', c.pending, 'jobs', c.jobs,
                            'leased', c.leased,
                            'bytes', (s.bytes * c.rows / greatest((SELECT pg_catalog.sum(x.rows) FROM corpus x), 1))::bigint)
                            ORDER BY c.corpus)
                   FROM corpus c CROSS JOIN size s), '[]')
"""
_HISTORIES = """
SELECT c.name FROM graphrag._histories h JOIN graphrag.corpora c ON c.id = h.history_id
"""


@dataclass
class Node:
    """What is known of a node; `fault` is why nothing is. `lag`: seconds, of standbys and subscribers."""

    name: str
    url: str
    is_this: bool
    fault: str | None = None
    version: str | None = None
    sessions: int | None = None
    lag: float | None = None
    corpora: list[dict[str, Any]] = field(default_factory=list)

    def sum_of(self, name: str) -> int:
        """Return a number of all corpora together."""
        return sum(corpus[name] for corpus in self.corpora)


def nodes(args: argparse.Namespace) -> int:
    """Show the nodes, or sync their catalogues; returns the exit status: 1 where a node does not answer."""
    with connect(args.url) as connection:
        if args.action == "sync":
            return _sync(connection)
        all_nodes = _read_nodes(connection, args.url, args.timeout)
        warnings = _contradictions(connection, all_nodes)
    if args.json:
        for node in all_nodes:
            print_json(node)
    else:
        _print(all_nodes)
    for warning in warnings:
        print(printable(warning))
    return int(any(node.fault for node in all_nodes))


def _read_nodes(connection: psycopg.Connection[Any], url: str, seconds: float) -> list[Node]:
    """Return what each node says of itself, this database first."""
    this = _rows(connection, "SELECT pg_catalog.current_setting('graphrag.node', true)")[0][0] or ""
    places = {
        place._replace(url=client_nodes.url_at(connection.info, place)): place.url
        for place in execute(connection, client_nodes.others())
    }
    own_urls = dict(_rows(connection, "SELECT n.name, n.url FROM graphrag.nodes n"))
    for place in [place for place in places if client_nodes.is_same(connection.info, place.url)]:
        # The database was not told its name.
        this = this or place.node
        del places[place]
    node_of = {Request(None, ()): Node(this or connection.info.dbname, own_urls.get(this, ""), is_this=True)}
    node_of |= {Request(place, ()): Node(place.node, shown, is_this=False) for place, shown in places.items()}
    clients = {request: staying(request.place.url if request.place else url, "default") for request in node_of}
    try:
        calls = {request: partial(client._run, _STATEMENT) for request, client in clients.items()}
        for request, answer in side_by_side(clients, calls, seconds).items():
            node = node_of[request]
            if isinstance(answer, Exception):
                node.fault = client_nodes.reason_of(answer)
            else:
                node.version, node.sessions, node.lag, node.corpora = answer
    finally:
        for client in clients.values():
            client.close()
    return list(node_of.values())


_STATEMENT: Statement[tuple[Any, ...]] = Statement(_STATE, {}, lambda rows: rows[0])


def _rows(connection: psycopg.Connection[Any], statement: str) -> list[tuple[Any, ...]]:
    cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
    return cursor.execute(statement.encode()).fetchall()


def _contradictions(connection: psycopg.Connection[Any], all_nodes: list[Node]) -> list[str]:
    """Return where the catalogue is not what the nodes say; nothing where the role may not read it."""
    try:
        placed = dict(_rows(connection, "SELECT p.corpus, p.node FROM graphrag.placements p ORDER BY p.corpus"))
    except psycopg.errors.InsufficientPrivilege:
        return []
    having: dict[str, list[str]] = {}
    for node in all_nodes:
        for corpus in node.corpora:
            having.setdefault(corpus["corpus"], []).append(node.name)
    silent = {node.name for node in all_nodes if node.fault}
    lines = [
        f"corpus {corpus} is placed at {node}, which does not have it"
        for corpus, node in placed.items()
        if node not in having.get(corpus, []) and node not in silent
    ]
    lines += [f"corpus {corpus} is at {' and '.join(names)}" for corpus, names in having.items() if len(names) > 1]
    this = {node.name for node in all_nodes if node.is_this}
    return lines + [
        f"corpus {corpus} is at {names[0]}, and no placement says so"
        for corpus, names in having.items()
        if corpus not in placed and len(names) == 1 and not this & set(names)
    ]


def _print(all_nodes: list[Node]) -> None:
    headings = ("node", "version", "corpora", "documents", "MB", "pending", "jobs", "at work", "sessions", "lag")
    table: list[tuple[str, ...]] = [headings]
    for node in all_nodes:
        name = f"{node.name} (this)" if node.is_this else node.name
        if node.fault:
            table.append((printable(name), "", *[""] * 8))
            continue
        numbers = [len(node.corpora), node.sum_of("documents"), node.sum_of("bytes") // 1_000_000]
        numbers += [node.sum_of(column) for column in ("pending", "jobs", "leased")]
        lag = "" if node.lag is None else f"{node.lag:.1f} s"
        row = (printable(name), node.version or "", *(f"{number:,}" for number in numbers), str(node.sessions), lag)
        table.append(row)
    heading, *lines = aligned(table)
    print(heading)
    for line, node in zip(lines, all_nodes, strict=True):
        print(f"{line}  {printable(node.fault)}" if node.fault else line)
    corpora = [(corpus["bytes"], corpus, node) for node in all_nodes for corpus in node.corpora]
    if corpora:
        print()
        table = [("corpus", "node", "documents", "MB")]
        for size, corpus, node in sorted(corpora, key=lambda item: (-item[0], item[1]["corpus"])):
            numbers_of = (f"{corpus['documents']:,}", f"{size // 1_000_000:,}")
            table.append((printable(corpus["corpus"]), node.name, *numbers_of))
        print("\n".join(aligned(table)))


@dataclass
class Move:
    """A corpus that might move, with its bytes."""

    corpus: str
    source: str
    target: str
    bytes: int
    command: str


def moves_between(all_nodes: list[Node], fixed: set[str]) -> list[Move]:
    """Return moves from the fullest node with movable corpora to the emptiest; corpora in `fixed` stay.

    A database that is not a node of the catalogue has no url and takes no part.
    """
    at = {
        node.name: {item["corpus"]: item["bytes"] for item in node.corpora}
        for node in all_nodes
        if node.url and not node.fault
    }
    urls = {node.name: node.url for node in all_nodes}
    moves: list[Move] = []
    while True:
        sizes = {name: sum(corpora.values()) for name, corpora in at.items()}
        target = min(sizes, key=lambda name: (sizes[name], name), default="")
        for source in sorted(sizes, key=lambda name: (-sizes[name], name)):
            gap = sizes[source] - sizes[target]
            # One that is moved fills the target as well: half of the gap is best.
            fitting = {name: size for name, size in at[source].items() if 0 < size < gap and name not in fixed}
            if fitting:
                break
        else:
            return moves
        corpus = min(fitting, key=lambda name: (abs(gap - 2 * fitting[name]), name))
        fixed = fixed | {corpus}
        size = at[target][corpus] = at[source].pop(corpus)
        command = (
            f"pg-graphrag move {shlex.quote(corpus)} --url {shlex.quote(urls[source])} --to {shlex.quote(urls[target])}"
        )
        moves.append(Move(corpus, source, target, size, command))


def rebalance(args: argparse.Namespace) -> int:
    """Print moves that make the nodes alike in size; returns the exit status: 1 where a node does not answer."""
    with connect(args.url) as connection:
        all_nodes = _read_nodes(connection, args.url, args.timeout)
        # A history goes with its corpus.
        fixed = {name for (name,) in _rows(connection, _HISTORIES)}
    for move in moves_between(all_nodes, fixed):
        if args.json:
            print_json(move)
        else:
            print(printable(f"{move.command}  # {move.bytes // 1_000_000:,} MB, {move.source} to {move.target}"))
    for node in all_nodes:
        if node.fault:
            print(printable(f"# node {node.name} does not answer: {node.fault}"))
    return int(any(node.fault for node in all_nodes))


_CATALOGUE = """
SELECT (SELECT coalesce(pg_catalog.jsonb_agg(n), '[]') FROM graphrag.nodes n),
       (SELECT coalesce(pg_catalog.jsonb_agg(p), '[]') FROM graphrag.placements p)
"""
_IS_SUBSCRIBED = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_subscription_rel r WHERE r.srrelid = 'graphrag.placements'::pg_catalog.regclass),
       pg_catalog.current_setting('graphrag.node', true)
"""
_WRITE = (
    "DELETE FROM graphrag.placements p WHERE p.corpus NOT IN"
    " (SELECT x.corpus FROM pg_catalog.jsonb_populate_recordset(NULL::graphrag.placements, %(placements)s) x)",
    "INSERT INTO graphrag.nodes SELECT * FROM pg_catalog.jsonb_populate_recordset(NULL::graphrag.nodes, %(nodes)s)"
    " ON CONFLICT (name) DO UPDATE SET url = EXCLUDED.url, added_at = EXCLUDED.added_at",
    "INSERT INTO graphrag.placements SELECT * FROM pg_catalog.jsonb_populate_recordset(NULL::graphrag.placements, %(placements)s)"
    " ON CONFLICT (corpus) DO UPDATE SET node = EXCLUDED.node, since = EXCLUDED.since",
    "DELETE FROM graphrag.nodes n WHERE n.name NOT IN"
    " (SELECT x.name FROM pg_catalog.jsonb_populate_recordset(NULL::graphrag.nodes, %(nodes)s) x)",
)


def _sync(connection: psycopg.Connection[Any]) -> int:
    """Write the catalogue to each other node; a database that does not know its name is told."""
    ((catalogue_nodes, placements),) = _rows(connection, _CATALOGUE)
    values = {"nodes": Jsonb(catalogue_nodes), "placements": Jsonb(placements)}
    status = 0
    for place in execute(connection, client_nodes.others()):
        url = client_nodes.url_at(connection.info, place)
        try:
            with psycopg.connect(url, **settings_of(url)) as node:
                is_this = client_nodes.is_same(connection.info, url)
                print(printable(f"{place.node}: {_write(node, place, values, is_this=is_this)}"))
        except psycopg.Error as error:
            status = 1
            print(printable(f"{place.node}: {client_nodes.reason_of(error)}"))
    return status


def _write(node: psycopg.Connection[Any], place: Place, values: dict[str, Any], *, is_this: bool) -> str:
    ((is_subscribed, name),) = _rows(node, _IS_SUBSCRIBED)
    done = []
    if name != place.node:
        database = psycopg.sql.Identifier(node.info.dbname)
        statement = psycopg.sql.SQL("ALTER DATABASE {database} SET graphrag.node = {name}")
        node.execute(statement.format(database=database, name=psycopg.sql.Literal(place.node)))
        done.append("was told its name")
    if is_subscribed:
        done.append("a subscription brings it the catalogue")
    elif not is_this:
        with node.transaction():
            for statement_text in _WRITE:
                node.execute(statement_text.encode(), values)
        done.append("has the catalogue")
    return ", ".join(done)
