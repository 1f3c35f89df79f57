"""Clients and the command follow the catalogue: one corpus wherever it is, and several side by side."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pg_graphrag import AsyncGraphRAG, GraphRAG
from pg_graphrag.beside.client import SearchResult, hosts, nodes
from pg_graphrag.ground.errors import GraphRAGError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.runtime.cluster import Cluster, Server
from tests.runtime.nodes import ASKS_FOR_A_PASSWORD, Node, fill, nodes_of, place, silent_server
from tests.security.acting import new_role
from tests.sql.ingest import ROCKETS, STORIES
from tests.sql.themes import SEA
from tests.sql.two_hosts import OWNER, plain_database

QUESTION = "Who admired Ada Lovelace at Harvard?"
LAUNCHERS = {key: text for key, (_, text) in ROCKETS.items()}
PLACES = {"sea": "a", "stories": "b", "rockets": "c"}
# Enough for new sessions on a busy machine.
SECONDS = 6.0
CORPORA = {"sea": SEA, "stories": STORIES, "rockets": LAUNCHERS}


@pytest.fixture(scope="module")
def three(shared_cluster: Cluster | Server) -> Iterator[dict[str, Node]]:
    """Three databases of one server, a corpus in each, and one, d, that has all of them and that nobody knows."""
    with nodes_of(dict.fromkeys("abc", shared_cluster)) as three, nodes_of({"d": shared_cluster}) as alone:
        for corpus, name in PLACES.items():
            fill(three[name], corpus, CORPORA[corpus])
            place(three, corpus, name)
            with (
                psycopg.connect(three[name].url, autocommit=True) as source,
                psycopg.connect(alone["d"].url, autocommit=True) as target,
            ):
                hosts.copy_corpus(source, target, corpus)
        yield three | alone


def rows_without_ids(hits: list[SearchResult]) -> list[SearchResult]:
    """Rows without numbers, which are each database's own."""
    return [replace(hit, chunk_id=0, document_id=0, explain=_without_ids(hit.explain)) for hit in hits]


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_ids(item) for name, item in value.items() if not name.endswith(("id", "ids"))}
    return [_without_ids(item) for item in value] if isinstance(value, list) else value


def test_a_client_goes_where_its_corpus_is(three: dict[str, Node]) -> None:
    with GraphRAG(three["b"].url, "stories") as there, GraphRAG(three["a"].url, "stories") as rag:
        assert rows_without_ids(rag.search(QUESTION)) == rows_without_ids(there.search(QUESTION)) != []
        assert rag.progress().documents == len(STORIES)
        assert rag.get("ada") == there.get("ada") != []
        assert "".join(rag.ask_stream(QUESTION))
        assert rag.insert({"source_key": "new", "content": "Konrad Zuse built the Z3."}).inserted == 1
        rag.process_jobs()
        assert there.wait_indexed(["new"]).indexed == 1
        assert rag.delete("new") == 1
        rag.process_jobs()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What clients that wait send from now on; of what was refused, its error."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def noted(cursor: Any, query: Any, *values: Any, **options: Any) -> Any:
        sent.append(str(query))
        try:
            return execute(cursor, query, *values, **options)
        except psycopg.Error as error:
            sent.append(f"refused: {error}")
            raise

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    return sent


def test_who_has_one_database_sends_no_statement_for_nodes(three: dict[str, Node], statements: list[str]) -> None:
    three["d"].execute("TRUNCATE graphrag.nodes, graphrag.placements")
    with GraphRAG(three["d"].url, "sea") as rag:
        assert rag.search("Who is Nemo?")
        assert rag.insert({"source_key": "new", "content": "Ada Lovelace."}).inserted == 1
        assert rag.insert({"source_key": "new", "content": "Ada Lovelace."}).inserted == 0
        assert rag.delete("new") == 1
    assert not [statement for statement in statements if "_placed(" in statement or "refused" in statement]


