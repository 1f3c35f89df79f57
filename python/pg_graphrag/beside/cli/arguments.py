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


def ordered_names(text: str) -> list[str]:
    """Names between commas, in their order."""
    return [name for name in (part.strip() for part in text.split(",")) if name]


def names(text: str) -> frozenset[str]:
    """Names between commas."""
    return frozenset(ordered_names(text))


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


def flag(parser: argparse.ArgumentParser, name: str, about: str) -> None:
    """Add an option without a value, which says something by being there."""
    parser.add_argument(name, action="store_true", help=about)


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


def add_providers(parser: argparse.ArgumentParser) -> None:
    """Add --provider to a command that brings a corpus to another database."""
    parser.add_argument(
        "--provider",
        dest="providers",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=OTHER",
        help="have provider OTHER of the target database stand for provider NAME; may be given several times",
    )


def add_node_timeout(parser: argparse.ArgumentParser) -> None:
    """Add --timeout to a command that asks all nodes."""
    parser.add_argument(
        "--timeout", type=float, default=10.0, metavar="SECONDS", help="for each node (default: %(default)g)"
    )


def add_mode(parser: argparse.ArgumentParser) -> None:
    """Add --mode to a command that searches."""
    parser.add_argument("--mode", default="hybrid", help=MODES)


def add_options(parser: argparse.ArgumentParser, about: str) -> None:
    """Add --options, a JSON object, to a command; `about` says which options it takes."""
    parser.add_argument("--options", type=json_object, default={}, metavar="JSON", help=about)


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Add --filter to a command that searches."""
    parser.add_argument("--filter", type=json_object, metavar="JSON", help="only documents that this filter keeps")
