"""Lint of the SQL in python/, on PostgreSQL's own parser: statements parse, and name what they use by its schema.

Usage: lint_python_sql.py [FOLDER]

A statement is a string that begins as one does, with the constants of the package that it is put together of. For what is known
at run time alone a sample is put in its place. What no sample makes a statement of is listed in python_sql_pieces.txt.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pglast
from pglast import ast as pg
from pglast.visitors import Skip, Visitor

BEGINS = re.compile(
    r"\s*(?:WITH|SELECT|INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE|LOCK|COPY|CALL|SET|RESET|SHOW|LISTEN|CREATE|ALTER|DROP"
    r"|GRANT|REVOKE|DO|EXPLAIN|ANALYZE|VACUUM|DECLARE|PREPARE)\s"
)
# Methods of server.Database whose first argument is a statement.
METHODS = frozenset({"query", "query_rows", "literal_query", "prepare", "cursor", "stream"})
# What is said to people quotes statements.
SAID = frozenset({"hint", "detail", "help", "description", "epilog"})
# Stand for what is known at run time alone: a name, nothing, a condition, a query, a number.
NAME = "given_at_run_time"
SAMPLES = (NAME, "", "true", "SELECT 1", "1")
# Of a statement with more unknowns each gets the same sample.
MOST_UNKNOWNS = 4
FIELD = re.compile(r"(?<!\{)\{([a-z_]+)\}(?!\})")
PARAMETER = re.compile(r"%(?:s|\(\w+\)[bs])")
UNKNOWN = re.compile("\0([^\0]*)\0")
NAMES = re.compile(r"""([\w."']|\b(FROM|ONLY|JOIN|INTO) )\Z""")

# What pgvector and AGE add, in schemas that are on nobody's search path.
FOREIGN_OPERATORS = frozenset({"<=>", "<+>", "<~>", "<%>"})
FOREIGN_TYPES = frozenset({"vector", "halfvec", "sparsevec", "agtype", "graphid"})
# Who runs a statement, and where names are looked up, is for functions of sql/ to say.
SETTINGS = frozenset({"role", "session_authorization", "search_path"})

PIECES = Path(__file__).with_name("python_sql_pieces.txt")


class Module:
    """The syntax of a module, and what its names stand for where that is text."""

    def __init__(self, path: Path, modules: dict[str, Module]) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self._modules = modules
        self._constants: dict[str, ast.expr] = {}
        self._imports: dict[str, tuple[str, str]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._constants[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
                self._constants[node.target.id] = node.value
            elif isinstance(node, ast.ImportFrom) and node.module:
                self._imports |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}

    def text(self, node: ast.expr) -> str:
        """Return the text of an expression, with unknowns between two NUL for what is known at run time alone."""
        match node:
            case ast.Constant(value=str() | int() | float()):
                return str(node.value)
            case ast.Name() if node.id in self._constants:
                return self.text(self._constants[node.id])
            case ast.Name() if node.id in self._imports:
                module, name = self._imports[node.id]
                return self._modules[module].text(ast.Name(name)) if module in self._modules else unknown(node)
            case ast.JoinedStr():
                return "".join(self.text(value) for value in node.values)
            case ast.FormattedValue():
                return self.text(node.value)
            case ast.BinOp(op=ast.Add()):
                return self.text(node.left) + self.text(node.right)
            case ast.Call(func=ast.Attribute(attr="format"), args=[]) if all(keyword.arg for keyword in node.keywords):
                values = {str(keyword.arg): self.text(keyword.value) for keyword in node.keywords}
                try:
                    return self.text(node.func.value).format(**values)
                except (KeyError, IndexError, ValueError):
                    pass
        return unknown(node)

    def statements(self) -> Iterator[tuple[int, str]]:
        """Yield line and text of everything that begins as a statement does."""
        yield from self._statements(self.tree)

    def _statements(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        match node:
            case ast.keyword() if node.arg in SAID:
                return
            case ast.Raise() | ast.Expr(value=ast.Constant()):
                return
            case ast.Constant(value=str()) | ast.JoinedStr() | ast.BinOp(op=ast.Add()):
                text = self.text(node)
                if BEGINS.match(text):
                    yield node.lineno, text
                    return
            case ast.Call(func=ast.Attribute(attr="format")):
                text = self.text(node)
                if BEGINS.match(text):
                    yield node.lineno, text
                    return
        for child in ast.iter_child_nodes(node):
            yield from self._statements(child)

    def unrecognised(self) -> Iterator[int]:
        """Yield the lines of calls that run what does not begin as a statement does."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr=method, value=of),
                    args=[ast.Constant(value=str()) | ast.JoinedStr() as sql, *_],
                ) if method in METHODS and ast.unparse(of).endswith("db"):
                    text = self.text(sql)
                    if not BEGINS.match(text) and not text.startswith("\0"):
                        yield node.lineno


def unknown(node: ast.expr) -> str:
    """Return what stands for an expression that has no text before run time."""
    return f"\0{ast.unparse(node)}\0"


def parsed(text: str) -> tuple[pg.RawStmt, ...] | None:
    """Return the statements of a text; None where no samples make one of it."""
    text = PARAMETER.sub("$1", text)
    for template in (text, FIELD.sub("\0\\1\0", text).replace("{{", "{").replace("}}", "}")):
        # Part of a word, after a dot, or where a relation stands, there is a name.
        parts = template.split("\0")
        names = {
            unknown: NAME for before, unknown in zip(parts[::2], parts[1::2], strict=False) if NAMES.search(before)
        }
        unknowns = sorted({*UNKNOWN.findall(template)} - {*names})
        if len(unknowns) <= MOST_UNKNOWNS:
            tries = [dict(zip(unknowns, some, strict=True)) for some in product(SAMPLES, repeat=len(unknowns))]
        else:
            tries = [dict.fromkeys(unknowns, sample) for sample in SAMPLES]
        for samples in tries:
            try:
                return pglast.parse_sql(UNKNOWN.sub(lambda match, values=names | samples: values[match[1]], template))
            except pglast.parser.ParseError:
                pass
    return None


class Names(Visitor):
    """Collects what a statement leaves to the search path, and what is not for it to set."""

    def __init__(self, statement: pg.RawStmt) -> None:
        super().__init__()
        self.problems: list[str] = []
        self._queries = {node.ctename for node in nodes(statement, pg.CommonTableExpr)}
        self(statement)

    def _check(self, what: str, name: str, qualified: bool) -> None:
        # What is put before a name at run time may be its schema.
        if not qualified and not name.startswith(NAME):
            self.problems.append(f"{what} {name} is not schema-qualified")

    def visit_LockingClause(self, ancestors: object, node: pg.LockingClause) -> object:
        return Skip  # it names what FROM names

    def visit_RangeVar(self, ancestors: object, node: pg.RangeVar) -> None:
        self._check("relation", node.relname, node.schemaname is not None or node.relname in self._queries)

    def visit_FuncCall(self, ancestors: object, node: pg.FuncCall) -> None:
        # unnest() of several arrays is grammar, and finds pg_catalog's.
        name = node.funcname[-1].sval
        self._check("function", name, len(node.funcname) > 1 or (name == "unnest" and len(node.args) > 1))

    def visit_A_Expr(self, ancestors: object, node: pg.A_Expr) -> None:
        name = node.name[-1].sval
        self._check("operator", name, len(node.name) > 1 or name not in FOREIGN_OPERATORS)

    def visit_TypeName(self, ancestors: object, node: pg.TypeName) -> None:
        if node.names:
            name = node.names[-1].sval
            self._check("type", name, len(node.names) > 1 or name not in FOREIGN_TYPES)

    def visit_VariableSetStmt(self, ancestors: object, node: pg.VariableSetStmt) -> None:
        if node.name in SETTINGS:
            self.problems.append(f"{node.name} is set")


def nodes(statement: pg.RawStmt, kind: type[pg.Node]) -> list[pg.Node]:
    """Return the nodes of a kind in a statement."""
    nodes_of_kind = []

    class Finder(Visitor):
        def visit(self, ancestors: object, node: pg.Node) -> None:
            if isinstance(node, kind):
                nodes_of_kind.append(node)

    Finder()(statement)
    return nodes_of_kind


def judged(text: str) -> list[str]:
    """Return what is wrong with a text that begins as a statement does."""
    statements = parsed(text)
    if statements is None:
        return ["is no statement"]
    return [problem for statement in statements for problem in Names(statement).problems]


def beginning(text: str) -> str:
    """Return the beginning of a text, by which a list names it."""
    return " ".join(UNKNOWN.sub(r"{\1}", text).split())[:70].strip()


def modules_of(folder: Path) -> dict[str, Module]:
    """Return the modules under a folder by their names."""
    modules: dict[str, Module] = {}
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        modules[name] = Module(path, modules)
    return modules


def lint(folder: Path, pieces: list[str]) -> list[str]:
    """Return the problems of the modules under a folder; `pieces`, each ``path beginning``, are judged where they are used."""
    problems, used = [], set()
    for module in modules_of(folder).values():
        path = module.path.relative_to(folder)
        for line, text in module.statements():
            faults, piece = judged(text), f"{path} {beginning(text)}"
            if faults and piece in pieces:
                used.add(piece)
            else:
                problems += [f"{module.path}:{line}: {fault}: {beginning(text)}" for fault in faults]
        problems += [
            f"{module.path}:{line}: is run, and does not begin as a statement" for line in module.unrecognised()
        ]
    problems += [f"{PIECES.name}: is a statement by now, or gone: {piece}" for piece in pieces if piece not in used]
    return problems


def main(folder: Path) -> int:
    """Print every problem and return how many there are, at most 1."""
    problems = lint(folder, PIECES.read_text(encoding="utf-8").splitlines())
    print(*problems, sep="\n", end="\n" if problems else "")
    return min(len(problems), 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "python")))
