"""The rows of a corpus that came, changed or went in the source since a target got the others: brought, and compared.

Why equal fingerprints before, and equal changes since, are equal fingerprints after. A round gives the target what the source's
snapshot has, under the source's keys and one renumbering. After a round that compares fingerprints, all that they read is equal
on both sides. In the next round a row of a table is of one of these kinds:

- Neither side has written it since: it is equal, as it was.
- The source has: the row was sent, and the target's is compared with what was sent, column by column.
- The target alone has: only rounds write there, so somebody else did, and the fingerprints are compared again. Documents are
  compared with the source's instead, as each round notes failures anew; so are segments, whose packed numbers SQL does not read.
- It is on one side alone: then number or hash of the keys of its group differ, and the fingerprints are compared again.

So each row is equal again, and with the rows what is made of them. Hashes of keys have 64 bits: they are against faults and
mistakes.

The last round has each table read twice in the source, once for what is newer and once for its keys, and once in the target: as
little as finds out what went, and whether somebody else wrote. Parallel queries do it where the server has processors for them.
"""

from collections.abc import Mapping
from dataclasses import replace

from psycopg import sql

from pg_graphrag.beside.process.copying import Cursor, copy_rows, qualified, value
from pg_graphrag.beside.process.corpus_copy.rows import APART, RowCopy, ordered
from pg_graphrag.beside.process.corpus_copy.source_corpus import Relations
from pg_graphrag.beside.process.corpus_copy.transfer import Transfer
from pg_graphrag.beside.process.corpus_move.marks import Arrival

# Tables without a primary key, with the columns that identify their rows.
_KEYS = {
    "entity_values": ["entity_id", "kind", "value"],
    "relationship_values": ["relationship_id", "kind", "value"],
    "window_vectors": ["space_id", "window_id"],
    "entity_vectors": ["space_id", "entity_id"],
    "entity_mention_vectors": ["space_id", "mention_id"],
    "relationship_mention_vectors": ["space_id", "mention_id"],
}
_PRIMARY_KEYS = """
SELECT c.relname::text, ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(x.conkey) WITH ORDINALITY AS k (number, place)
                                JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number ORDER BY k.place)
  FROM pg_catalog.pg_constraint x
  JOIN pg_catalog.pg_class c ON c.oid = x.conrelid AND c.relnamespace = 'graphrag'::pg_catalog.regnamespace
 WHERE x.contype = 'p'
"""
# Rows of others refer to these: they are changed in their place. The rest is deleted and written again.
_KEPT = {"chunks", "entities", "relationships", "communities", "community_reports", "curations"}
# By steps of their own, or with them.
_APART = APART | {"pictures", "jobs", "_histories"}
# If the key has no index: columns that have one and are constant for a key.
_INDEXED = {"window_vectors": ["space_id", "chunk_id", "window_id"]}
# Keys are compared by sums over so many groups; the keys of a differing group are sent.
_GROUPS = 1024
# For a table, by group: the number of rows, and the sum of the hashes of their keys.
KeySums = dict[int, tuple[int, int]]
# What a fingerprint has of rows that differ in numbers and hashes that are made of them.
_LINES = {
    "documents": """x.source_key, x.title, x.content, x.indexed_hash = x.content_hash, x.status, x.metadata::text,
        pg_catalog.date_part('epoch', x.valid_from), pg_catalog.date_part('epoch', x.valid_to),
        pg_catalog.date_part('epoch', x.retracted_at), x.retraction_reason""",
    "bm25_segments": "x.kind, x.item_count, x.total_length, pg_catalog.md5(x.lengths)",
}
_IS_KNOWN = "SELECT %s::xid8 <= pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())"


