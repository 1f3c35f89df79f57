"""The pages: links lead somewhere, the reference is that of sql/, the first page stays short."""

import re
from collections import Counter
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from pg_graphrag.beside.cli import main
from pg_graphrag.search.query.mode_options import SearchOptions
from pg_graphrag.server.corpus.options import Options

from docs import reference
from tests.runtime.cluster import PROJECT

FOLDERS = (".", "docs", "docs/decisions", "bench")
PAGES = [path for folder in FOLDERS for path in sorted((PROJECT / folder).glob("*.md"))]
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()\s]*\))?)\)")


def prose(path: Path) -> str:
    """A page without its code, in which nothing is a link or a heading."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", path.read_text(encoding="utf-8")))


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings: lower case, spaces to hyphens, punctuation left out, repeated ones numbered."""
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in re.findall(r"^#{1,6} +(.+?)\s*$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return anchors


def links(path: Path) -> list[str]:
    return [link for link in LINK.findall(prose(path)) if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(PROJECT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(path: Path) -> None:
    broken = []
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or not target.is_relative_to(PROJECT) or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_linked_from_the_first_one() -> None:
    indexes = (PROJECT / "README.md", PROJECT / "docs/decisions/README.md")
    linked = {(index.parent / link.partition("#")[0]).resolve() for index in indexes for link in links(index)}
    assert {path for path in PAGES if path.name != "README.md"} - linked == set()


def test_the_reference_is_that_of_the_sql_sources() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.render(), f"run: {reference.COMMAND}"


def test_the_reference_names_every_signature_once() -> None:
    names = re.findall(r"^#### (.+)$", reference.render(), re.MULTILINE)
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_the_pages_describe_the_modes_that_search_says_it_has() -> None:
    modes = re.search(r"mode: ([a-z0-9_, ]+)\.", reference.render())
    assert modes is not None
    table = (PROJECT / "docs/modes.md").read_text(encoding="utf-8").partition("## Options")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == modes[1].split(", ")


def test_the_first_page_is_short_and_names_the_test_command() -> None:
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    assert len(text.encode()) < 12_000
    assert "\n./test " in text


def test_files_that_the_architecture_names_exist() -> None:
    named = re.findall(r"`([\w/.]+/(?:[\w.]+\.\w+)?)`", (PROJECT / "docs/architecture.md").read_text(encoding="utf-8"))
    roots = (PROJECT, PROJECT / "python/pg_graphrag")
    assert len(named) > 10
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_modules_that_the_decisions_name_exist() -> None:
    """By their name alone: where a file lies is the architecture's to say."""
    text = "".join(path.read_text(encoding="utf-8") for path in (PROJECT / "docs/decisions").glob("*.md"))
    named = set(re.findall(r"`(\w+\.(?:py|sql|toml))`", text))
    modules = {path.name for folder in ("python/pg_graphrag", "sql") for path in (PROJECT / folder).rglob("*.*")}
    assert len(named) > 10
    assert named - modules == {"pyproject.toml"}


def test_the_code_cites_no_design_that_is_not_here() -> None:
    cited = {
        name
        for path in sorted((PROJECT / "python").rglob("*.py"))
        for name in re.findall(r"\b[\w/]*[A-Za-z]\.md\b", path.read_text(encoding="utf-8"))
        if "/" in name or name.removesuffix(".md").isupper()
    }
    assert {name for name in cited if not (PROJECT / name).exists()} == set()


SEARCH_OPTIONS = {option.name for option in fields(SearchOptions) if option.default is not MISSING}
CORPUS_OPTIONS = {option.name for option in fields(Options)}


@pytest.mark.parametrize(("options", "page"), [(SEARCH_OPTIONS, "modes.md"), (CORPUS_OPTIONS, "ingest.md")])
def test_a_page_names_every_option(options: set[str], page: str) -> None:
    named = set(re.findall(r"`(\w+)`", (PROJECT / "docs" / page).read_text(encoding="utf-8")))
    assert options - named == set()


def test_the_page_of_the_command_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    ([a-z-]+)\b", capsys.readouterr().out, re.MULTILINE)
    assert "ingest" in commands
    page = (PROJECT / "docs/cli.md").read_text(encoding="utf-8")
    assert [command for command in commands if f"`{command}" not in page] == []
