"""Pack a folder into a zip or a tar.gz, into the same bytes wherever and whenever: make dist, make pgxn.

Usage: archive.py FOLDER FILE.zip|FILE.tar.gz. Times are SOURCE_DATE_EPOCH, names come in order, permissions are of no umask.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path


def pack(folder: Path, archive: Path) -> None:
    """Write ``archive``, whose one folder is ``folder`` by its name."""
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    (_pack_zip if archive.suffix == ".zip" else _pack_tar)(folder, archive, epoch)


def _files(folder: Path) -> Iterator[tuple[str, int, bytes]]:
    """Yield the name from the folder's own on, the permissions and the content of each file."""
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        if path.is_file():
            mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            yield f"{folder.name}/{path.relative_to(folder).as_posix()}", mode, path.read_bytes()


def _pack_zip(folder: Path, archive: Path, epoch: int) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, mode, content in _files(folder):
            entry = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, content)


def _pack_tar(folder: Path, archive: Path, epoch: int) -> None:
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as packed,
    ):
        for name, mode, content in _files(folder):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, epoch
            packed.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    pack(*map(Path, sys.argv[1:]))
