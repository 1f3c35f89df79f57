"""What is done at both ends: statements in their order, with how each is undone, made of what publisher and node have."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pg_graphrag.beside.subscribing.publisher import Column, Connection, Table, check_server, read_tables
from pg_graphrag.ground.errors import GraphRAGError

PUBLISHER, NODE = "publisher", "node"
MASK = "********"
# Of the connection that the node's server keeps.
_SECRETS = ("password", "sslpassword")
_TITLES = ("title", "headline", "subject", "name")
# As suggest_attachments() has it.
_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|token|salt|credential|api_?key|(^|_)(hash|pin|ssn|iban|cvv)($|_)", re.I
)


@dataclass(frozen=True)
class Step:
    """A statement at one end; `undo` takes it back, `secret` is the connection string in it that has a password."""

    where: str
    statement: str
    undo: str = ""
    secret: str = ""

    @property
    def shown(self) -> str:
        """The statement without a password."""
        return (
            self.statement.replace(_escaped(self.secret), _escaped(_masked(self.secret)))
            if self.secret
            else self.statement
        )


def _masked(connection: str) -> str:
    parameters: dict[str, Any] = conninfo_to_dict(connection)
    return make_conninfo(**parameters | {name: MASK for name in _SECRETS if name in parameters})


def _escaped(text: str) -> str:
    return text.replace("'", "''")


def literal(text: str) -> str:
    """Return a text as SQL has it, where standard_conforming_strings is on."""
    return f"'{_escaped(text)}'"


@dataclass
class Plan:
    """Steps in their order, notes for people, and the calls that attach the tables."""

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    attach: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Names:
    """Names of what is made: publication and subscription have one, the slot that of the node's database behind it."""

    name: str
    slot: str

    @classmethod
    def of(cls, name: str, node: Connection) -> "Names":
        """Return the names; 22023 where one needs quotes."""
        if re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name) is None:
            raise GraphRAGError(
                f'name "{name}" is not taken for a subscription',
                sqlstate="22023",
                hint="Give small letters, digits and _, 41 at most.",
            )
        return cls(name, re.sub("[^a-z0-9_]", "_", f"{name}_{node.info.dbname}".lower())[:63])


def _value(connection: Connection, statement: str, *values: Any) -> Any:
    row = connection.execute(statement.encode(), values).fetchone()
    return row[0] if row else None


def prepare(connection: Connection) -> None:
    """Have the session name everything with its schema, and run nothing of others by a name."""
    connection.execute("SELECT pg_catalog.set_config('search_path', 'pg_catalog', false)")


def plan(
    publisher: Connection,
    node: Connection,
    tables: Sequence[str],
    corpus: str,
    names: Names,
    connection: str,
    takes_slot: bool = False,
) -> Plan:
    """Return what is to be done so that the node subscribes to tables of the publisher; what is there already is left out.

    `connection` is how the node's server reaches the publisher, with its password. `takes_slot`: a slot that is there was made
    for this node.

    Raises
    ------
    GraphRAGError
        As `check_server` and `read_tables`; 42710 where a slot or a table with rows is in the way, 42501 where the node's role
        may not subscribe.
    """
    made = Plan()
    has_publication = _value(publisher, "SELECT true FROM pg_catalog.pg_publication WHERE pubname = %s", names.name)
    slot = publisher.execute(
        "SELECT s.active FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = %s", [names.slot]
    )
    slot_state = slot.fetchone()
    subscribed = _value(
        node,
        "SELECT true FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_database d ON d.oid = s.subdbid"
        " WHERE d.datname = pg_catalog.current_database() AND s.subname = %s",
        names.name,
    )
    check_server(publisher, bool(has_publication and slot_state))
    if slot_state is not None and not subscribed and (slot_state[0] or not takes_slot):
        # Of two that share one, each would miss what the other has taken.
        raise GraphRAGError(
            f'the publisher has a slot "{names.slot}" already, maybe of another subscriber',
            sqlstate="42710",
            hint="Give this one a name of its own: --name. What an earlier one left behind, --undo drops; a slot that was made"
            " for this one, --existing-slot takes.",
        )
    _check_node(node)
    published = read_tables(publisher, [*dict.fromkeys(tables)], bool(has_publication))
    _publish(publisher, made, published, names, bool(has_publication))
    if slot_state is None and not subscribed:
        made.steps.append(
            Step(
                PUBLISHER,
                f"SELECT pg_catalog.pg_create_logical_replication_slot({literal(names.slot)}, 'pgoutput')",
                f"SELECT pg_catalog.pg_drop_replication_slot({literal(names.slot)})",
            )
        )
    readers = _default_readers(node)
    for table in published:
        _define(node, made, table, readers, bool(subscribed))
    if not subscribed:
        made.steps.append(
            Step(
                NODE,
                f"CREATE SUBSCRIPTION {names.name} CONNECTION '{_escaped(connection)}' PUBLICATION {names.name}"
                f" WITH (create_slot = false, slot_name = {literal(names.slot)})",
                f"DROP SUBSCRIPTION {names.name}",
                connection,
            )
        )
    else:
        _note_unpublished(publisher, node, made, names)
    if subscribed and any(_value(node, _SUBSCRIBED, names.name, table.qualified) is None for table in published):
        made.steps.append(Step(NODE, f"ALTER SUBSCRIPTION {names.name} REFRESH PUBLICATION"))
    _attach(node, made, published, corpus)
    return made


