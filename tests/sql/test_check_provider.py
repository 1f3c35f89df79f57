"""graphrag.check_provider() against an endpoint with each defect: what it says, what it costs, who may call it."""

import time

import psycopg
import pytest
from psycopg import sql

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.acting import acting_as, denied, new_role
from tests.sql.ingest import Background, refused, rows, searched_corpus, value, wait_for
from tests.sql.llm import modelled, places_held, provider
from tests.sql.local_model import Model

REPLY = "ok"
CHECK = "SELECT subject, ok, value, detail, hint FROM graphrag.check_provider(%s, %s, %s)"
Finding = tuple[bool | None, float | None, str, str | None]


def check(db: Database, name: str, model: str | None = "model-1", corpus: str | None = None) -> dict[str, Finding]:
    """The findings by subject, in their order."""
    findings = rows(db, CHECK, name, model, corpus or searched_corpus(db))
    return {subject: (ok, number, detail, hint) for subject, ok, number, detail, hint in findings}


def test_of_a_good_endpoint_everything_is_found_and_written_down(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.respond(Model())
    corpus = searched_corpus(module_db)
    name = provider(module_db, endpoint, price_input=1, price_output=1)
    findings = check(module_db, name, corpus=corpus)
    assert list(findings) == ["endpoint", "chat", "streaming", "output limit", "JSON", "context"]
    assert all(ok for ok, *_ in findings.values()), findings
    assert findings["output limit"][1:3] == (64, "wrote 64 tokens, 64 at most")
    assert (findings["context"][1] or 0) > 6000
    # One request for each, the three of an answer together.
    assert [request.method for request in endpoint.requests] == ["GET", "POST", "POST", "POST"]
    spent = rows(
        module_db,
        "SELECT l.purpose, count(*), sum(l.tokens_in) > 6000, sum(l.cost) > 0 FROM graphrag.llm_calls l"
        " JOIN graphrag.corpora c ON c.id = l.corpus_id WHERE c.name = %s GROUP BY 1",
        corpus,
    )
    assert spent == [("check", 4, True, True)]
    assert value(module_db, "SELECT count(*) FROM graphrag.llm_cache WHERE purpose = 'check'") == 0


@pytest.mark.parametrize(
    ("model", "subject", "ok", "words"),
    [
        (Model(names=("other", "/models/x.gguf")), "endpoint", None, '"model-1" is not among them'),
        (Model(names=None), "endpoint", True, "does not list its models"),
        (Model(names=("model-1:latest",)), "endpoint", True, "has the model"),
        (Model(streams=False), "streaming", False, "in one piece"),
        (Model(keeps_limit=False), "output limit", False, "wrote 200 tokens, though 64 was the limit"),
        (Model(refuses=("json_schema",)), "JSON", False, "option json to object: it is schema"),
        (Model(ignores=("json_schema",)), "JSON", False, "option json to object: it is schema"),
        (Model(refuses=("json_schema", "json_object")), "JSON", False, "option json to none: it is schema"),
        (Model(ignores=("json_schema", "json_object")), "JSON", False, "option json to none: it is schema"),
        (Model(reads=4096), "context", False, "num_ctx"),
        (Model(reads=2050), "context", False, "OLLAMA_CONTEXT_LENGTH"),
        (Model(context=4096), "context", False, "exceeds the available context size (4096 tokens)"),
        (Model(counts=False), "context", None, "it counts no tokens"),
    ],
)
def test_a_defect_is_named_with_what_to_do(
    module_db: Database, endpoint: Endpoint, model: Model, subject: str, ok: bool | None, words: str
) -> None:
    endpoint.respond(model)
    findings = check(module_db, provider(module_db, endpoint))
    assert findings[subject][0] is ok, findings
    assert words in f"{findings[subject][2]} {findings[subject][3]}"
    others = [name for name, finding in findings.items() if finding[0] is not True and name != subject]
    assert others == [], "nothing else is wrong"


def test_of_a_model_that_thinks_the_answer_is_waited_for(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.respond(Model(thinks=100))
    findings = check(module_db, provider(module_db, endpoint))
    assert list(findings) == ["endpoint", "chat", "streaming", "output limit", "JSON", "context"]
    assert '"reasoning_effort": "none"' in (findings["chat"][3] or "")
    assert [subject for subject, (ok, *_) in findings.items() if not ok] == ["output limit"], "it ended by itself"
    assert findings["output limit"][0] is None


def test_how_much_of_a_prompt_was_read_is_a_number(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint)
    for model in (Model(reads=4096), Model(context=4096)):
        endpoint.respond(model)
        assert check(module_db, name)["context"][1] == 4096


@pytest.mark.parametrize(
    ("kind", "detail", "hint"),
    [
        ("unauthorized", "answered 401: it does not accept the key", "api_key_env or api_key_file"),
        ("unavailable", "answered 503", "still load the model"),
        ("rate_limited", "answered 429", "requests_per_minute"),
        ("reset", "the connection to provider", "base_url"),
        ("html", "did not answer with JSON", "base_url"),
    ],
)
def test_an_endpoint_that_does_not_answer_ends_the_check(
    module_db: Database, endpoint: Endpoint, kind: str, detail: str, hint: str
) -> None:
    endpoint.respond(Model())
    endpoint.misbehave(kind, times=None)
    findings = check(module_db, provider(module_db, endpoint))
    assert list(findings) == ["endpoint"]
    assert findings["endpoint"][0] is False
    assert detail in findings["endpoint"][2]
    assert hint in (findings["endpoint"][3] or "")


def test_a_model_that_is_not_there_is_found_by_the_answer(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.respond(Model(names=("qwen3:4b",)))
    endpoint.misbehave("model_not_found", times=None, when=lambda request: request.method == "POST")
    findings = check(module_db, provider(module_db, endpoint))
    assert list(findings) == ["endpoint", "chat"]
    assert "its models: qwen3:4b" in findings["endpoint"][2]
    assert findings["chat"][0] is False
    assert 'no such model ("model-1")' in findings["chat"][2]


def test_an_endpoint_that_hangs_ends_the_check_in_its_time(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.respond(Model())
    name = provider(module_db, endpoint, timeout=0.5)
    endpoint.misbehave("timeout", times=None, when=lambda request: request.method == "POST")
    findings = check(module_db, name)
    assert list(findings) == ["endpoint", "chat"]
    assert "within 0.5 s" in findings["chat"][2]
    assert "until the model is loaded" in (findings["chat"][3] or "")
    assert places_held(module_db) == 0


def test_a_provider_that_is_not_asked_any_more_is_asked(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.respond(Model())
    name = provider(module_db, endpoint)
    module_db.execute(
        "INSERT INTO graphrag.provider_state (provider, failures, openings, last_error, open_until)"
        " VALUES (%s, 5, 1, 'down', now() + interval '1 h')",
        [name],
    )
    assert check(module_db, name)["chat"][0] is True


def test_without_a_model_those_of_the_endpoint_are_named(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.respond(Model())
    findings = check(module_db, provider(module_db, endpoint), None)
    assert list(findings) == ["endpoint"]
    assert "its models: model-1, hash" in findings["endpoint"][2]


def test_a_model_of_embeddings_gets_the_trial_of_one(module_db: Database, endpoint: Endpoint) -> None:
    respond = Model(chats=False)
    endpoint.respond(
        lambda request: endpoint._embeddings(request.body) if request.kind == "embeddings" else respond(request)
    )
    findings = check(module_db, provider(module_db, endpoint), "hash")
    assert list(findings) == ["endpoint", "embedding"]
    assert findings["embedding"][:3] == (True, 384, "gives vectors of 384 dimensions")


def test_a_cross_encoder_is_tried_by_two_texts(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint, kind="rerank")
    endpoint.rerank(lambda query, texts: [float("engine" in text) for text in texts])
    assert check(module_db, name, "cross")["rerank"][0] is True
    endpoint.rerank(lambda query, texts: [float("Bread" in text) for text in texts])
    ok, number, _, hint = check(module_db, name, None)["rerank"]
    assert (ok, number) == (False, -1)
    assert "re-ranks" in (hint or "")


def test_of_a_corpus_each_of_its_models_is_tried_once(module_db: Database, endpoint: Endpoint) -> None:
    respond = Model()
    endpoint.respond(
        lambda request: endpoint._embeddings(request.body) if request.kind == "embeddings" else respond(request)
    )
    name = provider(module_db, endpoint)
    corpus = searched_corpus(
        module_db,
        llm={
            "provider": name,
            "model": "model-1",
            "roles": {"answer": {"model": "large"}, "keywords": {"model": "model-1"}},
        },
        embedding={"provider": name, "model": "hash", "dimensions": 100},
    )
    tried = rows(
        module_db,
        "SELECT DISTINCT provider_name, model_name FROM graphrag.check_provider(corpus => %s) ORDER BY 2",
        corpus,
    )
    assert tried == [(name, "hash"), (name, "large"), (name, "model-1")]
    assert check(module_db, name, None, corpus)["embedding"][1] == 100


def test_a_budget_that_is_spent_is_not_overspent(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.respond(Model())
    name = provider(module_db, endpoint, price_input=1000)
    corpus = modelled(module_db, name, monthly_budget=0)
    ok, _, detail, hint = check(module_db, name, None, corpus)["endpoint"]
    assert ok is None
    assert "the monthly budget" in detail
    assert hint
    assert endpoint.requests == []


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        (("nobody", "m", "default"), "42704"),
        (("nobody", None, "default"), "42704"),
        ((None, "m", "default"), "22023"),
        ((None, None, "default"), "55000"),
        ((None, None, "nowhere"), "42704"),
        ((None, None, None), "22004"),
    ],
)
def test_what_cannot_be_checked_is_an_error(
    module_db: Database, arguments: tuple[str | None, ...], sqlstate: str
) -> None:
    if not value(module_db, "SELECT count(*) FROM graphrag.corpora WHERE name = 'default'"):
        module_db.execute("SELECT graphrag.create_corpus('default')")
    diagnostics = refused(module_db, CHECK, *arguments)
    assert diagnostics.sqlstate == sqlstate
    assert diagnostics.message_hint


def test_cancel_ends_a_check(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.respond(Model())
    name, corpus = provider(module_db, endpoint), searched_corpus(module_db)
    endpoint.misbehave("timeout", times=None, when=lambda request: request.method == "POST")
    statement = sql.SQL("SELECT graphrag.check_provider({}, 'model-1', {})").format(name, corpus).as_string(None)
    checking = Background(module_db.url, statement)
    wait_for(lambda: endpoint.count("chat") == 1, "a request on its way")
    began = time.monotonic()
    module_db.execute("SELECT pg_cancel_backend(%s)", [checking.pid])
    assert isinstance(checking.finish(), psycopg.errors.QueryCanceled)
    assert time.monotonic() - began < 5
    wait_for(lambda: endpoint.in_flight == 0, "the end of the request")
    assert places_held(module_db) == 0


def test_on_a_read_only_server_it_checks_all_the_same(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.respond(Model())
    name, corpus = provider(module_db, endpoint), searched_corpus(module_db)
    with module_db.transaction():
        module_db.execute("SET TRANSACTION READ ONLY")
        assert check(module_db, name, "model-1", corpus)["context"][0] is True


def test_a_role_with_every_grant_but_not_the_owners_checks_nothing(db: Database, endpoint: Endpoint) -> None:
    name, corpus = provider(db, endpoint), searched_corpus(db)
    with new_role(db, "IN ROLE graphrag_reader, graphrag_writer, pg_monitor") as mallory:
        with acting_as(db, mallory) as session:
            denied(session, CHECK, name, "model-1", corpus)
        db.execute(f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA graphrag TO {mallory}".encode())
        db.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA graphrag TO {mallory}".encode())
        with acting_as(db, mallory) as session:
            diagnostics = refused(session, CHECK, name, "model-1", corpus)
        assert diagnostics.sqlstate == "42501"
        assert "may not check a provider" in (diagnostics.message_primary or "")
    assert endpoint.requests == []