def test_a_connection_that_may_not_ask_for_nodes_does_not(three: dict[str, Node], statements: list[str]) -> None:
    with psycopg.connect(three["a"].url, autocommit=True) as owner, new_role(owner) as role:
        owner.execute(f"GRANT pg_monitor TO {role}".encode())
        statements.clear()
        with GraphRAG(make_conninfo(three["a"].url, options=f"-c role={role}"), "stories") as rag:
            assert rag.metrics()
        assert not [statement for statement in statements if "_placed(" in statement or "refused" in statement]
        owner.execute(f"REVOKE pg_monitor FROM {role}".encode())
        statements.clear()
        with (
            GraphRAG(make_conninfo(three["a"].url, options=f"-c role={role}"), "stories") as rag,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            rag.search(QUESTION)
        # The call itself.
        assert len([statement for statement in statements if "refused" in statement]) == 1


def test_an_insert_follows_a_corpus_that_was_here_when_the_client_connected(three: dict[str, Node]) -> None:
    alone = three["d"]
    alone.execute("TRUNCATE graphrag.nodes, graphrag.placements")
    fill(alone, "leaving", LAUNCHERS)
    fill(three["c"], "leaving", LAUNCHERS)
    more = ({"source_key": f"new-{number}", "content": "Konrad Zuse built the Z3."} for number in range(3))
    try:
        with GraphRAG(alone.url, "leaving") as rag:
            assert rag.get("kes")
            alone.execute("SELECT graphrag.drop_corpus('leaving'), graphrag.add_node('c', %s)", three["c"].place)
            alone.execute("SELECT graphrag.place_corpus('leaving', 'c')")
            assert rag.insert(more).inserted == 3
        place(three, "nowhere", "b", "a")
        place(three, "nowhere", "a", "b")
        with GraphRAG(three["a"].url, "nowhere") as rag, pytest.raises(psycopg.errors.UndefinedObject, match="nowhere"):
            rag.insert("A text that no node takes.")
    finally:
        place(three, "nowhere", None, "ab")
        three["c"].execute("SELECT graphrag.drop_corpus('leaving')")
        alone.execute("TRUNCATE graphrag.nodes, graphrag.placements")


def test_a_replica_knows_the_nodes_too(three: dict[str, Node]) -> None:
    down = make_conninfo(three["a"].url, port="1")
    with GraphRAG(down, "sea", replicas=[three["a"].url]) as rag:
        assert {hit.corpus for hit in rag.search(QUESTION, corpora=["sea"])} == {"sea"}
        hits = rag.search(QUESTION, corpora=["sea", "stories"])
        assert {hit.corpus for hit in hits} == {"sea", "stories"} and "unanswered" not in hits[0].explain
    with GraphRAG(down, "sea") as rag, pytest.raises(psycopg.OperationalError):
        rag.search(QUESTION, corpora=["sea"])


def test_work_is_done_at_the_node_also_by_a_client_that_did_nothing_before(three: dict[str, Node]) -> None:
    with GraphRAG(three["b"].url, "stories") as there:
        there.insert({"source_key": "new", "content": "Konrad Zuse built the Z3."})
        with GraphRAG(three["a"].url, "stories") as rag:
            rag.process_jobs()
        assert there.progress().pending == 0
        there.delete("new")
        there.process_jobs()


def test_a_client_on_asyncio_goes_there_too(three: dict[str, Node]) -> None:
    async def main() -> None:
        async with AsyncGraphRAG(three["a"].url, "stories") as rag:
            assert (await rag.search(QUESTION))[0].corpus == "stories"
            assert await rag.get("ada")
            assert [piece async for piece in rag.ask_stream(QUESTION)]

    asyncio.run(main())


def test_a_corpus_that_moves_is_found_again(three: dict[str, Node]) -> None:
    fill(three["b"], "moving", LAUNCHERS)
    place(three, "moving", "b", "a")
    with GraphRAG(three["a"].url, "moving") as rag, GraphRAG(three["a"].url, "moving") as reader:
        assert rag.search("Kestrel")
        assert reader.get("kes")
        with (
            psycopg.connect(three["b"].url, autocommit=True) as source,
            psycopg.connect(three["c"].url, autocommit=True) as target,
        ):
            hosts.copy_corpus(source, target, "moving")
        three["b"].execute("SELECT graphrag.drop_corpus('moving')")
        place(three, "moving", "c", "a")
        assert rag.search("Kestrel")
        # What is no call of a function finds nothing where it was.
        assert reader.get("kes")
        assert rag.insert({"source_key": "new", "content": "Konrad Zuse built the Z3."}).inserted == 1
        # Back to the database of the URL.
        with (
            psycopg.connect(three["c"].url, autocommit=True) as source,
            psycopg.connect(three["a"].url, autocommit=True) as target,
        ):
            hosts.copy_corpus(source, target, "moving")
        three["c"].execute("SELECT graphrag.drop_corpus('moving')")
        place(three, "moving", None, "a")
        assert rag.search("Kestrel") and rag.get("new")
        rag.drop_corpus()
        with pytest.raises(psycopg.errors.UndefinedObject):
            rag.search("Kestrel")


def test_a_stale_catalogue_leads_on_and_a_circle_ends(three: dict[str, Node]) -> None:
    place(three, "stale", "b", "a")
    place(three, "stale", "c", "b")
    fill(three["c"], "stale", LAUNCHERS)
    with GraphRAG(three["a"].url, "stale") as rag:
        assert rag.search("Kestrel")
        assert {hit.corpus for hit in rag.search("Kestrel", corpora=["stale", "sea"])} == {"stale", "sea"}
    place(three, "nowhere", "b", "a")
    place(three, "nowhere", "a", "b")
    begin = time.monotonic()
    with GraphRAG(three["a"].url, "nowhere") as rag, pytest.raises(psycopg.errors.UndefinedObject, match="nowhere"):
        rag.search("Kestrel")
    assert time.monotonic() - begin < 30
    three["c"].execute("SELECT graphrag.drop_corpus('stale')")
    for name in ("stale", "nowhere"):
        place(three, name, None)


def test_a_connection_stays_where_it_is_and_its_error_says_where_the_corpus_is(three: dict[str, Node]) -> None:
    with psycopg.connect(three["a"].url) as connection, pytest.raises(psycopg.errors.UndefinedObject) as raised:
        GraphRAG(connection, "stories").search(QUESTION)
    assert raised.value.diag.message_detail == three["b"].place


@pytest.mark.sample(2)
@pytest.mark.parametrize("corpora", [["stories", "rockets"], ["sea", "stories", "rockets"], ["*"]])
@pytest.mark.parametrize("mode", ["hybrid", "bm25"])
def test_several_corpora_of_several_nodes_are_as_those_of_one_database(
    three: dict[str, Node], corpora: list[str], mode: str
) -> None:
    async def by_tasks(url: str, **arguments: Any) -> list[SearchResult]:
        async with AsyncGraphRAG(url, "stories") as rag:
            return await rag.search(QUESTION, corpora=corpora, mode=mode, **arguments)

    with GraphRAG(three["a"].url) as rag, GraphRAG(three["d"].url) as alone:
        for arguments in (
            {},
            {"top_k": 3},
            {"top_k": 2, "offset": 3},
            {"min_relevance": 0.2},
            {"top_k": 4, "offset": 1, "min_relevance": 0.3},
            {"filter": {"none": 1}},
        ):
            expected = rows_without_ids(alone.search(QUESTION, corpora=corpora, mode=mode, **arguments))
            assert rows_without_ids(rag.search(QUESTION, corpora=corpora, mode=mode, **arguments)) == expected, (
                arguments
            )
            assert rows_without_ids(asyncio.run(by_tasks(three["a"].url, **arguments))) == expected, arguments


def test_what_the_caller_gave_is_wrong_wherever_the_corpora_are(three: dict[str, Node]) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"mode": "none"}, "22023"),
        ({"top_k": -1}, "22023"),
        ({"offset": -1}, "22023"),
        ({"offset": "x"}, "22023"),
        ({"min_relevance": 2}, "22023"),
        ({"corpus_timeout": -1}, "22023"),
        ({"corpora": ["stories", "unknown"]}, "42704"),
        ({"corpora": ["stories", None]}, "22004"),
    ]
    with GraphRAG(three["a"].url) as rag:
        for arguments, sqlstate in wrong:
            with pytest.raises(psycopg.Error) as raised:
                rag.search(QUESTION, **{"corpora": ["sea", "stories"], **arguments})
            assert raised.value.sqlstate == sqlstate, arguments


