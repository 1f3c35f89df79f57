"""The plan of a subscription: statements for both sides in order, each with its undo, from what both sides have."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pg_graphrag.beside.subscribing.publisher import Column, Connection, Table, check_server, read_tables
from pg_graphrag.ground.errors import GraphRAGError

PUBLISHER, NODE = "publisher", "node"
MASK = "********"
# In the connection that the node's server keeps.
_SECRETS = ("password", "sslpassword")
_TITLES = ("title", "headline", "subject", "name")
# As suggest_attachments() has it.
SECRET_COLUMN = re.compile(
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
    """Return a text as an SQL literal, for standard_conforming_strings = on."""
    return f"'{_escaped(text)}'"


@dataclass
class Plan:
    """Steps in their order, notes for people, and the calls that attach the tables."""

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    attach: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Names:
    """Names of what is made: one for publication and subscription; the slot's is that of the node's database plus this
    name.

    `mark` is the comment of a publication that this node made.
    """

    name: str
    slot: str
    mark: str

    @classmethod
    def of(cls, name: str, node: Connection) -> "Names":
        """Return the names; 22023 where one needs quotes."""
        if re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name) is None:
            raise GraphRAGError(
                f'name "{name}" is not taken for a subscription',
                sqlstate="22023",
                hint="Give small letters, digits and _, 41 at most.",
            )
        slot = re.sub("[^a-z0-9_]", "_", f"{name}_{node.info.dbname}".lower())[:63]
        system = _value(node, "SELECT system_identifier FROM pg_catalog.pg_control_system()")
        return cls(name, slot, f"pg_graphrag: slot {slot} of server {system}")

    @property
    def drop_slot(self) -> str:
        """The statement that drops the slot."""
        return f"SELECT pg_catalog.pg_drop_replication_slot({literal(self.slot)})"


def _value(connection: Connection, statement: str, *values: Any) -> Any:
    row = connection.execute(statement.encode(), values or None).fetchone()
    return row[0] if row else None


def prepare(connection: Connection) -> None:
    """Have the session name everything with its schema, run nothing of others by a name, and read what `literal` gives."""
    connection.execute(
        "SELECT pg_catalog.set_config('search_path', 'pg_catalog', false),"
        " pg_catalog.set_config('standard_conforming_strings', 'on', false)"
    )


def _quoting(node: Connection) -> Callable[[str], str]:
    """Return what makes a name SQL, as the node would quote it."""
    keywords = {row[0] for row in node.execute("SELECT word FROM pg_catalog.pg_get_keywords() WHERE catcode <> 'U'")}

    def quoted(name: str) -> str:
        if re.fullmatch("[a-z_][a-z0-9_]*", name) and name not in keywords:
            return name
        return '"{}"'.format(name.replace('"', '""'))

    return quoted


def publication_mark(publisher: Connection, names: Names) -> str | None:
    """Return the comment of the publication, by which a node recognises its own; null if there is no publication."""
    mark: str | None = _value(
        publisher,
        "SELECT coalesce(pg_catalog.obj_description(p.oid, 'pg_publication'), '')"
        " FROM pg_catalog.pg_publication p WHERE p.pubname = %s",
        names.name,
    )
    return mark


def subscribed_slot(node: Connection, names: Names) -> str | None:
    """Return the slot of the node's subscription, "" if it has none; null if there is no subscription."""
    slot: str | None = _value(
        node,
        "SELECT coalesce(s.subslotname::text, '')"
        " FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_database d ON d.oid = s.subdbid"
        " WHERE d.datname = pg_catalog.current_database() AND s.subname = %s",
        names.name,
    )
    return slot


