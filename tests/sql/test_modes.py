"""A mode is one file: one more is searched, asked and estimated as soon as its file is there."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import ask
from tests.sql.ingest import index_all, rows, searched_corpus, value
from tests.sql.themes import SEA, context, counted, points, task

FIRST = '''
"""first: the first chunks by BM25, and no others."""

from pg_graphrag.search.retrievers.lexical import bm25
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.mode_options import Option, integer
from pg_graphrag.search.query.rankings import Ranking, single_ranking

KEEP = Option("keep", 1, integer(1, 10))


def retrieve(query, depth):
    found, keep = bm25(query, depth), query.options[KEEP]
    return single_ranking([Ranking("first", found.ids[:keep], found.scores[:keep], found.reason)])


MODE = Mode(name="first", does="The first chunks by BM25.", source="–", options=("bm25_idf", KEEP), retrieve=retrieve)
'''
READ = '''
"""read: a model reads the first chunks, and the answer is made from what it notes."""

from pg_graphrag.search.modes import first
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.contexts.points import Passage, Sources, points_of


def answer(query, total):
    sources = Sources()
    sources.add(query, first.retrieve(query, 10).ids.tolist())
    passages = [Passage(row["content"], frozenset(sources.numbers_of([chunk]))) for chunk, row in sources.chunks.items()]
    return points_of(query, query.text, passages, sources, total)


MODE = Mode(name="read", does="A model reads them.", source="–", retrieve=first.retrieve, answer=answer)
'''
NEAR = '''
"""near: as read, of the nearest chunks."""

from pg_graphrag.search.modes import read
from pg_graphrag.search.retrievers import dense
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.rankings import single_ranking


def retrieve(query, depth):
    return single_ranking([dense.windows(query, depth)])


def answer(query, total):
    retrieve(query, 10)
    return read.answer(query, total)


MODE = Mode(name="near", does="A model reads them.", source="–", retrieve=retrieve, answer=answer)
'''
PUT = """
DO LANGUAGE plpython3u $do$
import pathlib, tempfile
from pg_graphrag.search import modes
folder = pathlib.Path(tempfile.mkdtemp())
for name, text in (("first", {first!r}), ("read", {read!r}), ("near", {near!r})):
    (folder / f"{{name}}.py").write_text(text)
modes.__path__.append(str(folder))
modes._modules.cache_clear()
$do$
"""


def reply(messages: Messages) -> str:
    return points(("It was broken [1].", 90)) if task(messages) == "map" else "It was broken [1]."


REPLY = reply
QUESTION = "Who broke the Enigma machine?"


@pytest.fixture(scope="module")
def extended(module_db: Database, themed: str) -> str:
    """A corpus, in a session with two modes more."""
    module_db.execute(PUT.format(first=FIRST, read=READ, near=NEAR))
    return themed


def chunks_of(db: Database, corpus: str, mode: str, **options: Any) -> list[Any]:
    sql = "SELECT content, score, explain FROM graphrag.search(%s, %s, %s, options => %s)"
    return rows(db, sql, QUESTION, corpus, mode, Jsonb(options))


def test_it_is_searched_with_its_own_option(module_db: Database, extended: str) -> None:
    by_bm25 = [(content, score) for content, score, _ in chunks_of(module_db, extended, "bm25")]
    assert len(by_bm25) > 1
    assert [(content, score) for content, score, _ in chunks_of(module_db, extended, "first", keep=10)] == by_bm25
    ((content, score, explain),) = chunks_of(module_db, extended, "first")
    assert (content, score) == by_bm25[0]
    assert explain["mode"] == "first" and "first" in explain
    chunks = context(module_db, QUESTION, extended, "first")["chunks"]
    assert [chunk["content"] for chunk in chunks] == [content]


def test_it_is_named_beside_the_others(module_db: Database, extended: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as unknown:
        chunks_of(module_db, extended, "second")
    assert str(unknown.value.diag.message_hint).endswith("drift, lazy, first, near, read.")
    with pytest.raises(psycopg.errors.InvalidParameterValue) as misplaced:
        chunks_of(module_db, extended, "hybrid", keep=1)
    assert "Modes that do: first." in str(misplaced.value.diag.message_hint)
    with pytest.raises(psycopg.errors.InvalidParameterValue) as bad:
        chunks_of(module_db, extended, "first", keep=11)
    assert "from 1 to 10" in str(bad.value.diag.message_hint)


@pytest.mark.parametrize(("mode", "tasks"), [("first", {"answer": 1}), ("read", {"map": 1, "reduce": 1})])
def test_it_is_asked_and_estimated_by_what_ask_does(
    module_db: Database, extended: str, module_endpoint: Endpoint, mode: str, tasks: dict[str, int]
) -> None:
    module_endpoint.forget()
    sql = "SELECT calls, tokens_in, basis -> 'parts' FROM graphrag.estimate_ask(%s, %s, %s)"
    ((calls, tokens_in, parts),) = rows(module_db, sql, QUESTION, extended, mode)
    assert module_endpoint.requests == []
    answer, citations, usage, _ = ask(module_db, QUESTION, extended, mode=mode)
    assert answer == "It was broken [1]." and citations
    assert counted(module_endpoint) == tasks
    assert calls == usage["calls"] and usage["tokens_in"] <= tokens_in
    assert {name: part["calls"] for name, part in parts.items()} == tasks and parts[next(iter(tasks))]["exact"]


def test_an_estimate_asks_no_endpoint_for_vectors(
    module_db: Database, extended: str, module_endpoint: Endpoint
) -> None:
    llm = value(module_db, "SELECT options -> 'llm' FROM graphrag.corpora WHERE name = %s", extended)
    vectors = {"provider": llm["roles"]["answer"]["provider"], "model": "hash", "dimensions": 8}
    corpus = index_all(module_db, searched_corpus(module_db, llm=llm, embedding=vectors), SEA)
    module_endpoint.forget()
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="vectors of an endpoint are not known"):
        rows(module_db, "SELECT * FROM graphrag.estimate_ask(%s, %s, 'near')", QUESTION, corpus)
    assert module_endpoint.requests == []


def test_it_is_gone_with_its_file(db: Database) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match='unknown mode "first"'):
        db.execute("SELECT graphrag.create_corpus('bare')")
        db.execute("SELECT * FROM graphrag.search('Who?', 'bare', 'first')")
