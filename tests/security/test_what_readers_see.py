"""What a reader gets does not change when documents that he may not see do: differential tests over all that he can call."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.security.portrait import Portrait, Reader, portrait, restricted
from tests.sql.curating import curate
from tests.sql.extracting import extracted, said_of, text_of
from tests.sql.ingest import STORIES, new_corpus, put, rows, work
from tests.sql.llm import provider
from tests.sql.themes import points, task

VISIBLE = {key: STORIES[key] for key in ("ada", "babbage")}
# Of the same words as SHUFFLED: what BM25 counts, and how long texts are, is equal.
HIDDEN = {
    "secret": "Charles Babbage hid the Enigma machine in London. Ada Lovelace paid Bletchley Park. Alan Turing slept.",
    "zephyr": "Project Zephyr has a budget. Charles Babbage leads Project Zephyr. Ada Lovelace funds Project Zephyr.",
}
SHUFFLED = {
    "secret": "Bletchley Turing hid the Charles Lovelace in Alan. London Ada paid Enigma machine. Babbage Park slept.",
    "zephyr": "Budget Babbage has a Zephyr. Project Ada leads Charles Zephyr. Lovelace Project funds Project Zephyr.",
}


def reply(messages: Messages) -> str:
    """A model for every task: what texts say, keywords of Ada, everything relevant, and answers that cite."""
    if len(messages) > 1 and "to the end of the message" in str(messages[1]["content"]):
        text = text_of(messages)
        if len(messages) > 2:
            return '{"entities": [], "relationships": [], "claims": []}'
        return json.dumps(said_of(text) | {"claims": claims_of(text)})
    last = str(messages[-1]["content"])
    if "Write a report on the group" in str(messages):
        return json.dumps({"title": "Report", "summary": last[-300:], "rating": 5, "findings": []})
    given: dict[str, Any] = {
        "keywords": {"low_level_keywords": ["Ada Lovelace"], "high_level_keywords": ["admiration"], "entities": []},
        "refine": {"queries": ["Who admired Ada Lovelace?"], "expanded": "Who admired Ada Lovelace?"},
        "relevant": {"relevant": True},
        "relevant_passages": {"relevant": list(range(1, 51)), "irrelevant": []},
        "rate": {"rating": 5},
    }
    try:
        what = task(messages)
    except ValueError:
        return "A summary of all that was said."
    return points(("He did [1].", 90)) if what == "map" else json.dumps(given[what]) if what in given else "He did [1]."


REPLY = reply


def claims_of(text: str) -> list[dict[str, str]]:
    """A claim of each sentence that names two things."""
    names = re.compile(r"[A-Z]\w+ [A-Z]\w+")
    sentences = [(names.findall(sentence), sentence) for sentence in re.findall(r"[^\s.][^.]*\.", text)]
    return [
        {"subject": names_in[0], "object": names_in[-1], "type": "act", "status": "TRUE", "description": sentence}
        | {"start": "", "end": "", "source_text": ""}
        for names_in, sentence in sentences
        if len(names_in) > 1
    ]  # fmt: skip


def fill(db: Any, corpus: str, documents: dict[str, str], *, visible: bool) -> None:
    for key, text in documents.items():
        put(db, corpus, key, text, title=f"On {key}", metadata={"open": visible})
    work(db)


def concepts(db: Any, endpoint: Endpoint) -> str:
    """A corpus of concepts and of local vectors, with communities, and a model for all that is asked."""
    models = {"provider": provider(db, endpoint, timeout=20), "model": "m"}
    roles = ("answer", "relevance", "keywords")
    return new_corpus(db, communities={"max_cluster_size": 5}, llm={"roles": dict.fromkeys(roles, models)})


def described(db: Any, endpoint: Endpoint) -> str:
    """A corpus that a model extracts, claims and summaries and reports too, with vectors of the endpoint."""
    return extracted(db, endpoint, claims=True, communities={"max_cluster_size": 5})


def more_hidden(db: Any, corpus: str) -> None:
    """More mentions, other spellings and types of what is visible, and relationships that only these documents state."""
    loud = "ADA LOVELACE despised CHARLES BABBAGE {} times. "
    fill(db, corpus, {f"louder {n}": loud.format(n) * 3 for n in range(12)}, visible=False)
    link = "Ada Lovelace never met London. London owned the Analytical Engine. Grace Hopper met London."
    fill(db, corpus, {"link": link}, visible=False)
    fill(db, corpus, {"empty": "", "only a title": " "} | HIDDEN, visible=False)


def curated(db: Any, corpus: str) -> None:
    """What people say of what only hidden documents mention, or nobody."""
    hidden = "Bletchley Park"
    for house in ("Ockham Park", "Ockham Hall", "Ockham Lodge", "Ockham Mill"):
        curate(db, corpus, "create_entity", house, type="house", description=f"Ada Lovelace lived at {house}.")
        # Another spelling of what is visible, as often as documents spell it.
        curate(db, corpus, "create_relationship", "ADA LOVELACE", house, description="Ada Lovelace lived there.")
    curate(db, corpus, "edit_entity", hidden, type="secret", description="Ada Lovelace was paid.")
    curate(db, corpus, "create_relationship", "CHARLES babbage", hidden, keywords=["secret"], weight=9)
    curate(db, corpus, "rename_entity", hidden, "Station X")
    clustered(db, corpus)


def one_hidden(db: Any, corpus: str) -> None:
    db.execute(
        "DELETE FROM graphrag.documents d WHERE corpus = %s AND NOT (metadata ->> 'open')::boolean AND EXISTS (SELECT"
        "  FROM graphrag.documents o WHERE o.corpus = d.corpus AND NOT (o.metadata ->> 'open')::boolean AND o.id < d.id)",
        [corpus],
    )
    work(db)


def shuffled(db: Any, corpus: str) -> None:
    fill(db, corpus, SHUFFLED, visible=False)


def clustered(db: Any, corpus: str) -> None:
    db.execute("SELECT graphrag.refresh_communities(%s)", [corpus])
    work(db)


# What changes, by whether statistics of BM25 stay as they were.
CHANGES: dict[bool, tuple[Callable[[Any, str], None], ...]] = {
    True: (curated, shuffled),
    False: (one_hidden, more_hidden),
}


@dataclass
class Scene:
    """A corpus of which a reader sees a part; `sessions` of readers that live through all changes, by name."""

    db: Database
    corpus: str
    endpoint: Endpoint
    is_described: bool
    sessions: dict[str, Reader]

    def portraits(self, *, exact: bool) -> dict[str, Portrait]:
        """What the reader gets: in sessions that live on, and in a new one."""
        (known,) = rows(self.db, "SELECT coalesce(min(id), -1), -1, coalesce(max(id), -1) FROM graphrag.communities")
        new = Reader(self.db.url, "curious_reader")
        pictures = {}
        for name, session in (self.sessions | {"new": new}).items():
            self.db.execute("DELETE FROM graphrag.llm_cache")
            pictures[name] = portrait(session, self.corpus, self.endpoint, exact=exact, communities=known)
        new.connection.close()
        return pictures


# How a reader is restricted decides what he may see, not how it is read: each way with one corpus.
@pytest.fixture(params=[(concepts, "policy"), (described, "protect")], ids=["concepts-policy", "described-protect"])
def scene(db: Database, endpoint: Endpoint, request: pytest.FixtureRequest) -> Iterator[Scene]:
    new, how = request.param
    corpus = new(db, endpoint)
    fill(db, corpus, VISIBLE, visible=True)
    more_hidden(db, corpus)
    clustered(db, corpus)
    with restricted(db, corpus, how, "curious_reader"):
        warm = Reader(db.url, "NONE")
        # Everything, by one who sees all, before the session is the reader's.
        portrait(warm, corpus)
        warm.connection.execute("SET ROLE curious_reader")
        unremembering = Reader(db.url, "curious_reader", "SET graphrag.session_memory = '0'")
        scene = Scene(
            db, corpus, endpoint, new is described, {"warmed by the owner": warm, "without memory": unremembering}
        )
        yield scene
        for session in scene.sessions.values():
            session.connection.close()


_SCORE = re.compile(r"\d+\.\d+(?:e-\d+)?")


def assert_alike(shown: str, other: str, why: str) -> None:
    """Equal but for the last digits of scores, which a session's memory and the tables compute otherwise."""
    assert _SCORE.sub("0.0", shown) == _SCORE.sub("0.0", other), why
    assert [*map(float, _SCORE.findall(shown))] == pytest.approx([*map(float, _SCORE.findall(other))], abs=2e-5), why


