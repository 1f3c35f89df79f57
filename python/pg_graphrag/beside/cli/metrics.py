"""``pg-graphrag metrics``: the view graphrag.metrics as OpenMetrics text, for Prometheus and what reads its format."""

import argparse
from collections.abc import Iterable, Iterator
from itertools import groupby

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.client import Metric, sql_statements
from pg_graphrag.beside.client.blocking import execute

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
