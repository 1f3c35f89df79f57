"""What the publisher has: its tables, and whether it can publish them. It needs nothing of ours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from pg_graphrag.ground.errors import GraphRAGError

Connection = psycopg.Connection[Any]

# publish_via_partition_root.
OLDEST_SERVER = 130000


@dataclass(frozen=True)
class Column:
    """A column that is published; `type` is that under its domains, with its schema where that is not pg_catalog.

    `quoted` is its name in SQL; `element` is the name of the type alone, or of an array's elements.
    """

    name: str
    quoted: str
    type: str
    element: str
    is_array: bool
    is_required: bool
    is_text: bool


@dataclass(frozen=True)
class Table:
    """A table that is to be published; `left_out` are things of it that are not replicated, with their numbers.

    `schema` and `name` are as SQL has them.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    unique_keys: tuple[tuple[str, ...], ...]
    identity: str
    left_out: tuple[str, ...]

    @property
    def qualified(self) -> str:
        """Schema and name."""
        return f"{self.schema}.{self.name}"

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The keys, by which rows can be found, the primary one first."""
        required = {column.name for column in self.columns if column.is_required}
        others = tuple(key for key in self.unique_keys if required.issuperset(key))
        return (self.primary_key, *others) if self.primary_key else others


_SERVER = """
SELECT current_setting('server_version_num')::int, current_setting('wal_level'),
       current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots),
       r.rolsuper OR r.rolreplication
       OR EXISTS (SELECT FROM pg_roles m WHERE m.rolname = 'rds_replication' AND pg_has_role(r.oid, m.oid, 'USAGE')),
       quote_ident(r.rolname), has_database_privilege(current_database(), 'CREATE'), quote_ident(current_database())
  FROM pg_roles r
 WHERE r.rolname = current_user
"""
_TABLE = """
SELECT c.oid::bigint, quote_ident(n.nspname), quote_ident(c.relname), c.relkind::text, c.relpersistence::text, c.relreplident::text,
       pg_has_role(c.relowner, 'USAGE'), has_table_privilege(c.oid, 'SELECT'), row_security_active(c.oid), pg_get_userbyid(c.relowner)::text,
       (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal),
       (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid),
       (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
           AND (a.atthasdef OR a.attidentity <> '')),
       (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f'),
       (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('c', 'x')),
       ARRAY(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> '' ORDER BY a.attnum)
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = to_regclass(%s)
"""
_COLUMNS = """
WITH RECURSIVE columns AS (
    SELECT a.attnum, a.attname, a.attnotnull, a.atttypid AS type, a.atttypmod AS modifier, 0 AS depth
      FROM pg_attribute a
     WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
     UNION ALL
    SELECT c.attnum, c.attname, c.attnotnull, y.typbasetype, y.typtypmod, c.depth + 1
      FROM columns c JOIN pg_type y ON y.oid = c.type AND y.typtype = 'd'
)
SELECT DISTINCT ON (c.attnum) c.attname::text, quote_ident(c.attname), format_type(c.type, c.modifier), coalesce(e.typname, y.typname)::text,
       y.typcategory = 'A', c.attnotnull, y.typcategory = 'S' OR y.typname = 'citext'
  FROM columns c
  JOIN pg_type y ON y.oid = c.type
  LEFT JOIN pg_type e ON e.oid = y.typelem AND y.typcategory = 'A'
 ORDER BY c.attnum, c.depth DESC
"""
_KEYS = """
SELECT i.indisprimary,
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (number, n)
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number WHERE k.n <= i.indnkeyatts ORDER BY k.n)
  FROM pg_index i
 WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
   AND NOT EXISTS (SELECT FROM pg_attribute a
                    WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[]) AND a.attgenerated <> '')
 ORDER BY i.indisprimary DESC, i.indexrelid
