"""``pg-graphrag import-lightrag`` and ``ingest`` that are killed, stopped or cut off: nothing half written, run again goes on."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import networkx
import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.runtime.link import Link
from tests.sql.ingest import corpus_id, rows, value, wait_for

DOCUMENTS = {f"doc-{number}": f"Ada met traveller {number} in London." for number in range(3)}
TABLES = ("corpora", "documents", "imported_extractions", "jobs")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory of LightRAG, a chunk a document."""
    graph = networkx.Graph()
    every_chunk = "<SEP>".join(DOCUMENTS)
    graph.add_node("Ada", entity_type="person", description="Met travellers.", source_id=every_chunk)
    graph.add_node("London", entity_type="place", description="A city.", source_id=every_chunk)
    graph.add_edge("Ada", "London", weight=3.0, description="Was there.", keywords="travel", source_id=every_chunk)
    networkx.write_graphml(graph, tmp_path / "graph_chunk_entity_relation.graphml")
    chunks = {key: {"content": text, "full_doc_id": key} for key, text in DOCUMENTS.items()}
    (tmp_path / "kv_store_full_docs.json").write_text(
        json.dumps({key: {"content": text} for key, text in DOCUMENTS.items()})
    )
    (tmp_path / "kv_store_text_chunks.json").write_text(json.dumps(chunks))
    return tmp_path


def command(url: str, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pg_graphrag.beside.cli",
            arguments[0],
            "--url",
            url,
            "--corpus",
            "light",
            *arguments[1:],
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )


def heed_signals() -> None:
    """Have signals their effect that `nohup ./test` and `./test &` have ignored, as the command would."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def stopped_in(db: Database, table: str) -> Iterator[None]:
    """Have whoever writes a table wait; the body goes on when somebody does."""
    with psycopg.connect(db.url) as holder:
        holder.execute(f"LOCK TABLE graphrag.{table} IN SHARE MODE".encode())
        yield


def wait_for_waiting(db: Database) -> int:
    waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return int(wait_for(lambda: rows(db, waiting), "a session that waits")[0][0])


def is_gone(db: Database, pid: int) -> bool:
    return not rows(db, "SELECT FROM pg_stat_activity WHERE pid = %s", pid)


def check_nothing_is_there(db: Database) -> None:
    for table in TABLES:
        assert value(db, f"SELECT count(*) FROM graphrag.{table}") == 0, table


def check_second_run(db: Database, folder: Path, unchanged: int) -> None:
    again = command(db.url, "import-lightrag", folder)
    output, errors = again.communicate(timeout=120)
    assert (again.returncode, output) == (0, f"3 documents, {unchanged} of them unchanged\n"), errors
    statuses = rows(db, "SELECT source_key, status FROM graphrag.documents ORDER BY 1")
    assert statuses == [(key, "indexed") for key in DOCUMENTS]
    assert rows(db, "SELECT * FROM graphrag.check('light')") == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_import_that_is_ended_leaves_nothing_and_no_session(db: Database, folder: Path, how: signal.Signals) -> None:
    with stopped_in(db, "imported_extractions"):
        run = command(db.url, "import-lightrag", folder)
        pid = wait_for_waiting(db)
        run.send_signal(how)
        _, errors = run.communicate(timeout=60)
        # While it waits for a lock, too: else the next run would wait for it.
        wait_for(lambda: is_gone(db, pid), "the end of its session")
    if how in (signal.SIGTERM, signal.SIGINT):
        assert run.returncode == 130
        assert "nothing was imported" in errors
    check_nothing_is_there(db)
    check_second_run(db, folder, 0)


@pytest.mark.slow
def test_an_import_that_is_cut_off_leaves_nothing_and_says_what_to_do(db: Database, folder: Path) -> None:
    with Link(db.url) as link, stopped_in(db, "imported_extractions"):
        run = command(link.url, "import-lightrag", folder)
        pid = wait_for_waiting(db)
        link.cut()
        _, errors = run.communicate(timeout=60)
        wait_for(lambda: is_gone(db, pid), "the end of its session")
    assert run.returncode == 1
    assert "the connection was lost" in errors
    assert "Run it again" in errors
    check_nothing_is_there(db)
    check_second_run(db, folder, 0)


@pytest.mark.slow
def test_an_import_whose_indexing_is_cut_off_goes_on(db: Database, folder: Path) -> None:
    with Link(db.url) as link, stopped_in(db, "entities"):
        run = command(link.url, "import-lightrag", folder)
        pid = wait_for_waiting(db)
        link.cut()
        output, errors = run.communicate(timeout=60)
        wait_for(lambda: is_gone(db, pid), "the end of its session")
    assert run.returncode == 1
    assert output == "3 documents, 0 of them unchanged\n"
    assert "is queued: pg-graphrag worker --once goes on" in errors
    assert value(db, "SELECT count(*) FROM graphrag.chunks WHERE corpus_id = %s", corpus_id(db, "light")) == 0
    check_second_run(db, folder, 3)


def test_a_file_that_is_cut_off_is_refused(db: Database, folder: Path) -> None:
    path = folder / "kv_store_text_chunks.json"
    path.write_text(path.read_text()[:-20])
    run = command(db.url, "import-lightrag", folder)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 1
    assert errors.startswith(f"pg-graphrag: {folder} cannot be read as an index of LightRAG")
    assert "HINT:" in errors
    check_nothing_is_there(db)


def test_an_ingestion_that_is_cut_off_says_what_is_there_and_goes_on(db: Database, tmp_path: Path) -> None:
    db.execute("SELECT graphrag.create_corpus('light')")
    for number in range(2):
        (tmp_path / f"{number}.txt").write_text(f"Ada met traveller {number}.")
    with Link(db.url) as link, stopped_in(db, "documents"):
        run = command(link.url, "ingest", tmp_path)
        pid = wait_for_waiting(db)
        link.cut()
        _, errors = run.communicate(timeout=60)
        # Its statement goes on when the lock is gone, and finds nobody to tell.
        db.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])
    assert run.returncode == 1
    assert "2 files: 0 new, 0 changed, 0 unchanged" in errors
    assert "Run it again" in errors
    again = command(db.url, "ingest", tmp_path)
    output, errors = again.communicate(timeout=60)
    assert (again.returncode, output) == (0, "2 files: 2 new, 0 changed, 0 unchanged, 0 errors\n"), errors
