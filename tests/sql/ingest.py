"""What the ingest tests share: documents in, a worker, and everything made of them in a form without ids."""

import itertools
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[tuple[Any, ...]]

_numbers = itertools.count(1)

STORIES = {
    "ada": "Ada Lovelace wrote notes on the Analytical Engine. Charles Babbage admired Ada Lovelace in London.",
    "babbage": "Charles Babbage designed the Analytical Engine. He never finished it. London forgot Charles Babbage.",
    "turing": "Alan Turing read the notes of Ada Lovelace. Bletchley Park hired Alan Turing. The Bombe broke Enigma.",
    "hopper": "Grace Hopper wrote the first compiler at Harvard. Grace Hopper admired Ada Lovelace.",
    "enigma": "The Enigma machine had rotors. Bletchley Park broke Enigma with the Bombe of Alan Turing.",
}

# The README's, by key: (title, content).
ROCKETS = {
    "ann": ("Ann Lee", "Ann Lee founded Acme Rockets in Osaka in 1999. Acme Rockets builds small launchers."),
    "bob": ("Bob Stone", "Bob Stone is the chief engineer of Acme Rockets. He designed the Kestrel engine."),
    "kes": ("Kestrel", "The Kestrel engine burns methane. It first flew on the Heron launcher in 2011."),
}


def new_corpus(db: Connection, **options: Any) -> str:
    """Make a corpus of its own for one test; return its name. Communities are for the tests that say so."""
    name = f"corpus {next(_numbers)}"
    db.execute("SELECT graphrag.create_corpus(%s, %s)", [name, Jsonb({"communities": False, **options})])
    return name


def searched_corpus(db: Connection, **options: Any) -> str:
    """As `new_corpus`, without a graph in AGE: Cypher alone reads it, and a session plans anew after a new schema."""
    return new_corpus(db, **{"cypher": False, **options})


def corpus_id(db: Connection, corpus: str) -> int:
    return int(value(db, "SELECT id FROM graphrag.corpora WHERE name = %s", corpus))


def value(db: Connection, sql: str, *values: Any) -> Any:
    """The one value of the one row."""
    ((records,),) = db.execute(sql.encode(), values).fetchall()
    return records


