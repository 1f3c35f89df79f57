"""The same documents and calls on both hosts give the same rows: the server with the extension, and a process beside a plain one.

Ids are compared too: both databases are new, and one worker does the same jobs in the same order.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.client import hosts as client_hosts
from pg_graphrag.beside.process import schema
from pg_graphrag.beside.process.session import Session
from psycopg.conninfo import make_conninfo

from tests.endpoint import Endpoint
from tests.runtime import versions
from tests.runtime.cluster import Cluster, Database, Server
from tests.sql.linked_nodes import link, unlink
from tests.sql.two_hosts import (
    MODES,
    OPEN,
    OWNER,
    QUESTION,
    Host,
    Hosts,
    close,
    outcome,
    plain_database,
    plain_values,
    reply,
    role_of_both,
    same,
    superuser_url,
)

REPLY = reply

# Some of what the owner alone may call.
OWNERS_CALLS: dict[str, dict[str, Any]] = {
    "set_provider": {"name": "x", "kind": "openai", "base_url": "http://x"},
    "merge_entities": {"entities": ["Enigma"], "target": "Bombe"},
    "estimate_ask": {"question": "Enigma?"},
    "create_corpus": {"name": "new"},
    "fingerprint": {},
    "process_jobs": {},
    "prune": {},
}


def test_the_same_is_made_of_documents_and_nothing_is_wrong(hosts: Hosts) -> None:
    assert same(hosts, lambda rag: rag.call("fingerprint_sections"))
    assert same(hosts, lambda rag: rag.call("fingerprint"))
    assert same(hosts, lambda rag: rag.call("check")) == []
    assert same(hosts, lambda rag: rag.failed_jobs()) == []


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_finds_the_same_rows_for_the_same_reasons(hosts: Hosts, mode: str) -> None:
    assert same(hosts, lambda rag: rag.search(QUESTION, mode=mode))
    assert same(hosts, lambda rag: rag.search(QUESTION, mode=mode, filter={"open": True}, top_k=3))


def test_several_corpora_give_the_same_rows(hosts: Hosts) -> None:
    for host in hosts:
        other = GraphRAG(host.url, "other")
        other.create_corpus(cypher=False)
        other.insert(Document("Enigma was broken at Bletchley Park.", "bletchley"))
        other.process_jobs()
    try:
        assert same(hosts, lambda rag: rag.search(QUESTION, corpora=["stories", "other"], corpus_timeout=60))
        assert same(hosts, lambda rag: rag.search(QUESTION, corpora=["*"], top_k=3))
        for arguments in (
            {"corpora": ["nobody's"]},
            {"corpora": [], "top_k": 1},
            {"corpora": ["other"], "corpus_timeout": 1e-10},
        ):
            assert same(hosts, lambda rag, arguments=arguments: rag.search(QUESTION, **arguments))[1]
    finally:
        for host in hosts:
            host.rag.call("drop_corpus", name="other")


def test_a_process_asks_another_node_as_a_database_does(hosts: Hosts, fresh_db: Database) -> None:
    process = hosts[1]
    if versions.VERSION:
        pytest.skip("the server of another version has no postgres_fdw")
    with GraphRAG(fresh_db.url, "there") as there, Database.open(process.url) as connection:
        there.create_corpus(cypher=False)
        there.insert(Document("Enigma was broken at Bletchley Park.", "bletchley"))
        there.process_jobs()
        with psycopg.connect(superuser_url(process.url), autocommit=True) as superuser:
            superuser.execute("CREATE EXTENSION postgres_fdw")
            superuser.execute(f"GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO {OWNER}".encode())
        link(connection, "b", fresh_db.url)
        connection.execute("SELECT graphrag.place_corpus('there', 'b')")
        # A connection that is handed in is asked itself: the client goes to no other.
        rag = GraphRAG(connection, "there")
        assert rag.search(QUESTION) == there.search(QUESTION) != []
        found = rag.search(QUESTION, corpora=["stories", "there"])
        assert {row.corpus for row in found} == {"stories", "there"}
        assert 'node "b"' in str(outcome(lambda: rag.search(QUESTION, mode="bm25", rrf_k=0)))
        unlink(connection, "b")
        with pytest.raises(psycopg.errors.UndefinedObject):
            rag.search(QUESTION)


@pytest.fixture
def slow_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements of the process that take a while each, none of them long."""
    run = Session.run

    def run_late(session: Session, *arguments: Any, **named: Any) -> Any:
        time.sleep(0.1)
        return run(session, *arguments, **named)

    monkeypatch.setattr(Session, "run", run_late)


