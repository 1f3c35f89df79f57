"""`pg-graphrag move` brings a corpus to another database while it is read and written, and loses nothing."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside import cli
from pg_graphrag.beside.process import corpus_move
from pg_graphrag.beside.process.corpus_copy import access
from pg_graphrag.beside.process.corpus_move import rounds
from pg_graphrag.beside.process.corpus_move.row_changes import RowChanges
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.operate.admin.fingerprint import _SECTIONS
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database, Server
from tests.runtime.nodes import fill as fill_node
from tests.runtime.nodes import nodes_of, place
from tests.security.acting import new_role
from tests.sql.ingest import STORIES, index_all, new_corpus, put, put_all, value, work
from tests.sql.linked_nodes import link
from tests.sql.picture_rows import add_picture
from tests.sql.test_copy_corpus import differences, fill, source, state
from tests.sql.two_hosts import QUESTION, plain_database, reply

REPLY = reply
# As many rounds on a machine that is busy: the one after the copy is the last but one.
FEW_ROUNDS = ["--pause", "60"]
__all__ = ["source"]


@pytest.fixture
def beside(shared_cluster: Cluster | Server) -> Iterator[str]:
    """A database without the extension, which has a corpus of its own."""
    with plain_database(shared_cluster) as url:
        fill(url)
        yield url


def move(source: str, target: str, *arguments: str) -> int:
    return cli.main(["move", "stories", "--url", source, "--to", target, *FEW_ROUNDS, *arguments])


def in_round(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> list[int]:
    """Have something done before a round of a move (0: the first copy); the rounds that were done are returned."""
    bring = rounds.bring
    done: list[int] = []

    def brought(*arguments: Any, **options: Any) -> Any:
        if len(done) == number:
            act()
        done.append(len(done))
        return bring(*arguments, **options)

    monkeypatch.setattr(rounds, "bring", brought)
    return done


def refused(url: str, statement: str, *values: Any) -> psycopg.Error:
    with psycopg.connect(url) as connection, pytest.raises(psycopg.Error) as refusal:
        connection.execute(statement.encode(), values or None)
    return refusal.value


def test_a_corpus_moves_whole_and_the_source_says_where_it_is(
    source: GraphRAG, db: Database, beside: str, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    original = state(db.url)
    asked = len(endpoint.requests)
    assert move(db.url, beside) == 0
    printed = capsys.readouterr().out
    assert 'corpus "stories", 7 documents, is at ' in printed
    assert "seconds without writes" in printed
    assert differences(state(beside), original) == []
    assert len(endpoint.requests) == asked
    for statement in (
        "SELECT * FROM graphrag.search('engine', 'stories')",
        "INSERT INTO graphrag.documents (corpus, content) VALUES ('stories', 'More.')",
        "SELECT graphrag.alter_corpus('stories', '{}')",
    ):
        error = refused(db.url, statement)
        assert error.sqlstate == "42704"
        assert 'corpus "stories" is at ' in str(error.diag.message_primary)
        assert error.diag.message_hint is not None
        assert "plain_owner" not in str(error)
    with GraphRAG(db.url, "sea") as sea:
        assert sea.search("whale") is not None
        sea.process_jobs()
    # What is there is indexed, asked and changed as a corpus that was always there.
    with GraphRAG(beside, "stories") as rag:
        rag.process_jobs()
        rag.insert({"source_key": "new", "content": "Ada Lovelace met Mary Somerville in Turin."})
        rag.process_jobs()
        assert rag.call("check") == []
        assert "new" in {row.source_key for row in rag.search("Mary Somerville")}
    assert move(db.url, beside) == 0
    db.execute("SELECT graphrag.drop_corpus('stories')")
    assert db.execute("SELECT count(*) FROM graphrag.corpora WHERE name = 'stories'").fetchone() == (0,)


def change(db: Database, rag: GraphRAG, role: str) -> None:
    """Change of a corpus whatever people and applications change."""
    rag.insert(
        [
            {"source_key": "late", "content": "Captain Nemo waits for Ada Lovelace in Bergen."},
            {"source_key": "hopper", "content": STORIES["hopper"]},
            {"source_key": "ishmael", "content": "Ishmael met Captain Nemo in Bergen, and wrote of Grace Hopper."},
        ]
    )
    rag.delete("turing")
    rag.process_jobs()
    db.execute("DELETE FROM graphrag.pictures")
    add_picture(db, "stories", "ishmael", caption="A brass whale that Captain Nemo saw in Bergen.")
    rag.process_jobs()
    db.execute("SELECT graphrag.optimize('stories')")
    rag.call("rename_entity", entity="Ada Lovelace", new_name="Countess Lovelace")
    rag.call("undo_curation", id=db.execute("SELECT min(id) FROM graphrag.curations").fetchone()[0])
    rag.call("feedback", question="Who waits?", verdict="bad", corpus="stories", evidence=["late"])
    db.execute("SELECT graphrag.retract('stories', 'late', 'no')")
    db.execute("""SELECT graphrag.alter_corpus('stories', '{"answer_timeout": 77}')""")
    db.execute("SELECT graphrag.grant_corpus('stories', %s)", [role])
    db.execute("SELECT graphrag.protect('stories', $$metadata ->> 'key' IS NULL$$)")
    # As reindex() does.
    db.execute("UPDATE graphrag.corpora SET needs_reindex = false WHERE name = 'stories'")
    rag.ask("Who met Captain Nemo?")
    rag.process_jobs()
    rag.insert({"source_key": "pending", "content": "Ned Land waits in Oslo."})


def test_what_is_changed_while_it_moves_comes_along(
    source: GraphRAG, db: Database, beside: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed: list[Any] = []
    with new_role(db) as role:

        def act() -> None:
            change(db, source, role)
            changed.append(state(db.url))

        done = in_round(monkeypatch, 1, act)
        assert move(db.url, beside) == 0
        assert len(done) == 3, "the copy, a round, the last"
        assert "were left out" not in capsys.readouterr().out
        assert differences(state(beside), changed[0]) == []
        with psycopg.connect(beside) as connection:
            rows = connection.execute(
                "SELECT g.role::text, c.protection, c.options ->> 'answer_timeout', c.move FROM graphrag.corpora c"
                " JOIN graphrag.corpus_grants g ON g.corpus_id = c.id WHERE c.name = 'stories'"
            ).fetchall()
            assert rows == [(role, "metadata ->> 'key' IS NULL", "77", None)]
        with GraphRAG(beside, "stories") as rag:
            rag.process_jobs()
            assert (rag.call("check"), rag.progress().pending) == ([], 0)
            rag.drop_corpus()


def test_what_is_changed_after_the_fingerprints_is_compared_by_itself(
    source: GraphRAG, db: Database, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[Any] = []
    compared: list[int] = []
    await_target, check_equal = corpus_move.await_target, rounds.check_equal

    def checked(*arguments: Any) -> None:
        compared.append(len(done))
        check_equal(*arguments)

    with new_role(db) as role:

        def awaited(target: psycopg.Connection[Any]) -> None:
            change(db, source, role)
            changed.append(state(db.url))
            await_target(target)

        done = in_round(monkeypatch, -1, lambda: None)
        monkeypatch.setattr(corpus_move, "await_target", awaited)
        monkeypatch.setattr(rounds, "check_equal", checked)
        assert move(db.url, beside) == 0
        assert (len(done), compared) == (3, [2, 2]), "of the corpus and its history, before writers wait"
        assert differences(state(beside), changed[0]) == []
        with GraphRAG(beside, "stories") as rag:
            rag.drop_corpus()


@pytest.mark.slow
def test_a_corpus_that_others_reembed_while_it_moves_comes_along(
    source: GraphRAG, db: Database, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[Any] = []

    def act() -> None:
        model = {"provider": "local", "model": "multilingual-e5-small"}
        source.call("reembed", corpus="stories", embedding=model)
        for _ in range(3):
            source.process_jobs()
        changed.append(state(db.url))

    in_round(monkeypatch, 1, act)
    assert move(db.url, beside) == 0
    assert differences(state(beside), changed[0]) == []


def test_while_it_moves_it_is_read_and_not_written(
    source: GraphRAG, db: Database, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = [
        "INSERT INTO graphrag.documents (corpus, content) VALUES ('stories', 'More.')",
        "UPDATE graphrag.documents SET title = 'x' WHERE corpus = 'stories'",
        "DELETE FROM graphrag.documents WHERE corpus = 'stories'",
        "TRUNCATE graphrag.documents",
        "UPDATE graphrag.pictures SET caption = 'x'",
        "DELETE FROM graphrag.pictures",
        "SELECT graphrag.merge_entities(ARRAY['Ada Lovelace', 'Grace Hopper'], 'Ada Lovelace', 'stories')",
        "SELECT graphrag.alter_corpus('stories', '{}')",
        "UPDATE graphrag.corpora SET options = options WHERE name = 'stories'",
        "SELECT graphrag.protect('stories', 'false')",
        "SELECT graphrag.grant_corpus('stories', 'plain_owner')",
        "SELECT graphrag.feedback('Who?', 'good', 'stories')",
        "SELECT graphrag.refresh_communities('stories')",
        "SELECT graphrag.reindex('stories')",
        "SELECT graphrag.retract('stories', 'ada', 'no')",
        "SELECT graphrag.retry_failed('stories')",
        "SELECT graphrag.keep_history('stories', 'more')",
        "SELECT graphrag.end_history('stories')",
        "SELECT graphrag.drop_corpus('stories')",
        "SELECT graphrag.drop_corpus('former stories')",
        "SELECT graphrag.rebuild_graph('stories')",
        "SELECT graphrag.reembed('stories', '{\"provider\": \"local\"}')",
        "INSERT INTO graphrag.documents (corpus, content) VALUES ('former stories', 'More.')",
    ]

    def act() -> None:
        old = psycopg.connect(db.url)
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with old:
            counts = "SELECT count(*) FROM graphrag.llm_calls", "SELECT count(*) FROM graphrag.query_log"
            before = [db.execute(count).fetchone() for count in counts]
            for statement in writes:
                error = refused(db.url, statement)
                assert error.sqlstate == "25006", (statement, error)
                assert 'stories" is moving to ' in str(error)
                assert "Try again" in str(error.diag.message_hint)
            # As rows that replication applies.
            insert = "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES ('stories', 'x', 'More.')"
            for statement in (insert, *writes[1:4]):
                with psycopg.connect(db.url) as applying, pytest.raises(psycopg.Error) as refusal:
                    applying.execute("SET session_replication_role = replica")
                    applying.execute(statement.encode())
                assert refusal.value.sqlstate == "25006", statement
            assert source.search(QUESTION)
            assert source.ask("Who saw the loom in Nottingham?").answer
            assert [db.execute(count).fetchone() for count in counts] == before
            source.process_jobs()
            assert db.execute("SELECT count(*) FROM graphrag.jobs WHERE state = 'leased'").fetchone() == (0,)
            with GraphRAG(db.url, "sea") as sea:
                sea.insert({"source_key": "other", "content": "Starbuck sailed to Oslo."})
                sea.process_jobs()
                assert sea.progress().pending == 0
        assert db.execute("SELECT graphrag.repair()").fetchone() is not None
        assert db.execute("SELECT graphrag.retry_failed()").fetchone() is not None

    in_round(monkeypatch, 2, act)
    assert move(db.url, beside) == 0
    with GraphRAG(beside, "stories") as rag:
        rag.process_jobs()
        assert rag.call("check") == []


@pytest.mark.slow
def test_who_wrote_in_a_snapshot_of_before_is_waited_for_or_fails(
    source: GraphRAG, db: Database, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES ('stories', %s, 'Ishmael wrote.')"
    failed: list[str | None] = []

    def act() -> None:
        for statement, values in (
            (snapshots, ["old"]),
            ("UPDATE graphrag.documents SET title = 'x' WHERE source_key = 'ada' AND corpus = 'stories'", []),
            ("DELETE FROM graphrag.documents WHERE source_key = 'ada' AND corpus = 'stories'", []),
        ):
            with pytest.raises(psycopg.Error) as refusal:
                olds[0].execute(statement.encode(), values)
            failed.append(refusal.value.sqlstate)
            olds.pop(0).close()

    with psycopg.connect(db.url) as other:
        olds = [psycopg.connect(db.url) for _ in range(3)]
        for old in olds:
            old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            old.execute("SELECT FROM graphrag.corpora")
        in_round(monkeypatch, 2, act)
        other.execute(snapshots, ["waits"])
        threading.Timer(2.0, other.commit).start()
        assert move(db.url, beside) == 0
    assert failed == ["40001"] * 3
    with GraphRAG(beside, "stories") as rag:
        assert rag.progress().documents == 8


def test_who_waited_while_the_mark_came_sees_it(db: Database) -> None:
    ids = [db.execute("SELECT id FROM graphrag.corpora WHERE name = %s", [new_corpus(db)]).fetchone()[0] for _ in "ab"]
    with psycopg.connect(db.url) as holder, psycopg.connect(db.url) as writer:
        holder.execute("SELECT FROM graphrag.corpora WHERE id = %s FOR UPDATE", ids[:1])
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(writer.execute, "SELECT graphrag._refuse_moved(%s, %s)", ids)
            while not db.execute(
                "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'", [writer.info.backend_pid]
            ).fetchone():
                time.sleep(0.05)
            move = Jsonb({"state": "moving", "place": "elsewhere/app", "number": 1})
            db.execute("UPDATE graphrag.corpora SET move = %s WHERE id = %s", [move, ids[1]])
            holder.rollback()
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                waiting.result()
    db.execute("UPDATE graphrag.corpora SET move = NULL WHERE id = %s", ids[1:])


@pytest.mark.slow
def test_two_moves_at_a_time_never_open_two_databases(
    source: GraphRAG, db: Database, beside: str, shared_cluster: Cluster | Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain_database(shared_cluster) as third:
        targets = {"beside": beside, "third": third}

        def opened() -> set[str]:
            urls = {"source": db.url, **targets}
            is_open = "SELECT 1 FROM graphrag.corpora WHERE name = 'stories' AND move IS NULL"
            return {name for name, url in urls.items() if psycopg.connect(url).execute(is_open).fetchone()}

        # Another ends first, to another target.
        statuses: list[int] = []
        with monkeypatch.context() as patched:
            in_round(patched, 1, lambda: patched.undo() or statuses.append(move(db.url, third)))
            assert move(db.url, beside) == 1
        assert (statuses, opened()) == ([0], {"third"})
        assert move(db.url, third, "--undo") == 0
        assert opened() == {"source"}
        assert move(db.url, beside, "--undo") == 0
        # Taken back before the last round, which finds that it is.
        with monkeypatch.context() as patched:
            in_round(patched, 2, lambda: statuses.append(move(db.url, beside, "--undo")))
            assert move(db.url, beside) == 1
        assert (statuses.pop(), opened()) == (0, {"source"})
        # Taken back while the target is opened: it waits, and sees that it is.
        with monkeypatch.context() as patched, ThreadPoolExecutor(1) as thread:
            open_again, others = access.open_again, []

            def slowly(*arguments: Any) -> None:
                others.append(thread.submit(move, db.url, beside, "--undo"))
                time.sleep(2)
                open_again(*arguments)

            patched.setattr(access, "open_again", slowly)
            ended = move(db.url, beside)
            taken_back = others[0].result(60)
        assert opened() in ({"source"}, {"beside"}), (ended, taken_back)
        if opened() == {"beside"}:
            assert move(db.url, beside) == 0
            assert move(db.url, beside, "--undo") == 0

        # Dropped before the last round: nothing is copied anew by it.
        def drop() -> None:
            with GraphRAG(beside, "stories") as rag:
                rag.drop_corpus()

        with monkeypatch.context() as patched:
            in_round(patched, 2, drop)
            assert move(db.url, beside) == 1
        assert opened() == {"source"}


@pytest.mark.slow
def test_a_database_with_a_corpus_that_has_moved_is_restored_and_says_so(db: Database, shared_cluster: Cluster) -> None:
    corpus, other = new_corpus(db), new_corpus(db)
    for name in (corpus, other):
        put_all(db, name, STORIES)
    add_picture(db, corpus, "ada")
    work(db)
    move = Jsonb({"state": "moved", "place": "elsewhere/app", "number": 1})
    db.execute("UPDATE graphrag.corpora SET move = %s WHERE name = %s", [move, corpus])
    url = shared_cluster.create_database("restored", "template0")
    try:
        shared_cluster.restore("restored", shared_cluster.dump(db.info.dbname))
        db.execute("UPDATE graphrag.corpora SET move = NULL WHERE name = %s", [corpus])
        original = [db.execute("SELECT graphrag.fingerprint(%s)", [name]).fetchone() for name in (corpus, other)]
        with Database.open(url) as restored:
            restored.execute("SELECT graphrag.repair()")
            insert = "INSERT INTO graphrag.documents (corpus, content) VALUES (%s, 'More.')"
            for statement in (insert, "SELECT graphrag.search('Ada', %s)"):
                error = refused(url, statement, corpus)
                assert (error.sqlstate, "is at elsewhere/app" in str(error)) == ("42704", True)
            # Who wants the restored one by itself.
            restored.execute("UPDATE graphrag.corpora SET move = NULL WHERE name = %s", [corpus])
            restored.execute("SELECT graphrag.repair()")
            work(restored)
            assert [
                restored.execute("SELECT graphrag.fingerprint(%s)", [name]).fetchone() for name in (corpus, other)
            ] == original
    finally:
        shared_cluster.drop_database("restored")


TAMPERED = {
    "entities": "UPDATE graphrag.entities SET description = 'Other.' WHERE id = (SELECT min(e.id) FROM graphrag.entities e"
    " JOIN graphrag.corpora c ON c.id = e.corpus_id WHERE c.name = %(corpus)s)",
    "entity mentions": "DELETE FROM graphrag.entity_mentions WHERE id = (SELECT min(m.id) FROM graphrag.entity_mentions m"
    " JOIN graphrag.chunks k ON k.id = m.chunk_id JOIN graphrag.corpora c ON c.id = k.corpus_id WHERE c.name = %(corpus)s)",
    "documents": "UPDATE graphrag.documents SET title = 'Other' WHERE corpus = %(corpus)s AND source_key = 'hopper'",
}


def tamper(target: str, corpus: str, section: str) -> None:
    """Change what has arrived, as only its owner can: he takes the mark off."""
    with psycopg.connect(target) as connection:
        mark = "SELECT move FROM graphrag.corpora WHERE name = %s"
        (move,) = connection.execute(mark, [corpus]).fetchone() or (None,)
        marked = "UPDATE graphrag.corpora SET move = %s WHERE name = %s"
        if section == "documents":
            connection.execute(marked, [None, corpus])
        assert connection.execute(TAMPERED[section].encode(), {"corpus": corpus}).rowcount == 1
        if section == "documents":
            connection.execute(marked, [Jsonb(move), corpus])


@pytest.mark.sample(3)
@pytest.mark.parametrize("section", TAMPERED)
def test_a_target_that_was_changed_after_its_fingerprint_is_not_opened(
    db: Database,
    shared_cluster: Cluster | Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    section: str,
) -> None:
    corpus = index_all(db, new_corpus(db), STORIES)
    with plain_database(shared_cluster) as target:
        command = ["move", corpus, "--url", db.url, "--to", target, *FEW_ROUNDS]
        with monkeypatch.context() as patched:
            done = in_round(patched, 2, lambda: tamper(target, corpus, section))
            assert cli.main(command) == 1
        assert len(done) == 3
        assert f"is not what the source has: {section}" in capsys.readouterr().err
        put(db, corpus, "more", "Ishmael met Ada Lovelace in Bergen.")
        # Found before writers wait.
        with monkeypatch.context() as patched:
            done = in_round(patched, -1, lambda: None)
            assert cli.main(command) == 1
        assert len(done) == 1
        assert cli.main([*command, "--undo"]) == 0
        assert cli.main(command) == 0


def test_a_row_that_is_changed_while_the_last_round_is_under_way_is_found(
    db: Database, shared_cluster: Cluster | Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = index_all(db, new_corpus(db), STORIES)
    repair = rounds.repair

    def tampered(*arguments: Any, **options: Any) -> None:
        tamper(target, corpus, "entities")
        repair(*arguments, **options)

    with plain_database(shared_cluster) as target:
        command = ["move", corpus, "--url", db.url, "--to", target, *FEW_ROUNDS]
        with monkeypatch.context() as patched:
            patched.setattr(rounds, "repair", tampered)
            assert cli.main(command) == 1
        assert "is not what the source has: entities" in capsys.readouterr().err


def last_round(
    db: Database, shared_cluster: Cluster | Server, monkeypatch: pytest.MonkeyPatch, count: int
) -> tuple[int, int]:
    """Move a corpus of so many documents: statements and copied bytes while it is not written."""
    corpus = new_corpus(db)
    put_all(
        db, corpus, {f"{key} {place}": f"{text} {place}" for place in range(count) for key, text in STORIES.items()}
    )
    work(db)
    db.execute("SELECT graphrag.optimize(%s)", [corpus])
    work(db)
    figures = {"statements": 0, "bytes": 0}
    compared: list[int] = []
    tables: set[str] = set()
    reads: Counter[tuple[str, bool]] = Counter()
    with monkeypatch.context() as patched, plain_database(shared_cluster) as target:
        execute, write, check_equal = psycopg.Cursor.execute, psycopg.Copy.write, rounds.check_equal
        copied = psycopg.Cursor.copy
        done = in_round(patched, -1, lambda: None)

        def executed(*arguments: Any, **options: Any) -> Any:
            figures["statements"] += len(done) == 3
            note(*arguments)
            return execute(*arguments, **options)

        def copy(*arguments: Any, **options: Any) -> Any:
            note(*arguments)
            return copied(*arguments, **options)

        def note(cursor: psycopg.Cursor[Any], statement: Any, *_: Any) -> None:
            text = statement if isinstance(statement, bytes) else str(statement).encode()
            if len(done) == 3 and b"created_at" not in text:
                names = re.findall(rb"FROM graphrag\.(\w+) x", text)
                reads.update((table.decode(), cursor.connection.info.dbname == db.info.dbname) for table in names)

        def written(copy: psycopg.Copy, block: bytes) -> None:
            figures["bytes"] += len(block) if len(done) == 3 else 0
            write(copy, block)

        def checked(*arguments: Any) -> None:
            compared.append(len(done))
            check_equal(*arguments)

        def has_keys(changes: RowChanges, table: str, columns: list[str]) -> bool:
            tables.add(table)
            return compare(changes, table, columns)

        compare = RowChanges._has_keys
        patched.setattr(psycopg.Cursor, "execute", executed)
        patched.setattr(psycopg.Cursor, "copy", copy)
        patched.setattr(psycopg.Copy, "write", written)
        patched.setattr(rounds, "check_equal", checked)
        patched.setattr(RowChanges, "_has_keys", has_keys)
        assert cli.main(["move", corpus, "--url", db.url, "--to", target, *FEW_ROUNDS]) == 0
        assert len(done) == 3
    assert compared == [2], "fingerprints before writers wait, and never after"
    large = ("chunks", "chunk_windows", "window_vectors", "entity_mentions", "entities", "relationships")
    assert {(table, is_source): reads[table, is_source] for table in large for is_source in (True, False)} == {
        (table, is_source): 2 if is_source else 1 for table in large for is_source in (True, False)
    }, "what is newer and the keys here, both at once there"
    read = set(re.findall(r"(?:FROM|JOIN) graphrag\.(\w+)", "".join(_SECTIONS.values())))
    assert len(read) > 10
    assert tables >= read | {"bm25_segments", "bm25_postings", "bm25_tail", "bm25_tombstones"}, "all that they read"
    return figures["statements"], figures["bytes"]


def test_what_is_done_without_writers_does_not_grow_with_the_corpus(
    db: Database, shared_cluster: Cluster | Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (last_round(db, shared_cluster, monkeypatch, count) for count in (1, 4))
    assert few[0] > 0
    assert many[0] <= 1.1 * few[0], (few, many)
    assert many[1] <= 1.1 * few[1], (few, many)


def test_what_arrives_is_of_one_source(
    source: GraphRAG,
    db: Database,
    beside: str,
    shared_cluster: Cluster | Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def die() -> None:
        raise GraphRAGError("died")

    with plain_database(shared_cluster) as other:
        with GraphRAG(other, "stories") as rag:
            rag.create_corpus()
            rag.insert({"source_key": "other", "content": "Ishmael."})
        with monkeypatch.context() as patched:
            in_round(patched, 1, die)
            assert move(db.url, beside) == 1
        capsys.readouterr()
        assert move(other, beside) == 1
        assert 'another corpus "stories" is arriving from ' in capsys.readouterr().err
        assert move(other, beside, "--undo") == 1
        assert move(db.url, beside) == 0


def test_a_move_that_has_not_ended_is_taken_back(
    source: GraphRAG, db: Database, beside: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = state(db.url)

    def die() -> None:
        raise GraphRAGError("died")

    for number in (1, 2):
        with monkeypatch.context() as patched:
            in_round(patched, number, die)
            assert move(db.url, beside) == 1
            assert "died" in capsys.readouterr().err
        for statement in (
            "SELECT * FROM graphrag.documents WHERE corpus = 'stories' AND graphrag._refuse_moved(corpus_id) IS NULL",
            "INSERT INTO graphrag.documents (corpus, content) VALUES ('stories', 'More.')",
        ):
            assert refused(beside, statement).sqlstate == "55000"
        assert move(db.url, beside, "--undo") == 0
        assert differences(state(db.url), original) == []
        with psycopg.connect(beside) as connection:
            assert connection.execute("SELECT name FROM graphrag.corpora").fetchall() == [("rockets",)]
            assert connection.execute(
                "SELECT relrowsecurity FROM pg_class WHERE oid = 'graphrag.documents'::regclass"
            ).fetchone() == (False,)
    assert move(db.url, beside, "--undo") == 1
    assert 'corpus "stories" does not move' in capsys.readouterr().err


@pytest.mark.slow
def test_a_move_that_has_ended_is_taken_back_while_nothing_is_written_there(
    source: GraphRAG, db: Database, beside: str, capsys: pytest.CaptureFixture[str]
) -> None:
    original = state(db.url)
    assert move(db.url, beside) == 0
    with GraphRAG(beside, "stories") as rag:
        # What workers make is no change.
        rag.process_jobs()
        assert move(db.url, beside, "--undo") == 0
        assert differences(state(db.url), original) == []
        assert move(db.url, beside) == 0
        rag.insert({"source_key": "new", "content": "Ishmael wrote."})
        rag.call("merge_entities", entities=["Grace Hopper"], target="Ada Lovelace")
        capsys.readouterr()
        assert move(db.url, beside, "--undo") == 1
        error = capsys.readouterr().err
        assert "2 documents" in error, "with the version of its history"
        assert "1 curations" in error
        # It is written there as before.
        rag.insert({"source_key": "new", "content": "Ishmael wrote more."})
        assert refused(db.url, "SELECT graphrag.search('x', 'stories')").sqlstate == "42704"
        assert move(db.url, beside, "--undo", "--force") == 0
        assert differences(state(db.url), original) == []
        assert (
            refused(beside, "INSERT INTO graphrag.documents (corpus, content) VALUES ('stories', 'More.')").sqlstate
            == "42704"
        )


def test_what_cannot_move_is_told_why_and_stays_as_it_is(
    source: GraphRAG, db: Database, beside: str, shared_cluster: Cluster | Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(*arguments: str) -> str:
        assert cli.main(["move", *arguments]) == 1
        return capsys.readouterr().err

    assert 'corpus "none" does not exist' in refusal("none", "--url", db.url, "--to", beside)
    assert 'has a corpus "stories" already' in refusal("stories", "--url", db.url, "--to", db.url)
    assert "is the history of another" in refusal("former stories", "--url", db.url, "--to", beside)
    assert "--force is of --undo" in refusal("stories", "--url", db.url, "--to", beside, "--force")
    assert "does not move" in refusal("stories", "--url", db.url, "--to", beside, "--undo")
    db.execute("CREATE TABLE public.oaks (id int PRIMARY KEY, words text)")
    db.execute("SELECT graphrag.attach_table('public.oaks', 'stories', 'id', ARRAY['words'])")
    assert "has attached tables, which are written here: public.oaks" in refusal(
        "stories", "--url", db.url, "--to", beside
    )
    db.execute("SELECT graphrag.detach_table('public.oaks')")
    with plain_database(shared_cluster) as third:
        assert move(db.url, beside) == 0
        assert 'corpus "stories" is at ' in refusal("stories", "--url", db.url, "--to", third)
        assert 'corpus "stories" is at ' in refusal("stories", "--url", db.url, "--to", third, "--undo")
        # Further on, and back where it was.
        assert move(beside, third) == 0
        assert "drop_corpus" in refusal("stories", "--url", third, "--to", db.url)
        db.execute("SELECT graphrag.drop_corpus('stories'), graphrag.drop_corpus('former stories')")
        assert move(third, db.url) == 0
    source.process_jobs()
    assert source.call("check") == []


@pytest.mark.slow
def test_health_names_a_corpus_whose_move_has_not_ended(
    source: GraphRAG, db: Database, beside: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def die() -> None:
        db.execute(
            "UPDATE graphrag.corpora SET move = move || pg_catalog.jsonb_build_object('since', now() - interval '2 minutes')"
            " WHERE name = 'stories'"
        )
        while_frozen.extend(
            db.execute("SELECT severity, detail FROM graphrag.health() WHERE subject = 'corpus \"stories\"'").fetchall()
        )
        raise GraphRAGError("died")

    while_frozen: list[Any] = []
    in_round(monkeypatch, 2, die)
    assert move(db.url, beside) == 1
    assert [severity for severity, detail in while_frozen if "has been moving to" in detail] == ["error"]
    # reindex() would be refused.
    assert [detail for _, detail in while_frozen if "an earlier version" in detail] == []
    monkeypatch.undo()
    assert not [row for row in db.execute("SELECT detail FROM graphrag.health()").fetchall() if "moving" in row[0]]
    assert move(db.url, beside) == 0
    # Its jobs wait for nobody any more.
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() - interval '1 hour'")
    of_stories = (
        "SELECT count(*) FROM graphrag.jobs j JOIN graphrag.corpora c ON c.id = j.corpus_id WHERE c.name = 'stories'"
    )
    assert value(db, of_stories) > 0
    findings = db.execute("SELECT subject, detail FROM graphrag.health()").fetchall()
    assert [row for row in findings if "stories" in row[0] or "are due" in row[1]] == []


def test_clients_follow_a_corpus_that_moves_between_nodes(shared_cluster: Cluster | Server) -> None:
    with nodes_of(dict.fromkeys("ab", shared_cluster)) as nodes:
        fill_node(nodes["a"], "stories", STORIES)
        place(nodes, "stories", "a")
        with Database.open(nodes["a"].url) as session:
            link(session, "b", nodes["b"].url)
        with GraphRAG(nodes["a"].url, "stories") as here, GraphRAG(nodes["b"].url, "stories") as there:
            before = [row.content for row in here.search(QUESTION)]
            assert [row.content for row in there.search(QUESTION)] == before
            for back in (False, True):
                assert move(nodes["a"].url, nodes["b"].url, *["--undo"] * back) == 0
                for call in ("'stories'", "corpora => '{stories}'", "corpora => '{*}'"):
                    with Database.open(nodes["a"].url) as session:
                        hits = session.execute(
                            f"SELECT s.content FROM graphrag.search('{QUESTION}', {call}) s".encode()
                        )
                        assert [content for (content,) in hits] == before
                for rag in (here, there):
                    assert [row.content for row in rag.search(QUESTION)] == before
                for node in nodes.values():
                    with psycopg.connect(node.url) as connection:
                        rows = connection.execute("SELECT node FROM graphrag.placements").fetchall()
                        assert rows == [("a" if back else "b",)]
