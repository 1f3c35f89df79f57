"""Write docs/reference.md: every public function, view and table, read off the statements of sql/ and their comments.

Usage: make reference
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pglast
from pglast import ast, enums
from pglast.stream import RawStream

from extension.plain_schema import OUTPUT_MODES, name_of
from tests.lint_sql import SUBSTITUTIONS, is_public, types_of

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs/reference.md"
# A signature that fits into one line of the page.
WIDTH = 100
COMMAND = "make reference"


@dataclass
class Item:
    """A function (with all its signatures), view or table of schema graphrag."""

    name: str
    signatures: list[tuple[str, str]] = field(default_factory=list)  # and the comment of each
    columns: list[tuple[str, str, str]] = field(default_factory=list)  # name, type, comment
    comment: str = ""


@dataclass
class Area:
    """The public objects of one folder of sql/, in the order of its files."""

    title: str
    functions: dict[str, Item] = field(default_factory=dict)
    views: dict[str, Item] = field(default_factory=dict)
    tables: dict[str, Item] = field(default_factory=dict)


class Reader:
    """Collects what the files of sql/ define, then what they say of it."""

    def __init__(self) -> None:
        self._comments: dict[tuple[str, ...], str] = {}
        self._statements: dict[str, list[ast.Node]] = defaultdict(list)
        self._functions: dict[str, Item] = {}
        self._tables: dict[str, Item] = {}

    def read(self, path: Path) -> None:
        """Take in one file; its folder is the area."""
        source = path.read_text(encoding="utf-8")
        for token, text in SUBSTITUTIONS.items():
            source = source.replace(token, text)
        for raw in pglast.parse_sql(source):
            self._statements[path.parent.name].append(raw.stmt)
            if isinstance(raw.stmt, ast.CommentStmt):
                self._comments[_commented(raw.stmt)] = raw.stmt.comment

    def areas(self) -> list[Area]:
        """Return the areas that have something public, in their order."""
        areas = []
        for folder in sorted(self._statements):
            area = Area(re.sub(r"^\d+_", "", folder).replace("_", " ").capitalize())
            for statement in self._statements[folder]:
                self._add(area, statement)
            if area.functions or area.views or area.tables:
                areas.append(area)
        return areas

    def _add(self, area: Area, statement: ast.Node) -> None:
        match statement:
            case ast.CreateFunctionStmt() if is_public(name := name_of(statement.funcname)):
                short = name.rsplit(".", 1)[-1]
                inputs = [
                    parameter.argType for parameter in statement.parameters or () if parameter.mode not in OUTPUT_MODES
                ]
                comment = self._comments.get(("routine", name, *types_of(inputs))) or self._comments["routine", name]
                if short not in self._functions:  # else another area has a signature of it
                    area.functions[short] = self._functions[short] = Item(short)
                self._functions[short].signatures.append((_signature(statement, short), comment))
            case ast.ViewStmt() if is_public(name := statement.view.relname):
                columns = [(column, "", self._column(name, column)) for column in _columns(statement)]
                area.views[name] = Item(name, columns=columns, comment=self._comments["view", f"graphrag.{name}"])
            case ast.CreateStmt() if is_public(name := statement.relation.relname) and statement.partbound is None:
                item = Item(name, comment=self._comments["table", f"graphrag.{name}"])
                area.tables[name] = self._tables[name] = item
                self._add_columns(item, statement.tableElts or ())
            case ast.AlterTableStmt() if statement.relation.relname in self._tables:
                self._add_columns(
                    self._tables[statement.relation.relname], [command.def_ for command in statement.cmds]
                )

    def _add_columns(self, table: Item, elements: Iterable[ast.Node]) -> None:
        table.columns += [
            (column.colname, RawStream()(column.typeName), self._column(table.name, column.colname))
            for column in elements
            if isinstance(column, ast.ColumnDef) and column.typeName is not None and is_public(column.colname)
        ]

    def _column(self, relation: str, column: str) -> str:
        return self._comments.get(("column", f"graphrag.{relation}.{column}"), "")


def _commented(comment: ast.CommentStmt) -> tuple[str, ...]:
    """Return what a COMMENT is on: its kind, its name, of a function its argument types."""
    kinds = enums.ObjectType
    target: Any = comment.object
    match comment.objtype:
        case kinds.OBJECT_FUNCTION | kinds.OBJECT_PROCEDURE | kinds.OBJECT_ROUTINE:
            types = () if target.args_unspecified else types_of(target.objargs)
            return ("routine", name_of(target.objname), *types)
        case kinds.OBJECT_TABLE:
            return ("table", name_of(target))
        case kinds.OBJECT_VIEW:
            return ("view", name_of(target))
        case kinds.OBJECT_COLUMN:
            return ("column", name_of(target))
        case _:
            return ("other", str(comment.objtype), RawStream()(comment))


def _signature(function: ast.CreateFunctionStmt, name: str) -> str:
    """Return a function's call and what comes back, as SQL."""
    parameters = function.parameters or ()
    inputs = [_parameter(parameter) for parameter in parameters if parameter.mode not in OUTPUT_MODES]
    outputs = [_parameter(parameter) for parameter in parameters if parameter.mode in OUTPUT_MODES]
    call = f"{name}({', '.join(inputs)})"
    if len(call) > WIDTH:
        call = f"{name}(\n    " + ",\n    ".join(inputs) + "\n)"
    if function.is_procedure:
        return f"CALL {call}"
    if outputs:
        table = f"TABLE ({', '.join(outputs)})"
        if len(table) > WIDTH:
            table = "TABLE (\n    " + ",\n    ".join(outputs) + "\n)"
        return f"{call} → {table}"
    return f"{call} → {'SETOF ' if function.returnType.setof else ''}{_type(function.returnType)}"


