"""graphrag.evaluate: the figures follow from what search returns, differences are paired, and bad input is named."""

import json
import math
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, index_all, put, put_all, refused, rows, search, searched_corpus, value, work

QUESTIONS: list[dict[str, Any]] = [
    {"id": "q1", "question": "Who wrote notes on the Analytical Engine?", "evidence": ["ada", "turing"]},
    {"id": "q2", "question": "Who designed the Analytical Engine?", "evidence": ["babbage"]},
    {"id": "q3", "question": "Where was Enigma broken?", "evidence": ["enigma", "turing", "enigma"]},
    {"id": "q4", "question": "Who wrote the first compiler?", "evidence": ["hopper"], "type": "Single"},
    {"id": "q5", "question": "What is the weather like on Mars?", "evidence": []},
]
MODES = ["bm25", "naive", "hybrid"]


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    return index_all(module_db, searched_corpus(module_db), STORIES)


def evaluate(db: Database, corpus: str, questions: Any = QUESTIONS, **arguments: Any) -> list[dict[str, Any]]:
    """Rows of graphrag.evaluate as dictionaries."""
    named = "".join(f", {name} => %s" for name in arguments)
    values = [Jsonb(given) if isinstance(given, dict) else given for given in arguments.values()]
    cursor = db.execute(f"SELECT * FROM graphrag.evaluate(%s, %s{named})".encode(), [corpus, Jsonb(questions), *values])
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: figure for name, figure in row.items() if name not in ("p50_ms", "p95_ms")} for row in rows]


def test_figures_are_those_of_the_documents_that_search_returns(module_db: Database, corpus: str) -> None:
    evaluation = evaluate(module_db, corpus, modes=MODES, k=[3, 1])
    assert [(row["mode"], row["k"]) for row in evaluation] == [(mode, k) for mode in MODES for k in (1, 3)]
    for row in evaluation:
        recalls, gains, ranks, hits = [], [], [], []
        for question in QUESTIONS[:4]:
            keys = [result["source_key"] for result in search(module_db, question["question"], corpus, row["mode"])][
                : row["k"]
            ]
            evidence = set(question["evidence"])
            recalls.append(len(evidence & set(keys)) / len(evidence))
            gain = sum(1 / math.log2(at + 2) for at, key in enumerate(keys) if key in evidence)
            gains.append(gain / sum(1 / math.log2(at + 2) for at in range(min(row["k"], len(evidence)))))
            ranks.append(max((1 / (at + 1) for at, key in enumerate(keys) if key in evidence), default=0.0))
            hits.append((bool(evidence & set(keys)), evidence <= set(keys)))
        for name, values in (("recall", recalls), ("ndcg", gains), ("mrr", ranks)):
            assert row[name] == pytest.approx(sum(values) / 4), (row["mode"], row["k"], name)
            low, high = row["intervals"][name]
            assert low - 1e-9 <= row[name] <= high + 1e-9
        assert row["any_hit"] == pytest.approx(sum(some for some, _ in hits) / 4)
        assert row["all_hit"] == pytest.approx(sum(every for _, every in hits) / 4)
        assert (row["questions"], row["without_evidence"]) == (4, 1)
        assert 0 < row["p50_ms"] <= row["p95_ms"]
    assert len({row["ndcg"] for row in evaluation}) > 1


def test_differences_are_to_the_baseline_which_has_none(module_db: Database, corpus: str) -> None:
    by_mode = {row["mode"]: row for row in evaluate(module_db, corpus, modes=MODES, k=[1], baseline="hybrid")}
    assert by_mode["hybrid"]["differences"] is None
    for mode in ("bm25", "naive"):
        assert by_mode[mode]["baseline"] == "hybrid"
        for metric, result in by_mode[mode]["differences"].items():
            assert result["difference"] == pytest.approx(by_mode[mode][metric] - by_mode["hybrid"][metric])
            assert result["low"] <= result["difference"] <= result["high"]
            assert 0 < result["p"] <= 1


def test_a_mode_does_not_differ_from_itself(module_db: Database, corpus: str) -> None:
    twin = {"twin": {"mode": "bm25", "bm25_idf": "lucene"}}
    base, same = evaluate(module_db, corpus, modes=["bm25", "twin"], k=[2], options={"variants": twin})
    assert (base["baseline"], same["mode"]) == ("bm25", "twin")
    assert all(
        difference == {"difference": 0, "low": 0, "high": 0, "p": 1} for difference in same["differences"].values()
    )


def test_the_same_seed_gives_the_same_intervals_whatever_the_order_of_questions(
    module_db: Database, corpus: str
) -> None:
    first = untimed(evaluate(module_db, corpus, modes=MODES, options={"seed": 7}))
    assert untimed(evaluate(module_db, corpus, QUESTIONS[::-1], modes=MODES, options={"seed": 7})) == first
    another = untimed(evaluate(module_db, corpus, modes=MODES, options={"seed": 8}))
    assert [row["ndcg"] for row in another] == [row["ndcg"] for row in first]


