"""pg_dump and restore into a new cluster: what comes back, and what repair() makes again."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import PROJECT, Cluster, Database, Runtime
from tests.sql.ingest import canonical, index_all, new_corpus, put, refused, rows, value, work
from tests.sql.picture_rows import add_picture

QUESTION = "Who designed the Kestrel engine?"
DOCUMENTS = {
    "ann": "Ann Lee founded Acme Rockets in Osaka. Acme Rockets builds small launchers.",
    "bob": "Bob Stone is the chief engineer of Acme Rockets. He designed the Kestrel engine.",
    "kes": "The Kestrel engine burns methane. It first flew on the Heron launcher.",
}
LATE = "Kim Park studies the Kestrel engine."
SEARCH = "SELECT source_key, round(score::numeric, 6) FROM graphrag.search(%s, mode => %s)"
CYPHER = """
SELECT row ->> 'name'
  FROM graphrag.cypher('default', 'MATCH (e:Entity)-[:MENTIONED_IN]->(:Chunk) RETURN DISTINCT e.name AS name') row
 ORDER BY 1
"""
VERSIONS = "SELECT source_key, version, is_latest, valid_from, valid_to, content FROM graphrag.versions ORDER BY 1, 2"
# What one installation never has, so that it shows whose rows they are.
STRANGER = "Nobody Here owns Nothing Much."


def contents(connection: psycopg.Connection) -> Any:
    searches = [rows(connection, SEARCH, QUESTION, mode) for mode in ("naive", "bm25", "hybrid", "local")]
    whole = canonical(connection, "default", (QUESTION,))
    pictures = rows(connection, "SELECT id, document_id, content, caption, page FROM graphrag.pictures ORDER BY id")
    return {name: part for name, part in whole.items() if not name.startswith("graph ")}, searches, pictures


def fingerprint(connection: psycopg.Connection, corpus: str) -> list[tuple[Any, ...]]:
    """By sections: a difference says where."""
    return rows(connection, "SELECT * FROM graphrag.fingerprint_sections(%s)", corpus)


@pytest.fixture(scope="module")
def expected(module_db: Database) -> list[tuple[Any, ...]]:
    """The fingerprint of the documents, all indexed, never dumped."""
    corpus = new_corpus(module_db)
    for key, content in DOCUMENTS.items():
        put(module_db, corpus, key, content, title=key.title())
    put(module_db, corpus, "late", LATE)
    add_picture(module_db, corpus, "ann", page=2)
    work(module_db)
    result = fingerprint(module_db, corpus)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    return result


@pytest.fixture(scope="module")
def source(module_db: Database, expected: list[tuple[Any, ...]]) -> Database:
    """A database with documents, packed and not; one that waits; and a corpus protected by a function of the application."""
    module_db.execute(
        "DO $$ BEGIN CREATE ROLE team_a IN ROLE graphrag_reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    for key, content in DOCUMENTS.items():
        put(module_db, "default", key, content, title=key.title())
    add_picture(module_db, "default", "ann", page=2)
    work(module_db)
    module_db.execute("SELECT graphrag.optimize()")
    module_db.execute("SELECT graphrag.create_corpus('guarded')")
    module_db.execute("CREATE FUNCTION public.team() RETURNS text LANGUAGE sql RETURN current_user")
    for team in ("team_a", "team_b"):
        put(module_db, "guarded", team, f"Ann Lee led {team}.", metadata={"team": team})
    module_db.execute("SELECT graphrag.keep_history('guarded', 'guarded history')")
    for team in ("team_a", "team_b"):
        put(module_db, "guarded", team, f"Ann Lee leads {team}. Only {team} knows Ann Lee.", metadata={"team": team})
        add_picture(module_db, "guarded", team, caption=f"A drawing of {team}.")
    work(module_db)
    module_db.execute("SELECT graphrag.protect('guarded', 'metadata ->> ''team'' = public.team()')")
    put(module_db, "default", "late", LATE)
    return module_db


@pytest.fixture(scope="module")
def new_cluster(runtime: Runtime) -> Iterator[Cluster]:
    cluster = Cluster(runtime)
    try:
        with cluster.connect() as connection:
            connection.execute("CREATE ROLE graphrag_reader NOLOGIN")
            connection.execute("CREATE ROLE team_a IN ROLE graphrag_reader")
        yield cluster
    finally:
        cluster.close()


def plain(source: Database, old: Cluster, new: Cluster) -> str:
    new.create_database("plain", "template0")
    new.restore("plain", old.dump(source.info.dbname))
    return "plain"


def custom(source: Database, old: Cluster, new: Cluster) -> str:
    new.create_database("custom", "template0")
    _pg_restore(source, old, new, "custom")
    return "custom"


def create(source: Database, old: Cluster, new: Cluster) -> str:
    """The whole database: it is made by the restore, with its own name."""
    _pg_restore(source, old, new, "postgres", "--create")
    return source.info.dbname


def clean(source: Database, old: Cluster, new: Cluster) -> str:
    """Over other corpora, with more tables and graphs, which uninstall() removes first; then over its own later state."""
    url = new.create_database("clean", "template0")
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE EXTENSION pg_graphrag CASCADE")
        for _ in range(3):
            put(other, new_corpus(other), "stranger", STRANGER)
        work(other)
        other.execute("SELECT graphrag.uninstall()")
    _pg_restore(source, old, new, "clean", "--clean", "--if-exists")
    with psycopg.connect(url, autocommit=True) as later:
        later.execute("DELETE FROM graphrag.documents")
        index_all(later, "default", {"stranger": STRANGER})
    _pg_restore(source, old, new, "clean", "--clean", "--if-exists")
    return "clean"


def _pg_restore(source: Database, old: Cluster, new: Cluster, target: str, *arguments: str) -> None:
    run, file = old.runtime.run, f"/tmp/{source.info.dbname}.dump"
    run("pg_dump", "--format=custom", f"--file={file}", "-d", old.url(source.info.dbname))
    run("pg_restore", "--exit-on-error", *arguments, "-d", new.url(target), file)
    run("rm", file)


FORMS = (plain, custom, create, clean)


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", FORMS)
def test_a_restored_database_is_as_before_once_repaired(
    source: Database,
    expected: list[tuple[Any, ...]],
    shared_cluster: Cluster,
    new_cluster: Cluster,
    form: Callable[..., str],
) -> None:
    before, vertices = contents(source), rows(source, CYPHER)
    target = form(source, shared_cluster, new_cluster)
    with psycopg.connect(new_cluster.url(target), autocommit=True) as restored:
        assert contents(restored) == before, "tables, vectors and BM25 come with the dump"
        check_that_readers_are_kept_out(new_cluster.url(target))

        repaired = value(restored, "SELECT graphrag.repair()")
        assert repaired == {"jobs_queued": 0, "graphs_rebuilt": 2}, "the restore itself queued what is due"
        assert rows(restored, CYPHER) == vertices
        assert rows(restored, VERSIONS) == rows(source, VERSIONS)
        for corpus in ("default", "guarded", "guarded history"):
            assert fingerprint(restored, corpus) == fingerprint(source, corpus)
            assert rows(restored, "SELECT * FROM graphrag.check(%s)", corpus) == []
        check_that_readers_see_what_is_theirs(new_cluster.url(target))

        work(restored)
        assert fingerprint(restored, "default") == expected, "also new documents"
        assert set(rows(restored, CYPHER)) > set(vertices)
    new_cluster.drop_database(target)


def check_that_readers_are_kept_out(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as reader:
        reader.execute("SET ROLE team_a")
        for read in ("documents", "graph_nodes", "document_coverage", "pictures"):
            diag = refused(reader, f"SELECT * FROM graphrag.{read}")
            assert diag.sqlstate == "55000", read
            assert 'corpus "guarded' in str(diag.message_primary)
            assert "graphrag.repair()" in str(diag.message_hint)
        assert refused(reader, "SELECT * FROM graphrag.search('Ann Lee', 'guarded')").sqlstate == "55000"
        assert refused(reader, "SELECT graphrag.context('Ann Lee', 'guarded')").sqlstate == "55000"


def check_that_readers_see_what_is_theirs(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as reader:
        reader.execute("SET ROLE team_a")
        assert rows(reader, "SELECT source_key FROM graphrag.documents WHERE corpus = 'guarded'") == [("team_a",)]
        found = rows(reader, "SELECT DISTINCT source_key FROM graphrag.search('Who knows Ann Lee?', 'guarded')")
        assert found == [("team_a",)]
        drawings = rows(reader, "SELECT caption FROM graphrag.pictures WHERE caption LIKE 'A drawing%%'")
        assert drawings == [("A drawing of team_a.",)]
        secured = "SELECT polname::text FROM pg_policy WHERE polname ~ '^graphrag_protection'"
        # Their history is closed.
        assert rows(reader, "SELECT FROM graphrag.documents WHERE corpus = 'guarded history'") == []
        protected = (
            "SELECT 'graphrag_protection_' || id FROM graphrag.corpora WHERE name IN ('guarded', 'guarded history')"
        )
        assert sorted(rows(reader, secured)) == sorted(rows(reader, protected))


def test_a_restore_queues_nothing_that_is_indexed(shared_cluster: Cluster, source: Database) -> None:
    script = shared_cluster.dump(source.info.dbname)
    url = shared_cluster.create_database("restored_idle", "template0")
    shared_cluster.restore("restored_idle", script)
    with psycopg.connect(url, autocommit=True) as restored:
        due = "SELECT d.source_key FROM graphrag.jobs j JOIN graphrag.documents d ON d.id = j.document_id"
        assert rows(restored, due) == [("late",)]
        assert value(restored, "SELECT count(*) FROM graphrag.jobs") == 1
        assert rows(restored, "SELECT DISTINCT status FROM graphrag.documents WHERE source_key <> 'late'") == [
            ("indexed",)
        ]
    shared_cluster.drop_database("restored_idle")


OWN_TABLES = """
SELECT graphrag._make_tables(s.id)
  FROM graphrag.embedding_spaces s JOIN graphrag.corpora c ON c.id = s.corpus_id
 WHERE c.name = 'default' AND NOT s.own_tables
