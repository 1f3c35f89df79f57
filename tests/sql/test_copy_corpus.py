"""`pg-graphrag copy --corpus` brings one corpus to a database that has others, on either host, and leaves nothing behind."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside import cli
from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.client import hosts
from pg_graphrag.beside.process.corpus_copy.rows import RowCopy
from pg_graphrag.ground.errors import GraphRAGError

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database, Server
from tests.security.acting import new_role
from tests.sql.ingest import ROCKETS, STORIES, wait_for
from tests.sql.picture_rows import add_picture
from tests.sql.themes import SEA
from tests.sql.two_hosts import MODES, OWNER, QUESTION, close, plain_database, reply

REPLY = reply
PICTURED = "A brass loom that Ada Lovelace saw in Nottingham."


@pytest.fixture
def source(db: Database, endpoint: Endpoint) -> Iterator[GraphRAG]:
    """A corpus among others: reports by a model, curations, a history, a picture, packed, deleted and failed documents."""
    with GraphRAG(db.url, "sea") as sea, GraphRAG(db.url, "stories") as rag:
        sea.create_corpus(communities=False)
        sea.insert({"source_key": key, "content": text} for key, text in SEA.items())
        sea.process_jobs()
        rag.call("set_provider", name="stand-in", kind="openai", base_url=endpoint.url)
        model = {"provider": "stand-in", "model": "m"}
        rag.create_corpus(communities={"max_cluster_size": 5}, llm=model, query_log=True)
        rag.call("keep_history", corpus="stories", history="former stories")
        rag.insert({"source_key": key, "content": text, "metadata": {"key": key}} for key, text in STORIES.items())
        rag.process_jobs()
        add_picture(db, "stories", "ada", caption=PICTURED)
        rag.insert({"source_key": "gone", "content": "Charles Babbage met Grace Hopper in Harvard."})
        rag.process_jobs()
        db.execute("SELECT graphrag.optimize('stories')")
        rag.delete("gone")
        rag.insert({"source_key": "hopper", "content": f"{STORIES['hopper']} She named the bug."})
        rag.call("merge_entities", entities=["Enigma machine"], target="Enigma")
        rag.process_jobs()
        rag.ask(QUESTION)
        rag.call("feedback", question=QUESTION, verdict="good", corpus="stories", evidence=["ada"])
        rag.insert(
            [{"source_key": "late", "content": "Captain Nemo waits."}, {"source_key": "bad", "content": "It fails."}]
        )
        db.execute("UPDATE graphrag.documents SET status = 'failed', error = 'why' WHERE source_key = 'bad'")
        db.execute(
            "UPDATE graphrag.jobs j SET state = 'failed', last_error = 'why' FROM graphrag.documents d"
            " WHERE d.id = j.document_id AND d.source_key = 'bad'"
        )
        db.execute(
            "INSERT INTO graphrag.jobs (corpus_id, kind, document_id, state, last_error)"
            " SELECT d.corpus_id, 'index', d.id, 'failed', 'Unembeddable: no' FROM graphrag.documents d"
            " WHERE d.source_key = 'turing' AND d.corpus = 'stories'"
        )
        db.execute("UPDATE graphrag.corpora SET needs_reindex = true WHERE name = 'stories'")
        yield rag


def fill(url: str) -> None:
    """Another's corpora in a database, by its owner."""
    with GraphRAG(url, "rockets") as rag:
        rag.create_corpus(communities={"max_cluster_size": 5})
        rag.insert({"source_key": key, "title": title, "content": text} for key, (title, text) in ROCKETS.items())
        rag.process_jobs()


def without_numbers(value: Any) -> Any:
    """What a search or call returns, without numbers of rows."""
    if isinstance(value, dict):
        return {
            key: without_numbers(item)
            for key, item in value.items()
            if not key.endswith(("id", "ids", "picture", "community"))
        }
    if isinstance(value, str):
        return re.sub(r"\b(entity|relationship|chunk|community|communities|window) \d+", r"\1", value)
    return [without_numbers(item) for item in value] if isinstance(value, list) else value


