"""Defers imports of modules that other imports hardly need: they cost a tenth of a first search.

dataclasses and numpy import `inspect`; numpy also writes docstrings and defines types for type checkers.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """Stands in for a module that is imported on first use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        module = self.__name__
        if sys.modules.get(module) is self:
            del sys.modules[module]
        return getattr(importlib.import_module(module), name)


class _Inspect(_Later):
    """Stands in for `inspect`, which dataclasses ask for annotations alone."""

    @staticmethod
    def get_annotations(owner: type) -> dict[str, Any]:
        return dict(vars(owner).get("__annotations__", ()))


class _InspectOfNumpy(_Later):
    """Stands in for `inspect`, which numpy asks for texts and signatures that people read."""

    @staticmethod
    def cleandoc(text: str) -> str:
        return text

    @staticmethod
    def signature(_: Callable[..., Any]) -> None:
        return None


class NDArray:
    """An array of numbers of the type in brackets. numpy's own, a dozen modules, says something to a checker alone."""

    def __class_getitem__(cls, _: object) -> type:
        return cls


class _TypesOfNumpy(_Later):
    """Stands for numpy's types, which annotate five of its results."""

    NDArray = NDArray


class _MaskedOfNumpy(_Later):
    """Stands in for `numpy.ma`, which `unique` asks whether an array is masked: none here is."""

    @staticmethod
    def is_masked(_: object) -> bool:
        return False


def for_dataclasses() -> AbstractContextManager[None]:
    """While dataclasses is imported."""
    return _used([_Inspect("inspect")])


@contextmanager
def for_numpy() -> Iterator[None]:
    """While numpy is imported in a server; beside a database it is the program's, too."""
    if "plpy" not in sys.modules:
        yield
        return
    documentation = (ModuleType(f"numpy._core.{name}") for name in ("_add_newdocs", "_add_newdocs_scalars"))
    of_numpy = (_InspectOfNumpy("inspect"), _TypesOfNumpy("numpy._typing"), *documentation)
    with _used([*of_numpy, *map(_Later, ("ast", "pickle", "platform"))]):
        yield
    vars(sys.modules["numpy"]).setdefault("ma", _MaskedOfNumpy("numpy.ma"))


@contextmanager
def _used(stand_ins: list[ModuleType]) -> Iterator[None]:
    """Have imports inside find these in place of modules that are not loaded yet."""
    used = {module.__name__: module for module in stand_ins if module.__name__ not in sys.modules}
    sys.modules.update(used)
    try:
        yield
    finally:
        for name, module in used.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
