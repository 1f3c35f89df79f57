"""What reading files reports: errors for what cannot be read, warnings for what a document lacks, and progress."""

from dataclasses import dataclass
from pathlib import Path


class ReadError(Exception):
    """An error in a file, and its place: shown to the user as it is."""

    def __init__(self, path: Path, reason: str):
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type["ReadError"], tuple[Path, str]]:
        return ReadError, (self.path, self.reason)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not read; `kind` says why, in words: an unknown kind of file, no regular file, a hidden file or
    folder.

    The key of a folder ends with ``/``.
    """

    key: str
    kind: str


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """How far a file is: pages or pictures that are recognised or drawn, and how many there are."""

    path: Path
    done: int
    count: int


@dataclass(frozen=True, slots=True)
class ReadWarning:
    """What was left out of a file that was read."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
