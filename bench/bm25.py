"""BM25 on a synthetic corpus: packing, and the latency of searches in the server.

    python bench/bm25.py --url "$(bin/graphrag-server url postgres)" --chunks 50000
    python bench/bm25.py --url "$(bin/graphrag-server url postgres)" --chunks 1000000

Texts are drawn from a Zipf distribution (exponent 1.07, 500,000 words, about 80 different ones in a chunk). A database
of its own is made and dropped again (--keep keeps it, a later run with --reuse takes it as it is).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import conninfo, sql

DATABASE = "bench_bm25"
VOCABULARY = 500_000
BATCH = 10_000
# Ranks of the terms of a query: from all parts of the distribution, and the most common ones.
MIXED = [3, 40, 300, 2_000, 20_000, 200_000]
COMMON = [0, 1, 2]
FAR = [400, 5_000, 60_000]

SEARCH = """
CREATE FUNCTION public.bench_search(corpus_id int, terms text[], "limit" int, documents bigint[]) RETURNS int
LANGUAGE plpython3u STABLE AS $$
from pg_graphrag.retrieval.bm25 import BM25Index
from pg_graphrag.server import database
import numpy as np
visible = None if documents is None else np.array(documents, np.int64)
items, scores = BM25Index(database(plpy), corpus_id, "chunk").search(terms, limit, documents=visible)
return len(items)
$$;
"""


def texts(generator: np.random.Generator, count: int) -> Iterator[str]:
    """Chunks as tsvector literals."""
    weights = 1 / np.arange(1, VOCABULARY + 1) ** 1.07
    cumulated = np.cumsum(weights / weights.sum())
    lengths = np.clip(generator.normal(110, 30, count), 10, 300).astype(int)
    ranks = np.searchsorted(cumulated, generator.random(int(lengths.sum())))
    for part in np.split(ranks, np.cumsum(lengths)[:-1]):
        words, counts = np.unique(part, return_counts=True)
        yield " ".join(
            f"w{word}:{POSITIONS[tf]}"
            for word, tf in zip(words.tolist(), np.minimum(counts, 255).tolist(), strict=True)
        )


POSITIONS = [",".join(map(str, range(1, tf + 1))) for tf in range(256)]


def load(connection: psycopg.Connection[Any], url: str, chunks: int) -> None:
    """Fill corpus 1, ten chunks to a document, and pack it."""
    connection.execute(
        "INSERT INTO graphrag.corpora (name, tokenizer, tokenizer_fingerprint) VALUES ('bench', 'none', 'none')"
    )
    generator = np.random.default_rng(1)
    adding = 0.0
    for start in range(0, chunks, BATCH):
        size = min(BATCH, chunks - start)
        with connection.cursor().copy(
            "COPY graphrag.chunks (id, corpus_id, document_id, ordinal, start_offset, own_offset, end_offset, language,"
            " content, token_count, tsv) FROM STDIN"
        ) as copy:
            for number, text in enumerate(texts(generator, size), start=start + 1):
                copy.write_row((number, 1, (number - 1) // 10 + 1, (number - 1) % 10, 0, 0, 0, "en", "", 0, text))
        began = time.perf_counter()
        connection.execute(
            "SELECT graphrag._bm25_add(1, 'chunk', array_agg(id), array_agg(document_id)) FROM graphrag.chunks"
            " WHERE id BETWEEN %s AND %s",
            [start + 1, start + size],
        )
        adding += time.perf_counter() - began
    print(f"_bm25_add of {chunks} chunks: {adding:.1f} s, {adding / chunks * 1e6:.0f} µs each", flush=True)
    connection.execute("VACUUM ANALYZE graphrag.bm25_tail")
    if chunks <= 100_000:
        for size in (300, 1000, 3000, 10_000):
            measure_tail(url, size)
    began = time.perf_counter()
    (done,) = connection.execute("SELECT graphrag.optimize('bench')").fetchone() or ({},)
    took = time.perf_counter() - began
    print(f"optimize: {took:.1f} s, {took / chunks * 1e6:.0f} µs a chunk, {done}", flush=True)
    connection.execute("VACUUM ANALYZE graphrag.bm25_postings")
    connection.execute("VACUUM ANALYZE graphrag.bm25_tail")
    rows = connection.execute(
        "SELECT sum(df), count(*), pg_size_pretty(pg_table_size('graphrag.bm25_postings')),"
        " pg_size_pretty(pg_indexes_size('graphrag.bm25_postings')),"
        " pg_size_pretty(sum(octet_length(frequencies) + coalesce(octet_length(ordinals), 0)))"
        " FROM graphrag.bm25_postings"
    ).fetchone()
    print("postings {}, rows {}, table {}, index {}, packed bytes {}".format(*(rows or ())))


def measure_tail(url: str, size: int) -> None:
    """Searches of a fresh session in a corpus that is nothing but a tail of `size` items."""
    with psycopg.connect(url, autocommit=True) as session:
        row = session.execute(
            "INSERT INTO graphrag.corpora (name, tokenizer, tokenizer_fingerprint)"
            " VALUES (%s, 'none', 'none') RETURNING id",
            [f"tail of {size}"],
        ).fetchone()
        (corpus_id,) = row or (0,)
        session.execute(
            "SELECT graphrag._bm25_add(%s, 'chunk', array_agg(id), array_agg(document_id)) FROM graphrag.chunks"
            " WHERE id <= %s",
            [corpus_id, size],
        )
    with psycopg.connect(url, autocommit=True) as session:
        first, rest = timed(session, COMMON + MIXED, 10, None, 21, corpus_id)
        print(f"tail of {size} items: first search of a session {first:.0f} ms, then p50 {rest:.1f} ms", flush=True)


def timed(
    session: psycopg.Connection[Any],
    ranks: Sequence[int],
    limit: int,
    documents: list[int] | None,
    rounds: int,
    corpus_id: int = 1,
) -> tuple[float, float]:
    """Return the milliseconds of the first search, and the median of the others, as the client sees them."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        session.execute(
            "SELECT public.bench_search(%s, %s, %s, %s)", [corpus_id, [f"w{rank}" for rank in ranks], limit, documents]
        ).fetchone()
        took.append((time.perf_counter() - began) * 1000)
    return took[0], statistics.median(took[1:])


