"""graphrag.embed: the local model as a SQL function."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import new_corpus, refused, rows, value

pytestmark = pytest.mark.usefixtures("real_encoder")


def test_vectors_are_those_of_the_reference_model(module_db: Database, shared_data: Path) -> None:
    with (shared_data / "minilm" / "reference.jsonl").open() as lines:
        given = [json.loads(line) for line in lines]
    for item in given:
        vector = np.array(value(module_db, "SELECT graphrag.embed(%s)::real[]", item["text"]))
        assert float(vector @ np.array(item["embedding"])) >= 0.9999


@pytest.mark.parametrize("text", ["", " ", "x", "👩‍💻", "עברית", "a" * 100_000, "$$ {} '\\"])
def test_any_text_has_a_vector_of_length_1(module_db: Database, text: str) -> None:
    vector = np.array(value(module_db, "SELECT graphrag.embed(%s)::real[]", text))
    assert vector.shape == (384,)
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)


def test_null_has_no_vector(module_db: Database) -> None:
    assert value(module_db, "SELECT graphrag.embed(NULL)") is None


def test_the_default_corpus_need_not_exist(module_db: Database) -> None:
    assert rows(module_db, "SELECT FROM graphrag.corpora WHERE name = 'default'") == []
    assert value(module_db, "SELECT vector_dims(graphrag.embed('x'))") == 384
    name = new_corpus(module_db)
    assert value(module_db, "SELECT graphrag.embed('x') = graphrag.embed('x', %s)", name) is True


@pytest.mark.parametrize(("corpus", "sqlstate"), [("nowhere", "42704"), (None, "22004")])
def test_an_unknown_corpus_is_an_error(module_db: Database, corpus: str | None, sqlstate: str) -> None:
    diag = refused(module_db, "SELECT graphrag.embed('x', %s)", corpus)
    assert diag.sqlstate == sqlstate
    assert diag.message_hint


def test_one_model_answers_whatever_stands_beside_a_text(module_db: Database) -> None:
    alone = rows(module_db, "SELECT graphrag.embed(t)::real[] FROM (VALUES ('one'), ('two')) AS v (t)")
    again = rows(
        module_db, "SELECT graphrag.embed(t)::real[] FROM (VALUES ('two'), ('a much longer text'), ('one')) AS v (t)"
    )
    assert alone[0] == again[2]
    assert alone[1] == again[0]