class RowChanges(RowCopy):
    """The rows of a corpus that changed since the last round, brought to the target.

    The renumbering of the first round holds for later rows too. Meanwhile nobody else reads or writes the corpus in the
    target.

    `sums_before`: by table, of the target's keys after the round before, if this process did it.
    """

    def __init__(
        self, transfer: Transfer, relations: Relations, arrival: Arrival, sums_before: Mapping[str, KeySums]
    ) -> None:
        super().__init__(transfer)
        # Transactions of the target that brought rows, this one last.
        self.written = [*arrival.written, self._next_transaction(0)]
        self._tables = list(ordered(relations))
        keys = dict(self._writer.execute(_PRIMARY_KEYS).fetchall()) | _KEYS
        self._keys = {table: keys[table] for table, _ in self._tables if table not in _APART - {"bm25_segments"}}
        self._keys["documents"] = ["id"]
        # As a restore may have set transactions back.
        self._seen = arrival.seen if value(self._reader, _IS_KNOWN, [arrival.seen]) else None
        is_known = arrival.equal is not None and value(self._writer, _IS_KNOWN, [arrival.written[-1]])
        self._equal = arrival.equal if is_known else None
        self._sums_before = sums_before
        # Sums of the source's keys, by table; after the round, those of the target.
        self.sums: dict[str, KeySums] = {}
        # Tables whose rows were sent.
        self._sent: set[str] = set()
        maps = self._numbers.maps
        self._there = replace(
            self._corpus,
            corpora=[{**row, "id": transfer.new_number(row["id"])} for row in self._corpus.corpora],
            spaces=[(maps["embedding_spaces"][space[0]], *space[1:]) for space in self._corpus.spaces],
        )
        self.count = 0

    def bring(self) -> None:
        """Bring the changes; `count` says then how many rows were written or deleted."""
        columns = dict(self._tables)
        loose = [(table, names) for table, names in self._tables if table not in _APART]
        self._writer.execute(
            "; ".join(
                f"CREATE TEMPORARY TABLE {self._loaded(table)} (LIKE graphrag.{table}) ON COMMIT DROP"
                for table, _ in loose
            ).encode()
        )
        for table, names in loose:
            self._load(table, names)
        # Their history is copied too: the triggers must not make versions of these changes. Pictures go with their
        # documents.
        self._writer.execute("DELETE FROM graphrag._histories h WHERE h.corpus_id = ANY (%s)", [self._there.ids])
        self._delete_gone("documents", columns["documents"])
        self._delete_changed_documents(columns["documents"])
        for table, names in reversed(loose):
            if table != "bm25_postings":  # they go with their segments
                self._delete_gone(table, names)
            if table in self._sent - _KEPT:
                self._delete_loaded(table)
        self._delete_gone("bm25_segments", columns["bm25_segments"])
        self._copy_new_segments(columns["bm25_segments"])
        for table, names in loose:
            self._write(table, names)
        self._copy("pictures", columns["pictures"])
        self._copy_documents(columns["documents"])
        self._writer.execute("DELETE FROM graphrag.community_states s WHERE s.corpus_id = ANY (%s)", [self._there.ids])
        self._copy_states(columns["community_states"])
        super()._copy("_histories", columns["_histories"])
        self._writer.execute("DELETE FROM graphrag.jobs j WHERE j.corpus_id = ANY (%s)", [self._there.ids])

    def are_equal(self) -> bool:
        """Whether the target equals the source, provided that it did after the round before; False if only fingerprints can
        tell.
        """
        return self._equal is not None and all(
            self._has_keys(table, columns)
            and (self._has_lines(table, columns) if table in _LINES else self._has_what_was_sent(table, columns))
            for table, columns in self._tables
            if table in self._keys
        )

    def _has_keys(self, table: str, columns: list[str]) -> bool:
        """Whether the target has the source's keys, and nobody else has written a row since; not for tables of `_LINES`."""
        keys = self._keys[table]
        touched = "false" if table in _LINES else self._is_touched("x")
        of_target = f"SELECT {_listed(keys)}, {touched} AS is_touched FROM graphrag.{table} x"
        of_target += f" WHERE {self._there.condition(table, columns)}"
        rows = self._writer.execute(_sums(of_target, keys, ", pg_catalog.bool_or(k.is_touched)").encode()).fetchall()
        sums = {group: (count, hashes) for group, count, hashes, _ in rows}
        return sums == self._sums_of_source(table, columns) and not any(is_touched for *_, is_touched in rows)

    def _has_what_was_sent(self, table: str, columns: list[str]) -> bool:
        """Whether the target's rows are those that were sent, where any were."""
        if table not in self._sent:
            return True
        key = self._keys[table][0]
        written, sent = (", ".join(f'{row}."{column}"' for column in columns) for row in "xl")
        differ: bool = value(
            self._writer,
            f"SELECT EXISTS (SELECT FROM {self._loaded(table)} l LEFT JOIN graphrag.{table} x ON {self._same(table)}"
            f' WHERE x."{key}" IS NULL OR ROW ({written})::text <> ROW ({sent})::text)',
        )
        return not differ

    def _same(self, table: str) -> str:
        """Return SQL of whether the rows `x` of a table and `l` of the sent rows have the same key."""
        return _same_keys("l", "x", _INDEXED.get(table, self._keys[table]))

    def _has_lines(self, table: str, columns: list[str]) -> bool:
        """Whether rows that somebody has written since, on either side, are the same to a fingerprint."""
        condition = self._there.condition(table, columns)
        touched = f"SELECT x.id FROM graphrag.{table} x WHERE {condition} AND {self._is_touched('x')}"
        ids = [row[0] for row in self._writer.execute(touched.encode()).fetchall()]
        number, line = self._value(table, "id"), f"pg_catalog.md5(ROW ({_LINES[table]})::text)"
        here = f"SELECT {number}, {line} FROM graphrag.{table} x WHERE {self._corpus.condition(table, columns)}"
        here += f" AND ({self._is_changed(table)} OR {number} = ANY (%s))"
        of_source = dict(self._reader.execute(here.encode(), [ids]).fetchall())
        there = f"SELECT x.id, {line} FROM graphrag.{table} x WHERE {condition} AND x.id = ANY (%s)"
        return of_source == dict(self._writer.execute(there.encode(), [[*ids, *of_source]]).fetchall())

    def _is_touched(self, row: str) -> str:
        """Return SQL of whether another transaction than those of the rounds may have written a row of the target since."""
        assert self._equal is not None
        by_rounds = ", ".join(f"'{number}'::pg_catalog.xid8::pg_catalog.xid" for number in self.written)
        return f"({row}.xmin <> ALL (ARRAY[{by_rounds}]) AND {_is_since(row, self._equal)})"

    def _sums_of_source(self, table: str, columns: list[str]) -> KeySums:
        if table not in self.sums:
            self.sums[table] = _read_sums(self._reader, self._keys_here(table, columns), self._keys[table])
        return self.sums[table]

    def _keys_here(self, table: str, columns: list[str]) -> str:
        values = ", ".join(f'{self._value(table, key)} AS "{key}"' for key in self._keys[table])
        return f"SELECT {values} FROM graphrag.{table} x WHERE {self._corpus.condition(table, columns)}"

    def queue(self) -> None:
        """Queue the documents that are due, and copy jobs that failed."""
        self._writer.execute(
            "SELECT graphrag._queue_jobs('index', pg_catalog.array_agg(d.corpus_id), pg_catalog.array_agg(d.id))"
            "  FROM graphrag.documents d"
            " WHERE d.corpus_id = ANY (%s) AND d.indexed_at IS NULL AND d.retracted_at IS NULL",
            [self._there.ids],
        )
        self._copy_failures(dict(self._tables)["jobs"])

    def first_transaction(self) -> str:
        """Return the number of the transaction that wrote the first rows."""
        return self.written[0]

    def _copy(self, table: str, columns: list[str], *, to: str | None = None, condition: str = "true") -> int:
        return super()._copy(table, columns, to=to, condition=f"{condition} AND {self._is_changed(table)}")

    def _is_changed(self, table: str) -> str:
        """Return SQL of whether the row `x`, or the document that it belongs to, may have been written since."""
        if table == "jobs":
            return "true"
        if table == "documents":
            return self._is_newer_document("x")
        if table in ("pictures", "imported_extractions"):
            corpora = ", ".join(map(str, self._corpus.ids))
            return (
                f"({self._is_newer('x')} OR x.document_id IN (SELECT d.id FROM graphrag.documents d"
                f" WHERE d.corpus_id IN ({corpora}) AND {self._is_newer_document('d')}))"
            )
        if table == "community_reports":
            # How a community is copied depends on whether its report is due.
            communities = f"SELECT FROM graphrag.communities c WHERE c.id = x.community_id AND {self._is_newer('c')}"
            return f"({self._is_newer('x')} OR EXISTS ({communities}))"
        return self._is_newer("x")

    def _is_newer_document(self, row: str) -> str:
        parts = " OR ".join(
            f"EXISTS (SELECT FROM graphrag.{table} p WHERE p.document_id = {row}.id AND {self._is_newer('p')})"
            for table in ("pictures", "imported_extractions")
        )
        return f"({self._is_newer(row)} OR {parts})"

    def _is_newer(self, row: str) -> str:
        if self._seen is None:
            return "true"
        return _is_since(row, self._seen)

    @staticmethod
    def _loaded(table: str) -> str:
        return f'pg_temp."graphrag_{table}"'

    def _load(self, table: str, columns: list[str]) -> None:
        """Send the new rows of a table into a temporary table."""
        if self._copy(table, columns, to=f"pg_temp.graphrag_{table}"):
            self._sent.add(table)
            self._writer.execute(f"ANALYZE {self._loaded(table)}".encode())

    def _delete_loaded(self, table: str) -> None:
        same = self._same(table)
        self._writer.execute(f"DELETE FROM graphrag.{table} x USING {self._loaded(table)} l WHERE {same}".encode())

    def _write(self, table: str, columns: list[str]) -> None:
        """Write the rows of a table that were sent."""
        if table not in self._sent:
            return
        listed = _listed(columns)
        statement = f"INSERT INTO graphrag.{table} ({listed}) SELECT {listed} FROM {self._loaded(table)}"
        if table in _KEPT:
            keys = self._keys[table]
            others = ", ".join(f'"{column}" = EXCLUDED."{column}"' for column in columns if column not in keys)
            statement += f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {others}"
        self.count += self._writer.execute(statement.encode()).rowcount

    def _copy_new_segments(self, columns: list[str]) -> None:
        """Copy the segments that are not there: none is ever changed."""
        there = "SELECT s.id FROM graphrag.bm25_segments s WHERE s.corpus_id = ANY (%s)"
        ids = [row[0] for row in self._writer.execute(there, [self._there.ids]).fetchall()]
        number = self._numbers.number("bm25_segments", "x.id")
        self._copy_segments(columns, condition=f"NOT {number} = ANY ('{{{', '.join(map(str, ids))}}}'::bigint[])")

    def _delete_changed_documents(self, columns: list[str]) -> None:
        condition = f"{self._corpus.condition('documents', columns)} AND {self._is_changed('documents')}"
        changed = f"SELECT {self._value('documents', 'id')} FROM graphrag.documents x WHERE {condition}"
        ids = [row[0] for row in self._reader.execute(changed.encode()).fetchall()]
        self._writer.execute("DELETE FROM graphrag.documents d WHERE d.id = ANY (%s)", [ids])
        self.count += len(ids)

    def _sums_to_be(self, table: str, of_target: str) -> KeySums:
        """Return the sums of the target's keys after the sent rows are written; `_has_keys` checks them when everything is
        written.
        """
        keys = self._keys[table]
        before = self._sums_before.get(table)
        if before is None:
            sent = f" UNION SELECT {_listed(keys)} FROM {self._loaded(table)}" if table in self._sent else ""
            return _read_sums(self._writer, of_target + sent, keys)
        if table not in self._sent:
            return before
        new = f"SELECT {_listed(keys)} FROM {self._loaded(table)} l"
        new += f" WHERE NOT EXISTS (SELECT FROM graphrag.{table} x WHERE {self._same(table)})"
        added = _read_sums(self._writer, new, keys)
        return before | {
            group: (before.get(group, (0, 0))[0] + count, before.get(group, (0, 0))[1] ^ hashes)
            for group, (count, hashes) in added.items()
        }

    def _delete_gone(self, table: str, columns: list[str]) -> None:
        """Delete the rows that the source has no more."""
        keys = self._keys[table]
        here, listed = self._keys_here(table, columns), _listed(keys)
        of_target = f"SELECT {listed} FROM graphrag.{table} x WHERE {self._there.condition(table, columns)}"
        sums = self._sums_of_source(table, columns)
        differing = [group for group, both in self._sums_to_be(table, of_target).items() if sums.get(group) != both]
        if not differing:
            return
        groups = f"{_group(keys)} IN ({', '.join(map(str, differing))})"
        self._writer.execute(
            "CREATE TEMPORARY TABLE pg_temp.graphrag_keys ON COMMIT DROP AS"
            f" SELECT {listed} FROM graphrag.{table} LIMIT 0".encode()
        )
        copy_rows(
            self._reader,
            self._writer,
            sql.SQL(f"SELECT {listed} FROM ({here}) k WHERE {groups}"),
            qualified("pg_temp.graphrag_keys"),
            keys,
        )
        self._writer.execute("ANALYZE pg_temp.graphrag_keys")
        self.count += self._writer.execute(
            f"DELETE FROM graphrag.{table} x USING ({of_target}) k WHERE {groups} AND {_same_keys('x', 'k', keys)}"
            f" AND NOT EXISTS (SELECT FROM pg_temp.graphrag_keys y WHERE {_same_keys('y', 'k', keys)})".encode()
        ).rowcount
        self._writer.execute("DROP TABLE pg_temp.graphrag_keys")


