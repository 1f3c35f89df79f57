"""create_corpus, alter_corpus, drop_corpus: options are checked, pinned where they must be, and take effect."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.ingest import (
    STORIES,
    Background,
    canonical,
    corpus_id,
    expected,
    index_all,
    jobs,
    new_corpus,
    put,
    put_all,
    refused,
    rows,
    search,
    searched_corpus,
    statuses,
    value,
    wait_for_lock,
    work,
)


def test_create_returns_the_number_and_pins_the_tokenizer(module_db: Database) -> None:
    number = value(module_db, "SELECT graphrag.create_corpus('first')")
    ((name, graph, tokenizer, fingerprint),) = rows(
        module_db,
        "SELECT name, graph_name, tokenizer, tokenizer_fingerprint FROM graphrag.corpora WHERE id = %s",
        number,
    )
    assert (name, graph, tokenizer) == ("first", f"graphrag_{number}", "all-MiniLM-L6-v2")
    assert len(fingerprint) == 64


def test_a_name_that_is_taken_is_a_unique_violation(module_db: Database) -> None:
    name = searched_corpus(module_db)
    assert refused(module_db, "SELECT graphrag.create_corpus(%s)", name).sqlstate == "23505"


@pytest.mark.parametrize("name", ["", None])
def test_a_corpus_needs_a_name(module_db: Database, name: str | None) -> None:
    diag = refused(module_db, "SELECT graphrag.create_corpus(%s)", name)
    assert (diag.sqlstate, bool(diag.message_hint)) == ("22023", True)


def test_a_name_of_more_than_200_bytes_is_refused_with_its_length(module_db: Database) -> None:
    for statement, *arguments in (
        ("SELECT graphrag.create_corpus(%s)",),
        ("SELECT graphrag.clone_corpus(%s, %s)", searched_corpus(module_db)),
        ("SELECT graphrag.keep_history(%s, %s)", new_corpus(module_db)),
    ):
        diag = refused(module_db, statement, *arguments, "é" * 101)
        assert diag.sqlstate == "22023" and "has 202 bytes" in str(diag.message_primary)
        assert "at most 200 bytes" in str(diag.message_hint)
    assert value(module_db, "SELECT graphrag.create_corpus(%s)", "é" * 100)


BAD_OPTIONS: list[tuple[Any, str]] = [
    ({"chunk_size": 5}, "chunk_size"),
    ({"extractor": "magic"}, "extractor"),
    ({"language": "xx"}, "language"),
    ({"language": 1}, "language"),
    ({"chunk_token_size": 10}, "chunk_token_size"),
    ({"chunk_token_size": "200"}, "chunk_token_size"),
    ({"chunk_token_size": True}, "chunk_token_size"),
    ({"chunk_token_size": 100, "chunk_overlap": 51}, "chunk_overlap"),
    ({"chunk_overlap": -1}, "chunk_overlap"),
    ({"tokenizer": "nothing"}, "nothing"),
    ({"tokenizer": 5}, "tokenizer"),
    ({"conversation": ""}, "conversation"),
    ({"conversation": ["session"]}, "conversation"),
    ({"embedding": "local"}, "embedding"),
    ({"embedding": {"provider": "elsewhere"}}, "elsewhere"),
    ({"embedding": {"model": "other"}}, "other"),
    ({"embedding": {"dimensions": 768}}, "768"),
    ({"embedding": {"dimensions": 384.5}}, "384.5"),
    ({"embedding": {"size": 1}}, "size"),
    ([], "object"),
    (None, "object"),
]


@pytest.mark.parametrize(
    ("llm", "option"),
    [
        ({"model": "x"}, "llm.model"),
        ({"provider": "p"}, "llm.provider"),
        ({"provider": "p", "roles": {"answer": {}}}, "llm.provider"),
        ({"roles": {"answer": {"model": "x"}}}, "llm.roles.answer.model"),
        (
            {"roles": {"answer": {"provider": "p", "model": "x"}, "keywords": {"model": "y"}}},
            "llm.roles.keywords.model",
        ),
    ],
    ids=str,
)
def test_a_model_without_its_provider_is_refused(module_db: Database, llm: dict[str, Any], option: str) -> None:
    module_db.execute("SELECT graphrag.set_provider('p', 'openai', 'http://127.0.0.1:1/v1')")
    name = searched_corpus(module_db)
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [name, Jsonb({"llm": {"provider": "p", "model": "m"}})])
    for statement in ("SELECT graphrag.create_corpus('bad', %s)", f"SELECT graphrag.alter_corpus('{name}', %s)"):
        diag = refused(module_db, statement, Jsonb({"llm": llm}))
        assert diag.sqlstate == "22023" and f'option "{option}" is ' in str(diag.message_primary)
        assert "replaced as a whole" in str(diag.message_hint)


def test_a_provider_that_a_role_asks_needs_no_model_of_its_own(module_db: Database) -> None:
    module_db.execute("SELECT graphrag.set_provider('p', 'openai', 'http://127.0.0.1:1/v1')")
    for llm in (
        {"provider": "p", "roles": {"answer": {"model": "x"}}},
        {"model": "x", "roles": {"answer": {"provider": "p"}}},
        {"roles": {"answer": {"timeout": 5}}, "monthly_budget": 1},
    ):
        name = searched_corpus(module_db, llm=llm)
        assert value(module_db, "SELECT options -> 'llm' FROM graphrag.corpora WHERE name = %s", name) == llm


@pytest.mark.parametrize(("options", "named"), BAD_OPTIONS, ids=lambda given: str(given))
def test_a_bad_option_is_an_error_that_names_it(module_db: Database, options: Any, named: str) -> None:
    given = None if options is None else Jsonb(options)
    name = searched_corpus(module_db)
    for statement in ("SELECT graphrag.create_corpus('bad', %s)", f"SELECT graphrag.alter_corpus('{name}', %s)"):
        diag = refused(module_db, statement, given)
        assert diag.sqlstate in ("22023", "58P01")
        assert named in str(diag.message_primary)
        assert diag.message_hint
    assert rows(module_db, "SELECT FROM graphrag.corpora WHERE name = 'bad'") == []


OF_A_CORPUS = (
    *("alter_corpus(%s, '{}')", "drop_corpus(%s)", "optimize(%s)", "warm(%s)", "check(%s)", "fingerprint(%s)"),
    *(
        "fingerprint_sections(%s)",
        "embed('x', %s)",
        "understand('x', %s)",
        "neighbors('Ada', %s)",
        "cypher(%s, 'RETURN 1 AS x')",
    ),
)


@pytest.mark.parametrize("call", [*OF_A_CORPUS, "retry_failed(%s)"])
def test_an_unknown_corpus_is_an_error_with_a_hint(module_db: Database, call: str) -> None:
    diag = refused(module_db, f"SELECT graphrag.{call}", "nowhere")
    assert (diag.sqlstate, '"nowhere"' in str(diag.message_primary), bool(diag.message_hint)) == ("42704", True, True)


@pytest.mark.parametrize("call", OF_A_CORPUS)
def test_no_corpus_is_an_error_with_a_hint(module_db: Database, call: str) -> None:
    diag = refused(module_db, f"SELECT graphrag.{call}", None)
    assert (diag.sqlstate, bool(diag.message_hint)) == ("22004", True)


def test_dimensions_and_tokenizer_are_fixed_once_there_are_documents(module_db: Database) -> None:
    name = searched_corpus(module_db)
    other = value(module_db, "SELECT graphrag.alter_corpus(%s, %s) IS NULL", name, Jsonb({"tokenizer": "cl100k_base"}))
    assert other is not None
    assert value(module_db, "SELECT tokenizer FROM graphrag.corpora WHERE name = %s", name) == "cl100k_base"
    put(module_db, name, "a", STORIES["ada"])
    diag = refused(module_db, "SELECT graphrag.alter_corpus(%s, %s)", name, Jsonb({"tokenizer": "o200k_base"}))
    assert diag.sqlstate == "55000"
    assert "tokenizer" in str(diag.message_primary)
    assert "new corpus" in str(diag.message_hint)
    diag = refused(module_db, "SELECT graphrag.alter_corpus(%s, %s)", name, Jsonb({"embedding": {"dimensions": 768}}))
    assert diag.sqlstate in ("22023", "55000")
    assert diag.message_hint
    work(module_db)
    assert statuses(module_db, name) == {"a": "indexed"}


def test_an_option_that_decides_chunks_queues_every_document_and_null_is_the_default(module_db: Database) -> None:
    name = new_corpus(module_db)
    documents = {"a": STORIES["ada"] * 8, "b": STORIES["turing"] * 8}
    index_all(module_db, name, documents)
    before = canonical(module_db, name)
    module_db.execute(
        "SELECT graphrag.alter_corpus(%s, %s)", [name, Jsonb({"chunk_token_size": 60, "chunk_overlap": 10})]
    )
    assert [job[:3] for job in jobs(module_db, name)] == [("a", "index", "pending"), ("b", "index", "pending")]
    assert search(module_db, "Ada Lovelace", name)  # the old version, until the new one is in
    work(module_db)
    assert canonical(module_db, name) == expected(module_db, documents, chunk_token_size=60, chunk_overlap=10)
    module_db.execute(
        "SELECT graphrag.alter_corpus(%s, %s)", [name, Jsonb({"chunk_token_size": None, "chunk_overlap": None})]
    )
    work(module_db)
    assert canonical(module_db, name) == before


def test_an_option_set_to_what_it_was_is_no_work(module_db: Database) -> None:
    name = index_all(module_db, searched_corpus(module_db), {"a": STORIES["ada"]})
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [name, Jsonb({"chunk_token_size": 1200})])
    module_db.execute("SELECT graphrag.alter_corpus(%s, '{}')", [name])
    assert jobs(module_db, name) == []


def test_a_dropped_corpus_can_be_made_again_and_is_empty(module_db: Database) -> None:
    name = index_all(module_db, new_corpus(module_db), STORIES)
    old = corpus_id(module_db, name)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])
    assert value(module_db, "SELECT graphrag.create_corpus(%s)", name) > old
    assert search(module_db, "Ada Lovelace", name) == []


def test_a_drop_queues_no_removal_of_documents(module_db: Database) -> None:
    name = index_all(module_db, new_corpus(module_db), STORIES)
    put(module_db, name, "late", "Ada Lovelace came late.")
    queued = "SELECT last_value FROM graphrag.jobs_id_seq"
    before = value(module_db, queued)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])
    assert value(module_db, queued) == before


def test_a_rolled_back_drop_leaves_everything(module_db: Database) -> None:
    name = index_all(module_db, new_corpus(module_db), STORIES)
    before = canonical(module_db, name)
    with pytest.raises(psycopg.errors.DivisionByZero), module_db.transaction():
        module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])
        module_db.execute("SELECT 1 / 0")
    assert canonical(module_db, name) == before


def test_a_drop_does_not_wait_for_a_readers_transaction_that_stays_open(module_db: Database) -> None:
    """Who waits for its tables makes all others wait."""
    name = index_all(module_db, new_corpus(module_db), STORIES)
    before = canonical(module_db, name)
    space = value(
        module_db, "SELECT id FROM graphrag.embedding_spaces WHERE corpus_id = %s", corpus_id(module_db, name)
    )
    module_db.execute("SELECT graphrag._make_tables(%s)", [space])
    with psycopg.connect(module_db.info.dsn, password=module_db.info.password) as reader:
        reader.execute(f"SELECT count(*) FROM graphrag.window_vectors_{space}")
        diag = refused(module_db, "SELECT graphrag.drop_corpus(%s)", name)
        assert (diag.sqlstate, "pg_blocking_pids" in (diag.message_hint or "")) == ("55P03", True)
        assert canonical(module_db, name) == before
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])
    assert value(module_db, f"SELECT to_regclass('graphrag.window_vectors_{space}')") is None


@pytest.mark.parametrize(
    "call",
    ["graphrag.feedback('Who?', 'good', {c})", "graphrag._hold_replies(id) FROM graphrag.corpora WHERE name = {c}"],
)
def test_a_drop_does_not_wait_for_who_wrote_and_stays_open(module_db: Database, call: str) -> None:
    """A reader's verdict, and a reply of a model that is to be kept, refer to the corpus."""
    name = index_all(module_db, new_corpus(module_db), STORIES)
    before = canonical(module_db, name)
    module_db.execute("ALTER FUNCTION graphrag._lock_writers_out SET lock_timeout = '5ms'")
    try:
        with Database.open(module_db.url) as reader, reader.transaction():
            reader.execute(f"SELECT {call.format(c=repr(name))}".encode())
            diag = refused(module_db, "SELECT graphrag.drop_corpus(%s)", name)
        assert (diag.sqlstate, "pg_blocking_pids" in (diag.message_hint or "")) == ("55P03", True)
        assert canonical(module_db, name) == before
    finally:
        module_db.execute("ALTER FUNCTION graphrag._lock_writers_out SET lock_timeout = '400ms'")
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


