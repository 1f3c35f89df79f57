"""Sessions whose copy of the Python package is gone: the second installation after they began removes it."""

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import put, put_all, rows, search, statuses, work

# Nothing that was not imported by then can be.
REMOVE_COPY = """
DO LANGUAGE plpython3u $$
import sys
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "pg_graphrag" and hasattr(module, "__path__"):
        module.__path__ = ["/removed"]
$$
"""
TEXTS = {"ann": "Ann Lee lives in Osaka.", "bob": "Bob Stone lives in Leeds."}


def test_sessions_read_the_models_of_words_that_were_packed(db: Database) -> None:
    db.execute("""
        DO LANGUAGE plpython3u $$
        from pg_graphrag.text.words import english_words, german, tagger
        tagger._hanta_model = lambda name: plpy.error(f"{name} is not packed")
        assert english_words.tags_of("index") and german._tagger().tag_word("Haus")
        $$
    """)


def test_no_document_is_blamed_for_a_package_that_was_replaced(db: Database) -> None:
    with Database.open(db.url) as session:
        work(session)
        session.execute(REMOVE_COPY)
        put_all(db, "default", TEXTS)
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="was replaced"):
            work(session)
    assert rows(db, "SELECT DISTINCT state, attempts, errors, lease IS NULL FROM graphrag.jobs") == [
        ("pending", 0, 0, True)
    ]
    work(db)
    assert set(statuses(db, "default").values()) == {"indexed"}


def test_a_search_says_that_the_session_must_reconnect(db: Database) -> None:
    put(db, "default", "ann", TEXTS["ann"])
    work(db)
    with Database.open(db.url) as session:
        search(session, "Who lives in Osaka?", "default", "bm25")
        session.execute(REMOVE_COPY)
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as raised:
            search(session, "Who lives in Osaka?", "default", "hybrid")
    assert (raised.value.diag.message_hint or "").startswith("Reconnect")
    assert search(db, "Who lives in Osaka?", "default")