def state(url: str, corpus: str = "stories", history: str = "former stories") -> Any:
    """What a database makes of the corpus, without numbers."""
    result: list[Any] = []
    for name in (corpus, history):
        with GraphRAG(url, name) as rag:
            sections = [row for row in rag.call("fingerprint_sections") if not row["section"].startswith("graph: ")]
            result.append((sections, rag.call("check"), rag.progress().documents))
    with GraphRAG(url, corpus) as rag:
        searches = {mode: rag.search(QUESTION, mode=mode) for mode in MODES}
        result.append(
            {
                mode: [(row.source_key, row.content, row.score, without_numbers(row.explain)) for row in rows]
                for mode, rows in searches.items()
            }
        )
        result.append(without_numbers(rag.call("golden_questions")))
    with psycopg.connect(url) as connection:
        for statement in KEPT:
            cursor = connection.execute(statement.encode(), {"corpus": corpus, "history": history})
            result.append(cursor.fetchall())
    return result


# In the order of the numbers, which stays.
KEPT = (
    "SELECT o.needs_reindex FROM graphrag.corpora o WHERE o.name IN (%(corpus)s, %(history)s) ORDER BY o.id",
    """SELECT d.corpus = %(history)s, d.source_key, d.status, d.error, d.created_at, d.updated_at, d.indexed_at, d.metadata,
              d.version_of IS NOT NULL, (SELECT v.source_key FROM graphrag.documents v WHERE v.id = d.version_of)
         FROM graphrag.documents d WHERE d.corpus IN (%(corpus)s, %(history)s) ORDER BY d.id""",
    """SELECT p.caption, p.content, d.source_key, d.pictures_hash IS NOT NULL,
              (SELECT count(*) FROM graphrag.chunks c WHERE c.picture_id = p.id)
         FROM graphrag.pictures p JOIN graphrag.documents d ON d.id = p.document_id
        WHERE d.corpus IN (%(corpus)s, %(history)s) ORDER BY p.id""",
    """SELECT c.level, c.size, c.report_due, r.title, r.content, r.model, r.written_at,
              ARRAY(SELECT e.key FROM graphrag.community_members m JOIN graphrag.entities e ON e.id = m.entity_id
                     WHERE m.community_id = c.id ORDER BY m.id),
              ARRAY(SELECT (SELECT e.key FROM graphrag.entities e WHERE e.id = n.id::bigint)
                      FROM jsonb_array_elements(r.findings) f, jsonb_array_elements_text(f -> 'entity_ids') n (id)),
              ARRAY(SELECT (SELECT d.source_key FROM graphrag.chunks k JOIN graphrag.documents d ON d.id = k.document_id
                             WHERE k.id = n.id::bigint)
                      FROM jsonb_array_elements(r.findings) f, jsonb_array_elements_text(f -> 'chunk_ids') n (id))
         FROM graphrag.communities c LEFT JOIN graphrag.community_reports r ON r.community_id = c.id
         JOIN graphrag.corpora o ON o.id = c.corpus_id AND o.name = %(corpus)s ORDER BY c.id""",
    """SELECT x.kind, x.arguments, x.made_by, x.made_at FROM graphrag.curations x
         JOIN graphrag.corpora o ON o.id = x.corpus_id AND o.name = %(corpus)s ORDER BY x.id""",
    """SELECT x.key, x.purpose, x.reply, x.created_at FROM graphrag.llm_cache x
         JOIN graphrag.corpora o ON o.id = x.corpus_id AND o.name = %(corpus)s ORDER BY x.key""",
    """SELECT x.purpose, x.tokens_in, x.at FROM graphrag.llm_calls x
         JOIN graphrag.corpora o ON o.id = x.corpus_id AND o.name = %(corpus)s ORDER BY x.id""",
    """SELECT x.question, x.caller FROM graphrag.query_log x
         JOIN graphrag.corpora o ON o.id = x.corpus_id AND o.name = %(corpus)s ORDER BY x.id""",
    """SELECT d.source_key, j.kind, j.state, j.last_error FROM graphrag.jobs j JOIN graphrag.documents d ON d.id = j.document_id
        WHERE d.corpus = %(corpus)s ORDER BY 1, 2""",
    """SELECT count(*), count(v.window_id) FROM graphrag.chunk_windows w
         LEFT JOIN graphrag.window_vectors v ON v.window_id = w.id AND v.chunk_id = w.chunk_id AND v.document_id = w.document_id
         JOIN graphrag.corpora o ON o.id = w.corpus_id AND o.name = %(corpus)s""",
)


def differences(copied: Any, original: Any, *path: Any) -> list[Any]:
    """Where two states are not equal: the way there, and both values."""
    if close(copied, original):
        return []
    if isinstance(copied, dict) and isinstance(original, dict) and copied.keys() == original.keys():
        return [item for key in copied for item in differences(copied[key], original[key], *path, key)]
    if isinstance(copied, list | tuple) and isinstance(original, list | tuple) and len(copied) == len(original):
        pairs = enumerate(zip(copied, original, strict=True))
        return [item for place, pair in pairs for item in differences(*pair, *path, place)]
    return [(path, copied, original)]


