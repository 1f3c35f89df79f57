"""``pg-graphrag subscribe``: documents stay in another server, and this node follows its tables by logical replication."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pg_graphrag.beside.cli.open_database import connect, explain
from pg_graphrag.beside.cli.terminal import printable
from pg_graphrag.beside.client.connection_settings import settings_of
from pg_graphrag.beside.subscribing import undoing
from pg_graphrag.beside.subscribing.node import PUBLISHER, Names, Plan, Step, plan, prepare
from pg_graphrag.ground.errors import GraphRAGError

Connection = psycopg.Connection[Any]

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
            # Names without a schema are looked up as there: in a search_path in which operators of others may come first.
            tables = [
                found[0] if found is not None else name
                for name in args.tables
                for found in [
                    publisher.execute(
                        "SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname) FROM pg_catalog.pg_class c"
                        " JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
                        " WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%s)",
                        [name],
                    ).fetchone()
                ]
            ]
            prepare(publisher)
            made = plan(publisher, node, tables, args.corpus, names, _connection(args, publisher), args.existing_slot)
            _print_notes(made)
            if args.dry_run:
                _print(made.steps)
            else:
                _run(publisher, node, made.steps)
            _attach(args, publisher, node, made)
    return 0


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


def _print_notes(made: Plan) -> None:
    for note in made.notes:
        # Names of the publisher may have line ends; what is printed may be run.
        print(printable("-- " + " ".join(note.splitlines())))


def _print(steps: Sequence[Step]) -> None:
    where = ""
    for step in steps:
        if step.where != where:
            where = step.where
            print(f"-- at the {where}")
        print(printable(f"{step.shown};"), flush=True)


def _run(publisher: Connection, node: Connection, steps: Sequence[Step]) -> None:
    """Do the steps and print each before; where one fails, those before it are taken back."""
    done: list[Step] = []
    try:
        for number, step in enumerate(steps):
            if number == 0 or steps[number - 1].where != step.where:
                print(f"-- at the {step.where}")
            print(printable(f"{step.shown};"), flush=True)
            _execute(publisher if step.where == PUBLISHER else node, step)
            done.append(step)
    except BaseException:
        for step in reversed(done):
            if step.undo:
                _take_back(publisher if step.where == PUBLISHER else node, step)
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


def _attach(args: argparse.Namespace, publisher: Connection, node: Connection, made: Plan) -> None:
    if not made.attach:
        return
    if args.attach and not args.dry_run:
        _run(publisher, node, made.attach)
    else:
        print("-- then, to make documents of the rows (--attach does it)")
        _print(made.attach)
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
        _do(args, None, node, steps)
        raise GraphRAGError(
            f"the publisher does not answer: {error}".strip(),
            sqlstate="08001",
            hint=f"Run there later: SELECT pg_drop_replication_slot('{names.slot}'); DROP PUBLICATION {names.name};"
            " until then the slot keeps the publisher's log.",
        ) from error
    with publisher:
        prepare(publisher)
        steps = undoing.at_node(node, names)
        _do(args, publisher, node, steps)
        left = undoing.at_publisher(publisher, names, drops_subscription=args.dry_run and bool(steps))
        _do(args, publisher, node, left.steps)
        _print_notes(left)
        print("-- tables of the node stay, with their rows and documents")
    return 0


def _do(args: argparse.Namespace, publisher: Connection | None, node: Connection, steps: Sequence[Step]) -> None:
    if args.dry_run:
        _print(steps)
        return
    for step in steps:
        _print([step])
        _execute(publisher if publisher is not None and step.where == PUBLISHER else node, step)
