"""What is wrong with JSON that somebody gave, and where: 22023 with the place and what to give instead."""

from collections.abc import Iterable
from typing import Any

from pg_graphrag.errors import GraphRAGError


def check_object(value: Any, where: str, known: Iterable[str]) -> None:
    """Refuse what is no object, and fields that are not `known`."""
    names = ", ".join(sorted(known))
    if not isinstance(value, dict):
        raise GraphRAGError(f"{where} must be an object, not {value!r:.40}", hint=f"Its fields: {names}.")
    for name in value:
        if name not in known:
            raise GraphRAGError(f'{where} has an unknown field "{name}"', hint=f"Known: {names}.")


def check_text(value: dict[str, Any], where: str, name: str, required: bool = False) -> None:
    """Refuse a field that is no text; `content` alone may be empty where it is `required`."""
    text = value.get(name)
    if text is None and not required:
        return
    if not isinstance(text, str) or (required and not text and name != "content"):
        raise bad(where, name, text, "a text")


def as_list(value: dict[str, Any], where: str, name: str) -> list[Any]:
    """Return a field that is an array, or left out: then it is empty."""
    found = value.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise bad(where, name, found, "an array")
    return found


def bad(where: str, name: str, value: Any, wanted: str) -> GraphRAGError:
    """Return the error for a field that is not what is `wanted`."""
    return GraphRAGError(f"{where}.{name} cannot be {value!r:.60}", hint=f"Give {wanted}.")
