"""What goes into one embedding request, and how the text that a request is refused for is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pg_graphrag.corpus.options import Embedding
from pg_graphrag.llm.embedding import BATCH_TEXTS, batches, embedding
from pg_graphrag.llm.faults import ContextTooLong, ItemFault, ProviderFault
from pg_graphrag.llm.requests import EmbedRequest, Reply

MODEL = Embedding("far", "hash", 2)


def run(texts: list[str], refuse: Any) -> tuple[list[Any], list[tuple[str, ...]]]:
    """Serve a task; `refuse` gives the fault of a request's texts, or None."""
    task, asked = embedding(MODEL, texts), []
    request: EmbedRequest = next(task)
    while True:
        asked.append(request.texts)
        fault = refuse(request.texts)
        try:
            made = Reply(np.ones((len(request.texts), 2), np.float32))
            request = task.send(made) if fault is None else task.throw(fault)
        except StopIteration as end:
            return end.value, asked


def test_batches_keep_the_order_and_fit_texts_and_tokens() -> None:
    texts = [f"text {n}" for n in range(70)]
    assert [len(part) for part in batches(texts)] == [BATCH_TEXTS, BATCH_TEXTS, 6]
    assert [text for part in batches(texts) for text in part] == texts
    assert [len(part) for part in batches(["x" * 12_000] * 5)] == [2, 2, 1]
    assert [len(part) for part in batches(["x" * 100_000, "y"])] == [1, 1]
    assert batches([]) == []


def test_a_text_that_is_refused_is_found_and_the_others_have_vectors() -> None:
    texts = [f"text {n}" for n in range(32)]
    found, asked = run(texts, lambda given: ItemFault("no") if "text 21" in given else None)
    assert [text for text, one in zip(texts, found, strict=True) if isinstance(one, ItemFault)] == ["text 21"]
    assert len(asked) == 11


def test_of_a_text_too_long_the_beginning_is_taken_down_to_a_limit() -> None:
    text = "".join(chr(97 + n % 26) for n in range(4000))
    found, asked = run([text], lambda given: ContextTooLong("too long") if len(given[0]) > 600 else None)
    assert [given[0] for given in asked] == [text[:length] for length in (4000, 2000, 1000, 500)]
    assert found[0].shape == (2,)
    found, asked = run([text], lambda given: ContextTooLong("too long"))
    assert isinstance(found[0], ContextTooLong)
    assert len(asked[-1][0]) == 250


def test_a_providers_fault_ends_the_task() -> None:
    with pytest.raises(ProviderFault):
        run(["a", "b"], lambda given: ProviderFault("gone"))
