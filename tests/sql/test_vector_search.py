"""Dense retrieval equals brute force, with and without an HNSW index."""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import corpus_id, delete, new_corpus, put, rows, search, value, work

QUERIES = ("a boat on the river", "who baked the bread?", "stars in the night", "x")
THINGS = ("boat", "bread", "star", "river", "night", "horse", "garden", "bridge", "letter", "clock")
DEEDS = ("sank in the cold water", "was baked in the morning", "shone over the hill", "fell from the table")


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = new_corpus(module_db, chunk_token_size=250, chunk_overlap=0)
    for n in range(60):
        sentences = [
            f"The {THINGS[(n + i) % 10]} number {n} {DEEDS[(n // 10 + i) % 4]} of day {i}."
            for i in range(1 + n % 3 * 8)
        ]
        put(module_db, name, f"{n:02}", " ".join(sentences), metadata={"even": n % 2 == 0})
    work(module_db)
    return name


def vector(db: psycopg.Connection[Any], text: str) -> Any:
    return np.array(value(db, "SELECT graphrag.embed(%s)::real[]", text))


def brute_force(db: psycopg.Connection[Any], corpus: str, query: str, where: str = "true") -> dict[int, float]:
    """Cosine of the best window of each chunk that exists, by numpy."""
    best: dict[int, float] = {}
    target = vector(db, query)
    for chunk, embedding in rows(
        db,
        "SELECT v.chunk_id, v.embedding::real[] FROM graphrag.window_vectors v"
        " JOIN graphrag.embedding_spaces s ON s.id = v.space_id JOIN graphrag.documents d ON d.id = v.document_id"
        f" WHERE s.corpus_id = %s AND {where}",
        corpus_id(db, corpus),
    ):
        cosine = float(np.dot(embedding, target) / np.linalg.norm(embedding) / np.linalg.norm(target))
        best[chunk] = max(best.get(chunk, -1.0), cosine)
    return best


def assert_is_brute_force(
    db: Database, corpus: str, query: str, top_k: int, exact: bool = True, **filters: Any
) -> None:
    wanted = brute_force(db, corpus, query, "d.metadata @> '{\"even\": true}'" if filters else "true")
    found = search(db, query, corpus, "naive", top_k=top_k, **filters)
    assert len(found) == min(top_k, len(wanted))
    for row in found:
        assert row["score"] == pytest.approx(wanted[row["chunk_id"]], abs=1e-5)
    scores = sorted(wanted.values(), reverse=True)[: len(found)]
    if exact:
        assert [row["score"] for row in found] == pytest.approx(scores, abs=1e-5)
    else:
        right = sum(row["score"] >= scores[-1] - 1e-5 for row in found)
        assert right >= 0.95 * len(found)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("top_k", [1, 7, 60, 1000])
def test_without_an_index_the_nearest_are_exactly_those_of_brute_force(
    module_db: Database, corpus: str, query: str, top_k: int
) -> None:
    assert_is_brute_force(module_db, corpus, query, top_k)
    assert_is_brute_force(module_db, corpus, query, top_k, filter={"even": True})


def test_some_chunks_have_several_windows(module_db: Database, corpus: str) -> None:
    most = "SELECT max(ordinal) FROM graphrag.chunk_windows WHERE corpus_id = %s"
    assert value(module_db, most, corpus_id(module_db, corpus)) > 0


def test_with_hnsw_the_nearest_are_those_of_brute_force_and_as_many(module_db: Database, corpus: str) -> None:
    built = value(module_db, "SELECT graphrag._index_vectors(%s, 1)", corpus_id(module_db, corpus))
    assert len(built) == 2
    assert value(module_db, "SELECT graphrag._index_vectors(%s, 1)", corpus_id(module_db, corpus)) == []
    for query in QUERIES:
        for top_k in (1, 7, 60, 100, 1000):
            assert_is_brute_force(module_db, corpus, query, top_k, exact=False)
            assert_is_brute_force(module_db, corpus, query, top_k, exact=False, filter={"even": True})


def test_with_hnsw_and_most_documents_deleted_the_rest_is_still_found(module_db: Database, corpus: str) -> None:
    value(module_db, "SELECT graphrag._index_vectors(%s, 1)::text", corpus_id(module_db, corpus))
    for n in range(50):
        delete(module_db, corpus, f"{n:02}")
    for query in QUERIES:
        assert_is_brute_force(module_db, corpus, query, 5, exact=False)
    work(module_db)
    for query in QUERIES:
        assert_is_brute_force(module_db, corpus, query, 5, exact=False)
        assert_is_brute_force(module_db, corpus, query, 1000, exact=False)


def test_an_index_too_small_to_pay_is_not_built(module_db: Database) -> None:
    name = new_corpus(module_db)
    put(module_db, name, "a", "The boat sank.")
    work(module_db)
    assert value(module_db, "SELECT graphrag._index_vectors(%s, 1000)", corpus_id(module_db, name)) == []
    module_db.execute("SELECT graphrag.optimize(%s)", [name])
    (space,) = rows(
        module_db, "SELECT id FROM graphrag.embedding_spaces WHERE corpus_id = %s", corpus_id(module_db, name)
    )
    for table in ("window_vectors", "entity_vectors"):
        index = f"graphrag.{table}_{space[0]}_hnsw_idx"
        assert value(module_db, "SELECT to_regclass(%s)", index) is None
