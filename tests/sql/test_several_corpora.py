"""search() over several corpora: rows and scores as of each alone, merged; rights, faults and limits of each by itself."""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.mode_names import MODES
from psycopg.types.json import Jsonb

from tests.runtime import beside
from tests.runtime.cluster import Database
from tests.security.interrupting import PROMISED, stopped
from tests.security.readers import acting_as, readers
from tests.sql.ingest import (
    ROCKETS,
    STORIES,
    Connection,
    corpus_id,
    index_all,
    put,
    put_all,
    refused,
    search,
    searched_corpus,
    value,
    work,
)

COMPUTERS, LAUNCHERS = "computers, old", "rockets"
QUERY = "Who admired Ada Lovelace at Harvard?"


@pytest.fixture(scope="module")
def two(module_db: Database) -> list[str]:
    """Two corpora, the name of one of which has a comma; and one that is empty, as `stopped` asks it."""
    for name in (LAUNCHERS, COMPUTERS, "default"):
        module_db.execute('SELECT graphrag.create_corpus(%s, \'{"communities": true, "cypher": false}\')', [name])
    put_all(module_db, COMPUTERS, STORIES)
    for key, (title, content) in ROCKETS.items():
        put(module_db, LAUNCHERS, key, content, title)
    work(module_db)
    return [COMPUTERS, LAUNCHERS]


def merged(
    db: Connection, corpora: Sequence[str | None] | None, query: str = QUERY, **arguments: Any
) -> list[dict[str, Any]]:
    """Rows of the search over several corpora, as dictionaries."""
    named = "".join(f", {name} => %s" for name in arguments)
    values = [Jsonb(given) if isinstance(given, dict) else given for given in arguments.values()]
    cursor = db.execute(f"SELECT * FROM graphrag.search(%s, corpora => %s{named})".encode(), [query, corpora, *values])
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def places(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["corpus"], row["source_key"]) for row in rows]


