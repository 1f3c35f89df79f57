"""The command line without a database."""

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import psycopg
import pytest
from pg_graphrag.beside.cli import _parser, main
from pg_graphrag.beside.cli.open_database import explain
from pg_graphrag.beside.cli.search import snippet
from pg_graphrag.beside.cli.worker import _is_hopeless
from pg_graphrag.ground.errors import GraphRAGError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["ingest"], "PATH"),
        (["worker", "--concurrency", "0"], "0 is not at least 1"),
        (["worker", "--concurrency", "two"], "invalid"),
        (["search", "q", "--filter", "{"], "not JSON"),
        (["search", "q", "--filter", "[1]"], "not a JSON object"),
    ],
)
def test_wrong_usage_is_exit_status_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    assert message in capsys.readouterr().err


def test_every_command_is_there() -> None:
    (commands,) = [action.choices for action in _parser()._actions if action.choices]
    assert {"ingest", "evaluate", "judge"} <= set(commands)
    for name, parser in commands.items():
        module, function, *_ = parser.get_default("run").args
        command = getattr(import_module(f"pg_graphrag.beside.cli.{module}"), function)
        assert list(inspect.signature(command).parameters) == ["args"], name


@pytest.mark.parametrize("command", [["status"], ["search", "q"], ["worker"], ["worker", "--once"], ["ingest", "."]])
def test_no_server_is_an_error_that_says_so(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--url", "postgresql://nobody@127.0.0.1:1/nothing"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("pg-graphrag: ")
    assert "Traceback" not in error
    assert 'connection to server at "127.0.0.1", port 1 failed' in error


def test_prune_needs_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.md").write_text("x")
    assert main(["ingest", "--prune", str(tmp_path / "a.md")]) == 1
    assert "--prune deletes what is no longer in a folder" in capsys.readouterr().err


def test_the_server_side_package_does_not_import_the_client() -> None:
    """A backend must not load libpq and psycopg: only importing the client does."""
    check = "import sys, pg_graphrag, pg_graphrag.server; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_errors_are_shown_with_detail_and_hint() -> None:
    assert explain(GraphRAGError("m", detail="d", hint="h")) == "m\nDETAIL: d\nHINT: h"
    assert explain(psycopg.OperationalError("connection failed:\n")) == "connection failed:"
    assert explain(psycopg.OperationalError()) == "OperationalError"
    nowhere = psycopg.OperationalError(
        'connection to server on socket "/run/.s.PGSQL.5432" failed: No such file or directory'
    )
    assert "HINT: Name the database: --url " in explain(nowhere)


@pytest.mark.parametrize(
    ("error", "hopeless"),
    [
        (psycopg.errors.UndefinedFunction(), True),
        (psycopg.errors.InsufficientPrivilege(), True),
        (psycopg.errors.InvalidCatalogName(), True),
        (GraphRAGError("no extension", sqlstate="58P01"), True),
        (psycopg.OperationalError("connection refused"), False),
        (psycopg.errors.AdminShutdown(), False),
        (psycopg.errors.DeadlockDetected(), False),
        (psycopg.errors.OutOfMemory(), False),
    ],
)
def test_a_worker_gives_up_only_on_what_waiting_does_not_mend(error: psycopg.Error, hopeless: bool) -> None:
    assert _is_hopeless(error) is hopeless


def test_a_snippet_is_the_stretch_that_says_the_query() -> None:
    text = "filler words here " * 100 + "the index type GiST supports nearest neighbor search " + "more filler " * 100
    result = snippet(text, "Which index supports nearest neighbor?")
    assert "index type GiST supports nearest neighbor" in result
    assert result.startswith("… ")
    assert result.endswith(" …")
    assert len(result) < 340
    assert snippet("short\n text", "q") == "short text"
    assert len(snippet("知" * 5000, "識")) < 340
    assert snippet("x" * 5000, "").startswith("xxx")
