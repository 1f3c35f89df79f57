"""Summaries of descriptions of which there are many: work of its own that blocks nothing, cached, and gone when not needed."""

import json
from random import Random
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint, Request
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.extracting import chats, entities, extracted, extracted_texts, noted, relationships, text_of
from tests.sql.ingest import canonical, corpus_id, delete, jobs, put, rows, statuses, value, work
from tests.sql.llm import provider


def is_summary(request: Request) -> bool:
    return request.kind == "chat" and len(request.messages) == 1


def statements(messages: Messages) -> list[str]:
    """What is to be summarised."""
    return [line[2:] for line in str(messages[0]["content"]).splitlines() if line.startswith("- ")]


def reply(messages: Messages) -> str:
    """Every text is about Ada and the Engine; a summary says of what, in a form that tells it from its parts."""
    if len(messages) == 1:
        return f"Sum of {len(statements(messages))}: {' + '.join(statement[:8] for statement in statements(messages))}."
    text = text_of(messages)
    head, point, words = text.partition(". ")
    # A reply that says a long text twice would repeat itself.
    other = head + point + " ".join(reversed(words.split()))
    result: dict[str, Any] = {
        "entities": [{"name": "Ada", "type": "person", "description": text}, {"name": "Engine", "type": "product"}],
        "relationships": [{"source": "Ada", "target": "Engine", "keywords": ["note"], "description": other}],
    }
    return json.dumps(result)


REPLY = reply


WORDS = (
    "wood iron gold snow wind rain tree road hill bird fish ship king hand head year book song milk salt fire wall door sand sea "
    "day ice oil sun moon star leaf seed root wool silk rope nail lamp"
).split()


def note(number: int, words: int = 0) -> str:
    """A text of some 7 tokens more than `words`, which do not repeat each other."""
    return " ".join([f"Note {number:03} of Ada on the Engine.", *Random(number).choices(WORDS, k=words)])


def joined(*numbers: int) -> str:
    return "\n".join(note(number) for number in numbers)


def sum_of(*numbers: int) -> str:
    return f"Sum of {len(numbers)}: {' + '.join(note(number)[:8] for number in numbers)}."


def noting(db: Database, corpus: str, numbers: Any, words: int = 0) -> None:
    for number in numbers:
        put(db, corpus, f"note {number}", note(number, words))


def ada(db: Database, corpus: str) -> str:
    return entities(db, corpus)["Ada"][1]


def asked(endpoint: Endpoint) -> int:
    return sum(map(is_summary, endpoint.requests))