@pytest.mark.parametrize("names", [["stories", "sea", "far", "gone"], pytest.param(["*"], marks=pytest.mark.slow)])
def test_a_node_that_does_not_answer_is_named_and_the_others_answer(three: dict[str, Node], names: list[str]) -> None:
    with silent_server() as (port, _):
        three["a"].execute("SELECT graphrag.add_node('silent', %s)", f"postgresql://127.0.0.1:{port}/app")
        three["a"].execute("SELECT graphrag.add_node('down', 'postgresql://127.0.0.1:1/app')")
        place(three, "far", "silent", "a")
        place(three, "gone", "down", "a")

        async def by_tasks(**arguments: Any) -> list[SearchResult]:
            async with AsyncGraphRAG(three["a"].url) as rag:
                return await rag.search(QUESTION, **arguments)

        try:
            with GraphRAG(three["a"].url) as rag:
                begin = time.monotonic()
                by_threads = rag.search(QUESTION, corpora=names, node_timeout=SECONDS)
                assert time.monotonic() - begin < SECONDS + 3
                # And again, though the first call may be under way still.
                assert rows_without_ids(rag.search(QUESTION, corpora=names, node_timeout=2.0)) != []
            unanswered = by_threads[0].explain["unanswered"]
            if names == ["*"]:
                assert 'node "silent" did not answer' in unanswered["*"]
                assert 'node "down" did not answer' in unanswered["*"]
            else:
                assert unanswered["far"] == 'node "silent" did not answer: it took longer than 6 s'
                assert unanswered["gone"].startswith('node "down" did not answer: connection failed')
            assert "stories" in {hit.corpus for hit in by_threads}
            assert rows_without_ids(asyncio.run(by_tasks(corpora=names, node_timeout=SECONDS))) == rows_without_ids(
                by_threads
            )
            with GraphRAG(three["a"].url) as rag:
                with pytest.raises(psycopg.OperationalError):
                    rag.search(QUESTION, corpora=["gone"], node_timeout=SECONDS)
                with pytest.raises(nodes.LateError):
                    rag.search(QUESTION, corpora=["far"], node_timeout=1.0)
        finally:
            for name, node in (("far", "silent"), ("gone", "down")):
                place(three, name, None, "a")
                three["a"].execute("SELECT graphrag.drop_node(%s)", node)


