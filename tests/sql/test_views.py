"""The views for BI tools, read as such tools read."""

import math
from typing import Any

import psycopg
import pytest

from tests.sql.graph_rows import chunk, corpus, document, entity, mention, relationship

VIEWS = ("graph_nodes", "graph_edges", "graph_claims", "document_coverage", "entity_timeline")


@pytest.fixture
def rows(db: Any) -> Any:
    c = corpus(db)
    d = document(db, "c", "a/1", "One")
    chunks = [chunk(db, c, d, i) for i in range(4)]
    document(db, "c", "a/2")
    a, b = entity(db, c, "Alice", mentions=2), entity(db, c, "Bob", mentions=1)
    mention(db, c, d, chunks[0], a)
    mention(db, c, d, chunks[1], a)
    mention(db, c, d, chunks[0], b)
    relationship(db, c, a, b, "2.5", ["friends", "work"])
    db.execute(
        "INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, subject, type, status, description)"
        " VALUES (%s, %s, %s, 'alice', 'ALICE', 'debt', 'TRUE', 'Owes.')",
        [c, d, chunks[0]],
    )
    return db


def test_nodes_edges_and_coverage_say_what_the_tables_hold(rows: Any) -> None:
    assert rows.execute(
        "SELECT corpus, name, key, mention_count FROM graphrag.graph_nodes ORDER BY name"
    ).fetchall() == [("c", "Alice", "alice", 2), ("c", "Bob", "bob", 1)]
    assert rows.execute(
        "SELECT source, target, keywords, keyword_list, weight FROM graphrag.graph_edges"
    ).fetchone() == ("Alice", "Bob", "friends, work", ["friends", "work"], 2.5)
    assert rows.execute(
        "SELECT source_key, chunks, entities, relationships FROM graphrag.document_coverage ORDER BY 1"
    ).fetchall() == [("a/1", 4, 2, 0), ("a/2", 0, 0, 0)]


def test_the_timeline_counts_by_the_day_a_document_is_of(rows: Any) -> None:
    rows.execute("UPDATE graphrag.documents SET valid_from = '2026-03-31 23:30-02' WHERE source_key = 'a/1'")
    assert rows.execute(
        "SELECT corpus, name, day::text, month::text, documents, mentions FROM graphrag.entity_timeline ORDER BY name"
    ).fetchall() == [("c", "Alice", "2026-04-01", "2026-04-01", 1, 2), ("c", "Bob", "2026-04-01", "2026-04-01", 1, 1)]
    rows.execute("UPDATE graphrag.documents SET valid_from = NULL, created_at = '2026-02-14 12:00Z'")
    assert rows.execute("SELECT DISTINCT day::text, month::text FROM graphrag.entity_timeline").fetchall() == [
        ("2026-02-14", "2026-02-01")
    ]


def test_pmi_is_that_of_the_chunks(rows: Any) -> None:
    # Of 4 chunks, 1 says both, 2 say Alice, 1 says Bob.
    assert rows.execute("SELECT pmi FROM graphrag.graph_edges").fetchone()[0] == pytest.approx(
        1 / 4 * math.log2((1 / 4) / (2 / 4 * 1 / 4))
    )


def test_edges_read_entities_only_where_a_column_of_theirs_is_asked_for(rows: Any) -> None:
    def scans(columns: str) -> int:
        plan = rows.execute(f"EXPLAIN SELECT {columns} FROM graphrag.graph_edges").fetchall()
        return sum(" on entities " in line for (line,) in plan)

    every, narrow = scans("*"), scans("relationship_id, weight")
    assert every == narrow + 2
    assert scans("relationship_id, source") == narrow + 1


def test_edges_count_no_chunks(rows: Any) -> None:
    plan = rows.execute("EXPLAIN SELECT pmi, strength FROM graphrag.graph_edges").fetchall()
    assert not any(" on chunks " in line for (line,) in plan)


def test_all_columns_of_a_corpus_with_rows_cost_little(rows: Any) -> None:
    rows.execute("CREATE TABLE public.plants (name text PRIMARY KEY)")
    rows.execute("SELECT graphrag.attach_entities('public.plants', 'c', '{name}', 'name')")
    rows.execute(
        "INSERT INTO graphrag.entities (corpus_id, key, name, type) SELECT corpus_id, 'e' || n, 'E' || n, 'NAME'"
        "  FROM graphrag.entities, generate_series(1, 4000) n WHERE key = 'alice'"
    )
    rows.execute(
        "INSERT INTO graphrag.relationships (corpus_id, low_id, high_id, source_id, target_id, weight, mention_count)"
        " SELECT corpus_id, id, id + s, id, id + s, 1, 1 FROM graphrag.entities, generate_series(1, 3) s"
        "  WHERE key ~ '^e' AND id + 3 <= (SELECT max(id) FROM graphrag.entities)"
    )
    rows.execute("ANALYZE graphrag.entities, graphrag.relationships")
    # From 100,000 on PostgreSQL compiles a statement, from 500,000 on with all that it can.
    for view, column, most in (("graph_edges", "weight", 20_000), ("graph_nodes", "degree", 200_000)):
        plan = rows.execute(f"EXPLAIN SELECT * FROM graphrag.{view} ORDER BY {column} DESC LIMIT 100").fetchall()
        assert float(plan[0][0].split("..")[1].split()[0]) < most


