"""Converts parameters and columns to the Python types that PL/Python uses (PostgreSQL's plpy_typeio.c)."""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from psycopg import AsyncCursor, Cursor
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.types.string import TextLoader

from pg_graphrag.ground.errors import GraphRAGError

# Types that are not text in Python, by the names of psycopg's registry.
_TYPED = frozenset("bool int2 int4 int8 oid float4 float8 numeric bytea text varchar bpchar name".split())


class _Float4Loader(Loader):
    """A float4 as the double of the same value; its digits alone would give another."""

    def load(self, data: Buffer) -> float:
        return float(struct.unpack("f", struct.pack("f", float(bytes(data))))[0])


def register_loaders(cursor: Cursor[Any] | AsyncCursor[Any]) -> None:
    """Have a cursor return what PL/Python does: numbers, booleans and bytes as such, all else as text; arrays as lists."""
    adapters = cursor.adapters
    for info in adapters.types:
        if info.name not in _TYPED:
            adapters.register_loader(info.oid, TextLoader)
    adapters.register_loader("float4", _Float4Loader)


class Parameter:
    """A value as text, whose type is declared: its class has the number of the type."""

    __slots__ = ("data",)

    def __init__(self, data: bytes | None) -> None:
        self.data = data


@cache
def parameter_of(oid: int) -> tuple[type[Parameter], type[Dumper]]:
    """Return the class of parameters of a type, and what psycopg is to send them by."""

    class TypedDumper(Dumper):
        def dump(self, obj: Parameter) -> bytes | None:
            return obj.data

    TypedDumper.oid = oid
    return type(f"Parameter{oid}", (Parameter,), {"__slots__": ()}), TypedDumper


def encode(value: Any, *, is_array: bool, element: str) -> bytes | None:
    """Return a value as the text of an SQL type: `element` is its name, without brackets.

    Raises GraphRAGError: 22021 for a text with a null character, which SQL's texts cannot have.
    """
    if value is None:
        return None
    if is_array and not isinstance(value, str):
        data = _array(value, _encoder(element)).encode()
    else:
        data = _encoder(element)(value).encode()
    if b"\0" in data:
        raise GraphRAGError(
            "a text has a null character (U+0000)", sqlstate="22021", hint="Remove it: PostgreSQL's texts have none."
        )
    return data


def _array(values: Any, encoder: Callable[[Any], str]) -> str:
    return "{" + ",".join([_element(value, encoder) for value in values]) + "}"


def _element(value: Any, encoder: Callable[[Any], str]) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return _array(value, encoder)
    text = encoder(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _encoder(element: str) -> Callable[[Any], str]:
    if element in ("bool", "boolean"):
        return lambda value: "t" if value else "f"
    if element == "bytea":
        return lambda value: "\\x" + bytes(value).hex()
    return _text


def _text(value: Any) -> str:
    # The digits that make the same double again, also of numpy's.
    return float.__repr__(value) if isinstance(value, float) else str(value)
