"""``pg-graphrag install``, ``copy``, ``move`` and ``call``: databases without the extension, and every function by its name."""

import argparse
import json

import psycopg

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.client import hosts, sql_statements
from pg_graphrag.beside.client.blocking import execute
from pg_graphrag.beside.client.connection_settings import settings_of
from pg_graphrag.ground.errors import GraphRAGError


def install(args: argparse.Namespace) -> int:
    """Make the plain schema in a database, or update it; returns the exit status (0 also where there is nothing to do)."""
    with psycopg.connect(args.url, **settings_of(args.url)) as connection:
        version = hosts.install(connection)
        where = f'database "{connection.info.dbname}"'
    if version is None:
        print(f"{where} has this version of the schema graphrag already")
    else:
        print(f"{where} now has the schema graphrag of version {version}")
    return 0


def copy(args: argparse.Namespace) -> int:
    """Copy another database into a new one, or one corpus into a database with others; returns the exit status."""
    if args.corpus is None and (args.new_name is not None or args.history_name is not None or args.providers):
        hint = "Without --corpus all corpora are copied, as they are."
        raise GraphRAGError("--as, --history-as and --provider are of one corpus", sqlstate="22023", hint=hint)
    providers = _providers(args)
    with connect(args.source) as source, connect(args.url) as target:
        has_now, origin = f'database "{target.info.dbname}" now has', f'of "{source.info.dbname}"'
        if args.corpus is None:
            print(f"{has_now} the {hosts.copy(source, target)} documents {origin}")
            return 0
        copied = hosts.copy_corpus(
            source, target, args.corpus, new_name=args.new_name, history_name=args.history_name, providers=providers
        )
        corpus = args.corpus if args.new_name is None else args.new_name
        print(f'{has_now} corpus "{corpus}", the {copied.documents} documents of "{args.corpus}" {origin}')
        for note in copied.notes:
            print(note)
    return 0


def _providers(args: argparse.Namespace) -> dict[str, str]:
    providers = dict(args.providers)
    if twice := [name for name, other in args.providers if providers[name] != other]:
        hint = "Give each provider one that stands for it."
        raise GraphRAGError(f'--provider names "{twice[0]}" twice', sqlstate="22023", hint=hint)
    return providers


def move(args: argparse.Namespace) -> int:
    """Move a corpus to another database, or take its move back; returns the exit status."""
    if args.undo:
        return _undo(args)
    if args.force:
        raise GraphRAGError("--force is of --undo", sqlstate="22023", hint="Without --undo nothing is forced.")
    providers = _providers(args)
    with connect(args.url) as source, connect(args.to) as target:
        moved = hosts.move_corpus(
            source,
            target,
            args.name,
            providers=providers,
            pause=args.pause,
            report=lambda line: print(line, flush=True),
        )
        print(f'corpus "{args.name}", {moved.documents} documents, is at {target.info.host}/{target.info.dbname}')
        if moved.frozen_seconds is not None:
            print(f"rounds: {moved.rounds}; seconds without writes: {moved.frozen_seconds:.1f}")
        for note in moved.notes:
            print(note)
        print("What is left of it in the source goes with drop_corpus(); until then --undo takes the move back.")
    return 0


def _undo(args: argparse.Namespace) -> int:
    with connect(args.url) as source:
        try:
            target = connect(args.to)
        except psycopg.OperationalError:
            if not args.force:
                raise
            hosts.undo_move(source, None, args.name, force=True)
        else:
            with target:
                hosts.undo_move(source, target, args.name, force=args.force)
        print(f'corpus "{args.name}" is read and written in database "{source.info.dbname}" as before its move')
    return 0


def call(args: argparse.Namespace) -> int:
    """Call a function of the schema and print what it returns, as JSON; returns the exit status."""
    statement = sql_statements.any_call(args.corpus, args.function, args.arguments)
    with connect(args.url, statement.parameters.get("corpus")) as connection:
        returned = execute(connection, statement)
    if returned is not None:
        print(json.dumps(returned, ensure_ascii=False, default=str, indent=2))
    return 0
