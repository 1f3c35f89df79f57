"""What is given where no answer of a model holds: asked once more, then sentences of the documents; and all of it in time."""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql import themes
from tests.sql.asking import ANSWER, as_reader, ask, is_keywords, lines, stories, stream, warnings
from tests.sql.embedded import embedded
from tests.sql.ingest import STORIES, put, put_all, refused, wait_for, work
from tests.sql.llm import places_held, provider

REPLY = lines
QUESTION = "What did Ada Lovelace write on the Analytical Engine?"
UNANSWERED = "The documents do not answer this question."
LOOP = "Ada Lovelace wrote notes on the Analytical Engine [1]. " * 40
# Answers that do not hold, and why.
UNHELD = {
    "repetition": LOOP,
    "no citation": "Ada Lovelace wrote notes on the Analytical Engine.",
    "a citation of nothing": "Ada Lovelace wrote notes on the Analytical Engine [77].",
    "yes": "Yes.",
    "reasoning alone": "<think>She wrote",
    "the prompt": "After each statement give the numbers of the documents that say it, in brackets: [1], or [1][3].",
}
WHY = {"repetition": "repeated itself", "reasoning alone": "can be read", "the prompt": "can be read"}
HEADING = "The model gave no answer that the documents bear out. These of their sentences are nearest to the question:"


def answering(endpoint: Endpoint, *answers: str) -> None:
    """Have the endpoint give these answers one after the other, the last one from then on."""
    left = list(answers)

    def reply(messages: Sequence[dict[str, Any]]) -> str:
        if is_keywords(messages):
            return lines(messages)
        return left.pop(0) if len(left) > 1 else left[0]

    endpoint.reply(reply)


def answers_asked(endpoint: Endpoint) -> list[Any]:
    return [request for request in endpoint.requests if not is_keywords(request.messages)]


def check_extracts(answer: str, citations: Any, context: Any) -> None:
    """Each line is of a document that it cites, and the citations are those of the lines."""
    heading, empty, *given = answer.splitlines()
    assert (heading, empty) == (HEADING, "")
    assert 1 <= len(given) <= 5
    by_number = {chunk["reference"]: chunk["content"] for chunk in context["chunks"]}
    numbers = set()
    for line in given:
        text, _, number = line.removeprefix("- ").removesuffix("]").rpartition(" [")
        assert text in " ".join(by_number[int(number)].split())
        numbers.add(int(number))
    assert {citation["number"] for citation in citations} == numbers
    assert all(citation["chunk_id"] for citation in citations)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", UNHELD)
def test_an_answer_that_does_not_hold_is_asked_for_once_more_then_extracts_are_given(
    module_db: Database, corpus: str, endpoint: Endpoint, kind: str
) -> None:
    answering(endpoint, UNHELD[kind])
    with warnings(module_db) as messages:
        answer, citations, usage, context = ask(module_db, QUESTION, corpus, response_type="yes or no")
    check_extracts(answer, citations, context)
    # The nearest sentence comes first.
    assert "Ada Lovelace wrote" in answer.splitlines()[2]
    first, second = answers_asked(endpoint)
    assert second.messages[:-1] == first.messages[:-1]
    added = second.messages[-1]["content"].removeprefix(first.messages[-1]["content"])
    assert added.startswith("\n\nYour last answer ")
    assert usage["answer"] == "extracts"
    assert usage["calls"] == 3
    (message,) = messages
    assert WHY.get(kind, "cited none of the documents") in message
    assert "sentences of the documents" in message
    # What is of no use is not kept.
    answering(endpoint, ANSWER)
    assert ask(module_db, QUESTION, corpus, response_type="yes or no")[0] == ANSWER


