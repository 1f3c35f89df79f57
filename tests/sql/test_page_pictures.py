"""Pictures that show a whole page, as of a scan: what the text says on it is cited with its picture."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pg_graphrag import GraphRAG

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import ask, is_keywords, with_model
from tests.sql.ingest import Connection, put, rows, searched_corpus, value, work
from tests.sql.picture_rows import add_picture, document_id, png

CLAUSES = {
    "term": "The term of this lease is nine years from the first of May.",
    "rent": "The tenant pays a rent of four hundred ducats to the harbour office of Osaka.",
    "boats": "Boats longer than thirty cubits may not moor at the northern quay.",
    "notice": "Either party gives notice six months before the end of the lease.",
}
QUESTIONS = {
    2: "What rent does the tenant pay to the harbour office?",
    3: "Which boats may not moor at the northern quay?",
    4: "How many months before the end does a party give notice?",
}


def REPLY(messages: Sequence[dict[str, Any]]) -> str:
    """The clause of the page that is asked about."""
    if is_keywords(messages):
        return json.dumps({"low_level_keywords": [], "high_level_keywords": [], "entities": [], "answer_types": []})
    asked = str(messages[-1]["content"])
    (page,) = (page for page, question in QUESTIONS.items() if question in asked)
    return f"{list(CLAUSES.values())[page - 1].removesuffix('.')} [1]."


def contract(db: Connection, endpoint: Endpoint, *, is_page: bool = True) -> tuple[str, dict[int, int]]:
    """A corpus with a contract of four pages, one chunk, and {page: its picture}."""
    corpus = with_model(db, endpoint)
    put(db, corpus, "contract", "\n\n\f".join(CLAUSES.values()) + "\n\n\f")
    pictures = {
        page: add_picture(db, corpus, "contract", content=png(page), caption=None, page=page, is_page=is_page)
        for page in range(1, 5)
    }
    work(db)
    assert rows(db, "SELECT count(*) FROM graphrag.chunks") == [(1,)]
    return corpus, pictures


def cited(db: Connection, corpus: str, question: str) -> tuple[Any, Any]:
    """Return pages and picture of the first citation."""
    _, citations, _, _ = ask(db, question, corpus)
    return citations[0]["pages"], citations[0]["picture"]


def test_a_citation_has_the_picture_of_its_page(db: Database, endpoint: Endpoint) -> None:
    corpus, pictures = contract(db, endpoint)
    for page, question in QUESTIONS.items():
        assert cited(db, corpus, question) == (str(page), pictures[page])
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_without_a_model_the_page_is_that_of_the_first_sentence(db: Database) -> None:
    corpus = searched_corpus(db)
    put(db, corpus, "contract", "\n\n\f".join(CLAUSES.values()) + "\n\n\f")
    pictures = [
        add_picture(db, corpus, "contract", content=png(n), caption=None, page=n, is_page=True) for n in range(1, 5)
    ]
    work(db)
    for page, question in QUESTIONS.items():
        answer, citations, _, _ = ask(db, question, corpus)
        _, first, *_ = answer.split("- ")
        assert list(CLAUSES.values())[page - 1] in first
        assert (citations[0]["pages"], citations[0]["picture"]) == (str(page), pictures[page - 1])


def test_a_picture_on_a_page_is_not_the_page(db: Database, endpoint: Endpoint) -> None:
    corpus, _ = contract(db, endpoint, is_page=False)
    assert cited(db, corpus, QUESTIONS[3]) == ("3", None)


def test_a_page_that_is_not_kept_is_not_shown(db: Database, endpoint: Endpoint) -> None:
    corpus, pictures = contract(db, endpoint)
    db.execute("DELETE FROM graphrag.pictures WHERE page = 3")
    work(db)
    assert cited(db, corpus, QUESTIONS[3]) == ("3", None)
    assert cited(db, corpus, QUESTIONS[4]) == ("4", pictures[4])


def test_a_text_without_pages_is_one_page(db: Database) -> None:
    corpus = searched_corpus(db)
    put(db, corpus, "letter", CLAUSES["boats"])
    picture = add_picture(db, corpus, "letter", caption=None, page=1, is_page=True)
    work(db)
    assert cited(db, corpus, QUESTIONS[3]) == (None, picture)


def test_a_restricted_reader_has_the_pages_of_his_documents(db: Database, endpoint: Endpoint) -> None:
    corpus, pictures = contract(db, endpoint)
    put(db, corpus, "secret", f"{CLAUSES['boats']} So says the secret annex.\f", metadata={"secret": True})
    hidden = add_picture(db, corpus, "secret", content=png(9), caption=None, page=1, is_page=True)
    work(db)
    db.execute("CREATE ROLE page_reader")
    db.execute("SELECT graphrag.grant_corpus(%s, 'page_reader')", [corpus])
    db.execute("SELECT graphrag.protect(%s, $$NOT metadata @> '{\"secret\": true}'$$)", [corpus])
    db.execute("SET ROLE page_reader")
    _, citations, _, _ = ask(db, QUESTIONS[3], corpus)
    assert {citation["picture"] for citation in citations} == {pictures[3]}
    assert (hidden,) not in rows(db, "SELECT id FROM graphrag.pictures")
    db.execute("RESET ROLE")
    db.execute("SELECT graphrag.revoke_corpus(%s, 'page_reader')", [corpus])


@pytest.mark.parametrize("copy", ["version", "clone"])
def test_copies_say_which_pictures_are_pages(db: Database, endpoint: Endpoint, copy: str) -> None:
    corpus, pictures = contract(db, endpoint)
    if copy == "version":
        db.execute("SELECT graphrag.keep_history(%s, 'copies')", [corpus])
    else:
        db.execute("SELECT graphrag.clone_corpus(%s, 'copies')", [corpus])
        db.execute("SELECT graphrag.unprotect('copies')")
    work(db)
    _, picture = cited(db, "copies", QUESTIONS[3])
    assert picture not in (None, pictures[3])
    assert value(db, "SELECT page FROM graphrag.pictures WHERE id = %s", picture) == 3


def test_the_client_says_which_pictures_are_pages(db: Database) -> None:
    corpus = searched_corpus(db)
    put(db, corpus, "letter", CLAUSES["boats"])
    rag = GraphRAG(db, corpus)
    picture = {"content": png(), "page": 1}
    assert rag.set_pictures("letter", [picture]) == 1
    assert rag.set_pictures("letter", [picture | {"is_page": True}]) == 1
    assert rag.set_pictures("letter", [picture | {"is_page": True}]) == 0
    sql = "SELECT is_page FROM graphrag.pictures WHERE document_id = %s"
    assert rows(db, sql, document_id(db, corpus, "letter")) == [(True,)]
