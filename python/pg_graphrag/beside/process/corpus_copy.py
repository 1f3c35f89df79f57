"""A copy of one corpus in another database, beside the corpora that it has, while both are read and written.

One snapshot of the source, one transaction of the target. Rows get numbers of the target, in the order that they have: ties
that go by a number come out alike. As in a restore the triggers of the target see the rows, and no table is locked: writers of
other corpora go on. Who sees the corpus is put in force at the end, under the lock that protect() and grant_corpus() take.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb

from pg_graphrag.beside.process.copying import RELATIONS, Cursor, check_policies, check_version, copy_rows, qualified
from pg_graphrag.beside.process.found_corpus import FoundCorpus, Relations, bounds, edge_ends, int64s
from pg_graphrag.beside.process.host import process_of
from pg_graphrag.beside.process.numbers import ITEMS, Renumbering
from pg_graphrag.beside.process.routines import dumped
from pg_graphrag.beside.process.schema import check_owner
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.operate.admin.corpus_changes import check_name

# Made by steps of their own, or not at all: attachments are triggers on the application's tables, a batch at an endpoint is
# read by who sent it, and revisions are the database's.
_APART = {
    "corpora",
    "providers",
    "embedding_spaces",
    "corpus_grants",
    "bm25_segments",
    "community_states",
    "documents",
    "_attached_tables",
    "corpus_revisions",
    "llm_batches",
}
_VALUES = {
    ("documents", "attached_id"): "NULL::int",
    ("jobs", "lease"): "NULL::int",
    ("llm_batch_requests", "batch_id"): "NULL::bigint",
    # It says what numbers stand for, which are others now: the next job of reports makes it anew, as of imported ones.
    (
        "community_reports",
        "input_hash",
    ): "CASE WHEN (SELECT c.report_due FROM graphrag.communities c WHERE c.id = x.community_id)"
    " THEN x.input_hash ELSE '' END",
}
# Kinds of jobs of a whole corpus that come along; the others are of attached tables, batches and what repair() queues.
_CORPUS_JOBS = ("optimize", "summarize", "describe", "reembed", "communities", "reports")
# Numbers that others take between the two halves of a reservation lie in this gap.
_GAP = 1_000_000
# Seconds for which the end waits for those who hold documents.
_PATIENCE = 300.0


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
        _prepare(writer)
        has_extension = check_version(writer)
        # One copy at a time, and before the source is read: both may be one database. Writers of corpora go on.
        writer.execute("LOCK TABLE graphrag.corpora IN SHARE UPDATE EXCLUSIVE MODE")
        with _transaction(source) as reader:
            # Rows that a policy would hide are an error.
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            _prepare(reader)
            reader.execute("SET LOCAL row_security = off")
            source_has_extension = check_version(reader)
            check_policies(reader, writer)
            found = FoundCorpus.read(reader, name)
            for given in (new_name, history_name):
                if given is not None:
                    check_name(given)
            names = found.names(new_name, history_name)
            _check_names(writer, names)
            chosen = _choose_providers(reader, writer, found, providers or {})
            relations = [
                (relation.removeprefix("graphrag."), columns)
                for relation, kind, columns in writer.execute(RELATIONS, [[x for x, _ in dumped()]]).fetchall()
                if kind == "r"
            ]
            numbers = _reserve(reader, writer, found, relations)
            copied = _Copying(reader, writer, found, names, chosen, numbers, has_extension)
            copied.make_corpora()
            for table, columns in _ordered(relations):
                copied.copy_table(table, columns)
            copied.finish()
            for number, new_number in numbers.maps["corpora"].items():
                copied.repair(number, new_number)
                _check_equal(
                    _sections(source, reader, found.name_of(number), source_has_extension),
                    _sections(target, writer, names[number], has_extension),
                    names[number],
                )
            grants = copied.grants()
        copied.open(grants)
        return CorpusCopy(copied.count(), copied.notes)


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


def _prepare(cursor: Cursor) -> None:
    cursor.execute("SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)")
    check_owner(cursor)


def _check_names(writer: Cursor, names: Mapping[int, str]) -> None:
    given = list(names.values())
    taken = writer.execute("SELECT c.name FROM graphrag.corpora c WHERE c.name = ANY (%s)", [given]).fetchone()
    if taken is not None or len(set(given)) < len(given):
        name = given[0] if taken is None else taken[0]
        raise GraphRAGError(
            f'database "{writer.connection.info.dbname}" has a corpus "{name}" already',
            sqlstate="42710",
            hint="Give another name with --as NAME; of a history with --history-as NAME.",
        )


def _providers_in(options: Any) -> Iterator[str]:
    """Yield the providers that options name, as drop_provider() finds them."""
    if isinstance(options, dict):
        for key, value in options.items():
            if key == "provider" and isinstance(value, str):
                yield value
            else:
                yield from _providers_in(value)
    elif isinstance(options, list):
        for value in options:
            yield from _providers_in(value)


def _renamed(options: Any, chosen: Mapping[str, str]) -> Any:
    if isinstance(options, dict):
        return {
            key: chosen.get(value, value) if key == "provider" and isinstance(value, str) else _renamed(value, chosen)
            for key, value in options.items()
        }
    return [_renamed(value, chosen) for value in options] if isinstance(options, list) else options


_PROVIDERS = """
SELECT p.name, (p.kind, p.base_url, p.api_key_env, p.api_key_file, p.options)::text, p.kind, p.base_url, p.options::text,
       p.api_key_env IS NOT NULL OR p.api_key_file IS NOT NULL
  FROM graphrag.providers p WHERE p.name = ANY (%s) ORDER BY p.name
