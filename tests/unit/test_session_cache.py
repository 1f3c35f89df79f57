"""Whose memory a session gives up for what it reads next."""

from types import SimpleNamespace
from typing import Any

from pg_graphrag.server.caches.session_cache import SessionCache

MEMORY = 800
# An eighth is left to what is small.
LARGE = 700


def corpus(number: int) -> Any:
    return SimpleNamespace(id=number, revision=f"1/{number}", memory=MEMORY)


def ask(cache: SessionCache, number: int, times: int = 1) -> Any:
    """Ask a corpus; each query has an object of its own. Return the last."""
    for _ in range(times):
        cache.earlier_queries(asked := corpus(number))
    return asked


def test_a_corpus_has_no_room_at_the_cost_of_those_asked_as_often() -> None:
    cache = SessionCache()
    cache.put(ask(cache, 1, 10), "graph of 1", "graph", 400)
    cache.put(ask(cache, 2, 10), "graph of 2", "graph", 200)
    assert cache.spare(ask(cache, 3, 10), "graph of 3") == LARGE - 600


def test_a_corpus_asked_more_than_twice_as_often_has_their_room() -> None:
    cache = SessionCache()
    cache.put(ask(cache, 1, 10), "graph of 1", "graph", 400)
    cache.put(ask(cache, 2, 30), "graph of 2", "graph", 200)
    assert cache.spare(ask(cache, 3, 25), "graph of 3") == LARGE - 200


def test_a_session_that_turns_to_another_corpus_gives_up_the_former() -> None:
    cache = SessionCache()
    cache.put(ask(cache, 1, 10_000), "graph of 1", "graph", 400)
    assert cache.spare(ask(cache, 2), "graph of 2") == LARGE - 400
    assert cache.spare(ask(cache, 2, 300), "graph of 2") == LARGE


def test_a_corpus_that_is_warmed_has_all_room() -> None:
    cache = SessionCache()
    cache.put(ask(cache, 1, 300), "graph of 1", "graph", 400)
    cache.expect_many(second := corpus(2))
    assert cache.spare(second, "graph of 2") == LARGE


def test_what_is_asked_least_often_goes_first() -> None:
    cache = SessionCache()
    cache.put(ask(cache, 1, 3), "graph of 1", "graph", 400)
    cache.put(ask(cache, 2, 9), "graph of 2", "graph", 400)
    first = ask(cache, 1)
    assert cache.get(first, "graph of 1") == "graph"
    cache.put(ask(cache, 3), "graph of 3", "graph", 100)
    assert cache.get(first, "graph of 1") is None
    assert cache.get(corpus(2), "graph of 2") == "graph"
