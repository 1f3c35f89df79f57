"""BM25 on chunks of generated text, beside bm25s and tantivy: build, a session's first query, p50 by number of terms, and
the first ten.

    python -m bench bm25 --chunks 50000
    python -m bench bm25 --chunks 1000000 --peers bm25s tantivy

Texts are drawn from a Zipf distribution (exponent 1.07, 500,000 words, about 80 different ones in a chunk). The words of
queries are drawn too, log-uniformly from the ranks 10 to 100,000. The first ten of ours must be those of the formula,
computed from the texts here; bm25s (the same formula in float32) is compared with them as well. Ours is asked in SQL by a
session, peers are asked in their process, in a venv that is made once. A database of its own is made and dropped again
(--keep keeps it, a later run with --reuse takes it as it is).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from pg_graphrag.index.bm25.scoring import K1, B
from psycopg import conninfo, sql

from bench.load.search import processor_seconds
from bench.peers.peers import HALVES, peer_python, session_cpu

DATABASE = "bench_bm25"
VOCABULARY = 500_000
BATCH = 10_000
# Ranks of the terms of a query: from all parts of the distribution, and the most common ones.
MIXED = [3, 40, 300, 2_000, 20_000, 200_000]
COMMON = [0, 1, 2]
FAR = [400, 5_000, 60_000]

SEARCH = """
CREATE FUNCTION public.bench_search(corpus_id int, terms text[], "limit" int, documents bigint[]) RETURNS bigint[]
LANGUAGE plpython3u STABLE AS $$
from pg_graphrag.index.bm25 import BM25Index
from pg_graphrag.server import database
import numpy as np
visible = None if documents is None else np.array(documents, np.int64)
items, scores = BM25Index(database(plpy), corpus_id, "chunk").search(terms, limit, documents=visible)
return items[:limit].tolist()
$$;
"""
# Words of a query, and queries of each length.
LENGTHS, QUERIES = (1, 3, 6, 9), 40
PEERS = {"bm25s": ["bm25s==0.3.16", "numba", "numpy<2.4"], "tantivy": ["tantivy==0.27.0", "numpy"]}
TOP = 10


def draw(chunks: int) -> tuple[Any, Any]:
    """Return (rank of each word of all texts, int32; where each text ends, int64)."""
    generator = np.random.default_rng(1)
    weights = 1 / np.arange(1, VOCABULARY + 1) ** 1.07
    cumulated = np.cumsum(weights / weights.sum())
    ends = np.cumsum(np.clip(generator.normal(110, 30, chunks), 10, 300).astype(np.int64))
    parts = [
        np.searchsorted(cumulated, generator.random(min(1 << 22, int(ends[-1]) - start))).astype(np.int32)
        for start in range(0, int(ends[-1]), 1 << 22)
    ]
    return np.concatenate(parts), ends


def tsvectors(ranks: Any, ends: Any) -> Iterator[str]:
    """The texts as tsvector literals."""
    for part in np.split(ranks, ends[:-1]):
        words, counts = np.unique(part, return_counts=True)
        yield " ".join(
            f"w{word}:{POSITIONS[tf]}"
            for word, tf in zip(words.tolist(), np.minimum(counts, 255).tolist(), strict=True)
        )


POSITIONS = [",".join(map(str, range(1, tf + 1))) for tf in range(256)]


def load(connection: psycopg.Connection[Any], url: str, ranks: Any, ends: Any) -> None:
    """Fill corpus 1, ten chunks to a document, and pack it."""
    chunks = len(ends)
    connection.execute(
        "INSERT INTO graphrag.corpora (name, tokenizer, tokenizer_fingerprint) VALUES ('bench', 'none', 'none')"
    )
    connection.execute("CREATE UNLOGGED TABLE public.texts (number int, tsv tsvector)")
    with connection.cursor().copy("COPY public.texts FROM STDIN") as copy:
        for number, text in enumerate(tsvectors(ranks, ends)):
            copy.write_row((number, text))
    connection.execute(
        "INSERT INTO graphrag.chunks (id, corpus_id, document_id, ordinal, start_offset, own_offset, end_offset, language,"
        " content, token_count, tsv) SELECT number + 1, 1, number / 10 + 1, number % 10, 0, 0, 0, 'en', '', 0, tsv"
        " FROM public.texts"
    )
    adding, cpu = time.perf_counter(), session_cpu(connection)
    for start in range(0, chunks, BATCH):
        connection.execute(
            "SELECT graphrag._bm25_add(1, 'chunk', array_agg(id), array_agg(document_id)) FROM graphrag.chunks"
            " WHERE id BETWEEN %s AND %s",
            [start + 1, start + BATCH],
        )
    took, cpu = time.perf_counter() - adding, session_cpu(connection) - cpu
    print(
        f"_bm25_add of {chunks} chunks: {took:.1f} s ({cpu:.1f} processor), {took / chunks * 1e6:.0f} µs each",
        flush=True,
    )
    connection.execute("VACUUM ANALYZE graphrag.bm25_tail")
    if chunks <= 100_000:
        for size in (300, 1000, 3000, 10_000):
            measure_tail(url, size)
    began, cpu = time.perf_counter(), session_cpu(connection)
    (done,) = connection.execute("SELECT graphrag.optimize('bench')").fetchone() or ({},)
    took, cpu = time.perf_counter() - began, session_cpu(connection) - cpu
    print(f"optimize: {took:.1f} s ({cpu:.1f} processor), {took / chunks * 1e6:.0f} µs a chunk, {done}", flush=True)
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


def drawn_queries() -> list[list[int]]:
    """Return queries as lists of ranks, `QUERIES` of each length."""
    generator = np.random.default_rng(2)
    drawn = [np.exp(generator.uniform(np.log(10), np.log(100_000), (QUERIES, length))) for length in LENGTHS]
    return [np.unique(row.astype(int)).tolist() for rows in drawn for row in rows]


def reference(ranks: Any, ends: Any, queries: Sequence[Sequence[int]]) -> list[tuple[Any, float]]:
    """Return for each query (the score of every text, float64; the tenth best)."""
    lengths = np.diff(ends, prepend=0)
    norms = K1 * (1 - B + B * lengths / lengths.mean())
    texts = np.repeat(np.arange(len(ends), dtype=np.int32), lengths)
    wanted = np.unique(np.concatenate([np.array(query) for query in queries]))
    places = np.flatnonzero(np.isin(ranks, wanted, kind="table"))
    places = places[np.argsort(ranks[places], kind="stable")]
    bounds = np.searchsorted(ranks[places], [wanted, wanted + 1])
    frequencies = {
        rank: np.unique(texts[places[first:last]], return_counts=True)
        for rank, first, last in zip(wanted.tolist(), *bounds.tolist(), strict=True)
    }
    results = []
    for query in queries:
        scores = np.zeros(len(ends))
        for rank in query:
            rows, tf = frequencies[rank]
            idf = np.log(1 + (len(ends) - len(rows) + 0.5) / (len(rows) + 0.5))
            scores[rows] += idf * (K1 + 1) * tf / (tf + norms[rows])
        # Of these alone the rest is compared.
        tenth = float(np.partition(scores, -TOP)[-TOP])
        rows = np.flatnonzero(scores >= tenth - 0.01)
        results.append((dict(zip(rows.tolist(), scores[rows].tolist(), strict=True)), tenth))
    return results


def rightly(rows: Sequence[int], exact: tuple[Any, float], tolerance: float) -> bool:
    """Whether the rows are the first ten, in order, but for differences in the scores of `tolerance`."""
    scores, tenth = exact
    if tenth == 0:
        return all(row in scores for row in rows)
    own = [scores.get(row, 0.0) for row in rows]
    in_order = all(after <= before + tolerance for before, after in pairwise(own))
    return len(set(rows)) == TOP and in_order and min(own) >= tenth - tolerance


def line(name: str, times: Sequence[float], processor: Sequence[float], is_right: Sequence[bool] | None) -> None:
    """Print p50 and p95 of the clock and p50 of the processor by number of terms, and how many answers were the reference's."""
    figures = []
    for place in range(len(LENGTHS)):
        part, cpu = (values[place * QUERIES : (place + 1) * QUERIES] for values in (times, processor))
        p95 = statistics.quantiles(part, n=20)[-1]
        figures.append(f"{statistics.median(part):6.1f} /{p95:6.1f} /{statistics.median(cpu):6.1f}")
    right = "not compared" if is_right is None else f"{sum(is_right)} of {len(is_right)}"
    print(f"{name:18} {' '.join(figures)}   {right}", flush=True)


