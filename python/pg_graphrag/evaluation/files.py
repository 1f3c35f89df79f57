"""JSON Lines of questions and answers."""

import json
from pathlib import Path
from typing import Any

from pg_graphrag.errors import GraphRAGError


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file, one a line; blank lines mean nothing.

    Raises
    ------
    GraphRAGError
        58P01 for a file that cannot be read; 22023 naming the line that is no JSON object, and for a file without any.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise GraphRAGError(
            f"{path}: {reason}", sqlstate="58P01", hint="Give a file of JSON Lines in UTF-8."
        ) from error
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError as error:
                raise GraphRAGError(f"{path}: line {number} is not JSON: {error}", hint="One object a line.") from None
            if not isinstance(value, dict):
                raise GraphRAGError(f"{path}: line {number} is not a JSON object", hint="One object a line.")
            found.append(value)
    if not found:
        raise GraphRAGError(f"{path} is empty", hint="Give one JSON object a line.")
    return found
