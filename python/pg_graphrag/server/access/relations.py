"""Relations of keys that a filter names. They are read with the caller's rights, as by his own SELECT."""

import re

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import Database

_PART = r'(?:"(?:[^"]|"")+"|[^\W0-9][\w$]*)'
_QUALIFIED = re.compile(rf"{_PART}\.{_PART}")
# Types whose text nobody else's code makes.
_TYPES = "'text', 'varchar', 'bpchar', 'name', 'int2', 'int4', 'int8', 'uuid'"
_COLUMNS = f"""
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS relation, current_user::text AS role,
       c.relkind IN ('r', 'p', 'v', 'm', 'f') AS has_rows, pg_catalog.quote_ident(a.attname) AS name,
       a.attname = 'source_key' AS is_key, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type,
       t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace AND t.typname IN ({_TYPES}) AS is_plain,
       pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT') AS may_read
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
 WHERE c.oid = pg_catalog.to_regclass($1)
"""


def keys_of(db: Database, name: str) -> str:
    """Return SQL that reads the keys of a table or view, as rows (key).

    Raises GraphRAGError: 22023 for a name without a schema, 42P01 for an unknown relation, 42809 for one without rows,
      42703 for one without a column of keys, 42804 for keys of another type, 42501 without SELECT on it, and if code that
      it runs would get rights that its owner lacks (_foreign_code).
    """
    if len(name) > 300 or not _QUALIFIED.fullmatch(name):
        raise GraphRAGError(
            f"filter: $relation cannot be {name[:100]}",
            hint='Name the relation with its schema, such as "app.my_docs".',
        )
    columns = db.query(_COLUMNS, ["text"], [name])
    if not columns:
        raise GraphRAGError(
            f"filter: relation {name} does not exist", sqlstate="42P01", hint="Name a table or view with its schema."
        )
    relation = columns[0]["relation"]
    if not columns[0]["has_rows"]:
        raise GraphRAGError(
            f"filter: {relation} is no table or view", sqlstate="42809", hint="Name a table or view of document keys."
        )
    keys = [column for column in columns if column["is_key"]] or columns
    if len(keys) != 1 or keys[0]["name"] is None:
        raise GraphRAGError(
            f"filter: {relation} has no column source_key",
            sqlstate="42703",
            hint="Name the column of the documents' keys source_key, or give a view of that column alone.",
        )
    column = keys[0]
    if not column["is_plain"]:
        raise GraphRAGError(
            f"filter: column {column['name']} of {relation} is of type {column['type']}",
            sqlstate="42804",
            hint="Give a view that casts the keys to text.",
        )
    if not column["may_read"]:
        raise GraphRAGError(
            f"permission denied for relation {relation}",
            sqlstate="42501",
            hint=f"Who owns it can GRANT SELECT ON {relation} TO {column['role']}.",
        )
    db.query("SELECT graphrag._refuse_foreign_code($1::pg_catalog.regclass)", ["text"], [relation])
    return (
        f'SELECT DISTINCT r.{column["name"]}::text COLLATE pg_catalog."default" AS key FROM {relation} r'
        f" WHERE r.{column['name']} IS NOT NULL"
    )
