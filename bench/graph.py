"""Cost of the AGE projection per batch of documents, and latency of neighbors() and directed Cypher at 100k entities.

    python bench/graph.py --url URL [--entities 100000] [--relationships 300000] [--documents 3000]

URL is a libpq URL of a database with the extension, as superuser (``bin/graphrag-server url``). The synthetic corpus
"bench_graph" is made and removed. Times are in milliseconds, by the client's clock.
"""

import argparse
import random
import statistics
import time

import psycopg

CORPUS = "bench_graph"
BATCH = 30
MENTIONS = 25

# Ids are consecutive: number n of the corpus is row base + n. Low numbers are drawn more often, so that there are hubs.
FILL_ENTITIES = """
    INSERT INTO graphrag.entities (corpus_id, key, name, type, description, degree, mention_count)
    SELECT %(corpus)s, 'entity number ' || i, 'Entity Number ' || i, 'CONCEPT',
           'A sentence of some length that mentions entity number ' || i || ' and says what it is for.', 6, 8
      FROM generate_series(1, %(entities)s) AS i"""
FILL = (
    """
    INSERT INTO graphrag.relationships
          (corpus_id, low_id, high_id, source_id, target_id, description, weight, mention_count)
    SELECT DISTINCT ON (low, high) %(corpus)s, low, high, low, high,
           'A sentence that says both entity ' || low || ' and entity ' || high || '.', 1 + low %% 5, 1
      FROM (SELECT %(base)s + least(a, b) AS low, %(base)s + greatest(a, b) AS high
              FROM (SELECT 1 + floor(%(entities)s * power(random(), 3))::int AS a,
                           1 + floor(%(entities)s * random())::int AS b
                      FROM generate_series(1, %(relationships)s)) AS p
             WHERE a <> b) AS p""",
    """
    INSERT INTO graphrag.documents (corpus, source_key, title, content)
    SELECT %(name)s, 'document/' || i, 'Title of document ' || i, '-' FROM generate_series(1, %(documents)s) AS i""",
    """
    INSERT INTO graphrag.chunks
          (corpus_id, document_id, ordinal, start_offset, own_offset, end_offset, language, content, token_count, tsv)
    SELECT corpus_id, id, 0, 0, 0, 1, 'en', '-', 1, '' FROM graphrag.documents WHERE corpus_id = %(corpus)s""",
    """
    INSERT INTO graphrag.entity_mentions (corpus_id, document_id, chunk_id, entity_id, raw_key, name, type, description)
    SELECT DISTINCT ON (chunk_id, n) %(corpus)s, document_id, chunk_id, %(base)s + n,
           'entity number ' || n, 'Entity Number ' || n, 'CONCEPT', '-'
      FROM (SELECT c.id AS chunk_id, c.document_id, 1 + floor(%(entities)s * power(random(), 3))::int AS n
              FROM graphrag.chunks AS c, generate_series(1, %(mentions)s)
             WHERE c.corpus_id = %(corpus)s) AS drawn""",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--relationships", type=int, default=300_000)
    parser.add_argument("--documents", type=int, default=3_000)
    options = parser.parse_args()
    with psycopg.connect(options.url, autocommit=True) as connection:
        corpus = _fill(connection, options)
        try:
            _ingest(connection, corpus)
            _rebuild(connection)
            _read(connection, corpus, options.entities)
        finally:
            _remove(connection, corpus)


def _fill(connection: psycopg.Connection, options: argparse.Namespace) -> int:
    corpus = connection.execute(
        "INSERT INTO graphrag.corpora (name, tokenizer, tokenizer_fingerprint) VALUES (%s, '-', '-') RETURNING id",
        [CORPUS],
    ).fetchone()[0]
    values = vars(options) | {"corpus": corpus, "name": CORPUS, "mentions": MENTIONS}
    connection.execute(FILL_ENTITIES, values)
    values["base"] = _ids(connection, "entities", int(corpus))[0] - 1
    for statement in FILL:
        connection.execute(statement, values)
    connection.execute("ANALYZE graphrag.entities, graphrag.relationships, graphrag.entity_mentions, graphrag.chunks")
    return int(corpus)


def _ingest(connection: psycopg.Connection, corpus: int) -> None:
    """Project as a worker does: per batch its documents, the entities they mention, a share of the relationships."""
    documents = _ids(connection, "documents", corpus)
    relationships = _ids(connection, "relationships", corpus)
    share = len(relationships) * BATCH // len(documents) + 1
    times = []
    for number, start in enumerate(range(0, len(documents), BATCH)):
        batch = documents[start : start + BATCH]
        # Sorted out beforehand: the write step knows what it touched.
        entities = [
            row[0]
            for row in connection.execute(
                """SELECT DISTINCT m.entity_id FROM graphrag.entity_mentions AS m
                     JOIN graphrag.chunks AS c ON c.id = m.chunk_id
                    WHERE c.document_id = ANY (%s)""",
                [batch],
            )
        ]
        touched = relationships[number * share : (number + 1) * share]
        times.append(_time(connection, "SELECT graphrag._project(%s, %s, %s, %s)", [corpus, batch, entities, touched]))
    tenth = max(1, len(times) // 10)
    edges = connection.execute(
        f"""SELECT (SELECT count(*) FROM graphrag_{corpus}."MENTIONED_IN"),
                   (SELECT count(*) FROM graphrag_{corpus}."RELATED")"""
    ).fetchone()
    seconds = sum(times) / 1000
    print(f"projection: {len(documents)} documents, {edges[0]} MENTIONED_IN, {edges[1]} RELATED in {seconds:.1f} s")
    print(
        f"  {len(documents) / seconds:.0f} documents/s, {sum(edges) / seconds:.0f} edges/s; batch of {BATCH}: "
        f"median {statistics.median(times):.1f}, first tenth {statistics.mean(times[:tenth]):.1f}, "
        f"last tenth {statistics.mean(times[-tenth:]):.1f}"
    )
    unchanged = [
        _time(connection, "SELECT graphrag._project(%s, %s, '{}', '{}')", [corpus, documents[i : i + BATCH]])
        for i in range(0, 600, BATCH)
    ]
    print(f"  the same again, nothing changed: batch median {statistics.median(unchanged):.1f}")


def _rebuild(connection: psycopg.Connection) -> None:
    print(f"rebuild_graph: {_time(connection, 'SELECT graphrag.rebuild_graph(%s)', [CORPUS]) / 1000:.1f} s")


def _read(connection: psycopg.Connection, corpus: int, entities: int) -> None:
    keys = [f"entity number {random.Random(i).randrange(1000, entities)}" for i in range(200)]
    hub = connection.execute(
        """SELECT e.name, count(*)
             FROM graphrag.entities AS e JOIN graphrag.relationships AS r ON e.id IN (r.low_id, r.high_id)
            WHERE e.corpus_id = %s AND e.key IN ('entity number 1', 'entity number 2')
            GROUP BY e.id ORDER BY 2 DESC LIMIT 1""",
        [corpus],
    ).fetchone()
    for hops in (1, 2):
        _report(
            f"neighbors, hops {hops}",
            [_time(connection, "SELECT * FROM graphrag.neighbors(%s, %s, %s)", [key, CORPUS, hops]) for key in keys],
        )
    for hops in (1, 2):
        _report(
            f"neighbors of a hub ({hub[1]} relationships), hops {hops}",
            [
                _time(connection, "SELECT * FROM graphrag.neighbors(%s, %s, %s)", [hub[0], CORPUS, hops])
                for _ in range(3)
            ],
        )
    _report(
        "cypher, directed, 1 hop",
        [
            _time(
                connection,
                """SELECT graphrag.cypher(%s, 'MATCH (e:Entity {key: $key})-[r:RELATED]->(f:Entity)
                                              RETURN f.name AS name, r.weight AS weight',
                                          jsonb_build_object('key', %s::text))""",
                [CORPUS, key],
            )
            for key in keys
        ],
    )


def _report(what: str, times: list[float]) -> None:
    times = sorted(times)
    print(f"{what}: p50 {statistics.median(times):.2f}, p95 {times[int(len(times) * 0.95)]:.2f} ({len(times)} calls)")


def _ids(connection: psycopg.Connection, table: str, corpus: int) -> list[int]:
    return [
        row[0]
        for row in connection.execute(f"SELECT id FROM graphrag.{table} WHERE corpus_id = %s ORDER BY id", [corpus])
    ]


def _time(connection: psycopg.Connection, statement: str, values: list[object]) -> float:
    start = time.perf_counter()
    connection.execute(statement, values)
    return (time.perf_counter() - start) * 1000


def _remove(connection: psycopg.Connection, corpus: int) -> None:
    connection.execute("SELECT graphrag._drop_graph(%s)", [corpus])
    for table in ("entity_mentions", "relationships", "entities", "chunks", "documents", "jobs"):
        connection.execute(f"DELETE FROM graphrag.{table} WHERE corpus_id = %s", [corpus])
    connection.execute("DELETE FROM graphrag.corpora WHERE id = %s", [corpus])


if __name__ == "__main__":
    main()
