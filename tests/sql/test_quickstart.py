"""./quickstart from nothing, killed in the middle, run again, and once more when all is done."""

import os
import re
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.endpoint import Endpoint
from tests.runtime.cluster import PROJECT, Runtime
from tests.sql.local_model import Model

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
# Of the default's twelve chapters, those that answer the question.
QUICKSTART = [PROJECT / "quickstart", "indexes", "textsearch"]
INDEXED = "SELECT id, indexed_at FROM graphrag.documents ORDER BY id"
MINUTES = 60.0


def server_of_its_own(runtime: Runtime) -> Iterator[dict[str, str]]:
    name = f"quickstart-{secrets.token_hex(4)}"
    kind = "bubblewrap" if os.geteuid() else "chroot"
    environment = os.environ | {"GRAPHRAG_INSTANCE": name, "GRAPHRAG_RUNTIME": kind}
    yield environment
    subprocess.run([PROJECT / "bin/graphrag-server", "down"], env=environment, check=False)
    folder = runtime.root.parents[1] / name
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True)


@pytest.fixture
def instance(runtime: Runtime) -> Iterator[dict[str, str]]:
    """The environment of a server of its own, which is stopped and removed."""
    yield from server_of_its_own(runtime)


@pytest.fixture(scope="module")
def first_instance(runtime: Runtime) -> Iterator[dict[str, str]]:
    """As `instance`: nothing is there for the module's first test; what it leaves, the next one has."""
    yield from server_of_its_own(runtime)


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


