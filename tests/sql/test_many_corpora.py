"""More corpora than one transaction can hold the locks of are repaired, restored and uninstalled; a corpus has few relations."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import POSTGRES, Cluster, Database, Runtime
from tests.sql.ingest import STORIES, corpus_id, new_corpus, put, put_all, refused, rows, value, work

# Fewer locks than by default, so that few corpora are many.
SETTINGS = {
    "max_locks_per_transaction": "24",
    "max_connections": "20",
    "max_worker_processes": "8",
    "max_wal_senders": "0",
}
WITH_GRAPHS, WITHOUT = 40, 20
RELATIONS = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN graphrag.corpora x ON x.id = %s"
    "  LEFT JOIN graphrag.embedding_spaces s ON s.corpus_id = x.id"
    " WHERE n.nspname = 'graphrag_' || x.id OR n.nspname = 'graphrag' AND c.relname ~ ('_vectors_' || s.id || '(_|$)')"
)


@pytest.fixture(scope="module")
def many(runtime: Runtime) -> Iterator[tuple[Cluster, Database]]:
    """Corpora with a document each, most with graphs and some without."""
    cluster = Cluster(runtime, SETTINGS)
    try:
        with Database.open(cluster.create_database("many")) as db:
            db.execute("CREATE EXTENSION pg_graphrag CASCADE")
            for number in range(WITH_GRAPHS + WITHOUT):
                corpus = new_corpus(db, **({} if number < WITH_GRAPHS else {"cypher": False}))
                put(db, corpus, "a", f"Ada Lovelace wrote note {number} for Charles Babbage.")
            work(db)
            yield cluster, db
    finally:
        cluster.close()


def broken(db: Database) -> list[tuple[object, ...]]:
    return rows(db, "SELECT c.name, k.* FROM graphrag.corpora c CROSS JOIN LATERAL graphrag.check(c.name) k")


def test_a_small_corpus_has_the_relations_of_age_alone_and_none_without_its_graph(module_db: Database) -> None:
    counts = []
    options: dict[str, bool]
    for options in ({}, {"cypher": False}):
        corpus = new_corpus(module_db, **options)
        number = corpus_id(module_db, corpus)
        counts.append(value(module_db, RELATIONS, number))
        put_all(module_db, corpus, STORIES)
        work(module_db)
        module_db.execute("SELECT graphrag.refresh_communities(%s)", [corpus])
        counts.append(value(module_db, RELATIONS, number))
    # AGE 1.8 has the indexes of its labels from the beginning.
    assert counts == [0, 25 if POSTGRES == "17" else 41, 0, 0]


@pytest.mark.slow
def test_repair_of_many_corpora(many: tuple[Cluster, Database]) -> None:
    _, db = many
    diag = refused(db, "SELECT graphrag.repair()")
    assert diag.sqlstate == "53200"
    assert "graphrag.repair_corpora()" in str(diag.message_hint)
    db.execute("DELETE FROM graphrag.jobs")
    put(db, value(db, "SELECT name FROM graphrag.corpora WHERE id = 1"), "b", "Grace Hopper wrote a compiler.")
    db.execute("DELETE FROM graphrag.jobs")
    ((result,),) = rows(db, "CALL graphrag.repair_corpora()")
    assert result == {"jobs_queued": 1, "graphs_rebuilt": WITH_GRAPHS}
    work(db)
    assert broken(db) == []


@pytest.mark.slow
def test_a_dump_without_graphs_is_whole_after_repair(many: tuple[Cluster, Database]) -> None:
    cluster, db = many
    prints = "SELECT c.name, graphrag.fingerprint(c.name) FROM graphrag.corpora c ORDER BY 1"
    before = rows(db, prints)
    cluster.create_database("again", "template0")
    leave_out = ("--exclude-schema=graphrag_[0-9]*", "--exclude-table-data=ag_catalog.*")
    cluster.restore("again", cluster.dump("many", *leave_out))
    with Database.open(cluster.url("again")) as restored:
        ((result,),) = rows(restored, "CALL graphrag.repair_corpora()")
        assert result == {"jobs_queued": 0, "graphs_rebuilt": WITH_GRAPHS}
        assert rows(restored, prints) == before
        assert broken(restored) == []
    cluster.drop_database("again")


def test_the_procedures_are_for_the_owner_and_no_transaction_block(many: tuple[Cluster, Database]) -> None:
    _, db = many
    for call in ("CALL graphrag.repair_corpora()", "CALL graphrag.uninstall_corpora()"):
        for role in ("graphrag_reader", "graphrag_writer"):
            db.execute(f"SET ROLE {role}".encode())
            assert refused(db, call).sqlstate == "42501"
            db.execute("RESET ROLE")
        with db.transaction(force_rollback=True):
            assert refused(db, call).sqlstate == "2D000"
    assert broken(db) == []


def test_uninstall_of_many_corpora(many: tuple[Cluster, Database]) -> None:
    _, db = many
    diag = refused(db, "SELECT graphrag.uninstall()")
    assert diag.sqlstate == "53200"
    assert "graphrag.uninstall_corpora()" in str(diag.message_hint)
    db.execute("CALL graphrag.uninstall_corpora()")
    db.execute("DROP EXTENSION pg_graphrag")
    left = (
        "SELECT relname FROM pg_class WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^graphrag')"
    )
    assert rows(db, left) == []
    assert rows(db, "SELECT name FROM ag_catalog.ag_graph") == []
