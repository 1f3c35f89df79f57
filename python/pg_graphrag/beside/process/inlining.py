"""Bodies of functions in SQL in place of their calls in a view.

A view reads with its owner's rights, but a function that it calls has its caller's. What a view takes from tables that its
callers may not read must stand in the view itself. So that a rule is written once, its function's body is put there.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pg_graphrag.beside.process.routines import arguments_of, split_list

_FUNCTION = re.compile(
    r"^CREATE FUNCTION graphrag\.(\w+)\((.*?)\)\s*RETURNS (.*?)\nLANGUAGE sql[^\n]*\nBEGIN ATOMIC\n(.*);\nEND;$",
    re.DOTALL,
)
_CALL = re.compile(r"graphrag\.(\w+)\(")
_ALIAS = re.compile(r" AS \w+")


@dataclass(frozen=True)
class Body:
    """A function in SQL: the names and defaults of its arguments, the columns that it returns (none: a value), its query."""

    arguments: tuple[tuple[str, str | None], ...]
    columns: tuple[str, ...]
    query: str


def bodies(statements: Iterable[str], names: Iterable[str]) -> dict[str, Body]:
    """Return the functions of these names, of those that statements make."""
    bodies_by_name = {}
    for statement in statements:
        match = _FUNCTION.match(statement)
        if match is not None and match[1] in names:
            _, arguments, returned, query = match.groups()
            columns = arguments_of(returned[len("TABLE (") : -1]) if returned.startswith("TABLE (") else ()
            bodies_by_name[match[1]] = Body(
                tuple((argument.name, argument.default) for argument in arguments_of(arguments)),
                tuple(column.name for column in columns),
                query,
            )
    return bodies_by_name


def inlined(text: str, functions: dict[str, Body]) -> str:
    """Return SQL with the bodies of `functions` in place of their calls. What returns rows must have an alias: AS name."""
    parts = []
    place = 0
    for match in _CALL.finditer(text):
        body = functions.get(match[1])
        if body is None or match.start() < place:
            continue
        end = _end(text, match.end())
        values = [value.strip() for value in split_list(text[match.end() : end])]
        defaults = [default for _, default in body.arguments[len(values) :]]
        values_by_name = dict(zip([name for name, _ in body.arguments], [*values, *defaults], strict=True))
        # Among columns of the same names, arguments have the function's name before them.
        prefix = rf"\b{match[1]}\." if f"{match[1]}." in body.query else r"(?<![.\w])"
        argument = re.compile(rf"{prefix}({'|'.join(values_by_name)})\b")
        query = "".join(
            str(values_by_name[part]) if place_of % 2 else part
            for place_of, part in enumerate(argument.split(body.query))
        )
        parts += [text[place : match.start()], "(\n", inlined(query, functions), ")"]
        place = end + 1
        if body.columns:
            alias = _ALIAS.match(text, place)
            assert alias is not None, f"{match[1]} has no alias"
            parts += [alias[0], f" ({', '.join(body.columns)})"]
            place = alias.end()
    return "".join([*parts, text[place:]])


def _end(text: str, start: int) -> int:
    """Return the place of the bracket that closes the one before `start`."""
    depth = 1
    for match in re.finditer(r"'[^']*'|[()]", text[start:]):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return start + match.start()
    raise AssertionError(f"no closing bracket: {text[start:]}")
