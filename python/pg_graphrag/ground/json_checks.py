"""Checks of a caller's JSON: an error is 22023 with the path of the value and what to give instead."""

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError


def check_object(value: Any, path: str, fields: Iterable[str]) -> None:
    """Refuse a value that is no object, or that has other fields than `fields`."""
    names = ", ".join(sorted(fields))
    if not isinstance(value, dict):
        raise GraphRAGError(f"{path} must be an object, not {shown(value)}", hint=f"Its fields: {names}.")
    for name in value:
        if name not in fields:
            raise GraphRAGError(f'{path} has an unknown field "{name}"', hint=f"Known: {names}.")


def check_text(value: dict[str, Any], path: str, name: str, is_required: bool = False) -> None:
    """Refuse a field that is no text; `content` alone may be empty where it is `is_required`."""
    text = value.get(name)
    if text is None and not is_required:
        return
    if not isinstance(text, str) or (is_required and not text and name != "content"):
        raise bad_field(path, name, text, "a text")


def as_list(value: dict[str, Any], path: str, name: str) -> list[Any]:
    """Return a field that is an array; an empty list where it is left out."""
    items = value.get(name)
    if items is None:
        return []
    if not isinstance(items, list):
        raise bad_field(path, name, items, "an array")
    return items


def bad_field(path: str, name: str, value: Any, expected: str) -> GraphRAGError:
    """Return the error for a field that is not as `expected` says."""
    return GraphRAGError(f"{path}.{name} cannot be {shown(value)}", hint=f"Give {expected}.")


def shown(value: Any) -> str:
    """Return the beginning of a value as its caller wrote it, in JSON."""
    return (str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str))[:60]
