"""Copies the rows of a corpus table by table, with the target's names and numbers."""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from pg_graphrag.beside.process.copying import Cursor, check_version, copy_rows, qualified, value
from pg_graphrag.beside.process.corpus_copy.providers import choose_providers, renamed
from pg_graphrag.beside.process.corpus_copy.reservation import reserve
from pg_graphrag.beside.process.corpus_copy.row_numbers import ITEMS, edge_ends, shifted
from pg_graphrag.beside.process.corpus_copy.source_corpus import Relations, SourceCorpus
from pg_graphrag.beside.process.corpus_copy.transfer import Transfer

# Tables with steps of their own, or left out: attachments are triggers on the application's tables, a batch at an
# endpoint is read by its sender, revisions belong to the database, nodes to no corpus.
APART = {
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
    "nodes",
    "placements",
}
_VALUES = {
    ("documents", "attached_id"): "NULL::int",
    ("jobs", "lease"): "NULL::int",
    ("llm_batch_requests", "batch_id"): "NULL::bigint",
    # It contains numbers, which are different now: the next job of reports makes it again, as for imported reports.
    (
        "community_reports",
        "input_hash",
    ): "CASE WHEN (SELECT c.report_due FROM graphrag.communities c WHERE c.id = x.community_id)"
    " THEN x.input_hash ELSE '' END",
}


def ordered(relations: Relations) -> Iterator[tuple[str, list[str]]]:
    """Yield the tables as rows refer to each other; last what locks documents, pictures first, whose numbers documents hash."""
    columns = dict(relations)
    last = [(table, columns.pop(table)) for table in ("pictures", "documents", "jobs")]
    yield from columns.items()
    yield from last


def copy_corpus_rows(
    reader: Cursor,
    writer: Cursor,
    corpus: SourceCorpus,
    relations: Relations,
    names: Mapping[int, str],
    providers: Mapping[str, str],
    *,
    room: int = 0,
) -> "RowCopy":
    """Copy the rows of a corpus, under numbers of the target and these `names`; `room` as in `reserve`.

    `providers`: {provider of the source: provider of the target}.
    """
    chosen = choose_providers(reader, writer, corpus, providers)
    numbers = reserve(reader, writer, corpus, relations, room=room)
    rows = RowCopy(Transfer(reader, writer, corpus, names, chosen, numbers))
    rows.make_corpora(with_cypher=check_version(writer))
    for table, columns in ordered(relations):
        rows.copy_table(table, columns)
    return rows


