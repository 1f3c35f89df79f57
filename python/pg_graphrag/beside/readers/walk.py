"""Finds the files below a path, each with a key that does not depend on the machine."""

import os
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from pg_graphrag.beside.readers import kind_of
from pg_graphrag.beside.readers.read_errors import ReadError, Skipped


def files(
    root: Path, exclude: Collection[str] = (), pictures: bool = False
) -> Iterator[tuple[Path, str] | ReadError | Skipped]:
    """Find the files of a folder, or the one file `root`.

    A folder is searched for the suffixes that readers know, in sorted order. Hidden files and folders are left out, and
    links to folders are not followed, so that every file is found once, whatever links there are.
    Links to files outside the folder are not followed either: whoever fills the folder need not be allowed to read their
    targets.
    Pipes, sockets and devices are left out: reading one may never end.

    `exclude`: shell patterns; a file is left out when one matches its key, or the key's last part.
    `pictures`: whether picture files are read.

    Yields (path, key), ReadError or Skipped: the key is the path relative to `root` with ``/`` between its parts; the name,
    when `root` is a file.
    """
    if root.is_file():
        yield _keyed(root, root.name)
        return
    if not root.is_dir():
        yield ReadError(root, "is a pipe, socket or device" if _is_special(root) else "no such file or directory")
        return
    errors: list[ReadError] = []

    def remember(error: OSError) -> None:
        errors.append(ReadError(Path(error.filename), error.strerror or str(error)))

    for folder, subfolders, names in os.walk(root, onerror=remember):
        above = Path(folder).relative_to(root)
        for name in sorted(name for name in subfolders if name.startswith(".")):
            yield Skipped(f"{_printable(above / name)}/", "hidden")
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in subfolders:
            if Path(folder, name).is_symlink():
                yield Skipped(f"{_printable(above / name)}/", "links to folders")
        for name in sorted(names):
            path = Path(folder, name)
            key = (above / name).as_posix()
            if any(fnmatch(key, pattern) or fnmatch(name, pattern) for pattern in exclude):
                continue
            if name.startswith("."):
                yield Skipped(_printable(above / name), "hidden")
            elif kind_of(name, pictures) is None:
                yield Skipped(_printable(above / name), path.suffix.lower() or "without an ending")
            elif _leads_out(path, root):
                yield Skipped(_printable(above / name), "links to files outside the folder")
            elif _is_special(path):
                yield Skipped(_printable(above / name), "pipes, sockets and devices")
            else:
                yield _keyed(path, key)
    yield from errors


def _leads_out(path: Path, root: Path) -> bool:
    """Whether a path is a link to something outside a folder. A link to nothing, or to itself, fails when it is read."""
    if not path.is_symlink():
        return False
    try:
        return not path.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def _is_special(path: Path) -> bool:
    """Whether a path exists and is neither file nor folder. A path that cannot be examined fails when it is read."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (S_ISREG(mode) or S_ISDIR(mode))


def _keyed(path: Path, key: str) -> tuple[Path, str] | ReadError:
    try:
        key.encode()
    except UnicodeEncodeError:
        return ReadError(Path(_printable(path)), "its name is not UTF-8; rename the file")
    return path, key


def _printable(path: Path) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")
