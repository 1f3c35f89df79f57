"""The files below what a user names, each with a key that does not depend on the machine."""

import os
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path

from pg_graphrag.readers import SUFFIXES
from pg_graphrag.readers.errors import ReadError


def files(root: Path, exclude: Collection[str] = ()) -> Iterator[tuple[Path, str] | ReadError]:
    """Find the files of a folder, or the one file `root` is.

    A folder is searched for the suffixes of `SUFFIXES`, in sorted order. Hidden files and folders are left out, and
    links to folders are not followed, so that every file is found once, whatever links there are.

    Parameters
    ----------
    exclude : collection of str
        Shell patterns; a file is left out when one matches its key, or the key's last part.

    Yields
    ------
    (path, key) or ReadError
        The key is the path relative to `root` with ``/`` between its parts; the name, when `root` is a file.
    """
    if root.is_file():
        yield _keyed(root, root.name)
        return
    if not root.is_dir():
        yield ReadError(root, "no such file or directory")
        return
    errors: list[ReadError] = []

    def remember(error: OSError) -> None:
        errors.append(ReadError(Path(error.filename), error.strerror or str(error)))

    for folder, subfolders, names in os.walk(root, onerror=remember):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            key = path.relative_to(root).as_posix()
            if name.startswith(".") or path.suffix.lower() not in SUFFIXES:
                continue
            if not any(fnmatch(key, pattern) or fnmatch(name, pattern) for pattern in exclude):
                yield _keyed(path, key)
    yield from errors


def _keyed(path: Path, key: str) -> tuple[Path, str] | ReadError:
    try:
        key.encode()
    except UnicodeEncodeError:
        printable = Path(os.fsencode(path).decode(errors="backslashreplace"))
        return ReadError(printable, "its name is not UTF-8; rename the file")
    return path, key
