"""graphrag.warm: a session holds what its first searches would load, and no result is another."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.embedded import embedded
from tests.sql.ingest import STORIES, Connection, index_all, put, rows, searched_corpus, value, work
from tests.sql.llm import provider

REPLY = "{}"
QUESTION = "Which notes did Ada Lovelace write on the Analytical Engine?"
MODES = ("naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr", "graph_local")
SEARCH = "SELECT source_key, score, explain FROM graphrag.search(%s, %s, %s)"


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db)
    for key, content in STORIES.items():
        put(module_db, name, key, content, metadata={"open": key != "turing"})
    work(module_db)
    return name


@pytest.fixture
def session(module_db: Database) -> Iterator[Connection]:
    with psycopg.connect(module_db.url, autocommit=True) as connection:
        yield connection


def test_a_warm_session_holds_what_it_may_keep_of_the_corpus(session: Connection, corpus: str) -> None:
    cached = value(session, "SELECT graphrag.warm(%s)", corpus)["cached"]
    assert {"graph", "vectors", "bm25"} <= set(cached)
    assert all(size > 0 for size in cached.values())
    for mode in MODES:
        rows(session, SEARCH, QUESTION, corpus, mode)
    later = value(session, "SELECT graphrag.warm(%s)", corpus)["cached"]
    # Postings of the question's terms came; nothing was read anew.
    assert (later["graph"], later["vectors"]) == (cached["graph"], cached["vectors"])


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_warm_session_finds_the_same(module_db: Database, session: Connection, corpus: str, mode: str) -> None:
    session.execute("SELECT graphrag.warm(%s)", [corpus])
    records = rows(session, SEARCH, QUESTION, corpus, mode)
    with psycopg.connect(module_db.url, autocommit=True) as cold:
        assert records == rows(cold, SEARCH, QUESTION, corpus, mode)


def test_a_session_without_memory_keeps_nothing(session: Connection, corpus: str) -> None:
    session.execute("SET graphrag.session_memory = '0'")
    assert value(session, "SELECT graphrag.warm(%s)", corpus)["cached"] == {}


def test_who_sees_a_part_is_not_told_how_large_the_whole_is(module_db: Database, corpus: str) -> None:
    module_db.execute("SELECT graphrag.protect(%s, '(metadata ->> ''open'')::boolean')", [corpus])
    try:
        with readers(module_db, 1) as (reader,), acting_as(module_db, reader):
            assert set(value(module_db, "SELECT graphrag.warm(%s)", corpus)) == {"ms"}
    finally:
        module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])


def test_no_endpoint_is_asked(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint)
    corpus = index_all(module_db, embedded(module_db, name, llm={"provider": name, "model": "m"}), STORIES)
    endpoint.forget()
    with psycopg.connect(module_db.url, autocommit=True) as session:
        assert value(session, "SELECT graphrag.warm(%s)", corpus)["cached"]["vectors"] > 0
    assert endpoint.requests == []


LOADED = """DO LANGUAGE plpython3u $$
import sys
def is_cached(module, function):
    return module in sys.modules and getattr(sys.modules[module], function).cache_info().currsize
models = {
    "en": is_cached("pg_graphrag.text.words.english_words", "tagger"),
    "de": is_cached("pg_graphrag.text.words.german", "_tagger"),
    "ja": "sudachipy" in sys.modules,
    "zh": "jieba" in sys.modules,
}
loaded = " ".join(language for language, is_loaded in models.items() if is_loaded)
plpy.execute(f"SELECT pg_catalog.set_config('test.loaded', {plpy.quote_literal(loaded)}, false)")
$$"""


def loaded(db: Connection) -> set[str]:
    """The languages of which the session has a dictionary or a model."""
    db.execute(LOADED.encode())
    return set(value(db, "SELECT current_setting('test.loaded')").split())


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("language", "content", "there"),
    [
        ("auto", "The pump of the Kestrel engine works in winter.", {"en"}),
        ("de", "Die Pumpe der Maschine arbeitet im Winter.", {"de"}),
        ("auto", "凯斯特发动机的水泵在冬天工作。王小明在北京建造了这个水泵。", {"zh"}),
        ("auto", "ケストレルエンジンのポンプは冬に動作する。高見昂季は東京でポンプを作った。", {"ja"}),
    ],
)
def test_the_words_of_the_languages_of_a_corpus_are_loaded(
    module_db: Database, language: str, content: str, there: set[str]
) -> None:
    corpus = index_all(module_db, searched_corpus(module_db, language=language), {"pump": content})
    with psycopg.connect(module_db.url, autocommit=True) as session:
        assert loaded(session) == set()
        session.execute("SELECT graphrag.warm(%s)", [corpus])
        # English comes with what warm() asks of every corpus.
        assert there <= loaded(session) <= there | {"en"}
