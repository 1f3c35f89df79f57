"""min_relevance: how likely a row has something of the answer, which the row and the query alone decide."""

from typing import Any

import numpy as np
import pytest
from pg_graphrag.ground.mode_names import MODES
from pg_graphrag.search.retrievers.relevance import CURVES
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime import beside
from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import STORIES, Connection, index_all, put_all, refused, search, searched_corpus, value, work
from tests.sql.llm import provider
from tests.sql.test_one_answer import COMMUNITY_MODES

QUERY = "Who admired Ada Lovelace at Harvard?"
STRANGE = "What does the fox eat in the winter of the steppe?"


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    return index_all(module_db, searched_corpus(module_db, communities=True), STORIES)


def relevances(
    db: Connection, corpus: str, mode: str = "hybrid", least: float = 0.0, **arguments: Any
) -> dict[str, float]:
    rows = search(db, QUERY, corpus, mode, options={"min_relevance": least}, **arguments)
    return {row["source_key"]: row["explain"]["relevance"] for row in rows}


def test_it_is_of_the_row_and_the_query_alone(module_db: Database, corpus: str) -> None:
    whole = relevances(module_db, corpus, "naive")
    assert set(whole) == set(STORIES) and all(0 <= each <= 1 for each in whole.values())
    for mode in MODES:
        some = relevances(module_db, corpus, mode)
        assert some and some.items() <= whole.items(), mode
    part = {key: whole[key] for key in ("hopper", "turing")}
    assert relevances(module_db, corpus, "naive", filter={"$source_key": {"$in": sorted(part)}}) == part
    module_db.execute("SELECT graphrag.protect(%s, $$source_key IN ('hopper', 'turing')$$)", [corpus])
    try:
        with readers(module_db, 1) as (role,), acting_as(module_db, role):
            for mode in set(MODES) - set(COMMUNITY_MODES):
                assert relevances(module_db, corpus, mode).items() <= part.items(), mode
    finally:
        module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])


@pytest.mark.parametrize("memory", ["0", "64MB"])
def test_it_is_the_same_in_every_session(module_db: Database, corpus: str, memory: str) -> None:
    whole = relevances(module_db, corpus)
    if beside.IS_BESIDE:
        pytest.skip("settings of a session are of the process that serves it")
    with Database.open(module_db.url) as session:
        session.execute(f"SET graphrag.session_memory = '{memory}'")
        for _ in range(3):
            assert relevances(session, corpus) == pytest.approx(whole, abs=2e-6)


def test_it_says_what_it_is_made_of(module_db: Database, corpus: str) -> None:
    (first, *_) = search(module_db, QUERY, corpus, options={"min_relevance": 0})
    figures = first["explain"]["relevance_from"]
    curve = CURVES["all-MiniLM-L6-v2"][0]
    assert 0 < figures["words"] <= 1
    shares = curve.shares(np.array([figures["cosine"]]), np.array([figures["words"]]))
    assert first["explain"]["relevance"] == pytest.approx(shares[0], abs=1e-5)


def test_where_there_are_no_vectors_words_alone_say_it(module_db: Database) -> None:
    name = searched_corpus(module_db, embedding={"model": "all-MiniLM-L6-v2", "dimensions": 384})
    put_all(
        module_db, name, {"ja": "東京タワーは高さ333メートルの電波塔である。", "en": "The tower is 333 metres tall."}
    )
    work(module_db)
    rows = search(module_db, "東京タワーの高さは？", name, "bm25", options={"min_relevance": 0})
    assert [(row["source_key"], list(row["explain"]["relevance_from"])) for row in rows] == [("ja", ["words"])]


