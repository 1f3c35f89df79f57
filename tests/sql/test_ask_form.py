"""What a caller says of how `ask` answers: instructions, tokens, a JSON schema; and a model without documents."""

import json
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql import asking
from tests.sql.ingest import STORIES, index_all, searched_corpus, value

REPLY = asking.lines
QUESTION = "What did Ada Lovelace write on the Analytical Engine?"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"work": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}}},
    "required": ["work", "parts"],
    "additionalProperties": False,
    "$defs": {"Part": {"type": "object", "properties": {"number": {"type": "integer"}}}},
}
IN_JSON = {"work": "notes [1]", "parts": [{"number": 1}]}


@pytest.fixture
def corpus(db: Database, endpoint: Endpoint) -> str:
    return asking.stories(db, endpoint)


def test_instructions_of_any_form_reach_the_model(db: Database, endpoint: Endpoint, corpus: str) -> None:
    told = "Speak as a pirate does.\n\n" + "Say nothing of parrots. " * 1000
    answer, *_ = asking.ask(db, QUESTION, corpus, options={"instructions": told})
    assert answer == asking.ANSWER
    assert told in endpoint.requests[-1].messages[-1]["content"]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="instructions"):
        asking.ask(db, QUESTION, corpus, options={"instructions": "a" * 32_769})
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="of graphrag"):
        value(db, "SELECT count(*) FROM graphrag.search('Ada', %s, options => '{\"bypass\": true}')", corpus)


def test_an_answer_has_as_many_tokens_as_asked_for(db: Database, endpoint: Endpoint, corpus: str) -> None:
    for tokens in (50, 60):
        asking.ask(db, QUESTION, corpus, options={"max_answer_tokens": tokens})
        # One of another limit is another answer.
        assert endpoint.requests[-1].body["max_tokens"] == tokens


@pytest.mark.parametrize("options", [{}, {"bypass": True}])
def test_no_option_of_the_corpus_raises_an_askers_limit(
    db: Database, endpoint: Endpoint, options: dict[str, Any]
) -> None:
    corpus = asking.stories(db, endpoint, llm={"max_output_tokens": 100})
    for asked, sent in ((50, 50), (8000, 100), (None, 100)):
        asking.ask(db, QUESTION, corpus, options=options | {"max_answer_tokens": asked})
        assert endpoint.requests[-1].body["max_tokens"] == sent
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="max_answer_tokens"):
        asking.ask(db, QUESTION, corpus, options=options | {"max_answer_tokens": 8001})


def as_json(body: dict[str, Any], reply: Any) -> str:
    return asking.lines(body["messages"]) if asking.is_keywords(body["messages"]) else json.dumps(reply)


def test_an_answer_in_json_has_the_asked_form_and_its_sources(db: Database, endpoint: Endpoint, corpus: str) -> None:
    endpoint.reply_to_body(lambda body: as_json(body, {"sources": [1, 9], "answer": IN_JSON}))
    answer, citations, _, _ = asking.ask(db, QUESTION, corpus, options={"answer_schema": SCHEMA})
    # What stands in brackets there cites nothing, and is left.
    assert json.loads(answer) == IN_JSON
    assert [citation["number"] for citation in citations] == [1]
    sent = endpoint.requests[-1].body["response_format"]["json_schema"]["schema"]
    assert sent["properties"]["answer"]["anyOf"][0]["required"] == ["work", "parts"]
    assert sent["$defs"] == SCHEMA["$defs"]
    assert asking.stream(db, QUESTION, corpus, options={"answer_schema": SCHEMA}) == [answer]


def test_json_of_no_document_is_none(db: Database, endpoint: Endpoint, corpus: str) -> None:
    endpoint.reply_to_body(lambda body: as_json(body, {"sources": [], "answer": None}))
    answer, citations, *_ = asking.ask(db, QUESTION, corpus, options={"answer_schema": SCHEMA})
    assert (answer, citations) == ("The documents do not answer this question.", [])
    endpoint.reply_to_body(lambda body: as_json(body, {"sources": [], "answer": IN_JSON}))
    with pytest.raises(psycopg.errors.DataException, match="cites none"):
        asking.ask(db, "Which notes?", corpus, options={"answer_schema": SCHEMA})


def test_the_second_attempt_at_json_is_told_why_and_a_stream_and_its_answer_are_one(
    db: Database, endpoint: Endpoint, corpus: str
) -> None:
    replies = iter([{"sources": [], "answer": IN_JSON}, {"sources": ["1"], "answer": IN_JSON}])
    other = {"sources": [1], "answer": IN_JSON | {"work": "other"}}
    endpoint.reply_to_body(
        lambda body: (
            asking.lines(body["messages"]) if asking.is_keywords(body["messages"]) else json.dumps(next(replies, other))
        )
    )
    with db.transaction():
        (streamed,) = asking.stream(db, QUESTION, corpus, options={"answer_schema": SCHEMA})
        assert "named no document" in endpoint.requests[-1].messages[-1]["content"]
        answer, citations, *_ = asking.ask(db, QUESTION, corpus, options={"answer_schema": SCHEMA})
    assert json.loads(streamed) == IN_JSON == json.loads(answer)
    assert [citation["number"] for citation in citations] == [1]


