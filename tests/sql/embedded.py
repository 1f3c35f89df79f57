"""What the tests of embeddings from an endpoint share: a corpus with such a model, and what its vectors should be."""

from typing import Any

import numpy as np
import psycopg
import pytest

from tests.endpoint.embedder import embed_one
from tests.sql.ingest import corpus_id, rows, searched_corpus

Connection = psycopg.Connection[Any]

DIMENSIONS = 64
QUESTION = "Who admired Ada Lovelace at Harvard?"
# What a model says of every chunk: names, descriptions, a relationship.
SAID = {
    "entities": [
        {"name": "Ada Lovelace", "type": "person", "description": "Wrote notes on an engine."},
        {"name": "The Engine", "type": "product", "description": "A machine of brass."},
    ],
    "relationships": [
        {
            "source": "The Engine",
            "target": "Ada Lovelace",
            "keywords": ["notes", "analysis"],
            "description": "Ada Lovelace wrote about the engine.",
            "strength": 7,
        }
    ],
}


def embedded(db: Connection, name: str, dimensions: int = DIMENSIONS, **options: Any) -> str:
    """Make a corpus whose vectors are those of a provider."""
    return searched_corpus(db, embedding={"provider": name, "model": "hash", "dimensions": dimensions}, **options)


def vectors(db: Connection, corpus: str) -> dict[str, Any]:
    """What was embedded, in words, and its vector."""
    number = corpus_id(db, corpus)
    records = rows(
        db,
        """SELECT CASE WHEN d.title <> '' THEN d.title || E'\n' ELSE '' END
                  || substr(d.content, w.start_offset + 1, w.end_offset - w.start_offset), v.embedding::real[]
             FROM graphrag.chunk_windows w JOIN graphrag.documents d ON d.id = w.document_id
             LEFT JOIN graphrag.window_vectors v ON v.window_id = w.id WHERE w.corpus_id = %s
           UNION ALL SELECT e.key, v.embedding::real[] FROM graphrag.entities e
             LEFT JOIN graphrag.entity_vectors v ON v.entity_id = e.id WHERE e.corpus_id = %s
           UNION ALL SELECT m.name || E'\n' || m.description, v.embedding::real[] FROM graphrag.entity_mentions m
             LEFT JOIN graphrag.entity_mention_vectors v ON v.mention_id = m.id
            WHERE m.corpus_id = %s AND m.description IS NOT NULL""",
        number,
        number,
        number,
    )
    return {text: None if vector is None else np.array(vector) for text, vector in records}


def assert_embedded(db: Connection, corpus: str, dimensions: int = DIMENSIONS) -> None:
    """Every text has the vector that the endpoint gives it."""
    stored = vectors(db, corpus)
    assert stored
    for text, vector in stored.items():
        assert vector is not None, text
        assert vector == pytest.approx(embed_one(text, dimensions), abs=1e-6), text