def test_keywords_of_a_question_are_used(module_db: Database, corpus: str) -> None:
    words = {"low_level_keywords": ["Grace Hopper"], "high_level_keywords": []}
    question = {"id": "told", "question": "What of the Analytical Engine?", "evidence": ["hopper"], **words}
    (row,) = evaluate(module_db, corpus, [question], modes=["local"], k=[5], options={"per_question": True})
    (detail,) = row["per_question"]
    results = [result["source_key"] for result in search(module_db, question["question"], corpus, "local", **words)]
    assert detail["found"] == results
    assert results != [result["source_key"] for result in search(module_db, question["question"], corpus, "local")]
    assert (detail["id"], detail["evidence"], detail["recall"]) == ("told", ["hopper"], 1)


def test_query_entities_and_answer_types_of_a_question_are_used(module_db: Database, corpus: str) -> None:
    own = {"query_entities": ["Grace Hopper"], "answer_types": ["NAME"]}
    question = {"id": "told", "question": "What of the Analytical Engine?", "evidence": ["hopper"], **own}
    fixed = {"mode": "path", "fuse": "none"}
    variants = {"told": fixed, "for all": {**fixed, "query_entities": ["Enigma"]}}
    modes = ["bm25", *variants]
    evaluation = evaluate(
        module_db, corpus, [question], modes=modes, k=[5], options={"per_question": True, "variants": variants}
    )
    by_mode = {row["mode"]: row["per_question"][0]["found"] for row in evaluation}

    def keys(**options: Any) -> list[str]:
        rows = search(module_db, question["question"], corpus, "path", options={"fuse": "none", **options})
        return [row["source_key"] for row in rows][:5]

    assert by_mode["told"] == keys(**own)
    assert by_mode["for all"] == keys(query_entities=["Enigma"], answer_types=["NAME"])
    assert len({tuple(ranking) for ranking in (by_mode["told"], by_mode["for all"], keys())}) == 3


def test_questions_come_from_json_text_or_a_table(module_db: Database, corpus: str) -> None:
    wanted = untimed(evaluate(module_db, corpus, k=[2]))
    module_db.execute("CREATE TABLE public.asked (id text, question text, evidence text[], author text)")
    for question in QUESTIONS:
        row = [question["id"], question["question"], question["evidence"]]
        module_db.execute("INSERT INTO public.asked VALUES (%s, %s, %s, 'someone')", row)
    forms = [f"'{json.dumps(QUESTIONS)}'", "'asked'", "'public.asked'::regclass", "'asked'::text"]
    for form in forms:
        records = rows(
            module_db,
            f"SELECT mode, ndcg, questions, intervals FROM graphrag.evaluate('{corpus}', {form}, k => '{{2}}')",
        )
        assert records == [(row["mode"], row["ndcg"], 4, row["intervals"]) for row in wanted]


def test_documents_of_many_chunks_are_searched_deep_enough(module_db: Database) -> None:
    name = searched_corpus(module_db, chunk_token_size=50, chunk_overlap=0)
    put(module_db, name, "long", "Ada Lovelace wrote notes on the engine. " * 60)
    put(module_db, name, "short", "The engine of Charles Babbage was never finished.")
    work(module_db)
    questions = [{"question": "What did Ada Lovelace write on the engine?", "evidence": ["short", "long"]}]
    (row,) = evaluate(module_db, name, questions, modes=["bm25"], k=[2])
    assert [result["source_key"] for result in search(module_db, questions[0]["question"], name, "bm25", top_k=2)] == [
        "long"
    ] * 2
    assert (row["recall"], row["ndcg"]) == (1, 1)
    assert (row["any_hit"], row["all_hit"]) == (1, 0)


def test_evidence_that_is_not_indexed_yet_is_warned_of(module_db: Database) -> None:
    name = searched_corpus(module_db)
    put_all(module_db, name, STORIES)
    noticed: list[str] = []
    module_db.add_notice_handler(lambda diag: noticed.append(diag.message_primary or ""))
    (row,) = evaluate(module_db, name, modes=["bm25"], k=[1])
    assert row["recall"] == 0
    assert noticed == ["5 documents of the evidence are not indexed as they are now, and may not be found"]


def test_readers_may_evaluate_in_a_read_only_transaction(module_db: Database, corpus: str) -> None:
    wanted = untimed(evaluate(module_db, corpus))
    module_db.execute("DROP ROLE IF EXISTS judge")
    module_db.execute("CREATE ROLE judge IN ROLE graphrag_reader")
    module_db.execute("SET ROLE judge")
    try:
        with module_db.transaction():
            module_db.execute("SET TRANSACTION READ ONLY")
            assert untimed(evaluate(module_db, corpus)) == wanted
    finally:
        module_db.execute("RESET ROLE")
        module_db.execute("DROP ROLE judge")


GOOD = QUESTIONS[:2]


