"""A corpus with a model that sees has it describe each picture once, within its limits; what it says is found."""

import base64
from collections.abc import Sequence
from typing import Any

from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import Connection, put, rows, searched_corpus, value, work
from tests.sql.llm import provider
from tests.sql.picture_rows import add_picture, pictured, png

SEEN = {
    1: "A bar chart of launches in Osaka.\n\n| year | launches |\n|---|---|\n| 2011 | 3 |\n| 2012 | 9 |",
    2: "A red pump stands beside the valve of the Heron launcher.",
    3: "A map shows the harbour of Rotterdam.",
}


def colors(messages: Sequence[dict[str, Any]]) -> list[int]:
    """Which of our pictures a request shows."""
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    shown = {png(color): color for color in SEEN}
    assert all(url.startswith("data:image/png;base64,") for url in urls)
    return [shown[base64.b64decode(url.partition(",")[2])] for url in urls]


def REPLY(messages: Sequence[dict[str, Any]]) -> str:
    (color,) = colors(messages)
    return SEEN[color]


def seeing(db: Connection, endpoint: Endpoint, budget: float | None = None, **options: Any) -> str:
    """A corpus whose model sees, and makes nothing else."""
    settings = {"timeout": 2, "price_input": 1, "price_output": 2} | options
    role = {"provider": provider(db, endpoint, **settings), "model": "eye-1"}
    return searched_corpus(db, llm={"roles": {"vision": role}, "monthly_budget": budget})


def found(db: Connection, corpus: str, question: str, mode: str = "hybrid") -> tuple[str, int | None, str]:
    """The first row: key, picture, text."""
    sql = "SELECT source_key, (explain ->> 'picture')::bigint, content FROM graphrag.search(%s, %s, %s)"
    return rows(db, sql, question, corpus, mode)[0]


def descriptions(db: Connection, corpus: str) -> list[tuple[str | None, str | None]]:
    sql = "SELECT p.description, p.error FROM graphrag.pictures p JOIN graphrag.documents d ON d.id = p.document_id"
    return rows(db, f"{sql} WHERE d.corpus = %s ORDER BY p.id", corpus)


