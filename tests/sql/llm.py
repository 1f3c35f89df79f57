"""What the tests of the gateway share: an endpoint as provider of a corpus, and doors to the gateway made for tests."""

import fcntl
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.sql.ingest import Connection, searched_corpus, value

_numbers = itertools.count(1)

# Asks every prompt as a task of its own; answers must be JSON unless `prose`. {"ok": …} or {"fault": class, …} for each.
_BODY = """
import json, resource
from pg_graphrag.server.corpus.corpora import find_corpus
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints.faults import ItemFault
from pg_graphrag.llm.endpoints.gateway import Gateway
from pg_graphrag.llm.endpoints.requests import ChatRequest, EmbedRequest, RerankRequest
from pg_graphrag.server import call, database
given = json.loads(options)
db = database(plpy)
found = find_corpus(db, corpus)
gateway = Gateway(db, found, worker=WORKER, writes=given.get("writes", True))

def parse(text, cut):
    if cut:
        raise ItemFault("the answer is cut off", raw=text)
    if given.get("prose"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise ItemFault("the answer is not JSON", raw=text) from None

def task(prompt):
    if "embed" in given:
        reply = yield EmbedRequest(found.options.llm.provider, "hash", (prompt, "second"), given["embed"])
        return reply.value.shape
    if "rerank" in given:
        reply = yield RerankRequest(*found.options.reranker(), given["rerank"], (prompt, "second"))
        return reply.value
    messages = ({"role": "user", "content": prompt},)
    reply = yield ChatRequest("extract", messages, parse, given.get("schema"))
    return reply.value

outcomes = []
for outcome in gateway.run([task(prompt) for prompt in prompts]):
    if isinstance(outcome, GraphRAGError):
        outcomes.append({
            "fault": type(outcome).__name__, "message": outcome.message, "hint": outcome.hint,
            "permanent": getattr(outcome, "permanent", None), "retry_after": getattr(outcome, "retry_after", None),
            "raw": getattr(outcome, "raw", None),
        })
    else:
        outcomes.append({"ok": outcome})
answer = json.dumps({
    "outcomes": outcomes, "usage": gateway.usage.as_dict(),
    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
})
"""
_STREAM = """
from pg_graphrag.server.corpus.corpora import find_corpus
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints.gateway import Gateway
from pg_graphrag.llm.endpoints.requests import ChatRequest
from pg_graphrag.server import database
db = database(plpy)
gateway = Gateway(db, find_corpus(db, corpus), worker=False, writes=True)
try:
    yield from gateway.stream(ChatRequest("answer", ({"role": "user", "content": prompt},), lambda text, cut: text))
except GraphRAGError as error:
    yield f"{type(error).__name__}: {error.message}"
"""


def prepare(db: Connection) -> None:
    """Make the test's doors to the gateway."""
    ask, work = _BODY.replace("WORKER", "False"), _BODY.replace("WORKER", "True")
    db.execute(
        "CREATE FUNCTION public.ask_models(corpus text, prompts text[], options jsonb) RETURNS jsonb LANGUAGE plpython3u"
        f" AS $body${ask}\nreturn answer\n$body$".encode()
    )
    db.execute(
        "CREATE PROCEDURE public.work_models(corpus text, prompts text[], options jsonb, INOUT answer jsonb)"
        f" LANGUAGE plpython3u AS $body${work}\nreturn (answer,)\n$body$".encode()
    )
    db.execute(
        "CREATE FUNCTION public.stream_model(corpus text, prompt text) RETURNS SETOF text LANGUAGE plpython3u"
        f" AS $body${_STREAM}$body$".encode()
    )


def provider(db: Connection, endpoint: Endpoint, **options: Any) -> str:
    """Set the endpoint as a provider; return its name."""
    name = f"provider {next(_numbers)}"
    key = {name: options.pop(name, None) for name in ("api_key_env", "api_key_file")}
    db.execute(
        "SELECT graphrag.set_provider(%s, %s, %s, %s, %s, %s)",
        [name, options.pop("kind", "openai"), endpoint.url, *key.values(), Jsonb(options)],
    )
    return name


def modelled(db: Connection, name: str, **llm: Any) -> str:
    """Make a corpus whose models are those of the provider."""
    return searched_corpus(db, llm={"provider": name, "model": "model-1", **llm})


def ask(db: Connection, corpus: str, prompts: Iterable[str], **options: Any) -> dict[str, Any]:
    """Ask as someone who waits; {outcomes, usage, memory}."""
    result = value(db, "SELECT public.ask_models(%s, %s, %s)", corpus, list(prompts), Jsonb(options))
    assert isinstance(result, dict)
    return result


def work(db: Connection, corpus: str, prompts: Iterable[str], **options: Any) -> dict[str, Any]:
    """Ask as a worker; {outcomes, usage, memory}."""
    result = value(db, "CALL public.work_models(%s, %s, %s, NULL)", corpus, list(prompts), Jsonb(options))
    assert isinstance(result, dict)
    return result


def work_statement(corpus: str, prompts: Iterable[str], **options: Any) -> str:
    """The statement of `work`, for sessions in the background."""
    statement = sql.SQL("CALL public.work_models({}, {}, {}, NULL)").format(corpus, list(prompts), json.dumps(options))
    return statement.as_string(None)


def places_held(db: Connection, what: str = "provider") -> int:
    """How many places at providers (or, for "streams", of roles' streams) are held in the database."""
    # A backend's working directory is the data directory, wherever the server's root is.
    folder = Path(f"/proc/{db.info.backend_pid}/cwd/pg_stat_tmp")
    number = value(db, "SELECT oid::text FROM pg_database WHERE datname = current_database()")
    count = 0
    for path in folder.glob(f"pg_graphrag_{number}_*_{what}_*_[0-9]*"):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                count += 1
    return count


def faults(result: dict[str, Any]) -> list[str | None]:
    """Class of each fault; None where all went well."""
    return [outcome.get("fault") for outcome in result["outcomes"]]


def messages(result: dict[str, Any]) -> str:
    """All messages of faults."""
    return "\n".join(outcome.get("message", "") for outcome in result["outcomes"])