def test_a_node_may_have_the_other_host(three: dict[str, Node], shared_cluster: Cluster | Server) -> None:
    with plain_database(shared_cluster) as url:
        plain = Node("plain", url)
        fill(plain, "beside", LAUNCHERS)
        for node, name, other in ((three["a"], "plain", plain), (plain, "a", three["a"])):
            node.execute("SELECT graphrag.add_node(%s, %s)", name, other.place)
        three["a"].execute("SELECT graphrag.place_corpus('beside', 'plain')")
        plain.execute("SELECT graphrag.place_corpus('sea', 'a')")
        try:
            # A superuser is served by nobody's schema but his own: the one who owns that reads here.
            three["a"].execute(f"GRANT graphrag_reader TO {OWNER}")
            reader = make_conninfo(three["a"].url, user=OWNER, password=OWNER)
            with GraphRAG(reader, "beside") as there, GraphRAG(url, "sea") as back:
                assert there.search("Kestrel")[0].corpus == "beside"
                assert back.search("Nautilus")[0].corpus == "sea"
                for rag in (there, back):
                    assert {hit.corpus for hit in rag.search("Who?", corpora=["sea", "beside"], mode="naive")} == {
                        "sea",
                        "beside",
                    }
        finally:
            three["a"].execute(f"REVOKE graphrag_reader FROM {OWNER}")
            place(three, "beside", None, "a")
            three["a"].execute("SELECT graphrag.drop_node('plain')")


def test_rights_are_those_of_the_node(three: dict[str, Node]) -> None:
    with psycopg.connect(three["b"].url, autocommit=True) as owner, new_role(owner, "LOGIN PASSWORD 'its own'") as role:
        for node in three.values():
            with psycopg.connect(node.url, autocommit=True) as connection:
                connection.execute(f"GRANT graphrag_member TO {role}".encode())
        parts = conninfo_to_dict(three["a"].url)
        url = f"postgresql://{role}:its%20own@{parts['host']}:{parts['port']}/{parts['dbname']}"
        with GraphRAG(url, "stories") as rag:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                rag.search(QUESTION)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                rag.search(QUESTION, corpora=["stories"])
            owner.execute("SELECT graphrag.grant_corpus('stories', %s)", [role])
            assert rag.search(QUESTION)
            assert {hit.corpus for hit in rag.search(QUESTION, corpora=["*"])} == {"stories"}
        owner.execute("SELECT graphrag.revoke_corpus('stories', %s)", [role])


def test_the_command_follows(three: dict[str, Node], capfd: pytest.CaptureFixture[str]) -> None:
    from pg_graphrag.beside import cli

    def run(*arguments: str) -> str:
        assert cli.main([*arguments, "--url", three["a"].url]) == 0, capfd.readouterr().err
        return capfd.readouterr().out

    assert "hopper" in run("search", QUESTION, "--corpus", "stories")
    assert "hopper" in run("ask", QUESTION, "--corpus", "stories")
    assert "stories" in run("status", "--corpus", "stories")
    assert '"Ada Lovelace"' in run("call", "neighbors", '{"entity": "Charles Babbage"}', "--corpus", "stories")
    several = run("search", QUESTION, "--corpora", "stories", "sea")
    assert "(stories)" in several and "(sea)" in several