def copy(source: str, target: str, *arguments: str) -> int:
    return cli.main(["copy", "--url", target, "--corpus", "stories", *arguments, source])


def test_a_corpus_comes_along_whole_in_every_direction(
    source: GraphRAG, db: Database, empty_db: Database, shared_cluster: Cluster | Server, endpoint: Endpoint
) -> None:
    original = state(db.url)
    empty_db.execute("CREATE EXTENSION pg_graphrag CASCADE")
    with plain_database(shared_cluster) as beside, plain_database(shared_cluster) as other:
        for url in (beside, other, empty_db.url):
            fill(url)
        rockets = [others(url) for url in (beside, other, empty_db.url)]
        asked = len(endpoint.requests)
        assert copy(db.url, beside) == 0
        assert differences(state(beside), original) == []
        assert copy(beside, other) == 0
        assert differences(state(other), original) == []
        assert copy(other, empty_db.url) == 0
        assert differences(state(empty_db.url), original) == []
        # In the same database too, under other names.
        assert copy(db.url, db.url, "--as", "twin", "--history-as", "former twin") == 0
        assert differences(state(db.url, "twin", "former twin"), original) == []
        assert len(endpoint.requests) == asked
        assert [others(url) for url in (beside, other, empty_db.url)] == rockets

        # What waits is done on each, and makes the same; both go their own ways.
        later = []
        for url in (db.url, beside, other, empty_db.url):
            with GraphRAG(url, "stories") as rag:
                rag.process_jobs()
                rag.insert({"source_key": "ada", "content": f"{STORIES['ada']} Ada Lovelace was a countess."})
                rag.process_jobs()
            # Of its history not: versions have the moment of their writing.
            later.append(state(url)[:1])
        assert [differences(one, later[0]) for one in later[1:]] == [[], [], []]
        with GraphRAG(db.url, "twin") as rag:
            assert rag.progress().documents == 7 and "countess" not in str(rag.search("countess", mode="bm25"))


def others(url: str) -> Any:
    with GraphRAG(url, "rockets") as rag:
        return rag.call("fingerprint"), rag.call("check"), [vars_of(row) for row in rag.search("Kestrel engine")]


def vars_of(row: Any) -> Any:
    return row.chunk_id, row.source_key, row.content, row.score


def test_grants_and_protection_come_along_and_roles_that_are_not_there_are_named(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        plain_database(shared_cluster) as beside,
        new_role(db, "IN ROLE graphrag_reader") as reader,
        new_role(db) as tenant,
    ):
        fill(beside)
        db.execute("SELECT graphrag.protect('stories', $$metadata ->> 'key' = 'ada'$$)")
        db.execute("SELECT graphrag.grant_corpus('stories', %s)", [tenant])
        db.execute(
            "INSERT INTO graphrag.corpus_grants (corpus_id, role, level) SELECT c.id, 'nobody_there', 'read'"
            " FROM graphrag.corpora c WHERE c.name = 'stories'"
        )
        assert copy(db.url, beside) == 0
        printed = capsys.readouterr().out
        assert '7 documents of "stories"' in printed and "nobody_there" not in printed
        for role, keys in ((reader, ["ada"]), (tenant, ["ada"])):
            db.execute(f"GRANT {role} TO {OWNER}".encode())
            with psycopg.connect(beside, autocommit=True) as connection:
                connection.execute(f"SET ROLE {role}".encode())
                seen = connection.execute(
                    "SELECT source_key FROM graphrag.documents WHERE corpus <> 'rockets'"
                ).fetchall()
                assert [key for (key,) in seen] == keys
                assert {row.source_key for row in GraphRAG(connection, "stories").search(QUESTION)} == {"ada"}
            db.execute(f"REVOKE {role} FROM {OWNER}".encode())


