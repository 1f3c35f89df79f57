"""The functions of ``sql/`` that are Python: their arguments, what they return, and with whose rights they run."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError, not_built

# What extension/plain_schema.py makes of ``sql/``.
PLAIN = Path(__file__).with_name("plain")


@dataclass(frozen=True)
class Argument:
    """An argument of a routine: its SQL type, and its default, where it has one, as a call gives it."""

    name: str
    type: str
    default: Any = field(default=None, hash=False)
    has_default: bool = False


@dataclass(frozen=True)
class Routine:
    """A function or procedure whose body is Python.

    `passed`: the names of its arguments, in the order in which its body passes them to the function at `path`.
    `columns`: names and types of its result; none for a procedure or void. `is_set`: whether it returns rows. `reads`: it
      is STABLE, so all its statements read the snapshot of the call, and none writes. `as_owner`: SECURITY DEFINER.
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


@cache
def routines() -> dict[str, tuple[Routine, ...]]:
    """Return all routines by name; some names have several, with other arguments."""
    return {name: tuple(map(_routine, overloads)) for name, overloads in _catalog()["routines"].items()}


def dumped() -> list[tuple[str, str]]:
    """Return the tables and sequences that a dump has, in the order in which they are made, and the condition of their rows."""
    return [(name, condition) for name, condition in _catalog()["dumped"]]


def _catalog() -> dict[str, Any]:
    catalog: dict[str, Any] = json.loads(made_by_build(PLAIN / "catalog.json"))
    return catalog


def made_by_build(path: Path) -> str:
    """Return the text of a file that a build makes.

    Raises GraphRAGError: 58P01 when it is not there: the package was put in place without its build.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise not_built(path, "plain_schema") from error


def _routine(fields: dict[str, Any]) -> Routine:
    lists = {name: tuple(map(tuple, fields[name])) for name in ("columns", "settings")}
    arguments = tuple(Argument(**argument) for argument in fields["arguments"])
    return Routine(**{**fields, **lists, "arguments": arguments, "passed": tuple(fields["passed"])})


def find(name: str, argument_names: Collection[str]) -> Routine:
    """Return the routine of that name that takes the given arguments.

    Raises GraphRAGError: 42883 if there is none.
    """
    overloads = routines().get(name, ())
    for routine in overloads:
        needed = {item.name for item in routine.arguments if not item.has_default}
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
