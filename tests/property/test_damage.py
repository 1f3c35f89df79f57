"""Any value of the index may be damaged: check() or the manual names it, and nobody sees an error of Python.

GRAPHRAG_DAMAGES=20000 for a long run; GRAPHRAG_DAMAGES_SEED for another one.
"""

import os
import random
import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import PROJECT, Database
from tests.sql.ingest import rows, work
from tests.sql.rows import attach
from tests.sql.test_check import with_all_a_model_finds

COUNT = int(os.environ.get("GRAPHRAG_DAMAGES", "40"))
SEED = int(os.environ.get("GRAPHRAG_DAMAGES_SEED", "1"))
PARTS = 4
TABLES = (
    *("chunks", "chunk_windows", "entity_mentions", "relationship_mentions", "claims"),
    *("entities", "relationships", "entity_values", "relationship_values", "_row_names", "_named_rows"),
    *("bm25_segments", "bm25_postings", "bm25_tail", "bm25_tombstones"),
    *("window_vectors", "entity_vectors", "entity_mention_vectors", "relationship_mention_vectors", "report_vectors"),
    *("communities", "community_members", "community_reports", "community_states"),
    *("embedding_spaces", "_index_counts", "_document_counts"),
)
# But times and the rows' own numbers.
COLUMNS = """
SELECT c.relname, a.attname, t.typname
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
 WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relname = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped
   AND a.attgenerated = '' AND a.attname <> 'id' AND t.typname NOT IN ('timestamptz', 'xid8')
 ORDER BY 1, 2
"""
_NUMBERS = ["{} + 1", "{} - 1", "0", "-1", "2147483647", "NULL"]
_ARRAYS = ["'{{}}'", "{0} || {0}", "{}[2:]", "NULL", "ARRAY[NULL]"]
DAMAGES = {
    "int4": _NUMBERS,
    "int8": [*_NUMBERS, "9223372036854775807"],
    "numeric": ["{} + 1", "'NaN'", "0", "NULL", "-{}"],
    "float8": ["{} + 1", "'NaN'", "'Infinity'", "NULL"],
    "bool": ["NOT {}", "NULL"],
    "text": ["{} || 'x'", "''", "NULL", "'zzz'", "chr(1) || {}", "upper({}) || '!'"],
    "char": ["'z'", "NULL"],
    "bytea": [
        *("''", "substr({}, 2)", "substr({0}, 1, length({0}) - 1)", "{0} || {0}", "NULL", r"'\x00ff'"),
        *("set_byte({}, 0, 255)", "set_byte({0}, length({0}) - 1, 137)"),
    ],
    "jsonb": ["'[]'", "'{{}}'", "'\"x\"'", "'[1]'", "NULL", "'{{\"x\": 1}}'", "'null'"],
    "tsvector": ["''", "NULL", "'zzz:1'", "{} || 'zzz:1'"],
    "_text": [*_ARRAYS, "ARRAY['zzz']"],
    "_int4": [*_ARRAYS, "ARRAY[-1]", "ARRAY[99999]"],
    "vector": ["{0} + {0}", "'[1,2]'", "NULL"],
}
CALLS = [
    *(
        f"SELECT * FROM graphrag.search('Who did Ada Lovelace meet in London?', %(corpus)s, '{mode}')"
        for mode in ("bm25", "naive", "local", "hybrid", "graph_global", "ppr")
    ),
    "SELECT graphrag.context('Ada Lovelace Osaka London', %(corpus)s, max_tokens => 500)",
    "SELECT graphrag.repair()",
]


def not_compared() -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The columns that the manual says are not compared, or only in part, "" for a whole table; and those it excepts."""
    page = (PROJECT / "docs/operations.md").read_text()
    table = page.split("| of | not compared |\n|---|---|\n")[1].split("\n\n")[0]
    columns, excepted = set(), set()
    for line in table.splitlines():
        of, what = line.strip("| ").split(" | ")
        for name in re.findall("`(.+?)`", of):
            named = {(name, column) for column in re.findall("`(.+?)`", what)}
            if what.startswith("all but"):
                excepted |= named
            columns |= named if named and not what.startswith("all but") else {(name, "")}
    return columns, excepted


NOT_COMPARED, COMPARED = not_compared()
# A mention of what a curation has deleted counts for nothing.
COUNTED = {"relationship_mentions": "relationship_id IS NOT NULL", "entity_mentions": "entity_id IS NOT NULL"}


@pytest.fixture(scope="module")
def corpora(module_db: Database) -> Iterator[list[str]]:
    """A corpus with all that a model finds, communities and curations, packed and not; and one of rows."""
    with Endpoint() as endpoint:
        name = with_all_a_model_finds(module_db, endpoint, communities=True)
        module_db.execute("SELECT graphrag.merge_entities(ARRAY['Charles Babbage'], 'Ada Lovelace', %s)", [name])
        module_db.execute("SELECT graphrag.edit_entity('London', %s, 'city', 'A town.')", [name])
        module_db.execute("SELECT graphrag.refresh_communities(%s)", [name])
        attach(module_db)
        work(module_db)
        yield [name, "default"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_check_names_every_damage_and_nobody_sees_an_error_of_python(
    module_db: Database, corpora: list[str], part: int
) -> None:
    db, choice = module_db, random.Random(SEED)
    db.execute("SET graphrag.session_memory = '0'; SET client_min_messages = error")
    types = rows(db, COLUMNS, list(TABLES))
    # Of what documents that are gone have left in BM25, nobody can say.
    for corpus in corpora:
        db.execute("SELECT graphrag.optimize(%s)", [corpus])
        assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []
    damages = [(table, column, damage) for table, column, type_ in types for damage in DAMAGES[type_]]
    choice.shuffle(damages)
    unnamed = []
    for table, column, damage in damages[part:COUNT:PARTS]:
        with db.transaction(force_rollback=True):
            if not damaged(db, choice, table, column, damage):
                continue
            named = []
            for corpus in corpora:
                named += rows(db, "SELECT * FROM graphrag.check(%s)", corpus)
                errors = filter(None, (error_of(db, call, corpus) for call in choice.sample(CALLS, 2)))
                of_python = [error for error in errors if re.search(r"[a-z]Error\b|Traceback|Exception", error)]
                assert not of_python, (table, column, damage)
            is_compared = (table, column) in COMPARED or not {(table, column), (table, "")} & NOT_COMPARED
            if not named and is_compared:
                unnamed.append((table, column, damage))
    assert unnamed == []


def damaged(db: Database, choice: random.Random, table: str, column: str, damage: str) -> bool:
    """Damage a value of a random row, as somebody could who may write the table: past our triggers, within constraints."""
    condition = f"{column} IS NOT NULL AND {COUNTED.get(table, 'true')}"
    places = rows(db, f"SELECT tableoid::regclass::text, ctid::text FROM graphrag.{table} WHERE {condition}")
    if not places:
        return False
    part, place = choice.choice(places)
    value = damage.format(column)
    db.execute(f"ALTER TABLE {part} DISABLE TRIGGER USER; SET CONSTRAINTS ALL IMMEDIATE".encode())
    try:
        with db.transaction():
            update = (
                f"UPDATE {part} SET {column} = {value} WHERE ctid = '{place}' AND {column} IS DISTINCT FROM {value}"
            )
            return db.execute(update.encode()).rowcount == 1
    except psycopg.Error:
        return False


def error_of(db: Database, call: str, corpus: str) -> str | None:
    try:
        with db.transaction():
            db.execute(call.encode(), {"corpus": corpus})
    except psycopg.Error as error:
        return str(error)
    return None
