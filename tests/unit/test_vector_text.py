"""Vectors in pgvector's text form: not a bit of a float32 is lost, in neither form."""

import numpy as np
from pg_graphrag.llm.embedding.vector_text import vector_text, vector_texts


def _vectors() -> np.ndarray:
    vectors = np.random.default_rng(7).standard_normal((20, 24)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    # Zeros of both signs, the smallest numbers, a power of two, the neighbours of one, large ones.
    vectors[0, :9] = [0.0, -0.0, 1e-45, -1.1754942e-38, 1.1754944e-38, 0.25, 0.99999994, 1.0000001, -3.4028235e38]
    return vectors


def test_the_hexadecimal_form_keeps_every_bit() -> None:
    vectors = _vectors()
    texts = vector_texts(list(vectors))
    back = np.array([[float.fromhex(number) for number in text[1:-1].split(",")] for text in texts], np.float32)
    assert (back.view(np.uint32) == vectors.view(np.uint32)).all()
    assert vector_texts([]) == []


def test_the_decimal_form_keeps_every_bit() -> None:
    vectors = _vectors()
    back = np.array([[float(number) for number in vector_text(row)[1:-1].split(",")] for row in vectors], np.float32)
    assert (back.view(np.uint32) == vectors.view(np.uint32)).all()