class RowCopy:
    """The copy of the rows of a corpus."""

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self._reader, self._writer = transfer.reader, transfer.writer
        self._corpus, self._numbers = transfer.corpus, transfer.numbers

    def make_corpora(self, *, with_cypher: bool) -> None:
        """Make the corpora and their spaces. They get their protection at the end: nobody sees them before."""
        for row in self._corpus.corpora:
            self._writer.execute(
                "INSERT INTO graphrag.corpora (id, name, options, tokenizer, tokenizer_fingerprint, created_at, needs_reindex)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s)",
                [
                    self.transfer.new_number(row["id"]),
                    self.transfer.names[row["id"]],
                    self.options_of(row, with_cypher=with_cypher),
                    row["tokenizer"],
                    row["tokenizer_fingerprint"],
                    row["created_at"],
                    row["needs_reindex"],
                ],
            )
        # The shared tables have all vectors first: spaces get tables of their own when they are indexed.
        for space in self._corpus.spaces:
            self.make_space(space)

    def make_space(self, space: tuple[Any, ...]) -> None:
        """Make an embedding space like one that is in use."""
        number, corpus, provider, *rest = space
        self._writer.execute(
            "INSERT INTO graphrag.embedding_spaces (id, corpus_id, provider, model, dimensions, state, created_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [
                self._numbers.maps["embedding_spaces"][number],
                self.transfer.new_number(corpus),
                self.transfer.providers.get(provider, provider),
                *rest,
            ],
        )

    def options_of(self, row: Mapping[str, Any], *, with_cypher: bool) -> Jsonb:
        """Return the options of a corpus in the copy."""
        options = renamed(row["options"], self.transfer.providers)
        if not with_cypher and options.get("cypher"):
            del options["cypher"]
        return Jsonb(options)

    def copy_table(self, table: str, columns: list[str]) -> None:
        """Copy the rows of a table that belong to the corpora."""
        if table == "documents":
            self._copy_documents(columns)
        elif table == "bm25_segments":
            self._copy_segments(columns)
        elif table == "community_states":
            self._copy_states(columns)
        elif table == "jobs":
            self._copy_failures(columns)
        elif table not in APART:
            self._copy(table, columns)

    def _values(self, table: str, columns: list[str]) -> str:
        return ", ".join(self._value(table, column) for column in columns)

    def _value(self, table: str, column: str) -> str:
        if (table, column) == ("documents", "corpus"):
            cases = " ".join(
                f"WHEN {number} THEN {sql.Literal(name).as_string(self._reader)}"
                for number, name in self.transfer.names.items()
            )
            return f"(CASE x.corpus_id {cases} END)::text"
        if (table, column) == ("documents", "version_of") and self._corpus.is_history:
            return "NULL::bigint"
        return _VALUES.get((table, column)) or self._numbers.column(table, column)

    def _copy(self, table: str, columns: list[str], *, to: str | None = None, condition: str = "true") -> int:
        query = (
            f"SELECT {self._values(table, columns)} FROM graphrag.{table} x"
            f" WHERE {self._corpus.condition(table, columns)} AND {condition}"
        )
        return copy_rows(self._reader, self._writer, sql.SQL(query), qualified(to or f"graphrag.{table}"), columns)

    def _copy_documents(self, columns: list[str]) -> None:
        """Copy documents. The hash of a document with pictures contains their numbers, so its indexed hash is made again."""
        self._copy("documents", columns, condition="x.pictures_hash IS NULL")
        has_pictures = "SELECT EXISTS (SELECT FROM graphrag.pictures p WHERE p.corpus_id = ANY (%s))"
        if not value(self._reader, has_pictures, [self._corpus.ids]):
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
        # An import belongs to the content with this hash.
        self._writer.execute(
            "UPDATE graphrag.imported_extractions i SET content_hash = d.content_hash"
            "  FROM pg_temp.graphrag_pictured p JOIN graphrag.documents d ON d.id = p.id"
            " WHERE i.document_id = p.id AND i.content_hash = p.content_hash"
        )

    def _copy_segments(self, columns: list[str], *, condition: str = "true") -> None:
        shifts = self._numbers.shifts
        with self._reader.connection.cursor("graphrag_segments", row_factory=psycopg.rows.dict_row) as segments:
            segments.itersize = 1
            query = f"SELECT {self._listed('bm25_segments', columns)} FROM graphrag.bm25_segments x"
            query += f" WHERE x.corpus_id = ANY (%s) AND {condition}"
            for row in segments.execute(query.encode(), [self._corpus.ids]):
                for column, domain in (("item_ids", ITEMS[row["kind"]]), ("document_ids", "documents")):
                    row[column] = shifted(row[column], shifts.get(domain, 0))
                self._insert("bm25_segments", row)

    def _copy_states(self, columns: list[str]) -> None:
        """Copy what the last refresh of communities saw. Where nothing has changed since, nothing has in the copy."""
        query = (
            f"SELECT {self._listed('community_states', columns)},"
            " coalesce((SELECT r.revision >= x.revision FROM graphrag.corpus_revisions r WHERE r.corpus_id = x.corpus_id), true)"
            " FROM graphrag.community_states x WHERE x.corpus_id = ANY (%s)"
        )
        for *values, is_behind in self._reader.execute(query.encode(), [self._corpus.ids]).fetchall():
            row = dict(zip(columns, values, strict=True))
            ends = edge_ends(row["edges"], row["edge_count"])
            row["edges"] = shifted(ends, self._numbers.shifts.get("entities", 0)) + row["edges"][len(ends) :]
            row["settings"] = Jsonb(row["settings"])
            if row["revision"] is not None:
                row["revision"] = self.first_transaction() if is_behind else self._next_transaction(1)
            self._insert("community_states", row)

    def first_transaction(self) -> str:
        """Return the number of the transaction that wrote the first rows."""
        return self._next_transaction(0)

    def _next_transaction(self, after: int) -> str:
        """Return the number of this transaction, or of one `after` it."""
        number = f"SELECT (pg_catalog.pg_current_xact_id()::text::bigint + {after})::text"
        return str(value(self._writer, number))

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
        """Copy failed jobs in place of the jobs that the documents' triggers have queued."""
        failed = f"SELECT {self._value('jobs', 'document_id')} FROM graphrag.jobs x"
        condition = self._corpus.condition("jobs", columns)
        ids = [row[0] for row in self._reader.execute(f"{failed} WHERE {condition}".encode()).fetchall()]
        self._writer.execute("DELETE FROM graphrag.jobs j WHERE j.document_id = ANY (%s)", [ids])
        self._copy("jobs", columns)
        # An INSERT makes what failed pending.
        errors = self._reader.execute(
            f"SELECT {self._value('documents', 'id')}, x.error FROM graphrag.documents x"
            " WHERE x.corpus_id = ANY (%s) AND x.status = 'failed'".encode(),
            [self._corpus.ids],
        ).fetchall()
        self._writer.execute(
            "UPDATE graphrag.documents d SET status = 'failed', error = u.error"
            "  FROM ROWS FROM (pg_catalog.unnest(%s::bigint[]), pg_catalog.unnest(%s::text[])) AS u (id, error)"
            " WHERE d.id = u.id",
            [[number for number, _ in errors], [error for _, error in errors]],
        )