def before_questions(command: list[Any], environment: dict[str, str]) -> str:
    """Return what ./quickstart prints when all is indexed; then stop it, for its questions were asked before."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    too_late = threading.Timer(20 * MINUTES, os.killpg, (process.pid, signal.SIGKILL))
    too_late.start()
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if f"{MODES[0]}: " in line:
                os.killpg(process.pid, signal.SIGINT)
                break
        else:
            pytest.fail("".join(lines))
        process.communicate(timeout=2 * MINUTES)
    finally:
        too_late.cancel()
    return "".join(lines)


@pytest.mark.slow
def test_quickstart_resumes_after_ctrl_c_and_a_kill_and_answers_in_every_mode(first_instance: dict[str, str]) -> None:
    instance = first_instance
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

    for row in ("setting: config.settings", "| pg_backup_start |"):
        assert row in second.stdout, f"{row}: not in a context"

    address = re.search(r"^(http://127\.0\.0\.1:\d+/)#token=(\S+)$", second.stdout, re.MULTILINE)
    assert address is not None, second.stdout
    asked = httpx2.post(
        f"{address[1]}api/search",
        json={"query": "When is a GIN index better?", "mode": "bm25", "top_k": 1},
        headers={"authorization": f"Bearer {address[2]}"},
    )
    assert len(asked.json()["results"]) == 1, asked.text
    assert "<title>pg_graphrag</title>" in httpx2.get(address[1]).text

    assert " 0 new, 0 changed, " in before_questions(QUICKSTART, instance)
    serve = [PROJECT / "bin/graphrag-server", "serve", "--corpus", "manual", "--worker"]
    served = subprocess.run(serve, env=instance, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert address[0] in served.stdout, "the page stays where it was"
    with psycopg.connect(url(instance) or "", autocommit=True) as connection:
        assert connection.execute(INDEXED).fetchall() == ready, "nothing is done twice"


@pytest.mark.slow
def test_quickstart_beside_a_database_needs_neither_extension_nor_superuser(first_instance: dict[str, str]) -> None:
    instance = first_instance
    command = [QUICKSTART[0], "--beside", "indexes"]
    done = subprocess.run(command, env=instance, capture_output=True, text=True, timeout=20 * MINUTES)
    assert done.returncode == 0, done.stderr
    for mode in MODES:
        assert re.search(r"^1\. 11\.", done.stdout.split(f"{mode}: ", 1)[1].split("\n\n")[0], re.MULTILINE), mode
    assert "graph LR" in done.stdout
    assert "| pg_backup_start |" in done.stdout
    assert " 0 new, 0 changed, " not in done.stdout
    assert " 0 new, 0 changed, " in before_questions(command, instance)
    superuser = make_conninfo(url(instance) or "", dbname="beside")
    with psycopg.connect(superuser, autocommit=True) as connection:
        assert connection.execute("SELECT DISTINCT status FROM graphrag.documents").fetchall() == [("indexed",)]
        extensions = "SELECT extname FROM pg_extension WHERE extname IN ('pg_graphrag', 'plpython3u', 'age')"
        assert connection.execute(extensions).fetchall() == []
        owner = (
            "SELECT r.rolsuper FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'graphrag'"
        )
        assert connection.execute(owner).fetchall() == [(False,)]


def test_quickstart_with_a_model_says_what_it_can_do_and_shows_its_answer(instance: dict[str, str]) -> None:
    model = Model(names=("small",), reads=4096, answer="A GIN index is better where a value has parts [1].")
    with Endpoint() as endpoint:
        endpoint.respond(model)
        # The address as servers print it.
        command = [QUICKSTART[0], "--llm", endpoint.url.removesuffix("/v1"), "small", "indexes"]
        done = subprocess.run(command, env=instance, capture_output=True, text=True, timeout=20 * MINUTES)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^ok +chat +writes \d+ tokens a second$", done.stdout, re.MULTILINE), done.stdout
        assert re.search(r"^BAD +context +read 4,096 of 6,000 tokens", done.stdout, re.MULTILINE)
        assert "OLLAMA_CONTEXT_LENGTH=" in done.stdout
        assert "has parts [1]." in done.stdout
        assert re.search(r"^\[1\] 11\.", done.stdout, re.MULTILINE), "the answer's citation"
        given = [request.text for request in endpoint.requests if request.kind == "chat" and "GIN" in request.text]
        assert max(len(text.split()) for text in given) < 4096, "the context fits"
        endpoint.misbehave("unauthorized", times=None, when=lambda request: request.method == "POST")
        done = subprocess.run(command, env=instance, capture_output=True, text=True, timeout=20 * MINUTES)
        assert done.returncode == 1
        assert re.search(r"^BAD +chat +provider \"quickstart\" answered 401", done.stdout, re.MULTILINE), done.stdout
        assert "The model cannot answer" in done.stderr
    # Nobody listens there. The key of another host is not given to it.
    command = [QUICKSTART[0], "--llm", "https://127.0.0.1:9/v1", "small", "indexes"]
    own = instance | {"OPENAI_API_KEY": "secret"}
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=20 * MINUTES)
    assert "OPENAI_API_KEY was not sent there" in done.stderr
    with psycopg.connect(url(instance) or "", autocommit=True) as connection:
        assert connection.execute("SELECT name, api_key_env FROM graphrag.providers").fetchall() == [
            ("quickstart", None)
        ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--llm needs the URL"),
        (["http://127.0.0.1:1/v1"], "--llm needs the URL"),
        (["127.0.0.1:11434", "qwen3:4b"], "no URL of an endpoint: 127.0.0.1:11434"),
        (["http://key@127.0.0.1:1/v1", "qwen3:4b"], "no URL of an endpoint"),
        (["http://127.0.0.1:1/v1", "--all"], "no name of a model: --all"),
        (["http://127.0.0.1:1/v1", "qwen3:4b", "--beside"], "unknown: --beside"),
    ],
)
def test_quickstart_refuses_what_is_no_model(arguments: list[str], words: str) -> None:
    done = subprocess.run([QUICKSTART[0], "--llm", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert "./quickstart --llm URL MODEL" in done.stderr


@pytest.mark.parametrize(
    ("address", "base", "is_sent"),
    [
        ("https://api.openai.com/v1", "", True),
        ("https://API.openai.com", "", True),
        ("http://api.openai.com/v1", "", False),
        ("https://api.openai.com.example.org/v1", "", False),
        ("https://api.openai.com:8443/v1", "", False),
        ("https://example.org/v1", "", False),
        ("https://example.org\\.api.openai.com/v1", "", False),
        ("https://example.org/https://api.openai.com", "", False),
        ("https://example.org/v1", "https://example.org/api/v1", True),
        ("https://api.openai.com/v1", "https://example.org/api/v1", False),
    ],
)
def test_openai_s_key_goes_to_its_own_host_alone(address: str, base: str, is_sent: bool) -> None:
    script = (PROJECT / "quickstart").read_text(encoding="utf-8")
    functions = "".join(re.findall(r"^(?:origin|key_of)\(\)(?:.*\}.*|[\s\S]*?\n\}.*)\n", script, re.MULTILINE))
    done = subprocess.run(
        ["bash", "-euc", f'{functions}\nkey_of "$1"', "bash", address],
        env=os.environ | {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": base},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ("OPENAI_API_KEY" if is_sent else "")


def test_quickstart_explains_itself_and_refuses_what_it_does_not_know() -> None:
    done = subprocess.run([PROJECT / "quickstart", "--help"], capture_output=True, text=True, check=True)
    assert "--all       the whole manual" in done.stdout
    done = subprocess.run([PROJECT / "quickstart", "--some"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