def _parameter(parameter: ast.FunctionParameter) -> str:
    variadic = "VARIADIC " if parameter.mode == enums.FunctionParameterMode.FUNC_PARAM_VARIADIC else ""
    named = f"{variadic}{parameter.name} {_type(parameter.argType)}" if parameter.name else _type(parameter.argType)
    return f"{named} DEFAULT {RawStream()(parameter.defexpr)}" if parameter.defexpr is not None else named


def _type(name: ast.TypeName) -> str:
    return re.sub(r"^SETOF |\b(public|pg_catalog)\.", "", RawStream()(name))


def _columns(view: ast.ViewStmt) -> list[str]:
    """Return the names of a view's columns, as the list behind its name or its first SELECT gives them."""
    if view.aliases:
        return [alias.sval for alias in view.aliases]
    query = view.query
    while query.larg is not None:
        query = query.larg
    names = []
    for target in query.targetList:
        if target.name is not None:
            names.append(target.name)
        elif isinstance(target.val, ast.ColumnRef) and isinstance(target.val.fields[-1], ast.String):
            names.append(target.val.fields[-1].sval)
        else:
            raise ValueError(f"view {view.view.relname}: a column without a name: {RawStream()(target)}")
    return names


def _text(comment: str, cell: bool = False) -> str:
    """Return a comment as Markdown that shows it as it is."""
    text = re.sub(r"([*<>`\\]|(?<!\w)_|_(?!\w))", r"\\\1", comment)
    return text.replace("|", "\\|") if cell else text


def _function(item: Item) -> list[str]:
    parts = [f"#### {item.name}"]
    comments = [comment for _, comment in item.signatures]
    if len(set(comments)) == 1:
        calls = "\n".join(signature for signature, _ in item.signatures)
        return [*parts, f"```text\n{calls}\n```", _text(comments[0])]
    for signature, comment in item.signatures:
        parts += [f"```text\n{signature}\n```", _text(comment)]
    return parts


def _view(item: Item) -> list[str]:
    return [
        f"#### {item.name}",
        _text(item.comment),
        "Columns: " + ", ".join(f"`{name}`" for name, _, _ in item.columns) + ".",
    ]


def _table(item: Item) -> list[str]:
    rows = [f"| `{name}` | {type_} | {_text(comment, cell=True)} |" for name, type_, comment in item.columns]
    return [f"#### {item.name}", _text(item.comment), "\n".join(["| column | type | |", "|---|---|---|", *rows])]


def render() -> str:
    """Return the page."""
    reader = Reader()
    for path in sorted((PROJECT / "sql").glob("*/*.sql")):
        reader.read(path)
    areas = reader.areas()
    parts = [
        "# Reference",
        "Every public function, view and table of schema `graphrag`, from the comments that `\\df+ graphrag.*` and "
        f"`\\d+` show too. This page is generated from `sql/` by `{COMMAND}`.",
    ]
    for title, kind, show in (
        ("Functions", "functions", _function),
        ("Views", "views", _view),
        ("Tables", "tables", _table),
    ):
        parts.append(f"## {title}")
        for area in areas:
            items = getattr(area, kind)
            if items:
                parts.append(f"### {area.title}: {title.lower()}")
            for item in items.values():
                parts += show(item)
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
