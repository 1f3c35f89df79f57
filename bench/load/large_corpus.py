"""A corpus of a million chunks on one machine: what loading, searches and upkeep cost at several sizes.

    python -m bench large_corpus [--chunks 1000000] [--sizes 100000 300000] [--minutes 75]

Documents of eight paragraphs, each a chunk with one window, and vectors of an endpoint that costs no encoder
(bench/data/mixed_text.py). No graph is made (extractor "given"): it costs twenty times as much (python -m bench growth). The
database bench_large stays, and a later call goes on with it; `--reuse` measures it as it is. Where --minutes pass first, what is
there is measured. Vector indexes of the size before are dropped before more is loaded, as for any bulk load, and built from
nothing at each size.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from psycopg import conninfo
from psycopg.types.json import Jsonb

from bench.data.mixed_text import CHUNK_TOKENS, PARAGRAPHS, MixedText
from bench.load.growth import SIZES, TOP, Worker, recall, scalar
from bench.load.long_document import status
from bench.load.search import processor_seconds
from tests.endpoint import Endpoint

DATABASE, CORPUS, PROVIDER = "bench_large", "large", "mixed"
# Documents that are inserted at a time, and that wait at least.
INSERTED, WAITING = 2000, 1000
# Documents of a measured change.
NEW, CHANGED = 100, 20
FILTERS = {"none": {}, "50 %": {"half": 0}, "5 %": {"twentieth": 0}, "0.5 %": {"two_hundredth": 0}}
MODES = ("hybrid", "bm25", "naive")

Connection = psycopg.Connection[Any]


class ProfiledWorker(Worker):
    """A worker that says in which steps its time goes."""

    def __init__(self, url: str, nice: int) -> None:
        self.steps = Counter[str]()
        super().__init__(conninfo.make_conninfo(url, options="-c graphrag.profile_time=on"), nice)
        self.connection.add_notice_handler(self._note)

    def _note(self, notice: psycopg.errors.Diagnostic) -> None:
        if (notice.message_primary or "").startswith("process_jobs() did"):
            self.steps.update(json.loads(notice.message_detail or "{}"))


def counted(connection: Connection, what: str) -> int:
    return int(scalar(connection, f"SELECT {what} FROM graphrag.progress WHERE corpus = %s", CORPUS))


def insert(connection: Connection, text: MixedText, first: int, count: int) -> None:
    with connection.cursor().copy(
        "COPY graphrag.documents (corpus, source_key, title, content, metadata) FROM STDIN"
    ) as copy:
        for number in range(first, first + count):
            document = text.document(number)
            metadata = {"half": number % 2, "twentieth": number % 20, "two_hundredth": number % 200}
            copy.write_row((CORPUS, document.key, document.title, document.content, Jsonb(metadata)))


def load(url: str, text: MixedText, chunks: int, options: argparse.Namespace, deadline: float) -> None:
    """Index documents until there are so many chunks, or until the deadline; say every --step chunks what they cost."""
    with psycopg.connect(url, autocommit=True) as connection:
        drop_vector_indexes(connection)
        workers = [ProfiledWorker(url, options.nice) for _ in range(options.workers)]
        first = int(scalar(connection, "SELECT coalesce(max(source_key)::int + 1, 0) FROM graphrag.documents"))
        count, began = counted(connection, "chunks"), time.monotonic()
        spent = {worker.pid: 0.0 for worker in workers}
        while count < chunks and time.monotonic() < deadline:
            if counted(connection, "pending") < WAITING:
                insert(connection, text, first, INSERTED)
                first += INSERTED
            time.sleep(2)
            now = counted(connection, "chunks")
            if now - count < options.step and now < chunks:
                continue
            states = {worker.pid: status(worker.pid) for worker in workers}
            cpu = sum(states[pid]["cpu"] - spent[pid] for pid in spent)
            steps = sum((worker.steps for worker in workers), Counter[str]())
            total = steps.pop("total", 1.0)
            shares = ", ".join(f"{name} {100 * ms / total:.0f} %" for name, ms in steps.most_common(8))
            print(
                f"{now:9,} chunks: {(now - count) / (time.monotonic() - began):6.1f} a second, workers' processor"
                f" {1000 * cpu / (now - count):5.2f} ms each, memory of their own"
                f" {' + '.join(format(state['anonymous'], '.0f') for state in states.values())} MB,"
                f" load {os.getloadavg()[0]:.1f}; {shares}",
                flush=True,
            )
            count, began = now, time.monotonic()
            spent = {pid: states[pid]["cpu"] for pid in spent}
            for worker in workers:
                worker.steps.clear()
        for worker in workers:
            worker.end()
        # What is left in the queue is taken back.
        connection.execute("DELETE FROM graphrag.documents WHERE status <> 'indexed'")


# Rows of documents `first` to `last` again, under other numbers and keys. A vector is mixed with one of another document: equal
# ones would be one element of an index.
_COPY = (
    """INSERT INTO graphrag.documents (id, corpus, corpus_id, source_key, title, content, metadata, status, content_hash,
                                       indexed_hash, indexed_at)
       SELECT d.id + {documents}, d.corpus, d.corpus_id, pg_catalog.lpad((d.source_key::int + {keys})::text, 7, '0'), d.title,
              d.content, d.metadata, d.status, d.content_hash, d.indexed_hash, d.indexed_at
         FROM graphrag.documents d WHERE d.id BETWEEN {first} AND {last}""",
    """INSERT INTO graphrag.chunks (id, corpus_id, document_id, ordinal, start_offset, own_offset, end_offset, language, content,
                                    token_count, tsv, tf_overflow, section, page)
       SELECT c.id + {chunks}, c.corpus_id, c.document_id + {documents}, c.ordinal, c.start_offset, c.own_offset, c.end_offset,
              c.language, c.content, c.token_count, c.tsv, c.tf_overflow, c.section, c.page
         FROM graphrag.chunks c WHERE c.document_id BETWEEN {first} AND {last}""",
    """INSERT INTO graphrag.chunk_windows (id, corpus_id, document_id, chunk_id, ordinal, start_offset, end_offset)
       SELECT w.id + {windows}, w.corpus_id, w.document_id + {documents}, w.chunk_id + {chunks}, w.ordinal, w.start_offset,
              w.end_offset
         FROM graphrag.chunk_windows w WHERE w.document_id BETWEEN {first} AND {last}""",
    """WITH v AS MATERIALIZED (
           SELECT x.*, pg_catalog.row_number() OVER (ORDER BY x.window_id) AS place,
                  pg_catalog.row_number() OVER (ORDER BY x.window_id DESC) AS other_place
             FROM {vectors} x WHERE x.chunk_id IN (
                  SELECT c.id FROM graphrag.chunks c WHERE c.document_id BETWEEN {first} AND {last}))
       INSERT INTO {vectors} (space_id, window_id, chunk_id, document_id, embedding)
       SELECT v.space_id, v.window_id + {windows}, v.chunk_id + {chunks}, v.document_id + {documents},
              l2_normalize(v.embedding + o.embedding * pg_catalog.array_fill({share}::real, ARRAY[384])::vector)
         FROM v JOIN v o ON o.other_place = v.place""",
    """SELECT graphrag._bm25_add({corpus}, 'chunk', pg_catalog.array_agg(c.id), pg_catalog.array_agg(c.document_id))
         FROM graphrag.chunks c WHERE c.document_id BETWEEN {first} + {documents} AND {last} + {documents}""",
)
# Documents whose rows are copied at a time.
COPIED = 2500


def copy_rows(url: str, chunks: int, deadline: float) -> None:
    """Fill the corpus up with copies of rows of what is indexed: sizes and searches of a larger one, without its indexing."""
    with psycopg.connect(url, autocommit=True) as connection:
        began, before = time.monotonic(), counted(connection, "chunks")
        names = "document", "chunk", "chunk_window"
        last_ids = {name: int(scalar(connection, f"SELECT max(id) FROM graphrag.{name}s")) for name in names}
        corpus, space, own = connection.execute(
            "SELECT s.corpus_id, s.id, s.own_tables FROM graphrag.embedding_spaces s WHERE s.state = 'active'"
        ).fetchall()[0]
        keys = int(scalar(connection, "SELECT max(source_key)::int + 1 FROM graphrag.documents"))
        number = before
        for turn in range(1, 100):
            for first in range(1, last_ids["document"] + 1, COPIED):
                if number >= chunks or time.monotonic() > deadline:
                    break
                values = {
                    "documents": turn * last_ids["document"],
                    "chunks": turn * last_ids["chunk"],
                    "windows": turn * last_ids["chunk_window"],
                    "keys": turn * keys,
                    "vectors": f"graphrag.window_vectors_{space}" if own else "graphrag.window_vectors",
                    "share": 0.3 + 0.1 * turn,
                    "corpus": corpus,
                    "first": first,
                    "last": min(first + COPIED - 1, last_ids["document"]),
                }
                with connection.transaction():
                    connection.execute("SET LOCAL session_replication_role = replica")
                    for statement in _COPY:
                        rows = connection.execute(statement.format(**values).encode()).rowcount
                        number += rows if "graphrag.chunks (" in statement else 0
                connection.execute("SELECT graphrag._queue_jobs('pack', %s)", [[corpus]])
                connection.execute("CALL graphrag.process_jobs(1)")
                print(f"{number:9,} chunks with copies, {time.monotonic() - began:.0f} s", flush=True)
        connection.execute("SELECT graphrag._recount(%s), graphrag._advance_sequences()", [corpus])
        connection.execute(
            "UPDATE graphrag.corpus_revisions SET revision = pg_current_xact_id() WHERE corpus_id = %s", [corpus]
        )


def vector_indexes(connection: Connection) -> list[str]:
    rows = connection.execute(
        "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'hnsw'"
    ).fetchall()
    return [name for (name,) in rows]


def drop_vector_indexes(connection: Connection) -> None:
    for name in vector_indexes(connection):
        connection.execute(f"DROP INDEX {name}".encode())


@contextlib.contextmanager
def timed(what: str, connection: Connection) -> Iterator[None]:
    """Print how long something took, by the clock and of the session's processor, and the session's memory."""
    began, cpu = time.perf_counter(), processor_seconds(connection.info.backend_pid)
    yield
    state = status(connection.info.backend_pid)
    print(
        f"{what}: {time.perf_counter() - began:.1f} s, processor {processor_seconds(connection.info.backend_pid) - cpu:.1f} s;"
        f" memory of its own {state['anonymous']:.0f} MB, peak with shared {state['peak']:.0f} MB",
        flush=True,
    )


def build(url: str) -> None:
    """Do the upkeep that is due, with the vector index from nothing."""
    with psycopg.connect(url, autocommit=True) as connection:
        drop_vector_indexes(connection)
        with timed("optimize(), which builds the vector index and packs BM25", connection):
            print(scalar(connection, "SELECT graphrag.optimize(%s)", CORPUS))


def questions(text: MixedText, documents: int, number: int) -> list[str]:
    """Return beginnings of sentences of documents, the same for the same number of documents."""
    chance = random.Random(number)
    beginnings = []
    while len(beginnings) < number:
        paragraphs = text.document(chance.randrange(documents)).content.split("\n\n")
        sentence = chance.choice(chance.choice(paragraphs).split(". "))
        if len(words := sentence.split()) >= 8:
            beginnings.append(" ".join(words[:14]))
    return beginnings


def searched(
    connection: Connection, mode: str, question: str, filter: dict[str, int]
) -> tuple[list[int], float, float]:
    """Return the chunks found, the milliseconds by the clock, and those of the session's processor."""
    pid = connection.info.backend_pid
    began, cpu = time.perf_counter(), processor_seconds(pid)
    rows = connection.execute(
        # What is near is counted, near-duplicates too.
        "SELECT chunk_id FROM graphrag.search(%s, %s, %s, %s, filter => %s, options => %s) ORDER BY rank",
        [question, CORPUS, mode, TOP, Jsonb(filter), Jsonb({"near_duplicates": "in_place"})],
    ).fetchall()
    return [row[0] for row in rows], 1000 * (time.perf_counter() - began), 1000 * (processor_seconds(pid) - cpu)


