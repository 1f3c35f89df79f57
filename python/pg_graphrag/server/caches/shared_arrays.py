"""Arrays by name, of a corpus at a revision, which the sessions of a server share: files of its own, mapped read-only.

A file lies in the server's folder for what need not outlive it (``pg_stat_tmp``, which base backups and pg_rewind leave out), is
the server's user's alone, and holds for one run of the server: after a crash, a restore or a copy of the cluster a transaction's
number may mean other data. It gets its name when it is complete, so a reader sees all of it or nothing. Its head has its key, its
length, its checksum and when it was written; what does not match is as if it were not there, and is written anew.

Whoever writes a newer one removes those of older revisions, dropped corpora and databases, and earlier runs. Who has one mapped
keeps it. Nothing here fails a search: without a file a session has its own arrays. The time of a file's last access is when a
session asked for one of the corpus: where they do, a worker makes the next (`outdated`).

Only `session_cache`'s users call this, with the owner's rights, for callers who see the whole corpus.
"""

import contextlib
import json
import mmap
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import accumulate
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any
from zlib import crc32

import pg_graphrag
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Arrays, np
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.session_places import Places, installation

# Files of all corpora and databases of a server, together; the oldest go first.
MAX_BYTES = 4 * 2**30
# A corpus that changes all the time does not write a file for each revision; workers write large ones less often.
SECONDS_BETWEEN = 10.0
BYTES_A_SECOND = 4 * 2**20
# For so long after a session has asked for them, workers make the files of a corpus. So often a session says that it asks.
ASKED_SECONDS = 3600.0
NOTED_SECONDS = ASKED_SECONDS / 10

_FOLDER = "pg_stat_tmp"
# The head of a file: its magic, bytes of its description, their CRC-32, bytes of the file, the checksum of its arrays,
# and when it was written (ns).
_HEAD = Struct("<8sIIQIQ")
_MAGIC = b"graphrag"
_PAGE = 4096
# Where an array begins, as far as a processor's cache is concerned.
_ALIGNMENT = 64
# Between two parts of a write a cancel gets through.
_PART = 2**20
_NAME = re.compile(
    r"(?P<installation>pg_graphrag_(?P<database>\d+)_\d+)_arrays_(?P<run>[0-9a-f]{16})"
    r"_(?P<corpus>\d+)_(?P<name>[a-z0-9-]+)_(?P<number>\d+)(?:\.\d+)?"
)
# When this session last said that it asks a corpus.
_noted: dict[int, float] = {}


def mapped(db: Database, corpus: Corpus, name: str) -> Arrays | None:
    """Return arrays of the corpus' revision, read-only; None where no file has them."""
    if corpus.revision is None or _run(db) is None:
        return None
    try:
        return _opened(_path(db, corpus.id, name, corpus.revision), _key(db, corpus.id, name, corpus.revision))
    except OSError:
        return None


def note_asked(db: Database, corpus: Corpus, name: str) -> None:
    """Record by a file's access time that a session uses its mapped contents."""
    now = time.monotonic()
    if corpus.revision is None or now - _noted.get(corpus.id, -NOTED_SECONDS) < NOTED_SECONDS:
        return
    _noted[corpus.id] = now
    with contextlib.suppress(OSError):
        path = _path(db, corpus.id, name, corpus.revision)
        os.utime(path, ns=(time.time_ns(), path.lstat().st_mtime_ns), follow_symlinks=False)


def share(db: Database, corpus: Corpus, name: str, revision: str, arrays: Arrays) -> Arrays | None:
    """Write arrays of a revision to a file and return them mapped; None where that cannot be, or should not be yet."""
    if _run(db) is None:
        return None
    path = _path(db, corpus.id, name, revision)
    try:
        if not _is_due(path):
            return None
        shared_arrays = _written(path, _key(db, corpus.id, name, revision), arrays)
        _clean(db, path)
    except OSError:  # a full disk, say
        return None
    return shared_arrays


def forget(db: Database, corpus_id: int | None = None) -> None:
    """Remove the files of a corpus, or of all corpora of this installation."""
    if not db.is_server:
        return
    for entry, parts in _files(db.folder(_FOLDER)):
        if parts["installation"] == installation(db) and corpus_id in (None, int(parts["corpus"])):
            _remove(entry)