def test_a_corpus_has_its_time_for_all_of_its_statements(hosts: Hosts, slow_link: None) -> None:
    start = time.monotonic()
    with pytest.raises(psycopg.Error, match=r"it took longer than 0\.3 s") as error:
        hosts[1].rag.search(QUESTION, corpora=["stories"], corpus_timeout=0.3)
    assert error.value.sqlstate == "57014"
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("seconds", [0.5, 30.0])
def test_a_cancel_ends_the_call_and_not_one_corpus(hosts: Hosts, slow_link: None, seconds: float) -> None:
    with psycopg.connect(hosts[1].url, autocommit=True) as connection:
        rag = GraphRAG(connection, "stories")
        rag.call("create_corpus", name="later")
        # While a corpus has had its time, too: the next statement is the first of the other.
        timer = threading.Timer(0.7, client_hosts.cancel, [connection])
        try:
            timer.start()
            with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
                rag.search(QUESTION, corpora=["stories", "later"], corpus_timeout=seconds)
        finally:
            timer.join()
            rag.call("drop_corpus", name="later")


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_makes_the_same_context(hosts: Hosts, mode: str) -> None:
    assert same(hosts, lambda rag: rag.context(QUESTION, mode=mode, max_tokens=2000))["prompt"]


@pytest.mark.parametrize("mode", ["hybrid", "graph_global", "drift", "lazy"])
def test_a_model_is_asked_the_same_and_answers_the_same(hosts: Hosts, module_endpoint: Endpoint, mode: str) -> None:
    prompts = []
    for host in hosts:
        module_endpoint.forget()
        host.rag.call("prune")
        prompts.append(sorted(request.text for request in module_endpoint.requests))
    assert prompts[0] == prompts[1]
    answer = same(hosts, lambda rag: rag.ask(QUESTION, mode=mode))
    assert answer.citations
    # From the cache, which the first call has written.
    assert same(hosts, lambda rag: rag.ask(QUESTION, mode=mode)).usage["calls"] == 0
    assert "".join(same(hosts, lambda rag: list(rag.ask_stream(QUESTION, mode=mode)))) == answer.answer
    accounts = "SELECT purpose, model, tokens_in, tokens_out, cost, error FROM graphrag.llm_calls ORDER BY 1, 2, 3, 4"
    assert hosts[0].rows(accounts) == hosts[1].rows(accounts)


@pytest.mark.parametrize(
    "call",
    [
        lambda rag: rag.neighbors("Ada Lovelace", 2),
        lambda rag: rag.search_entities(QUESTION),
        lambda rag: rag.search_relationships(QUESTION),
        lambda rag: rag.understand(QUESTION),
        lambda rag: rag.estimate_ask(QUESTION),
        lambda rag: rag.search_reports("a group"),
        lambda rag: rag.call("graph_nodes_at", at="2090-01-01T00:00:00Z"),
        lambda rag: rag.call("graph_edges_at", at="2090-01-01T00:00:00Z"),
        lambda rag: rag.call("to_mermaid", entity="Ada Lovelace", hops=2),
        lambda rag: rag.suggest_merges(),
        lambda rag: rag.call("estimate_cost"),
        lambda rag: rag.call("optimize"),
        lambda rag: [
            dataclasses.replace(row, p50_ms=0.0, p95_ms=0.0)
            for row in rag.evaluate([{"question": "Who broke Enigma?", "evidence": ["turing"]}])
        ],
    ],
    ids=[
        *("neighbors", "entities", "relationships", "understand", "estimate_ask", "reports", "nodes_at", "edges_at"),
        *("mermaid", "merges", "cost", "optimize", "evaluate"),
    ],
)
def test_other_calls_return_the_same(hosts: Hosts, call: Callable[[GraphRAG], Any]) -> None:
    assert same(hosts, call) is not None


@pytest.mark.parametrize(
    "call",
    [
        lambda rag: GraphRAG(rag._source, "nobody's").search("x"),
        lambda rag: rag.search("x", mode="nonsense"),
        lambda rag: rag.search("x", top_k=-1),
        lambda rag: rag.search("x", nonsense=1),
        lambda rag: rag.context("x", max_tokens=-1),
        lambda rag: rag.ask(""),
        lambda rag: rag.create_corpus(),
        lambda rag: rag.alter_corpus(nonsense=1),
        lambda rag: rag.process_jobs(-1),
        lambda rag: rag.evaluate([{"question": "x", "evidence": []}], modes=[["bm25"]]),
        lambda rag: rag.search("x", low_level_keywords=[["Ada"], ["Enigma"]]),
        lambda rag: rag.call("undo_curation", id=10**6),
        lambda rag: rag.call("merge_entities", entities=["Nobody"], target="Ada Lovelace"),
        lambda rag: rag.call("set_provider", name="x", kind="openai", base_url="ftp://x"),
    ],
)
def test_what_is_refused_is_refused_in_the_same_words(hosts: Hosts, call: Callable[[GraphRAG], Any]) -> None:
    kind, sqlstate, message, _, _ = same(hosts, call)
    assert kind and sqlstate and message


