"""./quickstart from nothing, killed in the middle, run again, and once more when all is done."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.runtime.cluster import PROJECT, Runtime

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
# Of the default's twelve chapters, those that answer the question.
QUICKSTART = [PROJECT / "quickstart", "indexes", "textsearch"]
INDEXED = "SELECT id, indexed_at FROM graphrag.documents ORDER BY id"
MINUTES = 60.0


@pytest.fixture
def instance(runtime: Runtime) -> Iterator[dict[str, str]]:
    """The environment of a server of its own, which is stopped and removed."""
    name = f"quickstart-{secrets.token_hex(4)}"
    kind = "bubblewrap" if os.geteuid() else "chroot"
    environment = os.environ | {"GRAPHRAG_INSTANCE": name, "GRAPHRAG_RUNTIME": kind}
    yield environment
    subprocess.run([PROJECT / "bin/graphrag-server", "down"], env=environment, check=False)
    folder = runtime.root.parents[1] / name
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True)


def url(environment: dict[str, str]) -> str | None:
    done = subprocess.run(
        [PROJECT / "bin/graphrag-server", "url"], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def at_work(environment: dict[str, str]) -> bool:
    """Whether a worker has leased jobs and has not finished the corpus."""
    try:
        with psycopg.connect(url(environment) or "host=nowhere.invalid", autocommit=True) as connection:
            row = connection.execute("SELECT leased, indexed FROM graphrag.progress WHERE corpus = 'manual'").fetchone()
    except psycopg.Error:  # not that far yet
        return False
    return row is not None and row[0] > 0


def stop_at_work(environment: dict[str, str], how: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Start ./quickstart and send the signal to all its processes, as a terminal does, when a worker has begun."""
    process = subprocess.Popen(
        QUICKSTART,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 10 * MINUTES
    while not at_work(environment):
        assert process.poll() is None, "quickstart ended before it was stopped"
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.killpg(process.pid, how)
    _, output = process.communicate(timeout=2 * MINUTES)
    return subprocess.CompletedProcess(process.args, process.returncode, "", output)


def test_quickstart_resumes_after_ctrl_c_and_a_kill_and_answers_in_every_mode(instance: dict[str, str]) -> None:
    interrupted = stop_at_work(instance, signal.SIGINT)
    assert interrupted.returncode == 130
    assert "./quickstart indexes textsearch goes on from here" in interrupted.stderr
    assert "Traceback" not in interrupted.stderr
    with psycopg.connect(url(instance) or "", autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM graphrag.jobs WHERE lease IS NOT NULL").fetchone() == (0,)
    stop_at_work(instance, signal.SIGKILL)

    second = subprocess.run(QUICKSTART, env=instance, capture_output=True, text=True, timeout=20 * MINUTES)
    assert second.returncode == 0, second.stderr
    assert " 0 new, 0 changed, " in second.stdout
    with psycopg.connect(url(instance) or "", autocommit=True) as connection:
        assert connection.execute("SELECT DISTINCT status FROM graphrag.documents").fetchall() == [("indexed",)]
        ready = connection.execute(INDEXED).fetchall()
        assert connection.execute("SELECT count(*) FROM graphrag.failed_jobs").fetchone() == (0,)
    for mode in MODES:
        answer = second.stdout.split(f"{mode}: ", 1)[1]
        first_result = answer.split("\n\n")[0]
        assert re.search(r"^1\. 1[12]\.", first_result, re.MULTILINE), (
            f"{mode}: not from the chapters on indexes and text"
        )

    third = subprocess.run(QUICKSTART, env=instance, capture_output=True, text=True, timeout=20 * MINUTES)
    assert third.returncode == 0, third.stderr
    assert " 0 new, 0 changed, " in third.stdout
    with psycopg.connect(url(instance) or "", autocommit=True) as connection:
        assert connection.execute(INDEXED).fetchall() == ready, "nothing is done twice"


def test_quickstart_explains_itself_and_refuses_what_it_does_not_know() -> None:
    done = subprocess.run([PROJECT / "quickstart", "--help"], capture_output=True, text=True, check=True)
    assert "--all       the whole manual" in done.stdout
    done = subprocess.run([PROJECT / "quickstart", "--some"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
