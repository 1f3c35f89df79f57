"""What goes into one embedding request, and how the text that a request is refused for is found."""

from typing import Any

import numpy as np
import pytest
from pg_graphrag.llm.endpoints.endpoint_embedding import (
    ATTEMPTS,
    BATCH_TEXTS,
    MOST_TEXTS,
    PROBE,
    QUICK_REQUESTS,
    QUICK_SECONDS,
    batches,
    embedding,
    note_run,
    texts_at_once,
)
from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, ProviderFault, TimedOut, Unembeddable
from pg_graphrag.llm.endpoints.requests import EmbedRequest, Reply
from pg_graphrag.server.corpus.options import Embedding

MODEL = Embedding("far", "hash", 2)


def run(texts: list[str], refuse: Any, model: Embedding = MODEL) -> tuple[list[Any], list[tuple[str, ...]]]:
    """Serve a task; `refuse` gives the fault of a request's texts, or None."""
    task, asked = embedding(model, texts), []
    request: EmbedRequest = next(task)
    while True:
        asked.append(request.texts)
        fault = refuse(request.texts)
        try:
            reply = Reply(np.ones((len(request.texts), 2), np.float32))
            request = task.send(reply) if fault is None else task.throw(fault)
        except StopIteration as end:
            return end.value, asked


def test_batches_keep_the_order_and_fit_texts_and_tokens() -> None:
    texts = [f"text {n}" for n in range(70)]
    assert [len(part) for part in batches(texts)] == [BATCH_TEXTS, BATCH_TEXTS, 6]
    assert [text for part in batches(texts) for text in part] == texts
    assert [len(part) for part in batches(["x" * 12_000] * 5)] == [2, 2, 1]
    assert [len(part) for part in batches(["x" * 100_000, "y"])] == [1, 1]
    assert batches([]) == []


def test_a_quick_model_is_asked_for_more_texts_at_once_up_to_a_limit() -> None:
    quick, slow = Embedding("far", "quick", 2), Embedding("far", "slow", 2)
    sizes = []
    for _ in range(4):
        sizes.append(texts_at_once(quick))
        note_run(quick, batches(["text"] * 300, sizes[-1]), QUICK_SECONDS / 2)
        note_run(slow, batches(["text"] * 300, texts_at_once(slow)), 2 * QUICK_SECONDS)
    assert sizes == [BATCH_TEXTS, 2 * BATCH_TEXTS, MOST_TEXTS, MOST_TEXTS]
    assert texts_at_once(slow) == BATCH_TEXTS
    few = Embedding("far", "few", 2)
    note_run(few, batches(["text"] * 5, BATCH_TEXTS), 0.1)
    assert texts_at_once(few) == BATCH_TEXTS, "requests that were not full say nothing"


def test_a_batch_of_many_requests_may_take_longer_and_is_quick() -> None:
    many, few = Embedding("far", "many", 2), Embedding("far", "few requests", 2)
    note_run(many, batches(["text"] * BATCH_TEXTS * QUICK_REQUESTS * 3), 2 * QUICK_SECONDS)
    note_run(few, batches(["text"] * BATCH_TEXTS * 3), 2 * QUICK_SECONDS)
    assert (texts_at_once(many), texts_at_once(few)) == (2 * BATCH_TEXTS, BATCH_TEXTS)


def test_how_many_texts_a_model_takes_at_once_is_learnt_from_its_refusals() -> None:
    strict = Embedding("far", "strict", 2)
    result, asked = run(
        [f"text {n}" for n in range(32)], lambda given: ItemFault("no") if len(given) > 10 else None, strict
    )
    assert len(result) == 32
    assert [len(given) for given in asked] == [32, 16, 8, 8, 8, 8]
    note_run(strict, [["text"] * 8], 0.1)
    assert texts_at_once(strict) == 8
    result, _ = run(["a", "b"], lambda given: ItemFault("no") if "b" in given else None, Embedding("far", "picky", 2))
    assert isinstance(result[1], ItemFault)
    assert texts_at_once(Embedding("far", "picky", 2)) == BATCH_TEXTS, "a text was to blame, not how many there were"


