"""What ``sql/`` says of the functions that are Python: their arguments, what they return, and with whose rights they run."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pg_graphrag.ground.errors import GraphRAGError

# A link in a checkout, a folder in an installed package.
SOURCES = Path(__file__).with_name("sql")

_QUOTE = re.compile(r"\$[a-z_]*\$")
_NAMED = re.compile(r"^CREATE (?:FUNCTION|PROCEDURE|VIEW) ([a-z_.]+)")
_ROUTINE = re.compile(
    r"^CREATE (FUNCTION|PROCEDURE) graphrag\.(\w+)\((.*?)\)\s*(?:RETURNS (.*?)\s*)?\nLANGUAGE plpython3u(.*?)\nAS \$\$(.*)\$\$",
    re.DOTALL,
)
_TARGET = re.compile(r'call\(plpy, "@extversion@", "([\w.]+:\w+)"((?:,\s*\w+)*)\)')
_COMPOSITE = re.compile(r"^CREATE TYPE ([\w.]+) AS \((.*)\);", re.DOTALL)
_COLUMN = re.compile(r"^COMMENT ON COLUMN (graphrag\.\w+)\.(\w+) IS ")
_ARGUMENT = re.compile(r"(\w+)\s+(.+?)(?:\s+DEFAULT\s+(.+))?")
_SETTING = re.compile(r"\bSET ([\w.]+) = (.+?)(?= SET |\n|$)")


@dataclass(frozen=True)
class Argument:
    """An argument of a routine: its SQL type, and its default as SQL says it (None: there is none)."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True)
class Routine:
    """A function or procedure whose body is Python.

    `passed`: the names of its arguments, in the order in which its body gives them to the function at `path`.
    `columns`: name and type of what it returns; none of a procedure or void. `is_set`: whether it returns rows. `reads`: it is
    STABLE, so all its statements read the snapshot of the call, and none writes. `as_owner`: SECURITY DEFINER.
    """

    name: str
    path: str
    arguments: tuple[Argument, ...]
    passed: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    is_set: bool
    is_procedure: bool
    reads: bool
    as_owner: bool
    settings: tuple[tuple[str, str], ...]

    @property
    def signature(self) -> str:
        """The function as SQL names it among others of its name."""
        return f"graphrag.{self.name}({', '.join(argument.type for argument in self.arguments)})"


def statements() -> Iterator[str]:
    """Yield the statements of ``sql/`` in the order of the install script, without the comments between them.

    Raises
    ------
    GraphRAGError
        58P01 where the package came without ``sql/``.
    """
    paths = sorted(SOURCES.glob("*/*.sql"))
    if not paths:
        raise GraphRAGError(
            "this copy of the Python package has no SQL sources",
            sqlstate="58P01",
            hint="Use the package of a checkout or wheel: pip install . or pip install FILE.whl.",
        )
    for path in paths:
        yield from split(path.read_text(encoding="utf-8"))


def split(script: str) -> Iterator[str]:
    """Yield the statements of a script in the style of ``sql/``: each ends with a line that ends with a semicolon."""
    lines: list[str] = []
    is_quoted = is_atomic = False
    for line in script.splitlines():
        if not lines and (not line.strip() or line.startswith("--")):
            continue
        lines.append(line)
        if len(_QUOTE.findall(line)) % 2:
            is_quoted = not is_quoted
        if line == "BEGIN ATOMIC":
            is_atomic = True
        elif line == "END;":
            is_atomic = False
        if line.endswith(";") and not is_quoted and not is_atomic:
            yield "\n".join(lines)
            lines.clear()


def name_of(statement: str) -> str | None:
    """Return the qualified name of the function, procedure or view that a statement makes."""
    match = _NAMED.match(statement)
    return match and match[1]


