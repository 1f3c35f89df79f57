"""Answers are the same whatever a session knows of rows and their names, of which it drops what is too much."""

import psycopg
import pytest

from bench.retrieval import rows
from tests.runtime.cluster import Database
from tests.sql.rows import attach_works

MODES = ("hybrid", "ppr", "path", "lazy", "mix")
QUESTIONS = ("Big Bertha leaked methane", "Maker Aort and M-12", "QX-30, M-13 and Big Bertha", "M-1 M-2 M-3 QX-40")
FEW = "DO LANGUAGE plpython3u 'from pg_graphrag.search.graph_view import {0}; {0}.MAX_CACHED = {1}'"


@pytest.fixture(scope="module")
def works(module_db: Database) -> Database:
    attach_works(module_db)
    return module_db


def answers(db: Database, limits: dict[str, int]) -> list[str]:
    with psycopg.connect(db.url, autocommit=True) as session:
        for module, limit in limits.items():
            session.execute(FEW.format(module, limit).encode())
        sql = "SELECT to_jsonb(s)::text FROM graphrag.search(%s, mode => %s) s"
        return [str(session.execute(sql, [question, mode]).fetchall()) for mode in MODES for question in QUESTIONS]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "limits", [{"row_names": 1}, {"row_names": 10}, {"joined_nodes": 1}, {"joined_nodes": 30}], ids=str
)
def test_answers_stay_where_a_session_drops_what_it_knows_of_rows(works: Database, limits: dict[str, int]) -> None:
    assert answers(works, limits) == answers(works, {})


@pytest.mark.slow
def test_answers_are_the_same_whatever_the_session_asked_before(module_db: Database) -> None:
    """Reports call machines by nicknames that are concepts there, and no entities: a query joins those of rows that it meets."""
    documents, questions = rows.shop(module_db)
    rows.load(module_db, "shop", documents, rows.SHOP_ATTACHED, None)
    sql = "SELECT to_jsonb(s)::text FROM graphrag.search(%s, 'shop', top_k => 30) s"
    asked = [question for question, _ in questions[::5]]
    with psycopg.connect(module_db.url, autocommit=True) as session:
        for question, _ in questions:
            session.execute(sql, [question])
        answers_before = [session.execute(sql, [question]).fetchall() for question in asked]
    for question, answer in zip(asked, answers_before, strict=True):
        with psycopg.connect(module_db.url, autocommit=True) as session:
            assert session.execute(sql, [question]).fetchall() == answer