@pytest.mark.parametrize(
    ("questions", "arguments", "message"),
    [
        ([], {}, "there are no questions"),
        ({"question": "?"}, {}, "there are no questions"),
        (["text"], {}, 'question 1 is "text", not an object'),
        ([{"id": "x", "evidence": ["ada"]}], {}, 'question "x" has no text'),
        ([{"question": " ", "evidence": ["ada"]}], {}, 'question "1" has no text'),
        ([{"question": "?", "evidence": "ada"}], {}, '"evidence" is "ada", not an array of strings'),
        ([{"question": "?", "low_level_keywords": [1]}], {}, '"low_level_keywords" is [1], not an array of strings'),
        (
            [{"id": "x", "question": "?", "query_entities": ["a"] * 6}],
            {},
            'question "x": search option "query_entities"',
        ),
        (
            [{"question": "?", "answer_types": "person"}],
            {},
            'question "1": search option "answer_types" cannot be "person"',
        ),
        ([GOOD[0], GOOD[0]], {}, 'two questions have the id "q1"'),
        ([{"question": "?"}, QUESTIONS[4]], {}, "none of the 2 questions has evidence"),
        ([*GOOD, {"question": "?", "evidence": ["ada", "nobody"]}], {}, 'has the source_key "nobody"'),
        (GOOD, {"modes": ["bm25", "magic"]}, 'unknown mode "magic"'),
        (GOOD, {"modes": []}, "there are no modes to compare"),
        (GOOD, {"modes": [None]}, "mode cannot be null"),
        (GOOD, {"modes": [["bm25", "naive"], ["local", "global"]]}, "several dimensions is not understood: [['bm25', "),
        (GOOD, {"k": [[5], [10]]}, "several dimensions is not understood: [[5], [10]]"),
        (GOOD, {"k": [5, 0]}, "k cannot be [5, 0]"),
        (GOOD, {"k": []}, "k cannot be []"),
        (GOOD, {"k": [1001]}, "k cannot be [1001]"),
        (GOOD, {"k": [5, None]}, "k cannot be [5, null]"),
        (GOOD, {"baseline": "mix"}, 'the baseline "mix" is not among the modes compared'),
        (GOOD, {"options": {"seeds": 1}}, 'unknown option "seeds" of evaluation'),
        (GOOD, {"options": {"seed": -1}}, 'option "seed" cannot be -1'),
        (GOOD, {"options": {"variants": {"a": 1}}}, 'option "variants" cannot be {"a": 1}'),
        (GOOD, {"modes": ["a"], "options": {"variants": {"a": {"mode": "magic"}}}}, 'unknown mode "magic"'),
        (GOOD, {"modes": ["a"], "options": {"variants": {"a": {"mode": 1}}}}, 'variant "a": mode cannot be 1'),
        (GOOD, {"modes": ["a"], "options": {"variants": {"a": {"mode": "bm25", "rrf_k": 1}}}}, 'no option "rrf_k"'),
    ],
)
def test_bad_input_is_refused_by_name_with_a_hint(
    module_db: Database, corpus: str, questions: Any, arguments: dict[str, Any], message: str
) -> None:
    named = "".join(f", {name} => %s" for name in arguments)
    values = [Jsonb(given) if isinstance(given, dict) else given for given in arguments.values()]
    if "k" in arguments:
        named = named.replace("k => %s", "k => %s::int[]")
    if "modes" in arguments:
        named = named.replace("modes => %s", "modes => %s::text[]")
    diag = refused(module_db, f"SELECT * FROM graphrag.evaluate(%s, %s{named})", corpus, Jsonb(questions), *values)
    assert diag.sqlstate == "22023"
    assert message in (diag.message_primary or "")
    assert diag.message_hint


def test_an_unknown_corpus_and_an_unknown_table_are_named(module_db: Database, corpus: str) -> None:
    diag = refused(module_db, "SELECT * FROM graphrag.evaluate('nowhere', %s)", Jsonb(GOOD))
    assert (diag.sqlstate, diag.message_primary) == ("42704", 'graphrag: corpus "nowhere" does not exist')
    assert refused(module_db, "SELECT * FROM graphrag.evaluate(%s, 'no_table')", corpus).sqlstate == "42P01"
    module_db.execute("CREATE TABLE public.nothing_asked (question text, evidence text[])")
    diag = refused(module_db, "SELECT * FROM graphrag.evaluate(%s, 'nothing_asked')", corpus)
    assert "there are no questions" in (diag.message_primary or "")
    diag = refused(module_db, "SELECT * FROM graphrag.evaluate(%s, NULL)", corpus)
    assert "there are no questions" in (diag.message_primary or "")
    diag = refused(module_db, "SELECT * FROM graphrag.evaluate(NULL, %s)", Jsonb(GOOD))
    assert (diag.sqlstate, diag.message_primary) == ("22004", "graphrag: corpus cannot be null")


def test_every_question_is_asked_of_every_mode_once_and_counted(module_db: Database, corpus: str) -> None:
    evaluation = evaluate(module_db, corpus, modes=["naive", "naive", "bm25"], options={"per_question": True})
    assert [row["mode"] for row in evaluation] == ["naive", "naive", "bm25", "bm25"]  # k 5 and 10 of each
    assert all([question["id"] for question in row["per_question"]] == ["q1", "q2", "q3", "q4"] for row in evaluation)
    assert value(module_db, "SELECT count(*) FROM graphrag.query_log") == 0
