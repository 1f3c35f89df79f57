"""What the tests of both hosts share: a database with the extension, and one with pgvector alone, served by this process."""

import atexit
import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client import Document
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime import beside, versions
from tests.runtime.beside import OWNER
from tests.runtime.cluster import Cluster, Database, Server
from tests.runtime.versions import VersionServer
from tests.security.acting import new_role
from tests.sql.ingest import STORIES
from tests.sql.themes import SEA, points, task

_numbers = itertools.count(1)
_superuser_urls: dict[str, str] = {}

MODES = (
    *("naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr"),
    *("graph_local", "graph_global", "drift", "lazy"),
)
QUESTION = "What did Ada Lovelace write, and who broke Enigma?"
# What a restricted reader sees of the documents of both hosts.
OPEN = "(metadata ->> 'open')::boolean"


@dataclass(frozen=True)
class Host:
    """A database and who serves it. `url` connects as the owner of its schema; `rag` is the client of one corpus."""

    name: str
    url: str
    rag: GraphRAG

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of an SQL statement, run as the owner."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def as_role(self, role: str) -> Iterator[GraphRAG]:
        """The client of the same corpus, of a session that has taken on a role."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            yield GraphRAG(connection, self.rag.corpus)


Hosts = tuple[Host, Host]


@cache
def _version_server() -> VersionServer:
    """The server of another version that this test process has."""
    server = VersionServer(versions.VERSION)
    atexit.register(server.close)
    return server


def superuser_url(owner_url: str) -> str:
    """Who may do everything in a plain database, by the URL of its owner."""
    return _superuser_urls[owner_url]


@contextmanager
def role_of_both(db: Database, owner_url: str, *options: str) -> Iterator[str]:
    """A role of the servers of both databases, which the owner of the plain one may take on; dropped at the end."""
    with new_role(db, *options) as role, psycopg.connect(superuser_url(owner_url), autocommit=True) as superuser:
        if versions.VERSION:
            superuser.execute(f"CREATE ROLE {role} {' '.join(options)}".encode())
        superuser.execute(f"GRANT {role} TO {OWNER}".encode())
        try:
            yield role
        finally:
            superuser.execute(f"REVOKE {role} FROM {OWNER}".encode())
            superuser.execute(f"DROP OWNED BY {role} CASCADE".encode())
            if versions.VERSION:
                superuser.execute(f"DROP ROLE {role}".encode())


@contextmanager
def plain_database(cluster: Cluster | Server, *, schema_too: bool = True) -> Iterator[str]:
    """A database with pgvector alone; yields the URL of the role that may make the schema, and by default has."""
    if versions.VERSION:
        cluster = _version_server()
    name = f"plain{next(_numbers)}"
    url = cluster.create_database(name)
    try:
        with cluster.connect(name) as connection:
            beside.prepare(connection)
        owner_url = make_conninfo(url, user=OWNER, password=OWNER)
        _superuser_urls[owner_url] = url
        if schema_too:
            beside.install(owner_url)
        yield owner_url
    finally:
        cluster.drop_database(name)


@contextmanager
def both_hosts(server: str, plain: str, endpoint: Endpoint) -> Iterator[Hosts]:
    """Both hosts with the same corpus, communities and reports by a model."""
    both = tuple(Host(name, url, GraphRAG(url, "stories")) for name, url in (("server", server), ("process", plain)))
    for host in both:
        host.rag.call(
            "set_provider",
            name="stand-in",
            kind="openai",
            base_url=endpoint.url,
            options={"timeout": 5, "price_input": 1, "price_output": 2},
        )
        model = {"provider": "stand-in", "model": "m"}
        host.rag.create_corpus(cypher=False, communities={"max_cluster_size": 5}, llm=model, query_log=True)
        host.rag.insert(
            Document(content, key, key.title(), {"open": place % 3 > 0, "place": place})
            for place, (key, content) in enumerate((STORIES | SEA).items())
        )
        host.rag.process_jobs()
    assert [host.rag.progress().indexed for host in both] == [7, 7]
    yield both[0], both[1]
    for host in both:
        host.rag.close()


def same(hosts: Hosts, call: Callable[[GraphRAG], Any]) -> Any:
    """What a call returns on both hosts, or its error; equal on both."""
    server, process = (outcome(lambda host=host: call(host.rag)) for host in hosts)
    assert close(plain_values(server), plain_values(process)), f"\nserver:  {server}\nprocess: {process}"
    return process


def plain_values(value: Any) -> Any:
    """A result of the client with its records as dictionaries."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return [plain_values(item) for item in value] if isinstance(value, list) else value


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or its error as the caller sees it."""
    try:
        return call()
    except psycopg.Error as error:
        diag = error.diag
        # In the server, the name of the extension stands before the message of a statement's error too.
        message = re.sub(r"^graphrag: ", "", diag.message_primary or "")
        return type(error).__name__, diag.sqlstate, message, diag.message_detail, diag.message_hint


def close(left: Any, right: Any) -> bool:
    """Whether two results are equal: scores, which are rounded to multiples of 1e-6, within ten such steps, large ones within
    a hundred-thousandth. The server has another build of numpy than the tests, cosines are of single precision, and hybrid
    multiplies them by weights of up to seven and reports differences of the sums."""
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) < 1e-5 * max(1.0, abs(left))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(close(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(close, left, right))
    return type(left) is type(right) and bool(left == right)


# Runs a statement by SPI, and returns the representation of its rows.
PROBE = """
CREATE FUNCTION public.probe(statement text, types text[], literals text) RETURNS text LANGUAGE plpython3u AS $body$
import ast
from pg_graphrag.server import database
return repr(database(plpy).query(statement, types, ast.literal_eval(literals)))
$body$
"""


def probe(db: Database, statement: str, types: list[str], values: list[Any]) -> Any:
    """The rows that a statement has in the server."""
    db.execute("SET search_path = pg_catalog")
    row = db.execute("SELECT public.probe(%s, %s, %s)", [statement, types, repr(values)]).fetchone()
    assert row is not None
    return row[0]


def reply(messages: Messages) -> str:
    """What the stand-in for models answers, whichever task it is given."""
    if "Write a report on the group" in str(messages[-1]["content"]):
        finding = {"summary": "First.", "explanation": "Told.", "entities": ["E1"], "relationships": ["R1"]}
        return json.dumps(
            {"title": "A group", "summary": "Of some.", "rating": 5, "rating_explanation": "So.", "findings": [finding]}
        )
    kind = task(messages)
    if kind == "keywords":
        keywords = {"low_level_keywords": ["Ada Lovelace"], "high_level_keywords": ["writing notes"]}
        return json.dumps(keywords | {"entities": ["Ada Lovelace"], "answer_types": ["work"]})
    if kind in ("relevant", "rate"):
        return json.dumps({"relevant": True, "rating": 5})
    if kind == "relevant_passages":
        passages = re.findall(r"^\[(\d+)\] ", str(messages[-1]["content"]), re.M)
        return json.dumps({"relevant": [int(number) for number in passages], "irrelevant": []})
    if kind == "refine":
        return json.dumps({"queries": ["Who broke Enigma?"], "expanded": "Who broke which machine?"})
    if kind == "primer":
        return json.dumps({"answer": "Ada wrote [1].", "score": 50, "follow_ups": ["Who broke Enigma?"]})
    if kind == "follow_up":
        return json.dumps({"answer": "Turing did [1].", "score": 60, "follow_ups": []})
    return points(("Ada Lovelace wrote notes [1].", 90)) if kind == "map" else "Ada Lovelace wrote notes [1]."
