"""Databases without the extension: `pg-graphrag install` brings the schema of an earlier version to what a fresh one has.

The earlier version is this one with less and other in it, as a version before would have; and each released one with this host.
"""

import gzip
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG, __version__
from pg_graphrag.beside.process import schema, updates
from pg_graphrag.ground.errors import GraphRAGError
from psycopg.conninfo import make_conninfo

from extension import plain_schema
from tests.runtime.cluster import Cluster, Server
from tests.security.acting import new_role
from tests.sql.ingest import wait_for_lock
from tests.sql.two_hosts import plain_database, superuser_url
from tests.upgrade.catalog import catalog
from tests.upgrade.paused import update_under_others
from tests.upgrade.released import HERE, RELEASED

EARLIER, BETWEEN = "0.2.8", "0.2.9"
# Where the earlier version differs: file, what this one has, what that one had.
DIFFERENCES = [
    # No such column, index and trigger yet.
    ("04_documents/030_attached_tables.sql", r"    needs_grant [^\n]*\n", ""),
    ("04_documents/030_attached_tables.sql", r"COMMENT ON COLUMN graphrag\._attached_tables\.needs_grant [^\n]*\n", ""),
    ("04_documents/010_documents.sql", r"CREATE INDEX documents_metadata_idx [^\n]*\n", ""),
    # A view and a function with other bodies, a comment of other words.
    (
        "15_admin/022_metrics.sql",
        r"COMMENT ON VIEW graphrag\.metrics IS '",
        "COMMENT ON VIEW graphrag.metrics IS 'Once: ",
    ),
    ("05_jobs/020_retry_failed.sql", r"COMMENT ON FUNCTION graphrag\.retry_failed\(text\) IS '", r"\g<0>Once: "),
    # A function that came later: nobody but the owner may call it.
    ("15_admin/015_corpus_grants.sql", r"(?s)CREATE FUNCTION graphrag\._repair_grants.*?\nEND\n\$\$;\n", ""),
    # A right of readers that came later.
    ("15_admin/zz_privileges.sql", r"    graphrag\.graph_growth,\n", ""),
    # What no later version has.
    (
        "05_jobs/020_retry_failed.sql",
        r"\Z",
        "\nCREATE FUNCTION graphrag._old(number int) RETURNS int\nLANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp\n"
        "RETURN 1;\nCREATE TABLE graphrag._old_table (\n    id int\n);\n",
    ),
]
# From the earlier version to the one between, and on to this one.
CHANGES = {
    f"{EARLIER}--{BETWEEN}": """
        -- What CREATE OR REPLACE cannot do.
        DROP FUNCTION graphrag._old(int);
        ALTER EXTENSION pg_graphrag DROP TABLE graphrag._old_table;
        DROP TABLE graphrag._old_table;
        SELECT pg_catalog.pg_extension_config_dump('graphrag._attached_tables', '');
    """,
    f"{BETWEEN}--{__version__}": """
        ALTER TABLE graphrag._attached_tables ADD COLUMN needs_grant boolean NOT NULL DEFAULT false;
    """,
}


def _plain(version: str) -> Path:
    return HERE / f"plain-{version}.sql.gz"


def former_sources(folder: Path) -> Path:
    """The sources of the earlier version."""
    former = folder / "sql"
    shutil.copytree(plain_schema.SOURCES, former)
    for file, present, past in DIFFERENCES:
        text = (former / file).read_text()
        changed, count = re.subn(present, past, text, count=1)
        assert count == 1, f"{file} has no {present}"
        (former / file).write_text(changed)
    return former


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the plain schema of the earlier version, and of the way from there."""
    folder = tmp_path_factory.mktemp("earlier")
    changes = folder / "upgrade"
    changes.mkdir()
    for versions, text in CHANGES.items():
        lines = [line.strip() for line in text.splitlines()]
        (changes / f"{versions}.sql").write_text("\n".join(lines))
    plain_schema.write(folder / "plain", sql=former_sources(folder), upgrade=changes)
    return folder / "plain"


@pytest.fixture
def earlier(
    shared_cluster: Cluster | Server, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of a database with the schema of the earlier version, by its owner; `updates.PLAIN` is the test's own."""
    own = shutil.copytree(plain, tmp_path / "plain")
    with plain_database(shared_cluster, schema_too=False) as url:
        with monkeypatch.context() as patch, psycopg.connect(url, autocommit=True) as connection:
            patch.setattr(schema, "PLAIN", own)
            patch.setattr(schema, "__version__", EARLIER)
            assert schema.install(connection) == EARLIER
        monkeypatch.setattr(updates, "PLAIN", own)
        yield url


def install(url: str) -> str | None:
    with psycopg.connect(url, autocommit=True) as connection:
        return schema.install(connection)