# The drop of a protected corpus has documents as a whole, which curators ask for too.
@pytest.mark.parametrize("is_protected", [False, True])
def test_a_drop_ends_no_curator_who_comes_meanwhile_and_none_ends_it(module_db: Database, is_protected: bool) -> None:
    """Who writes to a corpus holds its spaces, and waits for the corpus then."""
    name = new_corpus(module_db)
    number = corpus_id(module_db, name)
    if is_protected:
        module_db.execute("SELECT graphrag.protect(%s, 'true')", [name])
    with Database.open(module_db.url) as curator, curator.transaction():
        curator.execute("SELECT graphrag._lock_spaces(%s, true)", [number])
        drop = Background(module_db.url, f"SELECT graphrag.drop_corpus('{name}')")
        wait_for_lock(module_db, drop.pid)
        curator.execute("SELECT graphrag._lock_corpus(%s)", [number])
    assert drop.finish() is None
    assert rows(module_db, "SELECT FROM graphrag._locks WHERE corpus_id = %s", number) == []


def test_a_drop_takes_along_what_was_inserted_meanwhile(module_db: Database) -> None:
    name = new_corpus(module_db)
    with Database.open(module_db.url) as writer, writer.transaction():
        put(writer, name, "late", "Ada Lovelace came late.")
        drop = Background(module_db.url, f"SELECT graphrag.drop_corpus('{name}')")
        wait_for_lock(module_db, drop.pid)
    assert drop.finish() is None
    assert rows(module_db, "SELECT FROM graphrag.documents WHERE corpus = %s", name) == []


