"""The lint of the SQL in python/ finds what is wrong."""

from pathlib import Path

import pytest

from tests.lint_python_sql import PIECES, lint, modules_of
from tests.runtime.cluster import PROJECT

GOOD = '''
"""SELECT in a docstring is no statement."""
from one.tables import CHUNKS

_DUE = f"SELECT pg_catalog.count(*) AS n FROM {CHUNKS} c WHERE c.corpus_id = $1"
_TEMPLATE = "UPDATE graphrag.{table} t SET due = true WHERE {condition}"


def run(db, kind, space):
    db.query(f"WITH due AS ({_DUE}) SELECT d.n FROM due d")
    db.query(f"SELECT v.{kind}_id FROM graphrag.{kind}_vectors_{space} v WHERE v.id = ANY ($1) {'' if kind else 'LIMIT 1'}")
    db.query(f"SELECT {db.vector_type}_send(v.embedding) AS vector FROM graphrag.entity_vectors v")
    db.query("SELECT u.id FROM unnest($1, $2) AS u (id, name) FOR UPDATE OF u")
    raise ValueError(kind, hint="SELECT name FROM corpora lists them.")
'''
BAD = {
    'db.query("SELEC 1")': "is run, and does not begin as a statement",
    'db.query("SELECT 1 FROM")': "is no statement",
    'db.query(f"SELECT x.id FROM graphrag.{what} x WHERE WHERE {condition}")': "is no statement",
    'db.query("SELECT c.id FROM chunks c")': "relation chunks is not schema-qualified",
    'db.query(f"SELECT c.id FROM chunks c WHERE {condition}")': "relation chunks is not schema-qualified",
    'db.query("INSERT INTO jobs (kind) VALUES ($1)")': "relation jobs is not schema-qualified",
    'db.query("SELECT _lock_corpus($1)")': "function _lock_corpus is not schema-qualified",
    'db.query("SELECT count(*) AS n FROM graphrag.chunks")': "function count is not schema-qualified",
    'db.query("SELECT u FROM unnest($1) u")': "function unnest is not schema-qualified",
    'db.query("SELECT v.a <=> v.b FROM graphrag.x v")': "operator <=> is not schema-qualified",
    'db.query("SELECT $1::vector")': "type vector is not schema-qualified",
    'db.query("SET ROLE postgres")': "role is set",
    'db.query("SET LOCAL search_path TO public")': "search_path is set",
    'sql = "DELETE FROM " + table + " WHERE id = now()"': "function now is not schema-qualified",
    'sql = _BY.format(order="max(c.id)")': "function max is not schema-qualified",
}


def problems(folder: Path, source: str, pieces: tuple[str, ...] = ()) -> list[str]:
    package = folder / "one"
    package.mkdir()
    (package / "tables.py").write_text('CHUNKS = "graphrag.chunks"\n')
    (package / "rows.py").write_text(source)
    return lint(folder, list(pieces))


def test_what_is_right_passes(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD) == []


@pytest.mark.parametrize("line", BAD)
def test_what_is_wrong_is_named(tmp_path: Path, line: str) -> None:
    constant = '_BY = "SELECT c.id FROM graphrag.chunks c ORDER BY {order}"'
    (problem,) = problems(tmp_path, f"{constant}\n\n\ndef run(db, what, condition, table):\n    {line}\n")
    assert problem.startswith(f"{tmp_path}/one/rows.py:5: {BAD[line]}")


def test_a_piece_is_listed_as_long_as_it_is_one(tmp_path: Path) -> None:
    source = 'A = "SELECT c.id FROM graphrag.chunks c WHERE"\nB = "SELECT c.id FROM graphrag.chunks c"\n'
    pieces = ("one/rows.py SELECT c.id FROM graphrag.chunks c WHERE", "one/rows.py SELECT c.id FROM graphrag.chunks c")
    (problem,) = problems(tmp_path, source, pieces)
    assert problem.endswith("is a statement by now, or gone: one/rows.py SELECT c.id FROM graphrag.chunks c")


def test_the_list_of_pieces_gets_no_longer() -> None:
    assert len(PIECES.read_text().splitlines()) <= 13


def test_statements_are_found() -> None:
    modules = modules_of(PROJECT / "python").values()
    assert sum(1 for module in modules for _ in module.statements()) > 500