def test_policies_of_the_operator_must_be_in_force_in_the_target_too(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server, capsys: pytest.CaptureFixture[str]
) -> None:
    restrict = "CREATE POLICY own ON graphrag.{} AS RESTRICTIVE USING (false)"
    enable = "ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY"

    def refusal(*arguments: str) -> str:
        assert cli.main(["copy", "--url", beside, *arguments, db.url]) == 1
        return capsys.readouterr().err

    with plain_database(shared_cluster) as beside, psycopg.connect(beside, autocommit=True) as connection:
        db.execute("SELECT graphrag.unprotect('former stories')")
        db.execute(restrict.format("documents").encode())
        # Without row-level security it hides nothing.
        assert cli.main(["copy", "--url", beside, "--corpus", "sea", db.url]) == 0
        GraphRAG(connection, "sea").drop_corpus()
        db.execute("SELECT graphrag.protect('stories', 'true')")
        db.execute(restrict.format("pictures").encode())
        for arguments in (["--corpus", "sea"], []):
            error = refusal(*arguments)
            assert "own on graphrag.documents, own on graphrag.pictures" in error and "CREATE POLICY" in error
        assert connection.execute("SELECT count(*) FROM graphrag.corpora").fetchone() == (0,)
        for table in ("documents", "pictures"):
            connection.execute(restrict.format(table).encode())
        assert "own on graphrag.documents" in refusal("--corpus", "sea")
        connection.execute(enable.encode())
        assert cli.main(["copy", "--url", beside, db.url]) == 0
        # The operator's row-level security hides all that no policy shows.
        db.execute("SELECT graphrag.unprotect('stories')")
        for table in ("documents", "pictures"):
            db.execute(f"DROP POLICY own ON graphrag.{table}".encode())
        db.execute(enable.encode())
        with plain_database(shared_cluster) as beside:
            assert "row-level security on graphrag.documents" in refusal("--corpus", "sea")
            with psycopg.connect(beside, autocommit=True) as other:
                other.execute(enable.encode())
            assert cli.main(["copy", "--url", beside, "--corpus", "sea", db.url]) == 0