def test_from_eight_fragments_a_summary_describes(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted(module_db, endpoint)
    noting(module_db, corpus, range(7))
    work(module_db)
    assert ada(module_db, corpus) == joined(*range(7))
    assert asked(endpoint) == 0
    noting(module_db, corpus, [7])
    # Text and graph are done, the merged description there: the summary is a job of its own.
    work(module_db, 2)
    assert statuses(module_db, corpus)["note 7"] == "indexed"
    assert ada(module_db, corpus) == joined(*range(8))
    assert [(kind, state) for _, kind, state, _ in jobs(module_db, corpus)] == [("summarize", "pending")]
    work(module_db)
    assert jobs(module_db, corpus) == []
    assert ada(module_db, corpus) == sum_of(*range(8))
    assert relationships(module_db, corpus)["Ada", "Engine"][1] == sum_of(*range(8))
    assert entities(module_db, corpus)["Engine"][1] == ""
    assert asked(endpoint) == 2
    assert noted(module_db, corpus, "summary")[:2] == (2, 0)
    prompts = sorted(request.text for request in endpoint.requests if is_summary(request))
    assert "about how “Ada” and “Engine” are connected, one a line" in prompts[0]
    assert "about “Ada” (person), one a line" in prompts[1]
    # What is shown elsewhere is the same.
    query = "MATCH (a:Entity {name: 'Ada'})-[r:RELATED]->(b) RETURN a.description AS a, r.description AS r"
    assert value(module_db, "SELECT graphrag.cypher(%s, %s)", corpus, query) == dict.fromkeys("ar", sum_of(*range(8)))
    nodes = "SELECT description FROM graphrag.graph_nodes WHERE corpus = %s AND name = 'Ada'"
    assert value(module_db, nodes, corpus) == sum_of(*range(8))


def test_from_1200_tokens_a_summary_describes(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint)
    noting(module_db, corpus, [0, 1], words=500)
    work(module_db)
    assert asked(endpoint) == 0
    noting(module_db, corpus, [2], words=500)
    work(module_db, 1)
    # No more than 1200 tokens are joined; the summary is of all.
    assert ada(module_db, corpus).count("Note") == 2
    work(module_db)
    assert ada(module_db, corpus) == sum_of(0, 1, 2)


def test_what_was_summarised_before_costs_nothing_and_fewer_fragments_are_joined_again(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = extracted_texts(module_db, endpoint)
    noting(module_db, corpus, range(8))
    work(module_db)
    assert asked(endpoint) == 2
    whole = canonical(module_db, corpus)
    endpoint.forget()
    # The same said once more changes counts, not fragments.
    put(module_db, corpus, "twin", note(3))
    work(module_db)
    assert ada(module_db, corpus) == sum_of(*range(8))
    delete(module_db, corpus, "twin")
    delete(module_db, corpus, "note 0")
    work(module_db)
    assert ada(module_db, corpus) == joined(*range(1, 8))
    assert relationships(module_db, corpus)["Ada", "Engine"][1] == joined(*range(1, 8))
    assert jobs(module_db, corpus) == []
    noting(module_db, corpus, [0])
    work(module_db)
    assert ada(module_db, corpus) == sum_of(*range(8))
    assert canonical(module_db, corpus) == whole
    assert chats(endpoint) == []


def test_what_changes_while_it_is_summarised_is_summarised_anew(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint)
    noting(module_db, corpus, range(9))
    work(module_db, 9)

    def late(messages: Messages) -> str:
        if len(messages) == 1 and len(statements(messages)) == 9:
            module_db_2.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'note 8'", [corpus])
            module_db_2.execute("CALL graphrag.process_jobs(1)")
        return reply(messages)

    with Database.open(module_db.url) as module_db_2:
        module_db_2.autocommit = True
        endpoint.reply(late)
        work(module_db)
        work(module_db)
    assert ada(module_db, corpus) == sum_of(*range(8))
    assert relationships(module_db, corpus)["Ada", "Engine"][1] == sum_of(*range(8))
    assert jobs(module_db, corpus) == []


def test_too_many_for_one_prompt_are_summarised_in_groups(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint)
    noting(module_db, corpus, range(30), words=700)
    work(module_db)
    of_ada = [r for r in endpoint.requests if is_summary(r) and "about “Ada” (person)" in r.text]
    groups, (last,) = of_ada[:-1], of_ada[-1:]
    assert len(groups) >= 2
    summarised = [text for request in groups for text in statements(request.messages)]
    assert sorted(summarised) == [note(n, 700) for n in range(30)], "each is told once"
    assert all(len(request.text) < 12_000 * 5 for request in groups)
    assert sorted(statements(last.messages)) == sorted(reply(request.messages) for request in groups)
    assert ada(module_db, corpus) == reply(last.messages)
    # One less: its group and the last one are asked anew, for the entity and the relationship.
    endpoint.forget()
    delete(module_db, corpus, "note 0")
    work(module_db)
    assert asked(endpoint) == 4
    assert note(0) not in ada(module_db, corpus)


def test_a_prompt_that_is_too_long_for_the_model_is_halved(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.misbehave("context_too_long", None, when=lambda r: is_summary(r) and len(statements(r.messages)) > 4)
    corpus = extracted_texts(module_db, endpoint)
    noting(module_db, corpus, range(8))
    work(module_db)
    halves = [reply([{"content": "\n".join(f"- {note(n)}" for n in part)}]) for part in (range(4), range(4, 8))]
    assert ada(module_db, corpus) == reply([{"content": "\n".join(f"- {half}" for half in halves)}])


def test_without_a_model_for_summaries_the_fragments_are_joined_until_there_is_one(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = extracted_texts(module_db, endpoint, summaries=False)
    noting(module_db, corpus, range(9))
    work(module_db)
    assert ada(module_db, corpus) == joined(*range(9))
    assert asked(endpoint) == 0
    assert jobs(module_db, corpus) == []
    llm = value(module_db, "SELECT options -> 'llm' FROM graphrag.corpora WHERE name = %s", corpus)
    llm["roles"]["summary"] = {"provider": provider(module_db, endpoint), "model": "s"}
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"llm": llm})])
    work(module_db)
    assert ada(module_db, corpus) == sum_of(*range(9))
    assert asked(endpoint) == 2, "Ada, and what she has to do with the Engine"
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def failing(db: Database, endpoint: Endpoint, kind: str) -> str:
    """A corpus of eight notes whose model for summaries is another one, which fails."""
    endpoint.misbehave(kind, None, when=is_summary)
    summaries = {"provider": provider(db, endpoint, timeout=1), "model": "s"}
    corpus = extracted_texts(db, endpoint, llm={"roles": {"summary": summaries}})
    noting(db, corpus, range(8))
    work(db)
    assert set(statuses(db, corpus).values()) == {"indexed"}
    assert ada(db, corpus) == joined(*range(8))
    return corpus