def test_a_restricted_reader_gets_the_same_part_and_nothing_else(hosts: Hosts, module_db: Database) -> None:
    with role_of_both(module_db, hosts[1].url, "IN ROLE graphrag_reader") as reader:
        for host in hosts:
            host.rows("SELECT graphrag.protect('stories', %s)", OPEN)
        try:
            for mode in MODES:
                collected = []
                for host in hosts:
                    with host.as_role(reader) as rag:
                        collected.append(
                            plain_values(
                                [
                                    rag.search(QUESTION, mode=mode),
                                    rag.context(QUESTION, mode=mode),
                                    rag.neighbors("Enigma"),
                                ]
                            )
                        )
                assert close(*collected), mode
                keys = {row["source_key"] for row in collected[1][0]}
                shown = {key for (key,) in hosts[1].rows(f"SELECT source_key FROM graphrag.documents WHERE {OPEN}")}
                assert keys <= shown
            assert hosts[1].rag.search("Alan Turing", top_k=100) != []
            # What is the owner's stays so: in SQL, and in calls for owners.
            for host in hosts:
                with host.as_role(reader) as rag:
                    connection: Any = rag._source
                    assert outcome(lambda c=connection: c.execute("SELECT FROM graphrag.chunks"))[1] == "42501"
                    for function, arguments in OWNERS_CALLS.items():
                        refused = outcome(lambda r=rag, f=function, a=arguments: r.call(f, **a))
                        kind = "procedure" if function == "process_jobs" else "function"
                        assert refused[1:3] == ("42501", f"permission denied for {kind} {function}")
                    assert connection.execute("SELECT current_user").fetchone() == (reader,)
        finally:
            for host in hosts:
                host.rows("SELECT graphrag.unprotect('stories')")


