"""The two databases of a copy: their transactions, preconditions, and the final comparison."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg.pq import TransactionStatus

from pg_graphrag.beside.process.copying import RELATIONS, Cursor, check_version, prepare, value
from pg_graphrag.beside.process.corpus_copy.source_corpus import Relations
from pg_graphrag.beside.process.host import process_of
from pg_graphrag.beside.process.routines import dumped
from pg_graphrag.ground.errors import GraphRAGError


@contextmanager
def transaction(connection: psycopg.Connection[Any]) -> Iterator[Cursor]:
    """Yield a cursor in a transaction in which functions may be called, whoever serves them. `prepare` comes first in it."""
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        if is_plain(connection):
            with process_of(connection).transaction():
                yield cursor
            return
        cursor.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        try:
            yield cursor
            _end(cursor, "COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                _end(cursor, "ROLLBACK")
            raise


@contextmanager
def writing(target: psycopg.Connection[Any], *, seconds: float = 0.0) -> Iterator[Cursor]:
    """A `transaction` that receives a corpus: one at a time, begun before the source is read. Writers of corpora go on.

    Raises GraphRAGError: 58P01, 42501 as `check_version` and `check_owner`.
    Raises psycopg.errors.LockNotAvailable: another corpus has been received for so many `seconds` (0: wait without limit).
    """
    with transaction(target) as writer:
        prepare(writer)
        check_version(writer)
        # Both may be one database.
        writer.execute("SELECT pg_catalog.set_config('lock_timeout', %s, true)", [f"{seconds}s"])
        writer.execute("LOCK TABLE graphrag.corpora IN SHARE UPDATE EXCLUSIVE MODE")
        writer.execute("SET LOCAL lock_timeout = DEFAULT")
        yield writer


@contextmanager
def reading(source: psycopg.Connection[Any], *, locks: bool = False) -> Iterator[Cursor]:
    """A `transaction` of one snapshot, read-only unless it `locks`. If a policy would hide rows, that is an error.

    Errors as in `writing`.
    """
    with transaction(source) as reader:
        reader.execute(
            f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ {'READ WRITE' if locks else 'READ ONLY'}".encode()
        )
        prepare(reader)
        reader.execute("SET LOCAL row_security = off")
        check_version(reader)
        yield reader


def is_plain(connection: psycopg.Connection[Any]) -> bool:
    """Whether a database has the plain schema, and no extension."""
    cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
    return cursor.execute("SELECT pg_catalog.to_regclass('graphrag._installed') IS NOT NULL").fetchone() == (True,)


def _end(cursor: Cursor, command: LiteralString) -> None:
    """Run COMMIT or ROLLBACK where a transaction is open."""
    if cursor.connection.info.transaction_status != TransactionStatus.IDLE:
        cursor.execute(command)


def check_names(writer: Cursor, names: list[str], hint: str) -> None:
    """Raise 42710 where the target has a corpus of one of these names, or two are one, with a `hint` what to do."""
    rows = writer.execute("SELECT c.name FROM graphrag.corpora c WHERE c.name = ANY (%s)", [names]).fetchall()
    names_there = [name for name in names if (name,) in rows]
    if names_there or len(set(names)) < len(names):
        name = (names_there or names)[0]
        raise GraphRAGError(
            f'database "{writer.connection.info.dbname}" has a corpus "{name}" already', sqlstate="42710", hint=hint
        )


def relations_of(writer: Cursor) -> Relations:
    """Return the tables that a dump has, in the order in which rows refer to each other."""
    relations = writer.execute(RELATIONS, [[name for name, _ in dumped()]]).fetchall()
    return [(name.removeprefix("graphrag."), columns) for name, kind, columns in relations if kind == "r"]


def document_count(cursor: Cursor, number: int) -> int:
    """Return the number of documents of a corpus, without those of its history."""
    counted = "SELECT pg_catalog.count(*) FROM graphrag.documents d WHERE d.corpus_id = %s"
    return int(value(cursor, counted, [number]))


def check_equal(reader: Cursor, name: str, writer: Cursor, new_name: str) -> None:
    """Raise XX001 if the fingerprints differ, apart from Apache AGE's graph, which is made of the rest."""
    if is_plain(reader.connection):
        original, copied = _sections(reader, name), _sections(writer, new_name)
    else:
        # The source's server makes its own meanwhile.
        with ThreadPoolExecutor(1) as other:
            of_source = other.submit(_sections, reader, name)
            try:
                copied = _sections(writer, new_name)
                original = of_source.result()
            except BaseException:
                reader.connection.cancel_safe(timeout=2.0)
                raise
    if different := sorted(section for section in original if original[section] != copied.get(section)):
        raise GraphRAGError(
            f'the copy of corpus "{new_name}" is not what the source has: {", ".join(different)}',
            sqlstate="XX001",
            hint="In the source, SELECT graphrag.repair(); mends what came past the triggers; graphrag.check(corpus) names the"
            " rest.",
        )


def _sections(cursor: Cursor, name: str) -> Mapping[str, tuple[Any, ...]]:
    """Return what the fingerprint of a corpus is made of."""
    if is_plain(cursor.connection):
        rows = process_of(cursor.connection).call("fingerprint_sections", {"corpus": name})
    else:
        rows = cursor.execute(
            "SELECT section, row_count, hash FROM graphrag.fingerprint_sections(%s)", [name]
        ).fetchall()
    return {row[0]: row[1:] for row in rows if not row[0].startswith("graph: ")}
