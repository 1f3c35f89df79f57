"""The ``openai`` package, without the 400 modules of its types.

The packages below ``openai.types`` import them only to offer their names. Here they do so when such a name is asked for, which
nothing of ours does: requests and answers are plain JSON. That halves what a session's first call to an endpoint costs. Whoever
else uses the package in this process finds all that is there.
"""

import gc
import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

_TYPES = "openai.types"
_lock = RLock()


class _Waiting(ModuleType):
    """A package whose body runs when a name is asked for that is not there; then it is a module like any other."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        spec = self.__spec__
        with _lock:
            if spec is not None and spec.loader is not None and spec.loader_state is _Waiting:
                spec.loader_state = None
                spec.loader.exec_module(self)
                object.__setattr__(self, "__class__", ModuleType)
        return object.__getattribute__(self, name)


class _Later(Loader):
    """Makes modules that wait. The library's LazyLoader runs a package's body as soon as a module in it is imported."""

    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._loader
            spec.loader_state = _Waiting
            module.__class__ = _Waiting


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _TYPES and not name.startswith(f"{_TYPES}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is not None:
            spec.loader = _Later(spec.loader)
        return spec


@cache
def openai() -> Any:
    """Return the package. Its loading takes a sixth longer where garbage is looked for meanwhile.

    What it is made of stays as long as the session does: no later look for garbage goes through it.
    """
    finder, collects = _Finder(), gc.isenabled()
    sys.meta_path.insert(0, finder)
    gc.disable()
    try:
        import openai as package

        gc.freeze()
    finally:
        sys.meta_path.remove(finder)
        if collects:
            gc.enable()
    return package