def test_a_text_that_is_refused_is_found_and_the_others_have_vectors() -> None:
    texts = [f"text {n}" for n in range(32)]
    result, asked = run(texts, lambda given: ItemFault("no") if "text 21" in given else None)
    assert [text for text, reply in zip(texts, result, strict=True) if isinstance(reply, ItemFault)] == ["text 21"]
    assert len(asked) == 11


def test_of_a_text_too_long_the_beginning_is_taken_down_to_a_limit() -> None:
    text = "".join(chr(97 + n % 26) for n in range(4000))
    result, asked = run([text], lambda given: ContextTooLong("too long") if len(given[0]) > 600 else None)
    assert [given[0] for given in asked] == [text[:length] for length in (4000, 2000, 1000, 500)]
    assert result[0].shape == (2,)
    result, asked = run([text], lambda given: ContextTooLong("too long"))
    assert isinstance(result[0], ContextTooLong)
    assert [len(given[0]) for given in asked[-2:]] == [250, len(PROBE)]


def test_a_providers_fault_ends_the_task() -> None:
    with pytest.raises(ProviderFault):
        run(["a", "b"], lambda given: ProviderFault("gone"))


@pytest.mark.parametrize(
    "fault",
    [
        ItemFault("a vector with NaN"),
        ProviderFault("answered 500", status=500),
        ProviderFault("the connection failed"),
        ProviderFault("a firewall's word", status=403, permanent=True),
        ProviderFault("a vector of 3 dimensions", permanent=True, is_of_vector=True),
        TimedOut("silent", 9.0),
    ],
    ids=[
        "an unusable vector",
        "an error within",
        "an endpoint that does not survive it",
        "a firewall before it",
        "another dimension",
        "silence",
    ],
)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_one_text_over_which_an_endpoint_stumbles_has_no_vector_and_all_others_do(fault: Any, count: int) -> None:
    texts = [f"text {n}" for n in range(count)]
    result, asked = run(texts, lambda given: fault if texts[-1] in given else None)
    assert isinstance(result.pop(), Unembeddable)
    assert all(vector.shape == (2,) for vector in result)
    assert asked.count((texts[-1],)) <= ATTEMPTS


@pytest.mark.parametrize(
    ("fault", "may_be"),
    [
        *((ProviderFault("forbidden", status=status, permanent=True), True) for status in (403, 406, 451)),
        (ProviderFault("forbidden", status=403, was_sent=False), False),
        (ProviderFault("model error", status=424), True),
        (ProviderFault("not yet", status=424, retry_after=9.0), False),
        (ProviderFault("timeout", status=408), False),
        (ProviderFault("busy", status=408, retry_after=9.0), False),
        (ProviderFault("loading", status=409), False),
        (ProviderFault("broken", status=500), True),
        (ProviderFault("kept back", was_sent=False), False),
    ],
)
def test_which_faults_may_be_of_the_text(fault: ProviderFault, may_be: bool) -> None:
    assert fault.may_be_of_text is may_be


def test_an_error_that_passes_costs_no_text_its_vector() -> None:
    faults = [ProviderFault("answered 500", status=500)]
    result, _ = run(["a"], lambda given: faults.pop() if given == ("a",) and faults else None)
    assert result[0].shape == (2,)


def test_whoever_waits_learns_of_the_first_time_out() -> None:
    task = embedding(MODEL, ["a", "b"], is_waited_for=True)
    next(task)
    assert task.throw(TimedOut("silent", 9.0)).is_probe
    with pytest.raises(TimedOut):
        task.send(Reply(np.ones((1, 2), np.float32)))


@pytest.mark.parametrize(
    "fault",
    [
        ProviderFault("gone", status=500),
        ProviderFault("busy", status=429),
        ProviderFault("busy", status=503, retry_after=9.0),
        ProviderFault("no such model", status=404, permanent=True),
        ProviderFault("a key without this model", status=403, permanent=True),
        ProviderFault("a vector of 3 dimensions", permanent=True, is_of_vector=True),
        TimedOut("silent", 9.0),
    ],
)
def test_what_is_the_endpoints_own_fault_blames_no_text(fault: ProviderFault) -> None:
    with pytest.raises(ProviderFault):
        run(["a", "b"], lambda given: fault)
    refused, _ = run(["a", "b"], lambda given: ItemFault("such a request is refused"))
    assert not any(isinstance(one, Unembeddable) for one in refused)
