"""Compiled regular expressions and generated methods of dataclasses, stored at installation: they save a quarter of a
first search.

extension/install-package writes them beside this module, as it writes byte code. Without the file, or for another
Python, they are compiled at import. The result is the same: `re` makes a pattern of its code, and dataclasses and named
tuples execute the code of their methods.
"""

import collections
import marshal
import mmap
import re
import sys
from array import array
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

from pg_graphrag.ground import stand_ins

with stand_ins.for_dataclasses():
    import dataclasses

PATH = Path(__file__).with_name("precompiled.marshal")
# What searches, answers and workers load.
_WINGS = ("text", "server", "llm", "index", "search", "operate.jobs")

_compiler: Any = re._compiler  # type: ignore[attr-defined]
_engine: Any = _compiler._sre
_MADE_BY = [_engine.MAGIC, sys.version]
# A pattern and its flags; or the text of methods and None.
_Key = tuple[str | bytes, int | None]
# Returns what the file has under a key, or None.
_Find = Callable[[_Key], Any]


def use() -> None:
    """Make `re`, dataclasses and named tuples use the contents of the file, which sessions share."""
    find = _opened()
    if find is None:
        return
    compile_anew = _compiler.compile

    def compile_(pattern: Any, flags: int = 0) -> Any:
        compiled = find((pattern, int(flags))) if isinstance(pattern, str | bytes) else None
        if compiled is None:
            return compile_anew(pattern, flags)
        all_flags, code, groups, names, numbers = compiled
        return _engine.compile(pattern, all_flags, array("I", code).tolist(), groups, names, numbers)

    def execute(text: str, *scopes: Any) -> None:
        exec(find((text, None)) or text, *scopes)

    def evaluate(text: str, *scopes: Any) -> Any:
        return eval(find((text, None)) or text, *scopes)

    _compiler.compile = compile_
    vars(dataclasses)["exec"], vars(collections)["eval"] = execute, evaluate


def _opened() -> _Find | None:
    try:
        with PATH.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        start = 4 + int.from_bytes(data[:4], "little")
        made_by, places = marshal.loads(data[4:start])
    except (OSError, ValueError, EOFError, TypeError):
        return None
    if made_by != _MADE_BY:
        return None

    def find(key: _Key) -> Any:
        place = places.get(_number(key))
        if place is None:
            return None
        stored, value = marshal.loads(data[start + place :])
        return value if stored == key else None

    return find


def _number(key: _Key) -> int:
    text, flags = key
    return crc32(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text, flags or 0)


def _packed(made: dict[_Key, Any]) -> bytes:
    places: dict[int, int] = {}
    parts = bytearray()
    for key, value in made.items():
        places[_number(key)] = len(parts)
        parts += marshal.dumps((key, value))
    head = marshal.dumps((_MADE_BY, places))
    return len(head).to_bytes(4, "little") + head + parts


class _Engine:
    """`_sre`, which records its arguments."""

    def __init__(self, made: dict[_Key, Any]) -> None:
        self._made = made

    def __getattr__(self, name: str) -> Any:
        return getattr(_engine, name)

    def compile(self, pattern: Any, flags: int, code: Any, groups: int, names: Any, numbers: Any) -> Any:
        self._made[pattern, self.asked] = int(flags), array("I", code).tobytes(), groups, dict(names), tuple(numbers)
        return _engine.compile(pattern, flags, code, groups, names, numbers)

    # The flags that were asked for: the pattern itself may have others.
    asked = 0


def write() -> None:
    """Write what the modules of _WINGS have compiled, whole or not at all."""
    from pkgutil import walk_packages  # for the installation alone

    made: dict[_Key, Any] = {}
    engine, compile_anew = _Engine(made), _compiler.compile

    def compile_(pattern: Any, flags: int = 0) -> Any:
        engine.asked = int(flags)
        return compile_anew(pattern, flags)

    def execute(text: str, *scopes: Any) -> None:
        made[text, None] = compile(text, "<string>", "exec")
        exec(made[text, None], *scopes)

    def evaluate(text: str, *scopes: Any) -> Any:
        made[text, None] = compile(text, "<string>", "eval")
        return eval(made[text, None], *scopes)

    _compiler._sre, _compiler.compile = engine, compile_
    vars(dataclasses)["exec"], vars(collections)["eval"] = execute, evaluate
    for wing in _WINGS:
        package = import_module(f"pg_graphrag.{wing}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    # Some patterns are compiled at their first use.
    question = "What is a zyzzogeton for, and who knows Ada Lovelace?"
    modules = ("words.keywords", "words.search_terms", "languages", "concept", "letters", "chunks", "words.names")
    keywords, lexical, languages, concept, letters, chunks, names = (
        import_module(f"pg_graphrag.text.{name}") for name in modules
    )
    keywords.keywords(question, "en")
    keywords.themes(question)
    lexical.asked(question, "en")
    word = "déjà"
    languages.script_sizes(word)
    languages.is_english(word)
    concept.key(word)
    letters.unified_text(word)
    for compiled in (chunks._patterns, names._heading, lexical._unanalysed_run, lexical._ke):
        compiled()
    unfinished = PATH.with_suffix(".unfinished")
    unfinished.write_bytes(_packed(made))
    unfinished.rename(PATH)


if __name__ == "__main__":
    write()