@pytest.mark.parametrize(
    "call", ["drop_corpus('{}')", "reindex('{}')", "alter_corpus('{}', '{{\"chunk_token_size\": 300}}')"]
)
def test_who_changes_a_corpus_ends_no_writer_of_several_documents(module_db: Database, call: str) -> None:
    """He has changed one, and wants to change another, whose row the drop may have."""
    name = new_corpus(module_db)
    put_all(module_db, name, STORIES)
    with Database.open(module_db.url) as writer, writer.transaction():
        put(writer, name, "late", "Ada Lovelace came late.")
        put(writer, name, "enigma", "Enigma came late.")
        change = Background(module_db.url, f"SELECT graphrag.{call.format(name)}")
        wait_for_lock(module_db, change.pid)
        put(writer, name, "ada", "Ada Lovelace came early.")
    assert change.finish() is None
    work(module_db)
    documents = rows(module_db, "SELECT status FROM graphrag.documents WHERE corpus = %s", name)
    assert documents == ([] if call.startswith("drop_corpus") else [("indexed",)] * (len(STORIES) + 1))


CHANGES = ("SELECT graphrag.alter_corpus('{}', '{{}}')", "SELECT graphrag.reindex('{}')")
INSERT = "INSERT INTO graphrag.documents (corpus, content) VALUES ('{}', 'Ada Lovelace came late.')"


