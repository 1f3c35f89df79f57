"""``pg-graphrag feedback``: a verdict on an answer."""

import argparse

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.client import GraphRAG


def feedback(args: argparse.Namespace) -> int:
    """Note the verdict; returns the exit status."""
    with connect(args.url, args.corpus) as connection:
        GraphRAG(connection, args.corpus).feedback(
            args.question, args.verdict, evidence=args.evidence, author=args.author, comment=args.comment
        )
    return 0