# What a hostile catalogue could have a client do.
SECRET = "the-password-of-the-first-url"


def test_no_password_goes_to_another_port(three: dict[str, Node], tmp_path: Path) -> None:
    """Neither that of the URL, nor that of the environment; only what the password file has for that host and port."""
    script = (
        "import sys, psycopg\nfrom pg_graphrag import GraphRAG\n"
        "for search in ({}, {'corpora': ['stolen']}):\n"
        "    try:\n        GraphRAG(sys.argv[1], 'stolen').search('who', **search)\n"
        "    except psycopg.OperationalError as error:\n        print(error)\n"
    )
    with (
        silent_server(ASKS_FOR_A_PASSWORD) as (port, received),
        psycopg.connect(three["a"].url, autocommit=True) as owner,
        new_role(owner, f"LOGIN PASSWORD '{SECRET}' IN ROLE graphrag_member") as role,
    ):
        three["a"].execute("SELECT graphrag.add_node('thief', %s)", f"postgresql://127.0.0.1:{port}/app")
        place(three, "stolen", "thief", "a")
        try:
            parts = conninfo_to_dict(three["a"].url)
            password_file = tmp_path / "pgpass"
            password_file.write_text(f"127.0.0.1:{port}:*:{role}:meant-for-the-thief\n")
            password_file.chmod(0o600)
            host = f"{parts['host']}:{parts['port']}/{parts['dbname']}"
            for url, variables in (
                (f"postgresql://{role}:{SECRET}@{host}", {}),
                (f"postgresql://{role}@{host}", {"PGPASSWORD": SECRET}),
                (f"postgresql://{role}:{SECRET}@{host}", {"PGPASSFILE": str(password_file)}),
            ):
                received.clear()
                done = subprocess.run(
                    [sys.executable, "-c", script, url],
                    env=os.environ | {"PGPASSFILE": "/nowhere"} | variables,
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                assert done.returncode == 0, done.stderr
                sent = b"".join(received)
                assert role.encode() in sent, done.stdout
                assert SECRET.encode() not in sent
                assert (b"meant-for-the-thief" in sent) == ("PGPASSFILE" in variables)
        finally:
            place(three, "stolen", None, "a")
            three["a"].execute("SELECT graphrag.drop_node('thief')")


def test_how_a_client_connects_to_a_node(three: dict[str, Node]) -> None:
    parts = conninfo_to_dict(three["a"].url)
    with psycopg.connect(
        f"{three['a'].url}?sslmode=disable&application_name=mine&options=-csearch_path%3D"
    ) as connection:

        def parameters(url: str) -> dict[str, Any]:
            return conninfo_to_dict(nodes.url_at(connection.info, nodes.Place("n", url)))

        same = parameters(three["b"].place)
        assert (same["password"], same["user"], same["dbname"]) == (
            parts["password"],
            parts["user"],
            conninfo_to_dict(three["b"].place)["dbname"],
        )
        other = parameters("postgresql://b.example/app")
        assert (other["host"], other["port"], other["dbname"]) == ("b.example", "5432", "app")
        assert (other["user"], other["password"], other["hostaddr"]) == (parts["user"], "", "")
        for of_url in (same, other):
            assert (of_url["sslmode"], of_url["application_name"]) == ("disable", "mine")
            assert of_url["options"] == "-csearch_path="
        # One of several hosts is another's.
        assert parameters(f"postgresql://{parts['host']}:{parts['port']},evil.example:5432/app")["password"] == ""
        for url in (
            f"postgresql://evil@{parts['host']}:{parts['port']}/app",
            f"postgresql://{parts['host']}:{parts['port']}/app?hostaddr=10.0.0.1",
            f"postgresql://{parts['host']}:{parts['port']}/app?passfile=/tmp/x",
            f"postgresql://{parts['host']}:{parts['port']}/app?sslmode=disable",
            f"postgresql://{parts['host']}:{parts['port']}/app?service=x",
            "service=x",
            "host=b.example",
            "",
            "x",
        ):
            with pytest.raises(GraphRAGError, match="cannot be used"):
                parameters(url)
