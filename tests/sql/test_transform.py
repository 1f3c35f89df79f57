"""The option `transform`: a model makes the query over, in every mode; when it fails, a WARNING and the query as it is."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import as_reader, warnings
from tests.sql.ingest import STORIES, keys, put_all, refused, rows, search, searched_corpus, value, work
from tests.sql.llm import provider

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr")

PARTS = ["Who is Grace Hopper of Harvard?", "What did Bletchley Park do with the Bombe?"]
PASSAGE = "Grace Hopper wrote the first compiler at Harvard."
REWRITTEN = "Grace Hopper compiler"
KINDS = ("hyde", "decompose", "corrective")
_numbers = itertools.count(1)


def question() -> str:
    """A vague question that nobody asked before: what a session was told it remembers."""
    return f"What is known of the lady of numbers, part {next(_numbers)}?"


class Model:
    """A model that knows its lines by the prompt it is given; `grades`: {words: grade of a text with them}, else `grade`."""

    def __init__(self) -> None:
        self.grade = "incorrect"
        self.grades: dict[str, str] = {}
        self.asked: list[str] = []
        self.texts: list[str] = []

    def __call__(self, messages: Sequence[dict[str, Any]]) -> str:
        system, prompt = messages[0]["content"], messages[-1]["content"]
        for mark, task, answer in (
            ('"queries"', "decompose", {"queries": PARTS}),
            ('"query"', "rewrite", {"query": REWRITTEN}),
            ("short passage", "hyde", PASSAGE),
            ("low_level_keywords", "keywords", {"low_level_keywords": ["numbers"], "high_level_keywords": ["lady"]}),
        ):
            if mark in system:
                self.asked.append(task)
                return answer if isinstance(answer, str) else json.dumps(answer)
        self.asked.append("grades")
        self.texts = prompt.split("\n[")[1:]
        graded = [next((g for words, g in self.grades.items() if words in text), self.grade) for text in self.texts]
        return json.dumps({"grades": [{"number": n, "grade": grade} for n, grade in enumerate(graded, 1)]})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        yield server


@pytest.fixture
def model(endpoint: Endpoint) -> Iterator[Model]:
    item = Model()
    endpoint.reply(item)
    yield item
    endpoint.behave()


@pytest.fixture(scope="module")
def corpus(module_db: Database, endpoint: Endpoint) -> str:
    model = {"provider": provider(module_db, endpoint, timeout=1), "model": "m"}
    name = searched_corpus(module_db, llm={"roles": {"keywords": model, "relevance": model}})
    put_all(module_db, name, STORIES)
    work(module_db)
    return name


def transformed(db: Any, corpus: str, mode: str, kind: str, **arguments: Any) -> list[dict[str, Any]]:
    asked = arguments.pop("question", None) or question()
    return search(db, asked, corpus, mode, options={"transform": kind}, **arguments)


@pytest.mark.sample(8)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_mode_finds_what_the_made_over_query_asks_for(
    module_db: Database, corpus: str, model: Model, mode: str, kind: str
) -> None:
    result = transformed(module_db, corpus, mode, kind)
    assert "hopper" in keys(result)[: 2 if mode in ("naive", "bm25", "hybrid") else 5]
    (note,) = {str(row["explain"]["transform"]): row["explain"]["transform"] for row in result}.values()
    assert note["kind"] == kind
    if kind == "hyde":
        assert note["passage"] == PASSAGE
    elif kind == "decompose":
        assert note["queries"] == PARTS
        assert result[keys(result).index("hopper")]["explain"]["query 1"]["text"] == PARTS[0]
    else:
        assert (note["verdict"], note["query"]) == ("incorrect", REWRITTEN)
        assert set(note["grades"]) == ({"incorrect"} if note["grades"] else set())
    assert len(result) == len({row["chunk_id"] for row in result})


def test_a_transform_is_asked_for_once_and_then_remembered(module_db: Database, corpus: str, model: Model) -> None:
    asked = question()
    for kind, tasks in (("hyde", ["hyde"]), ("decompose", ["decompose"]), ("corrective", ["grades", "rewrite"])):
        first = transformed(module_db, corpus, "bm25", kind, question=f"{asked} Harvard")
        assert model.asked == tasks
        assert transformed(module_db, corpus, "bm25", kind, question=f"{asked} Harvard") == first
        assert model.asked == tasks
        model.asked.clear()


def test_a_corrected_query_keeps_what_answers_and_puts_back_what_does_not(
    module_db: Database, corpus: str, model: Model
) -> None:
    asked = "Which machine did Charles Babbage design in London?"
    before = keys(search(module_db, asked, corpus, "bm25"))
    model.grades = {"designed the Analytical Engine": "correct", "wrote notes": "incorrect"}
    model.grade = "ambiguous"
    result = transformed(module_db, corpus, "bm25", "corrective", question=asked)
    assert model.asked == ["grades"]
    assert result[0]["explain"]["transform"]["verdict"] == "correct"
    assert keys(result) == [*(key for key in before if key != "ada"), "ada"]
    assert len(model.texts) == len(before)


def test_an_ambiguous_result_is_widened_not_replaced(module_db: Database, corpus: str, model: Model) -> None:
    model.grade = "ambiguous"
    asked = f"{question()} Enigma rotors"
    result = {
        row["source_key"]: row["explain"]
        for row in transformed(module_db, corpus, "bm25", "corrective", question=asked)
    }
    assert result["enigma"]["query"]["bm25"]["rank"] == 1
    assert result["hopper"]["rewritten"]["text"] == REWRITTEN
    assert "widened" in result["hopper"]


# Any prose, and any JSON, is a passage: hyde takes what the others cannot use.
FAULTS = [(kind, fault) for kind in KINDS for fault in ("unavailable", "empty")]
FAULTS += [(kind, fault) for kind in KINDS if kind != "hyde" for fault in ("wrong_types", "prose")]


@pytest.mark.parametrize(("kind", "fault"), FAULTS)
def test_when_the_model_fails_the_query_is_searched_as_it_is_and_explain_says_so(
    module_db: Database, corpus: str, endpoint: Endpoint, model: Model, kind: str, fault: str
) -> None:
    asked = f"{question()} Enigma rotors"
    wanted = search(module_db, asked, corpus, "bm25")
    endpoint.misbehave(fault, None)
    with warnings(module_db) as messages:
        result = transformed(module_db, corpus, "bm25", kind, question=asked)
    assert [row["chunk_id"] for row in result] == [row["chunk_id"] for row in wanted]
    (warning,) = messages
    assert "not transformed" in warning
    note = result[0]["explain"]["transform"]
    assert (note["kind"], note["failed"]) == (kind, "grades" if kind == "corrective" else kind)
    assert note["reason"] in warning
    module_db.execute("SELECT graphrag.retry_failed()")


def test_without_a_model_a_transform_is_an_error_that_says_how_to_set_one(module_db: Database) -> None:
    plain = searched_corpus(module_db)
    for kind in KINDS:
        diag = refused(module_db, f"SELECT graphrag.search('x', '{plain}', options => '{{\"transform\": \"{kind}\"}}')")
        assert diag.sqlstate == "55000"
        assert "set_provider" in str(diag.message_hint)


def test_a_reader_transforms_in_a_read_only_transaction_and_learns_of_a_fault_that_it_was_one(
    module_db: Database, corpus: str, endpoint: Endpoint, model: Model
) -> None:
    with as_reader(module_db), module_db.transaction():
        module_db.execute("SET TRANSACTION READ ONLY")
        assert "hopper" in keys(transformed(module_db, corpus, "naive", "hyde"))[:2]
        endpoint.misbehave("unauthorized")
        result = transformed(module_db, corpus, "naive", "hyde")
        assert result[0]["explain"]["transform"]["reason"] == 'the model of the role "keywords" cannot be reached'
    module_db.execute("SELECT graphrag.retry_failed()")


def test_what_a_transform_cost_is_in_the_accounts(module_db: Database, corpus: str, model: Model) -> None:
    transformed(module_db, corpus, "naive", "corrective")
    module_db.execute("SELECT graphrag.understand(%s, %s)", [question(), corpus])
    noted = rows(
        module_db,
        "SELECT l.purpose, count(*) FROM graphrag.llm_calls l JOIN graphrag.corpora c ON c.id = l.corpus_id"
        " WHERE c.name = %s AND l.error IS NULL AND l.at > now() - interval '1 hour' GROUP BY 1",
        corpus,
    )
    assert {"keywords", "relevance"} <= {purpose for purpose, _ in noted}


def test_a_prompt_can_be_the_corpus_own(module_db: Database, corpus: str, endpoint: Endpoint, model: Model) -> None:
    own = "You write a short passage like a sailor."
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"prompts": {"hyde": own}})])
    endpoint.forget()
    transformed(module_db, corpus, "naive", "hyde")
    assert endpoint.requests[0].messages[0]["content"] == own
    assert value(module_db, "SELECT graphrag.alter_corpus(%s, %s) IS NOT NULL", corpus, Jsonb({"prompts": {}}))
