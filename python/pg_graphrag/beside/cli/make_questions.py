"""``pg-graphrag make-questions``: write questions about a corpus as JSON Lines."""

import argparse
import sys
from typing import Any

import psycopg

from pg_graphrag.beside.cli.evaluation import model_of
from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.cli.terminal import print_json
from pg_graphrag.beside.judging.generate import (
    SAMPLE,
    Passage,
    activities,
    describe,
    global_questions,
    local_questions,
    number_questions,
)
from pg_graphrag.ground.errors import GraphRAGError

# Documents shorter than this, in characters, say too little for a question where there are others.
_MIN_LENGTH = 200

# The same seed draws the same documents, and few of them are moved by a new one.
_DRAW = """
SELECT d.source_key, d.title, d.content FROM graphrag.documents d
 WHERE d.corpus = %s AND d.retracted_at IS NULL AND pg_catalog.length(d.content) >= %s
 ORDER BY pg_catalog.md5(%s || d.source_key), d.source_key
 LIMIT %s"""


def make_questions(args: argparse.Namespace) -> int:
    """Make and print questions; returns the exit status."""
    users, tasks, questions = args.users, args.tasks, args.questions
    local_count, global_count = args.local, getattr(args, "global")
    counts = (users, tasks, questions, local_count, global_count)
    model, description = model_of(args), args.description
    if min(counts) < 0 or users * tasks * questions + local_count + global_count == 0:
        raise GraphRAGError(f"there is nothing to make: {counts}", hint="Give numbers of 0 or more, not all of them 0.")
    passages: list[Passage] = []
    if description is None or local_count or global_count:
        with connect(args.url, args.corpus) as connection:
            passages = _draw(connection, args.corpus, max(local_count, 4 * SAMPLE), args.seed)
    samples = [passages[start : start + SAMPLE] for start in range(0, len(passages), SAMPLE)]
    description = description or describe(model, samples[0])
    records: list[dict[str, Any]] = []
    if users * tasks * questions:
        records += activities(model, description, users, tasks, questions)
    if local_count:
        if len(passages) < local_count:
            print(f"the corpus has {len(passages)} documents for local questions, not {local_count}", file=sys.stderr)
        records += local_questions(model, description, passages[:local_count])
    if global_count:
        records += global_questions(model, description, samples, global_count)
    distinct = number_questions(records)
    for question in distinct:
        print_json(question)
    if len(distinct) < len(records):
        print(f"{len(records) - len(distinct)} questions were asked before and are left out", file=sys.stderr)
    print(f"{len(distinct)} questions by {model.name}; {model.usage}", file=sys.stderr)
    return 0


def _draw(connection: psycopg.Connection[Any], corpus: str, count: int, seed: int) -> list[Passage]:
    for length in (_MIN_LENGTH, 1):
        if rows := connection.execute(_DRAW, [corpus, length, str(seed), count]).fetchall():
            return [Passage(*row) for row in rows]
    raise GraphRAGError(
        f'corpus "{corpus}" has no documents', sqlstate="42704", hint="Ingest some first, or name another --corpus."
    )