"""


def check_server(connection: Connection, is_published: bool) -> None:
    """Refuse a server that cannot publish to a subscription, or a role that may not.

    Parameters
    ----------
    is_published : bool
        Whether publication and slot are there already: somebody else made them, and no right to make them is needed.

    Raises
    ------
    GraphRAGError
        55000 for settings, 53400 where no slot is free, 42501 for the role.
    """
    row = connection.execute(_SERVER).fetchone() or ()
    version, wal_level, slots, may_replicate, role, may_create, database = row
    if version < OLDEST_SERVER:
        raise GraphRAGError(
            f"the publisher is PostgreSQL {version // 10000}, which cannot publish what a node takes",
            sqlstate="55000",
            hint="It takes PostgreSQL 13 or newer.",
        )
    if wal_level != "logical":
        raise GraphRAGError(
            f"the publisher's wal_level is {wal_level}, so that it publishes nothing",
            sqlstate="55000",
            hint="Set wal_level = logical there and restart it; managed services have a parameter of their own for it:"
            " docs/operations.md.",
        )
    if not may_replicate:
        raise GraphRAGError(
            f"role {role} of the publisher may not replicate",
            sqlstate="42501",
            hint=f"ALTER ROLE {role} REPLICATION; on Amazon RDS: GRANT rds_replication TO {role};",
        )
    if not is_published and slots < 1:
        raise GraphRAGError(
            "the publisher has no replication slot left",
            sqlstate="53400",
            hint="Increase its max_replication_slots, or drop a slot of pg_replication_slots that nobody uses.",
        )
    if not is_published and not may_create:
        raise GraphRAGError(
            f"role {role} may not create a publication in database {database}",
            sqlstate="42501",
            hint=f"GRANT CREATE ON DATABASE {database} TO {role}; or have its owner run what --dry-run prints.",
        )


def read_tables(connection: Connection, names: Sequence[str], is_published: bool) -> list[Table]:
    """Read tables of the publisher by their names; one without a schema is looked up as there.

    Raises
    ------
    GraphRAGError
        42P01 for what is not there, 42809 for what is no table of its own, 55000 for a table without an identity, whose UPDATE and
        DELETE would fail at the publisher once it is published, 42501 where the role may not read or publish it.
    """
    return [_read_table(connection, name, is_published) for name in names]


def _read_table(connection: Connection, name: str, is_published: bool) -> Table:
    row = connection.execute(_TABLE, [name]).fetchone()
    if row is None:
        raise GraphRAGError(
            f'the publisher has no table "{name}"',
            sqlstate="42P01",
            hint="Give its schema with it, and quotes where it needs them: --tables 'shop.articles,\"Odd\"'.",
        )
    oid, schema, table, kind, persistence, identity, is_owner, may_read, is_secured, owner = row[:10]
    qualified = f"{schema}.{table}"
    if kind not in ("r", "p") or persistence != "p":
        raise GraphRAGError(
            f"{qualified} of the publisher cannot be published: it is no permanent table",
            sqlstate="42809",
            hint="Views, foreign, temporary and unlogged tables are not replicated; publish the tables under a view.",
        )
    if not may_read or not is_owner and not is_published:
        role = connection.info.user
        raise GraphRAGError(
            f'role "{role}" may not {"publish" if may_read else "read"} table {qualified} of the publisher',
            sqlstate="42501",
            hint=f'Its owner "{owner}" publishes it; the first copy needs SELECT on it. Or give --from a URL of the owner.',
        )
    if is_secured:
        raise GraphRAGError(
            f"row-level security of {qualified} holds for role {connection.info.user}, so that its rows cannot be copied",
            sqlstate="42501",
            hint="Give --from a URL of the table's owner, or of a role with BYPASSRLS.",
        )
    with connection.cursor(row_factory=psycopg.rows.args_row(Column)) as cursor:
        columns = tuple(cursor.execute(_COLUMNS, [oid]).fetchall())
    keys = connection.execute(_KEYS, [oid]).fetchall()
    primary = next((tuple(columns) for is_primary, columns in keys if is_primary), ())
    if identity == "n" or identity == "d" and not primary:
        raise GraphRAGError(
            f"table {qualified} of the publisher has no key by which changed rows are found",
            sqlstate="55000",
            hint=f"Once published, its UPDATE and DELETE would fail. ALTER TABLE {qualified} ADD PRIMARY KEY (…); or"
            f" ALTER TABLE {qualified} REPLICA IDENTITY FULL; which writes each old row to the log.",
        )
    counted = zip(("triggers", "policies", "defaults", "foreign keys", "check constraints"), row[10:15], strict=True)
    left_out = tuple(f"{count} {kind}" for kind, count in counted if count)
    if row[15]:
        left_out += (f"generated columns ({', '.join(row[15])})",)
    unique = tuple(tuple(columns) for is_primary, columns in keys if not is_primary)
    return Table(schema, table, columns, primary, unique, identity, left_out)
