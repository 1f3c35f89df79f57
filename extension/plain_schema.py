"""The plain schema: ``sql/`` without the server's Python and Apache AGE, for any database with pgvector.

Functions whose body is Python become ones that say where they are to be called. What ``beside/process/plain.sql`` makes takes
the place of what ``sql/`` makes of the same name. Everything else is ``sql/`` as it is. The builds make it: setup.py,
install-package, ``make pgxn`` and ``./test``.

Usage: plain_schema.py [FOLDER]
"""

from __future__ import annotations

import ast as python
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pglast
from pg_graphrag.beside.process.routines import Argument, Routine
from pg_graphrag.index.graph.drafts import MAX_DESCRIPTION
from pg_graphrag.index.graph.merged import MAX_TOKENS
from pglast import ast, enums
from pglast.parser import scan
from pglast.stream import RawStream
from pglast.visitors import Visitor

PROJECT = Path(__file__).resolve().parents[1]
PROCESS = PROJECT / "python/pg_graphrag/beside/process"
SOURCES = PROJECT / "sql"
CHANGES = PROJECT / "extension/upgrade"
FOLDER = PROCESS / "plain"
_FIRST_LINE = "-- Made of sql/ and plain.sql by extension/plain_schema.py."

# What CREATE EXTENSION or `schema.install` puts in; the parser takes names of the same length for them.
_PLACEHOLDERS = {
    text: f"_{text[1:-1].replace(':', '_')}_" for text in ("@extschema:vector@", "@extschema:age@", "@extschema@")
}
# The rules of the merge, which views of plain.sql read with their owner's rights. A view reads with its owner's rights, but a
# function that it calls has its caller's: what its callers may not read must stand in the view itself.
_INLINED = (
    *("graphrag._merged_entities", "graphrag._merged_relationships", "graphrag._counted_relationships"),
    *("graphrag._given_entity_values", "graphrag._given_relationship_values", "graphrag._edits"),
    "graphrag._as_description",
)
# Who owns the extension owns the schema; what else is asked of the extension has no rows.
_OWNED = (
    "(SELECT 'pg_graphrag'::name AS extname, c.relowner AS extowner FROM pg_catalog.pg_class c"
    " WHERE c.oid = 'graphrag.corpora'::pg_catalog.regclass) e"
)
# Of parameters, those that are columns of what is returned.
OUTPUT_MODES = (enums.FunctionParameterMode.FUNC_PARAM_OUT, enums.FunctionParameterMode.FUNC_PARAM_TABLE)
Edit = tuple[int, int, str]


def name_of(parts: Any) -> str:
    """Return a dotted name of a list of String nodes."""
    return ".".join(part.sval for part in parts)


@dataclass(frozen=True)
class Statement:
    """A statement of a script: its text without comments before it, and its tree."""

    text: str
    node: Any

    @property
    def name(self) -> str | None:
        """The qualified name of the function, procedure or view that it makes."""
        match self.node:
            case ast.CreateFunctionStmt():
                return name_of(self.node.funcname)
            case ast.ViewStmt():
                return f"{self.node.view.schemaname}.{self.node.view.relname}"
        return None

    @property
    def place(self) -> str | None:
        """What it makes: its name, or on what it comments. A statement of plain.sql takes the place of the one in ``sql/``."""
        return self.text.partition(" IS ")[0] if isinstance(self.node, ast.CommentStmt) else self.name

    @property
    def options(self) -> dict[str, Any]:
        """What a function or DO says of itself, but for its settings."""
        return {item.defname: item.arg for item in _options(self.node) if item.defname != "set"}

    @property
    def is_python(self) -> bool:
        language = self.options.get("language")
        return language is not None and language.sval == "plpython3u"


def _options(node: Any) -> Sequence[Any]:
    match node:
        case ast.CreateFunctionStmt():
            return node.options or ()
        case ast.DoStmt():
            return node.args or ()
    return ()


def statements(script: str) -> Iterator[Statement]:
    """Yield the statements of a script, without the comments between them."""
    for placeholder, name in _PLACEHOLDERS.items():
        script = script.replace(placeholder, name)
    for raw in pglast.parse_sql(script):
        end = raw.stmt_location + raw.stmt_len if raw.stmt_len else len(script)
        text = script[raw.stmt_location : end]
        start = next((token.start for token in scan(text) if token.name not in ("SQL_COMMENT", "C_COMMENT")), 0)
        yield _parsed(f"{text[start:].rstrip().rstrip(';')};")


def _parsed(text: str) -> Statement:
    (raw,) = pglast.parse_sql(text)
    return Statement(text, raw.stmt)


def sources(folder: Path) -> list[Statement]:
    """Return the statements of ``sql/`` in the order of the install script."""
    return [item for path in sorted(folder.glob("*/*.sql")) for item in statements(path.read_text(encoding="utf-8"))]