def outdated(db: Database) -> Iterator[int]:
    """Yield corpora that sessions ask, whose files have an earlier revision or run: the caller makes them again.

    Not if they were made just now. Files that are still old afterwards are removed, so that whatever prevents new ones is
    not met again and again.
    """
    files: dict[int, list[os.DirEntry[str]]] = {}
    for entry, parts in _files(db.folder(_FOLDER)):
        if parts["installation"] == installation(db):
            files.setdefault(int(parts["corpus"]), []).append(entry)
    if not files or _run(db) is None:
        return
    for row in db.query(_REVISIONS, ["int4[]"], [list(files)]):
        newest = _path(db, row["id"], "any", f"/{row['revision']}")
        try:
            statuses = [entry.stat(follow_symlinks=False) for entry in files[row["id"]]]
        except FileNotFoundError:  # another worker has made newer ones
            continue
        asked = max(status.st_atime_ns for status in statuses)
        seconds = max(SECONDS_BETWEEN, sum(status.st_size for status in statuses) / BYTES_A_SECOND)
        is_due = not 0 <= time.time() - max(status.st_mtime for status in statuses) < seconds
        is_asked = time.time() - asked / 1e9 < ASKED_SECONDS
        if is_due and is_asked and all(_is_older(entry.name, newest.name) for entry in files[row["id"]]):
            try:
                making = Places(db, f"renewal_{row['id']}", 1).take()
            except GraphRAGError:  # a full disk
                return
            if making is None:  # another worker is at it
                continue
            try:
                yield row["id"]
            finally:
                making.release()
                for entry, parts in _files(newest.parent):
                    if (parts["installation"], int(parts["corpus"])) != (installation(db), row["id"]):
                        continue
                    if _is_older(entry.name, newest.name):
                        _remove(entry)
                    else:
                        with contextlib.suppress(FileNotFoundError):
                            os.utime(entry.path, ns=(asked, entry.stat().st_mtime_ns))


def _is_older(name: str, other: str) -> bool:
    """Whether a file has another run of the server, or an earlier revision."""
    old, new = _NAME.fullmatch(name), _NAME.fullmatch(other)
    assert old is not None and new is not None
    return old["run"] != new["run"] or int(old["number"]) < int(new["number"])


_REVISIONS = """
SELECT r.corpus_id AS id, r.revision::text AS revision FROM graphrag.corpus_revisions r WHERE r.corpus_id = ANY ($1)
"""


def _run(db: Database) -> str | None:
    """Return what names the run of the server; None where no files are for this host, or its owner may not know."""
    return db.server_run if db.is_server else None


def _key(db: Database, corpus_id: int, name: str, revision: str) -> list[Any]:
    # Sessions go on with the copy of the package that they loaded; another may have other arrays.
    return [installation(db), db.server_run, corpus_id, name, revision, *pg_graphrag.__path__]


def _run_key(db: Database) -> str:
    return sha256(str(db.server_run).encode()).hexdigest()[:16]


def _path(db: Database, corpus_id: int, name: str, revision: str) -> Path:
    return db.folder(_FOLDER) / f"{installation(db)}_arrays_{_run_key(db)}_{corpus_id}_{name}_{revision.split('/')[1]}"


def _opened(path: Path, key: list[Any]) -> Arrays | None:
    """Map a file; None where it is not one of ours, of this key and whole."""
    # A link, or a pipe in its place, is not followed and not waited for.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        is_own = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o600 and status.st_nlink <= 1
        if not (stat.S_ISREG(status.st_mode) and is_own) or status.st_size < _PAGE:
            return None
        data = mmap.mmap(file, status.st_size, access=mmap.ACCESS_READ)
        # Servers may be mounted without times of access.
        os.utime(file, ns=(time.time_ns(), status.st_mtime_ns))
    finally:
        os.close(file)
    magic, size, check, length, checksum, written = _HEAD.unpack_from(data)
    text = data[_HEAD.size : _HEAD.size + size]
    if magic != _MAGIC or length != len(data) or crc32(text) != check:
        return None
    described = json.loads(text)
    start = _rounded(_HEAD.size + size, _PAGE)
    # An unwritten file is unchanged: reading all of it would take a twentieth of a first search.
    is_untouched = status.st_mtime_ns == written
    if described["key"] != key or not (is_untouched or _checksum(data, start) == checksum):
        return None
    return _views(data, start, described["arrays"])


