"""What the tests of batches share: a corpus that batches, a model that finds names, and ways not to wait for days."""

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages, Request
from tests.sql.ingest import (
    STORIES,
    Connection,
    canonical,
    corpus_id,
    put_all,
    rows,
    searched_corpus,
    statuses,
    value,
    work,
)
from tests.sql.llm import provider

NAMES = ("Ada Lovelace", "Charles Babbage", "Alan Turing", "Grace Hopper", "Bletchley Park", "Enigma", "London")
NOTHING = '{"entities": [], "relationships": []}'


def found_in(messages: Messages) -> str:
    """The names of the text, all related to the first; nothing more when asked again."""
    if any(message["role"] == "assistant" for message in messages):
        return NOTHING
    text = str(messages[-1]["content"])
    names = [name for name in NAMES if name in text]
    entities = [{"name": name, "type": "person", "description": f"{name} is in the text."} for name in names]
    pairs = [
        {"source": names[0], "target": name, "keywords": ["with"], "description": f"With {name}.", "strength": 5}
        for name in names[1:]
    ]
    return json.dumps({"entities": entities, "relationships": pairs})


def batched(db: Connection, endpoint: Endpoint, llm: dict[str, Any] | None = None, **options: Any) -> str:
    """A corpus whose extraction goes through batches, without gleaning unless `max_gleaning` says so."""
    corpus = {name: options.pop(name) for name in ("max_gleaning", "claims") if name in options}
    name = provider(db, endpoint, **{"timeout": 5, "price_input": 2, "price_output": 4, "batch": True, **options})
    models = {"provider": name, "model": "m", **(llm or {})}
    return searched_corpus(db, **{"max_gleaning": 0, **corpus}, extractor="llm", llm=models)


def hurry(db: Connection) -> None:
    """Work once, as if what waits had waited long enough."""
    db.execute("UPDATE graphrag.llm_batches SET next_poll_at = now() - interval '1 s'")
    db.execute("UPDATE graphrag.llm_batch_requests SET not_before = now() WHERE not_before > now()")
    db.execute(
        "UPDATE graphrag.jobs SET next_attempt_at = now() WHERE state = 'pending' AND (kind = 'batch' OR errors > 0)"
    )
    db.execute("DELETE FROM graphrag.provider_state")
    work(db)


def until(db: Connection, corpus: str, condition: Callable[[], Any], rounds: int = 40) -> None:
    for _ in range(rounds):
        if condition():
            return
        hurry(db)
    raise AssertionError(
        repr(rows(db, "SELECT kind, state, errors, last_error, payload FROM graphrag.jobs"))
        + repr(rows(db, "SELECT state, remote_state, error FROM graphrag.llm_batches"))
    )


def settle(db: Connection, corpus: str) -> None:
    """Work until nothing of the corpus waits any more, in the queue or at the endpoint."""
    number = corpus_id(db, corpus)
    left = (
        "SELECT (SELECT count(*) FROM graphrag.jobs WHERE corpus_id = %s AND state <> 'failed' AND kind <> 'optimize')"
        " + (SELECT count(*) FROM graphrag.llm_batch_requests WHERE corpus_id = %s)"
        " + (SELECT count(*) FROM graphrag.llm_batches WHERE corpus_id = %s AND state <> ALL ('{done,failed}'))"
    )
    until(db, corpus, lambda: value(db, left, number, number, number) == 0)


def requests(endpoint: Endpoint) -> Counter[str]:
    """How many uploads, creations, chats … arrived."""
    counts: Counter[str] = Counter()
    for request in endpoint.requests:
        path = request.path.partition("?")[0].removeprefix("/v1")
        counts[f"{request.method} {re.sub('/(file-|batch_)[0-9]+', '/ID', path)}"] += 1
    return counts


def lines(endpoint: Endpoint) -> list[dict[str, Any]]:
    """The lines of all uploads, one after another."""
    collected = []
    for request in endpoint.requests:
        if request.method == "POST" and request.kind == "files":
            collected += [
                json.loads(text) for text in request.data.decode().splitlines() if text.startswith('{"custom_id"')
            ]
    return collected


def batch_line(text: str) -> Callable[[Request], bool]:
    """Picks the lines of batches that ask about `text`."""
    return lambda request: request.kind == "batch_line" and text in request.text


def posted(kind: str) -> Callable[[Request], bool]:
    return lambda request: request.kind == kind and request.method == "POST" and not request.path.endswith("/cancel")


def waiting(db: Connection, corpus: str) -> list[tuple[Any, ...]]:
    """Document jobs of the corpus: state, attempts, errors, whether they say that they wait."""
    return rows(
        db,
        "SELECT DISTINCT j.state, j.attempts, j.errors, j.last_error LIKE 'Waiting:%%' FROM graphrag.jobs j"
        " WHERE j.corpus_id = %s AND j.kind IN ('index', 'graph')",
        corpus_id(db, corpus),
    )


def sent(db: Connection, corpus: str) -> None:
    """Put the stories into the corpus, and work until the endpoint has them."""
    put_all(db, corpus, STORIES)
    until(db, corpus, lambda: batch_states(db, corpus) == ["open"])


def batch_states(db: Connection, corpus: str) -> list[str]:
    records = rows(db, "SELECT state FROM graphrag.llm_batches WHERE corpus_id = %s ORDER BY id", corpus_id(db, corpus))
    return [state for (state,) in records]


def all_indexed(db: Connection, corpus: str) -> bool:
    return statuses(db, corpus) == dict.fromkeys(statuses(db, corpus), "indexed")


def dead(db: Connection, corpus: str) -> dict[str, str]:
    return dict(rows(db, "SELECT source_key, last_error FROM graphrag.failed_jobs WHERE corpus = %s", corpus))


def directly(db: Connection, endpoint: Endpoint, **options: Any) -> Any:
    """What the same documents come to when each request is sent by itself; and what that cost."""
    corpus = batched(db, endpoint, batch=False, **options)
    put_all(db, corpus, STORIES)
    work(db)
    assert all_indexed(db, corpus)
    spent = value(db, "SELECT sum(cost) FROM graphrag.llm_usage WHERE corpus = %s", corpus)
    whole = canonical(db, corpus)
    db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    return whole, spent