def test_pictures_of_three_documents_are_found_by_what_they_show(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    keys = ("deck.pptx", "manual.pdf", "page.html")
    pictures = {
        key: pictured(db, corpus, key, f"Words of {key}.\f\nMore.", content=png(color), caption=None, page=2)
        for color, key in enumerate(keys, 1)
    }
    work(db)
    for key, question in zip(
        keys, ("How many launches in 2012?", "red pump beside the valve", "harbour of Rotterdam"), strict=True
    ):
        for mode in ("hybrid", "bm25", "naive"):
            assert found(db, corpus, question, mode)[:2] == (key, pictures[key]), (key, mode)
    assert len(endpoint.requests) == 3
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_a_picture_is_described_once(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    pictured(db, corpus, content=png(2))
    work(db)
    put(db, corpus, "manual", "A manual.\f\nMore of it.", title="Other")
    db.execute("SELECT graphrag.reindex(%s)", [corpus])
    work(db)
    assert len(endpoint.requests) == 1
    assert value(db, "SELECT calls FROM graphrag.llm_usage WHERE purpose = 'vision'") == 1


def test_the_same_bytes_beside_the_same_words_are_asked_for_once(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    for _ in range(2):
        put(db, corpus, "manual", "A manual.")
        add_picture(db, corpus, "manual", content=png(2))
        work(db)
        db.execute("DELETE FROM graphrag.documents")
    work(db)
    assert len(endpoint.requests) == 1


def test_the_model_is_told_what_stands_beside_it(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    put(db, corpus, "manual", "Vorwort.\f\nDie Pumpe steht in Halle 7.", title="Handbuch")
    add_picture(db, corpus, "manual", content=png(2), page=2, caption="Abb. 3", alternative_text="Pumpe")
    work(db)
    (request,) = endpoint.requests
    (text,) = [part["text"] for part in request.messages[-1]["content"] if part["type"] == "text"]
    assert all(words in text for words in ("Handbuch", "Abb. 3", "Pumpe", "Halle 7", "language of the document"))
    assert "Vorwort" not in text


def test_what_the_application_described_is_not_asked_for(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    pictured(db, corpus, content=png(1), description="A chart.")
    work(db)
    assert endpoint.requests == [] and descriptions(db, corpus) == [("A chart.", None)]


def test_without_the_role_nobody_is_asked(db: Database, endpoint: Endpoint) -> None:
    model = {"provider": provider(db, endpoint), "model": "blind-1"}
    corpus = searched_corpus(db, llm=model)
    pictured(db, corpus, content=png(1))
    work(db)
    assert endpoint.requests == []


def test_a_model_that_comes_later_describes_what_is_there(db: Database, endpoint: Endpoint) -> None:
    corpus = searched_corpus(db)
    pictured(db, corpus, content=png(2))
    work(db)
    role = {"provider": provider(db, endpoint), "model": "eye-1"}
    db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"llm": {"roles": {"vision": role}}})])
    work(db)
    assert descriptions(db, corpus) == [(SEEN[2], None)]
    assert found(db, corpus, "red pump")[0] == "manual"


def test_what_cannot_be_described_says_why_and_is_tried_again_on_demand(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    endpoint.reply("")
    pictured(db, corpus, content=png(2))
    work(db)
    ((description, error),) = descriptions(db, corpus)
    assert description is None and error
    asked = len(endpoint.requests)
    work(db)
    assert len(endpoint.requests) == asked
    endpoint.reply(REPLY)
    db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(db)
    assert descriptions(db, corpus) == [(SEEN[2], None)]


def test_an_endpoint_that_fails_is_no_fault_of_the_picture(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    endpoint.misbehave("unavailable", times=None)
    pictured(db, corpus, content=png(2))
    work(db)
    assert descriptions(db, corpus) == [(None, None)]
    assert value(db, "SELECT count(*) FROM graphrag.jobs WHERE kind = 'describe'") == 1
    endpoint.behave()
    db.execute("SELECT graphrag.retry_failed()")
    work(db)
    assert descriptions(db, corpus) == [(SEEN[2], None)]


def test_a_budget_stops_it(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint, budget=0)
    pictured(db, corpus, content=png(2))
    work(db)
    assert endpoint.requests == [] and descriptions(db, corpus) == [(None, None)]


def test_the_estimate_counts_what_waits(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    pictured(db, corpus, content=png(1))
    pictured(db, corpus, "other", content=png(2))
    sql = "SELECT calls, cost, basis FROM graphrag.estimate_cost(%s)"
    ((calls, cost, basis),) = rows(db, sql, corpus)
    assert calls == 2 and cost > 0 and basis["pictures"]["model"] == "eye-1"
    work(db)
    assert value(db, "SELECT cost FROM graphrag.estimate_cost(%s)", corpus) == 0


def test_forget_leaves_no_word_of_a_description(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    pictured(db, corpus, content=png(3))
    work(db)
    states = rows(db, "SELECT place, state FROM graphrag.forget(%s, 'manual')", corpus)
    assert "remains" not in {state for _, state in states}
    assert value(db, "SELECT count(*) FROM graphrag.llm_cache WHERE reply LIKE '%%Rotterdam%%'") == 0
    assert value(db, "SELECT count(*) FROM graphrag.pictures") == 0


def test_a_version_comes_with_its_description(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    pictured(db, corpus, content=png(2))
    db.execute("SELECT graphrag.keep_history(%s, %s)", [corpus, f"{corpus} history"])
    work(db)
    assert len(endpoint.requests) == 1
    assert descriptions(db, f"{corpus} history") == [(SEEN[2], None)]
