"""What statements read grows with the data, not with its square, where statistics and plans are from before the data came."""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from bench.load.public_surface import WITHOUT_AUTOVACUUM
from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, index_all, new_corpus, value, work

EXPLAINED = """
LOAD 'auto_explain';
SET auto_explain.log_nested_statements = on;
SET auto_explain.log_analyze = on;
SET auto_explain.log_timing = off;
SET auto_explain.log_format = json;
SET auto_explain.log_level = notice;
SET auto_explain.log_min_duration = 0
"""
# The server's own check of a foreign key, whose plan we do not choose.
FOREIGN_KEY = re.compile(r"SELECT \d FROM ONLY \S+ x WHERE")
MODES = ("bm25", "naive", "local", "global", "hybrid", "mix", "ppr", "path", "lazy", "drift", "graph_local")
NAMES = (
    "Arden",
    "Birk",
    "Colm",
    "Dunmore",
    "Esk",
    "Farrow",
    "Glen",
    "Holm",
    "Irwell",
    "Jura",
    "Kells",
    "Lune",
    "Mersea",
)


def text(number: int) -> str:
    """A document with names of its own, each of them in two documents, that are related to each other."""
    own = [f"{name} {chr(65 + number // 2 % 26)}{number // 52}th" for name in NAMES]
    return " ".join(f"{one} met {other} in {third}." for one, other, third in zip(own, own[1:], own[2:], strict=False))


def rows_touched(plan: dict[str, Any]) -> float:
    """Count the rows that nodes of a plan return or leave out."""
    loops = plan["Actual Loops"]
    own = sum(count * loops for key, count in plan.items() if key == "Actual Rows" or key.startswith("Rows Removed"))
    return own + sum(map(rows_touched, plan.get("Plans", [])))


@contextmanager
def explained(db: Database, note: Callable[[str, dict[str, Any]], None]) -> Iterator[None]:
    """Tell `note` of each statement of a session its text, without numbers, and its plan."""

    def noted(notice: psycopg.errors.Diagnostic) -> None:
        message = notice.message_primary or ""
        if "plan:\n" in message:
            statement = json.loads(message.split("plan:\n", 1)[1])
            note(re.sub(r"\d[\d,]*", "0", " ".join(statement["Query Text"].split())), statement["Plan"])

    db.execute(EXPLAINED)
    db.add_notice_handler(noted)
    try:
        yield
    finally:
        db.remove_notice_handler(noted)
        db.execute("SET auto_explain.log_min_duration = -1")


@contextmanager
def touched(db: Database) -> Iterator[dict[str, float]]:
    """Count, by statement, the rows that the plans of a session touch."""
    counts: dict[str, float] = {}

    def note(text: str, plan: dict[str, Any]) -> None:
        counts[text] = counts.get(text, 0.0) + rows_touched(plan)

    with explained(db, note):
        yield counts


def quadratic(counts: dict[int, dict[str, float]], most: int) -> dict[str, tuple[float, float]]:
    """Return what statements touch at both sizes where it is more than `most` rows at the second, and eight times the first."""
    few, many = counts.values()
    return {
        statement: (few.get(statement, 0), rows)
        for statement, rows in many.items()
        if rows > most and rows > 8 * few.get(statement, 0) and not FOREIGN_KEY.match(statement)
    }


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["of one document", "of other corpora"])
def test_indexing_reads_what_it_must_with_old_statistics(fresh_db: Database, again: bool) -> None:
    db = fresh_db
    db.execute("SELECT graphrag.create_corpus('first')")
    db.execute("INSERT INTO graphrag.documents (corpus, source_key, content) VALUES ('first', 'one', %s)", [text(0)])
    work(db)
    db.execute(WITHOUT_AUTOVACUUM.encode())
    db.execute("ANALYZE")
    counts: dict[int, dict[str, float]] = {}
    searching: dict[int, dict[str, float]] = {}
    for size in (60, 240):
        corpus = f"of {size}"
        db.execute("SELECT graphrag.create_corpus(%s)", [corpus])
        with touched(db) as counts[size]:
            db.execute(
                "INSERT INTO graphrag.documents (corpus, source_key, content)"
                " SELECT %s, n::text, t FROM unnest(%s::text[]) WITH ORDINALITY AS u (t, n)",
                [corpus, [text(number) for number in range(size)]],
            )
            work(db)
        if again:
            db.execute("ANALYZE")
        assert value(db, "SELECT count(*) FROM graphrag.clustered_relationships(%s)", corpus) >= size
        with touched(db) as searching[size]:
            for mode in MODES:
                db.execute("SELECT * FROM graphrag.search(%s, %s, %s)", ["Who met Birk A0th?", corpus, mode]).fetchall()
                db.execute("SELECT graphrag.context(%s, %s, %s)", ["Who met Birk A0th?", corpus, mode]).fetchall()
    for each in (counts, searching):
        assert len(each[60]) > 40
        assert quadratic(each, 50_000) == {}