@pytest.mark.parametrize("kind", ["empty", "null_content"])
def test_a_model_that_says_nothing_is_asked_once_more_then_extracts_are_given(
    module_db: Database, corpus: str, endpoint: Endpoint, kind: str
) -> None:
    endpoint.misbehave(kind, times=None, when=lambda request: not is_keywords(request.messages))
    with warnings(module_db) as messages:
        answer, citations, usage, context = ask(module_db, QUESTION, corpus)
    check_extracts(answer, citations, context)
    assert (usage["answer"], usage["reason"]) == ("extracts", "form")
    assert messages == ["the model gave no answer that can be read: what is given are sentences of the documents"]
    assert len(answers_asked(endpoint)) == 2
    assert "".join(stream(module_db, f"{QUESTION} Tell.", corpus)).startswith(HEADING)
    with as_reader(module_db):
        assert ask(module_db, f"{QUESTION} Say.", corpus)[2]["answer"] == "extracts"


@pytest.mark.parametrize("kind", UNHELD)
def test_the_second_answer_is_given_where_it_holds(
    module_db: Database, corpus: str, endpoint: Endpoint, kind: str
) -> None:
    answering(endpoint, UNHELD[kind], ANSWER)
    with warnings(module_db) as messages:
        answer, citations, usage, _ = ask(module_db, QUESTION, corpus)
    assert (answer, messages) == (ANSWER, [])
    assert citations
    assert "answer" not in usage
    assert len(answers_asked(endpoint)) == 2


@pytest.mark.parametrize(
    "said",
    [
        UNANSWERED,
        "**the documents do not answer this question**",
        f'"{UNANSWERED}"',
        "The documents do not answer this question [1][2].",
        f"- «{UNANSWERED}»\u200b [1]",
        "Les documents ne répondent pas à cette question.",
    ],
)
def test_the_sentence_that_nothing_is_found_needs_no_citation(
    module_db: Database, corpus: str, endpoint: Endpoint, said: str
) -> None:
    answering(endpoint, said)
    answer, citations, usage, _ = ask(module_db, "Who won the cup?", corpus)
    assert (answer, citations) == (said if said.startswith("Les") else UNANSWERED, [])
    assert "answer" not in usage
    assert "".join(stream(module_db, "Who won the cup?", corpus)) == answer
    assert len(answers_asked(endpoint)) == 1


def test_it_is_said_in_the_language_of_the_question(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint)
    put(module_db, corpus, "kestrel", "ケストレルは大阪の工場で作られたエンジンである。メタンを燃やして飛ぶ。")
    work(module_db)
    question = "ケストレルは何を燃やしますか。"
    answering(endpoint, "文書にはこの質問への答えがありません。")
    assert ask(module_db, question, corpus)[0] == "文書にはこの質問への答えがありません。"
    assert "文書にはこの質問への答えがありません。" in answers_asked(endpoint)[0].messages[0]["content"]
    answering(endpoint, "メタンです。")
    answer = ask(module_db, f"{question} 教えて。", corpus)[0]
    heading, _, first, *_ = answer.splitlines()
    assert heading == "モデルは根拠のある回答を返しませんでした。質問に最も近い文書の文です。"
    assert "メタンを燃やして" in first or "ケストレル" in first


@pytest.mark.parametrize("mode", ["naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr"])
def test_every_mode_has_extracts(module_db: Database, corpus: str, endpoint: Endpoint, mode: str) -> None:
    answering(endpoint, "Notes.")
    answer, citations, usage, context = ask(module_db, QUESTION, corpus, mode=mode)
    check_extracts(answer, citations, context)
    assert usage["reason"] == "no citation"