def make_plan(
    publisher: Connection,
    node: Connection,
    tables: Sequence[str],
    corpus: str,
    names: Names,
    connection: str,
    takes_slot: bool = False,
) -> Plan:
    """Return the steps that subscribe the node to tables of the publisher; steps that were done already are left out.

    `connection` is how the node's server reaches the publisher, with its password. `takes_slot`: an existing slot was made
    for this node.

    Raises GraphRAGError: as `check_server` and `read_tables`; 42710 if a slot or a table with rows is in the way, 42501 if
      the node's role may not subscribe.
    """
    plan = Plan()
    quoted = _quoting(node)
    mark = publication_mark(publisher, names)
    is_ours = mark == names.mark
    slot = publisher.execute(
        "SELECT s.active, coalesce(s.database = pg_catalog.current_database(), false)"
        " FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = %s",
        [names.slot],
    ).fetchone()
    is_active, is_here = slot or (False, False)
    subscribed = subscribed_slot(node, names)
    check_server(publisher, mark is not None and slot is not None, quoted)
    if subscribed is not None and (subscribed != names.slot or not is_here):
        raise GraphRAGError(
            f'subscription "{names.name}" of the node is not of this publisher, which has no slot "{subscribed}" for it',
            sqlstate="42710",
            hint="For another publisher give another --name. Where the slot was dropped, --undo and subscribe anew.",
        )
    if slot is not None and subscribed is None and (is_active or not is_here or not (takes_slot or is_ours)):
        # If two subscriptions shared a slot, each would miss what the other has taken.
        raise GraphRAGError(
            f'the publisher has a slot "{names.slot}" already, maybe of another subscriber',
            sqlstate="42710",
            hint="Give this one a name of its own: --name. A slot that was made for this one, --existing-slot takes; one that"
            f" nobody needs goes there with {names.drop_slot};",
        )
    _check_node(node, quoted)
    published = read_tables(publisher, [*dict.fromkeys(tables)], mark is not None, quoted)
    published_names = _published(publisher, names, quoted)
    missing = [table.qualified for table in published if table.qualified not in published_names]
    missing_names = ", ".join(missing)
    if mark is None:
        plan.steps.append(
            Step(
                PUBLISHER,
                # Sent together, they are one transaction.
                ";\n".join(
                    (
                        f"CREATE PUBLICATION {names.name} FOR TABLE {missing_names} WITH (publish_via_partition_root = true)",
                        f"COMMENT ON PUBLICATION {names.name} IS {literal(names.mark)}",
                    )
                ),
                f"DROP PUBLICATION {names.name}",
            )
        )
    elif not is_ours and (missing or (subscribed is None and mark.startswith("pg_graphrag: "))):
        # A table that one node adds stops others who subscribe to the publication.
        lacks = f", and has no {missing_names}" if missing else ""
        raise GraphRAGError(
            f'publication "{names.name}" of the publisher was not made by this node{lacks}',
            sqlstate="42710",
            hint="Give this node one of its own: --name. Or have its owner add what it lacks. Where it is this node's:"
            f" COMMENT ON PUBLICATION {names.name} IS {literal(names.mark)};",
        )
    elif others := sorted(published_names - {table.qualified for table in published}):
        plan.notes.append(f"publication {names.name} also has {', '.join(others)}, which --tables does not name")
    if slot is None:
        plan.steps.append(
            Step(
                PUBLISHER,
                f"SELECT pg_catalog.pg_create_logical_replication_slot({literal(names.slot)}, 'pgoutput')",
                names.drop_slot,
            )
        )
    readers = _default_readers(node, quoted)
    for table in published:
        _define(node, plan, table, readers, subscribed is not None, quoted)
    if missing and is_ours:
        # A table that is published before it is here stops the subscription.
        plan.steps.append(
            Step(
                PUBLISHER,
                f"ALTER PUBLICATION {names.name} ADD TABLE {missing_names}",
                f"ALTER PUBLICATION {names.name} DROP TABLE {missing_names}",
            )
        )
    if subscribed is None:
        plan.steps.append(
            Step(
                NODE,
                f"CREATE SUBSCRIPTION {names.name} CONNECTION '{_escaped(connection)}' PUBLICATION {names.name}"
                f" WITH (create_slot = false, slot_name = {literal(names.slot)})",
                f"DROP SUBSCRIPTION {names.name}",
                connection,
            )
        )
    else:
        subscribed_names = _subscribed(node, names, quoted)
        # Such as one that was renamed there.
        plan.notes += [
            f"{name} of this node is no longer published; where it was renamed there, rename it here:"
            f" ALTER TABLE {name} RENAME TO …;"
            for name in sorted(subscribed_names - published_names)
        ]
        if not subscribed_names.issuperset(table.qualified for table in published):
            plan.steps.append(Step(NODE, f"ALTER SUBSCRIPTION {names.name} REFRESH PUBLICATION"))
    _attach(node, plan, published, corpus)
    return plan


