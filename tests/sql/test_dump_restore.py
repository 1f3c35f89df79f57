"""pg_dump and restore: what comes back, and what repair() makes again."""

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database

QUESTION = "Who designed the Kestrel engine?"
DOCUMENTS = [
    ("ann", "Ann Lee", "Ann Lee founded Acme Rockets in Osaka. Acme Rockets builds small launchers."),
    ("bob", "Bob Stone", "Bob Stone is the chief engineer of Acme Rockets. He designed the Kestrel engine."),
    ("kes", "Kestrel", "The Kestrel engine burns methane. It first flew on the Heron launcher."),
]
GRAPH = """
SELECT s.key, t.key, r.weight::text, r.description
  FROM graphrag.relationships r
  JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id
 ORDER BY 1, 2
"""
SEARCH = "SELECT source_key, round(score::numeric, 6) FROM graphrag.search(%s, mode => %s)"
CYPHER = """
SELECT row ->> 'name'
  FROM graphrag.cypher('default', 'MATCH (e:Entity)-[:MENTIONED_IN]->(:Chunk) RETURN DISTINCT e.name AS name') row
 ORDER BY 1
"""


def fill(connection: psycopg.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO graphrag.documents (source_key, title, content) VALUES (%s, %s, %s)", DOCUMENTS)
    connection.execute("CALL graphrag.process_jobs()")
    connection.execute("SELECT graphrag.optimize()")
    connection.execute(
        "INSERT INTO graphrag.documents (source_key, content) VALUES ('late', 'Kim Park studies the Kestrel engine.')"
    )


def contents(connection: psycopg.Connection) -> tuple[list[tuple[object, ...]], ...]:
    searches = [
        connection.execute(SEARCH, (QUESTION, mode)).fetchall() for mode in ("naive", "bm25", "hybrid", "local")
    ]
    return (connection.execute(GRAPH).fetchall(), *searches)


@pytest.mark.parametrize("form", ["plain", "custom"])
def test_a_restored_database_answers_as_before_once_repaired(shared_cluster: Cluster, db: Database, form: str) -> None:
    fill(db)
    before = contents(db)
    vertices = db.execute(CYPHER).fetchall()
    target = f"restored_{form}"
    shared_cluster.create_database(target, "template0")
    if form == "plain":
        shared_cluster.restore(target, shared_cluster.dump(db.info.dbname))
    else:
        run, file = shared_cluster.runtime.run, f"/tmp/{db.info.dbname}.dump"
        run("pg_dump", "--format=custom", f"--file={file}", "-d", shared_cluster.url(db.info.dbname))
        run("pg_restore", "--exit-on-error", "-d", shared_cluster.url(target), file)
        run("rm", file)
    with psycopg.connect(shared_cluster.url(target), autocommit=True) as restored:
        assert contents(restored) == before, "tables, vectors and BM25 come with the dump"
        repaired = restored.execute("SELECT graphrag.repair()").fetchone()
        assert repaired == ({"jobs_queued": 0, "graphs_rebuilt": 1},), "the restore itself queued what is due"
        assert restored.execute(CYPHER).fetchall() == vertices
        restored.execute("CALL graphrag.process_jobs()")
        db.execute("CALL graphrag.process_jobs()")
        assert contents(restored) == contents(db), "also after new documents: every sequence was restored"
        assert restored.execute(CYPHER).fetchall() == db.execute(CYPHER).fetchall()


def test_a_restore_queues_nothing_that_is_indexed(shared_cluster: Cluster, db: Database) -> None:
    fill(db)
    db.execute("CALL graphrag.process_jobs()")
    script = shared_cluster.dump(db.info.dbname)
    shared_cluster.create_database("restored_idle", "template0")
    shared_cluster.restore("restored_idle", script)
    with psycopg.connect(shared_cluster.url("restored_idle"), autocommit=True) as restored:
        assert restored.execute("SELECT count(*) FROM graphrag.jobs").fetchone() == (0,)
        assert restored.execute("SELECT DISTINCT status FROM graphrag.documents").fetchall() == [("indexed",)]


def test_every_identity_sequence_and_table_with_rows_is_dumped(db: Database) -> None:
    undumped = db.execute("""
        SELECT c.relname
          FROM pg_class c
          JOIN pg_depend m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid AND m.deptype = 'e'
          JOIN pg_extension x ON x.oid = m.refobjid AND x.extname = 'pg_graphrag'
         WHERE c.relkind IN ('r', 'S') AND NOT c.oid = ANY (x.extconfig)
         ORDER BY 1""").fetchall()
    # The queue is refilled from the hashes; breakers close by themselves; worker numbers mean nothing after a restart.
    assert [name for (name,) in undumped] == ["_attach_requests", "jobs", "provider_state", "worker_id_seq"]
