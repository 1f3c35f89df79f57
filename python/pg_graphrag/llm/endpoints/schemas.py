"""JSON schemas of what models are to reply, for endpoints that enforce one."""

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}


# What bounds a value. Some endpoints refuse schemas with them.
_BOUNDS = ("maxItems", "maxLength")


def text_of(most: int) -> Schema:
    """Return the schema of a text of at most so many characters."""
    return STRING | {"maxLength": most}


def list_of(item: Schema, most: int | None = None) -> Schema:
    """Return the schema of a list, of at most `most` items."""
    schema: Schema = {"type": "array", "items": item}
    return schema if most is None else schema | {"maxItems": most}


def without_bounds(schema: Any) -> Any:
    """Return a schema without the lengths of its lists and texts."""
    if isinstance(schema, dict):
        return {name: without_bounds(value) for name, value in schema.items() if name not in _BOUNDS}
    return [without_bounds(value) for value in schema] if isinstance(schema, list) else schema


def object_of(**properties: Schema) -> Schema:
    """Return the schema of an object that has all of the properties and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def reply_of(name: str, **properties: Schema) -> dict[str, Any]:
    """Return what a request takes as its schema: a name, and the schema of an object."""
    return {"name": name, "schema": object_of(**properties)}


STRINGS = list_of(STRING)
