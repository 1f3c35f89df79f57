"""Lint of sql/, on PostgreSQL's own parser: search paths, SECURITY DEFINER, comments, PL/Python bodies.

Usage: python -m tests.lint_sql [FOLDER]
"""

import sys
from pathlib import Path
from typing import Any

import pglast
from pglast import ast, enums

from extension.plain_schema import OUTPUT_MODES, name_of

MAX_PYTHON_LINES = 10

# SECURITY DEFINER runs with the extension owner's rights: every one is here, a line each, its reason behind its name.
SECURITY_DEFINER = frozenset(
    line.split()[0] for line in Path(__file__).with_name("security_definer.txt").read_text().splitlines()
)

# What CREATE EXTENSION replaces in a script; any valid text will do for the parser.
SUBSTITUTIONS = {
    "@extversion@": "0.0.0",
    "@extschema@": "graphrag",
    "@extschema:vector@": "public",
    "@extschema:age@": "ag_catalog",
}


def types_of(types: Any) -> tuple[str, ...]:
    """Return comparable names of argument types: without schema, arrays marked."""
    return tuple(type_name.names[-1].sval + ("[]" if type_name.arrayBounds else "") for type_name in types or ())


def is_public(name: str) -> bool:
    """Tell whether the last part of a dotted name is without the underscore of private names."""
    return not name.rsplit(".", 1)[-1].startswith("_")


class Linter:
    """Collects what the statements of all files define, comment on, and break."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._defined: dict[tuple[str, ...], str] = {}
        self._commented: set[tuple[str, ...]] = set()

    def read(self, path: Path) -> None:
        """Check the statements of one file."""
        source = path.read_text(encoding="utf-8")
        for token, text in SUBSTITUTIONS.items():
            source = source.replace(token, text)
        try:
            statements = pglast.parse_sql(source)
        except pglast.parser.ParseError as error:
            self.problems.append(f"{path}: {error}")
            return
        # Positions are in characters, and begin with the white space and comments before the statement.
        for raw in statements:
            begin = raw.stmt_location
            text = source[begin : begin + raw.stmt_len] if raw.stmt_len else source[begin:]
            line = source[:begin].count("\n") + text[: len(text) - len(text.lstrip())].count("\n") + 1
            self._statement(raw.stmt, f"{path}:{line}")

    def finish(self) -> list[str]:
        """Return all problems, those that only show when every file has been read among them."""
        for key, where in self._defined.items():
            if key not in self._commented and key[:2] not in self._commented:
                self.problems.append(f"{where}: {' '.join(key)} has no COMMENT ON")
        return self.problems

    def _statement(self, statement: ast.Node, where: str) -> None:
        match statement:
            case ast.CreateFunctionStmt():
                self._function(statement, where)
            case ast.CreateStmt() if statement.partbound is None:
                self._table(statement, where)
            case ast.ViewStmt():
                self._define(where, "view", f"{statement.view.schemaname}.{statement.view.relname}")
            case ast.CreateTableAsStmt():
                self._define(where, "view", f"{statement.into.rel.schemaname}.{statement.into.rel.relname}")
            case ast.CompositeTypeStmt():
                self._define(where, "type", f"{statement.typevar.schemaname}.{statement.typevar.relname}")
            case ast.CreateEnumStmt():
                self._define(where, "type", name_of(statement.typeName))
            case ast.CreateDomainStmt():
                self._define(where, "type", name_of(statement.domainname))
            case ast.CommentStmt():
                self._comment(statement)

    def _define(self, where: str, *key: str) -> None:
        if "." not in key[1] or key[1].startswith("None."):
            self.problems.append(f"{where}: {key[1]} is not schema-qualified")
        if is_public(key[1]):
            self._defined[key] = where

    def _function(self, function: ast.CreateFunctionStmt, where: str) -> None:
        name = name_of(function.funcname)
        inputs = [parameter.argType for parameter in function.parameters or () if parameter.mode not in OUTPUT_MODES]
        self._define(where, "routine", name, *types_of(inputs))
        options = {option.defname: option.arg for option in function.options or () if option.defname != "set"}
        settings = {option.arg.name for option in function.options or () if option.defname == "set"}
        standard_body = function.sql_body is not None
        definer = "security" in options and bool(options["security"].boolval)
        # A procedure with a SET clause could not commit: the workers qualify every name instead.
        if "search_path" not in settings and not standard_body and not function.is_procedure:
            self.problems.append(f"{where}: {name} pins no search_path and has no SQL-standard body")
        if definer and "search_path" not in settings:
            self.problems.append(f"{where}: {name} is SECURITY DEFINER without SET search_path")
        if definer and name not in SECURITY_DEFINER:
            self.problems.append(f"{where}: {name} is SECURITY DEFINER and not in tests/security_definer.txt")
        if "language" in options and options["language"].sval == "plpython3u":
            lines = [line for line in options["as"][0].sval.splitlines() if line.strip()]
            if len(lines) > MAX_PYTHON_LINES:
                self.problems.append(f"{where}: {name} has {len(lines)} lines of PL/Python; at most {MAX_PYTHON_LINES}")

    def _table(self, table: ast.CreateStmt, where: str) -> None:
        name = f"{table.relation.schemaname}.{table.relation.relname}"
        self._define(where, "table", name)
        if not is_public(name):
            return
        for element in table.tableElts or ():
            if isinstance(element, ast.ColumnDef) and is_public(element.colname):
                self._defined["column", f"{name}.{element.colname}"] = where

    def _comment(self, comment: ast.CommentStmt) -> None:
        kinds = enums.ObjectType
        match comment.objtype:
            case kinds.OBJECT_FUNCTION | kinds.OBJECT_PROCEDURE | kinds.OBJECT_ROUTINE:
                target = comment.object
                name = name_of(target.objname)
                self._commented.add(
                    ("routine", name) if target.args_unspecified else ("routine", name, *types_of(target.objargs))
                )
            case kinds.OBJECT_TABLE:
                self._commented.add(("table", name_of(comment.object)))
            case kinds.OBJECT_VIEW | kinds.OBJECT_MATVIEW:
                self._commented.add(("view", name_of(comment.object)))
            case kinds.OBJECT_TYPE | kinds.OBJECT_DOMAIN:
                self._commented.add(("type", name_of(comment.object.names)))
            case kinds.OBJECT_COLUMN:
                self._commented.add(("column", name_of(comment.object)))


def main(folder: Path) -> int:
    """Print every problem and return how many there are, at most 1."""
    linter = Linter()
    for path in sorted(folder.glob("*/*.sql")):
        linter.read(path)
    problems = linter.finish()
    print(*problems, sep="\n", end="\n" if problems else "")
    return min(len(problems), 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "sql")))