def heal(db: Database, endpoint: Endpoint, corpus: str) -> None:
    endpoint.behave()
    db.execute("SELECT graphrag.retry_failed()")
    work(db)
    assert jobs(db, corpus) == []


@pytest.mark.parametrize("kind", ["timeout", "server_error", "html", "rate_limited"])
def test_an_endpoint_that_fails_blocks_no_indexing(module_db: Database, endpoint: Endpoint, kind: str) -> None:
    corpus = failing(module_db, endpoint, kind)
    ((_, of_job, state, leased),) = jobs(module_db, corpus)
    assert (of_job, state, leased) == ("summarize", "pending", False)
    why = value(module_db, "SELECT waiting_for FROM graphrag.progress WHERE corpus = %s", corpus)
    assert why.startswith(("ProviderFault: ", "TimedOut: "))
    noting(module_db, corpus, [8])
    work(module_db)
    assert set(statuses(module_db, corpus).values()) == {"indexed"}
    assert ada(module_db, corpus) == joined(*range(9))
    heal(module_db, endpoint, corpus)
    assert ada(module_db, corpus) == sum_of(*range(9))
    assert relationships(module_db, corpus)["Ada", "Engine"][1] == sum_of(*range(9))


def test_a_refused_key_is_a_dead_letter_and_blocks_no_indexing(module_db: Database, endpoint: Endpoint) -> None:
    corpus = failing(module_db, endpoint, "unauthorized")
    letters = rows(module_db, "SELECT kind, last_error FROM graphrag.failed_jobs WHERE corpus = %s", corpus)
    assert [kind for kind, _ in letters] == ["summarize"]
    assert "answered 401" in letters[0][1]
    noting(module_db, corpus, [8])
    work(module_db)
    assert ada(module_db, corpus) == joined(*range(9))
    heal(module_db, endpoint, corpus)
    assert ada(module_db, corpus) == sum_of(*range(9))


@pytest.mark.parametrize("kind", ["empty", "cut_off"])
def test_what_the_model_cannot_summarise_stays_joined(module_db: Database, endpoint: Endpoint, kind: str) -> None:
    corpus = failing(module_db, endpoint, kind)
    assert jobs(module_db, corpus) == []
    assert asked(endpoint) == 6, "an entity and a relationship, three times each"
    work(module_db)
    assert asked(endpoint) == 6
    endpoint.behave()
    noting(module_db, corpus, [8])
    work(module_db)
    assert ada(module_db, corpus) == sum_of(*range(9))


def test_a_summary_is_the_same_whatever_the_order(module_db: Database, endpoint: Endpoint) -> None:
    forwards, backwards = (extracted_texts(module_db, endpoint) for _ in range(2))
    noting(module_db, forwards, range(12))
    work(module_db)
    for number in reversed(range(12)):
        noting(module_db, backwards, [number])
        if number % 2 == 0:
            work(module_db)
    assert canonical(module_db, backwards) == canonical(module_db, forwards)


def test_a_spent_budget_holds_summaries_back(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint, provider={"price_input": 1000}, embedding={"provider": "local"})
    noting(module_db, corpus, range(8))
    work(module_db, 8)
    llm = value(module_db, "SELECT options -> 'llm' FROM graphrag.corpora WHERE name = %s", corpus)
    for budget, calls in ((0.001, 0), (None, 2)):
        module_db.execute(
            "SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"llm": llm | {"monthly_budget": budget}})]
        )
        module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
        work(module_db)
        assert asked(endpoint) == calls
        why = value(module_db, "SELECT waiting_for FROM graphrag.progress WHERE corpus = %s", corpus)
        assert why is None if calls else why.startswith("BudgetReached: the monthly budget of corpus")
    due = "SELECT count(*) FROM graphrag.entities WHERE corpus_id = %s AND summary_due"
    assert value(module_db, due, corpus_id(module_db, corpus)) == 0
    assert ada(module_db, corpus) == sum_of(*range(8))
