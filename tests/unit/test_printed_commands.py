"""What the pages and errors print to be run can be run: options and files that exist, and no package of another's."""

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pg_graphrag.beside.cli import main
from pg_graphrag.beside.client import hosts
from pg_graphrag.beside.process import schema
from pg_graphrag.ground.errors import GraphRAGError, install_hint

from tests.runtime.cluster import PROJECT
from tests.unit.test_docs import PAGES

EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
SOURCES = [
    *PAGES,
    PROJECT / "quickstart",
    *(path for folder in ("python", "docker", "bin", "tests/frameworks") for path in (PROJECT / folder).rglob("*")),
]
TEXTS = {
    path.relative_to(PROJECT).as_posix(): path.read_text(encoding="utf-8")
    for path in SOURCES
    if path.is_file() and path.suffix in ("", ".md", ".py", ".sh", ".yaml") and path.name != "CHANGELOG.md"
}
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
SCRIPTS = [
    *("bin/graphrag-server", "quickstart", "test", "extension/install-package", "extension/packaging/make-deb"),
    *(f"docker/{name}" for name in ("entrypoint", "fetch-models", "install-packages", "install-python")),
    *("docker/lock-packages", "docker/make-cluster"),
]
TARGETS = {
    folder: set(re.findall(r"^([a-z-]+):", (PROJECT / folder / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for folder in ("", "extension")
}
# Of PGXS, also in a bundle.
TARGETS["extension"] |= {"install", "installcheck", "clean"}
TARGETS[""] |= {"install"}


def commands(text: str) -> Iterator[list[str]]:
    """Yield the commands of a page, in blocks and in lines, as words, without what is ellipsis."""
    blocks = [line for block in SHELL.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    for line in (*blocks, *INLINE.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # no shell: SQL or Python with a quote
            continue
        while words and re.fullmatch(r"\w+=.*|sudo", words[0]):
            words = words[1:]
        if words and "…" not in words[0]:
            yield [word for word in words if "…" not in word]


def test_nothing_tells_to_install_a_package_of_our_name() -> None:
    """It is on no index; whoever takes the name there would be installed."""
    by_name = re.compile(r"(?:\b(?:pip3?|pipx|uv|uv tool) (?:install|run|add)|\buvx)\b[^\n`]*?[ '\"]pg-graphrag\b(?!-)")
    assert {name: by_name.findall(text) for name, text in TEXTS.items() if by_name.search(text)} == {}
    named = [
        extras for text in TEXTS.values() for extras in re.findall(r"pip install [^\n`]*?\.(?:whl)?\[([\w,-]+)\]", text)
    ]
    assert named and {extra for extras in named for extra in extras.split(",")} <= EXTRAS.keys()


def test_hints_name_extras_that_there_are() -> None:
    named = {
        "".join(extra)
        for text in TEXTS.values()
        for extra in re.findall(
            r'(?:install_hint|missing_package|extras\.load)\([^)]*?"(\w+)"\)|\blater\("\w+", "\w+", "(\w+)"', text
        )
    }
    assert "serve" in named and named <= EXTRAS.keys()
    assert "'.[serve]'" in install_hint("serve")


def test_install_beside_a_database_says_which_extra_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(connection: object) -> None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(schema, "install", lacks)
    with pytest.raises(GraphRAGError, match="install needs the Python package numpy") as caught:
        hosts.install(cast(Any, None))
    assert "'.[server]'" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if path.name != "CHANGELOG.md"],  # it has what there was
    ids=lambda path: path.relative_to(PROJECT).as_posix(),
)
def test_commands_of_a_page_exist(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for command, *words in commands(path.read_text(encoding="utf-8")):
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        if command.startswith(("./", "bin/", "docker/", "extension/")):
            if not (PROJECT / command).exists() and not re.search(r"[A-Z]{3}", command):
                wrong.append([command])
        elif command == "make":
            folder = words[words.index("-C") + 1] if "-C" in words else ""
            targets = {word for word in words if word not in ("-C", folder) and "=" not in word}
            wrong += [[command, target] for target in targets - TARGETS.get(folder, set())]
        elif command == "pg-graphrag" and words and words[0].islower() and not words[0].startswith("-"):
            wrong += [[command, words[0], option] for option in options - known_options(words[0], capsys)]
    assert wrong == []


def known_options(command: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0, f"there is no command {command}"
    return set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))


@pytest.mark.parametrize("page", ["docs/install.md", "docs/client.md", "CONTRIBUTING.md"])
def test_apt_has_its_lists_before_it_installs(page: str) -> None:
    for block in (*SHELL.findall(TEXTS[page]), *INLINE.findall(TEXTS[page])):
        if "apt-get install" in block:
            assert "apt-get update" in block.partition("apt-get install")[0]


@pytest.mark.parametrize("script", ["bin/lib/base.sh", "test"])
def test_scripts_that_name_packages_say_to_fetch_the_lists_too(script: str) -> None:
    for line in (PROJECT / script).read_text().splitlines():
        if "apt-get install" in line:
            assert "apt-get update" in line.partition("apt-get install")[0]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("option", ["--help", "--no-such-option"])
def test_a_script_helps_or_refuses_and_does_nothing(script: str, option: str, tmp_path: Path) -> None:
    """With no other command on its path than those that print."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sed", "cat", "dirname", "readlink", "sha256sum", "bash", "sh", "env"):
        (tools / name).symlink_to(Path("/bin", name))
    (tools / "python3").symlink_to(sys.executable)
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [PROJECT / script, option],
        env={"PATH": str(tools), "HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert list(home.iterdir()) == []
    if option == "--help":
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout) > 60
    elif script == "test":
        assert done.returncode != 0  # pytest's, which is not installed here
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert option in done.stderr or "usage" in done.stderr


@pytest.mark.parametrize("command", ["up", "down", "status", "url", "prepare", "serve", "exec"])
def test_a_command_of_the_server_helps_or_refuses(command: str, tmp_path: Path) -> None:
    def run(option: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROJECT / "bin/graphrag-server", command, option],
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=20,
        )

    assert run("--help").stdout.startswith("usage: bin/graphrag-server")
    # Options of serve are those of pg-graphrag serve, which a server runs.
    assert run("--no-such-option").returncode == (3 if command == "serve" else 2)
    assert list(tmp_path.iterdir()) == []
