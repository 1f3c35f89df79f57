"""``pg-graphrag subscribe``: this node follows tables of another server by logical replication."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pg_graphrag.beside.cli.open_database import connect, explain
from pg_graphrag.beside.cli.terminal import printable
from pg_graphrag.beside.client.connection_settings import settings_of
from pg_graphrag.beside.subscribing import undoing
from pg_graphrag.beside.subscribing.plan import NODE, PUBLISHER, Names, Plan, Step, make_plan, prepare
from pg_graphrag.ground.errors import GraphRAGError

Connection = psycopg.Connection[Any]
# By where a step is done.
Ends = Mapping[str, Connection]

# Where the statement that holds a password would be kept: in logs, and in the statistics of statements.
_QUIET = {
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "log_duration": "off",
    "log_min_error_statement": "panic",
    "pg_stat_statements.track_utility": "off",
}


def subscribe(args: argparse.Namespace) -> int:
    """Set both ends up, or print what would be done, or undo it; returns the exit status."""
    with connect(args.url) as node:
        prepare(node)
        names = Names.of(args.name, node)
        if args.undo:
            return _undo(args, node, names)
        if not args.tables:
            raise GraphRAGError(
                "subscribe needs tables", sqlstate="22023", hint="For example --tables articles,shop.reviews."
            )
        with psycopg.connect(args.publisher, **settings_of(args.publisher)) as publisher:
            # Names without a schema are looked up as there, so before prepare(): operators of others may come first then.
            tables = [_qualified(publisher, name) for name in args.tables]
            prepare(publisher)
            ends = {PUBLISHER: publisher, NODE: node}
            connection = _connection(args, publisher)
            plan = make_plan(publisher, node, tables, args.corpus, names, connection, args.existing_slot)
            _print_notes(plan)
            if args.dry_run:
                _print(plan.steps)
            else:
                _run(ends, plan.steps)
            _attach(args, ends, plan)
    return 0


def _qualified(publisher: Connection, table: str) -> str:
    """Return the name of a table with its schema; unchanged if there is no such table."""
    row = publisher.execute(
        "SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname) FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
        " WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%s)",
        [table],
    ).fetchone()
    return table if row is None else str(row[0])


def _connection(args: argparse.Namespace, publisher: Connection) -> str:
    """Return how the node's server connects to the publisher."""
    if args.connection is not None:
        return str(args.connection)
    info = publisher.info
    parameters: dict[str, Any] = conninfo_to_dict(args.publisher)
    parameters |= {"host": info.host, "port": info.port, "user": info.user, "dbname": info.dbname}
    parameters.pop("passfile", None)
    if args.passfile is not None:
        parameters.pop("password", None)
        parameters["passfile"] = args.passfile
    elif info.password:
        parameters["password"] = info.password
    return make_conninfo(**parameters)


def _print_notes(plan: Plan) -> None:
    for note in plan.notes:
        # Names of the publisher may contain line ends, and users may run what is printed.
        print(printable("-- " + " ".join(note.splitlines())))


def _printed(steps: Sequence[Step]) -> Iterator[Step]:
    """Print each step before it is yielded, and where it is done when that changes."""
    where = ""
    for step in steps:
        if step.where != where:
            where = step.where
            print(f"-- at the {where}")
        print(printable(f"{step.shown};"), flush=True)
        yield step


def _print(steps: Sequence[Step]) -> None:
    for _ in _printed(steps):
        pass


def _run(ends: Ends, steps: Sequence[Step]) -> None:
    """Do the steps and print each before; where one fails, those before it are taken back."""
    done: list[Step] = []
    try:
        for step in _printed(steps):
            _execute(ends[step.where], step)
            done.append(step)
    except BaseException:
        for step in reversed(done):
            if step.undo:
                _take_back(ends[step.where], step)
        raise


def _execute(connection: Connection, step: Step) -> None:
    if not step.secret:
        connection.execute(step.statement.encode())
        return
    is_superuser = connection.info.parameter_status("is_superuser") == "on"
    with connection.transaction():
        for name, setting in _QUIET.items() if is_superuser else ():
            connection.execute(
                "SELECT pg_catalog.set_config(s.name, %s, true) FROM pg_catalog.pg_settings s WHERE s.name = %s",
                [setting, name],
            )
        connection.execute(step.statement.encode())


def _take_back(connection: Connection, step: Step) -> None:
    print(printable(f"-- taken back, at the {step.where}\n{step.undo};"), flush=True)
    try:
        connection.execute(step.undo.encode())
    except psycopg.Error as error:
        print(printable(f"pg-graphrag: {explain(error)}"), file=sys.stderr)


def _attach(args: argparse.Namespace, ends: Ends, plan: Plan) -> None:
    if not plan.attach:
        return
    if args.attach and not args.dry_run:
        _run(ends, plan.attach)
    else:
        print("-- then, to make documents of the rows (--attach does it)")
        _print(plan.attach)
    print(
        printable(
            f"-- policies are not replicated: nobody but the owner sees documents of corpus {args.corpus} before"
            " graphrag.protect() says which rows of it are for whom, and graphrag.grant_corpus() who reads it"
        )
    )


def _undo(args: argparse.Namespace, node: Connection, names: Names) -> int:
    """Drop subscription, slot and publication, the node's end first, whether the publisher answers or not."""
    try:
        publisher = psycopg.connect(args.publisher, **settings_of(args.publisher))
    except psycopg.OperationalError as error:
        steps = undoing.at_node(node, names, publisher_is_gone=True)
        _do(args, {NODE: node}, steps)
        raise GraphRAGError(
            f"the publisher does not answer: {error}".strip(),
            sqlstate="08001",
            hint=f"Run there later: {names.drop_slot}; DROP PUBLICATION {names.name};"
            " until then the slot keeps the publisher's log.",
        ) from error
    with publisher:
        prepare(publisher)
        ends = {PUBLISHER: publisher, NODE: node}
        steps = undoing.at_node(node, names)
        _do(args, ends, steps)
        plan = undoing.at_publisher(publisher, names, drops_subscription=args.dry_run and bool(steps))
        _do(args, ends, plan.steps)
        _print_notes(plan)
        print("-- tables of the node stay, with their rows and documents")
    return 0


def _do(args: argparse.Namespace, ends: Ends, steps: Sequence[Step]) -> None:
    for step in _printed(steps):
        if not args.dry_run:
            _execute(ends[step.where], step)
