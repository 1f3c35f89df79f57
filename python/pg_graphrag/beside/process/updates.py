"""Updates the plain schema from one version to another, in a database without the extension.

The database keeps the script that made its schema. An update runs what CREATE OR REPLACE cannot do
(``plain/OLD--NEW.sql``), then what is new in this version's script. It follows the rules of ``extension/upgrade.awk``.
"""

import re
from collections.abc import Iterator

from pg_graphrag.beside.process.routines import PLAIN, made_by_build
from pg_graphrag.ground.errors import GraphRAGError

_QUOTE = re.compile(r"\$[a-z_]*\$")
# Looks at the server before an installation.
_INSTALLING = re.compile(r"^DO ")
# The part of each update that closes new functions.
_CLOSING = re.compile(r"^DO \$new\$")
_REPLACED = re.compile(r"^CREATE (FUNCTION|PROCEDURE|VIEW|TRIGGER) ")
_DEFINED = re.compile(r"^CREATE (?:UNIQUE )?(TABLE|SEQUENCE|TYPE|INDEX) ([^\s(]+)")
_FIRING = re.compile(r"^ALTER TABLE \S+ (ENABLE|DISABLE) .*TRIGGER ")
_GRANTED_LIST = re.compile(r"(GRANT [^\n]*\n)(.*)\n(TO [^\n]*;)", re.DOTALL)


def changes_between(installed_version: str, version: str) -> Iterator[str]:
    """Yield the scripts of changes that lead from one version to another, in their order.

    Raises GraphRAGError: 0A000 where they do not.
    """
    ways = dict(path.stem.split("--") for path in sorted(PLAIN.glob("*--*.sql")))
    place = installed_version
    while place != version:
        if place not in ways:
            raise GraphRAGError(
                f"the schema graphrag is of version {installed_version}, from which no update leads to {version}",
                sqlstate="0A000",
                hint="Use the package of that version or of a later one, or copy what the database holds into a new one: "
                "pg-graphrag install and pg-graphrag copy there.",
            )
        yield made_by_build(PLAIN / f"{place}--{ways[place]}.sql")
        place = ways[place]


def update_statements(installed_script: str, script: str) -> Iterator[str]:
    """Yield statements that turn the objects of the installed script into those of another, except what must be altered or
    dropped.
    """
    identities = {_identity(part) for statement in _split(installed_script) for part in _parts(statement)}
    for statement in _split(script):
        if _CLOSING.match(statement):
            yield statement
            continue
        if _INSTALLING.match(statement):
            continue
        if _REPLACED.match(statement):
            yield re.sub(r"^CREATE\b", r"\g<0> OR REPLACE", statement)
            continue
        for part in _parts(statement):
            # A trigger that is replaced fires as a new one does.
            if _FIRING.match(part) or _identity(part) not in identities:
                yield part


def changed_tables(installed_script: str, script: str) -> list[str]:
    """Return the names of tables, indexes, sequences and types that both scripts make, in different ways."""
    before = dict(_definitions(installed_script))
    return [name for name, text in _definitions(script) if before.get(name, text) != text]


def _split(script: str) -> Iterator[str]:
    """Yield the statements of a script in the style of ``sql/``: each ends with a line that ends with a semicolon."""
    lines: list[str] = []
    is_atomic = False
    # The quote that is open: within it others are text.
    opened = ""
    for line in script.splitlines():
        if not lines and (not line.strip() or line.startswith("--")):
            continue
        lines.append(line)
        for quote in _QUOTE.findall(line):
            if not opened:
                opened = quote
            elif quote == opened:
                opened = ""
        if line == "BEGIN ATOMIC":
            is_atomic = True
        elif line == "END;":
            is_atomic = False
        if line.endswith(";") and not opened and not is_atomic:
            yield "\n".join(lines)
            lines.clear()


def _definitions(script: str) -> Iterator[tuple[str, str]]:
    for statement in _split(script):
        if match := _DEFINED.match(statement):
            yield match[2], statement


def _identity(statement: str) -> str:
    """Return the identity of a statement: the name of the object that it makes, or the whole statement."""
    match = _DEFINED.match(statement)
    return f"{match[1]} {match[2]}" if match else statement


def _parts(statement: str) -> Iterator[str]:
    """Yield a grant on a list of objects, one a line, as one statement for each; anything else unchanged."""
    match = _GRANTED_LIST.fullmatch(statement)
    if match is None:
        yield statement
        return
    for line in match[2].split("\n"):
        yield f"{match[1]}{line.rstrip(',')}\n{match[3]}"
