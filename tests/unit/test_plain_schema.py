"""What a database without the extension gets is made of sql/, and nothing in it needs the extension."""

from __future__ import annotations

import pytest

from tests import plain_schema


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return plain_schema.files()


def test_the_plain_schema_is_made_of_the_sources(files: dict[str, str]) -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in plain_schema.FOLDER.iterdir()}
    stale = sorted(name for name in files.keys() | there.keys() if files.get(name) != there.get(name))
    assert stale == [], f"run {plain_schema.COMMAND}"


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