def assert_same(before: dict[str, Portrait], after: dict[str, Portrait], why: str) -> None:
    for session, shown in before.items():
        different = shown.difference(after[session])
        if different:
            call, (first, other) = next(iter(different.items()))
            at = next(n for n, (a, b) in enumerate(zip(first + " ", other + " ", strict=False)) if a != b)
            part = slice(max(at - 80, 0), at + 80)
            raise AssertionError(
                f"{why}, {session}, {call}: {first[part]!r} became {other[part]!r}; also {list(different)}"
            )


SECRETS = ("hid the", "slept", "a budget", "despised", "Station X", "lived", "ADA LOVELACE", "never met", "CHARLES")


@pytest.mark.sample(1)
@pytest.mark.parametrize("has_same_statistics", CHANGES)
def test_nothing_that_a_reader_gets_changes_with_hidden_documents(scene: Scene, has_same_statistics: bool) -> None:
    after, was_exact = None, None
    for change in CHANGES[has_same_statistics]:
        # Mentions that a model describes change with the order of words.
        exact = has_same_statistics and not (change is shuffled and scene.is_described)
        # What was shown after the last change stands, where it was drawn in the same detail.
        before = after if after is not None and exact == was_exact else scene.portraits(exact=exact)
        change(scene.db, scene.corpus)
        after, was_exact = scene.portraits(exact=exact), exact
        assert_same(before, after, change.__name__)
        for session, shown in after.items():
            for call, text in shown.items():
                assert not [secret for secret in SECRETS if secret in text], f"{session}: {call}: {text}"
                assert_alike(text, after["new"][call], f"{session} and a new session: {call}")
