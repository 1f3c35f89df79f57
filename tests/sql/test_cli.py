"""The command pg-graphrag on a real server: files in, worker under signals and restarts, search and status."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import psycopg
import pytest
from pg_graphrag.beside.cli import main
from pg_graphrag.beside.cli import worker as worker_module
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import Cluster, Database

MINUTE = 60.0
MAIL = b"""Subject: Pump
Content-Type: multipart/mixed; boundary=B

--B

Look.
--B
Content-Type: image/jpeg
Content-Disposition: attachment; filename="photo.jpg"

x
--B--
"""


def environment(url: str) -> dict[str, str]:
    return os.environ | {"PG_GRAPHRAG_URL": url, "PYTHONUNBUFFERED": "1"}


def cli(url: str, *arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command and check its exit status: a worker in a process of its own, for its signals and its log."""
    command = [*map(str, arguments)]
    if command[0] == "worker":
        done = subprocess.run(
            [sys.executable, "-m", "pg_graphrag.beside.cli", *command],
            env=environment(url),
            capture_output=True,
            text=True,
            timeout=5 * MINUTE,
        )
    else:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            returned = main([command[0], "--url", url, *command[1:]])
        done = subprocess.CompletedProcess(command, returned, out.getvalue(), err.getvalue())
    assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def eventually(condition: Callable[[], object], seconds: float = MINUTE) -> None:
    """Wait until `condition` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def count(database: Database, query: str) -> int:
    row = database.execute(f"SELECT count(*) FROM {query}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def worker() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start workers; whatever still runs after the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(url: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pg_graphrag.beside.cli", "worker", *arguments]
        started.append(subprocess.Popen(command, env=environment(url), stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


def fill(database: Database, documents: int, sentences: int = 40) -> None:
    """Insert documents that take a while to index."""
    for document in range(1, documents + 1):
        names = (f"Engineer Smith{document} met Director Jones{number}." for number in range(sentences))
        database.execute(
            "INSERT INTO graphrag.documents (source_key, content) VALUES (%s, %s)", [str(document), " ".join(names)]
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files: dict[str, bytes] = {
        "notes.txt": b"Ada Lovelace wrote to Charles Babbage.",
        "guide/intro.md": b"# Introduction\n\nThe Analytical Engine has a mill and a store.",
        "guide/page.html": b"<title>Looms</title><nav>Home</nav><p>The Jacquard loom wove from punched cards.",
        "people.jsonl": b'{"id": 1, "title": "Ada", "text": "Ada Lovelace", "year": 1815}\n{"id": 2, "text": "C. B."}',
        ".hidden.txt": b"no",
        "drawing.svg": b"<svg/>",
    }
    for name, content in files.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "docs"


# ingest


def test_ingest_reads_a_folder_and_a_second_run_costs_nothing(db: Database, folder: Path) -> None:
    assert cli(db.url, "ingest", folder).stdout == "4 files: 5 new, 0 changed, 0 unchanged, 0 errors, 2 skipped\n"
    rows = db.execute(
        "SELECT source_key, title, metadata - 'modified' FROM graphrag.documents ORDER BY source_key"
    ).fetchall()
    assert rows == [
        ("1", "Ada", {"mime": "application/jsonl", "path": "people.jsonl", "year": 1815}),
        ("2", None, {"mime": "application/jsonl", "path": "people.jsonl"}),
        ("guide/intro.md", "Introduction", {"mime": "text/markdown", "path": "guide/intro.md"}),
        ("guide/page.html", "Looms", {"mime": "text/html", "path": "guide/page.html"}),
        ("notes.txt", "notes", {"mime": "text/plain", "path": "notes.txt"}),
    ]
    db.execute("CALL graphrag.process_jobs()")
    (folder / "guide/intro.md").write_text("# Introduction\n\nIt also has a printer.")
    assert "0 new, 1 changed, 4 unchanged" in cli(db.url, "ingest", folder).stdout
    assert count(db, "graphrag.jobs WHERE kind = 'index'") == 1


def test_what_cannot_be_read_is_named_and_the_rest_goes_in(db: Database, folder: Path) -> None:
    (folder / "latin.txt").write_bytes(b"caf\xe9\x01")
    (folder / "nul.txt").write_bytes(b"a\x00b")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 not really")
    (folder / "people.jsonl").write_bytes(b'{"id": 1, "text": "one"}\n{"id": 2\n{"id": 3, "text": "three"}\n')
    done = cli(db.url, "ingest", folder, folder / "none.txt", status=1)
    assert done.stdout == "7 files: 5 new, 0 changed, 0 unchanged, 5 errors, 2 skipped\n"
    assert "pg-graphrag: skipped 1 .svg: drawing.svg\n" in done.stderr
    assert "pg-graphrag: skipped 1 hidden: .hidden.txt\n" in done.stderr
    assert f"{folder}/latin.txt: invalid UTF-8 at byte 3 (0xe9)" in done.stderr
    assert f"{folder}/nul.txt: NUL character at byte 1" in done.stderr
    assert f"{folder}/broken.pdf: cannot be read as PDF" in done.stderr
    assert f"{folder}/people.jsonl: line 2 is not JSON" in done.stderr
    assert f"{folder}/none.txt: no such file or directory" in done.stderr
    assert count(db, "graphrag.documents WHERE source_key IN ('1', '3', 'notes.txt')") == 3


def test_a_document_the_database_refuses_is_named_and_its_batch_goes_in(db: Database, folder: Path) -> None:
    lines = [{"id": "k" * 2_001, "text": "x"}, {"id": "good", "text": "y"}]
    (folder / "people.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = cli(db.url, "ingest", folder, status=1)
    assert "documents_source_key_check" in done.stderr
    assert f"{folder}/people.jsonl: " in done.stderr
    assert count(db, "graphrag.documents") == 4


def test_two_files_with_one_key_do_not_replace_each_other(db: Database, tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "README.md").write_text(part)
    done = cli(db.url, "ingest", tmp_path / "a", tmp_path / "b", status=1)
    assert f'{tmp_path}/b/README.md: its key "README.md" is that of {tmp_path}/a/README.md; use --prefix' in done.stderr
    assert db.execute("SELECT content FROM graphrag.documents").fetchall() == [("a",)]
    cli(db.url, "ingest", "--prefix", "b/", tmp_path / "b")
    assert count(db, "graphrag.documents WHERE source_key IN ('README.md', 'b/README.md')") == 2


def test_prune_deletes_what_has_gone_from_the_folder_and_nothing_else(db: Database, folder: Path) -> None:
    db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('m/app', 'not from a file')")
    cli(db.url, "ingest", "--prefix", "other/", folder)
    cli(db.url, "ingest", "--prefix", "m/", folder)
    (folder / "notes.txt").unlink()
    (folder / "bad.txt").write_bytes(b"\xff\x01")
    done = cli(db.url, "ingest", "--prefix", "m/", "--prune", folder, status=1)
    assert "nothing is pruned after errors" in done.stderr
    assert count(db, "graphrag.documents") == 11
    (folder / "bad.txt").unlink()
    # Of what is there and is not read this time, what another run read stays.
    (folder / "photo.jpg").write_bytes(b"x")
    (folder / "mail.eml").write_bytes(MAIL)
    (folder / "data.xml").write_text("<data/>")
    kept = ["photo.jpg", "mail.eml/photo.jpg", "data.xml"]
    for path in kept:
        db.execute(
            "INSERT INTO graphrag.documents (source_key, content, metadata)"
            " VALUES (%s, 'read', jsonb_build_object('path', %s::text))",
            [f"m/{path}", path],
        )
    done = cli(db.url, "ingest", "--ocr", "never", "--prefix", "m/", "--prune", folder)
    assert "1 documents pruned" in done.stdout
    assert count(db, "graphrag.documents WHERE content = 'read'") == len(kept)
    for path in kept:
        (folder / path.partition("/")[0]).unlink()
    assert "4 documents pruned" in cli(db.url, "ingest", "--prefix", "m/", "--prune", folder).stdout
    assert count(db, "graphrag.documents WHERE source_key = 'm/notes.txt'") == 0
    assert count(db, "graphrag.documents") == 10


def test_rows_and_lines_with_one_key_do_not_replace_each_other(db: Database, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,text\n1,first\n1,second\n2,third\n")
    (tmp_path / "lines.jsonl").write_text('{"id": "a", "text": "fourth"}\n{"id": "a", "text": "fifth"}\n')
    done = cli(db.url, "ingest", "--by-row", tmp_path, status=1)
    assert "2 files: 3 new, 0 changed, 0 unchanged, 2 errors" in done.stdout
    for name, key in (("rows.csv", "rows.csv#1"), ("lines.jsonl", "a")):
        assert (
            f'{tmp_path}/{name}: more than one of its rows or lines has the key "{key}"; the first is taken'
            in done.stderr
        )
    texts = {text for (text,) in db.execute("SELECT content FROM graphrag.documents")}
    assert texts == {"id: 1\ntext: first", "id: 2\ntext: third", "fourth"}


def test_ingest_into_a_corpus_that_is_not_there_says_how_to_make_it(db: Database, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"no PDF")
    done = cli(db.url, "ingest", "--corpus", "none", folder, status=1)
    assert 'corpus "none" does not exist' in done.stderr
    # Before any file is read: a long scan takes minutes.
    assert "broken.pdf" not in done.stderr
    assert "HINT: " in done.stderr
    assert "create_corpus" in done.stderr


def test_a_database_without_the_extension_is_an_error_with_a_hint(empty_db: Database, folder: Path) -> None:
    for command in (["ingest", folder], ["worker"], ["worker", "--once"], ["search", "q"], ["status"]):
        done = cli(empty_db.url, *command, status=1)
        assert "has no extension pg_graphrag" in done.stderr
        assert "CREATE EXTENSION pg_graphrag CASCADE" in done.stderr


# search and status


def test_ingest_worker_search_and_status_from_the_shell(db: Database, folder: Path) -> None:
    cli(db.url, "ingest", folder)
    waiting = cli(db.url, "status").stdout
    assert re.search(r"^default +5 +0 +0 +5 +0 ", waiting, re.MULTILINE)
    assert "5 documents pending" in waiting
    done = cli(db.url, "worker", "--once", "--concurrency", "2")
    assert "100%, 5/5 documents" in done.stderr
    (row,) = [json.loads(line) for line in cli(db.url, "status", "--json").stdout.splitlines()]
    assert (row["corpus"], row["documents"], row["indexed"], row["pending"]) == ("default", 5, 5, 0)

    text = cli(db.url, "search", "Who wrote to Babbage?", "--mode", "bm25", "--top-k", "1").stdout
    assert text.startswith("1. notes  [notes.txt]  ")
    assert "Ada Lovelace wrote to Charles Babbage." in text
    several = cli(
        db.url, "search", "Who wrote to Babbage?", "--mode", "bm25", "--top-k", "1", "--corpora", "default", "*"
    )
    assert several.stdout.startswith("1. notes  [notes.txt]  (default)  ")
    db.execute("SELECT graphrag.create_corpus('lost')")
    db.execute("UPDATE graphrag.corpora SET options = '{\"embedding\": 3}' WHERE name = 'lost'")
    # As the database says it.
    assert (
        'warning: corpus "lost" did not answer' in cli(db.url, "search", "Ada", "--corpora", "default", "lost").stderr
    )
    db.execute("UPDATE graphrag.corpora SET options = '{\"cypher\": false}' WHERE name = 'lost'")
    db.execute("SELECT graphrag.drop_corpus('lost')")
    lines = cli(db.url, "search", "--json", "--explain", "Analytical Engine").stdout.splitlines()
    first = json.loads(lines[0])
    assert (first["rank"], first["source_key"]) == (1, "guide/intro.md")
    assert first["explain"]
    assert "explain" not in json.loads(cli(db.url, "search", "--json", "loom").stdout.splitlines()[0])
    filtered = cli(db.url, "search", "Ada", "--json", "--filter", '{"year": 1815}').stdout.splitlines()
    assert [json.loads(line)["source_key"] for line in filtered] == ["1"]
    assert cli(db.url, "search", "Ada", "--filter", '{"year": 1}').stdout == "nothing found\n"
    assert "astral" in cli(db.url, "search", "Ada", "--mode", "astral", status=1).stderr
    assert cli(db.url, "ingest", "--wait", folder).returncode == 0


def test_progress_of_a_run_counts_the_corpora_that_it_works_on(db: Database) -> None:
    fill(db, 1, 1)
    db.execute("CALL graphrag.process_jobs()")
    db.execute("SELECT graphrag.create_corpus('second')")
    db.execute(
        "INSERT INTO graphrag.documents (corpus, content)"
        " SELECT 'second', 'Ada wrote note ' || g FROM generate_series(1, 30) g"
    )
    assert "100%, 30/30 documents" in cli(db.url, "worker", "--once").stderr


def test_status_lists_what_failed(db: Database) -> None:
    fill(db, 12, 1)
    db.execute("UPDATE graphrag.jobs SET state = 'failed', last_error = 'no such thing', lease = NULL")
    db.execute("UPDATE graphrag.documents SET status = 'failed', error = 'no such thing'")
    text = cli(db.url, "status").stdout
    assert "12 documents failed" in text
    assert "  1: no such thing" in text
    assert "and 2 more in graphrag.failed_jobs" in text


def test_a_reader_that_has_enough_is_no_error_to_show(db: Database) -> None:
    fill(db, 1, 1)
    db.execute("CALL graphrag.process_jobs()")
    command = f"{sys.executable} -m pg_graphrag.beside.cli search --json --explain Smith | true"
    done = subprocess.run(["bash", "-c", command], env=environment(db.url), capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


# worker


def leased(database: Database) -> int:
    return count(database, "graphrag.jobs WHERE state = 'leased'")


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_a_working_worker_and_its_jobs_are_given_back(db: Database, worker, number: int) -> None:
    fill(db, 400)
    process = worker(db.url, "--concurrency", "2")
    eventually(lambda: leased(db) > 0)
    process.send_signal(number)
    assert process.wait(30) == 0, process.communicate()
    assert leased(db) == 0
    pending = count(db, "graphrag.documents WHERE status = 'pending'")
    assert pending > 0, "the worker was done before the signal: the test shows nothing"
    # Nothing is lost, nothing counts as an error.
    assert count(db, "graphrag.jobs WHERE kind = 'index'") == pending
    assert count(db, "graphrag.jobs WHERE errors > 0") == 0


def test_an_idle_worker_ends_at_once(db: Database, worker) -> None:
    process = worker(db.url)
    eventually(
        lambda: count(db, "pg_stat_activity WHERE datname = current_database() AND query ~ '^(CALL|(UN)?LISTEN)'") == 1
    )
    time.sleep(1)
    process.terminate()
    assert process.wait(30) == 0


@pytest.mark.slow
def test_once_that_is_stopped_early_says_so_by_its_exit_status(db: Database, worker) -> None:
    fill(db, 400)
    process = worker(db.url, "--once")
    eventually(lambda: leased(db) > 0)
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM
    assert leased(db) == 0


@pytest.mark.slow
def test_a_second_signal_ends_a_worker_whose_server_does_not_answer(db: Database, worker) -> None:
    fill(db, 400)
    process = worker(db.url)
    eventually(lambda: leased(db) > 0)
    (pid,) = db.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query ~ '^CALL' AND state = 'active'"
    ).fetchone()
    os.kill(pid, signal.SIGSTOP)
    try:
        process.terminate()
        time.sleep(2)
        assert process.poll() is None
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_another_finishes(db: Database, worker) -> None:
    fill(db, 64, 10)
    process = worker(db.url, "--concurrency", "2")
    eventually(lambda: leased(db) > 0)
    process.kill()
    process.wait()
    eventually(lambda: count(db, "pg_stat_activity WHERE datname = current_database() AND query ~ '^CALL'") == 0)
    cli(db.url, "worker", "--once", "--concurrency", "2")
    assert count(db, "graphrag.documents WHERE indexed_at IS NOT NULL") == 64
    assert count(db, "graphrag.jobs") == 0


@pytest.mark.slow
def test_a_worker_goes_on_when_the_server_comes_back(cluster: Callable[..., Cluster], worker) -> None:
    server = cluster()
    url = server.create_database("restarted")
    with Database.open(url) as database:
        database.execute("CREATE EXTENSION pg_graphrag CASCADE")
        process = worker(url)
        fill(database, 1, 1)
        eventually(lambda: count(database, "graphrag.documents WHERE indexed_at IS NULL") == 0)
    server.stop("immediate")
    time.sleep(2)
    assert process.poll() is None
    server.start()
    with Database.open(url) as database:
        database.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('after', 'Ada Lovelace')")
        eventually(lambda: count(database, "graphrag.documents WHERE indexed_at IS NULL") == 0)
    process.terminate()
    assert process.wait(30) == 0
    assert "trying again in" in process.communicate()[1]


@pytest.mark.slow
def test_once_fails_when_the_server_goes_away(cluster: Callable[..., Cluster], worker) -> None:
    server = cluster()
    url = server.create_database("gone")
    with Database.open(url) as database:
        database.execute("CREATE EXTENSION pg_graphrag CASCADE")
        fill(database, 400)
        process = worker(url, "--once")
        eventually(lambda: leased(database) > 0)
    server.stop("immediate")
    assert process.wait(30) == 1
    error = process.communicate()[1]
    assert "pg-graphrag: " in error
    assert "Traceback" not in error


def test_a_worker_gives_up_when_the_extension_is_dropped(db: Database, worker) -> None:
    process = worker(db.url)
    eventually(
        lambda: count(db, "pg_stat_activity WHERE datname = current_database() AND query ~ '^(CALL|(UN)?LISTEN)'") == 1
    )
    db.execute("SELECT graphrag.uninstall()")
    db.execute("DROP EXTENSION pg_graphrag CASCADE")
    assert process.wait(30) == 1
    assert "does not exist" in process.communicate()[1]


def test_a_notification_wakes_an_idle_worker(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_SHORTEST_POLL", 600.0)
    monkeypatch.setattr(worker_module, "_LONGEST_POLL", 600.0)
    stop = threading.Event()
    session = worker_module._Session(worker_module.Order(db.url), stop, 1)
    session.start()
    eventually(
        lambda: count(
            db, "pg_stat_activity WHERE datname = current_database() AND query ~ '^LISTEN' AND state = 'idle'"
        )
    )
    fill(db, 1, 1)
    time.sleep(1)
    assert count(db, "graphrag.documents WHERE indexed_at IS NULL") == 1
    db.execute("NOTIFY graphrag_jobs")
    eventually(lambda: count(db, "graphrag.documents WHERE indexed_at IS NULL") == 0)
    stop.set()
    session.join(30)
    assert not session.is_alive()


def test_a_flood_of_notifications_fills_no_memory(db: Database, worker) -> None:
    """Anybody who may connect can send them, each of up to 8,000 bytes."""
    db.execute(
        "DO $$ BEGIN CREATE ROLE flooder LOGIN PASSWORD 'flooder'; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    process = worker(db.url)
    eventually(lambda: count(db, "pg_stat_activity WHERE datname = current_database() AND query ~ '^LISTEN'") == 1)
    before = resident_kilobytes(process.pid)
    with psycopg.connect(make_conninfo(db.url, user="flooder", password="flooder"), autocommit=True) as flooder:
        for burst in (2_000, 2_000, 2_000, 40_000):
            flooder.execute(
                "SELECT pg_notify('graphrag_jobs', repeat('x', 7900) || n) FROM generate_series(1, %s) n", [burst]
            )
            fill(db, 1, 1)
            eventually(lambda: count(db, "graphrag.documents WHERE indexed_at IS NULL") == 0)
            db.execute("DELETE FROM graphrag.documents")
    assert resident_kilobytes(process.pid) < before + 60_000
    db.execute("DROP ROLE flooder")


def resident_kilobytes(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


def test_an_idle_worker_polls_ever_less(db: Database) -> None:
    session = worker_module._Session(worker_module.Order(db.url), threading.Event(), 1)
    with psycopg.connect(db.url, autocommit=True) as connection:
        polls = []
        for _ in range(8):
            session._drain(connection)
            polls.append(session._poll)
    assert polls[-1] == worker_module._LONGEST_POLL


def test_a_document_gives_the_terminal_no_orders(db: Database) -> None:
    # Colours, the title of the window, the clipboard (OSC 52), in both writings of ESC [.
    orders = "Ada\x1b]52;c;cm0gLXJmIH4=\x07 wrote\x1b[2J\x9b31m letters.\x85\x08"
    db.execute("SELECT graphrag.create_corpus('hostile', '{\"communities\": false}')")
    db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES ('hostile', %s, %s, %s)",
        ["key\x1b[1m", "Title\x1b]0;x\x07", orders],
    )
    db.execute("CALL graphrag.process_jobs()")
    done = cli(db.url, "search", "Ada letters", "--corpus", "hostile", "--mode", "bm25")
    assert "Title" in done.stdout
    assert "letters." in done.stdout
    output = done.stdout
    done = cli(db.url, "search", "Ada", "--corpus", "hostile\x1b[2J", status=1)
    assert "hostile" in done.stderr
    for text in (output, done.stderr):
        assert not [character for character in text if not character.isprintable() and character != "\n"]
