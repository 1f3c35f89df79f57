"""Which chunks stay before those to which bridges lead."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pg_graphrag.ground.numeric import np
from pg_graphrag.search.graph_view.seeds import Mentions
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.retrievers import bridges
from pg_graphrag.search.retrievers.bridges import LINK, NEARNESS, OF_TITLE, _bridges, _stay


def test_of_each_document_that_is_named_by_its_title_the_best_chunks_stay_in_front() -> None:
    """A long one has many chunks, and would fill the answer."""
    chunks, documents = np.array([4, 5, 3, 9, 7, 8, 2]), np.array([40, 10, 20, 10, 10, 30, 20])
    titled = np.array([3, 5, 7, 9])
    assert OF_TITLE == 2
    assert _stay(chunks, documents, titled).tolist() == [True, True, True, True, False, False, False]


def test_a_bridge_that_is_worth_nearly_nothing_leads_to_its_chunk_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = np.arange(1, 21)
    edge: Any = np.array([7, 7])
    no: Any = np.array([False, False])
    nearness = np.full((1, 20), (5e-5 - LINK) / NEARNESS)
    monkeypatch.setattr(bridges.dense, "entity_vectors", lambda *_: {7: np.ones(3, np.float32)})
    monkeypatch.setattr(bridges, "graph_of", lambda _: SimpleNamespace(keys=lambda names: dict.fromkeys(names, "ada")))
    monkeypatch.setattr(bridges, "_nearness", lambda *_: nearness)
    monkeypatch.setattr(bridges, "answered_rest", lambda *_: np.zeros((4, 20)))
    led_to = _bridges(
        cast(Query, SimpleNamespace(run_keys=[])),
        chunks,
        chunks,
        np.zeros(20),
        Mentions(edge, edge, np.array([1, 2]), no, no),
    )
    assert np.flatnonzero(led_to.worth).tolist() == np.flatnonzero(led_to.sources).tolist() == [0, 1]
