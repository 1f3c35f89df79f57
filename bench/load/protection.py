"""What a reader pays who sees a part of a corpus under protect(), beside the owner with the same `filter`.

    python -m bench protection [--documents 12000]

Generated documents of some 16 mentions each, of names of which few are frequent; NLP concepts, no communities; vectors by the
hash embedder of tests/endpoint, so that the time is the database's. 1 %, 50 % and 99 % of them are visible by their metadata.
p50 of a warm session, in ms of its processor. Of graph_nodes and graph_edges the owner reads what documents state for which
the filter holds; what takes no filter is compared with the owner's view of the whole. A database of its own is made, and
dropped again.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
from pg_graphrag.ground.mode_names import MODES
from psycopg import conninfo, sql
from psycopg.types.json import Jsonb

from bench.load.search import processor_seconds

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "bench_protection"
READER = "bench_protection_reader"
DIMENSIONS = 32
SHARES = (1, 50, 99)
NAMES = 8000
VERBS = ("admired", "met", "paid", "hired", "taught", "left", "followed", "praised")
FIRST = ("Ada", "Alan", "Grace", "Mary", "Karl", "Ivan", "Rosa", "Otto", "Nina", "Hugo")
# What members may read of a corpus that they see in part. Corpora, attached tables and communities are shown whole or not at all.
VIEWS = """
SELECT c.relname FROM pg_catalog.pg_class c
 WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind = 'v' AND has_table_privilege('graphrag_member', c.oid, 'SELECT')
   AND c.relname <> ALL ('{granted_corpora,versions,attached_tables,community_entities,community_overview}')
 ORDER BY 1
