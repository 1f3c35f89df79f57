"""What a process remembers of one database is set aside for another: every dictionary of a module is of one, or of none."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pg_graphrag
import pytest
from pg_graphrag.beside.process import state
from pg_graphrag.beside.process.database import ProcessDatabase
from pg_graphrag.beside.process.shared import SharedDatabase
from pg_graphrag.search.query import understanding
from pg_graphrag.server import Database
from pg_graphrag.server.caches.session_cache import SessionCache, cache

PACKAGE = Path(pg_graphrag.__path__[0])
# Of no database: by address of an endpoint, by connection or how to make one, by token, by path, by model and text, or of the
# process itself.
OF_NONE = {
    "server.access.entry:_pending",
    "beside.client.hosts:_catalogues",
    "beside.client.hosts:_is_beside",
    "llm.endpoints.endpoint_embedding:_limits",
    "llm.endpoints.endpoint_embedding:_texts",
    "llm.endpoints.transport:_refused_fields",
    "llm.endpoints.wire:_most_read",
    "search.nodes.connections:_kept",
    "search.query.understanding:_read",
    "beside.process.host:_databases",
    "beside.process.state:_set_aside",
    "beside.process.turns:_at_work",
    "server:_databases",
    "server.versions:_asleep",
}


def dictionaries() -> Iterator[str]:
    """The dictionaries of modules that are empty at first: what fills them is remembered."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                value = node.value
                is_call = isinstance(value, ast.Call) and not value.args
                is_dict = "dict" in ast.unparse(node.annotation).lower()
                if is_dict and (is_call or (isinstance(value, ast.Dict) and not value.keys)):
                    yield f"{module}:{node.target.id}"


def test_every_dictionary_that_modules_fill_is_set_aside_or_of_no_database() -> None:
    of_modules = {path for path in state.MEMORIES if "cache." not in path}
    assert set(dictionaries()) == of_modules | OF_NONE
    of_cache = {f"server.caches.session_cache:cache.{name}" for name in vars(SessionCache())}
    assert of_cache == set(state.MEMORIES) - of_modules


def test_another_database_has_other_memories_and_the_first_gets_its_own_back() -> None:
    state.remember("first")
    understanding._patience[1] = understanding._Patience(1.0)
    cache._entries["key"] = "entry"  # type: ignore[assignment]
    try:
        state.remember("second")
        assert understanding._patience == {} and not cache._entries
        understanding._patience[1] = understanding._Patience(2.0)
        state.remember("first")
        assert understanding._patience == {1: understanding._Patience(1.0)} and list(cache._entries) == ["key"]
        state.remember("second")
        assert understanding._patience == {1: understanding._Patience(2.0)}
    finally:
        understanding._patience.clear()
        state.remember("first")
        understanding._patience.clear()
        cache._entries.clear()


@pytest.mark.parametrize("host", [ProcessDatabase, SharedDatabase])
def test_what_the_server_does_by_plpython_is_done_otherwise_beside_a_database(host: type[Database]) -> None:
    functions = {name: getattr(member, "fget", member) for name, member in vars(Database).items()}
    by_plpython = {
        name
        for name, function in functions.items()
        if inspect.isfunction(function)
        and name != "__init__"
        and ".plpy" in inspect.getsource(inspect.unwrap(function))
    }
    assert {"execute", "statement_error", "bounded", "commit"} <= by_plpython
    assert by_plpython - vars(host).keys() == set()