def private_memory(pid: int) -> str:
    """Return the private memory of a backend, where the server runs on this machine."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return "unknown (the server is elsewhere)"
    kilobytes = sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))
    return f"{kilobytes // 1024} MB"


def measure(url: str, chunks: int) -> None:
    """Print the latencies."""
    with psycopg.connect(url, autocommit=True) as warm:  # what is measured is sessions, not disks
        timed(warm, MIXED + COMMON + FAR, 10, None, 3)
    for name, ranks in (("6 mixed terms", MIXED), ("3 very common terms", COMMON), ("3 rarer terms", FAR)):
        with psycopg.connect(url, autocommit=True) as session:
            session.execute("SELECT 1")
            first, rest = timed(session, ranks, 10, None, 41)
            memory = private_memory(session.info.backend_pid)
            print(f"{name}: first search of a session {first:.0f} ms, then p50 {rest:.1f} ms; private memory {memory}")
    visible = list(range(1, chunks // 10, 10))
    with psycopg.connect(url, autocommit=True) as session:
        for limit, documents in ((100, None), (10_000, None), (10, visible)):
            _, rest = timed(session, MIXED, limit, documents, 21)
            filtered = f", {len(documents)} visible documents" if documents else ""
            print(f"6 mixed terms, limit {limit}{filtered}: p50 {rest:.1f} ms")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="libpq URL of a superuser")
    parser.add_argument("--chunks", type=int, default=50_000)
    parser.add_argument("--keep", action="store_true", help="do not drop the database")
    parser.add_argument("--reuse", action="store_true", help="take the database that --keep left")
    arguments = parser.parse_args()
    url = conninfo.make_conninfo(arguments.url, dbname=DATABASE)
    drop = sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(DATABASE))
    with psycopg.connect(arguments.url, autocommit=True) as admin:
        if not arguments.reuse:
            admin.execute(drop)
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
                connection.execute(SEARCH)
                load(connection, url, arguments.chunks)
        measure(url, arguments.chunks)
        if not arguments.keep:
            admin.execute(drop)


if __name__ == "__main__":
    main()
