"""graphrag.context: what whole chunks leave of a budget is filled with excerpts of the next ones."""

import re
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.ingest import put, search, searched_corpus, value, work

QUESTION = "What does the Kestrel engine burn?"
ANSWER = "The Kestrel engine burns methane with liquid oxygen."
FLIGHT = "The Kestrel engine first flew in 2011."
FILLER = [
    f"The workshop of {town} repairs clocks, barometers and other instruments of brass for the harbour office. "
    f"Its ledgers of {year} list the apprentices, what they were paid, and which parts were sent for by rail."
    for town, year in zip(
        ("Alta", "Bergen", "Cork", "Delft", "Essen", "Faro", "Ghent", "Hull", "Ivry", "Jena", "Kiel", "Linz"),
        range(1880, 1892),
        strict=True,
    )
]


def long_text(*sentences: str) -> str:
    """Return a text of some 650 tokens with sentences in its middle."""
    return "\n\n".join([*FILLER[:6], *sentences, *FILLER[6:]])


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db, chunk_token_size=1200, chunk_overlap=0)
    put(module_db, name, "engine", long_text(ANSWER), title="On engines")
    put(module_db, name, "history", long_text(FLIGHT), title="History")
    put(module_db, name, "other", long_text(), title="Workshops")
    work(module_db)
    return name


def context(
    db: Database, corpus: str, max_tokens: int, mode: str = "naive", question: str = QUESTION, **options: Any
) -> Any:
    call = "SELECT graphrag.context(%s, %s, %s, %s, options => %s)"
    return value(db, call, question, corpus, mode, max_tokens, Jsonb(options))


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", ["naive", "bm25", "hybrid", "local", "graph_local", "lazy", "path"])
def test_a_chunk_that_has_no_room_is_there_with_the_sentences_that_answer(
    module_db: Database, corpus: str, mode: str
) -> None:
    parts = context(module_db, corpus, 500, mode)
    assert parts["tokens"] <= 500
    assert ANSWER in parts["prompt"]
    excerpts = {chunk["chunk_id"]: chunk for chunk in parts["chunks"]}
    assert all(chunk["excerpt"] for chunk in excerpts.values())
    whole = {row["chunk_id"]: row["content"] for row in search(module_db, QUESTION, corpus, mode, top_k=20)}
    for chunk_id, chunk in excerpts.items():
        pieces = [piece.strip() for piece in chunk["content"].split("…")]
        assert all(piece in whole[chunk_id] for piece in pieces)
        assert all(re.search(r"[.]$", piece) for piece in pieces if piece), "sentences are cut"
    numbers = {reference["document_id"]: reference["number"] for reference in parts["references"]}
    assert {chunk["document_id"]: chunk["reference"] for chunk in excerpts.values()} == numbers


def test_whole_chunks_come_first_and_excerpts_fill_the_rest(module_db: Database, corpus: str) -> None:
    parts = context(module_db, corpus, 1000)
    assert [chunk["excerpt"] for chunk in parts["chunks"]][:2] == [False, True]
    assert "…" not in parts["chunks"][0]["content"]
    assert 900 < parts["tokens"] <= 1000


@pytest.mark.parametrize(("mode", "max_tokens"), [("naive", 640), ("hybrid", 640)])
def test_sentences_that_answer_have_room_beside_whole_chunks(
    module_db: Database, corpus: str, mode: str, max_tokens: int
) -> None:
    both = "What does the Kestrel engine burn, and when did it first fly?"
    parts = context(module_db, corpus, max_tokens, mode, both)
    assert ANSWER in parts["prompt"]
    assert FLIGHT in parts["prompt"]
    assert [chunk["excerpt"] for chunk in parts["chunks"]] == [False, True]
    assert parts["tokens"] <= max_tokens


@pytest.mark.parametrize("mode", ["hybrid", "mix", "local"])
def test_a_short_context_has_little_of_the_graph_where_texts_need_the_room(
    module_db: Database, corpus: str, mode: str
) -> None:
    of_graph = {}
    for total in (500, 1000, 2000, 4000):
        parts = context(module_db, corpus, total, mode)
        assert parts["tokens"] <= total
        of_graph[total] = len(parts["entities"]) + len(parts["relationships"])
    assert of_graph[500] == 0
    assert of_graph[1000] < of_graph[2000] < of_graph[4000]
    # Without excerpts the text has no use for the room.
    whole = context(module_db, corpus, 1000, mode, excerpts=False)
    assert len(whole["entities"]) + len(whole["relationships"]) > of_graph[1000]


@pytest.mark.parametrize("mode", ["hybrid", "mix", "local"])
def test_the_graph_has_what_the_texts_leave(module_db: Database, mode: str) -> None:
    name = searched_corpus(module_db)
    put(module_db, name, "engine", f"{ANSWER} {FLIGHT}", title="On engines")
    work(module_db)
    parts = context(module_db, name, 300, mode)
    assert parts["entities"]
    assert parts["relationships"]
    assert [chunk["excerpt"] for chunk in parts["chunks"]] == [False]


def test_without_excerpts_a_chunk_is_there_as_a_whole_or_not_at_all(module_db: Database, corpus: str) -> None:
    assert context(module_db, corpus, 500, excerpts=False)["chunks"] == []
    assert [chunk["excerpt"] for chunk in context(module_db, corpus, 1000, excerpts=False)["chunks"]] == [False]
    paper = context(module_db, corpus, 500, mode="local", profile="paper")
    assert not any(chunk["excerpt"] for chunk in paper["chunks"])


def test_where_everything_fits_there_are_no_excerpts(module_db: Database, corpus: str) -> None:
    parts = context(module_db, corpus, 30_000)
    assert [chunk["excerpt"] for chunk in parts["chunks"]] == [False] * 3


@pytest.mark.parametrize("mode", ["naive", "hybrid", "graph_local"])
@pytest.mark.parametrize("max_tokens", [0, 10, 40, 90, 200, 1000, 1300, 2100, 2500])
def test_excerpts_stay_within_the_budget_and_are_the_same_each_time(
    module_db: Database, corpus: str, mode: str, max_tokens: int
) -> None:
    parts = context(module_db, corpus, max_tokens, mode)
    assert parts["tokens"] <= max_tokens
    assert context(module_db, corpus, max_tokens, mode) == parts


def test_a_hidden_document_has_no_part_in_excerpts(module_db: Database, corpus: str) -> None:
    call = "SELECT graphrag.context(%s, %s, 'naive', 500, filter => %s)"
    parts = value(module_db, call, QUESTION, corpus, '{"source_key": "history"}')
    assert {reference["source_key"] for reference in parts["references"]} <= {"history"}
    assert ANSWER not in parts["prompt"]