def nearest(connection: Connection, text: MixedText, question: str, filter: dict[str, int]) -> dict[int, float]:
    """Return {chunk: distance} of those with the nearest windows, and all that tie, compared one by one."""
    return dict(
        connection.execute(
            "WITH b AS MATERIALIZED (SELECT v.chunk_id, min(v.embedding::vector(384) <=> %s::vector(384)) AS distance"
            " FROM graphrag.window_vectors v JOIN graphrag.documents d ON d.id = v.document_id"
            " WHERE d.metadata @> %s GROUP BY v.chunk_id)"
            " SELECT chunk_id, distance FROM b WHERE distance <= (SELECT max(distance) FROM"
            " (SELECT distance FROM b ORDER BY distance LIMIT %s) l) + 1e-6",
            [str(text.vector(question).tolist()), Jsonb(filter), TOP],
        ).fetchall()
    )


def measure_searches(url: str, text: MixedText, number: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        asked = questions(text, counted(connection, "indexed"), number)
        exact = {name: [nearest(connection, text, q, FILTERS[name]) for q in asked[: number // 4]] for name in FILTERS}
    print("ms; processor: of the session; every row is a session of its own")
    print(f"{'mode':8} {'filter':7} {'first':>8} {'p50':>8} {'p95':>8} {'processor':>10} {'recall@10':>10} {'MB':>5}")
    for mode in MODES:
        for name, filter in FILTERS.items():
            for is_warm in (False, True) if name == "none" else (False,):
                with psycopg.connect(url, autocommit=True) as connection:
                    if is_warm:
                        connection.execute("SELECT graphrag.warm(%s)", [CORPUS])
                    first = searched(connection, mode, asked[-1], filter)[1]
                    # One that takes long is asked a few questions.
                    most = asked if first < 500 else asked[: number // 4]
                    runs = [searched(connection, mode, question, filter) for question in most]
                    memory = status(connection.info.backend_pid)["anonymous"]
                p50, cpu = (statistics.median(run[place] for run in runs) for place in (1, 2))
                p95 = statistics.quantiles([run[1] for run in runs], n=20)[-1]
                share = statistics.mean(recall(run[0], set(each)) for run, each in zip(runs, exact[name], strict=False))
                column = f"{share:10.3f}" if mode == "naive" else f"{'':10}"
                print(
                    f"{mode:8} {'warm' if is_warm else name:7} {first:8.0f} {p50:8.1f} {p95:8.1f} {cpu:10.1f} {column}"
                    f" {memory:5.0f}",
                    flush=True,
                )


def measure_disk(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        chunks = counted(connection, "chunks")
        print(f"{'bytes a chunk':50} {'table':>8} {'indexes':>8}")
        for name, _, table, indexes in connection.execute(SIZES.encode()).fetchall():
            print(f"{name:50} {table / chunks:8.0f} {indexes / chunks:8.0f}")
        size = scalar(connection, "SELECT pg_database_size(current_database())")
        print(f"{'the database':50} {size / chunks:8.0f}, {size / 1e9:.2f} GB", flush=True)


def processed(connection: Connection) -> float:
    """Do all documents' jobs; return the session's processor milliseconds."""
    before = processor_seconds(connection.info.backend_pid)
    while counted(connection, "pending") or scalar(connection, "SELECT count(*) FROM graphrag.jobs WHERE stage < 3"):
        connection.execute("CALL graphrag.process_jobs(200)")
    return 1000 * (processor_seconds(connection.info.backend_pid) - before)


def measure_changes(url: str, text: MixedText) -> None:
    """Say what new, updated and deleted documents cost a worker with the vector index there, and VACUUM after them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CALL graphrag.process_jobs(1)")
        first = int(scalar(connection, "SELECT max(source_key)::int + 1 FROM graphrag.documents"))
        insert(connection, text, first, NEW)
        print(f"new documents, with the vector index: {processed(connection) / NEW / PARAGRAPHS:.2f} ms a chunk")
        keys = [f"{number:07}" for number in range(first, first + 2 * CHANGED)]
        costs: dict[str, list[float]] = {}
        for name, statement in (
            ("update", "UPDATE graphrag.documents SET content = content || ' It was revised.' WHERE source_key = %s"),
            ("delete", "DELETE FROM graphrag.documents WHERE source_key = %s"),
        ):
            for key in keys[:CHANGED] if name == "update" else keys[CHANGED:]:
                connection.execute(statement.encode(), [key])
                if key == keys[-1]:
                    runs = [searched(connection, "hybrid", question, {}) for question in questions(text, first, 5)]
                    print(f"hybrid while a removal waits: {statistics.median(run[1] for run in runs):.0f} ms (median)")
                costs.setdefault(name, []).append(processed(connection))
        for name, values in costs.items():
            print(f"{name} of a document: {statistics.median(values):.0f} ms of a worker's processor (median)")
        for (table,) in connection.execute(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'graphrag'::regnamespace"
            " AND pg_total_relation_size(c.oid) > 50000000 ORDER BY 1"
        ).fetchall():
            with timed(f"VACUUM {table}", connection):
                connection.execute(f"VACUUM {table}".encode())


def rolled_back(url: str, what: str, statement: str) -> None:
    """Time a statement that is undone."""
    with psycopg.connect(url) as connection:
        with timed(what, connection):
            print(connection.execute(statement.encode()).fetchall()[:5])
        connection.rollback()


def measure_checks(url: str, _: MixedText) -> None:
    for what in ("check", "fingerprint"):
        rolled_back(url, f"{what}()", f"SELECT * FROM graphrag.{what}('{CORPUS}')")
    rolled_back(url, "repair(), undone", "SELECT graphrag.repair()")


def measure_drop(url: str, _: MixedText) -> None:
    """Time drop_corpus(), undone."""
    rolled_back(url, "drop_corpus(), undone", f"SELECT graphrag.drop_corpus('{CORPUS}')")


# Vectors of which each kind of index is made.
SAMPLED = 10_000
# What is indexed and its operator class, the order of a scan, and how many it finds that are compared again by their vectors.
KINDS = {
    "vector": ("(embedding::vector(384)) vector_cosine_ops", "embedding::vector(384) <=> {q}::vector(384)", 10),
    "halfvec": ("(embedding::halfvec(384)) halfvec_cosine_ops", "embedding::halfvec(384) <=> {q}::halfvec(384)", 20),
    "bit, 100 re-ranked": (
        "(binary_quantize(embedding)::bit(384)) bit_hamming_ops",
        "binary_quantize(embedding)::bit(384) <~> binary_quantize({q}::vector(384))::bit(384)",
        100,
    ),
    "bit, 400 re-ranked": (
        "",
        "binary_quantize(embedding)::bit(384) <~> binary_quantize({q}::vector(384))::bit(384)",
        400,
    ),
}


def measure_indexes(url: str, _: MixedText) -> None:
    """Make each kind of index on SAMPLED vectors, in one process; print its size, processor time and recall."""
    with psycopg.connect(url) as connection:
        pid = connection.info.backend_pid

        def rows(sql: str) -> list[Any]:
            return connection.execute(sql.encode()).fetchall()

        # Evenly spread, and the questions not among them.
        every = max(2, counted(connection, "chunks") // SAMPLED)
        sample = f"SELECT window_id AS id, embedding FROM graphrag.window_vectors WHERE window_id % {every} = 0 LIMIT {SAMPLED}"
        connection.execute(f"CREATE TEMP TABLE sampled AS {sample}".encode())
        connection.execute("SET LOCAL maintenance_work_mem = '2GB'")
        connection.execute("SET LOCAL max_parallel_maintenance_workers = 0")
        connection.execute("SET LOCAL hnsw.ef_search = 400")
        connection.execute("ANALYZE sampled")
        others = sample.replace("= 0", "= 1").replace(f"LIMIT {SAMPLED}", "LIMIT 50")
        asked = [str(vector) for _, vector in rows(others)]
        nearest = "SELECT id FROM sampled ORDER BY embedding::vector(384) <=> '{q}'::vector(384) LIMIT 10"
        exact = [{i for (i,) in rows(nearest.format(q=q))} for q in asked]
        for name, (indexed, order, most) in KINDS.items():
            if indexed:
                connection.execute("DROP INDEX IF EXISTS sampled_idx")
                before = processor_seconds(pid)
                connection.execute(f"CREATE INDEX sampled_idx ON sampled USING hnsw ({indexed}) WITH (m = 16)".encode())
                built = processor_seconds(pid) - before
            ((size,),) = rows("SELECT pg_relation_size('sampled_idx')")
            scan = f"SELECT id, embedding FROM sampled ORDER BY {order} LIMIT {most}"
            again = f"SELECT id FROM ({scan}) s ORDER BY s.embedding::vector(384) <=> {{q}}::vector(384) LIMIT 10"
            before = processor_seconds(pid)
            hits = [{i for (i,) in rows(again.replace("{q}", f"'{q}'"))} for q in asked]
            cpu = processor_seconds(pid) - before
            share = sum(len(a & b) for a, b in zip(hits, exact, strict=True)) / (10 * len(asked))
            print(
                f"{name:20} {size / SAMPLED:6.0f} bytes a vector, {1000 * built / SAMPLED:5.2f} ms of a processor each,"
                f" recall@10 {share:.3f}, {1000 * cpu / len(asked):.1f} ms of a processor a question",
                flush=True,
            )
        connection.rollback()


PARTS: dict[str, Callable[[str, MixedText], None]] = {
    "changes": measure_changes,
    "checks": measure_checks,
    "drop": measure_drop,
    "indexes": measure_indexes,
}


def report(url: str, text: MixedText, options: argparse.Namespace) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        print(f"{counted(connection, 'chunks'):,} chunks, load {os.getloadavg()[0]:.1f}", flush=True)
        if not vector_indexes(connection):
            build(url)
        with timed("VACUUM (ANALYZE) of all", connection):
            connection.execute("VACUUM (ANALYZE)")
    measure_disk(url)
    measure_searches(url, text, options.questions)
    for part in options.parts:
        PARTS[part](url, text)


def prepare(url: str, endpoint: Endpoint, database: str = DATABASE) -> None:
    """Make database and corpus where they are not there, and name the endpoint."""
    with psycopg.connect(url, autocommit=True) as server:
        if not server.execute("SELECT FROM pg_database WHERE datname = %s", [database]).fetchall():
            server.execute(f"CREATE DATABASE {database}".encode())
    with psycopg.connect(conninfo.make_conninfo(url, dbname=database), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_graphrag CASCADE")
        connection.execute("SELECT graphrag.set_provider(%s, 'openai', %s)", [PROVIDER, endpoint.url])
        if not scalar(connection, "SELECT count(*) FROM graphrag.corpora WHERE name = %s", CORPUS):
            options = {
                "extractor": "given",
                "language": "en",
                "chunk_token_size": CHUNK_TOKENS,
                "chunk_overlap": 0,
                "embedding": {"provider": PROVIDER, "model": "mixed", "dimensions": 384},
                "communities": False,
            }
            connection.execute("SELECT graphrag.create_corpus(%s, %s)", [CORPUS, Jsonb(options)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[100_000, 300_000], help="smaller sizes that are measured"
    )
    parser.add_argument("--step", type=int, default=20_000, help="chunks between two lines on the rate (20,000)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--nice", type=int, default=0, help="priority of the workers' sessions, as superuser of the machine (0)"
    )
    parser.add_argument("--minutes", type=float, default=6000, help="of loading at most")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--parts", nargs="*", default=[], choices=PARTS, help="what else is measured at each size")
    parser.add_argument("--port", type=int, default=0, help="of the endpoint of vectors")
    parser.add_argument("--reuse", action="store_true", help="measure what is there, load nothing")
    parser.add_argument("--fill", type=int, default=0, help="load nothing, copy rows up to so many chunks, and measure")
    options = parser.parse_args()
    text = MixedText()
    with Endpoint(port=options.port, keep=False) as endpoint:
        endpoint.embed(lambda texts, _: [text.vector(each) for each in texts])
        prepare(options.url, endpoint)
        run(conninfo.make_conninfo(options.url, dbname=DATABASE), text, options)


def run(url: str, text: MixedText, options: argparse.Namespace) -> None:
    """Load, fill or take what is there, and measure it."""
    deadline = time.monotonic() + 60 * options.minutes
    if options.fill:
        with psycopg.connect(url, autocommit=True) as connection:
            drop_vector_indexes(connection)
        copy_rows(url, options.fill, deadline)
    if options.reuse or options.fill:
        report(url, text, options)
        return
    for size in [*options.sizes, options.chunks]:
        with psycopg.connect(url, autocommit=True) as connection:
            is_there = counted(connection, "chunks") >= size
        if not is_there:
            load(url, text, size, options, deadline)
            report(url, text, options)


if __name__ == "__main__":
    main()