def test_a_schema_that_the_endpoint_refuses_costs_no_other_request_its_own(
    db: Database, endpoint: Endpoint, corpus: str
) -> None:
    endpoint.reply_to_body(lambda body: as_json(body, {"sources": [1], "answer": IN_JSON}))
    endpoint.misbehave("no_response_format", when=lambda request: "asker" in str(request.body.get("response_format")))
    asked = SCHEMA | {"description": "asker's"}
    answer, *_ = asking.ask(db, QUESTION, corpus, options={"answer_schema": asked})
    assert json.loads(answer) == IN_JSON
    asking.ask(db, "Who was Ada?", corpus)
    assert "response_format" in endpoint.requests[-2].body


def test_an_askers_schema_goes_without_bounds_where_the_endpoint_refuses_them(
    db: Database, endpoint: Endpoint, corpus: str
) -> None:
    endpoint.reply_to_body(lambda body: as_json(body, {"sources": [1], "answer": IN_JSON}))
    bounded = SCHEMA | {"properties": SCHEMA["properties"] | {"work": {"type": "string", "maxLength": 77}}}

    def has_bound(request: Any) -> bool:
        return "77" in str(request.body.get("response_format"))

    endpoint.misbehave("bad_request", None, when=has_bound, message="Unsupported: maxLength in schema")
    answer, *_ = asking.ask(db, QUESTION, corpus, options={"answer_schema": bounded})
    assert json.loads(answer) == IN_JSON
    sent = endpoint.requests[-1].body["response_format"]["json_schema"]["schema"]
    assert sent["properties"]["answer"]["anyOf"][0]["properties"]["work"] == {"type": "string"}


def test_a_model_is_asked_without_documents(db: Database, endpoint: Endpoint, corpus: str) -> None:
    endpoint.reply('{"title": "Ada\'s Notes"}')
    history = [{"role": "user", "content": "Title this. "}]
    options = {"bypass": True, "instructions": "Be brief.", "max_answer_tokens": 20}
    answer, citations, usage, context = asking.ask(db, QUESTION, corpus, options=options, history=history)
    assert (answer, citations, usage["calls"]) == ('{"title": "Ada\'s Notes"}', [], 1)
    assert context["chunks"] == []
    (request,) = endpoint.requests
    # Turns of one role are one.
    assert request.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"Title this. \n\n{QUESTION}"},
    ]
    assert request.body["max_tokens"] == 20
    assert value(
        db, "SELECT calls FROM graphrag.estimate_ask(%s, %s, options => '{\"bypass\": true}')", QUESTION, corpus
    )


def test_a_model_without_documents_is_asked_in_one_message_as_it_stands(
    db: Database, endpoint: Endpoint, corpus: str
) -> None:
    task = "a" * 50_000 + "\n" + "b" * 50_000
    asking.ask(db, task, corpus, options={"bypass": True})
    assert endpoint.requests[-1].messages == [{"role": "user", "content": task}]
    for length, options in ((8_193, {}), (131_073, {"bypass": True})):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"more than {length - 1:,}"):
            asking.ask(db, "a" * length, corpus, options=options)


def test_what_a_model_says_without_documents_is_for_its_asker_alone(
    db: Database, endpoint: Endpoint, corpus: str
) -> None:
    def ask() -> str:
        return asking.ask(db, "Say a word.", corpus, options={"bypass": True})[0]

    endpoint.reply("one")
    assert [ask(), ask()] == ["one", "one"]
    endpoint.reply("two")
    with asking.as_reader(db):
        assert ask() == "two"
    assert ask() == "one"


def test_a_corpus_may_have_no_bypass_but_for_its_owner(db: Database, endpoint: Endpoint) -> None:
    corpus = asking.stories(db, endpoint, llm={"bypass": False})
    assert asking.ask(db, QUESTION, corpus, options={"bypass": True})[0] == asking.ANSWER
    with asking.as_reader(db):
        for ask in (asking.ask, asking.stream):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="no bypass") as refused:
                ask(db, QUESTION, corpus, options={"bypass": True})
            assert "llm.bypass" in str(refused.value.diag.message_hint)
        assert asking.ask(db, QUESTION, corpus)[0] == asking.ANSWER
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"llm\.bypass"):
        asking.with_model(db, endpoint, llm={"bypass": "no"})


def test_without_a_model_neither_json_nor_a_model_is_to_be_had(db: Database) -> None:
    corpus = index_all(db, searched_corpus(db), STORIES)
    for options in ({"bypass": True}, {"answer_schema": SCHEMA}):
        for ask in (asking.ask, asking.stream):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="no model"):
                ask(db, QUESTION, corpus, options=options)
