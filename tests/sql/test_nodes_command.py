"""pg-graphrag nodes, nodes sync and rebalance: what the nodes say of themselves, one catalogue for all, and proposals."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside import cli
from pg_graphrag.beside.cli.nodes import Node as Seen
from pg_graphrag.beside.cli.nodes import moves_between
from psycopg.conninfo import conninfo_to_dict

from tests.runtime.cluster import Cluster, Server
from tests.runtime.nodes import Node, fill, nodes_of, place
from tests.security.acting import new_role
from tests.sql.ingest import ROCKETS, STORIES, wait_for
from tests.sql.themes import SEA

LAUNCHERS = {key: text for key, (_, text) in ROCKETS.items()}


@pytest.fixture(scope="module")
def two(shared_cluster: Cluster | Server) -> Iterator[dict[str, Node]]:
    with nodes_of(dict.fromkeys("ab", shared_cluster)) as two:
        fill(two["a"], "sea", SEA)
        fill(two["b"], "stories", STORIES)
        place(two, "sea", "a", "a")
        place(two, "stories", "b", "a")
        yield two


def run(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert cli.main([*arguments]) == status, capfd.readouterr().err
    return capfd.readouterr().out


def test_nodes_say_what_they_have(two: dict[str, Node], capfd: pytest.CaptureFixture[str]) -> None:
    a, b = map(json.loads, run(capfd, "nodes", "--json", "--url", two["a"].url).splitlines())
    assert (a["name"], a["is_this"], b["name"], b["is_this"]) == ("a", True, "b", False)
    assert b["url"] == two["b"].place and b["fault"] is None and b["version"] and b["sessions"] >= 1
    (stories,) = b["corpora"]
    assert (stories["corpus"], stories["documents"], stories["pending"]) == ("stories", len(STORIES), 0)
    assert stories["bytes"] > 100_000
    text = run(capfd, "nodes", "--url", two["a"].url)
    assert "a (this)" in text and "stories" in text
    # No password of a URL is shown.
    assert str(conninfo_to_dict(two["a"].url)["password"]) not in text


def test_a_monitor_sees_the_nodes(two: dict[str, Node], capfd: pytest.CaptureFixture[str]) -> None:
    with (
        psycopg.connect(two["a"].url, autocommit=True) as owner,
        new_role(owner, "LOGIN PASSWORD 'its own' IN ROLE pg_monitor") as role,
    ):
        parts = conninfo_to_dict(two["a"].url)
        url = f"postgresql://{role}:its%20own@{parts['host']}:{parts['port']}/{parts['dbname']}"
        assert "stories" in run(capfd, "nodes", "--url", url)


def test_what_contradicts_the_catalogue_and_who_is_down_is_said(
    two: dict[str, Node], capfd: pytest.CaptureFixture[str]
) -> None:
    two["a"].execute("SELECT graphrag.add_node('down', 'postgresql://127.0.0.1:1/app')")
    place(two, "lost", "b", "a")
    place(two, "stories", None, "a")
    fill(two["b"], "sea", SEA)
    try:
        text = run(capfd, "nodes", "--url", two["a"].url, status=1)
        assert "corpus lost is placed at b, which does not have it" in text
        assert "corpus stories is at b, and no placement says so" in text
        assert "corpus sea is at a and b" in text
        assert "connection failed" in next(line for line in text.splitlines() if line.startswith("down"))
        assert "# node down does not answer" in run(capfd, "rebalance", "--dry-run", "--url", two["a"].url, status=1)
    finally:
        two["a"].execute("SELECT graphrag.drop_node('down')")
        two["b"].execute("SELECT graphrag.drop_corpus('sea')")
        place(two, "lost", None, "a")
        place(two, "stories", "b", "a")


def test_sync_brings_the_catalogue_and_tells_each_node_its_name(
    shared_cluster: Cluster | Server, capfd: pytest.CaptureFixture[str]
) -> None:
    with nodes_of(dict.fromkeys("xyz", shared_cluster)) as three:
        for node in three.values():
            node.execute(f'ALTER DATABASE "{conninfo_to_dict(node.url)["dbname"]}" RESET graphrag.node')
        place(three, "gone", "x", "z")
        place(three, "sea", "y", "x")
        three["y"].execute("SELECT graphrag.add_node('former', 'postgresql://former.example/app')")
        done = run(capfd, "nodes", "sync", "--url", three["x"].url).splitlines()
        assert done == [
            "x: was told its name",
            "y: was told its name, has the catalogue",
            "z: was told its name, has the catalogue",
        ]
        for name, node in three.items():
            with psycopg.connect(node.url) as connection:
                assert connection.execute("SELECT current_setting('graphrag.node')").fetchone() == (name,)
                assert connection.execute("SELECT corpus, node FROM graphrag.placements").fetchall() == [("sea", "y")]
                assert connection.execute("SELECT count(*) FROM graphrag.nodes").fetchone() == (3,)
        assert run(capfd, "nodes", "sync", "--url", three["x"].url).splitlines()[0] == "y: has the catalogue"


def seen(name: str, **sizes: int) -> Seen:
    corpora = [{"corpus": corpus, "bytes": size} for corpus, size in sizes.items()]
    return Seen(name, f"postgresql://{name}/app", is_this=False, corpora=corpora)


def test_moves_make_nodes_alike_and_end() -> None:
    moves = moves_between([seen("a", one=50, two=30, three=20), seen("b"), seen("c", four=10)], set())
    assert [(move.corpus, move.source, move.target) for move in moves] == [("one", "a", "b"), ("three", "a", "c")]
    assert moves[0].command == "pg-graphrag move one --url postgresql://a/app --to postgresql://b/app"
    assert moves_between([seen("a", one=50), seen("b")], set()) == []
    assert moves_between([replace(seen("a", one=50, two=30), url=""), seen("b")], set()) == []
    assert moves_between([seen("a", one=50, two=30), seen("b")], {"one", "two"}) == []
    assert moves_between([seen("a", **{"my corpus": 5, "b": 5}), seen("b")], {"b"})[0].command.startswith(
        "pg-graphrag move 'my corpus' "
    )


@pytest.mark.slow
def test_three_servers_of_which_one_is_stopped(
    cluster: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passwords come of the password file; the catalogue by logical replication; a stopped server is named."""
    servers = {name: cluster({"wal_level": "logical"} if name == "a" else {}) for name in "abc"}
    passwords = tmp_path / "pgpass"
    passwords.write_text("".join(f"127.0.0.1:{s.port}:*:postgres:{s.runtime.password}\n" for s in servers.values()))
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    with nodes_of(servers, None) as three:
        for name, corpus, documents in (("a", "sea", SEA), ("b", "stories", STORIES), ("c", "rockets", LAUNCHERS)):
            fill(three[name], corpus, documents)
        for name in "bc":
            three[name].execute("DELETE FROM graphrag.nodes")
        three["a"].execute("CREATE PUBLICATION nodes FOR TABLE graphrag.nodes, graphrag.placements")
        for name in "bc":
            three[name].execute(f"CREATE SUBSCRIPTION nodes_{name} CONNECTION '{three['a'].url}' PUBLICATION nodes")
        try:
            for corpus, name in (("sea", "a"), ("stories", "b"), ("rockets", "c")):
                place(three, corpus, name, "a")

            def arrived(name: str) -> bool:
                with psycopg.connect(three[name].url) as connection:
                    # Each table comes by itself.
                    row = connection.execute(
                        "SELECT count(*) FROM graphrag.placements p JOIN graphrag.nodes n ON n.name = p.node"
                    ).fetchone()
                    return row == (3,)

            for name in "bc":
                wait_for(lambda name=name: arrived(name), "the catalogue")
            # From any of them to any other.
            for name in three:
                with GraphRAG(three[name].url, "rockets") as rag:
                    assert rag.search("Kestrel")
                    corpora = {
                        hit.corpus for hit in rag.search("Who?", corpora=["sea", "stories", "rockets"], mode="naive")
                    }
                    assert corpora == {"sea", "stories", "rockets"}
            servers["b"].stop()
            with GraphRAG(three["a"].url, "rockets") as rag:
                hits = rag.search("Kestrel", corpora=["*"])
                assert {hit.corpus for hit in hits} == {"sea", "rockets"}
                assert 'node "b" did not answer' in hits[0].explain["unanswered"]["*"]
                with pytest.raises(psycopg.OperationalError):
                    GraphRAG(three["a"].url, "stories").search("who")
            # The catalogue's own server may stop too: whoever has been sent on stays there.
            with GraphRAG(three["a"].url, "rockets") as rag:
                assert rag.search("Kestrel")
                servers["a"].stop()
                assert rag.search("Kestrel")
        finally:
            for name in "ab":
                if not servers[name].folder.joinpath("data/postmaster.pid").exists():
                    servers[name].start()
            for name in "bc":
                three[name].execute(f"DROP SUBSCRIPTION nodes_{name}")
