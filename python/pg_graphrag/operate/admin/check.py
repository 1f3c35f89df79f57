"""Checks the invariants of a corpus. Each is a statement that returns violations as (object, detail). One snapshot,
read only.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from pg_graphrag.ground.errors import is_interrupt, is_of_server
from pg_graphrag.index.bm25 import segments
from pg_graphrag.operate.admin.invariants import (
    bm25_postings,
    communities,
    merged_descriptions,
    merged_values,
    projected_graph,
    stored_vectors,
    table_rows,
)
from pg_graphrag.server import Database, places
from pg_graphrag.server.corpus.corpora import Corpus, find_for_check

# Most violations of an invariant that are named.
NAMED = 100

Violations = Iterable[tuple[str, str]]
_CHECKS: tuple[Callable[[Database, Corpus], Iterator[tuple[str, Violations]]], ...] = (
    table_rows.check,
    merged_values.check,
    merged_descriptions.check,
    stored_vectors.check,
    bm25_postings.check,
    communities.check,
    projected_graph.check,
)


def check(db: Database, name: str | None) -> Iterator[tuple[str, str, str]]:
    """Serve graphrag.check(): yield (invariant, object, detail) of each violation."""
    corpus, flaw = find_for_check(db, name)
    if flaw is not None:
        yield (
            "options of a corpus can be read",
            f'corpus "{corpus.name}"',
            f"{flaw}; the rest is checked with the defaults",
        )
    # What this session holds of segments was read before.
    segments.forget()
    for checks in _CHECKS:
        for invariant, violations in checks(db, corpus):
            first_violations = _first(db, violations)
            for subject, detail in first_violations[:NAMED]:
                yield invariant, subject, detail
            if len(first_violations) > NAMED:
                yield invariant, "…", f"there are more than these {NAMED}"


def _first(db: Database, violations: Violations) -> list[tuple[str, str]]:
    """Return the first violations, one more than are named. Unreadable values count as a violation."""
    found: list[tuple[str, str]] = []
    try:
        with db.subtransaction():
            found.extend(islice(violations, NAMED + 1))
    except Exception as error:
        cause = error
        while isinstance(cause.__context__, Exception):  # a cursor cannot be closed after an error of its statement
            cause = cause.__context__
        if is_interrupt(cause) or is_of_server(cause):
            raise
        is_of_statement = isinstance(cause, db.statement_error)
        reason = str(cause).partition("\n")[0] if is_of_statement else f"at {places(cause)}"
        found.append(("…", f"cannot be compared, as what is read is damaged: {reason}"))
    return found