VIEWS = {
    "graph_nodes": "entity_id, key, name, type, description, degree, mention_count",
    "graph_edges": "relationship_id, source, source_type, target, target_type, keyword_list, description, weight, mention_count,"
    " pmi, strength",
    "graph_mentions": "name, type, source_key, title, day, metadata",
    "document_coverage": "source_key, chunks, windows, tokens, entities, relationships",
    "entity_timeline": "name, day, documents, mentions",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("condition", [OPEN, "true", "false"], ids=["part", "all", "none"])
def test_who_connects_as_a_reader_sees_the_same_in_views(hosts: Hosts, module_db: Database, condition: str) -> None:
    """Without a process: by SQL alone."""
    with role_of_both(module_db, hosts[1].url, "LOGIN PASSWORD 'x' IN ROLE graphrag_reader") as reader:
        for host in hosts:
            host.rows("SELECT graphrag.protect('stories', %s)", condition)
        try:
            for view, columns in VIEWS.items():
                read = f"SELECT {columns} FROM graphrag.{view} WHERE corpus = 'stories' ORDER BY {columns}"
                server, process = (
                    psycopg.connect(make_conninfo(host.url, user=reader, password="x"))
                    .execute(read.encode())
                    .fetchall()
                    for host in hosts
                )
                assert close(server, process), view
                assert (process != []) == (condition != "false"), view
                assert (process != hosts[1].rows(read)) == (condition != "true"), view
        finally:
            for host in hosts:
                host.rows("SELECT graphrag.unprotect('stories')")


def test_the_queue_does_the_same_with_changes(hosts: Hosts) -> None:
    def change(rag: GraphRAG) -> Any:
        rag.insert([Document("Hedy Lamarr met Ada Lovelace in Vienna.", "hedy"), Document("", "empty")])
        rag.process_jobs(1)
        between = dataclasses.replace(rag.progress(), oldest_pending=None)
        rag.delete("nemo")
        rag.insert(Document("Alan Turing left Bletchley Park.", "turing"))
        rag.process_jobs()
        return between, dataclasses.asdict(rag.progress()), rag.call("fingerprint"), rag.call("check")

    for host in hosts:
        assert host.rag.call("check") == []
    changed = same(hosts, lambda rag: [plain_values(part) for part in change(rag)])
    assert changed[-1] == []


@pytest.mark.slow
def test_options_of_a_corpus_that_says_nothing_of_cypher_change_on_either_host(hosts: Hosts) -> None:
    for host in hosts:
        with GraphRAG(host.url, "altered") as rag:
            rag.create_corpus()
            rag.insert(Document("Ada Lovelace met Charles Babbage.", "ada"))
            rag.process_jobs()
            rag.alter_corpus(query_log=True)
            host.rows("SELECT graphrag.repair()")
            assert rag.call("check") == [] and [row.source_key for row in rag.search("Babbage")] == ["ada"]
            rag.drop_corpus()


@pytest.mark.slow
def test_curations_and_their_end_make_the_same_graph(hosts: Hosts) -> None:
    def curate(rag: GraphRAG) -> Any:
        calls = [
            ("create_entity", {"name": "Byron", "type": "PERSON", "description": "A poet."}),
            ("create_relationship", {"source": "Byron", "target": "Ada Lovelace", "keywords": ["father"], "weight": 2}),
            ("merge_entities", {"entities": ["Enigma machine"], "target": "Enigma"}),
            ("edit_entity", {"entity": "Harvard", "type": "PLACE"}),
            ("rename_entity", {"entity": "London", "new_name": "London Town"}),
            ("delete_entity", {"entity": "Bombe"}),
        ]
        prints = []
        numbers = []
        for function, arguments in calls:
            numbers.append(outcome(lambda f=function, a=arguments: getattr(rag, f)(**a)))
            prints.append(rag.call("fingerprint"))
        for number in reversed(numbers):
            if isinstance(number, int):
                rag.undo_curation(number)
        return numbers, prints, rag.call("fingerprint"), rag.call("check")

    before = hosts[1].rag.call("fingerprint_sections")
    numbers, _, _, violations = same(hosts, curate)
    assert violations == [] and any(isinstance(number, int) for number in numbers)
    after = hosts[1].rag.call("fingerprint_sections")
    entities = [{row["section"]: row["hash"] for row in rows}["entities"] for rows in (before, after)]
    assert entities[0] == entities[1]


def test_who_may_not_act_for_the_owner_is_refused(plain: str, hosts: Hosts, module_db: Database) -> None:
    with (
        role_of_both(module_db, plain, "LOGIN PASSWORD 'x' IN ROLE graphrag_reader") as reader,
        psycopg.connect(make_conninfo(plain, user=reader, password="x"), autocommit=True) as connection,
    ):
        rag = GraphRAG(connection, "stories")
        _, sqlstate, message, _, hint = outcome(lambda: rag.search("Enigma"))
        assert sqlstate == "42501" and OWNER in message and "options=-c role" in hint
        # Nor by SQL: the doors to the owner's rights are not there.
        for statement in ("SELECT graphrag._enter('x')", "SELECT * FROM graphrag.search('Enigma')"):
            assert outcome(lambda s=statement: connection.execute(s))[1] == "0A000"


@pytest.mark.parametrize(
    "call",
    [lambda rag: rag.cypher("MATCH (n) RETURN n"), lambda rag: rag.alter_corpus(cypher=True)],
    ids=["cypher", "option cypher"],
)
def test_what_a_plain_database_lacks_says_so(hosts: Hosts, call: Callable[[GraphRAG], Any]) -> None:
    _, sqlstate, _, _, hint = outcome(lambda: call(hosts[1].rag))
    assert sqlstate == "0A000" and hint


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM graphrag.search('Enigma')",
        "CALL graphrag.process_jobs()",
        "SELECT graphrag.rebuild_graph('stories')",
        "SELECT graphrag.uninstall()",
    ],
)
def test_sql_that_needs_the_servers_python_or_age_says_so(hosts: Hosts, statement: str) -> None:
    _, sqlstate, _, _, hint = outcome(lambda: hosts[1].rows(statement))
    assert sqlstate == "0A000" and hint


def superuser_of(host: Host, db: Database) -> psycopg.Connection[Any]:
    """A superuser's session in the database of a host."""
    return psycopg.connect(db.url if host.name == "server" else superuser_url(host.url), autocommit=True)