def test_who_may_not_or_cannot_is_told_why_and_nothing_is_there(
    source: GraphRAG,
    db: Database,
    shared_cluster: Cluster | Server,
    endpoint: Endpoint,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refusal(*arguments: str) -> str:
        assert copy(*arguments) == 1
        return capsys.readouterr().err

    with plain_database(shared_cluster) as beside:
        fill(beside)
        with GraphRAG(beside, "stories") as rag:
            rag.create_corpus()
            assert 'has a corpus "stories" already' in refusal(db.url, beside)
            rag.drop_corpus()
        assert 'has a corpus "rockets" already' in refusal(db.url, beside, "--history-as", "rockets")
        assert cli.main(["copy", "--url", beside, "--corpus", "none", db.url]) == 1
        assert 'corpus "none" does not exist' in capsys.readouterr().err
        assert cli.main(["copy", "--url", beside, "--as", "x", db.url]) == 1
        assert "of one corpus" in capsys.readouterr().err
        # A word that names nothing is an error, not left out.
        assert "a corpus needs a name" in refusal(db.url, beside, "--as", "")
        assert "a corpus needs a name" in refusal(db.url, beside, "--history-as", "")
        assert "has 250 bytes" in (error := refusal(db.url, beside, "--as", "x" * 250)) and "at most 200 bytes" in error
        assert 'names no provider "typo"' in (error := refusal(db.url, beside, "--provider", "typo=x"))
        assert "stand-in" in error
        twice = refusal(db.url, beside, "--provider", "stand-in=a", "--provider", "stand-in=b")
        assert '"stand-in" twice' in twice
        assert cli.main(["copy", "--url", beside, "--corpus", "sea", "--history-as", "past", db.url]) == 1
        assert 'corpus "sea" has no history' in capsys.readouterr().err
        with GraphRAG(beside, "rockets") as rag:
            rag.call("set_provider", name="stand-in", kind="openai", base_url="http://127.0.0.1:1/v1")
            assert (
                'provider "stand-in"' in (error := refusal(db.url, beside)) and "--provider stand-in=stand-in" in error
            )
            rag.call("set_provider", name="own", kind="openai", base_url=endpoint.url, options={"timeout": 5})
        # A key of this server goes nowhere by the word of another.
        db.execute("UPDATE graphrag.providers SET api_key_env = 'SECRET', name = 'keyed'")
        db.execute(
            """UPDATE graphrag.corpora SET options = jsonb_set(options, '{llm,provider}', '"keyed"') WHERE name = 'stories'"""
        )
        assert 'no provider "keyed"' in refusal(db.url, beside)
        with psycopg.connect(beside, autocommit=True) as connection:
            counts = "SELECT (SELECT count(*) FROM graphrag.corpora), (SELECT count(*) FROM graphrag.providers)"
            assert connection.execute(counts).fetchone() == (1, 2)
        assert copy(db.url, beside, "--provider", "keyed=own") == 0
        with GraphRAG(beside, "stories") as rag:
            assert rag.ask(QUESTION).answer
        db.execute("SELECT graphrag.drop_corpus('former stories')")


def test_a_copy_that_is_not_what_the_source_has_is_taken_back(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server
) -> None:
    db.execute("ALTER TABLE graphrag.documents DISABLE TRIGGER USER")
    db.execute("UPDATE graphrag.documents SET content_hash = 'old' WHERE corpus = 'stories' AND source_key = 'ada'")
    db.execute("ALTER TABLE graphrag.documents ENABLE TRIGGER USER")
    with plain_database(shared_cluster) as beside:
        with (
            connect(db.url) as one,
            connect(beside) as other,
            pytest.raises(GraphRAGError, match=r"is not what the source has: documents") as refusal,
        ):
            hosts.copy_corpus(one, other, "stories")
        assert refusal.value.sqlstate == "XX001" and refusal.value.hint
        with psycopg.connect(beside, autocommit=True) as connection:
            assert connection.execute("SELECT count(*) FROM graphrag.corpora").fetchone() == (0,)


@pytest.mark.sample(1)
@pytest.mark.parametrize("killed", ["source", "target"])
def test_a_server_that_ends_in_the_middle_leaves_nothing_and_the_command_can_be_repeated(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    original = state(db.url)
    with plain_database(shared_cluster) as beside:
        fill(beside)
        copy_table = RowCopy.copy_table

        def kill(copying: Any, table: str, columns: list[str]) -> None:
            if table == "entity_mentions":
                end = (copying._reader if killed == "source" else copying._writer).connection.info.backend_pid
                db.execute("SELECT pg_terminate_backend(%s)", [end])
            copy_table(copying, table, columns)

        monkeypatch.setattr(RowCopy, "copy_table", kill)
        assert copy(db.url, beside) == 1
        with psycopg.connect(beside, autocommit=True) as connection:
            assert connection.execute("SELECT name FROM graphrag.corpora").fetchall() == [("rockets",)]
            assert connection.execute(
                "SELECT count(*) FROM graphrag.chunks c, graphrag.corpora o WHERE o.id <> c.corpus_id"
            ).fetchone() == (0,)
        monkeypatch.undo()
        assert copy(db.url, beside) == 0
        assert differences(state(beside), original) == []


@pytest.mark.slow
def test_writers_of_other_corpora_go_on_while_a_copy_is_under_way(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = state(db.url)
    db.execute("SELECT graphrag.create_corpus('busy')")
    copy_table = RowCopy.copy_table
    tables = []

    def write(copying: Any, table: str, columns: list[str]) -> None:
        copy_table(copying, table, columns)
        tables.append(table)
        if len(tables) % 4:
            return
        # Over connections of their own, each with a limit: nobody waits for the copy.
        for corpus in ("busy", "stories"):
            with psycopg.connect(db.url, options="-c lock_timeout=500ms", autocommit=True) as connection:
                connection.execute(
                    "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES (%s, %s, %s)",
                    [corpus, table, f"Ned Land wrote {table} in Boston."],
                )
                connection.execute("CALL graphrag.process_jobs(1)")

    monkeypatch.setattr(RowCopy, "copy_table", write)
    # Both sides in one database: what it locks would keep either waiting.
    assert copy(db.url, db.url, "--as", "twin", "--history-as", "former twin") == 0
    monkeypatch.undo()
    assert len(tables) > 30
    assert differences(state(db.url, "twin", "former twin"), original) == []
    for corpus in ("busy", "stories", "twin"):
        with GraphRAG(db.url, corpus) as rag:
            rag.process_jobs()
            assert rag.call("check") == [] and rag.progress().pending == 0
    assert db.execute("SELECT count(*) FROM graphrag.documents WHERE corpus = 'busy'").fetchone() == (len(tables) // 4,)


@pytest.mark.slow
def test_two_copies_at_once_get_numbers_of_their_own(source: GraphRAG, db: Database) -> None:
    original = state(db.url)
    status: list[int] = []
    threads = [
        threading.Thread(
            target=lambda name=name: status.append(copy(db.url, db.url, "--as", name, "--history-as", f"former {name}"))
        )
        for name in ("one", "two", "three")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert status == [0, 0, 0]
    for name in ("one", "two", "three"):
        assert differences(state(db.url, name, f"former {name}"), original) == []


def test_attached_tables_are_named_and_attached_rows_are_refused(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server, capsys: pytest.CaptureFixture[str]
) -> None:
    db.execute("CREATE TABLE public.plants (id int PRIMARY KEY, name text, words text)")
    db.execute("INSERT INTO public.plants VALUES (1, 'Oak', 'An oak grew in Harvard.')")
    db.execute("SELECT graphrag.attach_table('public.plants', 'stories', 'id', ARRAY['words'])")
    db.execute("CALL graphrag.backfill_table('public.plants')")
    db.execute("CALL graphrag.process_jobs()")
    with plain_database(shared_cluster) as beside:
        assert copy(db.url, beside) == 0
        assert (
            "attach these tables again, where they are; their documents are there: public.plants"
            in capsys.readouterr().out
        )
        with psycopg.connect(beside) as connection:
            rows = "SELECT source_key, attached_id, status FROM graphrag.documents WHERE content ~ 'oak' AND corpus = 'stories'"
            assert connection.execute(rows).fetchall() == [("1", None, "indexed")]
        db.execute("SELECT graphrag.detach_table('public.plants')")
        db.execute("SELECT graphrag.attach_entities('public.plants', 'stories', ARRAY['id'], name => 'name')")
        assert copy(db.url, beside, "--as", "twin", "--history-as", "former twin") == 1
        assert "has attached rows" in capsys.readouterr().err
        # Other corpora of that database are no matter.
        assert cli.main(["copy", "--url", beside, "--corpus", "sea", db.url]) == 0


def test_a_history_by_itself_is_a_corpus_like_others(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server
) -> None:
    with plain_database(shared_cluster) as beside, GraphRAG(beside, "past") as rag:
        assert cli.main(["copy", "--url", beside, "--corpus", "former stories", "--as", "past", db.url]) == 0
        rag.process_jobs()
        assert rag.call("check") == [] and rag.progress().documents > 7
        with psycopg.connect(beside) as connection:
            versions = "SELECT count(*) FROM graphrag.documents WHERE version_of IS NOT NULL"
            assert connection.execute(versions).fetchone() == (0,)


def test_databases_of_other_versions_are_refused(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with plain_database(shared_cluster) as beside:
        with psycopg.connect(beside, autocommit=True) as connection:
            connection.execute("UPDATE graphrag._installed SET version = '0.2.0'")
        for one, other in ((db.url, beside), (beside, db.url)):
            assert copy(one, other) == 1
            assert "has version 0.2.0" in capsys.readouterr().err


def test_reports_that_came_along_are_not_written_again(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server, endpoint: Endpoint
) -> None:
    # What has changed since the last refresh is done before.
    for _ in range(3):
        source.process_jobs()
    asked = len(endpoint.requests)
    with plain_database(shared_cluster) as beside, GraphRAG(beside, "stories") as rag:
        assert copy(db.url, beside) == 0
        reports = "SELECT title, content, written_at FROM graphrag.community_reports ORDER BY community_id"
        rag.process_jobs()
        rag.call("refresh_communities", corpus="stories")
        rag.process_jobs()
        with psycopg.connect(beside) as connection:
            assert connection.execute(reports).fetchall() == db.execute(reports).fetchall() != []
            assert connection.execute(
                "SELECT count(*) FROM graphrag.community_reports WHERE input_hash = ''"
            ).fetchone() == (0,)
        assert len(endpoint.requests) == asked


def test_a_copy_that_waits_for_another_is_ended_at_once(db: Database, shared_cluster: Cluster | Server) -> None:
    db.execute("SELECT graphrag.create_corpus('stories')")
    with plain_database(shared_cluster) as beside, psycopg.connect(beside) as other:
        other.execute("LOCK TABLE graphrag.corpora IN SHARE UPDATE EXCLUSIVE MODE")
        waiting = "SELECT pid FROM pg_catalog.pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
        command = ["copy", "--url", beside, "--corpus", "stories", db.url]
        # Whoever runs the tests in the background ignores the signal.
        run = ["env", "--default-signal=INT", sys.executable, "-m", "pg_graphrag.beside.cli"]
        process = subprocess.Popen([*run, *command])
        try:
            wait_for(lambda: db.execute(waiting, [other.info.dbname]).fetchone(), "a copy that waits")
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
        finally:
            process.kill()
        other.rollback()
        assert copy(db.url, beside) == 0
