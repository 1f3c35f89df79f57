"""make-questions and answer-questions against a corpus; what they make, evaluate and judge take."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pg_graphrag.beside.cli import main

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import lines, stories
from tests.sql.ingest import put, searched_corpus


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as served:
        yield served


@pytest.fixture(scope="module")
def corpus(module_db: Database, endpoint: Endpoint) -> str:
    endpoint.reply(lines)
    name = stories(module_db, endpoint)
    for key in ("loom", "mill", "clock"):
        put(module_db, name, key, f"The {key} of the tower was made by masters. " * 6, title=f"About the {key}")
    put(module_db, name, "note", "Too short for a question.")
    module_db.execute("CALL graphrag.process_jobs()")
    return name


def maker(messages: Sequence[dict[str, Any]]) -> str:
    prompt = messages[0]["content"]
    if '"description": "…"}' in prompt and "users" not in prompt:
        return '{"description": "Towers and engines."}'
    if '"answer"' in prompt:
        key = next(key for key in ("loom", "mill", "clock") if f"About the {key}" in prompt)
        return json.dumps({"question": f"Who made the {key} of the tower?", "answer": "masters"})
    return json.dumps({"questions": [f"Theme {n}?" for n in range(5)]})


def test_local_questions_are_drawn_from_documents_and_evaluate_takes_them(
    module_db: Database, corpus: str, endpoint: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(maker)
    where = ["--url", module_db.url, "--corpus", corpus]
    asked = ["make-questions", *where, "--model", "m", "--base-url", endpoint.url, "--users", "0"]
    assert main([*asked, "--local", "5", "--global", "5"]) == 0
    out, err = capsys.readouterr()
    printed = [json.loads(line) for line in out.splitlines()]
    assert sorted(question["evidence"][0] for question in printed if question["class"] == "local") == [
        "clock",
        "loom",
        "mill",
    ]
    assert sum(question["class"] == "global" for question in printed) == 5
    assert "the corpus has 3 documents for local questions, not 5" in err
    # The same seed draws the same documents in the same order.
    assert main([*asked, "--local", "2"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == printed[:2]
    path = tmp_path / "made.jsonl"
    path.write_text(out)
    assert main(["evaluate", str(path), *where, "--modes", "bm25", "--k", "1", "--no-chart", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["questions"], row["without_evidence"], row["recall"]) == (3, 5, 1)


@pytest.mark.slow
def test_answers_are_what_ask_gives_and_the_judge_takes_them(
    module_db: Database, corpus: str, endpoint: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text(
        '{"id": "q1", "question": "Who wrote notes?"}\n{"question": "Who designed the Analytical Engine?"}'
    )
    endpoint.reply(lines)
    where = ["--url", module_db.url, "--corpus", corpus]
    for mode in ("bm25", "hybrid"):
        assert (
            main(["answer-questions", str(questions), *where, "--mode", mode, "--options", '{"chunk_top_k": 3}']) == 0
        )
        (tmp_path / f"{mode}.jsonl").write_text(capsys.readouterr().out)
    answered = [json.loads(line) for line in (tmp_path / "hybrid.jsonl").read_text().splitlines()]
    assert [item["id"] for item in answered] == ["q1", "2"]
    assert all(item["answer"] == "Ada Lovelace wrote notes on the Analytical Engine [1]." for item in answered)
    form = ("comprehensiveness", "diversity", "empowerment", "directness", "relevance", "overall")
    endpoint.reply(json.dumps(dict.fromkeys(form, 0)))
    files = [str(tmp_path / f"{mode}.jsonl") for mode in ("bm25", "hybrid")]
    assert main(["judge", *files, "--model", "m", "--base-url", endpoint.url, "--json"]) == 0
    loaded = json.loads(capsys.readouterr().out)
    assert {(item["system"], item["ties"], item["win_rate"]) for item in loaded["comparisons"]} == {("hybrid", 12, 0.5)}


def test_what_cannot_be_answered_is_named_and_the_rest_goes_on(
    module_db: Database, corpus: str, endpoint: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text(
        '{"id": "bad", "question": "Who fails?"}\n{"id": "good", "question": "Who wrote notes on it?"}'
    )
    endpoint.reply(lines)
    endpoint.misbehave("bad_request", times=None, when=lambda request: "Who fails?" in request.text)
    try:
        assert main(["answer-questions", str(questions), "--url", module_db.url, "--corpus", corpus]) == 1
    finally:
        endpoint.behave()
    out, err = capsys.readouterr()
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["good"]
    assert "pg-graphrag: question bad: " in err


def test_a_corpus_without_documents_has_no_questions_one_of_short_ones_does(
    module_db: Database, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--model", "m", "--base-url", endpoint.url, "--local", "3"]
    corpus = searched_corpus(module_db)
    assert main(["make-questions", "--url", module_db.url, "--corpus", corpus, *asked]) == 1
    assert "has no documents" in capsys.readouterr().err
    put(module_db, corpus, "short", "Ada wrote notes.")
    endpoint.reply('{"question": "Who wrote notes?", "answer": "Ada"}')
    only = ["--users", "0", "--description", "Notes"]
    assert main(["make-questions", "--url", module_db.url, "--corpus", corpus, *asked, *only]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"] == ["short"]
