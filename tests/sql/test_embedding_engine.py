"""What embeds documents: chosen by a setting, said on demand, and alike for every order of ingestion."""

import psycopg
import psycopg.sql
import pytest

from tests.runtime.cluster import Database
from tests.sql.embedded import vectors
from tests.sql.ingest import STORIES, long_text, new_corpus, put_all, refused, rows, value, wait_for, work, worker

pytestmark = pytest.mark.usefixtures("real_encoder")

DOCUMENTS = {**STORIES, "long": long_text(20)}


@pytest.fixture(scope="module", autouse=True)
def as_shipped(module_db: Database) -> None:
    """Sessions embed as they do by default; those of other tests do it by numpy."""
    name = psycopg.sql.Identifier(module_db.info.dbname)
    module_db.execute(psycopg.sql.SQL("ALTER DATABASE {} SET graphrag.embedding_engine = 'auto'").format(name))
    module_db.execute("SET graphrag.embedding_engine = 'auto'")


def test_a_session_says_what_embeds(module_db: Database) -> None:
    ((documents, questions, reason),) = rows(module_db, "SELECT * FROM graphrag.embedding_engine()")
    assert documents in ("openvino bfloat16", "openvino int8", "openvino float32")
    assert questions == "numpy float32"
    assert "bfloat16" in reason
    with module_db.transaction(force_rollback=True):
        module_db.execute("SET LOCAL graphrag.embedding_engine = 'numpy'")
        assert rows(module_db, "SELECT * FROM graphrag.embedding_engine()") == [
            ("numpy float32", "numpy float32", "graphrag.embedding_engine")
        ]


def test_a_setting_that_is_none_is_an_error(module_db: Database) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute("SET LOCAL graphrag.embedding_engine = 'gpu'")
        diag = refused(module_db, "SELECT * FROM graphrag.embedding_engine()")
    assert diag.sqlstate == "22023"
    assert "gpu" in str(diag.message_primary)
    assert diag.message_hint


@pytest.mark.sample(1)
@pytest.mark.parametrize("engine", ["auto", "float32"])
def test_vectors_are_the_same_bits_in_any_order_of_ingestion(module_db: Database, engine: str) -> None:
    module_db.execute(f"SET graphrag.embedding_engine = '{engine}'".encode())
    together, one_by_one = new_corpus(module_db), new_corpus(module_db)
    put_all(module_db, together, DOCUMENTS)
    work(module_db)
    for key, content in reversed(DOCUMENTS.items()):
        put_all(module_db, one_by_one, {key: content})
        work(module_db)
    module_db.execute("SET graphrag.embedding_engine = 'auto'")
    first, second = vectors(module_db, together), vectors(module_db, one_by_one)
    assert first.keys() == second.keys()
    for text, vector in first.items():
        assert (vector == second[text]).all(), text


def test_a_stored_vector_is_near_that_of_the_same_text_as_a_question(module_db: Database) -> None:
    corpus = new_corpus(module_db)
    put_all(module_db, corpus, STORIES)
    work(module_db)
    for text, vector in vectors(module_db, corpus).items():
        assert float(vector @ value(module_db, "SELECT graphrag.embed(%s)::real[]", text)) >= 0.9999, text


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_session_with_the_engine_ends_cleanly(module_db: Database, how: str) -> None:
    started = value(module_db, "SELECT pg_postmaster_start_time()")
    corpus = new_corpus(module_db)
    put_all(module_db, corpus, {f"long {number}": long_text(40) + f" {number}." for number in range(8)})
    worker_session = worker(module_db.url)
    wait_for(
        lambda: (
            worker_session.pid
            and value(module_db, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", worker_session.pid)
        ),
        "it",
    )
    wait_for(
        lambda: value(
            module_db, "SELECT count(*) FROM graphrag.jobs j WHERE j.state = 'leased' AND j.corpus_id IS NOT NULL"
        ),
        "a lease",
    )
    module_db.execute(f"SELECT {how}(%s)".encode(), [worker_session.pid])
    error = worker_session.finish()
    assert error is not None
    assert error.sqlstate in ("57014", "57P01", None)  # None: the connection went first
    wait_for(lambda: work(module_db) or not rows(module_db, "SELECT FROM graphrag.jobs"), "an empty queue")
    # A crash of any process would have ended this session too.
    assert value(module_db, "SELECT pg_postmaster_start_time()") == started
