"""Invariants of a corpus, each a statement whose rows are violations: (object, detail). One snapshot, read only."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from pg_graphrag.admin.invariants import bm25, descriptions, graph, merged_values, tables, vectors
from pg_graphrag.corpus.corpora import Corpus, find
from pg_graphrag.server import Database

# Most violations of an invariant that are named.
NAMED = 100

Violations = Iterable[tuple[str, str]]
_CHECKS: tuple[Callable[[Database, Corpus], Iterator[tuple[str, Violations]]], ...] = (
    tables.check,
    merged_values.check,
    descriptions.check,
    vectors.check,
    bm25.check,
    graph.check,
)


def check(db: Database, name: str | None) -> Iterator[tuple[str, str, str]]:
    """Serve graphrag.check(): yield (invariant, object, detail) of each violation."""
    corpus = find(db, name)
    for checks in _CHECKS:
        for invariant, violations in checks(db, corpus):
            first_violations = list(islice(violations, NAMED + 1))
            for subject, detail in first_violations[:NAMED]:
                yield invariant, subject, detail
            if len(first_violations) > NAMED:
                yield invariant, "…", f"there are more than these {NAMED}"
