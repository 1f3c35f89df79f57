"""``pg-graphrag ask``: prints an answer as it is written, then its citations; or everything as JSON."""

import argparse
from collections.abc import Mapping
from typing import Any

import psycopg

from pg_graphrag.beside.cli.open_database import connect, warnings_after
from pg_graphrag.beside.cli.search import place_text
from pg_graphrag.beside.cli.terminal import print_json, printable
from pg_graphrag.beside.client import GraphRAG
from pg_graphrag.beside.client.hosts import is_beside
from pg_graphrag.ground.mode_names import REDUCED


def ask(args: argparse.Namespace) -> int:
    """Ask and print, or print what asking would cost; returns the exit status."""
    names = ("mode", "max_tokens", "filter", "history", "response_type")
    arguments = {name: getattr(args, name) for name in names} | args.options
    with connect(args.url, args.corpus) as connection:
        rag = GraphRAG(connection, args.corpus)
        if args.estimate:
            estimate = rag.estimate_ask(args.question, **arguments)
            if args.json:
                print_json(estimate)
            else:
                print(_estimate_text(estimate))
            return 0
        if args.json:
            print_json(rag.ask(args.question, **arguments))
            return 0
        if args.mode in REDUCED or is_beside(connection):
            # Models make the context: failed requests would be sent again, and the answer would differ. Beside a
            # database two calls are two transactions, so their contexts may differ.
            answer = rag.ask(args.question, **arguments)
            print(printable(answer.answer))
        else:
            # One snapshot: the second statement has the first one's context, so its answer is known and costs no call.
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.transaction():
                with warnings_after(connection):
                    for piece in rag.ask_stream(args.question, **arguments):
                        print(printable(piece), end="", flush=True)
                    print(flush=True)
                # The stream has shown all warnings.
                connection.execute("SET LOCAL client_min_messages = 'error'")
                answer = rag.ask(args.question, **arguments)
    for citation in answer.citations:
        title = citation.title if citation.title != citation.source_key else None
        name = place_text(title, citation.section, citation.pages)
        # Rows of a statement have no document: the statement is the title.
        key = "" if citation.source_key is None else f"[{citation.source_key}]"
        print(f"\n[{citation.number}] {printable('  '.join(part for part in (name, key) if part))}", end="")
    if answer.citations:
        print()
    return 0


def _estimate_text(estimate: Mapping[str, Any]) -> str:
    counts = f"{estimate['calls']:,} calls, {estimate['tokens_in']:,} tokens of prompts"
    prefix = "" if estimate["basis"]["calls"] == "exact" else "at most "
    return f"{prefix}{counts}; about {estimate['tokens_out']:,} tokens of answers; cost {estimate['cost']}"


def feedback(args: argparse.Namespace) -> int:
    """Note a verdict on an answer; returns the exit status."""
    with connect(args.url, args.corpus) as connection:
        GraphRAG(connection, args.corpus).feedback(
            args.question, args.verdict, evidence=args.evidence, author=args.author, comment=args.comment
        )
    return 0
