"""The fence around a statement that a model wrote: one SELECT over named relations, of harmless parts alone.

pglast has PostgreSQL's own grammar. What is not on the lists below is refused: a part of the language that nobody has
thought of is not let through. What is run is the text that is made of the checked tree, never the model's.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError

MAX_CHARACTERS = 4000
# Put before the names of common table expressions: a reference that PostgreSQL resolves otherwise than this module does finds
# nothing, since no relation is called so.
_CTE = "with "

# Node types without anything to check but their parts.
_PLAIN_NODES = frozenset(
    "A_ArrayExpr A_Const A_Indices A_Star Alias BitString BoolExpr Boolean BooleanTest CaseExpr CaseWhen"
    " CoalesceExpr Float GroupingFunc GroupingSet Integer JoinExpr List MinMaxExpr NullTest RangeSubselect"
    " ResTarget RowExpr String WindowDef".split()
)
_FUNCTIONS = frozenset(
    # Aggregates
    "array_agg avg bit_and bit_or bool_and bool_or corr count covar_pop covar_samp every max min mode percentile_cont"
    " percentile_disc regr_slope regr_intercept regr_r2 stddev stddev_pop stddev_samp string_agg sum var_pop var_samp variance"
    # Window functions
    " cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number"
    # Numbers
    " abs ceil ceiling div exp floor ln log mod power round scale sign sqrt trunc width_bucket"
    # Texts
    " ascii btrim char_length concat concat_ws initcap left length like_escape lower ltrim octet_length overlay position"
    " regexp_count regexp_like replace reverse right rtrim similar_to_escape split_part starts_with strpos substr substring"
    " to_char translate upper"
    # Dates
    " age date_bin date_part date_trunc extract isfinite justify_days justify_hours justify_interval make_date"
    " make_interval make_timestamp now overlaps timezone to_date to_timestamp"
    # Arrays and JSON
    " array_length array_position array_to_string cardinality json_array_length json_extract_path_text json_typeof"
    " jsonb_array_length jsonb_exists jsonb_extract_path jsonb_extract_path_text jsonb_typeof".split()
)
_TYPES = frozenset(
    "bool bpchar date float4 float8 int2 int4 int8 interval json jsonb numeric text time timestamp timestamptz timetz uuid"
    " varchar".split()
)
_VALUES = frozenset(
    "SVFOP_CURRENT_DATE SVFOP_CURRENT_TIME SVFOP_CURRENT_TIME_N SVFOP_CURRENT_TIMESTAMP SVFOP_CURRENT_TIMESTAMP_N"
    " SVFOP_LOCALTIME SVFOP_LOCALTIME_N SVFOP_LOCALTIMESTAMP SVFOP_LOCALTIMESTAMP_N".split()
)


class Refused(Exception):
    """Why a statement is not run, in words that a model can act on."""


@dataclass(frozen=True, slots=True)
class FencedStatement:
    """A statement that may be run with search_path pg_catalog, and the relations that it reads, as `schema.table`."""

    text: str
    relations: frozenset[tuple[str, str]]


def fenced(statement: str, relations: Iterable[tuple[str, str]]) -> FencedStatement:
    """Return a statement in a form that may be run.

    `relations` (iterable of (str, str)): schema and name of the relations that it may read. A name without schema means the
    only one with that name.

    Raises Refused if it is no single SELECT, or has a part that is not allowed.
    Raises GraphRAGError: 0A000 if pglast is not installed.
    """
    if len(statement) > MAX_CHARACTERS:
        raise Refused(f"it is longer than {MAX_CHARACTERS} characters")
    allowed = frozenset(relations)
    fence = _Fence(allowed)
    text = _printed(fence.checked(_parsed(statement)))
    # The printed statement is checked once more: the printer is not trusted.
    again = _Fence(allowed, are_qualified=True)
    again.checked(_parsed(text))
    return FencedStatement(text, frozenset(again.relations))


@cache
def _pglast() -> Any:
    # Its library is made of PostgreSQL's own source. Inside a server its functions must be its own, not the server's of the
    # same names: these would work on the server's memory, and end it.
    flags, own_first = sys.getdlopenflags(), getattr(os, "RTLD_DEEPBIND", 0)
    if not own_first and "plpy" in sys.modules:
        raise GraphRAGError(
            'option "sql" cannot be had on this system inside a server',
            sqlstate="0A000",
            hint="Ask through a process beside the database: docs/hosts.md.",
        )
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL | own_first)
    try:
        import pglast
        import pglast.stream
    except ImportError:
        raise GraphRAGError(
            'option "sql" needs the package pglast, which is not installed',
            sqlstate="0A000",
            hint="Install pg_graphrag[sql] where the package runs: it parses what a model writes.",
        ) from None
    finally:
        sys.setdlopenflags(flags)
    return pglast


def check_is_installed() -> None:
    """Raise 0A000 where pglast is not installed."""
    _pglast()


def _parsed(statement: str) -> Any:
    pglast = _pglast()
    try:
        statements = pglast.parse_sql(statement)
    except pglast.parser.ParseError as error:
        raise Refused(f"it has an error of syntax: {error.args[0]}") from None
    except (ValueError, RecursionError):
        raise Refused("it cannot be parsed") from None
    if len(statements) != 1:
        raise Refused(f"it is {len(statements)} statements, not one")
    return statements[0].stmt


def _printed(tree: Any) -> str:
    try:
        return str(_pglast().stream.RawStream()(tree))
    except Exception:
        # The printer raises errors of many classes where it does not know a part.
        raise Refused("it has a part that cannot be printed") from None


class _Fence:
    def __init__(self, relations: frozenset[tuple[str, str]], *, are_qualified: bool = False) -> None:
        self._allowed = relations
        self._are_qualified = are_qualified
        # Common table expressions that were met; each is renamed.
        self._ctes: set[str] = set()
        self.relations: set[tuple[str, str]] = set()
        self._checks: dict[str, Callable[[Any], None]] = {
            "A_Expr": self._check_operator,
            "A_Indirection": self._check_indirection,
            "ColumnRef": self._check_column,
            "CommonTableExpr": self._check_cte,
            "FuncCall": self._check_function,
            "RangeVar": self._check_relation,
            "SelectStmt": self._check_select,
            "SortBy": self._check_order,
            "SQLValueFunction": self._check_value,
            "SubLink": self._check_sublink,
            "TypeCast": self._check_cast,
            "WithClause": self._check_with,
        }

    def checked(self, tree: Any) -> Any:
        """Return the tree of a statement, its relations qualified."""
        if _kind(tree) != "SelectStmt":
            raise Refused("it is no SELECT")
        try:
            for node in list(_nodes(tree)):
                if _kind(node) == "CommonTableExpr":
                    self._ctes.add(_renamed(node.ctename))
            for node in list(_nodes(tree)):
                kind = _kind(node)
                if kind in self._checks:
                    self._checks[kind](node)
                elif kind not in _PLAIN_NODES:
                    raise Refused(f"{kind} is not allowed in it")
        except RecursionError:
            raise Refused("it is nested too deep") from None
        return tree

    def _check_select(self, node: Any) -> None:
        if node.intoClause is not None:
            raise Refused("SELECT INTO is not allowed")
        if node.lockingClause:
            raise Refused("it may not lock rows (FOR UPDATE, FOR SHARE)")

    def _check_with(self, node: Any) -> None:
        if node.recursive:
            raise Refused("WITH RECURSIVE is not allowed")

    def _check_cte(self, node: Any) -> None:
        if _kind(node.ctequery) != "SelectStmt":
            raise Refused("WITH may hold SELECT alone")
        if node.search_clause is not None or node.cycle_clause is not None:
            raise Refused("SEARCH and CYCLE are not allowed")
        node.ctename = _renamed(node.ctename)

    def _check_relation(self, node: Any) -> None:
        if node.catalogname is not None:
            raise Refused(f"relations of another database are not read: {node.catalogname}")
        name, schema = node.relname, node.schemaname
        if schema is None and _renamed(name) in self._ctes:
            if node.alias is None and not name.startswith(_CTE):
                node.alias = _pglast().ast.Alias(aliasname=name)
            node.relname = _renamed(name)
            return
        matches = [pair for pair in self._allowed if pair[1] == name and schema in (None, pair[0])]
        if len(matches) != 1 or (schema is None and self._are_qualified):
            full_name = name if schema is None else f"{schema}.{name}"
            raise Refused(f"the relation {full_name} is not one of those that may be read")
        node.schemaname = matches[0][0]
        if not self._are_qualified and node.alias is None:
            # Columns may be qualified by the name alone.
            node.alias = _pglast().ast.Alias(aliasname=name)
        self.relations.add(matches[0])

    def _check_column(self, node: Any) -> None:
        # Relations have an alias here, which takes the place of their qualified name.
        fields = node.fields
        if len(fields) > 2 and tuple(getattr(field, "sval", None) for field in fields[:2]) in self._allowed:
            node.fields = fields[1:]

    def _check_indirection(self, node: Any) -> None:
        # PostgreSQL reads (value).name as name(value), too: any function of one argument.
        if any(_kind(part) == "String" for part in node.indirection):
            raise Refused("a field of a value, (value).name, is not allowed")

    def _check_function(self, node: Any) -> None:
        name = _own_name(node.funcname)
        if name not in _FUNCTIONS:
            raise Refused(f"the function {_joined(node.funcname)} is not allowed")
        # As the grammar writes EXTRACT, TRIM and the like; so nobody else's function is meant.
        node.funcname = tuple(_pglast().ast.String(sval=part) for part in ("pg_catalog", name))

    def _check_cast(self, node: Any) -> None:
        type_name = node.typeName
        if _own_name(type_name.names) not in _TYPES or type_name.setof or type_name.pct_type:
            raise Refused(f"a cast to {_joined(type_name.names)} is not allowed")

    def _check_operator(self, node: Any) -> None:
        self._check_operator_name(node.name)

    def _check_sublink(self, node: Any) -> None:
        # ANY (SELECT …) and ALL (SELECT …) name one.
        if node.operName:
            self._check_operator_name(node.operName)

    def _check_operator_name(self, names: Any) -> None:
        if _own_name(names) is None:
            raise Refused(f"the operator {_joined(names)} is not allowed")

    def _check_order(self, node: Any) -> None:
        if node.useOp:
            raise Refused("ORDER BY … USING is not allowed")

    def _check_value(self, node: Any) -> None:
        if node.op.name not in _VALUES:
            raise Refused(f"{node.op.name.removeprefix('SVFOP_').lower()} is not allowed")


def _kind(node: Any) -> str:
    return type(node).__name__


def _nodes(value: Any) -> Iterator[Any]:
    """Yield a node and all nodes in it. The type of a cast is checked by its names; only its modifiers are walked into."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, _pglast().ast.Node):
        if _kind(value) == "TypeName":
            yield from _nodes((value.typmods or (), value.arrayBounds or ()))
            return
        yield value
        for name in value:
            yield from _nodes(getattr(value, name))


def _own_name(names: Any) -> str | None:
    """Return a name that is the server's own: without a schema, or of pg_catalog."""
    parts = [name.sval for name in names]
    if len(parts) == 2 and parts[0] == "pg_catalog":
        return str(parts[1])
    return str(parts[0]) if len(parts) == 1 else None


def _joined(names: Any) -> str:
    return ".".join(name.sval for name in names)


def _renamed(name: str) -> str:
    return name if name.startswith(_CTE) else _CTE + name
