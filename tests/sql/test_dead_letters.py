"""Dead letters: documents whose work failed three times, what is said of them, and how they come back."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import (
    STORIES,
    canonical,
    corpus_id,
    delete,
    expected,
    jobs,
    new_corpus,
    put,
    put_all,
    rows,
    statuses,
    value,
    work,
)


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = new_corpus(module_db)
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def break_tokenizer(db: Database, corpus: str) -> None:
    """As after a restore on a machine with other ranks: the real server's real error."""
    db.execute("UPDATE graphrag.corpora SET tokenizer_fingerprint = 'other' WHERE name = %s", [corpus])


def mend_tokenizer(db: Database, corpus: str) -> None:
    db.execute(
        "UPDATE graphrag.corpora SET tokenizer_fingerprint = (SELECT tokenizer_fingerprint FROM graphrag.corpora"
        " WHERE tokenizer_fingerprint <> 'other' LIMIT 1) WHERE name = %s",
        [corpus],
    )


def end_back_off(db: Database) -> None:
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() WHERE state = 'pending'")


def test_three_errors_make_a_dead_letter_with_the_error_and_its_hint(module_db: Database, corpus: str) -> None:
    new_corpus(module_db)  # keeps the right fingerprint
    put(module_db, corpus, "a", STORIES["ada"])
    break_tokenizer(module_db, corpus)
    for errors in (1, 2):
        work(module_db)
        assert rows(
            module_db,
            "SELECT state, errors, next_attempt_at > now() FROM graphrag.jobs WHERE corpus_id = %s",
            corpus_id(module_db, corpus),
        ) == [("pending", errors, True)]
        # Back-off is not slept through, and not ignored.
        work(module_db)
        assert jobs(module_db, corpus) == [("a", "index", "pending", False)]
        assert rows(module_db, "SELECT FROM graphrag.failed_jobs WHERE corpus = %s", corpus) == []
        end_back_off(module_db)
    work(module_db)
    ((kind, key, attempts, error),) = rows(
        module_db, "SELECT kind, source_key, attempts, last_error FROM graphrag.failed_jobs WHERE corpus = %s", corpus
    )
    assert (kind, key, attempts) == ("index", "a", 3)
    assert "tokenizer" in error
    assert "HINT:" in error
    assert rows(module_db, "SELECT status, error FROM graphrag.documents WHERE corpus = %s", corpus) == [
        ("failed", error)
    ]
    work(module_db)
    assert jobs(module_db, corpus) == [("a", "index", "failed", False)]
    mend_tokenizer(module_db, corpus)
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) == 1
    assert statuses(module_db, corpus) == {"a": "pending"}
    work(module_db)
    assert canonical(module_db, corpus) == expected(module_db, {"a": STORIES["ada"]})


def test_retry_failed_ends_back_off_of_its_corpus_alone(module_db: Database, corpus: str) -> None:
    second = new_corpus(module_db)
    for name in (corpus, second):
        put(module_db, name, "a", STORIES["ada"])
        break_tokenizer(module_db, name)
    work(module_db)
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) == 1
    waiting = "SELECT next_attempt_at > now() FROM graphrag.jobs WHERE corpus_id = %s"
    assert value(module_db, waiting, corpus_id(module_db, corpus)) is False
    assert value(module_db, waiting, corpus_id(module_db, second)) is True
    assert value(module_db, "SELECT graphrag.retry_failed()") >= 1
    assert value(module_db, waiting, corpus_id(module_db, second)) is False
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [second])


def test_new_content_heals_a_dead_letter(module_db: Database, corpus: str) -> None:
    new_corpus(module_db)
    put(module_db, corpus, "a", STORIES["ada"])
    break_tokenizer(module_db, corpus)
    for _ in range(3):
        work(module_db)
        end_back_off(module_db)
    assert statuses(module_db, corpus) == {"a": "failed"}
    mend_tokenizer(module_db, corpus)
    put(module_db, corpus, "a", STORIES["turing"])
    assert jobs(module_db, corpus) == [("a", "index", "pending", False)]
    work(module_db)
    assert canonical(module_db, corpus) == expected(module_db, {"a": STORIES["turing"]})


def test_one_bad_document_holds_up_no_other_of_its_batch(module_db: Database, corpus: str) -> None:
    # A real error of the real server while one document is written.
    module_db.execute("ALTER TABLE graphrag.chunks ADD CONSTRAINT bad CHECK (content NOT LIKE '%unwanted%') NOT VALID")
    put_all(module_db, corpus, STORIES | {"bad": "an unwanted text"})
    work(module_db)
    assert statuses(module_db, corpus) == dict.fromkeys(STORIES, "indexed") | {"bad": "pending"}
    for _ in range(2):
        end_back_off(module_db)
        work(module_db)
    assert statuses(module_db, corpus)["bad"] == "failed"
    assert "bad" in value(module_db, "SELECT last_error FROM graphrag.failed_jobs WHERE corpus = %s", corpus)
    module_db.execute("ALTER TABLE graphrag.chunks DROP CONSTRAINT bad")
    delete(module_db, corpus, "bad")
    work(module_db)
    assert canonical(module_db, corpus) == expected(module_db, STORIES)


def test_a_fault_of_the_server_blames_no_document(module_db: Database, corpus: str) -> None:
    put(module_db, corpus, "a", STORIES["ada"])
    with Database.open(module_db.url) as locker, Database.open(module_db.url) as worker:
        locker.execute("BEGIN")
        locker.execute("LOCK TABLE graphrag.chunks IN SHARE MODE")
        worker.execute("SET lock_timeout = '50ms'")
        for faults in range(1, 5):
            work(worker)
            assert rows(
                module_db,
                "SELECT state, attempts, errors, payload -> 'faults', next_attempt_at > now(), last_error LIKE '%%lock timeout%%'"
                "  FROM graphrag.jobs WHERE corpus_id = %s AND document_id IS NOT NULL",
                corpus_id(module_db, corpus),
            ) == [("pending", 0, 0, faults, True, True)]
            end_back_off(module_db)
        assert statuses(module_db, corpus) == {"a": "pending"}
    work(module_db)
    assert canonical(module_db, corpus) == expected(module_db, {"a": STORIES["ada"]})
