"""The option profile_time: where the time of a search went, by step, and nothing else of it is another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, new_corpus, put_all, refused, rows, value, work

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
    name = new_corpus(module_db, communities=True)
    put_all(module_db, name, STORIES)
    work(module_db)
    return name


def sum_of_steps(profile: dict[str, float]) -> float:
    return sum(milliseconds for step, milliseconds in profile.items() if step != "total")


@pytest.mark.parametrize("mode", STEPS)
def test_the_steps_of_a_search_add_up_to_its_time(module_db: Database, corpus: str, mode: str) -> None:
    profile: dict[str, Any] = rows(module_db, SEARCH, QUESTION, corpus, mode, '{"profile_time": true}')[0][2][
        "profile_time"
    ]
    assert profile[STEPS[mode]] > 0
    assert profile["total"] == pytest.approx(sum_of_steps(profile), abs=0.01 * len(profile))


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


def test_an_answer_has_none(module_db: Database, corpus: str) -> None:
    refusal = refused(
        module_db, "SELECT graphrag.ask(%s, %s, options => %s)", QUESTION, corpus, '{"profile_time": true}'
    )
    assert (refusal.sqlstate, refusal.message_hint) == ("22023", "Ask for the context: graphrag.context(…) has it.")