def test_extracts_are_the_same_whenever_they_are_made(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    answering(endpoint, "Notes.")
    assert ask(module_db, QUESTION, corpus)[0] == ask(module_db, QUESTION, corpus)[0]


def test_extracts_have_no_citations_of_the_documents_own(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    put(
        module_db,
        corpus,
        "wiki",
        "- Ada Lovelace wrote [3][citation: 4] the first program for the Analytical Engine.[7]\n",
    )
    work(module_db)
    answering(endpoint, "Notes.")
    answer, citations, _, context = ask(module_db, QUESTION, corpus)
    (number,) = (chunk["reference"] for chunk in context["chunks"] if "[3]" in chunk["content"])
    assert f"- Ada Lovelace wrote the first program for the Analytical Engine. [{number}]" in answer.splitlines()
    assert {citation["number"] for citation in citations} <= {each["number"] for each in context["references"]}


def test_a_reader_has_extracts_of_what_he_may_see(db: Database, endpoint: Endpoint) -> None:
    corpus = stories(db, endpoint)
    put(db, corpus, "secret", "Ada Lovelace wrote a secret letter on the Analytical Engine.")
    work(db)
    db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    db.execute("CREATE POLICY open ON graphrag.documents FOR SELECT TO graphrag_reader USING (source_key <> 'secret')")
    answering(endpoint, LOOP)
    with as_reader(db):
        with warnings(db) as messages:
            answer, citations, usage, context = ask(db, QUESTION, corpus)
        pieces = stream(db, QUESTION, corpus)
    check_extracts(answer, citations, context)
    assert usage["answer"] == "extracts"
    assert "secret" not in answer + "".join(pieces)
    assert "Ada" not in "".join(messages)


def test_a_context_without_references_cannot_be_cited(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    answering(endpoint, "Notes.")
    answer, citations, usage, context = ask(module_db, QUESTION, corpus, options={"include_chunks": False})
    assert context["references"] == []
    assert (answer, citations) == ("Notes.", [])
    assert "answer" not in usage


def test_a_stream_without_citation_ends_with_extracts(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    said = UNHELD["no citation"]
    answering(endpoint, said)
    with module_db.transaction(), warnings(module_db) as messages:
        pieces = stream(module_db, QUESTION, corpus)
        whole = "".join(pieces)
        answer, citations, usage, context = ask(module_db, QUESTION, corpus)
    assert len(pieces) > 1
    assert whole == f"{said}\n\n{answer}"
    check_extracts(answer, citations, context)
    # What follows the stream, for its citations, asks nobody.
    assert usage["calls"] == 0
    assert len(answers_asked(endpoint)) == 1
    (message,) = messages
    assert "cited none of the documents" in message


def test_of_a_stream_that_repeats_itself_only_the_first_is_given(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    answering(endpoint, LOOP)
    with warnings(module_db) as messages:
        whole = "".join(stream(module_db, QUESTION, corpus))
    said, heading, _ = whole.partition(HEADING)
    assert heading
    assert said.count("Ada Lovelace wrote notes") == 1
    assert len(messages) == 1
    assert "repeated itself" in messages[0]


def test_a_stream_holds_back_no_more_than_a_copy(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    said = "Ada wrote notes [1]. Ada wrote letters [1]. Ada wrote notes [1], too. Ada wrote to Babbage [1]."
    answering(endpoint, said)
    pieces = stream(module_db, QUESTION, corpus)
    assert "".join(pieces) == said
    assert len(pieces) > 5


def test_an_answer_cached_by_an_older_version_must_hold_too(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    ask(module_db, QUESTION, corpus)
    module_db.execute("UPDATE graphrag.llm_cache SET reply = 'Notes.' WHERE reply = %s", [ANSWER])
    assert "".join(stream(module_db, QUESTION, corpus)) == ANSWER
    module_db.execute("UPDATE graphrag.llm_cache SET reply = 'Notes.' WHERE reply = %s", [ANSWER])
    assert ask(module_db, QUESTION, corpus)[0] == ANSWER


def test_a_warning_has_one_short_line_of_a_models_words(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    said: list[tuple[str, str]] = []
    module_db.add_notice_handler(lambda diag: said.append((diag.message_primary or "", diag.message_detail or "")))
    endpoint.reply(lambda messages: "stammer and\n" * 300 if is_keywords(messages) else ANSWER)
    assert ask(module_db, QUESTION, corpus)[0] == ANSWER
    assert said
    for message, detail in said:
        assert len(detail.splitlines()) <= 1
        assert len(detail) <= 100
        assert (message + detail).count("stammer") <= 100 // len("stammer and ") + 1


@pytest.mark.parametrize(
    "keywords",
    [
        {"low_level_keywords": ["..."], "high_level_keywords": ["…"], "entities": [], "answer_types": ["person"]},
        {"low_level_keywords": ["people", "organisations"], "high_level_keywords": ["themes"], "entities": []},
    ],
)
def test_keywords_that_repeat_the_template_are_none(
    module_db: Database, corpus: str, endpoint: Endpoint, keywords: Any
) -> None:
    endpoint.reply(lambda messages: json.dumps(keywords) if is_keywords(messages) else ANSWER)
    _, _, _, context = ask(module_db, QUESTION, corpus)
    assert context["understanding"]["by"] == "noun phrases"


# --- the deadline ---------------------------------------------------------------------------------------------------------


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    began = time.monotonic()
    return run(), time.monotonic() - began


@pytest.mark.parametrize("mode", ["hybrid", "bm25"])
def test_an_endpoint_that_hangs_leaves_extracts_in_time(module_db: Database, endpoint: Endpoint, mode: str) -> None:
    corpus = stories(module_db, endpoint, timeout=60)
    endpoint.pause()
    try:
        with warnings(module_db) as messages:
            (answer, citations, usage, context), seconds = timed(
                lambda: ask(module_db, QUESTION, corpus, mode=mode, options={"answer_timeout": 2})
            )
    finally:
        endpoint.resume()
    check_extracts(answer, citations, context)
    # Nothing came until the answer should have begun.
    assert seconds < 2 + 1
    assert (usage["answer"], usage["reason"]) == ("extracts", "deadline")
    assert "answer_timeout (2 s)" in messages[-1]
    assert places_held(module_db) == 0


def test_a_stream_of_an_endpoint_that_hangs_ends_in_time(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, timeout=60)
    endpoint.misbehave("hanging_stream", None)
    with warnings(module_db) as messages:
        pieces, seconds = timed(lambda: stream(module_db, QUESTION, corpus, mode="bm25", options={"answer_timeout": 1}))
    assert seconds < 1 * 2 + 1
    said, heading, _ = "".join(pieces).partition(HEADING)
    assert heading and ANSWER.startswith(said.strip())
    assert "answer_timeout (1 s)" in messages[-1]
    assert places_held(module_db) == places_held(module_db, "streams") == 0


@pytest.mark.parametrize("function", ["ask", "stream"])
def test_an_answer_that_trickles_is_given_as_far_as_it_came(
    module_db: Database, endpoint: Endpoint, function: str
) -> None:
    corpus = stories(module_db, endpoint, timeout=60)
    whole = f"{ANSWER} " + "She was admired by Grace Hopper, who wrote compilers for a living. " * 2
    answering(endpoint, whole)
    endpoint.misbehave("slow_stream", None, pause=0.12)
    with warnings(module_db) as messages:
        if function == "ask":
            (answer, citations, usage, _), seconds = timed(
                lambda: ask(module_db, QUESTION, corpus, mode="bm25", options={"answer_timeout": 1})
            )
            assert citations
            assert "answer" not in usage
        else:
            pieces, seconds = timed(
                lambda: stream(module_db, QUESTION, corpus, mode="bm25", options={"answer_timeout": 1})
            )
            answer = "".join(pieces)
    assert whole.startswith(answer)
    assert len(ANSWER) <= len(answer) < len(whole)
    assert 1.5 < seconds < 2 + 1
    assert any("cut off" in message for message in messages)


def test_a_question_that_waits_for_its_turn_is_answered_in_time(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, timeout=60, concurrency=1)
    # Its first piece is more than a stream holds back.
    answering(endpoint, f"{'-'.join(map(str, range(99)))} [1]")
    endpoint.misbehave("slow_stream", 1, pause=30)
    with psycopg.connect(module_db.url, autocommit=True) as other, other.transaction(force_rollback=True):
        call = f"graphrag.ask_stream('{QUESTION}', '{corpus}', 'bm25')"
        other.execute(f"DECLARE answer CURSOR FOR SELECT {call}".encode())
        other.execute("FETCH 1 FROM answer")
        (answer, _, usage, _), seconds = timed(
            lambda: ask(module_db, "What did Ada admire?", corpus, mode="bm25", options={"answer_timeout": 1})
        )
    assert usage["reason"] == "deadline"
    assert answer.startswith(HEADING)
    assert seconds < 1 * 2 + 1


def test_a_model_of_the_context_that_hangs_leaves_time_for_the_answer(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, timeout=60)
    endpoint.misbehave("timeout", None, when=lambda request: is_keywords(request.messages))
    (answer, _, _, context), seconds = timed(lambda: ask(module_db, QUESTION, corpus, options={"answer_timeout": 2}))
    assert answer == ANSWER
    assert context["understanding"]["by"] == "noun phrases"
    assert seconds < 2 + 1


@pytest.mark.parametrize("mode", ["graph_global", "drift", "lazy"])
def test_a_mode_whose_models_give_nothing_in_time_answers_from_chunks(
    module_db: Database, endpoint: Endpoint, mode: str
) -> None:
    corpus = themes.themed(module_db, endpoint)
    answering(endpoint, "Nemo fought the Kraken [1].")
    endpoint.misbehave("timeout", None, when=lambda request: themes.task(request.messages) not in ("answer", "reduce"))
    options = {"answer_timeout": 2, "level": 0} if mode != "lazy" else {"answer_timeout": 2}
    with warnings(module_db) as messages:
        (answer, citations, _, context), seconds = timed(
            lambda: ask(module_db, "Who fought the Kraken?", corpus, mode=mode, options=options)
        )
    assert answer == "Nemo fought the Kraken [1]."
    assert citations
    assert context["chunks"]
    assert "chunks" in context["explain"]["instead"]
    assert any(f'the models that mode "{mode}" asks gave no context' in message for message in messages)
    assert seconds < 2 * 2 + 1


@pytest.mark.parametrize("mode", ["graph_global", "drift", "lazy"])
@pytest.mark.parametrize("said", ["Nemo fought the Kraken [1].", "I do not know."])
def test_a_mode_whose_models_note_nothing_answers_from_chunks(
    module_db: Database, endpoint: Endpoint, mode: str, said: str
) -> None:
    corpus = themes.themed(module_db, endpoint)
    step = json.dumps({"answer": "", "score": 0, "follow_ups": []})
    scripted = {"map": themes.points(), "primer": step, "follow_up": step, "relevant_passages": '{"relevant": [1]}'}
    endpoint.reply(lambda messages: scripted.get(themes.task(messages), said))
    options = {"level": 0} if mode != "lazy" else {}
    with warnings(module_db) as messages:
        answer, citations, usage, context = ask(module_db, "Who fought the Kraken?", corpus, mode=mode, options=options)
    assert citations
    assert "Kraken" in answer
    assert usage.get("answer") == ("extracts" if said.startswith("I") else None)
    assert context["explain"]["instead"] == "chunks: the models noted nothing that helps"
    assert any("noted nothing that helps" in message for message in messages)


@pytest.mark.parametrize("mode", ["graph_global", "drift", "lazy"])
def test_an_answer_of_notes_that_does_not_hold_gives_way_to_sentences_of_what_they_cite(
    module_db: Database, endpoint: Endpoint, mode: str
) -> None:
    corpus = themes.themed(module_db, endpoint)
    noted = themes.points(("Nemo fought the Kraken [1]", 90))
    step = json.dumps({"answer": "Nemo fought the Kraken [1].", "score": 90, "follow_ups": []})
    scripted = {"map": noted, "primer": step, "follow_up": step, "relevant_passages": '{"relevant": [1]}'}
    endpoint.reply(lambda messages: scripted.get(themes.task(messages), "I do not know."))
    options = {"level": 0} if mode != "lazy" else {}
    answer, citations, usage, context = ask(module_db, "Who fought the Kraken?", corpus, mode=mode, options=options)
    assert usage["answer"] == "extracts"
    assert context["points"]
    check_extracts(answer, citations, context)


def test_points_that_cite_nothing_are_none(module_db: Database, endpoint: Endpoint) -> None:
    corpus = themes.themed(module_db, endpoint)
    scripted = {"map": themes.points(("Nemo fought the Kraken", 90)), "answer": "Nemo [1]."}
    endpoint.reply(lambda messages: scripted[themes.task(messages)])
    answer, citations, _, context = ask(
        module_db, "Who fought the Kraken?", corpus, mode="graph_global", options={"level": 0}
    )
    assert answer == "Nemo [1]."
    assert citations
    assert context["explain"]["instead"].startswith("chunks: ")


def test_a_reranker_that_hangs_leaves_the_rows_as_they_are(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, timeout=60)
    rerank = {"provider": provider(module_db, endpoint, kind="rerank", timeout=60), "model": "ranker"}
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"rerank": rerank})])
    endpoint.misbehave("timeout", None, when=lambda request: request.kind == "rerank")
    with warnings(module_db) as messages:
        (answer, _, _, _), seconds = timed(
            lambda: ask(module_db, QUESTION, corpus, mode="bm25", options={"answer_timeout": 2, "rerank": True})
        )
    assert answer == ANSWER
    assert seconds < 2 + 1
    assert any("rows were not re-scored" in message for message in messages)


def test_an_embedder_that_hangs_leaves_the_words(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint, timeout=60)
    corpus = embedded(module_db, name, llm={"provider": name, "model": "m"})
    put_all(module_db, corpus, STORIES)
    work(module_db)
    endpoint.misbehave("timeout", None, when=lambda request: request.kind == "embeddings")
    with warnings(module_db) as messages:
        (answer, citations, _, context), seconds = timed(
            lambda: ask(module_db, QUESTION, corpus, options={"answer_timeout": 2})
        )
    assert answer == ANSWER
    assert citations
    assert context["chunks"]
    assert seconds < 2 + 1
    assert any("gave no context" in message for message in messages)


@pytest.mark.parametrize("function", ["ask", "ask_stream"])
def test_a_cancel_gets_through_while_an_answer_is_awaited(
    module_db: Database, endpoint: Endpoint, function: str
) -> None:
    corpus = stories(module_db, endpoint, timeout=60)
    endpoint.pause()
    module_db.execute("SET statement_timeout = '700ms'")
    try:
        diag, seconds = timed(
            lambda: refused(module_db, f"SELECT graphrag.{function}(%s, %s, 'bm25')", QUESTION, corpus)
        )
    finally:
        module_db.execute("RESET statement_timeout")
        endpoint.resume()
    assert diag.sqlstate == "57014"
    assert seconds < 0.7 + 1
    wait_for(lambda: endpoint.in_flight == 0, "the closed connection")


def test_the_corpus_has_a_deadline_and_a_call_another(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, corpus={"answer_timeout": 1}, timeout=60)
    endpoint.pause()
    try:
        for options, most in (({}, 1), ({"answer_timeout": 0.5}, 0.5)):
            with warnings(module_db) as messages:
                _, seconds = timed(partial(ask, module_db, QUESTION, corpus, mode="bm25", options=options))
            assert f"answer_timeout ({most:g} s)" in messages[-1]
            assert seconds < 2 * most + 1
    finally:
        endpoint.resume()
    with pytest.raises(psycopg.Error) as error:
        module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"answer_timeout": 0})])
    assert error.value.diag.sqlstate == "22023"


@pytest.mark.parametrize("bad", [0, -1, "x", True, 1e9])
def test_a_bad_deadline_is_refused(module_db: Database, corpus: str, endpoint: Endpoint, bad: Any) -> None:
    with pytest.raises(psycopg.Error) as error:
        ask(module_db, QUESTION, corpus, options={"answer_timeout": bad})
    assert (error.value.diag.sqlstate, "answer_timeout" in str(error.value.diag.message_primary)) == ("22023", True)
    for function in ("search", "context"):
        diag = refused(
            module_db, f"SELECT graphrag.{function}('x', %s, options => '{{\"answer_timeout\": 1}}')", corpus
        )
        assert diag.sqlstate == "22023"
    assert endpoint.count() == 0