def _finished(text: str) -> str:
    for placeholder, name in _PLACEHOLDERS.items():
        text = text.replace(name, placeholder)
    return text


def schema(made: Sequence[Statement]) -> str:
    """Return the script that makes the plain schema, of the statements of ``sql/``."""
    plain_text = (PROCESS / "plain.sql").read_text(encoding="utf-8")
    plain_text = plain_text.replace("@max_tokens@", str(MAX_TOKENS)).replace("@max_description@", str(MAX_DESCRIPTION))
    own = list(statements(plain_text))
    bodies = {item.name: Body.of(item) for item in [*made, *own] if item.name in _INLINED}
    plain = {
        item.place or item.text: inlined(item.text, bodies) if isinstance(item.node, ast.ViewStmt) else item.text
        for item in own
    }
    texts = [
        plain.pop(item.place) if item.place in plain else _plain(item)
        for item in made
        if not _is_of_the_extension(item)
    ]
    # Grants to everybody end with the last file; what is new in plain.sql comes after it.
    return "\n".join([_FIRST_LINE, *texts, *plain.values(), ""])


def changes(script: str) -> str:
    """Return an upgrade script of the extension for databases without it."""
    of_extension = ast.AlterExtensionStmt | ast.AlterExtensionContentsStmt
    kept = [
        item
        for item in statements(script)
        if not _is_of_the_extension(item) and not isinstance(item.node, of_extension)
    ]
    return "\n".join([_FIRST_LINE, *map(_plain, kept), ""])


def _is_of_the_extension(statement: Statement) -> bool:
    match statement.node:
        case ast.SelectStmt():
            return any(_is_dump(target.val) for target in statement.node.targetList or ())
        case ast.DoStmt():
            return statement.is_python or _PLACEHOLDERS["@extschema@"] in statement.text
        case ast.CommentStmt():
            return (
                statement.node.objtype == enums.ObjectType.OBJECT_SCHEMA and statement.node.object.sval == "_extschema_"
            )
    return False


def _is_dump(value: Any) -> bool:
    return isinstance(value, ast.FuncCall) and value.funcname[-1].sval == "pg_extension_config_dump"


def _plain(statement: Statement) -> str:
    if isinstance(statement.node, ast.CreateFunctionStmt) and statement.is_python:
        return _elsewhere(statement)
    if "extowner" not in statement.text:
        return statement.text
    body = statement.options.get("as")
    quoted = body[0].sval if isinstance(body, tuple) else body.sval if body else statement.text
    return statement.text.replace(quoted, _edited(quoted, _owners(quoted)))


def _elsewhere(statement: Statement) -> str:
    """Return a function whose body is Python as one that says where it is to be called."""
    text = statement.text
    message = f"{statement.name}() is done by a process beside this database, which has no PL/Python"
    hint = "Use the Python package: GraphRAG(url).call(…), or the command pg-graphrag call (docs/hosts.md)."
    options = sorted(_options(statement.node), key=lambda item: item.location)
    ends = [*(item.location for item in options[1:]), len(text)]
    # Who is no superuser may not set what no library has defined yet; the process sets it for itself.
    kept = [
        text[item.location : end].strip()
        for item, end in zip(options, ends, strict=True)
        if item.defname not in ("language", "as", "security")
        and not (item.defname == "set" and item.arg.name.startswith("hnsw."))
    ]
    return (
        f"{text[: options[0].location].rstrip()}\nLANGUAGE plpgsql {' '.join(kept)}".rstrip() + "\nAS $$\nBEGIN\n"
        f"    RAISE EXCEPTION '{message}' USING ERRCODE = 'feature_not_supported', HINT = '{hint}';\nEND\n$$;"
    )


def _owners(text: str) -> Iterator[Edit]:
    """Yield what is to stand in place of ``pg_extension e``."""
    tokens = scan(text)
    words = [text[token.start : token.end + 1] for token in tokens]
    for place, word in enumerate(words):
        if word == "pg_extension":
            first = place - 2 if words[place - 2 : place] == ["pg_catalog", "."] else place
            last = place + 2 if words[place + 1] == "AS" else place + 1
            if words[last] == "e":
                yield tokens[first].start, tokens[last].end + 1, _OWNED


def _edited(text: str, edits: Iterable[Edit]) -> str:
    parts = []
    place = 0
    for start, end, new in sorted(edits):
        parts += [text[place:start], new]
        place = end
    return "".join([*parts, text[place:]])


# Bodies of functions in SQL in place of their calls