def test_the_strongest_edges_are_the_same_by_numbers_first(rows: Any) -> None:
    records = rows.execute(
        "SELECT e.* FROM graphrag.graph_edges e WHERE e.relationship_id = ANY (ARRAY("
        " SELECT s.relationship_id FROM graphrag.graph_edges s ORDER BY s.weight DESC LIMIT 1))"
    ).fetchall()
    assert len(records) == 1
    assert records == rows.execute("SELECT * FROM graphrag.graph_edges ORDER BY weight DESC LIMIT 1").fetchall()


@pytest.fixture
def grouped(rows: Any) -> Any:
    """Alice is in a community of each of two levels, Bob in one; only the coarsest has a report."""
    add = """
        WITH c AS (INSERT INTO graphrag.communities (corpus_id, level, parent_id, size)
                   SELECT id, %s::int, %s::bigint, 2 FROM graphrag.corpora RETURNING id, corpus_id)
        INSERT INTO graphrag.community_members (corpus_id, community_id, entity_id)
        SELECT c.corpus_id, c.id, e.id FROM c JOIN graphrag.entities e ON e.name = ANY (%s) RETURNING community_id"""
    coarse = rows.execute(add, [0, None, ["Alice", "Bob"]]).fetchone()[0]
    rows.execute(add, [1, coarse, ["Alice"]])
    rows.execute(
        "INSERT INTO graphrag.community_reports (community_id, corpus_id, title, summary, rating, content, token_count,"
        " input_hash, tsv) SELECT %s, id, 'Friends', '', 1, '', 0, '', '' FROM graphrag.corpora",
        [coarse],
    )
    return rows


NODES = (
    "SELECT name, community_id IS NOT NULL, community, cardinality(community_ids) FROM graphrag.graph_nodes ORDER BY 1"
)


def test_nodes_have_their_communities(grouped: Any) -> None:
    assert grouped.execute(NODES).fetchall() == [("Alice", True, "Friends", 2), ("Bob", True, "Friends", 1)]


def test_nodes_of_a_corpus_that_is_seen_in_part_have_no_communities_even_where_all_documents_are_seen(
    grouped: Any,
) -> None:
    grouped.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    grouped.execute("CREATE POLICY p ON graphrag.documents TO graphrag_reader USING (true)")
    with grouped.transaction():
        grouped.execute("SET LOCAL ROLE graphrag_reader")
        assert grouped.execute(NODES).fetchall() == [("Alice", False, None, None), ("Bob", False, None, None)]


def test_nodes_look_for_communities_only_where_a_column_of_theirs_is_asked_for(grouped: Any) -> None:
    def scans(columns: str) -> int:
        plan = grouped.execute(f"EXPLAIN SELECT {columns} FROM graphrag.graph_nodes").fetchall()
        return sum("communit" in line for (line,) in plan)

    assert scans("corpus, name, degree") == 0
    assert scans("community_id") > 0


def test_a_mention_has_day_and_metadata_of_its_document(rows: Any) -> None:
    rows.execute(
        "UPDATE graphrag.documents SET valid_from = '2026-03-31 23:30-02', metadata = '{\"team\": \"a\"}'"
        " WHERE source_key = 'a/1'"
    )
    assert rows.execute(
        "SELECT name, source_key, title, day::text, metadata, count(*) FROM graphrag.graph_mentions"
        " GROUP BY 1, 2, 3, 4, 5 ORDER BY 1"
    ).fetchall() == [
        ("Alice", "a/1", "One", "2026-04-01", {"team": "a"}, 2),
        ("Bob", "a/1", "One", "2026-04-01", {"team": "a"}, 1),
    ]


def test_column_types_are_plain(rows: Any) -> None:
    types = {
        row[0]
        for row in rows.execute(
            "SELECT DISTINCT udt_name FROM information_schema.columns "
            "WHERE table_schema = 'graphrag' AND table_name = ANY (%s)",
            [list(VIEWS)],
        )
    }
    assert types <= {"text", "_text", "int4", "int8", "_int8", "float8", "timestamptz", "date"}


