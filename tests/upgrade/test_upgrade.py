"""ALTER EXTENSION UPDATE from every released version keeps all data, and ends with what a fresh installation has."""

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from pg_graphrag import __version__ as VERSION

from tests.endpoint import Endpoint
from tests.runtime.cluster import PROJECT, Cluster, Database
from tests.sql.batching import settle
from tests.sql.ingest import Background, jobs, new_corpus, put, refused, rows, search, statuses, value, wait_for_lock
from tests.upgrade.catalog import catalog
from tests.upgrade.freeze import empty_tables, fill, reply
from tests.upgrade.released import (
    HERE,
    QUESTIONS,
    RELEASED,
    SERVED,
    create_released,
    protect_again,
    protected,
    restore_released,
)

WHAT_TO_DO = f"""
An upgraded database differs from a fresh one. New functions, views, triggers, tables, indexes and comments in sql/ need
nothing: extension/upgrade.awk takes them into the upgrade script. Write into extension/upgrade/*--{VERSION}.sql:
- ALTER for a table, constraint, index or sequence that an earlier version made and sql/ now makes otherwise;
- DROP for what sql/ makes no more, and for a function whose arguments or result changed (new arguments make another
  function), or a view that lost or moved a column; what depends on it has to go first.
Left: only after the upgrade. Right: only fresh. Both: it differs.
"""

# Modes whose order changed on purpose after a version: 0.2.0 seeds hybrid's PageRank otherwise; since 0.3.0 what few chunks have
# weighs more, names are found by their words, and relationships are scored by their own sentences.
_SINCE_0_3 = {"hybrid", "local", "global", "mix", "graph_local"}
RANKED_ANEW = {"0.1.0": _SINCE_0_3, "0.2.0": _SINCE_0_3}
# What these indexed, 0.3.0 indexes otherwise. Its update takes in their graphs; later ones leave them to repair().
BEFORE_0_3 = {"0.1.0", "0.2.0"}


# What a role, or PUBLIC ("-"), has in our schemas.
GRANTED = """
SELECT x.name
  FROM pg_namespace n
 CROSS JOIN LATERAL (
       SELECT c.oid::regclass::text AS name, c.relacl AS acl FROM pg_class c WHERE c.relnamespace = n.oid
        UNION ALL
       SELECT p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner))
         FROM pg_proc p WHERE p.pronamespace = n.oid) x
 CROSS JOIN LATERAL aclexplode(x.acl) a
 WHERE n.nspname IN ('graphrag', 'graphrag_attached') AND a.grantee = %s::regrole
 GROUP BY 1 ORDER BY 1
"""