@pytest.mark.parametrize("change", [*CHANGES, INSERT])
def test_who_waited_for_a_drop_is_told_that_there_is_no_corpus(module_db: Database, change: str) -> None:
    name = new_corpus(module_db)
    with Database.open(module_db.url) as dropping, dropping.transaction():
        dropping.execute("SELECT graphrag.drop_corpus(%s)", [name])
        waiting = Background(module_db.url, change.format(name))
        wait_for_lock(module_db, waiting.pid)
    error = waiting.finish()
    assert error is not None
    hint = str(error.diag.message_hint)
    assert (error.sqlstate, "create_corpus" in hint or hint.startswith("Corpora")) == ("42704", True)


@pytest.mark.parametrize("change", CHANGES)
def test_a_corpus_that_takes_the_place_of_one_that_is_changed_is_changed(module_db: Database, change: str) -> None:
    name = searched_corpus(module_db)
    with Database.open(module_db.url) as dropping, dropping.transaction():
        dropping.execute("SELECT graphrag.drop_corpus(%s)", [name])
        dropping.execute("SELECT graphrag.create_corpus(%s)", [name])
        waiting = Background(module_db.url, change.format(name))
        wait_for_lock(module_db, waiting.pid)
    assert waiting.finish() is None


@pytest.mark.parametrize("change", ["name = 'another'", "id = id + 1000"])
def test_an_update_gives_a_corpus_no_other_name_or_number(module_db: Database, change: str) -> None:
    """Its documents, policies and grants would go on with the old one."""
    name = searched_corpus(module_db)
    diag = refused(module_db, f"UPDATE graphrag.corpora SET {change} WHERE name = %s", name)
    assert (diag.sqlstate, "clone_corpus" in (diag.message_hint or "")) == ("0A000", True)
    module_db.execute("UPDATE graphrag.corpora SET name = name, id = id WHERE name = %s", [name])


@pytest.mark.parametrize(
    "call", ["create_corpus('unwritten')", "refresh_communities(%(corpus)s)", "optimize(%(corpus)s)"]
)
def test_a_transaction_that_only_reads_is_told_so(module_db: Database, call: str) -> None:
    name = searched_corpus(module_db)
    with module_db.transaction(force_rollback=True):
        module_db.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as error:
            module_db.execute(f"SELECT graphrag.{call}".encode(), {"corpus": name})
    assert "default_transaction_read_only" in (error.value.diag.message_hint or "")