def test_check_reads_curations_once_for_all_that_they_may_be_of(fresh_db: Database) -> None:
    db = fresh_db
    db.execute(WITHOUT_AUTOVACUUM)
    counts: dict[int, dict[str, float]] = {}
    for size in (100, 400):
        corpus, names = f"of {size}", [f"Ann Lee {number}" for number in range(size)]
        db.execute("SELECT graphrag.create_corpus(%s, '{\"cypher\": false}')", [corpus])
        graph = {
            "entities": [{"name": name, "type": "PERSON", "description": "She reads."} for name in names],
            "relationships": [
                {"source": one, "target": other, "description": "They met."} for one, other in itertools.pairwise(names)
            ],
        }
        db.execute("SELECT graphrag.insert_graph(%s, %s)", [corpus, json.dumps(graph)])
        for name in names[::4]:
            db.execute("SELECT graphrag.rename_entity(%s, %s, %s)", [name, f"{name} of Osaka", corpus])
        with touched(db) as counts[size]:
            assert db.execute("SELECT * FROM graphrag.check(%s)", [corpus]).fetchall() == []
    assert len(counts[400]) > 20
    assert quadratic(counts, 20_000) == {}


def test_check_and_repair_read_the_queue_once_while_much_waits(fresh_db: Database) -> None:
    db = fresh_db
    counts: dict[int, dict[str, float]] = {}
    for size in (100, 400):
        corpus = f"of {size}"
        db.execute('SELECT graphrag.create_corpus(%s, \'{"extractor": "given"}\')', [corpus])
        inserted = (
            "INSERT INTO graphrag.documents (corpus, source_key, content)"
            " SELECT %s, n::text, 'Report ' || n FROM generate_series(%s::int, %s::int) n"
        )
        db.execute(inserted, [corpus, 1, 3 * size])
        work(db)
        db.execute(WITHOUT_AUTOVACUUM)
        # With an empty queue, as it mostly is.
        db.execute("VACUUM (ANALYZE)")
        db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key::int <= %s", [corpus, size])
        changed = "UPDATE graphrag.documents SET content = content || '.' WHERE corpus = %s AND source_key::int <= %s"
        db.execute(changed, [corpus, 2 * size])
        db.execute(inserted, [corpus, 3 * size + 1, 4 * size])
        with touched(db) as counts[size]:
            assert db.execute("SELECT * FROM graphrag.check(%s)", [corpus]).fetchall() == []
            db.execute("SELECT graphrag.repair()")
        work(db)
    assert len(counts[400]) > 40
    assert quadratic(counts, 20_000) == {}


def test_check_sorts_no_vectors(db: Database) -> None:
    corpus = index_all(db, new_corpus(db), STORIES)
    db.execute("ANALYZE")
    widths: dict[str, int] = {}

    def note(text: str, plan: dict[str, Any]) -> None:
        if plan["Node Type"] in ("Sort", "WindowAgg"):
            widths[text] = max(widths.get(text, 0), plan["Plan Width"])
        for part in plan.get("Plans", []):
            note(text, part)

    with explained(db, note):
        assert db.execute("SELECT * FROM graphrag.check(%s)", [corpus]).fetchall() == []
    of_vectors = {text: width for text, width in widths.items() if "_vectors" in text}
    assert len(of_vectors) > 2
    assert max(of_vectors.values()) < 200, of_vectors
