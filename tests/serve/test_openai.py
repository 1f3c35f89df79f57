"""The OpenAI-compatible front of ``pg-graphrag serve``, by OpenAI's own package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from pg_graphrag.beside.serve.answers import marks

from tests.endpoint import Endpoint
from tests.serve.serving import TOKEN, Serving
from tests.sql.asking import ANSWER

if TYPE_CHECKING:
    from openai import OpenAI

QUESTION = "What did Ada Lovelace write on the Analytical Engine?"


@pytest.fixture
def client(server: Serving) -> Iterator[OpenAI]:
    from openai import OpenAI  # half a second, which every process that collects tests would take

    with OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as client:
        yield client


def test_a_model_for_each_corpus_and_mode(client: OpenAI, corpus: str) -> None:
    names = [model.id for model in client.models.list()]
    assert {corpus, f"{corpus}:hybrid", f"{corpus}:bm25", f"{corpus}:drift"} <= set(names)
    assert client.models.retrieve(f"{corpus}:bm25").id == f"{corpus}:bm25"
    import openai

    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")


def test_an_answer_has_its_citations_as_annotations(client: OpenAI, corpus: str, server: Serving) -> None:
    completion = client.chat.completions.create(model=corpus, messages=[{"role": "user", "content": QUESTION}])
    message = completion.choices[0].message
    assert message.content == ANSWER
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.prompt_tokens > 0
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    assert message.annotations is not None
    (annotation,) = message.annotations
    citation = annotation.url_citation
    assert ANSWER[citation.start_index : citation.end_index] == "[1]"
    assert citation.title
    assert unquote(citation.url).startswith(f"{server.url}/#/{corpus}/document/")


def test_an_answer_streams(client: OpenAI, corpus: str) -> None:
    pieces, annotations, reasons = [], [], []
    stream = client.chat.completions.create(
        model=f"{corpus}:bm25",
        messages=[{"role": "user", "content": [{"type": "text", "text": QUESTION}]}],
        stream=True,
        stream_options={"include_usage": True},
        temperature=0.5,
    )
    for chunk in stream:
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            annotations += getattr(choice.delta, "annotations", None) or []
            reasons.append(choice.finish_reason)
    assert len(pieces) > 3
    assert "".join(pieces) == ANSWER
    assert [annotation["type"] for annotation in annotations] == ["url_citation"]
    assert [reason for reason in reasons if reason] == ["stop"]


def test_the_conversation_and_the_form_reach_the_model(client: OpenAI, corpus: str, module_endpoint: Endpoint) -> None:
    client.chat.completions.create(
        model=corpus,
        messages=[
            {"role": "system", "content": "one short line"},
            {"role": "user", "content": "Who was Ada?"},
            {"role": "assistant", "content": "A mathematician."},
            {"role": "user", "content": "What did she write?"},
        ],
    )
    asked = module_endpoint.requests[-1]
    assert {"role": "assistant", "content": "A mathematician."} in asked.messages
    assert "one short line" in asked.text


def test_what_is_wrong_is_said_as_openai_says_it(client: OpenAI, corpus: str, server: Serving) -> None:
    import openai

    user = {"role": "user", "content": QUESTION}
    with pytest.raises(openai.NotFoundError, match="none"):
        client.chat.completions.create(model="none", messages=[user])
    with pytest.raises(openai.BadRequestError, match="last message"):
        client.chat.completions.create(model=corpus, messages=[{"role": "assistant", "content": "I?"}])
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    with pytest.raises(openai.BadRequestError, match="image_url"):
        client.chat.completions.create(model=corpus, messages=[{"role": "user", "content": [picture]}])
    stranger = openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_a_failing_model_is_an_error_and_no_answer(client: OpenAI, corpus: str, module_endpoint: Endpoint) -> None:
    import openai

    module_endpoint.misbehave("unauthorized", times=3)
    messages = [{"role": "user", "content": "Which engine failed?"}]
    with pytest.raises(openai.APIError):
        for _ in client.chat.completions.create(model=corpus, messages=messages, stream=True):
            pass


def test_a_number_of_a_thousand_digits_cites_nothing() -> None:
    # A document may talk a model into it; Python reads no such number.
    assert marks(f"So [{'9' * 5000}] it is [1].") == [(1, 5012, 5015)]