def compare(url: str, ranks: Any, ends: Any, systems: Sequence[str]) -> None:
    """Ask the drawn queries in a session and of the peers."""
    queries = drawn_queries()
    exact = reference(ranks, ends, queries)
    heads = " ".join(f"{count:15} terms " for count in LENGTHS)
    print(f"{'ms: p50 / p95 / processor':18}{heads[7:]}   first ten as the reference")
    for again in ("", ", again"):
        with psycopg.connect(url, autocommit=True) as session:
            session.execute("SELECT 1")
            times, processor, answers = [], [], []
            pid = session.info.backend_pid
            for query in queries[QUERIES:] + queries[:QUERIES] if again else queries:
                terms = [f"w{rank}" for rank in query]
                began, cpu = time.perf_counter(), processor_seconds(pid)
                row = session.execute("SELECT public.bench_search(1, %s, %s, NULL)", [terms, TOP]).fetchone()
                times.append(1000 * (time.perf_counter() - began))
                processor.append(1000 * (processor_seconds(pid) - cpu))
                answers.append([item - 1 for item in row[0]] if row else [])
            memory = private_memory(session.info.backend_pid)
        first = times[0]
        if again:
            times, processor, answers = (
                values[-QUERIES:] + values[:-QUERIES] for values in (times, processor, answers)
            )
        right = [rightly(rows, expected, 1e-9) for rows, expected in zip(answers, exact, strict=True)]
        line(f"pg_graphrag{again}", times, processor, right)
        print(f"{'':18} a session's first query {first:.0f} ms; private memory {memory}")
    for system in systems:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.save(folder / "ranks.npy", ranks)
            np.save(folder / "ends.npy", ends)
            (folder / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
            command = [peer_python(system, PEERS[system]), HALVES / "bm25_peer.py", system, folder]
            figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        right = [rightly(rows, expected, 1e-3) for rows, expected in zip(figures["rows"], exact, strict=True)]
        line(system, figures["times"], figures["processor"], right if any(figures["rows"]) else None)
        print(
            f"{'':18} built in {figures['built']:.1f} s, {figures['built'] / len(ends) * 1e6:.0f} µs a chunk;"
            f" opened in {1000 * figures['opened']:.0f} ms; peak memory {figures['memory']:.0f} MB"
        )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="libpq URL of a superuser")
    parser.add_argument("--chunks", type=int, default=50_000)
    parser.add_argument("--peers", nargs="*", default=[], choices=PEERS)
    parser.add_argument("--keep", action="store_true", help="do not drop the database")
    parser.add_argument("--reuse", action="store_true", help="take the database that --keep left")
    arguments = parser.parse_args()
    url = conninfo.make_conninfo(arguments.url, dbname=DATABASE)
    drop = sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(DATABASE))
    ranks, ends = draw(arguments.chunks)
    with psycopg.connect(arguments.url, autocommit=True) as admin:
        if not arguments.reuse:
            admin.execute(drop)
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
                connection.execute(SEARCH)
                load(connection, url, ranks, ends)
        measure(url, arguments.chunks)
        compare(url, ranks, ends, arguments.peers)
        if not arguments.keep:
            admin.execute(drop)


if __name__ == "__main__":
    main()