_SUBSCRIBED = """
SELECT true FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_subscription_rel r ON r.srsubid = s.oid
  JOIN pg_catalog.pg_database d ON d.oid = s.subdbid AND d.datname = pg_catalog.current_database()
 WHERE s.subname = %s AND r.srrelid = pg_catalog.to_regclass(%s)
"""


def _published(publisher: Connection, names: Names) -> set[str]:
    return {
        str(row[0])
        for row in publisher.execute(
            "SELECT pg_catalog.format('%%I.%%I', t.schemaname, t.tablename)"
            " FROM pg_catalog.pg_publication_tables t WHERE t.pubname = %s",
            [names.name],
        )
    }


def _note_unpublished(publisher: Connection, node: Connection, made: Plan, names: Names) -> None:
    """Name tables that the node subscribes to and the publisher does not publish, such as one that was renamed there."""
    there = _published(publisher, names)
    here = node.execute(
        "SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname)"
        " FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_subscription_rel r ON r.srsubid = s.oid"
        " JOIN pg_catalog.pg_database d ON d.oid = s.subdbid AND d.datname = pg_catalog.current_database()"
        " JOIN pg_catalog.pg_class c ON c.oid = r.srrelid"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE s.subname = %s ORDER BY 1",
        [names.name],
    )
    made.notes += [
        f"{name} of this node is no longer published; where it was renamed there, rename it here: ALTER TABLE {name} RENAME TO …;"
        for (name,) in here
        if name not in there
    ]


def _check_node(node: Connection) -> None:
    may = _value(
        node,
        "SELECT r.rolsuper OR pg_catalog.pg_has_role(r.oid, 'pg_create_subscription', 'USAGE')"
        " AND pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')"
        " FROM pg_catalog.pg_roles r WHERE r.rolname = current_user",
    )
    if not may:
        raise GraphRAGError(
            f'role "{node.info.user}" of the node may not create a subscription',
            sqlstate="42501",
            hint=f'Give --url a superuser\'s, or: GRANT pg_create_subscription TO "{node.info.user}";'
            f' GRANT CREATE ON DATABASE "{node.info.dbname}" TO "{node.info.user}";',
        )


def _publish(publisher: Connection, made: Plan, tables: Sequence[Table], names: Names, is_there: bool) -> None:
    if not is_there:
        listed = ", ".join(table.qualified for table in tables)
        made.steps.append(
            Step(
                PUBLISHER,
                f"CREATE PUBLICATION {names.name} FOR TABLE {listed} WITH (publish_via_partition_root = true)",
                f"DROP PUBLICATION {names.name}",
            )
        )
        return
    there = _published(publisher, names)
    if missing := [table.qualified for table in tables if table.qualified not in there]:
        made.steps.append(Step(PUBLISHER, f"ALTER PUBLICATION {names.name} ADD TABLE {', '.join(missing)}"))
    if others := sorted(there - {table.qualified for table in tables}):
        made.notes.append(f"publication {names.name} also has {', '.join(others)}, which --tables does not name")


def _default_readers(node: Connection) -> str:
    """Return to whom default privileges would show new tables, besides PUBLIC."""
    rows = node.execute(
        "SELECT DISTINCT pg_catalog.quote_ident(g.rolname) FROM pg_catalog.pg_default_acl d"
        " CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) a"
        " JOIN pg_catalog.pg_roles g ON g.oid = a.grantee JOIN pg_catalog.pg_roles o ON o.oid = d.defaclrole"
        " WHERE d.defaclobjtype = 'r' AND o.rolname = current_user AND g.oid <> o.oid ORDER BY 1"
    )
    return ", ".join(["PUBLIC", *(row[0] for row in rows)])


def _define(node: Connection, made: Plan, table: Table, readers: str, is_subscribed: bool) -> None:
    if table.left_out:
        made.notes.append(f"{table.qualified}: not taken from the publisher: {', '.join(table.left_out)}")
    there = _value(node, "SELECT pg_catalog.to_regclass(%s)::oid::bigint", table.qualified)
    types = {column.name: _type(node, made, table, column) for column in table.columns}
    if there is None:
        schema = Step(NODE, f"CREATE SCHEMA {table.schema}", f"DROP SCHEMA {table.schema}")
        if schema not in made.steps and _value(node, "SELECT pg_catalog.to_regnamespace(%s)", table.schema) is None:
            made.steps.append(schema)
        made.steps.append(Step(NODE, _create_table(table, types), f"DROP TABLE {table.qualified}"))
        made.steps.append(Step(NODE, f"REVOKE ALL ON {table.qualified} FROM {readers}"))
        return
    rows = node.execute(
        "SELECT a.attname::text, a.attnotnull AND NOT a.atthasdef AND a.attgenerated = '' AND a.attidentity = ''"
        " FROM pg_catalog.pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''",
        [there],
    ).fetchall()
    columns = dict(rows)
    made.steps += [
        Step(NODE, f"ALTER TABLE {table.qualified} ADD COLUMN {column.quoted} {types[column.name]}")
        for column in table.columns
        if column.name not in columns
    ]
    in_keys = {name for key in table.keys for name in key}
    gone = [name for name in columns if name not in types]
    made.steps += [
        Step(NODE, f'ALTER TABLE {table.qualified} ALTER COLUMN "{name}" DROP NOT NULL')
        for name in gone
        if columns[name] and name not in in_keys
    ]
    if gone:
        made.notes.append(f"{table.qualified}: the publisher has no column {', '.join(gone)}; new rows have none there")
    if not is_subscribed and _value(node, f"SELECT EXISTS (SELECT FROM {table.qualified})"):
        raise GraphRAGError(
            f"table {table.qualified} of the node has rows already, with which those of the publisher would collide",
            sqlstate="42710",
            hint=f"TRUNCATE {table.qualified}; at the node first: the subscription copies all rows.",
        )


