"""The option `select`: one request chooses among the first 40 rows; bounded, cached, and never an error of the search."""

import json
import re
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import as_reader, ask, warnings
from tests.sql.ingest import STORIES, keys, put_all, refused, search, searched_corpus, work
from tests.sql.llm import provider
from tests.sql.themes import SEA, asked, task

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr", "graph_local", "drift", "lazy")
QUESTION = "Who harpooned the Kraken?"
SELECT = {"select": True}


def passages(messages: Messages) -> list[str]:
    data = str(messages[-1]["content"]).partition("\n</passages-")[0].partition("\n")[2]
    return [text for _, text in re.findall(r"^\[(\d+)\] (.*?)(?=\n\n\[\d+\] |\Z)", data, re.M | re.S)]


def last_first(messages: Messages) -> str:
    count = len(passages(messages))
    return json.dumps({"selected": [count, 1, count, 99, 0, "2"]})


REPLY = last_first


@pytest.fixture(scope="module")
def corpus(module_db: Database, module_endpoint: Endpoint) -> str:
    model = {"provider": provider(module_db, module_endpoint, timeout=2), "model": "m"}
    name = searched_corpus(module_db, llm={"roles": {"relevance": model, "answer": model}})
    put_all(module_db, name, STORIES | SEA)
    work(module_db)
    return name


@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", MODES)
def test_what_the_model_names_comes_first_in_every_mode(
    module_db: Database, corpus: str, module_endpoint: Endpoint, mode: str
) -> None:
    module_endpoint.reply(last_first)
    before = search(module_db, QUESTION, corpus, mode, top_k=40)
    selected_rows = search(module_db, QUESTION, corpus, mode, top_k=40, options=SELECT)
    expected = [before[-1], before[0], *before[1:-1]] if len(before) > 1 else before
    assert keys(selected_rows) == keys(expected)
    assert [row["score"] for row in selected_rows] == pytest.approx(
        [1 / rank for rank in range(1, len(selected_rows) + 1)]
    )
    for row in selected_rows:
        note = row["explain"]["select"]
        (earlier,) = [other for other in before if other["chunk_id"] == row["chunk_id"]]
        assert (note["rank_before"], note["score_before"]) == (earlier["rank"], earlier["score"])
    # Fewer rows are the beginning of more.
    assert keys(search(module_db, QUESTION, corpus, mode, top_k=2, options=SELECT)) == keys(selected_rows)[:2]


def test_it_is_one_request_with_the_paths_and_known_the_next_time(
    module_db: Database, corpus: str, module_endpoint: Endpoint
) -> None:
    module_endpoint.reply(last_first)
    question = "Who sailed the Nautilus, and who broke Enigma?"
    module_endpoint.forget()
    selected_rows = search(module_db, question, corpus, "hybrid", options=SELECT)
    (request,) = asked(module_endpoint, "select")
    shown = passages(request.messages)
    assert len(shown) == len(STORIES | SEA) and any("Path: " in text and "through" in text for text in shown)
    assert len(request.text) < 40 * 1100 + 3000
    module_endpoint.forget()
    assert keys(search(module_db, question, corpus, "hybrid", options=SELECT)) == keys(selected_rows)
    assert module_endpoint.requests == []


@pytest.mark.parametrize("reply_text", ["None of them.", '{"selected": "1"}', '{"selected": [77]}'])
def test_a_reply_that_selects_nothing_readable_leaves_the_order(
    module_db: Database, corpus: str, module_endpoint: Endpoint, reply_text: str
) -> None:
    module_endpoint.reply(lambda _: reply_text)
    question = f"Who met Captain Nemo, {len(reply_text)}?"
    before = search(module_db, question, corpus, "hybrid")
    with warnings(module_db) as messages_sent:
        selected_rows = search(module_db, question, corpus, "hybrid", options=SELECT)
    assert keys(selected_rows) == keys(before) and "no row was selected" in "\n".join(messages_sent)
    assert selected_rows[0]["explain"]["select"]["failed"]


def test_an_empty_selection_leaves_the_order_without_a_warning(
    module_db: Database, corpus: str, module_endpoint: Endpoint
) -> None:
    module_endpoint.reply(lambda _: '{"selected": []}')
    with warnings(module_db) as messages_sent:
        selected_rows = search(module_db, "Who hired Alan Turing?", corpus, "hybrid", options=SELECT)
    assert (
        keys(selected_rows) == keys(search(module_db, "Who hired Alan Turing?", corpus, "hybrid")) and not messages_sent
    )


def test_who_may_ask_gets_it_and_who_sees_a_part_shows_that_alone(
    module_db: Database, corpus: str, module_endpoint: Endpoint
) -> None:
    module_endpoint.reply(last_first)
    module_endpoint.forget()
    search(module_db, "Kraken and Enigma, in part?", corpus, "hybrid", options=SELECT, filter={"$source_key": "land"})
    (request,) = asked(module_endpoint, "select")
    assert "Kraken" in request.text and "Bletchley" not in str(request.messages[-1]["content"])
    with as_reader(module_db):
        selected_rows = search(module_db, "Kraken and Enigma, as a reader?", corpus, "hybrid", options=SELECT)
    assert selected_rows[0]["explain"]["select"]["selected"]


def test_an_answer_is_made_of_it_and_estimated(module_db: Database, corpus: str, module_endpoint: Endpoint) -> None:
    def reply(messages: Messages) -> str:
        return last_first(messages) if task(messages) == "select" else "Ned Land [1]."

    module_endpoint.reply(reply)
    module_endpoint.forget()
    question = "Who harpooned it, after all?"
    sql = "SELECT calls, tokens_in FROM graphrag.estimate_ask(%s, %s, 'naive', options => %s)"
    ((calls, tokens),) = module_db.execute(sql, [question, corpus, Jsonb(SELECT)]).fetchall()
    usage: dict[str, Any] = ask(module_db, question, corpus, mode="naive", options=SELECT)[2]
    assert usage["calls"] == calls == 2 and usage["tokens_in"] <= tokens


def test_without_a_model_or_in_modes_that_ask_themselves_it_is_refused(module_db: Database, corpus: str) -> None:
    bare = searched_corpus(module_db)
    sql = "SELECT graphrag.search('x', %s, options => '{\"select\": true}')"
    assert refused(module_db, sql, bare).sqlstate == "55000"
    own = refused(module_db, "SELECT graphrag.ask('x', %s, 'lazy', options => '{\"select\": true}')", corpus)
    assert own.sqlstate == "22023" and "select" in str(own.message_primary)
