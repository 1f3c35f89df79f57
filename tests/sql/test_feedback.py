"""Verdicts become questions with evidence, and two corpora are compared on them."""

import json
from typing import Any

import pytest
from pg_graphrag.beside.cli import main
from pg_graphrag.beside.client import GraphRAG

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, corpus_id, index_all, refused, rows, search, searched_corpus, value, work

QUESTION = "Who designed the Analytical Engine?"
GIVE = "SELECT graphrag.feedback(%s, %s, %s, evidence => %s, author => %s)"


@pytest.fixture
def corpus(module_db: Database) -> str:
    return index_all(module_db, searched_corpus(module_db), STORIES)


def golden(db: Database, corpus: str) -> Any:
    return [
        (item["question"], item["evidence"], item["good"], item["bad"])
        for item in value(db, "SELECT graphrag.golden_questions(%s)", corpus)
    ]


def test_evidence_is_what_most_authors_of_a_role_name_and_is_still_there(module_db: Database, corpus: str) -> None:
    for author, verdict, evidence in (
        ("ann", "good", ["babbage", "ada"]),
        ("bob", "bad", ["babbage"]),
        ("cem", "good", ["babbage", "hopper"]),
        ("dee", "bad", []),
    ):
        module_db.execute(GIVE, [QUESTION, verdict, corpus, evidence, author])
    module_db.execute(GIVE, ["Who wrote the first compiler?", "good", corpus, ["hopper"], ""])
    assert golden(module_db, corpus) == [
        (QUESTION, ["babbage"], 0, 1),
        ("Who wrote the first compiler?", ["hopper"], 1, 0),
    ]
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'hopper'", [corpus])
    assert golden(module_db, corpus)[1] == ("Who wrote the first compiler?", [], 1, 0)


def test_a_later_verdict_of_the_same_author_replaces_the_first(module_db: Database, corpus: str) -> None:
    for verdict, key in (("bad", "ada"), ("good", "babbage")):
        module_db.execute(GIVE, [QUESTION, verdict, corpus, [key], "ann"])
    assert golden(module_db, corpus) == [(QUESTION, ["babbage"], 1, 0)]


def test_a_clone_finds_what_its_model_finds_and_keeps_its_own_options(module_db: Database, corpus: str) -> None:
    clone = f"{corpus} again"
    module_db.execute("SELECT graphrag.clone_corpus(%s, %s, %s)", [corpus, clone, json.dumps({"query_log": True})])
    work(module_db)
    assert value(module_db, "SELECT options ->> 'query_log' FROM graphrag.corpora WHERE name = %s", clone) == "true"
    results = [
        [(row["source_key"], row["score"]) for row in search(module_db, QUESTION, name)] for name in (corpus, clone)
    ]
    assert results[0] and results[0] == results[1]


def test_the_comparison_has_the_figures_of_both_and_names_what_changed(module_db: Database, corpus: str) -> None:
    for question, key in ((QUESTION, "babbage"), ("Who wrote the first compiler?", "hopper")):
        module_db.execute(GIVE, [question, "good", corpus, [key], ""])
    poor = f"{corpus} poor"
    module_db.execute("SELECT graphrag.clone_corpus(%s, %s)", [corpus, poor])
    # The documents are there, and say something else.
    module_db.execute(
        "UPDATE graphrag.documents SET content = 'Nothing of it.', title = NULL"
        " WHERE corpus = %s AND source_key = 'hopper'",
        [poor],
    )
    work(module_db)
    questions = value(module_db, "SELECT graphrag.golden_questions(%s)", corpus)
    comparison = GraphRAG(module_db, corpus).compare_corpora(poor, modes=["bm25"], k=[1])
    for side, name in (("value", corpus), ("other", poor)):
        (figures,) = GraphRAG(module_db, name).evaluate(questions, modes=["bm25"], k=[1])
        assert {row.metric: getattr(row, side) for row in comparison} == {
            metric: getattr(figures, metric) for metric in ("recall", "ndcg", "mrr", "any_hit", "all_hit")
        }
    recall = comparison[0]
    assert (recall.metric, recall.value, recall.other, recall.difference) == ("recall", 1.0, 0.5, -0.5)
    assert (recall.better, recall.worse, recall.low, recall.high) == (0, 1, -1.0, 0.0)
    (changed,) = recall.changed
    assert (changed["question"], changed["evidence"], changed["found"]) == (
        "Who wrote the first compiler?",
        ["hopper"],
        ["hopper"],
    )
    assert "hopper" not in changed["other_found"]
    assert {name: cost["documents"] for name, cost in recall.costs.items()} == {
        "corpus": len(STORIES),
        "other": len(STORIES),
    }
    # The other way round, the difference has the other sign.
    (again,) = [
        row
        for row in GraphRAG(module_db, poor).compare_corpora(corpus, questions, modes=["bm25"], k=[1])
        if row.metric == "recall"
    ]
    assert (again.difference, again.better, again.worse) == (0.5, 1, 0)


