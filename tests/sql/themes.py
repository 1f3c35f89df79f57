"""What the tests of themes share: stories of two worlds, a corpus of them with a model, and which task a prompt is of."""

import json
from collections import Counter
from typing import Any

from pg_graphrag.llm.asking.tasks import TASKS
from pg_graphrag.text import prompts
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint, Request
from tests.endpoint.server import Messages
from tests.sql.ingest import STORIES, Connection, put_all, searched_corpus, value, work
from tests.sql.llm import provider

SEA = {
    "nemo": "Captain Nemo sailed the Nautilus. Captain Nemo fought the Kraken. The Nautilus sank a frigate.",
    "land": "Ned Land harpooned the Kraken. Ned Land met Captain Nemo on the Nautilus.",
}
# How the prompt of each task begins; a conversation by itself has none.
_BEGINNINGS = {name: prompts.default(name).splitlines()[0].partition("{")[0] for name in TASKS if name != "chat"}


def task(messages: Messages) -> str:
    """Which task a prompt is of."""
    (result,) = (name for name, text in _BEGINNINGS.items() if str(messages[0]["content"]).startswith(text))
    return result


def asked(endpoint: Endpoint, name: str) -> list[Request]:
    """The requests of a task, in order."""
    return [request for request in endpoint.requests if task(request.messages) == name]


def counted(endpoint: Endpoint) -> Counter[str]:
    """How many requests there were of each task."""
    return Counter(task(request.messages) for request in endpoint.requests)


def themed(db: Connection, endpoint: Endpoint, **options: Any) -> str:
    """Make a corpus of both worlds, with communities and the endpoint's model, but for keywords; nothing is asked for that."""
    model = {"provider": provider(db, endpoint, timeout=5, price_input=1, price_output=2), "model": "m"}
    name = searched_corpus(
        db,
        **{"communities": {"max_cluster_size": 3}, "llm": {"roles": dict.fromkeys(("answer", "relevance"), model)}}
        | options,
    )
    put_all(db, name, STORIES | SEA)
    work(db)
    assert endpoint.requests == []
    return name


def context(db: Connection, query: str, corpus: str, mode: str, max_tokens: int | None = None, **options: Any) -> Any:
    return value(
        db, "SELECT graphrag.context(%s, %s, %s, %s, options => %s)", query, corpus, mode, max_tokens, Jsonb(options)
    )


def points(*described: tuple[str, int]) -> str:
    """What a map request is answered."""
    return json.dumps({"points": [{"description": text, "score": score} for text, score in described]})
