"""``pg-graphrag answer-questions``: answers of one mode, as JSON Lines for a judge."""

import argparse
import sys

import psycopg

from pg_graphrag.beside.cli.open_database import connect, explain
from pg_graphrag.beside.cli.terminal import print_json
from pg_graphrag.beside.client import GraphRAG
from pg_graphrag.beside.judging.files import read_questions


def answer_questions(args: argparse.Namespace) -> int:
    """Answer and print; returns the exit status: 1 when a question was left out."""
    failed = 0
    with connect(args.url, args.corpus) as connection:
        rag = GraphRAG(connection, args.corpus)
        for name, question in read_questions(args.file):
            try:
                answered = rag.ask(question, mode=args.mode, **args.options)
            except psycopg.Error as error:
                print(f"pg-graphrag: question {name}: {explain(error)}", file=sys.stderr)
                failed += 1
                continue
            print_json({"id": name, "question": question, "answer": answered.answer})
    return 1 if failed else 0
