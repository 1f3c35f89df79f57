"""What a database without the extension gets is made of sql/, and nothing in it needs the extension."""

from pathlib import Path

import pytest
from pg_graphrag.beside.process.routines import made_by_build
from pg_graphrag.ground.errors import GraphRAGError

from extension import plain_schema
from tests.runtime.cluster import Runtime


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return plain_schema.files()


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_this_package_has_what_the_sources_say(files: dict[str, str]) -> None:
    assert _texts(plain_schema.FOLDER) == files, "run ./test, which makes it"


def test_an_installation_has_what_the_sources_say(files: dict[str, str], runtime: Runtime) -> None:
    (site,) = runtime.root.glob("usr/lib/pg_graphrag/venv/lib/python3*/site-packages")
    assert _texts(site / "pg_graphrag/beside/process/plain") == files


def test_a_file_of_before_goes(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "0.1.0--0.2.0.sql").touch()
    plain_schema.write(tmp_path)
    assert _texts(tmp_path) == files


def test_nothing_in_it_needs_the_servers_python_or_apache_age(files: dict[str, str]) -> None:
    made = list(plain_schema.statements(files["schema.sql"]))
    assert len(made) > 1000
    assert [item.name for item in made if item.is_python] == []
    assert "pg_extension_config_dump" not in files["schema.sql"] and "@extschema:age@" not in files["schema.sql"]


def test_a_body_takes_the_place_of_its_call() -> None:
    (function,) = plain_schema.statements(
        "CREATE FUNCTION graphrag._edits(ids int[], other text DEFAULT 'x')\nRETURNS TABLE (id int, value text)\n"
        "LANGUAGE sql STABLE\nBEGIN ATOMIC\n    SELECT c.id, coalesce(c.other, other) FROM c WHERE c.id = ANY (ids);\nEND;"
    )
    text = "CREATE VIEW v AS SELECT e.value FROM graphrag._edits(ARRAY[1, f('a, b)', 2)]) AS e WHERE e.id = 1;"
    assert plain_schema.inlined(text, {function.name: plain_schema.Body.of(function)}) == (
        "CREATE VIEW v AS SELECT e.value FROM (\n    SELECT c.id, coalesce(c.other, 'x') FROM c"
        " WHERE c.id = ANY (ARRAY[1, f('a, b)', 2)])) AS e (id, value) WHERE e.id = 1;"
    )


def test_a_package_that_was_not_built_says_so(tmp_path: Path) -> None:
    with pytest.raises(GraphRAGError, match="which a build makes") as refusal:
        made_by_build(tmp_path / "schema.sql")
    assert refusal.value.sqlstate == "58P01" and refusal.value.hint