"""


def _choose_providers(reader: Cursor, writer: Cursor, found: FoundCorpus, given: Mapping[str, str]) -> dict[str, str]:
    """Return the provider of the target for each that the corpus names. One without a key is made where there is none."""
    used = {name for row in found.corpora for name in _providers_in(row["options"])} | {
        space[2] for space in found.spaces
    }
    here = {row[0]: row[1:] for row in reader.execute(_PROVIDERS, [sorted(used)]).fetchall()}
    if unknown := sorted(given.keys() - here.keys()):
        raise GraphRAGError(
            f'corpus "{found.corpora[0]["name"]}" names no provider "{unknown[0]}"',
            sqlstate="42704",
            hint=f"It names {', '.join(here)}." if here else "It names none: leave out --provider.",
        )
    chosen = {name: given.get(name, name) for name in here}
    there = {row[0]: row[1:] for row in writer.execute(_PROVIDERS, [sorted(chosen.values())]).fetchall()}
    for name, (definition, kind, base_url, options, has_key) in here.items():
        other = chosen[name]
        if other in there:
            if there[other][1] != kind or (name not in given and there[other][0] != definition):
                raise GraphRAGError(
                    f'provider "{other}" of database "{writer.connection.info.dbname}" is not what "{name}" is in the source',
                    sqlstate="42710",
                    hint=f"--provider {name}={other} takes it all the same, --provider {name}=OTHER another of its kind.",
                )
        elif name in given or has_key:
            # A definition from elsewhere must not send a key or file of this server anywhere.
            raise GraphRAGError(
                f'database "{writer.connection.info.dbname}" has no provider "{other}"',
                sqlstate="42704",
                hint=f"Make it there: SELECT graphrag.set_provider('{other}', '{kind}', '{base_url}', …). Keys are its server's.",
            )
        else:
            writer.execute(
                "INSERT INTO graphrag.providers (name, kind, base_url, options) VALUES (%s, %s, %s, %s::jsonb)",
                [other, kind, base_url, options],
            )
    return chosen


def _ordered(relations: Relations) -> Iterator[tuple[str, list[str]]]:
    """Yield the tables as rows refer to each other; last what locks documents, pictures first, whose numbers documents hash."""
    columns = dict(relations)
    last = [(table, columns.pop(table)) for table in ("pictures", "documents", "jobs")]
    yield from columns.items()
    yield from last


def _reserve(reader: Cursor, writer: Cursor, found: FoundCorpus, relations: Relations) -> Renumbering:
    """Take as many numbers of the target as the corpus spans: others go on with those behind. Lost where the copy fails."""
    numbers = Renumbering()
    for domain in ("corpora", "embedding_spaces"):
        old = found.ids if domain == "corpora" else [space[0] for space in found.spaces]
        numbers.maps[domain] = {
            number: _one(writer, f"SELECT pg_catalog.nextval('graphrag.{domain}_id_seq')::int") for number in old
        }
    for domain, (low, high) in bounds(reader, found, relations).items():
        if domain in numbers.maps:
            continue
        last = _one(
            writer,
            f"SELECT pg_catalog.setval('graphrag.{domain}_id_seq', greatest(pg_catalog.nextval('graphrag.{domain}_id_seq'),"
            f" (SELECT pg_catalog.max(x.id) FROM graphrag.{domain} x)) + {_GAP + high - low + 1})",
        )
        numbers.shifts[domain] = last - high
    return numbers


def _one(cursor: Cursor, statement: str, values: Any = None) -> Any:
    row = cursor.execute(statement.encode(), values).fetchone()
    assert row is not None
    return row[0]


class _Copying:
    """The copy under way: the rows of the corpora of `found`, with other names, providers and numbers."""

    def __init__(
        self,
        reader: Cursor,
        writer: Cursor,
        found: FoundCorpus,
        names: Mapping[int, str],
        providers: Mapping[str, str],
        numbers: Renumbering,
        has_extension: bool,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._found, self._names, self._providers, self._numbers = found, names, providers, numbers
        self._has_extension = has_extension
        self.notes: list[str] = []

    def make_corpora(self) -> None:
        """Make the corpora and their spaces. They get their protection at the end: nobody sees them before."""
        for row in self._found.corpora:
            options = _renamed(row["options"], self._providers)
            if not self._has_extension and options.get("cypher"):
                del options["cypher"]
            self._writer.execute(
                "INSERT INTO graphrag.corpora (id, name, options, tokenizer, tokenizer_fingerprint, created_at)"
                " VALUES (%s, %s, %s, %s, %s, %s)",
                [
                    self._numbers.maps["corpora"][row["id"]],
                    self._names[row["id"]],
                    Jsonb(options),
                    row["tokenizer"],
                    row["tokenizer_fingerprint"],
                    row["created_at"],
                ],
            )
        # The shared tables have all vectors first: spaces get tables of their own when they are indexed.
        for number, corpus, provider, *rest in self._found.spaces:
            self._writer.execute(
                "INSERT INTO graphrag.embedding_spaces (id, corpus_id, provider, model, dimensions, state, created_at)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s)",
                [
                    self._numbers.maps["embedding_spaces"][number],
                    self._numbers.maps["corpora"][corpus],
                    self._providers.get(provider, provider),
                    *rest,
                ],
            )

    def copy_table(self, table: str, columns: list[str]) -> None:
        """Copy the rows of a table that are of the corpora."""
        if table == "documents":
            self._copy_documents(columns)
        elif table == "bm25_segments":
            self._copy_segments(columns)
        elif table == "community_states":
            self._copy_states(columns)
        elif table == "jobs":
            self._copy_failures(columns)
        elif table not in _APART:
            self._copy(table, columns)

    def _values(self, table: str, columns: list[str]) -> str:
        return ", ".join(self._value(table, column) for column in columns)

    def _value(self, table: str, column: str) -> str:
        if (table, column) == ("documents", "corpus"):
            cases = " ".join(
                f"WHEN {number} THEN {sql.Literal(name).as_string(self._reader)}"
                for number, name in self._names.items()
            )
            return f"(CASE x.corpus_id {cases} END)::text"
        if (table, column) == ("documents", "version_of") and self._found.is_history:
            return "NULL::bigint"
        return _VALUES.get((table, column)) or self._numbers.column(table, column)

    def _copy(self, table: str, columns: list[str], *, to: str | None = None, condition: str = "true") -> None:
        query = (
            f"SELECT {self._values(table, columns)} FROM graphrag.{table} x"
            f" WHERE {self._found.condition(table, columns)} AND {condition}"
        )
        copy_rows(self._reader, self._writer, sql.SQL(query), qualified(to or f"graphrag.{table}"), columns)

    def _copy_documents(self, columns: list[str]) -> None:
        """Copy documents. What is indexed of those with pictures is what their hash says, which has the pictures' numbers."""
        self._copy("documents", columns, condition="x.pictures_hash IS NULL")
        has_pictures = "SELECT EXISTS (SELECT FROM graphrag.pictures p WHERE p.corpus_id = ANY (%s))"
        if not _one(self._reader, has_pictures, [self._found.ids]):
            return
        self._writer.execute(
            "CREATE TEMPORARY TABLE pg_temp.graphrag_pictured (LIKE graphrag.documents) ON COMMIT DROP"
        )
        self._copy("documents", columns, to="pg_temp.graphrag_pictured", condition="x.pictures_hash IS NOT NULL")
        others = {
            "pictures_hash": "h.hash",
            "indexed_hash": "CASE WHEN p.indexed_hash = p.content_hash THEN graphrag._content_hash(p.title, p.content, h.hash)"
            " ELSE p.indexed_hash END",
        }
        listed = ", ".join(f'"{column}"' for column in columns)
        selected = ", ".join(others.get(column, f'p."{column}"') for column in columns)
        self._writer.execute(
            f"INSERT INTO graphrag.documents ({listed}) SELECT {selected} FROM pg_temp.graphrag_pictured p"
            " CROSS JOIN LATERAL graphrag._pictures_hash(p.id) AS h (hash) ORDER BY p.id".encode()
        )

    def _copy_segments(self, columns: list[str]) -> None:
        shifts = self._numbers.shifts
        with self._reader.connection.cursor("graphrag_segments", row_factory=psycopg.rows.dict_row) as segments:
            segments.itersize = 1
            query = f"SELECT {self._listed('bm25_segments', columns)} FROM graphrag.bm25_segments x"
            for row in segments.execute(f"{query} WHERE x.corpus_id = ANY (%s)".encode(), [self._found.ids]):
                for column, domain in (("item_ids", ITEMS[row["kind"]]), ("document_ids", "documents")):
                    row[column] = _shifted(row[column], shifts.get(domain, 0))
                self._insert("bm25_segments", row)

    def _copy_states(self, columns: list[str]) -> None:
        """Copy what the last refresh of communities saw. Where nothing has changed since, nothing has in the copy."""
        query = (
            f"SELECT {self._listed('community_states', columns)},"
            " coalesce((SELECT r.revision >= x.revision FROM graphrag.corpus_revisions r WHERE r.corpus_id = x.corpus_id), true)"
            " FROM graphrag.community_states x WHERE x.corpus_id = ANY (%s)"
        )
        for *values, is_behind in self._reader.execute(query.encode(), [self._found.ids]).fetchall():
            row = dict(zip(columns, values, strict=True))
            ends = edge_ends(row["edges"], row["edge_count"])
            row["edges"] = _shifted(ends, self._numbers.shifts.get("entities", 0)) + row["edges"][len(ends) :]
            row["settings"] = Jsonb(row["settings"])
            if row["revision"] is not None:
                # The rows of the copy are of this transaction.
                later = f"SELECT (pg_catalog.pg_current_xact_id()::text::bigint + {int(not is_behind)})::text"
                row["revision"] = _one(self._writer, later)
            self._insert("community_states", row)

    def _listed(self, table: str, columns: list[str]) -> str:
        return ", ".join(
            f'{self._value(table, column)}{"::text" if column == "revision" else ""} AS "{column}"'
            for column in columns
        )

    def _insert(self, table: str, row: Mapping[str, Any]) -> None:
        marks = ", ".join(f"%s{'::xid8' if column == 'revision' else ''}" for column in row)
        listed = ", ".join(f'"{column}"' for column in row)
        self._writer.execute(f"INSERT INTO graphrag.{table} ({listed}) VALUES ({marks})".encode(), list(row.values()))

    def _copy_failures(self, columns: list[str]) -> None:
        """Copy jobs that failed in place of those that the documents' triggers have queued."""
        failed = f"SELECT {self._value('jobs', 'document_id')} FROM graphrag.jobs x"
        condition = self._found.condition("jobs", columns)
        ids = [row[0] for row in self._reader.execute(f"{failed} WHERE {condition}".encode()).fetchall()]
        self._writer.execute("DELETE FROM graphrag.jobs j WHERE j.document_id = ANY (%s)", [ids])
        self._copy("jobs", columns)
        # An INSERT makes what failed pending.
        errors = self._reader.execute(
            f"SELECT {self._value('documents', 'id')}, x.error FROM graphrag.documents x"
            " WHERE x.corpus_id = ANY (%s) AND x.status = 'failed'".encode(),
            [self._found.ids],
        ).fetchall()
        self._writer.execute(
            "UPDATE graphrag.documents d SET status = 'failed', error = u.error"
            "  FROM ROWS FROM (pg_catalog.unnest(%s::bigint[]), pg_catalog.unnest(%s::text[])) AS u (id, error)"
            " WHERE d.id = u.id",
            [[number for number, _ in errors], [error for _, error in errors]],
        )

    def finish(self) -> None:
        """Bring what was imported to the documents that it is of, and note what was left out."""
        if _one(self._writer, "SELECT pg_catalog.to_regclass('pg_temp.graphrag_pictured') IS NOT NULL"):
            self._writer.execute(
                "UPDATE graphrag.imported_extractions i SET content_hash = d.content_hash"
                "  FROM pg_temp.graphrag_pictured p JOIN graphrag.documents d ON d.id = p.id"
                " WHERE i.document_id = p.id AND i.content_hash = p.content_hash"
            )
        tables = _one(
            self._reader,
            "SELECT pg_catalog.string_agg(pg_catalog.format('%%I.%%I', a.schema_name, a.table_name), ', ' ORDER BY a.id)"
            "  FROM graphrag._attached_tables a WHERE a.corpus_id = ANY (%s)",
            [self._found.ids],
        )
        if tables is not None:
            self.notes.append(f"attach these tables again, where they are; their documents are there: {tables}")
        sent = "SELECT pg_catalog.count(*) FROM graphrag.llm_batch_requests r WHERE r.state = 'sent' AND r.corpus_id = ANY (%s)"
        if count := _one(self._reader, sent, [self._found.ids]):
            self.notes.append(f"{count} requests in batches at endpoints were left out: the copy asks again")

    def repair(self, number: int, new_number: int) -> None:
        """Make what a copy of tables cannot bring: the AGE graph, counts, the revision and the queue."""
        self._writer.execute("SELECT graphrag._queue_removals(%s)", [new_number])
        if _one(self._writer, "SELECT graphrag._repair_corpus(%s)", [new_number]) is None:
            raise GraphRAGError(
                f'corpus "{self._found.name_of(number)}" has damaged rows',
                sqlstate="XX001",
                hint="SELECT * FROM graphrag.check(corpus) there names them.",
            )
        kinds = (
            "SELECT DISTINCT j.kind FROM graphrag.jobs j"
            " WHERE j.document_id IS NULL AND j.corpus_id = %s AND j.kind = ANY (%s)"
        )
        queued = [row[0] for row in self._reader.execute(kinds, [number, list(_CORPUS_JOBS)]).fetchall()]
        hashes = "SELECT EXISTS (SELECT FROM graphrag.community_reports r WHERE r.corpus_id = %s AND r.input_hash = '')"
        if _one(self._writer, hashes, [new_number]):
            queued.append("reports")
        for kind in queued:
            self._writer.execute("SELECT graphrag._queue_jobs(%s, ARRAY[%s]::int[])", [kind, new_number])

    def open(self, grants: list[tuple[Any, ...]]) -> None:
        """Put in force who sees the corpora, last of all: it locks the documents of all corpora."""
        protections = {row["id"]: row["protection"] for row in self._found.corpora if row["protection"] is not None}
        if not grants and not protections:
            return
        waited_until = time.monotonic() + _PATIENCE
        while True:
            try:
                with self._writer.connection.transaction():
                    self._enforce(grants, protections)
                return
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                if time.monotonic() > waited_until:
                    raise

    def grants(self) -> list[tuple[Any, ...]]:
        """Return the grants of roles that the target has; note the others."""
        condition = dict(dumped())["graphrag.corpus_grants"].replace("WHERE", "AND", 1)
        grants = self._reader.execute(
            "SELECT corpus_id, role, level, granted_by, granted_at FROM graphrag.corpus_grants"
            f" WHERE corpus_id = ANY (%s) {condition} ORDER BY 1, 2, 3".encode(),
            [self._found.ids],
        ).fetchall()
        known = "SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.rolname = ANY (%s)"
        roles = {row[0] for row in self._writer.execute(known, [[grant[1] for grant in grants]]).fetchall()}
        if unknown := sorted({grant[1] for grant in grants} - roles):
            self.notes.append(f"grants of roles that are not there were left out: {', '.join(unknown)}")
        return [grant for grant in grants if grant[1] in roles]

    def _enforce(self, grants: list[tuple[Any, ...]], protections: Mapping[int, str]) -> None:
        self._writer.execute("SELECT graphrag._lock_grants()")
        for number, role, level, *rest in grants:
            self._writer.execute("SELECT graphrag._grant_group(%s, %s)", [role, level])
            self._writer.execute(
                "INSERT INTO graphrag.corpus_grants (corpus_id, role, level, granted_by, granted_at) VALUES (%s, %s, %s, %s, %s)",
                [self._numbers.maps["corpora"][number], role, level, *rest],
            )
        for number, condition in protections.items():
            new_number = self._numbers.maps["corpora"][number]
            self._writer.execute("UPDATE graphrag.corpora SET protection = %s WHERE id = %s", [condition, new_number])
            try:
                self._writer.execute("SELECT graphrag._enforce(%s, %s)", [new_number, condition])
            except (psycopg.errors.SyntaxErrorOrAccessRuleViolation, psycopg.DataError) as error:
                raise GraphRAGError(
                    f'the condition of corpus "{self._names[number]}" cannot be put in force: {error.diag.message_primary}',
                    sqlstate=error.sqlstate or "42601",
                    hint="Make what it names in the target first: SELECT name, protection FROM graphrag.corpora shows it.",
                ) from error

    def count(self) -> int:
        """Return the number of documents of the corpus, without those of its history."""
        number = self._numbers.maps["corpora"][self._found.ids[0]]
        return int(
            _one(self._writer, "SELECT pg_catalog.count(*) FROM graphrag.documents d WHERE d.corpus_id = %s", [number])
        )


def _shifted(packed: bytes, by: int) -> bytes:
    return (int64s(packed) + by).astype("<i8").tobytes()


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


def _check_equal(here: Mapping[str, Any], there: Mapping[str, Any], name: str) -> None:
    if different := sorted(section for section in here if here[section] != there.get(section)):
        raise GraphRAGError(
            f'the copy of corpus "{name}" is not what the source has: {", ".join(different)}',
            sqlstate="XX001",
            hint="In the source, SELECT graphrag.repair(); mends what came past the triggers; graphrag.check(corpus) names the"
            " rest.",
        )
