"""Ollama's front of ``pg-graphrag serve``: what its clients send and read."""

import json
from typing import Any

import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.serve.serving import Serving, serving
from tests.sql import asking
from tests.sql.asking import ANSWER
from tests.sql.ingest import STORIES, index_all, searched_corpus

QUESTION = "What did Ada Lovelace write on the Analytical Engine?"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_client_finds_version_and_models(server: Serving, corpus: str) -> None:
    with server.client() as client:
        assert client.get("/api/version").json()["version"]
        models = client.get("/api/tags").json()["models"]
        assert {corpus, f"{corpus}:bm25", f"{corpus}:bypass"} <= {model["name"] for model in models}
        assert all(len(model["digest"]) == 64 and "family" in model["details"] for model in models)
        assert client.get("/api/ps").json() == {"models": []}
        for name in (corpus, f"{corpus}:latest"):
            assert client.post("/api/show", json={"model": name}).json()["capabilities"] == ["completion"]


@pytest.mark.parametrize(
    ("path", "asked", "said"),
    [
        ("/api/chat", {"messages": [{"role": "user", "content": QUESTION}]}, lambda line: line["message"]["content"]),
        ("/api/generate", {"prompt": QUESTION, "system": "Be brief."}, lambda line: line["response"]),
    ],
)
def test_an_answer_has_its_sources_below(server: Serving, corpus: str, path: str, asked: Any, said: Any) -> None:
    with server.client() as client:
        reply = client.post(path, json={"model": corpus} | asked)
        assert reply.headers["content-type"] == "application/x-ndjson"
        *pieces, last = lines(reply.text)
        assert len(pieces) > 3
        assert not any(piece["done"] for piece in pieces)
        answer, _, sources = "".join(map(said, pieces)).partition("\n\n---\n")
        assert answer == ANSWER
        assert sources.startswith("[1] [")
        assert (last["done"], last["done_reason"], said(last)) == (True, "stop", "")
        assert last["prompt_eval_count"] > 0 < last["eval_count"]
        whole = client.post(path, json={"model": corpus, "stream": False} | asked).json()
        assert (said(whole), whole["done"]) == (f"{answer}\n\n---\n{sources}", True)
        # A request that asks nothing loads the model.
        assert client.post(path, json={"model": corpus}).json()["done_reason"] == "load"


def test_options_and_form_hold(server: Serving, corpus: str, module_endpoint: Endpoint) -> None:
    asked = {"model": corpus, "stream": False, "messages": [{"role": "user", "content": QUESTION}]}
    with server.client() as client:
        options = {"num_predict": 70, "stop": ["on the"], "temperature": 1, "num_ctx": 100}
        reply = client.post("/api/chat", json=asked | {"options": options}).json()
        assert reply["message"]["content"] == ANSWER.partition("on the")[0]
        assert module_endpoint.requests[-1].body["max_tokens"] == 70
        assert client.post("/api/chat", json=asked | {"options": {"num_predict": -1}}).status_code == 200

        def in_json(body: dict[str, Any]) -> str:
            return (
                asking.lines(body["messages"])
                if asking.is_keywords(body["messages"])
                else '{"sources": [1], "answer": {"work": "notes"}}'
            )

        module_endpoint.reply_to_body(in_json)
        try:
            for form in ("json", {"type": "object", "properties": {"work": {"type": "string"}}}):
                reply = client.post("/api/chat", json=asked | {"format": form}).json()
                assert json.loads(reply["message"]["content"]) == {"work": "notes"}
        finally:
            module_endpoint.reply(asking.lines)


def test_without_a_model_a_programs_task_is_refused(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), STORIES)
    with serving(module_db.url, corpus=corpus) as address, address.client() as client:
        messages = [{"role": "user", "content": "Generate a title for this chat."}]
        reply = client.post("/api/chat", json={"model": corpus, "messages": messages})
        assert reply.status_code == 400
        assert reply.json()["error"].startswith("the corpus has no model for the role")


def test_what_is_wrong_is_said_as_ollama_says_it(server: Serving, corpus: str) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    bad: list[tuple[str, dict[str, Any], int]] = [
        ("/api/chat", {"model": "none", "messages": messages}, 404),
        ("/api/generate", {"model": "none", "prompt": "a"}, 404),
        ("/api/generate", {"model": "none"}, 404),
        ("/api/show", {"model": "none"}, 404),
        ("/api/chat", {"model": corpus, "messages": [*messages, {"role": "tool", "content": "a"}]}, 400),
        ("/api/chat", {"model": corpus, "messages": [{"role": "user", "content": "a", "images": ["a"]}]}, 400),
        ("/api/generate", {"model": corpus, "prompt": "a", "images": ["a"]}, 400),
        ("/api/chat", {"messages": messages}, 400),
    ]
    with server.client() as client:
        for path, body, status in bad:
            reply = client.post(path, json=body)
            assert (reply.status_code, list(reply.json())) == (status, ["error"]), reply.text
            assert isinstance(reply.json()["error"], str)
        for method, path in (("POST", "/api/embed"), ("POST", "/api/pull"), ("DELETE", "/api/delete")):
            reply = client.request(method, path, json={"model": corpus})
            assert (reply.status_code, list(reply.json())) == (404, ["error"])
            assert "/api/generate" in reply.json()["error"]
        offered = {"messages": [{"role": "tool", "content": "a"}, *messages], "tools": [{"type": "function"}]}
        assert client.post("/api/chat", json={"model": corpus, "stream": False} | offered).json()["done"]
        # As Ollama's manual asks: curl -d says that it is a form.
        form = {"content-type": "application/x-www-form-urlencoded"}
        asked = json.dumps({"model": corpus, "messages": messages, "stream": False})
        assert client.post("/api/chat", content=asked, headers=form).json()["done"]
    with server.client("wrong") as client:
        reply = client.get("/api/tags")
        assert (reply.status_code, list(reply.json())) == (401, ["error"])
