"""The publisher's tables, and whether it can publish them. It needs nothing of pg_graphrag."""

from collections.abc import Callable, Sequence
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
    """A table to publish; `left_out` counts its features that are not replicated.

    `schema` and `qualified` (schema and name) are quoted for SQL. `primary_key` identifies changed rows, if there is one.
    """

    schema: str
    name: str
    qualified: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    unique_keys: tuple[tuple[str, ...], ...]
    left_out: tuple[str, ...]

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The keys that identify rows, the primary key first."""
        required = {column.name for column in self.columns if column.is_required}
        others = tuple(key for key in self.unique_keys if required.issuperset(key))
        return (self.primary_key, *others) if self.primary_key else others


_SERVER = """
SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.current_setting('wal_level'),
       pg_catalog.current_setting('max_replication_slots')::int
       - (SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots),
       r.rolsuper OR r.rolreplication
       OR EXISTS (SELECT FROM pg_catalog.pg_roles m
                   WHERE m.rolname = 'rds_replication' AND pg_catalog.pg_has_role(r.oid, m.oid, 'USAGE')),
       r.rolname::text, pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       pg_catalog.current_database()::text
  FROM pg_catalog.pg_roles r
 WHERE r.rolname = current_user
"""
_TABLE = """
SELECT c.oid::bigint AS oid, n.nspname::text AS schema, c.relname::text AS name,
       c.relreplident::text AS identity,
       c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AS is_table, pg_catalog.pg_has_role(c.relowner, 'USAGE') AS is_owner,
       pg_catalog.has_table_privilege(c.oid, 'SELECT') AS may_read, pg_catalog.row_security_active(c.oid) AS is_secured,
       pg_catalog.pg_get_userbyid(c.relowner)::text AS owner, current_user::text AS role,
       (SELECT pg_catalog.count(*) FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal) AS triggers,
       (SELECT pg_catalog.count(*) FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid) AS policies,
       a.defaults, k.foreign_keys, k.checks, a.generated
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(*) FILTER (WHERE x.attgenerated = '' AND (x.atthasdef OR x.attidentity <> '')) AS defaults,
              pg_catalog.string_agg(x.attname, ', ' ORDER BY x.attnum) FILTER (WHERE x.attgenerated <> '') AS generated
         FROM pg_catalog.pg_attribute x WHERE x.attrelid = c.oid AND x.attnum > 0 AND NOT x.attisdropped) a
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(*) FILTER (WHERE x.contype = 'f') AS foreign_keys,
              pg_catalog.count(*) FILTER (WHERE x.contype IN ('c', 'x')) AS checks
         FROM pg_catalog.pg_constraint x WHERE x.conrelid = c.oid) k
 WHERE c.oid = pg_catalog.to_regclass(%s)
"""
_COLUMNS = """
WITH RECURSIVE columns AS (
    SELECT a.attnum, a.attname, a.attnotnull, a.atttypid AS type, a.atttypmod AS modifier, 0 AS depth
      FROM pg_catalog.pg_attribute a
     WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
     UNION ALL
    SELECT c.attnum, c.attname, c.attnotnull, y.typbasetype, y.typtypmod, c.depth + 1
      FROM columns c JOIN pg_catalog.pg_type y ON y.oid = c.type AND y.typtype = 'd'
)
SELECT DISTINCT ON (c.attnum) c.attname::text, pg_catalog.format_type(c.type, c.modifier),
       coalesce(e.typname, y.typname)::text, y.typcategory = 'A', c.attnotnull, y.typcategory = 'S' OR y.typname = 'citext'
  FROM columns c
  JOIN pg_catalog.pg_type y ON y.oid = c.type
  LEFT JOIN pg_catalog.pg_type e ON e.oid = y.typelem AND y.typcategory = 'A'
 ORDER BY c.attnum, c.depth DESC
"""
_KEYS = """
SELECT CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END AS is_first,
       ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY k (number, n)
               JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
              WHERE k.n <= i.indnkeyatts ORDER BY k.n)
  FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
 WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                    WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[]) AND a.attgenerated <> '')
 ORDER BY is_first DESC, i.indisprimary DESC, i.indexrelid