def test_equal_corpora_differ_in_nothing(module_db: Database, corpus: str) -> None:
    module_db.execute(GIVE, [QUESTION, "good", corpus, ["babbage"], ""])
    for row in GraphRAG(module_db, corpus).compare_corpora(corpus):
        assert (row.difference, row.better, row.worse, row.p, row.changed) == (0, 0, 0, 1, [])


def test_the_command_gives_verdicts_and_prints_the_comparison(
    module_db: Database, corpus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = ["--url", module_db.url, "--corpus", corpus]
    assert main(["feedback", QUESTION, "good", "--evidence", "babbage", *connection]) == 0
    module_db.execute("SELECT graphrag.clone_corpus(%s, %s)", [corpus, f"{corpus} 2"])
    work(module_db)
    assert main(["compare", f"{corpus} 2", *connection]) == 0
    table = capsys.readouterr().out
    assert "hybrid: Recall@10 changed for 0 questions." in table and "tokens_in" in table
    assert main(["compare", f"{corpus} 2", "--json", *connection]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 10


def test_an_answer_is_stored_with_the_verdict_and_who_gave_it(module_db: Database, corpus: str) -> None:
    GraphRAG(module_db, corpus).feedback(QUESTION, "good", answer="Babbage did.", mode="hybrid", author="ann")
    stored = "SELECT answer, mode, role, author FROM graphrag.answer_feedback WHERE corpus_id = %s"
    assert rows(module_db, stored, corpus_id(module_db, corpus)) == [("Babbage did.", "hybrid", "postgres", "ann")]


@pytest.mark.parametrize(
    ("call", "state"),
    [
        ("feedback('Who?', 'fine', {c})", "22023"),
        ("feedback('Who?', NULL, {c})", "22023"),
        ("feedback(' ', 'good', {c})", "22023"),
        ("feedback(repeat('x', 8193), 'good', {c})", "22023"),
        ("feedback('Who?', 'good', {c}, evidence => '{{nobody}}')", "22023"),
        (
            "feedback('Who?', 'good', {c}, evidence => array_fill('ada'::text, ARRAY[3]) || ARRAY(SELECT n::text"
            " FROM generate_series(1, 101) n))",
            "22023",
        ),
        ("feedback('Who?', 'good', {c}, comment => repeat('x', 2001))", "22023"),
        ("feedback('Who?', 'good', {c}, author => repeat('x', 201))", "22023"),
        ("feedback('Who?', 'good', 'nowhere')", "42704"),
        ("golden_questions('nowhere')", "42704"),
        ("clone_corpus('nowhere', 'new')", "42704"),
        ("clone_corpus({c}, {c})", "23505"),
        ("clone_corpus({c}, 'new', '{{\"no\": 1}}')", "22023"),
        ("clone_corpus({c}, '')", "22023"),
        ('compare_corpora({c}, \'nowhere\', \'[{{"question": "x", "evidence": ["ada"]}}]\')', "42704"),
        ("compare_corpora({c}, {c}, '[]')", "22023"),
        ('compare_corpora({c}, {c}, \'[{{"question": "x"}}]\')', "22023"),
        ('compare_corpora({c}, {c}, \'[{{"question": "x"}}]\', options => \'{{"per_question": true}}\')', "22023"),
    ],
)
def test_a_bad_call_is_refused_with_the_next_step(module_db: Database, corpus: str, call: str, state: str) -> None:
    diag = refused(module_db, f"SELECT graphrag.{call.format(c=repr(corpus))}")
    assert (diag.sqlstate, bool(diag.message_hint)) == (state, True), diag.message_primary
    assert golden(module_db, corpus) == []
    assert rows(module_db, "SELECT FROM graphrag.corpora WHERE name IN ('new', '')") == []