def _is_since(row: str, transaction: str) -> str:
    """Return SQL of whether a row was written by this transaction or a later one. No parallel query may ask age()."""
    return f"(({row}.xmin::text::bigint - {int(transaction) % 2**32}) & {2**32 - 1}) < {2**31}"


def _listed(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _same_keys(row: str, other: str, keys: list[str]) -> str:
    return " AND ".join(f'{row}."{key}" = {other}."{key}"' for key in keys)


def _read_sums(cursor: Cursor, rows: str, keys: list[str]) -> KeySums:
    return {group: (count, hashes) for group, count, hashes in cursor.execute(_sums(rows, keys).encode()).fetchall()}


def _sums(rows: str, keys: list[str], more: str = "") -> str:
    """Return SQL of the number of keys and the sum of their hashes, by the group that the hash says."""
    return f"SELECT {_group(keys)}, pg_catalog.count(*), pg_catalog.bit_xor({_hash(keys)}){more} FROM ({rows}) k GROUP BY 1"


def _hash(keys: list[str]) -> str:
    hashed = "0"
    for key in keys:
        name, of_type = ("hashint8extended", "bigint") if key.endswith("id") else ("hashtextextended", "text")
        hashed = f'pg_catalog.{name}(k."{key}"::{of_type}, {hashed})'
    return hashed


def _group(keys: list[str]) -> str:
    return f"{_hash(keys)} & {_GROUPS - 1}"