def _views(data: mmap.mmap, start: int, described: Mapping[str, list[Any]]) -> Arrays:
    return {
        name: np.frombuffer(data, kind, prod(shape), start + offset).reshape(shape)
        for name, (kind, shape, offset) in described.items()
    }


def _checksum(data: mmap.mmap, start: int) -> int:
    """Return the CRC-32 of the sums of pages: as fast as reading memory, while one of all bytes takes a second for a GB."""
    words = np.frombuffer(data, np.uint64, offset=start).reshape(-1, _PAGE // 8)
    return crc32(words.sum(axis=1, dtype=np.uint64).tobytes())


def _written(path: Path, key: list[Any], arrays: Arrays) -> Arrays:
    """Write a file under another name, map it and give it its name."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    *offsets, end = accumulate((_rounded(array.nbytes, _ALIGNMENT) for array in whole.values()), initial=0)
    described = {
        name: [array.dtype.str, array.shape, offset]
        for (name, array), offset in zip(whole.items(), offsets, strict=True)
    }
    text = json.dumps({"key": key, "arrays": described}).encode()
    start = _rounded(_HEAD.size + len(text), _PAGE)
    length = start + _rounded(max(end, 1), _PAGE)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()  # of a session that was killed
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        filled = start
        for array, offset in zip(whole.values(), offsets, strict=True):
            _write(file, array.reshape(-1).view(np.uint8).data if array.size else b"", start + offset)
            filled = start + offset + array.nbytes
        # Written, not left out: a disk that is full says so now, and not when a page is read.
        _write(file, bytes(length - filled), filled)
        data = mmap.mmap(file, length, access=mmap.ACCESS_READ)
        written = time.time_ns()
        head = _HEAD.pack(_MAGIC, len(text), crc32(text), length, _checksum(data, start), written)
        _write(file, (head + text).ljust(start, b"\0"), 0)
        os.utime(file, ns=(written, written))
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    return _views(data, start, described)


def _write(file: int, data: Any, offset: int) -> None:
    for begin in range(0, len(data), _PART):
        part = data[begin : begin + _PART]
        while part:
            count = os.pwrite(file, part, offset + begin)
            part, begin = part[count:], begin + count


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _files(folder: Path) -> Iterator[tuple[os.DirEntry[str], re.Match[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if parts := _NAME.fullmatch(entry.name):
                yield entry, parts


def _remove(entry: os.DirEntry[str]) -> None:
    with contextlib.suppress(OSError):
        Path(entry.path).unlink()


def _is_due(path: Path) -> bool:
    """Whether a file may be written: there is none of a later revision, nor one that was written just now."""
    wanted_parts = _NAME.fullmatch(path.name)
    assert wanted_parts is not None
    for entry, parts in _files(path.parent):
        if (
            any(parts[name] != wanted_parts[name] for name in ("installation", "run", "corpus", "name"))
            or entry.name == path.name
        ):
            continue
        with contextlib.suppress(FileNotFoundError):
            age = time.time() - entry.stat(follow_symlinks=False).st_mtime
            if int(parts["number"]) > int(wanted_parts["number"]) or 0 <= age < SECONDS_BETWEEN:
                return False
    return True


_LIVING = """
SELECT ARRAY(SELECT d.oid::text FROM pg_catalog.pg_database d) AS databases,
       ARRAY(SELECT c.id::text FROM graphrag.corpora c) AS corpora
"""


def _clean(db: Database, newest: Path) -> None:
    """Remove files that nobody needs any more, and the oldest where all are too many."""
    new = _NAME.fullmatch(newest.name)
    assert new is not None
    living = db.query(_LIVING)[0]
    living_files: list[tuple[float, int, os.DirEntry[str]]] = []
    for entry, parts in _files(newest.parent):
        is_here = parts["database"] == new["database"]
        is_stale = (
            parts["run"] != new["run"]
            or parts["database"] not in living["databases"]
            or (is_here and (parts["installation"] != new["installation"] or parts["corpus"] not in living["corpora"]))
        )
        if is_here and all(parts[name] == new[name] for name in ("corpus", "name")):
            is_stale |= int(parts["number"]) < int(new["number"])
        if is_stale:
            _remove(entry)
            continue
        with contextlib.suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            living_files.append((status.st_mtime, status.st_size, entry))
    living_files.sort(key=lambda file: file[0], reverse=True)
    for total, (_, _, entry) in zip(accumulate(size for _, size, _ in living_files), living_files, strict=True):
        if total > MAX_BYTES:
            _remove(entry)