def canonical(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def contents(db: Database) -> dict[str, list[str]]:
    """Rows of every table that has any, by table, partitions apart; columns by name."""
    tables = rows(
        db,
        "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'graphrag'::regnamespace",
    )
    records = {table: rows(db, f"SELECT to_jsonb(t)::text FROM {table} t ORDER BY 1") for (table,) in tables}
    return {table: [row for (row,) in these] for table, these in records.items() if these}


# Tables that the update gives another name.
RENAMED = {"graphrag.attached_tables": "graphrag._attached_tables"}


@dataclass
class Upgraded:
    """A database that a released version filled, after the update; what it held before; what it found then; its dump."""

    version: str
    db: Database
    before: dict[str, list[str]]
    found: dict[str, dict[str, list[tuple[str, float]]]]
    dump: str


@pytest.fixture(scope="module", params=RELEASED)
def upgraded(request: Any, shared_cluster: Cluster) -> Iterator[Upgraded]:
    version = request.param
    db = Database.open(restore_released(shared_cluster, f"upgraded_{version}", version))
    try:
        assert value(db, "SELECT extversion FROM pg_extension WHERE extname = 'pg_graphrag'") == version
        protect_again(db) if version in BEFORE_0_3 else db.execute("SELECT graphrag.repair()")
        before = contents(db)
        loaded = json.loads((HERE / f"found-{version}.json").read_text())
        db.execute("CREATE ROLE upgrade_app")
        db.execute("GRANT SELECT, INSERT ON graphrag.documents TO upgrade_app")
        db.execute("GRANT EXECUTE ON FUNCTION graphrag.attach_table TO upgrade_app")
        db.execute("ALTER EXTENSION pg_graphrag UPDATE")
        dump = shared_cluster.dump(db.info.dbname, "--schema-only")
        db.execute("DROP OWNED BY upgrade_app")
        db.execute("DROP ROLE upgrade_app")
        yield Upgraded(version, db, before, loaded, dump)
    finally:
        db.close()
        shared_cluster.drop_database(f"upgraded_{version}")


@pytest.mark.sample(1)
def test_the_update_ends_with_what_a_fresh_installation_has(upgraded: Upgraded, db: Database) -> None:
    for number, _, condition in protected(upgraded.db):
        # Policies name the corpus by its number.
        db.execute("SELECT setval('graphrag.corpora_id_seq', %s, false)", [number])
        db.execute("SELECT graphrag.protect(%s, %s)", [new_corpus(db), condition])
    if upgraded.version not in BEFORE_0_3:
        # Documents of rows have a policy, too.
        db.execute("CREATE TABLE public.machines (code text PRIMARY KEY)")
        db.execute("SELECT graphrag.attach_entities('public.machines', %s, '{code}', 'code')", [new_corpus(db)])
    left, right = catalog(upgraded.db), catalog(db)
    lines = [f"left:  {name}" for name in sorted(left.keys() - right.keys())]
    lines += [f"right: {name}" for name in sorted(right.keys() - left.keys())]
    for name in sorted(left.keys() & right.keys()):
        if left[name] != right[name]:
            lines.append(f"both:  {name}\n         upgraded {left[name]}\n         fresh    {right[name]}")
    assert not lines, "\n".join([WHAT_TO_DO, *lines])


def test_the_update_keeps_every_row(upgraded: Upgraded) -> None:
    after = contents(upgraded.db)
    assert {"graphrag.documents", "graphrag.entity_mentions", "graphrag.bm25_postings"} <= upgraded.before.keys()
    for table, old in upgraded.before.items():
        # Columns that came with the update are new, those there were are as they were.
        names = json.loads(old[0]).keys()
        rows_after = [json.loads(row) for row in after.get(RENAMED.get(table, table), [])]
        if table == "graphrag.attached_tables":
            # A key has a list of columns.
            rows_after = [{**row, "key_column": row["key_columns"][0]} for row in rows_after]
        if table == "graphrag.corpora":
            # They are to be indexed anew.
            rows_after = [{**row, "needs_reindex": False} for row in rows_after]
        columns_before = [{name: row.get(name) for name in names} for row in rows_after]
        assert canonical(columns_before) == canonical(map(json.loads, old)), table


@pytest.mark.sample(1)
def test_nothing_is_wrong_after_the_update(upgraded: Upgraded) -> None:
    for corpus in upgraded.found:
        assert rows(upgraded.db, "SELECT * FROM graphrag.check(%s)", corpus) == [], corpus


def test_the_update_finds_what_was_found_before(upgraded: Upgraded) -> None:
    for corpus, modes in upgraded.found.items():
        for mode, before in modes.items():
            results = search(upgraded.db, QUESTIONS[corpus], corpus, mode)
            if mode in RANKED_ANEW.get(upgraded.version, ()):
                assert {row["source_key"] for row in results} == {key for key, _ in before}, (corpus, mode)
                continue
            assert [row["source_key"] for row in results] == [key for key, _ in before], (corpus, mode)
            assert [row["score"] for row in results] == pytest.approx([score for _, score in before], abs=1e-5), (
                corpus,
                mode,
            )


def test_health_says_which_corpora_an_earlier_version_indexed(upgraded: Upgraded) -> None:
    indexed = rows(
        upgraded.db, "SELECT DISTINCT corpus FROM graphrag.documents WHERE indexed_hash IS NOT NULL ORDER BY 1"
    )
    warnings = rows(
        upgraded.db,
        "SELECT severity, subject, hint FROM graphrag.health() WHERE detail LIKE '%%an earlier version indexed%%' ORDER BY 2",
    )
    assert indexed
    assert {subject: severity for severity, subject, _ in warnings} == {
        f'corpus "{corpus}"': "warning" for (corpus,) in indexed
    }
    hints = {subject: hint for _, subject, hint in warnings}
    assert all(f"graphrag.reindex('{corpus}')" in hints[f'corpus "{corpus}"'] for (corpus,) in indexed)


def test_grants_of_the_application_are_still_its_own(upgraded: Upgraded) -> None:
    # pg_dump leaves out what an extension script has made initial privileges.
    assert "GRANT SELECT,INSERT ON TABLE graphrag.documents TO upgrade_app;" in upgraded.dump
    assert re.search(r"GRANT ALL ON FUNCTION graphrag.attach_table\(.*\) TO upgrade_app;", upgraded.dump)


def test_what_is_new_goes_to_nobody_by_default_privileges(shared_cluster: Cluster, db: Database) -> None:
    with Database.open(restore_released(shared_cluster, "upgraded_open", RELEASED[-1])) as updated:
        try:
            protect_again(updated)
            updated.execute("CREATE ROLE upgrade_open")
            for grantee in ("upgrade_open", "PUBLIC"):
                for kind in ("TABLES", "SEQUENCES", "FUNCTIONS"):
                    updated.execute(f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO {grantee}".encode())
            updated.execute("GRANT SELECT ON graphrag.documents TO upgrade_open")
            updated.execute("ALTER EXTENSION pg_graphrag UPDATE")
            assert rows(updated, GRANTED, "upgrade_open") == [("graphrag.documents",)]
            assert rows(updated, GRANTED, "-") == rows(db, GRANTED, "-")
        finally:
            updated.execute("DROP OWNED BY upgrade_open CASCADE; DROP ROLE upgrade_open")
    shared_cluster.drop_database("upgraded_open")


# Last: it changes what the others compare.
@pytest.mark.sample(1)
def test_workers_go_on_where_the_released_version_stopped(upgraded: Upgraded) -> None:
    db = upgraded.db
    assert set(statuses(db, "default").values()) == {"indexed", "pending"}
    corpora = [corpus for (corpus,) in rows(db, "SELECT name FROM graphrag.corpora ORDER BY id")]
    assert set(upgraded.found) <= set(corpora)
    with Endpoint() as endpoint:
        endpoint.reply(reply)
        db.execute("UPDATE graphrag.providers SET base_url = %s", [endpoint.url])
        with_graph = "SELECT count(*)::text FROM graphrag.corpora WHERE options -> 'cypher' IS DISTINCT FROM 'false'"
        assert value(db, "SELECT graphrag.repair() ->> 'graphs_rebuilt'") == value(db, with_graph)
        db.execute("SELECT graphrag.retry_failed()")
        db.execute("INSERT INTO shop.notes VALUES ('n2', 'Kim Park tunes autovacuum in Seoul.', 'en')")
        put(db, "stories", "hopper", "Grace Hopper left Harvard for London.")
        put(db, "default", "glossary/new", "Kim Park writes write-ahead log records.")
        for corpus in corpora:
            # A batch, whose endpoint is gone too, takes several rounds.
            settle(db, corpus)
        for corpus in corpora:
            assert set(statuses(db, corpus).values()) == {"indexed"}, corpus
            assert jobs(db, corpus) == []
            assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []
        assert [row["source_key"] for row in search(db, "Kim Park", "shop", "bm25")] == ["n2"]
        assert search(db, "Grace Hopper in London", "stories")[0]["source_key"] == "hopper"


@pytest.mark.slow
def test_an_update_that_is_killed_leaves_the_version_before_it_whole(cluster: Callable[..., Cluster]) -> None:
    server = cluster()
    restore_released(server, "killed", "0.2.0")
    with server.connect("killed") as db:
        before, rows_before = catalog(db), contents(db)
    # Tables that the script changes early, in the middle and late: it is killed while it waits for them.
    for table in ("attached_tables", "llm_calls", "relationship_values"):
        with closing(psycopg.connect(server.url("killed"))) as holder, closing(server.connect("killed")) as db:
            holder.execute(f"LOCK TABLE graphrag.{table} IN ACCESS SHARE MODE".encode())
            updating = Background(server.url("killed"), "ALTER EXTENSION pg_graphrag UPDATE")
            wait_for_lock(db, updating.pid)
            server.kill()
            assert updating.finish() is not None
        server.start()
        with server.connect("killed") as db:
            assert catalog(db) == before
            assert contents(db) == rows_before
    with server.connect("killed") as db:
        db.execute("ALTER EXTENSION pg_graphrag UPDATE")
        db.execute("SELECT graphrag.repair()")
        for (corpus,) in rows(db, "SELECT name FROM graphrag.corpora"):
            assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


@pytest.mark.slow
def test_the_update_rewrites_keys_that_are_written_otherwise_now(shared_cluster: Cluster) -> None:
    """0.2.0 kept the kind of an apostrophe: what was "o’hopper" is "o'hopper", for people and for documents."""
    old, new = "grace o’hopper", "grace o'hopper"
    names = {"grace hopper": old, "Grace Hopper": "Grace O’Hopper"}
    with Database.open(restore_released(shared_cluster, "upgraded_keys", "0.2.0", names)) as db:
        protect_again(db)
        mentioning = rows(db, "SELECT DISTINCT document_id FROM graphrag.entity_mentions WHERE raw_key = %s", old)
        before = of_key(db, old)
        assert mentioning and all(before)
        db.execute("ALTER EXTENSION pg_graphrag UPDATE")
        assert of_key(db, new) == before
        assert not any(of_key(db, old))
        assert set(mentioning) <= set(rows(db, "SELECT document_id FROM graphrag.jobs WHERE kind = 'index'"))
        with Endpoint() as endpoint:
            endpoint.reply(reply)
            db.execute("UPDATE graphrag.providers SET base_url = %s", [endpoint.url])
            db.execute("SELECT graphrag.repair()")
            db.execute("SELECT graphrag.retry_failed()")
            settle(db, "stories")
        assert rows(db, "SELECT * FROM graphrag.check('stories')") == []
        keys = rows(
            db, "SELECT key FROM graphrag.entities WHERE corpus_id = 2 AND key IN (%s, %s, 'harvard')", old, new
        )
        # What a person merged is merged still.
        assert keys == [(new,)]
    shared_cluster.drop_database("upgraded_keys")


def of_key(db: Database, key: str) -> list[list[tuple[Any, ...]]]:
    """Return what people said of an entity: what is curated of it, curations that name it, and its aliases."""
    return [
        rows(
            db,
            "SELECT curation_id, ordinal FROM graphrag.curated"
            " WHERE %s IN (key, other_key, entity_key, other_entity_key) ORDER BY 1, 2",
            key,
        ),
        rows(db, "SELECT id FROM graphrag.curations WHERE arguments ->> 'target' = %s ORDER BY 1", key),
        rows(db, "SELECT key FROM graphrag.aliases WHERE entity_key = %s ORDER BY 1", key),
    ]


def test_every_released_version_has_a_way_and_a_dump_to_test_it(shared_cluster: Cluster) -> None:
    assert RELEASED
    with shared_cluster.connect() as db:
        ways = dict(
            rows(db, "SELECT source, path FROM pg_extension_update_paths('pg_graphrag') WHERE target = %s", VERSION)
        )
    assert {version for version in RELEASED if ways.get(version)} == set(RELEASED)
    for version in RELEASED:
        assert (HERE / f"corpus-{version}.sql.gz").exists() and (HERE / f"found-{version}.json").exists(), version


@pytest.mark.slow
def test_a_dump_of_0_2_0_that_is_restored_as_it_is_is_named(shared_cluster: Cluster) -> None:
    url = shared_cluster.create_database("as_it_is", "template0")
    script = gzip.decompress((HERE / "corpus-0.2.0.sql.gz").read_bytes()).decode()
    shared_cluster.runtime.run("psql", "-X", "-q", "-o", "/dev/null", "-d", url, stdin=script)
    with psycopg.connect(url, autocommit=True) as restored:
        health = "SELECT detail FROM graphrag.health() WHERE subject = 'corpus \"default\"' AND severity = 'error'"
        assert "its texts have no vectors" in value(restored, health)
        restored.execute("SELECT graphrag.repair()")
        for _ in range(3):
            restored.execute("CALL graphrag.process_jobs()")
        assert rows(restored, health) == []
        assert rows(restored, "SELECT * FROM graphrag.check('default') WHERE invariant LIKE '%%vector%%'") == []
    shared_cluster.drop_database("as_it_is")


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["plain", "custom", "schemas alone"])
@pytest.mark.parametrize("version", SERVED)
def test_a_dump_of_a_version_before_is_restored_into_that_version_and_updated(
    shared_cluster: Cluster, version: str, form: str
) -> None:
    cluster, run = shared_cluster, shared_cluster.runtime.run
    url = cluster.create_database("dumped_before", "template0")
    with psycopg.connect(url, autocommit=True) as new:
        new.execute(create_released(version).encode())
    script = gzip.decompress((HERE / f"corpus-{version}.sql.gz").read_bytes()).decode()
    # As a user does, who goes on after an error.
    output = run("sh", "-c", 'psql -X -q -o /dev/null -d "$0" 2>&1', url, stdin=script)
    if form != "plain":
        file, arguments = "/tmp/dumped_before", ["--schema-only"] if form == "schemas alone" else []
        run("pg_dump", "--format=custom", *arguments, f"--file={file}", "-d", url)
        cluster.drop_database("dumped_before")
        url = cluster.create_database("dumped_before", "template0")
        with psycopg.connect(url, autocommit=True) as new:
            new.execute(create_released(version).encode())
        output = run("sh", "-c", 'pg_restore -d "$0" "$1" 2>&1 || true', url, file)
        run("rm", file)
    errors = [line for line in output.splitlines() if "ERROR" in line]
    assert len(errors) == 2 and all("already exists" in line for line in errors)
    with psycopg.connect(url, autocommit=True) as restored:
        restored.execute("ALTER EXTENSION pg_graphrag UPDATE")
        restored.execute("SELECT graphrag.repair()")
        restored.execute("CALL graphrag.process_jobs()")
        corpora = [name for (name,) in rows(restored, "SELECT name FROM graphrag.corpora")]
        assert bool(corpora) == (form != "schemas alone")
        for corpus in corpora:
            assert rows(restored, "SELECT * FROM graphrag.check(%s)", corpus) == []
        assert rows(restored, "SELECT state FROM graphrag.attached_tables WHERE state <> 'current'") == []
        assert bool(rows(restored, "SELECT FROM graphrag.attached_tables")) == bool(corpora)
    cluster.drop_database("dumped_before")


@pytest.mark.parametrize("version", sorted(set(RELEASED) - set(SERVED)))
def test_a_package_without_the_update_says_what_to_do(empty_db: Database, version: str) -> None:
    empty_db.execute("CREATE EXTENSION plpython3u")
    empty_db.execute(create_released(version))
    with Database.connect(empty_db.url, autocommit=True) as newcomer:
        diag = refused(newcomer, "SELECT graphrag.create_corpus('x')")
    assert diag.sqlstate == "58P01"
    assert f"is version {VERSION}, the extension is {version}" in str(diag.message_primary)
    assert "ALTER EXTENSION pg_graphrag UPDATE" in str(diag.message_hint)
    assert all(f" {served}" in str(diag.message_detail) for served in (*SERVED, VERSION))


@pytest.mark.slow
def test_what_is_frozen_with_a_release_has_rows_in_every_table(db: Database) -> None:
    with Endpoint() as endpoint:
        fill(db, endpoint)
    assert empty_tables(db) == []
    db.execute("DROP OWNED BY team_sea; DROP ROLE team_sea")


def test_released_files_never_change() -> None:
    listed = dict(
        reversed(line.split()) for line in (PROJECT / "extension/released/SHA256SUMS").read_text().splitlines()
    )
    result = {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (PROJECT / "extension/released").glob("*--*.sql")
    } | {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (PROJECT / "extension/released").glob("*.xz")}
    assert result == listed