@pytest.mark.parametrize("mode", MODES)
def test_rows_below_it_are_left_out_and_ranks_count_them(module_db: Database, corpus: str, mode: str) -> None:
    whole = search(module_db, QUERY, corpus, mode, options={"min_relevance": 0})
    middle = sorted(row["explain"]["relevance"] for row in whole)[len(whole) // 2]
    kept = search(module_db, QUERY, corpus, mode, options={"min_relevance": middle})
    assert kept == [row for row in whole if row["explain"]["relevance"] >= middle]
    page = search(module_db, QUERY, corpus, mode, options={"min_relevance": middle, "offset": 1})
    assert page == [row for row in kept if row["rank"] > 1]
    assert all("relevance" not in row["explain"] for row in search(module_db, QUERY, corpus, mode))


def test_where_nothing_is_relevant_nothing_is_returned_and_the_context_says_so(
    module_db: Database, corpus: str
) -> None:
    assert search(module_db, STRANGE, corpus, "naive", options={"min_relevance": 0.5}) == []
    call = "SELECT graphrag.context(%s, %s, %s, options => %s)"
    for mode in ("hybrid", "naive", "ppr", "graph_global"):
        context = value(module_db, call, STRANGE, corpus, mode, Jsonb({"min_relevance": 0.5}))
        assert context["explain"] == {"empty": "no chunk has a relevance of 0.5 or more"}, mode
        parts = ("entities", "relationships", "reports", "claims", "chunks", "references")
        assert (context["prompt"], [context[part] for part in parts]) == ("", [[]] * len(parts)), mode


@pytest.mark.parametrize("least", [None, 0])
def test_one_relevant_row_lets_the_whole_context_stay(module_db: Database, corpus: str, least: float | None) -> None:
    call = "SELECT graphrag.context(%s, %s, 'hybrid', options => %s)"
    whole = value(module_db, call, QUERY, corpus, Jsonb({"min_relevance": least}))
    best = max(
        search(module_db, QUERY, corpus, options={"min_relevance": 0}), key=lambda row: row["explain"]["relevance"]
    )
    gate = best["explain"]["relevance"] - 1e-5
    assert value(module_db, call, QUERY, corpus, Jsonb({"min_relevance": gate}))["prompt"] == whole["prompt"]
    alone = value(module_db, call, QUERY, corpus, Jsonb({"min_relevance": gate, "include_chunks": False}))
    assert (alone["chunks"], alone["entities"]) == ([], whole["entities"])


def test_a_question_without_an_answer_asks_no_model(module_db: Database, corpus: str) -> None:
    with Endpoint() as endpoint:
        llm = {"provider": provider(module_db, endpoint), "model": "m"}
        module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"llm": llm})])
        endpoint.reply("Nobody knows [1].")
        call = "SELECT answer, usage ->> 'calls' FROM graphrag.ask(%s, %s, 'naive', options => %s)"
        for least, expected in (
            (0.5, ("The documents do not answer this question.", "0")),
            (0, ("Nobody knows [1].", "1")),
        ):
            (answer,) = module_db.execute(call, [STRANGE, corpus, Jsonb({"min_relevance": least})]).fetchall()
            assert answer == expected
        module_db.execute("SELECT graphrag.alter_corpus(%s, '{\"llm\": null}')", [corpus])


@pytest.mark.parametrize("least", [-0.1, 1.1, "0.5", True])
def test_what_is_no_probability_is_refused(module_db: Database, corpus: str, least: Any) -> None:
    call = "SELECT * FROM graphrag.search('x', %s, options => %s)"
    assert refused(module_db, call, corpus, Jsonb({"min_relevance": least})).sqlstate == "22023"


def test_it_is_refused_where_it_cannot_be_had(module_db: Database, corpus: str) -> None:
    module_db.execute("SELECT graphrag.set_provider('far', 'openai', 'http://127.0.0.1:9')")
    far = searched_corpus(module_db, embedding={"provider": "far", "model": "all-MiniLM-L6-v2", "dimensions": 384})
    error = refused(
        module_db, "SELECT * FROM graphrag.search('x', %s, 'bm25', options => '{\"min_relevance\": 0.1}')", far
    )
    assert (error.sqlstate, "rerank" in str(error.message_hint)) == ("0A000", True)
    call = "SELECT * FROM graphrag.ask('x', %s, 'drift', options => '{\"min_relevance\": 0.1}')"
    assert refused(module_db, call, corpus).sqlstate == "22023"
