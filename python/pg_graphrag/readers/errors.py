"""The error of a file or line that cannot be read."""

from pathlib import Path


class ReadError(Exception):
    """What is wrong with which file, and where in it: shown to the user as it is."""

    def __init__(self, path: Path, reason: str):
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
