"""The package's one exception, which SQL callers see as an ERROR with ERRCODE, DETAIL and HINT; and words for other
errors.
"""

import errno
from collections.abc import Iterable
from pathlib import Path


class GraphRAGError(Exception):
    """An error a user can act on.

    `message`: what is wrong, with the offending value.
    `sqlstate`: five-character SQLSTATE, for example ``22023`` (invalid parameter value).
    `detail`, `hint`: more about the value; the next step.
    """

    def __init__(self, message: str, *, sqlstate: str = "22023", detail: str | None = None, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate
        self.detail = detail
        self.hint = hint


class OutOfTimeError(GraphRAGError):
    """Raised when the time of `bounded` is over, and for no other cancel."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it took longer than {seconds:.3g} s", sqlstate="57014")


def known_hint(name: str, known: Iterable[str]) -> str:
    """Return the hint of a name that there is not: those that there are, and first the one that it may be meant for."""
    from difflib import get_close_matches  # of errors alone

    names = list(known)
    nearest = get_close_matches(name[:100], names, 1)
    return "".join((f"Did you mean {nearest[0]}? " if nearest else "", f"Known: {', '.join(names)}."))


def install_hint(extra: str) -> str:
    """Say how to install what an extra of the package names. The package is on no index: its name there may be a stranger's."""
    return f"Install the extra {extra}: pip install '.[{extra}]' in a checkout, or pip install 'FILE.whl[{extra}]' of a wheel."


def missing_package(whose_need: str, package: str | None, extra: str) -> GraphRAGError:
    """Return the error for a missing Python package; the sentence begins with who needs it: ``plot needs``."""
    return GraphRAGError(f"{whose_need} the Python package {package}", sqlstate="58P01", hint=install_hint(extra))


def not_built(path: Path, script: str) -> GraphRAGError:
    """Return the error of a package that was put in place without its build, where a file lacks that a script makes."""
    hint = f"Install the package with pip; in a checkout: PYTHONPATH=python python -m extension.{script}."
    error = GraphRAGError(f"this installation lacks {path}, which a build makes", sqlstate="58P01", hint=hint)
    # Where an import fails there is a traceback alone, which shows no HINT.
    error.add_note(hint)
    return error


def is_interrupt(error: Exception) -> bool:
    """57xxx of the server: query cancelled, session terminated, server shutting down: never an item's fault."""
    return not isinstance(error, GraphRAGError) and str(getattr(error, "sqlstate", "") or "").startswith("57")


# SQLSTATEs and classes of them: a connection, a deadlock, a full disk or memory, a file that cannot be read or written, a lock
# that another holds, a server that only reads now, a table that a publication lets nobody change.
_OF_SERVER = ("08", "40", "53", "58", "55P03", "25006", "55000")


def is_disk_full(error: Exception) -> bool:
    """Whether the server has no room to write: whatever else is tried now fails too, after all its work."""
    if isinstance(error, GraphRAGError):
        return False
    return getattr(error, "sqlstate", None) == "53100" or (isinstance(error, OSError) and error.errno == errno.ENOSPC)


def is_of_server(error: Exception) -> bool:
    """Whether the server or its machine failed at a statement or in Python: never an item's fault."""
    if isinstance(error, GraphRAGError):
        return False
    return isinstance(error, MemoryError | OSError) or str(getattr(error, "sqlstate", "") or "").startswith(_OF_SERVER)
