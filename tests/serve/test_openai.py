"""The OpenAI-compatible front of ``pg-graphrag serve``, by OpenAI's own package."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from pg_graphrag.beside.serve.answers import marks
from pg_graphrag.beside.serve.callers import Caller

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.serve.serving import TOKEN, Serving, callers, serving
from tests.sql import asking
from tests.sql.asking import ANSWER
from tests.sql.ingest import STORIES, index_all, put, searched_corpus

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
    assert {corpus, f"{corpus}:hybrid", f"{corpus}:bm25", f"{corpus}:drift", f"{corpus}:sources"} <= set(names)
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


def test_the_conversation_and_instructions_of_any_length_reach_the_model(
    client: OpenAI, corpus: str, module_endpoint: Endpoint
) -> None:
    told = "Answer as a sailor does. " * 2000
    long_ago = [{"role": role, "content": "x" * 5000} for _ in range(60) for role in ("user", "assistant")]
    client.chat.completions.create(
        model=corpus,
        messages=[
            {"role": "system", "content": told},
            *long_ago,
            {"role": "user", "content": "Who was Ada?"},
            {"role": "assistant", "content": "A mathematician. [1]\n\n---\n[1] [Ada](http://a/#/b)"},
            {"role": "user", "content": "What did she write?"},
        ],
    )
    asked = module_endpoint.requests[-1]
    assert {"role": "assistant", "content": "A mathematician. [1]"} in asked.messages
    assert told[:30_000] in asked.messages[-1]["content"]
    assert asked.text.count("x" * 5000) in (4, 5, 6)


def test_what_programs_leave_open_they_may_say(client: OpenAI, corpus: str) -> None:
    nothing = dict.fromkeys(
        ("stream", "n", "max_tokens", "stop", "stream_options", "response_format", "tools", "temperature")
    )
    completion = client.chat.completions.create(
        model=corpus, messages=[{"role": "user", "content": QUESTION}], extra_body=nothing
    )
    assert completion.choices[0].message.content == ANSWER


def test_the_text_ends_where_it_is_to(client: OpenAI, corpus: str, module_endpoint: Endpoint) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    for stream in (False, True):
        reply = client.chat.completions.create(
            model=corpus, messages=messages, stop=["on the", "Babbage"], stream=stream
        )
        if stream:
            choices = [choice for chunk in reply for choice in chunk.choices]
            text, reason = "".join(choice.delta.content or "" for choice in choices), choices[-1].finish_reason
        else:
            text, reason = reply.choices[0].message.content, reply.choices[0].finish_reason
        assert (text, reason) == (ANSWER.partition("on the")[0], "stop")
    client.chat.completions.create(model=corpus, messages=messages, max_tokens=70)
    assert module_endpoint.requests[-1].body["max_tokens"] == 70
    client.chat.completions.create(model=corpus, messages=messages, max_completion_tokens=80)
    assert module_endpoint.requests[-1].body["max_tokens"] == 80


def test_what_the_models_limit_cut_off_says_so(client: OpenAI, corpus: str, module_endpoint: Endpoint) -> None:
    long = "Ada Lovelace wrote notes [1]. They were read by few. " * 2
    module_endpoint.reply(lambda messages: asking.lines(messages) if asking.is_keywords(messages) else long)
    module_endpoint.misbehave("cut_off", when=lambda request: "<documents-" in request.text)
    messages = [{"role": "user", "content": f"{QUESTION} Be brief."}]
    try:
        completion = client.chat.completions.create(model=corpus, messages=messages, max_tokens=90)
    finally:
        module_endpoint.reply(asking.lines)
    assert completion.choices[0].finish_reason == "length"


def test_a_stream_says_what_it_used_where_asked(client: OpenAI, corpus: str) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    stream = client.chat.completions.create(
        model=corpus, messages=messages, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert all(chunk.usage is None for chunk in chunks)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.prompt_tokens > last.usage.completion_tokens > 0
    *_, alone = client.chat.completions.create(
        model=f"{corpus}:bypass", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    assert alone.usage is not None
    assert alone.usage.prompt_tokens >= len(QUESTION) // 4
    without = client.chat.completions.create(model=corpus, messages=messages, stream=True)
    assert all(chunk.usage is None and chunk.choices for chunk in without)


def test_an_answer_is_parsed_as_the_asked_type(client: OpenAI, corpus: str, module_endpoint: Endpoint) -> None:
    from pydantic import BaseModel

    class Part(BaseModel):
        number: int

    class Work(BaseModel):
        title: str
        parts: list[Part]

    told: dict[str, Any] = {"sources": [1], "answer": {"title": "Notes [1]", "parts": [{"number": 7}]}}

    def reply(body: dict[str, Any]) -> str:
        return asking.lines(body["messages"]) if asking.is_keywords(body["messages"]) else json.dumps(told)

    module_endpoint.reply_to_body(reply)
    try:
        messages = [{"role": "user", "content": "Which work is Ada's?"}]
        message = (
            client.chat.completions.parse(model=corpus, messages=messages, response_format=Work).choices[0].message
        )
        assert message.parsed == Work(title="Notes [1]", parts=[Part(number=7)])
        sent = module_endpoint.requests[-1].body["response_format"]["json_schema"]["schema"]
        assert "Part" in sent["$defs"]
        told["answer"] = {"any": "object"}
        completion = client.chat.completions.create(
            model=corpus,
            messages=[{"role": "user", "content": "Which object?"}],
            response_format={"type": "json_object"},
            stream=True,
        )
        text = "".join(choice.delta.content or "" for chunk in completion for choice in chunk.choices)
        assert json.loads(text) == {"any": "object"}
        # What the documents do not hold has no such form.
        told |= {"sources": [], "answer": None}
        message = (
            client.chat.completions.parse(
                model=corpus, messages=[{"role": "user", "content": "Which ship?"}], response_format=Work
            )
            .choices[0]
            .message
        )
        assert (message.parsed, message.content) == (None, None)
        assert message.refusal == "The documents do not answer this question."
    finally:
        module_endpoint.reply(asking.lines)


OPEN_WEBUI = (
    "### Task:\nGenerate a concise title.\n### Output:\nJSON format: {}\n### Chat History:\n"
    "<chat_history>\nUSER: What did Ada Lovelace write?\nASSISTANT: Notes.\n"
    + f"{'x' * 99}\n" * 200
    + "</chat_history>"
)


def test_a_model_without_documents_is_listed_for_whom_it_answers(
    module_db: Database, module_endpoint: Endpoint
) -> None:
    import openai

    named = {asking.stories(module_db, module_endpoint, llm={"bypass": may}): may for may in (True, False)}
    empty = searched_corpus(module_db)
    put(module_db, empty, "ada", "Ada wrote notes.")
    module_db.execute("DROP ROLE IF EXISTS asker")
    module_db.execute("CREATE ROLE asker IN ROLE graphrag_reader")
    who = callers({"token-of-somebody-who-asks": Caller("asker", "asker")})
    with serving(module_db.url, who, corpus=empty) as address:
        for token, has_all in ((TOKEN, True), ("token-of-somebody-who-asks", False)):
            with openai.OpenAI(base_url=f"{address.url}/v1", api_key=token, max_retries=0) as client:
                listed = {model.id for model in client.models.list()}
                for corpus, may in {**named, empty: None}.items():
                    name = f"{corpus}:bypass"
                    is_there = may is not None and (may or has_all)
                    assert (corpus in listed, name in listed) == (True, is_there)
                    if is_there:
                        assert client.models.retrieve(name).id == name
                    else:
                        with pytest.raises(openai.NotFoundError):
                            client.models.retrieve(name)
    module_db.execute("DROP ROLE asker")


@pytest.mark.parametrize("model", ["", ":bypass"])
def test_what_a_program_asks_for_itself_needs_no_documents(
    client: OpenAI, corpus: str, module_endpoint: Endpoint, model: str
) -> None:
    module_endpoint.forget()
    # However long, and of one line: the model has it as it stands.
    question = f"{model} Say hello. {'x' * 20_000}" if model else OPEN_WEBUI
    completion = client.chat.completions.create(model=corpus + model, messages=[{"role": "user", "content": question}])
    assert completion.choices[0].message.content == ANSWER
    (request,) = module_endpoint.requests
    assert request.messages == [{"role": "user", "content": question}]


def test_sources_stand_in_the_text_where_the_model_says_so(client: OpenAI, corpus: str, server: Serving) -> None:
    for stream in (False, True):
        reply = client.chat.completions.create(
            model=f"{corpus}:hybrid:sources", messages=[{"role": "user", "content": QUESTION}], stream=stream
        )
        if stream:
            text = "".join(choice.delta.content or "" for chunk in reply for choice in chunk.choices)
        else:
            text = reply.choices[0].message.content
        answer, _, sources = text.partition("\n\n---\n")
        assert answer == ANSWER
        assert re.fullmatch(rf"\[1\] \[[^]]+\]\({server.url}/#/[^)]+\)", sources)


def test_a_model_that_there_is_not_is_said_before_a_stream_begins(client: OpenAI, corpus: str) -> None:
    import openai

    with pytest.raises(openai.NotFoundError, match="no model 'none'"):
        client.chat.completions.create(model="none", messages=[{"role": "user", "content": QUESTION}], stream=True)


def test_without_a_model_programs_are_told_so_and_people_get_sentences(module_db: Database) -> None:
    import openai

    corpus = index_all(module_db, searched_corpus(module_db), STORIES)
    with (
        serving(module_db.url, corpus=corpus) as address,
        openai.OpenAI(base_url=f"{address.url}/v1", api_key=TOKEN) as client,
    ):
        answer = client.chat.completions.create(
            model=corpus, messages=[{"role": "user", "content": QUESTION}], max_tokens=30
        )
        text = answer.choices[0].message.content
        assert text is not None
        assert text.startswith("No model wrote this.")
        assert (len(text.encode()), answer.choices[0].finish_reason) == (240, "length")
        schema: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
        asked: list[dict[str, Any]] = [
            {"messages": [{"role": "user", "content": OPEN_WEBUI}]},
            {"messages": [{"role": "user", "content": QUESTION}], "response_format": schema},
            {"messages": [{"role": "user", "content": QUESTION}], "response_format": schema, "stream": True},
        ]
        for request in asked:
            with pytest.raises(openai.BadRequestError, match="no model for the role"):
                client.chat.completions.create(model=corpus, **request)


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
    for asked, said in (
        ({"messages": [{"role": "user", "content": "a b " * 3000}]}, "12,000 characters, more than 8,192"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
            r"messages\.0\.content\..*\.0\.text",
        ),
        ({"stop": ["a"] * 20}, "at most 16"),
        ({"tool_choice": "required"}, "no tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "a"}}}, "no tools"),
        ({"messages": [user, {"role": "tool", "tool_call_id": "1", "content": "a"}]}, "last message"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["text", "audio"]}, "audio"),
        ({"n": 2}, "n: "),
    ):
        with pytest.raises(openai.BadRequestError, match=said):
            client.chat.completions.create(**{"model": corpus, "messages": [user]} | asked)
    with pytest.raises(openai.NotFoundError, match="/v1/chat/completions"):
        client.embeddings.create(model=corpus, input="a")
    with (
        openai.OpenAI(base_url=server.url, api_key=TOKEN, max_retries=0) as without,
        pytest.raises(openai.NotFoundError, match="under /v1"),
    ):
        without.models.list()
    stranger = openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_tools_that_are_offered_are_left_aside(client: OpenAI, corpus: str, module_endpoint: Endpoint) -> None:
    # Open WebUI offers its own in every chat, and sends what they said to another model before.
    tool: Any = {"type": "function", "function": {"name": "a", "parameters": {}}}
    call = {"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": "Who was Ada?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "It rains."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I do not know."}]},
        {"role": "user", "content": f"{QUESTION} Say it again."},
    ]
    for choice in ({}, {"tool_choice": "auto"}, {"tool_choice": "none"}):
        reply = client.chat.completions.create(model=corpus, messages=messages, tools=[tool], **choice)
        assert (reply.choices[0].message.content, reply.choices[0].message.tool_calls) == (ANSWER, None)
    assert "It rains." not in module_endpoint.requests[-1].text
    assert {"role": "assistant", "content": "I do not know."} in module_endpoint.requests[-1].messages


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


NODE = """
import OpenAI from "openai";
import { Ollama } from "ollama";
const [url, token, model, question] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
const messages = [{ role: "user", content: question }];
const said = {};
said.models = [];
for await (const one of client.models.list()) said.models.push(one.id);
said.whole = (await client.chat.completions.create({ model, messages })).choices[0].message;
const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
const final = await stream.finalChatCompletion();
said.streamed = final.choices[0].message.content;
said.tokens = final.usage.total_tokens;
said.errors = [];
const refused = [
    () => client.chat.completions.create({ model: "none", messages, stream: true }),
    () => client.chat.completions.create({ model, messages, n: 2 }),
    () => client.embeddings.create({ model, input: "a" }),
    () => new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 }).models.list(),
];
for (const call of refused) await call().catch((error) => said.errors.push([error.status, error.message]));
const ollama = new Ollama({ host: url, headers: { authorization: `Bearer ${token}` } });
said.ollama = "";
for await (const piece of await ollama.chat({ model, messages, stream: true })) said.ollama += piece.message.content;
await ollama.embed({ model, input: "a" }).catch((error) => (said.embed = error.message));
console.log(JSON.stringify(said));
"""


def test_clients_of_node_ask_and_are_told(server: Serving, corpus: str, node: Path, tmp_path: Path) -> None:
    (tmp_path / "ask.mjs").write_text(NODE)
    (tmp_path / "node_modules").symlink_to(node)
    command = ["node", "ask.mjs", server.url, TOKEN, corpus, QUESTION]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout[done.stdout.index("{") :])
    assert {corpus, f"{corpus}:bm25"} <= set(said["models"])
    assert (said["whole"]["content"], said["streamed"]) == (ANSWER, ANSWER)
    assert said["whole"]["annotations"][0]["url_citation"]["url"].startswith(server.url)
    assert said["tokens"] > 0
    assert [status for status, _ in said["errors"]] == [404, 400, 404, 401]
    assert all(len(message) > 20 for _, message in said["errors"])
    assert said["ollama"].startswith(f"{ANSWER}\n\n---\n[1] ")
    assert "/api/chat" in said["embed"]
