"""JSON schemas of what models are to reply, for endpoints that enforce one."""

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}


def list_of(item: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


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
