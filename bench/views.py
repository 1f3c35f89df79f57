"""What a look at progress, and a BI tool's first query, take in a large corpus, for owner and reader.

    python -m bench views [--documents 100000]

The rows are made by SQL (two entities and six relationships to a document; their texts are short); a table is attached, so that
the views look for its rows. "Counting" is what progress
did before its numbers were kept. Best of five, clock of the session, ms; with JIT as the server has it, and without. A
database of its own is made, and dropped again.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import psycopg
from psycopg import conninfo, sql

DATABASE, READER = "bench_views", "bench_views_reader"
COUNTING = """
SELECT c.name,
       (SELECT count(*) FROM graphrag.documents x WHERE x.corpus_id = c.id AND x.status = 'indexed'),
       (SELECT count(*) FROM graphrag.chunks x WHERE x.corpus_id = c.id),
       (SELECT count(*) FROM graphrag.entities x WHERE x.corpus_id = c.id),
       (SELECT count(*) FROM graphrag.relationships x WHERE x.corpus_id = c.id)
  FROM graphrag.corpora c
"""
PROGRESS = "SELECT * FROM graphrag.progress"
EDGES = "SELECT * FROM graphrag.graph_edges ORDER BY weight DESC LIMIT 100"
# As docs/graph.md has it.
BY_NUMBER = (
    "SELECT e.* FROM graphrag.graph_edges e WHERE e.relationship_id = ANY (ARRAY(SELECT s.relationship_id"
    " FROM graphrag.graph_edges s ORDER BY s.weight DESC LIMIT 100)) ORDER BY e.weight DESC"
)
NODES = "SELECT * FROM graphrag.graph_nodes ORDER BY degree DESC LIMIT 100"


def fill(connection: psycopg.Connection[Any], documents: int) -> None:
    connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
    connection.execute("SELECT graphrag.create_corpus('bench', '{\"communities\": false, \"cypher\": false}')")
    for statement in (
        "INSERT INTO graphrag.documents (corpus, source_key, content, metadata)"
        " SELECT 'bench', n, repeat('Ada Lovelace wrote a note. ', 40), jsonb_build_object('half', n % 2)"
        "   FROM generate_series(1, {n}) n",
        "DELETE FROM graphrag.jobs",
        "UPDATE graphrag.documents SET indexed_hash = content_hash, indexed_at = now()",
        "INSERT INTO graphrag.chunks (corpus_id, document_id, ordinal, start_offset, own_offset, end_offset, language, content,"
        " token_count, tsv) SELECT corpus_id, id, 0, 0, 0, 4, 'en', 'note', 1, '' FROM graphrag.documents",
        "INSERT INTO graphrag.entities (corpus_id, key, name, type, description, degree, mention_count)"
        " SELECT c.id, 'e' || n, 'E' || n, 'NAME', 'Ada wrote a note.', 5, 1"
        "   FROM graphrag.corpora c, generate_series(1, 2 * {n}) n",
        "INSERT INTO graphrag.relationships (corpus_id, low_id, high_id, source_id, target_id, weight, mention_count,"
        " description) SELECT e.corpus_id, e.id, e.id + s, e.id, e.id + s, (e.id * s) % 1000, 1, 'wrote'"
        "   FROM graphrag.entities e, generate_series(1, 3) s WHERE e.id <= 2 * {n} - 3",
    ):
        connection.execute(statement.replace("{n}", str(documents)).encode())
    connection.execute("CREATE TABLE things (name text PRIMARY KEY)")
    connection.execute("SELECT graphrag.attach_entities('things', 'bench', '{name}', 'name')")
    connection.execute("VACUUM ANALYZE")


def best(connection: psycopg.Connection[Any], query: str) -> float:
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        connection.execute(query.encode()).fetchall()
        times.append(time.perf_counter() - begin)
    return 1000 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--documents", type=int, default=100_000)
    options = parser.parse_args()
    with psycopg.connect(options.url, autocommit=True) as maintenance:
        maintenance.execute(f"DROP DATABASE IF EXISTS {DATABASE}".encode())
        maintenance.execute(f"CREATE DATABASE {DATABASE}".encode())
        try:
            with psycopg.connect(conninfo.make_conninfo(options.url, dbname=DATABASE), autocommit=True) as connection:
                measure(connection, options.documents)
        finally:
            maintenance.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)".encode())
            maintenance.execute(f"DROP ROLE IF EXISTS {READER}".encode())


def measure(connection: psycopg.Connection[Any], documents: int) -> None:
    fill(connection, documents)
    connection.execute(f"DROP ROLE IF EXISTS {READER}; CREATE ROLE {READER} IN ROLE graphrag_reader".encode())
    row = connection.execute("SELECT documents, chunks, entities, relationships FROM graphrag.progress").fetchone()
    print(f"documents, chunks, entities, relationships = {row}\n{'':44} {'JIT':>8} {'no JIT':>8}")
    cases = [
        ("progress", "NONE", PROGRESS),
        ("counting", "NONE", COUNTING),
        ("graph_edges ORDER BY weight LIMIT 100, owner", "NONE", EDGES),
        ("graph_edges …, reader", READER, EDGES),
        ("the same, by numbers first, owner", "NONE", BY_NUMBER),
        ("the same, by numbers first, reader", READER, BY_NUMBER),
        ("graph_nodes ORDER BY degree LIMIT 100, owner", "NONE", NODES),
        ("graph_nodes …, reader", READER, NODES),
    ]
    for name, role, query in cases:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role) if role != "NONE" else sql.SQL("NONE")))
        figures = []
        for jit in ("on", "off"):
            connection.execute(f"SET jit = {jit}".encode())
            figures.append(best(connection, query))
        print(f"{name:44} {figures[0]:8.1f} {figures[1]:8.1f}", flush=True)


if __name__ == "__main__":
    main()
