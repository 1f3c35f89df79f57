"""Providers: who may set them, what they refuse, and that a key is read, sent, and found nowhere else."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import Background, refused, rows, value, wait_for
from tests.sql.llm import ask, faults, messages, modelled, prepare, provider, work, work_statement

REPLY = '{"answer": 42}'
SET = "SELECT graphrag.set_provider(%s, %s, %s, %s, %s, %s)"
URL = "http://127.0.0.1:1/v1"


@pytest.fixture
def reader(db: Database) -> Iterator[Database]:
    """A session of a role that may search."""
    name = f"reader_{db.info.dbname}"
    db.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret' IN ROLE graphrag_reader".encode())
    host = psycopg.conninfo.conninfo_to_dict(db.url)
    with Database.connect(**{**host, "user": name, "password": "secret"}, autocommit=True) as session:
        yield session
    db.execute(f"DROP ROLE {name}".encode())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("local", "openai", URL, None, None, {}), "a provider cannot be called 'local'"),
        (("", "openai", URL, None, None, {}), "a provider cannot be called ''"),
        (("p", "chat", URL, None, None, {}), "kind of provider cannot be 'chat'"),
        (("p", "openai", "ftp://x/v1", None, None, {}), "base_url cannot be 'ftp://x/v1'"),
        (("p", "openai", None, None, None, {}), "base_url cannot be None"),
        (("p", "openai", "https://u:p@x/v1", None, None, {}), "base_url holds a user name or password"),
        (("p", "openai", "https://x/v1?key=abc", None, None, {}), "base_url cannot be 'https://x/v1…'"),
        (("p", "openai", "https://u:p@x:70000/v1", None, None, {}), "base_url cannot be 'https://…x:70000/v1'"),
        (("p", "openai", " https://x/v1", None, None, {}), "base_url cannot be ' https://x/v1'"),
        (("p", "openai", URL, None, None, {"chat_request": {"api_key": "x"}}), '"api_key" in chat_request would store'),
        (("p", "openai", URL, None, None, {"price_input": 1e300}), 'provider option "price_input" cannot be'),
        (("p", "openai", URL, "A", "/b", {}), 'provider "p" has two references to a key'),
        (("p", "openai", URL, None, "relative", {}), "api_key_file cannot be 'relative'"),
        (("p", "openai", URL, "sk-abc.def", None, {}), "api_key_env is not the name of an environment variable"),
        (("p", "openai", URL, None, None, {"speed": 1}), 'unknown provider option "speed"'),
        (("p", "openai", URL, None, None, {"concurrency": 0}), 'provider option "concurrency" cannot be 0'),
        (("p", "openai", URL, None, None, {"concurrency": True}), 'provider option "concurrency" cannot be true'),
        (("p", "openai", URL, None, None, {"timeout": -1}), 'provider option "timeout" cannot be -1'),
        (("p", "openai", URL, None, None, {"headers": {"Authorization": "x"}}), "would store a secret"),
        (("p", "openai", URL, None, None, {"headers": {"X-Goog-Api-Key": "x"}}), "would store a secret"),
        (("p", "openai", URL, None, None, {"query": {"access_token": "x"}}), "would store a secret"),
        (("p", "openai", URL, None, None, {"headers": {"a": "b\r\nc: d"}}), '"headers" cannot be that value'),
    ],
)
def test_a_provider_that_cannot_be_is_refused(module_db: Database, given: tuple[Any, ...], words: str) -> None:
    diagnostics = refused(module_db, SET, *given[:5], Jsonb(given[5]))
    assert diagnostics.sqlstate == "22023"
    assert words in (diagnostics.message_primary or "")
    assert diagnostics.message_hint
    assert value(module_db, "SELECT count(*) FROM graphrag.providers") == 0


def test_setting_a_provider_again_replaces_it_and_closes_its_breaker(db: Database) -> None:
    db.execute(SET, ["p", "openai", URL, None, None, Jsonb({})])
    db.execute(
        "INSERT INTO graphrag.provider_state (provider, failures, openings, last_error, open_until)"
        " VALUES ('p', 5, 1, 'down', now() + interval '1 h')"
    )
    db.execute(SET, ["p", "openai", URL + "2", "A_KEY", None, Jsonb({"concurrency": 3})])
    records = rows(db, "SELECT name, base_url, api_key_env, options FROM graphrag.providers")
    assert records == [("p", URL + "2", "A_KEY", {"concurrency": 3})]
    assert rows(db, "SELECT FROM graphrag.provider_state") == []


def test_a_provider_in_use_is_not_dropped(db: Database) -> None:
    db.execute(SET, ["p", "openai", URL, None, None, Jsonb({})])
    db.execute("SELECT graphrag.create_corpus('c', %s)", [Jsonb({"llm": {"provider": "p", "model": "m"}})])
    assert refused(db, "SELECT graphrag.drop_provider('p')").sqlstate == "2BP01"
    db.execute("SELECT graphrag.drop_corpus('c')")
    db.execute("SELECT graphrag.drop_provider('p')")
    assert refused(db, "SELECT graphrag.drop_provider('p')").sqlstate == "42704"


def test_a_reader_sees_no_provider_no_call_and_no_cache(db: Database, reader: Database) -> None:
    for table in ("providers", "provider_state", "llm_cache", "llm_calls"):
        assert refused(reader, f"SELECT * FROM graphrag.{table}").sqlstate == "42501", table
    for statement in (
        "SELECT graphrag.set_provider('p', 'openai', 'http://127.0.0.1:1/v1')",
        "SELECT graphrag.drop_provider('p')",
        "SELECT graphrag.retry_failed()",
    ):
        assert refused(reader, statement).sqlstate == "42501", statement


def test_a_role_with_every_grant_but_not_the_owners_role_sets_no_provider(db: Database, reader: Database) -> None:
    role = sql.Identifier(reader.info.user)
    for grant in (
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA graphrag TO {}",
        "GRANT ALL ON ALL TABLES IN SCHEMA graphrag TO {}",
    ):
        db.execute(sql.SQL(grant).format(role))
    diagnostics = refused(reader, "SELECT graphrag.set_provider('p', 'openai', 'http://127.0.0.1:1/v1')")
    assert diagnostics.sqlstate == "42501"
    assert "may not set a provider" in (diagnostics.message_primary or "")
    assert refused(reader, "SELECT graphrag.drop_provider('p')").sqlstate == "42501"
    db.execute(sql.SQL("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA graphrag FROM {}").format(role))
    db.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA graphrag FROM {}").format(role))


def test_the_key_goes_to_the_endpoint_and_nowhere_else(cluster: Callable[..., Cluster], endpoint: Endpoint) -> None:
    by_env, by_file = (f"sk-{secrets.token_hex(12)}" for _ in range(2))
    own_cluster = cluster({"log_min_messages": "debug1", "log_statement": "all"}, environment={"MODEL_KEY": by_env})
    path = f"/srv/pg_graphrag/clusters/{own_cluster.folder.name}/key"
    own_cluster.runtime.run("sh", "-c", f"umask 077; cat > {path}", stdin=by_file + "\n")
    own_cluster.create_database("keys")
    with own_cluster.connect("keys") as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        prepare(db)
        for number, reference in enumerate(({"api_key_env": "MODEL_KEY"}, {"api_key_file": path})):
            corpus = modelled(db, provider(db, endpoint, concurrency=1, timeout=0.5, **reference))
            statement = []
            assert faults(work(db, corpus, ["a"])) == [None]
            for kind in ("unauthorized", "reset", "html", "bad_request"):
                details = {"message": f"Incorrect API key provided: {(by_env, by_file)[number]}."}
                endpoint.misbehave(kind, times=None, **details)
                statement.append(messages(work(db, corpus, [f"a {kind}"])) + messages(ask(db, corpus, [f"b {kind}"])))
                found = rows(db, "SELECT detail, hint FROM graphrag.check_provider(corpus => %s)", corpus)
                statement.append(repr(found))
                endpoint.behave()
                db.execute("SELECT graphrag.retry_failed()")
            endpoint.pause()
            hanging = Background(db.url, work_statement(corpus, ["c"]))
            wait_for(lambda: endpoint.in_flight == 1, "a call on its way")
            seen = repr(rows(db, "SELECT * FROM pg_stat_activity"))
            endpoint.resume()
            hanging.finish()
            assert by_env not in "".join(statement) + seen
            assert by_file not in "".join(statement) + seen
        sent = [request.headers["authorization"] for request in endpoint.requests]
        assert set(sent) == {f"Bearer {by_env}", f"Bearer {by_file}"}
        stored = "".join(
            repr(rows(db, f"SELECT * FROM graphrag.{table}"))
            for table in ("providers", "provider_state", "llm_calls", "llm_cache", "jobs")
        )
    for where in (stored, own_cluster.dump("keys"), own_cluster.log):
        assert by_env not in where
        assert by_file not in where


def test_a_key_that_is_not_there_is_named_by_its_place(db: Database, endpoint: Endpoint) -> None:
    prepare(db)
    for reference, words in (
        ({"api_key_env": "NO_SUCH_KEY"}, "in environment variable NO_SUCH_KEY"),
        ({"api_key_file": "/no/such/file"}, "in file /no/such/file"),
        ({"api_key_file": "/etc/passwd"}, "in file /etc/passwd"),  # several lines
        ({"api_key_file": "/dev/zero"}, "in file /dev/zero"),  # no end
    ):
        corpus = modelled(db, provider(db, endpoint, **reference))
        assert words in messages(work(db, corpus, ["a"]))
    assert endpoint.count() == 0


def test_azure_is_asked_with_api_key_and_version(db: Database, cluster: Callable[..., Cluster]) -> None:
    prepare(db)
    with Endpoint(key="C.UTF-8") as endpoint:  # what the server's LANG happens to be
        endpoint.reply('{"answer": 42}')
        azure = provider(
            db,
            endpoint,
            api_key_env="LANG",
            auth="api-key",
            query={"api-version": "2024-10-21"},
            headers={"x-team": "a"},
        )
        assert faults(work(db, modelled(db, azure), ["a"])) == [None]
        (request,) = endpoint.requests
        assert request.path == "/v1/chat/completions?api-version=2024-10-21"
        assert request.headers["api-key"] == "C.UTF-8"
        assert request.headers["x-team"] == "a"
        assert "authorization" not in request.headers


def test_an_endpoint_without_a_key_is_sent_none(db: Database, endpoint: Endpoint) -> None:
    prepare(db)
    assert faults(work(db, modelled(db, provider(db, endpoint)), ["a"])) == [None]
    assert not {"authorization", "api-key", "openai-organization"} & set(endpoint.requests[0].headers)


def test_the_servers_proxy_is_not_asked_for_an_endpoint_on_its_own_machine(
    cluster: Callable[..., Cluster], endpoint: Endpoint
) -> None:
    with Endpoint() as proxy:
        address = proxy.url.removesuffix("/v1")
        own_cluster = cluster(environment={"HTTP_PROXY": address, "http_proxy": address, "ALL_PROXY": address})
        own_cluster.create_database("proxied")
        with own_cluster.connect("proxied") as db:
            db.execute("CREATE EXTENSION pg_graphrag CASCADE")
            prepare(db)
            assert faults(work(db, modelled(db, provider(db, endpoint)), ["a"])) == [None]
            assert endpoint.count() == 1
            db.execute(SET, ["far", "openai", "http://models.invalid/v1", None, None, Jsonb({})])
            work(db, modelled(db, "far"), ["a"])
        assert [request.path for request in proxy.requests] == ["http://models.invalid/v1/chat/completions"]


def test_progress_says_what_waits_and_why(db: Database) -> None:
    db.execute("SELECT graphrag.create_corpus('c')")
    db.execute("INSERT INTO graphrag.documents (corpus, source_key, content) VALUES ('c', 'a', 'x'), ('c', 'b', 'y')")
    progress = "SELECT jobs, waiting, waiting_for, waiting_until > now() FROM graphrag.progress WHERE corpus = 'c'"
    assert rows(db, progress) == [(2, 0, None, None)]
    db.execute(
        "UPDATE graphrag.jobs SET last_error = 'the monthly budget is reached', next_attempt_at = now() + interval '1 h'"
        " WHERE document_id = (SELECT id FROM graphrag.documents WHERE source_key = 'a')"
    )
    assert rows(db, progress) == [(2, 1, "the monthly budget is reached", True)]
    db.execute("SELECT graphrag.retry_failed('c')")
    assert rows(db, progress)[0][1] == 0
