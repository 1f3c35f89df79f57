"""The SQL of the README and the manual runs as it stands there, page by page, and gives what is shown."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pg_graphrag.beside.client import GraphRAG
from psycopg import sql

from tests.endpoint import Endpoint
from tests.runtime.cluster import PROJECT, Cluster, Database, Runtime
from tests.sql.asking import lines

README = PROJECT / "README.md"
PAGES = [README, *(path for path in sorted((PROJECT / "docs").glob("*.md")) if "```sql\n" in path.read_text("utf-8"))]
# Comments that the rendered page does not show hold what a reader has of his own and the examples need.
STEP = re.compile(r"^<!-- setup\n(.*?)^-->$|^```sql\n(.*?)^```$(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```sql\n((?:(?!^```).)*?)^```\n```(text|mermaid)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The endpoint of the test stands for those that a page names; it asks for no key.
PROVIDER = re.compile(r"'https?://[^']*/v1'(, api_key_env => '\w+')?")
END = "-- end of a block"
PREPARE = "SET client_min_messages = warning;\n"
CREATE = "CREATE EXTENSION pg_graphrag CASCADE;\n"
REPLY = lines


def psql(runtime: Runtime, url: str, script: str, *options: str) -> str:
    command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", *options, "-d", url]
    return runtime.run(*command, stdin=PREPARE + script)


@pytest.fixture(scope="module")
def server(runtime: Runtime) -> Iterator[Cluster]:
    """A server of the pages' own, for the roles that they make; its database ``with_extension`` is for copies."""
    cluster = Cluster(runtime)
    psql(runtime, cluster.create_database("with_extension"), CREATE)
    yield cluster
    cluster.close()


def roles(server: Cluster) -> set[str]:
    with server.connect() as connection:
        return {name for (name,) in connection.execute("SELECT rolname FROM pg_roles").fetchall()}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_sql_of_a_page_runs(
    path: Path, runtime: Runtime, server: Cluster, cluster: Callable[..., Cluster], endpoint: Endpoint
) -> None:
    steps = STEP.findall(path.read_text(encoding="utf-8"))
    script = "\n".join(f"{setup or visible_sql}\n\\echo {END}" for setup, visible_sql, _ in steps)
    script = PROVIDER.sub(f"'{endpoint.url}'", script)
    before = roles(server)
    if "pg_cron" in script:
        # It serves one database of a server.
        url = cluster().url()
        script = script if CREATE in script else CREATE + script
    else:
        url = server.create_database("page", None if CREATE in script else "with_extension")
    try:
        printed = psql(runtime, url, script, "-P", "footer=off").split(f"{END}\n")
    finally:
        server.drop_database("page")
        with server.connect() as connection:
            for role in roles(server) - before:
                connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
    for (_, _, shown), output in zip(steps, printed, strict=False):
        last = "\n".join(line.rstrip() for line in output.rstrip("\n").splitlines()) + "\n"
        assert last.endswith(shown)  # what the last statement of a block gives


def test_the_readme_shows_what_its_first_example_gives(runtime: Runtime, empty_db: Database) -> None:
    page = README.read_text(encoding="utf-8")
    psql(runtime, empty_db.url, STEP.findall(page)[0][1])
    examples = SHOWN.findall(page)
    assert [kind for _, kind, _ in examples] == ["text", "text", "mermaid"]
    for query, kind, output in examples:
        form = ["-P", "footer=off"] if kind == "text" else ["-A", "-t"]
        lines_printed = psql(runtime, empty_db.url, query, *form).strip("\n").splitlines()
        assert [line.rstrip() for line in lines_printed] == output.splitlines()


def test_the_python_of_the_client_page_runs(module_db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    page = (PROJECT / "docs/client.md").read_text(encoding="utf-8")
    first, curation = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(first.replace("postgresql://…", module_db.url), {})
    assert capsys.readouterr().out.endswith(" Plan\n")
    with GraphRAG(module_db.url, "notes") as rag:
        for name in ("WAL", "write ahead log", "write-ahead logging"):
            rag.create_entity(name)
        exec(curation, {"rag": rag})
        assert [item.undone_at is None for item in rag.curations()] == [True, True, True, False]


def test_the_memory_page_keeps_graphitis_promises(
    runtime: Runtime, empty_db: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    """The four queries below its table, and the Python above it."""
    page = (PROJECT / "docs/memory.md").read_text(encoding="utf-8")
    *first, promises = [visible_sql for _, visible_sql, _ in STEP.findall(page)]
    psql(runtime, empty_db.url, CREATE + "\n".join(first))
    answers = [empty_db.execute(query).fetchall() for query in promises.split(";\n") if query]
    assert answers == [
        [("Lyon",)],
        [("Ann lives in Oslo.",)],
        [("Oslo", "Ann: I moved to Oslo last week.")],
        [("Ann lives in Lyon.",)],
    ]
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(program.replace("postgresql://…", empty_db.url), {})
    assert capsys.readouterr().out.startswith("3/1 Ann: I adopted a cat, Tove.\n")


def test_the_readmes_graph_answers_its_question_over_a_pronoun(runtime: Runtime, empty_db: Database) -> None:
    """The README's second sentence names nobody: the walk from the engine to Osaka goes by "He"."""
    psql(runtime, empty_db.url, STEP.findall(README.read_text(encoding="utf-8"))[0][1])
    question = "Which company does the designer of the Kestrel engine work for?"
    first = empty_db.execute("SELECT source_key FROM graphrag.search(%s) WHERE rank = 1", [question]).fetchall()
    edges = empty_db.execute(
        "SELECT hop, name, relationship FROM graphrag.neighbors('Kestrel engine', hops => 3)"
        " WHERE name IN ('Bob Stone', 'Acme Rockets', 'Osaka') ORDER BY hop"
    ).fetchall()
    assert first == [("bob",)]
    assert edges == [
        (1, "Bob Stone", "He designed the Kestrel engine."),
        (2, "Acme Rockets", "Bob Stone is the chief engineer of Acme Rockets."),
        (3, "Osaka", "Ann Lee founded Acme Rockets in Osaka in 1999."),
    ]