"""
# pg_dump's arguments, and the corpora that health() names before repair().
PARTS: dict[str, tuple[list[list[str]], set[str]]] = {
    "schemas alone": ([["--schema-only"]], set()),
    "sections": ([["--section=pre-data"], ["--section=data"], ["--section=post-data"]], {"guarded", "guarded history"}),
    "sections without data": ([["--section=pre-data"], ["--section=post-data"]], set()),
    "data alone": ([["--data-only"]], {"default", "guarded", "guarded history"}),
    "the schema": ([["--schema=graphrag"]], {"guarded", "guarded history"}),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", PARTS)
def test_what_a_restore_of_a_part_brings_serves_once_repaired(
    shared_cluster: Cluster, source: Database, part: str
) -> None:
    steps, named = PARTS[part]
    url = shared_cluster.create_database("restored_part", "template0")
    # Vectors of large corpora have tables that are no members of the extension.
    source.execute(OWN_TABLES)
    if part in ("data alone", "the schema"):
        with psycopg.connect(url, autocommit=True) as fresh:
            fresh.execute("CREATE EXTENSION pg_graphrag CASCADE")
            # That of the application, in the condition of protect().
            fresh.execute("CREATE FUNCTION public.team() RETURNS text LANGUAGE sql RETURN current_user")
    for arguments in steps:
        file = f"/tmp/{source.info.dbname}.part"
        shared_cluster.runtime.run(
            "pg_dump", *arguments, f"--file={file}", "-d", shared_cluster.url(source.info.dbname)
        )
        shared_cluster.runtime.run("psql", "-X", "-q", "-o", "/dev/null", "-d", url, "-f", file)
        shared_cluster.runtime.run("rm", file)
    with psycopg.connect(url, autocommit=True) as restored:
        health = "SELECT DISTINCT split_part(subject, '\"', 2) FROM graphrag.health() WHERE subject LIKE 'corpus%%'"
        assert {name for (name,) in rows(restored, health)} == named
        restored.execute("SELECT graphrag.repair()")
        index_all(restored, "default", {"new": "Carl Roe sold the Kestrel engine."})
        work(restored)
        assert rows(restored, health) == []
        for (corpus,) in rows(restored, "SELECT name FROM graphrag.corpora"):
            assert rows(restored, "SELECT * FROM graphrag.check(%s)", corpus) == []
        assert {"new"} <= {key for (key,) in rows(restored, "SELECT source_key FROM graphrag.search('Kestrel engine')")}
        # Once more large.
        restored.execute(OWN_TABLES)
    shared_cluster.drop_database("restored_part")


@pytest.mark.slow
def test_a_dump_without_graphs_as_the_manual_has_it_keeps_tables_attached(
    shared_cluster: Cluster, db: Database
) -> None:
    db.execute(
        "CREATE TABLE public.notes (id int PRIMARY KEY, body text);"
        "SELECT graphrag.attach_table('public.notes', 'default', 'id', '{body}')"
    )
    manual = (PROJECT / "docs/operations.md").read_text(encoding="utf-8")
    leave_out = [f"{option}={pattern}" for option, pattern in re.findall(r"(--exclude-[a-z-]+)='([^']+)'", manual)]
    url = shared_cluster.create_database("without_graphs", "template0")
    shared_cluster.restore("without_graphs", shared_cluster.dump(db.info.dbname, *leave_out))
    with psycopg.connect(url, autocommit=True) as restored:
        restored.execute("SELECT graphrag.repair()")
        restored.execute("INSERT INTO public.notes VALUES (1, 'Carl Roe sold the Kestrel engine.')")
        work(restored)
        assert rows(restored, "SELECT source_key FROM graphrag.search('Kestrel engine')") == [("1",)]
        assert rows(restored, "SELECT subject FROM graphrag.health()") == []
        assert rows(restored, "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^graphrag_[0-9]'") == [(1,)]
    shared_cluster.drop_database("without_graphs")


@pytest.mark.slow
def test_health_names_tables_whose_attachment_a_restore_of_schemas_left_behind(
    shared_cluster: Cluster, db: Database
) -> None:
    attach = "SELECT graphrag.attach_table('public.notes', 'default', 'id', '{body}')"
    db.execute(
        "CREATE TABLE public.notes (id int PRIMARY KEY, body text) PARTITION BY RANGE (id);"
        "CREATE TABLE public.notes_1 PARTITION OF public.notes FOR VALUES FROM (0) TO (9);"
        f"CREATE TABLE public.notes_2 PARTITION OF public.notes DEFAULT; {attach}"
    )
    # The attachment has another number than the first one of the restored database.
    db.execute(f"SELECT graphrag.detach_table('public.notes'); {attach}")
    # Two attachments of one table are one warning.
    db.execute("SELECT graphrag.create_corpus('other')")
    db.execute(attach.replace("'default'", "'other'"))
    url = shared_cluster.create_database("left_behind", "template0")
    shared_cluster.restore("left_behind", shared_cluster.dump(db.info.dbname, "--schema-only"))
    with psycopg.connect(url, autocommit=True) as restored:
        restored.execute("SELECT graphrag.repair()")
        ((severity, subject, hint),) = rows(restored, "SELECT severity, subject, hint FROM graphrag.health()")
        assert (severity, subject) == ("warning", "table public.notes") and "graphrag.attach_table(" in hint
        restored.execute("INSERT INTO public.notes VALUES (1, 'Carl Roe sold the Kestrel engine.')")
        restored.execute("SELECT graphrag.create_corpus('default')")
        restored.execute(attach)
        work(restored)
        assert rows(restored, "SELECT subject FROM graphrag.health()") == []
        assert rows(restored, "SELECT source_key FROM graphrag.documents") == [("1",)]
        triggers = (
            "SELECT tgrelid::regclass::text, count(*) FROM pg_trigger WHERE tgname ~ '^graphrag' GROUP BY 1 ORDER BY 1"
        )
        assert rows(restored, triggers) == [("notes", 4), ("notes_1", 4), ("notes_2", 4)]
        restored.execute("INSERT INTO public.notes_1 VALUES (2, 'Ann Lee built it.')")
        work(restored)
        assert rows(restored, "SELECT source_key FROM graphrag.documents ORDER BY 1") == [("1",), ("2",)]
    shared_cluster.drop_database("left_behind")


def test_every_identity_sequence_and_table_with_rows_is_dumped(db: Database) -> None:
    undumped = db.execute("""
        SELECT c.relname
          FROM pg_class c
          JOIN pg_depend m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid AND m.deptype = 'e'
          JOIN pg_extension x ON x.oid = m.refobjid AND x.extname = 'pg_graphrag'
         WHERE c.relkind IN ('r', 'S') AND NOT c.oid = ANY (x.extconfig)
         ORDER BY 1""").fetchall()
    # Counts come with the rows that are counted. Attached tables are looked at anew, so what replication brought is, too.
    # Graphs of a restore are made anew; breakers close by themselves; worker numbers
    # mean nothing after a restart; locks are rows made when they are wanted; the secret of the views is another in each database.
    assert [name for (name,) in undumped] == [
        "_attach_requests",
        "_attached_faults",
        "_attached_seen",
        "_document_counts",
        "_graphs",
        "_index_counts",
        "_locks",
        "_replicated",
        "_replicated_id_seq",
        "_view_secret",
        "provider_state",
        "worker_id_seq",
    ]
