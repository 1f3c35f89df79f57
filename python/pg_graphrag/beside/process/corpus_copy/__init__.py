"""A copy of one corpus in another database, beside the corpora that it has, while both are read and written.

One snapshot of the source, one transaction of the target. Rows get numbers of the target, in the order that they have: ties
that go by a number come out alike. As in a restore the triggers of the target see the rows, and no table is locked: writers of
other corpora go on. Who sees the corpus is put in force at the end, under the lock that protect() and grant_corpus() take.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg.pq import TransactionStatus

from pg_graphrag.beside.process.copying import RELATIONS, Cursor, check_policies, check_version, prepare, value
from pg_graphrag.beside.process.corpus_copy import access
from pg_graphrag.beside.process.corpus_copy.providers import choose_providers
from pg_graphrag.beside.process.corpus_copy.reservation import reserve
from pg_graphrag.beside.process.corpus_copy.rows import RowCopy, ordered
from pg_graphrag.beside.process.corpus_copy.source_corpus import Relations, SourceCorpus
from pg_graphrag.beside.process.corpus_copy.transfer import Transfer
from pg_graphrag.beside.process.host import process_of
from pg_graphrag.beside.process.routines import dumped
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.operate.admin.corpus_changes import check_name

# Kinds of jobs of a whole corpus that come along; the others are of attached tables, batches and what repair() queues.
_CORPUS_JOBS = ("optimize", "summarize", "describe", "reembed", "communities", "reports")


@dataclass
class CorpusCopy:
    """What was copied: the number of documents, and sentences on what was left out or must be done."""

    documents: int
    notes: list[str] = field(default_factory=list)


def copy_corpus(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    name: str,
    *,
    new_name: str | None = None,
    history_name: str | None = None,
    providers: Mapping[str, str] | None = None,
) -> CorpusCopy:
    """Copy a corpus with what was made of it, its history, curations, grants, accounts and replies of models.

    Both connections are of owners, in autocommit mode and outside a transaction. Nothing is indexed anew.

    Parameters
    ----------
    new_name, history_name : str, optional
        What the corpus and its history are called there; as here when None.
    providers : mapping, optional
        Which provider of the target stands for one of the source, by their names.

    Raises
    ------
    GraphRAGError
        42704 for a corpus, history or provider that there is not; 22023 for what cannot be a name; 42710 where the target has
        a corpus of that name, or a provider of the same name with another definition; 55000 for attached rows and missing
        policies; 58P01, 42501 as `copying.copy`; XX001 where the copy is not what the source has. The target is as it was then.
    psycopg.Error
        Others of the servers.
    """
    with _transaction(target) as writer:
        prepare(writer)
        has_extension = check_version(writer)
        # One copy at a time, and before the source is read: both may be one database. Writers of corpora go on.
        writer.execute("LOCK TABLE graphrag.corpora IN SHARE UPDATE EXCLUSIVE MODE")
        with _transaction(source) as reader:
            # Rows that a policy would hide are an error.
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            prepare(reader)
            reader.execute("SET LOCAL row_security = off")
            source_has_extension = check_version(reader)
            check_policies(reader, writer)
            corpus = SourceCorpus.read(reader, name)
            for wanted_name in (new_name, history_name):
                if wanted_name is not None:
                    check_name(wanted_name)
            names = corpus.names(new_name, history_name)
            _check_names(writer, list(names.values()))
            chosen = choose_providers(reader, writer, corpus, providers or {})
            relations = _relations(writer)
            transfer = Transfer(reader, writer, corpus, names, chosen, reserve(reader, writer, corpus, relations))
            rows = RowCopy(transfer)
            rows.make_corpora(with_cypher=has_extension)
            for table, columns in ordered(relations):
                rows.copy_table(table, columns)
            for number in corpus.ids:
                _repair(transfer, number)
                _check_equal(
                    _sections(source, reader, corpus.name_of(number), source_has_extension),
                    _sections(target, writer, names[number], has_extension),
                    names[number],
                )
            notes = _left_out(transfer)
            grants, unknown_roles = access.read_grants(transfer)
            if unknown_roles:
                notes.append(f"grants of roles that are not there were left out: {', '.join(unknown_roles)}")
        access.put_in_force(transfer, grants)
        # Without those of its history.
        count = "SELECT pg_catalog.count(*) FROM graphrag.documents d WHERE d.corpus_id = %s"
        return CorpusCopy(value(writer, count, [transfer.new_number(corpus.ids[0])]), notes)


@contextmanager
def _transaction(connection: psycopg.Connection[Any]) -> Iterator[Cursor]:
    """Yield a cursor in a transaction in which functions may be called, whoever serves them."""
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        is_plain = cursor.execute("SELECT pg_catalog.to_regclass('graphrag._installed') IS NOT NULL").fetchone() == (
            True,
        )
        if is_plain:
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


def _end(cursor: Cursor, command: LiteralString) -> None:
    """Run COMMIT or ROLLBACK where a transaction is open."""
    if cursor.connection.info.transaction_status != TransactionStatus.IDLE:
        cursor.execute(command)


def _check_names(writer: Cursor, names: list[str]) -> None:
    taken = writer.execute("SELECT c.name FROM graphrag.corpora c WHERE c.name = ANY (%s)", [names]).fetchone()
    if taken is not None or len(set(names)) < len(names):
        name = names[0] if taken is None else taken[0]
        raise GraphRAGError(
            f'database "{writer.connection.info.dbname}" has a corpus "{name}" already',
            sqlstate="42710",
            hint="Give another name with --as NAME; of a history with --history-as NAME.",
        )


def _relations(writer: Cursor) -> Relations:
    """Return the tables that a dump has, in the order in which rows refer to each other."""
    relations = writer.execute(RELATIONS, [[name for name, _ in dumped()]]).fetchall()
    return [(name.removeprefix("graphrag."), columns) for name, kind, columns in relations if kind == "r"]


def _repair(transfer: Transfer, number: int) -> None:
    """Make what a copy of tables cannot bring: the AGE graph, counts, the revision and the queue."""
    new_number = transfer.new_number(number)
    transfer.writer.execute("SELECT graphrag._queue_removals(%s)", [new_number])
    if value(transfer.writer, "SELECT graphrag._repair_corpus(%s)", [new_number]) is None:
        raise GraphRAGError(
            f'corpus "{transfer.corpus.name_of(number)}" has damaged rows',
            sqlstate="XX001",
            hint="SELECT * FROM graphrag.check(corpus) there names them.",
        )
    kinds = (
        "SELECT DISTINCT j.kind FROM graphrag.jobs j"
        " WHERE j.document_id IS NULL AND j.corpus_id = %s AND j.kind = ANY (%s)"
    )
    queued = [row[0] for row in transfer.reader.execute(kinds, [number, list(_CORPUS_JOBS)]).fetchall()]
    hashes = "SELECT EXISTS (SELECT FROM graphrag.community_reports r WHERE r.corpus_id = %s AND r.input_hash = '')"
    if value(transfer.writer, hashes, [new_number]):
        queued.append("reports")
    for kind in queued:
        transfer.writer.execute("SELECT graphrag._queue_jobs(%s, ARRAY[%s]::int[])", [kind, new_number])


def _left_out(transfer: Transfer) -> list[str]:
    """Return sentences on what is not copied."""
    notes = []
    tables = value(
        transfer.reader,
        "SELECT pg_catalog.string_agg(pg_catalog.format('%%I.%%I', a.schema_name, a.table_name), ', ' ORDER BY a.id)"
        "  FROM graphrag._attached_tables a WHERE a.corpus_id = ANY (%s)",
        [transfer.corpus.ids],
    )
    if tables is not None:
        notes.append(f"attach these tables again, where they are; their documents are there: {tables}")
    sent = "SELECT pg_catalog.count(*) FROM graphrag.llm_batch_requests r WHERE r.state = 'sent' AND r.corpus_id = ANY (%s)"
    if count := value(transfer.reader, sent, [transfer.corpus.ids]):
        notes.append(f"{count} requests in batches at endpoints were left out: the copy asks again")
    return notes


def _sections(
    connection: psycopg.Connection[Any], cursor: Cursor, name: str, has_extension: bool
) -> dict[str, tuple[Any, ...]]:
    """Return what the fingerprint of a corpus is made of; without Apache AGE's graph, which is made of it."""
    if has_extension:
        rows = cursor.execute(
            "SELECT section, row_count, hash FROM graphrag.fingerprint_sections(%s)", [name]
        ).fetchall()
    else:
        rows = process_of(connection).call("fingerprint_sections", {"corpus": name})
    return {row[0]: row[1:] for row in rows if not row[0].startswith("graph: ")}


def _check_equal(original: Mapping[str, Any], copied: Mapping[str, Any], name: str) -> None:
    if different := sorted(section for section in original if original[section] != copied.get(section)):
        raise GraphRAGError(
            f'the copy of corpus "{name}" is not what the source has: {", ".join(different)}',
            sqlstate="XX001",
            hint="In the source, SELECT graphrag.repair(); mends what came past the triggers; graphrag.check(corpus) names the"
            " rest.",
        )
