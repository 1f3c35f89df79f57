"""How a node is connected to, and how long one may take that never answers."""

import json
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from pg_graphrag.search.nodes import links, searches
from pg_graphrag.search.nodes.connections import NodeError
from pg_graphrag.server.corpus.corpora import ElsewhereError, Placement

from tests.security.intercepting import hang, listening

ROLE = {"user": "ann", "password": "x"}


def link(**of_server: str) -> links.Link:
    db: Any = SimpleNamespace(
        query=lambda *_: [
            {
                "node": "b",
                "quoted_node": "b",
                "quoted_role": "ann",
                "has_server": True,
                "is_owners": True,
                "may_use": True,
                "is_mapped": True,
                "of_server": json.dumps(of_server),
                "of_role": json.dumps(ROLE),
            }
        ]
    )
    return links.link_of(db, elsewhere())


def elsewhere() -> ElsewhereError:
    return ElsewhereError("docs", Placement("b", "postgresql://b/app"))


def test_the_environment_of_the_server_says_no_other_address() -> None:
    """libpq asks PGHOSTADDR in place of the host where nothing is given."""
    assert dict(link(host="b").settings)["hostaddr"] == ""
    assert dict(link(host="b", hostaddr="127.0.0.1").settings)["hostaddr"] == "127.0.0.1"


def test_a_node_that_never_answers_ends_the_search_of_one_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    db: Any = SimpleNamespace(waiting=nullcontext, poll=lambda: None)
    arguments = searches.Arguments("x", None, 10, None, None, None, None)
    monkeypatch.setattr(searches, "MOST_SECONDS", 0.5)
    with listening(hang) as port:
        monkeypatch.setattr(searches, "link_of", lambda *_: link(host="127.0.0.1", port=str(port)))
        began = time.monotonic()
        with pytest.raises(NodeError) as refusal:
            searches.search_there(db, elsewhere(), arguments)
        assert time.monotonic() - began < 5
    assert (refusal.value.sqlstate, refusal.value.message) == ("57014", 'node "b": it took longer than 0.5 s')
    assert "corpus_timeout" in str(refusal.value.hint)
