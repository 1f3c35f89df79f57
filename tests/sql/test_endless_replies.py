"""What a small model does, by its recorded words: it loops, stammers, goes on without end, repeats the prompt, invents."""

import time

import pytest

from tests.endpoint import Endpoint, Request
from tests.runtime.cluster import Database
from tests.runtime.real_model import repeats
from tests.sql.asking import ask, is_keywords, lines, understand, warnings, with_model
from tests.sql.extracting import chats, hurry
from tests.sql.ingest import ROCKETS, Connection, put, rows, statuses, value, work

REPLY = lines
QUESTION = "Who designed the Kestrel engine?"
# Tokens after which a reply that only repeats itself has been stopped, its beginning and what is on its way among them.
SOON = 160
# Seconds between tokens: of what is sent at once, all would be on its way.
PAUSE = 0.005


@pytest.fixture(scope="module")
def corpus(module_db: Database, module_endpoint: Endpoint) -> str:
    """The README's documents, whose graph is made without the model."""
    name = with_model(module_db, module_endpoint)
    put_rockets(module_db, name)
    return name


@pytest.fixture
def endpoint(module_endpoint: Endpoint) -> Endpoint:
    module_endpoint.behave()
    module_endpoint.forget()
    return module_endpoint


def put_rockets(db: Connection, corpus: str) -> None:
    for key, (title, content) in ROCKETS.items():
        put(db, corpus, key, content, title)
    work(db)
    for _ in range(6):
        hurry(db, corpus)


def extracted(db: Connection, endpoint: Endpoint, **options: object) -> str:
    """The README's documents, about one of which the model misbehaves, as it does in their extraction."""
    corpus = with_model(db, endpoint, corpus={"extractor": "llm", **options})
    put_rockets(db, corpus)
    assert statuses(db, corpus) == dict.fromkeys(ROCKETS, "indexed")
    return corpus


def names(db: Connection, corpus: str, key: str) -> set[str]:
    """The names that the chunks of a document mention."""
    records = rows(
        db,
        "SELECT m.name FROM graphrag.entity_mentions m JOIN graphrag.documents d ON d.id = m.document_id"
        " WHERE d.corpus = %s AND d.source_key = %s",
        corpus,
        key,
    )
    return {name for (name,) in records}


def is_answer(request: Request) -> bool:
    return request.kind == "chat" and not is_keywords(request.messages)


def as_asked(request: Request) -> dict[str, object]:
    """How a request samples."""
    return {name: value for name, value in request.body.items() if name.endswith(("temperature", "penalty"))}


def test_an_answer_that_loops_is_stopped_and_asked_otherwise(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    endpoint.misbehave("loops", None, when=is_answer, pause=PAUSE)
    with warnings(module_db) as said:
        answer, citations, _, _ = ask(module_db, QUESTION, corpus, mode="bm25")
    first, second = chats(endpoint)
    assert max(first.sent, second.sent) < SOON
    assert as_asked(first) != as_asked(second)
    assert "He designed the Kestrel engine" in answer
    assert citations
    assert not repeats(answer)
    assert len(said) == 1
    assert "\n" not in said[0]


def test_an_answer_that_says_a_sentence_three_times_is_none(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    endpoint.reply(
        lambda messages: (
            lines(messages)
            if is_keywords(messages)
            else "They are part of a document that has all the information [1]. " * 3
        )
    )
    answer, citations, _, _ = ask(module_db, "Who designed that Kestrel engine?", corpus, mode="bm25")
    endpoint.reply(lines)
    assert citations
    assert "They are" not in answer


@pytest.mark.parametrize("kind", ["template", "rambles"])
def test_an_answer_without_citation_is_none(module_db: Database, corpus: str, endpoint: Endpoint, kind: str) -> None:
    endpoint.misbehave(kind, None, when=is_answer)
    answer, citations, _, _ = ask(module_db, f"{QUESTION} ({kind})", corpus, mode="bm25")
    assert citations
    assert "word7" not in answer
    assert "The text is" not in answer
    assert endpoint.count() == 2


def test_an_answer_that_trickles_ends_at_the_deadline(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    endpoint.misbehave("rambles", None, when=is_answer, pause=0.2)
    start = time.monotonic()
    _, citations, _, _ = ask(
        module_db, "What does the engine burn?", corpus, mode="bm25", options={"answer_timeout": 1.5}
    )
    # Twice the deadline, and a second for what is no waiting.
    assert time.monotonic() - start < 4
    assert citations


def test_every_reply_has_a_limit(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.misbehave("rambles", None)
    corpus = extracted(module_db, endpoint)
    ask(module_db, QUESTION, corpus)
    assert chats(endpoint)
    limits = [
        request.body.get("max_tokens") or request.body.get("max_completion_tokens") for request in chats(endpoint)
    ]
    assert all(limit is not None and limit < 4096 for limit in limits)


@pytest.mark.parametrize("kind", ["loops", "stammers"])
def test_keywords_that_loop_are_noun_phrases(module_db: Database, corpus: str, endpoint: Endpoint, kind: str) -> None:
    endpoint.misbehave(kind, None, pause=PAUSE)
    with warnings(module_db) as said:
        understood = understand(module_db, f"Which engine has {kind}?", corpus)
    assert "JetBrains" not in str(understood)
    assert max(request.sent for request in chats(endpoint)) < SOON
    assert [text for text in said if "\n" in text or len(text) > 400] == []


def test_what_is_complete_before_a_loop_is_used(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.misbehave("loops", None, pause=PAUSE, when=lambda request: "chief engineer of Acme" in request.text)
    corpus = extracted(module_db, endpoint, max_gleaning=0)
    asked = [request for request in chats(endpoint) if request.faults]
    assert max(request.sent for request in asked) < SOON
    # What NLP finds has no such type.
    typed = "SELECT m.type FROM graphrag.graph_mentions m WHERE m.corpus = %s AND m.name = 'Bob Stone'"
    assert [kind.casefold() for (kind,) in rows(module_db, typed, corpus)] == ["engineer"]


@pytest.mark.parametrize("kind", ["stammers", "template"])
def test_a_document_of_which_nothing_is_said_has_the_graph_of_nlp(
    module_db: Database, endpoint: Endpoint, kind: str
) -> None:
    endpoint.misbehave(kind, None)
    corpus = extracted(module_db, endpoint)
    for key in ROCKETS:
        assert names(module_db, corpus, key)
    assert not any("Laser" in name for key in ROCKETS for name in names(module_db, corpus, key))
    # A chunk each: never the same five times.
    assert len(chats(endpoint)) <= 4 * len(ROCKETS)


def test_names_that_are_invented_are_kept_apart(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.misbehave("invented", None)
    corpus = extracted(module_db, endpoint, max_gleaning=0)
    for key in ROCKETS:
        assert names(module_db, corpus, key)
    known = "SELECT count(*) FROM graphrag.entities e JOIN graphrag.corpora c ON c.id = e.corpus_id WHERE c.name = %s"
    assert value(module_db, f"{known} AND e.name ~ 'Airlines|Leffler'", corpus) == 0
    unfit = rows(
        module_db,
        "SELECT DISTINCT kind FROM graphrag.unfit_extractions WHERE corpus = %s AND reason LIKE '%%not in the text%%'",
        corpus,
    )
    assert ("entity",) in unfit
