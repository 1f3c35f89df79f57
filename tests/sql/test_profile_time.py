"""The option profile_time: where the time of a search went, by step, and nothing else of it is another."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pg_graphrag.beside.client import tracing

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql import asking
from tests.sql.ingest import STORIES, index_all, new_corpus, rows, value

REPLY = asking.lines
QUESTION = "Which notes did Ada Lovelace write on the Analytical Engine?"
SEARCH = "SELECT source_key, score, explain FROM graphrag.search(%s, %s, %s, options => %s)"
# The step in which each mode does what it is named for.
STEPS = {
    "naive": "vectors",
    "bm25": "bm25",
    "local": "graph",
    "hybrid": "pagerank",
    "path": "paths",
    "drift": "reports",
    "lazy": "communities",
}


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    return index_all(module_db, new_corpus(module_db, communities=True), STORIES)


def sum_of_steps(profile: dict[str, float]) -> float:
    return sum(milliseconds for step, milliseconds in profile.items() if step != "total")


@pytest.mark.parametrize("mode", STEPS)
def test_the_steps_of_a_search_add_up_to_its_time(module_db: Database, corpus: str, mode: str) -> None:
    profile: dict[str, Any] = rows(module_db, SEARCH, QUESTION, corpus, mode, '{"profile_time": true}')[0][2][
        "profile_time"
    ]
    assert profile[STEPS[mode]] > 0
    assert profile["total"] == pytest.approx(sum_of_steps(profile), abs=0.01 * len(profile))


def test_each_step_of_a_search_is_described_and_traced() -> None:
    root = Path(__file__).parents[2]
    named = re.compile(r"""(?:@timed|(?:query|self)\.step)\("(\w+)"\)""")
    steps = {
        step for path in (root / "python/pg_graphrag/search").rglob("*.py") for step in named.findall(path.read_text())
    }
    described = next(line for line in (root / "docs/search.md").read_text().splitlines() if "by step `caller`" in line)
    assert steps <= {*re.findall(r"`(\w+)`", described)}
    assert steps <= {*tracing._STEPS}


@pytest.mark.parametrize("mode", STEPS)
def test_a_profile_changes_no_result(module_db: Database, corpus: str, mode: str) -> None:
    profiled = rows(module_db, SEARCH, QUESTION, corpus, mode, '{"profile_time": true}')
    for row in profiled:
        del row[2]["profile_time"]
    assert profiled == rows(module_db, SEARCH, QUESTION, corpus, mode, "{}")


def test_a_context_has_a_profile_where_it_was_asked_for(module_db: Database, corpus: str) -> None:
    context = "SELECT graphrag.context(%s, %s, 'mix', options => %s)"
    profile = value(module_db, context, QUESTION, corpus, '{"profile_time": true}')["profile_time"]
    assert profile["total"] == pytest.approx(sum_of_steps(profile), abs=0.01 * len(profile))
    assert "profile_time" not in value(module_db, context, QUESTION, corpus, "{}")


def listed(requests: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Purpose, provider, model and how long it took at least, of each."""
    assert all(request["tokens_in"] and request["tokens_out"] and request["cost"] > 0 for request in requests)
    return [
        (request["purpose"], request["model"], request["milliseconds"] and request["milliseconds"] > 0)
        for request in requests
    ]


@pytest.mark.parametrize("is_owner", [True, False])
def test_an_answer_says_what_it_took_and_which_models_were_asked(
    module_db: Database, endpoint: Endpoint, is_owner: bool
) -> None:
    corpus = asking.stories(module_db, endpoint)
    options = {"profile_time": True}
    with nullcontext() if is_owner else asking.as_reader(module_db):
        _, _, usage, context = asking.ask(module_db, QUESTION, corpus, options=options)
        assert context["profile_time"]["answer"] > 0
        assert context["profile_time"]["total"] == pytest.approx(sum_of_steps(context["profile_time"]), abs=0.5)
        asked = listed(context["requests"])
        # Readers are not told when: nor, so, what others asked before.
        assert asked == [(purpose, "model-1", is_owner or None) for purpose in ("keywords", "answer")]
        for name in ("tokens_in", "tokens_out", "cost"):
            assert sum(request[name] for request in context["requests"]) == pytest.approx(usage[name])
        _, _, _, again = asking.ask(module_db, QUESTION, corpus, options=options)
        # To readers what is known was asked for, too.
        assert again.get("requests", []) == ([] if is_owner else context["requests"])
        assert "requests" not in asking.ask(module_db, QUESTION, corpus)[3]


@pytest.mark.parametrize("is_owner", [True, False])
def test_an_answer_behind_its_stream_says_what_the_stream_asked(
    module_db: Database, endpoint: Endpoint, is_owner: bool
) -> None:
    corpus = asking.stories(module_db, endpoint)
    options = {"profile_time": True}
    with nullcontext() if is_owner else asking.as_reader(module_db):
        with module_db.transaction():
            asking.stream(module_db, QUESTION, corpus, options=options)
            _, _, _, context = asking.ask(module_db, QUESTION, corpus, options=options)
        assert listed(context["requests"]) == [
            (purpose, "model-1", is_owner or None) for purpose in ("keywords", "answer")
        ]
        assert all(
            request["started"] < 0 if is_owner else request["started"] is None for request in context["requests"]
        )