def _published(publisher: Connection, names: Names, quoted: Callable[[str], str]) -> set[str]:
    return {
        f"{quoted(schema)}.{quoted(name)}"
        for schema, name in publisher.execute(
            "SELECT t.schemaname::text, t.tablename::text FROM pg_catalog.pg_publication_tables t WHERE t.pubname = %s",
            [names.name],
        )
    }


def _subscribed(node: Connection, names: Names, quoted: Callable[[str], str]) -> set[str]:
    return {
        f"{quoted(schema)}.{quoted(name)}"
        for schema, name in node.execute(
            "SELECT n.nspname::text, c.relname::text"
            " FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_subscription_rel r ON r.srsubid = s.oid"
            " JOIN pg_catalog.pg_database d ON d.oid = s.subdbid AND d.datname = pg_catalog.current_database()"
            " JOIN pg_catalog.pg_class c ON c.oid = r.srrelid"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE s.subname = %s",
            [names.name],
        )
    }


def _check_node(node: Connection, quoted: Callable[[str], str]) -> None:
    ((name, may_subscribe),) = node.execute(
        "SELECT r.rolname::text, r.rolsuper OR pg_catalog.pg_has_role(r.oid, 'pg_create_subscription', 'USAGE')"
        " AND pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')"
        " FROM pg_catalog.pg_roles r WHERE r.rolname = current_user"
    ).fetchall()
    if not may_subscribe:
        role = quoted(name)
        raise GraphRAGError(
            f"role {role} of the node may not create a subscription",
            sqlstate="42501",
            hint=f"Give --url a superuser's, or: GRANT pg_create_subscription TO {role};"
            f" GRANT CREATE ON DATABASE {quoted(node.info.dbname)} TO {role};",
        )


def _default_readers(node: Connection, quoted: Callable[[str], str]) -> str:
    """Return the roles that default privileges would show new tables, besides PUBLIC."""
    rows = node.execute(
        "SELECT DISTINCT g.rolname::text FROM pg_catalog.pg_default_acl d"
        " CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) a"
        " JOIN pg_catalog.pg_roles g ON g.oid = a.grantee JOIN pg_catalog.pg_roles o ON o.oid = d.defaclrole"
        " WHERE d.defaclobjtype = 'r' AND o.rolname = current_user AND g.oid <> o.oid ORDER BY 1"
    )
    return ", ".join(["PUBLIC", *(quoted(row[0]) for row in rows)])


def _define(
    node: Connection, plan: Plan, table: Table, readers: str, is_subscribed: bool, quoted: Callable[[str], str]
) -> None:
    if table.left_out:
        plan.notes.append(f"{table.qualified}: not taken from the publisher: {', '.join(table.left_out)}")
    relation = _value(node, "SELECT pg_catalog.to_regclass(%s)::oid::bigint", table.qualified)
    types = {column.name: _type(node, plan, table, column) for column in table.columns}
    if relation is None:
        schema = Step(NODE, f"CREATE SCHEMA {table.schema}", f"DROP SCHEMA {table.schema}")
        if schema not in plan.steps and _value(node, "SELECT pg_catalog.to_regnamespace(%s)", table.schema) is None:
            plan.steps.append(schema)
        # In one transaction: nobody sees rows, whatever ends this.
        closed = f"REVOKE ALL ON {table.qualified} FROM {readers}"
        plan.steps.append(Step(NODE, f"{_create_table(table, types)};\n{closed}", f"DROP TABLE {table.qualified}"))
        return
    rows = node.execute(
        "SELECT a.attname::text, a.attnotnull AND NOT a.atthasdef AND a.attgenerated = '' AND a.attidentity = ''"
        " FROM pg_catalog.pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''",
        [relation],
    ).fetchall()
    columns = dict(rows)
    plan.steps += [
        Step(NODE, f"ALTER TABLE {table.qualified} ADD COLUMN {column.quoted} {types[column.name]}")
        for column in table.columns
        if column.name not in columns
    ]
    in_keys = {name for key in table.keys for name in key}
    gone = [name for name in columns if name not in types]
    plan.steps += [
        Step(NODE, f"ALTER TABLE {table.qualified} ALTER COLUMN {quoted(name)} DROP NOT NULL")
        for name in gone
        if columns[name] and name not in in_keys
    ]
    if gone:
        plan.notes.append(f"{table.qualified}: the publisher has no column {', '.join(gone)}; new rows have none there")
    if not is_subscribed and _value(node, f"SELECT EXISTS (SELECT FROM {table.qualified})"):
        raise GraphRAGError(
            f"table {table.qualified} of the node has rows already, with which those of the publisher would collide",
            sqlstate="42710",
            hint=f"TRUNCATE {table.qualified}; at the node first: the subscription copies all rows.",
        )


