"""Who sees a corpus: copies its grants and its protection from the source."""

import time
from collections.abc import Mapping
from typing import Any

import psycopg

from pg_graphrag.beside.process.corpus_copy.transfer import Transfer
from pg_graphrag.beside.process.routines import dumped
from pg_graphrag.ground.errors import GraphRAGError

# Seconds for which the end waits for those who hold documents.
_PATIENCE = 300.0


def read_grants(transfer: Transfer) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the grants of roles that the target has, and the other roles."""
    condition = dict(dumped())["graphrag.corpus_grants"].replace("WHERE", "AND", 1)
    grants = transfer.reader.execute(
        "SELECT corpus_id, role, level, granted_by, granted_at FROM graphrag.corpus_grants"
        f" WHERE corpus_id = ANY (%s) {condition} ORDER BY 1, 2, 3".encode(),
        [transfer.corpus.ids],
    ).fetchall()
    same_roles = "SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.rolname = ANY (%s)"
    roles = {row[0] for row in transfer.writer.execute(same_roles, [[grant[1] for grant in grants]]).fetchall()}
    return [grant for grant in grants if grant[1] in roles], sorted({grant[1] for grant in grants} - roles)


def put_in_force(transfer: Transfer, grants: list[tuple[Any, ...]]) -> None:
    """Enforce who sees the corpora. Do this last: it locks the documents of all corpora."""
    protections = {row["id"]: row["protection"] for row in transfer.corpus.corpora if row["protection"] is not None}
    if grants or protections:
        _insist(transfer, grants, protections, _PATIENCE)


def close(transfer: Transfer) -> None:
    """Hide the corpora from everybody but the owner, until `open_again`."""
    _insist(transfer, [], dict.fromkeys(transfer.corpus.ids, "false"), _PATIENCE)


def open_again(transfer: Transfer, grants: list[tuple[Any, ...]], seconds: float) -> None:
    """Enforce who sees the corpora that were closed; 55P03 after so many `seconds`."""
    _insist(transfer, grants, {row["id"]: row["protection"] for row in transfer.corpus.corpora}, seconds)


def _insist(
    transfer: Transfer, grants: list[tuple[Any, ...]], protections: Mapping[int, str | None], seconds: float
) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with transfer.writer.connection.transaction():
                _enforce(transfer, grants, protections)
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if time.monotonic() > deadline:
                raise


def _enforce(transfer: Transfer, grants: list[tuple[Any, ...]], protections: Mapping[int, str | None]) -> None:
    transfer.writer.execute("SELECT graphrag._lock_grants()")
    for number, role, level, *rest in grants:
        transfer.writer.execute("SELECT graphrag._grant_group(%s, %s)", [role, level])
        transfer.writer.execute(
            "INSERT INTO graphrag.corpus_grants (corpus_id, role, level, granted_by, granted_at) VALUES (%s, %s, %s, %s, %s)",
            [transfer.new_number(number), role, level, *rest],
        )
    for number, condition in protections.items():
        new_number = transfer.new_number(number)
        transfer.writer.execute("UPDATE graphrag.corpora SET protection = %s WHERE id = %s", [condition, new_number])
        try:
            transfer.writer.execute("SELECT graphrag._enforce(%s, %s)", [new_number, condition])
        except (psycopg.errors.SyntaxErrorOrAccessRuleViolation, psycopg.DataError) as error:
            raise GraphRAGError(
                f'the condition of corpus "{transfer.names[number]}" cannot be put in force: {error.diag.message_primary}',
                sqlstate=error.sqlstate or "42601",
                hint="Make what it names in the target first: SELECT name, protection FROM graphrag.corpora shows it.",
            ) from error