def _type(node: Connection, made: Plan, table: Table, column: Column) -> str:
    """Return the type of a column at the node: its own where the node has it, else text, as which all values travel."""
    if _value(node, "SELECT pg_catalog.to_regtype(%s)", column.type) is not None:
        return column.type
    elsewhere = _value(
        node,
        "SELECT n.nspname::text FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
        " JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid = t.oid"
        " AND d.deptype = 'e' WHERE t.typname = %s ORDER BY 1 LIMIT 1",
        column.element,
    )
    if elsewhere is not None:
        return f"{elsewhere}.{column.type.rpartition('.')[2]}"
    stand_in = "text[]" if column.is_array else "text"
    made.notes.append(
        f"{table.qualified}: column {column.quoted} is {stand_in} here; the node has no type {column.type}"
    )
    return stand_in


def _create_table(table: Table, types: dict[str, str]) -> str:
    quoted = {column.name: column.quoted for column in table.columns}
    in_keys = {name for key in table.keys for name in key}
    # A column that the publisher drops later would stop the subscription where it must not be null.
    lines = [
        f"{column.quoted} {types[column.name]}{' NOT NULL' if column.name in in_keys else ''}"
        for column in table.columns
    ]
    if table.primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(quoted[name] for name in table.primary_key)})")
    lines += [f"UNIQUE ({', '.join(quoted[name] for name in key)})" for key in table.unique_keys]
    return f"CREATE TABLE {table.qualified} ({', '.join(lines)})"


def _attach(node: Connection, made: Plan, tables: Sequence[Table], corpus: str) -> None:
    """Add what makes documents of the rows, in a corpus that nobody but the owner reads until it is opened."""
    quoted = literal(corpus)
    there = node.execute(
        "SELECT c.protection IS NULL AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus = c.name),"
        " c.protection FROM graphrag.corpora c WHERE c.name = %s",
        [corpus],
    ).fetchone()
    calls = [Step(NODE, call) for table in tables if (call := _attach_call(node, made, table, quoted))]
    if not calls:
        return
    if there is None:
        made.attach.append(Step(NODE, f"SELECT graphrag.create_corpus({quoted})"))
    if there is None or there[0]:
        made.attach.append(Step(NODE, f"SELECT graphrag.protect({quoted}, 'false')"))
    elif there[1] is None:
        made.notes.append(
            f'corpus "{corpus}" has documents and no protection: who reads it sees the rows, too; close it first:'
            f" SELECT graphrag.protect({quoted}, 'false');"
        )
    made.attach += calls


def _attach_call(node: Connection, made: Plan, table: Table, corpus: str) -> str:
    attached = _value(
        node,
        "SELECT true FROM graphrag._attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id"
        f" WHERE a.relation = pg_catalog.to_regclass(%s) AND c.name = {corpus}",
        table.qualified,
    )
    if attached:
        return ""
    key = table.keys[0] if table.keys else ()
    if not key:
        made.notes.append(
            f"{table.qualified} cannot be attached: it has no key; make a unique index at the node, on columns that are NOT NULL"
        )
        return ""
    texts = [
        column.name
        for column in table.columns
        if column.is_text and column.name not in key and not _SECRET.search(column.name)
    ]
    title = next((name for name in _TITLES if name in texts), None)
    contents = [name for name in texts if name != title] or texts
    if not contents:
        made.notes.append(
            f"{table.qualified} has no text of its own: see SELECT call"
            f" FROM graphrag.suggest_attachments({literal(table.schema)});"
        )
        return ""
    options: dict[str, Any] = {"key_prefix": f"{table.name.strip(chr(34))}/"}
    if len(key) > 1:
        options["key_columns"] = list(key)
    arguments = [
        literal(table.qualified),
        corpus,
        literal(key[0]) if len(key) == 1 else "NULL",
        f"ARRAY[{', '.join(map(literal, contents))}]",
        *([f"title_column => {literal(title)}"] if title is not None and title not in contents else []),
        f"options => {literal(json.dumps(options, ensure_ascii=False))}",
    ]
    return f"SELECT graphrag.attach_table({', '.join(arguments)})"