def _type(node: Connection, plan: Plan, table: Table, column: Column) -> str:
    """Return the type of a column at the node: the same if the node has it, else text, as which all values travel.

    Without its length, so that a longer one at the publisher stops nothing.
    """
    type_name = _value(node, "SELECT pg_catalog.format_type(pg_catalog.to_regtype(%s), -1)", column.type) or _value(
        node,
        "SELECT pg_catalog.format_type(CASE WHEN %s THEN t.typarray ELSE t.oid END, -1)"
        " FROM pg_catalog.pg_type t JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass"
        " AND d.objid = t.oid AND d.deptype = 'e' WHERE t.typname = %s ORDER BY 1 LIMIT 1",
        column.is_array,
        column.element,
    )
    if type_name is not None:
        return str(type_name)
    stand_in = "text[]" if column.is_array else "text"
    plan.notes.append(
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


def _attach(node: Connection, plan: Plan, tables: Sequence[Table], corpus: str) -> None:
    """Add the steps that make documents of the rows, in a corpus that only the owner reads until it is opened."""
    quoted = literal(corpus)
    corpus_row = node.execute(
        "SELECT c.protection IS NULL AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus = c.name),"
        " c.protection FROM graphrag.corpora c WHERE c.name = %s",
        [corpus],
    ).fetchone()
    homonyms = Counter(table.name for table in tables)
    calls = [
        Step(NODE, call)
        for table in tables
        if (call := _attach_call(node, plan, table, corpus, is_alone=homonyms[table.name] == 1))
    ]
    if not calls:
        return
    if corpus_row is None:
        plan.attach.append(Step(NODE, f"SELECT graphrag.create_corpus({quoted})"))
    if corpus_row is None or corpus_row[0]:
        plan.attach.append(Step(NODE, f"SELECT graphrag.protect({quoted}, 'false')"))
    elif corpus_row[1] is None:
        plan.notes.append(
            f'corpus "{corpus}" has documents and no protection: who reads it sees the rows, too; close it first:'
            f" SELECT graphrag.protect({quoted}, 'false');"
        )
    plan.attach += calls


def _attach_call(node: Connection, plan: Plan, table: Table, corpus: str, is_alone: bool) -> str:
    attached = _value(
        node,
        "SELECT true FROM graphrag._attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id"
        " WHERE a.relation = pg_catalog.to_regclass(%s) AND c.name = %s",
        table.qualified,
        corpus,
    )
    if attached:
        return ""
    key = table.keys[0] if table.keys else ()
    if not key:
        plan.notes.append(
            f"{table.qualified} cannot be attached: it has no key; make a unique index at the node, on columns that are NOT NULL"
        )
        return ""
    texts = [
        column.name
        for column in table.columns
        if column.is_text and column.name not in key and not SECRET_COLUMN.search(column.name)
    ]
    title = next((name for name in _TITLES if name in texts), None)
    contents = [name for name in texts if name != title] or texts
    if not contents:
        plan.notes.append(
            f"{table.qualified} has no text of its own: see SELECT call"
            f" FROM graphrag.suggest_attachments({literal(table.schema)});"
        )
        return ""
    prefix = f"{table.name}/"
    same_prefix = (
        "SELECT true FROM graphrag._attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id"
        " WHERE c.name = %s AND a.key_prefix = %s"
    )
    if not is_alone or _value(node, same_prefix, corpus, prefix):
        prefix = f"{table.qualified}/"
    options: dict[str, Any] = {"key_prefix": prefix}
    if len(key) > 1:
        options["key_columns"] = list(key)
    arguments = [
        literal(table.qualified),
        literal(corpus),
        literal(key[0]) if len(key) == 1 else "NULL",
        f"ARRAY[{', '.join(map(literal, contents))}]",
        *([f"title_column => {literal(title)}"] if title is not None and title not in contents else []),
        f"options => {literal(json.dumps(options, ensure_ascii=False))}",
    ]
    return f"SELECT graphrag.attach_table({', '.join(arguments)})"
