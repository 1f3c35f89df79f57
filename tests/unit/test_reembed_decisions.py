"""What graphrag.reembed() does to the spaces of a corpus, by which there are and which model is asked for."""

from types import SimpleNamespace
from typing import Any

import pytest
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.operate.admin import start_reembed as admin
from pg_graphrag.server.corpus.options import Embedding
from pg_graphrag.server.corpus.spaces import Space

OLD, NEW, OTHER = (Embedding("p", model, 8) for model in ("old", "new", "other"))


def space(embedding: Embedding, state: str) -> Space:
    return Space(1, embedding, state, own_tables=False)


@pytest.mark.parametrize(
    ("present", "asked", "done"),
    [
        # Without vectors the option changes, and documents are embedded by it as they are indexed.
        ([], NEW, ["option new"]),
        ([(OLD, "retired")], NEW, ["option new"]),
        ([(OLD, "active")], OLD, []),
        ([(OLD, "active")], NEW, ["add new building", "queue"]),
        # Asked again, nothing begins anew.
        ([(OLD, "active"), (NEW, "building")], NEW, []),
        ([(OLD, "active"), (NEW, "building")], OTHER, ["new retired", "add other building", "queue"]),
        # Back to the model that is searched: the worker must see that there is nothing to build.
        ([(OLD, "active"), (NEW, "building")], OLD, ["new retired", "queue"]),
    ],
)
def test_a_space_is_built_only_for_another_model_and_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch, present: list[tuple[Embedding, str]], asked: Embedding, done: list[str]
) -> None:
    calls: list[str] = []
    fakes: dict[str, Any] = {
        "find_corpus": lambda db, name: SimpleNamespace(id=1),
        "load_provider": lambda db, provider: None,
        "spaces": lambda db, corpus: [space(*row) for row in present],
        "set_option": lambda db, corpus, embedding: calls.append(f"option {embedding.model}"),
        "set_state": lambda db, target, state: calls.append(f"{target.embedding.model} {state}"),
        "add_space": lambda db, corpus, embedding, state: calls.append(f"add {embedding.model} {state}"),
        "requeue": lambda db, kind, corpus: calls.append("queue"),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(admin, name, fake)
    db: Any = SimpleNamespace(query=lambda *_: [])
    admin.reembed(db, "c", f'{{"provider": "p", "model": "{asked.model}", "dimensions": 8}}')
    assert calls == done


def test_a_bad_model_is_refused_before_anything_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "find_corpus", lambda db, name: SimpleNamespace(id=1))
    with pytest.raises(GraphRAGError, match="no model"):
        admin.reembed(None, "c", '{"provider": "p"}')
