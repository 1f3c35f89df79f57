"""Answers on their way, kept in the session between two pieces: what graphrag._model_next fetches from."""

import os
from collections.abc import Generator

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.server import Database

_streams: dict[str, Generator[str, None, None]] = {}


def begin(pieces: Generator[str, None, None]) -> str:
    """Keep a stream; return the name that `next_piece` and `close_stream` know it by."""
    name = os.urandom(16).hex()
    _streams[name] = pieces
    return name


def next_piece(_: Database, stream: str | None) -> str | None:
    """Return the next piece when it has come, None after the last; a fault is an error, and ends the stream."""
    pieces = _streams.get(stream or "")
    if pieces is None:
        raise GraphRAGError(
            "there is no such stream in this session", sqlstate="34000", hint="Use graphrag.ask_stream(…)."
        )
    try:
        piece = next(pieces, None)
    except BaseException:
        close_stream(stream or "")
        raise
    if piece is None:
        close_stream(stream or "")
    return piece


def close_stream(stream: str) -> None:
    """End a stream, and its request to the model. Needs no SQL: also the end of a transaction may call it."""
    pieces = _streams.pop(stream, None)
    if pieces is not None:
        pieces.close()
