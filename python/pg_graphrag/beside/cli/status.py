"""``pg-graphrag status``: what is indexed, queued and failed; ``metrics``: the view graphrag.metrics as OpenMetrics text."""

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import psycopg

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.cli.progress import Display, total
from pg_graphrag.beside.cli.terminal import aligned, print_json
from pg_graphrag.beside.client import GraphRAG, Metric, Progress, sql_statements
from pg_graphrag.beside.client.blocking import execute

_COLUMNS = (
    "corpus",
    "documents",
    "searchable",
    "indexed",
    "pending",
    "failed",
    "chunks",
    "entities",
    "relationships",
    "jobs",
)
_SHOWN_FAILURES = 10


def status(args: argparse.Namespace) -> int:
    """Show every corpus, or one; with --watch until interrupted. Returns the exit status."""
    with connect(args.url, args.corpus) as connection:
        if args.watch:
            return _watch(connection, args.corpus)
        rows = _progress(connection, args.corpus)
        if args.json:
            for row in rows:
                print_json(row)
            return 0
        _print_table(rows)
        for row in rows:
            if row.embedding_advice:
                print(f"{row.corpus}: {row.embedding_advice}")
            if row.failed or row.pending:
                _print_details(GraphRAG(connection, row.corpus), row)
    return 0


def follow(
    connection: psycopg.Connection[Any], corpus: str | None, display: Display, worked: set[str] | None = None
) -> tuple[Progress, float]:
    """Show the progress once; returns it, and the seconds to the next look, ten times as long as this one took.

    `worked`: corpora that had work at an earlier look. They alone are counted, with those that have some now, which are added;
      where none had, all are.
    """
    start = time.monotonic()
    rows = _progress(connection, corpus)
    if worked is not None:
        worked.update(row.corpus for row in rows if row.jobs)
        rows = [row for row in rows if row.corpus in worked] or rows
    progress = total(rows)
    pause = max(0.5, 10 * (time.monotonic() - start))
    display.update(progress)
    return progress, pause


def _progress(connection: psycopg.Connection[Any], corpus: str | None) -> list[Progress]:
    if corpus is None:
        return execute(connection, sql_statements.progress_of_all())
    return [execute(connection, sql_statements.progress(corpus))]


def _watch(connection: psycopg.Connection[Any], corpus: str | None) -> int:
    display = Display()
    try:
        while True:
            _, pause = follow(connection, corpus, display)
            time.sleep(pause)
    finally:
        display.close()


def _print_table(rows: Sequence[Progress]) -> None:
    cells = [[getattr(row, column) for column in _COLUMNS] for row in rows]
    texts = [[f"{value:,}" if isinstance(value, int) else value for value in values] for values in cells]
    print("\n".join(aligned([_COLUMNS, *texts])))


def _print_details(client: GraphRAG, row: Progress) -> None:
    print()
    if row.pending:
        at_work = f"{row.leased:,} at work" if row.leased else "none at work: does a worker run (pg-graphrag worker)?"
        since = f" since {row.oldest_pending:%Y-%m-%d %H:%M:%S}" if row.oldest_pending else ""
        print(f"{row.corpus}: {row.pending:,} documents pending{since}, {at_work}")
    if row.waiting:
        until = f" until {row.waiting_until:%Y-%m-%d %H:%M:%S}" if row.waiting_until else ""
        print(f"{row.corpus}: {row.waiting:,} waiting{until}: {row.waiting_for}")
    if row.reembedded is not None:
        print(f"{row.corpus}: {row.reembedded:,} of {row.chunks:,} chunks embedded by another model (graphrag.reembed)")
    if row.failed:
        jobs = client.failed_jobs()
        print(f"{row.corpus}: {row.failed:,} documents failed; SELECT graphrag.retry_failed() queues them again")
        for job in jobs[:_SHOWN_FAILURES]:
            print(f"  {job.source_key or job.kind}: {job.last_error}")
        if len(jobs) > _SHOWN_FAILURES:
            print(f"  … and {len(jobs) - _SHOWN_FAILURES:,} more in graphrag.failed_jobs")


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def metrics(args: argparse.Namespace) -> int:
    """Print the metrics of a database. Returns the exit status."""
    with connect(args.url) as connection:
        rows = execute(connection, sql_statements.metrics())
    print("\n".join(open_metrics(rows)))
    return 0


def open_metrics(rows: Iterable[Metric]) -> Iterator[str]:
    """Yield the lines of OpenMetrics text 1.0 for metrics, those of one name beside each other."""
    for name, samples in groupby(rows, key=lambda metric: metric.name):
        family = f"pg_graphrag_{name}"
        yield f"# TYPE {family} gauge"
        # The specification wants the unit as the name's ending.
        if name.endswith("_seconds"):
            yield f"# UNIT {family} seconds"
        for number, sample in enumerate(samples):
            if number == 0:
                yield f"# HELP {family} {sample.help.translate(_ESCAPES)}"
            labels = ",".join(f'{label}="{value.translate(_ESCAPES)}"' for label, value in sample.labels.items())
            yield f"{family}{{{labels}}} {sample.value}" if labels else f"{family} {sample.value}"
    yield "# EOF"
