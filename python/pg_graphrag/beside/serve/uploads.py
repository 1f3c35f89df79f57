"""Turns uploaded files into documents, read in a separate process."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import psycopg

from pg_graphrag.beside.client import Document, GraphRAG
from pg_graphrag.beside.readers import SUFFIXES, ReadError, ReadOptions, ReadWarning, Skipped
from pg_graphrag.beside.readers.gathered import gathered
from pg_graphrag.beside.readers.isolated import IsolatedReader
from pg_graphrag.beside.serve.http_errors import refusal
from pg_graphrag.beside.serve.settings import Settings
from pg_graphrag.ground.document import batches
from pg_graphrag.ground.errors import GraphRAGError

MAX_FILES = 200
# For one file; the command line may take longer.
_SECONDS = 60.0
_MEMORY = 2 << 30
_NO_TIME = "1970-01-01T00:00:00"


@dataclass(frozen=True)
class Upload:
    """A file as it came: the name that its sender gave it, and its bytes."""

    name: str
    data: bytes


def key_of(name: str) -> str:
    """Return the key of a document from a file's name: its parts without those that leave the folder.

    Raises GraphRAGError: 22023 for a name of nothing else, and for a kind of file that has no reader.
    """
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    key = "/".join(parts)
    if not key or "\0" in key or len(key) > 500 or len(parts[-1].encode("utf-8", "replace")) > 200:
        raise GraphRAGError(f"a file cannot have the name {name[:100]!r}", hint="Rename it.")
    if PurePosixPath(key).suffix.lower() not in SUFFIXES:
        raise GraphRAGError(
            f"{key}: there is no reader for files of this kind", hint=f"There is one for {' '.join(SUFFIXES)}."
        )
    return key


@cache
def _turns() -> tempfile.TemporaryDirectory[str]:
    """Return a folder, for the server's lifetime, with the file by which uploads take turns at OCR.

    A page takes a gigabyte, and all processors.
    """
    folder = tempfile.TemporaryDirectory(prefix="pg_graphrag-")
    Path(folder.name, "turns").touch()
    return folder


def options_of(settings: Settings, pictures: bool | None = None) -> ReadOptions:
    """Return how uploads are read; `pictures`: whether theirs are kept, None: as the server is set."""
    keeps = settings.pictures if pictures is None else pictures
    turns = Path(_turns().name, "turns") if os.name == "posix" else None
    return ReadOptions(pictures=keeps, ocr=settings.ocr, ocr_engine=settings.ocr_engine, ocr_turns=turns)


def insert(rag: GraphRAG, uploads: Sequence[Upload], seconds: float, options: ReadOptions) -> list[dict[str, Any]]:
    """Insert the documents of files; return [{name, inserted, updated, unchanged, errors}], one for each.

    Raises GraphRAGError: 57014 after so many seconds: nobody waits any more, and others need the connection.
    """
    deadline = time.monotonic() + seconds
    with (
        tempfile.TemporaryDirectory(prefix="pg_graphrag-") as folder,
        IsolatedReader(options, _SECONDS, _MEMORY) as reader,
    ):
        return [_insert_one(rag, upload, Path(folder), reader, deadline, options.pictures) for upload in uploads]


def _insert_one(
    rag: GraphRAG, upload: Upload, folder: Path, reader: IsolatedReader, deadline: float, keeps_pictures: bool
) -> dict[str, Any]:
    if time.monotonic() >= deadline:
        raise GraphRAGError(
            f"the upload ended before {upload.name[:100]!r}: the request took too long",
            sqlstate="57014",
            hint="Send fewer files at a time.",
        )
    result: dict[str, Any] = {"name": upload.name, "inserted": 0, "updated": 0, "unchanged": 0, "errors": []}
    try:
        key = key_of(upload.name)
    except GraphRAGError as error:
        return result | {"errors": [f"{error.message}. {error.hint}"]}
    # The last part of the key has no slash, and is the title if the text has none.
    path = folder / PurePosixPath(key).name
    path.write_bytes(upload.data)
    # The time of the upload must not become the document's: uploading the same file again would change it.
    os.utime(path, (0, 0))
    try:
        pictures: dict[str | None, list[dict[str, Any]]] = {}
        documents = _documents(reader, path, key, result["errors"], deadline, pictures)
        # With pictures each by itself: those of all attachments would fill the memory.
        for batch in ([document] for document in documents) if keeps_pictures else batches(documents):
            try:
                summary = rag.insert(batch)
            except psycopg.errors.QueryCanceled:
                raise
            except psycopg.Error as error:
                result["errors"].append(refusal(error).message)
                pictures.clear()
                continue
            for name in ("inserted", "updated", "unchanged"):
                result[name] += getattr(summary, name)
            for source_key, of_document in pictures.items() if keeps_pictures else ():
                try:
                    rag.set_pictures(str(source_key), of_document)
                except psycopg.errors.QueryCanceled:
                    raise
                except (psycopg.Error, GraphRAGError) as error:
                    result["errors"].append(refusal(error).message)
            pictures.clear()
    finally:
        with suppress(OSError):
            path.unlink()
    return result


def _documents(
    reader: IsolatedReader,
    path: Path,
    key: str,
    errors: list[str],
    deadline: float,
    pictures_by_key: dict[str | None, list[dict[str, Any]]],
) -> Iterator[Document]:
    """Yield the documents of a file; their pictures are added to `pictures_by_key`, which the caller empties."""
    keys: set[str | None] = set()
    for item in gathered(reader.read(path, key, deadline - time.monotonic())):
        if isinstance(item, tuple):
            document, pictures = item
            if document.source_key in keys:
                errors.append(
                    f'{key}: more than one of its lines has the key "{document.source_key}"; the first is taken'
                )
                continue
            keys.add(document.source_key)
            pictures_by_key[document.source_key] = pictures
            metadata = dict(document.metadata)
            if str(metadata.get("modified", "")).startswith(_NO_TIME):
                del metadata["modified"]
            yield replace(document, metadata=metadata)
        elif isinstance(item, ReadError | ReadWarning):
            reason = str(item).replace(str(path), key)
            errors.append(reason if isinstance(item, ReadError) else f"warning: {reason}")
        elif isinstance(item, Skipped):
            errors.append(f"warning: {key} is left out: {item.kind}")