def rows_of(corpus: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of one of several corpora, without what they are merged by."""
    own = [row for row in rows if row["corpus"] == corpus]
    assert [row["explain"].pop("corpus_rank") for row in own] == list(range(1, len(own) + 1))
    best = max((row["explain"]["relevance"] for row in own[:10]), default=0)
    assert all(row["explain"].pop("corpus_relevance") == pytest.approx(best, abs=1e-4) for row in own)
    return own


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_those_of_each_corpus_alone_in_its_order(module_db: Database, two: list[str], mode: str) -> None:
    rows = merged(module_db, two, mode=mode, top_k=100)
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    for corpus in two:
        alone = search(module_db, QUERY, corpus, mode, top_k=100, options={"min_relevance": 0})
        own = rows_of(corpus, rows)
        assert [row | {"rank": 0} for row in own] == [row | {"rank": 0, "corpus": corpus} for row in alone]


def test_the_corpus_that_answers_comes_first(module_db: Database, two: list[str]) -> None:
    assert merged(module_db, two)[0]["corpus"] == COMPUTERS
    assert merged(module_db, two, "Which engine burns methane?")[0]["corpus"] == LAUNCHERS


def test_names_may_come_in_any_order_and_twice(module_db: Database, two: list[str]) -> None:
    rows = merged(module_db, two)
    assert merged(module_db, [*two[::-1], two[0]]) == rows
    assert merged(module_db, [*two, "default"]) == rows


def test_what_means_one_corpus_means_one_still(module_db: Database, two: list[str]) -> None:
    for call in (
        "graphrag.search('x', 'rockets')",
        "graphrag.search('x', corpus => 'rockets')",
        "graphrag.search('x', 'rockets', 'bm25', 3)",
    ):
        cursor = module_db.execute(f"SELECT * FROM {call}".encode())
        assert "corpus" not in [column.name for column in cursor.description or ()]
    assert refused(module_db, "SELECT * FROM graphrag.search('x', NULL)").sqlstate == "22004"
    for name in ("rockets,default", "*"):
        error = refused(module_db, "SELECT * FROM graphrag.search('x', corpus => %s)", name)
        assert (error.sqlstate, "corpora => ARRAY" in str(error.message_hint)) == ("42704", True)


def test_a_list_in_the_place_of_the_corpus_means_several(module_db: Database, two: list[str]) -> None:
    by_place = module_db.execute("SELECT source_key FROM graphrag.search('Kestrel', ARRAY['rockets'])").fetchall()
    assert len(by_place) == len(ROCKETS)


def test_an_answer_of_more_rows_begins_with_that_of_fewer(module_db: Database, two: list[str]) -> None:
    whole = merged(module_db, two, top_k=100)
    assert len(whole) == len(STORIES) + len(ROCKETS)
    for count in range(len(whole)):
        assert merged(module_db, two, top_k=count) == whole[:count]
    assert merged(module_db, two, top_k=3, options={"offset": 2}) == whole[2:5]


def test_rows_below_a_relevance_are_left_out_and_ranks_count_them(module_db: Database, two: list[str]) -> None:
    whole = merged(module_db, two, top_k=100)
    middle = sorted(row["explain"]["relevance"] for row in whole)[len(whole) // 2]
    kept = merged(module_db, two, top_k=100, options={"min_relevance": middle})
    assert kept == [row for row in whole if row["explain"]["relevance"] >= middle]


def test_a_filter_holds_for_each(module_db: Database, two: list[str]) -> None:
    rows = merged(module_db, two, filter={"$source_key": {"$in": ["ada", "bob"]}})
    assert sorted(places(rows)) == [(COMPUTERS, "ada"), (LAUNCHERS, "bob")]
    assert merged(module_db, two, filter={"no": "such"}) == []


def test_the_star_means_all_that_may_be_read(module_db: Database, two: list[str]) -> None:
    assert merged(module_db, ["*"]) == merged(module_db, two)
    assert merged(module_db, ["*", LAUNCHERS]) == merged(module_db, two)
    with readers(module_db, 1) as (role,):
        member = "member_of_rockets"
        module_db.execute(f"CREATE ROLE {member} IN ROLE graphrag_member".encode())
        try:
            module_db.execute("SELECT graphrag.grant_corpus(%s, %s)", [LAUNCHERS, member])
            with acting_as(module_db, role):
                assert places(merged(module_db, ["*"])) == places(merged(module_db, two))
            with acting_as(module_db, member):
                assert {row["corpus"] for row in merged(module_db, ["*"])} == {LAUNCHERS}
                assert refused(module_db, "SELECT * FROM graphrag.search('x', corpora => %s)", two).sqlstate == "42501"
            module_db.execute("SELECT graphrag.revoke_corpus(%s, %s)", [LAUNCHERS, member])
            with acting_as(module_db, member):
                none = refused(module_db, "SELECT * FROM graphrag.search('x', corpora => '{*}')")
                assert none.sqlstate in ("42704", "42501")
        finally:
            module_db.execute(f"DROP ROLE {member}".encode())


def test_a_history_is_asked_by_name_alone(module_db: Database, two: list[str]) -> None:
    module_db.execute("SELECT graphrag.keep_history(%s, 'rockets before')", [LAUNCHERS])
    try:
        work(module_db)
        assert "rockets before" not in {row["corpus"] for row in merged(module_db, ["*"], top_k=100)}
        assert {row["corpus"] for row in merged(module_db, ["rockets before"])} == {"rockets before"}
        rows = merged(module_db, two, options={"as_of": "2100-01-01"})
        assert {row["explain"].get("history") for row in rows if row["corpus"] == LAUNCHERS} == {"rockets before"}
    finally:
        module_db.execute("SELECT graphrag.end_history(%s)", [LAUNCHERS])
        module_db.execute("SELECT graphrag.drop_corpus('rockets before')")


@pytest.fixture
def broken(module_db: Database, two: list[str]) -> Iterator[str]:
    """A corpus whose index has lost its vectors."""
    name = index_all(module_db, searched_corpus(module_db), {"ada": STORIES["ada"]})
    module_db.execute(
        "UPDATE graphrag.embedding_spaces SET dimensions = 7 WHERE corpus_id = %s", [corpus_id(module_db, name)]
    )
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def test_a_corpus_that_fails_is_named_and_the_others_answer(module_db: Database, two: list[str], broken: str) -> None:
    # On the second host it is Python's own.
    with pytest.raises((psycopg.Error, ValueError)):
        search(module_db, QUERY, broken)
    warnings: list[str] = []
    module_db.add_notice_handler(lambda notice: warnings.append(f"{notice.severity}: {notice.message_primary}"))
    rows = merged(module_db, [*two, broken])
    assert places(rows) == places(merged(module_db, two))
    assert [text for text in warnings if text.startswith(f'WARNING: corpus "{broken}" did not answer: ')]
    assert all(list(row["explain"]["unanswered"]) == [broken] for row in rows)
    alone = refused(module_db, "SELECT * FROM graphrag.search('x', corpora => %s)", [broken, "default"])
    assert f'corpus "{broken}" did not answer: ' in str(alone.message_primary)


def notices_of(db: Database) -> list[str]:
    """The WARNINGs of a session from now on."""
    texts: list[str] = []
    db.add_notice_handler(lambda notice: texts.append(f"{notice.message_primary} {notice.message_hint}"))
    return texts


@pytest.fixture
def own(module_db: Database, two: list[str]) -> Iterator[str]:
    """A corpus of one document."""
    name = index_all(module_db, searched_corpus(module_db), {"ada": STORIES["ada"]})
    yield name
    module_db.execute("UPDATE graphrag.corpora SET options = '{\"cypher\": false}' WHERE name = %s", [name])
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


@pytest.mark.parametrize("corpora", ["named", "*"])
def test_stored_options_that_cannot_be_read_are_the_fault_of_their_corpus(
    module_db: Database, two: list[str], own: str, corpora: str
) -> None:
    module_db.execute("UPDATE graphrag.corpora SET options = '{\"embedding\": 3}' WHERE name = %s", [own])
    warnings = notices_of(module_db)
    rows = merged(module_db, ["*"] if corpora == "*" else [*two, own])
    assert places(rows) == places(merged(module_db, two))
    assert all(list(row["explain"]["unanswered"]) == [own] for row in rows)
    # What to do is said, too.
    assert any(own in text and "Give an object" in text for text in warnings)
    alone = refused(module_db, "SELECT * FROM graphrag.search('x', corpora => %s)", [own])
    assert (alone.sqlstate, f'corpus "{own}" did not answer' in str(alone.message_primary)) == ("22023", True)
    assert "Give an object" in str(alone.message_hint)
    assert "others" not in str(alone.message_hint)


def test_a_relevance_that_one_does_not_know_is_its_fault(module_db: Database, two: list[str]) -> None:
    module_db.execute("SELECT graphrag.set_provider('far', 'openai', 'http://127.0.0.1:9/v1')")
    module_db.execute(
        "SELECT graphrag.create_corpus('far', %s)",
        [Jsonb({"cypher": False, "embedding": {"provider": "far", "model": "m", "dimensions": 8}})],
    )
    try:
        rows = merged(module_db, [*two, "far"], options={"min_relevance": 0.1})
        assert places(rows) == places(merged(module_db, two, options={"min_relevance": 0.1}))
        assert list(rows[0]["explain"]["unanswered"]) == ["far"]
    finally:
        module_db.execute("SELECT graphrag.drop_corpus('far')")


def test_a_condition_that_fails_is_the_fault_of_its_corpus(module_db: Database, two: list[str], own: str) -> None:
    module_db.execute("SELECT graphrag.protect(%s, '1 / (length(source_key) - 3) > 0')", [own])
    with readers(module_db, 1) as (role,), acting_as(module_db, role):
        rows = merged(module_db, [*two, own])
        assert places(rows) == places(merged(module_db, two))
        assert rows[0]["explain"]["unanswered"] == {own: "division by zero"}
        # Whether he sees anything of it is not known: its name is not his.
        warnings = notices_of(module_db)
        rows = merged(module_db, ["*"])
        assert places(rows) == places(merged(module_db, two))
        assert list(rows[0]["explain"]["unanswered"]) == ["*"]
        assert warnings
        assert own not in str(warnings) + str(rows)


def test_names_of_which_a_reader_sees_nothing_are_neither_told_nor_counted(
    module_db: Database, two: list[str], own: str
) -> None:
    module_db.execute(
        "CREATE FUNCTION public.slow() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(3); RETURN false; END$$"
    )
    hidden = [f"hidden {number}" for number in range(101)]
    for name in hidden:
        module_db.execute("SELECT graphrag.create_corpus(%s, '{\"cypher\": false}')", [name])
        module_db.execute("SELECT graphrag.protect(%s, 'false')", [name])
    module_db.execute("SELECT graphrag.protect(%s, 'public.slow()')", [own])
    try:
        with readers(module_db, 1) as (role,), acting_as(module_db, role):
            warnings = notices_of(module_db)
            rows = merged(module_db, ["*"], corpus_timeout=1.5)
            assert places(rows) == places(merged(module_db, two))
            assert own not in str(rows) + str(warnings)
            assert "hidden" not in str(rows) + str(warnings)
        many = refused(module_db, "SELECT * FROM graphrag.search('x', corpora => '{*}')")
        assert many.sqlstate == "54000"
    finally:
        for name in hidden:
            module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])
        module_db.execute("SELECT graphrag.unprotect(%s)", [own])
        module_db.execute("DROP FUNCTION public.slow()")


def test_a_reader_of_a_part_gets_of_each_what_he_gets_of_it_alone(
    module_db: Database, two: list[str], broken: str
) -> None:
    module_db.execute("SELECT graphrag.protect(%s, $$source_key IN ('hopper', 'turing')$$)", [COMPUTERS])
    module_db.execute("SELECT graphrag.protect(%s, 'false')", [broken])
    try:
        with readers(module_db, 1) as (role,), acting_as(module_db, role):
            found = merged(module_db, ["*"], top_k=100)
            for corpus in two:
                alone = search(module_db, QUERY, corpus, top_k=100, options={"min_relevance": 0})
                own = rows_of(corpus, found)
                assert [row | {"rank": 0} for row in own] == [row | {"rank": 0, "corpus": corpus} for row in alone]
            assert {row["source_key"] for row in found if row["corpus"] == COMPUTERS} == {"hopper", "turing"}
            # Of what he sees nothing of he learns nothing.
            assert broken not in str(found)
    finally:
        module_db.execute("SELECT graphrag.unprotect(%s)", [COMPUTERS])


@pytest.mark.sample(3)
@pytest.mark.skipif(beside.IS_BESIDE, reason="the timer is the server's")
@pytest.mark.parametrize("how", ["pg_cancel_backend", "statement_timeout", "pg_terminate_backend"])
@pytest.mark.parametrize("seconds", ["NULL", "5"])
def test_the_call_is_stopped_and_no_corpus_takes_the_blame(
    module_db: Database, two: list[str], how: str, seconds: str
) -> None:
    call = f"""
    SELECT count(*) FROM generate_series(1, 5000) n,
           LATERAL graphrag.search('Who admired ' || n || '?', corpora => '{{*}}', corpus_timeout => {seconds})
    """
    for after in (0.7, 1.1):
        assert stopped(module_db, call, after=after, how=how) <= PROMISED


@pytest.mark.parametrize(
    ("corpora", "arguments", "sqlstate"),
    [
        (None, {}, "22004"),
        ([None], {}, "22004"),
        ([], {}, "22023"),
        (["nowhere"], {}, "42704"),
        ([LAUNCHERS, "nowhere"], {}, "42704"),
        ([str(number) for number in range(101)], {}, "54000"),
        ([LAUNCHERS], {"corpus_timeout": 0.0}, "22023"),
        ([LAUNCHERS], {"corpus_timeout": -1.0}, "22023"),
        ([LAUNCHERS], {"corpus_timeout": float("nan")}, "22023"),
        ([LAUNCHERS], {"corpus_timeout": 601.0}, "22023"),
        ([LAUNCHERS], {"corpus_timeout": 1e-10}, "22023"),
        (["*"], {"filter": {"$relation": "no.such"}}, "42P01"),
        ([LAUNCHERS], {"low_level_keywords": ["x"] * 101}, "22023"),
        ([LAUNCHERS], {"mode": "none"}, "22023"),
        ([LAUNCHERS], {"options": {"chunk_top_k": 1}}, "22023"),
        ([LAUNCHERS], {"top_k": -1}, "22023"),
        ([LAUNCHERS], {"filter": {"$gt": 1}}, "22023"),
    ],
)
def test_bad_input_is_an_error_of_the_call(
    module_db: Database, two: list[str], corpora: Any, arguments: dict[str, Any], sqlstate: str
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        merged(module_db, corpora, **arguments)
    assert caught.value.sqlstate == sqlstate
    assert caught.value.diag.message_hint


def test_a_corpus_may_take_so_long(module_db: Database, two: list[str]) -> None:
    """A policy that waits, in one of them."""
    module_db.execute(
        "CREATE FUNCTION public.waits() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(20); RETURN true; END$$"
    )
    slow = index_all(module_db, searched_corpus(module_db), {"ada": STORIES["ada"]})
    module_db.execute("SELECT graphrag.protect(%s, 'public.waits()')", [slow])
    try:
        with readers(module_db, 1) as (role,), acting_as(module_db, role):
            rows = merged(module_db, [*two, slow], corpus_timeout=2.0)
            assert places(rows) == places(merged(module_db, two))
            assert rows[0]["explain"]["unanswered"] == {slow: "it took longer than 2 s"}
            # A cancel of the caller's is his.
            module_db.execute("SET statement_timeout = '1s'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                merged(module_db, [*two, slow], corpus_timeout=10.0)
            module_db.execute("RESET statement_timeout")
    finally:
        module_db.execute("SELECT graphrag.drop_corpus(%s)", [slow])
        module_db.execute("DROP FUNCTION public.waits()")


def test_the_client_asks_them_and_says_whose_rows_they_are(module_db: Database, two: list[str]) -> None:
    with GraphRAG(module_db.url, LAUNCHERS) as rag:
        found = rag.search(QUERY, corpora=two)
        assert [(row.corpus, row.source_key) for row in found] == places(merged(module_db, two))
        assert found[0].relevance is not None
        assert {row.corpus for row in rag.search(QUERY)} == {LAUNCHERS}
        with pytest.raises(Exception, match="corpus_timeout belongs to a search of several corpora"):
            rag.search(QUERY, corpus_timeout=1)


def test_the_client_takes_a_list_of_any_kind_and_no_text(module_db: Database, two: list[str]) -> None:
    with GraphRAG(module_db.url, LAUNCHERS, log_queries=True) as rag:
        found = rag.search(QUERY, corpora=(name for name in two))
        assert [(row.corpus, row.source_key) for row in found] == places(merged(module_db, two))
        with pytest.raises(GraphRAGError, match="cannot be the text 'rockets'") as error:
            rag.search(QUERY, corpora="rockets")
        assert error.value.hint == "Give a list: ['rockets']."
        nothing: Any = [None]
        with pytest.raises(psycopg.errors.NullValueNotAllowed):
            rag.search(QUERY, corpora=nothing)


def test_the_query_log_of_a_corpus_that_did_not_answer_has_no_question(
    module_db: Database, two: list[str], broken: str
) -> None:
    module_db.execute("SELECT graphrag.alter_corpus(%s, '{\"query_log\": true}')", [broken])
    count = "SELECT count(*) FROM graphrag.query_log"
    before = value(module_db, count)
    with GraphRAG(module_db.url, LAUNCHERS, log_queries=True) as rag:
        assert rag.search(QUERY, corpora=[*two, broken])
    assert value(module_db, count) == before


@pytest.mark.skipif(beside.IS_BESIDE, reason="a session's memory is of the process that serves it")
def test_sessions_give_one_answer(module_db: Database, two: list[str]) -> None:
    rows = merged(module_db, two, top_k=100)
    for memory in ("0", "64MB"):
        with Database.open(module_db.url) as session:
            session.execute(f"SET graphrag.session_memory = '{memory}'")
            for _ in range(3):
                again = merged(session, two, top_k=100)
                assert [(row["corpus"], row["chunk_id"], round(row["score"], 6)) for row in again] == [
                    (row["corpus"], row["chunk_id"], round(row["score"], 6)) for row in rows
                ]


@pytest.mark.skipif(beside.IS_BESIDE, reason="the test's own connection reads the numbers of what a process returns")
def test_numbers_of_metadata_keep_their_digits(module_db: Database, two: list[str]) -> None:
    name = searched_corpus(module_db)
    put(module_db, name, "pi", STORIES["ada"])
    module_db.execute(
        "UPDATE graphrag.documents SET metadata = '{\"pi\": 3.14159265358979323846264338327950288}' WHERE corpus = %s",
        [name],
    )
    work(module_db)
    sql = "SELECT explain #>> '{metadata,pi}' FROM graphrag.search('Ada', corpora => ARRAY[%s])"
    assert value(module_db, sql, name) == "3.14159265358979323846264338327950288"
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])