def test_every_column_has_a_comment(rows: Any) -> None:
    missing = rows.execute(
        """SELECT c.relname, a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
            WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relname = ANY (%s)
              AND col_description(c.oid, a.attnum) IS NULL""",
        [list(VIEWS)],
    ).fetchall()
    assert missing == []


def test_readers_see_the_views_and_not_the_queue(rows: Any) -> None:
    with rows.transaction():
        rows.execute("SET LOCAL ROLE graphrag_reader")
        assert all(rows.execute(f"SELECT count(*) FROM graphrag.{view}").fetchone()[0] > 0 for view in VIEWS)
        for statement in (
            "SELECT * FROM graphrag.jobs",
            "INSERT INTO graphrag.corpora (name) VALUES ('x')",
            "DELETE FROM graphrag.entities",
            "SELECT graphrag.rebuild_graph('c')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), rows.transaction():
                rows.execute(statement)


def test_row_level_security_of_the_tables_holds_in_the_views(rows: Any) -> None:
    rows.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    rows.execute("CREATE POLICY p ON graphrag.documents TO graphrag_reader USING (source_key = 'a/2')")
    with rows.transaction():
        rows.execute("SET LOCAL ROLE graphrag_reader")
        assert rows.execute("SELECT source_key FROM graphrag.document_coverage").fetchall() == [("a/2",)]


SAID = {
    "open": "Ada Lovelace met Charles Babbage. Ada Lovelace admired Charles Babbage in London.",
    "secret": "Ada Lovelace hid the Enigma. Ada Lovelace met Charles Babbage.",
}
GRAPH = {
    "nodes": "SELECT name, type, description, degree, mention_count FROM graphrag.graph_nodes ORDER BY key",
    "edges": "SELECT source, target, keyword_list, description, weight, mention_count FROM graphrag.graph_edges ORDER BY 1, 2",
    "neighbors": "SELECT hop, name, type, description, degree, relationship, keywords, weight, path"
    " FROM graphrag.neighbors('ada lovelace', 'c', 3) ORDER BY hop, name",
}


def test_under_row_level_security_the_graph_is_that_of_the_visible_documents(db: Any) -> None:
    """Whatever else is in the corpus, a reader sees the graph of a corpus with the visible documents alone."""
    counts = {}
    for hidden in (False, True):
        db.execute("SELECT graphrag.create_corpus('c')")
        for key, content in SAID.items():
            if hidden or key == "open":
                db.execute(
                    "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES ('c', %s, %s)", [key, content]
                )
        db.execute("CALL graphrag.process_jobs()")
        if hidden:
            whole = {name: db.execute(sql).fetchall() for name, sql in GRAPH.items()}
            db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
            db.execute("CREATE POLICY p ON graphrag.documents TO graphrag_reader USING (source_key = 'open')")
        with db.transaction():
            db.execute("SET LOCAL ROLE graphrag_reader")
            counts[hidden] = {name: db.execute(sql).fetchall() for name, sql in GRAPH.items()}
            assert db.execute("SELECT * FROM graphrag.neighbors('enigma', 'c')").fetchall() == []
        if not hidden:
            db.execute("SELECT graphrag.drop_corpus('c')")
    assert counts[True] == counts[False]
    assert all(counts[True].values())
    assert all(whole[name] != counts[True][name] for name in GRAPH)


def test_pandas_and_sqlalchemy_read_them(rows: Any) -> None:
    pandas = pytest.importorskip("pandas")
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(rows.url.replace("postgresql://", "postgresql+psycopg://", 1))
    try:
        with engine.connect() as connection:
            frame = pandas.read_sql("SELECT * FROM graphrag.graph_edges", connection)
            reflected = sqlalchemy.Table(
                "graph_nodes", sqlalchemy.MetaData(), schema="graphrag", autoload_with=connection
            )
            names = connection.execute(sqlalchemy.select(reflected.c.name).order_by(reflected.c.name)).scalars().all()
            timeline = pandas.read_sql_table("entity_timeline", connection, schema="graphrag", parse_dates=["day"])
            views = sqlalchemy.inspect(connection).get_view_names(schema="graphrag")
    finally:
        engine.dispose()
    assert frame["weight"].dtype == "float64" and frame["pmi"].dtype == "float64"
    assert frame.loc[0, "source"] == "Alice"
    assert names == ["Alice", "Bob"]
    assert timeline.groupby("name")["mentions"].sum().to_dict() == {"Alice": 2, "Bob": 1}
    assert set(VIEWS) <= set(views)
