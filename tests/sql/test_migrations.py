"""The alembic environment, and autogenerate of an application beside it."""

import os
import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pg_graphrag import __version__
from pg_graphrag.integrations import models
from pg_graphrag.integrations.alembic import include_name, include_object
from sqlalchemy import Column, ForeignKey, Integer, MetaData, Table, create_engine, make_url

from tests.runtime.cluster import PROJECT, Database
from tests.upgrade.released import RELEASED, create_released


def alembic(database: Database, *arguments: str) -> str:
    """Run alembic with the project's environment on a database, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "alembic", "-c", str(PROJECT / "migrations/alembic.ini"), *arguments],
        env=os.environ | {"PG_GRAPHRAG_URL": database.url},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def extensions(database: Database) -> set[str]:
    return {name for (name,) in database.execute("SELECT extname FROM pg_catalog.pg_extension")}


def test_upgrade_head_makes_a_working_extension_and_downgrade_base_leaves_nothing_of_it(empty_db: Database) -> None:
    alembic(empty_db, "upgrade", "head")
    assert "pg_graphrag" in extensions(empty_db)
    empty_db.execute("INSERT INTO graphrag.documents (content) VALUES ('Ada Lovelace wrote to Charles Babbage.')")
    empty_db.execute("CALL graphrag.process_jobs()")
    # A revision for each version.
    assert alembic(empty_db, "current").strip() == f"{len(RELEASED) + 1:04} (head)"

    alembic(empty_db, "downgrade", "base")
    assert extensions(empty_db) == {"plpgsql", "vector", "age", "plpython3u"}
    left = empty_db.execute(
        "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname LIKE 'graphrag%' ORDER BY 1"
    ).fetchall()
    assert left == []

    alembic(empty_db, "upgrade", "head")
    assert "pg_graphrag" in extensions(empty_db)


def test_upgrade_head_takes_over_an_extension_that_is_there(db: Database) -> None:
    db.execute("INSERT INTO graphrag.documents (content) VALUES ('kept')")
    alembic(db, "upgrade", "head")
    assert db.execute("SELECT content FROM graphrag.documents").fetchall() == [("kept",)]


@pytest.mark.slow
@pytest.mark.parametrize(("version", "revision"), [(version, f"{n:04}") for n, version in enumerate(RELEASED, 1)])
def test_upgrade_head_updates_an_extension_of_a_released_version(
    empty_db: Database, version: str, revision: str
) -> None:
    empty_db.execute("CREATE EXTENSION plpython3u")
    empty_db.execute(create_released(version).encode())
    alembic(empty_db, "stamp", revision)
    alembic(empty_db, "upgrade", "head")
    updated = empty_db.execute("SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'pg_graphrag'")
    assert updated.fetchone() == (__version__,)


def test_upgrade_as_sql_prints_the_statements(empty_db: Database) -> None:
    script = alembic(empty_db, "upgrade", "head", "--sql")
    assert "CREATE EXTENSION IF NOT EXISTS pg_graphrag CASCADE;" in script
    assert "pg_graphrag" not in extensions(empty_db)


def test_without_a_url_alembic_says_what_to_set() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PG_GRAPHRAG_URL"}
    done = subprocess.run(
        [sys.executable, "-m", "alembic", "-c", str(PROJECT / "migrations/alembic.ini"), "current"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "set PG_GRAPHRAG_URL" in done.stderr + done.stdout


@pytest.mark.parametrize("with_models", [False, True], ids=["own models", "own models beside ours"])
def test_autogenerate_of_an_application_sees_its_own_tables_only(db: Database, with_models: bool) -> None:
    # An AGE graph, run-time partitions and indexes are there too.
    db.execute("INSERT INTO graphrag.documents (content) VALUES ('Ada Lovelace wrote to Charles Babbage.')")
    db.execute("CALL graphrag.process_jobs()")
    assert db.execute("SELECT count(*) FROM ag_catalog.ag_graph").fetchone() == (1,)
    db.execute("CREATE SCHEMA shop")
    db.execute("CREATE TABLE shop.old (id int PRIMARY KEY)")

    metadata = MetaData()
    Table("order", metadata, Column("id", Integer, primary_key=True), schema="shop")
    if with_models:
        document = models.Document.__table__.to_metadata(metadata)
        Table("note", metadata, Column("document", ForeignKey(document.c.id), primary_key=True), schema="shop")
    engine = create_engine(make_url(db.url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        options = {"include_schemas": True, "include_name": include_name, "include_object": include_object}
        differences = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    engine.dispose()

    result = {(kind, table.schema, table.name) for kind, table, *_ in differences}
    expected = {("add_table", "shop", "order"), ("remove_table", "shop", "old")}
    if with_models:
        expected.add(("add_table", "shop", "note"))
    assert result == expected


@pytest.mark.parametrize(
    ("schema", "included"),
    [
        (None, True),
        ("public", True),
        ("graphragged", True),
        ("graphrag_app", True),
        ("graphrag", False),
        ("graphrag_12", False),
        ("ag_catalog", False),
        ("cron", False),
    ],
)
def test_include_name_leaves_out_managed_schemas_only(schema: str | None, included: bool) -> None:
    assert include_name(schema, "schema", {}) is included
    assert include_name("t", "table", {"schema_name": schema}) is included