"""


def check_server(connection: Connection, is_published: bool, quoted: Callable[[str], str]) -> None:
    """Refuse a server that cannot publish to a subscription, or a role that may not.

    `is_published`: whether publication and slot are there already: somebody else made them, and no right to make them is
      needed.
    `quoted`: makes a name SQL, for hints that may be run. What the publisher quotes itself could be any statement.

    Raises GraphRAGError: 55000 for settings, 53400 where no slot is free, 42501 for the role.
    """
    ((version, wal_level, slots, may_replicate, role_name, may_create, database),) = connection.execute(
        _SERVER
    ).fetchall()
    role = quoted(role_name)
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
            f"role {role} may not create a publication in database {quoted(database)}",
            sqlstate="42501",
            hint=f"GRANT CREATE ON DATABASE {quoted(database)} TO {role}; or have its owner run what --dry-run prints.",
        )


def read_tables(
    connection: Connection, names: Sequence[str], is_published: bool, quoted: Callable[[str], str]
) -> list[Table]:
    """Read tables of the publisher by their names; a name without a schema is looked up by its search path.

    `quoted` is as for `check_server`.

    Raises GraphRAGError: 42P01 for an unknown table, 42809 if it is no table of its own, 55000 for a table without an
      identity, whose UPDATE and DELETE would fail at the publisher once it is published, 42501 if the role may not read or
      publish it.
    """
    return [_read_table(connection, name, is_published, quoted) for name in names]


def _read_table(connection: Connection, name: str, is_published: bool, quoted: Callable[[str], str]) -> Table:
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        table = cursor.execute(_TABLE, [name]).fetchone()
    if table is None:
        raise GraphRAGError(
            f'the publisher has no table "{name}"',
            sqlstate="42P01",
            hint="Give its schema with it, and quotes where it needs them: --tables 'shop.articles,\"Odd\"'.",
        )
    schema = quoted(table["schema"])
    qualified = f"{schema}.{quoted(table['name'])}"
    role, owner = quoted(table["role"]), quoted(table["owner"])
    if not table["is_table"]:
        raise GraphRAGError(
            f"{qualified} of the publisher cannot be published: it is no permanent table",
            sqlstate="42809",
            hint="Views, foreign, temporary and unlogged tables are not replicated; publish the tables under a view.",
        )
    if not table["may_read"] or not (table["is_owner"] or is_published):
        raise GraphRAGError(
            f"role {role} may not {'publish' if table['may_read'] else 'read'} table {qualified} of the publisher",
            sqlstate="42501",
            hint=f"Its owner {owner} publishes it; the first copy needs SELECT. Or give --from a URL of the owner.",
        )
    if table["is_secured"]:
        raise GraphRAGError(
            f"row-level security of {qualified} holds for role {role}, so that its rows cannot be copied",
            sqlstate="42501",
            hint="Give --from a URL of the table's owner, or of a role with BYPASSRLS.",
        )
    columns = connection.execute(_COLUMNS, [table["oid"]]).fetchall()
    published = tuple(Column(column, quoted(column), *others) for column, *others in columns)
    keys = connection.execute(_KEYS, [table["oid"]]).fetchall()
    primary = next((tuple(names) for is_first, names in keys if is_first), ())
    if table["identity"] == "n" or (table["identity"] in ("d", "i") and not primary):
        raise GraphRAGError(
            f"table {qualified} of the publisher has no key by which changed rows are found",
            sqlstate="55000",
            hint=f"Once published, its UPDATE and DELETE would fail. ALTER TABLE {qualified} ADD PRIMARY KEY (…); or"
            f" ALTER TABLE {qualified} REPLICA IDENTITY FULL; which writes each old row to the log.",
        )
    kinds = {
        "triggers": "triggers",
        "policies": "policies",
        "defaults": "defaults",
        "foreign_keys": "foreign keys",
        "checks": "check constraints",
    }
    left_out = tuple(f"{table[column]} {kind}" for column, kind in kinds.items() if table[column])
    if table["generated"]:
        left_out += (f"generated columns ({table['generated']})",)
    unique = tuple(tuple(names) for is_first, names in keys if not is_first)
    return Table(schema, table["name"], qualified, published, primary, unique, left_out)
