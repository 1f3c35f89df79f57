"""Values of the command line, checked."""

import argparse
import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from pg_graphrag.ground import mode_names
from pg_graphrag.ground.errors import missing_package

# The modes of search, as the help of the commands names them.
_OTHERS = [name for name in mode_names.MODES if name != "hybrid"]
MODES = f"hybrid (default), {', '.join(_OTHERS[:-1])} or {_OTHERS[-1]}"


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def natural(text: str) -> int:
    """A whole number of at least 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is not at least 0")
    return number


def json_array(text: str) -> list[Any]:
    """A JSON array."""
    value = _json(text)
    if not isinstance(value, list):
        raise argparse.ArgumentTypeError(f"not a JSON array: {text}")
    return value


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    value = _json(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"not a JSON object: {text}")
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None


def pair(text: str) -> tuple[str, str]:
    """Two names with = between them."""
    name, equals, other = text.partition("=")
    if not (name and equals and other):
        raise argparse.ArgumentTypeError(f"not NAME=OTHER: {text}")
    return name, other


def names(text: str) -> frozenset[str]:
    """Names between commas."""
    return frozenset(name for name in (part.strip() for part in text.split(",")) if name)


def listed(text: str) -> list[str]:
    """Names between commas, in their order."""
    return [name for name in (part.strip() for part in text.split(",")) if name]


def later(module: str, function: str, extra: str = "", needs: tuple[str, ...] = ()) -> Callable[..., int]:
    """Return a command that is imported when it runs: a search should not wait for the PDF library.

    `extra` has the packages that it needs; `needs`: which of them it would import only after some work.
    """
    return partial(_run, module, function, extra, needs)


def _run(module: str, function: str, extra: str, needs: tuple[str, ...], args: argparse.Namespace) -> int:
    try:
        for name in needs:
            import_module(name)
        command = import_module(f"pg_graphrag.beside.cli.{module}")
    except ModuleNotFoundError as error:
        if not extra:
            raise
        raise missing_package(f"{function.replace('_', '-')} needs", error.name, extra) from error
    status: int = getattr(command, function)(args)
    return status


def add_ocr(parser: argparse.ArgumentParser) -> None:
    """Add --ocr and --ocr-engine to a command."""
    parser.add_argument(
        "--ocr",
        choices=("auto", "always", "never"),
        default="auto",
        help="recognise text of scans and pictures: auto where a page has none, always all pages of PDF (default: auto, "
        "where the extra ocr is installed)",
    )
    parser.add_argument(
        "--ocr-engine",
        choices=("rapidocr", "tesseract"),
        default="rapidocr",
        help="rapidocr reads Latin, Chinese and Japanese; tesseract, where it is installed, its languages (default: %(default)s)",
    )
