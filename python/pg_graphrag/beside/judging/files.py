"""JSON Lines of questions and answers."""

import json
from pathlib import Path
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file, one a line; blank lines mean nothing.

    Raises GraphRAGError: 58P01 for a file that cannot be read; 22023 naming the line that is no JSON object, and for a file
      without any.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise GraphRAGError(
            f"{path}: {reason}", sqlstate="58P01", hint="Give a file of JSON Lines in UTF-8."
        ) from error
    objects = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError as error:
                raise GraphRAGError(f"{path}: line {number} is not JSON: {error}", hint="One object a line.") from None
            if not isinstance(value, dict):
                raise GraphRAGError(f"{path}: line {number} is not a JSON object", hint="One object a line.")
            objects.append(value)
    if not objects:
        raise GraphRAGError(f"{path} is empty", hint="Give one JSON object a line.")
    return objects


def read_questions(path: Path) -> list[tuple[str, str]]:
    """Return (id, question) of each line; without an id, it is the number of the line.

    Raises GraphRAGError: 22023 for a line without a question, and for an id that occurs twice.
    """
    return [(name, fields["question"]) for name, fields in _read_by_id(path, "question").items()]


def read_answers(path: Path) -> dict[str, dict[str, str]]:
    """Return {id: {"question", "answer"}} of a file of answers; errors as in `read_questions`."""
    return _read_by_id(path, "question", "answer")


def _read_by_id(path: Path, *fields: str) -> dict[str, dict[str, str]]:
    by_id: dict[str, dict[str, str]] = {}
    for number, line in enumerate(read_lines(path), 1):
        name = str(line.get("id", number))
        for field in fields:
            if not isinstance(line.get(field), str) or not line[field].strip():
                raise GraphRAGError(f'{path}: "{name}" has no {field}', hint=f"Each line needs {', '.join(fields)}.")
        if name in by_id:
            raise GraphRAGError(f'{path}: the id "{name}" occurs twice', hint="Give each question its own.")
        by_id[name] = {field: line[field] for field in fields}
    return by_id