"""
# What models alone find, of a part of the documents.
EXTRACTED = (
    "UPDATE graphrag.entity_mentions SET attributes = '{\"age\": 40}' WHERE id % 5 = 0",
    """UPDATE graphrag.chunks SET unfit = '[{"kind": "entity", "item": {"name": "It"}, "reason": "pronoun"}]' WHERE id % 5 = 0""",
    """
    INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, subject, type, status, description)
    SELECT m.corpus_id, m.document_id, m.chunk_id, m.raw_key, m.name, 'fraud', 'SUSPECTED', 'It was said of ' || m.name
      FROM graphrag.entity_mentions m WHERE m.id % 5 = 0
    """,
)
# View: (its column of items, kind of these)
GRAPH_VIEWS = {"graph_nodes": ("entity_id", "entity"), "graph_edges": ("relationship_id", "relationship")}


def name(number: int) -> str:
    """A name that is one of its kind."""
    syllables = ("ba", "do", "ke", "li", "mu", "na", "po", "ri", "su", "ta")
    return f"{FIRST[number % 10]} {''.join(syllables[int(digit)] for digit in f'{number:04}').capitalize()}"


def documents(count: int) -> Any:
    """Yield (source key, text, metadata)."""
    chosen = random.Random(1)
    for number in range(count):
        names = [name(int(NAMES * chosen.random() ** 3)) for _ in range(14)]
        pairs = zip(names[::2], names[1::2], strict=True)
        text = " ".join(
            f"{subject} {chosen.choice(VERBS)} {other} in {chosen.randrange(1, 30)} words." for subject, other in pairs
        )
        share = chosen.randrange(100)
        yield f"{number:06}", text, {f"below {limit}": share < limit for limit in SHARES}


def fill(url: str, connection: psycopg.Connection[Any], endpoint: str, count: int) -> None:
    connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
    connection.execute("SELECT graphrag.set_provider('bench', 'openai', %s)", [endpoint])
    embedding = {"provider": "bench", "model": "hash", "dimensions": DIMENSIONS}
    options = {"embedding": embedding, "communities": False}
    connection.execute("SELECT graphrag.create_corpus('bench', %s)", [Jsonb(options)])
    with connection.cursor().copy("COPY graphrag.documents (corpus, source_key, content, metadata) FROM STDIN") as copy:
        for key, text, metadata in documents(count):
            copy.write_row(("bench", key, text, Jsonb(metadata)))
    workers = [threading.Thread(target=work, args=[url]) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    connection.execute("SELECT graphrag.optimize('bench')")
    connection.execute("CALL graphrag.process_jobs()")
    for statement in EXTRACTED:
        connection.execute(statement)
    connection.execute("VACUUM ANALYZE")
    exists = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [READER]).fetchone()
    if exists is None:
        connection.execute(f"CREATE ROLE {READER} IN ROLE graphrag_reader".encode())


def work(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CALL graphrag.process_jobs()")


def statements(limit: int, views: list[str]) -> dict[str, tuple[str, str]]:
    """{what: (statement of the reader, of the owner)}; a question and an entity are their parameters."""
    filter_ = f'{{"below {limit}": true}}'
    whole: dict[str, tuple[str, str]] = {}
    for mode in MODES:
        call = f"SELECT * FROM graphrag.search(%(question)s, 'bench', '{mode}'"
        whole[mode] = f"{call})", f"{call}, filter => '{filter_}')"
    call = "SELECT graphrag.context(%(question)s, 'bench', 'mix'"
    whole["context mix"] = f"{call})", f"{call}, filter => '{filter_}')"
    for hops in (1, 2):
        whole[f"neighbors, hops: {hops}"] = (
            f"SELECT * FROM graphrag.neighbors(%(entity)s, 'bench', {hops})",
            f"SELECT * FROM graphrag.neighbors(%(entity)s, '{filter_}', {hops}, 'bench')",
        )
    whole["to_dot"] = ("SELECT graphrag.to_dot(%(entity)s, 'bench')",) * 2
    for view, (item, kind) in GRAPH_VIEWS.items():
        read = f"SELECT count(x) FROM graphrag.{view} x"
        stated = (
            f"SELECT FROM graphrag.{kind}_mentions m JOIN graphrag.documents d ON d.id = m.document_id"
            f" WHERE m.{kind}_id = x.{item} AND d.metadata @> '{filter_}'"
        )
        whole[view] = read, f"{read} WHERE EXISTS ({stated})"
    for view in views:
        whole[f"{view}, whole"] = (f"SELECT count(x) FROM graphrag.{view} x",) * 2
    return whole


def median(connection: psycopg.Connection[Any], statement: str, rounds: int) -> float:
    """p50 in ms of the processor of a statement, with questions and entities of different frequency."""
    took = []
    rounds = 3 if "count(" in statement else rounds
    for number in range(rounds + 2):
        given = {
            "entity": name(number % 3),
            "question": f"Who {VERBS[number % 8]} {name(number * 7)} and {name(number)}?",
        }
        began = processor_seconds(connection.info.backend_pid)
        connection.execute(statement.encode(), given if "%(" in statement else None).fetchall()
        took.append(1e3 * (processor_seconds(connection.info.backend_pid) - began))
    return statistics.median(took[2:])


def measure(url: str, limit: int, given: argparse.Namespace) -> None:
    with psycopg.connect(url, autocommit=True) as owner, psycopg.connect(url, autocommit=True) as reader:
        reader.execute(f"SET ROLE {READER}".encode())
        owner.execute("SELECT graphrag.protect('bench', %s)", [f"""metadata @> '{{"below {limit}": true}}'"""])
        asked = "SELECT count(*) FROM graphrag.documents WHERE corpus = 'bench'"
        seen = reader.execute(asked).fetchone()
        assert seen is not None
        print(
            f"\n{limit} % visible: {seen[0]:,} documents, which take {median(reader, asked, 9):.1f} ms to be counted\n"
        )
        print("| what | owner with the filter | reader | ratio |\n|---|---|---|---|")
        views = [view for (view,) in owner.execute(VIEWS).fetchall()]
        for what, (of_reader, of_owner) in statements(limit, views).items():
            if given.only and what not in given.only:
                continue
            times = median(owner, of_owner, given.rounds), median(reader, of_reader, given.rounds)
            print(f"| {what} | {times[0]:.1f} | {times[1]:.1f} | {times[1] / times[0]:.2f} |", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True, help="of any database of the server, as superuser")
    arguments.add_argument("--documents", type=int, default=12_000)
    arguments.add_argument("--rounds", type=int, default=12)
    arguments.add_argument("--shares", type=int, nargs="+", default=SHARES, choices=SHARES, help="of a hundred")
    arguments.add_argument("--only", nargs="+", help="of the first column")
    arguments.add_argument("--keep", action="store_true", help="keep the database; measure the one that was kept")
    given = arguments.parse_args()
    url = conninfo.make_conninfo(given.url, dbname=DATABASE)
    command = [sys.executable, "-m", "tests.endpoint", "--dimensions", str(DIMENSIONS)]
    endpoint = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert endpoint.stdin is not None
    assert endpoint.stdout is not None
    with psycopg.connect(given.url, autocommit=True) as server:
        place = endpoint.stdout.readline().strip()
        is_kept = server.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is not None
        try:
            if is_kept:
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute("SELECT graphrag.set_provider('bench', 'openai', %s)", [place])
            else:
                server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
                with psycopg.connect(url, autocommit=True) as connection:
                    fill(url, connection, place, given.documents)
            for limit in given.shares:
                measure(url, limit, given)
        finally:
            endpoint.stdin.close()
            endpoint.wait()
            if not given.keep:
                server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(DATABASE)))
                server.execute(f"DROP ROLE IF EXISTS {READER}".encode())


if __name__ == "__main__":
    main()