class _Found(Visitor):
    """The nodes of one kind in a statement."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.nodes: list[Any] = []

    def visit(self, ancestors: Any, node: Any) -> None:
        if isinstance(node, self._kind):
            self.nodes.append(node)


def _found(text: str, kind: type) -> list[Any]:
    visitor = _Found(kind)
    visitor(pglast.parse_sql(text))
    return sorted(visitor.nodes, key=lambda node: node.location)


@dataclass(frozen=True)
class Body:
    """A function in SQL: its name, the names and defaults of its arguments, its columns (none: a value), its query."""

    name: str
    defaults: dict[str, str | None]
    columns: tuple[str, ...]
    query: str

    @classmethod
    def of(cls, statement: Statement) -> Body:
        tokens = scan(statement.text)
        begin = next(token.end + 1 for token in tokens if token.name == "ATOMIC")
        end = [token.start for token in tokens if _sign(token) == ";"][-2]
        parameters = statement.node.parameters or ()
        return cls(
            statement.node.funcname[-1].sval,
            {item.name: _default_text(item) for item in parameters if item.mode not in OUTPUT_MODES},
            tuple(item.name for item in parameters if item.mode in OUTPUT_MODES),
            statement.text[begin:end].strip("\n"),
        )

    def with_values(self, values: Sequence[str]) -> str:
        """Return its query with values in place of its arguments."""
        given = {**self.defaults, **dict(zip(self.defaults, values, strict=False))}
        references = [
            (node.location, [field.sval for field in node.fields if isinstance(field, ast.String)])
            for node in _found(self.query, ast.ColumnRef)
        ]
        qualified = [item for item in references if len(item[1]) == 2 and item[1][0] == self.name]
        # Among columns of the same names, arguments have the function's name before them.
        meant = qualified or [item for item in references if len(item[1]) == 1 and item[1][0] in given]
        return _edited(
            self.query, [(start, start + len(".".join(names)), str(given[names[-1]])) for start, names in meant]
        )


def _default_text(parameter: Any) -> str | None:
    return None if parameter.defexpr is None else RawStream()(parameter.defexpr)


def inlined(text: str, bodies: dict[str | None, Body]) -> str:
    """Return SQL with the bodies of functions in place of their calls. What returns rows must have an alias: AS name."""
    edits: list[Edit] = []
    for call in _found(text, ast.FuncCall):
        body = bodies.get(name_of(call.funcname))
        if body is None or (edits and call.location < edits[-1][1]):
            continue
        tokens = [token for token in scan(text) if token.start >= call.location]
        opening, *separators, closing = _brackets(tokens)
        bounds = [opening.end, *(comma.start for comma in separators), closing.start]
        values = [text[a + 1 : b].strip() for a, b in pairwise(bounds)]
        new, end = f"(\n{inlined(body.with_values(values), bodies)})", closing.end + 1
        if body.columns:
            place = tokens.index(closing) + 1
            assert tokens[place].name == "AS", f"{body.name} has no alias"
            end = tokens[place + 1].end + 1
            new += f"{text[closing.end + 1 : end]} ({', '.join(body.columns)})"
        edits.append((call.location, end, new))
    return _edited(text, edits)


def _brackets(tokens: Sequence[Any]) -> Iterator[Any]:
    """Yield the first bracket, the commas right within it, and the bracket that closes it."""
    depth = 0
    for token in tokens:
        change = {"(": 1, "[": 1, ")": -1, "]": -1}.get(_sign(token), 0)
        depth += change
        if depth == 1 and (change == 1 or _sign(token) == ","):
            yield token
        elif depth == 0 and change == -1:
            yield token
            return


def _sign(token: Any) -> str:
    return chr(int(token.name.removeprefix("ASCII_"))) if token.name.startswith("ASCII_") else ""


# What a process is to know of the schema


def catalog(made: Sequence[Statement]) -> str:
    """Return, as JSON, the routines by name, and (name, condition) of the tables and sequences that a dump has."""
    by_name: dict[str, list[Routine]] = {}
    composites: dict[str, tuple[tuple[str, str], ...]] = {}
    dumped = []
    in_sql = set()
    for item in made:
        match item.node:
            case ast.CompositeTypeStmt():
                composites[_relation(item.node.typevar)] = tuple(
                    (column.colname, _type(column.typeName)) for column in item.node.coldeflist
                )
            case ast.CommentStmt() if item.node.objtype == enums.ObjectType.OBJECT_COLUMN:
                # Rows of a view: which columns it has, in their order. What Python returns for them is what the client gives.
                relation, _, column = name_of(item.node.object).rpartition(".")
                composites[relation] = (*composites.get(relation, ()), (column, ""))
            case ast.CreateFunctionStmt() if item.is_python:
                if (routine := _routine(item.node)) is not None:
                    if len(routine.columns) == 1 and (columns := composites.get(routine.columns[0][1])) is not None:
                        routine = replace(routine, columns=columns)
                    by_name.setdefault(routine.name, []).append(routine)
            case ast.SelectStmt():
                calls = [target.val for target in item.node.targetList or () if _is_dump(target.val)]
                dumped += [[argument.val.sval for argument in call.args] for call in calls]
        if item.name is not None:
            in_sql.add(item.name.removeprefix("graphrag."))
    # A function in SQL around a routine of its name is that routine.
    by_name |= {name: by_name[f"_{name}"] for name in in_sql - by_name.keys() if f"_{name}" in by_name}
    lines = [f" {json.dumps(name)}: {json.dumps([asdict(item) for item in by_name[name]])}" for name in sorted(by_name)]
    routines = ",\n".join(lines)
    return f'{{"dumped": {json.dumps(dumped)},\n"routines": {{\n{routines}\n}}}}\n'


def _routine(function: Any) -> Routine | None:
    """Return a function whose body is Python; None where that calls no function of the package."""
    options = {item.defname: item.arg for item in function.options if item.defname != "set"}
    called = _called(options["as"][0].sval)
    if called is None:
        return None
    parameters = function.parameters or ()
    outputs = [(item.name, _type(item.argType)) for item in parameters if item.mode in OUTPUT_MODES]
    returned = function.returnType
    if not outputs and returned is not None and _type(returned) != "void":
        outputs = [("", _type(returned))]
    settings = [item.arg for item in function.options if item.defname == "set"]
    return Routine(
        name=function.funcname[-1].sval,
        path=called[0],
        arguments=tuple(_argument(item) for item in parameters if item.mode not in OUTPUT_MODES),
        passed=called[1],
        columns=tuple(outputs),
        is_set=returned is not None and bool(returned.setof),
        is_procedure=bool(function.is_procedure),
        reads=options["volatility"].sval in ("stable", "immutable") if "volatility" in options else False,
        as_owner="security" in options and bool(options["security"].boolval),
        settings=tuple((item.name, ", ".join(_value(value) for value in item.args)) for item in settings),
    )


def _called(body: str) -> tuple[str, tuple[str, ...]] | None:
    """Return which function of the package a body in Python calls, and the names that it gives it."""
    for node in python.walk(python.parse(f"def body():\n{_indented(body)}")):
        match node:
            case python.Call(
                func=python.Name("call"), args=[python.Name("plpy"), _, python.Constant(str(path)), *given]
            ):
                return path, tuple(item.id for item in given if isinstance(item, python.Name))
    return None


def _indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in body.splitlines())


def _argument(parameter: Any) -> Argument:
    type_ = _type(parameter.argType)
    if parameter.defexpr is None:
        return Argument(parameter.name, type_)
    return Argument(parameter.name, type_, _default(parameter.defexpr, type_), True)


def _default(expression: Any, type_: str) -> Any:
    """Return a default in the type that a process gives it in: lists, numbers and texts."""
    assert isinstance(expression, ast.A_Const), f"a default is no constant: {RawStream()(expression)}"
    if expression.isnull:
        return None
    text = _value(expression)
    if type_.endswith("[]"):
        items = [item for item in text.strip("{}").split(",") if item]
        return [int(item) for item in items] if type_ == "integer[]" else items
    convert: Callable[[str], Any] = {"integer": int, "bigint": int, "boolean": lambda text: text == "true"}.get(
        type_, str
    )
    return convert(text)


def _value(constant: Any) -> str:
    match constant.val:
        case ast.String():
            return str(constant.val.sval)
        case ast.Integer():
            return str(constant.val.ival)
        case ast.Boolean():
            return str(constant.val.boolval).lower()
    raise ValueError(f"no value: {RawStream()(constant)}")


def _type(name: Any) -> str:
    return RawStream()(name).removeprefix("SETOF ")


def _relation(node: Any) -> str:
    return f"{node.schemaname}.{node.relname}"


def files(sql: Path = SOURCES, upgrade: Path = CHANGES) -> dict[str, str]:
    """Return what the files in `FOLDER` have to be, by name."""
    made = sources(sql)
    texts = {"schema.sql": schema(made), "catalog.json": catalog(made)}
    texts["lock_relations.sql"] = (CHANGES / "lock_relations.sql").read_text(encoding="utf-8")
    texts |= {path.name: changes(path.read_text(encoding="utf-8")) for path in sorted(upgrade.glob("*--*.sql"))}
    return {name: _finished(text) for name, text in texts.items()}


def write(folder: Path = FOLDER, **sources: Path) -> None:
    """Write the files into a folder; `sources` as in `files`."""
    folder.mkdir(exist_ok=True)
    texts = files(**sources)
    for path in folder.iterdir():
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        # A process that reads it has the former one or this one.
        new = folder / f".{name}"
        new.write_text(text, encoding="utf-8")
        new.replace(folder / name)


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