@contextmanager
def notes_of(host: Host, db: Database, app: str) -> Iterator[psycopg.Connection[Any]]:
    """A table of a role, which may attach tables to a corpus "attached"; a session that has taken on the role."""
    with superuser_of(host, db) as superuser, GraphRAG(host.url, "attached") as rag:
        rag.create_corpus(cypher=False)
        superuser.execute(
            f"GRANT USAGE ON SCHEMA graphrag TO {app}; GRANT SELECT, INSERT, UPDATE, DELETE ON graphrag.documents TO {app};"
            f" GRANT EXECUTE ON ROUTINE graphrag.attach_table, graphrag.detach_table, graphrag.backfill_table TO {app};"
            f" CREATE SCHEMA app AUTHORIZATION {app}; SET ROLE {app}".encode()
        )
        superuser.execute("CREATE TABLE app.notes (id int PRIMARY KEY, body text, lang text)")
        superuser.execute("INSERT INTO app.notes VALUES (1, 'Ada Lovelace was a countess.', 'en'), (2, 'Gone.', 'en')")
        try:
            yield superuser
        finally:
            superuser.execute("RESET ROLE")
            superuser.execute(
                "SELECT graphrag.detach_table(c, keep_documents => false) FROM to_regclass('app.notes') c"
                " WHERE EXISTS (SELECT FROM graphrag.attached_tables)"
            )
            superuser.execute(f"DROP OWNED BY {app} CASCADE".encode())
            rag.process_jobs()
            rag.drop_corpus()


@pytest.mark.slow
def test_an_attached_table_of_another_role_feeds_its_corpus(hosts: Hosts, module_db: Database) -> None:
    documents = []
    with role_of_both(module_db, hosts[1].url, "LOGIN PASSWORD 'x'") as app:
        for host in hosts:
            with notes_of(host, module_db, app) as session:
                session.execute(
                    "SELECT graphrag.attach_table('app.notes', 'attached', 'id', '{body}', metadata_columns => '{lang}')"
                )
                session.execute("UPDATE app.notes SET body = body || ' She wrote.' WHERE id = 1")
                session.execute("INSERT INTO app.notes VALUES (3, 'Charles Babbage had an engine.', 'en')")
                session.execute("DELETE FROM app.notes WHERE id = 2")
                session.execute("ALTER TABLE app.notes DISABLE TRIGGER USER")
                session.execute("INSERT INTO app.notes VALUES (4, 'Past the triggers.', 'en')")
                session.execute("ALTER TABLE app.notes ENABLE TRIGGER USER")
                # Reads as who logs in, in the server and by a process.
                with psycopg.connect(make_conninfo(host.url, user=app, password="x"), autocommit=True) as connection:
                    GraphRAG(connection, "attached").call("backfill_table", source="app.notes")
                host.rag.process_jobs()
                documents.append(
                    host.rows(
                        "SELECT source_key, content, metadata, status FROM graphrag.documents"
                        " WHERE corpus = 'attached' ORDER BY 1"
                    )
                )
                assert host.rag.call("check", corpus="attached") == []
                # To own a function took CREATE on its schema, for that moment alone.
                may_create = "SELECT has_schema_privilege(%s, 'graphrag_attached', 'CREATE')"
                assert host.rows(may_create, app) == [(False,)]
    assert documents[0] == documents[1] and [row[0] for row in documents[1]] == ["1", "3", "4"]


def test_a_table_of_a_role_that_the_owner_is_no_member_of_is_refused(hosts: Hosts, module_db: Database) -> None:
    with (
        role_of_both(module_db, hosts[1].url) as app,
        psycopg.connect(superuser_url(hosts[1].url), autocommit=True) as superuser,
    ):
        superuser.execute(f"REVOKE {app} FROM {OWNER}".encode())
        with notes_of(hosts[1], module_db, app) as session:
            attach = "SELECT graphrag.attach_table('app.notes', 'attached', 'id', '{body}')"
            _, sqlstate, message, _, hint = outcome(lambda: session.execute(attach))
            assert sqlstate == "42501" and app in message and f"GRANT {app} TO {OWNER}" in hint


def test_decimals_stay_decimals(hosts: Hosts) -> None:
    weights = [row.weight for row in same(hosts, lambda rag: rag.neighbors("Ada Lovelace"))]
    assert weights and all(isinstance(weight, Decimal) for weight in weights)


def test_a_role_that_somebody_else_may_grant_is_refused(shared_cluster: Cluster | Server, module_db: Database) -> None:
    with (
        plain_database(shared_cluster, schema_too=False) as url,
        role_of_both(module_db, url) as mallory,
        psycopg.connect(superuser_url(url), autocommit=True) as superuser,
    ):
        superuser.execute(f"GRANT graphrag_reader TO {mallory} WITH ADMIN OPTION".encode())
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may grant it") as raised:
                    schema.install(connection)
                assert raised.value.diag.message_hint
                assert connection.execute("SELECT to_regnamespace('graphrag')").fetchone() == (None,)
        finally:
            superuser.execute(f"REVOKE graphrag_reader FROM {mallory}".encode())
