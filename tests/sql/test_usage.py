"""What calls cost and what was asked: views, the opt-in query log, retention, and the estimate before anything is spent."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import as_reader, ask, calls, is_keywords, lines, stories, stream, understand
from tests.sql.ingest import STORIES, corpus_id, delete, put, put_all, refused, rows, searched_corpus, value, work
from tests.sql.llm import provider

REPLY = lines
QUESTION = "What did Ada Lovelace write?"
LOGGED = ("llm_cache", "llm_calls", "query_log")


def only_row(db: Database, sql: str, *values: Any) -> dict[str, Any]:
    """The one row, by column."""
    cursor = db.execute(sql.encode(), values)
    names = [column.name for column in cursor.description or ()]
    (row,) = cursor.fetchall()
    return dict(zip(names, row, strict=True))


def test_llm_usage_adds_up_calls_by_purpose_model_and_day(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, llm={"roles": {"answer": {"model": "model-2"}}})
    usage = [ask(module_db, QUESTION, corpus)[2], ask(module_db, "Who was Babbage?", corpus)[2]]
    endpoint.misbehave("unauthorized", when=lambda request: not is_keywords(request.messages))
    # What a statement costs that fails is written down by the session's next call.
    refused(module_db, "SELECT * FROM graphrag.ask('Who failed?', %s, low_level_keywords => '{failure}')", corpus)
    endpoint.misbehave("prose", when=lambda request: is_keywords(request.messages))
    understand(module_db, "Who else failed?", corpus)
    module_db.execute(
        "INSERT INTO graphrag.llm_calls (at, corpus_id, provider, model, purpose, tokens_in, tokens_out, cost, seconds)"
        " SELECT now() - interval '2 days', %s, 'p', 'model-1', 'keywords', 10, 1, .5, n FROM generate_series(1, 3) n",
        [corpus_id(module_db, corpus)],
    )
    sql = "SELECT * FROM graphrag.llm_usage WHERE corpus = %s AND purpose = %s AND day = current_date - %s"
    keywords = only_row(module_db, sql, corpus, "keywords", 0)
    answers = only_row(module_db, sql, corpus, "answer", 0)
    older = only_row(module_db, sql, corpus, "keywords", 2)
    assert (keywords["model"], answers["model"]) == ("model-1", "model-2")
    assert (keywords["calls"], keywords["failures"], answers["calls"], answers["failures"]) == (3, 1, 3, 1)
    paid = ["tokens_in", "tokens_out", "cost"]
    unusable = only_row(
        module_db,
        "SELECT sum(tokens_in) AS tokens_in, sum(tokens_out) AS tokens_out, sum(cost) AS cost"
        "  FROM graphrag.llm_calls WHERE corpus_id = %s AND error IS NOT NULL",
        corpus_id(module_db, corpus),
    )
    for name in paid:
        both = float(keywords[name]) + float(answers[name]) - float(unusable[name])
        assert both == pytest.approx(sum(float(one_[name]) for one_ in usage))
    assert (older["calls"], float(older["cost"]), older["p50_ms"]) == (3, 1.5, 2000.0)
    assert older["p95_ms"] == pytest.approx(2900)


def test_budgets_count_this_month_alone(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, llm={"monthly_budget": 5})
    sql = "SELECT budget, spent, state FROM graphrag.budgets WHERE corpus = %s"
    assert rows(module_db, sql, corpus) == [(5, 0, "open")]
    insert = (
        "INSERT INTO graphrag.llm_calls (at, corpus_id, provider, model, purpose, tokens_in, tokens_out, cost, seconds)"
        " VALUES (date_trunc('month', now()) + %s::interval, %s, 'p', 'm', 'answer', 1, 1, %s, 1)"
    )
    number = corpus_id(module_db, corpus)
    module_db.execute(insert, ["-1 second", number, 100])
    module_db.execute(insert, ["0 seconds", number, 4])
    assert rows(module_db, sql, corpus) == [(5, 4, "open")]
    module_db.execute(insert, ["1 second", number, 1])
    assert rows(module_db, sql, corpus) == [(5, 5, "reached")]
    assert rows(module_db, sql, searched_corpus(module_db)) == [(None, 0, "unlimited")]


def test_nothing_is_logged_unasked(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint)
    ask(module_db, QUESTION, corpus)
    stream(module_db, QUESTION, corpus)
    sql = "SELECT graphrag.log_query('x', %s, 'search', 'bm25', 1.5)"
    assert value(module_db, sql, corpus) is False
    assert value(module_db, sql, "nowhere") is False
    number = corpus_id(module_db, corpus)
    assert rows(module_db, "SELECT 1 FROM graphrag.query_log WHERE corpus_id = %s", number) == []


def test_the_query_log_holds_questions_and_query_stats_sums_them_up(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, corpus={"query_log": True})
    _, _, usage, context = ask(module_db, QUESTION, corpus, mode="local")
    stream(module_db, QUESTION, corpus, mode="local")
    with as_reader(module_db):
        sql = "SELECT graphrag.log_query(%s, %s, 'search', 'bm25', %s, chunks => 4)"
        assert value(module_db, sql, "x" * 20_000, corpus, 10.0) is True
        assert value(module_db, sql, "y", corpus, 30.0) is True
        assert refused(module_db, "SELECT graphrag.log_query('x', %s, 'gossip', 'bm25', 1)", corpus).sqlstate == "23514"
    records = rows(
        module_db,
        "SELECT kind, mode, left(question, 5), length(question), entities, relationships, chunks, usage, caller,"
        " milliseconds > 0 FROM graphrag.query_log WHERE corpus_id = %s ORDER BY id",
        corpus_id(module_db, corpus),
    )
    counts = tuple(len(context[part]) for part in ("entities", "relationships", "chunks"))
    assert records == [
        ("ask", "local", "What ", len(QUESTION), *counts, usage, "postgres", True),
        ("ask_stream", "local", "What ", len(QUESTION), *counts, None, "postgres", True),
        ("search", "bm25", "xxxxx", 10_000, None, None, 4, None, "postgres", True),
        ("search", "bm25", "y", 1, None, None, 4, None, "postgres", True),
    ]
    stats = rows(
        module_db,
        "SELECT mode, queries, mean_ms, p95_ms, mean_entities, mean_relationships FROM graphrag.query_stats"
        " WHERE corpus = %s ORDER BY mode",
        corpus,
    )
    assert stats[0] == ("bm25", 2, 20.0, 29.0, None, None)
    assert (stats[1][0], stats[1][1], *stats[1][4:]) == ("local", 2, *counts[:2])
    with module_db.transaction():
        module_db.execute("SET TRANSACTION READ ONLY")
        assert value(module_db, "SELECT graphrag.log_query('x', %s, 'search', 'bm25', 1)", corpus) is False
        ask(module_db, QUESTION, corpus, mode="local")


def test_graph_growth_says_what_each_day_added(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    for key in ("ada", "babbage"):
        put(module_db, corpus, key, STORIES[key])
    work(module_db)
    module_db.execute(
        "UPDATE graphrag.documents SET indexed_at = now() - interval '3 days' WHERE corpus = %s", [corpus]
    )
    old = rows(module_db, "SELECT count(*) FROM graphrag.entities WHERE corpus_id = %s", corpus_id(module_db, corpus))
    put(module_db, corpus, "turing", STORIES["turing"])
    work(module_db)
    sql = (
        "SELECT current_date - day, documents, chunks, entities, relationships FROM graphrag.graph_growth"
        " WHERE corpus = %s ORDER BY day"
    )
    first, second = rows(module_db, sql, corpus)
    assert first[:4] == (3, 2, 2, old[0][0])
    assert second[:3] == (0, 1, 1)
    totals = only_row(module_db, "SELECT entities, relationships FROM graphrag.progress WHERE corpus = %s", corpus)
    assert (first[3] + second[3], first[4] + second[4]) == (totals["entities"], totals["relationships"])
    delete(module_db, corpus, "turing")
    work(module_db)
    assert rows(module_db, sql, corpus) == [first]


def fill(db: Database, corpus: str, table: str, ages: list[int]) -> None:
    """Rows that many days old, by a statement for each table."""
    statements = {
        "llm_cache": "INSERT INTO graphrag.llm_cache (corpus_id, key, purpose, model, reply, created_at)"
        " SELECT %s, 'key ' || n, 'answer', 'm', 'r', now() - age * interval '1 day'",
        "llm_calls": "INSERT INTO graphrag.llm_calls"
        " (corpus_id, provider, model, purpose, tokens_in, tokens_out, cost, seconds, at)"
        " SELECT %s, 'p', 'm', 'answer', 1, 1, 1, 1, date_trunc('month', now()) + interval '1 hour' - age * interval '1 day'",
        "query_log": "INSERT INTO graphrag.query_log (corpus_id, kind, mode, question, milliseconds, at)"
        " SELECT %s, 'ask', 'bm25', 'q', 1, now() - age * interval '1 day'",
    }
    sql = f"{statements[table]} FROM unnest(%s::int[]) WITH ORDINALITY u (age, n)"
    db.execute(sql.encode(), [corpus_id(db, corpus), ages])


@pytest.mark.parametrize("table", LOGGED)
def test_retention_bounds_age_and_rows(module_db: Database, table: str) -> None:
    corpus = searched_corpus(module_db, retention={table: {"days": 100, "rows": 5}})
    other = searched_corpus(module_db)
    fill(module_db, corpus, table, [200, 150, 99, 40, 40, 40, 40, 35])
    fill(module_db, other, table, [200, 150])
    pruned = value(module_db, "SELECT graphrag.prune(%s)", corpus)
    # Two are too old, the sixth newest is one too many; what has one time with others is not taken along.
    assert pruned == {**dict.fromkeys(LOGGED, 0), table: 3}
    count = f"SELECT count(*) FROM graphrag.{table} WHERE corpus_id = %s"
    assert value(module_db, count, corpus_id(module_db, corpus)) == 5
    assert value(module_db, count, corpus_id(module_db, other)) == 2
    module_db.execute(
        "SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"retention": {table: {"days": None, "rows": 0}}})]
    )
    assert value(module_db, "SELECT graphrag.optimize(%s)", corpus)["pruned"][table] == 5
    module_db.execute(
        "SELECT graphrag.alter_corpus(%s, %s)", [other, Jsonb({"retention": {table: {"days": None, "rows": None}}})]
    )
    assert value(module_db, "SELECT graphrag.prune(%s)", other)[table] == 0


def test_this_months_calls_are_never_pruned(module_db: Database, endpoint: Endpoint) -> None:
    corpus = searched_corpus(
        module_db,
        llm={"provider": provider(module_db, endpoint), "model": "m", "monthly_budget": 10},
        retention={"llm_calls": {"rows": 0, "days": 0}},
    )
    fill(module_db, corpus, "llm_calls", [0, 0, 1])
    assert value(module_db, "SELECT graphrag.prune(%s)", corpus)["llm_calls"] == 1
    assert value(module_db, "SELECT spent FROM graphrag.budgets WHERE corpus = %s", corpus) == 2


@pytest.mark.parametrize(
    "retention",
    [
        7,
        {"documents": {}},
        {"llm_cache": 7},
        {"llm_cache": {"weeks": 1}},
        {"llm_cache": {"days": -1}},
        {"llm_cache": {"rows": "x"}},
    ],
)
def test_a_bad_retention_is_refused(module_db: Database, retention: Any) -> None:
    diag = refused(module_db, "SELECT graphrag.create_corpus('bad', %s)", Jsonb({"retention": retention}))
    assert diag.sqlstate == "22023"
    assert "retention" in (diag.message_primary or "")
    assert diag.message_hint


def test_the_cache_forgets_and_the_question_costs_again(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint)
    ask(module_db, QUESTION, corpus)
    module_db.execute(
        "SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"retention": {"llm_cache": {"rows": 0}}})]
    )
    assert value(module_db, "SELECT graphrag.prune(%s)", corpus)["llm_cache"] == 2
    assert ask(module_db, QUESTION, corpus)[2]["calls"] == 2


def estimate(db: Database, corpus: str, **arguments: Any) -> dict[str, Any]:
    named = "".join(f", {name} => %s" for name in arguments)
    return only_row(db, f"SELECT * FROM graphrag.estimate_cost(%s{named})", corpus, *arguments.values())


def test_the_nlp_extractor_costs_nothing(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    assert estimate(module_db, corpus)["documents"] == 0
    put_all(module_db, corpus, STORIES)
    estimated = estimate(module_db, corpus)
    assert (estimated["documents"], estimated["chunks"], estimated["calls"], estimated["cost"]) == (5, 5, 0, 0)
    assert estimated["basis"] == {"extractor": "nlp", "documents_counted": 5}


def test_an_estimate_counts_the_chunks_and_prompts_of_the_queue(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint, price_input=3, price_output=10)
    corpus = searched_corpus(
        module_db, llm={"provider": name, "model": "m"}, chunk_token_size=50, chunk_overlap=0, max_gleaning=1
    )
    for key, content in STORIES.items():
        put(module_db, corpus, key, f"{content} " * 5)
    estimated = estimate(module_db, corpus, extractor="llm")
    assert estimated["calls"] + estimated["cached_calls"] == 2 * estimated["chunks"]
    assert 0 < estimated["cached_calls"] < estimated["calls"], (
        "the stories repeat themselves; the same text is asked about once"
    )
    assert float(estimated["cost"]) == pytest.approx(
        (3 * estimated["tokens_in"] + 10 * estimated["tokens_out"]) / 1e6, abs=1e-6
    )
    assert estimated["basis"]["documents_counted"] == 5
    # A sample is scaled up; nothing was asked, nothing is written.
    sampled = estimate(module_db, corpus, extractor="llm", sample=2)
    assert (sampled["documents"], sampled["basis"]["documents_counted"]) == (5, 2)
    assert sampled["calls"] == pytest.approx(estimated["calls"], rel=0.5)
    assert endpoint.count() == 0
    assert calls(module_db, corpus) == []
    # With the chunks as the worker cuts them.
    work(module_db)
    number = value(module_db, "SELECT chunks FROM graphrag.progress WHERE corpus = %s", corpus)
    assert number == estimated["chunks"]
    assert estimate(module_db, corpus, extractor="llm")["documents"] == 0


def test_an_estimate_bounds_what_indexing_then_costs(module_db: Database, endpoint: Endpoint) -> None:
    corpus = searched_corpus(
        module_db,
        llm={"provider": provider(module_db, endpoint, price_input=3, price_output=10), "model": "m"},
        extractor="llm",
        max_gleaning=0,
        grounding="off",
    )
    endpoint.reply('{"entities": [{"name": "Ada", "type": "person", "description": "A person."}], "relationships": []}')
    put_all(module_db, corpus, STORIES)
    estimated = estimate(module_db, corpus)
    work(module_db)
    spent = only_row(
        module_db,
        "SELECT count(*) AS calls, sum(tokens_in) AS tokens_in FROM graphrag.llm_calls WHERE corpus_id = %s",
        corpus_id(module_db, corpus),
    )
    assert (estimated["calls"], estimated["cached_calls"]) == (spent["calls"], 0) == (endpoint.count(), 0)
    assert estimated["tokens_in"] == pytest.approx(spent["tokens_in"], rel=0.02)
    # Once more: all of it is cached.
    module_db.execute("SELECT graphrag.alter_corpus(%s, '{\"chunk_overlap\": 50}')", [corpus])
    again = estimate(module_db, corpus)
    assert (again["calls"], again["cached_calls"], again["cost"]) == (0, 5, 0)


def test_an_estimate_has_what_embeddings_and_summaries_cost(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint, price_input=3, price_output=10)
    vectors = provider(module_db, endpoint, price_input=2, kind="openai")
    corpus = searched_corpus(
        module_db,
        extractor="llm",
        llm={"provider": name, "model": "m"},
        embedding={"provider": vectors, "model": "e", "dimensions": 8},
        max_gleaning=0,
    )
    put_all(module_db, corpus, STORIES)
    estimated = estimate(module_db, corpus)
    basis = estimated["basis"]
    extraction = (3 * estimated["tokens_in"] + 10 * estimated["tokens_out"]) / 1e6
    text = sum(len(content.encode()) // 4 + 1 for content in STORIES.values())
    assert basis["embedding"]["tokens"] == text + estimated["tokens_out"]
    assert basis["embedding"]["cost"] == pytest.approx(2 * basis["embedding"]["tokens"] / 1e6, abs=1e-6)
    assert basis["summaries"] == {"provider": name, "model": "m", "cost": None}, "there is nothing to go by yet"
    assert float(estimated["cost"]) == pytest.approx(extraction + basis["embedding"]["cost"], abs=2e-6)
    # Twenty extractions, with one summary of 100 and 10 tokens for every two of them.
    module_db.execute(
        "INSERT INTO graphrag.llm_calls (corpus_id, purpose, provider, model, tokens_in, tokens_out, cost, seconds)"
        " SELECT %s, p.purpose, %s, 'm', 100, 10, 0, 1 FROM pg_catalog.generate_series(1, 20) AS n,"
        " (VALUES ('extract'), ('summary')) AS p (purpose) WHERE p.purpose = 'extract' OR n <= 10",
        [corpus_id(module_db, corpus), name],
    )
    summaries = estimate(module_db, corpus)["basis"]["summaries"]
    assert summaries["cost"] == pytest.approx(estimated["calls"] * (3 * 50 + 10 * 5) / 1e6, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        ({"sample": 0}, "22023"),
        ({"sample": None}, "22023"),
        ({"extractor": "magic"}, "22023"),
        ({"extractor": "llm"}, "55000"),
    ],
)
def test_a_bad_estimate_is_an_error_with_a_hint(module_db: Database, arguments: dict[str, Any], sqlstate: str) -> None:
    corpus = searched_corpus(module_db)
    put(module_db, corpus, "a", "Some words.")
    named = "".join(f", {name} => %s" for name in arguments)
    diag = refused(module_db, f"SELECT * FROM graphrag.estimate_cost(%s{named})", corpus, *arguments.values())
    assert diag.sqlstate == sqlstate
    assert diag.message_hint