def version_of(url: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT version FROM graphrag._installed").fetchone()
    assert row is not None
    return row[0]


def different(updated_url: str, server: Cluster | Server) -> dict[str, Any]:
    """Return what of a database is not what a fresh one has."""
    with (
        plain_database(server) as fresh_url,
        psycopg.connect(fresh_url, autocommit=True) as fresh,
        psycopg.connect(updated_url, autocommit=True) as updated,
    ):
        left, right = catalog(updated, is_plain=True), catalog(fresh, is_plain=True)
    return {name: left.get(name) for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


def test_an_update_ends_with_what_a_fresh_installation_has(earlier: str, shared_cluster: Cluster | Server) -> None:
    with psycopg.connect(earlier, autocommit=True) as connection:
        before = catalog(connection, is_plain=True)
        # An application's own, which the update leaves alone.
        connection.execute("GRANT SELECT ON graphrag.documents TO graphrag_writer")
        connection.execute("REVOKE SELECT ON graphrag.documents FROM graphrag_writer")
        connection.execute(
            "INSERT INTO graphrag.documents (source_key, content) VALUES ('ada', 'Ada met Charles Babbage.')"
        )
    assert install(earlier) == __version__
    assert install(earlier) is None
    assert different(earlier, shared_cluster) == {}
    with psycopg.connect(earlier, autocommit=True) as updated:
        assert set(before.keys() ^ catalog(updated, is_plain=True).keys()) >= {
            "routine graphrag._old(integer)",
            "routine graphrag._repair_grants()",
            "relation graphrag._old_table",
            "column graphrag._attached_tables.needs_grant",
            "index graphrag.documents_metadata_idx",
        }
    with GraphRAG(earlier) as rag:
        rag.process_jobs()
        assert [row.source_key for row in rag.search("Babbage")] == ["ada"]
        assert rag.call("check") == []


@pytest.mark.parametrize("version", [version for version in RELEASED if _plain(version).exists()])
def test_the_schema_of_a_released_version_becomes_what_a_fresh_one_is(
    shared_cluster: Cluster | Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    (tmp_path / "schema.sql").write_bytes(gzip.decompress(_plain(version).read_bytes()))
    with plain_database(shared_cluster, schema_too=False) as url:
        with monkeypatch.context() as patch:
            patch.setattr(schema, "PLAIN", tmp_path)
            patch.setattr(schema, "__version__", version)
            assert install(url) == version
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO graphrag.documents (source_key, content) VALUES ('ada', 'Ada met Babbage.')"
            )
        assert install(url) == __version__
        assert different(url, shared_cluster) == {}
        with GraphRAG(url) as rag:
            rag.process_jobs()
            assert [row.source_key for row in rag.search("Babbage")] == ["ada"]
            assert rag.call("check") == []


def test_a_process_of_the_earlier_version_is_refused_from_then_on(
    earlier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(earlier, autocommit=True) as connection:
        rag = GraphRAG(connection)
        with pytest.raises(psycopg.errors.UndefinedFile, match=f"the schema graphrag is {EARLIER}") as refusal:
            rag.create_corpus()
        assert "pg-graphrag install" in str(refusal.value.diag.message_hint)
        install(earlier)
        assert rag.create_corpus() == 1


def test_an_update_waits_for_calls_that_are_under_way(earlier: str) -> None:
    with psycopg.connect(earlier, autocommit=True) as other, psycopg.connect(earlier, autocommit=True) as connection:
        # What a call's first statement does.
        other.execute("BEGIN")
        other.execute("SELECT version FROM graphrag._installed")
        updating = threading.Thread(target=schema.install, args=[connection], daemon=True)
        updating.start()
        with psycopg.connect(earlier, autocommit=True) as looking:
            wait_for_lock(looking, connection.info.backend_pid)
        time.sleep(0.1)
        assert updating.is_alive()
        other.execute("COMMIT")
        updating.join(60)
        assert not updating.is_alive()
    assert version_of(earlier) == __version__


def test_an_update_has_all_locks_before_it_changes_anything(earlier: str) -> None:
    not_locked, errors = update_under_others(earlier, superuser_url(earlier), lambda: install(earlier))
    assert not_locked == [] and errors == [None, None]


def test_a_version_from_which_no_way_leads_is_refused(earlier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (updates.PLAIN / f"{BETWEEN}--{__version__}.sql").unlink()
    with pytest.raises(GraphRAGError, match=f"from which no update leads to {__version__}") as refusal:
        install(earlier)
    assert refusal.value.sqlstate == "0A000" and refusal.value.hint
    assert version_of(earlier) == EARLIER


def test_an_update_that_fails_changes_nothing(earlier: str) -> None:
    script = updates.PLAIN / f"{BETWEEN}--{__version__}.sql"
    script.write_text(f"{script.read_text()}\nDROP TABLE graphrag.nothing_of_this_name;")
    with psycopg.connect(earlier, autocommit=True) as connection:
        before = catalog(connection, is_plain=True)
        with pytest.raises(psycopg.errors.UndefinedTable):
            schema.install(connection)
        assert catalog(connection, is_plain=True) == before
    assert version_of(earlier) == EARLIER


def test_an_unreleased_state_with_other_tables_is_refused(earlier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "__version__", EARLIER)
    with pytest.raises(GraphRAGError, match=r"with other tables: graphrag\.") as refusal:
        install(earlier)
    assert refusal.value.sqlstate == "0A000"


def test_nobody_but_the_owner_updates(earlier: str, shared_cluster: Cluster | Server) -> None:
    with (
        shared_cluster.connect("postgres") as superuser,
        new_role(superuser, "LOGIN PASSWORD 'x' IN ROLE graphrag_member") as other,
        pytest.raises(GraphRAGError, match='cannot act for "plain_owner"') as refusal,
    ):
        install(make_conninfo(earlier, user=other, password="x"))
    assert refusal.value.sqlstate == "42501"
    assert version_of(earlier) == EARLIER