def parse(statement: str) -> Routine | None:
    """Return the routine that a statement makes; None where it makes none that calls a function of the package."""
    match = _ROUTINE.match(statement)
    if match is None:
        return None
    kind, name, arguments, returned, attributes, body = match.groups()
    target = _TARGET.search(body)
    if target is None:
        return None
    columns, is_set = _columns(returned)
    texts = [" ".join(text.split()) for text in split_list(arguments)]
    outputs = tuple(_argument(text.removeprefix("OUT ")) for text in texts if text.startswith("OUT "))
    columns = columns or tuple((output.name, output.type) for output in outputs)
    return Routine(
        name,
        target[1],
        tuple(_argument(text) for text in texts if not text.startswith("OUT ")),
        tuple(target[2].replace(",", " ").split()),
        columns,
        is_set,
        kind == "PROCEDURE",
        "STABLE" in attributes or "IMMUTABLE" in attributes,
        "SECURITY DEFINER" in attributes,
        tuple((setting, value.strip()) for setting, value in _SETTING.findall(attributes)),
    )


def _columns(returned: str | None) -> tuple[tuple[tuple[str, str], ...], bool]:
    if returned is None or returned == "void":
        return (), False
    if returned.startswith("TABLE ("):
        columns = (_argument(text) for text in split_list(returned[len("TABLE (") : -1]))
        return tuple((column.name, column.type) for column in columns), True
    if returned.startswith("SETOF "):
        return (("", returned.removeprefix("SETOF ")),), True
    return (("", returned),), False


def _argument(text: str) -> Argument:
    match = _ARGUMENT.fullmatch(" ".join(text.split()))
    assert match is not None, text
    return Argument(*match.groups())


def split_list(text: str) -> Iterator[str]:
    """Yield the parts between the commas that no bracket or quote encloses."""
    depth, is_quoted, start = 0, False, 0
    for place, character in enumerate(text):
        if character == "'":
            is_quoted = not is_quoted
        elif is_quoted:
            continue
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if text[start:].strip():
        yield text[start:]


def arguments_of(text: str) -> tuple[Argument, ...]:
    """Return the arguments, or columns, of a list of them."""
    return tuple(_argument(part) for part in split_list(text))


@cache
def routines() -> dict[str, tuple[Routine, ...]]:
    """Return all routines by name; some names have several, with other arguments."""
    by_name: dict[str, tuple[Routine, ...]] = {}
    composites: dict[str, tuple[tuple[str, str], ...]] = {}
    in_sql = set()
    for statement in statements():
        if (composite := _COMPOSITE.match(statement)) is not None:
            fields = (_argument(text) for text in split_list(composite[2]))
            composites[composite[1]] = tuple((field.name, field.type) for field in fields)
        elif (commented := _COLUMN.match(statement)) is not None:
            # Rows of a view: which columns it has, in their order. What Python returns for them is what the client gives.
            composites[commented[1]] = (*composites.get(commented[1], ()), (commented[2], ""))
        elif (routine := parse(statement)) is not None:
            if len(routine.columns) == 1 and (columns := composites.get(routine.columns[0][1])) is not None:
                routine = replace(routine, columns=columns)
            by_name[routine.name] = (*by_name.get(routine.name, ()), routine)
        elif (name := name_of(statement)) is not None:
            in_sql.add(name.removeprefix("graphrag."))
    # A function in SQL around a routine of its name is that routine.
    return by_name | {name: by_name[f"_{name}"] for name in in_sql - by_name.keys() if f"_{name}" in by_name}


def find(name: str, argument_names: Collection[str]) -> Routine:
    """Return the routine of that name that takes the arguments that are given.

    Raises
    ------
    GraphRAGError
        42883 when there is none.
    """
    overloads = routines().get(name, ())
    for routine in overloads:
        needed = {item.name for item in routine.arguments if item.default is None}
        if needed <= set(argument_names) <= {item.name for item in routine.arguments}:
            return routine
    signatures = "; ".join(f"{name}({', '.join(item.name for item in routine.arguments)})" for routine in overloads)
    raise GraphRAGError(
        f"there is no function graphrag.{name}({', '.join(argument_names)}) whose body is Python",
        sqlstate="42883",
        hint=f"Its arguments are {signatures}."
        if signatures
        else "Functions of SQL alone are called by SQL, on either host.",
    )