def rows(db: Connection, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    return db.execute(sql.encode(), values).fetchall()


def put(
    db: Connection,
    corpus: str,
    key: str,
    content: str,
    title: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Insert or replace a document."""
    db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, title, content, metadata) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (corpus, source_key) DO UPDATE"
        " SET title = EXCLUDED.title, content = EXCLUDED.content, metadata = EXCLUDED.metadata",
        [corpus, key, title, content, Jsonb(metadata or {})],
    )


def compare_at_most(db: psycopg.Connection[Any], count: int) -> None:
    """Have the session take tables of more vectors for large: it searches them by an index."""
    db.execute(
        f"DO LANGUAGE plpython3u 'from pg_graphrag.server.corpus import spaces; spaces.MAX_ROWS = {count}'".encode()
    )


def put_all(db: Connection, corpus: str, documents: dict[str, str]) -> None:
    for key, content in documents.items():
        put(db, corpus, key, content)


def delete(db: Connection, corpus: str, key: str) -> None:
    db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = %s", [corpus, key])


def work(db: Connection, max_jobs: int | None = None) -> None:
    db.execute("CALL graphrag.process_jobs(%s)", [max_jobs])


def index_all(db: Connection, corpus: str, documents: dict[str, str]) -> str:
    """Index documents in a corpus; return its name."""
    put_all(db, corpus, documents)
    work(db)
    return corpus


def jobs(db: Connection, corpus: str) -> list[tuple[Any, ...]]:
    """Document key (null: it is gone), kind, state, and whether it has a lease; maintenance left out."""
    return rows(
        db,
        "SELECT d.source_key, j.kind, j.state, j.lease IS NOT NULL FROM graphrag.jobs j"
        " JOIN graphrag.corpora c ON c.id = j.corpus_id AND c.name = %s"
        " LEFT JOIN graphrag.documents d ON d.id = j.document_id WHERE j.kind <> 'optimize' ORDER BY 1, 2",
        corpus,
    )


def statuses(db: Connection, corpus: str) -> dict[str, str]:
    return dict(rows(db, "SELECT source_key, status FROM graphrag.documents WHERE corpus = %s", corpus))


def search(
    db: Connection, query: str | None, corpus: str, mode: str = "hybrid", **arguments: Any
) -> list[dict[str, Any]]:
    """Rows of graphrag.search as dictionaries."""
    named = "".join(f", {name} => %s" for name in arguments)
    values = [Jsonb(given) if isinstance(given, dict) else given for given in arguments.values()]
    cursor = db.execute(f"SELECT * FROM graphrag.search(%s, %s, %s{named})".encode(), [query, corpus, mode, *values])
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def keys(results: list[dict[str, Any]]) -> list[str]:
    return [row["source_key"] for row in results]


def refused(db: Connection, sql: str, *values: Any) -> psycopg.errors.Diagnostic:
    """The diagnostics of a statement that must fail."""
    try:
        db.execute(sql.encode(), values)
    except psycopg.Error as error:
        return error.diag
    raise AssertionError(f"no error: {sql}")


# Everything derived from the documents of a corpus, by keys instead of ids: equal for equal sets of documents.
_PARTS = {
    "documents": """
        SELECT d.source_key, d.status, d.error, d.indexed_hash = d.content_hash, d.indexed_at IS NOT NULL
          FROM graphrag.documents d WHERE d.corpus_id = %s""",
    "chunks": """
        SELECT d.source_key, c.ordinal, c.start_offset, c.own_offset, c.end_offset, c.language, c.content, c.extraction,
               c.token_count, c.tsv::text, c.tf_overflow::text
          FROM graphrag.chunks c LEFT JOIN graphrag.documents d ON d.id = c.document_id WHERE c.corpus_id = %s""",
    "windows": """
        SELECT d.source_key, c.ordinal, w.ordinal, w.start_offset, w.end_offset, w.document_id = c.document_id,
               (SELECT array_agg((v.chunk_id, v.document_id) = (w.chunk_id, w.document_id))
                  FROM graphrag.window_vectors v WHERE v.window_id = w.id)
          FROM graphrag.chunk_windows w JOIN graphrag.chunks c ON c.id = w.chunk_id
          LEFT JOIN graphrag.documents d ON d.id = c.document_id WHERE w.corpus_id = %s""",
    "window vectors": """
        SELECT count(*) FROM graphrag.window_vectors v JOIN graphrag.embedding_spaces s ON s.id = v.space_id
         WHERE s.corpus_id = %s""",
    "entities": """
        SELECT e.key, e.name, e.type, e.description, e.degree, e.mention_count, e.evidence_rank,
               (SELECT count(*) FROM graphrag.entity_vectors v WHERE v.entity_id = e.id),
               (SELECT array_agg(concat_ws(':', v.kind, v.count, v.value) ORDER BY v.kind, v.value)
                  FROM graphrag.entity_values v WHERE v.entity_id = e.id)
          FROM graphrag.entities e WHERE e.corpus_id = %s""",
    "entity vectors": """
        SELECT count(*) FROM graphrag.entity_vectors v JOIN graphrag.embedding_spaces s ON s.id = v.space_id
         WHERE s.corpus_id = %s""",
    "relationships": """
        SELECT least(l.key, h.key), greatest(l.key, h.key), s.key, t.key, r.keywords, r.description, r.weight,
               r.mention_count, CASE WHEN l.key < h.key THEN r.direction ELSE - r.direction END, r.evidence_rank,
               (SELECT array_agg(concat_ws(':', v.kind, v.count, v.value) ORDER BY v.kind, v.value)
                  FROM graphrag.relationship_values v WHERE v.relationship_id = r.id)
          FROM graphrag.relationships r JOIN graphrag.entities l ON l.id = r.low_id
          JOIN graphrag.entities h ON h.id = r.high_id JOIN graphrag.entities s ON s.id = r.source_id
          JOIN graphrag.entities t ON t.id = r.target_id WHERE r.corpus_id = %s""",
    "entity mentions": """
        SELECT d.source_key, c.ordinal, e.key, m.raw_key, m.name, m.type, m.description, m.tf, m.evidence_rank,
               m.start_offset, m.end_offset, m.windows, m.document_id = c.document_id, m.tsv::text
          FROM graphrag.entity_mentions m JOIN graphrag.chunks c ON c.id = m.chunk_id
          JOIN graphrag.entities e ON e.id = m.entity_id
          LEFT JOIN graphrag.documents d ON d.id = c.document_id WHERE m.corpus_id = %s""",
    "relationship mentions": """
        SELECT d.source_key, c.ordinal, m.source_key, m.target_key, m.weight, m.evidence_rank,
               m.keywords, m.description, m.tsv::text,
               m.start_offset, m.end_offset, m.windows, m.document_id = c.document_id,
               m.forward = (coalesce((SELECT a.entity_key FROM graphrag.aliases a
                                       WHERE a.corpus_id = m.corpus_id AND a.key = m.source_key), m.source_key)
                            = (SELECT e.key FROM graphrag.entities e WHERE e.id = r.low_id))
          FROM graphrag.relationship_mentions m JOIN graphrag.chunks c ON c.id = m.chunk_id
          JOIN graphrag.relationships r ON r.id = m.relationship_id
          LEFT JOIN graphrag.documents d ON d.id = c.document_id WHERE m.corpus_id = %s""",
    "mention vectors": """
        SELECT (SELECT count(*) FROM graphrag.entity_mention_vectors v WHERE v.space_id = s.id),
               (SELECT count(*) FROM graphrag.relationship_mention_vectors v WHERE v.space_id = s.id)
          FROM graphrag.embedding_spaces s WHERE s.corpus_id = %s""",
    "claims": """
        SELECT d.source_key, c.ordinal, m.subject_key, m.object_key, m.subject, m.object, m.type, m.status,
               m.start_date, m.end_date, m.description, m.source_text, m.document_id = c.document_id
          FROM graphrag.claims m JOIN graphrag.chunks c ON c.id = m.chunk_id
          LEFT JOIN graphrag.documents d ON d.id = c.document_id WHERE m.corpus_id = %s""",
    "jobs": "SELECT j.kind, j.state FROM graphrag.jobs j WHERE j.kind <> 'optimize' AND j.corpus_id = %s",
}
_CYPHER = {
    "Entity": "MATCH (e:Entity) RETURN e.key AS a, e.name AS b, e.type AS c, e.description AS d, e.degree AS e",
    "RELATED": "MATCH (a:Entity)-[r:RELATED]->(b:Entity)"
    " RETURN a.key AS a, b.key AS b, r.weight AS c, r.keywords AS d, r.description AS e",
    "MENTIONED_IN": "MATCH (e:Entity)-[m:MENTIONED_IN]->(c:Chunk)-[:PART_OF]->(d:Document)"
    " RETURN e.key AS a, d.source_key AS b, c.ordinal AS c, m.tf AS d",
    "Chunk": "MATCH (c:Chunk) RETURN c.ordinal AS a",
    "Document": "MATCH (d:Document) RETURN d.source_key AS a, d.title AS b",
}


def canonical(db: Connection, corpus: str, queries: tuple[str, ...] = ("Ada Lovelace engine", "enigma london")) -> Any:
    """All that was made of a corpus, without ids; and BM25 scores of `queries`."""
    number = corpus_id(db, corpus)
    whole: dict[str, Any] = {name: sorted(map(repr, rows(db, sql, number))) for name, sql in _PARTS.items()}
    # Made for this corpus: neither of a restore nor of an earlier installation.
    recorded = "SELECT EXISTS (SELECT FROM graphrag._graphs g JOIN pg_namespace n ON n.oid = g.namespace WHERE g.corpus_id = %s)"
    if value(db, recorded, number):
        for name, query in _CYPHER.items():
            records = rows(db, "SELECT graphrag.cypher(%s, %s)", corpus, query)
            whole["graph " + name] = sorted(json.dumps(row[0], sort_keys=True) for row in records)
    whole["bm25"] = {
        query: [
            (row["source_key"], row["content"], row["score"]) for row in search(db, query, corpus, "bm25", top_k=1000)
        ]
        for query in queries
    }
    return whole


def expected(db: Connection, documents: dict[str, str], **options: Any) -> Any:
    """`canonical` of these documents, ingested undisturbed, one after another, in the order of their keys."""
    corpus = new_corpus(db, **options)
    for key in sorted(documents):
        put(db, corpus, key, documents[key])
        work(db)
    whole = canonical(db, corpus)
    db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    return whole


class Background(threading.Thread):
    """A statement in a session of its own; `finish` waits and returns the error it ended in, or None."""

    def __init__(self, url: str, sql: str, *before: str):
        super().__init__(daemon=True)
        self.connection = psycopg.connect(url, autocommit=True)
        for statement in before:
            self.connection.execute(statement.encode())
        self.pid = self.connection.info.backend_pid
        self.error: psycopg.Error | None = None
        self._sql = sql
        self.start()

    def run(self) -> None:
        try:
            self.connection.execute(self._sql.encode())
        except psycopg.Error as error:
            self.error = error

    def finish(self) -> psycopg.Error | None:
        self.join(120)
        assert not self.is_alive(), "the statement does not end"
        self.connection.close()
        return self.error


def worker(url: str, *before: str) -> Background:
    """A worker in a session of its own."""
    return Background(url, "CALL graphrag.process_jobs()", *before)


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Wait until `condition` holds; return what it gave."""
    deadline = time.monotonic() + 120
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
    return result


def wait_for_lease(db: Connection, corpus: str) -> None:
    """Wait until a worker has begun with the corpus."""
    wait_for(lambda: [job for job in jobs(db, corpus) if job[3]], "a leased job")


def wait_for_lock(db: Connection, pid: int) -> None:
    """Wait until a session waits for a lock."""
    wait_for(
        lambda: value(db, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'", pid),
        "a lock wait",
    )


def long_text(sentences: int = 90) -> str:
    """A text whose embedding takes a while."""
    places = ("London", "Paris", "Vienna", "Oslo", "Lisbon")
    return " ".join(
        f"In {places[n % 5]} the traveller number {n} met an old friend of Ada Lovelace and they talked for {n} hours."
        for n in range(sentences)
    )
