"""From the extension of a released version to a database without it: update, copy, and back. Nothing is indexed anew."""

import json
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside import cli

from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import value, work
from tests.sql.two_hosts import close, plain_database
from tests.upgrade.released import HERE, QUESTIONS, RELEASED, protect_again, restore_released


def contents(url: str, modes: dict[str, Any], *, with_graphs: bool) -> list[Any]:
    """What each corpus is made of, and what its modes find; the sections of Apache AGE's graph where asked for."""
    result = []
    for corpus in modes:
        with GraphRAG(url, corpus) as rag:
            sections = [
                section
                for section in rag.call("fingerprint_sections")
                if with_graphs or not section["section"].startswith("graph: ")
            ]
            searches = [
                [
                    (row.source_key, row.content, row.score, row.explain)
                    for row in rag.search(QUESTIONS[corpus], mode=mode)
                ]
                for mode in modes[corpus]
            ]
            result.append((sections, rag.call("check"), searches))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASED)
def test_a_corpus_of_a_released_version_is_the_same_on_the_other_host_and_back(
    shared_cluster: Cluster, empty_db: Database, version: str
) -> None:
    # Modes that ask no model.
    modes = json.loads((HERE / f"found-{version}.json").read_text())
    name = f"moved_{version}"
    try:
        with (
            Database.open(restore_released(shared_cluster, name, version)) as source,
            plain_database(shared_cluster) as url,
        ):
            protect_again(source)
            # Before the update, the versions differ.
            assert cli.main(["copy", "--url", url, source.url]) == 1
            source.execute("ALTER EXTENSION pg_graphrag UPDATE")
            source.execute("SELECT graphrag.repair()")
            # Attached rows, which 0.3.0 has, are not copied.
            if value(source, "SELECT to_regclass('shop.machines')"):
                source.execute("SELECT graphrag.detach_table('shop.machines')")
                work(source)
            before = contents(source.url, modes, with_graphs=False)
            assert cli.main(["copy", "--url", url, source.url]) == 0
            assert close(contents(url, modes, with_graphs=False), before)

            empty_db.execute("CREATE EXTENSION pg_graphrag CASCADE")
            assert cli.main(["copy", "--url", empty_db.url, url]) == 0
            assert close(contents(empty_db.url, modes, with_graphs=True), contents(source.url, modes, with_graphs=True))
    finally:
        shared_cluster.drop_database(name)


def test_a_database_with_the_extension_is_not_installed_into(db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["install", "--url", db.url]) == 1
    assert "ALTER EXTENSION pg_graphrag UPDATE" in capsys.readouterr().err
    with psycopg.connect(db.url) as connection:
        assert connection.execute("SELECT to_regclass('graphrag._installed')").fetchone() == (None,)
