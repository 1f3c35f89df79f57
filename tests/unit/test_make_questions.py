"""Questions made by a scripted model: as many as asked for, of every class, whatever it replies at first."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pg_graphrag.beside.cli import main
from pg_graphrag.beside.judging.client_model import Model
from pg_graphrag.beside.judging.generate import Passage, describe, global_questions, local_questions, number_questions
from pg_graphrag.ground.errors import GraphRAGError

from tests.endpoint import Endpoint

Messages = Sequence[dict[str, Any]]


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(served: Endpoint) -> Endpoint:
    served.reply(obedient)
    served.forget()
    return served


def obedient(messages: Messages) -> str:
    """A model that gives what it is asked for, as often as it is asked for."""
    prompt = messages[0]["content"]
    if match := re.search(r"exactly (\d+) (users|tasks|questions)", prompt):
        count, kind = int(match[1]), match[2]
        about = re.findall(r"(?:user|task|document) \d[\w ]*", prompt)[-1:] or ["the whole"]
        items = [f"{kind[:-1]} {n} of {about[0]}" for n in range(count)]
        if kind == "users":
            return json.dumps({"users": [{"name": item, "description": "curious"} for item in items]})
        return json.dumps({kind: items})
    if '"answer"' in prompt:
        (name,) = re.findall(r"The document (\w+) says", prompt)
        return json.dumps({"question": f"What does {name} say?", "answer": "nothing"})
    return '{"description": "Letters of engineers."}'


def make(endpoint: Endpoint, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[dict[str, Any]], str]:
    asked = ["--model", "maker-1", "--base-url", endpoint.url, "--description", "Letters of engineers."]
    assert main(["make-questions", *asked, *arguments]) == 0
    out, err = capsys.readouterr()
    return [json.loads(line) for line in out.splitlines()], err


def passages(count: int) -> list[Passage]:
    return [Passage(f"d{n}", f"Title {n}", f"The document d{n} says nothing.") for n in range(count)]


def model(endpoint: Endpoint) -> Model:
    return Model("maker-1", endpoint.url)


def test_users_tasks_and_questions_multiply(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    report, err = make(endpoint, capsys)
    assert len(report) == len({item["question"] for item in report}) == 125
    assert [item["id"] for item in report[:2]] == ["activity-001", "activity-002"]
    assert len({item["user"] for item in report}) == 5
    assert len({(item["user"], item["task"]) for item in report}) == 25
    assert endpoint.count() == 1 + 5 + 25
    assert "125 questions by maker-1; 31 calls" in err
    endpoint.forget()
    assert len(make(endpoint, capsys, "--users", "2", "--tasks", "1", "--questions", "3")[0]) == 6
    assert all("Letters of engineers." in request.text for request in endpoint.requests)


def test_local_questions_come_with_their_evidence_and_see_one_document(endpoint: Endpoint) -> None:
    result = local_questions(model(endpoint), "Letters.", passages(7))
    assert [(item["question"], item["evidence"]) for item in result[:2]] == [
        ("What does d0 say?", ["d0"]),
        ("What does d1 say?", ["d1"]),
    ]
    assert all(item["class"] == "local" and item["answer"] == "nothing" for item in result)
    assert len(result) == endpoint.count() == 7


def test_global_questions_are_asked_for_over_samples(endpoint: Endpoint) -> None:
    samples = [passages(30)[start : start + 10] for start in (0, 10, 20)]
    result = global_questions(model(endpoint), "Letters.", samples, 12)
    assert len(result) == 12
    assert all(item["class"] == "global" and "evidence" not in item for item in result)
    texts = [request.text for request in endpoint.requests]
    assert len(texts) == 3
    assert sorted("The document d0 " in text for text in texts) == [False, False, True]


def test_a_sample_is_described_where_no_description_is_given(endpoint: Endpoint) -> None:
    assert describe(model(endpoint), passages(3)) == "Letters of engineers."
    assert all(f"Title {n}\nThe document d{n}" in endpoint.requests[0].text for n in range(3))


@pytest.mark.parametrize(
    "bad",
    [
        "Here are some users for you.",
        '{"users": [{"name": "a", "description": "b"',
        '{"users": []}',
        '{"users": "two"}',
        '{"users": [{"name": "a"}, {"name": "b"}]}',
        '{"users": [{"name": "same", "description": "x"}, {"name": "same", "description": "x"}]}',
        '{"users": [1, 2]}',
        '{"people": []}',
    ],
)
def test_what_was_not_asked_for_is_asked_for_again(
    endpoint: Endpoint, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = iter([bad])
    endpoint.reply(lambda messages: next(replies, None) or obedient(messages))
    report, _ = make(endpoint, capsys, "--users", "2", "--tasks", "1", "--questions", "1")
    assert len(report) == 2
    assert endpoint.count() == 1 + 1 + 2 + 2


def test_more_than_asked_for_is_cut_and_plain_texts_will_do_for_users(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = {"users": ["clerk", "poet", "spy"], "tasks": ["reads"], "questions": ["Why?", "How?", "When?"]}

    def generous(messages: Messages) -> str:
        match = re.search(r"exactly \d+ (\w+)", messages[0]["content"])
        assert match is not None
        return f"Sure!\n```json\n{json.dumps({match[1]: replies[match[1]]})}\n```"

    endpoint.reply(generous)
    report, err = make(endpoint, capsys, "--users", "2", "--tasks", "1", "--questions", "2")
    # Both users are given the same questions: the second time they are left out.
    assert [(item["user"], item["question"]) for item in report] == [("clerk", "Why?"), ("clerk", "How?")]
    assert "2 questions were asked before and are left out" in err


@pytest.mark.parametrize("always", ["no", '{"users": []}', '{"users": [null, {}]}'])
def test_a_model_that_never_obeys_is_an_error_that_says_what_is_missing(
    endpoint: Endpoint, always: str, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(always)
    asked = ["--model", "maker-1", "--base-url", endpoint.url, "--description", "Letters."]
    assert main(["make-questions", *asked]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "did not give 5 users as asked, in 1 of 1 cases" in err
    assert "HINT: " in err
    assert endpoint.count() == 3


def test_local_replies_without_an_answer_are_no_questions(endpoint: Endpoint) -> None:
    endpoint.reply('{"question": "Who?", "answer": ""}')
    with pytest.raises(GraphRAGError, match="did not give a question as asked, in 2 of 2 cases") as error:
        local_questions(model(endpoint), "Letters.", passages(2))
    assert error.value.sqlstate == "22000"


def test_nothing_to_make_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--users", "0"], ["--local", "-1"]):
        asked = ["--model", "m", "--base-url", "http://127.0.0.1:1", "--description", "x", *arguments]
        assert main(["make-questions", *asked]) == 1
        assert "there is nothing to make" in capsys.readouterr().err


def test_a_broken_run_goes_on_where_it_was(
    endpoint: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = ["--memory", str(tmp_path / "memory"), "--users", "2", "--tasks", "2", "--questions", "2"]

    def refusing(messages: Messages) -> str:
        return "no" if "task 1" in str(messages) else obedient(messages)

    endpoint.reply(refusing)
    asked = ["--model", "maker-1", "--base-url", endpoint.url, "--description", "Letters of engineers."]
    assert main(["make-questions", *asked, *memory]) == 1
    capsys.readouterr()
    endpoint.reply(obedient)
    endpoint.forget()
    report, err = make(endpoint, capsys, *memory)
    assert len(report) == 8
    assert endpoint.count() == 2
    assert "5 replies remembered" in err


def test_numbers_count_each_class_and_skip_what_says_the_same() -> None:
    questions = [("local", "A?"), ("global", "B?"), ("local", " a? "), ("local", "C?")]
    result = number_questions([{"class": kind, "question": text} for kind, text in questions])
    assert [(item["id"], item["question"]) for item in result] == [
        ("local-001", "A?"),
        ("global-001", "B?"),
        ("local-002", "C?"),
    ]
